"""Order-statistic trees: binary search trees that store the sum of every subtree.

    total(y) = total(left child of y) + total(right child of y) + value(y)

Here value(y) is the sum of x_j over the documents inserted under the key y (Lee & Lin 2014, eqs. 25
and 28). This module has the operations that all such trees share: the search for a key, rotations,
and the sums over all keys on one side of a key. The modules `red_black`, `avl` and `aa` keep trees
balanced.

The kernels take the arrays of a `Tree` one by one. They run once per document, and numba would
count references to arrays that are taken out of a tuple.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._jit import njit
from .._typing import Vector

LEFT, RIGHT, KEY, BALANCE = range(4)  #: columns of `Tree.nodes`
VALUE, TOTAL = range(2)  #: columns of `Tree.sums`
NIL, HEAD = range(2)  #: the two nodes without a key
MAX_DEPTH = 64  #: largest depth of a tree; 2·log2(n + 1) for n = 2^31 keys is 62


class Tree(NamedTuple):
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


def make_tree(n: int) -> Tree:
    """Allocate a tree for n keys of at least 0; it must be cleared before use."""
    nodes = np.zeros((n + 2, 4), np.int32)
    nodes[HEAD, KEY] = -1
    return Tree(nodes, sums=np.zeros((n + 2, 2)), path=np.full(MAX_DEPTH + 2, HEAD, np.int32))


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
    hang(nodes, path, depth, node)


@njit(inner=True)
def hang(nodes, path, depth, node):  # type: ignore[no-untyped-def]
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
