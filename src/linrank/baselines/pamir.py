"""`PAMIR`: passive-aggressive steps on randomly drawn pairs."""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .._compile.jit import njit
from .._util.checks import positive_number, whole_number
from .._util.parallel import resolve_threads
from .._util.types import Vector
from ..counting.layout import lay_out
from ..counting.preferences import ALL_PAIRS
from ..counting.sampling import PairSampler
from ..data.ranking import RankingData
from ..data.validation import Matrix
from ..errors import DataError, NothingSelectedWarning, warn
from ..estimators.ranker import HeldOut, Ranker
from ..estimators.trained import warn_of_edge
from ..features.preprocessing import warn_of_given_scales
from ..matrix.rows import PREFETCH_ROWS, kernel_matrix, multiply
from ..model import LinearModel
from ..problem import no_pair
from ..solvers.sgd import add_rows, ask_for, feature_at, make_row_sums
from ..training.selection import (
    NO_USEFUL_FEATURE,
    Criterion,
    Grid,
    as_grid,
    make_folds,
    mean_of_folds,
    search,
)

CHUNK = 2**16  #: steps of one call of the kernel; Ctrl-C takes effect between two calls


class PassiveAggressive(Ranker):
    """Base class of the rankers that take passive-aggressive steps on drawn pairs."""

    __metadata_request__fit: ClassVar = {"query_weight": True}
    has_weights: ClassVar[bool] = True

    model_: LinearModel
    losses_: list[float]
    max_iter: int
    verbose: bool
    random_state: int | None
    _state: PamirState

    def _seed(self) -> int:
        state = self.random_state
        return 0 if state is None else whole_number("random_state", state, least=0)

    def _warn(self, data: RankingData) -> None:
        """Warn of weights that say little; batches of a stream need not have all features."""
        warn_of_given_scales(data, resolve_threads(self.n_threads))
        if not self.coef_.any():
            warn(f"all weights are 0: {NO_USEFUL_FEATURE}", NothingSelectedWarning)

    def _learn(
        self, state: PamirState, draws: Draws, data: RankingData, C: float, n_passes: int
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


@dataclass(kw_only=True, eq=False, repr=False)
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

    C: float = field(default=0.01, kw_only=False)
    max_iter: int = 10
    n_threads: int | None = None
    verbose: bool = False
    random_state: int | None = None

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
        self._learn(PamirState(data.n_features, seed), draws, data, C, n_passes)
        self._warn(data)
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
        state = PamirState(data.n_features, seed) if first else copy.deepcopy(self._state)
        self._learn(state, Draws(data), data, C, 1)
        return self


class PamirState:
    """State that is carried from pass to pass, and from one batch of a stream to the next."""

    def __init__(self, n_features: int, seed: int) -> None:
        self.w = np.zeros(n_features)
        self.rng = np.random.default_rng(seed)
        self.losses: list[float] = []
        self.n_steps = 0


def _print_pass(state: PamirState, seconds: float) -> None:
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

    def one_pass(self, state: PamirState, C: float) -> None:
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


# --------------------------------------------------------------------------------------------------
# `PAMIRCV`: PAMIR with C and the number of passes chosen on held-out data.


#: Values of C of the default grid, in units of the step length that orders an average pair.
RELATIVE_CS: Vector = np.power(4.0, np.arange(-7, 2))
EXTENSION_FACTOR = 4.0**5  #: factor by which the default grid can be extended at each end
SAMPLED_PAIRS = 1000  #: pairs from which the mean ‖x_i − x_j‖² is estimated


@dataclass(kw_only=True, eq=False, repr=False)
class PAMIRCV(PassiveAggressive):
    """`PAMIR` with C and the number of passes chosen by a ranking metric on held-out data.

    For each C, the metric is measured after every pass. The best pair of C and number of passes is
    chosen, which is early stopping on the held-out data. `PAMIR` then runs with both on all
    training data. Without held-out data, the metric is the mean over folds of queries.

    Parameters
    ----------
    Cs : sequence of float, optional
        The grid. The default has 9 values from 4^-7/s to 4/s, where s is the mean of ‖x_i − x_j‖²
        over the pairs. A step of length 1/s orders an average pair with the margin 1. The default
        grid is extended while the best C is at an end.
    metric : str
        ``"ndcg@10"``, ``"map"``, ``"pairwise-accuracy"``, …; see `linrank.parse_metric`.
    cv : int
        The number of folds of queries if `fit` gets no held-out data.
    max_iter : int
        The largest number of passes. If the chosen number equals it, more passes may be better.
    n_threads, verbose, random_state
        See `PAMIR`.

    Attributes
    ----------
    C_ : float
        The chosen C.
    n_iter_ : int
        The chosen number of passes.
    best_score_ : float
        The value of the metric for both.
    best_params_ : dict
        Parameters of `PAMIR` with the same result: ``C`` and ``max_iter``.
    Cs_ : float64 array of shape (n_Cs,)
        The values of C that were tried, in increasing order.
    metric_path_ : float64 array of shape (n_Cs, n_folds)
        The metric on each held-out part, after the best number of passes for each C.
    coef_, model_, losses_, n_steps_, n_pairs_, n_queries_, n_features_in_, feature_names_in_
        See `PAMIR`.

    Examples
    --------
    >>> from linrank import make_ranking
    >>> from linrank.baselines import PAMIRCV
    >>> train, valid = make_ranking(random_state=0), make_ranking(random_state=1)
    >>> ranker = PAMIRCV(max_iter=20).fit(train, valid=valid)
    >>> ranker.C_ in ranker.Cs_, 1 <= ranker.n_iter_ <= 20
    (True, True)
    """

    chooses: ClassVar[bool] = True

    Cs: Sequence[float] | None = field(default=None, kw_only=False)
    metric: str = "ndcg@10"
    cv: int = 5
    max_iter: int = 50
    n_threads: int | None = None
    verbose: bool = False
    random_state: int | None = None

    def fit(
        self,
        X: ArrayLike | Matrix | RankingData,
        y: ArrayLike | None = None,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        query_weight: ArrayLike | None = None,
        valid: HeldOut | None = None,
    ) -> PAMIRCV:
        """Choose C and the number of passes, and fit the weights with them.

        Parameters
        ----------
        X, y, qid, sample_weight, query_weight
            As in `PAMIR.fit`.
        valid : tuple (X, y, qid) or RankingData, optional
            Held-out data, on which the metric is measured instead of on folds.
        """
        criterion, seed = Criterion(self.metric), self._seed()
        limit, n_folds = whole_number("max_iter", self.max_iter), whole_number("cv", self.cv)
        given = None if self.Cs is None else as_grid(self.Cs)
        data = self._ranking_data(X, y, qid, sample_weight, query_weight)
        draws = Draws(data)
        if draws.n_pairs == 0:
            raise no_pair(data)
        if valid is None:
            parts = [
                TopicPart(Draws(data.part(rows)), data.part(others))
                for rows, others in make_folds(data, n_folds)
            ]
        else:
            parts = [TopicPart(draws, self._held_out(valid))]
            criterion.check(parts[0].held_out)
        self._choose(given or default_grid(draws, data, seed), parts, criterion, limit)
        self._learn(
            PamirState(data.n_features, seed), draws, data, self.C_, self.best_params_["max_iter"]
        )
        self._warn(data)
        return self

    def _choose(self, grid: Grid, parts: list[TopicPart], criterion: Criterion, limit: int) -> None:
        """Choose C and the number of passes, of which there are at most `limit`."""
        seed, n_threads = self._seed(), resolve_threads(self.n_threads)
        n_passes: dict[float, int] = {}

        def measure(Cs: Vector) -> tuple[Vector, bool]:
            rows = []
            for C in Cs.tolist():
                values = [part.values(C, limit, seed, criterion, n_threads) for part in parts]
                by_pass = np.stack(values, axis=1)
                best = criterion.best(mean_of_folds(by_pass))
                n_passes[C] = best + 1
                rows.append(by_pass[best])
            return np.array(rows), False

        found = search(grid, criterion, measure)
        means = mean_of_folds(found.values)
        best = criterion.best(means)
        self.Cs_, self.metric_path_ = found.Cs, found.values
        self.C_, self.best_score_ = float(found.Cs[best]), float(means[best])
        self.best_params_: dict[str, Any] = {"C": self.C_, "max_iter": n_passes[self.C_]}
        warn_of_edge(found.Cs, found.edge)


class TopicPart(NamedTuple):
    """Pairs to learn from, and held-out data."""

    draws: Draws
    held_out: RankingData

    def values(
        self, C: float, n_passes: int, seed: int, criterion: Criterion, n_threads: int
    ) -> Vector:
        """Return the value of the criterion after each pass."""
        state, X = PamirState(self.held_out.n_features, seed), self.held_out.X
        found = np.empty(n_passes)
        for k in range(n_passes):
            self.draws.one_pass(state, C)
            found[k] = criterion.mean(self.held_out, multiply(X, state.w, n_threads))
        return found


def default_grid(draws: Draws, data: RankingData, seed: int) -> Grid:
    """Return the values of C from steps that hardly matter to those that order a pair at once."""
    upper, lower, _ = draws.sampler.draw_pairs(np.random.default_rng(seed), SAMPLED_PAIRS)
    difference = data.X[upper] - data.X[lower]
    size = float((difference * difference).sum()) / SAMPLED_PAIRS
    Cs: Vector = RELATIVE_CS / (size or 1.0)
    return Grid(Cs, Cs[0] / EXTENSION_FACTOR, Cs[-1] * EXTENSION_FACTOR)
