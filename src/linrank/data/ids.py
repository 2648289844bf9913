"""Ids of queries and documents: one rule for every file format and for the columns of frames.

Ids are integers if each of them is the canonical form of an integer, and otherwise text. ``007``,
``+7`` and ``0x10`` are text, so that they differ from ``7`` and ``16``. Ids of different files are
compared as text: 7 in one file is ``"7"`` in another.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from .._typing import Array, Integers

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

    def texts(self) -> Ids:
        """Return all ids as text."""
        return Ids(_objects(list(map(str, self._numbers))), self._all_codes())

    def parsed(self) -> Ids:
        """Return the ids by the rule of this module; ids that are not text keep their type."""
        values, codes = list(self._numbers), self._all_codes()
        kinds = {type(value) for value in values}
        if len(kinds) > 1:  # Files have columns of different types.
            numbers: dict[Hashable, int] = {}
            places = [numbers.setdefault(_text(value), len(numbers)) for value in values]
            values, codes, kinds = list(numbers), np.array(places, np.int64)[codes], {str}
        if kinds <= {str}:
            return Ids(parse_ids(values), codes)  # type: ignore[arg-type]
        return Ids(np.array(values) if kinds <= {int, float} else _objects(values), codes)

    def _all_codes(self) -> Integers:
        return np.concatenate([np.empty(0, np.int64), *self._codes])


def _text(value: Hashable) -> str:
    """Return an id as text; pandas makes floats of integers if some are missing."""
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)


def _objects(values: Sequence[Hashable]) -> Array:
    array = np.empty(len(values), object)
    array[:] = values
    return array
