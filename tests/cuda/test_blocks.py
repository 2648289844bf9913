"""What blocks do together, sorting, and the paper's sums, against their definitions."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from numba import cuda, float64, int32

import reference
from linrank.engines.cuda import device
from linrank.engines.cuda.device import (
    bitonic,
    block_max,
    block_sum,
    empty,
    launch,
    sum_before,
    sum_behind,
    to_device,
    zeros,
)
from linrank.engines.cuda.device_kernels import group_queries
from linrank.papers import jin2014

THREADS, GROUP = device.THREADS, device.GROUP


@cuda.jit
def sums_of_block(values, out):
    partial = cuda.shared.array(THREADS, float64)
    i = cuda.threadIdx.x
    out[0, i] = block_sum(values[i], partial)
    out[1, i] = block_max(values[i], partial)
    out[2, i] = sum_before(values[i], 0, THREADS, partial)
    out[3, i] = sum_behind(values[i], THREADS - 1, THREADS, partial)
    out[4, i] = sum_before(values[i], i // 3 * 3, THREADS, partial)
    out[5, i] = sum_behind(values[i], min(i // 3 * 3 + 2, THREADS - 1), THREADS, partial)


@cuda.jit
def sort_in_block(segments, keys, items):
    near_segments = cuda.shared.array(GROUP, int32)
    near_keys = cuda.shared.array(GROUP, float64)
    near_items = cuda.shared.array(GROUP, int32)
    for p in range(cuda.threadIdx.x, len(keys), THREADS):
        near_segments[p], near_keys[p], near_items[p] = segments[p], keys[p], items[p]
    cuda.syncthreads()
    bitonic(near_segments, near_keys, near_items, len(keys))
    for p in range(cuda.threadIdx.x, len(keys), THREADS):
        segments[p], keys[p], items[p] = near_segments[p], near_keys[p], near_items[p]


@pytest.fixture(autouse=True)
def _cuda_of_this_module(monkeypatch):
    """Kernels of tests are swapped as those of the engine are."""
    import sys

    monkeypatch.setitem(sys.modules, "linrank.engines.cuda.tests", sys.modules[__name__])


def test_sums_of_a_block():
    values, out = np.random.default_rng(0).standard_normal(THREADS), zeros((6, THREADS))
    launch(sums_of_block, 1, to_device(values), out)
    total, largest, before, behind, before_in_three, behind_in_three = out.copy_to_host()
    np.testing.assert_allclose(total, values.sum(), rtol=1e-14)
    np.testing.assert_array_equal(largest, values.max())
    for i in range(THREADS):
        first = i // 3 * 3
        assert before[i] == pytest.approx(values[:i].sum(), abs=1e-14)
        assert behind[i] == pytest.approx(values[i + 1 :].sum(), abs=1e-14)
        assert before_in_three[i] == pytest.approx(values[first:i].sum(), abs=1e-14)
        assert behind_in_three[i] == pytest.approx(values[i + 1 : first + 3].sum(), abs=1e-14)


@pytest.mark.parametrize("n", [1, 2, 5, 11, 16])
def test_bitonic_sorts_by_segment_key_and_number(n):
    rng = np.random.default_rng(n)
    segments, keys = rng.integers(0, 3, n), np.round(rng.standard_normal(n))
    keys[rng.random(n) < 0.3] = np.nan
    keys[rng.random(n) < 0.2] = np.inf
    arrays = [to_device(segments, np.int32), to_device(keys), to_device(np.arange(n), np.int32)]
    launch(sort_in_block, 1, *arrays)
    order = np.lexsort((np.arange(n), keys, segments))  # NaN is last here as well
    np.testing.assert_array_equal(arrays[2].copy_to_host(), order)
    np.testing.assert_array_equal(arrays[1].copy_to_host(), keys[order])


def sequences(values, ptr):
    """Return the arguments of `gpu_quicksort`."""
    n = len(values)
    workset = to_device(np.column_stack([ptr[:-1], ptr[1:]]), np.int64)
    d_pri = jin2014.Sequence(to_device(values), to_device(np.arange(n), np.int32))
    return workset, d_pri, jin2014.Sequence(empty(n), empty(n, np.int32))


@pytest.mark.parametrize("kind", ["random", "tied", "equal", "sorted", "reversed", "nan"])
def test_gpu_quicksort_sorts_many_sequences(kind):
    rng = np.random.default_rng(0)
    ptr = np.array([0, 1, 1, 4, 9, 40, 70])  # one node, none, below minsize, above it
    values = rng.standard_normal(70)
    values = {
        "random": values, "tied": np.round(values), "equal": np.zeros(70),
        "sorted": np.sort(values), "reversed": np.sort(values)[::-1],
        "nan": np.where(np.arange(70) % 3, values, np.nan),
    }[kind]  # fmt: skip
    workset, d_pri, d_aux = sequences(values, ptr)
    launch(jin2014.gpu_quicksort, len(workset), workset, d_pri, d_aux)
    expected = np.concatenate(
        [a + np.argsort(values[a:b], kind="stable") for a, b in pairwise(ptr)]
    )
    np.testing.assert_array_equal(d_pri.id.copy_to_host(), expected)
    np.testing.assert_array_equal(d_pri.value.copy_to_host(), values[expected])


def test_p_swx_sums_over_the_sets_of_the_paper():
    """β, α, γ by their definition (eqs. 9 and 10), pair by pair; with ties at the margin.

    α and γ are relative to the document's own value, which β times is taken from the paper's.
    """
    rng = np.random.default_rng(1)
    ptr, n = np.array([0, 7, 8, 25]), 25
    y, s = rng.integers(0, 3, n).astype(float), np.round(2 * rng.standard_normal(n)) / 2
    Xv, qid = rng.standard_normal(n), np.repeat([0, 1, 2], np.diff(ptr))
    workset, d_pri, d_aux = sequences(s, ptr)
    sums = jin2014.Sums(*(empty(n) for _ in jin2014.Sums._fields))
    launch(jin2014.gpu_quicksort, 3, workset, d_pri, d_aux)
    launch(jin2014.p_swx, 3, workset, d_pri, to_device(y), to_device(Xv), sums)
    expected = np.zeros((7, n))
    for i, j in reference.preference_pairs(y, qid):
        if 1 - (s[i] - s[j]) > 0:
            for doc, other, side in ((j, i, 0), (i, j, 1)):
                apart = [1, Xv[other] - Xv[doc], s[other] - s[doc]]
                expected[[side, 2 + side, 4 + side], doc] += apart
            expected[6, j] += (1 - (s[i] - s[j])) ** 2
    found = np.array([array.copy_to_host() for array in sums])
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_groups_hold_queries_of_one_part():
    device, part = np.array([3, 4, 2, 8, 1, 1]), np.array([0, 0, 0, 0, 0, 1])
    assert group_queries(device, part, 8).tolist() == [0, 2, 3, 4, 5, 6]
    assert group_queries(device, part, 100).tolist() == [0, 5, 6]
