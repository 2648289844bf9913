"""Rankers that the papers compare RankSVM with, under the interface of `linrank.RankSVM`.

All rankers have the methods `fit`, `predict`, `rank` and `score`.

- `LinearSVRRanker`, `RandomForestRanker` and `GradientBoostingRanker` are pointwise: they predict
  the labels as numbers and ignore the queries. They wrap scikit-learn (Lee & Lin 2014, §4.5).
- `LambdaMARTRanker` is listwise and wraps LightGBM.
- `FenchelRank` and `FSMRank` learn sparse weights from pairs (Laporte et al. 2014, §5).
- `PAMIR` is an online method, and `PAMIRCV` chooses its settings (Stevens et al. 2013).
- `AdaRank` and `RankBoost` are boosting methods for a metric and for pairs (Stevens et al. 2013).
- `CoordinateAscent` maximises a metric by line searches (Metzler & Croft 2007).
- `GAS` selects features for any ranker, and `GASRanker` fits RankSVM to them.
"""

from .adarank import AdaRank
from .coordinate_ascent import CoordinateAscent
from .fenchel_rank import FenchelRank
from .fsm_rank import FSMRank
from .gas import GAS, GASRanker
from .pamir import PAMIR, PAMIRCV
from .rankboost import RankBoost, StumpModel
from .svr import LinearSVRRanker
from .tree_rankers import GradientBoostingRanker, LambdaMARTRanker, RandomForestRanker

__all__ = [
    "GAS",
    "PAMIR",
    "PAMIRCV",
    "AdaRank",
    "CoordinateAscent",
    "FSMRank",
    "FenchelRank",
    "GASRanker",
    "GradientBoostingRanker",
    "LambdaMARTRanker",
    "LinearSVRRanker",
    "RandomForestRanker",
    "RankBoost",
    "StumpModel",
]
