"""Features of an estimator: any form of X as a matrix, and the names and number of its columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_array

from ..data.checks import Matrix, check_kind
from ..data.frames import frame_columns, frame_matrix, is_frame
from ..data.matching import matched, no_valid_names
from ..errors import DataError, warn

DTYPES = [np.float64, np.float32]  #: precisions in which X is used without a copy


def checked_features(
    estimator: BaseEstimator, X: Any, *, reset: bool = True, name: str = "X", **how: Any
) -> Matrix:
    """Return X as scikit-learn checks it, like its `validate_data`, but with names of any type.

    Parameters
    ----------
    estimator : estimator
    X : array, sparse matrix or frame
        The columns of a frame are its features, by any name; see `linrank.data.matching.matched`.
    reset : bool
        Whether to store `n_features_in_` and `feature_names_in_`. Otherwise X must have the stored
        features.
    name : str
        What errors call X.
    **how
        Options of scikit-learn's `check_array`. NaN and infinity are allowed by default.
    """
    names = frame_columns(X, name) if reset else getattr(estimator, "feature_names_in_", None)
    if not reset:
        if names is not None and not is_frame(X):
            warn(no_valid_names(name, type(estimator).__name__), UserWarning)
        X = matched_features(estimator, X, name)
    X = _numbers(estimator, frame_matrix(X) if is_frame(X) else X, name, how)
    if reset:
        estimator.n_features_in_ = X.shape[1]
        store_names(estimator, names)
    elif X.shape[1] != estimator.n_features_in_:
        raise DataError(
            f"{name} has {X.shape[1]} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input"
        )
    return X


def matched_features(estimator: BaseEstimator, X: Any, name: str = "X") -> Any:
    """Return X, if it is a frame with the columns of a fitted estimator in their order."""
    expected = getattr(estimator, "feature_names_in_", None)
    names = None if expected is None else list(expected)
    return matched(X, names, estimator.n_features_in_, name, type(estimator).__name__)


def store_names(estimator: BaseEstimator, names: list[str] | None) -> None:
    """Set `feature_names_in_`, or delete it if there are no names, as scikit-learn does."""
    estimator.__dict__.pop("feature_names_in_", None)
    if names is not None:
        estimator.feature_names_in_ = np.array(names, dtype=object)


class NotNumbersError(DataError, TypeError):
    """X holds objects that are not numbers; scikit-learn expects a `TypeError` for them."""


def _numbers(estimator: BaseEstimator, X: Any, name: str, how: dict[str, Any]) -> Matrix:
    """Return X as a matrix of real numbers, or raise an error of scikit-learn or a `DataError`."""
    options = {"dtype": DTYPES, "accept_sparse": "csr", "ensure_all_finite": False} | how
    try:
        X = np.asarray(X) if isinstance(X, list | tuple) else X
        check_kind(X, name)
        return check_array(X, estimator=estimator, input_name=name, **options)
    except TypeError as error:
        raise NotNumbersError(f"{name} cannot be read as numbers: {error}") from None
    except ValueError as error:
        if "could not convert" in str(error) or "array element with a sequence" in str(error):
            raise DataError(f"{name} cannot be read as numbers: {error}") from None
        raise
