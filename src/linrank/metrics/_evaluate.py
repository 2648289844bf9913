"""Several metrics of one ranking, computed with one sort."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike, NDArray

from .._typing import Vector
from ._measure import group
from ._ranking import Ranking
from ._registry import Metric, parse_metrics
from ._rules import Rules, resolve_rules
from .names import FlavourName


@dataclass(frozen=True)
class Evaluation:
    """Values of several metrics, as `evaluate` returns them.

    Attributes
    ----------
    mean : dict of str to float
        Mean of each metric. Keys are names such as "ndcg@10", as `parse_metric` spells them.
    per_query : dict of str to array of shape (n_queries,)
        Value of each metric for each query; NaN if the query was skipped.
    n_skipped : dict of str to int
        Number of queries that were left out of each mean.
    n_queries : int
    query_ids : array of shape (n_queries,)
        Queries in the order of `per_query`, in which they first appear in the rows.
    flavour : str

    Examples
    --------
    >>> print(evaluate([1, 0, 0, 0], [2.0, 1.0, 2.0, 1.0], [7, 7, 8, 8], ["ndcg@1", "map"]))
    metric    mean  queries  skipped
    ndcg@1  1.0000        1        1
    map     1.0000        1        1
    """

    mean: dict[str, float]
    per_query: dict[str, Vector]
    n_skipped: dict[str, int]
    n_queries: int
    query_ids: NDArray[Any]
    flavour: FlavourName

    def __str__(self) -> str:
        width = max(len(name) for name in ("metric", *self.mean))
        lines = [f"{'metric':{width}}  {'mean':>6}  queries  skipped"]
        for name, value in self.mean.items():
            skipped = self.n_skipped[name]
            used = self.n_queries - skipped
            lines.append(f"{name:{width}}  {value:6.4f}  {used:7d}  {skipped:7d}")
        return "\n".join(lines)


def evaluate(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    metrics: str | Metric | Iterable[str | Metric] = ("ndcg@10",),
    *,
    flavour: FlavourName = "standard",
    query_ptr: ArrayLike | None = None,
    doc_ids: Collection[object] | None = None,
    n_threads: int | None = None,
) -> Evaluation:
    """Compute several metrics with one sort of the documents.

    Parameters
    ----------
    y, scores, qid, flavour, doc_ids
        As in `ndcg`.
    metrics : str or iterable of str
        Names that `parse_metric` accepts. A str may hold several names, separated by commas.
    query_ptr : int array of shape (n_queries + 1,), optional
        Alternative to `qid` if the rows of each query are contiguous: query q owns the rows
        ``query_ptr[q]:query_ptr[q + 1]``, as in `RankingData`.
    n_threads : int, optional
        Number of threads. None: ``LINRANK_THREADS``, or all usable cores. The result does not
        depend on it.

    Returns
    -------
    Evaluation

    Examples
    --------
    >>> from linrank.metrics import evaluate
    >>> evaluate([1, 0, 2], [0.3, 0.2, 0.1], metrics="p@2, mrr").mean
    {'p@2': 0.5, 'mrr': 1.0}
    """
    wanted = parse_metrics(metrics)
    rules = resolve_rules(flavour)
    data = group(y, scores, qid, query_ptr=query_ptr, ties=rules.ties, doc_ids=doc_ids)
    ranking = Ranking(data.y, data.scores, data.query_ptr, rules.ties, n_threads)
    return evaluate_ranking(ranking, wanted, rules, flavour, data.query_ids, data.in_order)


def evaluate_ranking(
    ranking: Ranking,
    metrics: list[Metric],
    rules: Rules,
    flavour: FlavourName,
    query_ids: NDArray[Any],
    in_order: Callable[[Vector], Vector] = lambda values: values,
) -> Evaluation:
    """Compute metrics of a ranking; `in_order` puts one value per query in the order of the ids."""
    results = {metric.name: metric.values(ranking, rules) for metric in metrics}
    return Evaluation(
        mean={name: result.mean() for name, result in results.items()},
        per_query={name: in_order(result.values) for name, result in results.items()},
        n_skipped={name: result.n_skipped for name, result in results.items()},
        n_queries=ranking.n_queries,
        query_ids=query_ids,
        flavour=flavour,
    )
