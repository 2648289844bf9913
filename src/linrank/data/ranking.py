"""`RankingData`: documents grouped by query, checked once."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse

from .._util.checks import whole_number
from .._util.types import Array, Integers, Mask, Vector
from ..errors import DataError
from ..matrix.rows import multiply
from ..matrix.summary import (
    MOST_SUMMARISED,
    FeatureSummary,
    multiply_and_summarise,
    summarise,
)
from .categories import Categories, CategoriesLike
from .columns import Columns
from .frames import features_of, read_frame
from .ids import TextColumn, comment_column
from .pairs import GivenPairs, Pairs, connected_rows, listed_pairs
from .validation import (
    PER_ROW_CHECKS,
    Grouping,
    Matrix,
    assemble_csr,
    check_finite,
    check_labels,
    group_by_query,
    holds_missing,
    one_per_query,
    take_rows,
)

# --------------------------------------------------------------------------------------------------
# Hashes of features, which identify rows and queries by content.


KEY_ROWS = 8192  #: rows whose missing values are replaced at a time; more rows take more memory


def read_content(
    X: Matrix, query_ptr: Integers, n_threads: int | None = None, has_missing: bool = False
) -> dict[str, Any]:
    """Return the attributes of `RankingData` that depend on the content of X, which is read once.

    ``query_keys`` are the sums of `row_keys` over each query. A key is not finite if a feature is
    infinite, or NaN unless `has_missing` is true. The keys therefore also serve as the check that
    all features are finite. The statistics of dense features come from the same pass.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # The caller checks the keys.
        if issparse(X) or X.shape[1] > MOST_SUMMARISED:
            keys, summary = row_keys(X, n_threads, has_missing), None
        else:
            v = _key_weights(np.arange(X.shape[1]))
            product, summary = multiply_and_summarise(X, v, n_threads)
            keys = _keys_of(X, v, product, n_threads, has_missing)
        return {"query_keys": np.add.reduceat(keys, query_ptr[:-1]), "_summary": summary}


def row_keys(X: Matrix, n_threads: int | None = None, has_missing: bool = False) -> Vector:
    """Return ``|x_i·v|`` for every row, where v holds pseudo-random numbers from 1 to 2.

    If `has_missing` is true, features that are NaN count as 0.
    """
    is_wide = issparse(X) and X.shape[1] > X.nnz  # most features never occur
    features = np.unique(X.indices) if is_wide else np.arange(X.shape[1])
    v = _key_weights(features)
    if is_wide:  # A full v could take more memory than X.
        places = np.searchsorted(features, X.indices).astype(X.indices.dtype)
        X = assemble_csr(X.indptr, places, X.data, len(v))
    return _keys_of(X, v, multiply(X, v, n_threads), n_threads, has_missing)


def _key_weights(features: Integers) -> Vector:
    return np.asarray(1.0 + (features * 0.6180339887498949) % 1.0)


def _keys_of(
    X: Matrix, v: Vector, product: Vector, n_threads: int | None, has_missing: bool
) -> Vector:
    """Return ``|x_i·v|`` given Xv, in which rows with missing values are computed again."""
    keys: Vector = np.abs(product)
    unknown = np.flatnonzero(np.isnan(keys)) if has_missing else np.empty(0, np.int64)
    for first in range(0, len(unknown), KEY_ROWS):
        rows = unknown[first : first + KEY_ROWS]
        keys[rows] = np.abs(multiply(_zero_for_missing(take_rows(X, rows)), v, n_threads))
    return keys


def _zero_for_missing(X: Matrix) -> Matrix:
    """Set the entries of a copy that are NaN to 0, and return the copy."""
    values = X.data if issparse(X) else X
    values[np.isnan(values)] = 0.0
    return X


def rank_by_content(keys: Vector) -> Integers:
    """Number queries in the order of their keys, which does not depend on the order of rows."""
    rank = np.empty(len(keys), np.int64)
    rank[np.argsort(keys, kind="stable")] = np.arange(len(keys))
    return rank


# --------------------------------------------------------------------------------------------------
# The sparsity ratio of a model: features in use / features that have values.


BLOCK_ENTRIES = 2**20  #: entries of X that `has_values` reads at a time


def sparsity_ratio(n_used: ArrayLike, n_valued: ArrayLike) -> Vector:
    """Return features in use / features that are not zero in all training documents.

    This is the ratio of Laporte et al. (2014, §V-B), who leave out features that are zero
    everywhere. It is at most 1, also if bounds give such a feature a weight.

    Parameters
    ----------
    n_used : array-like
        Numbers of features with a weight.
    n_valued : array-like
        What `count_valued` returns for the training data.

    Examples
    --------
    >>> float(sparsity_ratio(1, count_valued(np.array([[0.0, 1.0, 2.0], [0.0, 3.0, 0.0]]))))
    0.5
    """
    return np.minimum(1.0, np.asarray(n_used, np.float64) / np.maximum(1.0, n_valued))


def count_valued(X: Matrix) -> int:
    """Count the features that are not zero in all documents."""
    return int(np.count_nonzero(has_values(X)))


def has_values(X: Matrix) -> Mask:
    """Return which features are not zero in all documents, in blocks of rows."""
    found: Mask = np.zeros(X.shape[1], dtype=np.bool_)
    step = max(1, BLOCK_ENTRIES // max(1, X.shape[1]))
    for first in range(0, X.shape[0], step):
        rows = X[first : first + step]
        if issparse(rows):
            found[rows.indices[rows.data != 0]] = True
        else:
            found |= rows.any(axis=0)
    return found


# --------------------------------------------------------------------------------------------------
# `RankingData`: documents grouped by query, checked once.


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
    categories : str, sequence or Categories, optional
        What becomes of columns of text, if X is a frame; see `from_frame`.

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
    categories : Categories
        The columns of text, and the features that they became.

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
        categories: CategoriesLike = None,
    ) -> None:
        X, names, found = features_of(X, feature_names, categories)
        y = check_labels(y, X.shape[0])
        # A reader of files knows the grouping before it fills X, and fills X in its order.
        is_ordered = isinstance(qid, Grouping)
        query_ptr, query_ids, order = qid if is_ordered else group_by_query(qid, X.shape[0])
        column = None
        if doc_ids is not None or comments is not None:
            column = comment_column(doc_ids, comments, X.shape[0])
        per_row = _per_row(
            X.shape[0], order, sample_weight=sample_weight, query_weight=query_weight,
            propensity=propensity, margin=margin,
        )  # fmt: skip
        if order is not None:
            X, y = X if is_ordered else take_rows(X, order), y[order]
            column = None if column is None else column.take(order)
        self.X: Matrix = X
        self.y: Vector = y
        self.query_ptr: Integers = query_ptr
        self.query_ids: Array = query_ids
        self.order: Integers | None = order
        self.comments: TextColumn | None = column
        self.feature_names: list[str] | None = names
        self.categories: Categories = found
        self.index_base = index_base
        self.weight: Vector | None = per_row.get("sample_weight")
        self.propensity: Vector | None = per_row.get("propensity")
        self.margin: Vector | None = per_row.get("margin")
        self.pairs: GivenPairs | None = None
        self.n_read: int | None = None
        self.query_weight: Vector | None = None
        if query_weight is not None:
            self.query_weight = one_per_query(per_row["query_weight"], query_ptr, query_ids)
        self.has_missing = False
        self.query_keys: Vector
        self._summary: FeatureSummary | None
        self.__dict__.update(read_content(X, query_ptr, n_threads))
        if not np.isfinite(self.query_keys).all():
            check_finite(X, order, names, allow_missing)
            self.has_missing = holds_missing(X)
            self.__dict__.update(read_content(X, query_ptr, n_threads, self.has_missing))

    @classmethod
    def from_parts(cls, **parts: Any) -> RankingData:
        """Make data from attributes that are valid and grouped by query, without any check."""
        self = cls.__new__(cls)
        optional = ("order", "comments", "feature_names", "weight", "query_weight",
                    "propensity", "margin", "pairs", "_summary")  # fmt: skip
        usual = dict.fromkeys((*optional, "n_read")) | {"index_base": 1, "has_missing": False}
        usual["categories"] = Categories()
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
        categories: CategoriesLike = None,
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
        categories : str, sequence or Categories, optional
            What becomes of columns of text, and of categories of any values. None: an error.
            ``"onehot"``: a feature for each value, such as ``country=de``, which is 1 for the rows
            with this value and otherwise 0. A missing value counts as a value.
            ``"hash:1024"``: the same, but a column of more than 1,024 values has 1,024 features,
            one for each bucket of a hash; ``"hash"`` is ``"hash:4096"``.
            A sequence: these columns hold codes, which `AdditiveRanker` takes.
            For data that a ranker scores, the ``categories`` of its training data. Values that the
            training data lack are 0 in all features.

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
        (X, names, found), (y, ids, doc_ids, per_row) = read_frame(frame, columns, categories)
        return cls(
            X, y, ids, doc_ids=doc_ids,  # type: ignore[arg-type]
            feature_names=names, n_threads=n_threads, categories=found,
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
        X, names, _ = features_of(X, feature_names)
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
        known = self.__dict__ | ({"_summary": None} if "X" in parts else {})
        return RankingData.from_parts(**(known | parts))

    def feature_summary(self, n_threads: int | None = None) -> FeatureSummary:
        """Return range, mean and standard deviation of each feature, which are computed once."""
        if self._summary is None:
            self._summary = summarise(self.X, n_threads)
        return self._summary

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
        return bool(issparse(self.X))

    @property
    def qid(self) -> Array:
        """The caller's query id of each row."""
        return np.repeat(self.query_ids, np.diff(self.query_ptr))

    @property
    def indicators(self) -> Integers:
        """The features that are 1 for one value of a column of text, and otherwise 0."""
        return self.categories.of_form(self.feature_names or (), "onehot", "hash")

    @property
    def codes(self) -> Integers:
        """The features that hold codes of the values of a column of text, which have no order."""
        return self.categories.of_form(self.feature_names or (), "codes")

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
        content = {"query_keys": keys}
        if keys is None:
            content = read_content(X, query_ptr, None, has_missing)
        return RankingData.from_parts(
            X=X,
            y=self.y[rows],
            query_ptr=query_ptr,
            query_ids=self.query_ids[query[starts]],
            comments=None if self.comments is None else self.comments.take(rows),
            feature_names=self.feature_names,
            categories=self.categories,
            index_base=self.index_base,
            weight=None if self.weight is None else self.weight[rows],
            query_weight=None if self.query_weight is None else self.query_weight[query[starts]],
            propensity=None if self.propensity is None else self.propensity[rows],
            margin=None if self.margin is None else self.margin[rows],
            has_missing=has_missing,
            **content,
        )

    def split(self, test: float = 0.2, *, random_state: int = 0) -> tuple[RankingData, RankingData]:
        """Return training and test data: a random share of the queries is the test part.

        Queries stay whole. The parts depend neither on the order of the rows nor on the query ids.

        Parameters
        ----------
        test : float
            The share of the queries in the test part. Each part has at least one query.
        random_state : int
            The seed.

        Returns
        -------
        train, test : RankingData

        Examples
        --------
        >>> from linrank import make_ranking
        >>> train, test = make_ranking(n_queries=50, random_state=0).split(test=0.2)
        >>> train.n_queries, test.n_queries
        (40, 10)
        """
        if isinstance(test, bool) or not isinstance(test, Real) or not 0 < test < 1:
            raise DataError(
                f"test is {test!r}; expected a share of the queries, such as 0.2 for one in five"
            )
        if self.pairs is not None or self.n_queries < 2:
            what = "listed pairs" if self.pairs is not None else "one query"
            raise DataError(
                f"data of {what} cannot be split by whole queries. Pass qid, or choose rows with "
                "take."
            )
        n_test = min(max(round(test * self.n_queries), 1), self.n_queries - 1)
        seed = whole_number("random_state", random_state, least=0)
        drawn = np.random.default_rng(seed).permutation(self.n_queries)[:n_test]
        is_test = np.zeros(self.n_queries, bool)
        is_test[np.argsort(self.query_keys, kind="stable")[drawn]] = True
        of_row = np.repeat(is_test, np.diff(self.query_ptr))
        return (
            self.take(np.flatnonzero(~of_row), self.query_keys[~is_test]),
            self.take(np.flatnonzero(of_row), self.query_keys[is_test]),
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


def _per_row(n_docs: int, order: Integers | None, **given: ArrayLike | None) -> dict[str, Vector]:
    """Check arrays with a number for each row, and bring them into the order of the rows."""
    checked = {
        name: PER_ROW_CHECKS[name](values, n_docs, name)
        for name, values in given.items() if values is not None
    }  # fmt: skip
    return checked if order is None else {name: v[order] for name, v in checked.items()}


# --------------------------------------------------------------------------------------------------
# Samples of queries that do not depend on the order of the data.


def evenly_spaced(keys: Vector, n: int) -> Integers:
    """Return the places of n numbers that are evenly spaced in the order of their sizes.

    With the keys of queries (`RankingData.query_keys`), the sample depends neither on the order of
    the rows nor on the names of the queries.

    Examples
    --------
    >>> evenly_spaced(np.array([3.0, 1.0, 2.0, 4.0]), 2)
    array([2, 3])
    """
    picks = ((np.arange(n) + 0.5) * len(keys) / n).astype(np.int64)
    return np.sort(np.argsort(keys, kind="stable")[picks])


def take_queries(data: RankingData, queries: Integers) -> RankingData:
    """Return a copy of the documents of some queries, without comments."""
    ptr = data.query_ptr
    rows = np.concatenate([np.arange(ptr[q], ptr[q + 1]) for q in queries])
    return data.replace(comments=None).take(rows, data.query_keys[queries])
