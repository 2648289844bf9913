"""The interface of an engine, wherever the rows are, and the engines by name.

`ScaledEngine` is the loss of features that are multiplied by numbers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
from scipy.linalg import norm

from .._util.checks import choice
from .._util.lazy import ClassesByName, lazy_property
from .._util.types import Integers, Vector
from ..choices import ENGINES
from ..counting.preferences import ALL_PAIRS, Preferences
from ..data.ranking import RankingData
from ..data.validation import check_finite
from ..errors import DataError
from ..losses.loss import Loss
from ..matrix.binned import BinnedMatrix

if TYPE_CHECKING:
    from .threads import ThreadEngine

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


class _Sizes(NamedTuple):
    """Sizes of the entries of X in a sample of the rows.

    Attributes
    ----------
    entries, ranges : float64 arrays of shape (n_features,)
        The largest |x_f|, and the difference of the largest and the smallest x_f.
    row : float
        The largest ‖x‖.
    """

    entries: Vector
    ranges: Vector
    row: float


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
        """The loss and the norm of its gradient at w = 0.

        The values of a store are not checked when it is opened, so an entry that is NaN is named
        here.
        """
        loss, gradient = self.value_grad(np.zeros(self.n_features))
        slope = float(norm(gradient, check_finite=False))
        if np.isnan(slope) and self.has_rows and not isinstance(self.data.X, BinnedMatrix):
            check_finite(self.data.X, self.data.order, self.data.feature_names)
        return loss, slope

    def score_size(self, w: Vector) -> float:
        """Return a bound on Σ_f |x_f·w_f| for the documents of a sample of `SAMPLED_ROWS` rows."""
        sizes = self._sizes
        length = sizes.row * float(norm(w, check_finite=False))
        return min(float(sizes.entries @ np.abs(w)), length)

    def score_spread(self, w: Vector) -> float:
        """Return a bound on the score differences of the documents of that sample."""
        return float(self._sizes.ranges @ np.abs(w))

    @property
    def row_size(self) -> float:
        """A bound on ‖x‖ for the documents of that sample."""
        return min(self._sizes.row, float(norm(self._sizes.entries, check_finite=False)))

    @lazy_property
    def _sizes(self) -> _Sizes:
        if isinstance(self.data.X, BinnedMatrix):
            sizes = [np.abs(shape).sum(axis=0) for shape in self.data.X.polynomials]
            most = np.concatenate([own.max(axis=0, initial=0.0) for own in sizes])
            return _Sizes(most, 2.0 * most, np.inf)
        sample = self.some_rows()
        most, least = (
            np.asarray(end.toarray() if self.data.is_sparse else end, float).ravel()
            for end in (sample.max(axis=0), sample.min(axis=0))
        )
        squares = sample.multiply(sample) if self.data.is_sparse else sample * sample
        row = float(np.sqrt(squares.sum(axis=1, dtype=np.float64).max()))
        return _Sizes(np.maximum(most, -least), most - least, row)

    def some_rows(self) -> Any:
        """Return about `SAMPLED_ROWS` rows of X."""
        X = self.data.X
        return X[:: -(-X.shape[0] // SAMPLED_ROWS)]

    def unscaled(self, w: Vector) -> tuple[Engine, Vector]:
        """Return the engine of X itself, and the weights of its features; see `ScaledEngine`."""
        return self, w

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


# --------------------------------------------------------------------------------------------------
# The loss of features that are multiplied by numbers, without a copy of X.


class ScaledEngine(Engine):
    """The loss L(w) of the scores X·diag(f)·w, as the loss of another engine at f·w.

    Gradients and Hessians follow from the chain rule: ∇L = f·∇L_X(f·w) and H = diag(f)·H_X·diag(f).

    Parameters
    ----------
    engine : Engine
        The engine of X. It is used by this engine alone.
    factor : float64 array of shape (n_features,)
        f, the number that multiplies each feature.

    Examples
    --------
    >>> from linrank import make_problem, make_ranking
    >>> data = make_ranking(n_features=2, random_state=0)
    >>> factor = np.array([0.5, 3.0])
    >>> scaled = ScaledEngine(make_problem(data).engine, factor)
    >>> copied = make_problem(data.replace(X=data.X * factor)).engine
    >>> bool(np.isclose(scaled.value_grad(np.ones(2))[0], copied.value_grad(np.ones(2))[0]))
    True
    """

    def __init__(self, engine: Engine, factor: Vector) -> None:
        self.given, self.factor = engine, factor
        self.data, self.loss, self.counting = engine.data, engine.loss, engine.counting
        self.work = engine.work
        self.n_features, self.n_entries = engine.n_features, engine.n_entries
        self.n_pairs, self.n_empty_queries = engine.n_pairs, engine.n_empty_queries
        self.largest_query = engine.largest_query
        self._last: tuple[Vector, float, Vector] | None = None

    @property
    def last(self) -> tuple[Vector, float, Vector] | None:
        """The argument and the result of the last `value_grad`."""
        return None if self.given.last is None else self._last

    @last.setter
    def last(self, found: tuple[Vector, float, Vector] | None) -> None:
        self._last = found
        if found is None:
            self.given.last = None

    def unscaled(self, w: Vector) -> tuple[Engine, Vector]:
        """Return the engine of X, and the weights f·w of its features."""
        return self.given, self.factor * w

    def with_loss(self, loss: Loss) -> ScaledEngine:
        """Return an engine for the same data and pairs with another loss."""
        return ScaledEngine(self.given.with_loss(loss), self.factor)

    def change_loss(self, loss: Loss) -> None:
        """Replace the loss by one with as many hinges, and keep the order of the scores."""
        self.given.change_loss(loss)
        self.loss = loss
        self.__dict__.pop("at_zero", None)

    def value_grad(self, w: Vector) -> tuple[float, Vector]:
        """Compute the loss and its gradient at w; Hessian products then refer to w."""
        loss, gradient = self.given.value_grad(self.factor * w)
        gradient *= self.factor
        self._last = np.array(w, dtype=np.float64), loss, gradient.copy()
        return loss, gradient

    def line(self, w: Vector, direction: Vector) -> Line:
        """Return the loss at w + t·direction and its derivative in t, as a function of t."""
        return self.given.line(self.factor * w, self.factor * direction)

    def hessp(self, v: Vector) -> Vector:
        """Compute the product H v at the last w of `value_grad`."""
        product = self.given.hessp(self.factor * v)
        product *= self.factor
        return product

    def gaps(self, w: Vector) -> Vector:
        """Compute Σ_pairs weight·max(0, τ_m − t) for each hinge m."""
        return self.given.gaps(self.factor * w)

    def scores(self, w: Vector) -> Vector:
        """Compute the scores X·diag(f)·w of all documents."""
        return self.given.scores(self.factor * w)

    def hessian(self, n_rows: int | None = None, features: Integers | None = None) -> Vector:
        """Compute the Hessian as a matrix; see `Engine.hessian`."""
        factor = self.factor if features is None else self.factor[features]
        return _on_both_sides(self.given.hessian(n_rows, features), factor)

    def hessian_diagonal(self) -> Vector:
        """Compute the diagonal of the Hessian without the terms of two documents."""
        return self.given.hessian_diagonal() * self.factor**2

    def hessian_of_documents(self, n_rows: int) -> Vector:
        """Estimate the Hessian from documents; see `Engine.hessian_of_documents`."""
        return _on_both_sides(self.given.hessian_of_documents(n_rows), self.factor)

    def total_curvature(self) -> float:
        """Return the sum of the curvatures of all documents at the last w, or NaN if unknown."""
        return self.given.total_curvature()

    def sample(self, n_rows: int) -> ScaledEngine | None:
        """Return an engine for a sample of the queries with about `n_rows` rows, if possible."""
        sample = self.given.sample(n_rows)
        return None if sample is None else ScaledEngine(sample, self.factor)

    @property
    def makes_hessian_by_level(self) -> bool:
        """Whether the Hessian in the scores is a diagonal plus a few vectors per query."""
        return self.given.makes_hessian_by_level

    def some_rows(self) -> Any:
        """Return about `SAMPLED_ROWS` rows of X·diag(f)."""
        rows = self.given.some_rows()
        return rows.multiply(self.factor).tocsr() if self.data.is_sparse else rows * self.factor


def _on_both_sides(H: Vector, factor: Vector) -> Vector:
    """Return diag(f)·H·diag(f)."""
    H *= factor[:, None]
    H *= factor
    return H


# --------------------------------------------------------------------------------------------------
# Checks that a graphics card and the packages for it are present.


def check_available(engine: str) -> None:
    """Raise a `DataError` that says what is missing, if this machine cannot run the engine."""
    if find_spec("numba_cuda") is None:
        extra = "cublas" if engine == "p-swx-paper" else "cuda"
        raise DataError(
            f"engine={engine!r} needs numba-cuda, which is not installed: "
            f"pip install 'linrank[{extra}]', or use engine='threads'"
        )
    if engine == "p-swx-paper" and not is_simulated() and find_spec("cupy") is None:
        raise DataError(
            "engine='p-swx-paper' needs CuPy for its matrix products, which is not installed: "
            "pip install 'linrank[cublas]', or use engine='p-swx'"
        )
    if not has_card():
        raise DataError(
            f"engine={engine!r} needs an NVIDIA graphics card with its driver, and none was found. "
            "Use engine='threads'."
        )


def is_simulated() -> bool:
    """Whether numba simulates a graphics card (``NUMBA_ENABLE_CUDASIM=1``)."""
    from numba import config

    return bool(config.ENABLE_CUDASIM)


def has_card() -> bool:
    """Whether there is a graphics card that numba can use."""
    from numba import cuda

    return cuda.is_available()


# --------------------------------------------------------------------------------------------------
# Construction of an engine from its name.


def check_engine(name: str) -> None:
    """Raise a `DataError` if the engine is unknown, or if this machine cannot run it."""
    choice("engine", name, ENGINES)
    if name != "threads":
        check_available(name)


#: The class of each engine by its name.
ENGINE_CLASSES: Mapping[str, type[ThreadEngine]] = ClassesByName(
    __package__,
    {
        "threads": "threads.ThreadEngine",
        "cuda": "cuda.cuda_engine.CudaEngine",
        "cuda-streaming": "cuda.cuda_engine.StreamingEngine",
        "p-swx": ".papers.jin2014.SortingEngine",
        "p-swx-paper": ".papers.jin2014.PaperEngine",
    },
)


def make_engine(
    name: str,
    data: RankingData,
    loss: Loss,
    normalize: str | None = None,
    n_threads: int | None = None,
    *,
    counting: str = "auto",
    preferences: Preferences = ALL_PAIRS,
) -> ThreadEngine:
    """Make the engine of that name; the other parameters are those of `ThreadEngine`."""
    if name != "threads":
        check_engine(name)
    return ENGINE_CLASSES[name](
        data, loss, normalize, n_threads, counting=counting, preferences=preferences
    )
