"""SIMD vectors of four and eight numbers, and kernels that must not allocate arrays."""

import numpy as np
import pytest
from numba.core import config
from numba.core.errors import NumbaError

from linrank._compile.jit import njit
from linrank._compile.simd import add_product, eight, four, load, store

compiled = pytest.mark.skipif(config.DISABLE_JIT, reason="nothing is compiled")


@njit
def add_rows(weights, rows, wide, out):
    if wide:
        add_vectors(weights, rows, eight(), 8, out)
    else:
        add_vectors(weights, rows, four(), 4, out)


@njit(inner=True)
def add_vectors(weights, rows, zeros, width, out):
    total = load(zeros, out, 0)
    for i in range(len(weights)):
        total = add_product(total, weights[i], load(zeros, rows, i * width))
    store(out, 0, total)


@pytest.mark.interpreted
@pytest.mark.parametrize("width", [4, 8])
def test_sums_run_side_by_side(width):
    rng = np.random.default_rng(0)
    weights, rows = rng.standard_normal(7), rng.standard_normal((7, width))
    out = np.arange(width + 1.0)
    add_rows(weights, rows.ravel(), width == 8, out)
    np.testing.assert_allclose(out[:width], np.arange(width) + weights @ rows)
    assert out[width] == width


@pytest.mark.interpreted
@pytest.mark.parametrize("zeros", [four, eight])
def test_vectors_start_from_zero(zeros):
    out = np.ones(9)
    add_rows(np.ones(1), np.zeros(8), zeros is eight, out)
    np.testing.assert_array_equal(out, 1.0)
    assert not zeros().any()


@pytest.mark.interpreted
def test_infinity_and_nan_keep_their_meaning():
    out, rows = np.zeros(4), np.array([np.inf, 1.0, 2.0, 3.0, 0.0, np.nan, 1.0, 1.0])
    add_rows(np.array([1.0, 0.0]), rows, False, out)
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
