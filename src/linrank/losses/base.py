"""What all losses share: a name, a table of hinges for the kernels, and a layout of the data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..counting.plan import Wanted
from ..counting.preferences import Preferences
from ..data.ranking import RankingData


class Hinges(NamedTuple):
    """The table of a loss in the form that the kernels use.

    ``counts`` are the sums of weights that value and gradient need: Σ_m c T, (a + 2cτ) N and
    (a + cτ)τ T. ``values`` is the one of weighted scores, or of the vector of a product: c S.
    ``exact`` asks for the logistic function itself, which no table holds.
    """

    tau: NDArray[np.float64]
    a: NDArray[np.float64]
    c: NDArray[np.float64]
    counts: Wanted
    values: Wanted
    exact: bool


class Loss:
    """A function of the scores within a query.

    Parameters
    ----------
    name : str
    table : sequence of (τ, a, c)
        Its hinges, if it is made of these.
    """

    pairwise = True  #: whether it is a sum over pairs
    exact = False  #: whether it is one of pairs that no table holds

    def __init__(self, name: str, table: Sequence[tuple[float, float, float]] = ()) -> None:
        self.name = name
        self.table = np.array(table, dtype=np.float64).reshape(-1, 3)

    @property
    def smooth(self) -> bool:
        """Whether it has a derivative everywhere."""
        return not self.table[:, 1].any()

    @property
    def squared(self) -> bool:
        """Whether it is c·max(0, τ − t)²: then ℓ*(−s·u) = s·ℓ*(−u) − s(1 − s)·ℓ at u = −ℓ'."""
        return len(self.table) == 1 and self.smooth

    def hinges(self, shift: float = 0.0) -> Hinges:
        """The loss with `shift` added to every τ, for kernels."""
        tau, a, c = self.table.T.copy()
        tau += shift
        counts = Wanted(
            np.array([c, a + 2 * c * tau, (a + c * tau) * tau]), np.array([1.0, -1.0, 1.0])
        )
        return Hinges(tau, a, c, counts, Wanted(c[None].copy(), np.ones(1)), self.exact)

    def lay_out(
        self, data: RankingData, preferences: Preferences, counting: str, n_threads: int
    ) -> Any:
        """What is compared with what, in the form that the kernels of the loss need."""
        raise NotImplementedError
