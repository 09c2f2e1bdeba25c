# make run    install into .venv and run the quickstart workload
# make test   install and run everything CI runs: lint, format, types, all tests
# make check  the developer's loop: lint, types, fast tests
# make bench  the benchmarks (benchmarks/README.md); make bench-peers: what AIPerf, GuideLLM and locust report (6 GB)

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
WORKERS ?= 2

.PHONY: run test check lint types format bench bench-peers clean

run: $(VENV)/.run
	$(BIN)/loadgen run workloads/quickstart.yaml

test: lint types
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist loadfile -m "not serial"
	$(BIN)/python -m pytest -q -m serial

check: lint types
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist loadfile -m "not slow and not net and not serial"

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "loadgen needs Python 3.11 or newer, $(PYTHON) is $$($(PYTHON) -V 2>&1); try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.run: $(VENV)/.python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@ $(VENV)/.run

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis

bench: $(VENV)/.dev
	$(BIN)/python benchmarks/wire_micro.py
	$(BIN)/python benchmarks/bench.py
	$(BIN)/python benchmarks/sim_capacity.py

bench-peers: $(VENV)/.dev
	$(BIN)/python benchmarks/peers.py
