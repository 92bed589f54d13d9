# Everything a contributor runs. `make help` lists the commands.

PYTHON ?= python3
WORKERS ?= 2
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
TORCH := $(shell grep '^torch==' constraints.txt)
INSTALL := $(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check --no-input -c constraints.txt
PYTEST := $(BIN)/python -m pytest

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup demo test test-float32 test-all lint fmt types docs bench check constraints clean

help: ## Show this table
	@awk 'BEGIN { FS = ":.*## "; print "Usage: make COMMAND [PYTHON=python3.12]\n" } \
		/^[a-z0-9-]+:.*## / { printf "  %-13s %s\n", $$1, $$2 }' Makefile

demo: $(READY)/package ## Show the main result on simulated data
	@$(BIN)/multirel demo $(ARGS)

test: $(READY)/test ## Run the tests (ARGS="-k name" passes options to pytest)
	@$(PYTEST) -n $(WORKERS) $(ARGS)

test-float32: $(READY)/test ## Run the tests of the mathematics in single precision
	@MULTIREL_TEST_DTYPE=float32 $(PYTEST) -n $(WORKERS) $(ARGS) \
		$(wildcard tests/unit/tensor_normal tests/contracts tests/golden tests/properties)

test-all: $(READY)/test $(READY)/bench ## Run all tests, also the slow ones and those of the extras (slow)
	@$(PYTEST) -n $(WORKERS) -m "slow or not slow" --hypothesis-profile=thorough --extras-must-run $(ARGS)

lint: $(READY)/lint ## Check style, formatting and the direction of imports
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/lint-imports

fmt: $(READY)/lint ## Format the code and repair what can be repaired
	@$(BIN)/ruff check --fix-only
	@$(BIN)/ruff format

types: $(READY)/types ## Check the types of src
	@$(BIN)/python -m mypy

docs: $(READY)/docs ## Build the documentation into site/, refusing warnings
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "The pages are in site/index.html."

bench: $(READY)/test $(READY)/bench ## Measure speed (ARGS="-k name" passes options to pytest)
	@$(PYTEST) benchmarks --benchmark-only -p no:xdist --timeout=0 -W default $(ARGS)

check: ## Run what continuous integration runs, in a fresh copy
	@PYTHON="$(PYTHON)" .ci/run

setup: $(READY)/test $(READY)/lint $(READY)/types $(READY)/docs $(READY)/bench $(READY)/release ## Install everything for development

constraints: ## Pin the newest versions that work together in constraints.txt (slow)
	@PYTHON="$(PYTHON)" .ci/pin "$(TORCH)"

clean: ## Remove the environment and what the commands have built
	@rm -rf $(VENV) site build dist .benchmarks .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache

# A file in .venv/ready says that something is installed. It is written last, so a broken
# installation is tried again, and it is older than its prerequisites when these have changed.

$(READY)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "multirel needs Python 3.11 or newer, and '$(PYTHON)' is not: name one, for example 'make test PYTHON=python3.12'." >&2; \
		exit 1; }
	@echo "Creating the environment $(VENV) with $$($(PYTHON) --version)."
	@$(PYTHON) -m venv --clear $(VENV)
	@mkdir -p $(READY) && touch $@

$(READY)/torch: $(READY)/python constraints.txt
	@echo "Installing $(TORCH) (minutes the first time)."
	@$(INSTALL) "$(TORCH)"
	@touch $@

$(READY)/package: $(READY)/torch pyproject.toml
	@echo "Installing multirel and what it needs."
	@$(INSTALL) --editable .
	@touch $@

$(READY)/test $(READY)/lint $(READY)/types $(READY)/docs $(READY)/bench $(READY)/release: $(READY)/package
	@echo "Installing what 'make $(@F)' needs."
	@$(INSTALL) --editable ".[$(@F)]"
	@touch $@
