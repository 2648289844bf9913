"""Values of C to try: the grids, and how they follow the data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .criterion import Criterion, mean_of_folds
from .engines.base import Engine
from .errors import DataError
from .path import C_GRID, sparse_grid
from .problem import Objective, SparseProblem

Vector = NDArray[np.float64]
Edge = Literal["smallest", "largest"]
Measure = Callable[[Vector], tuple[Vector, bool]]

FLAT = 1e-3  #: C‖∇L(0)‖²/L(0) below which a smaller C does not change the ranking
LARGEST_START = 2.0**-5  #: the default grid starts no higher, unless all of it would be flat
ROOM = 2.0**20  #: factor by which a grid can be extended above its largest C
LEAST_MORE = 5  #: fewest values that an extension adds


@dataclass(frozen=True)
class Grid:
    """Values of C in increasing order, with the limits up to which they may be extended.

    Attributes
    ----------
    Cs : float64 array
    lowest, highest : float
        The grid is not extended from an end that lies beyond these limits. By default it is not
        extended at all.
    """

    Cs: Vector
    lowest: float = np.inf
    highest: float = 0.0

    def beyond(self, Cs: Vector, best: int) -> Vector | None:
        """The values that follow the end of `Cs` at which the best one lies, if there are any.

        Examples
        --------
        >>> grid = Grid(2.0 ** np.arange(6), lowest=0.25)
        >>> grid.beyond(grid.Cs, best=0).tolist()
        [0.03125, 0.0625, 0.125, 0.25, 0.5]
        >>> grid.beyond(grid.Cs, best=5) is None
        True
        """
        steps = np.arange(1, max(LEAST_MORE, len(self.Cs) // 5) + 1)
        if best == 0 and Cs[0] > self.lowest:
            return Cs[0] / (Cs[1] / Cs[0]) ** steps[::-1]
        if best == len(Cs) - 1 and Cs[-1] < self.highest:
            return Cs[-1] * (Cs[-1] / Cs[-2]) ** steps
        return None


class Search(NamedTuple):
    """What was measured for a grid of C.

    ``values`` has a row for each C and a column for each held-out part. ``edge`` says at which end
    of the grid the best C lies, unless values beyond that end were found to be no better.
    """

    Cs: Vector
    values: Vector
    edge: Edge | None


def as_grid(Cs: Sequence[float] | Vector | Grid) -> Grid:
    """A grid of the given values, in increasing order; it is not extended."""
    if isinstance(Cs, Grid):
        return Cs
    values = np.unique(np.asarray(Cs, dtype=np.float64))
    if not len(values):
        raise DataError("Cs is empty; give at least one C")
    return Grid(values)


def default_grid(problem: Objective) -> Grid:
    """The grid for a problem: 2^-15 … 2^10 with the penalty ½‖w‖² (Lee & Lin 2014, §4.4).

    It can be extended at both ends. It starts at a larger C where the ranking is the same for
    most of these values: as long as C‖∇L(0)‖² ≪ L(0), the penalty outweighs the loss and
    w ≈ −C∇L(0). The grid of a sparse problem starts where the first feature is selected.
    """
    if isinstance(problem, SparseProblem):
        Cs = sparse_grid(problem)
        return Grid(Cs, highest=ROOM * Cs[-1])
    flat, Cs = _largest_flat_C(problem.engine), np.array(C_GRID)
    if LARGEST_START < flat < np.inf:
        Cs = Cs * 2.0 ** np.floor(np.log2(flat / Cs[0]))
    return Grid(Cs, lowest=flat, highest=ROOM * Cs[-1])


def _largest_flat_C(engine: Engine) -> float:
    """The C up to which w ≈ −C∇L(0); infinite where the gradient is 0."""
    loss, slope = engine.at_zero
    return FLAT * loss / slope**2 if slope > 0 else np.inf


def search(grid: Grid, criterion: Criterion, measure: Measure) -> Search:
    """Measure the values of a grid, and extend it while the best one is at an end.

    Parameters
    ----------
    grid : Grid
    criterion : Criterion
    measure : callable
        Takes values of C, and returns a row of values for each and whether Ctrl-C cut it short;
        then there may be fewer rows.
    """
    values, interrupted = measure(grid.Cs)
    Cs = grid.Cs[: len(values)]
    while not interrupted:
        means = mean_of_folds(values)
        best = criterion.best(means)
        more = grid.beyond(Cs, best)
        if more is None:
            return Search(Cs, values, _edge(Cs, best))
        found, interrupted = measure(more)
        if not criterion.improves(mean_of_folds(found), means[best]):
            break
        order = np.argsort(np.concatenate([Cs, more[: len(found)]]))
        Cs = np.concatenate([Cs, more[: len(found)]])[order]
        values = np.concatenate([values, found])[order]
    return Search(Cs, values, None)


def _edge(Cs: Vector, best: int) -> Edge | None:
    if len(Cs) < 3:  # every value is at an end
        return None
    return {0: "smallest", len(Cs) - 1: "largest"}.get(best)  # type: ignore[return-value]
