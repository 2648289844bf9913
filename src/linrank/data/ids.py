"""Ids of queries and documents: one rule for every file format and for the columns of frames.

Ids are integers if each of them is the canonical form of an integer, and otherwise text. ``007``,
``+7`` and ``0x10`` are text, so that they differ from ``7`` and ``16``. Ids of different files are
compared as text: 7 in one file is ``"7"`` in another.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._util.maps import check_maps
from .._util.parallel import memory_limit
from .._util.types import Array, Integers
from ..errors import DataError

#: Letters of text ids in an array of fixed width; longer ids are objects. A letter takes four bytes
#: in each row.
LONGEST_FIXED = 32
_CANONICAL = re.compile("0|-?[1-9][0-9]{0,18}")


class Ids(NamedTuple):
    """The ids of rows: the distinct ids, and the place of each row's id among them.

    Examples
    --------
    >>> Ids(np.array(["a", "b"]), np.array([0, 0, 1])).rows.tolist()
    ['a', 'a', 'b']
    """

    values: Array
    codes: Integers

    @property
    def rows(self) -> Array:
        """The id of each row."""
        return self.values[self.codes]


def join_strings(strings: Sequence[str]) -> Array:
    r"""Return strings as an array of fixed width, or of objects if that would not hold them well.

    A few long strings would make every entry as long, and numpy drops NUL letters at the end.

    Examples
    --------
    >>> join_strings(["a", "b"]).dtype, join_strings(["a", "b" * 1000]).dtype
    (dtype('<U1'), dtype('O'))
    >>> join_strings(["a", "a\0"]).tolist()
    ['a', 'a\x00']
    """
    if all(len(text) <= LONGEST_FIXED and text[-1:] != "\0" for text in strings):
        return np.array(strings, dtype=np.str_)
    return _objects(strings)


def parse_ids(texts: Sequence[str]) -> Array:
    """Return ids as int64 if each text is the canonical form of such a number, else as text.

    Examples
    --------
    >>> parse_ids(["7", "-16"]).tolist(), parse_ids(["7", "007"]).tolist()
    ([7, -16], ['7', '007'])
    """
    if all(map(_CANONICAL.fullmatch, texts)):
        with suppress(OverflowError):  # A number of 19 digits may exceed an int64.
            return np.array(list(map(int, texts)), np.int64)
    return join_strings(texts)


def id_texts(ids: Array) -> list[str]:
    """Return ids as text, by which ids of different files are compared.

    Examples
    --------
    >>> id_texts(np.array([7, 16])), id_texts(np.array(["7", "016"]))
    (['7', '16'], ['7', '016'])
    """
    return list(map(str, ids.tolist()))


class IdReader:
    """Collects the ids of rows, which come in parts, as distinct ids and codes.

    Examples
    --------
    >>> reader = IdReader()
    >>> reader.add(["a", "b"], np.array([0, 0, 1]))
    >>> reader.add_numbers(np.array([7]))
    >>> reader.parsed().values.tolist(), reader.parsed().codes.tolist()
    (['a', 'b', '7'], [0, 0, 1, 2])
    """

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}  # the code of each id
        self._codes: list[Integers] = []

    def __len__(self) -> int:
        return sum(map(len, self._codes))

    def add(self, values: Sequence[Hashable], codes: Integers) -> None:
        """Add rows, given the ids that occur and the place of each row's id among them."""
        numbers = self._numbers
        places = [numbers.setdefault(value, len(numbers)) for value in values]
        self._codes.append(np.array(places, np.int64)[codes])

    def add_numbers(self, values: Array) -> None:
        """Add rows whose ids are numbers."""
        distinct, codes = np.unique(values, return_inverse=True)
        self.add(distinct.tolist(), codes)

    def given(self) -> Ids:
        """Return the ids as they are."""
        return Ids(_objects(list(self._numbers)), self._all_codes())

    def texts(self) -> Ids:
        """Return all ids as text."""
        return Ids(_objects(list(map(str, self._numbers))), self._all_codes())

    def parsed(self) -> Ids:
        """Return the ids by the rule of this module; ids that are not text keep their type."""
        values, codes = list(self._numbers), self._all_codes()
        kinds = {type(value) for value in values}
        if len(kinds) > 1:  # Files have columns of different types.
            numbers: dict[Hashable, int] = {}
            places = [numbers.setdefault(as_text(value), len(numbers)) for value in values]
            values, codes, kinds = list(numbers), np.array(places, np.int64)[codes], {str}
        if kinds <= {str}:
            return Ids(parse_ids(values), codes)  # type: ignore[arg-type]
        return Ids(np.array(values) if kinds <= {int, float} else _objects(values), codes)

    def _all_codes(self) -> Integers:
        return np.concatenate([np.empty(0, np.int64), *self._codes])


def read_ids(values: Sequence[Hashable]) -> Ids:
    """Return the ids of rows.

    Examples
    --------
    >>> read_ids(["b", "a", "b"]).codes.tolist()
    [0, 1, 0]
    """
    reader = IdReader()
    reader.add(values, np.arange(len(values)))
    return reader.given()


def as_text(value: Hashable) -> str:
    """Return an id as text; pandas makes floats of integers if some are missing."""
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)


def _objects(values: Sequence[Hashable]) -> Array:
    array = np.empty(len(values), object)
    array[:] = values
    return array


# --------------------------------------------------------------------------------------------------
# `TextColumn`: one string per row, stored in two arrays that can be memory-mapped.


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

    def compact(self) -> TextColumn:
        """Return the packed column, or this one if it takes less than half of the memory.

        Earlier versions of linrank read only packed columns, so a small saving does not count.
        """
        if self.rows is None:
            return self
        self.check()
        n_bytes = int(np.diff(self.ptr)[self.rows].sum()) + 8 * len(self)
        shared = self.buffer.nbytes + self.ptr.nbytes + self.rows.nbytes
        return self if 2 * shared < n_bytes else self.packed()

    def spans(self) -> tuple[Integers, Integers]:
        """Return where the text of each row begins and ends in the buffer."""
        self.check()
        first, end = self.ptr[:-1], self.ptr[1:]
        return (first, end) if self.rows is None else (first[self.rows], end[self.rows])

    def packed(self) -> TextColumn:
        """Return a column in which row r has text r."""
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
