# A new user needs two commands, `make demo` and `make test`. Both set everything up first.
VENV ?= .venv
PY := $(VENV)/bin/python
NATIVE := $(shell find native -name '*.cpp' -o -name '*.h')
# The time of a folder changes when a module is added or removed; the editable install lists the modules.
FOLDERS := $(shell find formats augment bucketing pipeline benchmarks -type d -not -name __pycache__)

.DEFAULT_GOAL := help
.PHONY: help setup demo test stress fuzz lint types sanitize docs bench clean

help:           ## List the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  make \1\t\2/' | expand -t 20

$(VENV)/.ready: pyproject.toml CMakeLists.txt tools/setup.sh $(NATIVE) $(FOLDERS)
	@tools/setup.sh $(VENV)
	@touch $@

setup: $(VENV)/.ready ## Make the virtual environment for demo and test

demo: setup     ## Convert photographs, train a network on them, compare Stoker with other loaders
	@$(PY) -m stoker.benchmarks.demo

# Each of the two processes takes whole files, in their order: the files of frameworks stay last.
test: lint types ## Run lint, types and all tests
	@$(PY) -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder

stress: setup   ## Run tests with random timing and many repetitions, for minutes
	@$(PY) -m pytest -q tests/stress
	@STOKER_EXAMPLES=500 $(PY) -m pytest -q tests/property

fuzz: setup     ## Damage files of every kind that is read, for FUZZ_SECONDS, 600 by default
	@$(PY) tests/fuzz/fuzz.py --seconds $(or $(FUZZ_SECONDS),600)

lint: setup     ## Check style and common mistakes
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .

types: setup    ## Check types strictly
	@$(PY) -m mypy

sanitize: setup ## Run the C++ tests under AddressSanitizer, UndefinedBehaviorSanitizer and ThreadSanitizer
	@PYTHON=$(abspath $(PY)) tests/sanitize/run.sh

.venv-docs/.ready: tools/docs/requirements.txt
	@python3 -m venv .venv-docs
	@.venv-docs/bin/python -m pip install --quiet --disable-pip-version-check -r tools/docs/requirements.txt
	@touch $@

docs: setup .venv-docs/.ready ## Build the site of the documentation into build/site, and run the code on its pages
	@STOKER_PYTHON=$(abspath $(PY)) NO_MKDOCS_2_WARNING=1 .venv-docs/bin/python -m mkdocs build --quiet --strict
	@$(PY) -m pytest -q tests/package/test_site.py tests/framework/test_guides.py tests/framework/test_notebooks.py

bench:          ## Compare Stoker with other loaders, in a virtual environment of its own; PARTS chooses parts
	@benchmarks/setup.sh .venv-bench
	@.venv-bench/bin/python -m stoker.benchmarks.comparison $(if $(PARTS),--parts $(PARTS))

clean:          ## Remove all built files
	rm -rf build $(VENV) .venv-bench .venv-docs .mypy_cache .ruff_cache .pytest_cache .hypothesis
