"""Random draws of preference pairs, with probabilities proportional to their weights.

The pairs are a union of blocks: every upper document of a block forms a pair with every lower
document of the block. A level of a query and the levels below it are such a block, and so is a pair
that is listed by itself. A draw chooses a block by the weight of its pairs, then a document on each
side by its weight. This takes three binary searches in running sums, O(log l) for l documents.
Without weights, all pairs have the same probability.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._compile.jit import njit
from .._util.types import Integers, Vector
from .explicit import ExplicitPlan
from .plan import PairPlan, Plan, running_sums
from .two_level import MERGED, TwoLevelPlan


class DrawnPairs(NamedTuple):
    """Drawn pairs: rows of X, and what is subtracted from s_i − s_j before the loss is computed."""

    upper: Integers
    lower: Integers
    shift: Vector


class PairSampler:
    """Draw pairs and queries with probabilities proportional to the weight of their pairs.

    Parameters
    ----------
    plan : PairPlan, TwoLevelPlan or ExplicitPlan
    docs : uint32 array
        The documents of a `TwoLevelPlan`, by group; other plans ignore them.

    Attributes
    ----------
    mass : float
        The weight of all pairs.
    rows : int64 array
        The rows of the documents that are in some pair, in increasing order.
    queries, query_mass : arrays
        The queries that have pairs, and the weight of the pairs of each.

    Examples
    --------
    >>> from linrank import RankingData
    >>> from linrank.counting.layout import lay_out
    >>> from linrank.counting.preferences import ALL_PAIRS
    >>> data = RankingData(np.eye(5), y=[0, 1, 2, 1, 0], qid=[1, 1, 1, 2, 2])
    >>> layout = lay_out(data, ALL_PAIRS, "auto", exact=False, n_threads=1)
    >>> sampler = PairSampler(layout.plan, layout.docs)
    >>> pairs = sampler.draw_pairs(np.random.default_rng(0), 1000)
    >>> sorted(set(zip(pairs.upper.tolist(), pairs.lower.tolist())))
    [(1, 0), (2, 0), (2, 1), (3, 4)]
    >>> sampler.query_mass.tolist()
    [3.0, 1.0]
    """

    def __init__(self, plan: Plan, docs: NDArray[np.uint32]) -> None:
        self._blocks = _blocks_of(plan, docs)
        mass, query = self._blocks.mass, self._blocks.query
        self._offset = plan.offset
        self._ends = np.cumsum(mass)
        per_query = np.bincount(query, mass, len(plan.query_ptr) - 1).astype(np.float64)
        self.mass = float(self._ends[-1]) if len(mass) else 0.0
        self.rows = self._blocks.used()
        self.queries = np.flatnonzero(per_query > 0)
        self.query_mass = per_query[self.queries]
        self._query_ends = np.cumsum(self.query_mass)

    def draw_pairs(self, rng: np.random.Generator, n: int) -> DrawnPairs:
        """Draw n pairs with replacement."""
        block = _pick_of_all(self._ends, rng.random(n))
        upper, lower, shift = self._blocks.draw(block, rng)
        if len(self._offset):
            shift = shift + self._offset[upper] - self._offset[lower]
        return DrawnPairs(upper, lower, shift)

    def draw_queries(self, rng: np.random.Generator, n: int) -> tuple[Integers, Vector]:
        """Draw n queries with replacement; return them, and the weight of the pairs of each."""
        k = _pick_of_all(self._query_ends, rng.random(n))
        return self.queries[k], self.query_mass[k]


def _blocks_of(plan: Plan, docs: NDArray[np.uint32]) -> _Blocks | _Listed:
    """Return the blocks of the pairs of a plan."""
    if isinstance(plan, ExplicitPlan):
        return _Listed(plan)
    if isinstance(plan, TwoLevelPlan):
        return _Groups(plan, docs)
    assert isinstance(plan, PairPlan)
    return _Levels(plan)


def _running(weight: Vector | None, first: Integers) -> Vector | None:
    """Compute running sums that restart at the first place of every block."""
    if weight is None:
        return None
    ends = np.empty(len(weight))
    running_sums(weight, np.unique(first), ends)
    return ends


def _between(ends: Vector | None, first: Integers, last: Integers) -> Vector:
    """Return the weight of the places first, …, last − 1; without `ends`, each place weighs 1."""
    return (last - first).astype(np.float64) if ends is None else ends[last - 1]


def _pick(ends: Vector | None, first: Integers, last: Integers, chance: Vector) -> Integers:
    """Choose one of the places first, …, last − 1, by weight, given a random number in [0, 1)."""
    goal = chance * _between(ends, first, last)
    if ends is None:
        return np.minimum(first + goal.astype(np.int64), last - 1)
    found = np.empty(len(goal), np.int64)
    _search(ends, first, last, goal, found)
    return found


def _pick_of_all(ends: Vector, chance: Vector) -> Integers:
    """Choose one of all places, given the running sums of their weights."""
    return np.minimum(np.searchsorted(ends, chance * ends[-1], side="right"), len(ends) - 1)


@njit
def _search(ends, first, last, goal, found):  # type: ignore[no-untyped-def]
    """Find the first place k of first, …, last − 1 with ends[k] > goal, or the last of them."""
    for n in range(len(goal)):
        a, b = first[n], last[n] - 1
        while a < b:
            middle = (a + b) // 2
            if ends[middle] > goal[n]:
                b = middle
            else:
                a = middle + 1
        found[n] = a


class _Blocks:
    """Blocks of pairs between two ranges of documents.

    ``row`` has the row of the document at each place. ``sides`` has the first place of the upper
    documents of each block, the place after their last, and the same for the lower documents.
    ``upper`` and ``lower`` are the weights of the places, ``query`` is the query of each block.
    """

    def __init__(
        self,
        row: Integers,
        upper: Vector | None,
        lower: Vector | None,
        sides: Integers,
        query: Integers,
    ) -> None:
        self.row, self.sides, self.query = row, sides, query
        a, b, c, d = sides
        self.upper, self.lower = _running(upper, a), _running(lower, c)
        self.mass = _between(self.upper, a, b) * _between(self.lower, c, d)
        self.shift = np.zeros(len(query))

    def used(self) -> Integers:
        """Return the rows of the documents in some pair, in increasing order."""
        return np.sort(self.row)

    def draw(self, block: Integers, rng: np.random.Generator) -> tuple[Integers, Integers, Vector]:
        """Draw a pair of each given block: upper rows, lower rows and shifts."""
        a, b, c, d = self.sides[:, block]
        i = _pick(self.upper, a, b, rng.random(len(block)))
        j = _pick(self.lower, c, d, rng.random(len(block)))
        return self.row[i], self.row[j], self.shift[block]


class _Levels(_Blocks):
    """Each level of a query against all levels below it."""

    def __init__(self, plan: PairPlan) -> None:
        query = np.repeat(np.arange(len(plan.query_ptr) - 1), np.diff(plan.query_ptr))
        top = np.maximum.reduceat(plan.level, plan.query_ptr[:-1])
        row = np.flatnonzero((plan.level >= 0) & (top[query] > 0))
        row = row[np.lexsort((plan.level[row], query[row]))]
        query, level = query[row], plan.level[row]
        new_query, new_level = (np.diff(x, prepend=-1) != 0 for x in (query, level))
        starts = np.flatnonzero(new_query | new_level)
        first = np.searchsorted(query, query[starts])
        last = np.append(starts, len(row))[1:]
        above = starts > first  # the lowest level of a query is the upper side of no block
        sides = np.array([starts, last, first, starts])[:, above]
        weight = plan.weight[row] if len(plan.weight) else None
        super().__init__(row, weight, weight, sides, query[starts[above]])
        self.mass *= plan.query_weight[self.query]


class _Groups(_Blocks):
    """The two-level problems of a plan, each of which is a block."""

    def __init__(self, plan: TwoLevelPlan, docs: NDArray[np.uint32]) -> None:
        owner = np.repeat(plan.query_ptr[:-1], np.diff(plan.query_groups))
        row = np.repeat(owner, np.diff(plan.group_ptr)) + docs
        upper, lower = plan.nodes.T
        query = np.repeat(np.arange(len(plan.query_ptr) - 1), np.diff(plan.query_nodes))
        merged = lower == MERGED
        first = np.where(merged, plan.query_groups[query], lower)
        last = np.where(merged, upper, lower + 1)
        sides = plan.group_ptr[np.array([upper, upper + 1, first, last])]
        super().__init__(row, plan.upper[row], plan.lower[row], sides, query)
        self.mass *= plan.factor * plan.query_weight[query]
        self.shift = plan.shift


class _Listed:
    """Listed pairs, each of which is a block."""

    def __init__(self, plan: ExplicitPlan) -> None:
        self.plan = plan
        self.query = np.repeat(np.arange(len(plan.query_ptr) - 1), np.diff(plan.query_nodes))
        self.mass = plan.query_weight[self.query]
        if len(plan.weight):
            self.mass = self.mass * plan.weight

    def used(self) -> Integers:
        """Return the rows of the documents in some pair, in increasing order."""
        some = np.flatnonzero(self.mass > 0)
        used = np.zeros(self.plan.query_ptr[-1], bool)
        for side in (self.plan.upper, self.plan.lower):
            used[self.plan.query_ptr[self.query[some]] + side[some]] = True
        return np.flatnonzero(used)

    def draw(self, pair: Integers, rng: np.random.Generator) -> tuple[Integers, Integers, Vector]:
        """Return the upper rows, lower rows and shifts of the given pairs."""
        first = self.plan.query_ptr[self.query[pair]]
        shift = self.plan.shift[pair] if len(self.plan.shift) else np.zeros(len(pair))
        return first + self.plan.upper[pair], first + self.plan.lower[pair], shift
