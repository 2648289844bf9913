"""Models of the learning-to-rank module of Apache Solr."""

from __future__ import annotations

import json

from .formula import Formula
from .normalizers import Normalizers, Scaling, weighted_features

PACKAGE = "org.apache.solr.ltr"


def write_solr(
    formula: Formula,
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
    formula : Formula
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
    listed = [
        {"name": f.name} | ({} if f.scaling is None else {"norm": _norm(f.scaling)})
        for f in features
    ]
    content = {
        "class": f"{PACKAGE}.model.LinearModel",
        "name": name,
        **({} if store is None else {"store": store}),
        "features": listed,
        "params": {"weights": {f.name: f.weight for f in features}},
    }
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _norm(scaling: Scaling) -> dict[str, object]:
    """Return a normaliser; Solr's examples have parameters as text."""
    if scaling.kind == "min_max":
        params = {"min": scaling.shift, "max": scaling.shift + scaling.width}
    else:
        params = {"avg": scaling.shift, "std": scaling.width}
    kind = "MinMaxNormalizer" if scaling.kind == "min_max" else "StandardNormalizer"
    return {"class": f"{PACKAGE}.norm.{kind}", "params": {k: repr(v) for k, v in params.items()}}
