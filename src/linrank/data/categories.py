"""`Categories`: columns of text as features.

A ranker needs numbers. A column of text becomes

- a feature for each value, which is 1 for the rows with this value and otherwise 0 (one-hot);
- a feature for each bucket of a hash, if it has many values;
- or one feature that holds codes, for rankers that know features without an order.

The encoding looks at features only, not at labels. The values are those of the training data.
Models keep them, and encode other data in the same way.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal, Self, TypeAlias, get_args

import numpy as np
from scipy import sparse

from .._util.checks import whole_number
from .._util.lazy import lazy_property
from .._util.types import Array, Integers, Vector
from ..errors import DataError
from .ids import Ids, as_text
from .validation import Matrix

Form = Literal["onehot", "hash", "codes"]

BUCKETS = 4096  #: default number of the features of a hashed column; more cause fewer collisions
MOST_BUCKETS = 2**20  #: largest number of the features of a hashed column
MOST_VALUES = 2**16  #: values of a column beyond which one-hot features are an error
#: A matrix stays dense if it has at most this many times as many columns as were given.
DENSE_GROWTH = 4

#: What becomes of columns of text: the name of an encoding, the columns that are read as codes, or
#: the encoding of other data.
CategoriesLike: TypeAlias = "str | Iterable[str | int] | Categories | None"


@dataclass(frozen=True)
class Category:
    """A column of text, and the features that it becomes.

    Attributes
    ----------
    name : str
        The column.
    form : {"onehot", "hash", "codes"}
    values : tuple of str
        The values in the training data in alphabetical order; none if they are hashed.
    n_buckets : int
        The number of buckets of the hash; 0 without a hash.
    has_missing : bool
        Whether a value is missing in the training data. It then has a feature of its own, unless
        the form is codes: the code of a missing value is NaN.

    Examples
    --------
    >>> language = Category("lang", "onehot", ("de", "fr"), has_missing=True)
    >>> language.features
    ['lang=de', 'lang=fr', 'lang is missing']
    >>> language.codes(Ids(np.array(["fr", "it", None], object), np.array([0, 0, 1, 2]))).tolist()
    [1, 1, -1, 2]
    """

    name: str
    form: Form
    values: tuple[str, ...] = ()
    n_buckets: int = 0
    has_missing: bool = False

    @classmethod
    def fitted(cls, name: str, form: Form, n_buckets: int, column: Ids) -> Self:
        """Return the encoding of a column of training data; few values need no hash."""
        known = [value for value in column.values.tolist() if not _is_missing(value)]
        has_missing = len(known) < len(column.values)
        values = tuple(sorted(set(map(as_text, known))))
        if form == "hash":
            if len(values) > n_buckets:
                return cls(name, form, n_buckets=n_buckets, has_missing=has_missing)
            form = "onehot"
        if len(values) > MOST_VALUES:
            raise DataError(
                f"column {name!r} has {len(values):,} values, but at most {MOST_VALUES:,} can have "
                "features of their own. Use categories='hash' (--categories hash), or leave the "
                f"column out with ignore=[{name!r}] (--ignore)"
            )
        return cls(name, form, values, has_missing=has_missing)

    @lazy_property
    def features(self) -> list[str]:
        """The names of the features, in their order."""
        if self.form == "codes":
            return [self.name]
        found = [f"{self.name}={value}" for value in self.values]
        found += [f"{self.name}#{bucket}" for bucket in range(self.n_buckets)]
        return found + [f"{self.name} is missing"] * self.has_missing

    @lazy_property
    def _places(self) -> dict[str, int]:
        return {value: k for k, value in enumerate(self.values)}

    def codes(self, column: Ids) -> Integers:
        """Return the place of each row's value among the features; −1 if it has none."""
        missing = len(self.features) - 1 if self.has_missing and self.form != "codes" else -1

        def find(value: Hashable) -> int:
            if _is_missing(value):
                return missing
            text = as_text(value)
            if self.n_buckets:
                return zlib.crc32(text.encode()) % self.n_buckets
            return self._places.get(text, -1)

        found = np.array(list(map(find, column.values.tolist())), np.int64)
        return found[column.codes]

    def entries(self, column: Ids) -> tuple[Integers, Integers, Vector]:
        """Return rows, features and values of all entries that are not 0."""
        codes = self.codes(column)
        if self.form == "codes":
            rows = np.arange(len(codes))
            is_missing = np.array(list(map(_is_missing, column.values.tolist())), bool)
            return rows, np.zeros_like(rows), np.where(is_missing[column.codes], np.nan, codes)
        rows = np.flatnonzero(codes >= 0)
        return rows, codes[rows], np.ones(len(rows))

    def describe(self) -> dict[str, Any]:
        """Return the encoding as plain data, for model files."""
        return {
            "name": self.name,
            "form": self.form,
            "values": list(self.values),
            "n_buckets": self.n_buckets,
            "has_missing": self.has_missing,
        }

    @classmethod
    def from_description(cls, content: object) -> Self:
        """Make the encoding from the entry of a file; raise a `DataError` if it is damaged."""
        if not isinstance(content, dict) or content.keys() != cls.__dataclass_fields__.keys():
            raise DataError("a category does not have the entries of a category")
        values, form = content["values"], content["form"]
        is_sound = (
            isinstance(content["name"], str) and form in get_args(Form)
            and isinstance(values, list) and all(isinstance(value, str) for value in values)
            and type(content["has_missing"]) is bool and not (form == "hash" and values)
        )  # fmt: skip
        if not is_sound:
            raise DataError("a category has entries of wrong types")
        n_buckets = whole_number("n_buckets", content["n_buckets"], least=0, most=MOST_BUCKETS)
        if (n_buckets > 0) != (form == "hash"):
            raise DataError(f"a category of the form {form} has {n_buckets} buckets")
        return cls(content["name"], form, tuple(values), n_buckets, content["has_missing"])


def _is_missing(value: Any) -> bool:
    return value is None or value != value


@dataclass(frozen=True)
class Categories:
    """The columns of text of some data, and the features that they become.

    Attributes
    ----------
    columns : tuple of Category

    Examples
    --------
    >>> categories = Categories((Category("lang", "onehot", ("de", "fr")),))
    >>> categories.names(["price", "lang"])
    ['price', 'lang=de', 'lang=fr']
    >>> categories.given(["price", "lang=de", "lang=fr"])
    ['price', 'lang']
    """

    columns: tuple[Category, ...] = ()

    @lazy_property
    def texts(self) -> list[str]:
        """The names of the columns of text."""
        return [column.name for column in self.columns]

    def names(self, given: Sequence[str]) -> list[str]:
        """Return the names of the features, for the names of all given columns."""
        own = {column.name: column.features for column in self.columns}
        return [feature for name in given for feature in own.get(name, [name])]

    def given(self, features: Sequence[str]) -> list[str]:
        """Return the names of the given columns, for the names of all features."""
        origin = {one: column.name for column in self.columns for one in column.features}
        return list(dict.fromkeys(origin.get(name, name) for name in features))

    def of_form(self, features: Sequence[str], *forms: Form) -> Integers:
        """Return the numbers of the features whose columns have one of some forms."""
        own = {one for column in self.columns if column.form in forms for one in column.features}
        return np.array([f for f, name in enumerate(features) if name in own], np.int64)

    def tests(self, features: Sequence[str]) -> dict[int, tuple[str, str | None]]:
        """Return column and value of the features that are 1 for a value; None if it is missing."""
        place = {name: f for f, name in enumerate(features)}
        return {
            place[name]: (column.name, value)
            for column in self.columns if column.form == "onehot"
            for name, value in zip(column.features, (*column.values, None), strict=False)
        }  # fmt: skip

    def coded(self, features: Sequence[str]) -> dict[int, tuple[str, ...]]:
        """Return the values that the codes of features stand for."""
        place = {name: f for f, name in enumerate(features)}
        return {place[own.name]: own.values for own in self.columns if own.form == "codes"}

    def shown(self, rows: Array, features: Sequence[str]) -> Array:
        """Return rows with texts in place of their codes; codes of no value stay numbers."""
        coded = self.coded(features)
        if not coded:
            return rows
        rows = rows.astype(object)
        for j, values in coded.items():
            rows[:, j] = [
                values[int(code)] if 0 <= code < len(values) else code for code in rows[:, j]
            ]
        return rows

    def matrix(self, X: Matrix, given: Sequence[str], columns: Mapping[str, Ids]) -> Matrix:
        """Return the features of some rows.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_rows, n_numbers)
            The given columns that are no text.
        given : sequence of str
            The names of all given columns, in their order.
        columns : mapping
            The values of the columns of text.
        """
        if not self.columns:
            return X
        own = {column.name: column for column in self.columns}
        widths = [len(own[name].features) if name in own else 1 for name in given]
        *starts, n_features = np.cumsum([0, *widths]).tolist()
        places = np.array(
            [k for k, name in zip(starts, given, strict=True) if name not in own], int
        )
        entries = [
            (rows, start + offsets, values)
            for start, name in zip(starts, given, strict=True) if name in own
            for rows, offsets, values in [own[name].entries(columns[name])]
        ]  # fmt: skip
        shape = X.shape[0], n_features
        if not sparse.issparse(X) and n_features <= DENSE_GROWTH * len(given):
            out = np.zeros(shape, X.dtype)
            out[:, places] = X
            for rows, features, values in entries:
                out[rows, features] = values
            return out
        X = sparse.csr_array(X)
        found = sparse.csr_array((X.data, places[X.indices], X.indptr), shape=shape)
        for rows, features, values in entries:
            found += sparse.csr_array((values.astype(X.dtype), (rows, features)), shape=shape)
        return found

    def describe(self) -> list[dict[str, Any]]:
        """Return the encoding as plain data, for files."""
        return [column.describe() for column in self.columns]

    @classmethod
    def from_description(cls, content: object, features: Sequence[str] | None) -> Self:
        """Make the encoding from the entry of a file; `features` are all names in the file."""
        if not isinstance(content, list):
            raise DataError("categories is not a list")
        found = cls(tuple(map(Category.from_description, content)))
        known = set(features or ())
        for column in found.columns:
            if column.n_buckets > len(known) or not known.issuperset(column.features):
                raise DataError(f"category {column.name[:40]!r} has features that do not exist")
        return found


# --------------------------------------------------------------------------------------------------
# What a caller asks for.


def chosen_form(wanted: str | Iterable[str | int]) -> tuple[Form, int]:
    """Return the form of features that a caller asks for, and the number of buckets of a hash.

    Examples
    --------
    >>> chosen_form("onehot"), chosen_form("hash:64"), chosen_form(["language"])
    (('onehot', 0), ('hash', 64), ('codes', 0))
    """
    if not isinstance(wanted, str):
        return "codes", 0
    name, colon, number = wanted.partition(":")
    if name == "onehot" and not colon:
        return "onehot", 0
    n_buckets = int(number) if number.isdecimal() else 0 if colon else BUCKETS
    if name == "hash" and 0 < n_buckets <= MOST_BUCKETS:
        return "hash", n_buckets
    raise DataError(
        f"categories is {wanted!r}; expected 'onehot', 'hash', 'hash:BUCKETS' with at most "
        f"{MOST_BUCKETS:,} buckets, or a list of features"
    )


def chosen_texts(
    wanted: CategoriesLike, given: Sequence[str], find_texts: Callable[[], list[str]]
) -> list[str]:
    """Return the columns that become categories, of the columns with the given names.

    `find_texts` returns all columns of text.
    """
    if wanted is None:
        return []
    if isinstance(wanted, Categories):
        return [name for name in wanted.texts if name in given]
    if isinstance(wanted, str):
        chosen_form(wanted)
        return find_texts()
    numbered = dict(enumerate(given))
    listed = {numbered.get(one, one) if isinstance(one, Integral) else one for one in wanted}
    return [name for name in find_texts() if name in listed]


def fit_categories(wanted: CategoriesLike, columns: Mapping[str, Ids]) -> Categories:
    """Return the encoding of columns of text."""
    if isinstance(wanted, Categories):
        return wanted
    if not columns or wanted is None:
        return Categories()
    form, n_buckets = chosen_form(wanted)
    return Categories(
        tuple(Category.fitted(name, form, n_buckets, own) for name, own in columns.items())
    )
