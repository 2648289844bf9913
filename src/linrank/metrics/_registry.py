"""Metrics by name: ``ndcg@10``, ``map(rel=2)``, ``pairwise-accuracy``."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from difflib import get_close_matches

from numpy.typing import ArrayLike

from .._typing import Vector
from ..errors import DataError
from ._cascade import err, err_values, reciprocal_rank, reciprocal_rank_values
from ._domination import domination_error, domination_values
from ._measure import PerQuery
from ._ndcg import mean_ndcg, ndcg, ndcg_values
from ._pairwise import (
    all_pairs_error,
    all_pairs_values,
    auc,
    auc_values,
    pairwise_accuracy,
    pairwise_values,
)
from ._precision import average_precision, average_precision_values, precision, precision_values
from ._ranking import Ranking
from ._rules import Rules, check_cutoff


@dataclass(frozen=True)
class _Kind:
    """Entry of the registry: a metric without a cut-off and a relevance level.

    `values` computes the metric for each query of a ranking, given a cut-off. `options` lists
    which of "k" and "rel" the metric takes.
    """

    name: str
    function: Callable[..., float | Vector]
    values: Callable[[Ranking, Rules, int | None], PerQuery]
    options: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    greater_is_better: bool = True


_KINDS = (
    _Kind("ndcg", ndcg, ndcg_values, ("k",)),
    _Kind("mean-ndcg", mean_ndcg, lambda ranking, rules, k: ndcg_values(ranking, rules, mean=True)),
    _Kind(
        "map", average_precision, average_precision_values, ("k", "rel"),
        ("ap", "average-precision", "mean-average-precision"),
    ),
    _Kind("p", precision, precision_values, ("k", "rel"), ("precision",)),
    _Kind(
        "mrr", reciprocal_rank, reciprocal_rank_values, ("k", "rel"),
        ("rr", "reciprocal-rank", "mean-reciprocal-rank"),
    ),
    _Kind("err", err, err_values, ("k",), ("expected-reciprocal-rank",)),
    _Kind("pairwise-accuracy", pairwise_accuracy, lambda ranking, *_: pairwise_values(ranking)),
    _Kind("auc", auc, lambda ranking, *_: auc_values(ranking)),
    _Kind(
        "all-pairs-error", all_pairs_error, lambda ranking, *_: all_pairs_values(ranking),
        greater_is_better=False,
    ),
    _Kind(
        "domination-error", domination_error, lambda ranking, *_: domination_values(ranking),
        greater_is_better=False,
    ),
)  # fmt: skip

_BY_NAME = {name: kind for kind in _KINDS for name in (kind.name, *kind.aliases)}

_PATTERN = re.compile(
    r"(?P<name>[a-z0-9-]+) (?:\( rel = (?P<rel>[^()]*?) \))? (?:@ (?P<k>\S+))?".replace(" ", r"\s*")
)


@dataclass(frozen=True)
class Metric:
    """Metric with a cut-off and a relevance level, as returned by `parse_metric`.

    Attributes
    ----------
    name : str
        Canonical name, such as ``ndcg@10`` or ``map(rel=2)``.
    k : int or None
        Cut-off.
    rel : float or None
        Smallest relevant label.
    greater_is_better : bool
        False for errors, whose best value is the smallest.
    """

    name: str
    kind: _Kind
    k: int | None = None
    rel: float | None = None

    @property
    def greater_is_better(self) -> bool:
        """Whether larger values are better."""
        return self.kind.greater_is_better

    def __call__(
        self, y: ArrayLike, scores: ArrayLike, qid: ArrayLike | None = None, **options: object
    ) -> float | Vector:
        """Call the public function of this metric with its cut-off and relevance level.

        `options` are the other arguments of that function, such as `flavour` and `per_query`.
        """
        chosen = {"k": self.k, "rel": self.rel}
        chosen = {name: value for name, value in chosen.items() if value is not None}
        return self.kind.function(y, scores, qid, **chosen, **options)

    def values(self, ranking: Ranking, rules: Rules) -> PerQuery:
        """Compute the metric for each query of a ranking."""
        if self.rel is not None:
            rules = replace(rules, rel=self.rel)
        return self.kind.values(ranking, rules, self.k)

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Callable[[str], Metric], tuple[str]]:
        # Entries of the registry hold lambdas, which cannot be pickled; the name is enough.
        return parse_metric, (self.name,)


def metric_names() -> tuple[str, ...]:
    """List the names of all metrics, without cut-offs and aliases.

    Examples
    --------
    >>> metric_names()[:3]
    ('ndcg', 'mean-ndcg', 'map')
    """
    return tuple(kind.name for kind in _KINDS)


def parse_metric(name: str | Metric) -> Metric:
    """Return the metric with a name of the form ``NAME``, ``NAME@K`` or ``NAME(rel=L)@K``.

    Names are not case-sensitive, and ``_`` is read as ``-``.

    Examples
    --------
    >>> parse_metric("NDCG@10").k
    10
    >>> parse_metric("precision(rel=2)@5").name
    'p(rel=2)@5'
    >>> parse_metric("map")([0, 1], [1.0, 2.0])
    1.0
    """
    if isinstance(name, Metric):
        return name
    match = _PATTERN.fullmatch(str(name).strip().lower().replace("_", "-"))
    kind = _BY_NAME.get(match["name"]) if match else None
    if match is None or kind is None:
        raise DataError(_unknown(str(name)))
    for option in ("k", "rel"):
        if match[option] is not None and option not in kind.options:
            what = "cut-off" if option == "k" else "relevance level"
            raise DataError(f"metric {name!r}: {kind.name} has no {what}; use {kind.name!r}")
    k, rel = _cutoff(str(name), match["k"]), _level(str(name), match["rel"])
    spelling = kind.name + ("" if rel is None else f"(rel={rel:.15g})")
    return Metric(spelling + ("" if k is None else f"@{k}"), kind, k, rel)


def parse_metrics(metrics: str | Metric | Iterable[str | Metric]) -> list[Metric]:
    """Return the metrics with these names; a str may hold several, separated by commas.

    Examples
    --------
    >>> [metric.name for metric in parse_metrics("ndcg@10, map")]
    ['ndcg@10', 'map']
    """
    if isinstance(metrics, str):
        metrics = metrics.split(",")
    elif isinstance(metrics, Metric):
        metrics = [metrics]
    wanted = [parse_metric(metric) for metric in metrics]
    if not wanted:
        raise DataError("metrics is empty; name at least one, such as ndcg@10")
    return wanted


def _cutoff(name: str, text: str | None) -> int | None:
    if text is not None and not re.fullmatch("0*[1-9][0-9]{0,17}", text):
        raise DataError(
            f"metric {name[:60]!r}: the cut-off is {text[:40]!r}; expected a whole number of at "
            "least 1 with at most 18 digits"
        )
    return check_cutoff(None if text is None else int(text))


def _level(name: str, text: str | None) -> float | None:
    if text is None:
        return None
    if not re.fullmatch(r"-?\d+(\.\d+)?", text) or not math.isfinite(float(text)):
        raise DataError(f"metric {name[:60]!r}: rel is {text[:40]!r}; expected a number, such as 2")
    return float(text)


def _unknown(name: str) -> str:
    sentence = f"metric {name!r} is unknown; known metrics are {', '.join(metric_names())}"
    word = re.split(r"[@(]", name.lower().replace("_", "-"))[0].strip()
    near = get_close_matches(word, _BY_NAME, n=1)
    return f"{sentence}; did you mean {near[0]!r}?" if near else sentence
