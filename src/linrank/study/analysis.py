"""Comparisons of the methods of a study, from which its tables, pictures and sentences are made."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

import numpy as np

from .._util.types import Mask, Vector
from ..errors import DataError
from ..metrics import parse_metric
from ..statistics import (
    FriedmanTest,
    Interval,
    WinTieLoss,
    average_ranks,
    bootstrap_interval,
    friedman_test,
    holm,
    nemenyi_critical_difference,
    paired_t_test,
    pareto_front,
    randomization_test,
    same_up_to_rounding,
    similar_groups,
    win_tie_loss,
)
from .protocol import safe_names
from .results import StudyResults, known_mean

ALPHA = 0.05  #: significance level, as in Laporte et al. (2014)
LEVEL = 0.95  #: of intervals
RESAMPLES = 2_000  #: of an interval; more take longer and are more exact
RANDOM_SIGNS = 5_000  #: samples of a randomisation test

Found = TypeVar("Found")
Criterion = Callable[[str, str], float]  #: a number of a method on a data set


@dataclass(frozen=True)
class MethodComparison:
    """A method against a reference method on one data set, in the queries that both have.

    Attributes
    ----------
    method, reference : str
    value, reference_value : float
        Means over these queries.
    one_sided : float
        p-value of the paired t-test. It tests whether the reference is better than the method if
        the reference is the best method, and otherwise whether the method is better.
    adjusted : float
        `one_sided`, adjusted by the method of Holm for all methods of the data set.
    two_sided : float
        p-value of the two-sided paired t-test.
    counts : WinTieLoss
        Queries in which the method is better, equal and worse.
    n, n_unshared : int
        Queries in the comparison, and queries for which only one of the two has a result.
    note : str
        A sentence if the tests say little about these values.
    interval, randomized : Interval and float, or None
        The bootstrap interval of the difference, and the p-value of the two-sided randomisation
        test; None for other metrics than the one that chose the settings.
    """

    method: str
    reference: str
    value: float
    reference_value: float
    one_sided: float
    adjusted: float
    two_sided: float
    counts: WinTieLoss
    n: int
    n_unshared: int
    note: str
    interval: Interval | None = None
    randomized: float | None = None

    @property
    def difference(self) -> float:
        """Mean of the method − mean of the reference."""
        return self.value - self.reference_value

    @property
    def relative(self) -> float:
        """The difference, divided by the mean of the reference; NaN if that is 0."""
        base = abs(self.reference_value)
        return self.difference / base if base else math.nan

    @property
    def significant(self) -> bool:
        """Whether the adjusted one-sided test rejects that the methods are equal."""
        return self.adjusted < ALPHA


@dataclass(frozen=True)
class Ranks:
    """Average ranks of the methods over the folds of all data sets.

    Attributes
    ----------
    methods : list of str
        The methods that have a value in some fold; others cannot be ranked.
    test : FriedmanTest or None
        None for fewer than three methods.
    ranks : float64 array of shape (n_methods,)
    n, n_left_out : int
        Folds that all these methods have, and other folds.
    critical_difference : float
        Of the Nemenyi test; NaN without folds or with one method.
    groups : list of tuple of int
        Positions in `methods` of methods that do not differ.
    """

    methods: list[str]
    test: FriedmanTest | None
    ranks: Vector
    n: int
    n_left_out: int
    critical_difference: float
    groups: list[tuple[int, ...]]


class Analysis:
    """Comparisons of the methods of a study; each is computed once.

    Parameters
    ----------
    results : StudyResults
    baseline : str, optional
        The method with which all others are compared. None: the best method of each data set.
    """

    def __init__(self, results: StudyResults, baseline: str | None = None) -> None:
        if baseline is not None and baseline not in results.methods:
            raise DataError(
                f"baseline is {baseline!r}; expected a method of the study: "
                f"{', '.join(results.methods)}"
            )
        self.results = results
        self.baseline = baseline
        self.metric = results.metric
        self.keys = safe_names(results.data_sets)  #: parts of the keys of tables and pictures
        self.metric_keys = safe_names(results.metrics)
        self._known: dict[Hashable, Any] = {}

    def _once(self, key: Hashable, compute: Callable[[], Found]) -> Found:
        if key not in self._known:
            self._known[key] = compute()
        return self._known[key]

    def greater_is_better(self, metric: str | None = None) -> bool:
        """Tell whether larger values of a metric are better."""
        return parse_metric(metric or self.metric).greater_is_better

    def missing_folds(self, data: str, method: str) -> list[str]:
        """Return the folds without a result of a method."""
        results = self.results
        return [fold for fold in results.folds(data) if (data, fold, method) not in results.found]

    def n_defined(self, data: str) -> int:
        """Return the number of queries in which some method has a value of the metric.

        Folds without results of any method count as if they had values.
        """
        results = self.results
        values = np.array([results.per_query(data, method) for method in results.methods])
        lost = {
            fold for fold in results.folds(data)
            if all((data, fold, method) not in results.found for method in results.methods)
        }  # fmt: skip
        in_lost = np.array([fold in lost for fold, _ in results.queries(data)], dtype=bool)
        return int(np.count_nonzero(~np.isnan(values).all(axis=0) | in_lost))

    def mean(self, data: str, method: str, metric: str | None = None) -> float:
        """Return the mean over the folds that have a value."""
        return known_mean(self.results.fold_means(data, method, metric))

    def order(self, data: str, metric: str | None = None) -> list[str]:
        """Return the methods from the best to the worst; those with more missing folds come later.

        Methods without any value are left out. Equal methods keep their order.
        """
        sign = -1.0 if self.greater_is_better(metric) else 1.0
        means = {method: self.mean(data, method, metric) for method in self.results.methods}
        known = [method for method, mean in means.items() if not math.isnan(mean)]
        return sorted(known, key=lambda m: (len(self.missing_folds(data, m)), sign * means[m]))

    def best(self, data: str, metric: str | None = None) -> str | None:
        """Return the best method of a data set; None if no method has a value."""
        return next(iter(self.order(data, metric)), None)

    def is_best(self, data: str, method: str, metric: str) -> bool:
        """Tell whether a method is the best one, or is equal to it."""
        best = self.best(data, metric)
        if best is None:
            return False
        n_missing = [len(self.missing_folds(data, name)) for name in (method, best)]
        values = [self.mean(data, name, metric) for name in (method, best)]
        return n_missing[0] == n_missing[1] and bool(same_up_to_rounding(*values))

    def interval(self, data: str, method: str) -> Interval:
        """Return the bootstrap interval by query of the mean of a method."""
        values = self.results.per_query(data, method)
        return self._once(
            ("interval", data, method), lambda: bootstrap_interval(values, LEVEL, RESAMPLES)
        )

    def difference_interval(self, data: str, method: str, reference: str) -> Interval:
        """Return the bootstrap interval by query of the mean difference of two methods."""
        a, b = (self.results.per_query(data, name) for name in (method, reference))
        return self._once(
            ("difference", data, method, reference),
            lambda: bootstrap_interval(a - b, LEVEL, RESAMPLES),
        )

    def against_best(self, data: str, metric: str) -> dict[str, MethodComparison]:
        """Compare all methods with the best one; tests ask whether the best one is better."""
        best = self.best(data, metric)
        return self._against(data, metric, best, reference_is_better=True)

    def against_reference(self, data: str, metric: str) -> dict[str, MethodComparison]:
        """Compare all methods with the baseline; tests ask whether they are better than it.

        Without a baseline, this is `against_best`. For the metric that chose the settings there
        are intervals and randomisation tests as well.
        """
        if self.baseline is None:
            found = self.against_best(data, metric)
        else:
            found = self._against(data, metric, self.baseline, reference_is_better=False)
        if metric != self.metric:
            return found
        return self._once(
            ("detailed", data),
            lambda: {method: self._detailed(data, one) for method, one in found.items()},
        )

    def _against(
        self, data: str, metric: str, reference: str | None, *, reference_is_better: bool
    ) -> dict[str, MethodComparison]:
        def compute() -> dict[str, MethodComparison]:
            if reference is None:
                return {}
            found = [
                self._compare(data, method, reference, metric, reference_is_better)
                for method in self.order(data, metric) if method != reference
            ]  # fmt: skip
            adjusted = holm([one.one_sided for one in found])
            return {
                one.method: replace(one, adjusted=float(p))
                for one, p in zip(found, adjusted, strict=True)
            }

        return self._once(("against", data, metric, reference, reference_is_better), compute)

    def _compare(
        self, data: str, method: str, reference: str, metric: str, reference_is_better: bool
    ) -> MethodComparison:
        a, b = (self.results.per_query(data, name, metric) for name in (method, reference))
        greater = self.greater_is_better(metric)
        shared = ~np.isnan(a) & ~np.isnan(b)
        # "less" if a good method has smaller values, or if the reference is tested to be better
        one_sided = paired_t_test(a, b, "greater" if greater != reference_is_better else "less")
        return MethodComparison(
            method, reference, known_mean(a[shared]), known_mean(b[shared]),
            one_sided.p_value, one_sided.p_value, paired_t_test(a, b).p_value,
            win_tie_loss(a, b, greater_is_better=greater), one_sided.n,
            int(np.count_nonzero(np.isnan(a) != np.isnan(b))),
            one_sided.note.replace("p_value", "p"),
        )  # fmt: skip

    def _detailed(self, data: str, one: MethodComparison) -> MethodComparison:
        """Add the interval and the randomisation test, which take longer."""
        a, b = (self.results.per_query(data, name) for name in (one.method, one.reference))
        return replace(
            one, interval=self.difference_interval(data, one.method, one.reference),
            randomized=randomization_test(a, b, n_samples=RANDOM_SIGNS).p_value,
        )  # fmt: skip

    def sparsity(self, data: str, method: str) -> float:
        """Return the mean of the sparsity ratio over the folds; NaN if it is not known."""
        return known_mean(self.results.sparsity(data, method))

    def train_seconds(self, data: str, method: str) -> float:
        """Return the mean over the folds of the seconds of one fit; NaN if they are not known."""
        return known_mean(self.results.train_seconds(data, method))

    def front(self, data: str) -> Mask:
        """Tell which methods are on the Pareto front of quality, sparsity ratio and seconds."""
        return self._front(data, self.mean, self.sparsity, self.train_seconds)

    def time_front(self, data: str) -> Mask:
        """Tell which methods are on the Pareto front of quality and seconds."""
        return self._front(data, self.mean, self.train_seconds)

    def _front(self, data: str, quality: Criterion, *costs: Criterion) -> Mask:
        points = [
            [criterion(data, method) for criterion in (quality, *costs)]
            for method in self.results.methods
        ]
        directions: list[Literal["max", "min"]] = ["min"] * len(points[0])
        if self.greater_is_better():
            directions[0] = "max"
        return pareto_front(points, directions)

    def ranks(self) -> Ranks:
        """Rank the methods by the mean of the metric in each fold of each data set."""
        return self._once("ranks", self._ranks)

    def _ranks(self) -> Ranks:
        results, greater = self.results, self.greater_is_better()
        values = np.concatenate([
            np.column_stack([results.fold_means(data, method) for method in results.methods])
            for data in results.data_sets
        ])  # fmt: skip
        is_known = ~np.isnan(values).all(axis=0)
        methods = [name for name, known in zip(results.methods, is_known, strict=True) if known]
        values, n_methods = values[:, is_known], len(methods)
        n = int(np.count_nonzero(~np.isnan(values).any(axis=1))) if methods else 0
        test = friedman_test(values, greater_is_better=greater) if n_methods > 2 else None
        ranks = average_ranks(values, greater_is_better=greater) if methods else np.empty(0)
        distance = nemenyi_critical_difference(n_methods, n) if n and n_methods > 1 else math.nan
        groups = [] if math.isnan(distance) else similar_groups(ranks, distance)
        return Ranks(methods, test, ranks, n, len(values) - n, distance, groups)
