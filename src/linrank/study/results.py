"""Results of a study: chosen settings, and the metrics of each query of the test parts."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .._lazy import lazy_property
from .._tables import data_frame, html_table
from .._typing import Vector
from ..criterion import best_index
from ..data.sparsity import sparsity_ratio
from ..errors import DataError
from ..metrics import parse_metric
from ..metrics.names import FlavourName
from .outcomes import Outcome, Trial
from .scored import measure
from .store import TestPart

if TYPE_CHECKING:
    import pandas as pd

    from ..report.table import Table


class FoldResult(NamedTuple):
    """A method on one fold: the outcome of the chosen setting, and the trials of all settings."""

    outcome: Outcome
    trials: list[Trial]
    total_seconds: float  #: of all runs


class Missing(NamedTuple):
    """A run that failed, and the reason."""

    data: str
    fold: str
    method: str
    setting: dict[str, Any]
    reason: str


def best_of(outcomes: Sequence[Outcome], greater_is_better: bool) -> FoldResult:
    """Return the outcome with the best validation metric; the first one of equal ones."""
    values = np.array([outcome.best.valid for outcome in outcomes])
    best = 0 if np.isnan(values).all() else best_index(values, greater_is_better)
    trials = [trial for outcome in outcomes for trial in outcome.trials]
    return FoldResult(outcomes[best], trials, sum(one.total_seconds for one in outcomes))


@dataclass(repr=False)
class StudyResults:
    """Results of a study.

    Attributes
    ----------
    metric : str
        The metric by which settings were chosen.
    metrics : list of str
        All metrics that are reported; `metric` is the first.
    flavour : str
        The conventions of the metrics.
    methods : list of str
    tests : mapping of (data set, fold) to TestPart
        The folds of all data sets, in order.
    found : mapping of (data set, fold, method) to FoldResult
        Methods without any finished run on a fold are left out.
    missing : list of Missing
        Runs that failed.
    problems : list of str
        Sentences about other problems, such as a full disk.
    settings : mapping of methods to their exact settings, as text
    made : list of (time, versions)
        When the runs were made, and with which versions of programs.
    n_valued : mapping of (data set, fold) to int
        Features that are not zero in all documents of the training part; sparsity ratios count no
        others.

    Examples
    --------
    >>> from linrank import make_ranking
    >>> from linrank.study import Study
    >>> data = make_ranking(n_queries=30, docs_per_query=8, random_state=0)
    >>> study = Study({"made": data}, ["ranksvm:C=1", "adarank:map"], metric="map", n_folds=3)
    >>> results = study.run(n_processes=0)
    >>> results.mean("made", "ranksvm:C=1") > results.mean("made", "adarank:map")
    True
    >>> results.summary().names[:3], len(results.to_frame()) > 6
    (['method', 'map', '95 % low'], True)
    """

    metric: str
    metrics: list[str]
    flavour: FlavourName
    methods: list[str]
    tests: dict[tuple[str, str], TestPart]
    found: dict[tuple[str, str, str], FoldResult]
    missing: list[Missing] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)
    made: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    n_valued: dict[tuple[str, str], int] = field(default_factory=dict)

    @lazy_property
    def data_sets(self) -> list[str]:
        """The names of the data sets."""
        return list(dict.fromkeys(data for data, _ in self.tests))

    def folds(self, data: str) -> list[str]:
        """Return the names of the folds of a data set."""
        found = [fold for name, fold in self.tests if name == data]
        if not found:
            raise DataError(
                f"the study has no data set {data!r}; it has {', '.join(self.data_sets)}"
            )
        return found

    def queries(self, data: str) -> list[tuple[str, str]]:
        """Return the fold and the id of each query of the test parts, in the order of values."""
        return [
            (fold, query) for fold in self.folds(data) for query in self.tests[data, fold].query_ids
        ]

    def per_query(self, data: str, method: str, metric: str | None = None) -> Vector:
        """Return the metric of each query of the test parts of all folds.

        Values are NaN for queries in which the metric is undefined, and for folds without results.
        """
        self._check_method(method)
        return np.concatenate(
            [self.fold_values(data, fold, method, metric) for fold in self.folds(data)]
        )

    def fold_values(self, data: str, fold: str, method: str, metric: str | None = None) -> Vector:
        """Return the metric of each query of the test part of one fold; see `per_query`."""
        test = self.tests[data, fold]
        found = self.found.get((data, fold, method))
        if found is None:
            return np.full(len(test.query_ids), math.nan)
        name = parse_metric(metric or self.metric).name
        return self._values(data, fold, method, name, found.outcome.scores)

    def _values(self, data: str, fold: str, method: str, metric: str, scores: Vector) -> Vector:
        """Return values of a metric; each is computed once."""
        cache = self.__dict__.setdefault("_cache", {})
        key = (data, fold, method, metric)
        if key not in cache:
            measured = measure(self.tests[data, fold], scores, metric, self.flavour)
            cache[key] = measured.per_query[metric]
        return cache[key]

    def fold_means(self, data: str, method: str, metric: str | None = None) -> Vector:
        """Return the mean of the metric in each fold; NaN for folds without results."""
        return np.array(
            [known_mean(self.fold_values(data, fold, method, metric)) for fold in self.folds(data)]
        )

    def mean(self, data: str, method: str, metric: str | None = None) -> float:
        """Return the mean over the folds of their means, as in LETOR; NaN if a fold is missing."""
        return float(self.fold_means(data, method, metric).mean())

    def weighs_queries(self, metric: str) -> bool:
        """Tell whether `linrank.evaluate` weights queries, such as by their pairs, in its mean."""
        for (data, fold, method), found in self.found.items():
            values = self.fold_values(data, fold, method, metric)
            scores = found.outcome.scores
            measured = measure(self.tests[data, fold], scores, metric, self.flavour)
            mean = known_mean(values)
            if not math.isnan(mean) and not math.isclose(mean, measured.mean[metric], rel_tol=1e-9):
                return True
        return False

    def used(self, data: str, method: str) -> Vector:
        """Return the number of features in use in each fold; NaN if it is not known."""
        return self._over_folds(data, method, lambda found: found.outcome.n_used)

    def sparsity(self, data: str, method: str) -> Vector:
        """Return the sparsity ratio in each fold; see `linrank.data.sparsity.sparsity_ratio`."""
        n_valued = [self.n_valued.get((data, fold), math.nan) for fold in self.folds(data)]
        return sparsity_ratio(self.used(data, method), n_valued)

    def train_seconds(self, data: str, method: str) -> Vector:
        """Return the seconds of one fit with the chosen setting, in each fold."""
        return self._over_folds(data, method, lambda found: found.outcome.train_seconds)

    def total_seconds(self, data: str, method: str) -> Vector:
        """Return the seconds of all runs, which fit and measure all settings, in each fold."""
        return self._over_folds(data, method, lambda found: found.total_seconds)

    def score_seconds(self, data: str, method: str) -> Vector:
        """Return the seconds of scoring the test part, in each fold."""
        return self._over_folds(data, method, lambda found: found.outcome.score_seconds)

    def n_settings(self, data: str, method: str) -> Vector:
        """Return the number of settings that were tried, in each fold."""
        return self._over_folds(data, method, lambda found: len(found.trials))

    def chosen(self, data: str, method: str) -> list[dict[str, Any] | None]:
        """Return the chosen setting in each fold; None for folds without results."""
        found = [self.found.get((data, fold, method)) for fold in self.folds(data)]
        return [None if one is None else one.outcome.best.setting for one in found]

    def _over_folds(
        self, data: str, method: str, get: Callable[[FoldResult], float | None]
    ) -> Vector:
        """Return a number of each fold; NaN for None, and for folds without results."""
        self._check_method(method)
        found = [self.found.get((data, fold, method)) for fold in self.folds(data)]
        values = [None if one is None else get(one) for one in found]
        return np.array([math.nan if value is None else value for value in values], np.float64)

    def summary(self) -> Table:
        """Return the means of all methods and metrics, the features in use and the seconds."""
        from .analysis import Analysis
        from .tables.quality import summary_table

        return summary_table(Analysis(self))

    def to_frame(self) -> pd.DataFrame:
        """Return a pandas data frame with a row for each data set, fold, method and metric.

        ``value`` is the mean over the queries of the test part for which the metric is defined, and
        ``n_queries`` the number of these queries.
        """
        rows = [
            (data, fold, method, metric, known_mean(values), int(np.isfinite(values).sum()))
            for data, fold in self.tests
            for method in self.methods
            for metric in self.metrics
            for values in [self.fold_values(data, fold, method, metric)]
        ]
        names = ("data", "fold", "method", "metric", "value", "n_queries")
        return data_frame({name: [row[k] for row in rows] for k, name in enumerate(names)})

    def report(
        self, path: str | os.PathLike[str], *, command: str = "", baseline: str | None = None
    ) -> None:
        """Write the report as one HTML file; see `linrank.study.output.write_report`.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> from linrank import make_ranking
        >>> from linrank.study import Study
        >>> data = make_ranking(n_queries=30, docs_per_query=8, random_state=0)
        >>> results = Study(data, "ranksvm:C=1,adarank:map", n_folds=3).run(n_processes=0)
        >>> path = pathlib.Path(tempfile.mkdtemp(), "study.html")
        >>> results.report(path)
        >>> "adarank" in path.read_text(encoding="utf-8")
        True
        """
        from .output import write_report

        write_report(path, self, command, baseline=baseline)

    def tables(self, folder: str | os.PathLike[str], *, baseline: str | None = None) -> None:
        """Write all tables and pictures as files; see `linrank.study.output.write_tables`."""
        from .output import write_tables

        write_tables(folder, self, baseline=baseline)

    def runs(self, folder: str | os.PathLike[str]) -> None:
        """Write TREC files of judgements and runs; see `linrank.study.output.write_runs`."""
        from .output import write_runs

        write_runs(folder, self)

    def __repr__(self) -> str:
        return self.summary().to_text()

    def _repr_html_(self) -> str:
        table = self.summary()
        rows = [
            [text + cell.mark for text, cell in zip(table.shown(row), row, strict=True)]
            for row in table.cells
        ]
        return html_table(table.names, rows, title=table.title)

    def _check_method(self, method: str) -> None:
        if method not in self.methods:
            raise DataError(f"the study has no method {method!r}; it has {', '.join(self.methods)}")


def known_mean(values: ArrayLike) -> float:
    """Return the mean of the numbers that are not NaN; NaN without such numbers.

    Examples
    --------
    >>> known_mean([1.0, math.nan, 2.0])
    1.5
    """
    array = np.asarray(values, np.float64)
    known = array[~np.isnan(array)]
    return float(known.mean()) if len(known) else math.nan
