"""Base classes of the penalties Ω(w): for any function, and for sums over features."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np

from .._typing import Integers, Mask, Vector
from ..errors import DataError
from .bounds import Bounds, BoundsLike, describe_bounds, make_bounds

#: The kinds of penalty that solvers distinguish: with a derivative, convex sums over features,
#: concave sums over features, and convex functions of groups of features.
Kind = Literal["l2", "convex", "concave", "group"]


@dataclass(frozen=True, eq=False)
class Penalty(ABC):
    """A function Ω of the weights, with limits low ≤ w ≤ high.

    `for_features` checks the costs and bounds of the user and turns them into arrays. The other
    methods need a penalty that `for_features` has returned.

    Parameters
    ----------
    weights : float or array of shape (n_features,), optional
        β: the cost of each feature. The default is 1. A feature with cost 0 is not penalised.
    bounds : None, "positive" or (low, high)
        Limits of the weights; see `linrank.penalties.bounds.make_bounds`.

    Examples
    --------
    >>> from linrank import SparseRankSVM
    >>> from linrank.penalties import L1
    >>> penalty = L1(weights=[1.0, 5.0], bounds="positive")  # the second feature is expensive
    >>> ranker = SparseRankSVM(C=1.0, penalty=penalty).fit([[1.0, 1.0], [3.0, 3.0]], [0, 1])
    >>> (ranker.coef_ > 0).tolist()
    [True, False]
    """

    weights: Any = None
    bounds: BoundsLike = field(default=None, kw_only=True)
    name: ClassVar[str]
    kind: ClassVar[Kind]
    selects: ClassVar[bool] = True  #: whether it sets weights to 0
    cost: ClassVar[float] = 1.0  #: default cost of a feature
    takes_costs: ClassVar[bool] = True  #: whether features may have costs of their own
    parameter: ClassVar[str | None] = None  #: name of the parameter that `shape` sets

    @property
    def smooth(self) -> bool:
        """Whether Ω is ½‖w‖², which has a derivative."""
        return self.kind == "l2"

    @property
    def convex(self) -> bool:
        """Whether Ω is convex."""
        return self.kind != "concave"

    @property
    def starts_at_zero(self) -> bool:
        """Whether all weights are 0 for small C."""
        return not self.smooth

    @property
    def limits(self) -> Bounds | None:
        """The bounds of each weight as arrays; `for_features` makes them."""
        assert self.bounds is None or isinstance(self.bounds, Bounds)
        return self.bounds

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Penalty) or type(self) is not type(other):
            return False
        return self.describe() == other.describe()

    def __hash__(self) -> int:
        return hash(type(self))

    def at(self, C: float) -> Self:
        """Return the penalty for a C; subclasses that depend on λ = 1/C override this method."""
        return self

    def for_features(self, n_features: int, names: Sequence[str] | None = None) -> Self:
        """Return the penalty with its costs and bounds checked, as arrays.

        Parameters
        ----------
        n_features : int
        names : sequence of str, optional
            The names of the features, for bounds that are given by name.
        """
        try:
            weights = np.array(self.cost if self.weights is None else self.weights, np.float64)
        except (TypeError, ValueError) as error:
            raise DataError(
                f"feature costs cannot be read as numbers: {error}. Use one number per feature."
            ) from None
        if weights.ndim == 0:
            weights = np.full(n_features, weights)
        if weights.shape != (n_features,):
            raise DataError(
                f"feature costs have shape {weights.shape}, but there are {n_features} features"
            )
        bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
        if len(bad):
            raise DataError(
                f"feature cost {bad[0]} is {weights[bad[0]]}; expected finite numbers ≥ 0"
            )
        if not self.takes_costs and (weights != self.cost).any():
            raise DataError(f"penalty={self.name!r} takes no feature costs. Use feature_cost=None.")
        bounds = None if self.bounds is None else make_bounds(self.bounds, n_features, names)
        if bounds is not None and self.kind == "concave" and not bounds.contain_zero():
            raise DataError(
                f"penalty={self.name!r} needs bounds with low ≤ 0 ≤ high. Use penalty='l1' for "
                "other bounds."
            )
        return replace(self, weights=weights, bounds=bounds)

    def for_some(self, features: Integers | Mask) -> Self:
        """Return the penalty of some of the features, given as a mask or as numbers."""
        bounds = self.limits
        if bounds is not None:
            bounds = Bounds(bounds.low[features], bounds.high[features])
        return replace(self, weights=self.weights[features], bounds=bounds)

    def with_companions(self, features: Integers) -> Self:
        """Return the penalty with one more feature for each of the given ones, at the end.

        A companion has the cost of its feature, and no bounds.
        """
        bounds, free = self.limits, np.full(len(features), np.inf)
        if bounds is not None:
            bounds = Bounds(np.append(bounds.low, -free), np.append(bounds.high, free))
        weights = np.append(self.weights, self.weights[features])
        return replace(self, weights=weights, bounds=bounds)

    def describe(self) -> dict[str, Any]:
        """Return the name and the parameters as plain data, for model files."""
        shape = None if self.parameter is None else getattr(self, self.parameter)
        weights = None if self.weights is None else np.asarray(self.weights).tolist()
        found = {"name": self.name, "shape": shape, "weights": weights}
        return found if self.bounds is None else found | {"bounds": describe_bounds(self.bounds)}

    def clip(self, w: Vector) -> Vector:
        """Return the nearest weights within the bounds; without bounds, w itself."""
        return w if self.limits is None else self.limits.clip(w)

    @abstractmethod
    def value(self, w: Vector) -> float:
        """Return Ω(w)."""

    @abstractmethod
    def prox(self, z: Vector, step: float) -> Vector:
        """Return ``argmin_w ½‖w − z‖² + step·Ω(w)`` within the bounds."""

    @abstractmethod
    def distance(self, w: Vector, gradient: Vector) -> Vector:
        """Return the distance of −gradient to the subdifferential of Ω at w, by feature.

        At a bound, the subdifferential extends to infinity in the direction that is blocked. If
        `gradient` is that of f, all distances are 0 at a critical point of f + Ω.
        """

    @abstractmethod
    def parts(self) -> tuple[Vector, Vector]:
        """Return l1 and l2 of the parts ``Σ_j l1_j·|w_j| + ½·l2_j·w_j²`` of a convex Ω."""

    def norm_part(self) -> tuple[Vector, Integers] | None:
        """Return the cost of the norm of each feature's group, and the group of each feature.

        None stands for a sum over features, which is `parts` alone.
        """
        return None

    @abstractmethod
    def slack(self, gradient: Vector) -> Vector:
        """Return how far the gradient is from giving each feature of weight 0 a weight."""

    @abstractmethod
    def entry_C(self, gradient: Vector) -> float:
        """Return the smallest C at which a penalised feature gets a weight, given ∇L at w = 0."""

    @abstractmethod
    def best_dual(self, rise: float, bend: float, gradient: Vector, end: float) -> float:
        """Return the largest ``rise·s − bend·s² − Ω*(−s·gradient)`` for 0 ≤ s ≤ end.

        Ω* is the conjugate of a convex Ω within its bounds.
        """


@dataclass(frozen=True, eq=False)
class SeparablePenalty(Penalty):
    """``Ω(w) = Σ_j β_j·g(|w_j|)``, with g increasing on u ≥ 0 and g(0) = 0.

    Subclasses give g as `curve`, its derivative g' as `slope`, and the proximal operator of t·g as
    `shrink`, all for arrays of u ≥ 0.
    """

    @abstractmethod
    def curve(self, u: Vector) -> Vector:
        """Return g(u)."""

    @abstractmethod
    def slope(self, u: Vector) -> Vector:
        """Return g'(u), at 0 from the right."""

    @abstractmethod
    def shrink(self, u: Vector, t: Vector) -> Vector:
        """Return ``argmin_{v ≥ 0} ½(v − u)² + t·g(v)``."""

    def parts(self) -> tuple[Vector, Vector]:
        """Return l1 and l2 of ``Ω(w) = Σ_j l1_j·|w_j| + ½·l2_j·w_j²``, for convex penalties."""
        raise NotImplementedError

    def slack(self, gradient: Vector) -> Vector:
        """Return l1 − |gradient|."""
        return self.parts()[0] - np.abs(gradient)

    def value(self, w: Vector) -> float:
        """Return Ω(w)."""
        return float(self.weights @ self.curve(np.abs(w)))

    def prox(self, z: Vector, step: float | Vector) -> Vector:
        """Return ``argmin_w ½‖w − z‖² + step·Ω(w)``, by feature, within the bounds.

        If g is concave and the minimum is beyond a bound, either that bound or 0 is best.
        """
        t = step * self.weights
        v = np.sign(z) * self.shrink(np.abs(z), t)
        if self.limits is None:
            return v
        w = self.limits.clip(v)
        if self.convex:
            return w
        at_bound = 0.5 * (w - z) ** 2 + t * self.curve(np.abs(w))
        return np.where((w != v) & (0.5 * z**2 <= at_bound), 0.0, w)

    def prices(self, w: Vector) -> Vector:
        """Return ``β_j·g'(|w_j|)``, the derivative of Ω in each |w_j|; it is 0 if β_j = 0."""
        return np.where(self.weights > 0, self.weights, 1.0) * np.where(
            self.weights > 0, self.slope(np.abs(w)), 0.0
        )

    def distance(self, w: Vector, gradient: Vector) -> Vector:
        """Return the distance of −gradient to the subdifferential of Ω at w, by feature."""
        prices = self.prices(w)
        low, high = np.where(w > 0, prices, -prices), np.where(w < 0, -prices, prices)
        if self.limits is not None:
            low = np.where(w <= self.limits.low, -np.inf, low)
            high = np.where(w >= self.limits.high, np.inf, high)
        return np.maximum(0.0, np.maximum(low + gradient, -gradient - high))

    def entry_C(self, gradient: Vector) -> float:
        """Return ``min_j β_j·g'(0) / |∂L/∂w_j|`` over the features that bounds do not block.

        Solvers for concave penalties start with the l1 solution, so the value is that of l1.
        """
        zero = np.zeros_like(gradient)
        need = self.prices(zero) if self.convex else self.weights
        stays = (gradient == 0) | (self.weights == 0)
        if self.limits is not None:
            stays |= self.limits.blocks(zero, -gradient)
        with np.errstate(divide="ignore", invalid="ignore"):
            return float(np.min(need / np.abs(gradient), initial=np.inf, where=~stays))

    def best_dual(self, rise: float, bend: float, gradient: Vector, end: float) -> float:
        """Return the largest ``rise·s − bend·s² − Ω*(−s·gradient)`` for 0 ≤ s ≤ end.

        The derivative in s is ``rise − 2·bend·s + Σ_j gradient_j·v_j(s)``, where v_j is the weight
        at which Ω*_j is attained. The weight v_j moves from a_j, the weight nearest to 0, to b_j,
        the bound against the gradient. With an l2 part it moves linearly between two knots, and
        otherwise it jumps. The derivative is therefore piecewise linear and decreasing. Where v_j
        would jump to an infinite b_j, the range of s ends.
        """
        l1, l2 = self.parts()
        a, b = self._ends(gradient)
        steep = np.abs(gradient)
        with np.errstate(divide="ignore", invalid="ignore"):
            leaves = (l1 + l2 * np.abs(a)) / steep
        moves = (a != b) & (gradient != 0)
        end = min(end, float(np.min(leaves[moves & (l2 == 0) & np.isinf(b)], initial=np.inf)))
        moving = np.flatnonzero(moves & (leaves < end))
        knots = _knots(l1[moving], l2[moving], a[moving], b[moving], steep[moving])
        slope_at_start = rise + (float(a @ gradient) if a.any() else 0.0)
        s = _root_of_falling(slope_at_start, 2.0 * bend, *knots, end)
        if not len(moving) and not a.any():
            return s * (rise - bend * s)
        u, v = -s * gradient, a.copy()
        jumps, bends = moving[l2[moving] == 0], moving[l2[moving] > 0]
        v[jumps] = np.where(leaves[jumps] < s, b[jumps], a[jumps])
        v[bends] = np.sign(u[bends]) * np.maximum(np.abs(u) - l1, 0.0)[bends] / l2[bends]
        v = np.clip(v, np.minimum(a, b), np.maximum(a, b))
        conjugate = float(np.sum(u * v - np.abs(v) * (l1 + 0.5 * l2 * np.abs(v))))
        return s * (rise - bend * s) - conjugate

    def _ends(self, gradient: Vector) -> tuple[Vector, Vector]:
        """Return the weights nearest to 0 within the bounds, and the bounds against a gradient."""
        if self.limits is None:
            return np.zeros_like(gradient), np.where(gradient < 0, np.inf, -np.inf)
        low, high = self.limits
        return np.clip(0.0, low, high), np.where(gradient < 0, high, low)


def _knots(
    l1: Vector, l2: Vector, a: Vector, b: Vector, steep: Vector
) -> tuple[Vector, Vector, Vector]:
    """Return the knots of `best_dual`, and what each adds to the derivative: lift − slope·s.

    Without an l2 part, a weight jumps from a to b. With one, it begins to move at a first knot and
    stops at a second one.
    """
    jumps, bends = l2 == 0, l2 > 0
    stops = bends & np.isfinite(b)
    leaves = (l1 + l2 * np.abs(a)) / steep
    pull, arrives = steep[bends] ** 2 / l2[bends], (l1 + l2 * np.abs(b))[stops] / steep[stops]
    stopped = steep[stops] ** 2 / l2[stops]
    knots = np.concatenate([leaves[jumps], leaves[bends], arrives])
    lifts = [-steep[jumps] * np.abs(b - a)[jumps], pull * leaves[bends], -stopped * arrives]
    slopes = [np.zeros(np.count_nonzero(jumps)), pull, -stopped]
    return knots, np.concatenate(lifts), np.concatenate(slopes)


def _root_of_falling(
    rise: float, fall: float, knots: Vector, lifts: Vector, slopes: Vector, end: float
) -> float:
    """Return the root of a decreasing, piecewise linear function, within 0 ≤ s ≤ end.

    Before the first knot the function is ``rise − fall·s``. Each knot adds ``lift − slope·s``.

    Examples
    --------
    >>> one = np.ones(1)
    >>> _root_of_falling(3.0, 1.0, one, -one, 0 * one, np.inf)  # 3 − s up to 1, then 2 − s
    2.0
    """
    if not len(knots):
        return min(end, max(0.0, rise / fall)) if fall > 0 else min(end, 1.0)
    order = np.argsort(knots)
    knots = knots[order]
    rises = rise + np.concatenate([[0.0], np.cumsum(lifts[order])])
    falls = fall + np.concatenate([[0.0], np.cumsum(slopes[order])])
    passed = int(np.count_nonzero(rises[:-1] > falls[:-1] * knots))
    if not falls[passed] > 0:
        return min(end, 1.0)
    first = knots[passed - 1] if passed else 0.0
    return float(min(end, max(first, rises[passed] / falls[passed])))


def check_parameter(
    name: str, value: object, low: float, high: float = np.inf, *, with_low: bool = False
) -> None:
    """Raise a `DataError` unless a parameter of a penalty is between two numbers."""
    fits = isinstance(value, float | int | np.number) and (
        low < value < high or (with_low and value == low)
    )
    if not fits:
        limit = f"{'at least' if with_low else 'above'} {low:g}"
        limit = limit if high == np.inf else f"between {low:g} and {high:g}"
        raise DataError(f"{name} is {value!r}; expected a number {limit}")


def keep_better(v: Vector, u: Vector, t: Vector, g: Vector) -> Vector:
    """Return v, or 0 where ½(v − u)² + t·g(v) is no larger at 0."""
    return np.where(0.5 * (v - u) ** 2 + t * g < 0.5 * u**2, v, 0.0)
