"""Features matched by name: other data must have the features of the training data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import DataError, warn
from .categories import Categories
from .columns import check_unique, column_names, names_or_numbers
from .frames import choose_columns, frame_features, given_columns, is_frame
from .ranking import RankingData
from .validation import Matrix, check_matrix

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


def matched(
    X: Any,
    names: Sequence[str] | None,
    n_features: int,
    whose: str = "X",
    model: str = "the model",
) -> Any:
    """Return a frame with the columns that are the features of a model, in its order.

    Anything but a frame is returned as it is. `names` are those of the features, or None.

    - Columns are matched by name. A frame may have other columns, too.
    - If only the frame or only the model has names, columns are used in their order, and there is a
      warning. `whose` and `model` are what it calls the two.
    - Columns that have numbers from 0 on instead of names, in any order, are matched by these
      numbers. So are the texts "1", "2" and so on, which name the features of LETOR files.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({10: [1.0], 20: [2.0]})
    >>> matched(frame[[20, 10]], ["10", "20"], 2).columns.tolist()
    ['10', '20']
    """
    if not is_frame(X):
        return X
    places = matched_places(given_columns(X), names, n_features, whose, model)
    if places is None:
        return X
    columns = list(map(str, given_columns(X)))
    return choose_columns(X, [columns[place] for place in places])


def matched_places(
    columns: Sequence[object],
    names: Sequence[str] | None,
    n_features: int,
    whose: str = "X",
    model: str = "the model",
) -> list[int] | None:
    """Return the place of each feature among the columns of a frame; see `matched`.

    None: the columns are used in their order.
    """
    texts, found = list(map(str, columns)), column_names(columns, whose)
    if names is None:
        is_text = all(isinstance(name, str) for name in columns)
        numbers = [names_or_numbers(None, n_features, base) for base in (0, 1)[: 1 + is_text]]
        names = next((some for some in numbers if sorted(some) == sorted(texts)), None)
        if names is None and found is not None:
            warn(
                f"{whose} has feature names, but {model} was fitted without feature names, so its "
                "columns are used in their order",
                UserWarning,
            )
    elif found is not None or set(names) & set(texts):
        check_names(texts, names, whose)
    else:
        warn(no_valid_names(whose, model), UserWarning)
        names = None
    if names is None:
        return None
    place = {text: k for k, text in enumerate(texts)}
    return [place[name] for name in names]


def matched_frame(
    X: Any,
    names: Sequence[str] | None,
    n_features: int,
    categories: Categories,
    whose: str = "X",
    model: str = "the model",
) -> Matrix:
    """Return a frame as a matrix with the features of a model; `matched` has the rules.

    `categories` are those of the training data.
    """
    if names is not None:
        names = categories.given(names)
        n_features = len(names)
    frame = matched(X, names, n_features, whose, model)
    return frame_features(frame, list(map(str, given_columns(frame))), categories).X


def no_valid_names(whose: str, model: str) -> str:
    """Return the sentence of scikit-learn for data without names, for a model with names."""
    return f"{whose} does not have valid feature names, but {model} was fitted with feature names"


def with_features(data: RankingData, names: Sequence[str] | None, n_features: int) -> RankingData:
    """Return data with the features of a model, in its order; `matched` has the rules.

    Data without names are returned as they are.

    Examples
    --------
    >>> data = RankingData([[1.0, 2.0]], [0], feature_names=["a", "b"])
    >>> with_features(data, ["b", "a"], 2).X.tolist()
    [[2.0, 1.0]]
    """
    own = data.feature_names
    if own is None or (names is not None and own == list(names)):
        return data
    places = matched_places(own, names, n_features, "the data")
    if places is None or places == list(range(data.n_features)):
        return data
    X = check_matrix(data.X[:, np.array(places)])
    return data.replace(X=X, feature_names=[own[place] for place in places])
