"""The AA tree (Andersson 1993): a red-black tree without red left children.

The tree is balanced by levels of nodes, which are not the levels of labels:

- a leaf has level 1;
- a left child is one level below its parent;
- a right child may have the level of its parent, but then its own right child is below;
- a node above level 1 has two children.

The depth of a tree with n keys is therefore at most 2·log2(n + 1).
"""

from __future__ import annotations

from .._jit import njit
from .search_tree import BALANCE, LEFT, RIGHT, hang, rotate


@njit(inner=True)
def rebalance(nodes, sums, path, depth):  # type: ignore[no-untyped-def]
    """Restore the balance above a new leaf: skew and split all nodes on the path."""
    for d in range(depth - 1, 0, -1):
        node = path[d]
        if nodes[nodes[node, LEFT], BALANCE] == nodes[node, BALANCE]:
            node = rotate(nodes, sums, node, RIGHT)  # skew: lift a left child on the same level
        last = nodes[nodes[node, RIGHT], RIGHT]
        if nodes[last, BALANCE] == nodes[node, BALANCE]:
            node = rotate(nodes, sums, node, LEFT)  # split: lift the middle of three
            nodes[node, BALANCE] += 1
        hang(nodes, path, d, node)
