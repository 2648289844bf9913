"""`FeatureSteps`: which preprocessing is wanted, and how it is fitted to training data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy import sparse

from .._checks import choice
from .._typing import Vector
from ..data.checks import Matrix
from ..data.ranking import RankingData
from ..errors import DataError
from .names import MISSING, SCALES, MissingName, ScaleName
from .preprocessing import Preprocessing
from .summary import quantiles, summarise

QUARTILES = (0.25, 0.5, 0.75)
#: A width below this multiple of the largest value counts as 0. Scaling by a smaller width would
#: give scores an error of more than 2e-4 of a weight, because the folded weights multiply x itself.
CONSTANT = 1e-12


@dataclass(frozen=True)
class FeatureSteps:
    """The steps of preprocessing that a training fits: fill, logarithm, clip, scale.

    Parameters
    ----------
    log : bool
        Replace x by sign(x)·log(1 + |x|).
    clip : float or None
        Limit each feature to its quantiles `clip` and 1 − `clip` in the training data; 0 is its
        range.
    scale : {None, "standard", "minmax", "robust", "maxabs", "query"}
        ``standard``: (x − mean)/deviation; ``minmax``: to the range 0 to 1; ``robust``:
        (x − median)/(distance of the quartiles); ``maxabs``: x/max|x|; ``query``: to the range 0 to
        1 within each query. A feature that is constant in the training data is not scaled.
    missing : {None, "zero", "median", "indicator"}
        The value of missing features; ``indicator`` is the median with a weight of its own for the
        fact that a value is missing.

    Examples
    --------
    >>> FeatureSteps.parse("log1p+standard", None)
    FeatureSteps(log=True, clip=None, scale='standard', missing=None)
    >>> FeatureSteps.parse("clip:0.01+minmax", "median").clip
    0.01
    """

    log: bool = False
    clip: float | None = None
    scale: ScaleName | None = None
    missing: MissingName | None = None

    @classmethod
    def parse(cls, scale: str | None, missing: str | None) -> Self:
        """Return the steps for the options `scale` and `missing` of estimators."""
        if missing is not None:
            choice("missing", missing, MISSING, "and None")
        if scale is None:
            return cls(missing=missing)  # type: ignore[arg-type]
        if not isinstance(scale, str):
            raise DataError(f"scale is {scale!r}; expected a text such as 'standard'")
        parts = scale.replace(" ", "").split("+")
        log = parts[0] == "log1p"
        parts = parts[log:]
        clip = _quantile(parts.pop(0)) if parts and parts[0].startswith("clip") else None
        last: Any = parts.pop(0) if parts else None
        if parts or (last is not None and last not in SCALES):
            raise DataError(
                f"scale is {scale!r}; expected log1p, clip or clip:QUANTILE, and one of "
                f"{', '.join(SCALES)}, in this order and joined by +, such as 'log1p+standard'"
            )
        return cls(log, clip, last, missing)  # type: ignore[arg-type]

    @property
    def is_empty(self) -> bool:
        """Whether features are used as they are given."""
        return self == FeatureSteps()

    @property
    def is_linear(self) -> bool:
        """Whether scores stay linear in the given features, apart from missing ones."""
        return not self.log and self.clip is None and self.scale != "query"

    @property
    def name(self) -> str | None:
        """The text that `parse` takes as `scale`; None if there is no such step."""
        clip = None if self.clip is None else "clip" if self.clip == 0 else f"clip:{self.clip:g}"
        parts = [part for part in ("log1p" if self.log else None, clip, self.scale) if part]
        return "+".join(parts) or None

    def fit(self, data: RankingData, n_threads: int | None = None) -> Preprocessing | None:
        """Return the fitted steps; None if features are used as they are given."""
        if self.is_empty:
            return None
        X: Matrix = data.X
        origin: Vector | float = 0.0  # what was subtracted from the values so that zeros stay zeros
        found: dict[str, Any] = {"n_features": data.n_features, "log": self.log}
        if self.missing is not None:
            found["fill"] = np.zeros(X.shape[1])
            if self.missing != "zero":
                found["fill"] = quantiles(X, (0.5,))[0]
        if self.log or (self.missing is not None and data.has_missing):
            X = Preprocessing(**found).apply(X, None, n_threads)
        if self.clip is not None:
            low, high = _limits(X, self.clip, n_threads)
            found |= {"low": low, "high": high}
            clipped = Preprocessing(data.n_features, low=low, high=high)
            X = clipped.apply(X, None, n_threads)
            origin = clipped.at_zero() if data.is_sparse else 0.0
        if self.missing == "indicator":
            found["indicators"] = _features_with_gaps(data.X)
        if self.scale == "query":
            found["by_query"] = True
        elif self.scale is not None:
            found |= _scaling(X, origin, self.scale, n_threads)
        return Preprocessing(**found)


def _quantile(step: str) -> float:
    """Return the quantile in ``clip:QUANTILE``; 0 without a quantile."""
    name, _, text = step.partition(":")
    try:
        share = float(text or 0) if name == "clip" else np.nan
    except ValueError:
        share = np.nan
    if not 0 <= share < 0.5:
        raise DataError(f"{step!r} in scale; expected clip:QUANTILE with 0 ≤ QUANTILE < 0.5")
    return share


def _features_with_gaps(X: Matrix) -> Any:
    if sparse.issparse(X):
        return np.unique(X.indices[np.isnan(X.data)]).astype(np.int64)
    return np.flatnonzero(np.isnan(X).any(axis=0))


def _limits(X: Matrix, share: float, n_threads: int | None) -> tuple[Vector, Vector]:
    if share > 0:
        low, high = quantiles(X, (share, 1.0 - share))
        return low, high
    found = summarise(X, n_threads)
    return found.minimum, found.maximum


@np.errstate(over="ignore", divide="ignore", invalid="ignore")
def _scaling(
    X: Matrix, origin: Vector | float, scale: ScaleName, n_threads: int | None
) -> dict[str, Vector]:
    """Return shift and factor of each feature, whose values are X + origin.

    Features of width 0 keep the factor 1.
    """
    found = summarise(X, n_threads)
    minimum, maximum = found.minimum + origin, found.maximum + origin
    largest = np.maximum(np.abs(minimum), np.abs(maximum))
    if scale == "standard":
        shift, width = found.mean + origin, found.deviation
    elif scale == "minmax":
        shift, width = minimum, maximum - minimum
    elif scale == "maxabs":
        shift, width = np.zeros(X.shape[1]), largest
    else:
        low, shift, high = quantiles(X, QUARTILES) + origin
        width = np.where(high - low > CONSTANT * largest, high - low, found.deviation)
    factor = 1.0 / width
    usable = (width > CONSTANT * largest) & np.isfinite(width) & np.isfinite(factor)
    return {"shift": shift, "factor": np.where(usable, factor, 1.0)}
