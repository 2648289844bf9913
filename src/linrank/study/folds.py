"""Data sets of a study: folds with training, validation and test parts, read one at a time."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from .._util.types import Integers
from ..data.formats import load
from ..data.ranking import RankingData, row_keys
from ..data.source import Fold as Files
from ..data.source import find_fold
from ..data.store import is_store
from ..errors import DataError, FileFormatError, SplitQueriesWarning, prefix_errors, warn
from ..training.selection import query_folds

DEFAULT_FOLDS = 5  #: folds of data that are given as one part
NAMED = 5  #: queries that an error names
PARTS = ("train", "valid", "test")
WORDS = ("training", "validation", "test")  #: the parts in sentences
MISSING: dict[str, Any] = {"allow_missing": True}  #: missing values are left to the rankers

Read = Callable[..., RankingData]  #: reads a file, as `linrank.load` does


class Lines(NamedTuple):
    """The place of each document of a test part in data of `n_docs` documents, as given."""

    places: Integers
    n_docs: int


Parts = tuple[str, RankingData, RankingData, RankingData]  #: name, training, validation, test


@dataclass(frozen=True)
class FoldData:
    """One fold of a data set, with the hash of its content.

    `lines` says where the test part is in data that were split into folds.
    """

    data: str
    fold: str
    train: RankingData
    valid: RankingData
    test: RankingData
    digest: str
    lines: Lines | None = None

    @property
    def parts(self) -> tuple[RankingData, RankingData, RankingData]:
        """Training, validation and test data."""
        return self.train, self.valid, self.test


@dataclass(frozen=True)
class DataSet:
    """A data set of a study.

    Attributes
    ----------
    name : str
        The name in tables and pictures.
    source : path-like, RankingData, data frame, or list of (train, valid, test)
        A folder with folds of LETOR data (``Fold1``, …), a folder with one fold, a file or store,
        or data in memory.
    n_folds : int
        The number of folds of queries of data that are given as one part.
    n_features : int, optional
        The number of features of LETOR text whose last features may not occur.
    options : mapping, optional
        Options of `linrank.load`, such as the names of columns.

    Examples
    --------
    >>> from linrank import make_ranking
    >>> from linrank.study import DataSet
    >>> data = make_ranking(n_queries=30, random_state=0)
    >>> [(fold.fold, fold.test.n_queries) for fold in DataSet("made", data, n_folds=3).folds()]
    [('Fold1', 10), ('Fold2', 10), ('Fold3', 10)]
    """

    name: str
    source: Any
    n_folds: int = DEFAULT_FOLDS
    n_features: int | None = None
    options: Any = None

    def folds(self) -> Iterator[FoldData]:
        """Read the folds one at a time, and check them."""
        n_features: tuple[str, int] | None = None
        warned = False
        for (fold, train, valid, test), lines in self._parts():
            self._check_features(fold, train, valid, test)
            if n_features is not None and n_features[1] != train.n_features:
                raise DataError(
                    f"{self.name}: {n_features[0]} has {n_features[1]} features, but {fold} has "
                    f"{train.n_features}. Use files with the same features; if the last features "
                    f"are 0, say how many there are (--n-features "
                    f"{max(n_features[1], train.n_features)})."
                )
            n_features = fold, train.n_features
            said = check_overlap(f"{self.name}, {fold}", train, valid, test)
            if said and not warned:  # the other folds are usually numbered in the same way
                warn(said, SplitQueriesWarning)
                warned = True
            digest = digest_of([train, valid, test])
            yield FoldData(self.name, fold, train, valid, test, digest, lines)

    def _parts(self) -> Iterator[tuple[Parts, Lines | None]]:
        if isinstance(self.source, list | tuple):
            for number, parts in enumerate(self.source, 1):
                if not isinstance(parts, list | tuple) or len(parts) != 3:
                    raise DataError(
                        f"{self.name}: fold {number} is not a tuple of training, validation and "
                        f"test data. Pass a list of such tuples, with a name: "
                        f"{{{self.name!r}: [(train, valid, test)]}}."
                    )
                train, valid, test = map(self._as_data, parts)
                yield (f"Fold{number}", train, valid, test), None
        elif isinstance(self.source, str | os.PathLike):
            yield from self._read(Path(self.source))
        else:
            yield from self._split(self._as_data(self.source))

    def _as_data(self, source: Any) -> RankingData:
        """Return data that are given as such, as a data frame, or as a file."""
        if isinstance(source, RankingData):
            return self._with_labels(source)
        if isinstance(source, str | os.PathLike):
            return self._load(Path(source))
        return RankingData.from_frame(source, **MISSING | dict(self.options or {}))

    def _read(self, path: Path) -> Iterator[tuple[Parts, Lines | None]]:
        files = list_folds(path)
        if files is None:
            yield from self._split(self._load(path))
            return
        for fold, found in files.items():
            train = self._load(found.train)
            like = {"n_features": train.n_features, "index_base": train.index_base,
                    "categories": train.categories}  # fmt: skip
            assert found.valid is not None
            assert found.test is not None
            valid, test = self._load(found.valid, **like), self._load(found.test, **like)
            yield (fold, train, valid, test), None

    def _split(self, data: RankingData) -> Iterator[tuple[Parts, Lines]]:
        with prefix_errors(self.name):
            yield from split_lines(data, self.n_folds)

    def _load(self, path: Path, **like: Any) -> RankingData:
        more = {} if self.n_features is None else {"n_features": self.n_features}
        return self._with_labels(load(path, **MISSING | more | dict(self.options or {}) | like))

    def _with_labels(self, data: RankingData) -> RankingData:
        """Refuse data with listed pairs, which have no labels that metrics could use."""
        if data.pairs is not None:
            raise DataError(
                f"{self.name}: the data have listed pairs instead of labels, which no metric of a "
                "study can measure. Use data with labels."
            )
        return data

    def _check_features(self, fold: str, train: RankingData, *others: RankingData) -> None:
        for part, data in zip(WORDS[1:], others, strict=True):
            if data.n_features != train.n_features:
                raise DataError(
                    f"{self.name}, {fold}: the {part} part has {data.n_features} features, but the "
                    f"training part has {train.n_features}. Use the same features in all parts."
                )
            if data.feature_names != train.feature_names:
                raise DataError(
                    f"{self.name}, {fold}: the {part} part has other feature names than the "
                    "training part. Use the same features in all parts."
                )


def list_folds(path: Path) -> dict[str, Files] | None:
    """Return the files of each fold of a folder; None for a file, a store or a folder of parts.

    Raises
    ------
    FileFormatError
        If a fold has no training, validation or test file.
    """
    if not path.is_dir() or is_store(path):
        return None
    inner = sorted(
        (folder for folder in path.iterdir() if folder.is_dir() and folder.name[0] not in "._"),
        key=lambda folder: (len(folder.name), folder.name),
    )
    found = {path.name: find_fold(path)}
    if found[path.name] is None:
        found = {folder.name: find_fold(folder) for folder in inner if not is_store(folder)}
        if all(files is None for files in found.values()):
            return None
    for fold, files in found.items():
        for part, file in zip(WORDS, files or (None, None, None), strict=True):
            if file is None:
                where = path if fold == path.name else path / fold
                raise FileFormatError(
                    f"{where}: the fold has no {part} file. Each fold of a study needs a training, "
                    "a validation and a test file, such as train.txt, vali.txt and test.txt."
                )
    return {fold: files for fold, files in found.items() if files is not None}


def split(data: RankingData, n_folds: int) -> Iterator[Parts]:
    """Split data into folds of queries as LETOR does: one part for test, the next for validation.

    Examples
    --------
    >>> from linrank import make_ranking
    >>> folds = list(split(make_ranking(n_queries=10, random_state=0), 5))
    >>> [part.n_queries for part in folds[0][1:]]
    [6, 2, 2]
    """
    for parts, _ in split_lines(data, n_folds):
        yield parts


def split_lines(data: RankingData, n_folds: int) -> Iterator[tuple[Parts, Lines]]:
    """Split data as `split` does, and say where the documents of the test parts were."""
    if n_folds < 3:
        raise DataError(
            f"a study needs at least 3 folds, because training, validation and test data differ; "
            f"the number of folds is {n_folds}"
        )
    places = np.arange(data.n_docs) if data.order is None else data.order
    tests: list[Integers] = [test for _, test in query_folds(data, n_folds)]
    for k, test in enumerate(tests):
        valid = tests[(k + 1) % n_folds]
        rest = np.ones(data.n_docs, dtype=bool)
        rest[test] = rest[valid] = False
        train, valid, test = np.flatnonzero(rest), np.sort(valid), np.sort(test)
        parts = f"Fold{k + 1}", _take(data, train), _take(data, valid), _take(data, test)
        yield parts, Lines(places[test], data.n_docs)


def _take(data: RankingData, rows: Integers) -> RankingData:
    """Return some rows, which remember their order in the file, as score files have it."""
    part = data.take(rows)
    if data.order is None:
        return part
    return part.replace(order=np.argsort(np.argsort(data.order[rows])))


def check_overlap(where: str, *parts: RankingData) -> str:
    """Raise a `DataError` that names queries with the same documents in two parts of a fold.

    Parts of some data sets number their queries from 1 on. If ids are equal but documents are not,
    return a sentence for a warning; otherwise the sentence is empty.
    """
    said = ""
    for (first, a), (second, b) in combinations(zip(WORDS, parts, strict=True), 2):
        if a.n_queries == 1 and b.n_queries == 1:  # documents of one query, as for AUC
            continue
        same = shared_queries(a, b)
        if same:
            shown = ", ".join(same[:NAMED]) + (", …" if len(same) > NAMED else "")
            raise DataError(
                f"{where}: the {second} part and the {first} part share documents of "
                f"{f'{len(same):,} queries' if len(same) > 1 else 'the query'}: {shown}. Move each "
                "query to one part."
            )
        ids = set(map(str, a.query_ids)) & set(map(str, b.query_ids))
        if ids and not said:
            said = (
                f"{where}: {len(ids):,} query ids are in the {first} and in the {second} part, "
                f"such as {min(ids)}. Their documents differ, so they count as different queries."
            )
    return said


def shared_queries(a: RankingData, b: RankingData) -> list[str]:
    """Return the ids of queries of b that are in a, too, at least in part.

    Documents are equal if their features are equal and not all 0. Queries are the same if all of
    their documents are equal, or if they have the same id and share half of their documents.

    Examples
    --------
    >>> a = RankingData([[1.0], [2.0], [3.0]], [0, 1, 0], qid=["x", "x", "y"])
    >>> b = RankingData([[2.0], [5.0], [6.0]], [0, 1, 0], qid=["x", "x", "z"])
    >>> shared_queries(a, b)
    ['x']
    """
    whole = {key for key in a.query_keys.tolist() if key > 0}
    sizes = np.diff(b.query_ptr)
    found = {
        str(b.query_ids[q]) for q in np.flatnonzero(sizes > 1) if float(b.query_keys[q]) in whole
    }
    names = {str(name): q for q, name in enumerate(a.query_ids)}
    both = [(str(name), q) for q, name in enumerate(b.query_ids) if str(name) in names]
    if both:
        keys_a, keys_b = (row_keys(data.X, has_missing=data.has_missing) for data in (a, b))
        for name, q in both:
            p = names[name]
            rows_a = keys_a[a.query_ptr[p] : a.query_ptr[p + 1]]
            rows_b = keys_b[b.query_ptr[q] : b.query_ptr[q + 1]]
            n_shared = np.count_nonzero(np.isin(rows_b, rows_a) & (rows_b > 0))
            if n_shared and 2 * n_shared >= min(len(rows_a), len(rows_b)):
                found.add(name)
    return sorted(found)


def digest_of(parts: Sequence[RankingData]) -> str:
    """Return a hash of all that a fit, an evaluation and a report can depend on.

    Examples
    --------
    >>> from linrank import make_ranking
    >>> one, other = make_ranking(random_state=0), make_ranking(random_state=1)
    >>> digest_of([one]) == digest_of([one]), digest_of([one]) == digest_of([other])
    (True, False)
    """
    found = hashlib.blake2b(digest_size=16)
    for data in parts:
        X = data.X
        arrays = [X.indptr, X.indices, X.data] if sparse.issparse(X) else [X]
        arrays += [data.y, data.query_ptr, data.weight, data.query_weight, data.propensity]
        arrays += [data.margin, data.order]
        texts = [list(map(str, data.query_ids)), data.doc_ids, data.feature_names, X.shape,
                 data.index_base]  # fmt: skip
        for array in arrays:
            found.update(b"none" if array is None else str(array.dtype).encode())
            if array is not None:
                found.update(np.ascontiguousarray(array).data)
        found.update(json.dumps(texts).encode())
    return found.hexdigest()
