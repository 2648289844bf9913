"""Metrics of ranked lists, compiled, with every convention that differs between tools explicit.

All take labels `y`, `scores` (higher is better) and optionally `qid`, and return the mean
over the queries, or with ``per_query=True`` one value per query.

========  =======  ================  ======  ==========  ========  =============  ==========
flavour   gain     discount, rank r  rel     none found  ties      NDCG, l < k    P, l < k
========  =======  ================  ======  ==========  ========  =============  ==========
standard  2^y − 1  1/log2(r + 1)     y >= 1  skipped     averaged  of the list    padded
letor3    2^y − 1  1/max(1, log2 r)  y >= 1  counts 0    stable    0              0
letor4    2^y − 1  1/max(1, log2 r)  y >= 1  counts 0    stable    0              padded
mslr      2^y − 1  1/max(1, log2 r)  y >= 2  counts 0    stable    0              padded
trec      y        1/log2(r + 1)     y >= 1  counts 0    doc id    of the list    padded
========  =======  ================  ======  ==========  ========  =============  ==========

letor3, letor4 and mslr follow Microsoft's scripts Eval-Score-3.0.pl, Eval-Score-4.0.pl and
eval-score-mslr.pl; trec follows trec_eval, where doc ids in descending order break ties.
"None found" is a query without a relevant document; "stable" keeps documents of equal
score in the order of the rows; the last two columns are cut-offs k beyond the end of a
list of l documents, which "padded" fills up with irrelevant ones.

Metrics of pairs (`pairwise_accuracy`, `auc`, `all_pairs_error`) and `domination_error` are the
same in all flavours: ties are averaged, and queries with only one label are skipped. Of the two
errors the smallest is the best, of all others the largest (`Metric.greater_is_better`).
"""

from __future__ import annotations

from ._cascade import err, reciprocal_rank
from ._domination import domination_error
from ._evaluate import Evaluation, evaluate
from ._ndcg import mean_ndcg, ndcg
from ._pairwise import all_pairs_error, auc, pairwise_accuracy
from ._precision import average_precision, precision
from ._registry import Metric, metric_names, parse_metric

__all__ = [
    "Evaluation",
    "Metric",
    "all_pairs_error",
    "auc",
    "average_precision",
    "domination_error",
    "err",
    "evaluate",
    "mean_ndcg",
    "metric_names",
    "ndcg",
    "pairwise_accuracy",
    "parse_metric",
    "precision",
    "reciprocal_rank",
]
