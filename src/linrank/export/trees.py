"""Additive models as sums of trees: one tree per curve, and one per surface.

All formats of trees share these rules, so that the trees mean the same in each of them:

- A value below the threshold of a split goes left. Others go right, and so do missing values.
- A tree for missing values is therefore to the right of a split with the largest threshold.
- Levels are intervals from the level to the next number that the engine can hold.
- Thresholds and leaves are numbers of the engine. A value that the engine can hold is on the same
  side of a threshold as of the knot of the model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .._checks import whole_number
from .._typing import Array, Integers, Vector
from ..errors import DataError, StaircaseWarning, warn
from ..model import Axis
from .additive import AdditiveFormula
from .staircase import Staircase, staircase

STEPS = 64  #: steps of a curve with slopes; with more, the trees are larger and closer to the curve
FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)


class Leaf(NamedTuple):
    """The value of a tree for all rows that reach this node."""

    value: float


class Split(NamedTuple):
    """A node with two subtrees: the left one for ``x[column] < threshold``, else the right one."""

    column: int
    threshold: float
    left: Node
    right: Node


Node = Leaf | Split


class Numbered(NamedTuple):
    """A node with the numbers of its neighbours; parents come before their children.

    The root has no parent, and a leaf has no children: their numbers are −1.
    """

    node: Node
    parent: int
    left: int = -1
    right: int = -1


def grow_trees(
    formula: AdditiveFormula, dtype: np.dtype[Any], steps: int
) -> tuple[list[Node], list[Staircase]]:
    """Return the trees whose sum is the score, and the steps of the curves.

    Parameters
    ----------
    formula : AdditiveFormula
    dtype : dtype
        Type of values, thresholds and leaves in the engine: float32 or float64.
    steps : int
        The largest number of steps of a curve with slopes.
    """
    whole_number("steps", steps, least=2)
    numbers = _Numbers(formula, dtype)
    stairs = [staircase(curve, steps) for curve in formula.curves]
    trees = [
        numbers.tree(s.curve.feature, s.curve.axis, numbers.leaves(s.curve.pieces[:, 0]))
        for s in stairs
    ]
    for surface in formula.surfaces:
        (j, k), (first, second) = surface.features, surface.axes
        rows = [numbers.tree(k, second, numbers.leaves(row)) for row in surface.values]
        trees.append(numbers.tree(j, first, rows))
    if formula.constant:
        trees += numbers.leaves(np.array([formula.constant]))
    return trees, stairs


def warned_trees(
    formula: AdditiveFormula, target: str, dtype: np.dtype[Any], steps: int
) -> tuple[list[Node], float]:
    """Return the trees, and how far scores may deviate; warn if they do."""
    trees, stairs = grow_trees(formula, dtype, steps)
    deviation = sum(s.deviation for s in stairs)
    ends = [formula.names[s.curve.feature] for s in stairs if s.flat_ends]
    if deviation or ends:
        beyond = f" Beyond the knots, the slope of feature {ends[0]!r} is lost." if ends else ""
        warn(
            f"{target} takes trees, so curves become at most {steps} steps, and a score may "
            f"deviate by {deviation:.3g}.{beyond} Increase steps=, or export to sql, onnx, c or "
            "python, which are exact.",
            StaircaseWarning,
        )
    return trees, deviation


class _Numbers:
    """Trees of the numbers that an engine can hold."""

    def __init__(self, formula: AdditiveFormula, dtype: np.dtype[Any]) -> None:
        self.formula, self.dtype = formula, dtype
        self.largest = float(np.finfo(dtype).max)

    def leaves(self, values: Vector) -> list[Node]:
        """Return leaves with rounded values."""
        if np.abs(values).max() > self.largest:
            raise DataError(
                f"a score of {np.abs(values).max():g} is too large for single precision. Divide "
                "the curves of the model by a power of ten."
            )
        return [Leaf(value) for value in values.astype(self.dtype).tolist()]

    def tree(self, column: int, axis: Axis, nodes: list[Node]) -> Node:
        """Return a tree over the values of a feature, given the nodes of all cells."""
        knots, cells = intervals(axis, self.dtype, self.formula.names[column])
        present, missing = [nodes[cell] for cell in cells], nodes[-1]
        changes = [i for i in range(len(knots)) if present[i] != present[i + 1]]
        present = [present[0], *(present[i + 1] for i in changes)]
        tree = _balanced(column, [float(knots[i]) for i in changes], present)
        return tree if missing == present[-1] else Split(column, self.largest, tree, missing)


def intervals(axis: Axis, dtype: np.dtype[Any], name: str) -> tuple[Vector, Integers]:
    """Return thresholds that increase, and the cell of the values below and above each.

    Parameters
    ----------
    axis : Axis
    dtype : dtype
        Type of the values: float32 or float64.
    name : str
        Name of the feature in messages.

    Returns
    -------
    thresholds : array of shape (n,)
        Numbers of the type.
    cells : array of shape (n + 1,)
        Cell i holds the values of the type with thresholds[i − 1] ≤ x < thresholds[i].
    """
    knots = axis.knots
    if axis.levels:
        rounded = knots.astype(dtype)
        if (rounded[1:] == rounded[:-1]).any():
            raise DataError(
                f"two levels of feature {name!r} are equal in single precision. Give them other "
                "numbers in training."
            )
        above = np.nextafter(rounded, dtype.type(np.inf))
        thresholds = np.column_stack([rounded, above]).ravel()
        cells = np.full(len(thresholds) + 1, len(knots))
        cells[1::2] = np.arange(len(knots))
    else:
        thresholds, cells = _round_up(knots, dtype), np.arange(len(knots) + 1)
    # No value is between equal thresholds, nor above the largest number of the type.
    distinct = np.isfinite(thresholds) & (thresholds < np.append(thresholds[1:], np.inf))
    return thresholds[distinct].astype(np.float64), cells[np.append(True, distinct)]


def _round_up(values: Vector, dtype: np.dtype[Any]) -> Any:
    """Return the smallest numbers of a type that are not below the values."""
    with np.errstate(over="ignore"):
        rounded = values.astype(dtype)
    return np.where(rounded < values, np.nextafter(rounded, dtype.type(np.inf)), rounded)


def _balanced(column: int, thresholds: Sequence[float], nodes: Sequence[Node]) -> Node:
    if len(nodes) == 1:
        return nodes[0]
    half = len(nodes) // 2
    left = _balanced(column, thresholds[: half - 1], nodes[:half])
    right = _balanced(column, thresholds[half:], nodes[half:])
    return Split(column, thresholds[half - 1], left, right)


def number(root: Node) -> list[Numbered]:
    """Return the nodes of a tree by their numbers, the root first.

    A right child follows its left sibling. XGBoost relies on that where it scores a single row.

    Examples
    --------
    >>> [row[1:] for row in number(Split(0, 0.5, Leaf(1.0), Leaf(2.0)))]
    [(-1, 1, 2), (0, -1, -1), (0, -1, -1)]
    """
    rows = [Numbered(root, -1)]
    for place, row in enumerate(rows):  # rows are appended
        if isinstance(row.node, Split):
            left = len(rows)
            rows[place] = row._replace(left=left, right=left + 1)
            rows += [Numbered(row.node.left, place), Numbered(row.node.right, place)]
    return rows


def columns_of(root: Node) -> list[int]:
    """Return the features that a tree splits, in increasing order."""
    return sorted({row.node.column for row in number(root) if isinstance(row.node, Split)})


def tree_parts(trees: Sequence[Node], values: Mapping[int, Array]) -> Iterator[Vector]:
    """Yield the value of each tree in rows, given the values of each used feature."""
    n_rows = len(next(iter(values.values())))
    for tree in trees:
        part = np.empty(n_rows)
        waiting: list[tuple[Node, Any]] = [(tree, np.arange(n_rows))]
        while waiting:
            node, rows = waiting.pop()
            if isinstance(node, Leaf):
                part[rows] = node.value
            else:
                below = values[node.column][rows] < node.threshold
                waiting += [(node.left, rows[below]), (node.right, rows[~below])]
        yield part


def sum_trees_in_float32(
    formula: AdditiveFormula, X: Any, *, steps: int = STEPS, **_: object
) -> Vector:
    """Score rows with values and sums in single precision, one tree after the other."""
    trees, _stairs = grow_trees(formula, FLOAT32, steps)
    with np.errstate(over="ignore"):
        rounded = {c: v.astype(np.float32) for c, v in formula.values(X).items()}
        total = np.zeros(X.shape[0], dtype=np.float32)
        for part in tree_parts(trees, rounded):
            total += part.astype(np.float32)
    return total.astype(np.float64)


def sum_trees(formula: AdditiveFormula, X: Any, *, steps: int = STEPS, **_: object) -> Vector:
    """Score rows with values and sums in double precision."""
    trees, _stairs = grow_trees(formula, FLOAT64, steps)
    total = np.zeros(X.shape[0])
    for part in tree_parts(trees, formula.values(X)):
        total += part
    return total
