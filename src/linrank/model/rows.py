"""`as_rows`: documents in any form, as a matrix with the features of a model in their order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from ..data.checks import Matrix, check_matrix
from ..data.frames import frame_matrix, is_frame, is_series
from ..data.matching import check_names, matched
from ..errors import DataError


class HasFeatures(Protocol):
    """What `as_rows` must know of a model or an estimator."""

    n_features: int
    feature_names: list[str] | None


def as_rows(X: Any, model: HasFeatures) -> Matrix:
    """Return documents as a matrix of shape (n_docs, n_features).

    Dense matrices may have any memory layout, so that scoring a frame needs no copy.

    Parameters
    ----------
    X : array, sparse matrix, frame, row of a pandas frame, or a mapping of names to values
    model : Model
        Frames and mappings are aligned by its feature names, if it has any.
    """
    if is_series(X):
        X = X.to_frame().T.infer_objects()
    if isinstance(X, Mapping):
        X = _from_mapping(X, model)
    elif is_frame(X):
        X = frame_matrix(matched(X, model.feature_names, model.n_features))
    elif isinstance(X, Sequence):
        X = np.asarray(X)
    X = _dense(X) if isinstance(X, np.ndarray) else check_matrix(X)
    if X.shape[1] != model.n_features:
        raise DataError(
            f"X has shape {X.shape} but the model has {model.n_features} features; pass the "
            "features that the model was trained on"
        )
    return X


def _dense(X: np.ndarray[Any, Any]) -> Matrix:
    """Return an array of one or more rows in a precision that can be used."""
    if X.ndim == 1:
        X = X[None]
    if X.ndim == 2 and X.size and X.dtype in (np.float64, np.float32):
        return X
    return check_matrix(X)


def _from_mapping(X: Mapping[str, Any], model: HasFeatures) -> Matrix:
    """Return the values of a mapping in the order of the model's features."""
    if model.feature_names is None:
        raise DataError(
            "X is a mapping, but the model has no feature names; pass the values as an array in "
            "the order of training"
        )
    check_names(list(map(str, X)), model.feature_names)
    values = {str(name): value for name, value in X.items()}
    columns = [np.atleast_1d(np.asarray(values[name])) for name in model.feature_names]
    try:
        return np.column_stack(columns).astype(np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"X cannot be read as columns of numbers: {error}") from None
