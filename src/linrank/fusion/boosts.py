"""Boosts of clauses, learned from the scores that a search engine has logged for each clause."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from .._util.checks import choice
from .._util.types import Mask, Vector
from ..data.trec import Qrels, Run, read_qrels
from ..errors import DataError
from ..metrics import parse_metric
from ..metrics.line_search import Bends
from ..metrics.ranked_lists import resolve_rules
from ..penalties.penalty import make_bounds
from ..training.refining import MetricAscent
from .fused import Fusion
from .normalizers import Normalizer
from .retrieved import Retrieved, StrPath, gather, read_runs

# --------------------------------------------------------------------------------------------------
# Logs: responses of search engines, one per line.


def read_clauses(log: StrPath, qrels: StrPath | Qrels) -> Retrieved:
    """Read the scores of clauses from a log, and judgements of its queries.

    A log in JSON Lines has one object per query: ``{"qid": "1", "response": {...}}``, with the
    response of the engine. The scores of the clauses are read from the first of these that a hit
    has:

    - ``matched_queries`` with scores (``include_named_queries_score`` of Elasticsearch);
    - ``_ltrlog`` of the plugin Learning to Rank of Elasticsearch and OpenSearch;
    - ``_explanation``, as sums per field;
    - ``[features]`` of Solr.

    Log with boosts of 1. Other files are tables with the columns qid and doc_id, and a column for
    each clause.

    Parameters
    ----------
    log : path-like
    qrels : path-like or Qrels

    Returns
    -------
    Retrieved
        Its retrievers are the clauses.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "log.jsonl"
    >>> hits = [{"_id": "A", "matched_queries": {"title": 2.0, "text": 1.0}},
    ...         {"_id": "B", "matched_queries": {"text": 3.0}}]
    >>> _ = path.write_text(json.dumps({"qid": "1", "response": {"hits": {"hits": hits}}}))
    >>> found = read_clauses(path, Qrels(["1"], ["A"], [1]))
    >>> found.names, found.scores.tolist()
    (['title', 'text'], [[nan, 3.0], [2.0, 1.0]])
    """
    path = Path(log)
    judged = qrels if isinstance(qrels, Qrels) else read_qrels(qrels)
    if not path.name.endswith((".json", ".jsonl", ".ndjson")):
        return gather(read_runs(path.stem, path), judged)
    scores: dict[str, list[tuple[str, str, float]]] = {}
    for qid, doc, clauses in _logged(path):
        for name, score in clauses.items():
            scores.setdefault(name, []).append((qid, doc, score))
    runs = [
        Run(
            [q for q, _, _ in rows],
            [d for _, d, _ in rows],
            np.array([s for _, _, s in rows]),
            name,
        )
        for name, rows in scores.items()
    ]
    if len(runs) < 2:
        raise DataError(f"{path}: has scores of {len(runs)} clauses; boosts need at least two")
    return gather(runs, judged)


def _logged(path: Path) -> Iterator[tuple[str, str, Mapping[str, float]]]:
    """Yield query, document and scores of clauses."""
    for n, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
            qid = str(entry["qid"])
            response = entry.get("response", entry)
            hits = response["docs"] if "docs" in response else response["hits"]["hits"]
        except (ValueError, KeyError, TypeError, AttributeError):
            raise DataError(
                f"{path}:{n}: is not a response; expected an object with qid and response"
            ) from None
        for hit in hits:
            doc = hit.get("_id", hit.get("id"))
            try:
                clauses = {name: float(score) for name, score in _clauses_of(hit).items()}
            except (ValueError, KeyError, TypeError, AttributeError):
                clauses = None
            if doc is None or clauses is None:
                raise DataError(
                    f"{path}:{n}: document {doc!r} has no id or no scores of clauses; expected "
                    "matched_queries with scores, _ltrlog, _explanation or [features]"
                )
            yield qid, str(doc), clauses


def _clauses_of(hit: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the logged scores of a document, which are not checked."""
    if isinstance(hit.get("matched_queries"), Mapping):
        return hit["matched_queries"]
    logged = hit.get("fields", {}).get("_ltrlog")
    if logged:
        parts = [part for entry in logged[0].values() for part in entry]
        return {part["name"]: part["value"] for part in parts if "value" in part}
    if "_explanation" in hit:
        found: dict[str, float] = {}
        _add_fields(hit["_explanation"], found)
        return found
    pairs = (part.rpartition("=") for part in filter(None, hit["[features]"].split(",")))
    return {name: value for name, _, value in pairs}


_WEIGHT = re.compile(r"weight\((?:Synonym\()?([^:\s]+):")


def _add_fields(node: Mapping[str, Any], found: dict[str, float]) -> None:
    """Add the scores of terms in an explanation to the sums of their fields."""
    match = _WEIGHT.match(node.get("description", ""))
    if match:
        found[match[1]] = found.get(match[1], 0.0) + node["value"]
        return
    for part in node.get("details", ()):
        _add_fields(part, found)


# --------------------------------------------------------------------------------------------------
# `Boosting`: weights of clauses that maximise a metric.


CombineName: TypeAlias = Literal["sum", "dis-max"]
RESTARTS = 2  #: restarts of the ascent; more take longer
SWEEPS = 10  #: sweeps of an ascent with dis-max


@dataclass(frozen=True)
class Boosting(Fusion):
    """How clauses are boosted: a sum of boosted scores, or their maximum with a tie breaker.

    With boosts w_f and logged scores c_f, a document has the score Σ_f w_f·c_f for ``"sum"``. For
    ``"dis-max"`` it is max_f w_f·c_f, plus `tie_breaker` times the sum of the others. A sum is
    learned by `linrank.RankSVM` and refined. The maximum is not linear in the boosts. Its metric is
    maximised directly, by exact line searches along each boost.

    Parameters
    ----------
    metric : str
        The metric that is maximised.
    combine : {"sum", "dis-max"}
    tie_breaker : float
        From 0 to 1.
    normalizer, weights, C, pool
        See `Fusion`.

    Examples
    --------
    >>> boosting = Boosting(combine="dis-max", tie_breaker=0.5)
    >>> boosting.combined(np.array([[1.0, 2.0]]), np.array([3.0, 1.0])).tolist()
    [4.0]
    """

    normalizer: Normalizer = field(default_factory=lambda: Normalizer("none"))
    pool: int = 1000
    metric: str = "ndcg@10"
    combine: CombineName = "sum"
    tie_breaker: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        choice("combine", self.combine, get_args(CombineName))
        if not 0.0 <= self.tie_breaker <= 1.0:
            raise DataError(f"tie_breaker is {self.tie_breaker}; expected a number from 0 to 1")

    def combined(self, X: Vector, weights: Vector) -> Vector:
        """Return the scores of documents with these boosts."""
        if self.combine == "sum":
            return X @ weights
        parts, tie = X * weights, self.tie_breaker
        return (1.0 - tie) * parts.max(axis=1) + tie * parts.sum(axis=1)

    def rules(self, found: Retrieved, X: Vector) -> Iterator[tuple[str, Vector]]:
        """Yield the scores without boosts."""
        yield "equal boosts", self.combined(X, np.ones(X.shape[1]))

    def train(self, found: Retrieved, X: Vector, use: Mask | None = None) -> Vector:
        """Return the boosts that maximise the metric; the largest one is 1.

        Parameters
        ----------
        found : Retrieved
        X : float64 array of shape (n_rows, n_clauses)
            The scores of `features`.
        use : bool array of shape (n_queries,), optional
            The queries to learn from.

        Returns
        -------
        float64 array of shape (n_clauses,)

        Examples
        --------
        >>> from linrank import Qrels, Run
        >>> from linrank.fusion import gather
        >>> a = Run(["1", "1"], ["A", "B"], [2.0, 1.0], tag="good")
        >>> b = Run(["1", "1"], ["A", "B"], [1.0, 2.0], tag="bad")
        >>> found, boosting = gather([a, b], Qrels(["1"], ["A"], [1])), Boosting()
        >>> boosting.train(found, boosting.features(found)).tolist()
        [1.0, 0.0]
        """
        data, unit = self._training_data(found, X, use)
        start = self._weights_of(self._ranker(), data, unit) * unit
        bounds = make_bounds("positive", len(unit))
        search = MetricAscent(
            data, parse_metric(self.metric), resolve_rules("trec", doc_ids=()), bounds
        )
        if self.combine == "sum":
            return self.scaled(search.refine(start, n_restarts=RESTARTS).coef / unit)
        starts = [start, start.max() * np.ones(len(unit)), unit / unit.max()]
        tried = [self._ascended(search, np.asarray(data.X), one) for one in starts]
        return self.scaled(max(tried, key=lambda one: one[1])[0] / unit)

    def _ascended(self, search: MetricAscent, X: Vector, weights: Vector) -> tuple[Vector, float]:
        """Return boosts after line searches of the maximum along each of them, and the metric."""
        weights, tie = weights.copy(), self.tie_breaker
        value = search.search.value(self.combined(X, weights))
        for _ in range(SWEEPS):
            before = value
            for f in range(len(weights)):
                parts = X * weights
                parts[:, f] = 0.0
                others, column = parts.max(axis=1), X[:, f]
                here = tie * (parts.sum(axis=1) + weights[f] * column) + (1.0 - tie) * others
                at = np.divide(others, column, out=np.zeros_like(others), where=column > 0)
                bends = Bends(at - weights[f], (1.0 - tie) * column)
                found = search.search.along(here, tie * column, -weights[f], np.inf, bends)
                if found.alpha:
                    weights[f] += found.alpha
                    value = found.value
            if value <= before:
                break
        return weights, search.search.value(self.combined(X, weights))


# --------------------------------------------------------------------------------------------------
# Requests with boosts.


def write_boosts(target: str, boosts: Mapping[str, float], boosting: Boosting) -> str:
    """Return a query with these boosts; the smallest one that is not 0 becomes 1.

    Parameters
    ----------
    target : {"multi-match", "bool", "solr"}
        ``multi_match`` or ``bool.should`` of Elasticsearch and OpenSearch, or ``qf`` of Solr's
        edismax. A clause whose name begins with ``pf:`` becomes a field of ``pf``.
    boosts : dict of str to float
    boosting : Boosting

    Returns
    -------
    str

    Examples
    --------
    >>> print(write_boosts("solr", {"title": 0.5, "text": 0.1, "pf:text": 1.0}, Boosting()))
    defType=edismax
    tie=1.0
    qf=title^5 text^1
    pf=text^10
    """
    choice("target", target, BOOSTED)
    used = {name: boost for name, boost in boosts.items() if boost > 0}
    least = min(used.values())
    fields = {name: f"{boost / least:.4g}" for name, boost in used.items()}
    tie = boosting.tie_breaker
    if target == "solr":
        if boosting.combine == "dis-max":
            raise DataError(
                "Solr's edismax takes the maximum for each word, which scores of whole clauses do "
                "not determine. Use combine='sum', which is tie=1.0"
            )
        parts: dict[str, list[str]] = {"qf": [], "pf": []}
        for name, boost in fields.items():
            kind = "pf" if name.startswith("pf:") else "qf"
            parts[kind].append(f"{name.removeprefix('pf:')}^{boost}")
        lines = [f"{kind}={' '.join(texts)}" for kind, texts in parts.items() if texts]
        return "\n".join(["defType=edismax", "tie=1.0", *lines])
    if target == "bool":
        queries = [
            {"match": {name: {"query": "<query>", "boost": float(boost)}}}
            for name, boost in fields.items()
        ]
        if boosting.combine == "dis-max":
            return json.dumps({"dis_max": {"tie_breaker": tie, "queries": queries}}, indent=2)
        return json.dumps({"bool": {"should": queries}}, indent=2)
    more: dict[str, Any] = {"type": "most_fields"}
    if boosting.combine == "dis-max":
        more = {"type": "best_fields", "tie_breaker": tie}
    texts = [f"{name}^{boost}" for name, boost in fields.items()]
    return json.dumps({"multi_match": {"query": "<query>", **more, "fields": texts}}, indent=2)


BOOSTED = ("multi-match", "bool", "solr")  #: the targets of `write_boosts`
