# Every target does its own set-up; run again, it finds nothing to do and says nothing.
# PYTHON=/path/to/python3.X chooses the interpreter, otherwise the newest one >= 3.11 is taken.

.DEFAULT_GOAL := help
.PHONY: help setup demo test check lint types layers bench soak clean

export PYTHON

BIN := .venv/bin
CHECKED := vfs backends tools tests $(sort $(dir $(wildcard benchmarks/*.py examples/*.py)))

help: ## say what each target does
	@sed -n 's/^\([a-z]*\):.*## /  make \1 \t/p' Makefile | expand -t 16

setup: ## install what development needs: system packages, .venv, dependencies
	@scripts/setup test

demo: ## watch an agent session at two trust levels, and its audit trail
	@scripts/setup demo
	@$(BIN)/python examples/demo.py

# By file: what a module makes once is made once, and real mounts of one file do not meet.
test: setup ## run the tests; ARGS="-k name" narrows them
	@$(BIN)/pytest -n auto --dist loadfile -m "not slow" $(ARGS)

check: lint types layers test ## run lint, types, import layers and tests

lint: setup ## check style and formatting
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: setup ## check types
	@$(BIN)/mypy $(CHECKED)

layers: setup ## check that imports only ever point down
	@$(BIN)/lint-imports --no-logo

bench: ## measure; BENCH=short takes a minute or two
	@scripts/setup bench
	@$(BIN)/python -m benchmarks $(if $(BENCH),--$(BENCH))

soak: setup ## run the long tests and the full-size runs
	@HYPOTHESIS_PROFILE=thorough $(BIN)/pytest -m slow --timeout 3600 $(ARGS)

clean: ## remove everything the other targets made
	@rm -rf .venv .make .agents dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
