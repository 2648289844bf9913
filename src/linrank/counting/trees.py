"""Sums over preference pairs by sweeps with an order-statistic structure.

This is algorithm 2 of Lee & Lin 2014 in the form that the losses need. `count_active` sorts the
documents of a query by score, and finds where the active partners of each document end.
`add_pair_sums` sweeps over the sorted documents, with one of `linrank.counting.trees.STRUCTURES`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._compile.jit import njit
from .._util.types import Integers, Vector
from .plan import LEVELS, START, LevelComparison, NodeLayout, plan_pairs
from .sort import sort_by_key

# --------------------------------------------------------------------------------------------------
# Order-statistic trees: binary search trees that store the sum of every subtree.
#
#     total(y) = total(left child of y) + total(right child of y) + value(y)
#
# Here value(y) is the sum of x_j over the documents inserted under the key y (Lee & Lin 2014, eqs.
# 25 and 28). This module has the operations that all such trees share: the search for a key,
# rotations, and the sums over all keys on one side of a key. The modules `red_black`, `avl` and
# `aa` keep trees balanced.
#
# The kernels take the arrays of a `Tree` one by one. They run once per document, and numba would
# count references to arrays that are taken out of a tuple.


LEFT, RIGHT, KEY, BALANCE = range(4)  #: columns of `Tree.nodes`
VALUE, TOTAL = range(2)  #: columns of `Tree.sums`
NIL, HEAD = range(2)  #: the two nodes without a key
MAX_DEPTH = 64  #: largest depth of a tree; 2·log2(n + 1) for n = 2^31 keys is 62


class SearchTree(NamedTuple):
    """A tree in arrays, with one row per node.

    ``nodes`` has the left child, the right child, the key, and the colour, height or level that
    balances the tree. ``sums`` has the value of a node and the total of its subtree. ``path`` has
    the nodes from the head down to the latest key.

    Node NIL stands for a missing child, and its total is 0. Node HEAD is above the root, which is
    its right child, and its key is below all others. The place of its left child has the number of
    the latest node.

    Examples
    --------
    >>> tree = make_tree(5)
    >>> tree.nodes.shape, tree.sums.shape
    ((7, 4), (7, 2))
    """

    nodes: NDArray[np.int32]
    sums: Vector
    path: NDArray[np.int32]


def make_tree(n: int) -> SearchTree:
    """Allocate a tree for n keys of at least 0; it must be cleared before use."""
    nodes = np.zeros((n + 2, 4), np.int32)
    nodes[HEAD, KEY] = -1
    return SearchTree(nodes, sums=np.zeros((n + 2, 2)), path=np.full(MAX_DEPTH + 2, HEAD, np.int32))


@njit(inner=True)
def clear(nodes):  # type: ignore[no-untyped-def]
    """Remove all keys."""
    nodes[HEAD, LEFT] = HEAD
    nodes[HEAD, RIGHT] = NIL


@njit(inner=True)
def add(nodes, sums, path, key, x):  # type: ignore[no-untyped-def]
    """Add x to the totals on the path down to a key, and to the node of the key if it exists.

    Returns the depth at which the node of the key is missing, or 0 if it exists.
    """
    node, depth = nodes[HEAD, RIGHT], 1
    while node != NIL and nodes[node, KEY] != key:
        path[depth] = node
        sums[node, TOTAL] += x
        node = nodes[node, RIGHT if key > nodes[node, KEY] else LEFT]
        depth += 1
    if node != NIL:
        sums[node, VALUE] += x
        sums[node, TOTAL] += x
        depth = 0
    return depth


@njit(inner=True)
def add_leaf(nodes, sums, path, depth, key, x):  # type: ignore[no-untyped-def]
    """Append a new node for a key to the path."""
    node = nodes[HEAD, LEFT] + 1
    nodes[HEAD, LEFT] = node
    nodes[node, LEFT] = NIL
    nodes[node, RIGHT] = NIL
    nodes[node, KEY] = key
    nodes[node, BALANCE] = 1  # colour red, height 1 or level 1
    sums[node, VALUE] = x
    sums[node, TOTAL] = x
    path[depth] = node
    attach(nodes, path, depth, node)


@njit(inner=True)
def attach(nodes, path, depth, node):  # type: ignore[no-untyped-def]
    """Make a node the child of the node before it on the path."""
    parent = path[depth - 1]
    nodes[parent, RIGHT if nodes[node, KEY] > nodes[parent, KEY] else LEFT] = node


@njit(inner=True)
def rotate(nodes, sums, node, side):  # type: ignore[no-untyped-def]
    """Move a node down to the given side and its other child into its place; return that child."""
    top = nodes[node, 1 - side]
    nodes[node, 1 - side] = nodes[top, side]
    nodes[top, side] = node
    left, right = nodes[node, LEFT], nodes[node, RIGHT]
    sums[top, TOTAL] = sums[node, TOTAL]
    sums[node, TOTAL] = sums[left, TOTAL] + sums[right, TOTAL] + sums[node, VALUE]
    return top


@njit(inner=True)
def larger(nodes, sums, key):  # type: ignore[no-untyped-def]
    """Return the sum of all x added under larger keys: Larger of Lee & Lin (2014), eq. 26."""
    node, sum_ = nodes[HEAD, RIGHT], 0.0
    while node != NIL:
        if nodes[node, KEY] > key:
            sum_ += sums[node, VALUE] + sums[nodes[node, RIGHT], TOTAL]
            node = nodes[node, LEFT]
        else:
            node = nodes[node, RIGHT]
    return sum_


@njit(inner=True)
def smaller(nodes, sums, key):  # type: ignore[no-untyped-def]
    """Return the sum of all x that were added under smaller keys."""
    node, sum_ = nodes[HEAD, RIGHT], 0.0
    while node != NIL:
        if nodes[node, KEY] < key:
            sum_ += sums[node, VALUE] + sums[nodes[node, LEFT], TOTAL]
            node = nodes[node, RIGHT]
        else:
            node = nodes[node, LEFT]
    return sum_


# --------------------------------------------------------------------------------------------------
# The AA tree (Andersson 1993): a red-black tree without red left children.
#
# The tree is balanced by levels of nodes, which are not the levels of labels:
#
# - a leaf has level 1;
# - a left child is one level below its parent;
# - a right child may have the level of its parent, but then its own right child is below;
# - a node above level 1 has two children.
#
# The depth of a tree with n keys is therefore at most 2·log2(n + 1).


@njit(inner=True)
def rebalance_aa(nodes, sums, path, depth):  # type: ignore[no-untyped-def]
    """Restore the balance above a new leaf: skew and split all nodes on the path."""
    for d in range(depth - 1, 0, -1):
        node = path[d]
        if nodes[nodes[node, LEFT], BALANCE] == nodes[node, BALANCE]:
            node = rotate(nodes, sums, node, RIGHT)  # skew: lift a left child on the same level
        last = nodes[nodes[node, RIGHT], RIGHT]
        if nodes[last, BALANCE] == nodes[node, BALANCE]:
            node = rotate(nodes, sums, node, LEFT)  # split: lift the middle of three
            nodes[node, BALANCE] += 1
        attach(nodes, path, d, node)


# --------------------------------------------------------------------------------------------------
# The AVL tree (Adelson-Velsky & Landis 1962): balanced by heights.
#
# The heights of the two children of a node differ by at most one. The depth of a tree with n keys
# is therefore at most 1.45·log2(n + 2).


@njit(inner=True)
def rebalance_avl(nodes, sums, path, depth):  # type: ignore[no-untyped-def]
    """Restore the balance above a new leaf, up to the first subtree whose height is unchanged."""
    for d in range(depth - 1, 0, -1):
        node = path[d]
        side = LEFT if _height(nodes, node, LEFT) > _height(nodes, node, RIGHT) else RIGHT
        if _height(nodes, node, side) > _height(nodes, node, 1 - side) + 1:
            child = nodes[node, side]
            if _height(nodes, child, 1 - side) > _height(nodes, child, side):
                nodes[node, side] = _rotate(nodes, sums, child, side)
            attach(nodes, path, d, _rotate(nodes, sums, node, 1 - side))
            break  # the rotation has restored the height that the subtree had before
        if nodes[node, BALANCE] > _height(nodes, node, side):
            break
        nodes[node, BALANCE] += 1


@njit(inner=True)
def _height(nodes, node, side):  # type: ignore[no-untyped-def]
    """Return the height of a child of a node."""
    return nodes[nodes[node, side], BALANCE]


@njit(inner=True)
def _rotate(nodes, sums, node, side):  # type: ignore[no-untyped-def]
    """Rotate, and update the heights of the two nodes that moved, the lower one first."""
    top = rotate(nodes, sums, node, side)
    for moved in (node, top):
        higher = max(_height(nodes, moved, LEFT), _height(nodes, moved, RIGHT))
        nodes[moved, BALANCE] = higher + 1
    return top


# --------------------------------------------------------------------------------------------------
# The red-black tree (Bayer 1972): balanced by colours.
#
# The root is black, a red node has black children, and all paths from the root down to nil have the
# same number of black nodes. No path is therefore more than twice as long as another, and the depth
# of a tree with n keys is at most 2·log2(n + 1).


BLACK, RED = range(2)  #: the values of BALANCE


@njit(inner=True)
def rebalance_red_black(nodes, sums, path, depth):  # type: ignore[no-untyped-def]
    """Restore the colours above a new red leaf, whose parent may be red too."""
    while nodes[path[depth - 1], BALANCE] == RED:  # the root and the head are black
        node, parent, grandparent = path[depth], path[depth - 1], path[depth - 2]
        side = LEFT if parent == nodes[grandparent, LEFT] else RIGHT
        uncle = nodes[grandparent, 1 - side]
        if nodes[uncle, BALANCE] == RED:  # recolour: the grandparent becomes red
            nodes[uncle, BALANCE] = BLACK
            nodes[parent, BALANCE] = BLACK
            nodes[grandparent, BALANCE] = RED
            depth -= 2
        else:
            if node == nodes[parent, 1 - side]:
                nodes[grandparent, side] = rotate(nodes, sums, parent, side)
            top = rotate(nodes, sums, grandparent, 1 - side)
            nodes[top, BALANCE] = BLACK
            nodes[grandparent, BALANCE] = RED
            attach(nodes, path, depth - 2, top)
            break
    nodes[nodes[HEAD, RIGHT], BALANCE] = BLACK


# --------------------------------------------------------------------------------------------------
# The selection tree: levels in the leaves of a full binary tree (Lee & Lin 2014, §2.4–2.5).
#
#     Larger(m) = Larger(parent of m) + (sum of the sibling of m, if m is a left child)
#
# The tree is implicit, after Knuth: node 2^⌈log2 k⌉ + c is the leaf of level c, node ⌊m/2⌋ is the
# parent of node m, and odd nodes are right children. The second half of the array ``sums`` has the
# leaves. The root, node 1, has no sibling, so its sum is not needed. Every operation costs O(log
# k).


@njit(inner=True)
def n_leaves(k):  # type: ignore[no-untyped-def]
    """Return 2^⌈log2 k⌉, for k ≥ 1."""
    n = 1
    while n < k:
        n *= 2
    return n


@njit(inner=True)
def insert_in_selection(sums, level, x):  # type: ignore[no-untyped-def]
    """Add x under a level."""
    m = len(sums) // 2 + level
    while m > 1:
        sums[m] += x
        m //= 2


@njit(inner=True)
def larger_in_selection(sums, level):  # type: ignore[no-untyped-def]
    """Return the sum of all x that were added under higher levels."""
    m, sum_ = len(sums) // 2 + level, 0.0
    while m > 1:
        if m % 2 == 0:
            sum_ += sums[m + 1]
        m //= 2
    return sum_


@njit(inner=True)
def smaller_in_selection(sums, level):  # type: ignore[no-untyped-def]
    """Return the sum of all x that were added under lower levels."""
    m, sum_ = len(sums) // 2 + level, 0.0
    while m > 1:
        if m % 2 == 1:
            sum_ += sums[m - 1]
        m //= 2
    return sum_


# --------------------------------------------------------------------------------------------------
# Level counters: one running sum per level (Lee & Lin 2014, end of §2.2).
#
# An insertion is one addition. The queries Larger and Smaller sum the levels on one side: O(k).


@njit(inner=True)
def insert_directly(sums, level, x):  # type: ignore[no-untyped-def]
    """Add x under a level."""
    sums[level] += x


@njit(fast=True, inner=True)
def larger_directly(sums, level):  # type: ignore[no-untyped-def]
    """Return the sum of all x that were added under higher levels."""
    sum_ = 0.0
    for c in range(level + 1, len(sums)):
        sum_ += sums[c]
    return sum_


@njit(fast=True, inner=True)
def smaller_directly(sums, level):  # type: ignore[no-untyped-def]
    """Return the sum of all x that were added under lower levels."""
    sum_ = 0.0
    for c in range(level):
        sum_ += sums[c]
    return sum_


# --------------------------------------------------------------------------------------------------
# The binary indexed tree over levels (Fenwick 1994): O(log k) per operation, in k + 1 sums.
#
#   sums[m] = the sum of all x added under the keys m − b, …, m − 1, with b the lowest set bit of m.
#
# Two sweeps run in the same loop, each with a tree of its own. The upward sweep sums the partners
# above; its keys are levels counted from the top. The downward sweep sums the partners below. The
# two sweeps are independent, so the processor overlaps them, and both take little longer than one.
# Nothing is subtracted, so no digits are lost.


@njit(inner=True)
def sweep_fenwick(level, k, x, high, low, above, below, sums):  # type: ignore[no-untyped-def]
    """Fill ``above`` and ``below`` (see `linrank.counting.trees`); ``sums`` has 2k + 2 places."""
    higher, lower = sums[: k + 1], sums[k + 1 : 2 * k + 2]
    sums[: 2 * k + 2] = 0.0
    n = len(level)
    j, i = 0, n
    for p in range(n):
        while j < high[p]:
            insert_in_fenwick(higher, k - 1 - level[j], x[j])
            j += 1
        above[p] = smaller_in_fenwick(higher, k - 1 - level[p])
        r = n - 1 - p
        while i > low[r]:
            i -= 1
            insert_in_fenwick(lower, level[i], x[i])
        below[r] = smaller_in_fenwick(lower, level[r])


@njit(inner=True)
def insert_in_fenwick(sums, key, x):  # type: ignore[no-untyped-def]
    """Add x under a key."""
    m = key + 1
    while m < len(sums):
        sums[m] += x
        m += m & -m


@njit(inner=True)
def smaller_in_fenwick(sums, key):  # type: ignore[no-untyped-def]
    """Return the sum of all x that were added under lower keys."""
    m, sum_ = key, 0.0
    while m > 0:
        sum_ += sums[m]
        m &= m - 1
    return sum_


# --------------------------------------------------------------------------------------------------
# Sums over preference pairs by sweeps through the documents in order of their scores.
#
# For the documents p = 0, …, n − 1 of one query by increasing score,
#
#     above[p] = Σ x[j]  over j < high[p] with level[j] > level[p],
#     below[p] = Σ x[j]  over j ≥ low[p]  with level[j] < level[p].
#
# Let high[p] be the number of documents with s_j − s_p < τ, and low[p] the first document with s_p
# − s_j < τ. Then above and below are the sums over the active partners of p: γ⁺ and γ⁻ of Lee & Lin
# 2014, §2.2, and with x = 1 their l⁺ and l⁻. `sweep` is their algorithm 2.
#
# A sweep inserts documents into a data structure, one of `STRUCTURES`: level counters (§2.2),
# search trees keyed by the label or by the score (§2.3), the selection tree (§2.4), or a binary
# indexed tree.


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
    tree: SearchTree
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
        sums = work.sums[: 2 * n_leaves(k)]
        _sweep_sums(structure, level, x, high, low, above, below, sums)
    elif structure == FENWICK:
        sweep_fenwick(level, k, x, high, low, above, below, work.sums)
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
        insert_directly(sums, level, x)
    else:
        insert_in_selection(sums, level, x)


@njit(inner=True)
def _larger(structure, sums, level):  # type: ignore[no-untyped-def]
    if structure == DIRECT:
        return larger_directly(sums, level)
    return larger_in_selection(sums, level)


@njit(inner=True)
def _smaller(structure, sums, level):  # type: ignore[no-untyped-def]
    if structure == DIRECT:
        return smaller_directly(sums, level)
    return smaller_in_selection(sums, level)


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
        rebalance_avl(nodes, sums, path, depth)
    elif structure == AA:
        rebalance_aa(nodes, sums, path, depth)
    else:
        rebalance_red_black(nodes, sums, path, depth)


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


# --------------------------------------------------------------------------------------------------
# Sums over preference pairs by sweeps with an order-statistic structure.


class TreeState(NamedTuple):
    """The active pairs at the scores last linearised.

    ``docs`` has the documents of each query by increasing score, and ``level`` their levels. For
    each hinge and position, ``high`` is the number of documents with s_j − s_i < τ, and ``low``
    the first document with s_i − s_j < τ. ``curvature`` has, for each document, the sum of the
    second derivatives of its active pairs. ``structure`` is a value of `STRUCTURES`.
    """

    docs: NDArray[np.uint32]
    level: NDArray[np.int32]
    high: NDArray[np.uint32]
    low: NDArray[np.uint32]
    curvature: Vector
    structure: int


class TreeScratch(NamedTuple):
    """Buffers of one thread, large enough for its largest query."""

    keys: Vector
    docs: NDArray[np.uint32]
    values: Vector
    sums: Vector
    ranked: Vector
    above: Vector
    below: Vector
    work: SweepWork


@njit(inner=True)
def count_active(plan, state, q, scores, hinges, x, scratch, sums):  # type: ignore[no-untyped-def]
    """Find the active pairs of query q for each hinge, and compute sums of weights x over them."""
    _find_active(plan, state, q, scores, hinges.tau, scratch)
    sums[:] = 0.0
    add_pair_sums(plan, state, q, x, hinges.counts, 1.0, scratch, sums)


@njit(inner=True)
def _find_active(plan, state, q, scores, taus, scratch):  # type: ignore[no-untyped-def]
    """Find the active pairs of query q for each hinge τ: s_i − s_j < τ."""
    node = plan.query_nodes[q]
    a, b = plan.nodes[node, START], plan.nodes[node + 1, START]
    docs, ranked, n = state.docs[a:b], scratch.keys, b - a
    sort_by_key(scores, docs, scratch.keys, scratch.docs)
    for p in range(n):
        state.level[a + p] = plan.level[plan.query_ptr[q] + docs[p]]
    for t in range(len(taus)):
        high, low = 0, 0
        for p in range(n):
            while high < n and ranked[high] - ranked[p] < taus[t]:
                high += 1
            while low < n and ranked[p] - ranked[low] >= taus[t]:
                low += 1
            state.high[t, a + p], state.low[t, a + p] = high, low


@njit(inner=True)
def add_pair_sums(plan, state, q, x, wanted, factor, scratch, out):  # type: ignore[no-untyped-def]
    """Add the `Wanted` sums of x over the active partners of every document of query q."""
    node = plan.query_nodes[q]
    a, b = plan.nodes[node, START], plan.nodes[node + 1, START]
    docs, ranked, n = state.docs[a:b], scratch.ranked[: b - a], b - a
    above, below = scratch.above[:n], scratch.below[:n]
    for p in range(n):
        ranked[p] = x[docs[p]]
    for t in range(len(state.high)):
        sweep(
            state.structure, state.level[a:b], plan.nodes[node, LEVELS], ranked,
            state.high[t, a:b], state.low[t, a:b], above, below, scratch.work,
        )  # fmt: skip
        for r in range(len(out)):
            scale, sign = factor * wanted.scale[r, t], wanted.sign[r]
            for p in range(n):
                out[r, docs[p]] += scale * (above[p] + sign * below[p])


# --------------------------------------------------------------------------------------------------
# Layout of pairs in one node per query, for the sweeps.


@dataclass(frozen=True)
class TreeLayout(NodeLayout):
    """Pairs in one node per query."""

    def make_state(self, n_hinges: int) -> TreeState:
        """Allocate the state for a loss with that many hinges. Kernels sort `docs` in place."""
        shape = (n_hinges, len(self.docs))
        return TreeState(
            docs=self.docs,
            level=np.empty(len(self.docs), np.int32),
            high=np.empty(shape, np.uint32),
            low=np.empty(shape, np.uint32),
            curvature=np.zeros(len(self.plan.level)),
            structure=STRUCTURES[self.counting],
        )

    def make_scratch(self, n: int) -> TreeScratch:
        """Allocate the buffers of one thread, for queries of up to n documents."""
        return TreeScratch(
            keys=np.empty(2 * n),
            docs=np.empty(2 * n, np.uint32),
            values=np.empty(n),
            sums=np.empty((3, n)),
            ranked=np.empty(n),
            above=np.empty(n),
            below=np.empty(n),
            work=make_work(n, int(self.plan.nodes[:-1, LEVELS].max(initial=2))),
        )


def lay_out_trees(counting: str, case: LevelComparison) -> TreeLayout:
    """Lay out the pairs in one node per query."""
    plan, docs = plan_pairs(case.data, case.query_weight, case.levels, None, case.offsets)
    return TreeLayout(counting, plan, docs, case.levels.mass)
