"""Arguments in the manner of XGBoost and LightGBM, turned into those of linrank.

These libraries give the queries as `group`, the number of documents of each query, and held-out
data as `eval_set` with `eval_qid` or `eval_group`. Here, they are `qid` and `valid`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from .._typing import Integers
from ..data.checks import Matrix
from ..data.ranking import RankingData
from ..errors import DataError

#: Held-out data: (X, y, qid), or a `RankingData`.
HeldOut: TypeAlias = "tuple[Matrix, ArrayLike, ArrayLike | None] | RankingData"
EvalSet: TypeAlias = "Sequence[tuple[Matrix, ArrayLike]]"


def queries(qid: Any, group: ArrayLike | None, rows: Any) -> Any:
    """Return the query of each of some rows, given as `qid` or as `group`.

    `rows` has one entry for each of them.

    Examples
    --------
    >>> queries(None, [2, 1], rows=[0.5, 0.25, 0.0]).tolist()
    [0, 0, 1]
    """
    if group is None:
        return qid
    if qid is not None:
        raise DataError("qid and group both give the queries. Leave out one of them.")
    if rows is None:
        raise DataError("group divides the rows of X and y into queries. Pass y, too.")
    return qid_of_group(group, np.size(rows))


def qid_of_group(group: ArrayLike, n_docs: int, name: str = "group") -> Integers:
    """Return the number of the query of each row, given the number of rows of each query."""
    try:
        sizes = np.asarray(group)
        whole = sizes.dtype.kind in "iuf" and bool((sizes == np.floor(sizes)).all())
    except ValueError:  # a list of lists of different lengths
        whole, sizes = False, np.empty(0)
    if not whole or sizes.ndim != 1 or not (sizes >= 1).all():
        raise DataError(
            f"{name} must be a list of the number of documents of each query, each at least 1"
        )
    if sizes.sum() != n_docs:
        hint = " It looks like a query id per row: pass it as qid." if len(sizes) == n_docs else ""
        raise DataError(
            f"{name} has {len(sizes):,} queries with {int(sizes.sum()):,} documents in total, but "
            f"X has {n_docs:,} rows.{hint or ' Use the number of documents of each query.'}"
        )
    return np.repeat(np.arange(len(sizes)), sizes.astype(np.int64))


def held_out(
    valid: HeldOut | None,
    eval_set: EvalSet | None,
    eval_qid: Sequence[Any] | None,
    eval_group: Sequence[ArrayLike] | None,
    has_qid: bool,
) -> HeldOut | None:
    """Return the held-out data, given as `valid` or as `eval_set`.

    `has_qid` says whether the training data have queries, so that the held-out data need them.
    """
    if eval_set is None:
        if eval_qid is not None or eval_group is not None:
            raise DataError("eval_qid and eval_group are the queries of eval_set. Pass eval_set.")
        return valid
    if valid is not None:
        raise DataError("valid and eval_set both give held-out data. Leave out one of them.")
    pairs = [eval_set] if isinstance(eval_set, tuple) else list(eval_set)
    if len(pairs) != 1 or len(pairs[0]) != 2:
        raise DataError(
            f"eval_set has {len(pairs)} entries; expected one pair, [(X, y)], because C is chosen "
            "on one set of held-out data"
        )
    X, y = pairs[0]
    qid, group = _only(eval_qid, "eval_qid"), _only(eval_group, "eval_group")
    if qid is not None and group is not None:
        raise DataError("eval_qid and eval_group both give the queries. Leave out one of them.")
    if group is not None:
        qid = qid_of_group(group, np.size(y), "eval_group[0]")
    if has_qid and qid is None:
        raise DataError(
            "the queries of eval_set are missing, but those of X are given. Pass eval_qid=[qid] or "
            "eval_group=[group]."
        )
    return X, y, qid


def _only(entries: Sequence[Any] | None, name: str) -> Any:
    """Return the entry for the only pair of `eval_set`."""
    if entries is None:
        return None
    if len(entries) != 1:
        raise DataError(
            f"{name} has {len(entries)} entries; expected a list with one entry, for the only pair "
            "of eval_set"
        )
    return entries[0]
