"""Cross-validation over whole queries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from sklearn.model_selection import GroupKFold

from ..data.checks import check_matrix, group_by_query
from ..data.ranking import rank_by_content, row_keys
from ..errors import DataError


class QueryKFold(GroupKFold):
    """K folds that never split a query.

    With scikit-learn's metadata routing, `qid` reaches it by itself, so that
    ``cross_validate(ranker, X, y, cv=QueryKFold(5), params={"qid": qid})`` is all there is
    to write; without routing, pass ``groups=qid``. Which query goes into which fold depends
    on its size and content, not on the order of rows or the type of the ids.

    Examples
    --------
    >>> import numpy as np
    >>> qid = np.array(["a", "b", "a", "c"])
    >>> for train, test in QueryKFold(3).split(np.arange(4.0)[:, None], groups=qid):
    ...     print(sorted(set(qid[test].tolist())))
    ['a']
    ['c']
    ['b']
    """

    __metadata_request__split: ClassVar = {"groups": "qid"}

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[Any]:
        """Pairs of row indices to train and to test on.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_docs, n_features)
        y : ignored
        groups : array of shape (n_docs,)
            The queries: any type, any order.
        """
        if groups is None:
            raise DataError("QueryKFold needs the queries: pass qid (or groups=qid)")
        X = check_matrix(X)
        query_ptr, _, order = group_by_query(groups, X.shape[0])
        rows = np.arange(X.shape[0]) if order is None else order
        keys = np.add.reduceat(row_keys(X)[rows], query_ptr[:-1])
        codes = np.empty(X.shape[0], np.int64)
        codes[rows] = np.repeat(rank_by_content(keys), np.diff(query_ptr))
        return super().split(X, y, codes)
