"""`PAMIR`: passive-aggressive steps on pairs drawn at random."""

from __future__ import annotations

import copy
import time
from typing import Any

import numpy as np

from .._jit import njit
from .._rows import AHEAD, kernel_matrix
from ..counting.layout import lay_out
from ..counting.preferences import ALL_PAIRS
from ..counting.sampling import PairSampler
from ..data.ranking import RankingData
from ..errors import DataError
from ..estimators.base import LinearRanker
from ..estimators.trained import as_seed
from ..model import LinearModel
from ..penalties.base import check_parameter
from ..problem import no_pair
from ..solvers.sgd_steps import RowSums, add_rows, ask_for, feature_at
from .base import check_count

CHUNK = 2**16  #: steps between two looks at Ctrl-C


class PAMIR(LinearRanker):
    """PAMIR: a passive-aggressive ranker.

    From w = 0, each step draws a query, and of it a pair (i, j) with label i above label j, and
    moves w as little as puts the pair right by a margin of 1, but not further than C allows,

        w ← argmin_v ½‖v − w‖² + C·max(0, 1 − v'(x_i − x_j))
          = w + τ·(x_i − x_j),    τ = min(C, max(0, 1 − w'(x_i − x_j)) / ‖x_i − x_j‖²)

    (Grangier & Bengio 2008, "A discriminative kernel-based approach to rank images from text
    queries", with the step PA-I of Crammer et al. 2006; compared with in Stevens, Bengio & Singer
    2013). A step costs O(entries of the two rows), so that the time of training does not
    depend on the number of pairs.

    The weights are those after the last step, without averaging. To choose the number of steps on
    validation data, call `partial_fit` again and again, and keep the best weights. Queries are
    equally likely, and so are the pairs of a query; with more than two levels, any two documents
    of different labels are a pair.

    Parameters
    ----------
    C : float
        The aggressiveness: the largest τ. The noisier the labels, the smaller it should be. It
        belongs to the scale of the features.
    max_iter : int
        Passes; each has as many steps as there are documents that are in some pair.
    n_threads : int, optional
        Threads for checking and scoring; the steps have one. Default: ``LINRANK_THREADS``, or all
        usable cores.
    verbose : bool
        Print a line for each pass.
    random_state : int, optional
        Seed of the draws; None is 0. The rows' order decides which pair is drawn.

    Attributes
    ----------
    coef_ : float64 array of shape (n_features,)
    model_ : LinearModel
        The same weights in the form that is saved: ``ranker.model_.save("model.json")``.
    losses_ : list of float
        For each pass, the mean max(0, 1 − w'(x_i − x_j)) of its pairs when they were drawn.
    n_steps_, n_iter_ : int
        The steps and passes since the first weights.
    n_pairs_, n_queries_ : int
        Of the last `fit` or `partial_fit`.
    n_features_in_ : int
    feature_names_in_ : array of str
        Where X had column names.

    Examples
    --------
    >>> from linrank import make_ranking
    >>> from linrank.baselines import PAMIR
    >>> data = make_ranking(random_state=0)
    >>> known = data.qid <= 75  # the queries to learn from; 25 others remain
    >>> ranker = PAMIR()
    >>> _ = ranker.fit(data.X[known], data.y[known], qid=data.qid[known])
    >>> ranker.score(data.X[~known], data.y[~known], qid=data.qid[~known]) > 0.8
    True
    """

    model_: LinearModel
    losses_: list[float]
    _state: _State

    def __init__(
        self,
        C: float = 0.01,
        *,
        max_iter: int = 10,
        n_threads: int | None = None,
        verbose: bool = False,
        random_state: int | None = None,
    ) -> None:
        self.C = C
        self.max_iter = max_iter
        self.n_threads = n_threads
        self.verbose = verbose
        self.random_state = random_state

    def fit(
        self, X: Any, y: Any, qid: Any = None, sample_weight: Any = None, query_weight: Any = None
    ) -> PAMIR:
        """Learn the weights.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_docs, n_features)
        y : array of shape (n_docs,)
            Labels: any real numbers; larger is more relevant.
        qid : array of shape (n_docs,), optional
            The query of each document: any type, any order. None: one query.
        sample_weight : array of shape (n_docs,), optional
            Weight of each document: a pair of a query is drawn with a chance in proportion to
            upper × lower document's; 0 is removal.
        query_weight : array of shape (n_docs,), optional
            Weight of each document's query, one value within a query: the chance to be drawn.
        """
        check_parameter("C", self.C, 0.0)
        n_passes, seed = check_count("max_iter", self.max_iter), as_seed(self.random_state)
        data = self._ranking_data(X, y, qid, sample_weight, query_weight)
        draws = _Draws(data)
        if draws.n_pairs == 0:
            raise no_pair(data)
        self._learn(_State(data.n_features, seed), draws, data, n_passes)
        return self

    def partial_fit(
        self, X: Any, y: Any, qid: Any = None, sample_weight: Any = None, query_weight: Any = None
    ) -> PAMIR:
        """Go on from the weights so far, with one pass over one more batch of a stream.

        Queries must not be split between batches. A batch without pairs changes nothing; `fit`
        begins anew.

        Parameters
        ----------
        X, y, qid, sample_weight, query_weight
            See `fit`.
        """
        check_parameter("C", self.C, 0.0)
        seed, first = as_seed(self.random_state), not hasattr(self, "_state")
        data = self._ranking_data(X, y, qid, sample_weight, query_weight, reset=first)
        # A copy: whoever has kept the weights so far still has them, and so has a batch that fails.
        state = _State(data.n_features, seed) if first else copy.deepcopy(self._state)
        self._learn(state, _Draws(data), data, 1)
        return self

    def _learn(self, state: _State, draws: _Draws, data: RankingData, n_passes: int) -> None:
        """Take the steps; after Ctrl-C, those taken so far are stored."""
        started, interrupted = time.perf_counter(), None
        try:
            for _ in range(n_passes):
                draws.one_pass(state, float(self.C))
                if self.verbose and draws.n_docs:
                    _print_pass(state, time.perf_counter() - started)
        except KeyboardInterrupt:
            if not state.n_steps:
                raise
            interrupted = KeyboardInterrupt(
                f"Interrupted; these are the weights after {state.n_steps} steps."
            )
        self._state, self.coef_ = state, state.w
        self.losses_, self.n_steps_ = state.losses, state.n_steps
        self.n_iter_ = max(1, len(state.losses))
        self.n_pairs_, self.n_queries_ = draws.n_pairs, data.n_queries
        self.model_ = LinearModel(
            self.coef_,
            feature_names=data.feature_names,
            settings={"method": "PAMIR", "C": self.C, "max_iter": self.max_iter,
                      "random_state": self.random_state},
            training={"steps": self.n_steps_, "passes": len(self.losses_),
                      "pairs": self.n_pairs_, "queries": self.n_queries_},
        )  # fmt: skip
        if interrupted is not None:
            raise interrupted


class _State:
    """What goes on from pass to pass, and from one batch of a stream to the next."""

    def __init__(self, n_features: int, seed: int) -> None:
        self.w = np.zeros(n_features)
        self.rng = np.random.default_rng(seed)
        self.losses: list[float] = []
        self.n_steps = 0


def _print_pass(state: _State, seconds: float) -> None:
    print(
        f"pass {len(state.losses):<4d} steps {state.n_steps:<12d} "
        f"mean loss {state.losses[-1]:<12.6g} {seconds:.2f} s"
    )


class _Draws:
    """The pairs of the data: all queries that have any are equally likely but for their weight."""

    def __init__(self, data: RankingData) -> None:
        layout = lay_out(data, ALL_PAIRS, "tables", exact=False, n_threads=1)
        count, mass = layout.mass.T
        weight = np.divide(layout.plan.query_weight, mass, out=np.zeros_like(mass), where=mass > 0)
        self.n_pairs = int(count.sum())
        self.sampler = PairSampler(layout.plan._replace(query_weight=weight), layout.docs)
        self.n_docs = len(self.sampler.rows)
        self._X, d = kernel_matrix(data.X), data.n_features
        # One more place in the list, since a feature is written there before it is known to be new.
        self._work = RowSums(np.zeros(d), np.zeros(d + 1, np.uint32), np.zeros(d, np.bool_))

    def one_pass(self, state: _State, C: float) -> None:
        """As many steps as there are documents in pairs."""
        total = 0.0
        for start in range(0, self.n_docs, CHUNK):
            n = min(CHUNK, self.n_docs - start)
            upper, lower, _ = self.sampler.draw_pairs(state.rng, n)
            total += walk(self._X, upper, lower, C, state.w, self._work)
            state.n_steps += n
        if not np.isfinite(total) or not np.isfinite(state.w).all():
            raise DataError(
                "X is so large that squares of its rows' differences are not finite: bring the "
                "features nearer to 1"
            )
        if self.n_docs:
            state.losses.append(total / self.n_docs)


@njit(allocates=True)
def walk(X, upper, lower, C, w, work):  # type: ignore[no-untyped-def]
    """A passive-aggressive step on each of the given pairs; returns the sum of their losses."""
    sign = np.array([1.0, -1.0])
    total = 0.0
    for k in range(len(upper)):
        if k + AHEAD < len(upper):
            ask_for(X, upper[k + AHEAD])
            ask_for(X, lower[k + AHEAD])
        n = add_rows(X, upper[k], upper[k] + 1, sign[:1], work, 0)
        n = add_rows(X, lower[k], lower[k] + 1, sign[1:], work, n)
        total += _step(X, C, w, work, n)
    return total


@njit(fast=True, inner=True)
def _step(X, C, w, work, n):  # type: ignore[no-untyped-def]
    """Move w along the difference of two rows, which is in `work`, and clear that."""
    sums, touched = work.sums, work.touched
    t, size = 0.0, 0.0
    for m in range(n):
        f = feature_at(X, touched, m)
        t += w[f] * sums[f]
        size += sums[f] * sums[f]
    loss = max(0.0, 1.0 - t) if size < np.inf else np.inf
    tau = min(C, loss / size) if size > 0.0 else 0.0
    for m in range(n):
        f = feature_at(X, touched, m)
        w[f] += tau * sums[f]
        sums[f] = 0.0
        work.listed[f] = False
    return loss
