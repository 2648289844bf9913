"""The AVL tree (Adelson-Velsky & Landis 1962): balanced by heights.

The heights of the two children of a node differ by at most one. The depth of a tree with n keys is
therefore at most 1.45·log2(n + 2).
"""

from __future__ import annotations

from .._jit import njit
from .search_tree import BALANCE, LEFT, RIGHT, hang, rotate


@njit(inner=True)
def rebalance(nodes, sums, path, depth):  # type: ignore[no-untyped-def]
    """Restore the balance above a new leaf, up to the first subtree whose height is unchanged."""
    for d in range(depth - 1, 0, -1):
        node = path[d]
        side = LEFT if _height(nodes, node, LEFT) > _height(nodes, node, RIGHT) else RIGHT
        if _height(nodes, node, side) > _height(nodes, node, 1 - side) + 1:
            child = nodes[node, side]
            if _height(nodes, child, 1 - side) > _height(nodes, child, side):
                nodes[node, side] = _rotate(nodes, sums, child, side)
            hang(nodes, path, d, _rotate(nodes, sums, node, 1 - side))
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
