"""Models of Elasticsearch, its plugins for learning to rank and OpenSearch, and of Lucene."""

from __future__ import annotations

import json
import re
from typing import Any, Literal

import numpy as np

from .._util.types import Vector
from .._version import __version__
from ..errors import DataError
from .curve_formula import AdditiveFormula
from .formula import (
    Formula,
    LinearFormula,
    Normalizers,
    Scaling,
    Syntax,
    weighted_features,
    write_sum,
)
from .programs import JAVA
from .tree_models import (
    FLOAT32,
    FLOAT64,
    STEPS,
    Leaf,
    Node,
    Numbered,
    columns_of,
    number,
    sum_trees,
    warned_trees,
)

Definition = Literal["string", "object"]


def write_elasticsearch(
    formula: LinearFormula,
    *,
    name: str = "linrank",
    normalizers: Normalizers = "fold",
    definition: Definition = "string",
    constant: str | None = None,
) -> str:
    """Write a ``model/linear`` for ``POST _ltr/_featureset/<set>/_createmodel``.

    The plugin computes all features of the feature set, also those without weight. The target
    ``features`` lists those that the model needs.

    Parameters
    ----------
    formula : LinearFormula
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
    normalizing = {"feature_normalizers": norms} if norms else {}
    return _plugin_model(name, "model/linear", weights, definition, **normalizing)


def write_plugin_trees(
    formula: AdditiveFormula,
    *,
    name: str = "linrank",
    definition: Definition = "string",
    steps: int = STEPS,
) -> str:
    """Write a ``model/xgboost+json`` for ``POST _ltr/_featureset/<set>/_createmodel``.

    If the query of a feature does not match a document, its value is missing. Plugins before 2024
    (Elasticsearch) and before version 3.2 (OpenSearch) have the value 0 instead.

    Parameters
    ----------
    formula : AdditiveFormula
    name : str
        Name of the model; the plugin refuses a name that exists.
    definition : {"string", "object"}
        Whether the trees are JSON within a string, which all versions read, or an array.
    steps : int
        The largest number of steps of a curve with slopes.
    """
    trees, _ = warned_trees(formula, "the plugin", FLOAT32, steps)
    content = [_split(number(tree), 0, 0, formula.names) for tree in trees]
    return _plugin_model(name, "model/xgboost+json", content, definition)


def _plugin_model(
    name: str, kind: str, content: object, definition: Definition, **others: object
) -> str:
    written = content if definition == "object" else json.dumps(content)
    model = {"type": kind, **others, "definition": written}
    body = {"model": {"name": name, "model": model}}
    return json.dumps(body, indent=2, ensure_ascii=False) + "\n"


def _split(
    rows: list[Numbered], place: int, depth: int, names: tuple[str, ...]
) -> dict[str, object]:
    """Return a subtree as XGBoost dumps it."""
    row = rows[place]
    if isinstance(row.node, Leaf):
        return {"nodeid": place, "leaf": row.node.value}
    return {
        "nodeid": place,
        "depth": depth,
        "split": names[row.node.column],
        "split_condition": row.node.threshold,
        "yes": row.left,
        "no": row.right,
        "missing": row.right,
        "children": [_split(rows, child, depth + 1, names) for child in (row.left, row.right)],
    }


def write_native(formula: AdditiveFormula, *, steps: int = STEPS) -> str:
    """Write a trained model for ``PUT _ml/trained_models/<name>`` of Elasticsearch.

    It is for the rescorer ``learning_to_rank`` of version 8.12 and newer. Each feature is a
    numeric field with the name of the feature. A document without the field has a missing value.
    Replace the ``query`` of a feature if it is computed by another query.

    Parameters
    ----------
    formula : AdditiveFormula
    steps : int
        The largest number of steps of a curve with slopes.
    """
    trees, deviation = warned_trees(formula, "Elasticsearch", FLOAT64, steps)
    ensemble = {
        "feature_names": formula.used,
        "target_type": "regression",
        "aggregate_output": {"weighted_sum": {"weights": [1.0] * len(trees)}},
        "trained_models": [{"tree": _native_tree(tree, formula)} for tree in trees],
    }
    extractors = [{"query_extractor": _extractor(name)} for name in formula.used]
    content = {
        "description": "Additive model",
        "metadata": {"linrank": __version__, "linrank_deviation": deviation},
        "inference_config": {"learning_to_rank": {"feature_extractors": extractors}},
        "definition": {"trained_model": {"ensemble": ensemble}},
    }
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def write_script(formula: Formula) -> str:
    """Write a query ``script_score``, which needs no plugin, with the score in Painless.

    Each feature is a numeric field with the name of the feature. A name from ``features=`` is an
    expression of Painless, such as ``_score``. Replace the ``query``, whose score ``_score`` is. A
    document without a value has a missing value, or 0 if the training data had no missing values.
    Both engines refuse scores below 0; ``shift="training"`` avoids them.
    """
    known = {}
    if isinstance(formula, LinearFormula):
        known = {column: "0.0" for column, term in formula.terms.items() if term.missing is None}
    values = []
    for column, name in zip(formula.columns, formula.used, strict=True):
        value = name
        if name not in formula.given:
            field = name.replace("\\", "\\\\").replace("'", "\\'")
            value = f"value(doc, '{field}', {known.get(column, 'Double.NaN')})"
        values.append(f"double x{column} = {value};")
    references = {column: f"x{column}" for column in formula.columns}
    source = "\n".join([_VALUE, *values, f"return {write_sum(formula, references, JAVA)};"])
    script = {"lang": "painless", "source": source}
    content = {"script_score": {"query": {"match_all": {}}, "script": script}}
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


_VALUE = (
    "double value(def doc, String field, double missing) "
    "{ return doc[field].size() == 0 ? missing : doc[field].value; }"
)


def _extractor(name: str) -> dict[str, object]:
    """Return a query whose score is the value of a field."""
    script = {"source": "doc[params.field].value", "params": {"field": name}}
    query = {"script_score": {"query": {"exists": {"field": name}}, "script": script}}
    return {"feature_name": name, "query": query}


def _native_tree(tree: Node, formula: AdditiveFormula) -> dict[str, object]:
    columns = columns_of(tree) or list(formula.columns)
    nodes: list[dict[str, object]] = []
    for place, row in enumerate(number(tree)):
        if isinstance(row.node, Leaf):
            nodes.append({"node_index": place, "leaf_value": row.node.value})
            continue
        nodes.append(
            {
                "node_index": place,
                "split_feature": columns.index(row.node.column),
                "threshold": row.node.threshold,
                "decision_type": "lt",
                "default_left": False,
                "left_child": row.left,
                "right_child": row.right,
            }
        )
    return {
        "feature_names": [formula.names[column] for column in columns],
        "tree_structure": nodes,
        "target_type": "regression",
    }


def score_natively(formula: AdditiveFormula, X: Any, **options: Any) -> Vector:
    """Score rows as Elasticsearch does: values in single, the sum in double precision, rounded."""
    with np.errstate(over="ignore"):
        scores = sum_trees(formula, X.astype(np.float32), **options).astype(np.float32)
    return scores.astype(np.float64)


def _norm(scaling: Scaling) -> dict[str, dict[str, float]]:
    """Return a normaliser; min_max is refused by the plugin if the minimum is negative."""
    if scaling.kind == "min_max" and scaling.shift >= 0:
        maximum = scaling.shift + scaling.width
        return {"min_max": {"minimum": scaling.shift, "maximum": maximum}}
    return {"standard": {"mean": scaling.shift, "standard_deviation": scaling.width}}


# --------------------------------------------------------------------------------------------------
# Expressions of Lucene's module ``expressions``, in the syntax of JavaScript.


_IDENTIFIER = r"[A-Za-z_$][A-Za-z0-9_$]*"
_INDEX = r"""(\[('[^'\\]*'|"[^"\\]*"|0|[1-9][0-9]*)\])*"""
_VARIABLE = re.compile(rf"{_IDENTIFIER}{_INDEX}(\.{_IDENTIFIER}{_INDEX})*")

_SYNTAX = Syntax(
    log="({x} < 0 ? -ln(1 - {x}) : ln(1 + {x}))",
    low="max({x}, {limit})",
    high="min({x}, {limit})",
    missing="{present}",  # Lucene reads a missing value as 0
    choice="({x} {test} {limit} ? {yes} : {no})",
)


def write_lucene(formula: Formula) -> str:
    """Write the score as an expression for ``JavascriptCompiler.compile``.

    Features are variables, to which the program binds doc values or ``_score``. Lucene replaces
    scores below 0 by 0, so that documents tie; ``shift="training"`` avoids negative scores.
    """
    for name in formula.used:
        if not _VARIABLE.fullmatch(name):
            raise DataError(
                f"feature {name!r} is not a variable of a Lucene expression. Give it a name "
                f"such as features={{{name!r}: 'popularity'}}."
            )
    unlike = formula.unlike_zero()
    if unlike is not None:
        raise DataError(
            f"Lucene reads missing values of feature {unlike!r} as 0, but the model was trained "
            "otherwise. Export to vespa, sql, onnx, c or python, or train with 0 for missing "
            "values."
        )
    references = dict(zip(formula.columns, formula.used, strict=True))
    return write_sum(formula, references, _SYNTAX) + "\n"


def score_in_float32(formula: Formula, X: Any) -> Vector:
    """Score rows as Lucene does: a sum in double precision, rounded once, and at least 0."""
    with np.errstate(over="ignore"):
        rounded = formula.scores(X).astype(np.float32).astype(np.float64)
    return np.maximum(rounded, 0.0)
