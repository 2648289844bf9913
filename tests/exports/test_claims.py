"""What the README says of XGBoost's ranker."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.mark.parametrize(
    ("qid", "weight", "message"),
    [
        ([1, 2, 1, 2], None, "must be sorted"),
        (["a", "a", "b", "b"], None, "not supported"),
        ([1, 1, 2, 2], [1.0, 2.0, 3.0, 4.0], "number of query groups"),
    ],
)
def test_xgboost_needs_sorted_numbers_and_weighs_queries(needs, qid, weight, message):
    xgboost = needs("xgboost")
    X = np.random.default_rng(0).random((4, 3))
    with pytest.raises(xgboost.core.XGBoostError, match=message):
        xgboost.XGBRanker(n_estimators=2).fit(X, [0, 1, 0, 1], qid=qid, sample_weight=weight)
