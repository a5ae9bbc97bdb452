# Every target sets up what it needs in .venv by itself: Python 3.11+, make and a package index are all it takes.

SHELL := bash
.SHELLFLAGS := -eo pipefail -c
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BASE := $(VENV)/.base
READY := $(VENV)/.ready

# Where it is set, every process would compile torch and transformers again: 12 s to start instead of 5.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: setup dev demo test test-all test-lowest test-label-studio docs notebooks wheel lint bench studies reproduce redraw clean

# REALM alone: what `make demo` and your own data need. `make dev` adds the tools that test and check it.
setup: $(BASE)
dev: $(READY)

STEPS := $(if $(filter-out setup demo,$(or $(MAKECMDGOALS),setup)),4,3)
say = @echo "$$(date +%H:%M:%S)  [$(1) of $(STEPS)] $(2)"
# No .pyc files ahead of time: most are of modules that nobody imports, and writing them takes as long as the rest.
PIP := PYTHONUNBUFFERED=1 $(BIN)/python -m pip install --disable-pip-version-check --no-compile --progress-bar off \
	-c constraints.txt
# Of what pip prints, the downloads of 10 MB and more, and what is being installed.
SHOWN := { grep --line-buffered -E '^ *Downloading .*\(([0-9]{2,}(\.[0-9]+)? M|[0-9.]+ G)B\)|^Installing' || true; }

# torch comes first and pinned: asked for by another package it may bring gigabytes of CUDA libraries.
$(BASE): pyproject.toml constraints.txt
	$(call say,1,A Python environment in $(VENV))
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) --quiet --upgrade pip hatchling editables
	$(call say,2,torch: 0.8 of 1.5 GB)
	@$(PIP) torch | $(SHOWN)
	$(call say,3,REALM with transformers and pandas and what they need: 50 packages and 0.7 GB)
	@$(PIP) --no-build-isolation -e . | $(SHOWN)
	@$(BIN)/python -c "import peft, realm.report.run_page, realm.training.trainer"  # compiled here, not at the first command
	@touch $(BASE)

$(READY): $(BASE) lab/pyproject.toml
	$(call say,4,Tools for tests and checks and the lab: 70 packages and 0.4 GB)
	@$(PIP) --no-build-isolation -e ".[dev]" -e lab | $(SHOWN)
	@touch $(READY)

demo: $(BASE)
	$(BIN)/realm demo

# Two workers, one thread each: more threads than cores only wait for each other.
test: dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow"

# The report and the docs are opened in Chromium, and a Label Studio server is pulled from and pushed to; where one of
# them is not there and cannot be had, those tests say so and are skipped.
test-all: dev
	command -v chromium >/dev/null || ! command -v apt-get >/dev/null \
		|| (apt-get update -qq && apt-get install -y -qq chromium >/dev/null) || true
	$(MAKE) $(LABEL_STUDIO)/.ready || true
	$(MAKE) $(DOCS)/.ready || true
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

# A real Label Studio server in an environment of its own (1 GB), which a test starts, kills and starts again.
LABEL_STUDIO := .venv-label-studio

test-label-studio: dev $(LABEL_STUDIO)/.ready
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/label_studio

$(LABEL_STUDIO)/.ready:
	$(PYTHON) -m venv $(LABEL_STUDIO)
	$(LABEL_STUDIO)/bin/python -m pip install --quiet --disable-pip-version-check label-studio==1.23.2
	touch $@

# The default suite with the lowest version of every dependency, in an environment of its own.
LOWEST := .venv-lowest
LOWEST_PIP := $(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints-lowest.txt

test-lowest: $(LOWEST)/.ready
	OMP_NUM_THREADS=1 $(LOWEST)/bin/python -m pytest -n 2 --dist worksteal -m "not slow"

$(LOWEST)/.ready: pyproject.toml constraints-lowest.txt
	test -x $(LOWEST)/bin/python || $(PYTHON) -m venv $(LOWEST)
	$(LOWEST_PIP) torch
	$(LOWEST_PIP) hatchling editables
	$(LOWEST_PIP) --no-build-isolation -e ".[ray,test]" -e lab
	touch $@

# The documentation site, into site/: an environment of its own (200 MB, no torch), a strict build, and a check of every
# link and that no page fetches anything. Open site/index.html: pages and search work without a server.
DOCS := .venv-docs

docs: $(DOCS)/.ready
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict  # not --quiet: it would hide warnings, and strict would not count them
	$(DOCS)/bin/python docs/building/check_site.py site

$(DOCS)/.ready: requirements-docs.txt
	test -x $(DOCS)/bin/python || $(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python -m pip install --quiet --disable-pip-version-check --only-binary=:all: -r requirements-docs.txt
	touch $@

# The wheel and the sdist of a release, into dist/.
wheel: dev
	rm -rf dist
	$(BIN)/python -m build --no-isolation

# Runs the notebooks of examples/ (one to two minutes each) and stores them with their outputs.
notebooks: dev
	OMP_NUM_THREADS=2 $(BIN)/python examples/run.py

lint: dev
	$(BIN)/ruff check src lab tests benchmarks examples docs/building docs/pictures
	$(BIN)/ruff format --check src lab tests benchmarks examples docs/building docs/pictures
	$(BIN)/mypy

bench: dev
	$(BIN)/python -m benchmarks speed

studies: dev
	$(BIN)/python -m benchmarks quality

# The tables of docs/results.md: trains what is missing (hours), records it and rewrites the page. DATA is the folder of the data sets.
reproduce: dev
	OMP_NUM_THREADS=1 $(BIN)/python -m realm_lab reproduce --data "$(or $(DATA),../shared/data)"

# The same page from what is recorded: trains nothing.
redraw: dev
	$(BIN)/python -m realm_lab redraw

clean:
	rm -rf $(VENV) $(LOWEST) $(LABEL_STUDIO) $(DOCS) site dist .pytest_cache .mypy_cache .ruff_cache
