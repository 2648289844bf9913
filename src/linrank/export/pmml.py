"""Regression models in PMML."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from .._version import __version__
from ..errors import DataError
from .formula import LinearFormula

if TYPE_CHECKING:
    from ..model import Term

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_pmml(formula: LinearFormula, *, name: str = "linrank") -> str:
    """Write a ``RegressionModel`` of PMML 4.4 with one predictor per feature.

    Logarithms, limits and missing values are derived fields. If the training data had no missing
    values, the score of a document with one is missing.

    Parameters
    ----------
    formula : LinearFormula
    name : str
        Name of the model. The output field is called ``score``, or ``score_`` if there is a feature
        of this name.
    """
    for text in (name, *(term.name for term in formula.terms.values())):
        if _NOT_XML.search(text):
            raise DataError(
                f"the name {text!r} has characters that XML cannot hold; give another one, for "
                "features in features="
            )
    root = Element("PMML", version="4.4", xmlns="http://www.dmg.org/PMML-4_4")
    SubElement(SubElement(root, "Header"), "Application", name="linrank", version=__version__)
    fields = SubElement(root, "DataDictionary", numberOfFields=str(len(formula.terms)))
    model = SubElement(root, "RegressionModel", functionName="regression", modelName=name)
    schema = SubElement(model, "MiningSchema")
    taken = {term.name for term in formula.terms.values()}
    _add_output(model, _unused("score", taken))
    derived = Element("LocalTransformations")
    table = Element("RegressionTable", intercept=repr(formula.constant))
    for term in formula.terms.values():
        SubElement(fields, "DataField", name=term.name, optype="continuous", dataType="double")
        SubElement(schema, "MiningField", name=term.name)
        predictor, weight = term.name, term.weight
        if term.log or term.low is not None or term.high is not None or term.missing is not None:
            predictor, weight = _unused(f"{term.name} contribution", taken), 1.0
            derived.append(_derive(term, predictor))
        SubElement(table, "NumericPredictor", name=predictor, coefficient=repr(weight))
    if len(derived):
        model.append(derived)
    model.append(table)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _add_output(model: Element, name: str) -> None:
    output = SubElement(model, "Output")
    SubElement(output, "OutputField", name=name, optype="continuous", dataType="double",
               feature="predictedValue")  # fmt: skip


def _unused(name: str, taken: set[str]) -> str:
    """Return a name that no other field has, and remember it."""
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _derive(term: Term, name: str) -> Element:
    """Return a field with the contribution of a feature."""
    field = Element("DerivedField", name=name, optype="continuous", dataType="double")
    value = Element("FieldRef", field=term.name)
    if term.log:
        negative = _apply("*", _constant(-1.0), _apply("ln", _apply("-", _constant(1.0), value)))
        positive = _apply("ln", _apply("+", _constant(1.0), value))
        value = _apply("if", _apply("lessThan", value, _constant(0.0)), negative, positive)
    if term.low is not None:
        low = _constant(term.low)
        value = _apply("if", _apply("lessThan", value, low), low, value)
    if term.high is not None:
        high = _constant(term.high)
        value = _apply("if", _apply("greaterThan", value, high), high, value)
    value = _apply("*", _constant(term.weight), value)
    if term.missing is not None:
        is_missing = _apply("isMissing", Element("FieldRef", field=term.name))
        value = _apply("if", is_missing, _constant(term.missing), value)
    field.append(value)
    return field


def _apply(function: str, *arguments: Element) -> Element:
    call = Element("Apply", function=function)
    call.extend(arguments)
    return call


def _constant(number: float) -> Element:
    element = Element("Constant", dataType="double")
    element.text = repr(number)
    return element
