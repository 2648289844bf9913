"""Writing of `RankingData` as LETOR text, with threads over blocks of rows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from .._maps import check_maps
from .._threads import run
from .._typing import Array, Integers
from ..errors import DataError
from ._letor_format import ENTRY_BYTES, ROW_BYTES, Rows, Style, format_rows
from .ids import id_texts
from .ranking import RankingData
from .text import TextColumn

MAX_DECIMALS = 15  #: decimals of which every double has correct digits
_QID = re.compile(r"[^\x00-\x20#\ud800-\udfff]+")
_BLOCK_ENTRIES = 1 << 16  # entries that a thread formats at a time
_BLOCKS_PER_THREAD = 8  # blocks that are formatted before they are written


class LetorWriter:
    """Formats the lines of a LETOR file, in the order in which the caller gave the rows."""

    def __init__(self, data: RankingData, decimals: int | None = None) -> None:
        check_maps(data.X)
        self.data = data
        X, nothing = data.X, np.empty(0, np.int64)
        self.qids = qids = _qid_tokens(data.query_ids)
        comments = _checked_comments(data.comments)
        self.rows = Rows(
            y=data.y,
            indptr=X.indptr if data.is_sparse else nothing.astype(np.int32),
            indices=X.indices if data.is_sparse else nothing.astype(np.int32),
            data=X.data if data.is_sparse else X.reshape(-1),
            qids=qids.buffer,
            qids_ptr=qids.ptr,
            comments=nothing.astype(np.uint8) if comments is None else comments.buffer,
            comments_ptr=nothing if comments is None else comments.ptr,
        ).read_only()
        self.style = Style(
            is_dense=not data.is_sparse,
            is_single=X.dtype == np.float32,
            has_comments=comments is not None,
            n_features=data.n_features,
            index_base=data.index_base,
            decimals=-1 if decimals is None else int(decimals),
        )

    def blocks(self, n_threads: int) -> Iterator[bytes]:
        """Yield the text in blocks."""
        n_docs = self.data.n_docs
        which = self.data.restore(np.arange(n_docs))
        n_entries = max(self.rows.data.size // n_docs, 1)
        size = max(_BLOCK_ENTRIES // n_entries, 1)
        batch = size * n_threads * _BLOCKS_PER_THREAD
        if self.data.is_sparse:
            # Features that are 0 are not written. The first line therefore contains the first and
            # the last feature, so that a reader finds their number.
            yield self._slow_line(which[0], with_ends=True)
            which = which[1:]
        for first in range(0, len(which), batch):
            rows = which[first : first + batch]
            tasks = [(rows[k : k + size],) for k in range(0, len(rows), size)]
            yield from run(self._block, tasks, n_threads)

    def _block(self, which: Integers) -> bytes:
        """Return the lines of some rows."""
        pieces, out = [], np.empty(self._most_bytes(which), np.uint8)
        queries = np.searchsorted(self.data.query_ptr, which, side="right") - 1
        while len(which):
            n_done, n_bytes = format_rows(self.rows, which, queries, self.style, out)
            pieces.append(out[:n_bytes].tobytes())
            if n_done < len(which):
                pieces.append(self._slow_line(which[n_done]))
            which, queries = which[n_done + 1 :], queries[n_done + 1 :]
        return b"".join(pieces)

    def _most_bytes(self, which: Integers) -> int:
        """Return an upper bound on the bytes of the lines of some rows."""
        rows, style = self.rows, self.style
        size = len(which) * (ROW_BYTES + int(np.diff(rows.qids_ptr).max()))
        if style.has_comments:
            size += int((rows.comments_ptr[which + 1] - rows.comments_ptr[which]).sum())
        n_entries = len(which) * style.n_features
        if not style.is_dense:
            n_entries = int((rows.indptr[which + 1] - rows.indptr[which]).sum())
        return size + n_entries * ENTRY_BYTES

    def _slow_line(self, row: int, with_ends: bool = False) -> bytes:
        """Return one line whose numbers are formatted by Python."""
        X, base = self.data.X[[row]], self.data.index_base
        if self.data.is_sparse:
            entries = {f: value for f, value in zip(X.indices, X.data, strict=True) if value != 0}
        else:
            entries = dict(enumerate(X[0]))
        if with_ends:
            for f in {X.shape[1] - 1} if base else {0, X.shape[1] - 1}:
                entries.setdefault(f, X.dtype.type(0))
        query = np.searchsorted(self.data.query_ptr, row, side="right") - 1
        line = exact_text(self.data.y[row]) + self.qids[int(query)]
        for f in sorted(entries):
            line += f" {f + base}:{self._number(entries[f])}"
        comment = b""
        if self.style.has_comments:
            first, last = self.rows.comments_ptr[row : row + 2]
            comment = self.rows.comments[first:last].tobytes()
        return line.encode() + (b" # " + comment if comment else b"") + b"\n"

    def _number(self, value: np.floating[Any]) -> str:
        decimals = self.style.decimals
        if decimals < 0 or abs(value) * 10.0**decimals >= 2**53:
            return exact_text(value)
        return f"{round(float(value), decimals) + 0.0:.{decimals}f}"


def exact_text(value: np.floating[Any]) -> str:
    """Return the shortest text from which the same number is read.

    Examples
    --------
    >>> exact_text(np.float64(2)), exact_text(np.float32(0.1)), exact_text(np.float64(1e-300))
    ('2', '0.1', '1e-300')
    """
    text = str(value)
    if type(value)(float(text)) != value:  # A float32 may need as many digits as its double.
        text = repr(float(value))
    return text.removesuffix(".0")


def _qid_tokens(query_ids: Array) -> TextColumn:
    """Return the text that follows the label, for each query."""
    names = id_texts(query_ids)
    for name in names:
        if not _QID.fullmatch(name):
            raise DataError(
                f"query id {name!r} cannot be written to a LETOR file; expected an id without "
                "blanks and #"
            )
    if len(set(names)) < len(names):
        raise DataError(
            "some query ids would be read as the same id from a LETOR file, such as 7 and '7'. "
            "Rename them"
        )
    return TextColumn.from_strings([f" qid:{name}" for name in names])


def _checked_comments(comments: TextColumn | None) -> TextColumn | None:
    if comments is None:
        return None
    comments.check()
    if np.isin(comments.buffer, (ord("\n"), 0)).any():
        raise DataError(
            "a comment contains a line end or a NUL, which cannot be written to a LETOR file; "
            "remove it"
        )
    return comments.packed()
