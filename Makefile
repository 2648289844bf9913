# Each target sets up what it needs in .venv, beside this file; nothing has to be activated.
PYTHON ?= python3
BIN := .venv/bin
# Hundreds of processes are started; without bytecode on disk each compiles all that it imports.
export PYTHONDONTWRITEBYTECODE :=
# Each worker takes consecutive tests, so that few kernels are compiled by both. OpenMP threads of
# other libraries must not spin while they wait, because workers share the cores.
PYTEST := OMP_WAIT_POLICY=passive $(BIN)/python -m pytest -n 2 --dist worksteal
# The files of tests with these names, in whichever folders they are.
found = $(foreach name,$(1),$(or $(wildcard tests/*/test_$(name).py),$(error there is no test_$(name).py)))
# Tests whose assertions compare results of floating-point arithmetic.
NUMERICAL := $(call found,bounds combinations coordinate_descent counting cutting_planes domination binned binned_kernels \
	domination_rank estimators explain export export_additive features grid kernel lbfgs metric_peers metrics pair_sums pipeline_models \
	preferences sgd solvers sparse sparse_baselines sparse_solvers stopping structures dual paper_chapelle2010 \
	paper_laporte2014 paper_lee2014 paper_stevens2013)
# Tests in these files whose assertions are about errors and interfaces: other roundings prove nothing.
ROUNDED_ONLY := $(patsubst %,--deselect=tests/%,solvers/test_combinations.py::test_others_say_what_works \
	estimators/test_estimators.py::test_scikit_learn_checks estimators/test_domination_rank.py::test_scikit_learn)
# Tests of what linrank takes from other libraries, within three minutes of processor time.
FOREIGN := $(call found,cli cli_data conventions docs estimators explain formats frames methods \
	metric_peers plots preferences study_report trec) \
	tests/dask/test_dask.py::test_the_bits_of_a_result_are_the_same_when_it_is_repeated
# What numpy dispatches to on this processor, beyond what it was built for.
FEATURES := import numpy; print(*numpy.show_config("dicts")["SIMD Extensions"].get("found", []))

BROWSE := .venv-browser/bin/python -m pytest -o addopts="-q --strict-markers --import-mode=importlib"

# The part of the lines that the uncompiled run has executed, in one line.
COVERAGE = echo "coverage of the uncompiled run: $$($(BIN)/coverage report --format=total) %"

# pip compiles the packages to bytecode, but not the sources of an editable installation. A user may
# have set PYTHONDONTWRITEBYTECODE: without bytecode, each process would compile what it imports.
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable $(1) && \
	$(BIN)/python -m compileall -q src

# An environment beside .venv. uv needs half of pip's processor time.
ENVIRONMENT = $(PYTHON) -m venv --clear $(1) && \
	$(1)/bin/python -m pip install --quiet --disable-pip-version-check uv && \
	VIRTUAL_ENV=$(1) $(1)/bin/uv pip install --quiet $(2)

.PHONY: demo dist test test-compiled test-interpreted test-quick test-oldest test-cuda test-wheel test-exports test-browser docs test-docs lint coverage hooks help clean
.PHONY: test-variations variation-machine variation-data environments engines-table
.PHONY: bench papers bench-guard bench-pairwise bench-sparse bench-domination bench-dask

demo: .venv/demo.stamp  ## make a small data set, train, evaluate, write a model and a plot
	$(BIN)/linrank demo --dir demo

test: .venv/test.stamp  ## everything that must hold before a change is taken; all parts run even if one fails
	$(MAKE) --no-print-directory --keep-going lint test-compiled test-interpreted

test-compiled: .venv/test.stamp
	$(PYTEST)

test-interpreted: .venv/test.stamp
	NUMBA_DISABLE_JIT=1 $(PYTEST) -m interpreted --cov --cov-report= tests
	@$(COVERAGE)

test-quick: .venv/test.stamp  ## what to run while you work: about a minute, once the kernels are compiled
	LINRANK_DATA= $(PYTEST) -m "not slow" --ignore=tests/dask tests

test-variations: .venv/test.stamp  ## numerical tests with other roundings: BLAS and instructions, last bits of the data
	$(MAKE) --no-print-directory --keep-going variation-machine variation-data

# What another machine may change, all at once.
variation-machine: .venv/test.stamp
	OPENBLAS_CORETYPE=Prescott OPENBLAS_NUM_THREADS=1 LINRANK_THREADS=1 NUMBA_CPU_NAME=generic \
		NPY_DISABLE_CPU_FEATURES="$$($(BIN)/python -c '$(FEATURES)')" $(PYTEST) $(NUMERICAL) $(ROUNDED_ONLY)

variation-data: .venv/test.stamp
	$(PYTEST) --flip-last-bits $(NUMERICAL) $(ROUNDED_ONLY)

test-oldest: .venv-oldest/test.stamp  ## tests of what other libraries do, with the oldest dependencies that pyproject.toml allows
	LINRANK_DATA= NUMBA_CACHE_DIR=$(CURDIR)/.venv-oldest/kernels OMP_WAIT_POLICY=passive .venv-oldest/bin/python -m pytest -n 2 \
		--dist worksteal -W ignore::DeprecationWarning -m "not slow" $(FOREIGN)

test-cuda: .venv-cuda/test.stamp  ## the kernels for graphics cards: simulated, and compiled; needs no card
	NUMBA_ENABLE_CUDASIM=1 \
		.venv-cuda/bin/python -m pytest -n 2 -o addopts="-q --strict-markers --import-mode=importlib --doctest-modules" \
		tests/cuda src/linrank/engines/cuda src/linrank/papers/jin2014.py

test-wheel: .venv/test.stamp  ## the wheel in clean environments, with each Python that is found; PYTHONS= names more
	$(BIN)/python tests/wheel.py $(PYTHONS)

dist: .venv/dist.stamp  ## sdist and wheel in dist, checked, and tried as test-wheel does; PYTHONS= names more
	$(BIN)/python tests/wheel.py --dist $(PYTHONS)

test-exports: .venv-exports/test.stamp  ## exported models, scored by databases, Lucene and others; CONTRIBUTING.md lists them
	rm -f .venv-exports/engines.jsonl
	LINRANK_ENGINES=.venv-exports/engines.jsonl OMP_WAIT_POLICY=passive .venv-exports/bin/python -m pytest -n 2 --dist loadfile \
		-o addopts="-q --strict-markers --import-mode=importlib" tests/exports

engines-table:  ## the table of docs/guide/engines.md, from the last run of test-exports
	.venv-exports/bin/python tests/exports/engine_table.py .venv-exports/engines.jsonl docs/guide/engines.md

test-browser: .venv-browser/test.stamp  ## HTML pages in chromium, with axe-core; LINRANK_SHOTS= names a folder for screenshots
	$(BROWSE) -n 2 --ignore=tests/browser/test_built_site.py tests/browser

environments: .venv-oldest/test.stamp .venv-cuda/test.stamp .venv-exports/test.stamp .venv-browser/test.stamp .venv-docs/docs.stamp

docs: .venv-docs/docs.stamp  ## the documentation site, in docs/_build/html
	rm -rf docs/api/generated
	.venv-docs/bin/python -m sphinx -b html -q -W --keep-going -n -E -j 2 docs docs/_build/html

test-docs: docs .venv-browser/test.stamp  ## the site in chromium, its links, and the spelling of all files; LINRANK_SHOTS as above
	.venv-docs/bin/codespell
	$(BROWSE) -n 2 tests/browser/test_built_site.py

lint: .venv/test.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

coverage:  ## the lines that the last uncompiled run has not executed, by file
	$(BIN)/coverage report --show-missing --skip-covered

hooks: .venv/test.stamp  ## lint and format before each commit, with the tools of .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check pre-commit
	$(BIN)/pre-commit install

bench: .venv/bench.stamp  ## the figures of the README, side by side in one run; QUICK=1 tries it on small data
	$(BIN)/python -m benchmarks.suite $(if $(QUICK),--quick)

papers: .venv/bench.stamp .venv-cuda/test.stamp  ## tables and figures of the five papers, in docs/papers/results; LINRANK_DATA names the data; QUICK=1 tries it
	$(BIN)/python -m benchmarks.papers $(if $(QUICK),--quick)

bench-guard: .venv/test.stamp  ## is this tree slower than before? BASE=REVISION names what it is compared with
	$(BIN)/python -m benchmarks.guard $(if $(BASE),--base $(BASE))

bench-pairwise: .venv/bench.stamp  ## ways of counting, and other tools on the same problems
	$(BIN)/python -m benchmarks.pairwise

bench-sparse: .venv/test.stamp  ## sparse rankers; LINRANK_DATA names the LETOR 4.0 folders
	$(BIN)/python -m benchmarks.sparse

bench-domination: .venv/test.stamp  ## Domination Rank; LINRANK_DATA as for bench-sparse
	$(BIN)/python -m benchmarks.domination

bench-dask: .venv/test.stamp  ## a Dask cluster of this machine against threads, and data larger than a worker
	$(BIN)/python -m benchmarks.dask

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*  ## /\1: /p' Makefile

.PHONY: fuzz
fuzz: .venv/test.stamp  ## random trials within MINUTES=60; SEED=, ONLY= (a campaign) and CASE= repeat some of them
	$(BIN)/python -m fuzz $(if $(MINUTES),--minutes $(MINUTES)) $(if $(SEED),--seed $(SEED)) \
		$(if $(ONLY),--only $(ONLY)) $(if $(CASE),--case $(CASE))

clean:  ## forget what was built, and every compiled kernel
	rm -rf .venv .venv-oldest .venv-cuda .venv-exports .venv-browser .venv-docs demo build dist .coverage .coverage.* .pytest_cache .mypy_cache .ruff_cache
	rm -rf docs/_build docs/gallery docs/api/generated docs/api/backreferences
	find . -name __pycache__ -prune -exec rm -rf {} +

.venv/made.stamp:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "linrank needs Python 3.11 or newer; set PYTHON=")'
	$(PYTHON) -m venv --clear .venv
	touch $@

.venv/demo.stamp: pyproject.toml | .venv/made.stamp
	$(call INSTALL,'.[plot]')
	touch $@

.venv/test.stamp: pyproject.toml src/linrank/_version.py | .venv/made.stamp
	$(call INSTALL,'.[test]')
	touch $@ .venv/demo.stamp

.venv/dist.stamp: pyproject.toml | .venv/test.stamp
	$(BIN)/python -m pip install --quiet --disable-pip-version-check build twine
	touch $@

.venv/bench.stamp: pyproject.toml src/linrank/_version.py | .venv/made.stamp
	$(call INSTALL,'.[bench]')
	touch $@ .venv/test.stamp .venv/demo.stamp

.venv-cuda/test.stamp: pyproject.toml
	$(call ENVIRONMENT,.venv-cuda,--compile-bytecode --editable '.[cuda]' pytest pytest-xdist hypothesis greenlet)
	touch $@

# Old packages meet new ones that they depend on, so their DeprecationWarnings are not errors here.
.venv-oldest/test.stamp: pyproject.toml
	$(call ENVIRONMENT,.venv-oldest,--compile-bytecode --resolution lowest-direct \
		--only-binary :all: --no-binary linrank --no-binary cwl-eval --editable '.[test]')
	touch $@

.venv-exports/test.stamp: pyproject.toml
	$(call ENVIRONMENT,.venv-exports,--compile-bytecode --editable '.[exports]')
	if command -v npm; then npm install --silent --prefix .venv-exports onnxruntime-web@1; fi
	touch $@

.venv-browser/test.stamp: pyproject.toml
	$(call ENVIRONMENT,.venv-browser,--compile-bytecode --editable '.[browser]')
	if command -v npm; then npm install --silent --prefix .venv-browser axe-core@4; fi
	touch $@

.venv-docs/docs.stamp: pyproject.toml
	$(call ENVIRONMENT,.venv-docs,--compile-bytecode --editable '.[docs]')
	touch $@
