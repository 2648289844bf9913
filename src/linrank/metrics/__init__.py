"""Metrics of ranked lists, in which every convention that differs between tools is explicit.

All metrics take labels `y`, `scores` (higher is better) and optionally `qid`. They return the
mean over the queries, or one value per query with ``per_query=True``.

A flavour is the set of conventions of one evaluation tool:

========  =======  ================  ========  ===========  ========  =============  ==========
flavour   gain     discount, rank r  relevant  no relevant  ties      NDCG@k, l < k  P@k, l < k
========  =======  ================  ========  ===========  ========  =============  ==========
standard  2^y − 1  1/log2(r + 1)     y >= 1    skipped      averaged  NDCG@l         padded
letor3    2^y − 1  1/max(1, log2 r)  y >= 1    counts 0     stable    0              0
letor4    2^y − 1  1/max(1, log2 r)  y >= 1    counts 0     stable    0              padded
mslr      2^y − 1  1/max(1, log2 r)  y >= 2    counts 0     stable    0              padded
trec      y        1/log2(r + 1)     y >= 1    counts 0     doc id    NDCG@l         padded
========  =======  ================  ========  ===========  ========  =============  ==========

- letor3, letor4 and mslr follow Microsoft's scripts Eval-Score-3.0.pl, Eval-Score-4.0.pl and
  eval-score-mslr.pl. trec follows trec_eval, which breaks ties by descending document id.
- The column "no relevant" says what a query without a relevant document counts as.
- "stable" ties: documents of equal score keep the order of the rows.
- The last two columns hold for a cut-off k beyond the end of a list of l documents. A "padded"
  list is filled up with irrelevant documents.

`pairwise_accuracy`, `strict_pairwise_accuracy`, `auc`, `all_pairs_error`, `domination_error`,
`spearman` and `kendall` (τ-b) are the same in all flavours. Queries whose labels are all equal
are skipped. Ties are averaged; in `strict_pairwise_accuracy` they are wrong. `all_pairs_error` and
`domination_error` are errors: lower is better. For all other metrics, higher is better
(`Metric.greater_is_better`).

Names are loaded when they are first used, so that ``linrank.metrics.names`` can be imported
without numba.
"""

# ruff: noqa: F401  (the imports below are for type checkers only)

from __future__ import annotations

from .._lazy import lazy_names

#: The module of each public name. A new metric is listed here and in the imports below.
_HOME = {
    "Evaluation": "_evaluate",
    "Metric": "_registry",
    "PerQuery": "_measure",
    "Ranking": "_ranking",
    "all_pairs_error": "_pairwise",
    "auc": "_pairwise",
    "average_precision": "_precision",
    "domination_error": "_domination",
    "err": "_cascade",
    "evaluate": "_evaluate",
    "evaluate_data": "_evaluate",
    "evaluate_run": "_runs",
    "hit_rate": "_recall",
    "kendall": "_correlation",
    "mean_ndcg": "_ndcg",
    "metric_names": "_registry",
    "ndcg": "_ndcg",
    "pairwise_accuracy": "_pairwise",
    "parse_metric": "_registry",
    "parse_metrics": "_registry",
    "precision": "_precision",
    "preference_accuracy": "_preferences",
    "r_precision": "_recall",
    "rbp": "_rbp",
    "recall": "_recall",
    "reciprocal_rank": "_cascade",
    "resolve_rules": "_rules",
    "right_pairs": "_preferences",
    "spearman": "_correlation",
    "strict_pairwise_accuracy": "_pairwise",
}

__all__ = list(_HOME)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._cascade import err, reciprocal_rank
    from ._correlation import kendall, spearman
    from ._domination import domination_error
    from ._evaluate import Evaluation, evaluate, evaluate_data
    from ._measure import PerQuery
    from ._ndcg import mean_ndcg, ndcg
    from ._pairwise import all_pairs_error, auc, pairwise_accuracy, strict_pairwise_accuracy
    from ._precision import average_precision, precision
    from ._preferences import preference_accuracy, right_pairs
    from ._ranking import Ranking
    from ._rbp import rbp
    from ._recall import hit_rate, r_precision, recall
    from ._registry import Metric, metric_names, parse_metric, parse_metrics
    from ._rules import resolve_rules
    from ._runs import evaluate_run

if not TYPE_CHECKING:  # type checkers report unknown names
    __getattr__ = lazy_names(__name__, _HOME)
