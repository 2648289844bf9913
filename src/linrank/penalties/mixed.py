"""`Mixed`: different penalties for different features, in one form that solvers read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from .._lazy import lazy_property
from .._typing import Integers, Mask, Vector
from .base import Penalty
from .norms import NormPenalty


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
