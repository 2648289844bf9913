"""Values of two methods in each query: tests, intervals, wins and losses."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from .._util.checks import choice, whole_number
from .._util.types import Integers, Mask, Vector
from ..errors import DataError

# --------------------------------------------------------------------------------------------------
# Checks of per-query values, and differences without rounding errors.


ROUNDING = 1e-12  #: relative difference up to which two values count as equal


def check_values(name: str, values: ArrayLike, ndim: int = 1) -> Vector:
    """Return numbers as float64, or raise a `DataError`; NaN stands for an undefined value.

    Examples
    --------
    >>> check_values("a", [1, float("nan")])
    array([ 1., nan])
    """
    try:
        array = np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} cannot be read as numbers: {error}") from None
    if array.ndim != ndim:
        expected = "one number per query" if ndim == 1 else "a matrix with one column per method"
        raise DataError(f"{name} has the shape {array.shape}; expected {expected}")
    if np.isinf(array).any():
        raise DataError(f"{name} has infinite values; expected finite numbers, or NaN")
    return array


def same_up_to_rounding(a: ArrayLike, b: ArrayLike) -> Mask:
    """Tell for each pair of values whether they are equal up to rounding errors.

    Two values are equal if |a − b| ≤ 1e-12·max(|a|, |b|).

    Parameters
    ----------
    a, b : arrays of numbers of the same shape

    Returns
    -------
    bool array

    Examples
    --------
    >>> same_up_to_rounding([0.1 + 0.2, 0.3], [0.3, 0.4])
    array([ True, False])
    """
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    return np.abs(a - b) <= ROUNDING * np.maximum(np.abs(a), np.abs(b))


def check_pair(a: ArrayLike, b: ArrayLike) -> tuple[Vector, Vector]:
    """Return the values of two methods, or raise a `DataError` if they are not for equal queries.

    Examples
    --------
    >>> check_pair([1, 2], [3, 4])
    (array([1., 2.]), array([3., 4.]))
    """
    one, other = check_values("a", a), check_values("b", b)
    if len(one) != len(other):
        raise DataError(
            f"a has {len(one):,} values but b has {len(other):,}: pass one value per query, in "
            "the same order"
        )
    return one, other


def differences(a: ArrayLike, b: ArrayLike) -> Vector:
    """Return a − b, with 0 for values that are equal up to rounding errors.

    Examples
    --------
    >>> differences([0.1 + 0.2, 0.75], [0.3, 0.5])
    array([0.  , 0.25])
    """
    one, other = check_pair(a, b)
    return np.where(same_up_to_rounding(one, other), 0.0, one - other)


# --------------------------------------------------------------------------------------------------
# P-values of several tests.


def holm(p_values: ArrayLike) -> Vector:
    """Adjust p-values for the number of tests, by the method of Holm (1979).

    With p₍₁₎ ≤ … ≤ p₍ₘ₎, the adjusted value of p₍ᵢ₎ is max_{j ≤ i} min(1, (m − j + 1)·p₍ⱼ₎). Reject
    all hypotheses whose adjusted value is at most α. The probability of a wrong rejection is then
    at most α.

    Parameters
    ----------
    p_values : array of shape (n_tests,)

    Returns
    -------
    array of shape (n_tests,)
        Adjusted p-values, in the order of `p_values`.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    p = check_values("p_values", p_values)
    if not ((p >= 0.0) & (p <= 1.0)).all():
        wrong = p[~((p >= 0.0) & (p <= 1.0))][0]
        raise DataError(f"p_values holds {wrong}; expected numbers from 0 to 1")
    order = np.argsort(p, kind="stable")
    adjusted = np.empty(len(p))
    steps = np.arange(len(p), 0, -1) * p[order]
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(steps))
    return adjusted


# --------------------------------------------------------------------------------------------------
# Queries in which two methods differ, or one method is weak.


class WinTieLoss(NamedTuple):
    """Numbers of queries in which a method is better, equal and worse than another one.

    Attributes
    ----------
    wins, ties, losses : int

    Examples
    --------
    >>> wins, ties, losses = win_tie_loss([0.5, 0.7], [0.4, 0.7])
    >>> wins, ties, losses
    (1, 1, 0)
    """

    wins: int
    ties: int
    losses: int


def win_tie_loss(a: ArrayLike, b: ArrayLike, *, greater_is_better: bool = True) -> WinTieLoss:
    """Count the queries in which a is better than b, equal to b and worse than b.

    Values that are equal up to rounding errors are ties. Queries with NaN are not counted.

    Parameters
    ----------
    a, b : array of shape (n_queries,)
    greater_is_better : bool
        False for errors.

    Returns
    -------
    WinTieLoss

    Examples
    --------
    >>> win_tie_loss([0.5, 0.7, 0.1 + 0.2], [0.4, 0.8, 0.3])
    WinTieLoss(wins=1, ties=1, losses=1)
    """
    d = differences(a, b) * (1.0 if greater_is_better else -1.0)
    return WinTieLoss(int((d > 0.0).sum()), int((d == 0.0).sum()), int((d < 0.0).sum()))


def most_changed(a: ArrayLike, b: ArrayLike, n: int) -> Integers:
    """Return the indices of the queries with the largest |a − b|, in descending order.

    Queries that do not change, and queries with NaN, are left out. The result can therefore have
    fewer than n entries.

    Parameters
    ----------
    a, b : array of shape (n_queries,)
        Values of two methods for the same queries.
    n : int
        The largest number of queries.

    Returns
    -------
    integer array

    Examples
    --------
    >>> most_changed([0.5, 0.7, 0.3, 0.2], [0.4, 0.2, 0.3, 0.5], 2).tolist()
    [1, 3]
    """
    d = np.abs(differences(a, b))
    changed = np.flatnonzero(d > 0.0)  # False for NaN
    return changed[np.argsort(-d[changed], kind="stable")][: whole_number("n", n, least=0)]


def worst(a: ArrayLike, n: int, *, greater_is_better: bool = True) -> Integers:
    """Return the indices of the n queries with the worst values, the worst first.

    Queries with NaN are left out.

    Parameters
    ----------
    a : array of shape (n_queries,)
        Values of one method.
    n : int
        The largest number of queries.
    greater_is_better : bool
        False for errors.

    Returns
    -------
    integer array

    Examples
    --------
    >>> worst([0.5, 0.1, float("nan"), 0.3], 2).tolist()
    [1, 3]
    """
    values = check_values("a", a) * (1.0 if greater_is_better else -1.0)
    known = np.flatnonzero(~np.isnan(values))
    return known[np.argsort(values[known], kind="stable")][: whole_number("n", n, least=0)]


# --------------------------------------------------------------------------------------------------
# Tests of whether two methods differ, given one value of each method per query.


#: What a test looks for: any difference, a > b, or a < b.
Alternative: TypeAlias = Literal["two-sided", "greater", "less"]
ALTERNATIVES: tuple[Alternative, ...] = ("two-sided", "greater", "less")

BLOCK_SIGNS = 4_000_000  #: signs that are drawn at once; a larger number needs more memory


@dataclass(frozen=True)
class PairedTest:
    """Outcome of a paired test.

    Attributes
    ----------
    difference : float
        Mean of a − b over the queries; NaN without queries.
    statistic : float
        The t statistic, or the mean difference in a randomisation test.
    p_value : float
    n : int
        Number of queries in the test.
    n_left_out : int
        Number of queries that were left out, because a value is NaN.
    note : str
        A sentence if the test says little or nothing about these values; otherwise empty.

    Examples
    --------
    >>> test = paired_t_test([0.5, 0.7, 0.9, 0.6], [0.4, 0.7, 0.6, 0.5])
    >>> round(test.difference, 3), round(test.p_value, 3), test.n
    (0.125, 0.141, 4)
    """

    difference: float
    statistic: float
    p_value: float
    n: int
    n_left_out: int
    note: str = ""


def paired_t_test(a: ArrayLike, b: ArrayLike, alternative: Alternative = "two-sided") -> PairedTest:
    """Student's t-test for paired values: t = mean(d)·√n / sd(d), where d = a − b.

    Some inputs have no t statistic. Their result has a `note`, and these values:

    - No query, or one query: t = 0 and p = 1.
    - All differences are 0: t = 0 and p = 1, also for one-sided tests.
    - All differences are equal and not 0: t = ±∞. p is 0, or 1 if a one-sided test looks in the
      other direction.

    Parameters
    ----------
    a, b : array of shape (n_queries,)
        Values of two methods for the same queries. A query is left out if one of its values is NaN.
    alternative : {"two-sided", "greater", "less"}
        "greater" tests whether the mean of a is greater than that of b.

    Returns
    -------
    PairedTest

    Examples
    --------
    >>> test = paired_t_test([0.5, 0.7, 0.9, 0.6], [0.4, 0.7, 0.6, 0.5], "greater")
    >>> round(test.statistic, 3), round(test.p_value, 3), test.n
    (1.987, 0.071, 4)
    """
    choice("alternative", alternative, ALTERNATIVES)
    d, n_left_out = _defined(differences(a, b))
    mean, n = _mean(d), len(d)
    if (note := _degenerate(d)) or n == 1:
        note = note or "there is one query, which has no variance, so p_value is 1"
        return PairedTest(mean, 0.0, 1.0, n, n_left_out, note)
    largest = np.abs(d).max()
    if np.ptp(d) <= ROUNDING * largest:
        is_against = alternative == ("less" if mean > 0 else "greater")
        note = "all differences are equal, so the t statistic is infinite; use randomization_test"
        return PairedTest(
            mean, math.copysign(math.inf, mean), float(is_against), n, n_left_out, note
        )
    from scipy.stats import ttest_1samp  # takes long to import

    found = ttest_1samp(d / largest, 0.0, alternative=alternative)
    return PairedTest(mean, float(found.statistic), float(found.pvalue), n, n_left_out)


def randomization_test(
    a: ArrayLike,
    b: ArrayLike,
    alternative: Alternative = "two-sided",
    n_samples: int = 10_000,
    seed: int = 0,
) -> PairedTest:
    """Fisher's randomisation test for paired values; its statistic is the mean of d = a − b.

    If both methods are equal, the sign of each difference is random. The p-value is the share of
    all 2ⁿ choices of signs whose mean is at least as extreme as the given one. Differences of 0
    have no sign and do not count in n.

    - If 2ⁿ ≤ `n_samples`, all choices are enumerated, and the p-value is exact.
    - Otherwise `n_samples` random choices are drawn. The p-value is (1 + extreme choices) /
      (1 + choices), which is valid for any number of samples (Phipson & Smyth 2010).

    Parameters
    ----------
    a, b, alternative
        As in `paired_t_test`.
    n_samples : int
        Largest number of choices. The smallest p-value is about 1 / `n_samples`.
    seed : int
        Seed of the random choices.

    Returns
    -------
    PairedTest

    Examples
    --------
    >>> test = randomization_test([0.5, 0.7, 0.9, 0.6], [0.4, 0.7, 0.6, 0.5], "greater")
    >>> test.p_value  # one of the 8 choices of signs of 3 differences
    0.125
    """
    choice("alternative", alternative, ALTERNATIVES)
    n_samples = whole_number("n_samples", n_samples)
    seed = whole_number("seed", seed, least=0)
    d, n_left_out = _defined(differences(a, b))
    mean = _mean(d)
    if note := _degenerate(d):
        return PairedTest(mean, 0.0, 1.0, len(d), n_left_out, note)
    signed = d[d != 0.0]
    signed = signed / np.abs(signed).max()
    if len(signed) <= math.log2(n_samples):
        p_value = float(_is_extreme(_all_sums(signed), signed, alternative).mean())
    else:
        p_value = (1 + _n_extreme(signed, alternative, n_samples, seed)) / (1 + n_samples)
    return PairedTest(mean, mean, p_value, len(d), n_left_out)


def _defined(d: Vector) -> tuple[Vector, int]:
    """Return the differences that are not NaN, and the number of the others."""
    known = d[~np.isnan(d)]
    return known, len(d) - len(known)


def _mean(d: Vector) -> float:
    return math.fsum(d) / len(d) if len(d) else math.nan


def _degenerate(d: Vector) -> str:
    """Return a sentence for differences that no test can use, and otherwise an empty text."""
    if not len(d):
        return "no query has a value for both methods, so p_value is 1"
    return "" if d.any() else "both methods have the same value in every query, so p_value is 1"


def _is_extreme(sums: Vector, d: Vector, alternative: Alternative) -> Mask:
    """Tell which sums of signed differences are at least as extreme as that of `d`."""
    slack = ROUNDING * np.abs(d).sum()  # sums that differ by rounding errors are equal
    if alternative == "two-sided":
        return np.abs(sums) >= abs(d.sum()) - slack
    return sums >= d.sum() - slack if alternative == "greater" else sums <= d.sum() + slack


def _all_sums(d: Vector) -> Vector:
    """Return the sums of `d` with all choices of signs."""
    sums = np.zeros(1)
    for value in d:
        sums = np.concatenate([sums + value, sums - value])
    return sums


def _n_extreme(d: Vector, alternative: Alternative, n_samples: int, seed: int) -> int:
    """Count the extreme sums among random choices of signs, in blocks of bounded memory."""
    rng = np.random.default_rng(seed)
    n, n_extreme = len(d), 0
    rows = max(1, BLOCK_SIGNS // n)
    for start in range(0, n_samples, rows):
        size = min(rows, n_samples - start)
        random = np.frombuffer(rng.bytes(size * ((n + 7) // 8)), np.uint8).reshape(size, -1)
        flipped = np.unpackbits(random, axis=1, count=n).astype(np.float64)
        n_extreme += int(_is_extreme(d.sum() - 2.0 * (flipped @ d), d, alternative).sum())
    return n_extreme


# --------------------------------------------------------------------------------------------------
# Confidence intervals of means over queries.


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
