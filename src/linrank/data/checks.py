"""What goes into `RankingData`, checked: one clear sentence for what cannot be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from .._maps import check_maps
from .._memory import memory_limit
from ..errors import DataError
from ._csr import row_pointers
from .text import join_strings

if TYPE_CHECKING:
    from numpy.typing import NDArray

Matrix = Any  #: a C-contiguous ndarray or a scipy CSR array, float32 or float64

MAX_FEATURES = 2**31 - 1
FEATURE_BYTES = 128  #: of memory that a fit takes for a feature: 16 vectors such as the weights
LEAST_PROPENSITY = 1e-12  #: a document that is never looked at tells nothing


def most_features() -> int:
    """The largest number of features whose weights fit into memory, with what training adds."""
    return min(MAX_FEATURES, memory_limit() // FEATURE_BYTES)


def check_n_features(n_features: int) -> None:
    """Refuse a number of features for which there is not enough memory, or that is none."""
    if not 1 <= n_features <= MAX_FEATURES:
        found = str(n_features)[:40]
        raise DataError(f"n_features is {found}; expected a number from 1 to {MAX_FEATURES}")
    if n_features > most_features():
        raise DataError(
            f"there are {n_features:,} features, but memory for {most_features():,} only "
            f"({FEATURE_BYTES} bytes each); number the features that occur from 1 on"
        )


def check_matrix(X: Any) -> Matrix:
    """Bring X into one of the four forms that the kernels know, copying only if needed."""
    if sparse.issparse(X):
        if X.format == "csr":
            check_maps(X)
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
        except (TypeError, ValueError, OverflowError) as error:
            raise DataError(f"X cannot be read as numbers: {error}") from None
    if X.shape[0] == 0 or X.shape[1] == 0:
        raise DataError(f"X is empty: {X.shape[0]} documents × {X.shape[1]} features")
    if not sparse.issparse(X):
        return np.ascontiguousarray(X)
    check_n_features(X.shape[1])
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
    check_maps(X)
    return fix_index_types(X[rows]) if sparse.issparse(X) else X[rows]


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
    except (TypeError, ValueError, OverflowError) as error:
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
    except (TypeError, ValueError, OverflowError) as error:
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
    missing = qid != qid if qid.dtype.kind in "fcmM" else np.False_  # NaN and NaT
    if missing.any():
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
    if kinds <= {str}:
        return join_strings(qid)
    if kinds <= {int}:
        array = np.asarray(qid)
        if array.dtype.kind in "iu":
            return array
    array = np.empty(len(qid), dtype=object)
    array[:] = qid
    return array


def _is_missing(name: Any) -> bool:
    """Whether an id is None, or NaN in one of its forms: not equal to itself, or not comparable."""
    try:
        return name is None or bool(name != name)
    except TypeError:  # of pandas.NA nothing is known
        return True


def _encode_objects(qid: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Number arbitrary hashable ids in the order in which they first appear."""
    seen: dict[Any, int] = {}
    codes = np.empty(len(qid), np.int64)
    for row, name in enumerate(qid):
        if _is_missing(name):
            what = name if name is None else "NaN"
            raise DataError(f"qid[{row}] is {what}; every row needs a query")
        try:
            codes[row] = seen.setdefault(name, len(seen))
        except TypeError:
            raise DataError(f"qid[{row}] is {name!r}, which cannot serve as an id") from None
    return codes, qid
