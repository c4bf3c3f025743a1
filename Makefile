# What one does with Diptych from a checkout; `make` lists it. Needs Python 3.11 or newer and nothing else.

PYTHON ?= python3
PHOTOS ?=
STORE  ?=
HOST   ?= 127.0.0.1
PORT   ?= 8000
RUN    ?= training/recipes/photo.toml
ARGS   ?=

override PHOTOS := $(patsubst ~/%,$(HOME)/%,$(PHOTOS))
export PHOTOS STORE HOST PORT

VENV  := .venv
TOOLS := .venv-test
# onnxruntime and onnxruntime-gpu overwrite each other: one of them, by whether there is an NVIDIA driver.
EXTRA = $(shell nvidia-smi >/dev/null 2>&1 && echo gpu || echo cpu)
COMMA := ,
MEMORY = $(shell [ -w /dev/shm ] && df -Pk /dev/shm | awk 'NR == 2 && $$4 > 4000000 { print "/dev/shm" }')

.PHONY: help run demo test lint types format docs lock audit train wheel clean pytest studies endurance
.DEFAULT_GOAL := help

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "  make run PHOTOS=folder [STORE=dir] [HOST=$(HOST)] [PORT=$(PORT)]    your own pictures; any target: [PYTHON=python3.12]"

# Of the pictures that were taken up the first one is the example: not one that was refused.
EXAMPLE := import json, sys; found = json.load(sys.stdin)["pictures"]; print((found[0]["path"] or "picture.jpg") if found else "")

run: ## index pictures and serve them with the web page; without PHOTOS=folder a drawn demonstration collection
	@begun=$$(date +%s); [ -z "$$PHOTOS" ] || [ -d "$$PHOTOS" ] || { echo "make run: PHOTOS names no folder: $$PHOTOS" >&2; exit 1; }; \
	case $$PORT in [1-9] | [1-9][0-9] | [1-9]*[0-9]) [ "$$PORT" -le 65535 ] 2>/dev/null;; *) false;; esac || \
	{ echo "make run: PORT is a number from 1 to 65535, not $$PORT" >&2; exit 1; }; \
	case $$HOST in 127.* | localhost | ::1) ;; *) [ "$$DIPTYCH_KEYS$$DIPTYCH_OPEN$$DIPTYCH_CONFIG" ] || \
	{ echo "make run: other machines may reach $$HOST; put a line of 'diptych key NAME' in DIPTYCH_KEYS, or let everybody in with DIPTYCH_OPEN=1" >&2; exit 1; };; esac; \
	$(MAKE) --silent $(VENV)/installed && { \
	$(VENV)/bin/python -c 'import os, socket; s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); \
	s.bind((os.environ["HOST"], int(os.environ["PORT"])))' 2>/dev/null || \
	{ echo "make run: cannot listen on $$HOST:$$PORT, most likely something else does; try make run PORT=$$((PORT + 1))" >&2; exit 1; }; } && \
	if [ -z "$$PHOTOS" ]; then \
	  folder=$$PWD/demo/photos; STORE=$${STORE:-demo/store}; \
	  [ -f demo/truth.csv ] || { echo "Drawing a demonstration collection in demo/: some 15 s on two cores."; \
	  $(VENV)/bin/diptych demo demo > /dev/null; } || exit 1; \
	else folder=$$(cd "$$PHOTOS" && pwd); fi && \
	set -- $${STORE:+--store "$$STORE"} && files=$$(find "$$folder" -mindepth 1 -name '.*' -prune -o ! -type d -print | wc -l) && \
	if [ "$$files" -eq 0 ]; then echo "make run: there is no file in $$folder; name a folder of pictures with PHOTOS=, or leave it out for a demonstration" >&2; exit 1; fi && \
	if $(VENV)/bin/diptych index stats "$$@" >/dev/null 2>&1; then takes="only new pictures take time"; \
	else takes="about $$((files / 600 + 1)) min, at 10 pictures a second"; fi && \
	echo "Indexing $$((files)) files of $$folder into $${STORE:-your default collection}: $$takes. Ctrl-C keeps what is done." && \
	{ $(VENV)/bin/diptych index add "$$folder" "$$@" || \
	  { [ $$? -eq 1 ] && $(VENV)/bin/diptych index stats "$$@" >/dev/null 2>&1; }; } && \
	if [ -z "$$PHOTOS" ]; then example=$$(ls demo/queries/*-edited.jpg | head -n 1); else \
	  example=$$($(VENV)/bin/diptych index list "$$folder" --limit 1 --json "$$@" | $(VENV)/bin/python -c '$(EXAMPLE)'); \
	  [ "$$example" ] || example=$$($(VENV)/bin/diptych index list --limit 1 --json "$$@" | $(VENV)/bin/python -c '$(EXAMPLE)'); \
	fi && \
	if [ -z "$$example" ]; then echo "make run: no picture could be read in $$folder, and the collection has no other; name a folder of pictures with PHOTOS=, or leave it out for a demonstration" >&2; exit 1; fi && \
	printf '\nSet up and indexed in %s s. Once the service below is up, open http://%s:%s/ or try, in another terminal:\n\n' "$$(($$(date +%s) - begun))" "$$HOST" "$$PORT" && \
	printf '  curl -F "image=@%s" -F top=5 http://%s:%s/v1/search\n' "$$example" "$$HOST" "$$PORT" && \
	printf '  source $(VENV)/bin/activate\n  diptych search "%s"%s --top 5\n\nCtrl-C ends it.\n\n' "$$example" "$${STORE:+ --store \"$$STORE\"}" && \
	{ trap : INT; $(VENV)/bin/diptych serve "$$@" --host "$$HOST" --port "$$PORT" || [ $$? -eq 130 ]; }

demo: $(VENV)/installed ## draw the demonstration collection into demo/ (photos, queries, truth.csv)
	@$(VENV)/bin/diptych demo demo

# The types take a fifth of the time of all tests, and have a word of their own; .ci/run looks at both.
test: ## lint and tests, in five minutes on two cores; ARGS="-k name" for some
	@begun=$$(date +%s); $(MAKE) --silent $(TOOLS)/installed && ready=$$(date +%s) && \
	$(MAKE) --no-print-directory --jobs 2 lint pytest && \
	echo "make test: set-up $$((ready - begun)) s, checks and tests $$(($$(date +%s) - ready)) s"

# Bytecode is kept whatever the environment says, or each of some hundred processes compiles all that it imports.
# In the order of the folders, the last of which have short files. The longest test takes 10 s of a fast processor. One
# that hangs for ten minutes, be it in what is torn down after it, shows where and ends its process, which the run then
# names: it does not wait for ever.
# Three at a time, for on two cores a quarter of the time of two is spent in waiting: for services, stopped processes and
# deadlines.
# What they write is in memory where there are 4 GB of it: commits, of which they make thousands, wait for a disk for
# longer than all the rest takes. TMPDIR=folder keeps it elsewhere.
pytest: $(TOOLS)/installed ## the tests of `make test` alone, three at a time; ARGS="-k name" for some
	$(call run_tests,-m "not slow" --longest 40)

studies: $(TOOLS)/installed ## the tests of the papers' studies, which `make test` leaves out; ARGS="-k name" for some
	$(call run_tests,tests/studies)

# Faults by the hundred, broken pictures by the thousand, traffic by the minute. What .ci/run runs of it is said by
# tests/endurance/changed.py. Three at a time, for they wait for killed processes, services and deadlines; Ray in one.
ENDURANCE := tests/endurance
endurance: $(TOOLS)/installed ## torture, soak and fuzz, half an hour; before a release; ENDURANCE=tests/endurance/FILE for one
	@PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(TOOLS)/bin/pytest --numprocesses 3 --dist loadgroup --durations 15 \
	--durations-min 10 $(ENDURANCE) $(ARGS)

lint: $(TOOLS)/installed ## ruff, and the arrows between packages and floors (import-linter)
	@$(TOOLS)/bin/ruff check .
	@$(TOOLS)/bin/ruff format --check .
	@$(TOOLS)/bin/lint-imports --no-logo --no-cache

types: $(TOOLS)/installed ## pyright, over packages and tests
	@$(TOOLS)/bin/pyright --threads 2 --pythonpath $(TOOLS)/bin/python

format: $(TOOLS)/installed ## put the code into its form
	@$(TOOLS)/bin/ruff check --fix .
	@$(TOOLS)/bin/ruff format .

docs: $(TOOLS)/installed ## build the documentation as a site, build/docs/index.html
	@NO_MKDOCS_2_WARNING=1 $(TOOLS)/bin/mkdocs build --strict --config-file docs/site/mkdocs.yml
	@echo "Open build/docs/index.html, or: $(TOOLS)/bin/mkdocs serve --config-file docs/site/mkdocs.yml"

lock: $(TOOLS)/installed ## take the newest releases of what the image installs into service/requirements-*.txt
	@for extra in cpu gpu; do $(TOOLS)/bin/uv pip compile --quiet --universal --upgrade --generate-hashes --no-header \
	--python-version 3.11 --no-emit-index-url --extra $$extra --extra telemetry --extra milvus pyproject.toml \
	--output-file service/requirements-$$extra.txt || exit 1; done

audit: $(TOOLS)/installed ## look up known vulnerabilities of what the image installs; needs the internet
	@for extra in cpu gpu; do $(TOOLS)/bin/uv tool run pip-audit --strict --disable-pip --require-hashes \
	--requirement service/requirements-$$extra.txt || exit 1; done

train: $(TOOLS)/installed ## train a network: make train RUN=training/recipes/photo.toml; ARGS=--resume goes on where it stopped
	@$(TOOLS)/bin/diptych train "$(RUN)" $(ARGS)

wheel: $(TOOLS)/installed ## build dist/diptych-*.whl
	@$(TOOLS)/bin/python -m build --wheel --outdir dist .

clean: ## remove what was built here; keeps demo/, store/ and runs/
	rm -rf $(VENV) $(TOOLS) .venv-milvus dist build .cache .pytest_cache .ruff_cache
	rm -f export/diptych_runtime/kernel/*.so export/diptych_runtime/kernel/*.dylib
	find model training export service tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/installed: pyproject.toml
	$(call new_environment,$(VENV))
	@echo "Installing diptych[$(EXTRA),heif] into $(VENV): half a minute, this once, and more where packages are fetched slowly."
	@# In the versions that the image has; beside them HEIF, which telephones take.
	@sed -n 's/^\([a-z].*==.*\) \\$$/\1/p' service/requirements-$(EXTRA).txt > $(VENV)/constraints.txt
	$(call install,$(VENV),--constraint $(VENV)/constraints.txt --editable ".[$(EXTRA)$(COMMA)heif]")
	@touch $@

$(TOOLS)/installed: pyproject.toml
	$(call new_environment,$(TOOLS))
	@echo "Installing diptych[cpu,train,dev] into $(TOOLS)."
	@# By its exact version first: where a CPU build of it is at hand, that is taken instead of gigabytes of CUDA.
	@$(TOOLS)/bin/pip install --quiet torch==2.13.0
	$(call install,$(TOOLS),--editable ".[cpu$(COMMA)train$(COMMA)dev]")
	@touch $@

define run_tests
@folder=$$(mktemp -d "$(or $(TMPDIR),$(MEMORY),/tmp)/tests-XXXXXX") && trap 'rm -rf "$$folder"' EXIT INT TERM && \
TMPDIR=$$folder PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(TOOLS)/bin/pytest $(1) --numprocesses 3 \
--dist loadfile --no-loadscope-reorder --durations 15 --durations-min 1 \
-o faulthandler_timeout=600 -o faulthandler_exit_on_timeout=true $(ARGS)
endef

define new_environment
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
echo "Diptych needs Python 3.11 or newer, but $(PYTHON) is $$($(PYTHON) --version 2>&1); name another: make PYTHON=python3.12" >&2; exit 1; }
@[ -x $(1)/bin/pip ] || { echo "Making the environment $(1)."; $(PYTHON) -m venv --clear $(1); }
endef

# uv takes a third of pip's time. pip does it where there is no uv to be had, or uv does not find what pip is set up to.
define install
@{ $(1)/bin/pip install --quiet --disable-pip-version-check uv 2>/dev/null && \
index=$${PIP_INDEX_URL:-$$($(1)/bin/pip config get global.index-url 2>/dev/null)}; \
[ -x $(1)/bin/uv ] && UV_DEFAULT_INDEX=$${UV_DEFAULT_INDEX:-$${index:-https://pypi.org/simple}} \
$(1)/bin/uv pip install --quiet --python $(1)/bin/python $(2); } || \
{ echo "Without uv, or where it fails, pip installs it, which takes longer."; \
$(1)/bin/pip install --quiet --disable-pip-version-check $(2); }
endef
