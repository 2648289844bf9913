"""`KernelRankSVM`: RankSVM in the feature space of a kernel."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.linalg import LinAlgError, cho_factor, eigh, norm, solve_triangular
from scipy.linalg.lapack import dpstrf
from sklearn.metrics.pairwise import KERNEL_PARAMS, pairwise_kernels
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from .._util.checks import choice, whole_number
from .._util.parallel import blas_threads, resolve_threads, run
from .._util.types import Integers, Vector
from ..choices import NormalizeName
from ..data.ranking import RankingData, row_keys
from ..data.validation import Matrix, check_finite, check_matrix
from ..engines.engine import Engine
from ..errors import DataError, NotConvergedWarning, NothingSelectedWarning, warn
from ..features.preprocessing import warn_of_given_scales
from ..losses.hinge_tables import LossName
from ..losses.loss import Loss
from ..model import Content, Model, matrix_parts, numbers, read_matrix
from ..problem import Problem
from ..solvers import SolverChoice
from ..solvers.newton import Newton
from ..solvers.result import Result, Status
from ..solvers.solver import Solver
from ..solvers.tron import Tron
from ..training import training_summary
from ..training.selection import NO_USEFUL_FEATURE
from ..training.settings import Settings
from .ranker import Ranker, library_matrix, queries
from .trained import as_seed, print_step

# --------------------------------------------------------------------------------------------------
# Coordinates of documents in the feature space of a kernel (Chapelle & Keerthi 2010, §6.3).


#: Documents in the form that a kernel takes: a matrix, or row numbers for "precomputed".
Documents: TypeAlias = Matrix
Kernel: TypeAlias = Callable[[Matrix, Documents], Vector]  #: ``(X, Z) ↦ k(x_i, z_j)``

RANK_TOL = 1e-12  #: relative size below which a direction of the feature space is rounding
PSD_TOL = 1e-6  #: relative error above which K is not positive semidefinite
CHUNK_BYTES = 2**24  #: bytes of the kernel matrix that are computed at a time to score documents
INDEFINITE = (
    "the kernel matrix is not positive semidefinite. Features far from 0 can cause this by "
    "rounding. Choose another kernel or other parameters, or centre the features."
)


@dataclass(frozen=True)
class FeatureMap:
    """Coordinates of documents in an orthonormal basis v_p = Σ_i A_ip φ(x_i) of feature space.

    The basis spans the feature space, or a part of it.

    Attributes
    ----------
    psi : float64 array of shape (n_docs, n_components)
        The coordinates ψ_p(x) = Σ_i A_ip k(x, x_i) of the documents.
    anchors : int64 array
        The documents x_i of which the basis consists.
    dual : callable
        ``w ↦ β = Aw``, for which w'ψ(x) = Σ_i β_i k(x, x_i).

    Examples
    --------
    >>> K = np.array([[4.0, 2.0, 2.0], [2.0, 2.0, 1.0], [2.0, 1.0, 1.0]])
    >>> features = cholesky_map(K.copy())
    >>> np.allclose(features.psi @ features.psi.T, K), features.anchors.tolist()
    (True, [0, 1])
    """

    psi: Vector
    anchors: Integers
    dual: Callable[[Vector], Vector]


def cholesky_map(K: Vector) -> FeatureMap:
    """Return the map ψ = L of the Cholesky factorisation K = LL' with pivots.

    The first documents in the order of the pivots span the others. They are the anchors, and
    A = L⁻ᵀ there. The factorisation overwrites K.
    """
    probe = _Probe(K)
    L, pivots, rank, _ = dpstrf(K.T, tol=RANK_TOL * probe.largest, lower=1, overwrite_a=1)
    order = np.asarray(pivots, np.int64) - 1
    psi = np.empty((len(K), rank))
    psi[order] = L[:, :rank]
    for p in range(rank):
        psi[order[p], p + 1 :] = 0.0  # LAPACK leaves entries of K above the diagonal
    probe.check(psi)
    anchors = order[:rank]
    return FeatureMap(
        psi, anchors, lambda w: solve_triangular(psi[anchors], w, lower=True, trans="T")
    )


def eigen_map(K: Vector) -> FeatureMap:
    """Return the map of kernel PCA: ψ = UΛ^½ and A = UΛ^-½, where K = UΛU'.

    The factorisation overwrites K.
    """
    probe = _Probe(K)
    values, vectors = eigh(K, overwrite_a=True, check_finite=False)
    first = int(np.searchsorted(values, RANK_TOL * values[-1], side="right"))
    values, vectors = values[first:], vectors[:, first:]
    vectors *= np.sqrt(values)
    psi = np.ascontiguousarray(vectors)
    probe.check(psi)
    return FeatureMap(psi, np.arange(len(psi)), lambda w: psi @ (w.T / values).T)


def nystroem_map(
    kernel: Kernel, rows: Matrix, documents: Documents, anchors: Integers
) -> FeatureMap:
    """Return the coordinates ψ of all documents in the span of the anchors.

    The basis is that of `eigen_map` for the anchors. ``kernel(rows[i], documents[j])`` is the
    kernel matrix between the documents i and the documents j.
    """
    own = eigen_map(np.ascontiguousarray(kernel(rows[anchors], documents[anchors])))
    A = own.dual(np.eye(own.psi.shape[1]))
    psi = np.empty((rows.shape[0], A.shape[1]))
    for a, b in row_chunks(len(psi), len(anchors)):
        psi[a:b] = kernel(rows[a:b], documents[anchors]) @ A
    return FeatureMap(psi, anchors, own.dual)


def identity_map(K: Vector) -> FeatureMap:
    """Return ψ = K and A = I, for Newton's method in β itself."""
    return FeatureMap(K, np.arange(len(K)), lambda w: w)


def smallest_lift(K: Vector) -> float:
    """Return the smallest number that makes K positive definite if added to its diagonal.

    Rounding can make a singular K indefinite. The numbers tried are 1e-12, 1e-11, …, 1e-6 of the
    largest diagonal entry.
    """
    largest = _Probe(K).largest
    part = RANK_TOL
    while part <= PSD_TOL:
        lifted = K.copy()
        lifted.flat[:: len(K) + 1] += part * largest
        try:
            cho_factor(lifted.T, overwrite_a=True, check_finite=False)
        except LinAlgError:
            part *= 10.0
        else:
            return part * largest
    raise DataError(INDEFINITE)


class _Probe:
    """The product of K with a random vector, to check a factorisation that overwrites K."""

    def __init__(self, K: Vector) -> None:
        self.z = np.random.default_rng(0).standard_normal(len(K))
        self.product = K @ self.z
        self.largest = float(K.diagonal().max())
        if not np.isfinite(self.product).all():
            raise DataError(
                "the kernel is NaN or infinite for some documents. Scale the features, or choose "
                "other parameters of the kernel."
            )
        if self.largest <= 0:
            raise DataError(
                "the kernel of every document with itself is 0, so nothing can be learnt. Choose "
                "another kernel or other parameters."
            )
        if self._differs(self.z @ K):
            raise DataError(
                "the kernel is not symmetric: k(x, z) differs from k(z, x). Use a symmetric kernel."
            )

    def check(self, psi: Vector) -> None:
        """Raise a `DataError` unless ψψ' is K."""
        if self._differs(psi @ (self.z @ psi)):
            raise DataError(INDEFINITE)

    def _differs(self, product: Vector) -> bool:
        return norm(product - self.product) > PSD_TOL * self.largest * norm(self.z)


def row_chunks(n_rows: int, width: int) -> list[tuple[int, int]]:
    """Split rows into ranges for which a kernel matrix of `width` columns has `CHUNK_BYTES`."""
    step = max(1, CHUNK_BYTES // (8 * width))
    return [(a, min(a + step, n_rows)) for a in range(0, n_rows, step)]


# --------------------------------------------------------------------------------------------------
# `KernelModel`: the saved form of a ranker with a kernel.


def named_kernel(name: str, params: Mapping[str, Any]) -> Kernel:
    """Return the function of a kernel of scikit-learn: ``(X, Z) ↦ k(x_i, z_j)``."""
    choice("kernel", name, KERNEL_PARAMS, "or a function")
    takes = sorted(KERNEL_PARAMS[name])
    if not set(params) <= set(takes):
        what = ", ".join(takes) or "no parameters"
        raise DataError(
            f"kernel_params has {min(set(params) - set(takes))!r}; kernel {name!r} takes {what}"
        )
    for key, value in params.items():
        if key == "gamma" and value is None:  # scikit-learn's default, 1 / n_features
            continue
        if not isinstance(value, Real) or not math.isfinite(value):
            raise DataError(f"kernel_params[{key!r}] is {value!r}; expected a finite number")
    return lambda X, Z: pairwise_kernels(X, Z, metric=name, **params)


def kernel_rows(X: Matrix) -> Matrix:
    """Return X in the form in which kernels take it."""
    return library_matrix(X).astype(np.float64, copy=False)


def kernel_scores(
    kernel: Kernel, X: Matrix, anchors: Documents, beta: Vector, n_threads: int | None = None
) -> Vector:
    """Return ``f(x) = Σ_i β_i k(x, x_i)`` of the rows of a checked matrix, in blocks of rows."""
    check_finite(X, None)

    def score(first: int, last: int) -> Vector:
        try:
            return kernel(kernel_rows(X[first:last]), anchors) @ beta
        except (TypeError, ValueError) as error:  # chi-squared kernels refuse some documents
            raise DataError(f"the kernel cannot be computed: {error}") from None

    with blas_threads(1):  # each thread of `run` multiplies its own rows
        parts = run(
            score,
            row_chunks(X.shape[0], len(beta)),
            resolve_threads(n_threads),
        )
    return np.concatenate(parts)


class KernelModel(Model):
    """Model with the score ``f(x) = Σ_i β_i k(x, x_i)``.

    Parameters
    ----------
    anchors : array or CSR matrix of shape (n_anchors, n_features)
        The documents x_i.
    beta : array of shape (n_anchors,)
    kernel : str
        A name of scikit-learn's `pairwise_kernels`.
    params : mapping
        The parameters of the kernel, such as gamma.
    feature_names, index_base, settings, training
        As in `linrank.LinearModel`.

    Examples
    --------
    >>> model = KernelModel(np.eye(2), [1.0, -1.0], "polynomial", {"degree": 2, "coef0": 0.0})
    >>> model.predict([[2.0, 1.0]]).tolist()
    [0.75]
    """

    format = "linrank-kernel"

    def __init__(
        self,
        anchors: Matrix,
        beta: Vector,
        kernel: str,
        params: Mapping[str, Any],
        *,
        feature_names: Sequence[str] | None = None,
        index_base: int = 1,
        settings: Mapping[str, object] | None = None,
        training: Mapping[str, object] | None = None,
    ) -> None:
        self.anchors, self.beta = check_matrix(anchors), np.array(beta, dtype=np.float64)
        self.kernel, self.params = kernel, dict(params)
        if self.beta.shape != (self.anchors.shape[0],):
            raise DataError(
                f"beta has shape {self.beta.shape} for {self.anchors.shape[0]} anchors; expected "
                "one number per anchor"
            )
        if not np.isfinite(self.beta).all():
            raise DataError("beta must be a vector of finite numbers")
        self._function = named_kernel(kernel, self.params)
        super().__init__(self.anchors.shape[1], feature_names, index_base, settings, training)

    def scores(self, X: Matrix, query_ptr: Integers | None = None) -> Vector:
        """Score the rows of a matrix with the right number of features."""
        return kernel_scores(self._function, check_matrix(X), kernel_rows(self.anchors), self.beta)

    def facts(self) -> dict[str, object]:
        """Return the kernel and the number of documents that it compares with."""
        params = ", ".join(f"{name}={value}" for name, value in self.params.items())
        return {"kernel": f"{self.kernel}({params})", "anchors": len(self.beta)}

    def _parameters(self) -> Content:
        return {
            "kernel": self.kernel,
            "params": self.params,
            "beta": self.beta.tolist(),
            "anchors": matrix_parts(self.anchors),
        }

    @classmethod
    def _from_parameters(cls, content: Content, **shared: Any) -> Self:
        if not isinstance(content["kernel"], str) or not isinstance(content["params"], dict):
            raise DataError("kernel must be a name, and params an object")
        beta = np.array(numbers(content, "beta"), dtype=np.float64)
        anchors = read_matrix(content["anchors"], (len(beta), content["n_features"]))
        return cls(anchors, beta, content["kernel"], content["params"], **shared)


# --------------------------------------------------------------------------------------------------
# `KernelRankSVM`: RankSVM in the feature space of a kernel.


METHODS = ("auto", "cholesky", "eigen", "newton", "nystroem")
EXACT_LIMIT = 5000  #: documents up to which "auto" factors the whole kernel matrix
DEFAULT_MEMORY = 2.0**32  #: bytes for matrices if the system does not report its memory


@dataclass(kw_only=True, eq=False, repr=False)
class KernelRankSVM(Ranker):
    """RankSVM with a kernel k: f(x) = Σ_i β_i k(x, x_i).

    The ranker minimises, over all pairs (i, j) of documents of one query with label i > label j,

        ½‖f‖² + C·Σ_(i,j) max(0, 1 − (f(x_i) − f(x_j)))²,    ‖f‖² = β'Kβ,

    where K is the kernel matrix of the documents (Chapelle & Keerthi 2010, §6.3, eq. 10).

    Parameters
    ----------
    kernel : str or callable
        A name of scikit-learn's `pairwise_kernels`, or a function of two rows. With
        ``"precomputed"``, X of `fit` is K, and X of `predict` is the kernel matrix between
        its documents and all documents of the fit.
    gamma, degree, coef0 : float
        Parameters of the kernels that have them. ``gamma=None`` is the default of
        scikit-learn, which is 1 / n_features for most kernels.
    kernel_params : mapping, optional
        Other parameters of the kernel, such as those of a function.
    C : float
        The weight of the loss against the penalty.
    method : {"auto", "cholesky", "eigen", "newton", "nystroem"}
        How the n documents that are in a pair are represented. Other documents do not
        change f.

        - ``cholesky`` and ``eigen`` compute an orthonormal basis of the span of the documents
          in feature space, from K = LL' or K = UΛU'. A linear RankSVM is trained on the
          coordinates ψ, for which ψ(x_i)'ψ(x_j) = k(x_i, x_j).
        - ``newton`` minimises over β itself. It is the slowest method, and a check of the
          other two. All three reach the same optimum in O(n³) time, with memory for 2·n²
          numbers (``eigen``: 3·n²).
        - ``nystroem`` is ``eigen`` for the span of `n_components` documents drawn at random.
          It is an approximation and takes O(n·n_components²) time.
        - ``auto`` is ``cholesky`` for up to 5000 documents (about ten seconds on one core,
          0.4 GB), and ``nystroem`` for more.
    n_components : int
        The number of documents that ``nystroem`` draws. If there are fewer, it uses all.
    max_memory : int, optional
        Largest number of bytes for matrices. The default is half of the machine's memory.
    loss, tol, solver, normalize, max_iter, n_threads, verbose
        See `linrank.RankSVM`. The formula above has the loss ``"squared_hinge"``.
    random_state : int, optional
        Seed of ``nystroem`` and of the stochastic solvers; None is 0.

    Attributes
    ----------
    dual_coef_ : float64 array of shape (n_anchors,)
        The β_i of the anchors, which are the documents that the basis consists of. For
        ``cholesky`` they are linearly independent in feature space, and for ``nystroem`` they
        are the documents drawn.
    X_fit_ : array or sparse matrix of shape (n_anchors, n_features)
        The features of the anchors; for ``kernel="precomputed"`` their row numbers.
    n_components_ : int
        The dimension of the space in which the ranker was trained.
    method_ : str
        The method used, which ``auto`` has chosen.
    result_ : Result
        Status, objective and history of the solver. Its `coef` holds the weights of the
        coordinates ψ, or β for ``newton``.
    model_ : KernelModel
        The ranker in the form that is saved: ``ranker.model_.save("model.json")``.
    n_pairs_, n_queries_, n_iter_, n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from linrank.estimators.kernel_ranksvm import KernelRankSVM
    >>> X = np.linspace(-1, 1, 21)[:, None]
    >>> y = np.abs(X[:, 0]) < 0.5  # the middle is best: no line can rank so
    >>> KernelRankSVM(gamma=5.0).fit(X, y).score(X, y)
    1.0
    """

    __metadata_request__fit: ClassVar = {"query_weight": True}

    kernel: str | Callable[..., float] = field(default="rbf", kw_only=False)
    gamma: float | None = None
    degree: float = 3
    coef0: float = 1.0
    kernel_params: Mapping[str, Any] | None = None
    C: float = 1.0
    method: str = "auto"
    n_components: int = 1000
    max_memory: float | None = None
    loss: LossName | Loss = "squared_hinge"
    tol: float | None = None
    solver: SolverChoice | Solver = "auto"
    normalize: NormalizeName | None = None
    max_iter: int = 1000
    n_threads: int | None = None
    random_state: int | None = None
    verbose: bool = False

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    def fit(
        self,
        X: Matrix | RankingData,
        y: ArrayLike | None = None,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        query_weight: ArrayLike | None = None,
        *,
        group: ArrayLike | None = None,
    ) -> KernelRankSVM:
        """Learn the coefficients β.

        Parameters
        ----------
        X, y, qid, sample_weight, query_weight, group
            See `linrank.RankSVM.fit`.
        """
        qid = queries(qid, group, y)
        kernel, settings = self._kernel(), self._settings()
        data = self._ranking_data(X, y, qid, sample_weight, query_weight)
        if self.kernel == "precomputed" and data.n_docs != data.n_features:
            raise DataError(
                f"X has shape {data.X.shape}; a precomputed kernel matrix is square. Pass the "
                "kernel between all documents of the fit."
            )
        if self.kernel != "precomputed":
            warn_of_given_scales(data, resolve_threads(self.n_threads))
        self.n_queries_ = data.n_queries
        self.n_pairs_ = settings.problem(data).engine.n_pairs  # raises errors before the long work
        data, places = _with_pairs(data)
        self.method_ = self._method(data.n_docs)
        rows = kernel_rows(data.X)
        documents = places if self.kernel == "precomputed" else rows
        with blas_threads(resolve_threads(self.n_threads)):
            features = self._features(kernel, rows, documents, row_keys(data.X))
            coordinates = vars(data) | {"X": features.psi, "feature_names": None}
            problem = settings.problem(RankingData.from_parts(**coordinates), self.C)
            if self.method_ == "newton":
                problem = KernelProblem(problem.engine, self.C)
        report = (lambda step: print_step(self.C, step, 0)) if self.verbose else None
        self._store(settings.new_solver(report).solve(problem), features, documents)
        return self

    @property
    def model_(self) -> KernelModel:
        """The ranker in the form that is saved: ``ranker.model_.save("model.json")``."""
        check_is_fitted(self)
        if not isinstance(self.kernel, str) or self.kernel == "precomputed":
            raise DataError(
                f"kernel is {self.kernel!r}, which a model file cannot hold. Use a kernel by name, "
                "such as 'rbf'."
            )
        settings = {name: getattr(self, name) for name in ("kernel", "C", "loss", "tol", "method")}
        return KernelModel(
            self.X_fit_, self.dual_coef_, self.kernel, self._params(),
            feature_names=getattr(self, "feature_names_in_", None), settings=settings,
            training=training_summary(self.result_, self.n_pairs_, self.n_queries_),
        )  # fmt: skip

    def _scores(self, X: Matrix) -> Vector:
        return kernel_scores(self._kernel(), X, self.X_fit_, self.dual_coef_, self.n_threads)

    # The steps of fit -----------------------------------------------------------------------

    def _kernel(self) -> Kernel:
        """Return the function that computes kernel matrices, ``(X, Z) ↦ k(x_i, z_j)``."""
        if callable(self.kernel):
            more = dict(self.kernel_params or {})
            return lambda X, Z: pairwise_kernels(X, Z, metric=self.kernel, **more)
        if self.kernel == "precomputed":
            return _columns
        choice("kernel", self.kernel, ["precomputed", *KERNEL_PARAMS], "or a function")
        return named_kernel(self.kernel, self._params())

    def _params(self) -> dict[str, Any]:
        """Return the parameters of a kernel that is given by name."""
        own = {"gamma": self.gamma, "degree": self.degree, "coef0": self.coef0}
        takes = KERNEL_PARAMS[self.kernel]
        taken = {name: value for name, value in own.items() if name in takes and value is not None}
        return taken | dict(self.kernel_params or {})

    def _settings(self) -> Settings:
        choice("method", self.method, METHODS)
        settings = Settings.of(
            loss=self.loss, solver=self.solver, tol=self.tol, max_iter=self.max_iter,
            normalize=self.normalize, scale=None, seed=as_seed(self.random_state),
            n_threads=resolve_threads(self.n_threads),
        )  # fmt: skip
        if self.method == "newton" and not isinstance(settings.solver, Newton | Tron):
            raise DataError(
                "method='newton' works with solver='newton' or 'tron' and a smooth loss, not with "
                f"solver={settings.solver.name!r} and loss={settings.loss.name!r}. Use "
                "method='cholesky'."
            )
        return settings

    def _method(self, n: int) -> str:
        """Return the method for n documents; raise a `DataError` if its matrices are too large."""
        m = whole_number("n_components", self.n_components)
        method = self.method
        if method == "auto":
            method = "cholesky" if n <= EXACT_LIMIT else "nystroem"
        nystroem, m = method == "nystroem", min(m, n)
        needed = 8 * n * n * (3 if method == "eigen" else 2)
        if nystroem:
            needed = 8 * (n * m + 3 * m * m)
        allowed = _memory() if self.max_memory is None else self.max_memory
        if not isinstance(allowed, float | int | np.number) or not allowed > 0:
            raise DataError(f"max_memory is {allowed!r}; expected a number of bytes above 0")
        if needed > allowed:
            way_out = "a smaller n_components" if nystroem else 'method="nystroem"'
            raise DataError(
                f"method {method!r} needs {needed / 1e9:,.3g} GB of memory for {n:,} documents, "
                f"and max_memory allows {allowed / 1e9:,.3g} GB. Use {way_out}, or a larger "
                "max_memory."
            )
        return method

    def _features(
        self, kernel: Kernel, rows: Matrix, documents: Documents, keys: Vector
    ) -> FeatureMap:
        if self.method_ == "nystroem":
            drawn = np.random.default_rng(as_seed(self.random_state)).permutation(len(keys))
            by_content = np.argsort(keys, kind="stable")  # not by the order of the rows
            return nystroem_map(kernel, rows, documents, by_content[drawn[: self.n_components]])
        make = {"cholesky": cholesky_map, "eigen": eigen_map, "newton": identity_map}
        return make[self.method_](np.ascontiguousarray(kernel(rows, documents)))

    def _store(self, result: Result, features: FeatureMap, documents: Documents) -> None:
        if not result.converged and result.status is not Status.INTERRUPTED:
            warn(result.message, NotConvergedWarning)
        if not result.coef.any():
            warn(f"all weights are 0: {NO_USEFUL_FEATURE}", NothingSelectedWarning)
        self.result_ = result
        self.dual_coef_ = features.dual(result.coef)
        self.X_fit_ = documents[features.anchors]
        self.n_components_ = features.psi.shape[1]
        self.n_iter_ = max(1, result.n_iter)
        if result.status is Status.INTERRUPTED:  # re-raise so that callers also stop
            raise KeyboardInterrupt(result.message)


class KernelProblem(Problem):
    """The objective ½β'K̃β + C·L(Kβ) in the β of Chapelle & Keerthi 2010, eq. 10.

    The matrix of the engine is K. With the derivatives g_L and H_L of L in the scores,

        gradient  K̃β + C·K'g_L(Kβ)          Hessian product  K̃v + C·K'H_L Kv.

    K̃ is K with `lift` added to its diagonal. The default is the smallest lift that makes K̃
    positive definite. Without it, β could grow without limit where K is singular.

    Examples
    --------
    >>> from linrank import RankingData, make_problem
    >>> from linrank.solvers import Newton
    >>> K = RankingData([[2.0, 1.0], [1.0, 2.0]], [1, 0])  # two documents, one pair
    >>> problem = KernelProblem(make_problem(K).engine, 0.5)
    >>> Newton().solve(problem).coef.round(6) + 0.0
    array([ 0.333333, -0.333333])
    """

    def __init__(self, engine: Engine, C: float, lift: float | None = None) -> None:
        super().__init__(engine, C)
        self.lift = smallest_lift(engine.data.X) if lift is None else lift

    def with_engine(self, engine: Engine) -> KernelProblem:
        """Return the same problem with the loss of another engine."""
        return KernelProblem(engine, self.C, self.lift)

    def with_C(self, C: float) -> KernelProblem:
        """Return the same problem with another C."""
        return KernelProblem(self.engine, C, self.lift)

    def value_grad(self, w: Vector) -> tuple[float, Vector]:
        """Return the objective and its gradient at β = w."""
        loss, gradient = self.loss(w)
        penalty = self.engine.scores(w) + self.lift * w
        return 0.5 * float(w @ penalty) + self.C * loss, self.C * gradient + penalty

    def hessp(self, v: Vector) -> Vector:
        """Return the Hessian times v."""
        return self.C * self.engine.hessp(v) + self.engine.scores(v) + self.lift * v

    def gap_bound(self, gradient: Vector) -> float:
        """Return infinity: K̃ may be nearly singular, so the gradient gives no bound."""
        return np.inf

    def hessian(self, of_loss: Vector | None = None) -> Vector:
        """Return the Hessian as a matrix, or a diagonal; see `linrank.problem.Problem`."""
        H = self.C * (self.engine.hessian() if of_loss is None else of_loss)
        if H.ndim == 1:
            return H + self.engine.data.X.diagonal() + self.lift
        H += self.engine.data.X
        H.flat[:: self.n_features + 1] += self.lift
        return H


def _with_pairs(data: RankingData) -> tuple[RankingData, Integers]:
    """Return the documents that are in a pair, and the caller's row numbers of them.

    For other documents β_i = 0, because the loss does not depend on their scores.
    """
    alive = np.ones(data.n_docs, bool) if data.weight is None else data.weight > 0
    starts, sizes = data.query_ptr[:-1], np.diff(data.query_ptr)
    top = np.maximum.reduceat(np.where(alive, data.y, -np.inf), starts)
    bottom = np.minimum.reduceat(np.where(alive, data.y, np.inf), starts)
    ranked = top > bottom
    if data.query_weight is not None:
        ranked &= data.query_weight > 0
    rows = np.flatnonzero(alive & np.repeat(ranked, sizes))
    places = np.arange(data.n_docs) if data.order is None else data.order
    return (data, places) if len(rows) == data.n_docs else (data.take(rows), places[rows])


def _columns(X: Matrix, columns: Integers) -> Vector:
    """Return columns of a precomputed kernel matrix."""
    return (X.toarray() if sparse.issparse(X) else X)[:, columns]


def _memory() -> float:
    """Return half of the machine's memory, in bytes."""
    if not hasattr(os, "sysconf"):
        return DEFAULT_MEMORY
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2
