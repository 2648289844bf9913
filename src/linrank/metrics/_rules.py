"""Where definitions of one metric differ: gains, discounts, ties, empty queries; and flavours."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError

Gain = str | Callable[[float], float] | Mapping[float, float]

GAINS = ("exp2", "linear")
DISCOUNTS = ("log2", "letor")
TIES = ("average", "stable", "pessimistic", "optimistic", "docno")
SKIP = "skip"


@dataclass(frozen=True)
class Rules:
    """What a metric does where its definition leaves a choice.

    Attributes
    ----------
    gain : {"exp2", "linear"}, callable or mapping
        What a label is worth to NDCG.
    discount : {"log2", "letor"}
        What a rank is worth to NDCG.
    rel : float
        The smallest label that counts as relevant in binary metrics.
    no_relevant : {0, 1, "skip", nan}
        What a query without a relevant document counts as.
    ties : {"average", "stable", "pessimistic", "optimistic", "docno"}
        In which order documents of equal score stand.
    zero_if_short : frozenset of str
        The metrics that are 0 at a cut-off beyond the end of the list.
    """

    gain: Gain = "exp2"
    discount: str = "log2"
    rel: float = 1.0
    no_relevant: float | str = SKIP
    ties: str = "average"
    zero_if_short: frozenset[str] = frozenset()


_LETOR = Rules(discount="letor", no_relevant=0.0, ties="stable", zero_if_short=frozenset({"ndcg"}))

FLAVOURS = {
    "standard": Rules(),
    "letor3": replace(_LETOR, zero_if_short=frozenset({"ndcg", "p"})),
    "letor4": _LETOR,
    "mslr": replace(_LETOR, rel=2.0),
    "trec": Rules(gain="linear", no_relevant=0.0, ties="docno"),
}


def resolve_rules(flavour: str = "standard", *, doc_ids: Any = None, **explicit: Any) -> Rules:
    """Take the rules of a flavour, and every explicit argument that is not None in their place.

    Examples
    --------
    >>> resolve_rules("mslr", no_relevant="skip").rel
    2.0
    """
    check_choice("flavour", flavour, tuple(FLAVOURS))
    given = {name: value for name, value in explicit.items() if value is not None}
    for name, check in _CHECKS.items():
        if name in given:
            check(given[name])
    if given.get("ties") == "docno" and doc_ids is None:
        raise DataError('ties="docno" needs doc_ids, one identifier per document')
    return replace(FLAVOURS[flavour], **given)


def check_choice(name: str, value: Any, known: tuple[str, ...]) -> None:
    """Refuse a value that is not one of the known words."""
    if not isinstance(value, str) or value not in known:
        raise DataError(f"{name} is {value!r}; known are {', '.join(known)}")


def _check_gain(gain: Any) -> None:
    if callable(gain) or isinstance(gain, Mapping):
        return
    if not isinstance(gain, str) or gain not in GAINS:
        raise DataError(
            f"gain is {gain!r}; known are {', '.join(GAINS)}, "
            "a function of the label, or a mapping from label to gain"
        )


def _check_no_relevant(value: Any) -> None:
    number = isinstance(value, Real) and (value in (0, 1) or math.isnan(value))
    if not number and not (isinstance(value, str) and value == SKIP):
        raise DataError(f'no_relevant is {value!r}; expected 0, 1, "skip" or nan')


def _check_rel(rel: Any) -> None:
    if isinstance(rel, bool) or not isinstance(rel, Real) or not math.isfinite(rel):
        raise DataError(f"rel is {rel!r}; expected the smallest label that counts as relevant")


_CHECKS: dict[str, Callable[[Any], None]] = {
    "gain": _check_gain,
    "discount": lambda value: check_choice("discount", value, DISCOUNTS),
    "rel": _check_rel,
    "no_relevant": _check_no_relevant,
    "ties": lambda value: check_choice("ties", value, TIES),
}


def check_cutoff(k: Any) -> int | None:
    """Return a cut-off as an int, or None for the whole list."""
    if k is None:
        return None
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1:
        raise DataError(f"k is {k!r}; expected a whole number of at least 1, or None")
    return int(k)


def discounts(kind: str, n: int) -> NDArray[np.float64]:
    """Compute the weights of the ranks r = 1, …, n: 1/log2(r + 1), or LETOR's 1/max(1, log2 r).

    Examples
    --------
    >>> discounts("letor", 4).tolist()
    [1.0, 1.0, 0.6309297535714575, 0.5]
    """
    ranks = np.arange(1, n + 1, dtype=np.float64)
    if kind == "letor":
        return 1.0 / np.maximum(1.0, np.log2(ranks))
    return 1.0 / np.log2(ranks + 1.0)


def apply_gain(y: NDArray[np.float64], gain: Gain) -> tuple[NDArray[np.float64], str]:
    """Put a caller's own gains in the place of the labels: labels, and the gain that remains.

    Examples
    --------
    >>> apply_gain(np.array([0.0, 2.0, 1.0]), {0: 0, 1: 5, 2: 6})
    (array([0., 6., 5.]), 'linear')
    """
    if isinstance(gain, str):
        return y, gain
    levels, inverse = np.unique(y, return_inverse=True)
    worth = np.empty(len(levels))
    for i, level in enumerate(levels.tolist()):
        if isinstance(gain, Mapping) and level not in gain:
            raise DataError(f"gain has no entry for the label {level:g}, which occurs in y")
        worth[i] = gain[level] if isinstance(gain, Mapping) else gain(level)
        if not 0.0 <= worth[i] < math.inf:
            raise DataError(
                f"gain of the label {level:g} is {worth[i]}; gains must be finite and at least 0"
            )
    return worth[inverse], "linear"
