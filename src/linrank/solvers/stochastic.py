"""Epochs of stochastic gradient descent on the pairs or the queries of an engine.

With Ω the weight of all pairs and λ = 1 / (CΩ), the objective is CΩ times

    f(w) = λ/2 ‖w‖² + (1/Ω) Σ_pairs weight·ℓ(w'(x_i − x_j)).

If a pair is drawn with a probability proportional to its weight, the expected gradient of its loss
is the gradient of the second term (Chapelle & Keerthi 2010, algorithm 2; Sculley 2009). The same
holds for the mean loss over the pairs of a query that is drawn by the weight of its pairs
(algorithm 3). With ℓ the drawn loss and g its gradient, a step is

    w ← w − min(η_t, ℓ / g'Pg)·P g,        w ← w / (1 + η_t λ P).

The step length 1/t of the papers is too long at first and too short later, unless C, the number of
pairs and the scales of the features happen to fit. Four changes make the steps robust:

- P is diagonal with the entries 1 / (κ r D_f + λ). D_f is the mean square of the difference in
  feature f between two documents of a query, over the differences that are not 0. r is the mean
  number of features that differ, and κ the largest curvature of ℓ. A step of η = 1 then fits an
  average pair, and features may have any scale.
- A step ends where the tangent of the drawn loss reaches 0, because no loss is negative. With this
  truncated model (Asi & Duchi 2019) no step length diverges.
- η_t = η·√(G_s / G_t), where G_t is the sum of g'Pg over t steps, and η_t = η in the first s = 30 r
  steps. Steps stay long while the gradients of the losses vanish, and fall like 1/√t if they do
  not (Duchi et al. 2011).
- The result is the mean of all iterates, in which w_t has the weight t (Lacoste-Julien et al.
  2012).

A step changes only the features of its rows, which costs O(their entries). The mean is stored as w
plus a lag, which a step moves against w. The penalty changes all d features; if d is large, it is
applied for many steps at once.

The rule ``"paper"`` takes the steps of Chapelle & Keerthi 2010, §6.1, as they are written. The
objective is there a sum over the |P| pairs, or over the Q queries, and step t is

    w ← w − 1/t·(w/|P| + C ℓ'(w'(x_i − x_j))(x_i − x_j))        for a random pair     (algorithm 2)
    w ← w − 1/t·(w/Q + C Σ_pairs of q ℓ'(w'(x_i − x_j))(x_i − x_j))    for a random query q     (3)

All queries have the same probability. Weighted pairs are drawn by their weight, which the paper
does not have. ℓ' is then multiplied by the mean weight, so that the expected step is unchanged.
Each step costs O(d) in addition, because it multiplies all of w.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import numpy as np

from .._checks import choice, positive_number
from .._typing import Vector
from ..counting.preferences import ALL_PAIRS, Preferences
from ..counting.sampling import PairSampler
from ..data.ranking import RankingData
from ..engines.threads import ThreadEngine
from ..errors import DataError
from ..losses.base import Hinges, Loss
from .sgd_steps import (
    TOTAL,
    Rule,
    T,
    Weights,
    add_squares,
    make_row_sums,
    walk_pairs,
    walk_queries,
)

#: What a step draws.
OverName: TypeAlias = Literal["pairs", "queries"]
OVER: tuple[OverName, ...] = get_args(OverName)
#: How long steps are.
StepName: TypeAlias = Literal["adaptive", "paper"]
STEPS: tuple[StepName, ...] = get_args(StepName)

CONSTANT_STEPS = 30  #: steps of constant η per feature that differs; more delay the decrease of η
PENALTY_FEATURES = 64  #: features updated by the penalty per document of a step; more cost time
PENALTIES_PER_EPOCH = 4  #: least number of times that an epoch applies the penalty
CHUNK = 2**16  #: documents between two checks for Ctrl-C


class SGDState:
    """The state of stochastic gradient descent between steps, and between batches of a stream.

    Parameters
    ----------
    n_features : int
    seed : int
        The seed of the random numbers.

    Attributes
    ----------
    coef : float64 array
        The mean of the iterates, in which w_t has the weight t.
    w : float64 array
        The last iterate.
    n_steps : int
        The number of steps taken.
    mass : float
        The weight Ω of all pairs in the data joined so far.
    n_differences : int
        The number of differences x_i − x_j that were measured.
    squares, counts : float64 arrays
        For each feature, the sum of the squares of these differences, and the number of
        differences that are not 0.

    Examples
    --------
    >>> state = SGDState(n_features=2)
    >>> state.coef.tolist(), state.n_steps
    ([0.0, 0.0], 0)
    """

    def __init__(self, n_features: int, seed: int = 0) -> None:
        check_seed(seed)
        self.weights = Weights(np.zeros(n_features), np.zeros(n_features), np.zeros(4))
        self.rng = np.random.default_rng(seed)
        self.mass = 0.0
        self.squares, self.counts = np.zeros((2, n_features))
        self.n_differences = 0

    @property
    def w(self) -> Vector:
        """The last iterate."""
        return self.weights.w

    @property
    def coef(self) -> Vector:
        """The mean of the iterates, in which w_t has the weight t."""
        w, lag, clock = self.weights
        return w + lag / max(1.0, clock[TOTAL])

    @property
    def n_steps(self) -> int:
        """The number of steps taken."""
        return int(self.weights.clock[T])


def check_seed(seed: object) -> None:
    """Raise a `DataError` if the seed is not a whole number of at least 0."""
    if not isinstance(seed, int | np.integer) or isinstance(seed, bool) or seed < 0:
        raise DataError(f"seed is {seed!r}; expected a whole number of at least 0")


class StochasticPass:
    """Stochastic gradient steps over the pairs or the queries of an engine.

    Parameters
    ----------
    engine : ThreadEngine
        The engine that has the data, the loss and the pairs. Steps on queries overwrite its state,
        so its Hessian products are valid only after another `value_grad`.
    over : {"pairs", "queries"}
        What a step draws.
    step : {"adaptive", "paper"}
        How long steps are.

    Attributes
    ----------
    sampler : PairSampler
    docs_per_step : float
        The mean number of documents that a step draws; a pair counts as one.
    n_steps : int
        The steps of one epoch: the number of documents, or of queries, that have pairs.

    Examples
    --------
    >>> from linrank import make_ranking
    >>> from linrank.losses.pairwise import SQUARED_HINGE
    >>> engine = ThreadEngine(make_ranking(random_state=0), SQUARED_HINGE)
    >>> steps, state = StochasticPass(engine, "pairs"), SGDState(engine.n_features)
    >>> steps.join(state)
    >>> steps.run(state, C=0.01, n_steps=5 * steps.n_steps)
    >>> engine.value_grad(state.coef)[0] < 0.5 * engine.at_zero[0]
    True
    """

    def __init__(self, engine: ThreadEngine, over: str, step: str = "adaptive") -> None:
        choice("over", over, OVER)
        choice("step", step, STEPS)
        self.engine, self.over, self.step = engine, over, step
        self.sampler = PairSampler(engine.layout.plan, engine.layout.docs)
        n_docs, n_queries = len(self.sampler.rows), len(self.sampler.queries)
        self.docs_per_step = n_docs / max(1, n_queries) if over == "queries" else 1.0
        self.n_steps = n_queries if over == "queries" else n_docs
        self._sums = make_row_sums(engine.n_features)
        self._scores, self._slopes = np.empty((2, engine.largest_query))

    def join(self, state: SGDState) -> None:
        """Add the weight of the pairs of this data, and the scales of its features, to the state.

        The scales are measured on differences between successive documents of a query.
        """
        rows, engine = self.sampler.rows, self.engine
        query = np.searchsorted(engine.data.query_ptr, rows, side="right")
        starts = np.flatnonzero(np.diff(query, prepend=-1))
        following = np.append(rows, 0)[1:]
        following[np.append(starts, len(rows))[1:] - 1] = rows[starts]  # the last meets the first
        squares, counts = np.zeros((2, engine.n_features))
        add_squares(engine.matrix, rows, following, squares, counts, self._sums)
        if not np.isfinite(squares).all():
            feature = int(np.flatnonzero(~np.isfinite(squares))[0])
            raise DataError(
                f"feature {feature} of X is so large that its square is not finite. Use rescaled "
                "features, for example with values between −1 and 1."
            )
        state.squares += squares
        state.counts += counts
        state.n_differences += len(rows)
        state.mass += self.sampler.mass

    def run(self, state: SGDState, C: float, n_steps: int) -> None:
        """Take that many steps on ½‖w‖² + C·(the loss of all pairs in the data joined so far)."""
        if not self.sampler.mass:
            return
        rule = self._paper_rule(C) if self.step == "paper" else self._rule(state, C)
        chunk = max(1, int(CHUNK / self.docs_per_step))
        for start in range(0, n_steps, chunk):
            n = min(chunk, n_steps - start)
            if self.over == "pairs":
                self._run_pairs(state, rule, n)
            else:
                self._run_queries(state, rule, n)

    def _rule(self, state: SGDState, C: float) -> Rule:
        """Return the step lengths and the preconditioner P for the data joined so far."""
        differing = max(1.0, float(state.counts.sum()) / state.n_differences)
        scale = state.squares / np.maximum(state.counts, 1.0)
        penalty = 1.0 / (C * state.mass)
        metric = 1.0 / (_curvature(self.engine.hinges) * differing * scale + penalty)
        # The mean loss of the pairs of a query has less curvature than the loss of one pair. The
        # factor lies between 1 and the number of directions that the documents span. The square
        # root of this number lies between these two.
        eta = np.sqrt(min(self.docs_per_step, differing))
        period = 1 + int(len(scale) / (PENALTY_FEATURES * self.docs_per_step))
        period = max(1, min(period, self.n_steps // PENALTIES_PER_EPOCH))
        return Rule(metric, penalty, float(eta), CONSTANT_STEPS * differing, float(period))

    def _paper_rule(self, C: float) -> Rule:
        """Return the step lengths 1/t of the paper, with the objective as a sum of |P| or Q terms.

        Pairs of weight ω are drawn with the probability ω/Ω, so that C·Ω/|P| replaces C·ω.
        """
        engine, ones = self.engine, np.ones(self.engine.n_features)
        if self.over == "queries":
            return Rule(ones, 1.0 / engine.data.n_queries, C, 0.0, np.inf, harmonic=True)
        n_pairs = float(engine.n_pairs)
        return Rule(ones, 1.0 / n_pairs, C * self.sampler.mass / n_pairs, 0.0, np.inf, True)

    def _run_pairs(self, state: SGDState, rule: Rule, n: int) -> None:
        engine = self.engine
        pairs = self.sampler.draw_pairs(state.rng, n)
        walk_pairs(engine.matrix, engine.hinges, *pairs, state.weights, rule, self._sums)

    def _run_queries(self, state: SGDState, rule: Rule, n: int) -> None:
        engine = self.engine
        if self.step == "paper":
            drawn = state.rng.integers(engine.data.n_queries, size=n), np.ones(n)
        else:
            drawn = self.sampler.draw_queries(state.rng, n)
        walk_queries(
            engine.matrix, engine.layout.plan, engine.state, engine.hinges, *drawn,
            state.weights, rule, self._sums, self._scores, self._slopes, engine.scratch[0],
        )  # fmt: skip


def stream_pass(
    state: SGDState | None,
    data: RankingData,
    loss: Loss,
    C: float,
    over: str = "pairs",
    seed: int = 0,
    *,
    counting: str = "auto",
    preferences: Preferences = ALL_PAIRS,
) -> SGDState:
    """Run one epoch on the next batch of a stream; the weights are ``coef`` of the result.

    The objective is ½‖w‖² + C·(the loss of all pairs of all batches so far): λ is 1 / (CΩ), and Ω
    includes the pairs of this batch. The weights therefore approach those of one fit of all the
    data, and no batch is stored. All documents of a query must be in the same batch: pairs across
    batches are not formed.

    Parameters
    ----------
    state : SGDState or None
        The result of the previous call, which is modified; None for the first batch.
    data : RankingData
        The batch. A batch without pairs changes nothing.
    loss : Loss
    C : float
    over : {"pairs", "queries"}
        What a step draws.
    seed : int
        The seed for the first batch. Later batches continue with the random numbers of the state.
    counting, preferences
        See `ThreadEngine`.

    Examples
    --------
    >>> from linrank import make_ranking
    >>> from linrank.losses.pairwise import SQUARED_HINGE
    >>> data, state = make_ranking(random_state=0), None
    >>> for rows in np.split(np.arange(data.n_docs), 4):
    ...     state = stream_pass(state, data.take(rows), SQUARED_HINGE, C=0.01)
    >>> state.n_steps  # as many as there are documents in queries with pairs
    1960
    """
    positive_number("C", C)
    state = SGDState(data.n_features, seed) if state is None else state
    if data.n_features != len(state.w):
        raise DataError(
            f"X has {data.n_features} features, but the batches before had {len(state.w)}. Use "
            "the same features in all batches."
        )
    engine = ThreadEngine(data, loss, n_threads=1, counting=counting, preferences=preferences)
    steps = StochasticPass(engine, over)
    steps.join(state)
    steps.run(state, C, steps.n_steps)
    return state


def _curvature(hinges: Hinges) -> float:
    """Return the largest second derivative of the loss, plus the jumps of its first derivative."""
    if hinges.exact:
        return 0.25
    bends = np.cumsum(2.0 * hinges.c[np.argsort(-hinges.tau)])
    return float(max(0.0, bends.max()) + np.abs(hinges.a).sum())
