# Each target sets up what it needs: a .venv with plain python3, uv inside it where it can be had.
PYTHON ?= python3
BIN := .venv/bin
# Tests wait more than they compute: two of them for each core.
WORKERS ?= $(shell echo $$(( 2 * $$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1) )))
NEWEST := pyproject.toml requirements/core.txt requirements/test.txt
# Bytecode is kept, also where the environment asks for none: else each worker compiles every test each time.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test soak check matrix bench docs pictures web web-check lock programs clean

demo: .venv/.core
	@$(BIN)/inspan demo

test: .venv/.test programs
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --durations 30 --durations-min 5 $(ARGS)

# Every case of every test, and ten times as many generated examples and kills, other ones each time.
soak: .venv/.test programs
	INSPAN_SOAK=10 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(ARGS)

check: .venv/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

# Every agent's real program on every scenario; what is missing is installed into the user's data folder first.
matrix: .venv/.test programs
	$(BIN)/inspan matrix --write docs/reference $(ARGS)

bench: .venv/.test programs
	$(BIN)/python -m bench.run $(ARGS)

# The site, in build/site; a stale generated page or a broken link stops it.
docs: .venv/.test
	$(BIN)/python docs/generate.py --check
	$(BIN)/zensical build --strict

# The pictures of the README, from real sessions.
pictures: .venv/.test programs
	$(BIN)/python -m tests.pictures

# The page, built into the package; it is committed, so that nobody needs Node to use it.
web: web/node_modules/.installed
	cd web && npm run --silent build

# Types and tests of the page, and whether what is committed is what its source builds to.
web-check: web/node_modules/.installed
	cd web && npm run --silent check && npm test --silent
	@built=$$(mktemp -d) && trap 'rm -rf "$$built"' EXIT && cd web && INSPAN_WEB_OUT="$$built" npm run --silent build \
	  && { diff -r "$$built" ../src/inspan/web || { echo "src/inspan/web is not what web/ builds to: make web"; exit 1; }; }

web/node_modules/.installed: web/package.json web/package-lock.json
	@command -v node >/dev/null || { echo "the page is built with Node 20.19 or newer, and there is none"; exit 2; }
	cd web && npm ci --silent
	@touch $@

# System programs that tests use: installed where it may be done, else their tests are skipped by name.
programs:
	@$(call PROGRAM,bwrap,bubblewrap)
	@$(call PROGRAM,podman,podman)
	@$(call PROGRAM,google-chrome google-chrome-stable chromium chromium-browser,chromium)

# Bounded in time: where there is no network it may wait for its servers.
APT := DEBIAN_FRONTEND=noninteractive timeout 300 apt-get
# One of the commands is there, or the package is installed.
define PROGRAM
for name in $(1); do command -v $$name >/dev/null && exit; done; \
{ [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
  && { $(APT) install -y -q --no-install-recommends $(2) >/dev/null 2>&1 \
    || { $(APT) update -q >/dev/null 2>&1 && $(APT) install -y -q --no-install-recommends $(2) >/dev/null; }; }; } \
  || echo "$(2) is not installed and cannot be: its tests will be skipped by name"
endef

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "inspan needs Python 3.11 or newer; this is $$($(PYTHON) --version). Try: make PYTHON=python3.12"; exit 2; }
	$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv || echo "uv cannot be had: pip does the work"

.venv/.core: .venv/bin/python $(NEWEST)
	@$(call INSTALL,requirements/core.txt)
	@touch $@

.venv/.test: .venv/bin/python $(NEWEST)
	@$(call INSTALL,requirements/test.txt)
	@touch $@ .venv/.core

define INSTALL
echo "setting up .venv from $(1)"; \
if [ -x $(BIN)/uv ]; then \
  $(BIN)/uv pip install --quiet --python $(BIN)/python -r $(1) && \
  $(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps -e .; \
else \
  $(BIN)/python -m pip install --quiet --disable-pip-version-check -r $(1) && \
  $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e .; \
fi
endef

# Writes the pinned requirements anew; they name no index.
lock: .venv/bin/python
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
	  --no-annotate pyproject.toml -o requirements/core.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
	  --no-annotate pyproject.toml --all-extras --group test --group docs --group check -o requirements/test.txt

clean:
	rm -rf .venv .pytest_cache .ruff_cache .hypothesis web/node_modules
