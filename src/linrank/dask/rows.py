"""The rows of one part of the data, and how parts are put together on a worker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

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
from ..data.ranking import RankingData, row_keys
from ..errors import DataError

#: What ids are, by the kind of their type.
ID_KINDS = {"i": "whole numbers", "u": "unsigned whole numbers", "f": "floats", "U": "text"}


@dataclass
class Rows:
    """Checked rows of one part; ``more`` are one number per row, as `RankingData` names them."""

    X: Matrix
    y: NDArray[np.float64]
    qid: NDArray[Any] | None
    more: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    feature_names: list[str] | None = None
    index_base: int = 1

    @property
    def n_bytes(self) -> int:
        """What the features take in memory."""
        X = self.X
        if sparse.issparse(X):
            return int(X.data.nbytes + X.indices.nbytes + X.indptr.nbytes)
        return int(X.nbytes)

    def take(self, chosen: NDArray[np.bool_]) -> Rows:
        """Those rows for which `chosen` is true."""
        if chosen.all():
            return self
        rows = np.flatnonzero(chosen)
        return replace(
            self,
            X=take_rows(self.X, rows),
            y=self.y[rows],
            qid=None if self.qid is None else self.qid[rows],
            more={name: values[rows] for name, values in self.more.items()},
        )


class Census(NamedTuple):
    """The queries of a part, once each, their documents, and what the features of all take."""

    ids: NDArray[Any]
    counts: NDArray[np.int64]
    n_bytes: float

    @property
    def n_docs(self) -> int:
        """The number of rows."""
        return int(self.counts.sum())


class Shape(NamedTuple):
    """What the features of a part are, or of all parts once they are put together."""

    n_features: int
    index_base: int
    is_sparse: bool
    dtype: str
    feature_names: list[str] | None
    qid: str | None  #: what the ids are, if there are any
    names: tuple[str, ...]

    @property
    def has_qid(self) -> bool:
        """Whether the rows say which query they belong to."""
        return self.qid is not None


class Survey(NamedTuple):
    """What is known of a part when its rows are there."""

    census: Census
    shape: Shape


def check_part(
    part: str,
    X: Any,
    y: Any,
    qid: Any = None,
    *,
    feature_names: Sequence[str] | None = None,
    index_base: int = 1,
    **more: Any,
) -> Rows:
    """Check the rows of one part, whose name stands before the sentence of an error."""
    names = None
    if feature_names is not None and all(isinstance(name, str) for name in feature_names):
        names = list(feature_names)
    more = {name: values for name, values in more.items() if values is not None}
    if X.shape[0] == 0 and len(y) == 0:  # partitions of a collection may be empty
        return Rows(np.zeros(X.shape), np.zeros(0), None, {}, names, index_base)
    try:
        X = check_matrix(X)
        n = X.shape[0]
        y = check_labels(y, n)
        if not np.isfinite(row_keys(X, 1)).all():
            check_finite(X, None)
        given = {name: _check_numbers(name, values, n) for name, values in more.items()}
        return Rows(X, y, check_ids(qid, n), given, names, index_base)
    except DataError as error:
        raise DataError(f"{part}: {error}") from None


def _check_numbers(name: str, values: Any, n: int) -> Any:
    if name == "propensity":
        return check_propensity(values, n)
    if name == "margin" or not np.any(values):  # of weights, a part may be all zeros
        return check_rows(values, n, name)
    return check_weight(values, n, name)


def check_ids(qid: Any, n: int) -> NDArray[Any] | None:
    """Ids that can be sorted and compared with those of other parts: numbers or strings."""
    if qid is None:
        return None
    group_by_query(qid, n)  # refuses ids that are missing or too few
    qid = np.asarray(qid)
    return qid.astype(str) if qid.dtype.kind in "OS" else qid


def count(qid: NDArray[Any] | None, n_docs: int, n_bytes: float) -> Census:
    """Count the documents of each query; without ids there is one."""
    ids = np.zeros(n_docs, np.int64) if qid is None else qid
    return Census(*np.unique(ids, return_counts=True), n_bytes)


def survey(rows: Rows) -> Survey:
    """Sum up a part."""
    shape = Shape(
        n_features=int(rows.X.shape[1]),
        index_base=rows.index_base,
        is_sparse=bool(sparse.issparse(rows.X)),
        dtype=str(rows.X.dtype),
        feature_names=rows.feature_names,
        qid=None if rows.qid is None else ID_KINDS.get(rows.qid.dtype.kind, str(rows.qid.dtype)),
        names=tuple(sorted(rows.more)),
    )
    return Survey(count(rows.qid, len(rows.y), rows.n_bytes), shape)


def agree(surveys: Sequence[Survey]) -> Shape:
    """The shape of all parts together: every feature that one of them has.

    LETOR parts differ in how many features they show, and one may count them from 0 where the
    others do not show number 0. Features are sparse where most rows are. Ids must be of one kind:
    7 and 007 are one query as numbers, and two as text, and large numbers are not to be rounded.
    """
    parts = [(shape, census.n_docs) for census, shape in surveys if census.n_docs]
    if not parts:
        raise DataError("there are no rows: all parts are empty")
    shapes = [shape for shape, _ in parts]
    first = shapes[0]
    for what in ("feature_names", "qid", "names"):
        other = next((s for s in shapes if getattr(s, what) != getattr(first, what)), None)
        if other is not None:
            raise DataError(
                f"the parts do not fit together: {what} is {getattr(first, what)} in one and "
                f"{getattr(other, what)} in another"
            )
    base = min(shape.index_base for shape in shapes)
    n_sparse = sum(n_docs for shape, n_docs in parts if shape.is_sparse)
    return first._replace(
        n_features=max(shape.n_features + shape.index_base - base for shape in shapes),
        index_base=base,
        is_sparse=2 * n_sparse > sum(n_docs for _, n_docs in parts),
        dtype=str(np.result_type(*(np.dtype(shape.dtype) for shape in shapes))),
    )


def join(parts: list[Rows], shape: Shape, n_threads: int) -> RankingData:
    """Put parts together; the list is emptied on the way, so that no row is held twice for long."""
    parts[:] = [part for part in parts if len(part.y)]
    y = np.concatenate([part.y for part in parts])
    qid = np.concatenate([part.qid for part in parts]) if shape.has_qid else None
    more = {name: np.concatenate([part.more[name] for part in parts]) for name in shape.names}
    X = (_join_sparse if shape.is_sparse else _join_dense)(parts, shape, len(y))
    data = RankingData(
        X, y, qid, feature_names=shape.feature_names, index_base=shape.index_base,
        n_threads=n_threads,
    )  # fmt: skip
    # Not arguments, because weights may be all zeros here where they are not elsewhere.
    if data.order is not None:
        more = {name: values[data.order] for name, values in more.items()}
    data.weight, data.propensity = more.get("sample_weight"), more.get("propensity")
    data.margin = more.get("margin")
    if "query_weight" in more:
        data.query_weight = one_per_query(more["query_weight"], data.query_ptr, data.query_ids)
    return data


def _join_dense(parts: list[Rows], shape: Shape, n_docs: int) -> Matrix:
    whole = n_docs, shape.n_features
    if len(parts) == 1 and not sparse.issparse(parts[0].X) and parts[0].X.shape == whole:
        return parts.pop().X.astype(shape.dtype, copy=False)
    X = np.zeros(whole, shape.dtype)  # pages come when they are written to
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
