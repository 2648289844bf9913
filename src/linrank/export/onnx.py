"""ONNX graphs; they need the package onnx (``pip install linrank[onnx]``)."""

from __future__ import annotations

import json
from typing import Any, Literal

import numpy as np

from .._typing import Vector
from .._version import __version__
from ..errors import DataError
from .formula import Formula, contribution

Precision = Literal["float64", "float32"]
OPSET = 13  #: version of the operators; runtimes of 2021 and later have it
IR_VERSION = 8  #: version of the file format that belongs to it


def write_onnx(formula: Formula, *, name: str = "linrank", dtype: Precision = "float64") -> bytes:
    """Write a graph with the input ``features`` (documents × features) and the output ``score``.

    The input has all features of the model, in their order. NaN is a missing value. The metadata
    entry ``feature_names`` holds their names as JSON.

    Parameters
    ----------
    formula : Formula
    name : str
        Name of the graph.
    dtype : {"float64", "float32"}
        Type of the input and the output, and precision of the sum.
    """
    try:
        from onnx import checker, helper
    except ImportError:
        raise DataError("ONNX needs the package onnx: pip install linrank[onnx]") from None
    nodes = _Nodes(np.dtype(dtype))
    _add_score(nodes, formula)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(
        nodes.nodes,
        name,
        [helper.make_tensor_value_info("features", kind, ["documents", len(formula.names)])],
        [helper.make_tensor_value_info("score", kind, ["documents"])],
        nodes.constants,
    )
    model = helper.make_model(
        graph,
        producer_name="linrank",
        producer_version=__version__,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
    )
    helper.set_model_props(model, {"feature_names": json.dumps(list(formula.names))})
    checker.check_model(model)
    return model.SerializeToString()


class _Nodes:
    """Nodes and constants of a graph that is being built."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, value: Any, dtype: Any = None) -> str:
        from onnx import numpy_helper

        name = f"constant_{len(self.constants)}"
        array = np.asarray(value, dtype=self.dtype if dtype is None else dtype)
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def add(self, operator: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        from onnx import helper

        output = output or f"value_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [output], **attributes))
        return output


def _add_score(nodes: _Nodes, formula: Formula) -> None:
    """Add the nodes from the input to the output."""
    terms = formula.terms
    raw = value = nodes.add("Gather", "features", nodes.constant(formula.columns, np.int64), axis=1)
    logs = [term.log for term in terms]
    if any(logs):
        size = nodes.add("Add", nodes.add("Abs", raw), nodes.constant(1.0))
        logged = nodes.add("Mul", nodes.add("Sign", raw), nodes.add("Log", size))
        value = nodes.add("Where", nodes.constant(logs, np.bool_), logged, raw)
    if any(term.low is not None for term in terms):
        low = [-np.inf if term.low is None else term.low for term in terms]
        value = nodes.add("Max", value, nodes.constant(low))
    if any(term.high is not None for term in terms):
        high = [np.inf if term.high is None else term.high for term in terms]
        value = nodes.add("Min", value, nodes.constant(high))
    value = nodes.add("Mul", value, nodes.constant([term.weight for term in terms]))
    if any(term.missing is not None for term in terms):
        missing = [np.nan if term.missing is None else term.missing for term in terms]
        value = nodes.add("Where", nodes.add("IsNaN", raw), nodes.constant(missing), value)
    axis = nodes.constant([1], np.int64)
    value = nodes.add("ReduceSum", value, axis, keepdims=0)
    nodes.add("Add", value, nodes.constant(formula.constant), output="score")


def score_as_onnx(formula: Formula, X: Any, *, dtype: Precision = "float64", **_: object) -> Vector:
    """Score rows with values, products and sums of the precision of the graph."""
    if dtype == "float64":
        return formula.scores(X)
    total = np.full(X.shape[0], formula.constant, dtype=np.float32)
    for term, values in zip(formula.terms, formula.values(X), strict=True):
        total += contribution(term, values.astype(np.float32)).astype(np.float32)
    return total.astype(np.float64)
