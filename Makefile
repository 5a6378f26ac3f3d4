# ENV=cpu|gpu chooses the environment, PRESET=quick|laptop|full how much work a notebook does, ROUNDS how often
# a benchmark measures each contestant.
ENV ?= cpu
PRESET ?= quick
ROUNDS ?= 5
$(if $(filter cpu gpu,$(ENV)),,$(error ENV=$(ENV) is not known: use ENV=cpu or ENV=gpu))
VENV := $(if $(filter gpu,$(ENV)),.venv-gpu,.venv)
PYTHON ?= $(firstword $(foreach name,python3 python3.13 python3.12 python3.11 python3.10 python,$(if $(shell command -v $(name)),$(name))))
BIN := $(VENV)/bin
LONGEST_FIRST := tests/test_papermill.py tests/test_papermill_refusals.py tests/test_training.py tests/test_levers.py notebooks tests  # so that all workers end at about the same time
AS_ROOT := $(if $(filter 0,$(shell id -u)),--allow-root)  # in a container you often are
SUPPORTED := import sys; sys.exit(0 if (3, 10) <= sys.version_info < (3, 14) else "The course needs Python 3.10 to 3.13; this is %s. Name another one: make setup PYTHON=python3.12" % sys.version.split()[0])

.PHONY: help setup run test lab refresh bench lint clean

help:  ## print this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo "Options: ENV=cpu|gpu (now $(ENV)), PRESET=quick|laptop|full (now $(PRESET)), PYTHON=python3.12, ROUNDS=5"

setup: $(VENV)/installed  ## make the environment (the others do it too)

# The stamp is written last, so an installation that was cut off is taken up again. Python compiles what it
# imports by itself: most of what is installed is never imported.
$(VENV)/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c '$(SUPPORTED)'
	@echo "Installing the $(ENV) environment into $(VENV): 2 or 3 minutes, once."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check -c constraints.txt -e '.[$(ENV),test]'
	@touch $@

run: setup  ## run the whole course, then look at runs/latest/index.html
	$(BIN)/course run --preset $(PRESET) --out runs/latest

test: setup lint  ## run all tests: no network, no GPU
	$(BIN)/python -m pytest -n 3 --dist loadscope --no-loadscope-reorder -m 'not network and not alone and not long' $(LONGEST_FIRST)
	$(BIN)/python -m pytest -m alone  # what compares measurements has the machine for itself

lint: setup
	$(BIN)/ruff check . && $(BIN)/ruff format --check .

lab: setup  ## open JupyterLab on the notebooks
	cd notebooks && ../$(BIN)/jupyter lab $(AS_ROOT) 00_check_your_machine.ipynb

refresh: setup  ## run the notebooks at preset full and store their outputs
	$(BIN)/course refresh

bench: setup .venv-bench/installed  ## compare the kit with its peers, and end in the tables (about an hour)
	@mkdir -p runs/bench
	$(BIN)/python benchmarks/timing.py --rounds $(ROUNDS) --json runs/bench/timing.json > runs/bench/1_timing.txt
	$(BIN)/python benchmarks/two_clouds.py --rounds $(ROUNDS) --json runs/bench/two_clouds.json > runs/bench/2_two_clouds.txt
	$(BIN)/python benchmarks/training.py --rounds $(ROUNDS) --json runs/bench/training.json --picture runs/bench/training.png > runs/bench/3_training.txt
	@cat runs/bench/*.txt
	@echo "Tables, JSON and the picture are in runs/bench/."

# The peers get an environment of their own: PyTorch and TensorFlow would share a process's threads.
.venv-bench/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'
	@touch $@

clean:  ## remove the environments, executed notebooks and caches (not your records)
	rm -rf .venv .venv-gpu .venv-bench runs *.egg-info .pytest_cache .ruff_cache .hypothesis
