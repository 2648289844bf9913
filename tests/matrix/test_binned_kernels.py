"""Products with curves of binned features, compared with a dense design matrix."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.core import config

import reference
from linrank._compile.simd import LOOKUP, SHRINK, STEPS
from linrank.matrix.binned import BLOCK, Binned, matvec_binned, rmatvec_binned

pytestmark = pytest.mark.interpreted

EXAMPLES = 10 if config.DISABLE_JIT else 100
SIZES = [1, 15, 16, 17, 100, BLOCK - 3, BLOCK + 1, 3 * BLOCK + 5]
DOUBLE, SINGLE = 1e-12, 2e-5  # largest errors, relative to sums of absolute values


def positions(rng, n_nodes, n_rows, dtype):
    """Draw positions of features with some numbers of nodes. Many are nodes, some the last one."""
    z = rng.random((len(n_nodes), n_rows)) * (np.array(n_nodes)[:, None] - 1)
    z = z.astype(np.float32)
    z = np.where(rng.random(z.shape) < 0.2, np.floor(z), z)
    last = np.array(n_nodes)[:, None] - 1.0
    z = np.where(rng.random(z.shape) < 0.1, last, z)
    return (STEPS * z if dtype == np.uint16 else z).astype(dtype)


def kernel_form(positions, starts, single):
    """Return a matrix without columns of its own: only its products with tables are tested."""
    none = np.empty(0, np.int64)
    return Binned(positions, starts, none, np.zeros(1, np.int64), np.empty(0), single)


def binned(rng, n_nodes, n_rows, dtype=np.float32, single=False):
    starts = np.concatenate([[0], np.cumsum(n_nodes)]).astype(np.int64)
    return kernel_form(positions(rng, n_nodes, n_rows, dtype), starts, single)


def check(rng, X, first, last, degree=None):
    """Compare both products with those of the design matrix, for a range of rows."""
    design = reference.design_of_curves(X.positions[:, first:last], X.starts, degree)
    table, u = rng.standard_normal(design.shape[1]), rng.standard_normal(last - first)
    out, sums = np.full(last - first, np.nan), rng.standard_normal(design.shape[1])
    before = sums.copy()
    matvec_binned(X, first, last, table, out)
    rmatvec_binned(X, first, last, u, sums)
    error = SINGLE if X.single else DOUBLE
    scale = error * (1 + abs(table).max())
    np.testing.assert_allclose(out, design @ table, rtol=0, atol=scale * len(X.positions))
    np.testing.assert_allclose(sums, before + design.T @ u, rtol=0, atol=error * (1 + abs(u).sum()))


@settings(max_examples=EXAMPLES, deadline=None)
@given(
    n_nodes=st.lists(st.integers(1, LOOKUP + 4), min_size=1, max_size=9),
    n_rows=st.integers(1, 120),
    cut=st.tuples(st.floats(0, 1), st.floats(0, 1)),
    dtype=st.sampled_from([np.float32, np.uint8, np.uint16]),
    single=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_products_of_any_curves_and_rows(n_nodes, n_rows, cut, dtype, single, seed):
    rng = np.random.default_rng(seed)
    n_nodes = np.minimum(n_nodes, LOOKUP if dtype == np.uint16 else np.inf).astype(int)
    first, last = sorted(round(part * n_rows) for part in cut)
    check(rng, binned(rng, n_nodes, n_rows, dtype, single), first, last)


@pytest.mark.parametrize("n_rows", SIZES)
@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.uint16])
def test_products_of_many_rows(n_rows, single, dtype):
    rng = np.random.default_rng(n_rows)
    X = binned(rng, [9, 10, 9, 5, 17 - (dtype == np.uint16), 2, 9], n_rows, dtype, single)
    for first in {0, min(3, n_rows), n_rows // 2}:
        check(rng, X, first, n_rows)


@pytest.mark.parametrize("n", range(1, LOOKUP + 3))
@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
def test_every_number_of_nodes(n, dtype):
    rng = np.random.default_rng(n)
    for single in (False, True):
        check(rng, binned(rng, [n] * 5 + [20], 70, dtype, single), 1, 60)
        check(rng, binned(rng, [20] + [n] * 5, 70, dtype, single), 1, 60)


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_polynomials(degree):
    rng = np.random.default_rng(degree)
    for n_rows in (1, 40, BLOCK + 30):
        check(rng, binned(rng, [8, 1, 70, 3], n_rows), n_rows // 3, n_rows, degree)
        check(rng, binned(rng, [8, 1, 16, 3], n_rows, np.uint16), n_rows // 3, n_rows, degree)


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("n", [255, 256])
def test_many_codes(n, single):
    rng = np.random.default_rng(0)
    check(rng, binned(rng, [n, 9, n, n], 90, np.uint8, single), 4, 88)


@pytest.mark.parametrize("single", [False, True])
def test_curves_are_exact_at_nodes_and_next_to_them(single):
    nodes = np.arange(LOOKUP + 1, dtype=np.float32)
    above, below = np.nextafter(nodes[:-1], np.float32(99)), np.nextafter(nodes[1:], np.float32(0))
    z = np.concatenate([nodes, above, below])[None, :]
    table, out = (-1.0) ** np.arange(LOOKUP + 1), np.empty(z.shape[1])
    matvec_binned(kernel_form(z, np.array([0, LOOKUP + 1]), single), 0, z.shape[1], table, out)
    expected = np.interp(z[0].astype(np.float64), nodes, table)
    np.testing.assert_allclose(out, expected, rtol=0, atol=SINGLE if single else DOUBLE)


def test_the_place_of_a_position_in_single_precision():
    # The next position after node k is in piece k, and node k itself is at the end of piece k − 1.
    k = np.arange(1, 256, dtype=np.float32)
    after = np.nextafter(k, np.float32(999)).astype(np.float64)
    np.testing.assert_array_equal(np.floor(after * SHRINK), k)
    np.testing.assert_array_equal(np.floor(k.astype(np.float64) * SHRINK), k - 1)


def test_an_empty_range_changes_nothing():
    rng = np.random.default_rng(0)
    check(rng, binned(rng, [9, 3], 40), 7, 7)


@pytest.mark.parametrize("single", [False, True])
def test_products_are_transposes_of_each_other(single):
    rng = np.random.default_rng(1)
    X = binned(rng, [9] * 8, 1000, single=single)
    table, u = rng.standard_normal(72), rng.standard_normal(1000)
    out, sums = np.empty(1000), np.zeros(72)
    matvec_binned(X, 0, 1000, table, out)
    rmatvec_binned(X, 0, 1000, u, sums)
    error = SINGLE if single else DOUBLE
    assert abs(u @ out - sums @ table) <= error * (abs(u).sum() + abs(sums) @ abs(table))
