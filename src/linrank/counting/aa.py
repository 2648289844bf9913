"""The AA tree (Andersson 1993): a red-black tree without red left children.

It is balanced by levels (not those of labels). Leaves are on level 1. A left child is one
level below its parent; a right child may share its parent's level, but then its own right child
is below; and a node above level 1 has two children. So n keys are at most 2·log2(n + 1) deep.
"""

from __future__ import annotations

from .._jit import njit
from .search_tree import BALANCE, LEFT, RIGHT, hang, rotate


@njit(inner=True)
def rebalance(nodes, sums, path, depth):  # type: ignore[no-untyped-def]
    """Mend the tree above a new leaf: skew and split all the way up."""
    for d in range(depth - 1, 0, -1):
        node = path[d]
        if nodes[nodes[node, LEFT], BALANCE] == nodes[node, BALANCE]:
            node = rotate(nodes, sums, node, RIGHT)  # skew: no left child on the same level
        last = nodes[nodes[node, RIGHT], RIGHT]
        if nodes[last, BALANCE] == nodes[node, BALANCE]:
            node = rotate(nodes, sums, node, LEFT)  # split: lift the middle one of three
            nodes[node, BALANCE] += 1
        hang(nodes, path, d, node)
