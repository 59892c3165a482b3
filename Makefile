# Every target sets itself up in .venv; a second run starts at once. `make help` lists them.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-builtin-rules --no-print-directory

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
INSTALLED := $(VENV)/.installed
LINTERS := $(VENV)/.linters-installed

RUN := runs/demo-$(shell date +%Y%m%d-%H%M%S)
TREE := .mypy_cache/tree
BENCHES := efficiency step_cost proxy sink

.DEFAULT_GOAL := help
.PHONY: help demo test test-desktop test-vllm test-whole lint bench docs clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' Makefile

demo: $(INSTALLED) ## the main job on fake desktops and the bundled policy server: collect, export, profile
	$(BIN)/legato-rl collect --tasks docs/examples/tasks.json --backend fake --policy-url fake --model fake --version demo \
	    --out $(RUN) --desktops 4 --group 4 --oversample 0.5 --seed 1
	$(BIN)/legato-rl export $(RUN) --out $(RUN)/train.jsonl
	$(BIN)/legato-rl profile $(RUN)
	@printf '\nMade in %s:\n' '$(RUN)'
	@printf '  %-16s %s\n' rollouts.jsonl 'one try a line' train.jsonl 'one training step a line' \
	    summary.json 'what profile shows' messages/ 'each message once' images/ 'each screenshot once' logs/ 'one log a process'

test: $(INSTALLED) ## all tests but those that need a real vLLM or a Docker engine
	$(BIN)/python -m pytest -m "not vllm and not desktop" --durations=10

# test-desktop and test-whole need a Docker engine: as root, with docker.io and mmdebstrap installed, they start one where
# none answers, and ask no registry.
test-desktop: $(INSTALLED) ## the tests on container desktops with OSWorld's own package (first run: makes image and package)
	$(BIN)/python -m pytest tests/container -m desktop --durations=10
	python=$$($(BIN)/python tests/desktop/install_osworld.py) && "$$python" -m pytest tests/desktop -m desktop --durations=10

test-vllm: $(INSTALLED) ## the tests against a real vLLM on CPU (first run: installs it, 2.5 GB, under ~/.cache)
	$(BIN)/python tests/vllm/install_vllm.py
	$(BIN)/python -m pytest tests/vllm -m "vllm and not desktop" --durations=10

test-whole: $(INSTALLED) ## container desktops, OSWorld's package and a real vLLM in one run (first run: makes all three)
	$(BIN)/python -m pytest tests/vllm -m "vllm and desktop"

# mypy does not follow the mapping of workers/ and broker/ (setup.cfg, package_dir): it gets a tree of links where they are
# what they install as.
lint: $(LINTERS) ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@rm -rf $(TREE) && mkdir -p $(TREE)/legato_rl
	@ln -s '$(CURDIR)'/legato_rl/* '$(CURDIR)/workers' '$(CURDIR)/broker' $(TREE)/legato_rl/
	@ln -s '$(CURDIR)/legato' $(TREE)/
	cd $(TREE) && '$(CURDIR)/$(BIN)/mypy' --config-file '$(CURDIR)/setup.cfg' --cache-dir '$(CURDIR)/.mypy_cache' \
	    -p legato_rl -p legato

bench: $(INSTALLED) ## the four measurements, each printed as JSON
	@for bench in $(BENCHES); do echo "$(BIN)/python bench/$$bench.py"; $(BIN)/python bench/$$bench.py; done

docs: $(INSTALLED) ## write the pages of docs/ that follow from the code
	$(BIN)/python docs/generate.py

clean: ## remove the environment and all that was made, but for runs/
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .hypothesis .mypy_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(INSTALLED): setup.cfg pyproject.toml | $(BIN)/python
	$(PIP) install --quiet --editable '.[test]'
	@touch $@

$(LINTERS): setup.cfg pyproject.toml | $(BIN)/python
	$(PIP) install --quiet --editable '.[dev]'
	@touch $@ $(INSTALLED)
