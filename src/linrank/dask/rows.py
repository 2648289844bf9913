"""The rows of one part of the data, and how a worker joins parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from .._typing import Array, Integers, Mask, Vector
from ..data.checks import (
    Matrix,
    check_finite,
    check_labels,
    check_matrix,
    check_propensity,
    check_rows,
    check_weight,
    group_by_query,
    one_per_query,
    take_rows,
)
from ..data.columns import column_names
from ..data.ids import id_texts, join_strings
from ..data.keys import row_keys
from ..data.ranking import RankingData
from ..errors import DataError

#: What query ids are called in errors, by the kind of their dtype.
ID_KINDS = dict.fromkeys("iuUO", "whole numbers or text") | {"f": "floats"}


@dataclass
class Rows:
    """Checked rows of one part.

    Attributes
    ----------
    X, y, qid : arrays, `qid` may be None
    per_row : dict of str to array
        Weights, margins and propensities, under the names of the arguments of `RankingData`.
    feature_names : list of str or None
    index_base : {0, 1}
    """

    X: Matrix
    y: Vector
    qid: Array | None
    per_row: dict[str, Vector] = field(default_factory=dict)
    feature_names: list[str] | None = None
    index_base: int = 1

    @property
    def n_bytes(self) -> int:
        """The memory that the features take."""
        X = self.X
        if sparse.issparse(X):
            return int(X.data.nbytes + X.indices.nbytes + X.indptr.nbytes)
        return int(X.nbytes)

    def take(self, chosen: Mask) -> Rows:
        """Return the rows for which `chosen` is true."""
        if chosen.all():
            return self
        rows = np.flatnonzero(chosen)
        return replace(
            self,
            X=take_rows(self.X, rows),
            y=self.y[rows],
            qid=None if self.qid is None else self.qid[rows],
            per_row={name: values[rows] for name, values in self.per_row.items()},
        )


class QueryCounts(NamedTuple):
    """The distinct queries of a part, their numbers of documents, and the size of the features."""

    ids: Array
    counts: Integers
    n_bytes: float

    @property
    def n_docs(self) -> int:
        """The number of rows."""
        return int(self.counts.sum())


class Shape(NamedTuple):
    """What a part, or all parts together, look like."""

    n_features: int
    index_base: int
    is_sparse: bool
    dtype: str
    feature_names: list[str] | None
    qid: str | None  #: the kind of the query ids, as in `ID_KINDS`; None without ids
    per_row: tuple[str, ...]  #: names of weights, margins and propensities

    @property
    def has_qid(self) -> bool:
        """Whether the rows have query ids."""
        return self.qid is not None


class PartSummary(NamedTuple):
    """What the client knows about a part that is loaded."""

    queries: QueryCounts
    shape: Shape


def check_part(
    part: str,
    X: Any,
    y: ArrayLike,
    qid: Any = None,
    *,
    feature_names: Sequence[object] | None = None,
    index_base: int = 1,
    **per_row: ArrayLike | None,
) -> Rows:
    """Check the rows of one part; the name `part` begins the message of an error."""
    names = None if feature_names is None else column_names(feature_names, part)
    given = {name: values for name, values in per_row.items() if values is not None}
    if X.shape[0] == 0 and len(np.asarray(y)) == 0:  # A collection may have empty partitions.
        return Rows(np.zeros(X.shape), np.zeros(0), None, {}, names, index_base)
    try:
        X = check_matrix(X)
        n = X.shape[0]
        labels = check_labels(y, n)
        if not np.isfinite(row_keys(X, 1)).all():
            check_finite(X, None)
        checked = {name: _check_numbers(name, values, n) for name, values in given.items()}
        return Rows(X, labels, check_ids(qid, n), checked, names, index_base)
    except DataError as error:
        raise DataError(f"{part}: {error}") from None


def _check_numbers(name: str, values: ArrayLike, n: int) -> Any:
    if name == "propensity":
        return check_propensity(values, n)
    if name == "margin" or not np.any(values):  # The weights of one part may all be zero.
        return check_rows(values, n, name)
    return check_weight(values, n, name)


def check_ids(qid: Any, n: int) -> Array | None:
    """Return query ids as numbers or text, which can be compared with those of other parts."""
    if qid is None:
        return None
    group_by_query(qid, n)  # raises an error for missing or too few ids
    qid = np.asarray(qid)
    return join_strings(id_texts(qid)) if qid.dtype.kind in "OS" else qid


def alike(ids: Sequence[Array]) -> list[Array]:
    """Return ids of several parts as they are if all are of one kind, and otherwise as text.

    Examples
    --------
    >>> [own.tolist() for own in alike([np.array([7]), np.array(["7", "q"])])]
    [['7'], ['7', 'q']]
    """
    kinds = {own.dtype.kind.replace("O", "U") for own in ids}
    return list(ids) if len(kinds) == 1 else [join_strings(id_texts(own)) for own in ids]


def count_queries(qid: Array | None, n_docs: int, n_bytes: float) -> QueryCounts:
    """Count the documents of each query; without ids, all documents belong to one query."""
    ids = np.zeros(n_docs, np.int64) if qid is None else qid
    return QueryCounts(*np.unique(ids, return_counts=True), n_bytes)


def summarize(rows: Rows) -> PartSummary:
    """Return the queries and the shape of a part."""
    shape = Shape(
        n_features=int(rows.X.shape[1]),
        index_base=rows.index_base,
        is_sparse=bool(sparse.issparse(rows.X)),
        dtype=str(rows.X.dtype),
        feature_names=rows.feature_names,
        qid=None if rows.qid is None else ID_KINDS.get(rows.qid.dtype.kind, str(rows.qid.dtype)),
        per_row=tuple(sorted(rows.per_row)),
    )
    return PartSummary(count_queries(rows.qid, len(rows.y), rows.n_bytes), shape)


def combine_shapes(parts: Sequence[PartSummary]) -> Shape:
    """Return the shape of all parts together, with every feature that a part has.

    - LETOR parts may have different numbers of features. One part may start with feature 0 while
      the others show no feature 0.
    - The features are sparse if most rows are.
    - Query ids that are whole numbers in one part and text in another are compared as text. Floats
      do not go together with them, because converting large integers to floats would round them.
    """
    filled = [(shape, queries.n_docs) for queries, shape in parts if queries.n_docs]
    if not filled:
        raise DataError(
            "there are no rows: all parts of the data are empty. Use data with at least one row."
        )
    shapes = [shape for shape, _ in filled]
    first = shapes[0]
    for what in ("feature_names", "qid", "per_row"):
        other = next((s for s in shapes if getattr(s, what) != getattr(first, what)), None)
        if other is not None:
            raise DataError(
                f"the parts of the data do not fit together: {what} is {getattr(first, what)} in "
                f"one part and {getattr(other, what)} in another. Write all parts alike"
            )
    base = min(shape.index_base for shape in shapes)
    n_sparse = sum(n_docs for shape, n_docs in filled if shape.is_sparse)
    return first._replace(
        n_features=max(shape.n_features + shape.index_base - base for shape in shapes),
        index_base=base,
        is_sparse=2 * n_sparse > sum(n_docs for _, n_docs in filled),
        dtype=str(np.result_type(*(np.dtype(shape.dtype) for shape in shapes))),
    )


def join_parts(parts: list[Rows], shape: Shape, n_threads: int) -> RankingData:
    """Join parts into one data set.

    The list is emptied part by part, so that at most one part is in memory twice.
    """
    parts[:] = [part for part in parts if len(part.y)]
    y = np.concatenate([part.y for part in parts])
    qids = [part.qid for part in parts if part.qid is not None]
    qid = np.concatenate(alike(qids)) if shape.has_qid else None
    per_row = {
        name: np.concatenate([part.per_row[name] for part in parts]) for name in shape.per_row
    }
    X = (_join_sparse if shape.is_sparse else _join_dense)(parts, shape, len(y))
    data = RankingData(
        X, y, qid, feature_names=shape.feature_names, index_base=shape.index_base,
        n_threads=n_threads,
    )  # fmt: skip
    # RankingData refuses weights that are all zero, which those of one worker may be. They are
    # therefore set here instead of being passed as arguments.
    if data.order is not None:
        per_row = {name: values[data.order] for name, values in per_row.items()}
    data.weight, data.propensity = per_row.get("sample_weight"), per_row.get("propensity")
    data.margin = per_row.get("margin")
    if "query_weight" in per_row:
        data.query_weight = one_per_query(per_row["query_weight"], data.query_ptr, data.query_ids)
    return data


def _join_dense(parts: list[Rows], shape: Shape, n_docs: int) -> Matrix:
    whole = n_docs, shape.n_features
    if len(parts) == 1 and not sparse.issparse(parts[0].X) and parts[0].X.shape == whole:
        return parts.pop().X.astype(shape.dtype, copy=False)
    X = np.zeros(whole, shape.dtype)  # The system provides pages when they are first written.
    first = 0
    while parts:
        part = parts.pop(0)
        shift, (n, d) = part.index_base - shape.index_base, part.X.shape
        rows = part.X.toarray() if sparse.issparse(part.X) else part.X
        X[first : first + n, shift : shift + d] = rows
        first += n
    return X


def _join_sparse(parts: list[Rows], shape: Shape, n_docs: int) -> Matrix:
    found = []
    while parts:
        part = parts.pop(0)
        X, shift = sparse.csr_array(part.X), part.index_base - shape.index_base
        size = X.shape[0], shape.n_features
        found.append(sparse.csr_array((X.data, X.indices + shift, X.indptr), size))
    return check_matrix(sparse.vstack(found, format="csr").astype(shape.dtype, copy=False))
