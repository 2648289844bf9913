"""The methods that the papers compare RankSVM with, behind one surface (Lee & Lin 2014, §4.5).

`LinearSVRRanker`, `RandomForestRanker` and `GradientBoostingRanker` are pointwise: they learn
the labels as numbers and do not see the queries. `LambdaMARTRanker` is listwise. All are thin
wrappers of scikit-learn and LightGBM, with the `fit`, `predict`, `rank` and `score` of
`linrank.RankSVM`.
"""

from .boosting import GradientBoostingRanker
from .forest import RandomForestRanker
from .lambdamart import LambdaMARTRanker
from .svr import LinearSVRRanker

__all__ = ["GradientBoostingRanker", "LambdaMARTRanker", "LinearSVRRanker", "RandomForestRanker"]
