"""`BinnedMatrix` compared with the array of its columns: products, copies and engines."""

from __future__ import annotations

import numpy as np
import pytest

import reference
from linrank import RankingData
from linrank._compile.jit import njit
from linrank.choices import COUNTINGS
from linrank.counting.preferences import Preferences
from linrank.engines.threads import ThreadEngine
from linrank.losses import LOSSES, get_loss
from linrank.matrix.binned import BinnedMatrix
from linrank.matrix.rows import (
    advance,
    choose_columns,
    contract,
    contract_squares,
    copy_columns,
    copy_rows,
    dense_rows,
    expand,
    kernel_matrix,
    matvec,
    multiply,
    n_square_sums,
    n_sums,
    rmatvec,
    rmatvec_squares,
)

pytestmark = pytest.mark.interpreted

STORAGES = [(np.uint8, 1), (np.uint16, 1), (np.uint16, 4), (np.float32, 1), (np.float32, 4)]
SINGLE = 1e-5  # relative error of Hessian products, which are computed in single precision
SIZES = [(3, 2), (1, 0), (5, 4), (2, 1), (7, 3)]  # bins and columns of each feature


def random_binned(dtype, n_powers, n_rows=60, sizes=SIZES, seed=0):
    """A matrix with a feature without columns, empty bins, and positions on borders."""
    rng = np.random.default_rng(seed)
    positions = np.empty((len(sizes), n_rows), dtype)
    for row, (n_bins, _) in zip(positions, sizes, strict=True):
        bins = rng.choice(rng.permutation(n_bins)[: max(1, n_bins - 2)], n_rows)
        places = rng.random(n_rows, np.float32) * (rng.random(n_rows) < 0.7)
        if n_powers == 1:
            places[bins == n_bins - 1] = 0.0  # there is no line behind the last value
        exact = bins if dtype == np.uint8 else np.minimum(bins + places, bins + 0.999)
        row[:] = 4096 * exact if dtype == np.uint16 else exact
    shapes = [rng.standard_normal((n_powers, n_bins, n)) for n_bins, n in sizes]
    return BinnedMatrix(positions, shapes)


@pytest.fixture(params=STORAGES, ids=["bytes", "lines16", "cubic16", "lines", "cubic"])
def X(request):
    return random_binned(*request.param)


@njit
def advance_blocks(X, first, last, u, out, next_first, next_last, v, s):
    advance(X, first, last, u, out, next_first, next_last, v, s)


# Products ----------------------------------------------------------------------------------


def test_entries(X):
    expected = reference.columns_of_bins(X.positions, X.shapes)
    assert X.shape == expected.shape == (60, 10)
    np.testing.assert_allclose(X.toarray(), expected, rtol=1e-12, atol=1e-12)
    assert X.nbytes == X.positions.nbytes
    assert X.size == 300


@pytest.mark.parametrize(("first", "last"), [(0, 60), (0, 1), (7, 41), (59, 60), (9, 9)])
def test_products_of_some_rows(X, first, last):
    rng, dense, matrix = np.random.default_rng(1), X.toarray()[first:last], kernel_matrix(X)
    v, u = rng.standard_normal(10), rng.standard_normal(last - first)
    out = np.full(last - first, np.nan)
    matvec(matrix, first, last, expand(X, v), out)
    np.testing.assert_allclose(out, dense @ v, rtol=0, atol=1e-12)
    before = rng.standard_normal(n_sums(X))
    sums = before.copy()
    rmatvec(matrix, first, last, u, sums)
    expected = contract(X, before) + dense.T @ u
    np.testing.assert_allclose(contract(X, sums), expected, rtol=0, atol=1e-11)
    squares = np.zeros(n_square_sums(X))
    rmatvec_squares(matrix, first, last, u, squares)
    expected = (dense**2).T @ u
    np.testing.assert_allclose(contract_squares(X, squares), expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize(("n", "m"), [(0, 4), (4, 0), (1, 1), (7, 9), (9, 7), (30, 30)])
def test_products_of_two_blocks_in_one_loop(X, n, m):
    rng, dense = np.random.default_rng(2), X.toarray()
    v, u = rng.standard_normal(10), rng.standard_normal(n)
    sums, out = np.zeros(n_sums(X)), np.empty(m)
    advance_blocks(kernel_matrix(X), 0, n, u, sums, n, n + m, expand(X, v), out)
    np.testing.assert_allclose(contract(X, sums), dense[:n].T @ u, rtol=0, atol=1e-12)
    np.testing.assert_allclose(out, dense[n : n + m] @ v, rtol=0, atol=1e-12)


def test_expand_and_contract_are_adjoint(X):
    rng = np.random.default_rng(3)
    v, sums = rng.standard_normal(10), rng.standard_normal(n_sums(X))
    assert expand(X, v).shape == (n_sums(X),)
    assert expand(X, v) @ sums == pytest.approx(v @ contract(X, sums), rel=1e-12)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_multiply(X, threads, monkeypatch):
    monkeypatch.setattr("linrank.matrix.rows.TASK_BYTES", 8)
    v = np.random.default_rng(4).standard_normal(10)
    np.testing.assert_allclose(multiply(X, v, threads), X.toarray() @ v, rtol=0, atol=1e-12)


@pytest.mark.parametrize("features", [[0], [9, 1, 4], list(range(10)), []])
def test_copies_of_chosen_columns(X, features):
    chosen = choose_columns(np.array(features, np.int64), 10)
    expected = X.toarray()[11:29][:, features]
    rows, columns = np.empty((18, len(features))), np.zeros((len(features), 18))
    copy_rows(kernel_matrix(X), 11, 29, chosen, rows)
    copy_columns(kernel_matrix(X), 11, 29, chosen, columns)
    np.testing.assert_array_equal(rows, expected)
    np.testing.assert_array_equal(columns, expected.T)


@pytest.mark.parametrize(
    "rows", [slice(5, 20), np.array([3, 4, 50]), np.array([7]), np.arange(0), np.array([9, 2, 2])]
)
def test_some_rows(X, rows):
    np.testing.assert_array_equal(X[rows].toarray(), X.toarray()[rows])
    np.testing.assert_array_equal(dense_rows(X, rows), X.toarray()[rows])


@pytest.mark.parametrize(("dtype", "n_powers"), STORAGES)
@pytest.mark.parametrize("sizes", [[(1, 0)], [(1, 1)], [(4, 2)], [(2, 0), (3, 3), (1, 0)]])
def test_one_row_and_few_columns(dtype, n_powers, sizes):
    X = random_binned(dtype, n_powers, 1, sizes)
    v = np.arange(1.0, X.shape[1] + 1)
    dense = reference.columns_of_bins(X.positions, X.shapes)
    np.testing.assert_allclose(multiply(X, v, 1), dense @ v, rtol=1e-12, atol=1e-12)
    sums = np.zeros(n_sums(X))
    rmatvec(kernel_matrix(X), 0, 1, np.ones(1), sums)
    np.testing.assert_allclose(contract(X, sums), dense[0], rtol=1e-12, atol=1e-12)


# Engines -----------------------------------------------------------------------------------


def make_data(dtype, n_powers, qid, seed=0):
    """The same data with binned and with dense columns."""
    rng = np.random.default_rng(seed)
    X = random_binned(dtype, n_powers, len(qid), seed=seed)
    weights = {"sample_weight": rng.uniform(0.5, 2.0, len(qid))}
    rows = 0.3 * X.toarray()
    # Equal rows have one label. Otherwise a pair of them is at the kink of the Huber loss, where
    # its curvature depends on the last bit of the scores.
    y = rng.integers(0, 4, len(qid))[np.unique(rows, axis=0, return_inverse=True)[1].ravel()]
    dense = RankingData(rows, y, qid, **weights)
    return dense.replace(X=BinnedMatrix(X.positions, [0.3 * s for s in X.shapes])), dense


def compare(data, dense, loss, threads=1, **options):
    """Compare all that engines compute, at two points."""
    one = ThreadEngine(data, get_loss(loss), None, threads, **options)
    other = ThreadEngine(dense, get_loss(loss), None, threads, **options)
    assert (one.fused, one.n_threads) == (other.fused, other.n_threads)
    rng = np.random.default_rng(5)
    some = np.array([7, 1, 2])
    for scale in (0.0, 1.0):
        w, v = scale * rng.standard_normal(10), rng.standard_normal(10)
        value, gradient = other.value_grad(w)
        found, slope = one.value_grad(w)
        assert found == pytest.approx(value, rel=1e-11)
        check_close(slope, gradient)
        check_close(one.scores(w), other.scores(w))
        if not one.loss.smooth:
            continue
        check_close(one.hessp(v), other.hessp(v), SINGLE)
        check_close(one.hessian(), other.hessian())
        check_close(one.hessian(features=some), other.hessian(features=some))
        check_close(one.hessian(n_rows=30), other.hessian(n_rows=30))
        check_close(one.hessian_diagonal(), other.hessian_diagonal())
        check_close(one.hessian_of_documents(25), other.hessian_of_documents(25))
    if one.largest_query <= 30:
        w = rng.standard_normal(10)
        for part, slow in zip(
            one.sample(30).value_grad(w), other.sample(30).value_grad(w), strict=True
        ):
            check_close(part, slow)


def check_close(found, expected, error=1e-10):
    size = max(1.0, float(np.abs(expected).max(initial=0.0)))
    np.testing.assert_allclose(found, expected, rtol=0, atol=error * size)


QUERIES = np.repeat(np.arange(6), [12, 1, 3, 20, 9, 15])


@pytest.mark.parametrize(("dtype", "n_powers"), STORAGES)
@pytest.mark.parametrize("loss", LOSSES)
def test_engines_with_every_loss(loss, dtype, n_powers):
    compare(*make_data(dtype, n_powers, QUERIES), loss)


@pytest.mark.parametrize("counting", [c for c in COUNTINGS if c != "auto"])
def test_engines_with_every_counting(counting):
    compare(*make_data(np.float32, 1, QUERIES), "huber", counting=counting)


@pytest.mark.parametrize("rescale", ["slack", "margin"])
def test_engines_with_preferences(rescale):
    data = make_data(np.float32, 4, QUERIES)
    compare(*data, "squared_hinge", preferences=Preferences("adjacent", rescale))


@pytest.mark.parametrize("loss", ["huber", "hinge", "domination"])
@pytest.mark.parametrize(("dtype", "n_powers"), STORAGES)
@pytest.mark.parametrize("qid", [np.arange(60) // 4, np.zeros(60, int)], ids=["fused", "huge"])
def test_engines_in_threads(qid, dtype, n_powers, loss, monkeypatch):
    monkeypatch.setattr("linrank.engines.threads.SMALL_BYTES", 0)
    monkeypatch.setattr("linrank.matrix.rows.TASK_BYTES", 8)
    data, dense = make_data(dtype, n_powers, qid)
    assert ThreadEngine(data, get_loss(loss), None, 2).fused == bool(qid.any())
    compare(data, dense, loss, threads=2)
