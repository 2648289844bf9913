"""`KernelRankSVM`: RankSVM in the feature space of a kernel."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.metrics.pairwise import KERNEL_PARAMS, pairwise_kernels
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from .._checks import choice, whole_number
from .._threads import blas_threads, resolve_threads
from .._typing import Integers, Vector
from ..counting.names import NormalizeName
from ..data.checks import Matrix
from ..data.keys import row_keys
from ..data.ranking import RankingData
from ..engines.base import Engine
from ..errors import DataError, NotConvergedWarning, warn
from ..losses.base import Loss
from ..losses.tables import LossName
from ..problem import Problem
from ..settings import Settings
from ..solvers import SolverChoice
from ..solvers.base import Solver
from ..solvers.newton import Newton
from ..solvers.result import Result, Status
from ..solvers.tron import Tron
from ..training import training_summary
from .base import Ranker
from .feature_maps import (
    Documents,
    FeatureMap,
    Kernel,
    cholesky_map,
    eigen_map,
    identity_map,
    nystroem_map,
    smallest_lift,
)
from .habits import queries
from .kernel_model import KernelModel, kernel_rows, kernel_scores, named_kernel
from .trained import as_seed, print_step

METHODS = ("auto", "cholesky", "eigen", "newton", "nystroem")
EXACT_LIMIT = 5000  #: documents up to which "auto" factors the whole kernel matrix
DEFAULT_MEMORY = 2.0**32  #: bytes for matrices if the system does not report its memory


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
    >>> from linrank.estimators.kernel import KernelRankSVM
    >>> X = np.linspace(-1, 1, 21)[:, None]
    >>> y = np.abs(X[:, 0]) < 0.5  # the middle is best: no line can rank so
    >>> KernelRankSVM(gamma=5.0).fit(X, y).score(X, y)
    1.0
    """

    __metadata_request__fit: ClassVar = {"query_weight": True}

    dual_coef_: Vector
    result_: Result

    def __init__(
        self,
        kernel: str | Callable[..., float] = "rbf",
        *,
        gamma: float | None = None,
        degree: float = 3,
        coef0: float = 1.0,
        kernel_params: Mapping[str, Any] | None = None,
        C: float = 1.0,
        method: str = "auto",
        n_components: int = 1000,
        max_memory: float | None = None,
        loss: LossName | Loss = "squared_hinge",
        tol: float = 1e-3,
        solver: SolverChoice | Solver = "auto",
        normalize: NormalizeName | None = None,
        max_iter: int = 1000,
        n_threads: int | None = None,
        random_state: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.C = C
        self.method = method
        self.n_components = n_components
        self.max_memory = max_memory
        self.loss = loss
        self.tol = tol
        self.solver = solver
        self.normalize = normalize
        self.max_iter = max_iter
        self.n_threads = n_threads
        self.random_state = random_state
        self.verbose = verbose

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
            normalize=self.normalize, seed=as_seed(self.random_state),
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
