# Every target sets up what it needs in .venv, from a fresh clone too, and may be run again at no cost.

PYTHON ?= python3.11
VENV   := .venv
BIN    := $(VENV)/bin
# The stamp's name holds a checksum of what was asked for: a change in either file installs again.
STAMP  := $(VENV)/.installed-$(shell cat pyproject.toml constraints.txt | cksum | cut -d' ' -f1)
EXTRAS := notebook,docs,models,dev
TESTS  ?= tests

.DEFAULT_GOAL := help
.PHONY: help setup tour test sweep docs lint bench format clean

help:  ## Say what there is
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## */  make \1\t/' | expand -t 16

setup: $(STAMP)  ## Make .venv and install everything into it (the other targets do so themselves)

$(STAMP): pyproject.toml constraints.txt
	@$(BIN)/python -c '' 2>/dev/null || { echo "making $(VENV)"; $(PYTHON) -m venv --clear $(VENV); }
	@echo "installing into $(VENV) (this takes some minutes once)"
	@$(BIN)/python -m pip install -qq --no-compile --disable-pip-version-check -c constraints.txt -e '.[$(EXTRAS)]'
	@rm -f $(VENV)/.installed-* && touch $@

tour: $(STAMP)  ## Execute notebooks/tour.md, check what it claims, write build/tour.html
	$(BIN)/python -m nbcompile.tools.tour

test: $(STAMP)  ## Run the tests (TESTS=tests/record for some of them)
	$(BIN)/python -m pytest -q $(TESTS)

sweep: $(STAMP)  ## Run the long sweeps: thousands of new random programs, the whole standard library
	$(BIN)/python -m pytest -q -m slow --timeout 7200 --hypothesis-profile=default $(TESTS)

docs: $(STAMP)  ## Build the documentation into build/docs; a warning is an error
	$(BIN)/python -m sphinx -E -W --keep-going -q -b html -d build/doctrees . build/docs
	@echo "build/docs/index.html"

lint: $(STAMP)  ## Style, types, and the storeys of the house
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(STAMP)  ## Measure against eager and torch.compile
	$(BIN)/python -m benchmarks

format: $(STAMP)  ## Let ruff write the style it asks for
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

clean:  ## Remove what was built (.venv stays)
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
