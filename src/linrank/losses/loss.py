"""Base class of all losses: a name, a table of hinges, and a layout of the data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from .._util.types import Vector
from ..counting.plan import Layout, Wanted
from ..counting.preferences import Preferences
from ..data.ranking import RankingData
from ..errors import DataError
from .hinge_tables import Hinge


class Hinges(NamedTuple):
    """The table of a loss in the form that the kernels use.

    ``counts`` holds the factors of the sums of weights for value and gradient: Σ_m c T,
    Σ_m (a + 2cτ) N and Σ_m (a + cτ)τ T. ``values`` holds the factor of the sum Σ_m c S of weighted
    scores, or of the vector of a Hessian product. ``exact`` selects the logistic function itself.
    """

    tau: Vector
    a: Vector
    c: Vector
    counts: Wanted
    values: Wanted
    exact: bool


class Loss(ABC):
    """Base class of losses: functions of the scores within a query.

    Two losses are equal if their types, names and tables are equal.

    Parameters
    ----------
    name : str
    table : sequence of (τ, a, c)
        The hinges of a loss that is a sum of hinges over pairs.

    Examples
    --------
    >>> from linrank.losses import LOSSES, PairwiseLoss
    >>> LOSSES["squared_hinge"].smooth, LOSSES["hinge"].smooth
    (True, False)
    >>> PairwiseLoss("squared_hinge", [(1.0, 0.0, 1.0)]) == LOSSES["squared_hinge"]
    True
    """

    pairwise: ClassVar[bool] = True  #: whether the loss is a sum over pairs
    exact: ClassVar[bool] = False  #: whether the loss is pairwise, but has no table of hinges

    def __init__(self, name: str, table: Sequence[Hinge] = ()) -> None:
        if not isinstance(name, str) or not name:
            raise DataError(f"name is {name!r}; expected text, such as PairwiseLoss('mine', …)")
        self.name = name
        try:
            self.table: Vector = np.array(table, dtype=np.float64).reshape(-1, 3)
        except (TypeError, ValueError):
            raise DataError(
                f"the table of loss {name!r} is {table!r}; expected hinges (τ, a, c), such as "
                "[(1.0, 0.0, 1.0)]"
            ) from None
        self.table.setflags(write=False)

    @property
    def smooth(self) -> bool:
        """Whether the loss has a derivative everywhere."""
        return not self.table[:, 1].any()

    @property
    def squared(self) -> bool:
        """Whether the loss is c·max(0, τ − t)².

        Then ℓ*(−s·u) = s·ℓ*(−u) − s(1 − s)·ℓ at u = −ℓ'.
        """
        return len(self.table) == 1 and self.smooth

    @property
    def single(self) -> bool:
        """Whether the loss is one hinge, a·max(0, τ − t) or c·max(0, τ − t)²."""
        return len(self.table) == 1 and not self.table[0, 1:].all()

    def hinges(self, shift: float = 0.0) -> Hinges:
        """Return the table with `shift` added to every τ, in the form that the kernels use."""
        tau, a, c = self.table.T.copy()
        tau += shift
        counts = Wanted(
            np.array([c, a + 2 * c * tau, (a + c * tau) * tau]), np.array([1.0, -1.0, 1.0])
        )
        return Hinges(tau, a, c, counts, Wanted(c[None].copy(), np.ones(1)), self.exact)

    @abstractmethod
    def lay_out(
        self, data: RankingData, preferences: Preferences, counting: str, n_threads: int
    ) -> Layout:
        """Return the preferences of the data in the form that the kernels of the loss read."""

    def __eq__(self, other: object) -> bool:
        return (
            type(self) is type(other)
            and isinstance(other, Loss)
            and self.name == other.name
            and np.array_equal(self.table, other.table)
        )

    def __hash__(self) -> int:
        return hash((type(self), self.name, self.table.tobytes()))

    def __repr__(self) -> str:
        rows = [tuple(row) for row in self.table.tolist()]
        return f"{type(self).__name__}({self.name!r}, {rows})"
