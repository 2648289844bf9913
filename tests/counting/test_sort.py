"""Sorting of documents by key, with one thread and with several."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from linrank._compile.jit import njit
from linrank.counting.sort import RUN, SHORT, sort_by_key, sort_in_threads

# Without compilation, numpy warns of keys that are not finite.
pytestmark = [pytest.mark.interpreted, pytest.mark.filterwarnings("ignore::RuntimeWarning")]


@njit
def sort_list(keys, docs, tmp_keys, tmp_docs):
    sort_by_key(keys, docs, tmp_keys, tmp_docs)


def sort_all(keys, docs, n_threads=None):
    """Return the sorted documents, after a check that their keys are left in the buffer."""
    docs = docs.astype(np.uint32)
    tmp_keys, tmp_docs = np.empty(2 * len(docs)), np.empty(2 * len(docs), np.uint32)
    if n_threads is None:
        sort_list(keys, docs, tmp_keys, tmp_docs)
    else:
        sort_in_threads(keys, docs, tmp_keys, tmp_docs, n_threads)
    np.testing.assert_array_equal(tmp_keys[: len(docs)], keys[docs])
    return docs.tolist()


def make_keys(kind, n, rng):
    z = rng.standard_normal(n)
    return {
        "normal": lambda: z,
        "heavy tails": lambda: np.exp(5 * z),
        "offset": lambda: 1e8 + z,
        "rounded": lambda: np.round(z, 1),
        "few values": lambda: rng.integers(0, 3, n).astype(float),
        "equal": lambda: np.full(n, 0.1),
        "half zero": lambda: np.where(z > 0, 0.0, z),
        "signed zeros": lambda: np.where(z > 0, 0.0, -0.0),
        "outlier": lambda: np.where(np.arange(n) == n // 2, 1e12, z),
        "two scales": lambda: np.where(np.arange(n) % 2 == 0, z, 50 + 1e-6 * z),
        "neighbours": lambda: 1.0 + np.spacing(1.0) * rng.integers(0, n, n),
        "subnormal": lambda: 5e-324 * rng.integers(-n, n, n),
        "huge": lambda: 1e308 * np.tanh(z),
        "infinite": lambda: np.where(z > 1, np.inf, np.where(z < -1, -np.inf, z)),
        "rising": lambda: np.sort(z),
        "falling": lambda: -np.sort(z),
    }[kind]()


KINDS = (
    "normal", "heavy tails", "offset", "rounded", "few values", "equal", "half zero",
    "signed zeros", "outlier", "two scales", "neighbours", "subnormal", "huge", "infinite",
    "rising", "falling",
)  # fmt: skip


@pytest.mark.parametrize("n_threads", [None, 1, 2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_order_equals_slow_twin(kind, n_threads):
    """Lists are sorted from row order, from an unrelated order, and from the order of near keys."""
    rng = np.random.default_rng(0)
    for n in (1, 2, RUN + 1, SHORT, SHORT + 1, 300):
        keys = make_keys(kind, n, rng)
        near = np.argsort(keys + 1e-3 * rng.standard_normal(n))
        slow = reference.sorted_documents(keys, np.arange(n))
        for docs in (np.arange(n), rng.permutation(n), near):
            assert sort_all(keys, docs, n_threads) == slow


@pytest.mark.parametrize("n_threads", [None, 2])
def test_a_part_of_the_documents(n_threads):
    rng = np.random.default_rng(0)
    keys, docs = np.round(rng.standard_normal(500), 1), rng.permutation(500)[:200]
    assert sort_all(keys, docs, n_threads) == reference.sorted_documents(keys, docs)


@settings(deadline=None, max_examples=100)
@given(
    st.lists(st.floats(allow_nan=False) | st.sampled_from([0.0, -0.0, 1.0]), min_size=1),
    st.integers(1, 40),
    st.integers(1, 4),
    st.randoms(use_true_random=False),
)
def test_any_keys(few, copies, n_threads, random):
    keys = np.array(few * copies)
    docs = list(range(len(keys)))
    random.shuffle(docs)
    slow = reference.sorted_documents(keys, docs)
    assert sort_all(keys, np.array(docs)) == slow
    assert sort_all(keys, np.array(docs), n_threads) == slow


def test_keys_that_are_not_numbers_lose_no_document():
    rng = np.random.default_rng(0)
    for share in (0.01, 0.5, 1.0):
        keys = np.where(rng.random(300) < share, np.nan, rng.standard_normal(300))
        docs, tmp_docs = rng.permutation(300).astype(np.uint32), np.empty(600, np.uint32)
        sort_list(keys, docs, np.empty(600), tmp_docs)
        assert sorted(docs.tolist()) == list(range(300))
        sort_in_threads(keys, docs, np.empty(600), tmp_docs, 3)
        assert sorted(docs.tolist()) == list(range(300))
