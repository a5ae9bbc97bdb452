# Every target sets up what it needs in .venv by itself: Python 3.11+, make and a package index are all it takes.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: setup demo test test-all test-lowest test-label-studio docs lint bench studies reproduce redraw clean

setup: $(READY)

# torch comes first and pinned: asked for by another package it may bring gigabytes of CUDA libraries.
$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip -c constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt hatchling editables
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --no-build-isolation -e ".[dev]"
	touch $(READY)

demo: setup
	$(BIN)/realm demo

# Two workers, one thread each: more threads than cores only wait for each other.
test: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m "not slow"

# The report is opened in Chromium, and a Label Studio server is pulled from and pushed to; where one of them is not
# there and cannot be had, those tests say so and are skipped.
test-all: setup
	command -v chromium >/dev/null || ! command -v apt-get >/dev/null \
		|| (apt-get update -qq && apt-get install -y -qq chromium >/dev/null) || true
	$(MAKE) $(LABEL_STUDIO)/.ready || true
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

# A real Label Studio server in an environment of its own (1 GB), which a test starts, kills and starts again.
LABEL_STUDIO := .venv-label-studio

test-label-studio: setup $(LABEL_STUDIO)/.ready
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/label_studio

$(LABEL_STUDIO)/.ready:
	$(PYTHON) -m venv $(LABEL_STUDIO)
	$(LABEL_STUDIO)/bin/python -m pip install --quiet --disable-pip-version-check label-studio==1.23.2
	touch $@

# The default suite with the lowest version of every dependency, in an environment of its own.
LOWEST := .venv-lowest
LOWEST_PIP := $(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints-lowest.txt

test-lowest: $(LOWEST)/.ready
	OMP_NUM_THREADS=1 $(LOWEST)/bin/python -m pytest -n 2 -m "not slow"

$(LOWEST)/.ready: pyproject.toml constraints-lowest.txt
	test -x $(LOWEST)/bin/python || $(PYTHON) -m venv $(LOWEST)
	$(LOWEST_PIP) torch
	$(LOWEST_PIP) hatchling editables
	$(LOWEST_PIP) --no-build-isolation -e ".[ray,test]"
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

lint: setup
	$(BIN)/ruff check src tests benchmarks docs/building docs/pictures
	$(BIN)/ruff format --check src tests benchmarks docs/building docs/pictures
	$(BIN)/mypy

bench: setup
	$(BIN)/python -m benchmarks speed

studies: setup
	$(BIN)/python -m benchmarks quality

# The tables of docs/results.md: trains what is missing (hours), records it and rewrites the page. DATA is the folder of the data sets.
reproduce: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.reproduce --data "$(or $(DATA),../shared/data)"

# The same page from what is recorded: trains nothing.
redraw: setup
	$(BIN)/python -m benchmarks.reproduce --redraw

clean:
	rm -rf $(VENV) $(LOWEST) $(LABEL_STUDIO) $(DOCS) site .pytest_cache .mypy_cache .ruff_cache
