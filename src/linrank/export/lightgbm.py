"""Models of LightGBM, as text."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np

from ..errors import DataError
from .additive import AdditiveFormula
from .trees import FLOAT64, STEPS, Leaf, Node, Numbered, Split, number, warned_trees

MISSING_IS_NAN = 8  #: type of a split: NaN is a missing value and goes right
_FORBIDDEN = re.compile(r'[\s",:\[\]{}]')  # characters that LightGBM refuses in names


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
        if _FORBIDDEN.search(name):
            raise DataError(
                f"feature {name!r} contains a blank or a special character of JSON, which LightGBM "
                "refuses; give another name in features="
            )
    trees, deviation = warned_trees(formula, "LightGBM", FLOAT64, steps)
    texts = [f"Tree={place}\n{_tree(tree)}\n\n" for place, tree in enumerate(trees)]
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


def _tree(tree: Node) -> str:
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
