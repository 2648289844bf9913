"""The group lasso, which selects groups of features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from .._typing import Integers, Mask, Vector
from ..errors import DataError
from .base import Kind, Penalty


@dataclass(frozen=True, eq=False)
class GroupL1(Penalty):
    """The group lasso, ``Ω(w) = Σ_G β_G·‖w_G‖`` (Yuan & Lin 2006).

    The weights of a group G are all 0, or none of them is.

    Parameters
    ----------
    groups : array of shape (n_features,)
        The group of each feature: numbers or names.
    weights : float or array of shape (n_features,), optional
        β_G: the cost of each group, repeated for each of its features. The default is the square
        root of the number of features of the group.

    Examples
    --------
    >>> penalty = GroupL1(groups=["text", "text", "click"]).for_features(3)
    >>> penalty.prox(np.array([3.0, 4.0, 0.5]), 1.0).round(4).tolist()
    [2.1515, 2.8686, 0.0]
    """

    groups: Any = field(default=None, kw_only=True)
    name: ClassVar[str] = "group_l1"
    kind: ClassVar[Kind] = "group"
    takes_bounds: ClassVar[bool] = False

    def for_features(self, n_features: int, names: Sequence[str] | None = None) -> Self:
        """Return the penalty with its groups, costs and bounds checked, as arrays."""
        try:
            groups = np.asarray(self.groups)
            _, group, sizes = np.unique(groups, return_inverse=True, return_counts=True)
        except (TypeError, ValueError):
            groups = np.empty(0)
        if groups.shape != (n_features,):
            raise DataError(
                f"groups is {str(self.groups)[:60]}; expected one group for each of the "
                f"{n_features} features, such as GroupL1(groups=['text', 'text', 'click'])"
            )
        weights = np.sqrt(sizes)[group] if self.weights is None else self.weights
        filled = super(GroupL1, replace(self, weights=weights, groups=group)).for_features(
            n_features, names
        )
        if (filled.weights != filled.weights[filled._first(group)][group]).any():
            raise DataError(
                "weights has different costs for features of one group. Use one cost per group."
            )
        return filled

    def with_companions(self, features: Integers) -> Self:
        """Return the penalty with one more feature for each of the given ones, in its group."""
        groups = np.append(self.groups, self.groups[features])
        return replace(super().with_companions(features), groups=groups)

    def value(self, w: Vector) -> float:
        """Return Ω(w)."""
        return float(self._costs() @ self._norms(w))

    def prox(self, z: Vector, step: float) -> Vector:
        """Return ``argmin_w ½‖w − z‖² + step·Ω(w)``: each group is shortened by step·β_G."""
        norms = self._norms(z)
        left = np.maximum(norms - step * self._costs(), 0.0)
        factor = np.divide(left, norms, out=np.zeros_like(norms), where=norms > 0)
        return z * factor[self.groups]

    def distance(self, w: Vector, gradient: Vector) -> Vector:
        """Return the distance of −gradient to the subdifferential of Ω at w, by feature."""
        norms, pulls, costs = self._norms(w), self._norms(gradient), self._costs()
        excess = np.maximum(0.0, pulls - costs)
        part = np.divide(excess, pulls, out=np.zeros_like(pulls), where=pulls > 0)
        unit = w / np.where(norms > 0, norms, 1.0)[self.groups]
        used = (norms > 0)[self.groups]
        return np.where(
            used, np.abs(gradient + self.weights * unit), np.abs(gradient) * part[self.groups]
        )

    def entry_C(self, gradient: Vector) -> float:
        """Return ``min_G β_G / ‖∂L/∂w_G‖``, at which the first group gets weights."""
        pulls, costs = self._norms(gradient), self._costs()
        stays = (pulls == 0) | (costs == 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            return float(np.where(stays, np.inf, costs / pulls).min())

    def best_dual(self, rise: float, bend: float, gradient: Vector, end: float) -> float:
        """Return the largest ``rise·s − bend·s²`` for 0 ≤ s ≤ end with s·‖gradient_G‖ ≤ β_G."""
        pulls, costs = self._norms(gradient), self._costs()
        walls = costs[pulls > 0] / pulls[pulls > 0]
        end = min(end, float(np.min(walls, initial=np.inf)))
        s = min(end, max(0.0, 0.5 * rise / bend)) if bend > 0 else min(end, 1.0)
        return s * (rise - bend * s)

    def describe(self) -> dict[str, Any]:
        """Return the name and the parameters as plain data, for model files."""
        return super().describe() | {"groups": np.asarray(self.groups).tolist()}

    def _norms(self, w: Vector) -> Vector:
        """Return ‖w_G‖ for each group."""
        return np.sqrt(np.bincount(self.groups, w**2))

    def _costs(self) -> Vector:
        """Return β_G for each group."""
        return self.weights[self._first(self.groups)]

    def _first(self, group: Integers) -> Integers:
        """Return the first feature of each group."""
        return np.unique(group, return_index=True)[1]

    def for_some(self, features: Integers | Mask) -> Self:
        """Return the penalty of some of the features, given as a mask or as numbers."""
        _, groups = np.unique(self.groups[features], return_inverse=True)
        return replace(self, weights=self.weights[features], groups=groups)
