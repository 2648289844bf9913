"""Checks of the arguments of `RankingData`; a `DataError` says what is wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from .._util.maps import check_maps
from .._util.parallel import memory_limit
from .._util.types import Array, Integers, Vector
from ..errors import DataError
from .ids import Ids, join_strings

# --------------------------------------------------------------------------------------------------
# CSR matrices made from given arrays without the copies and conversions of scipy.


def row_pointers(indptr: Array) -> Array:
    """Return row pointers in the type that kernels expect: int32 if it can count the entries.

    scipy chooses the same type, so its matrices are used without a copy.
    """
    wide = len(indptr) and indptr[-1] > np.iinfo(np.int32).max
    return indptr.astype(np.int64 if wide else np.int32, copy=False)


def assemble_csr(
    indptr: Array, indices: NDArray[np.int32], data: Array, n_features: int
) -> sparse.csr_array:
    """Return a CSR matrix that holds these arrays, whose indices are sorted and unique.

    scipy's constructor would copy `indices` in order to give both index arrays the same type.
    """
    X = sparse.csr_array((len(indptr) - 1, n_features), dtype=data.dtype)
    X.indptr, X.indices, X.data = row_pointers(indptr), indices, data
    X.has_sorted_indices = X.has_canonical_format = True
    return X


# --------------------------------------------------------------------------------------------------
# Checks of the arguments of `RankingData`; a `DataError` says what is wrong.


Matrix = Any  #: a C-contiguous ndarray or a scipy CSR array, float32 or float64

MAX_FEATURES = 2**31 - 1  #: features that an int32 index can count
FEATURE_BYTES = 128  #: memory that a fit takes per feature: 16 vectors of the size of the weights
FOR_INFINITE = "features must be finite numbers. Use a number in its place, or remove the row."
FOR_MISSING = (
    "features must be finite numbers. Train with missing='median' (--missing median), which "
    "replaces NaN by the median of the feature, or remove the row."
)
LEAST_PROPENSITY = 1e-12  #: smaller propensities would give a pair an unbounded weight


def most_features() -> int:
    """Return the largest number of features for which a fit has enough memory."""
    return min(MAX_FEATURES, memory_limit() // FEATURE_BYTES)


def check_n_features(n_features: int) -> None:
    """Raise a `DataError` if a number of features is not valid or needs too much memory."""
    if not 1 <= n_features <= MAX_FEATURES:
        found = str(n_features)[:40]
        raise DataError(f"n_features is {found}; expected a number from 1 to {MAX_FEATURES}")
    if n_features > most_features():
        raise DataError(
            f"there are {n_features:,} features, but memory for only {most_features():,} "
            f"({FEATURE_BYTES} bytes each). Renumber the features that occur, starting from 1"
        )


def check_matrix(X: Any) -> Matrix:
    """Return X in a form that the kernels support, as a copy only if necessary.

    The forms are dense (C-contiguous) and CSR, each in float32 and float64.
    """
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
    check_kind(X)
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
        X = X.copy()  # The caller's matrix must not change.
        X.sum_duplicates()
    return fix_index_types(X)


def check_kind(X: Any, name: str = "X") -> None:
    """Raise a `DataError` if an array holds complex numbers, dates, durations or records."""
    kind = getattr(getattr(X, "dtype", None), "kind", "f")
    if kind == "c":
        raise DataError(
            f"Complex data not supported: {name} holds complex numbers; features must be real"
        )
    advice = {
        "m": "Use numbers in the place of durations, such as hours.",
        "M": "Use numbers in the place of dates, such as days since one of them.",
        "V": "Use a structured array with one dimension, or an array of numbers.",
    }
    if kind in advice:
        raise DataError(f"{name} holds {X.dtype}; features must be numbers. {advice[kind]}")


def fix_index_types(X: Matrix) -> Matrix:
    """Give a CSR matrix the index types that the kernels expect; scipy chooses them by size."""
    X.indptr = row_pointers(X.indptr)
    X.indices = X.indices.astype(np.int32, copy=False)
    return X


def take_rows(X: Matrix, rows: Integers) -> Matrix:
    """Return some rows of a checked matrix, in a form that the kernels support."""
    check_maps(X)
    return fix_index_types(X[rows]) if sparse.issparse(X) else X[rows]


def check_finite(
    X: Matrix,
    order: Integers | None,
    names: Sequence[str] | None = None,
    allow_missing: bool = False,
) -> None:
    """Raise a `DataError` that names the first entry of X that is NaN or infinite, if any.

    If `order` is given, row r of X is named as row ``order[r]``. If `allow_missing` is true, only
    infinite entries are errors.
    """
    values = X.data if sparse.issparse(X) else X
    bad = np.argwhere(np.isinf(values) if allow_missing else ~np.isfinite(values))
    if not len(bad):
        return  # All entries are finite, but a sum over them has overflowed.
    if sparse.issparse(X):
        entry = bad[0][0]
        row, feature = np.searchsorted(X.indptr, entry, side="right") - 1, X.indices[entry]
        value = values[entry]
    else:
        row, feature = bad[0]
        value = values[row, feature]
    row = row if order is None else order[row]
    name = "" if names is None else f" (feature {names[feature]!r})"
    advice = FOR_INFINITE
    if np.isnan(value):
        advice = f"{FOR_MISSING} RankingData also needs allow_missing=True."
    value = "NaN" if np.isnan(value) else value
    raise DataError(f"X[{row}, {feature}]{name} is {value}; {advice}")


def holds_missing(X: Matrix) -> bool:
    """Return whether an entry of X is NaN."""
    return bool(np.isnan(X.data if sparse.issparse(X) else X).any())


def check_labels(y: ArrayLike, n_docs: int) -> Vector:
    """Return the labels as a float64 vector of the right length, all finite."""
    if np.iscomplexobj(y):
        raise DataError("y holds complex numbers; labels must be real")
    if (kind := np.asarray(y).dtype).kind in "mM":
        raise DataError(
            f"y holds {kind}; labels must be numbers. Use numbers in the place of dates, such as "
            "days since one of them."
        )
    try:
        y = np.ascontiguousarray(y, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        reason = re.sub(r"np\.str_\((.*)\)", r"\1", str(error))
        raise DataError(
            f"y cannot be read as numbers: {reason}. Replace words by numbers; a larger label is "
            "more relevant."
        ) from None
    if y.ndim != 1 or len(y) != n_docs:
        raise DataError(
            f"y has shape {y.shape} but X has {n_docs} rows; expected one label per row"
        )
    bad = np.flatnonzero(~np.isfinite(y))
    if len(bad):
        raise DataError(
            f"y[{bad[0]}] is {y[bad[0]]}; labels must be finite numbers. Use a number in its "
            "place, or remove the row."
        )
    return y


def check_rows(values: ArrayLike | None, n: int, name: str, whose: str = "X has") -> Vector | None:
    """Return one finite number per row as a float64 vector; None if `values` is None.

    `whose` names what has n rows in the message of an error.
    """
    if values is None:
        return None
    try:
        values = np.ascontiguousarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{name} cannot be read as numbers: {error}") from None
    if values.shape != (n,):
        raise DataError(
            f"{name} has shape {values.shape} but {whose} {n} rows; expected one number per row"
        )
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise DataError(f"{name}[{bad[0]}] is {values[bad[0]]}; expected finite numbers")
    return values


def check_weight(
    weight: ArrayLike | None, n: int, name: str, whose: str = "X has"
) -> Vector | None:
    """Return weights as a float64 vector, finite and not negative, with at least one above 0."""
    weight = check_rows(weight, n, name, whose)
    if weight is None:
        return None
    bad = np.flatnonzero(weight < 0)
    if len(bad):
        raise DataError(f"{name}[{bad[0]}] is {weight[bad[0]]}; weights must be finite and ≥ 0")
    if not weight.any():
        raise DataError(f"{name} is zero everywhere. Use a positive weight for at least one row.")
    return weight


def check_propensity(
    propensity: ArrayLike | None, n: int, name: str = "propensity"
) -> Vector | None:
    """Return propensities as a float64 vector, above 0 and at most 1."""
    propensity = check_rows(propensity, n, name)
    if propensity is None:
        return None
    bad = np.flatnonzero(~((propensity >= LEAST_PROPENSITY) & (propensity <= 1)))
    if len(bad):
        raise DataError(
            f"{name}[{bad[0]}] is {propensity[bad[0]]}; expected a probability from "
            f"{LEAST_PROPENSITY:g} to 1"
        )
    return propensity


#: The checks of the arrays with a number for each row, by their names.
PER_ROW_CHECKS: Mapping[str, Callable[..., Any]] = {
    "sample_weight": check_weight, "query_weight": check_weight, "propensity": check_propensity,
    "margin": check_rows,
}  # fmt: skip


def check_pairs(pairs: ArrayLike, n_docs: int) -> Integers:
    """Return pairs of row numbers as an int64 array of shape (n_pairs, 2)."""
    pairs = np.asarray(pairs)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or len(pairs) == 0:
        raise DataError(
            f"pairs has shape {pairs.shape}; expected (n_pairs, 2) with at least one pair"
        )
    if pairs.dtype.kind in "OSTU":
        raise DataError("pairs holds names. Pass items=, the name of each row of X, too.")
    if pairs.dtype.kind not in "iu":
        raise DataError(f"pairs holds {pairs.dtype}; expected row numbers of X, as integers")
    pairs = pairs.astype(np.int64)
    bad = np.flatnonzero(((pairs < 0) | (pairs >= n_docs)).any(axis=1))
    if len(bad):
        raise DataError(
            f"pairs[{bad[0]}] is {pairs[bad[0]].tolist()}; expected row numbers of X, from 0 to "
            f"{n_docs - 1}"
        )
    same = np.flatnonzero(pairs[:, 0] == pairs[:, 1])
    if len(same):
        raise DataError(
            f"pairs[{same[0]}] compares row {pairs[same[0], 0]} with itself. Use two different "
            "rows, or remove the pair."
        )
    return pairs


def one_per_query(weight: Vector, query_ptr: Integers, query_ids: Array) -> Vector:
    """Return the weight of each query, given the query weight of each row."""
    first = weight[query_ptr[:-1]]
    wrong = np.flatnonzero(weight != np.repeat(first, np.diff(query_ptr)))
    if len(wrong):
        query = query_ids[np.searchsorted(query_ptr, wrong[0], side="right") - 1]
        raise DataError(
            f"query_weight differs within query {query}; expected one value for all its rows"
        )
    return first


def check_feature_names(names: Sequence[str] | None, n_features: int) -> list[str] | None:
    """Check that there is one name per feature."""
    if names is None:
        return None
    if len(names) != n_features:
        raise DataError(
            f"feature_names has {len(names)} entries but X has {n_features} features. Use one "
            "name per feature."
        )
    return [str(name) for name in names]


class Grouping(NamedTuple):
    """The rows of each query.

    If the rows of each query are adjacent, `order` is None. Otherwise it is a stable permutation
    that makes them adjacent.
    """

    query_ptr: Integers
    query_ids: Array
    order: Integers | None


def group_by_query(qid: Any, n_docs: int) -> Grouping:
    """Group rows by their query ids; None puts all rows into one query."""
    if qid is None:
        return Grouping(np.array([0, n_docs], np.int64), np.zeros(1, np.int64), None)
    if isinstance(qid, Ids):
        values, places = np.unique(_present(qid.values, qid.codes), return_inverse=True)
        query_ptr, numbers, order = group_by_query(places[qid.codes], n_docs)
        return Grouping(query_ptr, values[numbers], order)
    qid = _as_array(qid)
    if qid.ndim != 1 or len(qid) != n_docs:
        raise DataError(
            f"qid has shape {qid.shape} but X has {n_docs} rows; expected one query id per row"
        )
    codes, ids = _encode_objects(qid) if qid.dtype.kind == "O" else (_present(qid), qid)
    starts = np.flatnonzero(codes[1:] != codes[:-1]) + 1
    starts = np.concatenate([[0], starts]).astype(np.int64)
    heads = codes[starts]
    if len(np.unique(heads)) == len(heads):
        return Grouping(np.append(starts, n_docs), ids[starts], None)
    order = np.argsort(codes, kind="stable").astype(np.int64)
    codes = codes[order]
    starts = np.concatenate([[0], np.flatnonzero(codes[1:] != codes[:-1]) + 1]).astype(np.int64)
    return Grouping(np.append(starts, n_docs), ids[order[starts]], order)


def _present(ids: Array, codes: Integers | None = None) -> Array:
    """Return ids, or raise a `DataError` if the id of a row is NaN or NaT."""
    if ids.dtype.kind in "fcmM" and (ids != ids).any():
        rows = ids if codes is None else ids[codes]
        missing = rows != rows
        raise DataError(f"qid[{np.flatnonzero(missing)[0]}] is NaN; every row needs a query id")
    return ids


def _as_array(qid: Any) -> Array:
    """Return ids as an array; numpy must not convert mixed lists or unpack nested ones."""
    if not isinstance(qid, list | tuple):
        array = np.asarray(qid)
        if array is qid or array.dtype.kind != "U":
            return array
        qid = list(qid)  # An array of numpy drops NUL letters at the end of texts.
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


def _is_missing(name: object) -> bool:
    """Return whether an id is None, NaN, NaT or pandas.NA."""
    try:
        return name is None or bool(name != name)
    except TypeError:  # pandas.NA has no truth value.
        return True


def _encode_objects(qid: Array) -> tuple[Integers, Array]:
    """Return the number of each row's id, and the ids, which must be hashable.

    Texts and integers are numbered in their order, as in an array of numpy, so that the order of
    queries does not depend on the library of the ids. Other ids are numbered as they appear.
    """
    seen: dict[Hashable, int] = {}
    codes = np.empty(len(qid), np.int64)
    for row, name in enumerate(qid):
        if _is_missing(name):
            what = name if name is None else "NaN"
            raise DataError(f"qid[{row}] is {what}; every row needs a query id")
        try:
            codes[row] = seen.setdefault(name, len(seen))
        except TypeError:
            raise DataError(
                f"qid[{row}] is {name!r}, which is not hashable; expected numbers or strings"
            ) from None
    kinds = {type(name) for name in seen}
    if kinds <= {str} or kinds <= {int}:
        codes = np.argsort([seen[name] for name in sorted(seen)])[codes]  # type: ignore[type-var]
    return codes, qid
