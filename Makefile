# Thin targets over `python -m grader`. The first use makes .venv; after that it costs nothing.
#
#   make check EX=06                 grade one exercise (or all, without EX)
#   make check EX=06 DEBUG=test_x    one public example in your own process: print, breakpoint() and debuggers work
#   make watch EX=06                 the same at every save; without EX, whichever exercise you save
#   make hint EX=06                  the next of three hints
#   make look EX=06                  what your own code makes: shapes and pictures
#   make progress                    where you stand
#   make pretrain                    train your own model on real text (STEPS=1000: longer)
#   make talk PROMPT="The model"     let it speak; MODEL=folder takes a Qwen3 that you downloaded
#   make submit                      one zip to hand in (EX=06: that exercise and what it builds on)
#   make doctor                      this machine, and how well it isolates
#   make help                        everything

PYTHON ?= python3
TORCH ?=
VENV := .venv
RUN = @LADDER_MAKE=1 $(VENV)/bin/python -m grader
PIP = $(VENV)/bin/python -m pip --disable-pip-version-check
export PIP_NO_WARN_SCRIPT_LOCATION := 1

.PHONY: help check watch hint look progress doctor pretrain talk submit verify calibrate stubs kit grade classroom report gradescope test lint setup setup-talk setup-instructor setup-test

help: $(VENV)/.core
	@sed -n 's/^#  *\(make .*\)/  \1/p' Makefile
	$(RUN) --help

check: $(VENV)/.core
	$(RUN) check $(EX) $(if $(FROM),--from "$(FROM)") $(if $(DEBUG),--debug "$(DEBUG)") $(ARGS)

watch: $(VENV)/.core
	$(RUN) watch $(EX) $(ARGS)

hint: $(VENV)/.core
	$(RUN) hint $(EX) $(ARGS)

look: $(VENV)/.core
	$(RUN) look $(EX) $(if $(FROM),--from "$(FROM)") $(ARGS)

progress doctor: $(VENV)/.core
	$(RUN) $@ $(ARGS)

pretrain: $(VENV)/.core
	$(RUN) pretrain $(if $(STEPS),--steps "$(STEPS)") $(if $(FROM),--from "$(FROM)") $(ARGS)

# PROMPT counts only if it was given to make: some shells have a variable of that name. A downloaded model needs one package more.
talk: $(VENV)/.core $(if $(MODEL),$(VENV)/.talk)
	$(RUN) talk $(if $(filter command,$(firstword $(origin PROMPT))),"$(PROMPT)") $(if $(MODEL),--model "$(MODEL)") $(if $(FROM),--from "$(FROM)") $(ARGS)

submit: $(VENV)/.core
	$(RUN) submit $(if $(EX),--exercises "$(EX)") $(if $(OUT),--out "$(OUT)") $(ARGS)

# A learner's kit holds none of the following (grader/authoring/papers.py).
verify: $(VENV)/.core
	$(RUN) verify $(EX) $(ARGS)

calibrate: $(VENV)/.core
	$(RUN) calibrate $(EX) $(ARGS)

stubs: $(VENV)/.core
	$(RUN) stubs $(ARGS)

kit: $(VENV)/.core
	$(RUN) kit --out "$(OUT)" $(ARGS)

grade: $(VENV)/.instructor
	$(RUN) grade "$(SUBMISSIONS)" --out "$(OUT)" $(ARGS)

classroom: $(VENV)/.instructor
	$(RUN) classroom $(ARGS)

report: $(VENV)/.instructor
	$(RUN) report "$(RESULTS)" $(ARGS)

gradescope: $(VENV)/.core
	$(RUN) gradescope --out "$(OUT)" $(if $(EX),--exercises "$(EX)") $(ARGS)

test: $(VENV)/.test
	@$(VENV)/bin/python -m pytest -n auto --dist worksteal $(ARGS)

lint: $(VENV)/.test
	@$(VENV)/bin/ruff check . && $(VENV)/bin/ruff format --check .

setup-instructor: $(VENV)/.instructor
setup-test: $(VENV)/.test

# A learner's kit holds this again.
setup: $(VENV)/.core
setup-talk: $(VENV)/.talk

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 11) <= v < (3, 14) else "This course needs Python 3.11 to 3.13, and $(PYTHON) is %d.%d. Give another one: make setup PYTHON=python3.12" % v)'
	@$(PYTHON) -m venv $(VENV) || { echo "The virtual environment cannot be made. On Debian and Ubuntu: apt install python3-venv"; rm -rf $(VENV); exit 1; }

$(VENV)/.core: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "Installing what the course needs (torch is large; this happens once) ..."
	@$(if $(TORCH),$(PIP) install -q $(TORCH))
	@$(PIP) install -q -c constraints.txt -e .
	@touch $@

$(VENV)/.talk: $(VENV)/.core
	@$(PIP) install -q -c constraints.txt -e ".[talk]"
	@touch $@

# A learner's kit holds none of the following.
$(VENV)/.instructor: $(VENV)/.core
	@$(PIP) install -q -c constraints.txt -e ".[instructor]"
	@touch $@

$(VENV)/.test: $(VENV)/.core
	@echo "Installing what the tests need ..."
	@$(PIP) install -q -c constraints.txt -e ".[test]"
	@touch $@ $(VENV)/.instructor
