"""Drift: how the features and scores of other data differ from those of the training data.

A model keeps a `TrainingProfile`: histograms of a sample of the training documents. `check_drift`
compares other documents with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from scipy import sparse

from .._util.text import count, data_frame, html_table, text_table
from .._util.types import Array, Integers, Vector
from ..data.ranking import RankingData
from ..data.validation import Matrix, group_by_query, take_rows
from ..errors import DataError
from ..features.preprocessing import features_with_gaps

if TYPE_CHECKING:
    import pandas as pd

    from .model import Content, Model

DECILES = np.arange(1, 10) / 10  #: edges of histograms, as quantiles of the training values
PROFILED_DOCS = 1024  #: training documents in a profile; with more, the profile takes longer
PROFILED_FEATURES = 1000  #: with more features, a profile has the scores only
CHECKED_DOCS = 100_000  #: documents that a check looks at; with more, it takes longer
TOP_DRIFTS = 10  #: features that a table of a check shows by default


# Histograms --------------------------------------------------------------------------------------


class Histogram(NamedTuple):
    """Numbers of values between the edges of bins: a bin ends with its upper edge.

    The first bin has no lower end, and the last one has no upper end.
    """

    edges: Vector
    counts: Integers  #: one more than the edges
    n_missing: int
    low: float  #: range of the values
    high: float

    @classmethod
    def of(cls, values: Vector, edges: Vector | None = None) -> Self:
        """Count values. Without edges, these are the deciles, each of them once.

        Examples
        --------
        >>> found = Histogram.of(np.array([1.0, 1.0, 2.0, np.nan]))
        >>> found.edges.tolist(), found.counts.tolist(), found.n_missing
        ([1.0, 2.0], [2, 1, 0], 1)
        """
        known = np.sort(values[~np.isnan(values)])
        n = len(known)
        if edges is None:
            edges = np.unique(known[np.ceil(DECILES * n).astype(np.int64) - 1]) if n else known
        ends = np.searchsorted(known, edges, side="right")
        low, high = (float(known[0]), float(known[-1])) if n else (0.0, 0.0)
        return cls(edges, np.diff(ends, prepend=0, append=n), len(values) - n, low, high)

    @classmethod
    def from_content(cls, content: Any) -> Self:
        """Make a histogram from an entry of a model file; raise a `DataError` if damaged."""
        found = cls(**content)
        edges = np.array(found.edges, dtype=np.float64)
        counts = np.array(found.counts, dtype=np.int64)
        numbers = np.array([*edges, found.low, found.high, found.n_missing], dtype=np.float64)
        sizes_fit = edges.ndim == counts.ndim == 1 and len(counts) == len(edges) + 1
        if not (sizes_fit and np.isfinite(numbers).all() and (np.diff(edges) > 0).all()):
            raise DataError("profile has a histogram whose edges do not ascend or do not fit")
        if found.n_missing < 0 or (counts < 0).any():
            raise DataError("profile has a histogram with a negative number of values")
        return cls(edges, counts, int(found.n_missing), float(found.low), float(found.high))

    def describe(self) -> Content:
        """Return the histogram as an entry of a model file."""
        return self._asdict() | {"edges": self.edges.tolist(), "counts": self.counts.tolist()}

    @property
    def missing(self) -> float:
        """The share of missing values."""
        return self.n_missing / max(1, self.n_missing + int(self.counts.sum()))


def stability_index(before: Histogram, now: Histogram) -> float:
    """Return the population stability index of two histograms with the same edges.

    With the shares p and q of the bins, and of missing values, it is Σ (p − q)·ln(p/q).
    Half a value is added to each bin, so that no share is 0. The expectation without drift, which
    is the number of bins less 1 times 1/n + 1/m for n and m values, is subtracted.

    Examples
    --------
    >>> before = Histogram.of(np.arange(1000.0))
    >>> same, moved = (Histogram.of(np.arange(1000.0) + shift, before.edges) for shift in (0, 300))
    >>> stability_index(before, same), round(stability_index(before, moved), 1)
    (0.0, 2.0)
    """
    p, q = (np.append(h.counts, h.n_missing) + 0.5 for h in (before, now))
    chance = (len(p) - 1) * (1 / p.sum() + 1 / q.sum())
    p, q = p / p.sum(), q / q.sum()
    return max(0.0, float(((p - q) * np.log(p / q)).sum() - chance))


# Profiles ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TrainingProfile:
    """Histograms of the training data of a model.

    Attributes
    ----------
    scores : Histogram
    features : list of Histogram or None
        None: there are more than `PROFILED_FEATURES`.
    gaps : list of int
        The features that had missing values.
    """

    scores: Histogram
    features: list[Histogram] | None
    gaps: list[int]

    @classmethod
    def of(cls, model: Model, data: RankingData) -> Self:
        """Count the values of a sample of the training documents."""
        X, query_ptr = _sample(data.X, data.query_ptr, PROFILED_DOCS, model.needs_qid)
        scores, features = model.scores(X, query_ptr), None
        if X.shape[1] <= PROFILED_FEATURES:
            features = [Histogram.of(column) for column in _columns(X)]
        gaps = features_with_gaps(data.X).tolist() if data.has_missing else []
        return cls(Histogram.of(scores), features, gaps)

    @classmethod
    def from_content(cls, content: Any, n_features: int) -> Self:
        """Make a profile from the entry of a model file; raise a `DataError` if damaged."""
        features = content["features"]
        if features is not None and len(features) != n_features:
            raise DataError(f"profile has {len(features)} features; expected {n_features}")
        found = None if features is None else [Histogram.from_content(h) for h in features]
        gaps = content["gaps"]
        if not isinstance(gaps, list) or not all(type(f) is int for f in gaps):
            raise DataError("gaps of profile is not a list of features")
        return cls(Histogram.from_content(content["scores"]), found, gaps)

    def describe(self) -> Content:
        """Return the profile as an entry of a model file."""
        features = None if self.features is None else [h.describe() for h in self.features]
        return {"scores": self.scores.describe(), "features": features, "gaps": self.gaps}

    def complete(self, n_features: int) -> set[int]:
        """Return the features that had a value in every row."""
        return set(range(n_features)) - set(self.gaps)


def _sample(
    X: Matrix, query_ptr: Integers | None, n_docs: int, whole: bool
) -> tuple[Matrix, Integers | None]:
    """Return at most about n_docs rows at equal distances, or if `whole`, whole queries."""
    if X.shape[0] <= n_docs:
        return X, query_ptr
    if not whole or query_ptr is None:
        return take_rows(X, np.arange(n_docs) * X.shape[0] // n_docs), None
    n_queries = len(query_ptr) - 1
    wanted = max(1, n_docs * n_queries // X.shape[0])
    chosen = np.arange(wanted) * n_queries // wanted
    parts = [np.arange(query_ptr[q], query_ptr[q + 1]) for q in chosen]
    return take_rows(X, np.concatenate(parts)), np.cumsum([0, *map(len, parts)])


def _columns(X: Matrix) -> Array:
    """Return the columns of a sample as the rows of a dense array."""
    dense = X.toarray() if sparse.issparse(X) else X
    return np.ascontiguousarray(dense.T, dtype=np.float64)


# Checks ------------------------------------------------------------------------------------------


class FeatureDrift(NamedTuple):
    """How one feature differs from its training values; None: not known."""

    feature: str
    used: bool  #: whether the feature has a part in the score
    psi: float | None  #: population stability index
    missing: float  #: share of missing values
    missing_before: float | None
    outside: float | None  #: share of the values outside of the training range
    minimum: float
    maximum: float


class Limits(NamedTuple):
    """Differences above which a check raises an alarm."""

    psi: float
    missing: float
    outside: float


@dataclass(frozen=True, repr=False)
class Drift:
    """Differences between some documents and the training data of a model.

    Attributes
    ----------
    n_docs : int
        Documents that were looked at.
    features : list of FeatureDrift
        The features; those with the largest stability index come first.
    scores : float or None
        Population stability index of the scores; None if it is not known.
    alarms : list of str
        A sentence for each difference above its limit.
    notes : list of str
        What could not be compared, and why.

    Examples
    --------
    >>> from linrank import RankSVM, make_ranking
    >>> data = make_ranking(random_state=0)
    >>> model = RankSVM().fit(data).model_
    >>> model.check(data).ok, model.check(data.X + 5.0).ok
    (True, False)
    """

    n_docs: int
    features: list[FeatureDrift]
    scores: float | None
    alarms: list[str]
    notes: list[str]

    @property
    def ok(self) -> bool:
        """Whether there is no alarm."""
        return not self.alarms

    def table(self, top: int | None = TOP_DRIFTS) -> tuple[list[str], list[list[str]]]:
        """Return the names of columns and the rows of a table, as texts."""
        names = [name.replace("_", " ") for name in FeatureDrift._fields]
        rows = [[_shown(value) for value in feature] for feature in self.features[:top]]
        return names, rows

    def to_frame(self) -> pd.DataFrame:
        """Return the features as a pandas frame.

        Examples
        --------
        >>> from linrank import RankSVM, make_ranking
        >>> data = make_ranking(random_state=0)
        >>> RankSVM().fit(data).model_.check(data).to_frame().shape
        (20, 8)
        """
        return data_frame({
            name: [getattr(feature, name) for feature in self.features]
            for name in FeatureDrift._fields
        })  # fmt: skip

    def __repr__(self) -> str:
        score = "" if self.scores is None else f"; psi of the scores {self.scores:.3f}"
        title = f"{count(self.n_docs, 'document')}, {count(len(self.alarms), 'alarm')}{score}"
        return "\n".join([title, *self.alarms, *self.notes, text_table(*self.table())])

    def _repr_html_(self) -> str:
        return html_table(*self.table(), title=" ".join(self.alarms + self.notes) or "no drift")


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def check_drift(model: Model, rows: Matrix, qid: Any, limits: Limits) -> Drift:
    """Compare documents, which have the features of the model, with its training data."""
    query_ptr = None
    if qid is not None:
        query_ptr, _, order = group_by_query(qid, rows.shape[0])
        rows = rows if order is None else take_rows(rows, order)
    rows, query_ptr = _sample(rows, query_ptr, CHECKED_DOCS, model.needs_qid)
    profile, notes = model.profile, []
    if profile is None:
        notes.append(
            "The model file has no profile of the training data, so distributions cannot be "
            "compared. Train the model again."
        )
    features = _features(model, rows)
    features.sort(key=lambda feature: (not feature.used, -(feature.psi or 0.0)))
    alarms = [text for feature in features if feature.used for text in _alarms(feature, limits)]
    scores = None
    if any(feature.missing for feature in features) and not model.fills:
        alarms.append("Documents with missing values cannot be scored: training had none.")
    elif profile is not None and (query_ptr is not None or not model.needs_qid):
        found = Histogram.of(model.scores(rows, query_ptr), profile.scores.edges)
        scores = stability_index(profile.scores, found)
        if scores > limits.psi:
            alarms.insert(0, f"Scores: the stability index is {scores:.3f}.")
    return Drift(rows.shape[0], features, scores, alarms, notes)


def _features(model: Model, rows: Matrix) -> list[FeatureDrift]:
    """Compare the features; those of very many features are not compared."""
    if rows.shape[1] > PROFILED_FEATURES:
        return []
    known = None if model.profile is None else model.profile.features
    summary = getattr(model, "summary", None)
    used = set(model.used.tolist() if model.is_additive else range(rows.shape[1]))
    found = []
    for f, (name, values) in enumerate(zip(model.names(), _columns(rows), strict=True)):
        before = None if known is None else known[f]
        now = Histogram.of(values, None if before is None else before.edges)
        low, high = (None, None) if before is None else (before.low, before.high)
        if summary is not None:
            low, high = float(summary.minimum[f]), float(summary.maximum[f])
        n_outside = 0 if low is None else int(((values < low) | (values > high)).sum())
        found.append(
            FeatureDrift(
                feature=name,
                used=f in used,
                psi=None if before is None else stability_index(before, now),
                missing=now.missing,
                missing_before=None if before is None else before.missing,
                outside=None if low is None else n_outside / max(1, int(now.counts.sum())),
                minimum=now.low,
                maximum=now.high,
            )
        )
    return found


def _alarms(feature: FeatureDrift, limits: Limits) -> list[str]:
    """Return a sentence for each difference above its limit."""
    found = []
    if feature.psi is not None and feature.psi > limits.psi:
        found.append(f"the stability index is {feature.psi:.3f}")
    if feature.missing - (feature.missing_before or 0.0) > limits.missing:
        found.append(f"{feature.missing:.1%} of the values are missing")
    if feature.outside is not None and feature.outside > limits.outside:
        found.append(f"{feature.outside:.1%} of the values are outside of the training range")
    return [f"{feature.feature}: {'; '.join(found)}."] if found else []
