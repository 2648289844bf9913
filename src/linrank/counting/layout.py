"""Choice of a counting, and the layout of the pairs that its kernels read."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .._util.checks import choice
from .._util.types import Vector
from ..choices import COUNTINGS
from ..data.ranking import RankingData
from ..errors import DataError
from . import plan
from .explicit import ExplicitLayout, lay_out_given, lay_out_listed
from .plan import Layout, LevelComparison, Levels, rank_labels
from .preferences import Preferences
from .tables import TableLayout, lay_out_tables
from .trees import STRUCTURES, TreeLayout, lay_out_trees
from .two_level import TwoLevelLayout, lay_out_problems

MANY_LEVELS = 5000  #: mean levels per query above which Fenwick trees are faster than tables


class Family(NamedTuple):
    """A class of layouts, and the function that makes one for a counting."""

    layout: type[Layout]
    lay_out: Callable[[str, LevelComparison], Layout]


#: The family of every counting but "auto".
FAMILIES = {
    "tables": Family(TableLayout, lay_out_tables),
    "explicit": Family(ExplicitLayout, lay_out_listed),
    "two-level": Family(TwoLevelLayout, lay_out_problems),
    **dict.fromkeys(STRUCTURES, Family(TreeLayout, lay_out_trees)),
}


def lay_out(
    data: RankingData, preferences: Preferences, counting: str, exact: bool, n_threads: int
) -> Layout:
    """Lay out the pairs of the data for a counting.

    Parameters
    ----------
    data : RankingData
    preferences : Preferences
    counting : str
        One of `linrank.choices.COUNTINGS`.
    exact : bool
        Whether the loss is not a table of hinges, so that pairs must be listed.
    n_threads : int
    """
    choice("counting", counting, COUNTINGS)
    query_weight = np.ones(data.n_queries) if data.query_weight is None else data.query_weight
    if data.pairs is not None:
        _check_given(counting, preferences)
        return lay_out_given(data, query_weight)
    levels = rank_labels(data, query_weight, n_threads)
    if data.propensity is not None:
        data, levels = _fold_propensity(data, data.propensity, levels)
    offsets = preferences.offsets(data)
    case = LevelComparison(data, query_weight, preferences, levels, offsets, exact)
    chosen = _choose(counting, case)
    return FAMILIES[chosen].lay_out(chosen, case)


def _check_given(counting: str, preferences: Preferences) -> None:
    """Raise a `DataError` for settings that do not apply to pairs that a user lists."""
    if counting != "auto" and not FAMILIES[counting].layout.lists_pairs:
        raise DataError(
            f"counting={counting!r} derives the pairs from labels, but the pairs are listed one by "
            "one. Use counting='explicit'."
        )
    if preferences != Preferences():
        raise DataError(
            "pairs=, rescale= and delta= apply to pairs that follow from labels, but the pairs are "
            "listed one by one. Use the weight and the margin of each pair instead."
        )


def _choose(counting: str, case: LevelComparison) -> str:
    """Return the counting to use, or raise a `DataError` if it cannot count these pairs."""
    if case.exact:
        if counting != "auto" and not FAMILIES[counting].layout.lists_pairs:
            raise DataError(
                f"counting={counting!r} needs a loss that is a table of hinges; "
                "loss='logistic_exact' is not. Use counting='explicit', or loss='logistic', which "
                "is within 0.003 of it."
            )
        return "explicit"
    if case.preferences.plain and case.data.propensity is None:
        return _fastest(case) if counting == "auto" else counting
    if counting == "auto":
        few = min(plan.MAX_PAIRS, case.two_level_work())
        return "explicit" if case.n_pairs() <= few else "two-level"
    if not FAMILIES[counting].layout.weighs_pairs:
        what = (
            "propensity with more than two levels"
            if case.preferences.plain
            else case.preferences.summary()
        )
        raise DataError(
            f"counting={counting!r} gives all pairs of a query one margin and the weights of their "
            f"documents, but {what} does not. Use counting='two-level' or 'explicit' (or 'auto', "
            "which chooses one of them)."
        )
    return counting


def _fastest(case: LevelComparison) -> str:
    """Return the counting that was measured to be the fastest for so many levels."""
    mean = float(np.diff(case.data.query_ptr) @ case.levels.n_levels) / case.data.n_docs
    return "fenwick" if mean > MANY_LEVELS else "tables"


def _fold_propensity(
    data: RankingData, propensity: Vector, levels: Levels
) -> tuple[RankingData, Levels]:
    """Move propensities into the weights of documents, if no query has more than two levels.

    Each document is then the upper one in all of its pairs, or in none.
    """
    if levels.n_levels.max() > 2:
        return data, levels
    weight = np.ones(data.n_docs) if data.weight is None else data.weight.copy()
    upper = levels.level == 1
    weight[upper] /= propensity[upper]
    first = data.query_ptr[:-1]
    parts = [np.add.reduceat(weight * (levels.level == k), first) for k in (0, 1)]
    levels.mass[:, 1] = parts[0] * parts[1]
    return data.replace(weight=weight, propensity=None), levels
