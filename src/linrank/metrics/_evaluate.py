"""Many metrics of one ranking: grouped and sorted once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from ..errors import DataError
from ._measure import group
from ._ranking import Floats, Ranking
from ._registry import Metric, parse_metric
from ._rules import resolve_rules


@dataclass(frozen=True)
class Evaluation:
    """The values of several metrics.

    Attributes
    ----------
    mean : dict of str to float
        The mean of each metric; keys are the metrics' names as `parse_metric` spells them.
    per_query : dict of str to array of shape (n_queries,)
        The value of each query, NaN where it was skipped.
    n_skipped : dict of str to int
        The number of queries that were left out of each mean.
    n_queries : int
    query_ids : array of shape (n_queries,)
        The queries in the order of `per_query`: that in which they first appear.
    flavour : str

    Examples
    --------
    >>> print(evaluate([1, 0, 0, 0], [2.0, 1.0, 2.0, 1.0], [7, 7, 8, 8], ["ndcg@1", "map"]))
    metric    mean  queries  skipped
    ndcg@1  1.0000        1        1
    map     1.0000        1        1
    """

    mean: dict[str, float]
    per_query: dict[str, Floats]
    n_skipped: dict[str, int]
    n_queries: int
    query_ids: NDArray[Any]
    flavour: str

    def __str__(self) -> str:
        width = max(len(name) for name in ("metric", *self.mean))
        lines = [f"{'metric':{width}}  {'mean':>6}  queries  skipped"]
        for name, value in self.mean.items():
            skipped = self.n_skipped[name]
            used = self.n_queries - skipped
            lines.append(f"{name:{width}}  {value:6.4f}  {used:7d}  {skipped:7d}")
        return "\n".join(lines)


def evaluate(
    y: Any,
    scores: Any,
    qid: Any = None,
    metrics: str | Metric | Iterable[str | Metric] = ("ndcg@10",),
    *,
    flavour: str = "standard",
    query_ptr: Any = None,
    doc_ids: Any = None,
    n_threads: int | None = None,
) -> Evaluation:
    """Compute several metrics at the cost of one sort.

    Parameters
    ----------
    y, scores, qid, flavour, doc_ids
        As in `ndcg`.
    metrics : str or iterable of str
        Names that `parse_metric` knows; a str may hold several, with commas between.
    query_ptr : int array of shape (n_queries + 1,), optional
        In the place of `qid`, where rows are grouped already: query q owns the rows
        ``query_ptr[q]:query_ptr[q + 1]``, as in `RankingData`.
    n_threads : int, optional
        None: ``LINRANK_THREADS``, or all usable cores. The result does not depend on it.

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
    results = {metric.name: metric.values(ranking, rules) for metric in wanted}
    return Evaluation(
        mean={name: result.mean() for name, result in results.items()},
        per_query={name: data.in_order(result.values) for name, result in results.items()},
        n_skipped={name: result.n_skipped for name, result in results.items()},
        n_queries=ranking.n_queries,
        query_ids=data.query_ids,
        flavour=flavour,
    )


def parse_metrics(metrics: str | Metric | Iterable[str | Metric]) -> list[Metric]:
    """The metrics of these names; a str may hold several, with commas between."""
    if isinstance(metrics, str):
        metrics = metrics.split(",")
    elif isinstance(metrics, Metric):
        metrics = [metrics]
    wanted = [parse_metric(metric) for metric in metrics]
    if not wanted:
        raise DataError("metrics is empty; name at least one, such as ndcg@10")
    return wanted
