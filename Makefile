# The two commands of the README are `make run` and `make test`; the rest is for those who change the code.
# Every target installs what it misses. PYTHON=/path/to/python3 chooses the interpreter (3.11 or later).

PYTHON ?= python3
export PIP_DISABLE_PIP_VERSION_CHECK := 1
unexport PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE VIRTUAL_ENV

# A stamp is newer than what it was made from, so a second `make install` does nothing and a changed lock reinstalls.
tools := .venv/.tools
package := .venv/.package
environment := .venv/.environment
debian := .venv/.debian
page := src/cloche/doors/page/built/.stamp
page_sources := $(shell find web -type f -not -path 'web/node_modules/*' -not -path 'web/.monaco/*' \
	-not -path 'web/results/*' -not -path 'web/tests/*' -not -name '*.test.ts' -not -name '*.md' 2>/dev/null)

# Folders with tests that are marked `alone`: to look through all of them for the few takes ten seconds.
alone := tests/host tests/limits tests/escape
code := $(wildcard src scripts bench tests)
typed = $(foreach folder,$(code),$(if $(shell find $(folder) -name '*.py' -print -quit),$(folder)))

.PHONY: install page wheel run test fuzz check bench clean

install: $(package) $(environment)
	@.venv/bin/cloche setup --quiet

page: $(page)

# scripts/wheel_hook.py refuses a wheel without the playground.
wheel: $(package) $(page)
	@rm -rf dist
	@.venv/bin/python -m hatchling build --target wheel --directory dist

run: install $(page)
	@.venv/bin/cloche serve $(ARGS)

test: install $(page) $(debian)
	@scripts/system-packages tools
	@scripts/system-packages languages
	@.venv/bin/cloche languages prepare || true
	@# What looks at the whole host, or at the clock, comes alone; the rest often waits, so more of it than processors.
	@if [ -n "$(ARGS)" ]; then .venv/bin/python -m pytest $(ARGS); else \
		.venv/bin/python -m pytest -m "not alone" -n 3 --dist loadfile --no-loadscope-reorder && \
		.venv/bin/python -m pytest -m alone $(alone); fi

# `make test` fuzzes for half a minute; this takes about ten. CLOCHE_FUZZ_SEED=N tries other requests.
fuzz: install
	@CLOCHE_FUZZ_SECONDS=$${CLOCHE_FUZZ_SECONDS:-120} .venv/bin/python -m pytest -s tests/fuzz $(ARGS)

check: $(package)
	@.venv/bin/ruff format --check --quiet $(code) || { .venv/bin/ruff format --check $(code); exit 1; }
	@.venv/bin/ruff check --quiet $(code)
	@.venv/bin/mypy --no-error-summary $(typed)
	@if [ -f scripts/blocking.py ]; then .venv/bin/python scripts/blocking.py --check; fi

bench: install
	@.venv/bin/python -m bench $(ARGS)

clean:
	@rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache
	@rm -rf web/node_modules web/.monaco web/results src/cloche/doors/page/built
	@find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +

$(tools): requirements-dev.lock
	@python=$$(scripts/system-packages python "$(PYTHON)") && { \
		[ -x .venv/bin/python ] && .venv/bin/python -c '' 2>/dev/null || { \
			echo "Creating .venv with $$($$python --version)"; \
			rm -rf .venv && $$python -m venv .venv; }; }
	@echo "Installing Cloche's few dependencies and its development tools"
	@.venv/bin/python -m pip install --quiet --require-hashes --no-deps --only-binary :all: -r requirements-dev.lock
	@# venv brings setuptools on 3.11; its start-up hook would slow down every start of `cloche`.
	@.venv/bin/python -m pip uninstall --quiet --yes setuptools 2>/dev/null
	@touch $@

$(package): $(tools) pyproject.toml src/cloche/cli/launcher.py
	@echo "Installing Cloche (editable)"
	@.venv/bin/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@.venv/bin/python -m cloche.cli.launcher
	@touch $@

$(environment): $(package) src/cloche/environment/packages.lock src/cloche/environment/package-lock.json \
		src/cloche/environment/fingerprint.py
	@scripts/system-packages fonts
	@scripts/system-packages node
	@.venv/bin/cloche setup --quiet
	@touch $@

# For tests of the package; without it they are skipped, and fail on CI.
$(debian): $(package) scripts/debian-root
	@scripts/system-packages debootstrap
	@if scripts/debian-root .venv/debian; then touch $@; fi

# Without Node there is a server all the same, with a plain page that says where things are.
$(page): $(page_sources)
	@scripts/system-packages node
	@if command -v npm >/dev/null; then scripts/page && touch $@; \
		else echo "The playground is left out: it is built with Node 18 or later and npm"; fi
