"""Additive models as sums of trees, and the model files of XGBoost and LightGBM.

There is one tree per curve, and one per surface. All formats of trees share these rules, so that
the trees mean the same in each of them:

- A value below the threshold of a split goes left. Others go right, and so do missing values.
- A tree for missing values is therefore to the right of a split with the largest threshold.
- Levels are intervals from the level to the next number that the engine can hold.
- Thresholds and leaves are numbers of the engine. A value that the engine can hold is on the same
  side of a threshold as of the knot of the model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .._util.checks import whole_number
from .._util.types import Array, Integers, Vector
from .._version import __version__
from ..errors import DataError, StaircaseWarning, warn
from ..model import Axis
from .curve_formula import (
    AdditiveFormula,
    Staircase,
    changes_by_rounding,
    is_coarse,
    staircase,
)

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
    """Return the trees, and how far scores may deviate; warn if that is because of steps."""
    trees, stairs = grow_trees(formula, dtype, steps)
    from_steps = sum(s.deviation for s in stairs)
    deviation = from_steps + rounding_of(formula, dtype)
    ends = [formula.names[s.curve.feature] for s in stairs if s.flat_ends]
    if from_steps or ends:
        beyond = f" Beyond the knots, the slope of feature {ends[0]!r} is lost." if ends else ""
        warn(
            f"{target} takes trees, so curves become at most {steps} steps, and a score may "
            f"deviate by {deviation:.3g}.{beyond} Increase steps=, or give sample= and flips=0.001 "
            "to choose it by the pairs whose order changes. sql, onnx, c and python are exact.",
            StaircaseWarning,
        )
    return trees, deviation


def rounding_of(formula: AdditiveFormula, dtype: np.dtype[Any]) -> float:
    """Return how far the rounding of values, leaves and sums to a type may change a score."""
    ranges = formula.ranges()
    total = sum(max(abs(low), abs(high)) for low, high in ranges) + abs(formula.constant)
    of_sums = (len(ranges) + 1) * float(np.finfo(dtype).eps) * total
    of_curves = sum(changes_by_rounding(curve, dtype) for curve in formula.curves)
    of_surfaces = sum(
        surface.extent
        for surface in formula.surfaces
        if any(not a.levels and is_coarse(a, dtype).any() for a in surface.axes)
    )
    return of_sums + of_curves + of_surfaces


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


# --------------------------------------------------------------------------------------------------
# Models of XGBoost, as JSON.


ROOT = 2**31 - 1  #: the parent of a root
_REFUSED_BY_XGBOOST = ("[", "]", "<")  # characters that XGBoost refuses in names


def write_xgboost(formula: AdditiveFormula, *, steps: int = STEPS) -> str:
    """Write a model for ``xgboost.Booster(model_file=…)``, with one tree per curve.

    The features are those of the model, in their order; NaN is a missing value. The file has their
    names if they are not only numbers; XGBoost then expects data with these names. It computes in
    single precision. The attribute ``linrank_deviation`` says how far a score may deviate,
    because curves with slopes become steps.

    Parameters
    ----------
    formula : AdditiveFormula
    steps : int
        The largest number of steps of a curve with slopes.
    """
    for name in formula.names:
        if any(mark in name for mark in _REFUSED_BY_XGBOOST):
            raise DataError(
                f"feature {name!r} contains one of {' '.join(_REFUSED_BY_XGBOOST)}, which XGBoost "
                "refuses; give another name in features="
            )
    trees, deviation = warned_trees(formula, "XGBoost", FLOAT32, steps)
    n_features = len(formula.names)
    is_named = not all(name.isdecimal() for name in formula.names)
    model = {
        "gbtree_model_param": {"num_trees": str(len(trees)), "num_parallel_tree": "1"},
        "tree_info": [0] * len(trees),
        "iteration_indptr": list(range(len(trees) + 1)),
        "trees": [_columns_of(place, tree, n_features) for place, tree in enumerate(trees)],
    }
    learner = {
        "attributes": {"linrank": __version__, "linrank_deviation": repr(deviation)},
        "feature_names": list(formula.names) if is_named else [],
        "feature_types": ["float"] * n_features if is_named else [],
        "gradient_booster": {"name": "gbtree", "model": model},
        "learner_model_param": {
            "base_score": "0E0",
            "boost_from_average": "0",
            "num_class": "0",
            "num_feature": str(n_features),
            "num_target": "1",
        },
        "objective": {"name": "rank:ndcg", "lambdarank_param": {}},
    }
    return json.dumps({"version": [2, 1, 0], "learner": learner}, ensure_ascii=False) + "\n"


def _columns_of(place: int, tree: Node, n_features: int) -> dict[str, object]:
    """Return the nodes of a tree as columns; that of thresholds also holds the leaves."""
    rows = number(tree)
    splits = [row.node if isinstance(row.node, Split) else None for row in rows]
    values = [row.node.threshold if isinstance(row.node, Split) else row.node.value for row in rows]
    zeros = [0] * len(rows)
    return {
        "id": place,
        "tree_param": {
            "num_deleted": "0",
            "num_feature": str(n_features),
            "num_nodes": str(len(rows)),
            "size_leaf_vector": "1",
        },
        "left_children": [row.left for row in rows],
        "right_children": [row.right for row in rows],
        "parents": [ROOT if row.parent < 0 else row.parent for row in rows],
        "split_indices": [0 if split is None else split.column for split in splits],
        "split_conditions": values,
        "split_type": zeros,
        "default_left": zeros,
        "base_weights": [0.0 if row.left >= 0 else row.node[0] for row in rows],
        "loss_changes": [0.0] * len(rows),
        "sum_hessian": [0.0] * len(rows),
        "categories": [],
        "categories_nodes": [],
        "categories_segments": [],
        "categories_sizes": [],
    }


# --------------------------------------------------------------------------------------------------
# Models of LightGBM, as text.


MISSING_IS_NAN = 8  #: type of a split: NaN is a missing value and goes right
_REFUSED_BY_LIGHTGBM = re.compile(r'[\s",:\[\]{}]')  # characters that LightGBM refuses in names


def write_lightgbm(formula: AdditiveFormula, *, steps: int = STEPS) -> str:
    """Write a model for ``lightgbm.Booster(model_file=…)``, with one tree per curve.

    The features are those of the model, in their order; NaN is a missing value. The line
    ``linrank_deviation`` says how far a score may deviate, because curves with slopes become steps.

    Parameters
    ----------
    formula : AdditiveFormula
    steps : int
        The largest number of steps of a curve with slopes.
    """
    for name in formula.names:
        if _REFUSED_BY_LIGHTGBM.search(name):
            raise DataError(
                f"feature {name!r} contains a blank or a special character of JSON, which LightGBM "
                "refuses; give another name in features="
            )
    trees, deviation = warned_trees(formula, "LightGBM", FLOAT64, steps)
    texts = [f"Tree={place}\n{_text_of(tree)}\n\n" for place, tree in enumerate(trees)]
    header = {
        "version": "v4",
        "num_class": 1,
        "num_tree_per_iteration": 1,
        "label_index": 0,
        "max_feature_idx": len(formula.names) - 1,
        "objective": "lambdarank",
        "feature_names": " ".join(formula.names),
        "feature_infos": " ".join(["none"] * len(formula.names)),
        "linrank_deviation": repr(deviation),
        "tree_sizes": _join(len(text) for text in texts),
    }
    return f"tree\n{_lines(header)}\n{''.join(texts)}end of trees\n"


def _text_of(tree: Node) -> str:
    """Return the splits and the leaves of a tree, which have numbers of their own."""
    rows = number(tree)
    splits = [row.node for row in rows if isinstance(row.node, Split)]
    leaves = [row.node for row in rows if isinstance(row.node, Leaf)]
    content: dict[str, object] = {"num_leaves": len(leaves), "num_cat": 0}
    if splits:
        content |= {
            "split_feature": _join(split.column for split in splits),
            "split_gain": _join(0 for _ in splits),
            # LightGBM compares x <= threshold.
            "threshold": _join(repr(float(np.nextafter(s.threshold, -np.inf))) for s in splits),
            "decision_type": _join(MISSING_IS_NAN for _ in splits),
            **_children(rows),
        }
    content["leaf_value"] = _join(repr(leaf.value) for leaf in leaves)
    if splits:
        content |= {
            "leaf_weight": _join(0 for _ in leaves),
            "leaf_count": _join(0 for _ in leaves),
            "internal_value": _join(0 for _ in splits),
            "internal_weight": _join(0 for _ in splits),
            "internal_count": _join(0 for _ in splits),
        }
    return _lines(content | {"is_linear": 0, "shrinkage": 1})


def _children(rows: list[Numbered]) -> dict[str, object]:
    """Return the children of the splits; leaf k is −k − 1."""
    is_split = np.array([isinstance(row.node, Split) for row in rows])
    places = np.where(is_split, np.cumsum(is_split) - 1, -np.cumsum(~is_split))
    return {
        "left_child": _join(places[row.left] for row in rows if row.left >= 0),
        "right_child": _join(places[row.right] for row in rows if row.right >= 0),
    }


def _join(values: Iterable[object]) -> str:
    return " ".join(map(str, values))


def _lines(content: dict[str, object]) -> str:
    return "".join(f"{name}={value}\n" for name, value in content.items())
