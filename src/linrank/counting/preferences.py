"""Preferences: which pairs are compared, how far apart they should be, and what they weigh."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._util.checks import choice
from .._util.types import Integers, Vector
from ..choices import DELTAS, PAIRS, RESCALES
from ..data.ranking import RankingData
from ..errors import DataError

#: δ as a function of the labels of the upper and of the lower documents, one entry per pair.
Delta: TypeAlias = Callable[[Vector, Vector], ArrayLike]


@dataclass(frozen=True)
class Preferences:
    """The pairs (i, j) of a query with label i above label j, and their δ_ij.

    Margin rescaling asks for a score difference of √δ_ij instead of 1. Slack rescaling multiplies
    the loss of the pair by δ_ij (Chapelle & Keerthi 2010, §6.2).

    Parameters
    ----------
    pairs : {"all", "adjacent"}
        With ``"adjacent"``, only neighbouring levels of a query are compared (Lee & Lin 2014, §5).
    rescale : {None, "margin", "slack"}
    delta : {"label", "label-squared", "gain", "dcg"} or callable
        The formula of δ_ij:

        - ``"label"``: y_i − y_j;
        - ``"label-squared"``: (y_i − y_j)²;
        - ``"gain"``: 2^y_i − 2^y_j;
        - ``"dcg"``: the DCG that is lost if i and j swap their places in the ideal ranking. Each
          document of positive weight holds one place there, whatever it weighs. Otherwise δ would
          change when all weights are scaled.
        - a callable: it gets the labels of the upper and of the lower documents as two arrays,
          and returns the δ of each pair.

    Examples
    --------
    >>> Preferences(rescale="slack", delta="gain").summary()
    "rescale='slack' with delta='gain'"
    """

    pairs: str = "all"
    rescale: str | None = None
    delta: str | Delta = "label"

    def __post_init__(self) -> None:
        choice("pairs", self.pairs, PAIRS)
        choice("rescale", self.rescale, (None, *RESCALES))
        if not callable(self.delta):
            choice("delta", self.delta, DELTAS, "or a function of the two labels")
        if self.rescale is None and self.delta != "label":
            raise DataError(
                f"delta is {self.delta_name!r}, but nothing is rescaled by it. Use "
                "rescale='margin' or 'slack' as well."
            )

    @property
    def delta_name(self) -> str:
        """The name of δ; that of the function if δ is one."""
        return self.delta if isinstance(self.delta, str) else self.delta.__qualname__

    @property
    def separable(self) -> bool:
        """Whether the margin is y_i − y_j, which is a difference of offsets of the scores."""
        return self.rescale == "margin" and self.delta == "label-squared"

    @property
    def plain(self) -> bool:
        """Whether all pairs are compared, with one weight and one margin (up to offsets)."""
        return self.pairs == "all" and (self.rescale is None or self.separable)

    def summary(self) -> str:
        """Return the arguments that make pairs differ, as error messages quote them."""
        if self.rescale is None:
            return f"pairs={self.pairs!r}"
        return f"rescale={self.rescale!r} with delta={self.delta_name!r}"

    def deltas(self, upper: Vector, lower: Vector, discounts: tuple[Vector, Vector]) -> Vector:
        """Compute δ for pairs of labels, given their discounts in the ideal ranking."""
        with np.errstate(over="ignore", invalid="ignore"):  # the result is checked below
            if callable(self.delta):
                delta = _as_numbers(self.delta(upper, lower))
            elif self.delta == "label":
                delta = upper - lower
            elif self.delta == "label-squared":
                delta = (upper - lower) ** 2
            else:
                delta = np.exp2(upper) - np.exp2(lower)
                if self.delta == "dcg":
                    delta *= discounts[0] - discounts[1]
        if delta.shape != upper.shape:
            raise DataError(
                f"delta returned an array of shape {delta.shape} for {len(upper)} pairs; expected "
                "one δ per pair"
            )
        bad = np.flatnonzero(~(np.isfinite(delta) & (delta >= 0)))
        if len(bad):
            raise DataError(
                f"delta is {delta[bad[0]]} for the labels {upper[bad[0]]:g} above "
                f"{lower[bad[0]]:g}; expected finite numbers ≥ 0 (delta='label' computes no powers)"
            )
        return delta

    def weight_and_shift(self, delta: Vector) -> tuple[Vector | None, Vector | None]:
        """Return the weights that δ gives to pairs, and their margins minus 1.

        Either is None if δ does not change it.
        """
        if self.rescale == "slack":
            return delta, None
        if self.rescale == "margin" and not self.separable:
            return None, np.sqrt(delta) - 1.0
        return None, None

    def offsets(self, data: RankingData) -> Vector | None:
        """Return what is subtracted from each score so that all margins become 0, or None."""
        if data.margin is not None and self.rescale == "margin":
            raise DataError(
                "margin is given for each document and also by rescale='margin'. Use only one of "
                "them."
            )
        return data.y if self.separable else data.margin


ALL_PAIRS = Preferences()


def _as_numbers(values: ArrayLike) -> Vector:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"the result of delta cannot be read as numbers: {error}") from None


def ideal_discounts(level: NDArray[np.int32], query_ptr: Integers) -> Vector:
    """Compute the discount 1 / log₂(1 + p) of each document at its place p in the ideal ranking.

    Documents of one level share the mean of the discounts of their places.

    Examples
    --------
    >>> ideal_discounts(np.array([1, 0, 0]), np.array([0, 3])).round(3).tolist()
    [1.0, 0.565, 0.565]
    """
    query = np.repeat(np.arange(len(query_ptr) - 1), np.diff(query_ptr))
    best_first = np.lexsort((-level, query))
    place = np.arange(len(level)) - query_ptr[query] + 1
    discount = 1.0 / np.log2(1.0 + place)
    start = np.diff(query, prepend=-1) != 0
    start |= np.diff(level[best_first], prepend=-2) != 0
    starts = np.flatnonzero(start)
    sizes = np.diff(np.append(starts, len(level)))
    means = np.add.reduceat(discount, starts) / sizes
    found = np.empty(len(level))
    found[best_first] = np.repeat(means, sizes)
    return found
