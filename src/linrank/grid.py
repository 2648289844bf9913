"""Grids of C that adapt to the data, and the search for the best C."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from ._typing import Vector
from .criterion import Criterion, mean_of_folds
from .engines.base import Engine
from .errors import DataError
from .losses.pairwise import SQUARED_HINGE
from .path import C_GRID, first_C, sparse_grid
from .problem import Problem

Edge = Literal["smallest", "largest"]  #: the end of the grid at which the best C lies
Measure = Callable[[Vector], tuple[Vector, bool]]  #: see `search`

FLAT_RATIO = 1e-3  #: C‖∇L(0)‖²/L(0) below which a smaller C does not change the ranking
LARGEST_START = 2.0**-5  #: largest C without effect on the ranking for which the grid stays
SMALLEST_START = 2.0**-25  #: smallest C with equal curvatures for which the grid stays
SAMPLED_FEATURES = 64  #: features whose curvature is estimated; more are slower and more exact
SAMPLED_ROWS = 5000  #: documents from which the curvature is estimated; more are slower
EXTENSION_FACTOR = 2.0**20  #: factor by which a grid can be extended above its largest C
LEAST_MORE = 5  #: smallest number of values that an extension adds


@dataclass(frozen=True)
class Grid:
    """Values of C in increasing order, with the limits of extensions.

    Attributes
    ----------
    Cs : float64 array
        The values.
    lowest, highest : float
        An end of the grid that lies beyond its limit is not extended. By default no end is
        extended.
    """

    Cs: Vector
    lowest: float = np.inf
    highest: float = 0.0

    def beyond(self, Cs: Vector, best: int) -> Vector | None:
        """Return values beyond the end of `Cs` at which the best C lies; None if not extended.

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
    """The values of the criterion for a grid of C.

    ``values`` has a row for each C and a column for each held-out part. ``edge`` is the end of the
    grid at which the best C lies, unless values beyond that end were tried and were no better.
    """

    Cs: Vector
    values: Vector
    edge: Edge | None


def as_grid(Cs: Sequence[float] | Vector | Grid) -> Grid:
    """Return a grid of the given values in increasing order; it is not extended."""
    if isinstance(Cs, Grid):
        return Cs
    try:
        values = np.unique(np.asarray(Cs, dtype=np.float64))
        sound = np.ndim(Cs) == 1 and bool((np.isfinite(values) & (values > 0)).all())
    except (TypeError, ValueError):
        sound = False
    if not sound:
        raise DataError(f"Cs is {Cs!r}; expected a list of finite numbers above 0")
    if not len(values):
        raise DataError("Cs is empty; expected at least one C")
    return Grid(values)


def default_grid(problem: Problem) -> Grid:
    """Return the default grid: 2^-15 … 2^10 for the penalty ½‖w‖² (Lee & Lin 2014, §4.4).

    In two cases the grid has the same number of values, but starts at another C:

    - If the ranking is the same for all C up to a number above 2^-5, the grid starts there.
    - If features are large, such as raw counts above 1e4, the grid starts at the C at which the
      penalty matters for the feature with the smallest scale. This C must be below 2^-25.

    The grid can be extended at both ends. For penalties that select features, the grid starts
    where the first feature is selected, and can be extended upward.
    """
    if problem.penalty.starts_at_zero:
        Cs = sparse_grid(problem)
        return Grid(Cs, highest=EXTENSION_FACTOR * Cs[-1])
    Cs, flat, balance = np.array(C_GRID), _largest_flat_C(problem.engine), _largest_balance(problem)
    if LARGEST_START < flat < np.inf:
        Cs = Cs * 2.0 ** np.floor(np.log2(flat / Cs[0]))
    elif balance < SMALLEST_START:
        Cs = Cs * 2.0 ** np.floor(np.log2(balance / Cs[0]))
    return Grid(Cs, lowest=flat, highest=EXTENSION_FACTOR * Cs[-1])


def balanced_grid(problem: Problem) -> Grid:
    """Return the default grid of additive rankers, which has fewer values than `default_grid`.

    The values are 2^k/h for k = −3, …, 10, where h is the mean curvature of the loss in the
    weights, at w = 0. The grid can be extended at both ends. For penalties that select features,
    the values begin above the C that selects the first feature, grow by the factor 2^¾, and can be
    extended upward.
    """
    if problem.penalty.starts_at_zero:
        least = first_C(problem)
        Cs = (least if np.isfinite(least) else 1.0) * np.exp2(0.75 * np.arange(1, 13))
        return Grid(Cs, highest=EXTENSION_FACTOR * Cs[-1])
    curvatures = _curvatures(problem)
    Cs = np.exp2(np.arange(-3.0, 11.0)) / (float(curvatures.mean()) if len(curvatures) else 1.0)
    flat = _largest_flat_C(problem.engine)
    return Grid(Cs, lowest=flat, highest=EXTENSION_FACTOR * Cs[-1])


def _largest_flat_C(engine: Engine) -> float:
    """Return the C up to which w ≈ −C∇L(0), so that the ranking is the same.

    The condition is C‖∇L(0)‖² ≪ L(0). If the gradient is 0, the C is infinite.
    """
    loss, slope = engine.at_zero
    return FLAT_RATIO * loss / slope**2 if slope > 0 else np.inf


def _largest_balance(problem: Problem) -> float:
    """Return 1/min_j H_jj, the largest C at which ½w_j² and C·L have the same curvature.

    The smallest H_jj is that of the feature with the smallest scale. If no sampled feature
    distinguishes documents, the result is infinite.
    """
    curvatures = _curvatures(problem)
    return 1.0 / float(curvatures.min()) if len(curvatures) else np.inf


def _curvatures(problem: Problem) -> Vector:
    """Return H_jj > 0 of the loss at w = 0, from a sample of documents and features."""
    engine, d = problem.engine, problem.n_features
    if not d:  # an additive ranker has no columns if all features are constant
        return np.empty(0)
    if not engine.loss.smooth:
        engine = engine.with_loss(SQUARED_HINGE)
    if engine.last is None or engine.last[0].any():
        engine.value_grad(np.zeros(d))
    features = np.unique(np.linspace(0, d - 1, min(d, SAMPLED_FEATURES)).astype(np.int64))
    curvature = np.diagonal(engine.hessian(SAMPLED_ROWS, features))
    return curvature[curvature > np.finfo(float).eps * curvature.max()]


def search(grid: Grid, criterion: Criterion, measure: Measure) -> Search:
    """Measure the values of a grid, and extend the grid while the best C is at an end.

    Extensions that are no better are dropped. Equal values do not end the extension, because many
    values of C give the same ranking if C is large for the scale of the features.

    Parameters
    ----------
    grid : Grid
    criterion : Criterion
    measure : callable
        Takes values of C. Returns an array with a row for each C, and whether an interrupt came.
        After an interrupt there may be fewer rows.
    """
    values, interrupted = measure(grid.Cs)
    Cs = grid.Cs[: len(values)]
    kept = slice(0, len(Cs))
    while not interrupted:
        means = mean_of_folds(values)
        best = criterion.best(means)
        more = grid.beyond(Cs, best)
        if more is None:
            break
        found, interrupted = measure(more)
        n = len(found)
        if best == 0:
            Cs, values = np.r_[more[:n], Cs], np.r_[found, values]
            kept = slice(kept.start + n, kept.stop + n)
        else:
            Cs, values = np.r_[Cs, more[:n]], np.r_[values, found]
        if criterion.improves(mean_of_folds(found), means[best]):
            kept = slice(0, len(Cs))
    reported = not interrupted and kept == slice(0, len(Cs))
    edge = _edge(mean_of_folds(values), best) if reported else None
    return Search(Cs[kept], values[kept], edge)


def _edge(means: Vector, best: int) -> Edge | None:
    if not (means != means[best]).any():  # all values are equal
        return None
    return "smallest" if best == 0 else "largest" if best == len(means) - 1 else None
