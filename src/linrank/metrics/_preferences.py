"""Accuracy on listed preferences, which need no labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._typing import Integers, Vector
from ..data.pairs import listed_pairs
from ._measure import check_vector


def right_pairs(scores: Vector, pairs: Integers) -> Vector:
    """Return 1 for each pair whose preferred item has the higher score, ½ for equal scores.

    Parameters
    ----------
    scores : float64 array of shape (n_items,)
    pairs : integer array of shape (n_pairs, 2)
        Places in `scores`: the first item of each pair is preferred to the second.

    Returns
    -------
    float64 array of shape (n_pairs,)

    Examples
    --------
    >>> right_pairs(np.array([0.5, 2.0, 2.0]), np.array([[1, 0], [0, 2], [1, 2]])).tolist()
    [1.0, 0.0, 0.5]
    """
    upper, lower = scores[pairs[:, 0]], scores[pairs[:, 1]]
    return (upper > lower) + 0.5 * (upper == lower)


def preference_accuracy(scores: ArrayLike, pairs: Any, weight: ArrayLike | None = None) -> float:
    """Compute the share of pairs whose preferred item has the higher score.

    A pair of equal scores counts one half, as in `pairwise_accuracy`.

    Parameters
    ----------
    scores : array of shape (n_items,)
        Higher is better.
    pairs : integer array of shape (n_pairs, 2), or frame
        Places in `scores`: the first item of each pair is preferred to the second. A frame has
        columns with the names that `read_pairs` knows, such as winner and loser.
    weight : array of shape (n_pairs,), optional
        By default the weights of a frame, or 1.

    Returns
    -------
    float

    Examples
    --------
    >>> from linrank.metrics import preference_accuracy
    >>> preference_accuracy([0.5, 2.0, 2.0], [[1, 0], [0, 2], [1, 2], [2, 0]])
    0.625
    """
    scores = check_vector("scores", scores)
    listed = listed_pairs(pairs, None, len(scores), weight, weight_name="weight")
    return float(np.average(right_pairs(scores, listed.rows), weights=listed.weight))
