"""The red-black tree (Bayer 1972): balanced by colours.

The root is black, a red node has black children, and all paths from the root down to nil have the
same number of black nodes. No path is therefore more than twice as long as another, and the depth
of a tree with n keys is at most 2·log2(n + 1).
"""

from __future__ import annotations

from .._jit import njit
from .search_tree import BALANCE, HEAD, LEFT, RIGHT, hang, rotate

BLACK, RED = range(2)  #: the values of BALANCE


@njit(inner=True)
def rebalance(nodes, sums, path, depth):  # type: ignore[no-untyped-def]
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
            hang(nodes, path, depth - 2, top)
            break
    nodes[nodes[HEAD, RIGHT], BALANCE] = BLACK
