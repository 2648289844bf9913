"""Additive models to export, and readers of trees that follow the published parsers of engines.

The readers are written from the rules of Solr (`MultipleAdditiveTreesModel`), of the plugins
(`XGBoostJsonParser` and `NaiveAdditiveDecisionTree`) and of Elasticsearch (`TreeNode` and
`EnsembleInferenceModel`). They refuse what the engines refuse, and score as they do.
"""

from __future__ import annotations

import json
import math

import numpy as np

from exported import Refused
from linrank.model import AdditiveModel, Axis, Curve, Surface


def step(feature, rng, m=6):
    return Curve(feature, Axis(np.sort(rng.normal(size=m))), rng.normal(size=(m + 2, 1)))


def ramp(feature, knots, values, missing=0.5, slopes=(0.0, 0.0)):
    """A broken line through points, with slopes beyond its ends."""
    knots, values = np.asarray(knots, float), np.asarray(values, float)
    start = np.concatenate([values[:1], values, [missing]])
    rise = np.concatenate([slopes[:1], np.diff(values), slopes[1:], [0.0]])
    return Curve(feature, Axis(knots), np.column_stack([start, rise]))


def spline(feature, rng, m=5):
    """A continuous curve of degree 3 with bends in every cell."""
    pieces = rng.normal(size=(m + 2, 4))
    pieces[[0, m, m + 1], 1:] = 0.0
    for cell in range(1, m + 1):
        pieces[cell, 0] = pieces[cell - 1].sum()
    return Curve(feature, Axis(np.sort(rng.normal(size=m))), pieces)


def levels(feature, rng, known=(0.0, 1.0, 2.0, 5.5)):
    return Curve(feature, Axis(known, levels=True), rng.normal(size=(len(known) + 2, 1)))


def surfaces(rng):
    """Surfaces of ordered values, of levels, and of both."""
    ordered, level = Axis([-0.25, 0.5]), Axis([0.0, 1.0, 5.5], levels=True)
    return [
        Surface((0, 3), (ordered, level), rng.normal(size=(4, 5))),
        Surface((3, 1), (level, Axis([0.125])), rng.normal(size=(5, 3))),
    ]


NAMES = ["bm25", "clicks", "age", "kind", "unused", "price"]


def stepped(seed=0):
    """A model of steps and levels, which trees express without any deviation."""
    rng = np.random.default_rng(seed)
    curves = [step(0, rng), step(1, rng, 1), levels(3, rng), step(5, rng, 20)]
    return AdditiveModel(6, curves, surfaces(rng), feature_names=NAMES)


def curved(seed=0, slopes=(0.0, 0.0)):
    """A model with every form of a curve."""
    rng = np.random.default_rng(seed)
    knots = np.sort(rng.normal(size=7))
    curves = [
        ramp(0, knots, rng.normal(size=7), slopes=slopes),
        ramp(1, [-1.0, 0.1, 2.0], [-1.0, 0.5, 0.75], missing=-0.2),
        spline(2, rng),
        levels(3, rng),
        step(5, rng),
    ]
    return AdditiveModel(6, curves, surfaces(rng), feature_names=NAMES)


def awkward_rows(model, rng, n=60, dtype=np.float64, apart=0.0):
    """Rows with knots, the numbers beside them, levels, missing values, and far values.

    If an engine does not know the numbers beside knots, `apart` is a relative distance that it
    knows.
    """
    X = (2 * rng.normal(size=(n, model.n_features))).astype(dtype)
    axes = [(c.feature, c.axis) for c in model.curves]
    for surface in model.surfaces:
        axes += zip(surface.features, surface.axes, strict=True)
    for feature, axis in axes:
        at = axis.knots.astype(dtype)
        beside = [np.nextafter(at, dtype(sign * np.inf)) for sign in (-1, 1)]
        if apart:
            beside = [at + sign * apart * np.maximum(np.abs(at), 1.0) for sign in (-1, 1)]
        pool = np.concatenate([at, *beside, [np.nan, np.nan, 1e9, -1e9, 3.0, 0.0]]).astype(dtype)
        chosen = rng.random(n) < 0.7
        X[chosen, feature] = rng.choice(pool, size=int(chosen.sum()))
    return X


def read_solr_trees(text):
    """Return a function that scores a mapping of values, as Solr's trees do."""
    model = json.loads(text)
    if model["class"] != "org.apache.solr.ltr.model.MultipleAdditiveTreesModel":
        raise Refused("class")
    if set(model) - {"class", "name", "store", "features", "params"}:
        raise Refused("unknown entry")
    if set(model["params"]) != {"trees"} or any(set(f) != {"name"} for f in model["features"]):
        raise Refused("no setter")
    listed = [feature["name"] for feature in model["features"]]
    slack = np.float32(1e-6)

    def value(node, values):
        if "feature" not in node:
            if set(node) != {"value"} or not isinstance(node["value"], str):
                raise Refused("leaf")
            return np.float32(node["value"])
        if set(node) != {"feature", "threshold", "left", "right"}:
            raise Refused("split")
        if node["feature"] not in listed:
            raise Refused("a tree has a feature that is not listed")
        threshold = np.float32(node["threshold"]) + slack
        side = "left" if np.float32(values[node["feature"]]) <= threshold else "right"
        return value(node[side], values)

    def score(values):
        total = np.float32(0)
        for tree in model["params"]["trees"]:
            total += np.float32(tree["weight"]) * value(tree["root"], values)
        return total

    return score


def read_plugin_trees(text, feature_set):
    """Return a function that scores a mapping of values, as the plugins' trees do."""
    content = json.loads(text)
    if set(content) != {"model"} or set(content["model"]) != {"name", "model"}:
        raise Refused("entries")
    model = content["model"]["model"]
    if set(model) != {"type", "definition"} or model["type"] != "model/xgboost+json":
        raise Refused("model")
    trees = model["definition"]
    trees = json.loads(trees) if isinstance(trees, str) else trees
    if not isinstance(trees, list) or not trees:
        raise Refused("XGBoost model must define at least one tree")

    for tree in trees:
        check_plugin_node(tree, feature_set)

    def value(node, values):
        if "leaf" in node:
            return np.float32(node["leaf"])
        x = np.float32(values[node["split"]])
        below = np.float32(node["split_condition"]) > x
        if np.isnan(x):
            below = node["missing"] == node["yes"]
        return value(node["children"][0 if below else 1], values)

    def score(values):
        total = np.float32(0)
        for tree in trees:
            total += np.float32(1) * value(tree, values)
        return total

    return score


def check_plugin_node(node, feature_set):
    if "leaf" in node:
        if set(node) != {"nodeid", "leaf"}:
            raise Refused("leaf")
        return
    needed = {"nodeid", "depth", "split", "split_condition", "yes", "no", "missing", "children"}
    if set(node) != needed or node["split"] not in feature_set:
        raise Refused("split")
    if [child["nodeid"] for child in node["children"]] != [node["yes"], node["no"]]:
        raise Refused("children")
    if node["missing"] not in (node["yes"], node["no"]):
        raise Refused("missing")
    for child in node["children"]:
        check_plugin_node(child, feature_set)


NODE = {"node_index", "split_feature", "threshold", "decision_type", "default_left", "left_child",
        "right_child"}  # fmt: skip


def read_native(text):
    """Return a function that scores a mapping of values, as Elasticsearch's trained models do."""
    content = json.loads(text)
    if set(content) - {"description", "metadata", "inference_config", "definition", "tags"}:
        raise Refused("unknown entry")
    extractors = content["inference_config"]["learning_to_rank"]["feature_extractors"]
    extracted = [e["query_extractor"]["feature_name"] for e in extractors]
    ensemble = content["definition"]["trained_model"]["ensemble"]
    trees = [model["tree"] for model in ensemble["trained_models"]]
    weights = ensemble["aggregate_output"]["weighted_sum"]["weights"]
    if ensemble["target_type"] != "regression" or len(weights) != len(trees) or not trees:
        raise Refused("ensemble")
    if extracted != ensemble["feature_names"] or len(set(extracted)) < len(extracted):
        raise Refused("features")
    for tree in trees:
        check_native_tree(tree, extracted)

    def value(tree, values):
        nodes, place = tree["tree_structure"], 0
        while "left_child" in nodes[place]:
            node = nodes[place]
            x = values[tree["feature_names"][node["split_feature"]]]
            left = np.float64(np.float32(x)) < node["threshold"]
            if math.isnan(x):
                left = node["default_left"]
            place = node["left_child" if left else "right_child"]
        return nodes[place]["leaf_value"]

    def score(values):
        parts = [w * value(tree, values) for w, tree in zip(weights, trees, strict=True)]
        return np.float32(sum(parts))

    return score


def check_native_tree(tree, features):
    nodes, names = tree["tree_structure"], tree["feature_names"]
    if not nodes or not names or not set(names) <= set(features):
        raise Refused("tree")
    reached = {0}
    for place, node in enumerate(nodes):
        if node["node_index"] != place:
            raise Refused("node_index")
        if set(node) == {"node_index", "leaf_value"}:
            continue
        if set(node) != NODE or node["decision_type"] != "lt":
            raise Refused("node")
        if not 0 <= node["split_feature"] < len(names):
            raise Refused("split_feature")
        for child in (node["left_child"], node["right_child"]):
            if not place < child < len(nodes) or child in reached:
                raise Refused("cycle")
            reached.add(child)
    if len(reached) < len(nodes):
        raise Refused("orphan")
