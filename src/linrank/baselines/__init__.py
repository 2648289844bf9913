"""The methods that the papers compare RankSVM with, behind one surface.

`LinearSVRRanker`, `RandomForestRanker` and `GradientBoostingRanker` are pointwise: they learn
the labels as numbers and do not see the queries. `LambdaMARTRanker` is listwise. These are thin
wrappers of scikit-learn and LightGBM (Lee & Lin 2014, §4.5). `FenchelRank` and `FSMRank` learn
sparse weights from pairs (Laporte et al. 2014, §5). `PAMIR` learns online; `AdaRank` and
`RankBoost` boost, for a metric and for pairs (Stevens et al. 2013). All have the `fit`, `predict`,
`rank` and `score` of `linrank.RankSVM`. `GAS` selects features for any ranker.
"""

from .adarank import AdaRank
from .boosting import GradientBoostingRanker
from .fenchel_rank import FenchelRank
from .forest import RandomForestRanker
from .fsm_rank import FSMRank
from .gas import GAS
from .lambdamart import LambdaMARTRanker
from .pamir import PAMIR
from .rankboost import RankBoost
from .stumps import StumpModel
from .svr import LinearSVRRanker

__all__ = [
    "GAS",
    "PAMIR",
    "AdaRank",
    "FSMRank",
    "FenchelRank",
    "GradientBoostingRanker",
    "LambdaMARTRanker",
    "LinearSVRRanker",
    "RandomForestRanker",
    "RankBoost",
    "StumpModel",
]
