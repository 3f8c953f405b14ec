# Two commands do everything on a fresh machine: `make demo` and `make test`.

PYTHON  ?= python3
VENV    := .venv
BIN     := $(VENV)/bin
STAMP   := $(VENV)/.installed
# What the demo needs is less, and there sooner.
DEMO    := $(VENV)/.installed-for-demo
SOURCES := setup.py pyproject.toml
# The compiled modules are rebuilt when one of their sources changes.
HOT     := $(shell sed -n 's/^    "\(rocketq\.[a-z0-9_.]*\)",*/\1/p' setup.py | tr . / | sed 's|^|src/|; s|$$|.py|')
HOT     += $(shell find src -name '*.pxd')
EXTRAS  := dev,spark,compression,docs
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help build demo test test-compiled test-sources test-pure check format peers bench soak simulation docs wheels test-pythons clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

$(STAMP): $(SOURCES) $(HOT)
	@echo "installing into $(VENV), and compiling: a minute or so on two cores, plus downloads"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(INSTALL) --upgrade pip
	@$(INSTALL) --editable '.[$(EXTRAS)]'
	@touch $(DEMO) $@

$(DEMO): $(SOURCES) $(HOT)
	@echo "installing into $(VENV), and compiling: a minute or so on two cores, plus downloads"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(INSTALL) --editable '.[spark]'
	@touch $@

build: $(STAMP) ## set up .venv, and compile what has changed

demo: $(DEMO) ## the main job end to end, on free ports in a temporary directory
	@$(BIN)/python -m rocketq.cli.demo

test: test-compiled test-sources ## the whole suite, on the compiled modules and on their sources

test-compiled: $(STAMP)
	@$(BIN)/python -m pytest -q -m 'not slow and not peers'

test-sources: $(STAMP)
	@ROCKETQ_PURE=1 $(BIN)/python -m pytest -q -m 'not slow and not peers and not spark' \
		tests/common tests/message tests/remoting tests/filter tests/store tests/broker \
		tests/client/producer tests/spark/read/test_arrow.py \
		tests/spark/read/test_property_agreement.py

test-pure: $(STAMP) ## the suite on the uncompiled sources alone
	@ROCKETQ_PURE=1 $(BIN)/python -m pytest -q -m 'not slow and not peers and not spark'

check: $(STAMP) ## lint, format, types, and who imports whom
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/python -m pytest -q tests/test_imports.py

format: $(STAMP) ## put the sources into form
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

peers: $(STAMP) ## the compatibility matrix against real RocketMQ (needs Java 17 and Maven)
	@$(BIN)/python -m peers.matrix

bench: $(STAMP) ## the comparison with the Java broker, into docs/benchmarks.md
	@$(BIN)/python -m benchmarks.compare

soak: $(STAMP) ## the long tests: many crash rounds, endurance
	@$(BIN)/python -m pytest -q -m slow

simulation: $(STAMP) ## a cluster decided by chance, a thousand times
	@$(BIN)/python -m simulation --seeds 1000 --minutes 0.3

docs: $(STAMP) ## the docs site into build/site; a warning is an error
	@$(BIN)/python -m rocketq.cli.page | diff -u docs/commands.md - || \
		(echo "make docs/commands.md anew: python -m rocketq.cli.page > docs/commands.md"; exit 1)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

wheels: ## a wheel for each Python 3.11 to 3.14 that is at hand, into dist/
	@$(PYTHON) release/wheels.py

test-pythons: ## the core of the suite on every other Python that is at hand
	@$(PYTHON) release/pythons.py

clean: ## remove what was built
	rm -rf $(VENV) .venv-3.* build dist src/*.egg-info
	find src -name '*.so' -delete
