"""Sums of terms as text, for targets whose scores are expressions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from .formula import Formula

if TYPE_CHECKING:
    from ..model import Term

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
    number : callable
        Text of a number, which may be negative.
    """

    log: str
    low: str
    high: str
    missing: str
    number: Callable[[float], str] = repr


def write_term(term: Term, reference: str, syntax: Syntax) -> str:
    """Return the contribution of one feature as text.

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


def write_sum(formula: Formula, references: Iterable[str], syntax: Syntax, indent: str = "") -> str:
    """Return the score as text, with one term per line.

    Parameters
    ----------
    formula : Formula
    references : iterable of str
        Text that stands for the raw value of each term's feature.
    syntax : Syntax
    indent : str
        Blanks before each line but the first.
    """
    pairs = zip(formula.terms, references, strict=True)
    parts = [write_term(term, reference, syntax) for term, reference in pairs]
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
