"""Columns of tables: which hold features, and which hold labels, query ids and weights.

Frames in memory, files of tables and the partitions of Dask DataFrames share these checks.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from .._util.text import parse_number
from ..errors import DataError, FileFormatError

if TYPE_CHECKING:
    import pandas as pd


# --------------------------------------------------------------------------------------------------
# Files with the names of features, for LETOR text, which has none.


_NUMBERED = re.compile(r"([0-9]+)[\s:,;]+(\S.*)")


def names_or_numbers(names: list[str] | None, n_features: int, index_base: int) -> list[str]:
    """Return the names of features or, without names, their numbers in LETOR files.

    Examples
    --------
    >>> names_or_numbers(None, 2, index_base=1)
    ['1', '2']
    """
    if names is not None:
        return names
    return [str(index) for index in range(index_base, index_base + n_features)]


class NameFile(NamedTuple):
    r"""The content of a file of names: a name per line, or lines of an index and a name.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "names.txt")
    >>> _ = path.write_text("1 bm25\n3 clicks\n")
    >>> NameFile.read(path).of(n_features=3, index_base=1)
    ['bm25', '2', 'clicks']
    """

    path: str
    lines: list[str]

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """Read a file; empty lines are skipped."""
        try:
            text = Path(path).read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
            raise FileFormatError(f"{os.fspath(path)}: cannot be read: {reason}") from None
        return cls(os.fspath(path), [line.strip() for line in text.splitlines() if line.strip()])

    def of(self, n_features: int, index_base: int) -> list[str]:
        """Return the names of all features; a feature without a name is called by its index."""
        names = self._names(n_features, index_base)
        twice = [name for name, count in Counter(names).items() if count > 1]
        if twice:
            raise FileFormatError(
                f"{self.path}: {twice[0]!r} is the name of several features. Use distinct names"
            )
        return names

    def _names(self, n_features: int, index_base: int) -> list[str]:
        numbered = [_NUMBERED.fullmatch(line) for line in self.lines]
        if not numbered or None in numbered:
            if len(self.lines) != n_features:
                raise FileFormatError(
                    f"{self.path}: there are {len(self.lines)} names, but the data have "
                    f"{n_features} features; expected one name per line, or lines of an index and "
                    "a name"
                )
            return self.lines
        names = names_or_numbers(None, n_features, index_base)
        for match in numbered:
            assert match is not None
            feature = int(match[1]) - index_base
            if not 0 <= feature < n_features:
                raise FileFormatError(
                    f"{self.path}: feature {match[1]} is named, but the features of the data are "
                    f"{index_base} to {index_base + n_features - 1}"
                )
            names[feature] = match[2].strip()
        return names


# --------------------------------------------------------------------------------------------------
# Columns of tables: which hold features, and which hold labels, query ids and weights.


LABEL, QID = "label", "qid"  #: default names of the columns with labels and query ids
_ID_NAMES = {"qid", "query", "queryid"}  # what a column of query ids may be called, as letters
PER_ROW = ("sample_weight", "query_weight", "propensity", "margin")  #: other numbers of a document


@dataclass(frozen=True)
class Columns:
    """The columns of a table that hold labels, query ids, weights and features.

    Attributes
    ----------
    label : str, optional
        By default the column ``label``.
    qid : str, optional
        By default the column ``qid``. Without it, all documents belong to one query.
    doc_id : str, optional
        Identifiers of documents.
    features : tuple of str, optional
        By default all columns that have no other use, except an index that pandas wrote.
    ignore : tuple of str
        Columns that are not features.
    sample_weight, query_weight, propensity, margin : str, optional
        See `linrank.RankingData`.

    Examples
    --------
    >>> columns = Columns(label="grade", ignore=("title",))
    >>> columns.choose(["grade", "qid", "title", "bm25"])
    Chosen(label='grade', qid='qid', doc_id=None, per_row={}, features=['bm25'])
    """

    label: str | None = None
    qid: str | None = None
    doc_id: str | None = None
    features: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    sample_weight: str | None = None
    query_weight: str | None = None
    propensity: str | None = None
    margin: str | None = None

    @classmethod
    def split(cls, options: Mapping[str, Any]) -> tuple[Columns, dict[str, Any]]:
        """Return the columns that options name, and the other options.

        Options may also hold a whole choice of columns as ``columns``.
        """
        if "columns" in options:
            return options["columns"], {k: v for k, v in options.items() if k != "columns"}
        names = {field.name for field in fields(cls)}
        chosen = {name: value for name, value in options.items() if name in names}
        for name, value in chosen.items():
            if name in ("features", "ignore"):
                chosen[name] = _several(name, value)
            elif value is not None:
                chosen[name] = str(value)
        return cls(**chosen), {k: value for k, value in options.items() if k not in names}

    def given(self) -> list[str]:
        """Return the names of the attributes that differ from their defaults."""
        return [field.name for field in fields(self) if getattr(self, field.name) != field.default]

    def names(self, name: str) -> bool:
        """Return whether a column of this name has a use other than being a feature by default."""
        uses = [self.label or LABEL, self.qid or QID, self.doc_id, *(self.features or ())]
        return name in [*uses, *self.ignore, *(getattr(self, use) for use in PER_ROW)]

    def choose(self, names: Sequence[str], needs_label: bool = True) -> Chosen:
        """Return the columns of a table with these names, or raise a `DataError`.

        If `needs_label` is false, a table without a column ``label`` has no labels.
        """
        twice = [name for k, name in enumerate(names) if name in names[:k]]
        if twice:
            raise DataError(f"there are several columns {twice[0]!r}; names must differ")
        label = self.label or (LABEL if LABEL in names or needs_label else None)
        qid = self.qid or (QID if QID in names else None)
        per_row = {name: getattr(self, name) for name in PER_ROW if getattr(self, name) is not None}
        others = [name for name in (label, qid, self.doc_id, *per_row.values()) if name is not None]
        for name in (*others, *self.ignore, *(self.features or ())):
            if name not in names:
                raise DataError(no_column(name, names) + self._how_to_name(name, names))
        both = [name for name in self.features or () if name in others]
        if both:
            raise DataError(f"column {both[0]!r} cannot be a feature: it has another use")
        repeated = [name for name, count in Counter(self.features).items() if count > 1]
        if repeated:
            raise DataError(f"features has {repeated[0]!r} several times. Give each column once")
        unused = {*others, *self.ignore}
        candidates = self.features or [name for name in names if not _is_index(name)]
        features = [name for name in candidates if name not in unused]
        if qid is None and self.features is None:
            _check_no_ids(features)
        return Chosen(label, qid, self.doc_id, per_row, features)

    def _how_to_name(self, name: str, names: Sequence[str]) -> str:
        """Return what to do if a column does not exist."""
        if all(map(_is_number, names)):
            return ". These are numbers: add a first line with the names of the columns"
        if name == LABEL and self.label is None:
            return ". Name the column with the labels: label= (--label)"
        return ""


class Chosen(NamedTuple):
    """The columns of a certain table; None for a use that no column has."""

    label: str | None
    qid: str | None
    doc_id: str | None
    per_row: dict[str, str]  #: arguments of `RankingData` with their columns
    features: list[str]

    @property
    def numbers(self) -> list[str]:
        """The columns of labels, weights and other numbers that are not features, each once."""
        found = (self.label, *self.per_row.values())
        return list(dict.fromkeys(name for name in found if name is not None))

    @property
    def others(self) -> list[str]:
        """The columns that are not features, each once."""
        found = (*self.numbers, self.qid, self.doc_id)
        return list(dict.fromkeys(name for name in found if name is not None))


def _is_index(name: object) -> bool:
    """Return whether pandas has written an index under this name: to CSV, or to Parquet."""
    return name == "" or re.fullmatch("__index_level_[0-9]+__", str(name)) is not None


def _several(name: str, value: Any) -> tuple[str, ...] | None:
    if isinstance(value, str):
        raise DataError(f"{name} is {value!r}; expected a list of names, such as [{value!r}]")
    return value if value is None else tuple(map(str, value))


def _check_no_ids(features: Sequence[str]) -> None:
    """Raise a `DataError` if query ids would be a feature, because no column is named qid."""
    for name in features:
        if re.sub("[^a-z]", "", str(name).lower()) in _ID_NAMES:
            raise DataError(
                f"there is no column {QID!r}, but a column {name!r}. If it holds the query ids, "
                f"use qid={name!r} (--qid {name}); otherwise leave it out with ignore=[{name!r}] "
                "(--ignore), or list the features with features= (--features)"
            )


def _is_number(name: object) -> bool:
    try:
        parse_number(str(name))
    except ValueError:
        return False
    return True


def column_names(columns: Sequence[object], whose: str = "X") -> list[str] | None:
    """Return the names of columns as text; None if the columns have numbers instead of names.

    pandas numbers columns without names from 0 on. Any other name, such as the integer 10 or a
    tuple of a MultiIndex, becomes text by `str`. `whose` is what errors call the table.

    Raises
    ------
    DataError
        If two columns have the same name as text, such as 1 and "1".

    Examples
    --------
    >>> column_names([10, 30, 20]), column_names([0, 1, 2])
    (['10', '30', '20'], None)
    """
    names = list(map(str, columns))
    check_unique(names, whose)
    is_numbered = all(
        isinstance(name, int | np.integer) and text == str(k)
        for k, (name, text) in enumerate(zip(columns, names, strict=True))
    )
    return None if is_numbered else names


def check_unique(names: Sequence[str], whose: str = "X") -> None:
    """Raise a `DataError` if two columns have the same name."""
    if len(set(names)) < len(names):
        twice = next(name for k, name in enumerate(names) if name in names[:k])
        raise DataError(
            f"{whose} has several columns {twice!r}, so columns cannot be matched by name. Rename "
            "them, or pass an array."
        )


def no_column(name: str, columns: Sequence[str]) -> str:
    """Return the sentence for a column that does not exist."""
    found = ", ".join(repr(column) for column in list(columns)[:10])
    more = ", …" if len(columns) > 10 else ""
    return f"there is no column {name!r}; the columns are {found}{more}"


def no_numbers(name: str, kind: object) -> str:
    """Return the sentence for a column of features that holds no numbers."""
    weigh = ""
    if str(kind).removeprefix("large_") in ("string", "str"):
        weigh = "Give each value a weight with categories='onehot' (--categories onehot). Or leave"
    return (
        f"column {name!r} holds {kind}; features must be numbers. {weigh or 'Leave'} it out, as "
        f"RankingData.from_frame does with ignore=[{name!r}] (--ignore), or choose the columns "
        "with features= (--features)"
    )


def feature_columns(
    source: str, frame: pd.DataFrame, named: Mapping[str, str | None]
) -> pd.DataFrame:
    """Return the columns of a table that are features, after checking that they hold numbers.

    Parameters
    ----------
    source : str
        Where the table comes from, for errors: a file or a partition.
    frame : DataFrame
    named : dict of str to str or None
        The column of each other argument, such as ``{"y": "label", "qid": None}``.
    """
    if not frame.columns.is_unique:
        twice = frame.columns[frame.columns.duplicated()][0]
        raise DataError(f"{source}: there are several columns {twice!r}; names must differ")
    others = [column for column in named.values() if column is not None]
    missing = [column for column in others if column not in frame]
    if missing:
        raise DataError(f"{source}: {no_column(missing[0], list(frame.columns))}")
    features = frame.drop(columns=others)
    wrong = [c for c in features.columns if features[c].dtype.kind not in "biuf"]
    if wrong:
        raise DataError(f"{source}: {no_numbers(wrong[0], features[wrong[0]].dtype)}")
    return features


def feature_dtype(dtypes: Iterable[object]) -> type[np.floating[Any]]:
    """Return the dtype of X for columns of these dtypes: float32 if all are, otherwise float64."""
    return np.float32 if all(dtype == np.float32 for dtype in dtypes) else np.float64


def row_bytes(dtypes: Mapping[Any, object], others: Iterable[str]) -> int:
    """Return the bytes that the features of one row take in X; `others` are no features."""
    names = set(others)
    features = [dtype for column, dtype in dtypes.items() if column not in names]
    return len(features) * feature_dtype(features)().itemsize
