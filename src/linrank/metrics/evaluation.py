"""Metrics by name, and the evaluation of scores and of runs with several metrics."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._util.text import data_frame, html_table, text_table
from .._util.types import Array, Integers, Vector
from ..choices import FlavourName
from ..data.ids import join_strings
from ..data.trec import Qrels, Run, look_up, number_words
from ..errors import DataError
from ..plots.result_plots import plot_distribution
from . import binary, gains, pair_counts
from .binary import check_persistence
from .ranked_lists import (
    MetricKind,
    PerQuery,
    Ranking,
    Rules,
    check_cutoff,
    group,
    metric_kinds,
    resolve_rules,
)

__all__ = [
    "Evaluation",
    "Metric",
    "evaluate",
    "evaluate_data",
    "evaluate_run",
    "metric_names",
    "parse_metric",
    "parse_metrics",
]

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from ..data.ranking import RankingData

# --------------------------------------------------------------------------------------------------
# Metrics by name: ``ndcg@10``, ``map(rel=2)``, ``rbp(p=0.8)``, ``pairwise-accuracy``.


#: Lists of names begin with these; the other metrics follow in the order of the files.
_FIRST = ("ndcg", "mean-ndcg", "map", "p", "mrr", "err")
_DECLARED = {k.name: k for file in (gains, binary, pair_counts) for k in metric_kinds(file)}
_KINDS = {name: _DECLARED[name] for name in (*_FIRST, *_DECLARED)}
_BY_NAME = {name: kind for kind in _KINDS.values() for name in (kind.name, *kind.aliases)}

_PATTERN = re.compile(
    r"(?P<name>[a-z0-9-]+) (?:\( (?P<options>[^()]*?) \))? (?:@ (?P<k>\S+))?".replace(" ", r"\s*")
)
_TREC_CUTOFF = re.compile(r"(ndcg(?=-cut)|map(?=-cut)|p|recall|success)(?:-cut)?[-.](\d+)")
_ELSEWHERE = {"bpref", "infap", "f1", "set-f"}  #: metrics that other programs compute
_COMMA = re.compile(r",(?![^()]*\))")  # a comma between metrics, outside of parentheses
_OPTIONS = {"k": "cut-off", "rel": "relevance level", "p": "persistence p"}


@dataclass(frozen=True)
class Metric:
    """Metric with a cut-off and other options, as returned by `parse_metric`.

    Attributes
    ----------
    name : str
        Canonical name, such as ``ndcg@10`` or ``map(rel=2)``.
    k : int or None
        Cut-off.
    rel : float or None
        Smallest relevant label.
    p : float or None
        Persistence of RBP.
    greater_is_better : bool
        False for errors, whose best value is the smallest.
    kind : object
        The entry of the registry.

    Examples
    --------
    >>> from linrank import parse_metric
    >>> metric = parse_metric("precision(rel=2)@3")
    >>> metric.name, metric.k, metric.rel, metric.greater_is_better
    ('p(rel=2)@3', 3, 2.0, True)
    >>> metric([2, 0, 1, 2], [4.0, 3.0, 2.0, 1.0], per_query=True).round(3).tolist()
    [0.333]
    """

    name: str
    kind: MetricKind
    k: int | None = None
    rel: float | None = None
    p: float | None = None

    @property
    def greater_is_better(self) -> bool:
        """Whether larger values are better."""
        return self.kind.greater_is_better

    def __call__(
        self, y: ArrayLike, scores: ArrayLike, qid: ArrayLike | None = None, **options: Any
    ) -> float | Vector:
        """Call the public function of this metric with its cut-off and other options.

        `options` are the other arguments of that function, such as `flavour` and `per_query`.
        """
        chosen = _given(k=self.k, rel=self.rel, p=self.p)
        return self.kind.measure(y, scores, qid, **chosen, **options)

    def values(self, ranking: Ranking, rules: Rules) -> PerQuery:
        """Compute the metric for each query of a ranking."""
        if self.rel is not None:
            rules = replace(rules, rel=self.rel)
        return self.kind.values(ranking, rules, **_given(k=self.k, p=self.p))

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Callable[[str], Metric], tuple[str]]:
        # The entry of the registry has the function of a ranking, which cannot be pickled.
        return parse_metric, (self.name,)


def metric_names() -> tuple[str, ...]:
    """List the names of all metrics, without cut-offs and aliases.

    Returns
    -------
    tuple of str

    Examples
    --------
    >>> metric_names()[:3]
    ('ndcg', 'mean-ndcg', 'map')
    """
    return tuple(_KINDS)


def parse_metric(name: str | Metric) -> Metric:
    """Return the metric with a name of the form ``NAME``, ``NAME@K`` or ``NAME(rel=L)@K``.

    Names are not case-sensitive, and ``_`` is read as ``-``. Several options are separated by
    commas, as in ``rbp(rel=2, p=0.5)@10``. The names of trec_eval are accepted, too, such as
    ``ndcg_cut_10``, ``P_5`` and ``recip_rank``.

    Parameters
    ----------
    name : str or Metric
        A `Metric` is returned unchanged.

    Returns
    -------
    Metric

    Examples
    --------
    >>> parse_metric("NDCG@10").k
    10
    >>> parse_metric("precision(rel=2)@5").name
    'p(rel=2)@5'
    >>> parse_metric("map")([0, 1], [1.0, 2.0])
    1.0
    >>> parse_metric("ndcg_cut_10").name, parse_metric("P_5").name
    ('ndcg@10', 'p@5')
    """
    if isinstance(name, Metric):
        return name
    if not isinstance(name, str):
        raise DataError(f"metric is {name!r}; expected a name, such as 'ndcg@10'")
    spelled = name.strip().lower().replace("_", "-")
    cut = _TREC_CUTOFF.fullmatch(spelled)
    match = _PATTERN.fullmatch(f"{cut[1]}@{cut[2]}" if cut else spelled)
    kind = _BY_NAME.get(match["name"]) if match else None
    if match is None or kind is None:
        raise DataError(_unknown(name))
    texts = _split_options(name, match["options"])
    for option in [*texts] + ["k"] * (match["k"] is not None):
        if option not in kind.defaults:
            raise DataError(
                f"metric {name!r}: {kind.name} has no {_OPTIONS[option]}; use {kind.name!r}"
            )
    k = _cutoff(name, match["k"])
    numbers = {option: _number(name, option, text) for option, text in texts.items()}
    options = ", ".join(f"{option}={numbers[option]:.15g}" for option in sorted(numbers)[::-1])
    spelling = kind.name + (f"({options})" if options else "") + ("" if k is None else f"@{k}")
    return Metric(spelling, kind, k, **numbers)


def parse_metrics(metrics: str | Metric | Iterable[str | Metric]) -> list[Metric]:
    """Return the metrics with these names; a str may hold several, separated by commas.

    Parameters
    ----------
    metrics : str, Metric or iterable of these

    Returns
    -------
    list of Metric

    Examples
    --------
    >>> [metric.name for metric in parse_metrics("ndcg@10, map")]
    ['ndcg@10', 'map']
    """
    if isinstance(metrics, str):
        metrics = _COMMA.split(metrics)
    elif isinstance(metrics, Metric):
        metrics = [metrics]
    wanted = [parse_metric(metric) for metric in metrics]
    if not wanted:
        raise DataError("metrics is empty; name at least one, such as ndcg@10")
    return wanted


def _given(**options: float | None) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _cutoff(name: str, text: str | None) -> int | None:
    if text is not None and not re.fullmatch("0*[1-9][0-9]{0,17}", text):
        raise DataError(
            f"metric {name[:60]!r}: the cut-off is {text[:40]!r}; expected a whole number of at "
            "least 1 with at most 18 digits"
        )
    return check_cutoff(None if text is None else int(text))


def _split_options(name: str, text: str | None) -> dict[str, str]:
    """Return the texts of the options in parentheses, such as ``{"rel": "2"}``."""
    found: dict[str, str] = {}
    for part in () if text is None else text.split(","):
        option, equals, value = (word.strip() for word in part.partition("="))
        if not equals or option not in ("rel", "p") or option in found:
            raise DataError(
                f"metric {name[:60]!r}: {part.strip()[:40]!r} is not an option; expected rel=2 or "
                "p=0.8, each at most once"
            )
        found[option] = value
    return found


def _number(name: str, option: str, text: str) -> float:
    if not re.fullmatch(r"-?\d+(\.\d+)?", text) or not math.isfinite(float(text)):
        example = {"rel": "2", "p": "0.8"}[option]
        raise DataError(
            f"metric {name[:60]!r}: {option} is {text[:40]!r}; expected a number, such as {example}"
        )
    return float(text) if option == "rel" else check_persistence(float(text))


def _unknown(name: str) -> str:
    sentence = f"metric {name!r} is unknown; known metrics are {', '.join(metric_names())}"
    word = re.split(r"[@(]", name.lower().replace("_", "-"))[0].strip()
    if word in _ELSEWHERE:
        return f"{sentence}. Write the ranking with write_run, and use trec_eval or ir_measures"
    near = get_close_matches(word, _BY_NAME, n=1)
    return f"{sentence}; did you mean {near[0]!r}?" if near else sentence


# --------------------------------------------------------------------------------------------------
# Several metrics of one ranking, computed with one sort.


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
        return plot_distribution(self, ax)


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
    cutoffs = [metric.k for metric in wanted if metric.k is not None]
    depth = max(cutoffs) if len(cutoffs) == len(wanted) else None
    ranking = Ranking(data.y, data.scores, data.query_ptr, rules.ties, n_threads, depth=depth)
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


# --------------------------------------------------------------------------------------------------
# Metrics of a run against judgements, as trec_eval computes them.


_LARGEST_SINGLE = float(np.finfo(np.float32).max)


class _Joined(NamedTuple):
    """Documents of all judged queries, sorted by query; ties by descending document id."""

    y: Vector
    scores: Vector  # −∞ for documents that the run does not list
    query_ptr: Integers
    n_listed: Integers
    query_ids: Array


def evaluate_run(
    qrels: Qrels,
    run: Run,
    metrics: str | Metric | Iterable[str | Metric] = ("ndcg@10",),
    *,
    flavour: FlavourName = "trec",
    n_threads: int | None = None,
) -> Evaluation:
    """Compute metrics of a run against judgements.

    The numbers are those of trec_eval with its option ``-c``:

    - All queries of `qrels` are in the mean. A query that `run` does not have counts 0.
    - Queries of `run` without judgements are ignored.
    - Documents of `run` that were not judged have the label 0.
    - Relevant documents that `run` does not list count in recall, AP, R-precision and in the ideal
      list of NDCG.
    - Documents are sorted by score, and by descending document id if scores are equal. trec_eval
      holds scores in single precision, so scores that differ only beyond it are equal.

    The last point holds for the flavour trec; other flavours have their own rule for ties. In
    metrics of pairs and correlations, documents that `run` does not list share the last place.

    Parameters
    ----------
    qrels : Qrels
    run : Run
    metrics : str or iterable of str
        Names that `parse_metric` accepts. A str may hold several names, separated by commas.
    flavour : str
        The conventions; see `ndcg`.
    n_threads : int, optional

    Returns
    -------
    Evaluation

    See Also
    --------
    linrank.read_qrels, linrank.read_run

    Examples
    --------
    >>> from linrank import Qrels, Run, evaluate_run
    >>> qrels = Qrels(["1", "1", "2"], ["A", "B", "C"], [1, 1, 1])
    >>> run = Run(["1", "1"], ["X", "A"], [2.0, 1.0])
    >>> evaluate_run(qrels, run, "mrr, recall@10").mean
    {'mrr': 0.25, 'recall@10': 0.25}
    """
    wanted, rules = parse_metrics(metrics), resolve_rules(flavour)
    data = _join(qrels, run, single=flavour == "trec")
    ranking = Ranking(data.y, data.scores, data.query_ptr, rules.ties, n_threads, data.n_listed)
    return evaluate_ranking(ranking, wanted, rules, flavour, data.query_ids)


def _join(qrels: Qrels, run: Run, *, single: bool) -> _Joined:
    queries, docs = number_words(qrels.qid), number_words(qrels.doc_ids)
    query = look_up(run.qid, queries)
    rows = np.flatnonzero(query >= 0)
    if not len(rows):
        raise DataError(
            f"the run has no query of the qrels: it begins with query {run.qid[0]!r}, and the "
            f"qrels with {qrels.qid[0]!r}. Use a run of the judged queries"
        )
    query, doc = query[rows], look_up(run.doc_ids, docs)[rows]
    judged_query = look_up(qrels.qid, queries)
    ours = np.where(doc >= 0, query * len(docs) + doc, -1)
    theirs = judged_query * len(docs) + look_up(qrels.doc_ids, docs)
    order = np.argsort(theirs)
    judgement = order[np.minimum(np.searchsorted(theirs, ours, sorter=order), len(order) - 1)]
    labels = np.where(theirs[judgement] == ours, qrels.y[judgement], 0.0)
    scores = (_rounded(run.scores) if single else run.scores)[rows]
    missing = np.flatnonzero(~np.isin(theirs, ours))
    query = np.concatenate([query, judged_query[missing]])
    # Only the order of tied documents matters, because `Ranking` sorts by score.
    places = np.zeros(len(query), np.int64)
    places[: len(rows)] = _doc_places(query[: len(rows)], scores, run.doc_ids, rows)
    by_query = np.lexsort((-places, query))
    return _Joined(
        y=np.concatenate([labels, qrels.y[missing]])[by_query],
        scores=np.concatenate([scores, np.full(len(missing), -np.inf)])[by_query],
        query_ptr=np.concatenate([[0], np.cumsum(np.bincount(query, minlength=len(queries)))]),
        n_listed=np.bincount(query[: len(rows)], minlength=len(queries)),
        query_ids=join_strings(list(queries)),
    )


def _rounded(scores: Vector) -> Vector:
    """Round scores to single precision."""
    limited = np.clip(scores, -_LARGEST_SINGLE, _LARGEST_SINGLE)
    return limited.astype(np.float32).astype(np.float64)


def _doc_places(
    query: Integers, scores: Vector, doc_ids: Sequence[str], rows: Integers
) -> Integers:
    """Return the places of tied documents in the alphabet, and 0 for all other documents."""
    order = np.lexsort((scores, query))
    same = (np.diff(query[order]) == 0) & (np.diff(scores[order]) == 0)
    tied = order[np.flatnonzero(np.r_[same, False] | np.r_[False, same])]
    names = [doc_ids[row] for row in rows[tied].tolist()]
    alphabet = {name: place for place, name in enumerate(sorted(set(names)))}
    places = np.zeros(len(rows), np.int64)
    places[tied] = look_up(names, alphabet)
    return places
