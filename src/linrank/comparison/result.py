"""Results of comparisons, as text, HTML, data frames and plots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from .._draw import draw_differences, drawn
from .._tables import data_frame, html_table, text_table
from .._typing import Vector
from ..errors import DataError
from ..metrics import Evaluation
from ..statistics import Interval, PairedTest, WinTieLoss, most_changed

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

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
        a, b = self._values(metric)
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
        a, b = self._values(metric)
        name = next(iter(self.metrics)) if metric is None else metric
        wins, ties, losses = self.metrics[name].counts
        title = f"{name}: B is better in {wins:,} queries, equal in {ties:,}, worse in {losses:,}"
        return drawn(lambda axes: draw_differences(axes, b - a, title, f"{name}: B − A"), ax)

    def _values(self, metric: str | None) -> tuple[Vector, Vector]:
        name = next(iter(self.metrics)) if metric is None else metric
        if name not in self.metrics:
            known = ", ".join(map(repr, self.metrics))
            raise DataError(f"metric is {name!r}; this comparison has {known}")
        return self.a.per_query[name], self.b.per_query[name]


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
