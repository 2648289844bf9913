"""SIMD vectors of four numbers, and kernels that must not allocate arrays."""

import numpy as np
import pytest
from numba.core import config
from numba.core.errors import NumbaError

from linrank._jit import njit
from linrank._simd import WIDTH, add_product, load, store

compiled = pytest.mark.skipif(config.DISABLE_JIT, reason="nothing is compiled")


@njit
def add_rows(weights, rows, out):
    total = load(out, 0)
    for i in range(len(weights)):
        total = add_product(total, weights[i], load(rows, i * WIDTH))
    store(out, 0, total)


@pytest.mark.interpreted
def test_sums_run_side_by_side():
    rng = np.random.default_rng(0)
    weights, rows = rng.standard_normal(7), rng.standard_normal((7, WIDTH))
    out = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    add_rows(weights, rows.ravel(), out)
    np.testing.assert_allclose(out[:WIDTH], np.arange(1.0, 5.0) + weights @ rows)
    assert out[WIDTH] == 5.0


@pytest.mark.interpreted
def test_infinity_and_nan_keep_their_meaning():
    out = np.zeros(WIDTH)
    add_rows(np.array([1.0, 0.0]), np.array([np.inf, 1.0, 2.0, 3.0, 0.0, np.nan, 1.0, 1.0]), out)
    np.testing.assert_array_equal(out, [np.inf, np.nan, 2.0, 3.0])


@compiled
def test_a_kernel_that_allocates_must_say_so():
    def unsaid(x):
        return np.empty(len(x))

    def said(x):
        return np.empty(len(x))

    with pytest.raises(NumbaError, match="empty"):
        njit(unsaid)(np.ones(3))
    assert len(njit(allocates=True)(said)(np.ones(3))) == 3
