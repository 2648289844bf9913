"""Mistakes in the arguments of `fit`.

Some of them a fit would not notice: a forgotten `qid`, `y` in the place of `qid`, and the labels
among the features.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from .._typing import Array
from ..data.columns import QID
from ..data.frames import column_values, frame_columns
from ..errors import DataError, ForgottenQueriesWarning, SwappedArgumentsWarning, warn

GRADES = 5  #: labels 0, …, GRADES − 1 look like grades of relevance
LEAST_DOCS = 1000  #: documents from which a single query with grades looks like a forgotten qid
LEAST_IDS = 20  #: distinct values from which whole numbers look like query ids


def check_arguments(X: Any, y: Any, qid: Any) -> None:
    """Raise a `DataError` for arguments of `fit` that cannot be meant so."""
    if isinstance(X, str | os.PathLike):
        raise DataError(
            f"X is the path {os.fspath(X)!r}; expected features. Read the file first, as in "
            f"fit(linrank.load({os.fspath(X)!r}))."
        )
    if y is None:
        raise DataError(
            "fit requires y to be passed, but the target y is None. Pass the labels, as in "
            "fit(X, y, qid), or a RankingData, such as that of RankingData.from_frame."
        )
    if qid is None and QID in getattr(getattr(X, "index", None), "names", ()):
        raise DataError(
            f"the index of X has a level {QID!r}, but qid is None. Pass "
            f"qid=X.index.get_level_values({QID!r}), or rename the level."
        )
    _check_swapped_text(y, qid)
    _check_leak(X, y)


def _check_leak(X: Any, y: Any) -> None:
    """Raise a `DataError` if the labels are a column of a frame that has the features."""
    name = getattr(y, "name", None)
    if not isinstance(name, str) or name not in (frame_columns(X) or ()):
        return
    if np.array_equal(column_values(X, name), np.asarray(y)):
        raise DataError(
            f"X has a column {name!r} with the labels y, so the labels would be a feature. Leave "
            f"the column out, or use RankingData.from_frame(X, label={name!r})."
        )


def _check_swapped_text(y: Any, qid: Any) -> None:
    """Raise a `DataError` if y is text and qid holds numbers, because they look swapped."""
    if qid is None:
        return
    labels = np.asarray(y)
    first = labels.flat[0] if labels.size else None
    if not isinstance(first, str) or np.asarray(qid).dtype.kind not in "iufb":
        return
    try:
        float(first)
    except ValueError:
        raise DataError(
            f"y[0] is {str(first)[:40]!r}, but qid holds numbers. If y and qid are swapped, use "
            "fit(X, y, qid). Otherwise replace words by numbers; a larger label is more relevant."
        ) from None


def warn_of_mistakes(y: Array, qid: Any) -> None:
    """Warn if it looks as if qid was forgotten, or y and qid were swapped.

    - A forgotten qid: there is none, there are at least 1000 documents, and their labels are three
      to five of the numbers 0, …, 4, with 0 among them. Two labels are a task for the AUC, and
      other labels are those of a regression, for which a single query is usual.
    - Swapped arguments: qid consists of two to five of the numbers 0, …, 4, with 0 among them, and
      its equal values are not adjacent. y consists of at least 20 different whole numbers, and
      its equal values are adjacent, as those of query ids are.
    """
    if qid is None:
        grades = _grades(y) if len(y) >= LEAST_DOCS else None
        if grades is not None and len(grades) > 2:
            _warn_of_forgotten_qid(y, grades)
    else:
        warn_of_swap(y, qid, "fit(X, y, qid)")


def warn_of_swap(y: Array, qid: Any, call: str) -> None:
    """Warn if y and qid look swapped, and recommend a call; see `warn_of_mistakes`."""
    if qid is None:
        return
    ids = np.asarray(qid)
    grades = _grades(ids)
    if grades is None or len(grades) < 2 or not _look_like_ids(y) or _n_runs(ids) == len(grades):
        return
    listed = ", ".join(f"{grade:g}" for grade in grades)
    warn(
        f"qid has only the values {listed}, as labels have, and y has {_n_runs(y):,} whole numbers "
        f"in blocks, as query ids have. If y and qid are swapped, use {call}.",
        SwappedArgumentsWarning,
    )


def _warn_of_forgotten_qid(y: Array, grades: Array) -> None:
    counts = np.bincount(y.astype(np.int64))
    n_pairs = (len(y) ** 2 - int((counts**2).sum())) // 2
    listed = ", ".join(f"{grade:g}" for grade in grades)
    warn(
        f"there is no qid, so all {len(y):,} documents are one query with {n_pairs:,} pairs. Their "
        f"labels {listed} look like grades of relevance within queries. Pass qid, or "
        "qid=np.zeros(len(y)) for one query.",
        ForgottenQueriesWarning,
    )


def _grades(values: Array) -> Array | None:
    """Return the distinct values if they are some of 0, …, 4 with 0 among them, and else None."""
    if values.dtype.kind not in "iuf" or values.ndim != 1 or not len(values):
        return None
    if values.min() != 0 or not values.max() < GRADES:
        return None
    found = np.unique(values)
    return found if (found == np.floor(found)).all() else None


def _look_like_ids(y: Array) -> bool:
    """Return whether y has many whole numbers, each in one block of adjacent rows."""
    n_runs = _n_runs(y)
    if n_runs < LEAST_IDS or y.dtype.kind not in "iuf" or not (y == np.floor(y)).all():
        return False
    return len(np.unique(y)) == n_runs


def _n_runs(values: Array) -> int:
    """Return the number of blocks of adjacent equal values."""
    return 1 + int(np.count_nonzero(values[1:] != values[:-1]))
