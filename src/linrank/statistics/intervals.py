"""Confidence intervals of means over queries."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .._checks import whole_number
from ..errors import DataError
from .values import ROUNDING, check_values

BATCH_VALUES = 4_000_000  #: values that are resampled at once; a larger number needs more memory


class Interval(NamedTuple):
    """A confidence interval.

    Attributes
    ----------
    low, high : float
        The ends of the interval.

    Examples
    --------
    >>> from linrank.statistics import bootstrap_interval
    >>> interval = bootstrap_interval([0.25, 0.25, 0.25])
    >>> interval.low, interval.high
    (0.25, 0.25)
    """

    low: float
    high: float


def bootstrap_interval(
    values: ArrayLike, level: float = 0.95, n_samples: int = 10_000, seed: int = 0
) -> Interval:
    """Compute a confidence interval of the mean by resampling queries.

    The ends of the interval are percentiles of the resampled means. With few queries, the interval
    is too short: it contains the mean of all queries less often than `level` says.

    If there are fewer than two values, or all values are equal, nothing can be resampled. Both ends
    are then the mean, and NaN without values.

    Parameters
    ----------
    values : array of shape (n_queries,)
        Values of one method, or the differences of two methods for the same queries. NaN is left
        out.
    level : float
        Probability that an interval contains the mean of all queries, between 0 and 1.
    n_samples : int
        Number of resamples.
    seed : int
        Seed of the resamples.

    Returns
    -------
    Interval

    Examples
    --------
    >>> low, high = bootstrap_interval([0.1, 0.4, 0.2, 0.5, 0.3])
    >>> 0.1 < low < 0.3 < high < 0.5
    True
    """
    if not 0.0 < level < 1.0:
        raise DataError(f"level is {level!r}; expected a number between 0 and 1, such as 0.95")
    n_samples = whole_number("n_samples", n_samples, least=2)
    seed = whole_number("seed", seed, least=0)
    array = check_values("values", values)
    array = array[~np.isnan(array)]
    if not len(array):
        return Interval(math.nan, math.nan)
    largest = np.abs(array).max()
    if len(array) < 2 or np.ptp(array) <= ROUNDING * largest:
        mean = math.fsum(array) / len(array)
        return Interval(mean, mean)
    from scipy.stats import bootstrap  # takes long to import

    found = bootstrap(
        (array / largest,), np.mean, confidence_level=level, n_resamples=n_samples,
        batch=max(1, BATCH_VALUES // len(array)), method="percentile", vectorized=True,
        random_state=np.random.default_rng(seed),
    )  # fmt: skip
    low, high = found.confidence_interval
    return Interval(float(low * largest), float(high * largest))
