"""Exact line searches of metrics, against the metric at every interval of a line."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from linrank import DataError, evaluate
from linrank.metrics import parse_metric, resolve_rules
from linrank.metrics.line_search import Bends, LineSearch, MetricTables

METRICS = ["ndcg@3", "ndcg", "map", "map@3", "mrr", "mrr@2", "p@2", "recall@2", "hit-rate@2"]


def zeros_of(f, ends):
    """Return the zeros of a function that is linear between the ends."""
    values = [f(x) for x in ends]
    return [
        x - u * (z - x) / (v - u)
        for x, z, u, v in zip(ends, ends[1:], values, values[1:], strict=False)
        if u * v < 0
    ]


def slow_search(y, ptr, f, kinks, name, flavour, low, high):
    """Return the best value of a metric on the line `f`, tried between all break points."""
    points = {low, high}
    ends = sorted({low, high, *(k for k in kinks if low < k < high)})
    for a, b in pairwise(ptr):
        for i in range(a, b):
            for j in range(a, i):
                points.update(zeros_of(lambda x, i=i, j=j: f(x)[i] - f(x)[j], ends))
    cuts = sorted(points)
    middles = [(u + v) / 2 for u, v in pairwise(cuts) if v - u > 1e-6]
    return max(value(y, ptr, f(x), name, flavour) for x in middles)


def value(y, ptr, scores, name, flavour):
    return evaluate(y, scores, metrics=name, flavour=flavour, query_ptr=ptr).mean[
        parse_metric(name).name
    ]


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("flavour", ["standard", "letor4", "mslr"])
@pytest.mark.parametrize("bent", [False, True])
def test_the_best_interval_of_a_line_is_found(name, flavour, bent):
    rng = np.random.default_rng(len(name) + 10 * bent)
    ptr = np.array([0, 1, 6, 9, 14])
    n, low, high = ptr[-1], -40.0, 40.0
    y = rng.integers(0, 4, n).astype(float)
    s, t = rng.normal(size=n), rng.normal(size=n)
    t[3] = t[4]
    at, size = rng.normal(size=n), np.abs(rng.normal(size=n)) * bent
    tables = MetricTables.of(y, ptr, parse_metric(name), resolve_rules(flavour))
    search = LineSearch(y, ptr, tables, n_threads=2)
    found = search.along(s, t, low, high, Bends(at, size) if bent else Bends(at[:0], size[:0]))

    def line(x):
        return s + x * t + size * np.maximum(0.0, x - at)

    kinks = at.tolist() if bent else []
    assert found.value == pytest.approx(slow_search(y, ptr, line, kinks, name, flavour, low, high))
    assert found.here == pytest.approx(value(y, ptr, line(0.0), name, flavour))
    assert found.value == pytest.approx(value(y, ptr, line(found.alpha), name, flavour))


def test_lines_without_limits_and_ties():
    y, ptr = np.array([0.0, 1.0, 0.0]), np.array([0, 3])
    tables = MetricTables.of(y, ptr, parse_metric("mrr"), resolve_rules())
    search = LineSearch(y, ptr, tables)
    found = search.along(np.zeros(3), np.array([1.0, 2.0, 1.0]))
    assert (found.alpha > 0, found.value) == (True, 1.0)
    assert search.value(np.zeros(3)) == pytest.approx(1 / 3)  # equal scores: the worst order
    limited = search.along(np.array([0.0, -1.0, 0.0]), np.array([0.0, 1.0, 0.0]), -1.0, 0.5)
    assert limited.alpha == 0


def test_weights_of_queries_count():
    y, ptr = np.array([1.0, 0.0, 1.0, 0.0]), np.array([0, 2, 4])
    slopes = np.array([1.0, 0.0, -1.0, 0.0])
    for weight, sign in (([3.0, 1.0], 1), ([1.0, 3.0], -1)):
        tables = MetricTables.of(y, ptr, parse_metric("map"), resolve_rules(), np.array(weight))
        found = LineSearch(y, ptr, tables).along(np.zeros(4), slopes)
        assert np.sign(found.alpha) == sign
        assert found.value == pytest.approx(0.875)


@pytest.mark.parametrize("name", ["err", "p", "pairwise-accuracy"])
def test_other_metrics_are_refused(name):
    y, ptr = np.array([1.0, 0.0]), np.array([0, 2])
    with pytest.raises(DataError, match=f"{name} cannot be optimised directly. Use one of ndcg, "):
        MetricTables.of(y, ptr, parse_metric(name), resolve_rules())
