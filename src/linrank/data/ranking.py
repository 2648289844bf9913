"""`RankingData`: documents grouped by query, checked once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from .._typing import Array, Integers, Vector
from ..errors import DataError
from .checks import (
    Grouping,
    Matrix,
    check_finite,
    check_labels,
    check_propensity,
    check_rows,
    check_weight,
    group_by_query,
    holds_missing,
    one_per_query,
    take_rows,
)
from .columns import Columns
from .frames import checked_matrix, read_frame
from .keys import query_keys
from .pairs import GivenPairs, Pairs, connected_rows, listed_pairs
from .text import TextColumn, comment_column


class RankingData:
    """Documents with features, labels and queries, in which the rows of a query are adjacent.

    If the rows that the caller gives are not grouped by query, they are reordered by a stable sort.
    `restore` brings values computed for these rows back into the caller's order.

    Parameters
    ----------
    X : array, sparse matrix or data frame of shape (n_docs, n_features)
        float32 is kept; all other types become float64. Sparse matrices become CSR. The columns of
        a data frame (pandas, polars, pyarrow and others) name the features.
    y : array of shape (n_docs,)
        Labels: any finite real numbers; larger means more relevant.
    qid : array of shape (n_docs,), optional
        The query of each document: integers, strings or other hashable values, in any order.
        If None, all documents belong to one query.
    doc_ids : sequence of str, optional
        An identifier for each document.
    comments : TextColumn or sequence of str, optional
        The text behind ``#`` in a LETOR line, which may contain document ids. Give either this
        or `doc_ids`.
    feature_names : sequence of str, optional
        One name per feature; by default the columns of a data frame.
    index_base : {0, 1}
        The index of the first feature in LETOR files; 1 in the LETOR data sets.
    sample_weight : array of shape (n_docs,), optional
        Weight of each document. The weight of a pair is the product of the weights of its query
        and of its two documents.
    query_weight : array of shape (n_docs,), optional
        Weight of each document's query; all documents of a query must have the same value.
    propensity : array of shape (n_docs,), optional
        The probability that a user examined the document. The weight of a pair is divided by the
        propensity of its preferred document, as in counterfactual learning from clicks.
    margin : array of shape (n_docs,), optional
        The required score difference of a pair (i, j) is margin_i − margin_j instead of 1.
    n_threads : int, optional
        Threads for the check of X; by default all cores.
    allow_missing : bool
        Whether X may hold NaN, which stands for a missing value. Infinite values are an error.

    Attributes
    ----------
    X, y : arrays, grouped by query
    weight, propensity, margin : float64 arrays of shape (n_docs,) or None
    pairs : GivenPairs or None
        Explicit preferences, which replace the labels (see `from_pairs`).
    query_weight : float64 array of shape (n_queries,) or None
    query_ptr : int64 array of shape (n_queries + 1,)
        The rows of query q are ``query_ptr[q]:query_ptr[q + 1]``.
    query_ids : array of shape (n_queries,)
        The caller's id of each query.
    order : int64 array or None
        Row r was the caller's row ``order[r]``; None if the rows were not reordered.
    query_keys : float64 array of shape (n_queries,)
        A hash of the features of each query. It identifies queries by content, whatever the order
        of the rows and the type of `qid`. Missing values count as 0.
    has_missing : bool
        Whether X holds NaN.
    n_read : int or None
        The number of features that occur in the text file that the data come from.

    Examples
    --------
    >>> import numpy as np
    >>> data = RankingData(np.eye(3), [1, 0, 2], qid=["a", "b", "a"])
    >>> data.qid.tolist(), data.y.tolist()
    (['a', 'a', 'b'], [1.0, 2.0, 0.0])
    >>> data.restore(data.y).tolist(), data.take(np.arange(2)).query_ids.tolist()
    ([1.0, 0.0, 2.0], ['a'])
    """

    def __init__(
        self,
        X: Any,
        y: ArrayLike,
        qid: Any = None,
        *,
        doc_ids: Sequence[str] | None = None,
        comments: TextColumn | Sequence[str] | None = None,
        feature_names: Sequence[str] | None = None,
        index_base: int = 1,
        sample_weight: ArrayLike | None = None,
        query_weight: ArrayLike | None = None,
        propensity: ArrayLike | None = None,
        margin: ArrayLike | None = None,
        n_threads: int | None = None,
        allow_missing: bool = False,
    ) -> None:
        X, names = checked_matrix(X, feature_names)
        y = check_labels(y, X.shape[0])
        # A reader of files knows the grouping before it fills X, and fills X in its order.
        is_ordered = isinstance(qid, Grouping)
        query_ptr, query_ids, order = qid if is_ordered else group_by_query(qid, X.shape[0])
        column = comment_column(doc_ids, comments, X.shape[0])
        weight = check_weight(sample_weight, X.shape[0], "sample_weight")
        row_weight = check_weight(query_weight, X.shape[0], "query_weight")
        propensity = check_propensity(propensity, X.shape[0])
        margin = check_rows(margin, X.shape[0], "margin")
        if order is not None:
            X, y = X if is_ordered else take_rows(X, order), y[order]
            column = None if column is None else column.take(order)
            weight, row_weight = _reordered(weight, order), _reordered(row_weight, order)
            propensity, margin = _reordered(propensity, order), _reordered(margin, order)
        self.X: Matrix = X
        self.y: Vector = y
        self.query_ptr: Integers = query_ptr
        self.query_ids: Array = query_ids
        self.order: Integers | None = order
        self.comments: TextColumn | None = column
        self.feature_names: list[str] | None = names
        self.index_base = index_base
        self.weight: Vector | None = weight
        self.propensity: Vector | None = propensity
        self.margin: Vector | None = margin
        self.pairs: GivenPairs | None = None
        self.n_read: int | None = None
        self.query_weight: Vector | None = None
        if row_weight is not None:
            self.query_weight = one_per_query(row_weight, query_ptr, query_ids)
        self.has_missing = False
        self.query_keys: Vector = query_keys(X, query_ptr, n_threads)
        if not np.isfinite(self.query_keys).all():
            check_finite(X, order, names, allow_missing)
            self.has_missing = holds_missing(X)
            self.query_keys = query_keys(X, query_ptr, n_threads, self.has_missing)

    @classmethod
    def from_parts(cls, **parts: Any) -> RankingData:
        """Make data from attributes that are valid and grouped by query, without any check."""
        self = cls.__new__(cls)
        optional = ("order", "comments", "feature_names", "weight", "query_weight",
                    "propensity", "margin", "pairs")  # fmt: skip
        usual = dict.fromkeys((*optional, "n_read")) | {"index_base": 1, "has_missing": False}
        self.__dict__.update(usual | parts)
        return self

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        label: str | None = None,
        qid: str | None = None,
        doc_id: str | None = None,
        features: Sequence[str] | None = None,
        ignore: Sequence[str] = (),
        sample_weight: str | None = None,
        query_weight: str | None = None,
        propensity: str | None = None,
        margin: str | None = None,
        allow_missing: bool = False,
        n_threads: int | None = None,
    ) -> RankingData:
        """Make data from the columns of a data frame, whose names are kept.

        Parameters
        ----------
        frame : data frame
            Of pandas, polars (eager or lazy), pyarrow, or any other library that narwhals knows or
            that implements the Arrow or the dataframe interchange protocol.
            Levels of a pandas index that are named like a column with a use are columns. Ids that
            are text become integers if each is the canonical form of one, as 7 is and 007 is not.
        label : str, optional
            The column with the labels; by default ``label``.
        qid : str, optional
            The column with the query ids; by default ``qid``. Without it, all documents belong to
            one query.
        doc_id : str, optional
            The column with identifiers of documents.
        features : sequence of str, optional
            The columns with the features; by default all columns that have no other use.
        ignore : sequence of str
            Columns that are not features.
        sample_weight, query_weight, propensity, margin : str, optional
            Columns with these numbers; see `RankingData`.
        allow_missing : bool
            Whether features may be NaN or null. Both become NaN in X.

        Examples
        --------
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"grade": [1, 0], "query": ["a", "a"], "bm25": [0.5, 0.25]})
        >>> data = RankingData.from_frame(frame, label="grade", qid="query")
        >>> data.feature_names, data.X.tolist()
        (['bm25'], [[0.5], [0.25]])
        """
        columns, _ = Columns.split(
            {"label": label, "qid": qid, "doc_id": doc_id, "features": features, "ignore": ignore,
             "sample_weight": sample_weight, "query_weight": query_weight,
             "propensity": propensity, "margin": margin}
        )  # fmt: skip
        X, names, (y, ids, doc_ids, per_row) = read_frame(frame, columns)
        return cls(
            X, y, ids, doc_ids=doc_ids,  # type: ignore[arg-type]
            feature_names=names, n_threads=n_threads,
            allow_missing=allow_missing, **per_row,
        )  # fmt: skip

    @classmethod
    def from_pairs(
        cls,
        X: Any,
        pairs: ArrayLike | Pairs,
        pair_weight: ArrayLike | None = None,
        margin: ArrayLike | None = None,
        *,
        feature_names: Sequence[str] | None = None,
        n_threads: int | None = None,
        allow_missing: bool = False,
        items: Sequence[Any] | None = None,
    ) -> RankingData:
        """Make data from explicit preferences between documents, without labels.

        Each connected component of the graph of preferences is a query.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_docs, n_features)
        pairs : integer array of shape (n_pairs, 2), array of names, Pairs or frame
            Row numbers of X, or names if `items` is given; the first row of each pair is preferred
            to the second. A frame has columns with the names that `read_pairs` knows.
        pair_weight : array of shape (n_pairs,), optional
            By default, the weights of a `Pairs` or of a frame, or 1.
        margin : array of shape (n_pairs,), optional
            The required difference of the two scores; by default that of a `Pairs`, or 1.
        items : sequence of shape (n_docs,), optional
            The name of each row of X.
        allow_missing : bool
            Whether X may hold NaN.

        Examples
        --------
        >>> data = RankingData.from_pairs(np.eye(4), [[0, 3], [1, 2]])
        >>> data.qid.tolist(), data.order.tolist()
        ([0, 0, 1, 1], [0, 3, 1, 2])
        >>> named = RankingData.from_pairs(np.eye(2), [["B", "A"]], items=["A", "B"])
        >>> named.pairs.rows.tolist()
        [[1, 0]]
        """
        X, names = checked_matrix(X, feature_names)
        listed = listed_pairs(pairs, items, X.shape[0], pair_weight, margin)
        qid = connected_rows(listed.rows, X.shape[0])
        data = cls(
            X, np.zeros(X.shape[0]), qid, feature_names=names, n_threads=n_threads,
            allow_missing=allow_missing,
        )  # fmt: skip
        here = np.arange(data.n_docs) if data.order is None else np.argsort(data.order)
        data.pairs = listed._replace(rows=here[listed.rows])
        return data

    def replace(self, **parts: Any) -> RankingData:
        """Return a copy with other values of some attributes, which are not checked."""
        unknown = sorted(parts.keys() - self.__dict__.keys())
        if unknown:
            raise DataError(
                f"{unknown[0]} cannot be replaced. Make new data with RankingData(X, y, qid, …)."
            )
        return RankingData.from_parts(**(self.__dict__ | parts))

    @property
    def n_docs(self) -> int:
        """The number of documents."""
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        """The number of features."""
        return int(self.X.shape[1])

    @property
    def n_queries(self) -> int:
        """The number of queries."""
        return len(self.query_ptr) - 1

    @property
    def n_levels(self) -> int:
        """The number of distinct labels."""
        return len(np.unique(self.y))

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the features."""
        return self.X.dtype

    @property
    def is_sparse(self) -> bool:
        """Whether X is CSR."""
        return bool(sparse.issparse(self.X))

    @property
    def qid(self) -> Array:
        """The caller's query id of each row."""
        return np.repeat(self.query_ids, np.diff(self.query_ptr))

    @property
    def row_query_weight(self) -> Vector | None:
        """The weight of the query of each row; None without weights of queries."""
        if self.query_weight is None:
            return None
        return np.repeat(self.query_weight, np.diff(self.query_ptr))

    @property
    def doc_ids(self) -> list[str] | None:
        """The document ids in the comments; None without comments."""
        return None if self.comments is None else self.comments.doc_ids()

    def restore(self, values: Array) -> Array:
        """Return one value per row in the order in which the caller gave the rows."""
        if self.order is None:
            return values
        restored = np.empty_like(values)
        restored[self.order] = values
        return restored

    def take(self, rows: Integers, keys: Vector | None = None) -> RankingData:
        """Return some rows, given in increasing order; queries without rows are dropped.

        If the rows are those of whole queries, `keys` may be the `query_keys` of these queries.
        """
        query = np.repeat(np.arange(self.n_queries), np.diff(self.query_ptr))[rows]
        starts = np.flatnonzero(np.diff(query, prepend=-1))
        X, query_ptr = take_rows(self.X, rows), np.append(starts, len(rows)).astype(np.int64)
        has_missing = self.has_missing and holds_missing(X)
        return RankingData.from_parts(
            X=X,
            y=self.y[rows],
            query_ptr=query_ptr,
            query_ids=self.query_ids[query[starts]],
            comments=None if self.comments is None else self.comments.take(rows),
            feature_names=self.feature_names,
            index_base=self.index_base,
            weight=None if self.weight is None else self.weight[rows],
            query_weight=None if self.query_weight is None else self.query_weight[query[starts]],
            propensity=None if self.propensity is None else self.propensity[rows],
            margin=None if self.margin is None else self.margin[rows],
            has_missing=has_missing,
            query_keys=query_keys(X, query_ptr, None, has_missing) if keys is None else keys,
        )

    def part(self, units: Integers) -> RankingData:
        """Return the rows, or of data with listed pairs the pairs, with the given numbers.

        Data with listed pairs keep all their rows, because other pairs do not depend on them.
        """
        if self.pairs is None:
            return self.take(units)
        return self.replace(pairs=self.pairs.take(units))

    def __repr__(self) -> str:
        kind = "CSR" if self.is_sparse else "dense"
        return (
            f"RankingData({self.n_docs:,} documents, {self.n_queries:,} queries, "
            f"{self.n_features:,} features, {kind} {self.X.dtype})"
        )


def _reordered(values: Vector | None, order: Integers) -> Vector | None:
    return None if values is None else values[order]
