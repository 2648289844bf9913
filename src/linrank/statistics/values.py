"""Checks of per-query values, and differences without rounding errors."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from .._typing import Mask, Vector
from ..errors import DataError

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
