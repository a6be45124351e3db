# Every target works from a fresh clone: .venv is made on first use and left alone while nothing it was made of changes.
# Names here are relative, so the folder's own path may hold spaces.
PYTHON ?= python3
BIN := .venv/bin
MODEL := examples/models/strata-tiny
CXX_SOURCES = $(shell find runtime tests -name '*.h' -o -name '*.hpp' -o -name '*.cpp' -o -name '*.cu')
PROMPT := Read a JSON file and return its content as a dict.

.DEFAULT_GOAL := help
.PHONY: help setup setup-dev build demo test kernels gpu same-wheels lint reference drift docs clean distclean
export PYTHON

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' Makefile

setup:
	@bash requirements/setup.sh run

setup-dev:
	@bash requirements/setup.sh dev

build: setup ## Build the kernels package for this machine's CPU
	$(BIN)/strata-gen build --target cpu native

demo: build ## Build, and let the bundled model write some Python
	$(BIN)/strata generate --model $(MODEL) --chat --prompt "$(PROMPT)" --temperature 0 --repetition-penalty 1.2

test: setup-dev ## Run the tests
	$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS)

kernels: setup-dev ## Prove that every kernel has a spec, a parity test, a benchmark and a row in the docs
	PYTHONPATH=tests $(BIN)/python -m support.kernel_proof

gpu: setup-dev ## Compile device code for every GPU target and compare what kernels take with a table (takes no GPU)
	PYTHONPATH=tests $(BIN)/python -m support.gpu_targets

same-wheels: setup-dev ## Build wheels of each backend twice and compare their bytes; one alone: TARGET="cuda sm_90"
	PYTHONPATH=tests $(BIN)/python -m support.same_wheels $(if $(TARGET),--target $(TARGET))

lint: setup-dev ## Check style, types and C++ format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy bench examples/train_strata_tiny
	$(BIN)/clang-format --dry-run -Werror $(CXX_SOURCES)

reference: setup-dev ## Regenerate the JSON Schemas and the reference pages from the specs
	$(BIN)/strata-gen schema
	$(BIN)/strata-gen reference

drift: setup-dev ## Check that the committed schemas and reference pages are what the specs give
	$(BIN)/strata-gen schema --check
	$(BIN)/strata-gen reference --check

docs: setup-dev ## Build the documentation as a site in build/docs; a link that leads nowhere is an error
	$(BIN)/sphinx-build --nitpicky --fail-on-warning --keep-going --fresh-env --quiet docs build/docs

clean: ## Remove build output and caches
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -path ./.venv -prune -o -name __pycache__ -type d -print0 | xargs -0 rm -rf

distclean: clean ## Remove .venv too
	rm -rf .venv
