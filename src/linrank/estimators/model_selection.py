"""Cross-validation over whole queries."""

from __future__ import annotations

from typing import ClassVar

from sklearn.model_selection import GroupKFold


class QueryKFold(GroupKFold):
    """K folds that never split a query.

    With scikit-learn's metadata routing, `qid` reaches it by itself, so that
    ``cross_validate(ranker, X, y, cv=QueryKFold(5), params={"qid": qid})`` is all there is
    to write; without routing, pass ``groups=qid``.

    Examples
    --------
    >>> import numpy as np
    >>> qid = np.array(["a", "b", "a", "c"])
    >>> for train, test in QueryKFold(3).split(np.zeros((4, 1)), groups=qid):
    ...     print(sorted(set(qid[test].tolist())))
    ['a']
    ['c']
    ['b']
    """

    __metadata_request__split: ClassVar = {"groups": "qid"}
