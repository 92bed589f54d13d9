"""Learn related tasks together and see how they are related."""

__version__ = "0.1.0"
__all__ = ["__version__"]
