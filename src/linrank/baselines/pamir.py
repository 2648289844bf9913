"""`PAMIR`: passive-aggressive steps on randomly drawn pairs."""

from __future__ import annotations

import copy
import time

import numpy as np
from numpy.typing import ArrayLike

from .._checks import positive_number, whole_number
from .._jit import njit
from .._rows import PREFETCH_ROWS, kernel_matrix
from ..counting.layout import lay_out
from ..counting.preferences import ALL_PAIRS
from ..counting.sampling import PairSampler
from ..data.checks import Matrix
from ..data.ranking import RankingData
from ..errors import DataError
from ..estimators.linear import LinearRanker
from ..model import LinearModel
from ..problem import no_pair
from ..solvers.sgd_steps import add_rows, ask_for, feature_at, make_row_sums

CHUNK = 2**16  #: steps of one call of the kernel; Ctrl-C takes effect between two calls


class PassiveAggressive(LinearRanker):
    """Base class of the rankers that take passive-aggressive steps on drawn pairs."""

    model_: LinearModel
    losses_: list[float]
    max_iter: int
    verbose: bool
    random_state: int | None
    _state: State

    def _seed(self) -> int:
        state = self.random_state
        return 0 if state is None else whole_number("random_state", state, least=0)

    def _learn(
        self, state: State, draws: Draws, data: RankingData, C: float, n_passes: int
    ) -> None:
        """Run the passes and store the result, also after Ctrl-C."""
        started, interrupted = time.perf_counter(), False
        try:
            for _ in range(n_passes):
                draws.one_pass(state, C)
                if self.verbose and draws.n_docs:
                    _print_pass(state, time.perf_counter() - started)
        except KeyboardInterrupt:
            if not state.n_steps:
                raise
            interrupted = True
        self._state, self.coef_ = state, state.w
        self.losses_, self.n_steps_ = state.losses, state.n_steps
        self.n_iter_ = max(1, len(state.losses))
        self.n_pairs_, self.n_queries_ = draws.n_pairs, data.n_queries
        self.model_ = LinearModel(
            self.coef_,
            feature_names=data.feature_names,
            settings={"method": type(self).__name__, "C": C, "max_iter": self.max_iter,
                      "random_state": self.random_state},
            training={"steps": self.n_steps_, "passes": len(self.losses_),
                      "pairs": self.n_pairs_, "queries": self.n_queries_},
        )  # fmt: skip
        if interrupted:
            raise KeyboardInterrupt(
                f"Interrupted; the weights after {state.n_steps} steps are kept."
            )


class PAMIR(PassiveAggressive):
    """PAMIR: an online passive-aggressive ranker.

    Training starts from w = 0. Each step draws a query, and a pair (i, j) of its documents with
    label i above label j. It then makes the smallest change of w that orders the pair with a
    margin of 1, with a step length of at most C,

        w ← argmin_v ½‖v − w‖² + C·max(0, 1 − v'(x_i − x_j))
          = w + τ·(x_i − x_j),    τ = min(C, max(0, 1 − w'(x_i − x_j)) / ‖x_i − x_j‖²)

    (Grangier & Bengio 2008, "A discriminative kernel-based approach to rank images from text
    queries", with the step PA-I of Crammer et al. 2006; a baseline in Stevens, Bengio & Singer
    2013). A step takes time in proportion to the entries of the two rows. The training time
    therefore does not depend on the number of pairs.

    The result is the last w, without averaging. `PAMIRCV` chooses C and the number of passes on
    held-out data. All queries are equally likely, and so are all pairs of a query. With more than
    two levels, any two documents of different labels form a pair.

    Parameters
    ----------
    C : float
        Aggressiveness: the largest step length τ. Noisy labels need a small C. The best C depends
        on the scale of the features.
    max_iter : int
        Number of passes. A pass has as many steps as there are documents that belong to a pair.
    n_threads : int, optional
        Number of threads for checks and scores; the steps use one thread. None:
        ``LINRANK_THREADS``, or all usable cores.
    verbose : bool
        Print a line for each pass.
    random_state : int, optional
        Seed of the draws. None: 0. The draws also depend on the order of the rows.

    Attributes
    ----------
    coef_ : float64 array of shape (n_features,)
    model_ : LinearModel
        Model with the same weights, which can be saved: ``ranker.model_.save("model.json")``.
    losses_ : list of float
        For each pass, the mean of max(0, 1 − w'(x_i − x_j)) over its pairs, with the w before
        each step.
    n_steps_, n_iter_ : int
        Number of steps and passes since w = 0.
    n_pairs_, n_queries_ : int
        Number of pairs and queries in the last call of `fit` or `partial_fit`.
    n_features_in_ : int
    feature_names_in_ : array of str
        Column names of X, if it had any.

    Examples
    --------
    >>> from linrank import make_ranking
    >>> from linrank.baselines import PAMIR
    >>> data = make_ranking(random_state=0)
    >>> known = data.qid <= 75  # train on 75 queries; 25 are held out
    >>> ranker = PAMIR()
    >>> _ = ranker.fit(data.X[known], data.y[known], qid=data.qid[known])
    >>> ranker.score(data.X[~known], data.y[~known], qid=data.qid[~known]) > 0.8
    True
    """

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
        self,
        X: ArrayLike | Matrix | RankingData,
        y: ArrayLike | None = None,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        query_weight: ArrayLike | None = None,
    ) -> PAMIR:
        """Fit the weights, starting from 0.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_docs, n_features)
        y : array of shape (n_docs,)
            Labels: any real numbers; larger is more relevant.
        qid : array of shape (n_docs,), optional
            Query of each document: any type, in any order. None: all documents form one query.
        sample_weight : array of shape (n_docs,), optional
            Weight of each document. Within a query, a pair is drawn with a probability in
            proportion to the product of the weights of its documents.
        query_weight : array of shape (n_docs,), optional
            Weight of the query of each document. All documents of a query have the same value.
            A query is drawn with a probability in proportion to its weight.
        """
        C, seed = positive_number("C", self.C), self._seed()
        n_passes = whole_number("max_iter", self.max_iter)
        data = self._ranking_data(X, y, qid, sample_weight, query_weight)
        draws = Draws(data)
        if draws.n_pairs == 0:
            raise no_pair(data)
        self._learn(State(data.n_features, seed), draws, data, C, n_passes)
        return self

    def partial_fit(
        self,
        X: ArrayLike | Matrix | RankingData,
        y: ArrayLike | None = None,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        query_weight: ArrayLike | None = None,
    ) -> PAMIR:
        """Continue from the current weights with one pass over a batch of a stream.

        A query must not be split between batches. A batch without pairs does not change the
        weights.

        Parameters
        ----------
        X, y, qid, sample_weight, query_weight
            As in `fit`.

        Examples
        --------
        >>> from linrank import make_ranking
        >>> from linrank.baselines import PAMIR
        >>> data = make_ranking(random_state=0)
        >>> ranker = PAMIR().partial_fit(data.take(np.arange(1000)))
        >>> ranker.partial_fit(data.take(np.arange(1000, 2000))).score(data) > 0.8
        True
        """
        C, seed, first = positive_number("C", self.C), self._seed(), not hasattr(self, "_state")
        data = self._ranking_data(X, y, qid, sample_weight, query_weight, reset=first)
        # We work on a copy. Callers may hold the current weights, and a batch that fails must
        # leave the ranker unchanged.
        state = State(data.n_features, seed) if first else copy.deepcopy(self._state)
        self._learn(state, Draws(data), data, C, 1)
        return self


class State:
    """State that is carried from pass to pass, and from one batch of a stream to the next."""

    def __init__(self, n_features: int, seed: int) -> None:
        self.w = np.zeros(n_features)
        self.rng = np.random.default_rng(seed)
        self.losses: list[float] = []
        self.n_steps = 0


def _print_pass(state: State, seconds: float) -> None:
    print(
        f"pass {len(state.losses):<4d} steps {state.n_steps:<12d} "
        f"mean loss {state.losses[-1]:<12.6g} {seconds:.2f} s"
    )


class Draws:
    """Random pairs of the data, in which every query with pairs is equally likely.

    With weights, queries and pairs are drawn in proportion to them.
    """

    def __init__(self, data: RankingData) -> None:
        layout = lay_out(data, ALL_PAIRS, "tables", exact=False, n_threads=1)
        count, mass = layout.mass.T
        weight = np.divide(layout.plan.query_weight, mass, out=np.zeros_like(mass), where=mass > 0)
        self.n_pairs = int(count.sum())
        self.sampler = PairSampler(layout.plan._replace(query_weight=weight), layout.docs)
        self.n_docs = len(self.sampler.rows)
        self._X, self._work = kernel_matrix(data.X), make_row_sums(data.n_features)

    def one_pass(self, state: State, C: float) -> None:
        """Take as many steps as there are documents that belong to a pair."""
        total = 0.0
        for start in range(0, self.n_docs, CHUNK):
            n = min(CHUNK, self.n_docs - start)
            upper, lower, _ = self.sampler.draw_pairs(state.rng, n)
            total += walk(self._X, upper, lower, C, state.w, self._work)
            state.n_steps += n
        if not np.isfinite(total) or not np.isfinite(state.w).all():
            raise DataError(
                "X has values so large that squared differences of its rows are not finite; scale "
                "the features to values near 1"
            )
        if self.n_docs:
            state.losses.append(total / self.n_docs)


@njit(allocates=True)
def walk(X, upper, lower, C, w, work):  # type: ignore[no-untyped-def]
    """Take a passive-aggressive step on each pair, and return the sum of the losses."""
    sign = np.array([1.0, -1.0])
    total = 0.0
    for k in range(len(upper)):
        if k + PREFETCH_ROWS < len(upper):
            ask_for(X, upper[k + PREFETCH_ROWS])
            ask_for(X, lower[k + PREFETCH_ROWS])
        n = add_rows(X, upper[k], upper[k] + 1, sign[:1], work, 0)
        n = add_rows(X, lower[k], lower[k] + 1, sign[1:], work, n)
        total += _step(X, C, w, work, n)
    return total


@njit(fast=True, inner=True)
def _step(X, C, w, work, n):  # type: ignore[no-untyped-def]
    """Move w along the difference of two rows in `work`, clear `work`, and return the loss."""
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
