"""Models of XGBoost, as JSON."""

from __future__ import annotations

import json

from .._version import __version__
from ..errors import DataError
from .additive import AdditiveFormula
from .trees import FLOAT32, STEPS, Node, Split, number, warned_trees

ROOT = 2**31 - 1  #: the parent of a root
_FORBIDDEN = ("[", "]", "<")  # characters that XGBoost refuses in names


def write_xgboost(formula: AdditiveFormula, *, steps: int = STEPS) -> str:
    """Write a model for ``xgboost.Booster(model_file=…)``, with one tree per curve.

    The features are those of the model, in their order; NaN is a missing value. XGBoost computes
    in single precision. The attribute ``linrank_deviation`` says how far a score may deviate,
    because curves with slopes become steps.

    Parameters
    ----------
    formula : AdditiveFormula
    steps : int
        The largest number of steps of a curve with slopes.
    """
    for name in formula.names:
        if any(mark in name for mark in _FORBIDDEN):
            raise DataError(
                f"feature {name!r} contains one of {' '.join(_FORBIDDEN)}, which XGBoost refuses; "
                "give another name in features="
            )
    trees, deviation = warned_trees(formula, "XGBoost", FLOAT32, steps)
    n_features = len(formula.names)
    model = {
        "gbtree_model_param": {"num_trees": str(len(trees)), "num_parallel_tree": "1"},
        "tree_info": [0] * len(trees),
        "iteration_indptr": list(range(len(trees) + 1)),
        "trees": [_tree(place, tree, n_features) for place, tree in enumerate(trees)],
    }
    learner = {
        "attributes": {"linrank": __version__, "linrank_deviation": repr(deviation)},
        "feature_names": list(formula.names),
        "feature_types": ["float"] * n_features,
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


def _tree(place: int, tree: Node, n_features: int) -> dict[str, object]:
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
