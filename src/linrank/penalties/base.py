"""What the penalties share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar

import numpy as np

from .._typing import Vector
from ..errors import DataError

P = TypeVar("P", bound="Penalty")


@dataclass(frozen=True, eq=False)
class Penalty:
    """``Ω(w) = Σ_j β_j·g(|w_j|)``, with g increasing on u ≥ 0 and g(0) = 0.

    Subclasses give g as `curve`, its derivative g' as `slope`, and the proximal operator of
    t·g as `shrink`, all for arrays of u ≥ 0.

    Parameters
    ----------
    weights : float or array of shape (n_features,), optional
        β: what each feature costs; 1 where it is not given, 0 for one that is free.
    """

    weights: Any = None
    name: ClassVar[str]
    convex: ClassVar[bool] = False
    parameter: ClassVar[str | None] = None  #: the name of the one that shapes g

    def at(self: P, C: float) -> P:
        """The penalty for a C; those that are defined by λ = 1/C take it from here."""
        return self

    def describe(self) -> dict[str, Any]:
        """The name and the parameters, for model files."""
        shape = None if self.parameter is None else getattr(self, self.parameter)
        weights = None if self.weights is None else np.asarray(self.weights).tolist()
        return {"name": self.name, "shape": shape, "weights": weights}

    def for_features(self: P, n_features: int) -> P:
        """The same penalty with its weights checked and filled in."""
        if self.weights is None:
            return replace(self, weights=np.ones(n_features))
        try:
            weights = np.array(self.weights, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise DataError(f"feature costs cannot be read as numbers: {error}") from None
        if weights.ndim == 0:
            weights = np.full(n_features, weights)
        if weights.shape != (n_features,):
            raise DataError(
                f"feature costs have shape {weights.shape} but there are {n_features} features"
            )
        bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
        if len(bad):
            raise DataError(
                f"feature cost {bad[0]} is {weights[bad[0]]}; expected finite numbers ≥ 0"
            )
        return replace(self, weights=weights)

    def value(self, w: Vector) -> float:
        """Ω(w)."""
        return float(self.weights @ self.curve(np.abs(w)))

    def prox(self, z: Vector, step: Any) -> Vector:
        """``argmin_w ½‖w − z‖² + step·Ω(w)``, by feature; `step` may be one number for each."""
        return np.sign(z) * self.shrink(np.abs(z), step * self.weights)

    def prices(self, w: Vector) -> Vector:
        """``β_j·g'(|w_j|)``: what a little more of each weight costs; 0 for a free feature."""
        return np.where(self.weights > 0, self.weights, 1.0) * np.where(
            self.weights > 0, self.slope(np.abs(w)), 0.0
        )

    def distance(self, w: Vector, gradient: Vector) -> Vector:
        """How far −gradient is from the subdifferential of Ω at w, by feature.

        It is 0 everywhere at a critical point of f + Ω, with `gradient` that of f.
        """
        used = w != 0
        beta = self.prices(w)
        away = np.maximum(0.0, np.abs(gradient) - beta)
        away[used] = np.abs(gradient[used] + np.sign(w[used]) * beta[used])
        return away

    def parts(self) -> tuple[Vector, Vector]:
        """l1 and l2 of ``Ω(w) = Σ_j l1_j·|w_j| + ½·l2_j·w_j²``, where the penalty is convex."""
        raise NotImplementedError

    def curve(self, u: Vector) -> Vector:
        """g(u)."""
        raise NotImplementedError

    def slope(self, u: Vector) -> Vector:
        """g'(u), at 0 from the right."""
        raise NotImplementedError

    def shrink(self, u: Vector, t: Vector) -> Vector:
        """``argmin_{v ≥ 0} ½(v − u)² + t·g(v)``."""
        raise NotImplementedError


def check_parameter(name: str, value: Any, low: float, high: float = np.inf) -> None:
    """Refuse a parameter of a penalty that is not between two numbers."""
    if not isinstance(value, float | int | np.number) or not low < value < high:
        limit = f"above {low:g}" if high == np.inf else f"between {low:g} and {high:g}"
        raise DataError(f"{name} is {value!r}; expected a number {limit}")


def keep_better(v: Vector, u: Vector, t: Vector, g: Vector) -> Vector:
    """Where 0 is at least as good as v in ½(v − u)² + t·g(v), take 0."""
    return np.where(0.5 * (v - u) ** 2 + t * g < 0.5 * u**2, v, 0.0)
