"""Sums over few partners beside far scores, and numbers that are none."""

from __future__ import annotations

import numpy as np
import pytest

from linrank import RankingData, RankSVM
from linrank.engines.cuda import device
from linrank.engines.engine import make_engine
from linrank.losses import get_loss
from problems import PAPERS, as_form

#: Engine, form of X, documents of the query: in a block, longer than one, sparse, in parts.
ROUTES = {
    "fused": ("cuda", "dense64", 12),
    "grid": ("cuda", "dense64", 40),
    "sparse": ("cuda", "csr64", 40),
    "streaming": ("cuda-streaming", "dense64", 12),
    "streaming grid": ("cuda-streaming", "dense64", 40),
    "paper": ("p-swx", "dense64", 40),
}


def far_query(n, far, many_levels):
    """Three documents around 0 that are compared, the others so far away that no pair is active.

    Features are the score, and a number that only the documents without active partners have.
    """
    rng = np.random.default_rng(0)
    k = (n - 3) // 2
    steps = 1 + np.arange(k)
    s = far * np.concatenate([-steps[::-1] - 0.1 * rng.random(k), np.zeros(3), steps + 1 / 3])
    y = np.concatenate([steps, k + np.array([2, 1, 2]), k + 2 + steps])
    if not many_levels:
        y = np.clip(y, k, k + 3)
    alone = s != 0.0
    s[~alone] = [0.1, 0.35, -0.7]
    X = np.column_stack([s, alone * rng.standard_normal(len(s))])
    order = np.argsort(rng.permutation(len(s)) + len(s) * alone)  # the compared ones first
    return X[order], y[order]


@pytest.mark.parametrize("many_levels", [False, True])
@pytest.mark.parametrize("far", [1e3, 1e14])
@pytest.mark.parametrize("route", ROUTES)
def test_documents_without_active_partners_have_no_part(route, far, many_levels, monkeypatch):
    monkeypatch.setattr(device, "PART_BYTES", 160)  # ten rows
    engine, form, n = ROUTES[route]
    X, y = far_query(n, far, many_levels)
    near, w, v = slice(0, 3), np.array([1.0, 0.0]), np.array([-0.5, 2.0])
    loss = get_loss("squared_hinge")
    alone = make_engine("threads", RankingData(X[near], y[near], np.zeros(3)), loss, None, 1)
    found = make_engine(engine, RankingData(as_form(X, form), y, 0 * y), loss, None, 1)
    value, gradient = found.value_grad(w)
    expected, slope = alone.value_grad(w)
    assert expected > 0.0
    assert value == pytest.approx(expected, rel=1e-13)
    np.testing.assert_allclose(gradient, slope, rtol=1e-13)  # where it is 0, exactly
    np.testing.assert_allclose(found.hessp(v), alone.hessp(v), rtol=1e-13)


@pytest.mark.parametrize("route", ROUTES)
def test_a_feature_far_from_zero_takes_no_digits(route, monkeypatch):
    """Scores and products near 1e8, whose differences are exact: as good as without the offset."""
    monkeypatch.setattr(device, "PART_BYTES", 160)
    engine, form, n = ROUTES[route]
    rng = np.random.default_rng(0)
    shift, y = np.array([1e8, 0.0]), rng.integers(0, 4, n)
    shifted = rng.standard_normal((n, 2)) + shift
    X = shifted - shift
    w, v, loss = np.array([1.0, 0.0]), np.array([-0.5, 0.0]), get_loss("squared_hinge")
    alone = make_engine("threads", RankingData(X, y, 0 * y), loss, None, 1)
    found = make_engine(engine, RankingData(as_form(shifted, form), y, 0 * y), loss, None, 1)
    (value, gradient), (expected, slope) = found.value_grad(w), alone.value_grad(w)
    assert value == pytest.approx(expected, rel=1e-12)
    assert found.gaps(w) == pytest.approx(alone.gaps(w), rel=1e-12)
    # X'u rounds 1e8·u in the first feature, however exact u is; the second one shows u.
    np.testing.assert_allclose(gradient[1], slope[1], rtol=1e-11)
    np.testing.assert_allclose(found.hessp(v)[1], alone.hessp(v)[1], rtol=1e-11)


@pytest.mark.parametrize("far", [1e6, 1e14])
@pytest.mark.parametrize("form", ["dense64", "csr64"])
def test_a_query_takes_no_digits_from_its_neighbours(form, far):
    """Two to a block: one with documents far apart and in order, one with an active pair."""
    rng = np.random.default_rng(0)
    X, y, qid = 0.1 * rng.standard_normal((8, 3)), np.tile([1, 0], 4), np.repeat(np.arange(4), 2)
    X[0:2] = X[6:8] = [[far, 0.0, 1.0], [-far, 0.0, 2.0]]
    loss, w, v = get_loss("squared_hinge"), np.array([1.0, 0.3, 0.2]), np.array([0.5, -1.0, 0.1])
    data = RankingData(as_form(X, form), y, qid)
    one, other = (make_engine(name, data, loss, None, 1) for name in ("cuda", "threads"))
    value, gradient = one.value_grad(w)
    expected, slope = other.value_grad(w)
    assert value == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(gradient, slope, rtol=1e-12)
    np.testing.assert_allclose(one.hessp(v), other.hessp(v), rtol=1e-12)


def outlying(far):
    """Pairs of documents, the first of them with a feature that outweighs all others."""
    rng = np.random.default_rng(5)
    X, y, qid = rng.standard_normal((24, 3)), np.tile([1, 0], 12), np.repeat(np.arange(12), 2)
    X[:, 0] += 0.5 * y
    X[:2, 0] = far, -far
    return X, y, qid


def test_the_order_of_rows_moves_no_weight():
    X, y, qid = outlying(1e10)
    how = {"tol": 1e-10, "engine": "cuda"}
    one, other = (
        RankSVM(**PAPERS | how).fit(X, y, qid),
        RankSVM(**PAPERS | how).fit(X[::-1], y[::-1], qid[::-1]),
    )
    np.testing.assert_allclose(one.coef_, other.coef_, rtol=0, atol=1e-14)


@pytest.mark.parametrize("form", ["dense64", "csr64"])
@pytest.mark.parametrize("far", [1e4, 1e10])
@pytest.mark.parametrize("other", ["threads", "p-swx"])
def test_fits_beside_far_documents(far, other, form):
    """The first row has the farthest score: sums must not be centred at it."""
    rng = np.random.default_rng(0)
    y = np.concatenate([np.full(9, 2), rng.integers(0, 2, 12)])
    X = np.vstack([np.zeros((9, 2)), rng.standard_normal((12, 2))])
    X[:9, 0] = far * (9 - np.arange(9))
    X[9:, 0] += y[9:]
    found = [
        RankSVM(C=1.0, tol=1e-8, engine=name, **PAPERS).fit(as_form(X, form), y, np.zeros(21)).coef_
        for name in ("cuda", other)
    ]
    np.testing.assert_allclose(*found, rtol=1e-8)


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_none_leave_nothing_behind(route, bad):
    engine, form, n = ROUTES[route]
    rng = np.random.default_rng(0)
    X, y, w = rng.standard_normal((n, 2)), rng.integers(0, 3, n), np.array([1.0, 0.3])
    data = RankingData(as_form(X, form), y, np.zeros(n))
    found = make_engine(engine, data, get_loss("squared_hinge"), None, 1)
    value, gradient = found.value_grad(w)
    found.value_grad(np.array([bad, 0.0]))
    again, slope = found.value_grad(w)
    assert again == value
    np.testing.assert_array_equal(slope, gradient)
