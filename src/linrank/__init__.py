"""linrank: linear learning to rank at memory speed.

Names are loaded on first use, so ``import linrank`` is fast.
"""

_HOME = {
    "RankSVM": "estimators.ranksvm",
    "RankSVMCV": "estimators.ranksvm",
    "RefinedRankSVM": "estimators.ranksvm",
    "AdditiveRanker": "estimators.additive_ranker",
    "AdditiveRankerCV": "estimators.additive_ranker",
    "DominationRank": "estimators.domination_rank",
    "DominationRankCV": "estimators.domination_rank",
    "MultiTopicRanker": "estimators.topics",
    "KernelRankSVM": "estimators.kernel_ranksvm",
    "SparseRankSVM": "estimators.sparse_ranksvm",
    "SparseRankSVMCV": "estimators.sparse_ranksvm",
    "sparse_path": "training.selection",
    "load_ranker": "estimators.ranker",
    "QueryKFold": "estimators.model_selection",
    "make_ranking_scorer": "estimators.model_selection",
    "AdditiveModel": "model",
    "LinearModel": "model",
    "Explanation": "model",
    "Drift": "model.drift",
    "load_model": "model",
    "RankingData": "data.ranking",
    "read_letor": "data.letor",
    "write_letor": "data.letor",
    "save_store": "data.store",
    "open_store": "data.store",
    "convert": "data.store",
    "load": "data.formats",
    "Pairs": "data.pairs",
    "read_pairs": "data.pairs",
    "PreferenceModel": "preferences.preference_model",
    "Votes": "preferences.votes",
    "read_votes": "preferences.votes",
    "Rankings": "preferences.rankings",
    "fit_rankings": "preferences.rankings",
    "read_rankings": "preferences.rankings",
    "Qrels": "data.trec",
    "Run": "data.trec",
    "join_qrels": "data.trec",
    "read_qrels": "data.trec",
    "read_run": "data.trec",
    "write_qrels": "data.trec",
    "write_run": "data.trec",
    "make_ranking": "data.generate",
    "C_GRID": "training.selection",
    "make_problem": "problem",
    "regularization_path": "training.selection",
    "compare": "comparison",
    "compare_evaluations": "comparison",
    "warmup": "estimators.warmup",
    "LinrankError": "errors",
    "DataError": "errors",
    "FileFormatError": "errors",
    "ConstantFeaturesWarning": "errors",
    "FeatureRangeWarning": "errors",
    "FeatureScaleWarning": "errors",
    "NegativeLabelsWarning": "errors",
    "UnnamedFeaturesWarning": "errors",
    "ForgottenQueriesWarning": "errors",
    "GridEdgeWarning": "errors",
    "KernelCacheWarning": "errors",
    "NotConvergedWarning": "errors",
    "NothingSelectedWarning": "errors",
    "OrderChangedWarning": "errors",
    "QueriesMovedWarning": "errors",
    "SeparationWarning": "errors",
    "SplitQueriesWarning": "errors",
    "StaircaseWarning": "errors",
    "SwappedArgumentsWarning": "errors",
    "WorkersLost": "errors",
    "Status": "solvers.result",
    "all_pairs_error": "metrics",
    "auc": "metrics",
    "average_precision": "metrics",
    "domination_error": "metrics",
    "err": "metrics",
    "evaluate": "metrics",
    "evaluate_run": "metrics",
    "hit_rate": "metrics",
    "kendall": "metrics",
    "mean_ndcg": "metrics",
    "ndcg": "metrics",
    "pairwise_accuracy": "metrics",
    "parse_metric": "metrics",
    "precision": "metrics",
    "preference_accuracy": "metrics",
    "r_precision": "metrics",
    "rbp": "metrics",
    "recall": "metrics",
    "reciprocal_rank": "metrics",
    "spearman": "metrics",
    "strict_pairwise_accuracy": "metrics",
    "__version__": "_version",
}

_LIGHT = ("errors", "_version")  # modules that need neither numpy nor scipy

__all__ = list(_HOME)

TYPE_CHECKING = False  # True for type checkers; importing `typing` would take some milliseconds
if TYPE_CHECKING:
    from typing import Any

    from ._version import __version__
    from .comparison import compare, compare_evaluations
    from .data.formats import load
    from .data.generate import make_ranking
    from .data.letor import read_letor, write_letor
    from .data.pairs import Pairs, read_pairs
    from .data.ranking import RankingData
    from .data.store import convert, open_store, save_store
    from .data.trec import Qrels, Run, join_qrels, read_qrels, read_run, write_qrels, write_run
    from .errors import (
        ConstantFeaturesWarning,
        DataError,
        FeatureRangeWarning,
        FeatureScaleWarning,
        FileFormatError,
        ForgottenQueriesWarning,
        GridEdgeWarning,
        KernelCacheWarning,
        LinrankError,
        NegativeLabelsWarning,
        NotConvergedWarning,
        NothingSelectedWarning,
        OrderChangedWarning,
        QueriesMovedWarning,
        SeparationWarning,
        SplitQueriesWarning,
        StaircaseWarning,
        SwappedArgumentsWarning,
        UnnamedFeaturesWarning,
        WorkersLost,
    )
    from .estimators.additive_ranker import AdditiveRanker, AdditiveRankerCV
    from .estimators.domination_rank import DominationRank, DominationRankCV
    from .estimators.kernel_ranksvm import KernelRankSVM
    from .estimators.model_selection import QueryKFold, make_ranking_scorer
    from .estimators.ranker import load_ranker
    from .estimators.ranksvm import RankSVM, RankSVMCV, RefinedRankSVM
    from .estimators.sparse_ranksvm import SparseRankSVM, SparseRankSVMCV
    from .estimators.topics import MultiTopicRanker
    from .estimators.warmup import warmup
    from .metrics import (
        all_pairs_error,
        auc,
        average_precision,
        domination_error,
        err,
        evaluate,
        evaluate_run,
        hit_rate,
        kendall,
        mean_ndcg,
        ndcg,
        pairwise_accuracy,
        parse_metric,
        precision,
        preference_accuracy,
        r_precision,
        rbp,
        recall,
        reciprocal_rank,
        spearman,
        strict_pairwise_accuracy,
    )
    from .model import AdditiveModel, Explanation, LinearModel, load_model
    from .model.drift import Drift
    from .preferences.preference_model import PreferenceModel
    from .preferences.rankings import Rankings, fit_rankings, read_rankings
    from .preferences.votes import Votes, read_votes
    from .problem import make_problem
    from .solvers.result import Status
    from .training.selection import C_GRID, regularization_path, sparse_path


def __getattr__(name: str) -> "Any":
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    from ._util.lazy import import_lightly

    home = f"{__name__}.{_HOME[name]}"
    value = getattr((import_module if _HOME[name] in _LIGHT else import_lightly)(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
