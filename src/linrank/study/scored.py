"""Scores of other tools as the outcome of a run."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from .._typing import Vector
from ..criterion import Criterion
from ..data.ranking import RankingData
from ..data.scores import read_scores
from ..data.trec import Run, looks_like_run, read_run, require_doc_ids
from ..errors import DataError, about_file
from .folds import Lines
from .outcomes import Outcome, Trial


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
    value = criterion.mean(test, scores)
    trial = Trial({}, math.nan, value, None, math.nan)
    return Outcome(
        trials=[trial], chosen=0, scores=scores, n_features=test.n_features, n_used=None,
        train_seconds=math.nan, score_seconds=math.nan, total_seconds=math.nan,
    )  # fmt: skip


def scores_of_run(run: Run, data: RankingData) -> Vector:
    """Return the scores of the documents of data; documents that the run lacks come last.

    Raises
    ------
    DataError
        If the data have no document ids, or if the run has no document of some query.

    Examples
    --------
    >>> data = RankingData([[0.5], [2.0], [1.0]], [0, 0, 0], ["q"] * 3, doc_ids=["A", "B", "C"])
    >>> scores_of_run(Run(["q", "q"], ["C", "A"], [5.0, 7.0]), data).tolist()
    [7.0, -1.0, 5.0]
    """
    known = dict(zip(zip(run.qid, run.doc_ids, strict=True), run.scores.tolist(), strict=True))
    qid = list(map(str, data.qid.tolist()))
    found = [known.get(key) for key in zip(qid, require_doc_ids(data), strict=True)]
    scores = np.array([math.nan if score is None else score for score in found])
    lowest = run.scores.min(initial=0.0) - 1.0
    for q, name in enumerate(data.query_ids):
        rows = scores[data.query_ptr[q] : data.query_ptr[q + 1]]
        if np.isnan(rows).all():
            raise DataError(
                f"the run has no document of the query {name}. Use a run of the same queries and "
                "documents"
            )
        rows[np.isnan(rows)] = lowest
    return scores
