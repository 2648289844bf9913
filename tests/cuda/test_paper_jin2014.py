"""P-SWX under the simulator against the twin of Jin & Lin 2014."""

from __future__ import annotations

import numpy as np
import pytest

import twin_jin2014 as twin
from linrank import DataError, RankingData, RankSVM
from linrank.engines import engine as engines
from linrank.engines.engine import make_engine
from linrank.losses import get_loss
from linrank.problem import make_problem
from linrank.solvers import PaperTron
from problems import PAPERS, as_form, make_problem_arrays

PROBLEMS = ["two levels", "five levels", "real labels"]
#: Relative precision of float32, times the number of terms of the longest sum.
SINGLE = 40 * float(np.finfo(np.float32).eps)

every_problem = pytest.mark.parametrize("kind", PROBLEMS)


def make(engine, kind, form="dense64", offset=0.0):
    X, y, qid = make_problem_arrays(kind, n=30, d=3)
    X = X.astype(np.float32).astype(np.float64) + offset
    found = make_engine(engine, RankingData(as_form(X, form), y, qid), get_loss("squared_hinge"))
    order = found.data.order if found.data.order is not None else np.arange(len(y))
    return found, X[order], y[order], np.asarray(qid)[order]


def points(d=3):
    rng = np.random.default_rng(5)
    return [(np.zeros(d), np.ones(d)), *rng.standard_normal((2, 2, d))]


@every_problem
@pytest.mark.parametrize(("engine", "rtol"), [("p-swx", 1e-12), ("p-swx-paper", SINGLE)])
def test_equations_11_to_13(kind, engine, rtol):
    found, X, y, qid = make(engine, kind)
    for w, v in points():
        f, gradient, product = twin.evaluate(X, y, qid, w, v, C=1.0)
        value, slope = found.value_grad(w)
        assert value + 0.5 * w @ w == pytest.approx(f, rel=rtol)
        size = np.abs(X).sum(axis=0).max() * len(y)
        np.testing.assert_allclose(w + slope, gradient, rtol=0, atol=rtol * size)
        np.testing.assert_allclose(v + found.hessp(v), product, rtol=0, atol=rtol * size)


@every_problem
@pytest.mark.parametrize("form", ["dense32", "csr32"])
def test_the_sums_of_equation_10_in_float32(kind, form):
    found, X, y, qid = make("p-swx-paper", kind, form)
    w, v = points()[1]
    found.value_grad(w)
    found.hessp(v)
    expected = twin.sums(y, qid, X @ w, X @ v)
    six = found._six.copy_to_host()
    assert six.dtype == np.float32
    np.testing.assert_array_equal(six[:2], expected[:2])
    np.testing.assert_allclose(six[2:], expected[2:], atol=SINGLE * np.abs(expected).max())
    assert found._d_pri.value.dtype == found._slope.dtype == np.float32


@every_problem
def test_iterates_of_algorithm_1(kind):
    """TRON on the sums of P-SWX has the iterates of TRON on the processor."""
    X, y, qid = make_problem_arrays(kind, n=30, d=3)
    data = RankingData(X, y, qid)
    for max_iter in (1, 2, 3):
        one, other = (
            PaperTron(tol=1e-10, max_iter=max_iter).solve(make_problem(data, 1.0, engine=engine))
            for engine in ("p-swx", "threads")
        )
        np.testing.assert_allclose(one.coef, other.coef, rtol=0, atol=1e-12)


def test_single_precision_finds_the_optimum():
    X, y, qid = make_problem_arrays("five levels", n=30, d=3)
    one, other = (
        RankSVM(C=1.0, engine=engine, solver="tron-paper", tol=1e-4, **PAPERS)
        .fit(X, y, qid)
        .result_
        for engine in ("p-swx-paper", "threads")
    )
    assert one.objective == pytest.approx(other.objective, rel=1e-5)


def test_gaps_in_single_precision():
    found, X, y, qid = make("p-swx-paper", "five levels")
    w = points()[1][0]
    found.value_grad(w)
    s = X @ w
    expected = sum(1 - (s[i] - s[j]) for i, j in twin.support_vectors(y, qid, s))
    assert found.gaps(w) == pytest.approx(expected, rel=SINGLE)


@pytest.mark.parametrize("engine", ["p-swx", "p-swx-paper"])
def test_the_three_parts_of_an_evaluation(engine):
    """Sort, sums and products can be run and timed apart, and change nothing."""
    found, *_ = make(engine, "five levels")
    w, v = points()[1]
    value, gradient = found.value_grad(w)
    steps = found.steps(v)
    assert list(steps) == ["sort", "sums", "products"]
    for step in steps.values():
        step()
    again = found.value_grad(w)
    assert again[0] == value
    np.testing.assert_array_equal(again[1], gradient)


# What the paper prints ---------------------------------------------------------------------------


def test_large_offsets_cancel_in_the_arithmetic_of_the_paper():
    """An offset of 1e4 changes no difference of scores, but it takes the digits of float32."""
    errors = {}
    for engine in ("p-swx", "p-swx-paper"):
        found, X, y, qid = make(engine, "five levels", offset=1e4)
        w = points()[1][0]
        gradient = twin.evaluate(X - 1e4, y, qid, w, w, C=1.0)[1]
        errors[engine] = np.abs(w + found.value_grad(w)[1] - gradient).max()
    assert errors["p-swx"] < 1e-6
    assert errors["p-swx-paper"] > 1.0


def test_algorithm_2_as_printed_misses_support_vectors():
    """Its loops stop at the first document with the wrong label."""
    y, s, Xv = np.array([1.0, 0.0, 2.0]), np.array([0.0, 0.1, 0.2]), np.ones(3)
    printed, right = twin.algorithm_2_as_printed(y, s, Xv), twin.sums(y, [0, 0, 0], s, Xv)
    assert right[0].sum() == right[1].sum() == 3
    assert printed[0].sum() < 3


def test_algorithm_3_as_printed_divides_equal_values_one_by_one():
    rng = np.random.default_rng(0)
    assert twin.divide_as_printed(np.array([3.0, 1.0, 2.0]), pivot=1) == ([], [0, 1, 2])
    assert twin.quicksort_as_printed(np.zeros(500), 64, rng) == 500 - 64
    assert twin.quicksort_as_printed(rng.standard_normal(500), 64, rng) < 60


def test_algorithm_3_as_printed_writes_to_wrong_places():
    """The larger numbers 3 and 2 are written to the places 0 and −1, and 1 replaces 3."""
    assert twin.move_as_printed(np.array([3.0, 1.0, 2.0]), pivot=2) == {0: 1.0, -1: 2.0}


def test_what_does_not_fit_gets_a_sentence(monkeypatch):
    X, y, qid = make_problem_arrays("five levels", n=30, d=3)
    for options in ({"loss": "huber"}, {"loss": "domination"}, {"normalize": "pairs"}):
        with pytest.raises(DataError, match=r"engine='p-swx-paper' .* Use engine='cuda'"):
            RankSVM(engine="p-swx-paper", **PAPERS | options).fit(X, y, qid)
    monkeypatch.setattr(engines, "is_simulated", lambda: False)
    real = engines.find_spec
    monkeypatch.setattr(engines, "find_spec", lambda name: None if name == "cupy" else real(name))
    with pytest.raises(DataError, match=r"needs CuPy .* .*cublas.* engine='p-swx'"):
        RankSVM(C=1.0, engine="p-swx-paper", **PAPERS).fit(X, y, qid)
