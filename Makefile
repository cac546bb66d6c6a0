# Every target sets up what it needs in .venv, from a fresh clone too, and may be run again at no cost.

PYTHON ?= python3.11
VENV   := .venv
BIN    := $(VENV)/bin
# Another torch than the one in constraints.txt is for test-torch, which gives it an environment of its own.
TORCH  ?= $(shell sed -n 's/^torch==//p' constraints.txt)
# The stamp's name holds a checksum of what was asked for: a change in either file installs again.
STAMP  := $(VENV)/.installed-$(shell cat pyproject.toml constraints.txt | cksum | cut -d' ' -f1)
EXTRAS := notebook,docs,models,dev
TESTS  ?= tests
# Processes that share the tests, with up to 2 GB each. Whoever is done takes over half of what another has left.
WORKERS ?= 2
# Of `make fuzz`.
SECONDS ?= 600
SEED    ?= 1
SHARED := -n $(WORKERS) --dist worksteal
# What the tests compiled: a store for each of them. `make test-warm` runs those of LOADED again over these.
STORES := build/test-stores$(VENV:.venv%=%)
LOADED := $(addprefix tests/,aot codegen dispatch faults guarding lowering models opinfo rewriting runtime scheduling tracing views) \
          $(wildcard tests/test_*.py)
# ecosystem: beside .venv, whose torch they use; without what they need of other names, which is listed.
LIBRARIES := einops torchmetrics lightning-utilities tensordict pyvers torch_geometric xxhash aiohttp multidict yarl propcache \
             frozenlist aiosignal aiohappyeyeballs diffusers pillow importlib_metadata zipp peft accelerate psutil kornia kornia_rs torchao
# test-all: what reads bytecode, with the other versions of Python that it is written for.
VERSIONS  := 3.12 3.13
# course: what of tests/teach is run. `.ci/run` leaves out what `make test` has run before.
COURSE ?= course or not slow
# slides, print
LECTURES ?= $(sort $(wildcard notebooks/course/*.md))
REVEAL   := 4.6.1
CHROMIUM ?= $(firstword $(foreach name,chromium chromium-browser google-chrome,$(shell command -v $(name))))
# package: the Pythons to install for, 4 GB of downloads for each where torch comes built for CUDA. LATEST=1: without
# constraints.txt, as README's first command.
PYTHONS ?= $(PYTHON)
# gpu: the first Python whose torch sees a GPU, else .venv's.
GPU_PYTHON ?= $(or $(shell for each in python3 $(PYTHON); do $$each -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' \
                2>/dev/null && echo $$each && break; done),$(BIN)/python)
FRONT_END := $(addprefix tests/,bytecode tracing rewriting guarding dispatch peer)

.DEFAULT_GOAL := help
.PHONY: help setup tour test test-warm test-torch test-all sweep ecosystem fuzz cpython docs course slides print package lint gpu gpu-bare bench bench-capture bench-models bench-guards bench-nested format clean

help:  ## Say what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## */  make \1\t/' | expand -t 24

setup: $(STAMP)  ## Make .venv and install everything into it (the other targets do so themselves)

$(STAMP): pyproject.toml constraints.txt
	@$(BIN)/python -c '' 2>/dev/null || { echo "making $(VENV)"; $(call find,$(PYTHON)) -m venv --clear $(VENV); }
	@echo "installing into $(VENV) (this takes some minutes once)"
	@sed 's/^torch==.*/torch==$(TORCH)/' constraints.txt >$(VENV)/constraints.txt
	@$(BIN)/python -m pip install -qq --no-compile --disable-pip-version-check -c $(VENV)/constraints.txt -e '.[$(EXTRAS)]'
	@rm -f $(VENV)/.installed-* && touch $@

tour: $(STAMP)  ## Execute notebooks/tour.md, check what it claims, write build/tour.html
	$(BIN)/python -m nbcompile tour -o build/tour.html

test: $(STAMP)  ## Run the tests (TESTS=tests/record for some of them)
	@rm -rf $(STORES)
	$(BIN)/python -m pytest -q $(SHARED) --store $(STORES) $(TESTS)

test-warm: $(STAMP)  ## Run some of what `make test` compiled again: it is loaded (TESTS= for others)
	$(BIN)/python -m pytest -q $(SHARED) --store $(STORES) --load $(if $(filter tests,$(TESTS)),$(LOADED),$(TESTS))

sweep: $(STAMP)  ## Run the long sweeps: thousands of new random programs, the whole standard library
	$(BIN)/python -m pytest -q -m slow --timeout 7200 --hypothesis-profile=default $(TESTS)

ecosystem: $(STAMP)  ## Programs of libraries (einops, torchmetrics, PyG ...), tested and measured beside torch.compile
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps --upgrade --target build/ecosystem $(LIBRARIES)
	PYTHONPATH=build/ecosystem $(BIN)/python -m pytest -q tests/ecosystem
	PYTHONPATH=build/ecosystem $(BIN)/python -m tests.ecosystem.measure

fuzz: $(STAMP)  ## Random programs, eager against compiled (SECONDS=600 SEED=1); what is found lies in build/fuzz
	nice -n 19 $(BIN)/python -m nbcompile.tools.fuzz --seconds $(SECONDS) --seed $(SEED)

cpython: $(STAMP)  ## CPython's own tests inside compiled frames (MODULES="test_list test_dict"; all: two hours)
	nice -n 19 $(BIN)/python -m tests.cpython $(MODULES)

test-torch:  ## Run the tests with another torch: make test-torch TORCH=2.15.0 (PYTHON=python3.12, TESTS= for some)
	$(MAKE) --no-print-directory test TORCH=$(TORCH) VENV=.venv-torch-$(TORCH)-$(notdir $(PYTHON))

test-all: test $(VERSIONS:%=test-%)  ## Run the tests, then the front end's with each other Python that is here

# python3.12 on PATH (which may be a shim that leads nowhere), or pyenv's newest.
find = $(or $(shell $(1) -c 'import sys; print(sys.executable)' 2>/dev/null), \
            $(lastword $(sort $(wildcard $(or $(PYENV_ROOT),$(HOME)/.pyenv)/versions/$(1:python%=%).*/bin/$(1)))))

test-3.%:
	@$(if $(call find,python3.$*), \
	  $(MAKE) --no-print-directory test PYTHON=python3.$* VENV=.venv-3.$* EXTRAS=dev TESTS='$(FRONT_END)', \
	  echo "there is no python3.$* here: its tests are left out")

docs: $(STAMP)  ## Build the documentation into build/docs; a warning is an error, and so is what readers would see (CACHED=1: execute pages only if they, or the compiler, changed, and do not test the site)
	$(if $(CACHED),NBCOMPILE_DOCS_CACHED=1) $(BIN)/python -m sphinx $(if $(CACHED),,-E) -W --keep-going -q -b html -d build/doctrees . build/docs
	$(if $(CACHED),,$(BIN)/python -m pytest -q -m "site and not slow" tests/docs/test_site.py)
	@echo "build/docs/index.html"

course: $(STAMP)  ## Do the six lectures in a kernel, with right answers and with wrong ones; check every exercise; count both
	$(BIN)/python -m pytest -q $(SHARED) -m "$(COURSE)" tests/teach

slides: $(STAMP)  ## Execute the lectures, write each as slides into build/slides, look at them (LECTURES=notebooks/course/3*.md; needs npm)
	@mkdir -p build/slides
	@cd build/slides && { [ -d reveal.js ] || { npm pack --silent reveal.js@$(REVEAL) >/dev/null && tar xzf reveal.js-$(REVEAL).tgz && mv package reveal.js; }; }
	$(BIN)/python -m nbcompile.tools.slides $(LECTURES) -o build/slides
	$(BIN)/python -m pytest -q -m site tests/tools/test_slides.py

print: slides  ## Print what `make slides` wrote as PDF, everything unfolded (needs Chromium)
	@for page in build/slides/*.print.html; do \
	  $(CHROMIUM) --headless --no-sandbox --disable-gpu --disable-background-networking --user-data-dir="$$(mktemp -d)" \
	    --no-pdf-header-footer --print-to-pdf="$${page%.print.html}.pdf" "file://$$PWD/$$page" 2>/dev/null && echo "$${page%.print.html}.pdf"; \
	done

package: $(STAMP)  ## Build wheel and sdist; use each in an empty environment (PYTHONS="python3.11 python3.12", LATEST=1)
	$(BIN)/python tests/packaging/distributions.py $(if $(LATEST),--latest) $(foreach python,$(PYTHONS),$(call find,$(python)))

lint: $(STAMP)  ## Style, types, and the storeys of the house
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Without .venv and a network: the Python of the machine, beside its own torch and Triton.
gpu:  ## Check and measure all on the CUDA GPU that is here: at most 8 minutes (PARTS="checks kernels", STANDIN=1 without a GPU)
	$(GPU_PYTHON) -m benchmarks.gpu $(PARTS) $(if $(STANDIN),--standin)

# What a machine with a GPU may have: our oldest torch with its own Triton, another Python, and nothing else of ours.
BARE := .venv-bare-gpu
gpu-bare:  ## make gpu STANDIN=1 on torch 2.11, Triton 3.6 and Python 3.12, without platformdirs, IPython and Graphviz (5 GB)
	@$(BARE)/bin/python -c '' 2>/dev/null || $(call find,python3.12) -m venv --clear $(BARE)
	@$(BARE)/bin/python -c 'import torch, triton, numpy, pygments' 2>/dev/null || \
	  $(BARE)/bin/python -m pip install -qq --disable-pip-version-check torch==2.11.0 triton==3.6.0 numpy pygments
	$(MAKE) --no-print-directory gpu STANDIN=1 GPU_PYTHON=$(BARE)/bin/python PARTS="$(PARTS)"

bench: $(STAMP)  ## Measure against eager and torch.compile, write docs/benchmarks.md
	$(BIN)/python -m benchmarks --docs

bench-capture: $(STAMP)  ## What capturing models of transformers costs, beside torch.compile
	$(BIN)/python -m benchmarks capture

bench-models: $(STAMP)  ## Real models against eager: results, gradients, the share of generated code, time of a call
	$(BIN)/python -m benchmarks models

bench-guards: $(STAMP)  ## The cost of a guarded call, and of guards by the number of layers
	$(BIN)/python -m benchmarks per_call guards

bench-nested: $(STAMP)  ## Measure one break at the bottom of a chain of calls, in both modes
	$(BIN)/python -m benchmarks nested

format: $(STAMP)  ## Let ruff write the style it asks for
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

clean:  ## Remove what was built (.venv stays)
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
