# `make demo` and `make test` do all their set-up; nothing has to be installed but Python 3.11 or newer.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
EXTRAS := test,docs,torch,peers,serve,tune,ann,plot,ingest,ray,spark,mlflow

.PHONY: demo test coverage test-quick lint types bench docs clean
.DELETE_ON_ERROR:

demo: $(VENV)/.core
	$(BIN)/python examples/demo.py

test: $(VENV)/.dev # by one worker more than a small machine has cores: some tests wait
	$(BIN)/python -m pytest -n 3 --dist worksteal $(ARGS)

coverage: $(VENV)/.dev # apart from the tests, which it slows down
	$(BIN)/python -m pytest -n 3 --dist worksteal --cov --cov-report=term:skip-covered $(ARGS)

test-quick: $(VENV)/.dev
	$(BIN)/python -m pytest -x -q -m "not slow and not network and not browser" $(ARGS)

lint: $(VENV)/.dev
	$(BIN)/ruff check --no-cache . # its cache does not see a module that comes or goes
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

bench: $(VENV)/.dev
	@for file in benchmarks/*.py; do echo "== $$file"; $(BIN)/python $$file --json results/bench-$$(basename $$file .py).json || exit 1; done

docs: $(VENV)/.dev # tables and figures from results/, then the site, from docs/ and from the code
	$(BIN)/python docs/render.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "purerec needs Python 3.11 or newer; call: make PYTHON=/path/to/python3.11 ...")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: pyproject.toml constraints.txt Makefile | $(VENV)/bin/python
	$(PIP) -e '.[serve,plot]'
	touch $@

$(VENV)/.dev: pyproject.toml constraints.txt Makefile | $(VENV)/bin/python
	$(PIP) -e '.[$(EXTRAS)]'
	touch $@ $(VENV)/.core

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage* htmlcov dist site demo-*
