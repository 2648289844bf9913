"""Files of documents with several topics: ``3,7 1:0.5 2:0.25`` belongs to the topics 3 and 7."""

from __future__ import annotations

import os
from typing import NamedTuple

import numpy as np
from scipy import sparse

from .._typing import Vector
from ..errors import DataError, FileFormatError
from .checks import Matrix, check_matrix


class TopicData(NamedTuple):
    """Documents of a collection, each of which belongs to any number of topics."""

    X: Matrix
    Y: sparse.csr_array  #: 1 where a document (row) belongs to a topic (column)
    topics: list[str]  #: the name of each column of Y


def read_topics(
    path: str | os.PathLike[str],
    *,
    n_features: int | None = None,
    topics: list[str] | None = None,
) -> TopicData:
    r"""Read documents with topics, in SVMlight's format with several labels per line.

    Parameters
    ----------
    path : path-like
    n_features : int, optional
        The number of features; by default the largest feature number in the file.
    topics : list of str, optional
        The topics of the columns of Y; others are left out. By default, all topics of the file.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "topics.txt")
    >>> _ = path.write_text("3,7 1:0.5\n7 2:1\n")
    >>> data = read_topics(path)
    >>> data.topics, data.Y.toarray().tolist()
    (['3', '7'], [[1.0, 1.0], [0.0, 1.0]])
    """
    from sklearn.datasets import load_svmlight_file

    try:
        X, labels = load_svmlight_file(
            os.fspath(path), n_features=n_features, multilabel=True, zero_based=False
        )
    except OSError as error:
        raise FileFormatError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, OverflowError) as error:
        raise FileFormatError(
            f"{path}: not a file of topics: {error}; expected lines such as 3,7 1:0.5 2:0.25"
        ) from None
    if not len(labels):
        raise FileFormatError(f"{path}: the file has no documents")
    rows = np.repeat(np.arange(len(labels)), [len(found) for found in labels])
    values = np.concatenate([np.asarray(found) for found in labels])
    known = np.unique(values) if topics is None else _numbers(topics)
    order = np.argsort(known)
    place = np.clip(np.searchsorted(known[order], values), 0, len(known) - 1)
    kept = known[order][place] == values
    Y = _ones(rows[kept], order[place[kept]], (len(labels), len(known)))
    return TopicData(check_matrix(X), Y, [_name(topic) for topic in known.tolist()])


def _name(topic: float) -> str:
    """Return a number with as many digits as are needed to read the same number."""
    return str(int(topic) if topic.is_integer() else topic)


def _numbers(topics: list[str]) -> Vector:
    """Return the numbers of topics from their names."""
    try:
        return np.array(topics, dtype=np.float64)
    except ValueError as error:
        raise DataError(
            f"topics in files are numbers, but those of the model are not: {error}"
        ) from None


def _ones(rows: Vector, columns: Vector, shape: tuple[int, int]) -> sparse.csr_array:
    return sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=shape)
