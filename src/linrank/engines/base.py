"""What a problem asks of an engine, wherever the rows live."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import norm

from .._lazy import lazy_property
from .._typing import Vector
from ..losses import Loss

# What work costs, in entries of a dense matrix that a Hessian product reads (measured).
SPARSE_ENTRY = 4  #: an entry of a sparse matrix in a product
DOCUMENT = 20  #: the pair sums of a document in a product
CURVED = 12  #: an entry of a row of `hessian`, beside what it is multiplied with
CENTRED = 2  #: an entry of a row of `hessian_of_documents`, likewise
MULTIPLIED = 1 / 8  #: an entry multiplied with another one, where both are dense
SPARSE_MULTIPLIED = 10  #: the same of sparse rows


@dataclass
class Work:
    """The ledger of an engine: how often it was evaluated, and multiplied with its Hessian."""

    evaluations: int = 0  #: of the loss and its gradient
    products: int = 0


class Engine(ABC):
    """A loss of the scores s = Xw, such as Σ_pairs weight·ℓ(s_i − s_j): value, gradient, products.

    Attributes
    ----------
    data : RankingData, or what stands for data that are elsewhere
        Has `n_docs`, `n_queries` and `is_sparse`.
    loss : Loss
    counting : str
        How pairs are summed over.
    n_features, n_entries, n_pairs, n_empty_queries, largest_query : int
        Of X, its columns and the numbers in it; of the data, the pairs, the queries that have
        none, and the documents of the largest query.
    last : (w, loss, gradient), or None
        What `value_grad` has found last.
    work : Work
        Counts the calls of `value_grad` and `hessp`. Engines made by `with_loss` share it.
    """

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
        """The same data and pairs with another loss; the two must not be used at one time."""

    @abstractmethod
    def change_loss(self, loss: Loss) -> None:
        """Take a loss of as many hinges; what is known of the order of scores is kept."""

    @abstractmethod
    def value_grad(self, w: Vector) -> tuple[float, Vector]:
        """The loss and its gradient at w; Hessian products are then those at w."""

    @abstractmethod
    def hessp(self, v: Vector) -> Vector:
        """``H v`` with H = X'MX, the Hessian at the last w of `value_grad`."""

    @abstractmethod
    def gaps(self, w: Vector) -> Vector:
        """``Σ_pairs weight·max(0, τ_m − t)`` for each hinge m, at the last w of `value_grad`.

        Duality gaps are made of these sums.
        """

    @abstractmethod
    def scores(self, w: Vector) -> Vector:
        """``Xw``, in the data's row order."""

    @abstractmethod
    def hessian(
        self, n_rows: int | None = None, features: NDArray[np.int64] | None = None
    ) -> Vector:
        """The Hessian as a matrix, exact or estimated from queries with about `n_rows` rows.

        With `features`, of these only.
        """

    @abstractmethod
    def hessian_diagonal(self) -> Vector:
        """``Σ_i curvature_i x_i²``: the Hessian's diagonal without its cross terms x_i x_j.

        They vanish for a feature that no two partners share, and are small for a rare one.
        """

    @abstractmethod
    def hessian_of_documents(self, n_rows: int) -> Vector:
        """``Σ_i curvature_i (x_i − μ)(x_i − μ)'`` over a sample of documents, μ their query's mean.

        Where all n documents of a query are compared with each other it is the Hessian, but for
        a factor 1 − 1/n: an estimate for a query that is too large to be multiplied out.
        """

    @property
    @abstractmethod
    def makes_hessian_by_level(self) -> bool:
        """Whether the Hessian is a diagonal and a few vectors, in the scores."""

    @lazy_property
    def at_zero(self) -> tuple[float, float]:
        """The loss and the norm of its gradient at w = 0."""
        loss, gradient = self.value_grad(np.zeros(self.n_features))
        return loss, float(norm(gradient, check_finite=False))

    @property
    def product_work(self) -> float:
        """What a Hessian product takes, in entries of a dense matrix."""
        return self.n_entries * (SPARSE_ENTRY if self.data.is_sparse else 1) + (
            DOCUMENT * self.data.n_docs
        )

    @property
    def row_work(self) -> float:
        """What a row of the sample of `hessian` takes, in the same unit."""
        return self.n_features * (CURVED + MULTIPLIED * self.n_features)

    @property
    def document_work(self) -> float:
        """What a row of `hessian_of_documents` takes, in the same unit."""
        if self.data.is_sparse:
            return SPARSE_MULTIPLIED * (self.n_entries / self.data.n_docs) ** 2
        return self.n_features * (CENTRED + MULTIPLIED * self.n_features)
