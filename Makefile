# The commands of a working day. Each makes .venv on first use and installs what it needs there,
# at the versions of constraints.txt; a stamp in .venv says that this is done.
#
#   make demo    fine-tune, judge and search on Python's own documentation
#   make test    all tests
#   make check   style, types, layers and budgets
#   make bench   the benchmarks of the README, beside their peers
#   make clean   remove .venv and all caches

PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& echo $$python && break; done)
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
# Two workers of one thread each are faster than one worker of two.
WORKERS ?= 2
CHECKED := src tests checks $(wildcard benchmarks examples)

.PHONY: demo test check bench clean

demo: .venv/demo.stamp
	$(BIN)/bothways demo

test: .venv/test.stamp
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile

check: .venv/test.stamp
	$(BIN)/ruff check $(CHECKED)
	$(BIN)/ruff format --check $(CHECKED)
	$(BIN)/lint-imports
	$(BIN)/python checks/budgets.py
	$(BIN)/mypy

bench: .venv/test.stamp
	$(BIN)/python benchmarks/embed.py
	$(BIN)/python benchmarks/finetune.py

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

.venv/bin/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed: make PYTHON=/path/to/it"; exit 1; }
	$(PYTHON) -m venv .venv

.venv/demo.stamp: pyproject.toml constraints.txt | .venv/bin/python
	@echo "Installing into .venv, once."
	@start=$$(date +%s) && $(PIP) --editable '.[demo]' \
	&& echo "Set-up took $$(( $$(date +%s) - start )) s." && touch $@

.venv/test.stamp: pyproject.toml constraints.txt | .venv/bin/python
	@echo "Installing into .venv, once."
	@start=$$(date +%s) && $(PIP) --editable '.[bench,test]' \
	&& echo "Set-up took $$(( $$(date +%s) - start )) s." && touch $@ .venv/demo.stamp
