"""Results of a study: chosen settings, and the metrics of each query of the test parts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from .._typing import Vector
from ..criterion import best_index
from ..errors import DataError
from ..metrics import evaluate, parse_metric
from ..metrics.names import FlavourName
from .outcomes import Outcome, Trial
from .store import TestPart


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


@dataclass
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

    @cached_property
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
            test = self.tests[data, fold]
            doc_ids = test.doc_ids if self.flavour == "trec" else None
            measured = evaluate(
                test.y, scores, query_ptr=test.query_ptr, metrics=[metric], flavour=self.flavour,
                doc_ids=doc_ids,
            )  # fmt: skip
            cache[key] = measured.per_query[metric]
        return cache[key]

    def fold_means(self, data: str, method: str, metric: str | None = None) -> Vector:
        """Return the mean of the metric in each fold; NaN for folds without results."""
        return np.array(
            [_mean(self.fold_values(data, fold, method, metric)) for fold in self.folds(data)]
        )

    def mean(self, data: str, method: str, metric: str | None = None) -> float:
        """Return the mean over the folds of their means, as in LETOR; NaN if a fold is missing."""
        return float(self.fold_means(data, method, metric).mean())

    def _check_method(self, method: str) -> None:
        if method not in self.methods:
            raise DataError(f"the study has no method {method!r}; it has {', '.join(self.methods)}")


def _mean(values: Vector) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else math.nan
