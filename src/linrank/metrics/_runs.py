"""Metrics of a run against judgements, as trec_eval computes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from .._typing import Array, Integers, Vector
from ..data.ids import join_strings
from ..data.trec import Qrels, Run, look_up, number_words
from ..errors import DataError
from ._evaluate import Evaluation, evaluate_ranking
from ._ranking import Ranking
from ._registry import Metric, parse_metrics
from ._rules import resolve_rules
from .names import FlavourName

_LARGEST_SINGLE = float(np.finfo(np.float32).max)


class _Joined(NamedTuple):
    """Documents of all judged queries, sorted by query; ties by descending document id."""

    y: Vector
    scores: Vector  # −∞ for documents that the run does not list
    query_ptr: Integers
    n_listed: Integers
    query_ids: Array


def evaluate_run(
    qrels: Qrels,
    run: Run,
    metrics: str | Metric | Iterable[str | Metric] = ("ndcg@10",),
    *,
    flavour: FlavourName = "trec",
    n_threads: int | None = None,
) -> Evaluation:
    """Compute metrics of a run against judgements.

    The numbers are those of trec_eval with its option ``-c``:

    - All queries of `qrels` are in the mean. A query that `run` does not have counts 0.
    - Queries of `run` without judgements are ignored.
    - Documents of `run` that were not judged have the label 0.
    - Relevant documents that `run` does not list count in recall, AP, R-precision and in the ideal
      list of NDCG.
    - Documents are sorted by score, and by descending document id if scores are equal. trec_eval
      holds scores in single precision, so scores that differ only beyond it are equal.

    The last point holds for the flavour trec; other flavours have their own rule for ties. In
    metrics of pairs and correlations, documents that `run` does not list share the last place.

    Parameters
    ----------
    qrels : Qrels
    run : Run
    metrics : str or iterable of str
        Names that `parse_metric` accepts. A str may hold several names, separated by commas.
    flavour : str
        The conventions; see `ndcg`.
    n_threads : int, optional

    Returns
    -------
    Evaluation

    See Also
    --------
    linrank.read_qrels, linrank.read_run

    Examples
    --------
    >>> from linrank import Qrels, Run, evaluate_run
    >>> qrels = Qrels(["1", "1", "2"], ["A", "B", "C"], [1, 1, 1])
    >>> run = Run(["1", "1"], ["X", "A"], [2.0, 1.0])
    >>> evaluate_run(qrels, run, "mrr, recall@10").mean
    {'mrr': 0.25, 'recall@10': 0.25}
    """
    wanted, rules = parse_metrics(metrics), resolve_rules(flavour)
    data = _join(qrels, run, single=flavour == "trec")
    ranking = Ranking(data.y, data.scores, data.query_ptr, rules.ties, n_threads, data.n_listed)
    return evaluate_ranking(ranking, wanted, rules, flavour, data.query_ids)


def _join(qrels: Qrels, run: Run, *, single: bool) -> _Joined:
    queries, docs = number_words(qrels.qid), number_words(qrels.doc_ids)
    query = look_up(run.qid, queries)
    rows = np.flatnonzero(query >= 0)
    if not len(rows):
        raise DataError(
            f"the run has no query of the qrels: it begins with query {run.qid[0]!r}, and the "
            f"qrels with {qrels.qid[0]!r}. Use a run of the judged queries"
        )
    query, doc = query[rows], look_up(run.doc_ids, docs)[rows]
    judged_query = look_up(qrels.qid, queries)
    ours = np.where(doc >= 0, query * len(docs) + doc, -1)
    theirs = judged_query * len(docs) + look_up(qrels.doc_ids, docs)
    order = np.argsort(theirs)
    judgement = order[np.minimum(np.searchsorted(theirs, ours, sorter=order), len(order) - 1)]
    labels = np.where(theirs[judgement] == ours, qrels.y[judgement], 0.0)
    scores = (_rounded(run.scores) if single else run.scores)[rows]
    missing = np.flatnonzero(~np.isin(theirs, ours))
    query = np.concatenate([query, judged_query[missing]])
    # Only the order of tied documents matters, because `Ranking` sorts by score.
    places = np.zeros(len(query), np.int64)
    places[: len(rows)] = _doc_places(query[: len(rows)], scores, run.doc_ids, rows)
    by_query = np.lexsort((-places, query))
    return _Joined(
        y=np.concatenate([labels, qrels.y[missing]])[by_query],
        scores=np.concatenate([scores, np.full(len(missing), -np.inf)])[by_query],
        query_ptr=np.concatenate([[0], np.cumsum(np.bincount(query, minlength=len(queries)))]),
        n_listed=np.bincount(query[: len(rows)], minlength=len(queries)),
        query_ids=join_strings(list(queries)),
    )


def _rounded(scores: Vector) -> Vector:
    """Round scores to single precision."""
    limited = np.clip(scores, -_LARGEST_SINGLE, _LARGEST_SINGLE)
    return limited.astype(np.float32).astype(np.float64)


def _doc_places(
    query: Integers, scores: Vector, doc_ids: Sequence[str], rows: Integers
) -> Integers:
    """Return the places of tied documents in the alphabet, and 0 for all other documents."""
    order = np.lexsort((scores, query))
    same = (np.diff(query[order]) == 0) & (np.diff(scores[order]) == 0)
    tied = order[np.flatnonzero(np.r_[same, False] | np.r_[False, same])]
    names = [doc_ids[row] for row in rows[tied].tolist()]
    alphabet = {name: place for place, name in enumerate(sorted(set(names)))}
    places = np.zeros(len(rows), np.int64)
    places[tied] = look_up(names, alphabet)
    return places
