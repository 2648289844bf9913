"""P-values of several tests."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from .._typing import Vector
from ..errors import DataError
from .values import check_values


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
