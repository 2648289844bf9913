"""Models of the learning-to-rank plugins of Elasticsearch and OpenSearch, which share a format."""

from __future__ import annotations

import json
from typing import Literal

from .formula import Formula
from .normalizers import Normalizers, Scaling, weighted_features


def write_elasticsearch(
    formula: Formula,
    *,
    name: str = "linrank",
    normalizers: Normalizers = "fold",
    definition: Literal["string", "object"] = "string",
    constant: str | None = None,
) -> str:
    """Write a ``model/linear`` for ``POST _ltr/_featureset/<set>/_createmodel``.

    The plugin computes all features of the feature set, also those without weight. The target
    ``features`` lists those that the model needs.

    Parameters
    ----------
    formula : Formula
    name : str
        Name of the model; the plugin refuses a name that exists.
    normalizers : {"fold", "emit"}
        Whether the scaling of the training is part of the weights, or written as normalisers.
    definition : {"string", "object"}
        Whether the weights are JSON within a string, which all versions read, or an object.
    constant : str, optional
        Feature of the set that is 1 for all documents; its weight is the constant of ``shift=``.
    """
    features = weighted_features(formula, "the plugin's model/linear", normalizers, constant)
    weights = {f.name: f.weight for f in features}
    norms = {f.name: _norm(f.scaling) for f in features if f.scaling is not None}
    content = {
        "model": {
            "name": name,
            "model": {
                "type": "model/linear",
                **({"feature_normalizers": norms} if norms else {}),
                "definition": weights if definition == "object" else json.dumps(weights),
            },
        }
    }
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _norm(scaling: Scaling) -> dict[str, dict[str, float]]:
    """Return a normaliser; min_max is refused by the plugin if the minimum is negative."""
    if scaling.kind == "min_max" and scaling.shift >= 0:
        maximum = scaling.shift + scaling.width
        return {"min_max": {"minimum": scaling.shift, "maximum": maximum}}
    return {"standard": {"mean": scaling.shift, "standard_deviation": scaling.width}}
