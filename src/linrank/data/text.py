"""`TextColumn`: one string per row, stored in two arrays that can be memory-mapped."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from .._maps import check_maps
from .._memory import memory_limit
from .._typing import Array, Integers
from ..errors import DataError
from .ids import Ids

GATHER_ROWS = 1 << 14  #: rows whose texts are copied at a time; more rows take more memory
_DOC_ID = re.compile(r"\bdocid\s*=\s*(\S+)")


class TextColumn:
    """Strings as UTF-8 bytes in one buffer; text k is ``buffer[ptr[k]:ptr[k + 1]]``.

    If `rows` is given, row r has the text ``rows[r]``, so that equal texts are stored once.
    Otherwise row r has text r.

    Examples
    --------
    >>> column = TextColumn.from_strings(["docid = GX1 inc = 1", "", "my-doc"])
    >>> column[0], len(column)
    ('docid = GX1 inc = 1', 3)
    >>> column.doc_ids()
    ['GX1', '', 'my-doc']
    """

    def __init__(
        self, buffer: NDArray[np.uint8], ptr: Integers, rows: Integers | None = None
    ) -> None:
        self.buffer = buffer
        self.ptr = ptr
        self.rows = rows

    @classmethod
    def from_strings(cls, strings: Sequence[str], rows: Integers | None = None) -> TextColumn:
        """Encode a sequence of strings."""
        try:
            encoded = [str(text).encode() for text in strings]
        except UnicodeEncodeError as error:
            raise DataError(f"{error.object[:40]!r} is not valid Unicode text. Rename it") from None
        ptr = np.zeros(len(encoded) + 1, np.int64)
        np.cumsum([len(text) for text in encoded], out=ptr[1:])
        return cls(np.frombuffer(b"".join(encoded), np.uint8), ptr, rows)

    def __len__(self) -> int:
        return len(self.ptr) - 1 if self.rows is None else len(self.rows)

    def check(self) -> None:
        """Raise a `DataError` if the text is mapped from files that have changed."""
        check_maps(self.buffer, self.ptr)

    def __getitem__(self, row: int) -> str:
        self.check()
        return self._decode(row if self.rows is None else int(self.rows[row]))

    def _decode(self, k: int) -> str:
        return self.buffer[self.ptr[k] : self.ptr[k + 1]].tobytes().decode(errors="replace")

    def __iter__(self) -> Iterator[str]:
        self.check()
        numbers = range(len(self)) if self.rows is None else self.rows.tolist()
        return (self._decode(k) for k in numbers)

    def take(self, rows: Integers) -> TextColumn:
        """Return the strings of the given rows, in their order; equal texts stay stored once."""
        if self.rows is None:
            return self._gather(rows)
        kept, places = np.unique(self.rows[rows], return_inverse=True)
        texts = TextColumn(self.buffer, self.ptr)._gather(kept)
        return TextColumn(texts.buffer, texts.ptr, places)

    def packed(self) -> TextColumn:
        """Return a column in which row r has text r, as files hold it."""
        return self if self.rows is None else TextColumn(self.buffer, self.ptr)._gather(self.rows)

    def _gather(self, which: Integers) -> TextColumn:
        """Return the texts of the given numbers, one after another."""
        self.check()
        ptr = np.zeros(len(which) + 1, np.int64)
        np.cumsum(np.diff(self.ptr)[which], out=ptr[1:])
        if ptr[-1] > memory_limit():
            raise DataError(
                f"the document ids and comments of {len(which):,} rows take {ptr[-1]:,} bytes, "
                "which do not fit into memory. Use shorter ids"
            )
        buffer = np.empty(ptr[-1], np.uint8)
        for first in range(0, len(which), GATHER_ROWS):
            own, ends = which[first : first + GATHER_ROWS], ptr[first : first + GATHER_ROWS + 1]
            source = np.repeat(self.ptr[:-1][own] - ends[:-1], np.diff(ends))
            source += np.arange(ends[0], ends[-1])
            buffer[ends[0] : ends[-1]] = self.buffer[source]
        return TextColumn(buffer, ptr)

    def doc_ids(self) -> list[str]:
        """Return the value of ``docid = …`` in each string, or the whole string without it."""
        if self.rows is None:
            return list(map(_find_doc_id, self))
        kept, places = np.unique(self.rows, return_inverse=True)
        names = list(map(_find_doc_id, TextColumn(self.buffer, self.ptr, kept)))
        return [names[k] for k in places.tolist()]


def _find_doc_id(text: str) -> str:
    found = _DOC_ID.search(text)
    return found.group(1) if found else text


def comment_column(
    doc_ids: Sequence[str] | Ids | None,
    comments: TextColumn | Sequence[str] | None,
    n_docs: int,
) -> TextColumn | None:
    """Return the comments, or comments that contain the document ids; None without both."""
    if doc_ids is not None and comments is not None:
        raise DataError(
            "doc_ids and comments cannot both be given. Put the ids into the comments, as in "
            "'docid = GX01'"
        )
    if doc_ids is not None:
        ids, rows = doc_ids if isinstance(doc_ids, Ids) else (doc_ids, None)
        column = TextColumn.from_strings(_doc_comments(ids, rows), rows)
    elif comments is None:
        return None
    else:
        column = comments if isinstance(comments, TextColumn) else TextColumn.from_strings(comments)
    if len(column) != n_docs:
        what = "comments" if doc_ids is None else "doc_ids"
        raise DataError(f"{what} has {len(column)} entries but X has {n_docs} rows")
    return column


def _doc_comments(ids: Sequence[object] | Array, rows: Integers | None) -> list[str]:
    """Return comments with document ids, which have no blanks: LETOR files end an id there."""
    texts = list(map(str, ids))
    bad = next((k for k, text in enumerate(texts) if text.split() != [text]), None)
    if bad is not None:
        row = bad if rows is None else int(np.flatnonzero(rows == bad)[0])
        raise DataError(f"doc_ids[{row}] is {texts[bad]!r}; expected an id without blanks")
    return [f"docid = {text}" for text in texts]
