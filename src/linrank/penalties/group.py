"""The group lasso and the sparse group lasso, which select groups of features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from .._lazy import lazy_property
from .._typing import Integers, Mask, Vector
from ..errors import DataError
from .base import check_parameter
from .norms import NormPenalty


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

    def with_companions(self, features: Integers) -> Self:
        """Return the penalty with one more feature for each of the given ones, in its group."""
        groups = np.append(self.groups, self.groups[features])
        sizes = np.append(self.sizes, self.sizes[features])
        return replace(super().with_companions(features), groups=groups, sizes=sizes)

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
