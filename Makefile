# Two commands are all a newcomer needs: make demo, make test. Everything lives in .venv.
PYTHON ?= python3
BIN    := .venv/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: help demo test slow test-gpu test-kernels cluster-test check bench paper docs generate notebooks page clean

help:           ## this list
	@sed -n 's/^\([a-z-]*\):.*## /make \1\t/p' $(MAKEFILE_LIST)

.venv/made:
	@echo "making .venv ..."
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "rae needs Python 3.11 or newer, $$($(PYTHON) --version) came; call: make PYTHON=/path/to/python3.11 ..."; exit 2; }
	@$(PYTHON) -m venv .venv
	@touch $@

.venv/user: .venv/made pyproject.toml constraints.txt
	@echo "installing rae and what it needs into .venv (torch is the large one) ..."
	@$(PIP) -e .
	@touch $@

# An extra of what is installed: its dependencies alone come, rae is not built again.
.venv/dev: .venv/user
	@echo "installing the test tools into .venv ..."
	@$(PIP) 'role-action-embeddings[dev]'
	@touch $@

.venv/docs: .venv/dev
	@echo "installing what builds the documentation into .venv ..."
	@$(PIP) 'role-action-embeddings[docs]'
	@touch $@

demo: .venv/user  ## embed the standard library of Python and show the result
	@$(BIN)/rae demo --out demo --force
	@echo; echo "rae is $(BIN)/rae here; source $(BIN)/activate makes it plain rae"

test: .venv/dev   ## run the tests, in a worker per core; the slow ones stay out
	@$(BIN)/python -m pytest -n auto --dist worksteal -m "not slow"

slow: .venv/docs  ## run the slow tests; one builds the site as make docs does
	@$(BIN)/python -m pytest -n auto --dist worksteal -m slow $$(grep -l mark.slow tests/test_*.py)

test-gpu: .venv/dev  ## run the tests that need a GPU, and keep their result in results/gpu.jsonl
	@$(BIN)/python benchmarks/gpu.py --only suite

test-kernels: .venv/dev  ## run the kernels of a GPU where there is none: Triton interprets them (1 GB is installed)
	@$(PIP) 'role-action-embeddings[kernels]'
	@$(BIN)/python -m pytest tests/test_kernels.py

cluster-test: .venv/dev  ## a small cluster in namespaces of this machine; skipped without the rights
	@$(BIN)/python benchmarks/cluster.py --quick --results $$(mktemp -d)

check: .venv/dev  ## style, types and the one-way flow of imports
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

bench: .venv/dev  ## measure, an hour and more; results go to results/ and docs/performance.md (ARGS=--quick: a trial)
	@$(BIN)/python benchmarks/run.py $(ARGS)

paper: .venv/dev  ## the paper's tables and figures, from the data in RAE_DATA
	@$(BIN)/rae reproduce all

docs: .venv/docs  ## build the documentation site into site/; a warning is an error
	@$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going docs site
	@echo "open site/index.html"

generate: .venv/dev  ## fill generated pages, numbers and tables of docs/ and README from results/
	@$(BIN)/python docs/make.py

notebooks: .venv/docs  ## run the notebooks of docs/ and save them with their outputs
	@$(BIN)/python docs/notebooks/run.py

page:             ## build the page of rae explore from web/ (needs Node; the result is committed)
	@cd web && npm ci --no-audit --no-fund && node build.mjs

clean:            ## remove what make made
	@rm -rf .venv demo build site jupyter_execute src/*.egg-info src/rae/ops/_native*
