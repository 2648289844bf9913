"""Tests, intervals and ranks for per-query values of several rankers.

All functions take arrays of numbers, such as `Evaluation.per_query` holds them: one number per
query, in the same order for each ranker. A query whose value is NaN, because a metric is undefined
there, is left out for all rankers.

If two methods are compared, values that differ by rounding errors only count as equal
(`same_up_to_rounding`).
"""

# ruff: noqa: F401  (the imports below are for type checkers only)

from __future__ import annotations

from .._lazy import lazy_names

#: The module of each public name.
_HOME = {
    "Alternative": "paired",
    "FriedmanTest": "ranks",
    "Interval": "intervals",
    "PairedTest": "paired",
    "WinTieLoss": "queries",
    "average_ranks": "ranks",
    "bootstrap_interval": "intervals",
    "friedman_test": "ranks",
    "holm": "multiple",
    "most_changed": "queries",
    "nemenyi_critical_difference": "ranks",
    "paired_t_test": "paired",
    "pareto_front": "fronts",
    "randomization_test": "paired",
    "same_up_to_rounding": "values",
    "similar_groups": "ranks",
    "win_tie_loss": "queries",
    "worst": "queries",
}

__all__ = list(_HOME)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .fronts import pareto_front
    from .intervals import Interval, bootstrap_interval
    from .multiple import holm
    from .paired import Alternative, PairedTest, paired_t_test, randomization_test
    from .queries import WinTieLoss, most_changed, win_tie_loss, worst
    from .ranks import (
        FriedmanTest,
        average_ranks,
        friedman_test,
        nemenyi_critical_difference,
        similar_groups,
    )
    from .values import same_up_to_rounding

if not TYPE_CHECKING:  # type checkers report unknown names
    __getattr__ = lazy_names(__name__, _HOME)
