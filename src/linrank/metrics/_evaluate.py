"""Several metrics of one ranking, computed with one sort."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike, NDArray

from .._draw import draw_distribution, drawn
from .._tables import data_frame, html_table, text_table
from .._typing import Vector
from ._measure import group
from ._ranking import Ranking
from ._registry import Metric, parse_metrics
from ._rules import Rules, resolve_rules
from .names import FlavourName

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from ..data.ranking import RankingData

COLUMNS = ("metric", "mean", "queries", "skipped")  #: of tables of the means


@dataclass(frozen=True, repr=False)
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
    >>> evaluate([1, 0, 0, 0], [2.0, 1.0, 2.0, 1.0], [7, 7, 8, 8], ["ndcg@1", "map"])
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

    def _rows(self) -> list[tuple[str, ...]]:
        """Return the cells of a table of the means."""
        counts = [(self.n_queries - skipped, skipped) for skipped in self.n_skipped.values()]
        return [
            (name, f"{mean:.4f}", str(used), str(skipped))
            for (name, mean), (used, skipped) in zip(self.mean.items(), counts, strict=True)
        ]

    def __repr__(self) -> str:
        return text_table(COLUMNS, self._rows())

    def _repr_html_(self) -> str:
        return html_table(COLUMNS, self._rows(), title=f"{self.n_queries:,} queries")

    def to_frame(self) -> pd.DataFrame:
        """Return the value of each query as a pandas DataFrame.

        The column "qid" holds the queries, and each metric has a column with its name. Values of
        skipped queries are NaN.

        Examples
        --------
        >>> evaluate([1, 0, 1, 0], [2.0, 1.0, 1.0, 2.0], [7, 7, 8, 8], "mrr").to_frame()
           qid  mrr
        0    7  1.0
        1    8  0.5
        """
        return data_frame({"qid": self.query_ids, **self.per_query})

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the distribution of each metric over the queries.

        The height of a curve is the share of queries whose value is at most the one on the axis.
        Skipped queries are left out.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            None: those of a new figure.

        Returns
        -------
        matplotlib Axes

        Examples
        --------
        >>> axes = evaluate([1, 0, 1, 0], [2.0, 1.0, 1.0, 2.0], [7, 7, 8, 8], "mrr").plot()
        >>> axes.get_title(loc="left")
        'Distribution over 2 queries'
        """
        curves = {f"{name}: mean {self.mean[name]:.4f}": v for name, v in self.per_query.items()}
        title = f"Distribution over {self.n_queries:,} queries"
        return drawn(lambda axes: draw_distribution(axes, curves, title), ax)


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


def evaluate_data(
    data: RankingData,
    scores: ArrayLike,
    metrics: str | Metric | Iterable[str | Metric] = ("ndcg@10",),
    *,
    flavour: FlavourName = "standard",
    n_threads: int | None = None,
) -> Evaluation:
    """Compute metrics of scores that are in the row order of `data`; see `evaluate`.

    Parameters
    ----------
    data : RankingData
    scores : array of shape (n_docs,)
    metrics, flavour, n_threads
        As in `evaluate`.

    Returns
    -------
    Evaluation

    Examples
    --------
    >>> from linrank import RankingData
    >>> data = RankingData([[1.0], [2.0], [3.0]], [0, 1, 0], ["x", "x", "x"])
    >>> evaluate_data(data, data.X[:, 0], "mrr").mean
    {'mrr': 0.5}
    """
    found = evaluate(
        data.y, scores, metrics=metrics, flavour=flavour, query_ptr=data.query_ptr,
        doc_ids=data.doc_ids if flavour == "trec" else None, n_threads=n_threads,
    )  # fmt: skip
    return replace(found, query_ids=data.query_ids)


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
