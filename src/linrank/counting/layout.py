"""Choice of a counting, and the layout of the pairs that its kernels read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .._checks import choice
from .._sort import sort_in_threads
from .._typing import Vector
from ..data.ranking import RankingData
from ..errors import DataError
from . import comparison, tables, trees
from .base import Layout, Scratch
from .comparison import Comparison
from .listed import ExplicitLayout, lay_out_given, lay_out_listed
from .names import COUNTINGS
from .plan import START, Levels, PairPlan, plan_pairs, rank_labels
from .preferences import Preferences
from .problems import TwoLevelLayout, lay_out_problems
from .sweep import STRUCTURES

MANY_LEVELS = 5000  #: mean levels per query above which Fenwick trees are faster than tables


@dataclass(frozen=True)
class NodeLayout(Layout):
    """Pairs by the digits of their levels (`PairPlan`), for kernels that sort whole queries."""

    plan: PairPlan

    def sort_query(self, q: int, scores: Vector, scratch: Scratch, n_threads: int) -> None:
        """Sort the documents of query q by score, with several threads."""
        assert isinstance(scratch, tables.TableScratch | trees.TreeScratch)
        node, nodes = self.plan.query_nodes[q], self.plan.nodes
        if node < self.plan.query_nodes[q + 1]:
            docs = self.docs[nodes[node, START] : nodes[node + 1, START]]
            sort_in_threads(scores, docs, scratch.keys, scratch.docs, n_threads)


@dataclass(frozen=True)
class TableLayout(NodeLayout):
    """Pairs in nodes of at most `MOST_LEVELS` levels, for `linrank.counting.tables`."""

    def make_state(self, n_hinges: int) -> tables.TableState:
        """Allocate the state for a loss with that many hinges."""
        return tables.make_state(self.plan, self.docs, n_hinges)

    def make_scratch(self, n: int) -> tables.TableScratch:
        """Allocate the buffers of one thread, for queries of up to n documents."""
        return tables.make_scratch(self.plan, n)


@dataclass(frozen=True)
class TreeLayout(NodeLayout):
    """Pairs in one node per query, for the sweeps of `linrank.counting.trees`."""

    def make_state(self, n_hinges: int) -> trees.TreeState:
        """Allocate the state for a loss with that many hinges."""
        return trees.make_state(self.plan, self.docs, n_hinges, STRUCTURES[self.counting])

    def make_scratch(self, n: int) -> trees.TreeScratch:
        """Allocate the buffers of one thread, for queries of up to n documents."""
        return trees.make_scratch(self.plan, n)


def _lay_out_tables(counting: str, case: Comparison) -> TableLayout:
    plan, docs = plan_pairs(
        case.data, case.query_weight, case.levels, tables.MOST_LEVELS, case.offsets
    )
    return TableLayout(counting, plan, docs, case.levels.mass)


def _lay_out_trees(counting: str, case: Comparison) -> TreeLayout:
    plan, docs = plan_pairs(case.data, case.query_weight, case.levels, None, case.offsets)
    return TreeLayout(counting, plan, docs, case.levels.mass)


class Family(NamedTuple):
    """A class of layouts, and the function that makes one for a counting."""

    layout: type[Layout]
    lay_out: Callable[[str, Comparison], Layout]


_TREES = Family(TreeLayout, _lay_out_trees)

#: The family of every counting but "auto".
FAMILIES = {
    "tables": Family(TableLayout, _lay_out_tables),
    "explicit": Family(ExplicitLayout, lay_out_listed),
    "two-level": Family(TwoLevelLayout, lay_out_problems),
    **dict.fromkeys(STRUCTURES, _TREES),
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
        One of `linrank.counting.names.COUNTINGS`.
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
    data, levels = _fold_propensity(data, levels)
    offsets = preferences.offsets(data)
    case = Comparison(data, query_weight, preferences, levels, offsets, exact)
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


def _choose(counting: str, case: Comparison) -> str:
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
        few = min(comparison.MAX_PAIRS, case.two_level_work())
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


def _fastest(case: Comparison) -> str:
    """Return the counting that was measured to be the fastest for so many levels."""
    mean = float(np.diff(case.data.query_ptr) @ case.levels.n_levels) / case.data.n_docs
    return "fenwick" if mean > MANY_LEVELS else "tables"


def _fold_propensity(data: RankingData, levels: Levels) -> tuple[RankingData, Levels]:
    """Move propensities into the weights of documents, if no query has more than two levels.

    Each document is then the upper one in all of its pairs, or in none.
    """
    if data.propensity is None or levels.n_levels.max() > 2:
        return data, levels
    weight = np.ones(data.n_docs) if data.weight is None else data.weight.copy()
    upper = levels.level == 1
    weight[upper] /= data.propensity[upper]
    first = data.query_ptr[:-1]
    parts = [np.add.reduceat(weight * (levels.level == k), first) for k in (0, 1)]
    levels.mass[:, 1] = parts[0] * parts[1]
    return data.replace(weight=weight, propensity=None), levels
