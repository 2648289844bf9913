"""Bounds of weights, the base classes of the penalties Ω(w), and penalties by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from .._util.checks import choice
from .._util.lazy import ClassesByName
from .._util.types import Integers, Mask, Vector
from ..errors import DataError
from . import CLASSES, PenaltyName

# --------------------------------------------------------------------------------------------------
# Bounds on the weights: low ≤ w ≤ high, for all features or for each feature.


#: A number, one number per feature, or numbers by feature name; None is no limit.
Limit: TypeAlias = float | Sequence[float] | Vector | Mapping[str, float] | None
BoundsLike: TypeAlias = "Literal['positive'] | tuple[Limit, Limit] | Bounds | None"


class Bounds(NamedTuple):
    """Limits of each weight: low_j ≤ w_j ≤ high_j.

    Parameters
    ----------
    low, high : float64 arrays of shape (n_features,)
        The limits; −∞ and ∞ are no limits.

    Examples
    --------
    >>> make_bounds("positive", 2).clip(np.array([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    >>> make_bounds((None, {"age": 0.5}), 2, ["size", "age"]).high.tolist()
    [inf, 0.5]
    """

    low: Vector
    high: Vector

    def clip(self, w: Vector) -> Vector:
        """Return the nearest weights within the limits."""
        return np.clip(w, self.low, self.high)

    def blocks(self, w: Vector, direction: Vector) -> Mask:
        """Return the features at a limit for which the direction leads beyond the limit."""
        return ((w <= self.low) & (direction < 0)) | ((w >= self.high) & (direction > 0))

    def contain_zero(self) -> bool:
        """Return whether w = 0 is within the limits."""
        return bool((self.low <= 0).all() and (self.high >= 0).all())


def make_bounds(
    bounds: BoundsLike, n_features: int, names: Sequence[str] | None = None
) -> Bounds | None:
    """Return the limits of each weight as arrays; None if no weight has a limit.

    Parameters
    ----------
    bounds : None, "positive" or (low, high)
        ``"positive"`` is ``(0, None)``. Each limit is a number for all features, an array with one
        number per feature, or a dict by feature name. Features that are not in the dict have no
        limit. None is no limit.
    n_features : int
    names : sequence of str, optional
        The names of the features, for limits by name.
    """
    if bounds is None:
        return None
    if isinstance(bounds, str) and bounds == "positive":
        bounds = (0.0, None)
    if isinstance(bounds, str) or not isinstance(bounds, Sequence) or len(bounds) != 2:
        raise DataError(f"bounds is {bounds!r}; expected None, 'positive' or (low, high)")
    low = _limits("low", bounds[0], -np.inf, n_features, names)
    high = _limits("high", bounds[1], np.inf, n_features, names)
    bad = np.flatnonzero(~(low <= high) | (low == np.inf) | (high == -np.inf))
    if len(bad):
        name = repr(names[bad[0]]) if names is not None else str(bad[0])
        raise DataError(
            f"bounds of feature {name} are {low[bad[0]]:g} and {high[bad[0]]:g}; expected "
            "numbers with low ≤ high"
        )
    if not np.isfinite(low).any() and not np.isfinite(high).any():
        return None
    return Bounds(low, high)


def _limits(
    side: str, limit: Limit | str, default: float, n_features: int, names: Sequence[str] | None
) -> Vector:
    if limit is None:
        return np.full(n_features, default)
    limit = _by_label(limit)
    if isinstance(limit, Mapping):
        return _limits_by_name(side, limit, default, n_features, names)
    values = np.atleast_1d(np.asarray(limit, dtype=object)).ravel()
    if not all(one is None or isinstance(one, Real) for one in values):
        raise DataError(f"bounds: {side} is {str(limit)[:60]!r}; expected numbers")
    limits = np.array([default if one is None else one for one in values], np.float64)
    if np.ndim(limit) == 0:
        return np.full(n_features, limits[0])
    if limits.shape != (n_features,):
        raise DataError(
            f"bounds: {side} has shape {np.shape(limit)}; expected one number for each of the "
            f"{n_features} features"
        )
    return limits


def _by_label(limit: Any) -> Any:
    """Return a labelled series, such as one of pandas, as a dict by feature name."""
    labels = getattr(limit, "index", None)
    if not hasattr(limit, "to_dict") or labels is None:
        return limit
    return limit.to_dict() if all(isinstance(label, str) for label in labels) else limit


def _limits_by_name(
    side: str,
    limit: Mapping[str, float],
    default: float,
    n_features: int,
    names: Sequence[str] | None,
) -> Vector:
    if names is None:
        raise DataError(
            f"bounds: {side} is given by feature name, but the features have no names. Give an "
            "array with one number per feature, or fit on data with column names."
        )
    place = {name: number for number, name in enumerate(names)}
    limits = np.full(n_features, default)
    for name, value in limit.items():
        if name not in place:
            raise DataError(
                f"bounds: {side} names {name!r}, which is not a feature of the data. The first "
                f"feature is {names[0]!r}."
            )
        if value is not None and not isinstance(value, Real):
            raise DataError(f"bounds: {side} of {name!r} is {value!r}; expected a number or None")
        limits[place[name]] = default if value is None else value
    return limits


def describe_bounds(bounds: BoundsLike) -> Any:
    """Return bounds as plain data, for model files: infinite limits are None.

    Examples
    --------
    >>> describe_bounds(([0.0, -np.inf], {"age": 1}))
    [[0.0, None], {'age': 1}]
    """
    if bounds is None or isinstance(bounds, str):
        return bounds
    return [_plain_limit(limit) for limit in bounds]


def _plain_limit(limit: Any) -> Any:
    limit = _by_label(limit)
    if isinstance(limit, Mapping):
        return {str(name): _plain_limit(one) for name, one in limit.items()}
    if np.ndim(limit):
        return [_plain_limit(one) for one in np.asarray(limit).tolist()]
    return None if limit is None or not np.isfinite(limit) else limit


# --------------------------------------------------------------------------------------------------
# The base classes of penalties.


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
        Limits of the weights; see `linrank.penalties.penalty.make_bounds`.

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

    def with_units(self, factor: Vector) -> Self:
        """Return the penalty of the weights divided by positive factors; costs stay as they are."""
        bounds = self.limits
        if bounds is None:
            return self
        low, high = bounds.low / factor, bounds.high / factor
        # Rounding must not carry the product of a weight and its factor beyond a bound.
        low = np.where(low * factor < bounds.low, np.nextafter(low, np.inf), low)
        high = np.where(high * factor > bounds.high, np.nextafter(high, -np.inf), high)
        return replace(self, bounds=Bounds(np.minimum(low, high), high))

    def with_companions(self, features: Integers, n_signed: int = 0) -> Self:
        """Return the penalty with one more feature for each of the given ones, at the end.

        A companion has the cost of its feature. The first `n_signed` of them have 0 as a bound if
        the bounds of their feature allow one sign only. Others have no bounds.
        """
        bounds = self.limits
        if bounds is not None:
            signed = np.arange(len(features)) < n_signed
            low = np.where(signed & (bounds.low[features] >= 0.0), 0.0, -np.inf)
            high = np.where(signed & (bounds.high[features] <= 0.0), 0.0, np.inf)
            bounds = Bounds(np.append(bounds.low, low), np.append(bounds.high, high))
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
    def best_dual(self, linear: float, quadratic: float, gradient: Vector, end: float) -> float:
        """Return the largest ``linear·s − quadratic·s² − Ω*(−s·gradient)`` for 0 ≤ s ≤ end.

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

    def best_dual(self, linear: float, quadratic: float, gradient: Vector, end: float) -> float:
        """Return the largest ``linear·s − quadratic·s² − Ω*(−s·gradient)`` for 0 ≤ s ≤ end.

        The derivative in s is ``linear − 2·quadratic·s + Σ_j gradient_j·v_j(s)``, where v_j is the
        weight at which Ω*_j is attained. The weight v_j moves from a_j, the weight nearest to 0, to
        b_j, the bound against the gradient. With an l2 part it moves linearly between two knots,
        and otherwise it jumps. The derivative is therefore piecewise linear and decreasing. Where
        v_j would jump to an infinite b_j, the range of s ends.
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
        slope_at_start = linear + (float(a @ gradient) if a.any() else 0.0)
        s = _root_of_falling(slope_at_start, 2.0 * quadratic, *knots, end)
        if not len(moving) and not a.any():
            return s * (linear - quadratic * s)
        u, v = -s * gradient, a.copy()
        jumps, curved = moving[l2[moving] == 0], moving[l2[moving] > 0]
        v[jumps] = np.where(leaves[jumps] < s, b[jumps], a[jumps])
        v[curved] = np.sign(u[curved]) * np.maximum(np.abs(u) - l1, 0.0)[curved] / l2[curved]
        v = np.clip(v, np.minimum(a, b), np.maximum(a, b))
        conjugate = float(np.sum(u * v - np.abs(v) * (l1 + 0.5 * l2 * np.abs(v))))
        return s * (linear - quadratic * s) - conjugate

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
    jumps, curved = l2 == 0, l2 > 0
    stops = curved & np.isfinite(b)
    leaves = (l1 + l2 * np.abs(a)) / steep
    pull, arrives = steep[curved] ** 2 / l2[curved], (l1 + l2 * np.abs(b))[stops] / steep[stops]
    stopped = steep[stops] ** 2 / l2[stops]
    knots = np.concatenate([leaves[jumps], leaves[curved], arrives])
    lifts = [-steep[jumps] * np.abs(b - a)[jumps], pull * leaves[curved], -stopped * arrives]
    slopes = [np.zeros(np.count_nonzero(jumps)), pull, -stopped]
    return knots, np.concatenate(lifts), np.concatenate(slopes)


def _root_of_falling(
    intercept: float, slope: float, knots: Vector, lifts: Vector, slopes: Vector, end: float
) -> float:
    """Return the root of a decreasing, piecewise linear function, within 0 ≤ s ≤ end.

    Before the first knot the function is ``intercept − slope·s``. A knot k adds
    ``lifts[k] − slopes[k]·s``.

    Examples
    --------
    >>> one = np.ones(1)
    >>> _root_of_falling(3.0, 1.0, one, -one, 0 * one, np.inf)  # 3 − s up to 1, then 2 − s
    2.0
    """
    if not len(knots):
        return min(end, max(0.0, intercept / slope)) if slope > 0 else min(end, 1.0)
    order = np.argsort(knots)
    knots = knots[order]
    intercepts = intercept + np.concatenate([[0.0], np.cumsum(lifts[order])])
    slopes = slope + np.concatenate([[0.0], np.cumsum(slopes[order])])
    passed = int(np.count_nonzero(intercepts[:-1] > slopes[:-1] * knots))
    if not slopes[passed] > 0:
        return min(end, 1.0)
    first = knots[passed - 1] if passed else 0.0
    return float(min(end, max(first, intercepts[passed] / slopes[passed])))


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


# --------------------------------------------------------------------------------------------------
# Penalties by name.


#: The class of each penalty by its name, such as ``PENALTIES["l1"]``.
PENALTIES: Mapping[str, type[Penalty]] = ClassesByName(__package__, CLASSES)


def make_penalty(
    name: PenaltyName | Penalty,
    shape: float | None = None,
    weights: ArrayLike | None = None,
    bounds: BoundsLike = None,
) -> Penalty:
    """Return the penalty of a name, or the given penalty with the bounds added.

    Parameters
    ----------
    name : str or Penalty
    shape : float, optional
        The parameter of the penalty: ρ of elastic_net, γ of mcp, a of scad, ε of log, p of lp, ρ of
        group_l1. The defaults are 0.5, 2, 3.7, 0.1, 0.5 and 0. l2, l1 and none have no parameter.
    weights : array of shape (n_features,), optional
        The cost of each feature.
    bounds : None, "positive" or (low, high)
        Limits of the weights; see `linrank.penalties.Bounds`.

    Returns
    -------
    Penalty

    Examples
    --------
    >>> make_penalty("log", 0.5)
    Log(weights=None, bounds=None, epsilon=0.5)
    """
    if isinstance(bounds, tuple) and all(limit is None for limit in bounds):
        bounds = None
    if isinstance(name, Penalty):
        if shape is not None or weights is not None:
            raise DataError(
                "shape and feature_cost need a penalty that is given by name, but penalty is "
                f"{name!r}. Pass them to its constructor."
            )
        if bounds is None:
            return name
        if name.bounds is not None:
            raise DataError(
                "bounds are given twice: by bounds= and by the penalty. Use bounds=None."
            )
        return replace(name, bounds=bounds)
    choice("penalty", name, CLASSES, "or a Penalty")
    kind = PENALTIES[name]
    if shape is None:
        return kind(weights, bounds=bounds)
    if kind.parameter is None:
        raise DataError(
            f"penalty={name!r} has no parameter, but shape is {shape!r}. Use shape=None."
        )
    return kind(weights, bounds=bounds, **{kind.parameter: shape})
