"""Refinement: the weights of a linear model are moved to increase a ranking metric itself.

A convex loss is a substitute of the metric. `MetricAscent` starts from its optimum and makes exact
line searches of the metric. `refine` keeps the result if held-out queries confirm it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from .._util.parallel import resolve_threads
from .._util.types import Vector
from ..choices import FlavourName
from ..data.ranking import RankingData
from ..errors import DataError
from ..features.preprocessing import Prepared
from ..metrics import Metric, evaluate, parse_metric
from ..metrics.line_search import LineSearch, MetricTables, check_sum
from ..metrics.ranked_lists import Rules, resolve_rules
from ..model import LinearModel, Model
from ..penalties.penalty import Bounds, Penalty
from .selection import make_folds
from .trainer import Trainer

SMALLEST_GAIN = 1e-5  #: improvement by a sweep below which an ascent ends
MAX_SWEEPS = 25  #: sweeps of an ascent; most ascents end after three
N_ORDERS = 3  #: ascents of one sweep, each with another order of the features, that are averaged
N_RESTARTS = 8  #: ascents from the best weights with noise; more take longer and overfit more
RESTART_SWEEPS = 2  #: sweeps of such an ascent
NOISE = 0.1  #: deviation of the noise, relative to the usual weight times feature deviation

# --------------------------------------------------------------------------------------------------
# `MetricAscent`: coordinate ascent with restarts.


class Ascent(NamedTuple):
    """Weights, and the metric that they have.

    Attributes
    ----------
    coef : float64 array of shape (n_features,)
    value : float
    n_searches : int
        The number of line searches that were made.
    """

    coef: Vector
    value: float
    n_searches: int


class MetricAscent:
    """Maximise a ranking metric of linear scores over the weights.

    A sweep makes an exact line search along each feature, in random order, and one along the
    direction in which the sweep has moved. This is the coordinate ascent of Metzler & Croft (2007,
    "Linear feature-based models for information retrieval"), with all points of a line instead of
    steps of fixed sizes.

    Parameters
    ----------
    data : RankingData
    metric : str or Metric
        ``"ndcg@10"``, ``"map"``, ``"mrr"``, ``"p@5"``, ``"recall@100"`` or ``"hit-rate@5"``, with
        any cut-off.
    rules : Rules, optional
        The conventions of the metric; by default those of `linrank.evaluate`.
    bounds : Bounds, optional
        The limits of the weights.
    n_threads : int, optional

    Examples
    --------
    >>> from linrank import make_ranking, ndcg
    >>> data = make_ranking(random_state=0)
    >>> found = MetricAscent(data, "ndcg@10").ascend(np.zeros(20), np.random.default_rng(0))
    >>> abs(found.value - ndcg(data.y, data.X @ found.coef, data.qid, k=10)) < 1e-9
    True
    """

    def __init__(
        self, data: RankingData, metric: str | Metric, rules: Rules | None = None,
        bounds: Bounds | None = None, n_threads: int | None = None,
    ) -> None:  # fmt: skip
        rules = resolve_rules() if rules is None else rules
        y = np.asarray(data.y, np.float64)
        tables = MetricTables.of(y, data.query_ptr, parse_metric(metric), rules, data.query_weight)
        self.search = LineSearch(y, data.query_ptr, tables, resolve_threads(n_threads))
        X = data.X
        self._columns = sparse.csc_array(X) if sparse.issparse(X) else np.ascontiguousarray(X.T)
        d = data.n_features
        self.low = np.full(d, -np.inf) if bounds is None else bounds.low
        self.high = np.full(d, np.inf) if bounds is None else bounds.high

    def column(self, k: int) -> Vector:
        """Return the values of feature k."""
        if isinstance(self._columns, np.ndarray):
            return np.asarray(self._columns[k], np.float64)
        return self._columns[:, [k]].toarray().ravel().astype(np.float64)

    def scores(self, coef: Vector) -> Vector:
        """Return the scores of all documents."""
        dense = isinstance(self._columns, np.ndarray)
        return coef @ self._columns if dense else self._columns @ coef

    def ascend(
        self, coef: Vector, rng: np.random.Generator, max_sweeps: int = MAX_SWEEPS
    ) -> Ascent:
        """Ascend from some weights until a sweep hardly improves the metric.

        Parameters
        ----------
        coef : float64 array of shape (n_features,)
        rng : Generator
            Chooses the order of the features.
        max_sweeps : int
        """
        coef, scores = coef.copy(), self.scores(coef)
        value, n = self.search.value(scores), 0
        for _ in range(max_sweeps):
            before, start, start_scores = value, coef.copy(), scores
            for k in rng.permutation(len(coef)).tolist():
                slopes, room = self.column(k), (self.low[k] - coef[k], self.high[k] - coef[k])
                found, n = self.search.along(scores, slopes, *room), n + 1
                if found.alpha:
                    coef[k] += found.alpha
                    scores, value = scores + found.alpha * slopes, found.value
            move = coef - start
            if move.any():
                room = self._room(coef, move)
                found, n = self.search.along(scores, scores - start_scores, *room), n + 1
                coef, value = coef + found.alpha * move, found.value
            coef = np.clip(coef, self.low, self.high)
            scores = self.scores(coef)  # sums of steps gather rounding errors
            if value < before + SMALLEST_GAIN:
                break
        return Ascent(coef, self.search.value(scores), n)

    def _room(self, coef: Vector, move: Vector) -> tuple[float, float]:
        """Return how far weights can go backwards and forwards along a direction."""
        used = move != 0
        low, high = self.low[used] - coef[used], self.high[used] - coef[used]
        ends = np.stack([low / move[used], high / move[used]])
        return min(0.0, float(ends.min(axis=0).max())), max(0.0, float(ends.max(axis=0).min()))

    def refine(self, coef: Vector, *, n_restarts: int = N_RESTARTS, seed: int = 0) -> Ascent:
        """Return weights near given ones whose metric is at least as large.

        1. A few ascents of one sweep start from the weights. The mean of their weights is less
           adapted to the training data than each of them.
        2. An ascent starts from the mean.
        3. `n_restarts` ascents start from the best weights so far, with noise.

        Parameters
        ----------
        coef : float64 array of shape (n_features,)
            The weights of another fit.
        n_restarts, seed : int
        """
        rng = np.random.default_rng(seed)
        start = Ascent(coef, self.search.value(self.scores(coef)), 0)
        tried = [self.ascend(coef, rng, 1) for _ in range(N_ORDERS)]
        mean = np.mean([one.coef / (np.linalg.norm(one.coef) or 1.0) for one in tried], axis=0)
        best = self.ascend(np.clip(mean, self.low, self.high), rng)
        tried.append(best)
        deviation = np.array([self.column(k).std() for k in range(len(coef))])
        unit = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=deviation > 0)
        n_varying = max(1, int(np.count_nonzero(unit)))
        for _ in range(n_restarts):
            usual = float(np.linalg.norm(best.coef * deviation)) / n_varying**0.5
            noisy = best.coef + NOISE * usual * unit * rng.normal(size=len(coef))
            tried.append(self.ascend(np.clip(noisy, self.low, self.high), rng, RESTART_SWEEPS))
            best = max(best, tried[-1], key=lambda one: one.value)
        best = max(start, *tried, key=lambda one: one.value)
        return best._replace(n_searches=sum(one.n_searches for one in tried))


# --------------------------------------------------------------------------------------------------
# `refine`: a trained model is refined, and held-out queries decide whether that is kept.


class Refinement(NamedTuple):
    """What a refinement has changed.

    Attributes
    ----------
    metric : str
    before, after : float
        The metric on the training data.
    held_out : tuple (before, after)
        The metric on held-out data, or its mean over the folds.
    kept : bool
        Whether the refined weights are those of the model, because they are better on held-out
        data.
    """

    metric: str
    before: float
    after: float
    held_out: tuple[float, float]
    kept: bool


def refine(
    trainer: Trainer, model: Model, data: RankingData, metric: str, *, C: float,
    valid: RankingData | None = None, folds: int = 5, flavour: FlavourName = "standard",
) -> tuple[LinearModel, Refinement]:  # fmt: skip
    """Refine a trained model, and keep the result if it is better on held-out queries.

    Parameters
    ----------
    trainer : Trainer
        The trainer of the model, which also trains on the folds.
    model : Model
        A linear model of the data.
    data : RankingData
        The training data.
    metric : str
        See `MetricAscent`.
    C : float
        The C of the model.
    valid : RankingData, optional
        Held-out data; without them, `folds` folds of the queries are used.
    folds : int
    flavour : str
        The conventions of the metric.

    Returns
    -------
    LinearModel
    Refinement

    Examples
    --------
    >>> from linrank import make_ranking
    >>> data = make_ranking(random_state=0, noise=2.0)
    >>> trainer = Trainer()
    >>> model = trainer.train(data, C=0.1).model
    >>> refined, found = refine(trainer, model, data, "map", C=0.1, folds=2)
    >>> found.after > found.before
    True
    """
    wanted = parse_metric(metric)
    check_sum(wanted)
    if not isinstance(model, LinearModel) or data.pairs is not None:
        what = "listed pairs" if data.pairs is not None else f"a {type(model).__name__}"
        raise DataError(f"refine needs a linear model of labels, not {what}. Leave out refine")

    def moved(prepared: Prepared, coef: Vector) -> Vector:
        penalty = trainer.penalty_for(prepared)
        return _refined(prepared, penalty, coef, wanted, flavour, trainer.n_threads)

    def measured(prepared: Prepared, other: RankingData, *coefs: Vector) -> list[float]:
        return [
            evaluate(
                other.y, prepared.scores(other, coef, trainer.n_threads), metrics=[wanted],
                query_ptr=other.query_ptr, flavour=flavour,
            ).mean[wanted.name]
            for coef in coefs
        ]  # fmt: skip

    prepared = trainer.prepare(data)
    coef = moved(prepared, model.scaled_coef)
    before, after = measured(prepared, prepared.data, model.scaled_coef, coef)
    if after < before:  # ties are averaged here, and were in the worst order in the search
        coef, after = model.scaled_coef, before
    if valid is not None:
        other = prepared.apply(valid, trainer.n_threads)
        held_out = measured(prepared, other, model.scaled_coef, coef)
    else:
        values = []
        for rows, others in make_folds(data, folds):
            part = trainer.prepare(data.part(rows))
            fitted = trainer.train(data.part(rows), C).model
            assert isinstance(fitted, LinearModel)
            other = part.apply(data.part(others), trainer.n_threads)
            values.append(
                measured(part, other, fitted.scaled_coef, moved(part, fitted.scaled_coef))
            )
        held_out = np.nanmean(values, axis=0).tolist()
    kept = held_out[1] > held_out[0]
    found = Refinement(wanted.name, before, after, (held_out[0], held_out[1]), kept)
    entry = found._asdict() | {"held_out": held_out}
    return model.with_coef(coef if kept else model.scaled_coef, refined=entry), found


def _refined(
    prepared: Prepared, penalty: Penalty, coef: Vector, metric: Metric, flavour: FlavourName,
    n_threads: int | None,
) -> Vector:  # fmt: skip
    """Return refined weights of preprocessed features; a sparse model keeps its features."""
    data = prepared.data
    used = np.flatnonzero(coef) if penalty.selects else np.arange(len(coef))
    if not len(used):
        return coef
    X = data.X[:, used] if len(used) < len(coef) else data.X
    if prepared.factor is not None:
        X = X * prepared.factor[used]
    bounds = penalty.for_features(len(coef), data.feature_names).for_some(used).limits
    chosen = data.replace(X=X, feature_names=None)
    found = MetricAscent(chosen, metric, resolve_rules(flavour), bounds, n_threads)
    out = np.zeros_like(coef)
    out[used] = found.refine(coef[used]).coef
    return out
