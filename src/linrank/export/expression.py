"""Sums of terms as text, for targets whose scores are expressions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ..model import Curve, Surface, Term
    from ..model.curves import Axis
    from .formula import Formula

#: Terms that are added without parentheses. Parsers nest a + b + c: SQLite allows a depth of 1000.
TERMS_PER_GROUP = 100


class Syntax(NamedTuple):
    """How a language writes the parts of a term; texts are templates of `str.format`.

    Attributes
    ----------
    log : str
        sign(x)·log(1 + |x|) of ``{x}``.
    low, high : str
        The larger (smaller) of ``{x}`` and ``{limit}``, if neither is missing.
    missing : str
        ``{missing}`` if ``{x}`` is missing, otherwise ``{present}``.
    choice : str
        ``{yes}`` if the comparison ``{x} {test} {limit}`` holds, otherwise ``{no}``.
    equal : str
        The operator that tests equality.
    number : callable
        Text of a number, which may be negative.
    """

    log: str
    low: str
    high: str
    missing: str
    choice: str
    equal: str = "=="
    number: Callable[[float], str] = repr


def write_term(term: Term, reference: str, syntax: Syntax) -> str:
    """Return the contribution of one feature to a linear score as text.

    Parameters
    ----------
    term : Term
    reference : str
        Text that stands for the raw value of the feature.
    syntax : Syntax
    """
    value = syntax.log.format(x=reference) if term.log else reference
    if term.low is not None:
        value = syntax.low.format(x=value, limit=syntax.number(term.low))
    if term.high is not None:
        value = syntax.high.format(x=value, limit=syntax.number(term.high))
    text = f"{syntax.number(term.weight)} * {value}"
    if term.missing is not None:
        missing = syntax.number(term.missing)
        return syntax.missing.format(x=reference, missing=missing, present=text)
    if term.low is None and term.high is None:
        return text
    # Some languages ignore a missing argument of min and max, so it is passed on here.
    return syntax.missing.format(x=reference, missing=reference, present=text)


def write_curve(curve: Curve, reference: str, syntax: Syntax) -> str:
    """Return a function of one feature as text, with the operations of `Curve` in their order."""
    axis = curve.axis
    places = [
        _place(reference, anchor, width, syntax)
        for anchor, width in zip(axis.anchors.tolist(), axis.widths.tolist(), strict=True)
    ]
    texts = [
        _polynomial(row, place, syntax)
        for row, place in zip(curve.pieces.tolist(), places, strict=True)
    ]
    texts[-1] = syntax.number(float(curve.pieces[-1, 0]))  # the place of a missing value is 0
    return _write_cells(axis, reference, texts, syntax)


def write_surface(surface: Surface, references: Sequence[str], syntax: Syntax) -> str:
    """Return a function of two features as text; references stand for their values."""
    first, second = surface.axes
    rows = [
        _write_cells(second, references[1], list(map(syntax.number, row)), syntax)
        for row in surface.values.tolist()
    ]
    return _write_cells(first, references[0], rows, syntax)


def _write_cells(axis: Axis, x: str, texts: list[str], syntax: Syntax) -> str:
    """Return the text of the cell that the value x is in, given the texts of all cells."""
    *present, missing = texts
    limits = list(map(syntax.number, axis.knots.tolist()))
    if axis.levels:
        other = present[-1]
        same = [
            syntax.choice.format(x=x, test=syntax.equal, limit=limit, yes=text, no=other)
            for limit, text in zip(limits, present, strict=False)
        ]
        present = [other, *same]
    return syntax.missing.format(x=x, missing=missing, present=_search(x, limits, present, syntax))


def _search(x: str, limits: Sequence[str], texts: Sequence[str], syntax: Syntax) -> str:
    """Return a binary search for the cell of x, which few nested comparisons suffice for."""
    if len(texts) == 1 or all(text == texts[0] for text in texts):
        return texts[0]
    half = len(texts) // 2
    yes = _search(x, limits[: half - 1], texts[:half], syntax)
    no = _search(x, limits[half:], texts[half:], syntax)
    return syntax.choice.format(x=x, test="<", limit=limits[half - 1], yes=yes, no=no)


def _place(x: str, anchor: float, width: float, syntax: Syntax) -> str:
    """Return the place of x in its cell as text."""
    shifted = x if anchor == 0.0 else f"({_plus(x, -anchor, syntax)})"
    return shifted if width == 1.0 else f"({shifted} / {syntax.number(width)})"


def _polynomial(coefficients: list[float], t: str, syntax: Syntax) -> str:
    """Return a polynomial of t as text, evaluated from the highest power on."""
    while len(coefficients) > 1 and coefficients[-1] == 0.0:
        coefficients = coefficients[:-1]
    *lower, highest = coefficients
    text = syntax.number(highest)
    for power, coefficient in enumerate(reversed(lower)):
        text = _plus(f"({text}) * {t}" if power else f"{text} * {t}", coefficient, syntax)
    return f"({text})" if lower else text


def _plus(text: str, number: float, syntax: Syntax) -> str:
    return f"{text} {'-' if number < 0 else '+'} {syntax.number(abs(number))}"


def write_sum(formula: Formula, references: Iterable[str], syntax: Syntax, indent: str = "") -> str:
    """Return the score as text, with one term per line.

    Parameters
    ----------
    formula : Formula
    references : iterable of str
        Text that stands for the raw value of each feature of ``formula.columns``.
    syntax : Syntax
    indent : str
        Blanks before each line but the first.
    """
    parts = formula.texts(dict(zip(formula.columns, references, strict=True)), syntax)
    if formula.constant:
        parts.insert(0, syntax.number(formula.constant))
    if len(parts) <= TERMS_PER_GROUP:
        return _add(parts, indent)
    groups = [parts[k : k + TERMS_PER_GROUP] for k in range(0, len(parts), TERMS_PER_GROUP)]
    return _add([f"({_add(group, indent)})" for group in groups], indent)


def _add(parts: list[str], indent: str) -> str:
    text = parts[0]
    for part in parts[1:]:
        sign, part = ("-", part[1:]) if part.startswith("-") else ("+", part)
        text += f"\n{indent}{sign} {part}"
    return text
