"""Tests of whether two methods differ, given one value of each method per query."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from .._checks import choice, whole_number
from .._typing import Mask, Vector
from .values import ROUNDING, differences

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
