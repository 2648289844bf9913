"""Comparison of two rankers by their values of metrics in each query."""

from __future__ import annotations

from .rankers import Ranker, compare, compare_evaluations
from .result import ChangedQuery, Comparison, ComparisonTable, MetricComparison

__all__ = [
    "ChangedQuery",
    "Comparison",
    "ComparisonTable",
    "MetricComparison",
    "Ranker",
    "compare",
    "compare_evaluations",
]
