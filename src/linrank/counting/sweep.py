"""Sums over preference pairs by sweeps through the documents in order of their scores.

For the documents p = 0, …, n − 1 of one query by increasing score,

    above[p] = Σ x[j]  over j < high[p] with level[j] > level[p],
    below[p] = Σ x[j]  over j ≥ low[p]  with level[j] < level[p].

Let high[p] be the number of documents with s_j − s_p < τ, and low[p] the first document with s_p −
s_j < τ. Then above and below are the sums over the active partners of p: γ⁺ and γ⁻ of Lee & Lin
2014, §2.2, and with x = 1 their l⁺ and l⁻. `sweep` is their algorithm 2.

A sweep inserts documents into a data structure, one of `STRUCTURES`: level counters (§2.2), search
trees keyed by the label or by the score (§2.3), the selection tree (§2.4), or a binary indexed
tree.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._jit import njit
from .._typing import Integers, Vector
from . import aa, avl, direct, fenwick, red_black, selection_tree
from .search_tree import Tree, add, add_leaf, clear, larger, make_tree, smaller

DIRECT, SELECTION_TREE, FENWICK, RED_BLACK, AVL, AA, RED_BLACK_BY_SCORE = range(7)

#: The data structures of `sweep`, by the name of their counting.
STRUCTURES = {
    "direct": DIRECT,
    "selection-tree": SELECTION_TREE,
    "fenwick": FENWICK,
    "red-black": RED_BLACK,
    "avl": AVL,
    "aa": AA,
    "red-black-by-score": RED_BLACK_BY_SCORE,
}


class SweepWork(NamedTuple):
    """Buffers of `sweep`: sums over levels, a tree, and the documents by level.

    Examples
    --------
    >>> work = make_work(n=100, k=5)
    >>> len(work.sums), len(work.tree.nodes), len(work.docs), len(work.start)
    (24, 102, 100, 7)
    """

    sums: Vector
    tree: Tree
    docs: NDArray[np.int32]
    start: Integers


def make_work(n: int, k: int) -> SweepWork:
    """Allocate buffers for queries of up to n documents and k levels, for any structure."""
    return SweepWork(
        sums=np.empty(4 * k + 4),  # selection tree: 2·2^⌈log2 k⌉; Fenwick trees: 2k + 2
        tree=make_tree(n),
        docs=np.empty(n, np.int32),
        start=np.empty(k + 2, np.int64),
    )


@njit
def sweep(structure, level, k, x, high, low, above, below, work):  # type: ignore[no-untyped-def]
    """Fill ``above`` and ``below`` for one query, whose levels are in 0, …, k − 1.

    ``structure`` is a value of `STRUCTURES`; ``high`` and ``low`` do not decrease.

    Examples
    --------
    Figure 1 of Lee & Lin (2014): of the first six documents, four have a label above 4.

    >>> label = np.array([4, 7, 9, 9, 2, 11, 5, 7])
    >>> level = np.unique(label, return_inverse=True)[1].astype(np.int32)
    >>> high = np.array([6, 6, 7, 7, 8, 8, 8, 8], np.uint32)
    >>> low = np.array([0, 0, 0, 0, 0, 0, 2, 4], np.uint32)
    >>> above, below = np.empty((2, 8))
    >>> work = make_work(n=8, k=6)
    >>> sweep(STRUCTURES["red-black"], level, 6, np.ones(8), high, low, above, below, work)
    >>> above.tolist()
    [4.0, 3.0, 1.0, 1.0, 7.0, 0.0, 5.0, 3.0]
    """
    if structure == RED_BLACK_BY_SCORE:
        _sweep_by_level(structure, level, k, x, high, low, above, below, work)
    elif structure == DIRECT:
        _sweep_sums(structure, level, x, high, low, above, below, work.sums[:k])
    elif structure == SELECTION_TREE:
        sums = work.sums[: 2 * selection_tree.n_leaves(k)]
        _sweep_sums(structure, level, x, high, low, above, below, sums)
    elif structure == FENWICK:
        fenwick.sweep(level, k, x, high, low, above, below, work.sums)
    else:
        _sweep_tree(structure, level, x, high, low, above, below, work.tree)


@njit(inner=True)
def _sweep_sums(structure, level, x, high, low, above, below, sums):  # type: ignore[no-untyped-def]
    """Algorithm 2 of Lee & Lin (2014), with an array of sums over levels."""
    n = len(level)
    sums[:] = 0.0
    j = 0
    for p in range(n):
        while j < high[p]:
            _insert(structure, sums, np.int64(level[j]), x[j])
            j += 1
        above[p] = _larger(structure, sums, np.int64(level[p]))
    sums[:] = 0.0
    j = n
    for p in range(n - 1, -1, -1):
        while j > low[p]:
            j -= 1
            _insert(structure, sums, np.int64(level[j]), x[j])
        below[p] = _smaller(structure, sums, np.int64(level[p]))


@njit(inner=True)
def _insert(structure, sums, level, x):  # type: ignore[no-untyped-def]
    if structure == DIRECT:
        direct.insert(sums, level, x)
    else:
        selection_tree.insert(sums, level, x)


@njit(inner=True)
def _larger(structure, sums, level):  # type: ignore[no-untyped-def]
    if structure == DIRECT:
        return direct.larger(sums, level)
    return selection_tree.larger(sums, level)


@njit(inner=True)
def _smaller(structure, sums, level):  # type: ignore[no-untyped-def]
    if structure == DIRECT:
        return direct.smaller(sums, level)
    return selection_tree.smaller(sums, level)


@njit(inner=True)
def _sweep_tree(structure, level, x, high, low, above, below, tree):  # type: ignore[no-untyped-def]
    """Algorithm 2 of Lee & Lin (2014), with a search tree keyed by level."""
    nodes, sums, path = tree
    n = len(level)
    clear(nodes)
    j = 0
    for p in range(n):
        while j < high[p]:
            depth = add(nodes, sums, path, level[j], x[j])
            if depth > 0:
                grow(structure, nodes, sums, path, depth, level[j], x[j])
            j += 1
        above[p] = larger(nodes, sums, level[p])
    clear(nodes)
    j = n
    for p in range(n - 1, -1, -1):
        while j > low[p]:
            j -= 1
            depth = add(nodes, sums, path, level[j], x[j])
            if depth > 0:
                grow(structure, nodes, sums, path, depth, level[j], x[j])
        below[p] = smaller(nodes, sums, level[p])


@njit(inner=True)
def grow(structure, nodes, sums, path, depth, key, x):  # type: ignore[no-untyped-def]
    """Append a node for a new key where `add` found none, and balance the tree."""
    add_leaf(nodes, sums, path, depth, key, x)
    if structure == AVL:
        avl.rebalance(nodes, sums, path, depth)
    elif structure == AA:
        aa.rebalance(nodes, sums, path, depth)
    else:
        red_black.rebalance(nodes, sums, path, depth)


@njit(inner=True)
def _sweep_by_level(structure, level, k, x, high, low, above, below, work):  # type: ignore[no-untyped-def]
    """Insert documents by level, with scores as keys (Lee & Lin 2014, end of §2.3).

    The documents are sorted by score, so the position of a document serves as its key.
    """
    docs, start = work.docs[: len(level)], work.start[: k + 2]
    nodes, sums, path = work.tree
    _order_by_level(level, docs, start)
    clear(nodes)
    for c in range(k - 1, -1, -1):
        for p in docs[start[c] : start[c + 1]]:
            above[p] = smaller(nodes, sums, np.int32(high[p]))
        for p in docs[start[c] : start[c + 1]]:
            depth = add(nodes, sums, path, p, x[p])
            grow(structure, nodes, sums, path, depth, p, x[p])
    clear(nodes)
    for c in range(k):
        for p in docs[start[c] : start[c + 1]]:
            below[p] = larger(nodes, sums, np.int32(low[p]) - 1)
        for p in docs[start[c] : start[c + 1]]:
            depth = add(nodes, sums, path, p, x[p])
            grow(structure, nodes, sums, path, depth, p, x[p])


@njit(inner=True)
def _order_by_level(level, docs, start):  # type: ignore[no-untyped-def]
    """Sort documents by level with a counting sort.

    The documents of level c become ``docs[start[c]:start[c + 1]]``.
    """
    start[:] = 0
    for p in range(len(level)):
        start[level[p] + 2] += 1
    for c in range(2, len(start)):
        start[c] += start[c - 1]
    for p in range(len(level)):  # start[c + 1] moves to the end of level c
        docs[start[level[p] + 1]] = p
        start[level[p] + 1] += 1
