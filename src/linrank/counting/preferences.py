"""Which pairs count, how far apart they should be, and how much each weighs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._checks import choice
from .._typing import Vector
from ..data.ranking import RankingData
from ..errors import DataError

Delta = Callable[[Vector, Vector], Any]  #: δ of the labels of the upper and the lower document

DELTAS = ("label", "label-squared", "gain", "dcg")


@dataclass(frozen=True)
class Preferences:
    """The pairs (i, j) of a query with label i above label j, and their δ_ij.

    With margin rescaling a pair is asked to be √δ_ij apart instead of 1, with slack rescaling
    its loss is multiplied by δ_ij (Chapelle & Keerthi 2010, §6.2).

    Parameters
    ----------
    pairs : {"all", "adjacent"}
        ``adjacent``: only pairs of neighbouring levels of a query (Lee & Lin 2014, §5).
    rescale : {None, "margin", "slack"}
    delta : {"label", "label-squared", "gain", "dcg"} or callable
        δ_ij: y_i − y_j, its square, 2^y_i − 2^y_j, or the DCG that is lost when i and j change
        places in the ideal ranking. There each document of weight above 0 holds one place: if it
        held as many as it weighs, δ would change when all weights are scaled. A callable gets
        the labels of the upper and of the lower documents as two arrays and returns the δ of
        each pair.
    """

    pairs: str = "all"
    rescale: str | None = None
    delta: str | Delta = "label"

    def __post_init__(self) -> None:
        choice("pairs", self.pairs, ("all", "adjacent"))
        choice("rescale", self.rescale, (None, "margin", "slack"))
        if not callable(self.delta):
            choice("delta", self.delta, DELTAS, "or a function of the two labels")
        if self.rescale is None and self.delta != "label":
            raise DataError(
                f"delta is {self.delta_name!r}, but nothing is rescaled by it: give "
                "rescale='margin' or 'slack' as well"
            )

    @property
    def delta_name(self) -> str:
        """What δ is, in a word: a function by its name."""
        return self.delta if isinstance(self.delta, str) else self.delta.__qualname__

    @property
    def separable(self) -> bool:
        """Whether the margin is y_i − y_j, which is an offset of each score."""
        return self.rescale == "margin" and self.delta == "label-squared"

    @property
    def plain(self) -> bool:
        """Whether all pairs count, with one weight and one margin but for offsets."""
        return self.pairs == "all" and (self.rescale is None or self.separable)

    def deltas(self, upper: Vector, lower: Vector, discounts: tuple[Vector, Vector]) -> Vector:
        """``δ`` for pairs of labels, given their discounts in the ideal ranking."""
        with np.errstate(over="ignore", invalid="ignore"):  # looked at below
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
                f"delta returned shape {delta.shape} for {len(upper)} pairs; expected one δ each"
            )
        bad = np.flatnonzero(~(np.isfinite(delta) & (delta >= 0)))
        if len(bad):
            raise DataError(
                f"delta is {delta[bad[0]]} for the labels {upper[bad[0]]:g} above "
                f"{lower[bad[0]]:g}; expected finite numbers ≥ 0 (delta='label' has no powers)"
            )
        return delta

    def weight_and_shift(self, delta: Vector) -> tuple[Vector | None, Vector | None]:
        """What δ does to a pair: its weight, and its margin less 1; None where nothing changes."""
        if self.rescale == "slack":
            return delta, None
        if self.rescale == "margin" and not self.separable:
            return None, np.sqrt(delta) - 1.0
        return None, None

    def offsets(self, data: RankingData) -> Vector | None:
        """What is taken from each score, so that a margin of 0 is left: None where nothing is."""
        if data.margin is not None and self.rescale == "margin":
            raise DataError(
                "margin is given per document and by rescale='margin'; give one of them"
            )
        return data.y if self.separable else data.margin


ALL_PAIRS = Preferences()


def _as_numbers(values: Any) -> Vector:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"what delta returned cannot be read as numbers: {error}") from None


def ideal_discounts(level: NDArray[np.int32], query_ptr: NDArray[np.int64]) -> Vector:
    """``1 / log₂(1 + p)`` of each document in the ideal ranking of its query.

    Documents of one level share the mean over the places that they hold together.

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
