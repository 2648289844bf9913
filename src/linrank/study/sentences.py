"""Sentences about the results of a study: the best methods, the sparsest, the fastest, and gaps."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..report.table import Column
from .analysis import Analysis, Comparison
from .results import known_mean

SHOWN_GAPS = 10  #: sentences about missing folds; the table of failures has all


def best_sentences(analysis: Analysis, data: str) -> list[str]:
    """Say which method is best on a data set, and which ones are significantly worse."""
    metric, results = analysis.metric, analysis.results
    order = analysis.order(data)
    if not order:
        return [f"{data}: no method has a value of {metric}."]
    best = order[0]
    said = [f"{data}: {best} is best with a mean {metric} of {analysis.mean(data, best):.4f}."]
    if len(order) == 1:
        others = (
            "There is no other method"
            if len(results.methods) == 1
            else "No other method has a result"
        )
        return [*said, f"{others}, so nothing is compared."]
    found = analysis.against_best(data, metric)
    worse = [method for method in order[1:] if found[method].significant]
    equal = [method for method in order[1:] if not found[method].significant]
    said.append(_second(analysis, data, best, found[order[1]]))
    if worse:
        said.append(f"{_listed(worse)} {_are(worse)} significantly worse.")
    if equal and worse:
        said.append(f"{_listed(equal)} {_are(equal)} not.")
    elif equal:
        said.append("No method is significantly worse.")
    return said


def _second(analysis: Analysis, data: str, best: str, second: Comparison) -> str:
    if not second.n:
        return f"It has no query in common with {second.method}."
    if second.note:
        return f"It is compared with {second.method}, but {second.note}."
    gap, share = abs(second.difference), abs(second.relative)
    p = Column("p", "p").format(second.one_sided)
    p = f"p {p}" if p.startswith("<") else f"p = {p}"
    return f"It leads {second.method} by {gap:.4f} ({100 * share:.1f} %, {p})."


def cost_sentences(analysis: Analysis, data: str) -> list[str]:
    """Say which methods are the sparsest and the fastest on a data set."""
    order = analysis.order(data)
    said = []
    ratios = {method: analysis.sparsity(data, method) for method in order}
    sparsest = _smallest(ratios)
    if sparsest is not None and ratios[sparsest] < 1.0:
        n_used = known_mean(analysis.results.used(data, sparsest))
        said.append(
            f"{sparsest} is the sparsest: it uses {n_used:.3g} features "
            f"({100 * ratios[sparsest]:.0f} %){_against_best(analysis, data, sparsest)}."
        )
    seconds = {method: analysis.train_seconds(data, method) for method in order}
    fastest = _smallest(seconds)
    if fastest is not None and len(order) > 1:
        time = Column("time", "seconds", 2).format(seconds[fastest])
        said.append(
            f"{fastest} is the fastest: a fit takes {time}{_against_best(analysis, data, fastest)}."
        )
    return said


def _against_best(analysis: Analysis, data: str, method: str) -> str:
    found = analysis.against_best(data, analysis.metric).get(method)
    if found is None or not found.n or math.isnan(found.relative):
        return ""
    word = "significant" if found.significant else "not significant"
    return f", at {100 * found.relative:+.1f} % {analysis.metric} ({word})"


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
            if folds:
                n_folds = len(results.folds(data))
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
    for data in analysis.results.data_sets:
        n = len(analysis.results.queries(data))
        if n == 1:
            said.append(f"{data} has one query. Tests and intervals say nothing about it.")
        twins = [
            f"{one.method} and {one.reference}"
            for one in analysis.against_best(data, analysis.metric).values()
            if one.n and one.counts.ties == one.n
        ]
        if twins:
            said.append(f"{data}: {_listed(twins)} have the same value in every query.")
    return said


def _listed(names: Sequence[str]) -> str:
    """Return names as a part of a sentence.

    Examples
    --------
    >>> _listed(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _are(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"
