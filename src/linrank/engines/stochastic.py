"""Steps on a few rows of X at a time: stochastic gradient descent on pairs or on queries.

With Ω the weight of all pairs and λ = 1 / (CΩ), the objective is CΩ times

    f(w) = λ/2 ‖w‖² + (1/Ω) Σ_pairs weight·ℓ(w'(x_i − x_j)),

and a pair drawn with probability ∝ its weight has the gradient of the second term on average
(Chapelle & Keerthi 2010, algorithm 2; Sculley 2009), and so has the mean over the pairs of a
query drawn by the weight of its pairs (algorithm 3). With g the gradient of the drawn loss ℓ,

    w ← w − min(η_t, ℓ / g'Pg)·P g,        w ← w / (1 + η_t λ P).

The papers' step 1/t is far too long at first and far too short later on unless C, the number
of pairs and the scale of every feature happen to fit. Here

- P is diagonal, 1 / (κ r D_f + λ): D_f the mean square of feature f where it differs between two
  documents of a query, r the number of features that differ, κ the largest curvature of ℓ. So
  η = 1 is a step that a mean pair can bear, and features may have any scale.
- no step goes beyond where the tangent of the drawn loss is 0, below which no loss gets: the
  truncated model of Asi & Duchi 2019, with which no step length can diverge.
- η_t = η·√(G_s / G_t), G_t the sum of g'Pg over t steps, constant for the first s = 30 r: long
  steps as long as the losses' gradients vanish, 1/√t when they do not (Duchi et al. 2011).
- the weights are the mean of all iterates, w_t weighing t (Lacoste-Julien et al. 2012).

A step touches the features of its rows only, O(their entries). The mean is kept as w plus a lag
that is moved against w, and the penalty, which touches all d features, is taken for many steps
at once where d is large.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._checks import choice, positive_number
from .._typing import Vector
from ..counting.sampling import PairSampler
from ..data.ranking import RankingData
from ..errors import DataError
from ..losses.base import Hinges, Loss
from .steps import TOTAL, Rule, T, Weights, Work, add_squares, walk_pairs, walk_queries
from .threads import ThreadEngine

OVER = ("pairs", "queries")
WARM = 30  #: η is constant for this many steps per feature that differs
PENALTY_SHARE = 64  #: features that may be touched for the penalty per document of a step
PENALTIES = 4  #: how often the penalty is taken in an epoch, at least
CHUNK = 2**16  #: documents between two looks at Ctrl-C


class SGDState:
    """What goes on from step to step, and from one batch of a stream to the next.

    Attributes
    ----------
    coef : float64 array
        The mean of the iterates, w_t weighing t.
    w : float64 array
        The last iterate.
    n_steps : int
    mass : float
        The weight of all pairs that were joined: Ω.
    squares, counts : float64 arrays
        Per feature, the sum of the squares of its differences, and how many were not 0,
        among `n_differences`.

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
        """The mean of the iterates, w_t weighing t."""
        w, lag, clock = self.weights
        return w + lag / max(1.0, clock[TOTAL])

    @property
    def n_steps(self) -> int:
        """The number of steps taken."""
        return int(self.weights.clock[T])


def check_seed(seed: object) -> None:
    """Refuse what cannot seed random numbers."""
    if not isinstance(seed, int | np.integer) or isinstance(seed, bool) or seed < 0:
        raise DataError(f"seed is {seed!r}; expected a whole number of at least 0")


class StochasticPass:
    """Steps over the pairs, or the queries, of an engine's data.

    Parameters
    ----------
    engine : ThreadEngine
        Its data, loss and pairs; between two evaluations it must not be used otherwise.
    over : {"pairs", "queries"}
        What a step draws.

    Attributes
    ----------
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

    def __init__(self, engine: ThreadEngine, over: str) -> None:
        choice("over", over, OVER)
        self.engine, self.over = engine, over
        self.sampler = PairSampler(engine._plan, engine._layout.docs)
        n_docs, n_queries = len(self.sampler.rows), len(self.sampler.queries)
        self.docs_per_step = n_docs / max(1, n_queries) if over == "queries" else 1.0
        self.n_steps = n_queries if over == "queries" else n_docs
        d = engine.n_features
        # One more place in the list, since a feature is written there before it is known to be new.
        self._work = Work(np.zeros(d), np.zeros(d + 1, np.uint32), np.zeros(d, np.bool_))
        self._scores, self._slopes = np.empty((2, engine.largest_query))

    def join(self, state: SGDState) -> None:
        """Add the pairs of this data to what the state knows: their weight, and their scale."""
        rows, engine = self.sampler.rows, self.engine
        query = np.searchsorted(engine.data.query_ptr, rows, side="right")
        starts = np.flatnonzero(np.diff(query, prepend=-1))
        following = np.append(rows, 0)[1:]
        following[np.append(starts, len(rows))[1:] - 1] = rows[starts]  # each query is a circle
        squares, counts = np.zeros((2, engine.n_features))
        add_squares(engine._X, rows, following, squares, counts, self._work)
        if not np.isfinite(squares).all():
            feature = int(np.flatnonzero(~np.isfinite(squares))[0])
            raise DataError(
                f"feature {feature} of X is so large that its square is not finite: bring the "
                "features nearer to 1"
            )
        state.squares += squares
        state.counts += counts
        state.n_differences += len(rows)
        state.mass += self.sampler.mass

    def run(self, state: SGDState, C: float, n_steps: int) -> None:
        """Take that many steps on ½‖w‖² + C·(loss of all pairs that were joined)."""
        if not self.sampler.mass:
            return
        rule = self._rule(state, C)
        chunk = max(1, int(CHUNK / self.docs_per_step))
        for start in range(0, n_steps, chunk):
            n = min(chunk, n_steps - start)
            if self.over == "pairs":
                self._run_pairs(state, rule, n)
            else:
                self._run_queries(state, rule, n)

    def _rule(self, state: SGDState, C: float) -> Rule:
        differing = max(1.0, float(state.counts.sum()) / state.n_differences)
        scale = state.squares / np.maximum(state.counts, 1.0)
        penalty = 1.0 / (C * state.mass)
        metric = 1.0 / (_curvature(self.engine._hinges) * differing * scale + penalty)
        # The mean over a query's pairs bends less than one of them, by a factor between 1 and the
        # number of directions that its documents have: √ of that is between the two.
        eta = np.sqrt(min(self.docs_per_step, differing))
        period = 1 + int(len(scale) / (PENALTY_SHARE * self.docs_per_step))
        period = max(1, min(period, self.n_steps // PENALTIES))
        return Rule(metric, penalty, float(eta), WARM * differing, float(period))

    def _run_pairs(self, state: SGDState, rule: Rule, n: int) -> None:
        engine = self.engine
        pairs = self.sampler.draw_pairs(state.rng, n)
        walk_pairs(engine._X, engine._hinges, *pairs, state.weights, rule, self._work)

    def _run_queries(self, state: SGDState, rule: Rule, n: int) -> None:
        engine = self.engine
        walk_queries(
            engine._X, engine._plan, engine._state, engine._hinges,
            *self.sampler.draw_queries(state.rng, n), state.weights, rule, self._work,
            self._scores, self._slopes, engine._scratch[0],
        )  # fmt: skip


def stream_pass(
    state: SGDState | None,
    data: RankingData,
    loss: Loss,
    C: float,
    over: str = "pairs",
    seed: int = 0,
    **options: Any,
) -> SGDState:
    """One epoch on the next batch of a stream; ``state.coef`` are then the weights.

    The objective is that of all batches so far, ½‖w‖² + C·Σ of the losses of their pairs: λ is
    1 / (CΩ) with Ω the weight of the pairs seen until now, this batch's included. So the weights
    go towards those that one fit of all the data would find, without any batch being
    kept. A query must not be split between batches: pairs across them are not seen.

    Parameters
    ----------
    state : SGDState or None
        What the call before returned; None for the first batch. It is changed.
    data : RankingData
        The batch. One without pairs changes nothing.
    loss : Loss
    C : float
    over : {"pairs", "queries"}
    seed : int
        For the first batch; later ones go on with the state's own random numbers.
    **options
        Of `ThreadEngine`: `counting`, `preferences`.

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
            f"X has {data.n_features} features, but the batches before had {len(state.w)}"
        )
    steps = StochasticPass(ThreadEngine(data, loss, n_threads=1, **options), over)
    steps.join(state)
    steps.run(state, C, steps.n_steps)
    return state


def _curvature(hinges: Hinges) -> float:
    """The largest second derivative of the loss; a corner counts with its jump in slope."""
    if hinges.exact:
        return 0.25
    bends = np.cumsum(2.0 * hinges.c[np.argsort(-hinges.tau)])
    return float(max(0.0, bends.max()) + np.abs(hinges.a).sum())
