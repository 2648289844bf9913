"""ONNX graphs; they need the package onnx (``pip install 'linrank[onnx]'``)."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from .._util.types import Integers, Vector
from .._version import __version__
from ..errors import DataError
from .curve_formula import AdditiveFormula, cell_limits
from .formula import Formula, LinearFormula
from .tree_models import intervals

if TYPE_CHECKING:
    from ..model import Curve, Surface, Term
    from .formula import Position

Precision = Literal["float64", "float32"]
OPSET = 13  #: version of the operators; runtimes of 2021 and later have it
INT32 = 6  #: the number of the type int32 in ONNX
IR_VERSION = 8  #: version of the file format that belongs to it


def write_onnx(formula: Formula, *, name: str = "linrank", dtype: Precision = "float64") -> bytes:
    """Write a graph with the input ``features`` (documents × features) and the output ``score``.

    If the model scales features within queries, the inputs ``low`` and ``high`` have the smallest
    and the largest value of each feature: one row for all documents, or a row for each. A missing
    value counts there as the number in the metadata entry ``missing_as``, and not at all if that
    has no number for the feature.

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
        raise DataError("ONNX needs the package onnx: pip install 'linrank[onnx]'") from None
    nodes = _Nodes(np.dtype(dtype))
    if isinstance(formula, AdditiveFormula):
        terms = _add_curves(nodes, formula)
    else:
        assert isinstance(formula, LinearFormula)
        terms = _add_weighted(nodes, formula)
    total = nodes.add("ReduceSum", terms, nodes.constant([1], np.int64), keepdims=0)
    nodes.add("Add", total, nodes.constant(formula.constant), output="score")
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    rows = {"features": "documents"}
    if formula.positions:
        rows |= {"low": "ranges", "high": "ranges"}
    graph = helper.make_graph(
        nodes.nodes,
        name,
        [
            helper.make_tensor_value_info(input, kind, [length, len(formula.names)])
            for input, length in rows.items()
        ],
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
    known = {formula.names[j]: p.fill for j, p in formula.positions.items() if p.fill is not None}
    facts = {"feature_names": list(formula.names)} | ({"missing_as": known} if known else {})
    helper.set_model_props(model, {key: json.dumps(value) for key, value in facts.items()})
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
        with np.errstate(over="ignore"):
            array = np.asarray(value, dtype=self.dtype if dtype is None else dtype)
        lost = np.isinf(array) & np.isfinite(value)
        if lost.any():
            number = np.asarray(value)[lost][0]
            raise DataError(
                f"the number {number:g} of the model is too large for dtype='float32'. Use "
                "dtype='float64'"
            )
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def add(self, operator: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        from onnx import helper

        output = output or f"value_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [output], **attributes))
        return output


def _add_weighted(nodes: _Nodes, formula: LinearFormula) -> str:
    """Add the nodes from the inputs to the weighted variables."""
    raw = {v: term for v, term in formula.terms.items() if v < len(formula.names)}
    found = []
    if raw:
        found.append(_add_terms(nodes, _add_columns(nodes, "features", list(raw)), raw.values()))
    if formula.positions:
        terms = [formula.terms[formula.position(j)] for j in formula.positions]
        found.append(_add_terms(nodes, _add_positions(nodes, formula), terms))
    return found[0] if len(found) == 1 else nodes.add("Concat", *found, axis=1)


def _add_columns(nodes: _Nodes, input: str, columns: Sequence[int]) -> str:
    return nodes.add("Gather", input, nodes.constant(columns, np.int64), axis=1)


def _add_positions(nodes: _Nodes, formula: Formula) -> str:
    """Add the nodes from the inputs to the positions of features within their query."""
    columns, steps = list(formula.positions), list(formula.positions.values())
    raw = _add_columns(nodes, "features", columns)
    if any(step.fill is not None for step in steps):
        fill = [np.nan if step.fill is None else step.fill for step in steps]
        raw = nodes.add("Where", nodes.add("IsNaN", raw), nodes.constant(fill), raw)
    value, low, high = (
        _add_limited(nodes, given, steps)
        for given in (raw, *(_add_columns(nodes, end, columns) for end in ("low", "high")))
    )
    width = nodes.add("Sub", high, low)
    wide = nodes.add("Greater", width, nodes.constant(0.0))
    width = nodes.add("Where", wide, width, nodes.constant(1.0))
    return nodes.add("Div", nodes.add("Sub", value, low), width)


def _add_limited(nodes: _Nodes, raw: str, steps: Collection[Term | Position]) -> str:
    """Add the logarithms and the limits of values."""
    value = raw
    logs = [step.log for step in steps]
    if any(logs):
        size = nodes.add("Add", nodes.add("Abs", raw), nodes.constant(1.0))
        logged = nodes.add("Mul", nodes.add("Sign", raw), nodes.add("Log", size))
        value = nodes.add("Where", nodes.constant(logs, np.bool_), logged, raw)
    if any(step.low is not None for step in steps):
        low = [-np.inf if step.low is None else step.low for step in steps]
        value = nodes.add("Max", value, nodes.constant(low))
    if any(step.high is not None for step in steps):
        high = [np.inf if step.high is None else step.high for step in steps]
        value = nodes.add("Min", value, nodes.constant(high))
    return value


def _add_terms(nodes: _Nodes, raw: str, terms: Collection[Term]) -> str:
    """Add the weighted values, or what missing ones contribute."""
    value = _add_limited(nodes, raw, terms)
    value = nodes.add("Mul", value, nodes.constant([term.weight for term in terms]))
    if any(term.missing is not None for term in terms):
        missing = [np.nan if term.missing is None else term.missing for term in terms]
        value = nodes.add("Where", nodes.add("IsNaN", raw), nodes.constant(missing), value)
    return value


class _Place(NamedTuple):
    """A feature of a curve or of a surface, and the intervals of its values."""

    column: int
    thresholds: Vector
    cells: Integers  # cell of the axis for each interval, and the one of missing values


def _add_curves(nodes: _Nodes, formula: AdditiveFormula) -> str:
    """Add the nodes from the inputs to the values of curves and surfaces."""
    n, input = len(formula.names), "features"
    if formula.positions:
        input = nodes.add("Concat", "features", _add_positions(nodes, formula), axis=1)
    place_of = {formula.position(j): n + k for k, j in enumerate(formula.positions)}
    used = [(curve.feature, curve.axis) for curve in formula.curves]
    for surface in formula.surfaces:
        used += zip(surface.features, surface.axes, strict=True)
    places = []
    for column, axis in used:
        thresholds, cells = intervals(axis, nodes.dtype, formula.names[column % n])
        column = place_of.get(column, column)
        places.append(_Place(column, thresholds, np.append(cells, axis.n_cells - 1)))
    columns = nodes.constant([place.column for place in places], np.int64)
    values = nodes.add("Gather", input, columns, axis=1)
    found = _add_intervals(nodes, values, places)
    n_curves = len(formula.curves)
    parts = []
    if n_curves:
        first = nodes.constant(range(n_curves), np.int64)
        x, where = (nodes.add("Gather", v, first, axis=1) for v in (values, found))
        parts.append(_add_pieces(nodes, x, where, formula.curves, places))
    if formula.surfaces:
        parts.append(_add_surfaces(nodes, found, formula.surfaces, places, n_curves))
    return parts[0] if len(parts) == 1 else nodes.add("Concat", *parts, axis=1)


def _add_intervals(nodes: _Nodes, values: str, places: list[_Place]) -> str:
    """Add the interval of each value: the number of thresholds that are not above it."""
    width = max(1, *(len(place.thresholds) for place in places))
    limits = np.full((len(places), width), np.inf)
    for row, place in zip(limits, places, strict=True):
        row[: len(place.thresholds)] = place.thresholds
    cube = nodes.add("Unsqueeze", values, nodes.constant([2], np.int64))
    above = nodes.add("GreaterOrEqual", cube, nodes.constant(limits))
    counted = nodes.add("Cast", above, to=INT32)
    found = nodes.add("ReduceSum", counted, nodes.constant([2], np.int64), keepdims=0)
    missing = nodes.constant([len(place.cells) - 1 for place in places], np.int32)
    return nodes.add("Where", nodes.add("IsNaN", values), missing, found)


def _add_pieces(
    nodes: _Nodes, x: str, found: str, curves: Sequence[Curve], places: list[_Place]
) -> str:
    """Add the polynomials of curves, given the values and the intervals of their features."""
    degree = max(curve.degree for curve in curves)
    tables = []
    for curve, place in zip(curves, places, strict=False):
        table = np.zeros((len(place.cells), degree + 5))
        table[:, 0], table[:, 1] = curve.axis.anchors[place.cells], curve.axis.widths[place.cells]
        table[:, 2], table[:, 3] = (limit[place.cells] for limit in cell_limits(curve))
        table[:, 4 : curve.degree + 5] = curve.pieces[place.cells]
        table[-1, 5:] = 0.0  # the place of a missing value is 0
        tables.append(table)
    starts = np.cumsum([0, *map(len, tables[:-1])])
    rows = nodes.add("Add", found, nodes.constant(starts, np.int32))
    known = nodes.add("Where", nodes.add("IsNaN", x), nodes.constant(0.0), x)
    anchor, width, low, high, *powers = (
        nodes.add("Gather", nodes.constant(column), rows) for column in np.concatenate(tables).T
    )
    t = nodes.add("Div", nodes.add("Sub", known, anchor), width)
    total = powers.pop()
    while powers:
        total = nodes.add("Add", nodes.add("Mul", total, t), powers.pop())
    # Rounded numbers may leave the range of their cell, so that a monotone curve would not be one.
    return nodes.add("Min", nodes.add("Max", total, low), high)


def _add_surfaces(
    nodes: _Nodes, found: str, surfaces: Sequence[Surface], places: list[_Place], first: int
) -> str:
    """Add the values of surfaces; their features are behind `first` others in `found`."""
    tables = []
    for surface, j in zip(surfaces, range(first, len(places), 2), strict=True):
        tables.append(surface.values[np.ix_(places[j].cells, places[j + 1].cells)])
    starts = np.cumsum([0, *(table.size for table in tables[:-1])])
    rows, columns = (
        nodes.add("Gather", found, nodes.constant(range(k, len(places), 2), np.int64), axis=1)
        for k in (first, first + 1)
    )
    widths = nodes.constant([table.shape[1] for table in tables], np.int32)
    place = nodes.add("Add", nodes.add("Mul", rows, widths), columns)
    place = nodes.add("Add", place, nodes.constant(starts, np.int32))
    return nodes.add("Gather", nodes.constant(np.concatenate([t.ravel() for t in tables])), place)


def score_as_onnx(
    formula: Formula,
    X: Any,
    *,
    dtype: Precision = "float64",
    query_ptr: Integers | None = None,
    **_: object,
) -> Vector:
    """Score rows with values, products and sums of the precision of the graph."""
    if dtype == "float64":
        return formula.scores(X, query_ptr)
    total = np.full(X.shape[0], formula.constant, dtype=np.float32)
    for part in formula.parts(X.astype(np.float32), query_ptr):
        total += part.astype(np.float32)
    return total.astype(np.float64)
