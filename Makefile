# Two commands for a new user: `make demo` and `make test`. Both set everything up first.
VENV ?= .venv
PY := $(VENV)/bin/python
NATIVE := $(wildcard native/*/*.cpp native/*/*.h)
# A folder's time changes when a module comes or goes, of which the editable install keeps a list.
FOLDERS := $(shell find formats augment bucketing pipeline benchmarks -type d -not -name __pycache__)

.DEFAULT_GOAL := help
.PHONY: help setup demo test stress lint types sanitize bench clean

help:           ## Say what there is
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  make \1\t\2/' | expand -t 20

$(VENV)/.ready: pyproject.toml CMakeLists.txt tools/setup.sh $(NATIVE) $(FOLDERS)
	@tools/setup.sh $(VENV)
	@touch $@

setup: $(VENV)/.ready ## Make the virtual environment, with everything that demo and test need

demo: setup     ## Convert photographs, train on them, compare with the native loaders
	@$(PY) -m stoker.benchmarks.demo

test: lint types ## Lint, types and all tests
	@$(PY) -m pytest -q

stress: setup   ## Tests at random moments and of many repetitions: minutes, and the clock decides
	@$(PY) -m pytest -q tests/stress

lint: setup     ## Style and common mistakes
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .

types: setup    ## Types, strictly
	@$(PY) -m mypy

sanitize: setup ## The C++ tests under AddressSanitizer, UndefinedBehaviorSanitizer and ThreadSanitizer
	@PYTHON=$(abspath $(PY)) tests/sanitize/run.sh

bench:          ## Everything against every native loader, in an environment of its own
	@benchmarks/setup.sh .venv-bench
	@.venv-bench/bin/python -m stoker.benchmarks.images

clean:          ## Remove what was built
	rm -rf build $(VENV) .venv-bench .mypy_cache .ruff_cache .pytest_cache .hypothesis
