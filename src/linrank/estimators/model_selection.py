"""Cross-validation over whole queries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.model_selection import GroupKFold

from .._typing import Integers
from ..data.checks import Matrix, check_matrix, group_by_query
from ..data.keys import rank_by_content, row_keys
from ..errors import DataError


class QueryKFold(GroupKFold):
    """K folds that never split a query.

    With scikit-learn's metadata routing,
    ``cross_validate(ranker, X, y, cv=QueryKFold(5), params={"qid": qid})`` passes `qid` to the
    ranker and to the folds. Without routing, pass ``groups=qid``. The fold of a query depends
    on its size and content, not on the order of rows or the type of the ids.

    Parameters
    ----------
    n_splits : int
        The number of folds.
    shuffle : bool
        Whether queries are assigned to folds at random. Otherwise folds have similar sizes.
    random_state : int, optional
        The seed, if `shuffle` is True.

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

    def split(
        self, X: Matrix, y: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> Iterator[tuple[Integers, Integers]]:
        """Return pairs of row numbers: rows to train on, and rows to test on.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_docs, n_features)
        y : ignored
        groups : array of shape (n_docs,)
            The query of each row: any type, in any order.

        Returns
        -------
        iterator of (train, test)
            Two integer arrays for each fold.
        """
        if groups is None:
            raise DataError("QueryKFold needs the queries. Pass qid, or groups=qid.")
        X = check_matrix(X)
        query_ptr, _, order = group_by_query(groups, X.shape[0])
        rows = np.arange(X.shape[0]) if order is None else order
        keys = np.add.reduceat(row_keys(X)[rows], query_ptr[:-1])
        codes = np.empty(X.shape[0], np.int64)
        codes[rows] = np.repeat(rank_by_content(keys), np.diff(query_ptr))
        return super().split(X, y, codes)
