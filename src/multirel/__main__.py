"""Lets `python -m multirel` do what the command `multirel` does."""

from multirel.cli import main

if __name__ == "__main__":
    main()
