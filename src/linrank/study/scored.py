"""Scores of other tools as the outcome of a run."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from .._typing import Vector
from ..criterion import Criterion
from ..data.ranking import RankingData
from ..data.scores import read_scores
from ..data.trec import Qrels, Run, looks_like_run, read_run, require_doc_ids
from ..errors import DataError, about_file
from ..metrics import Evaluation, evaluate, evaluate_run
from ..metrics.names import FlavourName
from .folds import Lines
from .outcomes import Outcome, Trial
from .store import TestPart


def outcome_of_scores(
    path: str, test: RankingData, criterion: Criterion, lines: Lines | None = None
) -> Outcome:
    """Read scores of the test part of a fold: one per line, or in TREC's format for runs.

    If `lines` is given, a file with one score per line has those of all documents of the data.
    """
    if looks_like_run(Path(path)):
        with about_file(path):
            scores = scores_of_run(read_run(path), test)
    elif lines is not None:
        scores = read_scores(path, lines.n_docs)[lines.places]
    else:
        scores = read_scores(path, test.n_docs)
        scores = scores if test.order is None else scores[test.order]
    measured = measure(TestPart.of(test), scores, criterion.metric, criterion.flavour)
    (value,) = measured.mean.values()
    trial = Trial({}, math.nan, value, None, math.nan)
    n_lacking = int(np.count_nonzero(np.isnan(scores)))
    lacking = f"the run lacks {n_lacking:,} of {test.n_docs:,} documents, which count as not found"
    return Outcome(
        trials=[trial], chosen=0, scores=scores, n_features=test.n_features, n_used=None,
        train_seconds=math.nan, score_seconds=math.nan, total_seconds=math.nan,
        notes=[lacking] if n_lacking else [],
    )  # fmt: skip


def measure(test: TestPart, scores: Vector, metric: str, flavour: FlavourName) -> Evaluation:
    """Evaluate scores of a test part; documents with NaN are not in the run of another tool.

    Such documents count as not found, as in `linrank.evaluate_run` and in trec_eval.
    """
    listed = ~np.isnan(scores)
    if listed.all():
        return evaluate(
            test.y, scores, query_ptr=test.query_ptr, metrics=[metric], flavour=flavour,
            doc_ids=test.doc_ids if flavour == "trec" else None,
        )  # fmt: skip
    assert test.doc_ids is not None  # runs are matched by them
    # Queries are numbered, so that the values are in the order of the test part.
    qid = np.repeat(np.arange(len(test.query_ids)), np.diff(test.query_ptr)).astype(str).tolist()
    kept = np.flatnonzero(listed).tolist()
    run = Run([qid[k] for k in kept], [test.doc_ids[k] for k in kept], scores[listed])
    return evaluate_run(Qrels(qid, test.doc_ids, test.y), run, [metric], flavour=flavour)


def scores_of_run(run: Run, data: RankingData) -> Vector:
    """Return the scores of the documents of data; NaN for documents that the run lacks.

    Raises
    ------
    DataError
        If the data have no document ids, or if the run has no document of some query.

    Examples
    --------
    >>> data = RankingData([[0.5], [2.0], [1.0]], [0, 0, 0], ["q"] * 3, doc_ids=["A", "B", "C"])
    >>> scores_of_run(Run(["q", "q"], ["C", "A"], [5.0, 7.0]), data).tolist()
    [7.0, nan, 5.0]
    """
    known = dict(zip(zip(run.qid, run.doc_ids, strict=True), run.scores.tolist(), strict=True))
    qid = list(map(str, data.qid.tolist()))
    found = [known.get(key) for key in zip(qid, require_doc_ids(data), strict=True)]
    scores = np.array([math.nan if score is None else score for score in found])
    for q, name in enumerate(data.query_ids):
        rows = scores[data.query_ptr[q] : data.query_ptr[q + 1]]
        if np.isnan(rows).all():
            raise DataError(
                f"the run has no document of the query {name}. Use a run of the same queries and "
                "documents"
            )
    return scores
