# Conch. `make demo` shows it, `make test` proves it; both prepare everything they need by themselves.
PYTHON ?= $(shell for p in python3.12 python3.11 python3; do $$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 12))' 2>/dev/null && echo $$p && break; done)
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: help setup demo test check bench serve format clean

help: ## Show what there is
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 12

setup: $(VENV)/.ready ## Create the environment

$(VENV)/.ready: pyproject.toml requirements.lock
	@test -n "$(PYTHON)" || { echo "Conch needs Python 3.11 or 3.12: install one, or name it: make PYTHON=/path/to/python3.11"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing the pinned dependencies (about 500 MB; real Postgres and Triton, and Node for the tests, included) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

demo: setup ## Real requests on two real Triton servers, one of them killed; then what the audit says
	@$(BIN)/conch demo

check: setup ## Format, lint, types, import rule, diagrams and the fast tests: under a minute
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/conch check processes/
	$(BIN)/python -m pytest -q -m "not slow" tests/test_layering.py tests/unit

test: check ## Everything, on real Postgres, real Triton and Camunda's own clients (on Node, which it sets up)
	$(BIN)/python -m pytest -q -m slow tests/unit
	$(BIN)/python -m pytest -q --ignore tests/test_layering.py --ignore tests/unit

bench: setup ## Measure speed; writes build/bench.json
	$(BIN)/python -m tests.bench

serve: setup ## The gateway on 127.0.0.1:8080
	$(BIN)/conch serve

format: setup ## Format and mend what can be mended
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean: ## Remove the environment, caches and local data
	rm -rf $(VENV) build .conch .mypy_cache .ruff_cache .pytest_cache .hypothesis
