"""`RankingData`: documents grouped by query, validated once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse

from .._rows import multiply
from ..errors import DataError
from ._csr import row_pointers
from .text import TextColumn

if TYPE_CHECKING:
    from numpy.typing import NDArray

Matrix = Any  #: a C-contiguous ndarray or a scipy CSR array, float32 or float64

MAX_FEATURES = 2**31 - 1
LEAST_PROPENSITY = 1e-12  #: a document that is never looked at tells nothing


class GivenPairs(NamedTuple):
    """Preferences between rows: the first of each pair is preferred to the second."""

    rows: NDArray[np.int64]
    weight: NDArray[np.float64] | None
    margin: NDArray[np.float64] | None


class RankingData:
    """Documents with features, labels and queries; rows of one query stand together.

    The rows of ``X``, ``y`` and ``qid`` agree with each other and are grouped by query.
    Where the caller's rows were not, they have been moved (stably), and `restore`
    brings values computed here back into the caller's order.

    Parameters
    ----------
    X : array or sparse matrix of shape (n_docs, n_features)
        float32 stays float32; everything else becomes float64. Sparse becomes CSR.
    y : array of shape (n_docs,)
        Labels: any finite real numbers; larger is more relevant.
    qid : array of shape (n_docs,), optional
        The query of each document: integers, strings or any hashable, in any order.
        None: all documents belong to one query.
    doc_ids : sequence of str, optional
        An identifier for each document.
    comments : TextColumn or sequence of str, optional
        The text behind ``#`` in a LETOR line; document ids are found in it. Give this
        or `doc_ids`, not both.
    feature_names : sequence of str, optional
        One name per feature.
    index_base : {0, 1}
        The number of the first feature in LETOR files (1 in LETOR itself).
    sample_weight : array of shape (n_docs,), optional
        Weight of each document. A pair weighs query × upper document × lower document.
    query_weight : array of shape (n_docs,), optional
        Weight of each document's query: one value within a query.
    propensity : array of shape (n_docs,), optional
        The chance that the document was looked at. A pair is divided by that of its upper
        document, as in counterfactual learning from clicks.
    margin : array of shape (n_docs,), optional
        A pair is asked to be margin_i − margin_j apart instead of 1.
    n_threads : int, optional
        Threads for looking through X once; by default all cores.

    Attributes
    ----------
    X, y : arrays, grouped by query
    weight, propensity, margin : float64 arrays of shape (n_docs,) or None
    pairs : GivenPairs or None
        Where preferences are given one by one instead of by labels (see `from_pairs`).
    query_weight : float64 array of shape (n_queries,) or None
    query_ptr : int64 array of shape (n_queries + 1,)
        Query q owns rows ``query_ptr[q]:query_ptr[q + 1]``.
    query_ids : array of shape (n_queries,)
        The caller's name of each query.
    order : int64 array or None
        Row r here was the caller's row ``order[r]``; None when nothing was moved.
    query_keys : float64 array of shape (n_queries,)
        A number from the features of each query. Finding it proves X finite, and it tells
        queries apart by content, whatever the order of rows and the type of `qid`.

    Examples
    --------
    >>> import numpy as np
    >>> data = RankingData(np.eye(3), [1, 0, 2], qid=["a", "b", "a"])
    >>> data.qid.tolist(), data.y.tolist()
    (['a', 'a', 'b'], [1.0, 2.0, 0.0])
    >>> data.restore(data.y).tolist()
    [1.0, 0.0, 2.0]
    """

    def __init__(
        self,
        X: Any,
        y: Any,
        qid: Any = None,
        *,
        doc_ids: Sequence[str] | None = None,
        comments: TextColumn | Sequence[str] | None = None,
        feature_names: Sequence[str] | None = None,
        index_base: int = 1,
        sample_weight: Any = None,
        query_weight: Any = None,
        propensity: Any = None,
        margin: Any = None,
        n_threads: int | None = None,
    ) -> None:
        X = check_matrix(X)
        y = check_labels(y, X.shape[0])
        query_ptr, query_ids, order = group_by_query(qid, X.shape[0])
        if doc_ids is not None and comments is not None:
            raise DataError("doc_ids and comments cannot both be given: ids are part of comments")
        if doc_ids is not None:
            comments = [f"docid = {check_doc_id(doc, k)}" for k, doc in enumerate(doc_ids)]
        if comments is not None and not isinstance(comments, TextColumn):
            comments = TextColumn.from_strings(comments)
        if comments is not None and len(comments) != X.shape[0]:
            what = "comments" if doc_ids is None else "doc_ids"
            raise DataError(f"{what} has {len(comments)} entries but X has {X.shape[0]} rows")
        weight = check_weight(sample_weight, X.shape[0], "sample_weight")
        row_weight = check_weight(query_weight, X.shape[0], "query_weight")
        propensity = check_propensity(propensity, X.shape[0])
        margin = check_rows(margin, X.shape[0], "margin")
        if order is not None:
            X, y = take_rows(X, order), y[order]
            comments = None if comments is None else comments.take(order)
            weight = None if weight is None else weight[order]
            row_weight = None if row_weight is None else row_weight[order]
            propensity = None if propensity is None else propensity[order]
            margin = None if margin is None else margin[order]
        self.X: Matrix = X
        self.y: NDArray[np.float64] = y
        self.query_ptr: NDArray[np.int64] = query_ptr
        self.query_ids: NDArray[Any] = query_ids
        self.order: NDArray[np.int64] | None = order
        self.comments: TextColumn | None = comments
        self.feature_names = check_feature_names(feature_names, X.shape[1])
        self.index_base = index_base
        self.weight: NDArray[np.float64] | None = weight
        self.propensity: NDArray[np.float64] | None = propensity
        self.margin: NDArray[np.float64] | None = margin
        self.pairs: GivenPairs | None = None
        self.query_weight: NDArray[np.float64] | None = None
        if row_weight is not None:
            self.query_weight = one_per_query(row_weight, query_ptr, query_ids)
        self.query_keys: NDArray[np.float64] = query_keys(X, query_ptr, n_threads)
        if not np.isfinite(self.query_keys).all():
            check_finite(X, order)

    @classmethod
    def from_parts(cls, **parts: Any) -> RankingData:
        """Assemble data whose parts are known to be valid and grouped; nothing is checked."""
        self = cls.__new__(cls)
        optional = ("order", "comments", "feature_names", "weight", "query_weight",
                    "propensity", "margin", "pairs")  # fmt: skip
        self.__dict__.update(dict.fromkeys(optional) | {"index_base": 1} | parts)
        return self

    @classmethod
    def from_pairs(
        cls,
        X: Any,
        pairs: Any,
        pair_weight: Any = None,
        margin: Any = None,
        *,
        feature_names: Sequence[str] | None = None,
        n_threads: int | None = None,
    ) -> RankingData:
        """Documents with preferences given one by one, without labels.

        Documents that are compared, directly or by way of others, make up a query.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_docs, n_features)
        pairs : integer array of shape (n_pairs, 2)
            Rows of X: the first is preferred to the second.
        pair_weight : array of shape (n_pairs,), optional
        margin : array of shape (n_pairs,), optional
            How far apart the two scores should be; 1 where it is not given.

        Examples
        --------
        >>> data = RankingData.from_pairs(np.eye(4), [[0, 3], [1, 2]])
        >>> data.qid.tolist(), data.order.tolist()
        ([0, 0, 1, 1], [0, 3, 1, 2])
        """
        from scipy.sparse import csgraph

        X = check_matrix(X)
        rows = check_pairs(pairs, X.shape[0])
        links = sparse.coo_array((np.ones(len(rows)), (rows[:, 0], rows[:, 1])), (X.shape[0],) * 2)
        qid = csgraph.connected_components(links, directed=False)[1]
        data = cls(X, np.zeros(X.shape[0]), qid, feature_names=feature_names, n_threads=n_threads)
        here = np.arange(data.n_docs) if data.order is None else np.argsort(data.order)
        weight = check_weight(pair_weight, len(rows), "pair_weight", "pairs has")
        data.pairs = GivenPairs(
            here[rows], weight, check_rows(margin, len(rows), "margin", "pairs has")
        )
        return data

    def replace(self, **parts: Any) -> RankingData:
        """The same data but for some attributes, which are not checked."""
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
    def is_sparse(self) -> bool:
        """Whether X is CSR."""
        return bool(sparse.issparse(self.X))

    @property
    def qid(self) -> NDArray[Any]:
        """The caller's name of each row's query."""
        return np.repeat(self.query_ids, np.diff(self.query_ptr))

    @property
    def doc_ids(self) -> list[str] | None:
        """The document ids found in the comments, or None where there are no comments."""
        return None if self.comments is None else self.comments.doc_ids()

    def restore(self, values: NDArray[Any]) -> NDArray[Any]:
        """Bring one value per row back into the order in which the caller gave the rows."""
        if self.order is None:
            return values
        restored = np.empty_like(values)
        restored[self.order] = values
        return restored

    def take(self, rows: NDArray[np.int64]) -> RankingData:
        """Some of the rows, given in increasing order; queries that lose all rows are gone."""
        query = np.repeat(np.arange(self.n_queries), np.diff(self.query_ptr))[rows]
        starts = np.flatnonzero(np.diff(query, prepend=-1))
        X, query_ptr = take_rows(self.X, rows), np.append(starts, len(rows)).astype(np.int64)
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
            query_keys=query_keys(X, query_ptr),
        )

    def __repr__(self) -> str:
        kind = "CSR" if self.is_sparse else "dense"
        return (
            f"RankingData({self.n_docs:,} documents, {self.n_queries:,} queries, "
            f"{self.n_features:,} features, {kind} {self.X.dtype})"
        )


def check_matrix(X: Any) -> Matrix:
    """Bring X into one of the four forms that the kernels know, copying only if needed."""
    if sparse.issparse(X):
        X = sparse.csr_array(X)
        try:
            X.check_format(full_check=True)
        except ValueError as error:
            raise DataError(f"X is not a valid sparse matrix: {error}") from None
    else:
        X = np.asarray(X)
        if X.ndim != 2:
            raise DataError(f"X must have two dimensions (documents × features), not {X.ndim}")
    if X.dtype.kind == "c":
        raise DataError("X holds complex numbers; features must be real")
    if X.dtype != np.float32 and X.dtype != np.float64:
        try:
            X = X.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise DataError(f"X cannot be read as numbers: {error}") from None
    if X.shape[0] == 0 or X.shape[1] == 0:
        raise DataError(f"X is empty: {X.shape[0]} documents × {X.shape[1]} features")
    if not sparse.issparse(X):
        return np.ascontiguousarray(X)
    if X.shape[1] > MAX_FEATURES:
        raise DataError(f"X has {X.shape[1]:,} features; at most {MAX_FEATURES:,} can be handled")
    if not X.has_canonical_format:
        X = X.copy()  # the caller's matrix stays as it is
        X.sum_duplicates()
    return fix_index_types(X)


def fix_index_types(X: Matrix) -> Matrix:
    """Give a CSR matrix the index types of the kernels; scipy picks them by size."""
    X.indptr = row_pointers(X.indptr)
    X.indices = X.indices.astype(np.int32, copy=False)
    return X


def take_rows(X: Matrix, rows: NDArray[np.int64]) -> Matrix:
    """Some rows of a checked matrix, again in a form that the kernels know."""
    return fix_index_types(X[rows]) if sparse.issparse(X) else X[rows]


def query_keys(
    X: Matrix, query_ptr: NDArray[np.int64], n_threads: int | None = None
) -> NDArray[np.float64]:
    """``Σ_i |x_i·v|`` over the rows i of each query, v fixed: in one read of X.

    NaN and infinity show in the keys, so this is the finite check too.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # the caller looks at what comes out
        return np.add.reduceat(row_keys(X, n_threads), query_ptr[:-1])


def row_keys(X: Matrix, n_threads: int | None = None) -> NDArray[np.float64]:
    """``|x_i·v|`` for every row, with weights v between 1 and 2 that follow no pattern."""
    v = 1.0 + (np.arange(X.shape[1]) * 0.6180339887498949) % 1.0
    return np.abs(multiply(X, v, n_threads))


def rank_by_content(keys: NDArray[np.float64]) -> NDArray[np.int64]:
    """Number queries by their keys, so that nothing depends on how they came."""
    rank = np.empty(len(keys), np.int64)
    rank[np.argsort(keys, kind="stable")] = np.arange(len(keys))
    return rank


def check_finite(X: Matrix, order: NDArray[np.int64] | None) -> None:
    """Raise an error that names the first entry of X that is NaN or infinite, if any."""
    values = X.data if sparse.issparse(X) else X
    bad = np.argwhere(~np.isfinite(values))
    if not len(bad):
        return  # finite numbers so large that their sum is not
    if sparse.issparse(X):
        entry = bad[0][0]
        row, feature = np.searchsorted(X.indptr, entry, side="right") - 1, X.indices[entry]
        value = values[entry]
    else:
        row, feature = bad[0]
        value = values[row, feature]
    row = row if order is None else order[row]
    value = "NaN" if np.isnan(value) else value
    raise DataError(f"X[{row}, {feature}] is {value}; features must be finite numbers")


def check_labels(y: Any, n_docs: int) -> NDArray[np.float64]:
    """Bring the labels into a float64 vector of the right length, all finite."""
    try:
        y = np.ascontiguousarray(y, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"y cannot be read as numbers: {error}") from None
    if y.ndim != 1 or len(y) != n_docs:
        raise DataError(f"y has shape {y.shape} but X has {n_docs} rows: give one label per row")
    bad = np.flatnonzero(~np.isfinite(y))
    if len(bad):
        raise DataError(f"y[{bad[0]}] is {y[bad[0]]}; labels must be finite numbers")
    return y


def check_doc_id(doc: object, row: int) -> str:
    """A document's id as text; LETOR files end it at the first blank, so it must have none."""
    text = str(doc)
    if not text or any(letter.isspace() for letter in text):
        raise DataError(f"doc_ids[{row}] is {text!r}; an id must have letters and no blanks")
    return text


def check_rows(values: Any, n: int, name: str, whose: str = "X has") -> NDArray[np.float64] | None:
    """Bring one finite number per row, if given, into a float64 vector."""
    if values is None:
        return None
    try:
        values = np.ascontiguousarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} cannot be read as numbers: {error}") from None
    if values.shape != (n,):
        raise DataError(f"{name} has shape {values.shape} but {whose} {n} rows: one per row")
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise DataError(f"{name}[{bad[0]}] is {values[bad[0]]}; expected finite numbers")
    return values


def check_weight(
    weight: Any, n: int, name: str, whose: str = "X has"
) -> NDArray[np.float64] | None:
    """Bring weights into a float64 vector, finite and not negative, with something to weigh."""
    weight = check_rows(weight, n, name, whose)
    if weight is None:
        return None
    bad = np.flatnonzero(weight < 0)
    if len(bad):
        raise DataError(f"{name}[{bad[0]}] is {weight[bad[0]]}; weights must be finite and ≥ 0")
    if not weight.any():
        raise DataError(f"{name} is zero everywhere; at least one row must count")
    return weight


def check_propensity(propensity: Any, n: int) -> NDArray[np.float64] | None:
    """Bring the chances of being looked at into a float64 vector, above 0 and at most 1."""
    propensity = check_rows(propensity, n, "propensity")
    if propensity is None:
        return None
    bad = np.flatnonzero(~((propensity >= LEAST_PROPENSITY) & (propensity <= 1)))
    if len(bad):
        raise DataError(
            f"propensity[{bad[0]}] is {propensity[bad[0]]}; expected a chance from "
            f"{LEAST_PROPENSITY:g} to 1"
        )
    return propensity


def check_pairs(pairs: Any, n_docs: int) -> NDArray[np.int64]:
    """Bring pairs of row numbers into an int64 array of shape (n_pairs, 2)."""
    pairs = np.asarray(pairs)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or len(pairs) == 0:
        raise DataError(f"pairs has shape {pairs.shape}; expected (n_pairs, 2), at least one pair")
    if pairs.dtype.kind not in "iu":
        raise DataError(f"pairs holds {pairs.dtype}; expected row numbers of X, as integers")
    pairs = pairs.astype(np.int64)
    bad = np.flatnonzero(((pairs < 0) | (pairs >= n_docs)).any(axis=1))
    if len(bad):
        raise DataError(
            f"pairs[{bad[0]}] is {pairs[bad[0]].tolist()}; expected rows of X: 0 to {n_docs - 1}"
        )
    same = np.flatnonzero(pairs[:, 0] == pairs[:, 1])
    if len(same):
        raise DataError(f"pairs[{same[0]}] compares row {pairs[same[0], 0]} with itself")
    return pairs


def one_per_query(
    weight: NDArray[np.float64], query_ptr: NDArray[np.int64], query_ids: NDArray[Any]
) -> NDArray[np.float64]:
    """The weight of each query, given that of each of its rows."""
    first = weight[query_ptr[:-1]]
    wrong = np.flatnonzero(weight != np.repeat(first, np.diff(query_ptr)))
    if len(wrong):
        query = query_ids[np.searchsorted(query_ptr, wrong[0], side="right") - 1]
        raise DataError(f"query_weight differs within query {query}; give its rows one value")
    return first


def check_feature_names(names: Sequence[str] | None, n_features: int) -> list[str] | None:
    """Check that there is one name per feature."""
    if names is None:
        return None
    if len(names) != n_features:
        raise DataError(f"feature_names has {len(names)} entries but X has {n_features} features")
    return [str(name) for name in names]


def group_by_query(
    qid: Any, n_docs: int
) -> tuple[NDArray[np.int64], NDArray[Any], NDArray[np.int64] | None]:
    """Find the rows of each query: ``(query_ptr, query_ids, order)``.

    Rows that already stand together by query are left where they are (order is None);
    otherwise `order` is a stable permutation that brings each query's rows together.
    """
    if qid is None:
        return np.array([0, n_docs], np.int64), np.zeros(1, np.int64), None
    qid = _as_array(qid)
    if qid.ndim != 1 or len(qid) != n_docs:
        raise DataError(
            f"qid has shape {qid.shape} but X has {n_docs} rows: give one query id per row"
        )
    missing = qid != qid  # NaN and NaT are not equal to themselves
    if qid.dtype.kind in "fcmM" and missing.any():
        raise DataError(f"qid[{np.flatnonzero(missing)[0]}] is NaN; every row needs a query")
    if qid.dtype.kind == "O":
        codes, ids = _encode_objects(qid)
    else:
        codes, ids = qid, qid
    starts = np.flatnonzero(codes[1:] != codes[:-1]) + 1
    starts = np.concatenate([[0], starts]).astype(np.int64)
    heads = codes[starts]
    if len(np.unique(heads)) == len(heads):
        return np.append(starts, n_docs), ids[starts], None
    order = np.argsort(codes, kind="stable").astype(np.int64)
    codes = codes[order]
    starts = np.concatenate([[0], np.flatnonzero(codes[1:] != codes[:-1]) + 1]).astype(np.int64)
    return np.append(starts, n_docs), ids[order[starts]], order


def _as_array(qid: Any) -> NDArray[Any]:
    """Ids as an array; a list that numpy would convert or unpack is kept as it is."""
    if not isinstance(qid, list | tuple):
        return np.asarray(qid)
    kinds = {type(name) for name in qid}
    if kinds <= {int} or kinds <= {str}:
        array = np.asarray(qid)
        if array.dtype.kind in "iuU":
            return array
    array = np.empty(len(qid), dtype=object)
    array[:] = qid
    return array


def _encode_objects(qid: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Number arbitrary hashable ids in the order in which they first appear."""
    seen: dict[Any, int] = {}
    codes = np.empty(len(qid), np.int64)
    for row, name in enumerate(qid):
        if name is None or name != name:
            what = name if name is None else "NaN"
            raise DataError(f"qid[{row}] is {what}; every row needs a query")
        try:
            codes[row] = seen.setdefault(name, len(seen))
        except TypeError:
            raise DataError(f"qid[{row}] is {name!r}, which cannot serve as an id") from None
    return codes, qid
