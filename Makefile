# Each target sets up what it needs in .venv, beside this file; nothing has to be activated.
PYTHON ?= python3
BIN := .venv/bin
# Numba's cache does not notice a change in a helper of another file, so tests and benchmarks
# use one that is named after the content of the sources.
SOURCES := $(shell find src -name '*.py' | sort | xargs cat | cksum | cut -d' ' -f1)
CACHE := NUMBA_CACHE_DIR=.venv/kernels/$(SOURCES)

.PHONY: demo test test-cuda lint clean
.PHONY: bench bench-guard bench-pairwise bench-sparse bench-domination bench-dask

demo: .venv/demo.stamp  ## make a small data set, train, evaluate, write a model and a plot
	$(BIN)/linrank demo --dir demo

test: .venv/test.stamp lint  ## everything that must hold before a change is taken
	$(CACHE) $(BIN)/python -m pytest -n 2
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -n 2 -m interpreted tests

test-cuda: .venv-cuda/test.stamp  ## the kernels for graphics cards: simulated, and compiled; needs no card
	NUMBA_ENABLE_CUDASIM=1 NUMBA_CACHE_DIR=.venv-cuda/kernels/$(SOURCES) \
		.venv-cuda/bin/python -m pytest -n 2 -o addopts="-q --strict-markers --import-mode=importlib --doctest-modules" \
		tests/cuda src/linrank/engines/cuda

lint: .venv/test.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/bench.stamp  ## the figures of the README, side by side in one run; QUICK=1 tries it on small data
	$(CACHE) $(BIN)/python -m benchmarks.suite $(if $(QUICK),--quick)

bench-guard: .venv/test.stamp  ## is this tree slower than before? BASE=REVISION names what it is compared with
	$(BIN)/python -m benchmarks.guard $(if $(BASE),--base $(BASE))

bench-pairwise: .venv/bench.stamp  ## ways of counting, and other tools on the same problems
	$(CACHE) $(BIN)/python -m benchmarks.pairwise

bench-sparse: .venv/test.stamp  ## sparse rankers; LINRANK_DATA names the LETOR 4.0 folders
	$(CACHE) $(BIN)/python -m benchmarks.sparse

bench-domination: .venv/test.stamp  ## Domination Rank; LINRANK_DATA as for bench-sparse
	$(CACHE) $(BIN)/python -m benchmarks.domination

bench-dask: .venv/test.stamp  ## a Dask cluster of this machine against threads, and data larger than a worker
	$(CACHE) $(BIN)/python -m benchmarks.dask

.PHONY: fuzz
fuzz: .venv/test.stamp  ## random trials within MINUTES=60; SEED=, ONLY= (a campaign) and CASE= repeat some of them
	$(CACHE) $(BIN)/python -m fuzz $(if $(MINUTES),--minutes $(MINUTES)) $(if $(SEED),--seed $(SEED)) \
		$(if $(ONLY),--only $(ONLY)) $(if $(CASE),--case $(CASE))

clean:  ## forget what was built, and every compiled kernel
	rm -rf .venv .venv-cuda demo build dist .pytest_cache .mypy_cache .ruff_cache
	find . -name __pycache__ -prune -exec rm -rf {} +

.venv/made.stamp:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "linrank needs Python 3.11 or newer; set PYTHON=")'
	$(PYTHON) -m venv --clear .venv
	touch $@

.venv/demo.stamp: pyproject.toml | .venv/made.stamp
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --editable '.[plot]'
	touch $@

.venv/test.stamp: pyproject.toml | .venv/made.stamp
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --editable '.[test]'
	touch $@ .venv/demo.stamp

.venv/bench.stamp: pyproject.toml | .venv/made.stamp
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --editable '.[bench]'
	touch $@ .venv/test.stamp .venv/demo.stamp

.venv-cuda/test.stamp: pyproject.toml
	$(PYTHON) -m venv --clear .venv-cuda
	.venv-cuda/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --editable '.[cuda]' pytest pytest-xdist hypothesis greenlet
	touch $@
