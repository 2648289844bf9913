"""`NormPenalty`: the base class of the penalties with norms of groups of features."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from .._lazy import lazy_property
from .._typing import Integers, Vector
from ..errors import DataError
from .base import Kind, Penalty

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

    def best_dual(self, rise: float, bend: float, gradient: Vector, end: float) -> float:
        """Return the largest ``rise·s − bend·s² − Ω*(−s·gradient)`` for 0 ≤ s ≤ end.

        Let p_G(s) be the norm of −s·gradient in the group G after it is shrunk by l1 and moved into
        the bounds. The conjugate is the sum of (p_G − c_G)₊²/(2·l2). Without an l2 part it
        is 0 or infinite, so that it limits s. The derivative in s is decreasing. The value is a
        lower bound of the largest one if its root is not exact.
        """
        l1, l2 = self.parts()
        wall = np.min(self._reach(gradient)[l2 == 0], initial=np.inf)
        top = min(end, float(wall), 0.5 * rise / bend if bend > 0 else np.inf)
        top = 0.0 if rise <= 0 else top if np.isfinite(top) else 1.0

        def beyond(s: float) -> Vector:
            inward = self._inward(-s * gradient, l1)
            return np.where(l2 > 0, inward * self._left(inward, self.costs), 0.0)

        def slope(s: float) -> float:
            pull = np.divide(beyond(s) * gradient, l2, out=np.zeros_like(l2), where=l2 > 0)
            return rise - 2.0 * bend * s + float(pull.sum())

        s = top
        if top > 0 > slope(top):
            from scipy.optimize import brentq  # takes long to import

            s = brentq(slope, 0.0, top)
        excess = np.divide(beyond(s) ** 2, l2, out=np.zeros_like(l2), where=l2 > 0)
        return s * (rise - bend * s) - 0.5 * float(excess.sum())

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
            rise = np.bincount(self.groups, inward * steep)[self.groups]
            with np.errstate(divide="ignore", invalid="ignore"):
                found = np.where(p > costs, s * costs / p, s)
                s = np.where(p > costs, s - (p - costs) * p / rise, s)
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
