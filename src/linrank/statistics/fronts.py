"""Methods that are best in the sense of Pareto."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from .._checks import choice
from .._typing import Mask
from ..errors import DataError
from .values import check_values


def pareto_front(points: ArrayLike, directions: Sequence[Literal["max", "min"]]) -> Mask:
    """Tell which methods no other method dominates.

    A method dominates another one if it is at least as good in all criteria, and better in one.
    Equal methods do not dominate each other. A method with NaN is not on the front.

    Parameters
    ----------
    points : array of shape (n_methods, n_criteria)
    directions : sequence of {"max", "min"}
        For each criterion, whether large or small values are good.

    Returns
    -------
    bool array of shape (n_methods,)

    Examples
    --------
    NDCG and the number of features of three methods:

    >>> pareto_front([[0.50, 40], [0.48, 5], [0.47, 9]], ["max", "min"])
    array([ True,  True, False])
    """
    values = check_values("points", points, ndim=2)
    for direction in directions:
        choice("directions", direction, ("max", "min"))
    if values.shape[1] != len(directions):
        raise DataError(
            f"points has {values.shape[1]} columns but directions has {len(directions)} entries: "
            "pass one direction per column"
        )
    values = values * np.array([1.0 if direction == "max" else -1.0 for direction in directions])
    front = ~np.isnan(values).any(axis=1)
    for row in np.flatnonzero(front):
        as_good = (values >= values[row]).all(axis=1)  # False for NaN
        better = (values > values[row]).any(axis=1)
        front[row] = not (as_good & better).any()
    return front
