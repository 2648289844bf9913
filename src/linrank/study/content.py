"""The parts of the report of a study: sentences, tables and pictures, in their order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ..report.page import Code, Facts, Items
from ..report.table import Table
from .analysis import Analysis
from .drawings import (
    Drawing,
    along_C_drawing,
    convergence_drawing,
    cutoff_drawing,
    difference_drawing,
    pareto_drawing,
    rank_drawing,
    sparsity_drawings,
    weight_drawing,
)
from .sentences import best_sentences, cost_sentences, gap_sentences, small_sentences
from .tables.costs import feature_table, pareto_table, seconds_table, sparsity_table
from .tables.quality import (
    decrease_table,
    difference_table,
    fold_table,
    rank_table,
    summary_table,
    test_table,
)
from .tables.records import (
    changed_table,
    method_table,
    missing_table,
    setting_table,
    version_table,
    warning_table,
    worst_table,
)


@dataclass(frozen=True)
class Folded:
    """Contents that are shown when a reader opens them."""

    title: str
    contents: Sequence[Content]


Content = str | Facts | Items | Code | Table | Drawing | Folded


@dataclass(frozen=True)
class Part:
    """A part of the report with a heading."""

    key: str
    title: str
    contents: Sequence[Content]


def study_parts(analysis: Analysis, command: str = "") -> list[Part]:
    """Return the parts of the report; parts without contents are left out."""
    parts = [
        Part("summary", "Summary", _summary(analysis)),
        Part("quality", "Quality", _quality(analysis)),
        Part("tests", "Tests", _tests(analysis)),
        Part("sparsity", "Sparsity", _sparsity(analysis)),
        Part("time", "Time", _time(analysis)),
        Part("ranks", "Ranks", _ranks(analysis)),
        Part("queries", "Queries", _queries(analysis)),
        Part("settings", "Settings", _settings(analysis)),
        Part("repeat", "Repeat", _repeat(analysis, command)),
    ]
    return [part for part in parts if part.contents]


def walk(contents: Iterable[Content]) -> Iterator[Content]:
    """Yield contents, and those that are folded."""
    for content in contents:
        yield content
        if isinstance(content, Folded):
            yield from walk(content.contents)


def _summary(analysis: Analysis) -> list[Content]:
    results = analysis.results
    n_queries = sum(len(test.query_ids) for test in results.tests.values())
    n_fits = sum(len(found.trials) for found in results.found.values())
    facts = [
        ("Data sets", len(results.data_sets)), ("Folds", len(results.tests)),
        ("Test queries", n_queries), ("Methods", len(results.methods)), ("Fits", n_fits),
        ("Failed runs", len(results.missing)),
    ]  # fmt: skip
    gaps = [*gap_sentences(analysis), *small_sentences(analysis)]
    limits: list[Content] = ["Please note:", Items(gaps)] if gaps else []
    return [
        Facts([(name, f"{count:,}") for name, count in facts]),
        *_findings(analysis),
        *limits,
        summary_table(analysis),
    ]


def _findings(analysis: Analysis) -> list[Content]:
    """Return the sentences about the methods; those about costs are folded if there are many."""
    data_sets = analysis.results.data_sets
    bests = [best_sentences(analysis, data) for data in data_sets]
    said = [cost_sentences(analysis, data) for data in data_sets]
    if len(data_sets) == 1:
        return [Items([*bests[0], *said[0]])]
    costs = [" ".join(sentences) for sentences in said if sentences]
    folded = _folded("Sparsest and fastest methods", [Items(costs)] if costs else [])
    return [Items([" ".join(sentences) for sentences in bests]), *folded]


def _by_metric(
    analysis: Analysis, *makers: Callable[[Analysis, str], Table | None]
) -> list[Content]:
    """Return the tables of the metric that chose the settings, and those of others folded."""
    first, *others = (
        _known(*(make(analysis, metric) for make in makers)) for metric in analysis.results.metrics
    )
    return [*first, *_folded("Other metrics", [table for tables in others for table in tables])]


def _by_data(
    analysis: Analysis, *makers: Callable[[Analysis, str], Table | Drawing | None]
) -> list[Content]:
    """Return what is made for the first data set, and others folded below it."""
    first, *others = (
        (data, _known(*(make(analysis, data) for make in makers)))
        for data in analysis.results.data_sets
    )
    return [*first[1], *(one for data, made in others for one in _folded(data, made))]


def _folded(title: str, contents: Sequence[Content]) -> list[Content]:
    return [Folded(title, contents)] if contents else []


def _known(*contents: Content | None) -> list[Content]:
    return [content for content in contents if content is not None]


def _quality(analysis: Analysis) -> list[Content]:
    several = len(analysis.results.methods) > 1
    return [
        *_by_metric(analysis, fold_table),
        *(_by_metric(analysis, decrease_table) if several else []),
        *_by_data(analysis, cutoff_drawing),
    ]


def _tests(analysis: Analysis) -> list[Content]:
    found = [
        *_by_metric(analysis, difference_table, test_table),
        *_by_data(analysis, difference_drawing),
    ]
    return found or ["There is one method with results, so nothing is tested."]


def _sparsity(analysis: Analysis) -> list[Content]:
    return [
        sparsity_table(analysis),
        *sparsity_drawings(analysis),
        feature_table(analysis),
        *_by_data(analysis, weight_drawing),
    ]


def _time(analysis: Analysis) -> list[Content]:
    return [
        seconds_table(analysis),
        pareto_table(analysis),
        *_by_data(analysis, pareto_drawing, along_C_drawing, convergence_drawing),
    ]


def _ranks(analysis: Analysis) -> list[Content]:
    if len(analysis.results.methods) < 2:
        return []
    return _known(rank_table(analysis), rank_drawing(analysis))


def _queries(analysis: Analysis) -> list[Content]:
    return _by_data(analysis, worst_table, changed_table)


def _settings(analysis: Analysis) -> list[Content]:
    results = analysis.results
    protocol = (
        "Each method is fitted to the training part of a fold with every setting. The setting with "
        f"the best mean {results.metric} on the validation part is kept, and the test part is "
        f"scored with it. Metrics follow the conventions of flavour {results.flavour!r}."
    )
    return _known(
        protocol, method_table(analysis), setting_table(analysis), missing_table(analysis),
        warning_table(analysis),
    )  # fmt: skip


def _repeat(analysis: Analysis, command: str) -> list[Content]:
    times = sorted(time for time, _ in analysis.results.made)
    when = (
        f"The runs were made from {_minute(times[0])} to {_minute(times[-1])} (UTC)."
        if times
        else None
    )
    code = Code(command, "Repeat the study") if command else None
    return _known(code, when, version_table(analysis))


def _minute(time: str) -> str:
    """Return the date and the minute of a time of ISO 8601."""
    return time[:16].replace("T", " ")
