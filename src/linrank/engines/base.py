"""The interface of an engine: the loss as a function of the weights, wherever the rows are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
from scipy.linalg import norm

from .._binned import BinnedMatrix
from .._lazy import lazy_property
from .._typing import Integers, Vector
from ..losses.base import Loss

# Measured costs. The unit is the time that a Hessian product takes per entry of a dense matrix.
SAMPLED_ROWS = 256  #: rows in which the largest entries are looked for; more rows take more time
SPARSE_ENTRY = 4  #: cost of an entry of a sparse matrix in a Hessian product
DOCUMENT = 20  #: cost of the pair sums of a document in a Hessian product
HESSIAN_ENTRY = 6  #: cost of an entry of a row in `hessian`, without the matrix product
#: Cost of an entry of a row in `hessian_of_documents`, without the matrix product.
CENTRED_ENTRY = 2
DENSE_MULTIPLICATION = 1 / 12  #: cost of a multiplication in the matrix product of dense rows
SPARSE_MULTIPLICATION = 10  #: cost of a multiplication in the matrix product of sparse rows


#: A function on a line: its value and its derivative at t.
Line: TypeAlias = Callable[[float], tuple[float, float]]


@dataclass
class Work:
    """The work that an engine has done.

    Attributes
    ----------
    evaluations : int
        The number of evaluations of the loss and its gradient.
    products : int
        The number of Hessian-vector products.
    """

    evaluations: int = 0
    products: int = 0


class Engine(ABC):
    """A loss of the scores s = Xw as a function of w, such as Σ_pairs weight·ℓ(s_i − s_j).

    Attributes
    ----------
    data : RankingData, or a description of data in other processes
        Has `n_docs`, `n_queries` and `is_sparse`.
    loss : Loss
    counting : str
        The algorithm that sums over pairs.
    n_features : int
        The number of columns of X.
    n_entries : int
        The number of stored entries of X.
    n_pairs : int
    n_empty_queries : int
        The number of queries without pairs.
    largest_query : int
        The number of documents of the largest query.
    last : (w, loss, gradient) or None
        The argument and the result of the last `value_grad`.
    work : Work
        Counts the calls of `value_grad` and `hessp`. Engines made by `with_loss` share it.
    """

    has_rows: ClassVar[bool] = True  #: whether the rows of X are in this process
    data: Any
    loss: Loss
    counting: str
    n_features: int
    n_entries: int
    n_pairs: int
    n_empty_queries: int
    largest_query: int
    last: tuple[Vector, float, Vector] | None
    work: Work

    @abstractmethod
    def with_loss(self, loss: Loss) -> Engine:
        """Return an engine for the same data and pairs with another loss.

        Both engines share buffers, so they must not be used at the same time.
        """

    @abstractmethod
    def change_loss(self, loss: Loss) -> None:
        """Replace the loss by one with as many hinges, and keep the order of the scores."""

    @abstractmethod
    def value_grad(self, w: Vector) -> tuple[float, Vector]:
        """Compute the loss and its gradient at w; Hessian products then refer to w."""

    def line(self, w: Vector, direction: Vector) -> Line:
        """Return the loss at w + t·direction and its derivative in t, as a function of t.

        Hessian products are then valid only after another `value_grad`.
        """

        def evaluate(t: float) -> tuple[float, float]:
            loss, gradient = self.value_grad(w + t * direction)
            return loss, float(gradient @ direction)

        return evaluate

    @abstractmethod
    def hessp(self, v: Vector) -> Vector:
        """Compute the product H v with the Hessian H = X'MX at the last w of `value_grad`."""

    @abstractmethod
    def gaps(self, w: Vector) -> Vector:
        """Compute Σ_pairs weight·max(0, τ_m − t) for each hinge m, at the last w of `value_grad`.

        Duality gaps consist of these sums.
        """

    @abstractmethod
    def scores(self, w: Vector) -> Vector:
        """Compute the scores Xw of all documents, in the row order of the data."""

    @abstractmethod
    def hessian(self, n_rows: int | None = None, features: Integers | None = None) -> Vector:
        """Compute the Hessian as a matrix.

        Parameters
        ----------
        n_rows : int, optional
            Estimate the Hessian from a sample of queries with about that many rows. The default
            is to use all queries.
        features : int64 array, optional
            The features of the matrix. The default is all features.
        """

    @abstractmethod
    def hessian_diagonal(self) -> Vector:
        """Compute Σ_i curvature_i x_i²: the diagonal of the Hessian without the terms x_i x_j.

        These terms are 0 for a feature that no two compared documents share, and small for a rare
        feature.
        """

    @abstractmethod
    def hessian_of_documents(self, n_rows: int) -> Vector:
        """Compute Σ_i curvature_i (x_i − μ)(x_i − μ)' over a sample of about `n_rows` documents.

        μ is the mean of the sampled documents of the query of i, weighted by curvature. If all n
        documents of a query are compared with each other, this is the Hessian of the query up to
        a factor of 1 − 1/n. It serves as an estimate if a query is too large for `hessian`.
        """

    def total_curvature(self) -> float:
        """Return the sum of the curvatures of all documents at the last w, or NaN if unknown."""
        return np.nan

    def sample(self, n_rows: int) -> Engine | None:
        """Return an engine for a sample of the queries with about `n_rows` rows, if possible.

        The sample has a `work` of its own.
        """
        return None

    @property
    @abstractmethod
    def makes_hessian_by_level(self) -> bool:
        """Whether the Hessian in the scores is a diagonal plus a few vectors per query."""

    @lazy_property
    def at_zero(self) -> tuple[float, float]:
        """The loss and the norm of its gradient at w = 0."""
        loss, gradient = self.value_grad(np.zeros(self.n_features))
        return loss, float(norm(gradient, check_finite=False))

    def score_size(self, w: Vector) -> float:
        """Return a bound on Σ_f |x_f·w_f| for the documents of a sample of `SAMPLED_ROWS` rows."""
        entries, row_norm = self._sizes
        return min(float(entries @ np.abs(w)), row_norm * float(norm(w, check_finite=False)))

    @lazy_property
    def _sizes(self) -> tuple[Vector, float]:
        """The largest |x_f| of each feature, and the largest ‖x‖, in a sample of the rows."""
        X = self.data.X
        if isinstance(X, BinnedMatrix):  # entries are at most 1
            return np.ones(self.n_features), np.inf
        sizes = abs(X[:: -(-X.shape[0] // SAMPLED_ROWS)])
        squares = sizes.multiply(sizes) if self.data.is_sparse else sizes * sizes
        largest = sizes.max(axis=0)
        entries = np.asarray(largest.toarray() if self.data.is_sparse else largest, float).ravel()
        return entries, float(np.sqrt(squares.sum(axis=1, dtype=np.float64).max()))

    @property
    def product_work(self) -> float:
        """The cost of a Hessian product, relative to that of an entry of a dense matrix."""
        return self.n_entries * (SPARSE_ENTRY if self.data.is_sparse else 1) + (
            DOCUMENT * self.data.n_docs
        )

    @property
    def row_work(self) -> float:
        """The cost of a row of the sample of `hessian`, in the same unit."""
        return self.n_features * (HESSIAN_ENTRY + DENSE_MULTIPLICATION * self.n_features)

    @property
    def document_work(self) -> float:
        """The cost of a row of the sample of `hessian_of_documents`, in the same unit."""
        if self.data.is_sparse:
            return SPARSE_MULTIPLICATION * (self.n_entries / self.data.n_docs) ** 2
        return self.n_features * (CENTRED_ENTRY + DENSE_MULTIPLICATION * self.n_features)
