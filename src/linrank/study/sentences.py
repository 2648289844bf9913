"""Sentences about the results of a study: the best methods, the sparsest, the fastest, and gaps."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..report.table import Column
from .analysis import Analysis, MethodComparison
from .results import known_mean
from .tables.rows import p_text

SHOWN_GAPS = 10  #: sentences about missing folds; the table of failures has all


def best_sentences(analysis: Analysis, data: str) -> list[str]:
    """Say which method is best on a data set, and which ones are significantly worse."""
    metric = analysis.metric
    order = analysis.order(data)
    if not order:
        return [f"{data}: no method has a value of {metric}."]
    best, others = order[0], order[1:]
    lead = f"{best} has the best mean {metric} on {data}: {analysis.mean(data, best):.4f}."
    if not others:
        return [f"{lead} No other method has a result, so nothing is compared."]
    found = analysis.against_best(data, metric)
    said = [f"{lead} {_second(analysis, found[others[0]])}"]
    worse = [method for method in others if found[method].significant]
    equal = [method for method in others if not found[method].significant]
    if worse:
        said.append(f"{listed(worse)} {_are(worse)} significantly worse than {best}.")
    if equal:
        said.append(f"{listed(equal)} {_are(equal)} not significantly worse than {best}.")
    return said


def _second(analysis: Analysis, second: MethodComparison) -> str:
    """Compare the best method with the second one."""
    if not second.n:
        return f"It has no query in common with {second.method}."
    if second.note:
        return f"Compared with {second.method}, {second.note}."
    gap = f"{abs(second.difference):.4f} ({100 * abs(second.relative):.1f} %)"
    leads = (second.difference < 0) == analysis.greater_is_better()
    way = "ahead of" if leads else "behind"  # the order is that of means over folds
    return f"Over all queries it is {gap} {way} {second.method} ({p_text(second.one_sided)})."


def cost_sentences(analysis: Analysis, data: str) -> list[str]:
    """Say which methods are the sparsest and the fastest on a data set."""
    order = analysis.order(data)
    said = []
    ratios = {method: analysis.sparsity(data, method) for method in order}
    sparsest = _smallest(ratios)
    if sparsest is not None and ratios[sparsest] < 1.0:
        n_used = known_mean(analysis.results.used(data, sparsest))
        said.append(
            f"{sparsest} is the sparsest method on {data}. It uses {n_used:.3g} features on "
            f"average ({100 * ratios[sparsest]:.0f} %){_against_best(analysis, data, sparsest)}."
        )
    seconds = {method: analysis.train_seconds(data, method) for method in order}
    fastest = _smallest(seconds)
    if fastest is not None and len(order) > 1:
        time = Column("time", "seconds", 2).format(seconds[fastest])
        said.append(
            f"{fastest} is the fastest method on {data}. A fit takes {time} on average"
            f"{_against_best(analysis, data, fastest)}."
        )
    return said


def _against_best(analysis: Analysis, data: str, method: str) -> str:
    """Return the end of a sentence: how much is lost against the best method."""
    found = analysis.against_best(data, analysis.metric).get(method)
    if found is None or not found.n or math.isnan(found.relative):
        return ""
    word = "significant" if found.significant else "not significant"
    way = "below" if found.relative < 0 else "above"
    share = f"{100 * abs(found.relative):.1f} %"
    return f", and its {analysis.metric} is {share} {way} the best ({word})"


def _smallest(values: dict[str, float]) -> str | None:
    known = {method: value for method, value in values.items() if not math.isnan(value)}
    return min(known, key=lambda method: known[method], default=None)


def gap_sentences(analysis: Analysis) -> list[str]:
    """Say what is missing: failed runs, folds without results, and other problems."""
    results = analysis.results
    gaps = []
    for data in results.data_sets:
        for method in results.methods:
            folds = analysis.missing_folds(data, method)
            n_folds = len(results.folds(data))
            if len(folds) == n_folds:
                gaps.append(f"{method} has no result on {data}.")
            elif folds:
                gaps.append(
                    f"{method} has no result on {len(folds)} of {n_folds} folds of {data}: "
                    f"{', '.join(folds)}. Other methods are compared with it on the other folds."
                )
    said = list(results.problems)
    if results.missing:
        n = len(results.missing)
        said.append(f"{n:,} {'run' if n == 1 else 'runs'} failed; see Settings for the reasons.")
    said += gaps[:SHOWN_GAPS]
    if len(gaps) > SHOWN_GAPS:
        said.append(f"{len(gaps) - SHOWN_GAPS:,} more methods lack folds.")
    return said


def small_sentences(analysis: Analysis) -> list[str]:
    """Say where there are too few queries for tests, and which methods are equal everywhere."""
    said = []
    weighted = [metric for metric in analysis.results.metrics
                if analysis.results.weighs_queries(metric)]  # fmt: skip
    if weighted:
        said.append(
            f"{listed(weighted)}: each query counts once in tables and tests. Settings are chosen "
            "by the mean of linrank evaluate, which weights queries by their pairs or documents."
        )
    for data in analysis.results.data_sets:
        n, n_defined = len(analysis.results.queries(data)), analysis.n_defined(data)
        if n == 1:
            said.append(f"{data} has one query. Tests and intervals say nothing about it.")
        if n_defined < n:
            said.append(
                f"{data}: {analysis.metric} is undefined in {n - n_defined:,} of {n:,} queries, "
                "which are left out of means and tests."
            )
        twins = [
            f"{one.method} and {one.reference}"
            for one in analysis.against_best(data, analysis.metric).values()
            if one.n and one.counts.ties == one.n
        ]
        if twins:
            said.append(f"{data}: {listed(twins)} have the same value in every query.")
    return said


def listed(names: Sequence[str]) -> str:
    """Return names as a part of a sentence.

    Examples
    --------
    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _are(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"
