# Everything runs in .venv, which is created on first use and updated when pyproject.toml changes.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CORE := $(VENV)/.core
INSTALLED := $(VENV)/.installed
DOCS := $(VENV)/.docs
KERNELS := $(VENV)/.kernels
MEASURED := --numprocesses=2 --dist=worksteal --durations=30 --cov --cov-report= --cov-fail-under=0

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test suite lint types soak campaign bench docs notebooks wheel clean clean-cache

help: ## list all targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

demo: $(CORE) $(KERNELS) ## run the demo
	$(BIN)/dask-rac demo

test: lint types $(KERNELS) ## run lint, types and all tests, and report coverage
	$(BIN)/coverage erase
	$(BIN)/python -m pytest $(MEASURED)
	NUMBA_DISABLE_JIT=1 HYPOTHESIS_PROFILE=interpreted \
	    $(BIN)/python -m pytest $(MEASURED) --cov-append -m 'kernels and not soak'
	$(BIN)/coverage report

suite: $(INSTALLED) $(KERNELS) ## run all tests, without lint, types and coverage
	$(BIN)/python -m pytest --numprocesses=2 --dist=worksteal

lint: $(INSTALLED) ## check rules and formatting with ruff
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(INSTALLED) ## check types with mypy
	$(BIN)/mypy

soak: $(INSTALLED) $(KERNELS) ## run all tests with 20 times the examples
	HYPOTHESIS_PROFILE=soak $(BIN)/python -m pytest -m 'soak or not soak'

campaign: $(INSTALLED) $(KERNELS) ## try what can go wrong: make campaign SECONDS=1800 SEED=0 [NAMES='kills fuzz']
	$(BIN)/python -m tests.campaign --seconds $(or $(SECONDS),1800) --seed $(or $(SEED),0) $(NAMES)

bench: $(INSTALLED) $(KERNELS) ## measure time and memory
	$(BIN)/python pipelines/bench_memory.py

docs: $(DOCS) $(KERNELS) ## build the documentation: docs/_build/html/index.html
	rm -rf docs/generated
	$(BIN)/python -m sphinx -q -W --keep-going -n -b html docs docs/_build/html

notebooks: $(INSTALLED) $(KERNELS) ## run the notebooks and save them with their outputs
	$(BIN)/python -m tests.support.notebooks

wheel: | $(BIN)/python ## build the wheel, and try it in an environment of its own
	rm -rf build dist
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .
	$(BIN)/python -m venv build/alone
	build/alone/bin/python -m pip install --quiet "$$(echo dist/*.whl)[plot]"
	cd build && alone/bin/dask-rac --version && alone/bin/dask-rac demo --nodes 2000

clean-cache: ## delete numba's caches
	find dask_rac \( -name '*.nbi' -o -name '*.nbc' \) -delete

clean: clean-cache ## delete caches and reports, but not .venv
	find dask_rac docs tests pipelines -type d -name __pycache__ -prune -exec rm -rf {} +
	rm -rf docs/_build docs/generated
	rm -rf .coverage .coverage.* .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist htmlcov

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(CORE): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[plot]'
	touch $@

$(INSTALLED): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[test,bench]'
	touch $(CORE) $@

$(DOCS): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	touch $(CORE) $@

# numba checks only the file of a kernel for changes, not the files of the helpers inlined into it.
$(KERNELS): $(wildcard dask_rac/kernels/*.py dask_rac/kernels/*/*.py) | $(CORE)
	$(MAKE) --no-print-directory clean-cache
	touch $@
