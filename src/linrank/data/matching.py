"""Features matched by name: other data must have the features of the training data."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..errors import DataError
from .checks import check_matrix
from .ranking import RankingData

LISTED = 5  #: absent features that an error lists


def check_names(found: Sequence[str], expected: Sequence[str], whose: str = "X") -> None:
    """Raise a `DataError` that lists the expected features that are not among those found.

    Names that are not unique cannot be matched, and are an error, too. `whose` names the data with
    the features that were found.

    Examples
    --------
    >>> check_names(["age", "size", "title"], ["size", "age"])
    """
    check_unique(found, whose)
    check_unique(expected, "the training data")
    absent = sorted(set(expected) - set(found))
    if absent:
        shown = ", ".join(map(repr, absent[:LISTED])) + (", …" if len(absent) > LISTED else "")
        raise DataError(
            f"{whose} lacks {len(absent)} of the {len(expected)} features that the model was "
            f"trained on: {shown}. Pass a frame with these columns, or an array in the order of "
            "training."
        )


def check_unique(names: Sequence[str], whose: str = "X") -> None:
    """Raise a `DataError` if two columns have the same name."""
    if len(set(names)) < len(names):
        twice = next(name for k, name in enumerate(names) if name in names[:k])
        raise DataError(
            f"{whose} has several columns {twice!r}, so columns cannot be matched by name. Rename "
            "them, or pass an array."
        )


def with_features(data: RankingData, names: Sequence[str] | None) -> RankingData:
    """Return data with the features of these names, in this order.

    Data without names, and data for a model without names (None), are returned as they are.

    Examples
    --------
    >>> data = RankingData([[1.0, 2.0]], [0], feature_names=["a", "b"])
    >>> with_features(data, ["b", "a"]).X.tolist()
    [[2.0, 1.0]]
    """
    own = data.feature_names
    if names is None or own is None or own == list(names):
        return data
    check_names(own, names)
    place = {name: f for f, name in enumerate(own)}
    X = check_matrix(data.X[:, np.array([place[name] for name in names])])
    return data.replace(X=X, feature_names=list(names))
