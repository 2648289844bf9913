"""A convex penalty and its bounds as arrays, for some of the features."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._typing import Integers, Vector
from ..penalties.base import Penalty


class Terms(NamedTuple):
    """The penalty ``Σ l1|v| + ½ l2 v² + Σ_G norm_G·‖v_G‖`` of some features, with low ≤ v ≤ high.

    All arrays have one entry per feature. ``groups`` has the number of the feature's group, and
    ``norm`` repeats the cost of a group for each of its features. ``has_norms`` is False if the
    penalty is a sum over features; each feature is then a group of its own.
    """

    l1: Vector
    l2: Vector
    low: Vector
    high: Vector
    norm: Vector
    groups: Integers
    has_norms: bool

    def of(self, features: Integers) -> Terms:
        """Return the terms of some features. Their groups are numbered anew."""
        l1, l2, low, high, norm = (part[features] for part in self[:5])
        if not self.has_norms:
            return Terms(l1, l2, low, high, norm, np.arange(len(features)), False)
        groups = np.unique(self.groups[features], return_inverse=True)[1]
        return Terms(l1, l2, low, high, norm, groups, True)

    def blocks(self) -> tuple[Integers, Integers]:
        """Return the features in the order of their groups, and where each group begins."""
        if not self.has_norms:
            return self.groups, np.arange(len(self.groups) + 1)
        starts = np.append(0, np.cumsum(np.bincount(self.groups)))
        return np.argsort(self.groups, kind="stable"), starts

    def value(self, v: Vector) -> float:
        """Return the penalty of v."""
        total = float(self.l1 @ np.abs(v) + 0.5 * self.l2 @ v**2)
        if self.has_norms:
            total += float(self.norm @ (self.units(v) * v))
        return total

    def sums(self, values: Vector) -> Vector:
        """Return the sum of the values over each feature's group, by feature."""
        return np.asarray(np.bincount(self.groups, values), np.float64)[self.groups]

    def norms(self, v: Vector) -> Vector:
        """Return ‖v_G‖ of each feature's group, by feature; without norms, |v|."""
        return np.sqrt(self.sums(v**2)) if self.has_norms else np.abs(v)

    def units(self, v: Vector) -> Vector:
        """Return v_G/‖v_G‖ of each group, which is 0 for groups without weights."""
        norms = self.norms(v)
        return np.divide(v, norms, out=np.zeros_like(v), where=norms > 0)

    def whole_groups(self, some: Integers, features: Integers) -> Integers:
        """Return those of the features whose groups contain some features."""
        if not self.has_norms:
            return some
        return features[np.isin(self.groups[features], self.groups[some])]

    def sided_limits(self, signs: Vector) -> tuple[Vector, Vector]:
        """Return the bounds of weights that keep their sign; a weight with sign 0 stays 0.

        Weights without an l1 part may change their sign.
        """
        upper = np.where((signs <= 0) & (self.l1 > 0), np.minimum(self.high, 0.0), self.high)
        lower = np.where((signs >= 0) & (self.l1 > 0), np.maximum(self.low, 0.0), self.low)
        return lower, upper


def make_terms(penalty: Penalty, n_features: int) -> Terms:
    """Return the terms of all features. The norm of a group of one feature is an l1 part."""
    l1, l2 = penalty.parts()
    free = np.full(n_features, np.inf)
    low, high = penalty.limits or (-free, free)
    norm, groups = penalty.norm_part() or (np.zeros(n_features), np.arange(n_features))
    alone = np.bincount(groups, minlength=1)[groups] == 1
    l1, norm = l1 + np.where(alone, norm, 0.0), np.where(alone, 0.0, norm)
    has_norms = bool(norm.any())
    return Terms(l1, l2, low, high, norm, groups if has_norms else np.arange(n_features), has_norms)
