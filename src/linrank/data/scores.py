"""Score files: one number per line, in the order of the lines of the data."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from .._numbers import parse_number
from .._typing import Vector
from ..errors import FileFormatError

_BLOCK_SCORES = 1 << 16  # scores converted to text at a time


def read_scores(path: str | os.PathLike[str], n_docs: int) -> Vector:
    r"""Read the scores of `n_docs` documents.

    Parameters
    ----------
    path : path-like
        A text file with one number per line. Empty lines at the end are ignored.
    n_docs : int
        The number of documents, and thus of lines.

    Raises
    ------
    FileFormatError
        If the file cannot be read, a line is not a finite number, or the number of lines is not
        `n_docs`. The message names the file and the line.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "scores.txt")
    >>> _ = path.write_text("0.5\n-1\n")
    >>> read_scores(path, 2).tolist()
    [0.5, -1.0]
    """
    try:
        lines = Path(path).read_bytes().rstrip().split(b"\n")
    except OSError as error:
        raise FileFormatError(f"{path}: cannot be read: {error.strerror or error}") from None
    if lines == [b""]:
        raise FileFormatError(f"{path}: the file is empty; expected {n_docs:,} scores")
    try:
        scores = np.array([parse_number(line) for line in lines])
    except ValueError:
        raise _first_error(path, lines) from None
    if not np.isfinite(scores).all():
        raise _first_error(path, lines)
    if len(scores) != n_docs:
        raise _wrong_number(path, len(scores), n_docs)
    return scores


def score_blocks(scores: Vector) -> Iterator[str]:
    r"""Return blocks of lines with the score of a document, or its scores separated by tabs.

    A score has as many digits as are needed to read the same number.

    Examples
    --------
    >>> list(score_blocks(np.array([0.1, 2.0])))
    ['0.1\n2.0\n']
    """
    for first in range(0, len(scores), _BLOCK_SCORES):
        numbers = scores[first : first + _BLOCK_SCORES].tolist()
        if scores.ndim == 2:
            lines = ["\t".join(map(repr, row)) for row in numbers]
        else:
            lines = list(map(repr, numbers))
        yield "\n".join(lines) + "\n"


def _wrong_number(path: str | os.PathLike[str], n_lines: int, n_docs: int) -> FileFormatError:
    if n_lines < n_docs:
        return FileFormatError(
            f"{path}:{n_lines}: this is the last line, but the data has {n_docs:,} documents; "
            "expected one score for each"
        )
    return FileFormatError(
        f"{path}:{n_docs + 1}: there are too many scores: the data has {n_docs:,} documents, but "
        f"the file has {n_lines:,} lines"
    )


def _first_error(path: str | os.PathLike[str], lines: list[bytes]) -> FileFormatError:
    """Return the error for the first line that is not a finite number."""
    for number, line in enumerate(lines, 1):
        text = line.decode(errors="replace").strip()
        try:
            good = np.isfinite(parse_number(line))
        except ValueError:
            good = False
        if not good:
            found = "the line is empty" if not text else f"{text[:40]!r} is not a finite number"
            return FileFormatError(f"{path}:{number}: {found}; expected one score per line")
    raise AssertionError("every line is a finite number")
