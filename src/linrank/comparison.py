"""Comparison of two rankers on the same queries."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from inspect import signature
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from ._util.text import data_frame, html_table, text_table
from ._util.types import Array, Vector
from .choices import FlavourName
from .data.ids import id_texts
from .data.ranking import RankingData
from .data.trec import Qrels, Run, require_doc_ids, run_of
from .errors import DataError, prefix_errors
from .metrics import Evaluation, Metric, evaluate_data, evaluate_run, parse_metric, parse_metrics
from .plots.result_plots import plot_comparison
from .statistics import (
    Interval,
    PairedTest,
    WinTieLoss,
    bootstrap_interval,
    holm,
    most_changed,
    paired_t_test,
    randomization_test,
    win_tie_loss,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


# --------------------------------------------------------------------------------------------------
# Results of comparisons, as text, HTML, data frames and plots.


TestName: TypeAlias = Literal["t", "t_one_sided", "randomization"]
TESTS: tuple[TestName, ...] = ("t", "t_one_sided", "randomization")
LEAST_SHOWN = 1e-4  #: a smaller p-value is shown as "<0.0001"


@dataclass(frozen=True)
class MetricComparison:
    """Comparison of two rankers by one metric.

    Each query in which the metric is defined counts once in all numbers.

    Attributes
    ----------
    metric : str
    mean_a, mean_b : float
        Means of the metric; NaN without queries.
    difference : float
        Mean of B − A.
    interval : Interval
        Bootstrap confidence interval of the difference (`bootstrap_interval`).
    tests : dict of str to PairedTest
        "t" is the paired t-test, and "randomization" is Fisher's randomisation test; both are
        two-sided. "t_one_sided" is the paired t-test of whether B is better than A.
    p_holm : dict of str to float
        The p-value of each test, adjusted for the number of metrics (`holm`).
    counts : WinTieLoss
        Numbers of queries in which B is better than A, equal to A and worse than A.
    n_queries : int
    n_left_out : int
        Number of queries in which the metric is undefined.
    note : str
        A sentence if the numbers need an explanation; otherwise empty.
    """

    metric: str
    mean_a: float
    mean_b: float
    difference: float
    interval: Interval
    tests: Mapping[TestName, PairedTest]
    p_holm: Mapping[TestName, float]
    counts: WinTieLoss
    n_queries: int
    n_left_out: int
    note: str = ""


class ChangedQuery(NamedTuple):
    """A query, and the values of a metric in it."""

    qid: object
    a: float
    b: float
    difference: float  #: b − a


class ComparisonTable(NamedTuple):
    """Names of columns, and cells as text."""

    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]


@dataclass(frozen=True, repr=False)
class Comparison:
    """Comparison of two rankers, as `compare` returns it.

    Attributes
    ----------
    metrics : dict of str to MetricComparison
    a, b : Evaluation
        Values of each query.
    level : float
        Confidence level of the intervals.

    Examples
    --------
    >>> from linrank import compare, make_ranking
    >>> data = make_ranking(random_state=0)
    >>> found = compare(data, data.X[:, 0], data.y, metrics="ndcg@10, map")
    >>> list(found.metrics), found.metrics["map"].difference > 0
    (['ndcg@10', 'map'], True)
    >>> found.to_frame()["wins"].sum() > 0, len(found.most_changed(3))
    (np.True_, 3)
    """

    metrics: dict[str, MetricComparison]
    a: Evaluation
    b: Evaluation
    level: float

    def table(self) -> ComparisonTable:
        """Return a table with a row per metric, as text.

        The columns "p" hold the p-values of the tests. "Holm" is the p-value of the randomisation
        test, adjusted for the number of metrics.
        """
        columns = (
            "metric", "A", "B", "B − A", f"{100 * self.level:g} % interval", "p (t)",
            "p (B better)", "p (random)", "Holm", "win/tie/loss", "queries",
        )  # fmt: skip
        return ComparisonTable(columns, [_cells(found) for found in self.metrics.values()])

    def notes(self) -> list[str]:
        """Return the sentences on the metrics, each with the names of its metrics."""
        owners: dict[str, list[str]] = {}
        for name, found in self.metrics.items():
            if found.note:
                owners.setdefault(found.note, []).append(name)
        return [f"{', '.join(names)}: {note}" for note, names in owners.items()]

    def __repr__(self) -> str:
        return "\n".join([text_table(*self.table()), *self.notes()])

    def _repr_html_(self) -> str:
        title = "; ".join([f"{self.a.n_queries:,} queries", *self.notes()])
        return html_table(*self.table(), title=title)

    def to_frame(self) -> pd.DataFrame:
        """Return a pandas DataFrame with one row per metric.

        ``comparison.a.to_frame()`` and ``comparison.b.to_frame()`` hold the values of each query.
        """
        rows = [
            {
                "metric": name,
                "a": found.mean_a,
                "b": found.mean_b,
                "difference": found.difference,
                **found.interval._asdict(),
                **{f"p_{test}": found.tests[test].p_value for test in TESTS},
                **{f"p_{test}_holm": found.p_holm[test] for test in TESTS},
                **found.counts._asdict(),
                "queries": found.n_queries,
                "left_out": found.n_left_out,
            }
            for name, found in self.metrics.items()
        ]
        return data_frame({column: [row[column] for row in rows] for column in rows[0]})

    def most_changed(self, n: int = 10, metric: str | None = None) -> list[ChangedQuery]:
        """Return the queries in which a metric changes most, the largest change first.

        Parameters
        ----------
        n : int
            Largest number of queries. Queries that do not change are not listed.
        metric : str, optional
            None: the first metric.
        """
        _, a, b = self._values(metric)
        ids = self.a.query_ids.tolist()
        return [
            ChangedQuery(ids[q], float(a[q]), float(b[q]), float(b[q] - a[q]))
            for q in most_changed(a, b, n).tolist()
        ]

    def plot(self, ax: Axes | None = None, metric: str | None = None) -> Axes:
        """Draw the difference B − A of each query, in descending order.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            None: those of a new figure.
        metric : str, optional
            None: the first metric.

        Returns
        -------
        matplotlib Axes

        Examples
        --------
        >>> from linrank import compare, make_ranking
        >>> data = make_ranking(random_state=0)
        >>> axes = compare(data, data.X[:, 0], data.y, metrics="map").plot()
        >>> axes.get_ylabel()
        'map: B − A'
        """
        name, a, b = self._values(metric)
        return plot_comparison(self, name, b - a, ax)

    def _values(self, metric: str | None) -> tuple[str, Vector, Vector]:
        """Return the name of a metric, the first by default, and the values of both rankers."""
        name = next(iter(self.metrics)) if metric is None else metric
        if name not in self.metrics:
            known = ", ".join(map(repr, self.metrics))
            raise DataError(f"metric is {name!r}; this comparison has {known}")
        return name, self.a.per_query[name], self.b.per_query[name]


def _cells(found: MetricComparison) -> tuple[str, ...]:
    """Return the cells of a row of a table."""
    low, high = found.interval
    return (
        found.metric,
        f"{found.mean_a:.4f}",
        f"{found.mean_b:.4f}",
        f"{found.difference:+.4f}",
        f"[{low:+.4f}, {high:+.4f}]",
        *(_shown(found.tests[test].p_value) for test in TESTS),
        _shown(found.p_holm["randomization"]),
        "/".join(map(str, found.counts)),
        f"{found.n_queries:,}",
    )


def _shown(p_value: float) -> str:
    return f"<{LEAST_SHOWN}" if p_value < LEAST_SHOWN else f"{p_value:.4f}"


# --------------------------------------------------------------------------------------------------
# Comparison of two rankers on the same queries.


SAME = 1e-9  #: relative difference up to which two means count as equal


class ComparedRanker(Protocol):
    """Anything that scores documents: a ranker or model of linrank or of another library.

    If ``predict`` has a parameter ``qid``, it gets the queries as its second argument.
    """

    @property
    def predict(self) -> Callable[..., Any]:
        """Return one score per row, given X."""


def compare(
    data: RankingData | Qrels,
    a: ArrayLike | ComparedRanker | Run,
    b: ArrayLike | ComparedRanker | Run,
    metrics: str | Metric | Iterable[str | Metric] = ("ndcg@10", "map"),
    *,
    flavour: FlavourName | None = None,
    level: float = 0.95,
    n_samples: int = 10_000,
    seed: int = 0,
    n_threads: int | None = None,
) -> Comparison:
    """Compare two rankers on the same queries: means, intervals, tests, wins and losses.

    Parameters
    ----------
    data : RankingData or Qrels
        Documents with labels, or judgements if `a` and `b` are runs.
    a, b : array of shape (n_docs,), ranker or Run
        Scores in the row order of ``data.X``; or a fitted ranker or model, which scores ``data.X``;
        or a run. Any object with a method ``predict(X)`` is a ranker. If one of them is a run,
        `data` needs document ids, and both are evaluated as runs (`evaluate_run`).
    metrics : str or iterable of str
        Names that `parse_metric` accepts. P-values are adjusted for their number.
    flavour : str, optional
        The conventions of metrics; see `ndcg`. None: "trec" for runs, and otherwise "standard".
    level : float
        Confidence level of the intervals.
    n_samples : int
        Number of resamples of intervals and randomisation tests.
    seed : int
        Seed of the resamples.
    n_threads : int, optional
        Number of threads that compute the metrics.

    Returns
    -------
    Comparison

    See Also
    --------
    compare_evaluations : Compare two results of `evaluate`.

    Examples
    --------
    Compare the scores of a single feature with those of a ranker:

    >>> from linrank import RankSVM, compare, make_ranking
    >>> data = make_ranking(n_queries=60, docs_per_query=20, n_features=5, random_state=0)
    >>> train, test = data.take(np.arange(800)), data.take(np.arange(800, 1200))
    >>> found = compare(test, test.X[:, 0], RankSVM().fit(train))
    >>> found.metrics["map"].difference > 0.05, found.metrics["map"].p_holm["t"] < 0.05
    (True, True)
    """
    if not isinstance(data, RankingData | Qrels):
        raise DataError(
            f"data is a {type(data).__name__}; expected a RankingData or a Qrels. The order is "
            "compare(data, a, b)"
        )
    wanted = parse_metrics(metrics)
    as_runs = isinstance(data, Qrels) or isinstance(a, Run) or isinstance(b, Run)
    qrels = _judgements(data) if as_runs else None
    chosen = flavour or ("trec" if as_runs else "standard")
    found = []
    for name, ranking in (("a", a), ("b", b)):
        with prefix_errors(name):
            evaluate = _evaluator(data, ranking, qrels)
            found.append(evaluate(wanted, flavour=chosen, n_threads=n_threads))
    return compare_evaluations(*found, level=level, n_samples=n_samples, seed=seed)


def compare_evaluations(
    a: Evaluation,
    b: Evaluation,
    *,
    level: float = 0.95,
    n_samples: int = 10_000,
    seed: int = 0,
) -> Comparison:
    """Compare two evaluations of the same queries by the same metrics.

    Parameters
    ----------
    a, b : Evaluation
        Results of `evaluate` or `evaluate_run`, with equal metrics and flavours.
    level, n_samples, seed
        As in `compare`.

    Returns
    -------
    Comparison

    Examples
    --------
    >>> from linrank import compare_evaluations, evaluate
    >>> y, qid = [1, 0, 1, 0, 1, 0], [1, 1, 2, 2, 3, 3]
    >>> a = evaluate(y, [2.0, 1.0, 1.0, 2.0, 1.0, 2.0], qid, "mrr")
    >>> b = evaluate(y, [2.0, 1.0, 2.0, 1.0, 1.0, 2.0], qid, "mrr")
    >>> compare_evaluations(a, b).most_changed()
    [ChangedQuery(qid=2, a=0.5, b=1.0, difference=0.5)]
    """
    _check_same(a, b)
    tests = {name: _tests(a, b, name, n_samples, seed) for name in a.mean}
    adjusted = {
        test: holm([found[test].p_value for found in tests.values()]).tolist() for test in TESTS
    }
    metrics = {}
    for row, name in enumerate(tests):
        values_a, values_b = a.per_query[name], b.per_query[name]
        known = ~np.isnan(values_a + values_b)
        means = [_mean(values[known]) for values in (values_a, values_b)]
        metrics[name] = MetricComparison(
            metric=name,
            mean_a=means[0],
            mean_b=means[1],
            difference=tests[name]["t"].difference,
            interval=bootstrap_interval(values_b - values_a, level, n_samples, seed),
            tests=tests[name],
            p_holm={test: adjusted[test][row] for test in TESTS},
            counts=win_tie_loss(values_b, values_a, greater_is_better=_is_gain(name)),
            n_queries=int(known.sum()),
            n_left_out=int((~known).sum()),
            note=_note(tests[name], means[0], a.mean[name]),
        )
    return Comparison(metrics, a, b, level)


def _tests(
    a: Evaluation, b: Evaluation, name: str, n_samples: int, seed: int
) -> dict[TestName, PairedTest]:
    before, after = a.per_query[name], b.per_query[name]
    return {
        "t": paired_t_test(after, before),
        "t_one_sided": paired_t_test(after, before, "greater" if _is_gain(name) else "less"),
        "randomization": randomization_test(after, before, n_samples=n_samples, seed=seed),
    }


def _is_gain(name: str) -> bool:
    return parse_metric(name).greater_is_better


def _mean(values: Vector) -> float:
    return math.fsum(values) / len(values) if len(values) else math.nan


def _note(tests: Mapping[TestName, PairedTest], mean: float, weighted: float) -> str:
    """Return the sentence of a degenerate test, or one on a mean with weights."""
    if tests["t"].note:
        return tests["t"].note
    if math.isclose(mean, weighted, rel_tol=SAME):
        return ""
    return "each query counts once, but evaluate weights queries by their pairs or documents"


def _check_same(a: Evaluation, b: Evaluation) -> None:
    """Raise a `DataError` unless two evaluations have the same metrics, queries and flavour."""
    if list(a.mean) != list(b.mean):
        raise DataError(
            f"a has the metrics {', '.join(a.mean)}, but b has {', '.join(b.mean)}; evaluate both "
            "with the same metrics"
        )
    if a.flavour != b.flavour:
        raise DataError(
            f"a has the flavour {a.flavour!r}, but b has {b.flavour!r}; evaluate both with the same"
        )
    if id_texts(a.query_ids) != id_texts(b.query_ids):
        raise DataError(
            f"a and b have different queries, or the same in another order ({a.n_queries:,} and "
            f"{b.n_queries:,}); evaluate both on the same data"
        )


def _evaluator(
    data: RankingData | Qrels, ranking: ArrayLike | ComparedRanker | Run, qrels: Qrels | None
) -> Callable[..., Evaluation]:
    """Return `evaluate_run` if there are judgements, and otherwise `evaluate_data`.

    The returned function has the data and the ranking as its first arguments.
    """
    if qrels is not None and isinstance(ranking, Run):
        return partial(evaluate_run, qrels, ranking)
    if isinstance(data, Qrels):
        raise DataError(
            f"this is a {type(ranking).__name__}, but data is a Qrels; expected a Run. Pass a "
            "RankingData to compare scores or rankers"
        )
    scores = _scores(data, ranking)
    if qrels is not None:
        return partial(evaluate_run, qrels, run_of(data, scores))
    return partial(evaluate_data, data, scores)


def _scores(data: RankingData, ranking: Any) -> Array:
    """Return scores as an array; a ranker scores the data, and gets qid if it has such a parameter.

    A ranker that was fitted with the names of the features gets them in its order.
    """
    if isinstance(ranking, type | RankingData):
        kind = f"the class {ranking.__name__}" if isinstance(ranking, type) else "a RankingData"
        raise DataError(f"this is {kind}; expected scores, a fitted ranker or a Run")
    predict = getattr(ranking, "predict", None)
    if predict is None:
        return np.asarray(ranking)
    X, names = data.X, data.feature_names
    known = list(map(str, getattr(ranking, "feature_names_in_", ())))
    if names is not None and sorted(names) == sorted(known) and not data.is_sparse:
        import pandas as pd

        X = pd.DataFrame(X, columns=list(names))[known]
    queries = (data.qid,) if "qid" in signature(predict).parameters else ()
    with warnings.catch_warnings():
        if names is None or all(map(re.compile(r"Column_\d+").fullmatch, known)):
            # LightGBM gives such names to columns of arrays, and scikit-learn then asks for them.
            warnings.filterwarnings("ignore", "X does not have valid feature names")
        return np.asarray(predict(X, *queries))


def _judgements(data: RankingData | Qrels) -> Qrels:
    if isinstance(data, Qrels):
        return data
    return Qrels(data.qid.tolist(), require_doc_ids(data), data.y)
