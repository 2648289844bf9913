"""Metrics by name: ``ndcg@10``, ``map(rel=2)``, ``rbp(p=0.8)``, ``pairwise-accuracy``."""

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
from ._correlation import kendall, kendall_values, spearman, spearman_values
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
    strict_pairwise_accuracy,
    strict_values,
)
from ._precision import average_precision, average_precision_values, precision, precision_values
from ._ranking import Ranking
from ._rbp import check_persistence, rbp, rbp_values
from ._recall import (
    hit_rate,
    hit_rate_values,
    r_precision,
    r_precision_values,
    recall,
    recall_values,
)
from ._rules import Rules, check_cutoff


@dataclass(frozen=True)
class _Kind:
    """Entry of the registry: a metric without a cut-off and other options.

    `values` computes the metric for each query of a ranking, given a cut-off and p if the metric
    has it. `options` lists which of "k", "rel" and "p" the metric takes.
    """

    name: str
    function: Callable[..., float | Vector]
    values: Callable[..., PerQuery]
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
    _Kind("recall", recall, recall_values, ("k", "rel"), ("r",)),
    _Kind(
        "r-precision", r_precision, lambda ranking, rules, k: r_precision_values(ranking, rules),
        ("rel",), ("rprec", "r-prec"),
    ),
    _Kind("hit-rate", hit_rate, hit_rate_values, ("k", "rel"), ("success", "hr")),
    _Kind("rbp", rbp, rbp_values, ("k", "rel", "p"), ("rank-biased-precision",)),
    _Kind("spearman", spearman, lambda ranking, *_: spearman_values(ranking)),
    _Kind("kendall", kendall, lambda ranking, *_: kendall_values(ranking), (), ("kendall-tau-b",)),
    _Kind("pairwise-accuracy", pairwise_accuracy, lambda ranking, *_: pairwise_values(ranking)),
    _Kind(
        "strict-pairwise-accuracy", strict_pairwise_accuracy,
        lambda ranking, *_: strict_values(ranking),
    ),
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
    r"(?P<name>[a-z0-9-]+) (?:\( (?P<options>[^()]*?) \))? (?:@ (?P<k>\S+))?".replace(" ", r"\s*")
)
_COMMA = re.compile(r",(?![^()]*\))")  # a comma between metrics, outside of parentheses
_OPTIONS = {"k": "cut-off", "rel": "relevance level", "p": "persistence p"}


@dataclass(frozen=True)
class Metric:
    """Metric with a cut-off and other options, as returned by `parse_metric`.

    Attributes
    ----------
    name : str
        Canonical name, such as ``ndcg@10`` or ``map(rel=2)``.
    k : int or None
        Cut-off.
    rel : float or None
        Smallest relevant label.
    p : float or None
        Persistence of RBP.
    greater_is_better : bool
        False for errors, whose best value is the smallest.
    kind : object
        The entry of the registry, with the function of the metric.

    Examples
    --------
    >>> from linrank import parse_metric
    >>> metric = parse_metric("precision(rel=2)@3")
    >>> metric.name, metric.k, metric.rel, metric.greater_is_better
    ('p(rel=2)@3', 3, 2.0, True)
    >>> metric([2, 0, 1, 2], [4.0, 3.0, 2.0, 1.0], per_query=True).round(3).tolist()
    [0.333]
    """

    name: str
    kind: _Kind
    k: int | None = None
    rel: float | None = None
    p: float | None = None

    @property
    def greater_is_better(self) -> bool:
        """Whether larger values are better."""
        return self.kind.greater_is_better

    def __call__(
        self, y: ArrayLike, scores: ArrayLike, qid: ArrayLike | None = None, **options: object
    ) -> float | Vector:
        """Call the public function of this metric with its cut-off and other options.

        `options` are the other arguments of that function, such as `flavour` and `per_query`.
        """
        chosen = {"k": self.k, "rel": self.rel, "p": self.p}
        chosen = {name: value for name, value in chosen.items() if value is not None}
        return self.kind.function(y, scores, qid, **chosen, **options)

    def values(self, ranking: Ranking, rules: Rules) -> PerQuery:
        """Compute the metric for each query of a ranking."""
        if self.rel is not None:
            rules = replace(rules, rel=self.rel)
        more = {} if self.p is None else {"p": self.p}
        return self.kind.values(ranking, rules, self.k, **more)

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Callable[[str], Metric], tuple[str]]:
        # Entries of the registry hold lambdas, which cannot be pickled; the name is enough.
        return parse_metric, (self.name,)


def metric_names() -> tuple[str, ...]:
    """List the names of all metrics, without cut-offs and aliases.

    Returns
    -------
    tuple of str

    Examples
    --------
    >>> metric_names()[:3]
    ('ndcg', 'mean-ndcg', 'map')
    """
    return tuple(kind.name for kind in _KINDS)


def parse_metric(name: str | Metric) -> Metric:
    """Return the metric with a name of the form ``NAME``, ``NAME@K`` or ``NAME(rel=L)@K``.

    Names are not case-sensitive, and ``_`` is read as ``-``. Several options are separated by
    commas, as in ``rbp(rel=2, p=0.5)@10``.

    Parameters
    ----------
    name : str or Metric
        A `Metric` is returned unchanged.

    Returns
    -------
    Metric

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
    if not isinstance(name, str):
        raise DataError(f"metric is {name!r}; expected a name, such as 'ndcg@10'")
    match = _PATTERN.fullmatch(name.strip().lower().replace("_", "-"))
    kind = _BY_NAME.get(match["name"]) if match else None
    if match is None or kind is None:
        raise DataError(_unknown(name))
    texts = _split_options(name, match["options"])
    for option in [*texts] + ["k"] * (match["k"] is not None):
        if option not in kind.options:
            raise DataError(
                f"metric {name!r}: {kind.name} has no {_OPTIONS[option]}; use {kind.name!r}"
            )
    k = _cutoff(name, match["k"])
    numbers = {option: _number(name, option, text) for option, text in texts.items()}
    options = ", ".join(f"{option}={numbers[option]:.15g}" for option in sorted(numbers)[::-1])
    spelling = kind.name + (f"({options})" if options else "") + ("" if k is None else f"@{k}")
    return Metric(spelling, kind, k, **numbers)


def parse_metrics(metrics: str | Metric | Iterable[str | Metric]) -> list[Metric]:
    """Return the metrics with these names; a str may hold several, separated by commas.

    Parameters
    ----------
    metrics : str, Metric or iterable of these

    Returns
    -------
    list of Metric

    Examples
    --------
    >>> [metric.name for metric in parse_metrics("ndcg@10, map")]
    ['ndcg@10', 'map']
    """
    if isinstance(metrics, str):
        metrics = _COMMA.split(metrics)
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


def _split_options(name: str, text: str | None) -> dict[str, str]:
    """Return the texts of the options in parentheses, such as ``{"rel": "2"}``."""
    found: dict[str, str] = {}
    for part in () if text is None else text.split(","):
        option, equals, value = (word.strip() for word in part.partition("="))
        if not equals or option not in ("rel", "p") or option in found:
            raise DataError(
                f"metric {name[:60]!r}: {part.strip()[:40]!r} is not an option; expected rel=2 or "
                "p=0.8, each at most once"
            )
        found[option] = value
    return found


def _number(name: str, option: str, text: str) -> float:
    if not re.fullmatch(r"-?\d+(\.\d+)?", text) or not math.isfinite(float(text)):
        example = {"rel": "2", "p": "0.8"}[option]
        raise DataError(
            f"metric {name[:60]!r}: {option} is {text[:40]!r}; expected a number, such as {example}"
        )
    return float(text) if option == "rel" else check_persistence(float(text))


def _unknown(name: str) -> str:
    sentence = f"metric {name!r} is unknown; known metrics are {', '.join(metric_names())}"
    word = re.split(r"[@(]", name.lower().replace("_", "-"))[0].strip()
    near = get_close_matches(word, _BY_NAME, n=1)
    return f"{sentence}; did you mean {near[0]!r}?" if near else sentence
