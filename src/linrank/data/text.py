"""`TextColumn`: one string per row, stored in two arrays that can be memory-mapped."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from .._maps import check_maps
from .._typing import Array, Integers
from ..errors import DataError

WASTED_LETTERS = 1 << 20  #: padding that an array of fixed width may always have
_DOC_ID = re.compile(r"\bdocid\s*=\s*(\S+)")


def join_strings(strings: Sequence[str]) -> Array:
    """Return strings as an array of fixed width, or of objects if a few are much longer.

    Examples
    --------
    >>> join_strings(["a", "b"]).dtype, join_strings(["a"] * 1000 + ["b" * 1_000_000]).dtype
    (dtype('<U1'), dtype('O'))
    """
    n_letters = sum(map(len, strings))
    if len(strings) * max(map(len, strings), default=0) <= 16 * n_letters + WASTED_LETTERS:
        return np.array(strings, dtype=np.str_)
    array = np.empty(len(strings), dtype=object)
    array[:] = strings
    return array


class TextColumn:
    """Strings as UTF-8 bytes in one buffer; row r is ``buffer[ptr[r]:ptr[r + 1]]``.

    Examples
    --------
    >>> column = TextColumn.from_strings(["docid = GX1 inc = 1", "", "my-doc"])
    >>> column[0], len(column)
    ('docid = GX1 inc = 1', 3)
    >>> column.doc_ids()
    ['GX1', '', 'my-doc']
    """

    def __init__(self, buffer: NDArray[np.uint8], ptr: Integers) -> None:
        self.buffer = buffer
        self.ptr = ptr

    @classmethod
    def from_strings(cls, strings: Sequence[str]) -> TextColumn:
        """Encode a sequence of strings."""
        encoded = [str(text).encode() for text in strings]
        ptr = np.zeros(len(encoded) + 1, np.int64)
        np.cumsum([len(text) for text in encoded], out=ptr[1:])
        return cls(np.frombuffer(b"".join(encoded), np.uint8), ptr)

    def __len__(self) -> int:
        return len(self.ptr) - 1

    def check(self) -> None:
        """Raise a `DataError` if the text is mapped from files that have changed."""
        check_maps(self.buffer, self.ptr)

    def __getitem__(self, row: int) -> str:
        self.check()
        return self._decode(row)

    def _decode(self, row: int) -> str:
        return self.buffer[self.ptr[row] : self.ptr[row + 1]].tobytes().decode(errors="replace")

    def __iter__(self) -> Iterator[str]:
        self.check()
        return (self._decode(row) for row in range(len(self)))

    def take(self, rows: Integers) -> TextColumn:
        """Return the strings of the given rows, in their order."""
        self.check()
        lengths = np.diff(self.ptr)[rows]
        ptr = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(lengths, out=ptr[1:])
        source = np.repeat(self.ptr[:-1][rows] - ptr[:-1], lengths) + np.arange(ptr[-1])
        return TextColumn(self.buffer[source], ptr)

    def doc_ids(self) -> list[str]:
        """Return the value of ``docid = …`` in each string, or the whole string without it."""
        found = ((_DOC_ID.search(text), text) for text in self)
        return [match.group(1) if match else text for match, text in found]


def comment_column(
    doc_ids: Sequence[str] | None, comments: TextColumn | Sequence[str] | None, n_docs: int
) -> TextColumn | None:
    """Return the comments, or comments that contain the document ids; None without both."""
    if doc_ids is not None and comments is not None:
        raise DataError(
            "doc_ids and comments cannot both be given. Put the ids into the comments, as in "
            "'docid = GX01'"
        )
    if doc_ids is not None:
        comments = [f"docid = {_check_doc_id(doc, k)}" for k, doc in enumerate(doc_ids)]
    if comments is None:
        return None
    column = comments if isinstance(comments, TextColumn) else TextColumn.from_strings(comments)
    if len(column) != n_docs:
        what = "comments" if doc_ids is None else "doc_ids"
        raise DataError(f"{what} has {len(column)} entries but X has {n_docs} rows")
    return column


def _check_doc_id(doc: object, row: int) -> str:
    """Return a document id as text; it must have no blanks, because LETOR files end it there."""
    text = str(doc)
    if text.split() != [text]:
        raise DataError(f"doc_ids[{row}] is {text!r}; expected an id without blanks")
    return text
