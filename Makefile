# Everything runs from .venv, which `setup` makes from a plain Python. Another one: make setup PYTHON=python3.12
PYTHON ?= python3
PYTEST_FLAGS ?= -n 2
UV ?= uv

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
LOCK := $(UV) pip compile pyproject.toml --quiet --universal --python-version 3.11 --generate-hashes --no-header \
	--no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" --exclude-newer "7 days" --upgrade

.DEFAULT_GOAL := help
.PHONY: help setup demo test check bench lock clean
.DELETE_ON_ERROR:

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

setup: $(STAMP) ## make .venv with the pinned packages and toolyard itself

demo: setup ## show the sandbox at work
	@$(BIN)/toolyard demo

test: setup ## run all tests
	$(BIN)/python -m pytest $(PYTEST_FLAGS)

check: setup ## format, lint, types, import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: setup ## measure the sandbox beside a bare Python
	$(BIN)/toolyard bench sandbox

lock: ## pin the newest versions that are at least a week old (needs uv)
	@command -v $(UV) >/dev/null || { echo "error: $(UV) is not installed. Install it, or give its path: make lock UV=..." >&2; exit 1; }
	$(LOCK) --output-file requirements/runtime.txt
	$(LOCK) --group dev --constraint requirements/runtime.txt --output-file requirements/dev.txt

clean: ## remove .venv and everything that can be made again
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@command -v "$(PYTHON)" >/dev/null || \
		{ echo "error: $(PYTHON) is not installed. Install Python 3.11 or newer, or name one: make setup PYTHON=..." >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "error: $(PYTHON) is older than Python 3.11. Name a newer one: make setup PYTHON=python3.12" >&2; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || \
		{ echo "error: $(PYTHON) cannot make virtual environments. Install its venv package (python3-venv on Debian and Ubuntu)." >&2; exit 1; }
	@echo "Making $(VENV) with $$("$(PYTHON)" --version)"
	@"$(PYTHON)" -m venv $(VENV)

# The Python is order-only: its time stamp is the system interpreter's and says nothing about this directory.
$(STAMP): requirements/dev.txt pyproject.toml | $(BIN)/python
	@echo "Installing the pinned packages"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@
