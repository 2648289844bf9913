"""Preferences between named items: files of pairs, and the rows of the items in X."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from .._util.types import Integers, Vector
from ..errors import DataError, FileFormatError, prefix_file_errors
from .columns import names_or_numbers
from .frames import column_values, frame_columns
from .source import CHUNK_BYTES, Expected, Words, open_source, read_words
from .validation import check_pairs, check_rows, check_weight

StrPath = str | os.PathLike[str]

PAIRS = Expected("a file of pairs", "preferred,other")
#: Names of columns. The first name of each list is the one of `Pairs`.
NAMES = {
    "preferred": ("preferred", "winner", "better", "chosen"),
    "other": ("other", "loser", "worse", "rejected"),
    "weight": ("weight", "count"),
    "margin": ("margin",),
}
_DELIMITERS = ",\t;"
LISTED = 10  #: columns that an error lists


@dataclass(frozen=True, eq=False)
class Pairs:
    """Preferences between named items, as `read_pairs` returns them.

    Attributes
    ----------
    preferred, other : list of str
        The ids of the two items of each pair.
    weight, margin : float64 arrays of shape (n_pairs,) or None
        The weight of each pair, and the difference that its two scores should have.

    Examples
    --------
    >>> len(Pairs(["A", "B"], ["B", "C"], weight=[1, 2]))
    2
    """

    preferred: Sequence[str]
    other: Sequence[str]
    weight: Vector | None = None
    margin: Vector | None = None

    def __post_init__(self) -> None:
        n = len(self.preferred)
        if n != len(self.other):
            raise DataError(f"preferred has {n} entries but other has {len(self.other)}")
        weight = check_weight(self.weight, n, "weight", "preferred has")
        object.__setattr__(self, "weight", weight)
        margin = check_rows(self.margin, n, "margin", "preferred has")
        object.__setattr__(self, "margin", margin)

    def __len__(self) -> int:
        return len(self.preferred)


def read_pairs(path: StrPath) -> Pairs:
    r"""Read preferences between items from a text or Parquet file.

    A line has the ids of the preferred and of the other item, and optionally a weight and a
    margin. The columns are separated by commas, tabs, semicolons or blanks.

    Parameters
    ----------
    path : path-like
        A text file, plain or compressed, or a Parquet file. The first line may be a header with
        the names preferred and other (or winner and loser, better and worse, chosen and rejected),
        weight (or count) and margin, in any order. Other columns are then ignored. Without such a
        header, a third column is the weight and a fourth the margin. The columns of a Parquet file
        need these names, or the numbers 0, 1 and so on instead of names.

    Returns
    -------
    Pairs

    Raises
    ------
    FileFormatError
        If the file cannot be read; the message names the file and the line.

    See Also
    --------
    linrank.RankSVM.fit_pairs : Learn from preferences.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "pairs.csv")
    >>> _ = path.write_text("winner,loser,weight\nA,B,2\nA,C,1\n")
    >>> pairs = read_pairs(path)
    >>> pairs.preferred, pairs.other, pairs.weight.tolist()
    (['A', 'A'], ['B', 'C'], [2.0, 1.0])
    """
    from .table_files import is_parquet

    with prefix_file_errors(path):
        words = _read_parquet(path) if is_parquet(Path(path)) else _read_text(path)
        places, words = _find_columns(words)
    preferred, other = _items(words, places, "preferred"), _items(words, places, "other")
    same = next((k for k, pair in enumerate(zip(preferred, other, strict=True))
                 if pair[0] == pair[1]), None)  # fmt: skip
    if same is not None:
        problem = f"item {other[same]!r} is compared with itself; expected two different items"
        raise words.error(same, problem)
    numbers = {
        name: words.numbers(places[name], f"the {name}")
        for name in ("weight", "margin") if name in places
    }  # fmt: skip
    with prefix_file_errors(path):
        return Pairs(preferred, other, **numbers)


class GivenPairs(NamedTuple):
    """Explicit preferences: the first row of each pair is preferred to the second."""

    rows: Integers
    weight: Vector | None
    margin: Vector | None

    def take(self, pairs: Integers) -> GivenPairs:
        """Return the pairs with the given numbers."""
        return GivenPairs(*(None if part is None else part[pairs] for part in self))  # type: ignore[arg-type]


def connected_rows(rows: Integers, n_rows: int) -> Integers:
    """Return the number of the connected component of each row, in the graph of the pairs."""
    from scipy.sparse import csgraph

    links = sparse.coo_array((np.ones(len(rows)), (rows[:, 0], rows[:, 1])), (n_rows, n_rows))
    return csgraph.connected_components(links, directed=False)[1]


def listed_pairs(
    pairs: Any,
    items: Sequence[Any] | None,
    n_rows: int,
    weight: ArrayLike | None = None,
    margin: ArrayLike | None = None,
    weight_name: str = "pair_weight",
) -> GivenPairs:
    """Return checked pairs of row numbers of X, given in any form, with weights and margins.

    Parameters
    ----------
    pairs : array of shape (n_pairs, 2), Pairs, or frame with the column names of `read_pairs`
    items : sequence of shape (n_rows,), optional
        The id of each row of X. Without it, pairs are row numbers.
    n_rows : int
    weight, margin : arrays of shape (n_pairs,), optional
        By default those of a `Pairs` or a frame.
    weight_name : str
        What errors call the weight.

    Examples
    --------
    >>> listed_pairs([["B", "A"]], ["A", "B"], 2).rows.tolist()
    [[1, 0]]
    """
    pairs = as_pairs(pairs)
    if isinstance(pairs, Pairs):
        weight = pairs.weight if weight is None else weight
        margin = pairs.margin if margin is None else margin
    rows = check_pairs(_rows_of_pairs(pairs, items, n_rows), n_rows)
    return GivenPairs(
        rows,
        check_weight(weight, len(rows), weight_name, "pairs has"),
        check_rows(margin, len(rows), "margin", "pairs has"),
    )


def _rows_of_pairs(pairs: ArrayLike | Pairs, items: Sequence[Any] | None, n_rows: int) -> ArrayLike:
    """Return pairs of row numbers of X, given the ids of its rows; without ids, the pairs."""
    given: list[tuple[Any, ...]] = []
    is_text = False
    if isinstance(pairs, Pairs):
        given = list(zip(pairs.preferred, pairs.other, strict=True))
        is_text = all(isinstance(name, str) for pair in given for name in pair)
    if items is None:
        if is_text:
            raise DataError(
                "pairs has names of items, but items is None. Pass items=, the id of each row of X"
            )
        return given if isinstance(pairs, Pairs) else pairs
    names: list[Any] = list(getattr(items, "tolist", lambda: items)())
    if is_text:  # The ids of a file are text.
        names = list(map(str, names))
    elif not isinstance(pairs, Pairs):
        table = np.asarray(pairs, dtype=object)
        if table.ndim != 2 or table.shape[1] != 2 or len(table) == 0:
            raise DataError(
                f"pairs has shape {table.shape}; expected (n_pairs, 2) with at least one pair"
            )
        given = list(map(tuple, table.tolist()))
    numbers = _number_items(names, n_rows)
    found = [(numbers.get(one), numbers.get(other), one, other) for one, other in given]
    for k, (row, second, one, other) in enumerate(found):
        if row is None or second is None:
            name = one if row is None else other
            raise DataError(
                f"pairs[{k}] names {name!r}, which is not in items; expected the id of a row of X"
            )
    return np.array([row[:2] for row in found], np.int64)


def _number_items(names: list[Any], n_rows: int) -> dict[Any, int]:
    if len(names) != n_rows:
        raise DataError(f"items has {len(names)} entries but X has {n_rows} rows")
    try:
        numbers = {name: row for row, name in reversed(list(enumerate(names)))}
    except TypeError:
        raise DataError(
            "items has an id that is not hashable; expected strings or numbers"
        ) from None
    if len(numbers) < n_rows:
        twice = next(row for row, name in enumerate(names) if numbers[name] != row)
        raise DataError(
            f"items[{twice}] is {names[twice]!r}, as is items[{numbers[names[twice]]}]; expected "
            "each id once"
        )
    return numbers


def _read_text(path: StrPath) -> Words:
    with open_source(path, PAIRS) as source:
        for chunk in source.chunks(CHUNK_BYTES):
            line = chunk.text[chunk.first : chunk.last].tobytes().lstrip().split(b"\n", 1)[0]
            if line:
                break
    delimiter = next((mark for mark in _DELIMITERS if mark.encode() in line), None)
    return read_words(path, (2, 3, 4), PAIRS) if delimiter is None else _read_csv(path, delimiter)


def _read_csv(path: StrPath, delimiter: str) -> Words:
    with open_source(path, PAIRS) as source:
        parts = [chunk.text[chunk.first : chunk.last].tobytes()
                 for chunk in source.chunks(CHUNK_BYTES)]  # fmt: skip
    content = b"".join(parts)
    try:
        text = io.StringIO(content.decode(), newline="")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise FileFormatError(f"{path}:{line}: is not valid UTF-8; expected UTF-8 text") from None
    reader = csv.reader(text, delimiter=delimiter, skipinitialspace=True)
    rows: list[list[bytes]] = []
    lines = []
    try:
        for row in reader:
            if any(row):
                rows.append([cell.strip().encode() for cell in row])
                lines.append(reader.line_num)
    except csv.Error as error:
        raise FileFormatError(f"{path}:{reader.line_num}: cannot be read: {error}") from None
    if not rows:
        raise FileFormatError(f"{path}: the file has no pairs; {PAIRS.lines}")
    if len(rows[0]) < 2:
        raise FileFormatError(f"{path}:{lines[0]}: the line has one column; {PAIRS.lines}")
    for cells, line in zip(rows, lines, strict=True):
        if len(cells) != len(rows[0]):
            raise FileFormatError(
                f"{path}:{line}: found {len(cells)} values; expected {len(rows[0])}, as on line "
                f"{lines[0]}"
            )
    return Words(os.fspath(path), [list(column) for column in zip(*rows, strict=True)],
                 np.array(lines))  # fmt: skip


def _read_parquet(path: StrPath) -> Words:
    """Return a Parquet file as the words of a text file with a header."""
    from .table_files import open_parquet

    name = os.fspath(path)
    with open_parquet(name) as file:
        names = file.schema.names
        if len(names) < 2:
            raise FileFormatError(f"{name}: there is one column; {PAIRS.lines}")
        has_numbers = names == names_or_numbers(None, len(names), 0)
        header = list(NAMES)[: len(names)] if has_numbers else names
        if not find_columns(header) or len(header) < len(names):
            raise DataError(_unknown(names))
        columns = [[text.encode()] for text in header]
        for batch in file.read(names, ()):
            for column, values in zip(columns, batch.columns, strict=True):
                column += (b"" if x is None else str(x).encode() for x in values.to_pylist())
    return Words(name, columns, np.arange(len(columns[0])))


def _find_columns(words: Words) -> tuple[dict[str, int], Words]:
    """Return the places of the columns by name, and the words without a header."""
    header = [column[0].decode(errors="replace") for column in words.columns]
    places = find_columns(header)
    if places:
        columns, lines = [column[1:] for column in words.columns], words.lines[1:]
        if not len(lines):
            raise FileFormatError(f"{words.path}: there are no pairs after the header")
        return places, Words(words.path, columns, lines)
    if len(words.columns) > len(NAMES):
        raise FileFormatError(
            f"{words.path}:{words.lines[0]}: there are {len(words.columns)} columns; expected a "
            "header with the names preferred and other"
        )
    return dict(zip(NAMES, range(len(words.columns)), strict=False)), words


def _items(words: Words, places: dict[str, int], name: str) -> list[str]:
    """Return a column of ids, none of which may be missing."""
    ids = words.texts(places[name])
    if "" in ids:
        raise words.error(ids.index(""), f"the {name} item is missing; expected its id")
    return ids


def find_columns(header: Sequence[str]) -> dict[str, int]:
    """Return the places of the columns whose names are in `NAMES`; none without two items.

    Raises
    ------
    DataError
        If two columns have names of the same part of a pair, such as winner and chosen.

    Examples
    --------
    >>> find_columns(["loser", "votes", "winner"]), find_columns(["A", "B"])
    ({'preferred': 2, 'other': 0}, {})
    """
    found = {
        name: [place for place, text in enumerate(header) if text.lower() in known]
        for name, known in NAMES.items()
    }
    if not found["preferred"] or not found["other"]:
        return {}
    for name, places in found.items():
        if len(places) > 1:
            one, other = (header[place] for place in places[:2])
            raise DataError(
                f"the columns {one!r} and {other!r} both have a name for the part {name!r} of a "
                "pair. Leave out one of them"
            )
    return {name: places[0] for name, places in found.items() if places}


def as_pairs(pairs: Any) -> Any:
    """Return a frame with a column for each part of a pair as `Pairs`, by the names of `NAMES`.

    Anything else, and a frame whose columns have numbers instead of names, is returned as it is.

    Examples
    --------
    >>> import pandas as pd
    >>> as_pairs(pd.DataFrame({"loser": ["B"], "winner": ["A"]})).preferred
    ['A']
    """
    names = frame_columns(pairs, "pairs")
    if names is None:
        return pairs
    places = find_columns(names)
    if not places:
        raise DataError(f"pairs: {_unknown(names)}")
    parts: dict[str, Any] = {
        name: column_values(pairs, names[place]) for name, place in places.items()
    }
    return Pairs(**parts)


def _unknown(names: Sequence[str]) -> str:
    """Return the sentence for a table whose columns do not name the two items of a pair."""
    found = ", ".join(map(repr, names[:LISTED])) + (", …" if len(names) > LISTED else "")
    return (
        f"the columns are {found}; expected columns with the names preferred and other, winner and "
        "loser, better and worse, or chosen and rejected. Rename the columns"
    )
