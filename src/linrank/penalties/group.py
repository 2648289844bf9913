"""Penalties of groups of features: the group lasso, the sparse group lasso, and sums of both."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from .._util.lazy import lazy_property
from .._util.types import Integers, Mask, Vector
from ..errors import DataError
from .penalty import Kind, Penalty, check_parameter

# --------------------------------------------------------------------------------------------------
# `NormPenalty`: the base class of the penalties with norms of groups of features.


REACH_STEPS = 100  #: most Newton steps for the scale at which groups enter; they need about 5
REACH_ACCURACY = 1e-14  #: relative accuracy of that scale


@dataclass(frozen=True, eq=False)
class NormPenalty(Penalty):
    """``Ω(w) = Σ_G c_G·‖w_G‖ + Σ_j (l1_j·|w_j| + ½·l2_j·w_j²)``, with groups G of features.

    Subclasses give l1 and l2 as `parts`, and the costs c as `norm_part`. `groups` has the number of
    each feature's group. The l2 part is the same for all features of a group that has a cost. Each
    bound must be 0 or infinite, so that a weight has a given sign or is free.
    """

    groups: Any = field(default=None, kw_only=True)
    kind: ClassVar[Kind] = "group"

    @abstractmethod
    def norm_part(self) -> tuple[Vector, Integers]:
        """Return the cost of ‖w_G‖, repeated for each feature of G, and the group of each."""

    @property
    def costs(self) -> Vector:
        """The cost of ‖w_G‖, repeated for each feature of G."""
        return self.norm_part()[0]

    @lazy_property
    def first(self) -> Integers:
        """The first feature of each group."""
        return np.unique(self.groups, return_index=True)[1]

    @property
    def starts_at_zero(self) -> bool:
        """Whether all weights are 0 for small C: every feature has an l1 part or a norm."""
        return bool((self.parts()[0] + self.costs > 0).all())

    def check_bounds(self) -> None:
        """Raise a `DataError` for bounds other than 0 and infinity."""
        for side in self.limits or ():
            bad = np.flatnonzero((side != 0) & np.isfinite(side))
            if len(bad):
                raise DataError(
                    f"penalty={self.name!r} has a bound of {side[bad[0]]:g} for feature {bad[0]}. "
                    "Use bounds of 0 or none, such as bounds='positive'."
                )

    def value(self, w: Vector) -> float:
        """Return Ω(w)."""
        l1, l2 = self.parts()
        norms = np.sqrt(np.bincount(self.groups, w**2))
        return float(self.costs[self.first] @ norms + l1 @ np.abs(w) + 0.5 * l2 @ w**2)

    def prox(self, z: Vector, step: float) -> Vector:
        """Return ``argmin_w ½‖w − z‖² + step·Ω(w)`` within the bounds.

        Each weight is shrunk by step·l1 and moved into its bounds. Then the norm of each group is
        shortened by step·c_G, and the weights are divided by 1 + step·l2.
        """
        l1, l2 = self.parts()
        inner = self._inward(z, step * l1)
        return inner * self._left(inner, step * self.costs) / (1.0 + step * l2)

    def distance(self, w: Vector, gradient: Vector) -> Vector:
        """Return the distance of −gradient to the subdifferential of Ω at w, by feature."""
        l1, l2 = self.parts()
        norms = self._norms(w)
        used = norms > 0
        slope = gradient + (l2 + self.costs / np.where(used, norms, 1.0)) * w
        inward = self._inward(-slope, l1)
        inward = np.where(used, inward, inward * self._left(inward, self.costs))
        return np.where(w != 0, np.abs(slope + l1 * np.sign(w)), np.abs(inward))

    def slack(self, gradient: Vector) -> Vector:
        """Return the decrease of ‖w_G‖ costs at which a group without weights gets some."""
        return self.costs - self._norms(self._inward(-gradient, self.parts()[0]))

    def entry_C(self, gradient: Vector) -> float:
        """Return the smallest C at which a group with a cost gets weights, given ∇L at w = 0."""
        reach = self._reach(gradient)
        return float(np.min(reach[self.parts()[0] + self.costs > 0], initial=np.inf))

    def best_dual(self, linear: float, quadratic: float, gradient: Vector, end: float) -> float:
        """Return the largest ``linear·s − quadratic·s² − Ω*(−s·gradient)`` for 0 ≤ s ≤ end.

        Let p_G(s) be the norm of −s·gradient in the group G after it is shrunk by l1 and moved into
        the bounds. The conjugate is the sum of (p_G − c_G)₊²/(2·l2). Without an l2 part it
        is 0 or infinite, so that it limits s. The derivative in s is decreasing. The value is a
        lower bound of the largest one if its root is not exact.
        """
        l1, l2 = self.parts()
        wall = np.min(self._reach(gradient)[l2 == 0], initial=np.inf)
        top = min(end, float(wall), 0.5 * linear / quadratic if quadratic > 0 else np.inf)
        top = 0.0 if linear <= 0 else top if np.isfinite(top) else 1.0

        def beyond(s: float) -> Vector:
            inward = self._inward(-s * gradient, l1)
            return np.where(l2 > 0, inward * self._left(inward, self.costs), 0.0)

        def slope(s: float) -> float:
            pull = np.divide(beyond(s) * gradient, l2, out=np.zeros_like(l2), where=l2 > 0)
            return linear - 2.0 * quadratic * s + float(pull.sum())

        s = top
        if top > 0 > slope(top):
            from scipy.optimize import brentq  # takes long to import

            s = brentq(slope, 0.0, top)
        excess = np.divide(beyond(s) ** 2, l2, out=np.zeros_like(l2), where=l2 > 0)
        return s * (linear - quadratic * s) - 0.5 * float(excess.sum())

    def _reach(self, gradient: Vector) -> Vector:
        """Return, by feature, the largest s with p_G(s) ≤ c_G; see `best_dual`.

        p_G is convex with p_G(0) = 0. Newton's method therefore descends from the right to the
        root, and s·β/p_G(s) is never above the root. The latter is returned.
        """
        l1, costs = self.parts()[0], self.costs
        steep = np.abs(self._inward(-gradient, np.zeros_like(gradient)))
        largest = np.zeros(len(gradient))
        np.maximum.at(largest, self.groups, steep)
        largest = largest[self.groups]
        with np.errstate(divide="ignore", invalid="ignore"):
            safe = np.where(largest > 0, l1 / largest, np.inf)  # p_G is 0 up to here
            s = np.where(largest > 0, (l1 + costs) / largest, np.inf)
        for _ in range(REACH_STEPS):
            inward = np.maximum(np.where(largest > 0, s, 0.0) * steep - l1, 0.0)
            p = self._norms(inward)
            half_slope = np.bincount(self.groups, inward * steep)[self.groups]  # of p²
            with np.errstate(divide="ignore", invalid="ignore"):
                found = np.where(p > costs, s * costs / p, s)
                s = np.where(p > costs, s - (p - costs) * p / half_slope, s)
            if (found >= (1.0 - REACH_ACCURACY) * s).all():
                break
        return np.maximum(safe, found)

    def _inward(self, z: Vector, shrinkage: Vector) -> Vector:
        """Return z shrunk towards 0, and moved into the bounds."""
        return self.clip(np.sign(z) * np.maximum(np.abs(z) - shrinkage, 0.0))

    def _left(self, z: Vector, cut: Vector) -> Vector:
        """Return the part of each group's norm that is left if it is shortened by `cut`."""
        norms = self._norms(z)
        lost = np.divide(cut, norms, out=np.ones_like(norms), where=norms > cut)
        return 1.0 - lost

    def _norms(self, w: Vector) -> Vector:
        """Return the norm of each feature's group."""
        return np.sqrt(np.bincount(self.groups, w**2))[self.groups]


# --------------------------------------------------------------------------------------------------
# The group lasso and the sparse group lasso, which select groups of features.


@dataclass(frozen=True, eq=False)
class GroupL1(NormPenalty):
    """The group lasso (Yuan & Lin 2006), with optional l1 and l2 parts.

    With n_G features in group G, the penalty is

        Ω(w) = Σ_G β_G·((1 − ρ)·‖w_G‖ + (ρ·‖w_G‖₁ + ½·ridge·‖w_G‖²)/√n_G).

    The default costs are β_G = √n_G. With them, Ω is Σ_G (1 − ρ)·√n_G·‖w_G‖ + ρ·‖w‖₁ +
    ½·ridge·‖w‖², which is the sparse group lasso of Simon et al. 2013 (eq. 3) plus a ridge. With
    ρ = 0, the weights of a group are all 0, or none of them is. With ρ > 0, groups in use may have
    weights of 0.

    Each bound must be 0 or infinite, so that a weight has a given sign or is free.

    Parameters
    ----------
    weights : float or array of shape (n_features,), optional
        β_G: the cost of each group, repeated for each of its features.
    groups : array of shape (n_features,), optional
        The group of each feature: numbers or names. By default, each feature is a group of its own.
    ratio : float
        ρ, from 0 to 1. With ρ = 1, there is no group part.
    ridge : float
        The l2 part, at least 0.
    sizes : array of shape (n_features,), optional
        n_G, repeated for each feature of the group. By default, the features are counted.
    bounds
        See `Penalty`.

    Examples
    --------
    >>> penalty = GroupL1(groups=["text", "text", "click"]).for_features(3)
    >>> penalty.prox(np.array([3.0, 4.0, 0.5]), 1.0).round(4).tolist()
    [2.1515, 2.8686, 0.0]
    >>> sparse = GroupL1(groups=["text", "text", "click"], ratio=0.5).for_features(3)
    >>> sparse.prox(np.array([3.0, 0.4, 2.0]), 1.0).round(4).tolist()
    [1.7929, 0.0, 1.0]
    """

    ratio: float = field(default=0.0, kw_only=True)
    ridge: float = field(default=0.0, kw_only=True)
    sizes: Any = field(default=None, kw_only=True, repr=False)
    name: ClassVar[str] = "group_l1"
    parameter: ClassVar[str | None] = "ratio"

    def __post_init__(self) -> None:
        check_parameter("ratio", self.ratio, 0.0, np.nextafter(1.0, 2.0), with_low=True)
        check_parameter("ridge", self.ridge, 0.0, with_low=True)

    def for_features(self, n_features: int, names: Sequence[str] | None = None) -> Self:
        """Return the penalty with its groups, costs and bounds checked, as arrays."""
        group, counts = self._numbered(n_features)
        sizes = counts[group] if self.sizes is None else self.sizes
        weights = np.sqrt(sizes) if self.weights is None else self.weights
        filled = replace(self, weights=weights, groups=group, sizes=sizes)
        filled = super(GroupL1, filled).for_features(n_features, names)
        if (filled.weights != filled.weights[filled.first][group]).any():
            raise DataError(
                "weights has different costs for features of one group. Use one cost per group."
            )
        filled.check_bounds()
        return filled

    def _numbered(self, n_features: int) -> tuple[Integers, Integers]:
        """Return the number of each feature's group, and the sizes of the groups."""
        try:
            groups = np.asarray(np.arange(n_features) if self.groups is None else self.groups)
            _, group, counts = np.unique(groups, return_inverse=True, return_counts=True)
        except (TypeError, ValueError):
            groups = np.empty(0)
        if groups.shape != (n_features,):
            raise DataError(
                f"groups is {str(self.groups)[:60]}; expected one group for each of the "
                f"{n_features} features, such as GroupL1(groups=['text', 'text', 'click'])"
            )
        return group, counts

    def for_some(self, features: Integers | Mask) -> Self:
        """Return the penalty of some of the features, given as a mask or as numbers."""
        _, groups = np.unique(self.groups[features], return_inverse=True)
        return replace(super().for_some(features), groups=groups, sizes=self.sizes[features])

    def with_companions(self, features: Integers, n_signed: int = 0) -> Self:
        """Return the penalty with one more feature for each of the given ones, in its group."""
        groups = np.append(self.groups, self.groups[features])
        sizes = np.append(self.sizes, self.sizes[features])
        return replace(super().with_companions(features, n_signed), groups=groups, sizes=sizes)

    def describe(self) -> dict[str, Any]:
        """Return the name and the parameters as plain data, for model files."""
        groups = None if self.groups is None else np.asarray(self.groups).tolist()
        return super().describe() | {"groups": groups, "ridge": self.ridge}

    @lazy_property
    def _parts(self) -> tuple[Vector, Vector]:
        unit = self.weights / np.sqrt(self.sizes)
        return self.ratio * unit, self.ridge * unit

    @lazy_property
    def _costs(self) -> Vector:
        return (1.0 - self.ratio) * self.weights

    def parts(self) -> tuple[Vector, Vector]:
        """Return l1 and l2 of ``Σ_j l1_j·|w_j| + ½·l2_j·w_j²``, the parts without norms."""
        return self._parts

    def norm_part(self) -> tuple[Vector, Integers]:
        """Return the cost of ‖w_G‖, repeated for each feature of G, and the group of each."""
        return self._costs, self.groups


# --------------------------------------------------------------------------------------------------
# `Mixed`: different penalties for different features, in one form that solvers read.


@dataclass(frozen=True, eq=False)
class Mixed(NormPenalty):
    """The sum of convex penalties of different features, made by `with_groups`.

    Groups may have norms that cost in proportion to C, as the loss does. Such a group has weights
    only if the gradient of the loss is longer than its threshold, whatever C is.

    Parameters
    ----------
    l1, l2, norm, groups : arrays of shape (n_features,)
        See `NormPenalty`.
    thresholds : array of shape (n_features,)
        The cost of ‖w_G‖ divided by C, in addition to `norm`.
    strength : float
        C, which `at` sets.
    """

    l1: Any = field(kw_only=True)
    l2: Any = field(kw_only=True)
    norm: Any = field(kw_only=True)
    thresholds: Any = field(kw_only=True)
    strength: float = field(default=1.0, kw_only=True)
    name: ClassVar[str] = "mixed"

    @property
    def starts_at_zero(self) -> bool:
        """Whether all features without a threshold have the weight 0 for small C."""
        return bool(((self.l1 + self.norm > 0) | (self.thresholds > 0)).all())

    def at(self, C: float) -> Self:
        """Return the penalty for a C."""
        return replace(self, strength=C)

    def for_features(self, n_features: int, names: Sequence[str] | None = None) -> Self:
        """Return the penalty with its bounds as arrays."""
        filled = super().for_features(n_features, names)
        filled.check_bounds()
        return filled

    def for_some(self, features: Integers | Mask) -> Self:
        """Return the penalty of some of the features, given as a mask or as numbers."""
        parts = {name: getattr(self, name)[features] for name in ("l1", "l2", "norm", "thresholds")}
        _, groups = np.unique(self.groups[features], return_inverse=True)
        return replace(super().for_some(features), groups=groups, **parts)

    def parts(self) -> tuple[Vector, Vector]:
        """Return l1 and l2."""
        return self.l1, self.l2

    @lazy_property
    def _costs(self) -> Vector:
        return self.norm + self.strength * self.thresholds

    def norm_part(self) -> tuple[Vector, Integers]:
        """Return the cost of ‖w_G‖, repeated for each feature of G, and the group of each."""
        return self._costs, self.groups

    def entry_C(self, gradient: Vector) -> float:
        """Return the smallest C at which a group without a threshold gets weights."""
        free = np.where(self.thresholds > 0, 0.0, gradient)
        return super().entry_C(free)


def with_groups(penalty: Penalty, groups: Integers, thresholds: Vector, l2: float) -> Mixed:
    """Return a penalty with more features after its own, in groups that have thresholds.

    Parameters
    ----------
    penalty : Penalty
        A convex penalty that `Penalty.for_features` has returned.
    groups : array of shape (n_more,)
        The group of each of the features that are added, as a number.
    thresholds : array of shape (n_more,)
        See `Mixed`.
    l2 : float
        The l2 part of the features that are added.

    Examples
    --------
    >>> from linrank.penalties import L2
    >>> both = with_groups(L2().for_features(1), np.array([0, 0]), np.full(2, 0.5), l2=0.0)
    >>> both.at(2.0).for_features(3).prox(np.array([1.0, 3.0, 4.0]), 1.0).round(4).tolist()
    [0.5, 2.4, 3.2]
    """
    n, m = len(penalty.weights), len(groups)
    l1_part, l2_part = (
        np.append(part, np.full(m, more))
        for part, more in zip(penalty.parts(), (0.0, l2), strict=True)
    )
    norm, own = penalty.norm_part() or (np.zeros(n), np.arange(n))
    limits, free = penalty.limits, np.full(m, np.inf)
    return Mixed(
        np.append(penalty.weights, np.ones(m)),
        bounds=limits and (np.append(limits.low, -free), np.append(limits.high, free)),
        groups=np.unique(np.append(own, n + groups), return_inverse=True)[1],
        l1=l1_part,
        l2=l2_part,
        norm=np.append(norm, np.zeros(m)),
        thresholds=np.append(np.zeros(n), thresholds),
    )
