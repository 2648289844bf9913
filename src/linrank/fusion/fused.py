"""`fuse`: learn the weights of retrievers, and compare the fused ranking with standard rules."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from .._util.checks import choice, positive_number, whole_number
from .._util.text import text_table
from .._util.types import Integers, Mask, Vector
from ..comparison import MetricComparison, compare_evaluations
from ..data.ranking import RankingData
from ..data.trec import Run
from ..errors import DataError, NothingSelectedWarning
from ..estimators.ranksvm import RankSVM
from ..metrics.evaluation import Evaluation, parse_metric, parse_metrics
from ..penalties.penalty import BoundsLike
from .normalizers import Normalizer
from .retrieved import DEPTH, Retrieved

WeightsName: TypeAlias = Literal["free", "positive", "simplex"]
WEIGHTS: tuple[WeightsName, ...] = ("free", "positive", "simplex")
FUSED = "fused"  #: the name of the learned weights in tables
#: a document is used for training if a retriever ranks it this high, or if it is relevant
POOL = 100
BLOCK_DRAWS = 1 << 20  #: counts of queries in samples that are held at a time
ONE_SIDED = 1.645  #: the quantile 0.95 of the normal distribution
SAMPLED = 10  #: one in this number of documents below the pool is used, with this weight
STRENGTH = 100.0  #: the weight C of the loss, whose mean over the pairs of a query is taken


@dataclass(frozen=True)
class Fusion:
    """How retrievers are fused: a weighted sum of normalised scores.

    Parameters
    ----------
    normalizer : Normalizer
    weights : {"positive", "simplex", "free"}
        ``"simplex"``: not negative, with the sum 1. The sum has no influence on the order.
    C : float
        The weight of the loss in the objective of `linrank.RankSVM`, with ``normalize="queries"``.
    pool : int
        A document is used for training if a retriever ranks it this high, or if it is relevant.

    Examples
    --------
    >>> Fusion(weights="simplex").scaled(np.array([3.0, 1.0])).tolist()
    [0.75, 0.25]
    """

    normalizer: Normalizer = field(default_factory=Normalizer)
    weights: WeightsName = "positive"
    C: float = STRENGTH
    pool: int = POOL

    def __post_init__(self) -> None:
        choice("weights", self.weights, WEIGHTS)
        positive_number("C", self.C)
        whole_number("pool", self.pool)

    def features(self, found: Retrieved) -> Vector:
        """Return the normalised scores."""
        if self.normalizer.uses_ranks:
            return self.normalizer.of_ranks(found.ranks, found.query_ptr)
        return self.normalizer.apply(found.scores, found.query_ptr)

    def combined(self, X: Vector, weights: Vector) -> Vector:
        """Return the fused scores of documents, given their normalised scores."""
        return X @ weights

    def rules(self, found: Retrieved, X: Vector) -> Iterator[tuple[str, Vector]]:
        """Yield rules without learned weights, with which the fused ranking is compared."""
        return standard_rules(found, X, self)

    def train(self, found: Retrieved, X: Vector, use: Mask | None = None) -> Vector:
        """Return the weights that minimise the loss of `linrank.RankSVM`.

        The features are divided by their deviations, so that C does not depend on their scale. Of
        the documents that are not in the pool, one in `SAMPLED` is used, with this weight.

        Parameters
        ----------
        found : Retrieved
        X : float64 array of shape (n_docs, n_retrievers)
            The normalised scores.
        use : bool array of shape (n_queries,), optional
            The queries to train on.

        Returns
        -------
        float64 array of shape (n_retrievers,)

        Examples
        --------
        >>> from linrank import Qrels, Run
        >>> from linrank.fusion import gather
        >>> a = Run(["1", "1"], ["A", "B"], [2.0, 1.0], tag="good")
        >>> b = Run(["1", "1"], ["A", "B"], [1.0, 2.0], tag="bad")
        >>> found, fusion = gather([a, b], Qrels(["1"], ["A"], [1])), Fusion()
        >>> fusion.train(found, fusion.features(found)).tolist()
        [1.0, 0.0]
        """
        data, unit = self._training_data(found, X, use)
        return self._weights_of(self._ranker(), data, unit)

    def resample(self, found: Retrieved, X: Vector, n: int = 50, seed: int = 0) -> Vector:
        """Return the weights of `n` samples of the queries, drawn with replacement.

        The fit of a sample starts from the weights of the one before.

        Parameters
        ----------
        found, X
            As in `train`.
        n : int
        seed : int
        """
        data, unit = self._training_data(found, X, None)
        ranker, q = self._ranker(), data.n_queries
        rng = np.random.default_rng(seed)
        counts = rng.multinomial(q, np.full(q, 1.0 / q), size=n).astype(np.float64)
        return np.array([
            self._weights_of(ranker, data.replace(query_weight=count), unit) for count in counts
        ])  # fmt: skip

    def _training_data(
        self, found: Retrieved, X: Vector, use: Mask | None
    ) -> tuple[RankingData, Vector]:
        """Return the documents to train on, in units of the deviations, and these."""
        pooled = ((found.ranks > 0) & (found.ranks <= self.pool)).any(axis=1) | (found.y > 0)
        weight = np.where(pooled, 1.0, 0.0)
        weight[np.flatnonzero(~pooled)[::SAMPLED]] = SAMPLED
        query = np.repeat(np.arange(found.n_queries), np.diff(found.query_ptr))
        rows = np.flatnonzero(weight if use is None else weight * use[query])
        deviation = X[rows].std(axis=0)
        unit = np.where(deviation > 0, deviation, 1.0)
        data = RankingData(X[rows] / unit, found.y[rows], query[rows], sample_weight=weight[rows])
        return data, unit

    def _ranker(self) -> RankSVM:
        bounds: BoundsLike = None if self.weights == "free" else "positive"
        return RankSVM(C=self.C, bounds=bounds, normalize="queries", scale=None, warm_start=True)

    def _weights_of(self, ranker: RankSVM, data: RankingData, unit: Vector) -> Vector:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NothingSelectedWarning)  # `scaled` raises an error
            return self.scaled(ranker.fit(data).coef_ / unit)

    def scaled(self, weights: Vector) -> Vector:
        """Return weights whose largest one is 1, or whose sum is 1 on the simplex."""
        size = weights.sum() if self.weights == "simplex" else np.abs(weights).max()
        if size <= 0:
            raise DataError(
                "no retriever ranks relevant documents above others, so all weights are 0. Check "
                "that larger scores are better, or use weights='free'"
            )
        return weights / size


class Rule(NamedTuple):
    """A ranking of the same documents, with its values of the metrics in each query.

    Attributes
    ----------
    name : str
    scores : float64 array of shape (n_docs,)
    evaluation : Evaluation

    Examples
    --------
    >>> from linrank import evaluate
    >>> rule = Rule("BM25", np.array([2.0, 1.0]), evaluate([1, 0], [2.0, 1.0], metrics="map"))
    >>> rule.evaluation.mean
    {'map': 1.0}
    """

    name: str
    scores: Vector
    evaluation: Evaluation


class Certainty(NamedTuple):
    """How certain it is that one ranking is better than another.

    Attributes
    ----------
    probability : float
        The share of samples of the queries in which its mean is larger.
    n_needed : int or None
        The number of judged queries at which the difference would be significant at a one-sided
        level of 5 %. None if the ranking is not better.

    Examples
    --------
    >>> certainty(np.array([0.5, 0.5, -0.5, 0.5])).n_needed
    11
    """

    probability: float
    n_needed: int | None


def certainty(differences: Vector, n_samples: int = 10_000, seed: int = 0) -> Certainty:
    """Return how certain it is that the mean of differences is positive.

    With the mean m and the standard deviation σ of the differences, n queries are needed so that
    ``m > 1.645·σ/√n``.

    Parameters
    ----------
    differences : float64 array of shape (n_queries,)
    n_samples, seed
        The number of samples of the queries, and the seed of their choice.
    """
    d = differences[~np.isnan(differences)]
    rng = np.random.default_rng(seed)
    share, block = np.full(len(d), 1.0 / len(d)), max(1, BLOCK_DRAWS // len(d))
    sizes = [min(block, n_samples - done) for done in range(0, n_samples, block)]
    sums = np.concatenate([rng.multinomial(len(d), share, size=size) @ d for size in sizes])
    probability = float(np.mean(sums > 0) + 0.5 * np.mean(sums == 0))
    if d.mean() <= 0:
        return Certainty(probability, None)
    spread = float(d.std(ddof=1)) if len(d) > 1 else 0.0
    return Certainty(probability, max(1, math.ceil((ONE_SIDED * spread / float(d.mean())) ** 2)))


@dataclass(frozen=True, eq=False, repr=False)
class Fused:
    """Learned weights, and held-out quality beside that of standard rules.

    Attributes
    ----------
    retrieved : Retrieved
    fusion : Fusion
    weights : float64 array of shape (n_retrievers,)
        Trained on all queries.
    fold_weights : float64 array of shape (n_folds, n_retrievers)
        Trained without the queries of a fold.
    rankings : list of Rule
        The first one has the name "fused": each query is ranked by weights that were trained
        without it. ``"best single"`` is the retriever with the best first metric on the queries of
        the other folds.
    singles : list of Rule
        Each retriever by itself.
    metrics : list of str

    Examples
    --------
    >>> from linrank import Qrels, Run
    >>> from linrank.fusion import fuse, gather
    >>> ids = [str(q) for q in range(6) for _ in "AB"]
    >>> a = Run(ids, ["A", "B"] * 6, [2.0, 1.0] * 6, tag="good")
    >>> b = Run(ids, ["A", "B"] * 6, [1.0, 2.0] * 6, tag="bad")
    >>> found = fuse(gather([a, b], Qrels(ids[::2], ["A"] * 6, [1] * 6)), folds=2)
    >>> found.as_dict()
    {'good': 1.0, 'bad': 0.0}
    >>> found.rankings[0].evaluation.mean["map"]
    1.0
    >>> found.predict(found.retrieved).shape  # a score for each document
    (12,)
    """

    retrieved: Retrieved
    fusion: Fusion
    weights: Vector
    fold_weights: Vector
    rankings: list[Rule]
    singles: list[Rule]
    metrics: list[str]

    def as_dict(self) -> dict[str, float]:
        """Return the weight of each retriever."""
        return dict(zip(self.retrieved.names, self.weights.tolist(), strict=True))

    def comparisons(self, metric: str | None = None) -> dict[str, MetricComparison]:
        """Return the comparison of each rule (A) with the fused ranking (B) by one metric."""
        name, first = self.metrics[0] if metric is None else metric, self.rankings[0]
        return {
            rule.name: compare_evaluations(rule.evaluation, first.evaluation).metrics[name]
            for rule in self.rankings[1:]
        }

    def certainties(self, metric: str | None = None) -> dict[str, Certainty]:
        """Return how certain it is that the fused ranking is better than each rule."""
        name, first = self.metrics[0] if metric is None else metric, self.rankings[0]
        sign = 1.0 if parse_metric(name).greater_is_better else -1.0
        values = {rule.name: rule.evaluation.per_query[name] for rule in self.rankings}
        return {
            rule.name: certainty(sign * (values[first.name] - values[rule.name]))
            for rule in self.rankings[1:]
        }

    def weight_intervals(self, n: int = 50, level: float = 0.95, seed: int = 0) -> Vector:
        """Return the limits of each weight, from fits on `n` samples of the queries.

        Parameters
        ----------
        n : int
        level : float
            The share of the samples whose weights are within the limits.
        seed : int

        Returns
        -------
        float64 array of shape (2, n_retrievers)
        """
        X = self.fusion.features(self.retrieved)
        samples = self.fusion.resample(self.retrieved, X, n, seed)
        return np.quantile(samples, [0.5 - level / 2, 0.5 + level / 2], axis=0)

    def out_run(self, tag: str = "linrank") -> Run:
        """Return the held-out rankings as a run."""
        return self.retrieved.run_of(self.rankings[0].scores, tag)

    def predict(self, other: Retrieved) -> Vector:
        """Return the fused scores of documents of other queries."""
        if other.names != self.retrieved.names:
            raise DataError(
                f"the retrievers are {', '.join(other.names)}; the weights are for "
                f"{', '.join(self.retrieved.names)}"
            )
        return self.fusion.combined(self.fusion.features(other), self.weights)

    def __repr__(self) -> str:
        weights = [[name, f"{w:.4f}"] for name, w in self.as_dict().items()]
        quality = [
            [rule.name, *(f"{rule.evaluation.mean[name]:.4f}" for name in self.metrics)]
            for rule in self.rankings
        ]
        return "\n\n".join([
            text_table(["retriever", "weight"], weights),
            text_table(["ranking", *self.metrics], quality),
        ])  # fmt: skip


def fuse(
    found: Retrieved,
    fusion: Fusion | None = None,
    *,
    folds: int = 5,
    metrics: str | Sequence[str] = ("map", "ndcg@10"),
    depth: int | None = DEPTH,
) -> Fused:
    """Learn the weights of retrievers, and measure them on held-out queries beside standard rules.

    The queries are sorted by their ids. Query t belongs to fold t mod `folds`.

    Parameters
    ----------
    found : Retrieved
        The result of `read_retrieved` or `gather`.
    fusion : Fusion, optional
        The normaliser and the kind of the weights.
    folds : int
    metrics : str or sequence of str
        The first one chooses the best single retriever.
    depth : int, optional
        The number of documents per query that are ranked; None: all.

    Returns
    -------
    Fused

    Examples
    --------
    >>> from linrank import Qrels, Run
    >>> from linrank.fusion import gather
    >>> ids = [str(q) for q in range(6) for _ in "AB"]
    >>> a = Run(ids, ["A", "B"] * 6, [2.0, 1.0] * 6, tag="good")
    >>> b = Run(ids, ["A", "B"] * 6, [1.0, 2.0] * 6, tag="bad")
    >>> qrels = Qrels(ids[::2], ["A"] * 6, [1] * 6)
    >>> fuse(gather([a, b], qrels), Fusion(weights="simplex"), folds=3).as_dict()
    {'good': 1.0, 'bad': 0.0}
    """
    fusion = fusion or Fusion()
    names = [metric.name for metric in parse_metrics(metrics)]
    if whole_number("folds", folds, least=2) > found.n_queries:
        raise DataError(
            f"there are {found.n_queries} judged queries: {folds} folds cannot be made of them. "
            f"Use 2 to {found.n_queries} folds"
        )
    X = fusion.features(found)
    fold = np.arange(found.n_queries) % folds
    row_fold = np.repeat(fold, np.diff(found.query_ptr))
    fold_weights = np.array([fusion.train(found, X, fold != f) for f in range(folds)])
    scores = np.empty(len(X))
    for f in range(folds):
        held_out = np.flatnonzero(row_fold == f)
        scores[held_out] = fusion.combined(X[held_out], fold_weights[f])

    def measured(name: str, scores: Vector) -> Rule:
        return Rule(name, scores, found.measure(scores, names, depth))

    singles = [
        measured(name, np.where(np.isnan(column), -np.inf, column))
        for name, column in zip(found.names, found.scores.T, strict=True)
    ]
    best = best_by_fold(singles, names[0], fold)
    rankings = [
        measured(FUSED, scores),
        measured("best single", np.choose(best[row_fold], [one.scores for one in singles])),
        *(measured(*rule) for rule in fusion.rules(found, X)),
    ]
    return Fused(found, fusion, fusion.train(found, X), fold_weights, rankings, singles, names)


def best_by_fold(singles: Sequence[Rule], metric: str, fold: Integers) -> Integers:
    """Return, for each fold, the retriever with the best mean metric on the other folds."""
    values = np.array([one.evaluation.per_query[metric] for one in singles])
    if not parse_metric(metric).greater_is_better:
        values = -values
    n_folds = int(fold.max()) + 1
    means = np.array([np.nanmean(values[:, fold != f], axis=1) for f in range(n_folds)])
    return means.argmax(axis=1)


def standard_rules(found: Retrieved, X: Vector, fusion: Fusion) -> Iterator[tuple[str, Vector]]:
    """Yield rules that have no weights: RRF, CombSUM, CombMNZ (Fox & Shaw 1994), equal weights."""
    minmax = (
        X
        if fusion.normalizer.name == "minmax"
        else Normalizer("minmax").apply(found.scores, found.query_ptr)
    )
    total = minmax.sum(axis=1)
    yield "RRF", Normalizer("rrf").of_ranks(found.ranks, found.query_ptr).sum(axis=1)
    yield "CombSUM", total
    yield "CombMNZ", total * (found.ranks > 0).sum(axis=1)
    if minmax is not X:
        yield "equal weights", X.sum(axis=1)
