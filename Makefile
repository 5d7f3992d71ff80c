# install: environment in .venv · demo: see it work · test: the whole suite · lint · bench · dist
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# What an installation is made from: a change of these installs again.
LISTS := pyproject.toml setup.py constraints.txt .ci/install.py $(wildcard src/heldout/*/_*.c src/heldout/*/*/_*.c)
# Bytecode is made of what is imported, when it is: of 24,000 installed modules the suite imports a fifth.
INSTALL := PIP_NO_COMPILE=1 $(BIN)/python -I .ci/install.py --editable
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install demo test suite quality torture lint bench bench-overlap docs pictures dist clean

help:
	@echo "make install   environment in $(VENV)"
	@echo "make demo      audit a leaky corpus and five small models, show the verdict (3 minutes)"
	@echo "make test      lint and the whole suite"
	@echo "make quality   how good heldout is on real data, beside the table stored last (15 to 20 minutes)"
	@echo "make torture   kills, full disks, hostile files: what must hold when it goes wrong (15 minutes)"
	@echo "make docs      the documentation as a site, in site/"
	@echo "make pictures  the documentation's pictures of report and desk, from the demo"
	@echo "make dist      sdist and wheel in dist/, tried in fresh environments (5 minutes)"
	@echo "make bench     speed and memory (minutes; writes bench/out)"
	@echo "make bench-overlap   speed and memory of image overlap against its peers, one table"

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit("heldout needs Python 3.11 or newer, this is " + sys.version.split()[0] + "; try: make PYTHON=python3.11") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)

# The stamps are the memory of what is installed.
$(VENV)/.core: $(LISTS) | $(BIN)/python
	@echo "installing heldout into $(VENV)"
	$(INSTALL) vision
	@touch $@

# The demo's models are ONNX graphs: no torch.
$(VENV)/.demo: $(LISTS) | $(BIN)/python
	@echo "installing heldout and what its demo needs into $(VENV) (about a minute)"
	$(INSTALL) vision,onnx
	@touch $@ $(VENV)/.core

# The suite runs local models, so it needs torch. `make test TORCH=cpu` takes its CPU build from a package index that
# has one (PIP_EXTRA_INDEX_URL), whose files nobody has pinned; else it is the default build.
TORCH ?= default
comma := ,
PINS := $(shell sed -n 's/^\(torch\|torchvision\)==\([^ ]*\).*/\1==\2+cpu/p' constraints.txt)
$(VENV)/.dev: $(LISTS) | $(BIN)/python
	@echo "installing heldout and what its suite needs into $(VENV) (minutes)"
	$(if $(filter cpu,$(TORCH)),$(BIN)/python -I -m pip install --quiet --no-compile --no-deps $(PINS))
	$(INSTALL) $(if $(filter cpu,$(TORCH)),--without torch$(comma)torchvision) dev
	@$(BIN)/python -I -c 'import torch; print(f"torch {torch.__version__}:", "CPU build" if torch.version.cuda is None \
	  else f"CUDA {torch.version.cuda} build, several GB; make TORCH=cpu takes the CPU build of an index that has one")'
	@touch $@ $(VENV)/.core

$(VENV)/.bench: $(LISTS) | $(BIN)/python
	$(INSTALL) bench,ray
	@touch $@ $(VENV)/.core

install: $(VENV)/.core

demo: $(VENV)/.demo
	@$(BIN)/heldout demo --out heldout-demo

WORKERS := $(shell echo $$(( $$(nproc 2>/dev/null || echo 2) + 1 )))
# Types are checked beside the suite: mypy has one thread.
test: $(VENV)/.dev
	@$(MAKE) --no-print-directory -j 2 lint suite

suite: $(VENV)/.dev
# Threads inside workers would wait for each other by spinning. One worker more than cores: many tests wait for
# servers, clusters and processes that they started.
	OMP_NUM_THREADS=1 POLARS_MAX_THREADS=1 OPENCV_FOR_THREADS_NUM=1 \
	  $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

# One table: words, pictures, verdicts, gates, cost and size, beside the one that was stored last.
quality: $(VENV)/.dev
	$(BIN)/python bench/quality.py

# Kills, several writers, full disks, damaged and hostile files: under ten minutes on two cores.
torture: $(VENV)/.dev
	$(BIN)/python bench/torture.py

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.bench
	$(BIN)/python bench/memory.py
	$(BIN)/python bench/overlap.py

bench-overlap: $(VENV)/.bench
	$(BIN)/python bench/overlap.py

# Pages in site/, links checked: a link that leads nowhere is an error.
docs: $(VENV)/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "the pages are in site/index.html; search needs a server: $(BIN)/python -m http.server --bind 127.0.0.1 --directory site"

# Pictures of the documentation, from the demo as it is now.
pictures: $(VENV)/.dev demo
	$(BIN)/python docs/pictures.py heldout-demo

dist: $(VENV)/.dev
	$(BIN)/python .ci/dist.py

clean:
	rm -rf $(VENV) heldout-demo bench/out build dist site
	find src -name '*.so' -delete
