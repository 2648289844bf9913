"""Tests, intervals and ranks for per-query values of several rankers.

All functions take arrays of numbers, such as `Evaluation.per_query` holds them: one number per
query, in the same order for each ranker. A query whose value is NaN, because a metric is undefined
there, is left out for all rankers.

If two methods are compared, values that differ by rounding errors only count as equal
(`same_up_to_rounding`).
"""

# ruff: noqa: F401  (the imports below are for type checkers only)

from __future__ import annotations

from .._util.lazy import lazy_names

#: The module of each public name.
_HOME = {
    "Alternative": "paired",
    "FriedmanTest": "ranks",
    "Interval": "paired",
    "PairedTest": "paired",
    "WinTieLoss": "paired",
    "average_ranks": "ranks",
    "bootstrap_interval": "paired",
    "friedman_test": "ranks",
    "holm": "paired",
    "most_changed": "paired",
    "nemenyi_critical_difference": "ranks",
    "paired_t_test": "paired",
    "pareto_front": "ranks",
    "randomization_test": "paired",
    "same_up_to_rounding": "paired",
    "similar_groups": "ranks",
    "win_tie_loss": "paired",
    "worst": "paired",
}

__all__ = list(_HOME)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .paired import (
        Alternative,
        Interval,
        PairedTest,
        WinTieLoss,
        bootstrap_interval,
        holm,
        most_changed,
        paired_t_test,
        randomization_test,
        same_up_to_rounding,
        win_tie_loss,
        worst,
    )
    from .ranks import (
        FriedmanTest,
        average_ranks,
        friedman_test,
        nemenyi_critical_difference,
        pareto_front,
        similar_groups,
    )

if not TYPE_CHECKING:  # type checkers report unknown names
    __getattr__ = lazy_names(__name__, _HOME)
