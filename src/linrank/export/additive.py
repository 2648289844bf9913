"""`AdditiveFormula`: the score of an additive model, as a sum of curves and surfaces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from .._typing import Integers, Vector
from ..errors import DataError
from .expression import Syntax, write_curve, write_surface
from .formula import Formula, Kind, check_distinct, renamed
from .staircase import stretches

if TYPE_CHECKING:
    from ..model import AdditiveModel, Curve, Surface


@dataclass(frozen=True)
class AdditiveFormula(Formula):
    """The score ``constant + Σ f_j(x_j) + Σ f_jk(x_j, x_k)``.

    Attributes
    ----------
    curves : tuple of Curve
    surfaces : tuple of Surface
    """

    kind: ClassVar[Kind] = "additive"

    curves: tuple[Curve, ...] = ()
    surfaces: tuple[Surface, ...] = ()

    @classmethod
    def of(cls, model: AdditiveModel, features: Mapping[str, str] | None = None) -> Self:
        """Return the formula of a model, with other names; see `renamed`."""
        if model.needs_qid:
            raise DataError(
                "this model scales features within each query, so its score is no formula of one "
                "document. Train with scale=None."
            )
        curves = tuple(curve for curve in model.curves if curve.pieces.any())
        surfaces = tuple(surface for surface in model.surfaces if surface.values.any())
        if not curves and not surfaces:
            raise DataError("all curves of the model are 0, so there is nothing to export")
        used = {curve.feature for curve in curves}
        used |= {feature for surface in surfaces for feature in surface.features}
        formula = cls(
            tuple(sorted(used)),
            curves=curves,
            surfaces=surfaces,
            **renamed(model.names(), features),
        )
        check_distinct(formula.used, "features= gives")
        return formula

    def parts(self, X: Any) -> Iterator[Vector]:
        """Yield the value of each curve and of each surface in rows."""
        values = self.values(X)
        for curve in self.curves:
            yield curve(values[curve.feature])
        for surface in self.surfaces:
            j, k = surface.features
            yield surface(values[j], values[k])

    def ranges(self) -> list[tuple[float, float]]:
        """Return the range of each curve and surface between the knots, with missing values."""
        found = [_range(curve) for curve in self.curves]
        return found + [(float(s.values.min()), float(s.values.max())) for s in self.surfaces]

    def texts(self, references: Mapping[int, str], syntax: Syntax) -> list[str]:
        """Return each curve and each surface as text."""
        curves = [write_curve(c, references[c.feature], syntax) for c in self.curves]
        return curves + [
            write_surface(s, [references[feature] for feature in s.features], syntax)
            for s in self.surfaces
        ]

    def unlike_zero(self) -> str | None:
        """Return a feature whose missing values were seen in training and differ from 0."""
        for curve in self.curves:
            if _unlike(curve(np.zeros(1)), curve.pieces[-1:, 0], curve.counts):
                return self.names[curve.feature]
        for surface in self.surfaces:
            values, counts = surface.values, surface.counts
            for feature, axis in zip(surface.features, surface.axes, strict=True):
                (zero,) = axis.cells(np.zeros(1))
                if _unlike(values[zero], values[-1], counts):
                    return self.names[feature]
                values, counts = values.T, None if counts is None else counts.T
        return None


def _unlike(zero: Vector, missing: Vector, counts: Integers | None) -> bool:
    """Tell whether missing values differ from 0, and were or may have been seen in training."""
    seen = counts is None or counts[-1].any()
    return bool(seen and (zero != missing).any())


def _range(curve: Curve) -> tuple[float, float]:
    """Return the lowest and the highest value of a curve, apart from slopes beyond its knots."""
    if curve.axis.levels or not len(curve.axis.knots):
        ends = curve(np.append(curve.axis.knots, np.nan))
        other = curve.pieces[-2, 0]
        return float(min(ends.min(), other)), float(max(ends.max(), other))
    found, missing = stretches(curve), curve.pieces[-1, 0]
    return float(min(found.low.min(), missing)), float(max(found.high.max(), missing))
