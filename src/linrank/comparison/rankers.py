"""Comparison of two rankers on the same queries."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from .._typing import Array, Vector
from ..data.ids import id_texts
from ..data.ranking import RankingData
from ..data.trec import Qrels, Run, require_doc_ids, run_of
from ..errors import DataError, about
from ..metrics import (
    Evaluation,
    Metric,
    evaluate_data,
    evaluate_run,
    parse_metric,
    parse_metrics,
)
from ..metrics.names import FlavourName
from ..statistics import (
    PairedTest,
    bootstrap_interval,
    holm,
    paired_t_test,
    randomization_test,
    win_tie_loss,
)
from .result import TESTS, Comparison, MetricComparison, TestName

SAME = 1e-9  #: relative difference up to which two means count as equal


class Ranker(Protocol):
    """Anything that scores documents, such as a fitted estimator or a model of linrank."""

    def predict(self, X: Array, qid: Array, /) -> ArrayLike:
        """Return one score per row."""


def compare(
    data: RankingData | Qrels,
    a: ArrayLike | Ranker | Run,
    b: ArrayLike | Ranker | Run,
    metrics: str | Metric | Iterable[str | Metric] = ("ndcg@10", "map"),
    *,
    flavour: FlavourName | None = None,
    level: float = 0.95,
    n_samples: int = 10_000,
    seed: int = 0,
    n_threads: int | None = None,
) -> Comparison:
    """Compare two rankers on the same queries: means, intervals, tests, wins and losses.

    Parameters
    ----------
    data : RankingData or Qrels
        Documents with labels, or judgements if `a` and `b` are runs.
    a, b : array of shape (n_docs,), ranker or Run
        Scores in the row order of ``data.X``; or a fitted ranker or model, which scores ``data.X``;
        or a run. If one of them is a run, `data` needs document ids, and both are evaluated as
        runs (`evaluate_run`).
    metrics : str or iterable of str
        Names that `parse_metric` accepts. P-values are adjusted for their number.
    flavour : str, optional
        The conventions of metrics; see `ndcg`. None: "trec" for runs, and otherwise "standard".
    level : float
        Confidence level of the intervals.
    n_samples : int
        Number of resamples of intervals and randomisation tests.
    seed : int
        Seed of the resamples.
    n_threads : int, optional
        Number of threads that compute the metrics.

    Returns
    -------
    Comparison

    See Also
    --------
    compare_evaluations : Compare two results of `evaluate`.

    Examples
    --------
    Compare the scores of a single feature with those of a ranker:

    >>> from linrank import RankSVM, compare, make_ranking
    >>> data = make_ranking(n_queries=60, docs_per_query=20, n_features=5, random_state=0)
    >>> train, test = data.take(np.arange(800)), data.take(np.arange(800, 1200))
    >>> found = compare(test, test.X[:, 0], RankSVM(C=0.01).fit(train))
    >>> found.metrics["map"].difference > 0.05, found.metrics["map"].p_holm["t"] < 0.05
    (True, True)
    """
    wanted = parse_metrics(metrics)
    as_runs = isinstance(data, Qrels) or isinstance(a, Run) or isinstance(b, Run)
    qrels = _judgements(data) if as_runs else None
    chosen = flavour or ("trec" if as_runs else "standard")
    found = []
    for name, ranking in (("a", a), ("b", b)):
        with about(name):
            evaluate = _evaluator(data, ranking, qrels)
            found.append(evaluate(wanted, flavour=chosen, n_threads=n_threads))
    return compare_evaluations(*found, level=level, n_samples=n_samples, seed=seed)


def compare_evaluations(
    a: Evaluation,
    b: Evaluation,
    *,
    level: float = 0.95,
    n_samples: int = 10_000,
    seed: int = 0,
) -> Comparison:
    """Compare two evaluations of the same queries by the same metrics.

    Parameters
    ----------
    a, b : Evaluation
        Results of `evaluate` or `evaluate_run`, with equal metrics and flavours.
    level, n_samples, seed
        As in `compare`.

    Returns
    -------
    Comparison

    Examples
    --------
    >>> from linrank import compare_evaluations, evaluate
    >>> y, qid = [1, 0, 1, 0, 1, 0], [1, 1, 2, 2, 3, 3]
    >>> a = evaluate(y, [2.0, 1.0, 1.0, 2.0, 1.0, 2.0], qid, "mrr")
    >>> b = evaluate(y, [2.0, 1.0, 2.0, 1.0, 1.0, 2.0], qid, "mrr")
    >>> compare_evaluations(a, b).most_changed()
    [ChangedQuery(qid=2, a=0.5, b=1.0, difference=0.5)]
    """
    _check_same(a, b)
    tests = {name: _tests(a, b, name, n_samples, seed) for name in a.mean}
    adjusted = {
        test: holm([found[test].p_value for found in tests.values()]).tolist() for test in TESTS
    }
    metrics = {}
    for row, name in enumerate(tests):
        values_a, values_b = a.per_query[name], b.per_query[name]
        known = ~np.isnan(values_a + values_b)
        means = [_mean(values[known]) for values in (values_a, values_b)]
        metrics[name] = MetricComparison(
            metric=name,
            mean_a=means[0],
            mean_b=means[1],
            difference=tests[name]["t"].difference,
            interval=bootstrap_interval(values_b - values_a, level, n_samples, seed),
            tests=tests[name],
            p_holm={test: adjusted[test][row] for test in TESTS},
            counts=win_tie_loss(values_b, values_a, greater_is_better=_is_gain(name)),
            n_queries=int(known.sum()),
            n_left_out=int((~known).sum()),
            note=_note(tests[name], means[0], a.mean[name]),
        )
    return Comparison(metrics, a, b, level)


def _tests(
    a: Evaluation, b: Evaluation, name: str, n_samples: int, seed: int
) -> dict[TestName, PairedTest]:
    before, after = a.per_query[name], b.per_query[name]
    return {
        "t": paired_t_test(after, before),
        "t_one_sided": paired_t_test(after, before, "greater" if _is_gain(name) else "less"),
        "randomization": randomization_test(after, before, n_samples=n_samples, seed=seed),
    }


def _is_gain(name: str) -> bool:
    return parse_metric(name).greater_is_better


def _mean(values: Vector) -> float:
    return math.fsum(values) / len(values) if len(values) else math.nan


def _note(tests: Mapping[TestName, PairedTest], mean: float, weighted: float) -> str:
    """Return the sentence of a degenerate test, or one on a mean with weights."""
    if tests["t"].note:
        return tests["t"].note
    if math.isclose(mean, weighted, rel_tol=SAME):
        return ""
    return "each query counts once, but evaluate weights queries by their pairs or documents"


def _check_same(a: Evaluation, b: Evaluation) -> None:
    """Raise a `DataError` unless two evaluations have the same metrics, queries and flavour."""
    if list(a.mean) != list(b.mean):
        raise DataError(
            f"a has the metrics {', '.join(a.mean)}, but b has {', '.join(b.mean)}; evaluate both "
            "with the same metrics"
        )
    if a.flavour != b.flavour:
        raise DataError(
            f"a has the flavour {a.flavour!r}, but b has {b.flavour!r}; evaluate both with the same"
        )
    if id_texts(a.query_ids) != id_texts(b.query_ids):
        raise DataError(
            f"a and b have different queries, or the same in another order ({a.n_queries:,} and "
            f"{b.n_queries:,}); evaluate both on the same data"
        )


def _evaluator(
    data: RankingData | Qrels, ranking: ArrayLike | Ranker | Run, qrels: Qrels | None
) -> Callable[..., Evaluation]:
    """Return `evaluate_run` if there are judgements, and otherwise `evaluate_data`.

    The returned function has the data and the ranking as its first arguments.
    """
    if qrels is not None and isinstance(ranking, Run):
        return partial(evaluate_run, qrels, ranking)
    if isinstance(data, Qrels):
        raise DataError(
            f"this is a {type(ranking).__name__}, but data is a Qrels; expected a Run. Pass a "
            "RankingData to compare scores or rankers"
        )
    predict = getattr(ranking, "predict", None)
    scores = np.asarray(ranking if predict is None else predict(data.X, data.qid))
    if qrels is not None:
        return partial(evaluate_run, qrels, run_of(data, scores))
    return partial(evaluate_data, data, scores)


def _judgements(data: RankingData | Qrels) -> Qrels:
    if isinstance(data, Qrels):
        return data
    return Qrels(data.qid.tolist(), require_doc_ids(data), data.y)
