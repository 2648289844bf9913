"""PAMIR and the variants of Domination Rank on the same collections (tables 1.2 and 1.3)."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import clone

from linrank import DominationRankCV, MultiTopicRanker, evaluate
from linrank.baselines import PAMIRCV
from linrank.errors import GridEdgeWarning
from linrank.statistics import paired_t_test

from .tools import Options, Section
from .topic_collections import Part, Split, generated_images, letor_splits, reuters_splits

#: Scales of the margin, relative to the mean feedback of a relevant training document.
MARGINS = (0.1, 0.3, 1.0)
BINARY = ("map", "p@10", "domination-error", "all-pairs-error")  #: of relevant or not
GRADED = "ndcg@10"  #: of three levels
TEXT_TOPICS = 12  #: topics of Reuters-21578 that are learnt; more take longer


@dataclass(frozen=True)
class Method:
    """A way to learn from a collection.

    `make` gets the scale of the margin, of which there are several for margin variants.
    """

    make: Callable[[float], Any]
    labels: Callable[[Part], np.ndarray]
    graded: bool  #: whether it differs from the base method only if the feedback has levels
    margins: tuple[float, ...] = (0.0,)


def _relevant(part: Part) -> np.ndarray:
    return np.asarray(part.counts > 0, dtype=float)


def _levels(part: Part) -> np.ndarray:
    return part.levels


def _counts(part: Part) -> np.ndarray:
    return part.counts


def _domination(**options: Any) -> Callable[[float], Any]:
    return lambda margin: DominationRankCV(
        normalize=None, scale=None, metric="map", margin=margin, **options
    )


METHODS = {
    "PAMIR": Method(lambda _: PAMIRCV(metric="map"), _relevant, graded=False),
    "PAMIR, multi-valued": Method(lambda _: PAMIRCV(metric="map"), _levels, graded=True),
} | {
    f"Domination Rank, {name}, {penalty}": Method(
        _domination(penalty=penalty, levels=levels), labels, graded, margins
    )
    for penalty in ("l2", "l1")
    for name, levels, labels, graded, margins in (
        ("base", "binary", _relevant, False, (0.0,)),
        ("multi-valued", "multi", _levels, True, (0.0,)),
        ("margin", "binary", _counts, True, MARGINS),
    )
}


@dataclass
class Found:
    """What one method reaches on all splits of a collection."""

    values: dict[str, list[np.ndarray]] = field(default_factory=dict)  #: by metric and split
    zero: list[float] = field(default_factory=list)
    seconds: float = 0.0
    n_fits: int = 0
    n_edges: int = 0  #: fits whose C is at an end of the grid

    def per_query(self, metric: str) -> np.ndarray:
        """Return the values of the queries of all splits."""
        return np.concatenate(self.values[metric])


def bench_images(options: Options) -> Section:
    """Compare on generated images with counts of clicks, after table 1.2 of the paper."""
    shape = (1_000, 200, 3) if options.quick else (8_000, 2_000, 20)
    about = "{:,} generated images with {:,} features, {} topics with weights of their own"
    section = _section("pamir-images", "generated images", about.format(*shape))
    return _compare(section, {"images": generated_images(*shape)})


def bench_text(options: Options) -> Section:
    """Compare on topics of Reuters-21578, after table 1.3 of the paper."""
    n_topics = 3 if options.quick else TEXT_TOPICS
    about = f"The first {n_topics} topics by name, with weights of their own and binary feedback"
    section = _section("pamir-text", "Reuters-21578", about)
    return _compare(section, {"Reuters-21578": reuters_splits(n_topics)})


def bench_shared(options: Options) -> Section:
    """Compare on LETOR, where all queries share their weights."""
    section = _section("pamir-letor", "MQ2008 and MQ2007", "All queries share their weights")
    n_folds = 1 if options.quick else 5
    return _compare(section, {name: letor_splits(name, n_folds) for name in ("MQ2008", "MQ2007")})


def _section(name: str, where: str, about: str) -> Section:
    return Section(
        name,
        f"PAMIR and Domination Rank on {where}",
        f"{about}. MAP on the validation part chooses C, PAMIR's number of passes and the scale "
        "of the margin. MAP, P@10 and both errors count feedback above 0 as relevant; NDCG@10 has "
        "three levels. p: two-sided paired t-test over the queries against PAMIR. Processor time "
        "includes the choice. 'At an end' are fits whose best C is the smallest or largest that "
        "was tried",
        ["collection", "queries", "method", "MAP", "p", "P@10", "domination error",
         "all-pairs error", "p", "NDCG@10", "zero weights", "time / PAMIR", "at an end"],
    )  # fmt: skip


def _compare(section: Section, collections: dict[str, Iterable[Split]]) -> Section:
    """Add the rows of all collections, and a note on the number of tests."""
    for name, splits in collections.items():
        _add_collection(section, name, list(splits))
    n_tests = 2 * sum("p_map" in row for row in section.numbers)
    section.notes.append(
        f"There are {n_tests} tests. With Bonferroni's correction a difference counts if "
        f"p < {0.05 / max(1, n_tests):.1e}."
    )
    return section


def _add_collection(section: Section, name: str, splits: list[Split]) -> None:
    """Add a row for each method; methods that need levels are left out of binary collections."""
    if not splits:
        section.notes.append(f"{name} is not in LINRANK_DATA and was left out.")
        return
    graded = any((part.levels > 1).any() for part in splits[0])
    base: Found | None = None
    for method, how in METHODS.items():
        if how.graded and not graded:
            continue
        found = Found()
        for split in splits:
            run_method(how, split, found)
        base = base or found
        _add(section, name, method, found, base)


def run_method(how: Method, split: Split, found: Found, n_threads: int = 1) -> None:
    """Fit a method for each scale of the margin, keep the best on `valid`, and measure it.

    `n_threads` topics are learnt at the same time.
    """
    train, valid, test = split
    unit = train.counts[train.counts > 0].mean()
    started = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", GridEdgeWarning)
        fits = [
            _fit(how.make(scale / unit), how.labels, train, valid, n_threads)
            for scale in how.margins
        ]
    _, ranker = max(fits, key=lambda fit: fit[0])
    found.seconds += time.process_time() - started
    found.n_edges += sum(issubclass(w.category, GridEdgeWarning) for w in caught)
    found.n_fits += len(fits) * (1 if train.qid is not None else train.counts.shape[1])
    found.zero.append(1.0 - np.count_nonzero(_dense(ranker.coef_)) / _dense(ranker.coef_).size)
    for metric, values in _measure(ranker, test).items():
        found.values.setdefault(metric, []).append(values)


def _fit(
    template: Any, labels: Callable[[Part], np.ndarray], train: Part, valid: Part, n_threads: int
) -> tuple[float, Any]:
    """Return the mean of the metric on `valid`, and the ranker that reaches it."""
    if train.qid is None:
        ranker = MultiTopicRanker(template, n_threads=n_threads)
        ranker.fit(train.X, labels(train), valid=(valid.X, labels(valid)))
        return float(np.mean([own.best_score_ for own in ranker.rankers_])), ranker
    ranker = clone(template)
    ranker.fit(train.X, labels(train), train.qid, valid=(valid.X, labels(valid), valid.qid))
    return ranker.best_score_, ranker


def _measure(ranker: Any, test: Part) -> dict[str, np.ndarray]:
    """Return the metrics of each query."""
    scores, qid = ranker.predict(test.X), test.qid
    relevant, levels = _relevant(test), test.levels
    if qid is None:
        qid = np.repeat(np.arange(scores.shape[1]), len(scores))
        scores, relevant, levels = scores.T.ravel(), relevant.T.ravel(), levels.T.ravel()
    return {
        **evaluate(relevant, scores, qid, list(BINARY)).per_query,
        **evaluate(levels, scores, qid, [GRADED]).per_query,
    }


def _dense(coef: Any) -> np.ndarray:
    return np.asarray(coef.toarray() if hasattr(coef, "toarray") else coef)


def _add(section: Section, name: str, method: str, found: Found, base: Found) -> None:
    means = {metric: float(np.nanmean(found.per_query(metric))) for metric in found.values}
    own = {} if found is base else {
        f"p_{metric}": paired_t_test(found.per_query(metric), base.per_query(metric)).p_value
        for metric in ("map", "all-pairs-error")
    }  # fmt: skip
    n_queries = int((~np.isnan(found.per_query("map"))).sum())
    section.add(
        name, str(n_queries), method, f"{means['map']:.4f}", _show(own.get("p_map")),
        f"{means['p@10']:.4f}", f"{means['domination-error']:.4f}",
        f"{means['all-pairs-error']:.4f}", _show(own.get("p_all-pairs-error")),
        f"{means[GRADED]:.4f}", f"{np.mean(found.zero):.1%}",
        f"{found.seconds / base.seconds:.1f}", f"{found.n_edges} of {found.n_fits}",
        seconds=found.seconds, zero_weights=float(np.mean(found.zero)), **means, **own,
    )  # fmt: skip


def _show(p: float | None) -> str:
    return "" if p is None else f"{p:.2g}"
