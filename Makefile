# Everything a contributor runs. `make` alone lists the targets.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
NODE   := $(BIN)/python scripts/node.py
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest

.PHONY: help setup demo test check format docs bench corpus programs editor vsix clean

help:  ## this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

setup: $(VENV)/.done node_modules/.done  ## the virtual environment and the Node packages

# `--constraint` pins what is installed; pyproject.toml keeps ranges for users.
$(VENV)/.done: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade --constraint constraints.txt pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[torch,dev]'
	touch $@

# What the demo needs: no test tools, no Node.
$(VENV)/.demo: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[torch]'
	touch $@

$(VENV)/.bench: pyproject.toml constraints.txt | $(VENV)/.done
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[bench]'
	touch $@

# vit-pytorch asks for torchvision, which its models do not use.
$(VENV)/.corpus: pyproject.toml constraints.txt | $(VENV)/.done
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[corpus]'
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --no-deps vit-pytorch
	touch $@

node_modules/.done: package.json package-lock.json | $(VENV)/.done
	$(NODE) npm ci --no-audit --no-fund
	touch $@

demo: $(VENV)/.demo  ## profile samples/slow_bert.py: costs by line, findings, fixes that were tried
	$(BIN)/forwardlens profile samples/slow_bert.py:build

test: setup  ## all tests; the real VS Code too where Chromium and code-server are present
	$(NODE) npm run test
	$(PYTEST) --numprocesses 2 --dist loadfile

check: setup  ## lint, formatting and types, Python and TypeScript
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright
	$(NODE) npm run lint

format: setup  ## rewrite files in the project's format
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	$(NODE) npm run format

docs: setup  ## regenerate docs/rules from the rule files, and the schema of the settings
	$(BIN)/python -m forwardlens.rules.docs
	$(BIN)/python -m forwardlens.config_schema

bench: setup $(VENV)/.bench  ## ratios against other tools, into docs/benchmarks.md
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.benchmarks

corpus: setup $(VENV)/.corpus  ## real faults, public models, rules on odd source; totals into docs/benchmarks.md
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.corpus
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.corpus.libraries
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.corpus.sources

programs: setup  ## every safe fix of 2,000 random programs against the original, on many inputs
	FORWARDLENS_PROGRAMS=2000 $(PYTEST) tests/fixes/test_random_programs.py -s

editor: setup  ## code-server for the tests in a real VS Code, into .cache/
	$(BIN)/python scripts/editor.py install

vsix: setup  ## the packaged extension, with the server and its libraries inside
	$(BIN)/python scripts/vsix.py

clean:  ## remove what can be made again
	rm -rf $(VENV) node_modules build dist bundled artifacts *.vsix
