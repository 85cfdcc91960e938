# Two commands do everything on a fresh machine: `make demo` and `make test`. `make help` lists the rest.
# Nothing is ever installed outside .venv, so an externally managed Python (PEP 668) is left alone.

SHELL := /bin/bash
.DEFAULT_GOAL := help

# PYTHON=python3.12 chooses the interpreter; ARGS="…" goes on to the command (demo, test).
PYTHON ?=
ARGS ?=
VENV := .venv
BIN := $(VENV)/bin

CANDIDATES := $(or $(PYTHON),python3 python3.13 python3.12 python3.11 python3.10)
FITS := import sys; sys.exit(not (3, 10) <= sys.version_info[:2] < (3, 14))

# One stamp for each set of extras: a second run installs nothing unless pyproject.toml changed.
RUN_STAMP := $(VENV)/.installed-tensorflow
TEST_STAMP := $(VENV)/.installed-test
DEV_STAMP := $(VENV)/.installed-dev

# An environment that was made for a checkout in another place, or with another Python than the one asked for, is made anew.
STALE :=
ifneq ($(wildcard $(VENV)/.made-for),)
ifneq ($(shell cat $(VENV)/.made-for),$(CURDIR))
STALE := stale
endif
ifneq ($(PYTHON),)
ifneq ($(shell $(PYTHON) -V 2>&1),$(shell $(BIN)/python -V 2>&1))
STALE := stale
endif
endif
endif

# Module systems and site-wide pip settings reach into virtual environments through these.
unexport PYTHONPATH
export PIP_USER := 0
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help
help: ## List the targets
	@echo 'make TARGET [PYTHON=python3.12] [ARGS="…"]'
	@sed -n 's/^\([a-z][a-z-]*\):.*## \(.*\)/  \1	\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 12

.PHONY: demo
demo: $(RUN_STAMP) ## Set up .venv, then analyze an embedded sample: make demo ARGS="--demand 5000"
	@echo "2/3 Writing the pictures (once) …"
	@echo "3/3 Measuring, about 60 s …"
	@SECONDS=0; $(BIN)/cs_input_analyzer demo $(ARGS) || exit; \
	echo "Took $$SECONDS s. Open the page: open demo_report.html, or $(BIN)/cs_input_analyzer report --view"

# More processes than a small machine has CPUs: some of these tests wait, for a worker or for a time.
.PHONY: test
test: $(TEST_STAMP) ## Set up .venv, then run the tests but for the long ones: make test ARGS=tests/rules
	$(BIN)/python -m pytest -n 4 --dist loadfile -m "not long" $(ARGS)

.PHONY: test-long
test-long: $(TEST_STAMP) ## The long tests: whole runs, planted truths, samples, the wheel, pictures
	$(BIN)/python -m pytest -n 4 --dist loadfile -m long $(ARGS)

.PHONY: test-all
test-all: test test-long ## All tests

.PHONY: check
check: $(DEV_STAMP) truth ## Lint, format check, plain words, types, import directions, docs, known truths
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python tests/plain_words.py
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(MAKE) --no-print-directory docs

.PHONY: docs
docs: $(DEV_STAMP) ## Build the site of docs/ into build/site; a broken link fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "The site begins at build/site/index.html"

# What predictions are worth where the truth is known: it takes a minute, and fails where a number is missed.
.PHONY: truth
truth: $(TEST_STAMP) ## Judge the capacity model: simulated nodes, published curves, quiet hours
	$(BIN)/python -m benchmarks.simulated_nodes
	$(BIN)/python -m benchmarks.published_scaling
	$(BIN)/python -m benchmarks.quiet_hours

.PHONY: format
format: $(DEV_STAMP) ## Rewrite the code as `make check` wants it
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: setup
setup: $(TEST_STAMP) ## Only set up .venv

.PHONY: clean
clean: ## Remove .venv, build results, caches, and what `make demo` wrote here
	rm -rf .venv build dist demo_run.json demo_report.html .pytest_cache .hypothesis .mypy_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(TEST_STAMP): EXTRAS := test
$(DEV_STAMP): EXTRAS := dev
# The demo needs no GPU's libraries: where there is a package of TensorFlow without them, it takes that one, with fewer files.
# Both packages write the same files, so one goes before the other comes.
$(RUN_STAMP): pyproject.toml $(VENV)/.made-for
	@echo "1/3 Installing TensorFlow (some hundreds of MB), log in $(VENV)/install.log …"
	@wanted=".[tensorflow]"; \
	if [ "$$(uname -sm)" = "Linux x86_64" ] && ! $(BIN)/python -m pip show --quiet tensorflow 2>/dev/null; then \
	    wanted=". tensorflow-cpu"; \
	fi; \
	{ $(BIN)/python -m pip install "pip>=22.3" && $(BIN)/python -m pip install --editable $$wanted; } \
	    >$(VENV)/install.log 2>&1 || { cat $(VENV)/install.log >&2; exit 1; }
	@touch $@

$(TEST_STAMP) $(DEV_STAMP): pyproject.toml $(VENV)/.made-for
	@echo "Installing into $(VENV) (the first time this fetches TensorFlow, some hundreds of megabytes) …"
	$(BIN)/python -m pip install --quiet "pip>=22.3"
	@! $(BIN)/python -m pip show --quiet tensorflow-cpu 2>/dev/null || $(BIN)/python -m pip uninstall --quiet --yes tensorflow-cpu
	$(BIN)/python -m pip install --editable ".[$(EXTRAS)]"
	@touch $@

# The first candidate that runs, fits, and can make environments with pip in them. Some names in PATH are only shims that refuse
# to run, so each is tried. Only shell built-ins until a Python is found: nothing else is sure to be there.
$(VENV)/.made-for: $(STALE)
	@python=; unable=; \
	for candidate in $(CANDIDATES); do \
	    "$$candidate" -c '$(FITS)' >/dev/null 2>&1 || continue; \
	    if "$$candidate" -c 'import ensurepip, venv' >/dev/null 2>&1; then python=$$candidate; break; fi; \
	    unable=$${unable:-$$candidate}; \
	done; \
	if [ -z "$$python" ] && [ -n "$$unable" ]; then \
	    package=$$("$$unable" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])'); \
	    echo "$$unable cannot make virtual environments: its module 'ensurepip' is missing." >&2; \
	    echo "On Debian and Ubuntu: sudo apt-get install python3-venv (or $$package); then run make again." >&2; \
	    exit 1; \
	elif [ -z "$$python" ]; then \
	    echo "Python 3.10, 3.11, 3.12 or 3.13 is needed, and none of these is one: $(CANDIDATES)" >&2; \
	    echo "Install one (Debian and Ubuntu: sudo apt-get install python3 python3-venv), or name yours: make $(MAKECMDGOALS) PYTHON=/path/to/python3" >&2; \
	    exit 1; \
	fi; \
	echo "Making $(VENV) with $$("$$python" -V 2>&1) ($$python) …"; \
	"$$python" -m venv --clear "$(VENV)" && printf '%s\n' "$(CURDIR)" >"$@"

.PHONY: stale
stale:
