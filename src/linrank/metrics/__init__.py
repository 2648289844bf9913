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

Names are loaded when they are first used, so that ``linrank.choices`` can be imported
without numba.
"""

# ruff: noqa: F403  (type checkers read the public names, which each file lists in `__all__`)

from __future__ import annotations

from .._util.lazy import lazy_listed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .binary import *
    from .evaluation import *
    from .gains import *
    from .pair_counts import *
    from .ranked_lists import *
else:  # type checkers report unknown names
    __getattr__ = lazy_listed(
        __name__, ("ranked_lists", "gains", "binary", "pair_counts", "evaluation")
    )
