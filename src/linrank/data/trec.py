"""TREC files: judgements, runs, scores, and features whose labels are judgements."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .._util.files import atomic_write
from .._util.text import parse_number
from .._util.types import Integers, Mask, Vector
from ..errors import DataError, FileFormatError
from .ids import id_texts
from .ranking import RankingData
from .source import Expected, Words, compressed, first_words, read_words
from .validation import check_rows

# --------------------------------------------------------------------------------------------------
# Score files: one number per line, in the order of the lines of the data.


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


# --------------------------------------------------------------------------------------------------
# TREC files: judgements (qrels), runs, and features whose labels are judgements.


StrPath = str | os.PathLike[str]

QRELS = Expected("a qrels file", "301 0 FBIS3-10082 1")
RUN = Expected("a run file", "301 Q0 FBIS3-10082 1 12.5 linrank")
_BLOCK_LINES = 1 << 16  # lines converted to text at a time


@dataclass(frozen=True, eq=False)
class Qrels:
    """Judgements, as `read_qrels` returns them.

    Attributes
    ----------
    qid, doc_ids : list of str
        The query and the document of each judgement. Other ids become texts.
    y : float64 array of shape (n_judgements,)
        The labels.

    Examples
    --------
    >>> len(Qrels(["q1", "q1"], ["A", "B"], [1, 0]))
    2
    """

    qid: Sequence[str]
    doc_ids: Sequence[str]
    y: Vector

    def __post_init__(self) -> None:
        _check_lines(self, "y")

    def __len__(self) -> int:
        return len(self.y)


@dataclass(frozen=True, eq=False)
class Run:
    """Ranked lists, as `read_run` returns them.

    Attributes
    ----------
    qid, doc_ids : list of str
        The query and the document of each line. Other ids become texts.
    scores : float64 array of shape (n_lines,)
        Higher is better. Ranks in files are ignored, as trec_eval does.
    tag : str
        The name of the run.

    Examples
    --------
    >>> Run(["q1", "q1"], ["A", "B"], [0.5, 2], tag="bm25").scores.tolist()
    [0.5, 2.0]
    """

    qid: Sequence[str]
    doc_ids: Sequence[str]
    scores: Vector
    tag: str = "linrank"

    def __post_init__(self) -> None:
        _check_lines(self, "scores")

    def __len__(self) -> int:
        return len(self.scores)


def read_qrels(path: StrPath) -> Qrels:
    r"""Read judgements in the format of TREC: lines ``qid iteration docno label``.

    Parameters
    ----------
    path : path-like
        The file, plain or compressed. Empty lines are skipped. The iteration is ignored. A label
        can be any finite number.

    Returns
    -------
    Qrels

    Raises
    ------
    FileFormatError
        If the file cannot be read, or judges a document twice for one query. The message names
        the file and the line.

    See Also
    --------
    join_qrels : Use judgements as the labels of documents with features.
    linrank.evaluate_run : Compute metrics of a run.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "qrels.txt")
    >>> _ = path.write_text("301 0 A 1\n301 0 B 0\n")
    >>> qrels = read_qrels(path)
    >>> qrels.qid, qrels.doc_ids, qrels.y.tolist()
    (['301', '301'], ['A', 'B'], [1.0, 0.0])
    """
    words = read_words(path, (4,), QRELS)
    qrels = Qrels(words.texts(0), words.texts(2), words.numbers(3, "the label"))
    _check_twice(words, qrels)
    return qrels


def read_run(path: StrPath) -> Run:
    r"""Read a run in the format of TREC: lines ``qid Q0 docno rank score tag``.

    Parameters
    ----------
    path : path-like
        The file, plain or compressed. Empty lines are skipped. The columns Q0 and rank are
        ignored. The tag is that of the first line.

    Returns
    -------
    Run

    Raises
    ------
    FileFormatError
        If the file cannot be read, or lists a document twice for one query. The message names
        the file and the line.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "run.txt")
    >>> _ = path.write_text("301 Q0 A 1 2.5 bm25\n301 Q0 B 2 1.25 bm25\n")
    >>> run = read_run(path)
    >>> run.doc_ids, run.scores.tolist(), run.tag
    (['A', 'B'], [2.5, 1.25], 'bm25')
    """
    words = read_words(path, (6,), RUN)
    scores, tag = words.numbers(4, "the score"), words.columns[5][0].decode(errors="replace")
    run = Run(words.texts(0), words.texts(2), scores, tag)
    _check_twice(words, run)
    return run


def write_qrels(path: StrPath, qrels: Qrels) -> None:
    """Write judgements in the format of TREC.

    Parameters
    ----------
    path : path-like
        The file. If the name ends in .gz, .bz2, .xz or .zst, the file is compressed.
    qrels : Qrels

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "qrels.txt")
    >>> write_qrels(path, Qrels(["301", "301"], ["A", "B"], [1, 0]))
    >>> print(path.read_text(), end="")
    301 0 A 1
    301 0 B 0
    """
    _check_words([*qrels.qid, *qrels.doc_ids])
    labels = [repr(int(y) if y.is_integer() else y) for y in qrels.y.tolist()]
    rows = zip(qrels.qid, qrels.doc_ids, labels, strict=True)
    _write(path, (f"{qid} 0 {doc} {label}\n" for qid, doc, label in rows))


def write_run(path: StrPath, run: Run) -> None:
    """Write a run in the format of TREC, sorted by query and score.

    Ranks begin with 1. Documents with equal scores keep their order. A score has as many digits as
    are needed to read the same number.

    Parameters
    ----------
    path : path-like
        The file. If the name ends in .gz, .bz2, .xz or .zst, the file is compressed.
    run : Run

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "run.txt")
    >>> write_run(path, Run(["301", "301"], ["A", "B"], [0.5, 2]))
    >>> print(path.read_text(), end="")
    301 Q0 B 1 2.0 linrank
    301 Q0 A 2 0.5 linrank
    """
    _write(path, run_lines(run))


def run_lines(run: Run) -> Iterator[str]:
    """Check a run, and return its lines as `write_run` writes them."""
    _check_words([*run.qid, *run.doc_ids, run.tag])
    queries = number_words(run.qid)
    codes = look_up(run.qid, queries)
    order = np.lexsort((-run.scores, codes))
    starts = np.searchsorted(codes[order], np.arange(len(queries)))
    ranks = (np.arange(len(run)) - starts[codes[order]] + 1).tolist()
    scores, rows = run.scores[order].tolist(), order.tolist()
    return (
        f"{run.qid[row]} Q0 {run.doc_ids[row]} {rank} {score!r} {run.tag}\n"
        for row, rank, score in zip(rows, ranks, scores, strict=True)
    )


def run_of(data: RankingData, scores: Vector, tag: str = "linrank") -> Run:
    """Return the run of scores of documents, which are in the row order of `data`."""
    return Run(data.qid.tolist(), require_doc_ids(data), scores, tag)


def require_doc_ids(data: RankingData) -> list[str]:
    """Return the document ids of data, or raise a `DataError` if there are none."""
    doc_ids = data.doc_ids
    if doc_ids is None:
        raise DataError(
            "the data has no document ids. Add them to each line as a comment, as in "
            "'2 qid:10 1:0.5 # docid = A', or pass doc_ids to RankingData"
        )
    return doc_ids


class Judged(NamedTuple):
    """Labels of the documents of data, and which of them were judged."""

    y: Vector
    known: Mask


def judge(data: RankingData, qrels: Qrels) -> Judged:
    """Look up the judgement of each document; see `join_qrels`."""
    keys = zip(qrels.qid, qrels.doc_ids, strict=True)
    labels = dict(zip(keys, qrels.y.tolist(), strict=True))
    doc_ids = require_doc_ids(data)
    found = [labels.get(key) for key in zip(id_texts(data.qid), doc_ids, strict=True)]
    known = np.array([label is not None for label in found])
    if not known.any():
        raise DataError(
            f"no document of the data is judged: query {data.qid[0]} with document {doc_ids[0]!r} "
            f"is not in the qrels, which begin with query {qrels.qid[0]} and document "
            f"{qrels.doc_ids[0]!r}. Use judgements of the same queries and documents"
        )
    return Judged(np.array([0.0 if label is None else label for label in found]), known)


def join_qrels(data: RankingData, qrels: Qrels) -> RankingData:
    """Return data with judgements as labels.

    A document is looked up by its query id and its document id. Documents that were not judged get
    the label 0, whatever their label was.

    Parameters
    ----------
    data : RankingData
        Documents with `doc_ids`, as from a LETOR file with comments ``# docid = …``.
    qrels : Qrels

    Returns
    -------
    RankingData

    Raises
    ------
    DataError
        If the data have no document ids, or if none of the documents was judged.

    Examples
    --------
    >>> data = RankingData([[0.5], [2.0], [1.0]], [0, 0, 0], doc_ids=["A", "B", "C"])
    >>> join_qrels(data, Qrels(["0", "0"], ["C", "A"], [2, 1])).y.tolist()
    [1.0, 0.0, 2.0]
    """
    return data.replace(y=judge(data, qrels).y)


def looks_like_qrels(path: Path) -> bool:
    """Tell whether the first line of a file is that of a qrels file."""
    words = _peek(path)
    return len(words) == 4 and _is_number(words[3]) and b":" not in words[1]


def looks_like_run(path: Path) -> bool:
    """Tell whether the first line of a file is that of a run."""
    words = _peek(path)
    return len(words) == 6 and all(map(_is_number, words[3:5])) and b"#" not in words


def number_words(words: Iterable[str]) -> dict[str, int]:
    """Number distinct words in the order of their first appearance."""
    return {word: number for number, word in enumerate(dict.fromkeys(words))}


def look_up(words: Sequence[str], numbers: Mapping[str, int]) -> Integers:
    """Return the number of each word; −1 for words without a number."""
    return np.fromiter((numbers.get(word, -1) for word in words), np.int64, len(words))


def _peek(path: Path) -> list[bytes]:
    if not path.is_file():
        return []
    try:
        return first_words(path, RUN)
    except FileFormatError:  # The reader of another format reports the error.
        return []


def _is_number(word: bytes) -> bool:
    try:
        parse_number(word)
    except ValueError:
        return False
    return True


def _check_lines(found: Qrels | Run, name: str) -> None:
    """Check that there are as many queries, documents and values; ids become texts."""
    if found.doc_ids is None:
        raise DataError("doc_ids is None. Use data with document ids, or pass a list of them.")
    n = len(found.qid)
    if n != len(found.doc_ids):
        raise DataError(f"qid has {n} entries but doc_ids has {len(found.doc_ids)}")
    for ids in ("qid", "doc_ids"):
        object.__setattr__(found, ids, _texts(getattr(found, ids)))
    object.__setattr__(found, name, check_rows(getattr(found, name), n, name, "qid has"))


def _texts(ids: Sequence[object]) -> Sequence[str]:
    """Return ids as texts; those of `RankingData.qid` may be numbers."""
    names = ids.tolist() if isinstance(ids, np.ndarray) else ids
    return names if all(type(name) is str for name in names) else list(map(str, names))  # type: ignore[return-value]


def _check_twice(words: Words, found: Qrels | Run) -> None:
    """Raise an error for the first line whose query and document are on an earlier line."""
    docs = number_words(found.doc_ids)
    codes = look_up(found.qid, number_words(found.qid)) * len(docs) + look_up(found.doc_ids, docs)
    in_order = np.sort(codes)
    if (in_order[1:] != in_order[:-1]).all():
        return
    _, first, where = np.unique(codes, return_index=True, return_inverse=True)
    row = int(np.flatnonzero(first[where] != np.arange(len(found)))[0])
    raise words.error(
        row,
        f"document {found.doc_ids[row]!r} of query {found.qid[row]!r} is also on line "
        f"{words.lines[first[where[row]]]}; expected each document once per query",
    )


def _check_words(texts: Sequence[str]) -> None:
    bad = next((text for text in dict.fromkeys(texts) if text.split() != [text]), None)
    if bad is not None:
        raise DataError(
            f"{bad!r} cannot be written to a TREC file; expected ids and tags without blanks"
        )


def _write(path: StrPath, lines: Iterator[str]) -> None:
    with atomic_write(path, "wb") as file, compressed(file, path) as stream:
        for text in blocks_of(lines):
            stream.write(text.encode())


def blocks_of(lines: Iterator[str]) -> Iterator[str]:
    """Join lines to blocks, which are written at once."""
    while block := "".join(islice(lines, _BLOCK_LINES)):
        yield block
