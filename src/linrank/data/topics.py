"""Files of documents with several topics: ``3,7 1:0.5 2:0.25`` belongs to the topics 3 and 7."""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import chain
from typing import NamedTuple

import numpy as np
from scipy import sparse

from .._numbers import parse_number
from .._typing import Integers
from ..errors import DataError, FileFormatError
from ._source import CHUNK_BYTES, Expected, open_source
from .checks import Matrix, check_matrix

TOPICS = Expected("a file of topics", "3,7 1:0.5 2:0.25")


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
        raise FileFormatError(f"{path}: not a file of topics: {error}; {TOPICS.lines}") from None
    if not len(labels):
        raise FileFormatError(f"{path}: the file has no documents")
    names = _topics_of_lines(path)
    rows = np.repeat(np.arange(len(names)), list(map(len, names)))
    known = _sorted(set(chain(*names))) if topics is None else _checked(topics)
    columns = {name: k for k, name in enumerate(known)}
    found = np.array([columns.get(name, -1) for name in chain(*names)], np.int64)
    Y = _ones(rows[found >= 0], found[found >= 0], (len(labels), len(known)))
    return TopicData(check_matrix(X), Y, known)


def _topics_of_lines(path: str | os.PathLike[str]) -> list[list[str]]:
    """Return the topics of each document as they are written, so that 007 and 7 differ."""
    found = []
    with open_source(path, TOPICS) as source:
        for chunk in source.chunks(CHUNK_BYTES):
            for line in chunk.text[chunk.first : chunk.last].tobytes().split(b"\n"):
                words = line.partition(b"#")[0].split()
                if words:
                    found.append([] if b":" in words[0] else words[0].decode("latin1").split(","))
                    _check_numbers(source.path, found[-1], words)
            source.release([chunk])
    return found


def _check_numbers(path: str, topics: list[str], words: list[bytes]) -> None:
    """Raise an error for numbers that only Python knows, such as 1_0."""
    try:
        _sorted(topics)
        wrong = next((word.decode("latin1") for word in words if b"_" in word), None)
    except ValueError:
        wrong = ",".join(topics)
    if wrong is not None:
        raise FileFormatError(f"{path}: not a file of topics: {wrong[:40]!r}; {TOPICS.lines}")


def _sorted(names: Iterable[str]) -> list[str]:
    return sorted(names, key=lambda name: (parse_number(name), name))


def _checked(topics: list[str]) -> list[str]:
    """Return the names of topics, which are numbers."""
    try:
        _sorted(topics)
    except ValueError as error:
        raise DataError(
            f"topics in files are numbers, but those of the model are not: {error}"
        ) from None
    return list(topics)


def _ones(rows: Integers, columns: Integers, shape: tuple[int, int]) -> sparse.csr_array:
    return sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=shape)
