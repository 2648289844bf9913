"""Models of the learning-to-rank module of Apache Solr."""

from __future__ import annotations

import json

import numpy as np

from .curve_formula import AdditiveFormula
from .formula import LinearFormula, Normalizers, Scaling, weighted_features
from .tree_models import FLOAT32, STEPS, Leaf, Node, warned_trees

PACKAGE = "org.apache.solr.ltr"
SLACK = np.float32(1e-6)  #: what Solr adds to the threshold of a split


def write_solr(
    formula: LinearFormula,
    *,
    name: str = "linrank",
    store: str | None = None,
    normalizers: Normalizers = "fold",
    constant: str | None = None,
) -> str:
    """Write a ``LinearModel`` for ``PUT /solr/<collection>/schema/model-store``.

    Only features with a weight are listed, so Solr computes no others.

    Parameters
    ----------
    formula : LinearFormula
    name : str
        Name of the model in Solr.
    store : str, optional
        Feature store of the model; by default Solr's default store.
    normalizers : {"fold", "emit"}
        Whether the scaling of the training is part of the weights, or written as normalisers.
    constant : str, optional
        Feature of the store that is 1 for all documents; its weight is the constant of ``shift=``.
    """
    features = weighted_features(formula, "Solr's LinearModel", normalizers, constant)
    listed: list[dict[str, object]] = [
        {"name": f.name} | ({} if f.scaling is None else {"norm": _norm(f.scaling)})
        for f in features
    ]
    weights = {f.name: f.weight for f in features}
    return _model("LinearModel", name, store, listed, {"weights": weights})


def write_solr_trees(
    formula: AdditiveFormula,
    *,
    name: str = "linrank",
    store: str | None = None,
    steps: int = STEPS,
) -> str:
    """Write a ``MultipleAdditiveTreesModel`` for ``PUT /solr/<collection>/schema/model-store``.

    NaN is a missing value. Solr has it for features with ``"defaultValue": "NaN"`` only. A feature
    without this parameter has the value 0 for a document without a value.

    Parameters
    ----------
    formula : AdditiveFormula
    name : str
        Name of the model in Solr.
    store : str, optional
        Feature store of the model; by default Solr's default store.
    steps : int
        The largest number of steps of a curve with slopes.
    """
    trees, _ = warned_trees(formula, "Solr", FLOAT32, steps)
    content = [{"weight": "1", "root": _node(tree, formula.names)} for tree in trees]
    listed: list[dict[str, object]] = [{"name": name} for name in formula.used]
    return _model("MultipleAdditiveTreesModel", name, store, listed, {"trees": content})


def _model(
    kind: str,
    name: str,
    store: str | None,
    features: list[dict[str, object]],
    params: dict[str, object],
) -> str:
    content = {
        "class": f"{PACKAGE}.model.{kind}",
        "name": name,
        **({} if store is None else {"store": store}),
        "features": features,
        "params": params,
    }
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _node(node: Node, names: tuple[str, ...]) -> dict[str, object]:
    """Return a subtree; Solr's examples have numbers as text, which it reads without rounding."""
    if isinstance(node, Leaf):
        return {"value": repr(node.value)}
    return {
        "feature": names[node.column],
        "threshold": repr(float(_less_slack(np.float32(node.threshold)))),
        "left": _node(node.left, names),
        "right": _node(node.right, names),
    }


def _less_slack(threshold: np.float32) -> np.float32:
    """Return the largest number that is below a threshold with Solr's slack.

    Solr goes left if ``x <= number + slack``, in single precision. All values from the threshold on
    therefore go right. So does the value just below the threshold, if the sum skips it.
    """
    down, up = np.float32(-np.inf), np.float32(np.inf)
    number = np.nextafter(threshold, down) - SLACK
    while number + SLACK >= threshold:
        number = np.nextafter(number, down)
    while np.nextafter(number, up) + SLACK < threshold:
        number = np.nextafter(number, up)
    return number


def _norm(scaling: Scaling) -> dict[str, object]:
    """Return a normaliser; Solr's examples have parameters as text."""
    if scaling.kind == "min_max":
        params = {"min": scaling.shift, "max": scaling.shift + scaling.width}
    else:
        params = {"avg": scaling.shift, "std": scaling.width}
    kind = "MinMaxNormalizer" if scaling.kind == "min_max" else "StandardNormalizer"
    return {"class": f"{PACKAGE}.norm.{kind}", "params": {k: repr(v) for k, v in params.items()}}
