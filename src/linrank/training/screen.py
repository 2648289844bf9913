"""Which pairs of features interact: a screen of all pairs by histograms of derivatives.

At the optimum without interactions, the loss is replaced by a quadratic function of the scores. For
each pair of features, gradient and curvature of the documents are summed by the cells of a grid.
The sums give the decrease of the loss by a function of the cells, and by a sum of a function of the
rows and one of the columns. Their difference is the gain of an interaction. The screen is that of
FAST (Lou, Caruana, Gehrke & Hooker 2013), with more than one cut per feature.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._jit import njit
from .._threads import resolve_threads, run, split
from .._typing import Integers, Vector
from ..data.ranking import RankingData
from ..data.samples import evenly_spaced, take_queries
from ..engines.base import Engine
from ..engines.threads import ThreadEngine
from ..losses.pairwise import SQUARED_HINGE

FEWEST_ROWS = 2**14  #: documents of a screen of many features
MOST_ROWS = 2**16  #: documents of a screen of few features; more hardly change the best pairs
SUMMED = 2**29  #: documents times pairs, if there are neither fewer nor more documents
TASKS = 4  #: tasks per thread, which are uneven if features have different numbers of cells


class Gains(NamedTuple):
    """Gains by interactions of all pairs of features.

    ``gains`` has the decrease of the loss by the interaction of each pair, and ``free`` the number
    of its free values. Without interaction, 2·gain/noise has about a χ² distribution with as many
    degrees of freedom. ``slope`` is the root mean square of the gradients of the documents.
    """

    pairs: Integers
    gains: Vector
    free: Vector
    noise: float
    slope: float

    def largest(self, n: int) -> Integers:
        """Return at most n pairs with the largest gains beyond those that are expected."""
        beyond = self.gains - 0.5 * self.noise * self.free
        best = np.argsort(-beyond, kind="stable")[:n]
        return best[(beyond[best] > 0) & (self.free[best] > 0)]

    def prices(self, chosen: Integers) -> Vector:
        """Return thresholds of the gradients of pairs, per unit of their columns.

        A pair with a shorter gradient gets no weight. The threshold is the length that the best of
        all pairs reaches if none interacts. Pairs with a larger gain have a lower threshold, in
        inverse proportion to the gain, so that their weights shrink less.
        """
        from scipy.special import chdtri  # takes long to import

        gain = self.gains[chosen] / (0.5 * self.noise * self.free[chosen])
        best = chdtri(self.free[chosen], 1.0 / len(self.pairs)) / self.free[chosen]
        return self.slope * np.sqrt(best) * np.minimum(1.0, best / gain)


def rows_to_screen(n_pairs: int) -> int:
    """Return how many documents the screen of some pairs reads, which bounds its time."""
    return max(FEWEST_ROWS, min(MOST_ROWS, SUMMED // max(1, n_pairs)))


def some_queries(data: RankingData, n_rows: int) -> RankingData:
    """Return queries with about `n_rows` rows, evenly spaced in the order of their content.

    Data with listed pairs are not sampled.
    """
    if data.pairs is not None or data.n_docs <= n_rows:
        return data
    n = max(1, round(data.n_queries * n_rows / data.n_docs))
    return take_queries(data, evenly_spaced(data.query_keys, n))


def score_derivatives(engine: Engine, coef: Vector) -> tuple[Vector, Vector]:
    """Return gradient and curvature of the loss in the scores, or of the nearest smooth loss."""
    curved = engine if engine.loss.smooth else engine.with_loss(SQUARED_HINGE)
    assert isinstance(curved, ThreadEngine)
    return curved.score_derivatives(coef)


def find_gains(
    codes: NDArray[np.uint8],
    sizes: Integers,
    gradient: Vector,
    curvature: Vector,
    ridge: float,
    n_threads: int | None = None,
) -> Gains:
    """Return all pairs of features, and the gain of the interaction of each pair.

    If there is no interaction, the expected gain is half the number of free values of the grid,
    times the ratio of squared gradients to curvatures.

    Parameters
    ----------
    codes : uint8 array of shape (n_features, n_rows)
        The cell of each value.
    sizes : int64 array of shape (n_features,)
        The number of cells of each feature.
    gradient, curvature : float64 arrays of shape (n_rows,)
        First and second derivative of the loss in the score of each document.
    ridge : float
        The curvature of a penalty of the value of each cell.

    Examples
    --------
    >>> codes = np.array([[0, 0, 1, 1], [0, 1, 0, 1], [0, 1, 1, 0]], np.uint8)
    >>> gradient = np.array([1.0, -1.0, -1.0, 1.0])
    >>> found = find_gains(codes, np.full(3, 2), gradient, np.ones(4), 0.0)
    >>> found.pairs[found.largest(1)].tolist()
    [[0, 1]]
    """
    n_threads = resolve_threads(n_threads)
    pairs = np.stack(np.triu_indices(len(codes), 1), axis=1)
    noise = float(gradient @ gradient) / max(float(curvature.sum()), np.finfo(float).tiny)
    derivatives, found = np.stack([gradient, curvature], axis=1), np.empty((len(pairs), 2))
    ranges = split(np.arange(len(pairs) + 1), TASKS * n_threads)
    tasks = [(codes, sizes, derivatives, ridge, pairs[a:b], found[a:b]) for a, b in ranges]
    run(_sum_cells, tasks, n_threads)
    slope = float(np.sqrt(np.mean(gradient**2)))
    return Gains(pairs, found[:, 0], found[:, 1], noise, slope)


@njit(allocates=True)
def _sum_cells(codes, sizes, derivatives, ridge, pairs, found):  # type: ignore[no-untyped-def]
    most = sizes.max()
    sums = np.empty((most * most, 2))
    system = np.empty((most, most + 1))
    for p in range(len(pairs)):
        j, k = pairs[p, 0], pairs[p, 1]
        m, n = sizes[j], sizes[k]
        sums[: m * n] = 0.0
        first, second = codes[j], codes[k]
        for i in range(len(first)):
            c = first[i] * n + second[i]
            sums[c, 0] += derivatives[i, 0]
            sums[c, 1] += derivatives[i, 1]
        found[p] = _gain(sums[: m * n], m, n, ridge, system)


@njit(inner=True)
def _gain(sums, m, n, ridge, system):  # type: ignore[no-untyped-def]
    """Return half of ``Σ_c g_c²/h_c − g'A⁺g``, and the number of free values.

    A is the matrix of the quadratic model for sums of a function of rows and one of columns. Its
    rows are eliminated first. ``system`` becomes the equations of the columns that are left.
    """
    total, n_free = 0.0, 1
    system[:n, : n + 1] = 0.0
    for a in range(m):
        slope, bend = 0.0, 0.0
        for b in range(n):
            g, h = sums[a * n + b]
            if h > 0.0:
                sums[a * n + b, 1] = h + ridge
                slope, bend = slope + g, bend + h + ridge
                total += g * g / (h + ridge)
                n_free += 1
        if bend > 0.0:
            total -= slope * slope / bend
            n_free -= 1
            for b in range(n):
                g, h = sums[a * n + b]
                system[b, b] += h
                system[b, n] += g - h * slope / bend
                for c in range(n):
                    system[b, c] -= h * sums[a * n + c, 1] / bend
    explained, rank = _solve(system, n)
    return 0.5 * (total - explained), float(max(0, n_free - rank - 1))


@njit(inner=True)
def _solve(system, n):  # type: ignore[no-untyped-def]
    """Return g'A⁺g for the first n equations A·x = g of a semidefinite system, and the rank."""
    explained, rank = 0.0, 0
    for b in range(n):
        scale = system[b, b]
        for c in range(b):
            scale = max(scale, abs(system[c, b]))
        if system[b, b] <= 1e-9 * scale or scale <= 0.0:
            continue
        rank += 1
        explained += system[b, n] ** 2 / system[b, b]
        for c in range(b + 1, n):
            factor = system[c, b] / system[b, b]
            for d in range(b + 1, n + 1):
                system[c, d] -= factor * system[b, d]
    return explained, rank
