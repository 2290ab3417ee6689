# Ostinato: `make run` serves the demo agents, `make test` runs all tests. See README.md.
# Needs git, make and Python 3.11 or newer; uv is used where it exists.

PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
	if $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then echo $$p; break; fi; done)
BIN := .venv/bin
UV := $(shell command -v uv 2>/dev/null)
MODEL ?=
PORT ?= 8000
ONLY ?=
PROCESSES ?= 3

.PHONY: install run test fuzz check bench accept mutants clients lock clean

install: .venv/.installed

.venv/.installed: requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed, and none was found."; exit 1; }
ifneq ($(UV),)
	$(UV) venv --quiet --clear --python $(PYTHON) .venv
	$(UV) pip install --quiet --python $(BIN)/python --compile-bytecode --require-hashes -r requirements.lock
	$(UV) pip install --quiet --python $(BIN)/python --no-deps --editable .
else
	$(PYTHON) -m venv --clear .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
endif
	@touch $@

run: install
	$(BIN)/ostinato serve --port $(PORT) $(if $(MODEL),--model $(MODEL))

# In three processes at once, also on two cores, because tests wait nearly as long as they work; who is done takes tests
# from the others. PROCESSES=0 runs them in one. What is imported is compiled once, and not by each of the hundreds of
# processes that the tests start.
test: install
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --numprocesses $(PROCESSES) --dist worksteal

# Ten times as many bad bodies as `make test` sends, and the figures.
fuzz: install
	OSTINATO_FUZZ=10000 $(BIN)/python -m pytest tests/live/test_fuzz.py

check: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# How fast the server is, against one without an engine and as things grow: writes docs/performance.md. Fails where a
# stream is wrong, not where a target is missed. About twenty minutes; ONLY=streams,growth does some of it and writes
# nothing.
bench: install
	$(BIN)/python -m bench.speed $(if $(ONLY),--only $(ONLY))

# What the server promises, against real processes: writes docs/reliability.md and fails where something is over its
# limit. About ten minutes; ONLY=kills,cuts does some of it and writes nothing.
accept: install
	$(BIN)/python -m bench.accept $(if $(ONLY),--only $(ONLY))

# Whether the tests notice faults: 100 small ones of each area, in copies of the tree. Half an hour, so CI does without;
# ONLY=journal,sql tries some areas and writes nothing. Own code, because neither mutmut nor cosmic-ray leaves a
# statement out or swaps two, and what the tests of orders promise is just that.
mutants: install
	$(BIN)/python -m bench.mutants $(if $(ONLY),--only "$(ONLY)")

# Real clients, which this project does not depend on: the Python ones have an environment of their own.
clients: clients-install
	@mkdir -p .pytest_cache && rm -f .pytest_cache/clients.xml
	@$(BIN)/python -m pytest tests/clients --junitxml=.pytest_cache/clients.xml; status=$$?; \
	$(BIN)/python tests/clients/table.py .pytest_cache/clients.xml; exit $$status

clients-install: install .clients-venv/.installed tests/clients/node/node_modules/.package-lock.json

.clients-venv/.installed: requirements-clients.lock
ifneq ($(UV),)
	$(UV) venv --quiet --clear --python $(PYTHON) .clients-venv
	$(UV) pip install --quiet --python .clients-venv/bin/python --compile-bytecode --require-hashes -r requirements-clients.lock
else
	$(PYTHON) -m venv --clear .clients-venv
	.clients-venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-clients.lock
endif
	@touch $@

# No package's own script runs: none is needed, and one of them tells its maker who installs it.
tests/clients/node/node_modules/.package-lock.json: tests/clients/node/package.json tests/clients/node/package-lock.json
	@if command -v npm >/dev/null; then \
	npm ci --prefix tests/clients/node --ignore-scripts --no-audit --no-fund --silent && touch $@; \
	else echo "skipped: the Node clients need npm"; fi

# After a change of the dependencies in pyproject.toml: needs uv.
lock:
	uv pip compile --quiet --python-version 3.11 --universal --generate-hashes --no-emit-index-url --no-header \
		--group dev pyproject.toml -o requirements.lock
	uv pip compile --quiet --python-version 3.11 --universal --generate-hashes --no-emit-index-url --no-header \
		--extra postgres pyproject.toml -c requirements.lock -o requirements-serve.lock
	uv pip compile --quiet --python-version 3.11 --universal --generate-hashes --no-emit-index-url --no-header \
		tests/clients/requirements.in -o requirements-clients.lock

clean:
	rm -rf .venv .clients-venv .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
