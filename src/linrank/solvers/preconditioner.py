"""Estimates of the Hessian, as preconditioners and for the distance to the optimum."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from .._threads import blas_threads, resolve_threads
from ..problem import Problem
from .base import Vector

if TYPE_CHECKING:
    from ..engines.base import Engine

Preconditioner = Callable[[Vector], Vector]  #: an approximate inverse of the Hessian

DENSE_LIMIT = 4096  #: most features for which a d × d matrix is built and factored
SHARED = 1000  #: number of features above which BLAS threads share a factorisation
SAVINGS = 30.0  #: Hessian products that a sample of queries saves; see `rows_per_feature`
DOCUMENT_SAVINGS = 100.0  #: Hessian products that a sample of documents saves
CHEAPEST = 1.5  #: cost of a diagonal estimate, in Hessian products, and the least of any estimate
FACTORED = 1 / 24  #: cost of a Cholesky factorisation per d³, in entries of X read by a product
FREE = 2e6  #: entries of X that a product reads within a few ms; less work is not counted
SPOILT = 1e-10  #: negative part of the largest diagonal entry that rounding may leave
LEAST_ROWS = 4  #: fewest sampled rows per feature once a diagonal was not enough


class Estimate(NamedTuple):
    """An estimate of the Hessian of the loss where it was last evaluated.

    ``of_loss`` is a matrix, or a vector that is its diagonal; ``cost`` is what it took to make,
    in Hessian products, and ``enough`` after how many of these in all to make a better one.
    ``exact`` says that it is the Hessian itself, not a sample.
    """

    of_loss: Vector
    engine: object
    cost: float
    enough: float = np.inf
    exact: bool = False

    @property
    def is_spoilt(self) -> bool:
        """Whether rounding has made a diagonal entry negative: features cancel in it."""
        diagonal = self.of_loss.diagonal() if self.of_loss.ndim == 2 else self.of_loss
        return bool(diagonal.min() < -SPOILT * diagonal.max())


def estimate_hessian(problem: Problem, spent: float = 0) -> Estimate:
    """The Hessian of the loss: exact, of a sample of queries or documents, or its diagonal.

    A matrix of whatever size is expected to make the rest of the fit the shortest, once as many
    products are spent as it costs, so at once where data are small. Until then a diagonal: an easy
    fit needs no more, and a matrix says the more the closer to the optimum it is made.
    """
    engine = problem.engine
    make, cost, exact = _plan_matrix(engine)
    if spent <= cost:
        return Estimate(engine.hessian_diagonal(), engine, CHEAPEST, cost)
    return Estimate(make(), engine, max(CHEAPEST, cost), exact=exact)


def _plan_matrix(engine: Engine) -> tuple[Callable[[], Vector], float, bool]:
    """How to make the best matrix, what that costs in Hessian products, and whether it is exact."""
    d, row_work = engine.n_features, engine.row_work
    estimate: Callable[[int], Vector] = engine.hessian
    if d > DENSE_LIMIT:
        return engine.hessian, np.inf, True
    n_rows = _sample_rows(engine, row_work, SAVINGS)
    if n_rows < engine.largest_query / 2:
        estimate, row_work = engine.hessian_of_documents, engine.document_work
        n_rows = _sample_rows(engine, row_work, DOCUMENT_SAVINGS)
    n_rows = int(min(max(n_rows, LEAST_ROWS * d), engine.data.n_docs))
    cost = (n_rows * row_work + FACTORED * d**3 - FREE) / engine.product_work
    exact = n_rows >= engine.data.n_docs and estimate == engine.hessian
    return lambda: estimate(n_rows), cost, exact


def _sample_rows(engine: Engine, row_work: float, savings: float) -> float:
    d = engine.n_features
    per_feature = rows_per_feature(d * row_work / engine.product_work, savings)
    return max(d * per_feature, FREE / row_work)


def rows_per_feature(cost: float, savings: float) -> float:
    """How many rows r of a sample to take for each feature, where one costs so many products.

    A fit needed about 10 + 45/√r products on the shapes of data that were measured, and rarely
    more than one sample, so about r = (30/cost)^⅔ takes the least.

    Examples
    --------
    >>> rows_per_feature(30.0, SAVINGS)
    1.0
    """
    return float((savings / cost) ** (2 / 3))


def invert(P: Vector) -> Preconditioner:
    """``v ↦ P⁻¹v`` for a diagonal P, or by a Cholesky factor of P scaled to unit diagonal.

    The scaling is what makes the factor useful when features range over many orders of
    magnitude.
    """
    if P.ndim == 1:
        inverse = 1.0 / P
        return lambda v: inverse * v
    diagonal = np.diag(P)
    floor = np.finfo(float).eps * max(1.0, float(diagonal.max()))
    scale = 1.0 / np.sqrt(np.maximum(diagonal, floor))  # rounding can make one negative
    P = P * scale
    P *= scale[:, None]
    with blas_threads(1 if len(P) < SHARED else resolve_threads()):
        factor = _cholesky(P)
    return lambda v: scale * cho_solve(factor, scale * v, check_finite=False)


def _cholesky(P: Vector) -> tuple[Vector, bool]:
    """Factor a matrix with unit diagonal, lifting the diagonal while rounding spoils it."""
    lift = 0.0
    while True:
        try:
            lifted = P + lift * np.eye(len(P)) if lift else P
            return cho_factor(lifted, lower=True, check_finite=False)
        except LinAlgError:
            lift = max(1e-14, 10 * lift)
