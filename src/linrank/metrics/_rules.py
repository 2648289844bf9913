"""Conventions in which definitions of a metric differ: gains, discounts, ties and flavours."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Literal, TypeAlias, TypedDict, Unpack

import numpy as np

from .._checks import choice, whole_number
from .._typing import Vector
from ..errors import DataError, NegativeLabelsWarning, warn
from .names import DISCOUNTS, FLAVOURS, GAINS, TIES, DiscountName, FlavourName, GainName, TieName

Gain: TypeAlias = GainName | Callable[[float], float] | Mapping[float, float]
NoRelevant: TypeAlias = float | Literal["skip"]  #: 0, 1, NaN or "skip"


@dataclass(frozen=True)
class Rules:
    """The conventions that a metric follows where its definition leaves a choice.

    Attributes
    ----------
    gain : {"exp2", "linear"}, callable or mapping
        Gain of a label in NDCG.
    discount : {"log2", "letor"}
        Discount of a rank in NDCG.
    rel : float
        Smallest label that counts as relevant in binary metrics.
    no_relevant : {0, 1, "skip", nan}
        Value of a query without a relevant document.
    ties : {"average", "stable", "pessimistic", "optimistic", "docno"}
        Order of documents of equal score.
    zero_if_short : frozenset of str
        Names of the metrics that are 0 at a cut-off beyond the end of the list.
    """

    gain: Gain = "exp2"
    discount: DiscountName = "log2"
    rel: float = 1.0
    no_relevant: NoRelevant = "skip"
    ties: TieName = "average"
    zero_if_short: frozenset[str] = frozenset()


class RuleOptions(TypedDict, total=False):
    """Arguments of metrics that override the rules of a flavour, unless they are None."""

    gain: Gain | None
    discount: DiscountName | None
    rel: float | None
    no_relevant: NoRelevant | None
    ties: TieName | None


class ListOptions(TypedDict, total=False):
    """Arguments that all metrics of ranked lists share; `linrank.ndcg` describes them."""

    flavour: FlavourName
    no_relevant: NoRelevant | None
    ties: TieName | None
    doc_ids: Collection[object] | None


class CutoffOptions(ListOptions, total=False):
    """Arguments of metrics of ranked lists with a cut-off."""

    k: int | None


class BinaryOptions(ListOptions, total=False):
    """Arguments of metrics of binary relevance without a cut-off."""

    rel: float | None


class RelevanceOptions(CutoffOptions, BinaryOptions, total=False):
    """Arguments of metrics of binary relevance."""


_LETOR = Rules(discount="letor", no_relevant=0.0, ties="stable", zero_if_short=frozenset({"ndcg"}))

_RULES: dict[FlavourName, Rules] = {
    "standard": Rules(),
    "letor3": replace(_LETOR, zero_if_short=frozenset({"ndcg", "p"})),
    "letor4": _LETOR,
    "mslr": replace(_LETOR, rel=2.0),
    "trec": Rules(gain="linear", no_relevant=0.0, ties="docno"),
}


def resolve_rules(
    flavour: FlavourName = "standard",
    *,
    doc_ids: Collection[object] | None = None,
    **overrides: Unpack[RuleOptions],
) -> Rules:
    """Return the rules of a flavour, with every override that is not None in their place.

    Parameters
    ----------
    flavour : str
        See `linrank.metrics`.
    doc_ids : sequence, optional
        Identifiers of the documents, which ``ties="docno"`` needs.
    **overrides
        ``gain``, ``discount``, ``rel``, ``no_relevant`` and ``ties``, as in `linrank.ndcg`.

    Returns
    -------
    Rules

    Examples
    --------
    >>> resolve_rules("mslr", no_relevant="skip").rel
    2.0
    """
    choice("flavour", flavour, FLAVOURS)
    given: dict[str, Any] = {name: value for name, value in overrides.items() if value is not None}
    for name, value in given.items():
        _CHECKS[name](value)
    if given.get("ties") == "docno" and doc_ids is None:
        raise DataError('ties="docno" needs doc_ids; pass one identifier per document')
    return replace(_RULES[flavour], **given)


def _check_gain(gain: object) -> None:
    if not callable(gain) and not isinstance(gain, Mapping):
        more = "or a function of the label, or a mapping from labels to gains"
        choice("gain", gain, GAINS, more)


def _check_no_relevant(value: object) -> None:
    is_number = isinstance(value, Real) and (value in (0, 1) or math.isnan(value))
    if not is_number and not (isinstance(value, str) and value == "skip"):
        raise DataError(f'no_relevant is {value!r}; expected 0, 1, "skip" or nan')


def _check_rel(rel: object) -> None:
    if isinstance(rel, bool) or not isinstance(rel, Real) or not math.isfinite(rel):
        raise DataError(
            f"rel is {rel!r}; expected a finite number, the smallest label that counts as relevant"
        )


_CHECKS: dict[str, Callable[[object], None]] = {
    "gain": _check_gain,
    "discount": lambda value: choice("discount", value, DISCOUNTS),
    "rel": _check_rel,
    "no_relevant": _check_no_relevant,
    "ties": lambda value: choice("ties", value, TIES),
}


def check_cutoff(k: int | None) -> int | None:
    """Return a cut-off as an int, or None for the whole list."""
    return None if k is None else whole_number("k", k)


def discounts(kind: DiscountName, n: int) -> Vector:
    """Compute the discounts of the ranks r = 1, …, n: 1/log2(r + 1), or LETOR's 1/max(1, log2 r).

    Examples
    --------
    >>> discounts("letor", 4).tolist()
    [1.0, 1.0, 0.6309297535714575, 0.5]
    """
    ranks = np.arange(1, n + 1, dtype=np.float64)
    if kind == "letor":
        return 1.0 / np.maximum(1.0, np.log2(ranks))
    return 1.0 / np.log2(ranks + 1.0)


def warn_of_negative(y: Vector, gain: Gain) -> None:
    """Warn if a negative label has the same gain as another label, because both gains are 0."""
    if isinstance(gain, str) and y.min() < 0:
        if len(np.unique(y[y <= 0])) < 2:
            return  # Labels such as -1 and 1 keep their order.
        formula = "2^y - 1" if gain == "exp2" else "y"
        warn(
            f"y has negative labels, down to {y.min():g}, whose gain {formula} counts as 0, like "
            "that of the label 0. Add a constant to the labels, so that the smallest is 0, or use "
            "a metric without gains, such as pairwise-accuracy.",
            NegativeLabelsWarning,
        )


def apply_gain(y: Vector, gain: Gain) -> tuple[Vector, GainName]:
    """Replace labels by the gains of a function or mapping.

    Returns the new labels and the name of the gain to apply to them.

    Examples
    --------
    >>> apply_gain(np.array([0.0, 2.0, 1.0]), {0: 0, 1: 5, 2: 6})
    (array([0., 6., 5.]), 'linear')
    """
    if isinstance(gain, str):
        return y, gain
    labels, inverse = np.unique(y, return_inverse=True)
    gains = np.empty(len(labels))
    for i, label in enumerate(labels.tolist()):
        if isinstance(gain, Mapping) and label not in gain:
            raise DataError(f"gain has no entry for the label {label:g}, which occurs in y; add it")
        gains[i] = gain[label] if isinstance(gain, Mapping) else gain(label)
        if not 0.0 <= gains[i] < math.inf:
            raise DataError(
                f"gain of the label {label:g} is {gains[i]}; gains must be finite and at least 0"
            )
    return gains[inverse], "linear"
