"""The objective of a fit: value, gradient and Hessian as functions of the weights w."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ._util.checks import positive_number
from ._util.types import Integers, Mask, Vector
from .counting.preferences import ALL_PAIRS, Preferences
from .engines.engine import make_engine
from .errors import DataError
from .losses.registry import get_loss
from .penalties.penalty import make_penalty
from .penalties.separable import L2

if TYPE_CHECKING:
    from .choices import CountingName, EngineName, NormalizeName
    from .data.ranking import RankingData
    from .engines.engine import Engine
    from .losses import Loss, LossName
    from .penalties import Penalty, PenaltyName


class Problem:
    """Regularised ranking: minimise Ω(w) + C·L(w) within the bounds of Ω.

    An engine computes L(w) = Σ_pairs weight·ℓ(w'x_i − w'x_j), or the domination loss. With the
    default penalty Ω(w) = ½‖w‖² and the squared hinge, the problem is Lee & Lin 2014, eq. 3. With
    l1 it is Laporte et al. 2014, eq. 7, and with other penalties their eq. 2.

    If Ω has a derivative, the *smooth part* f is Ω + C·L, and otherwise C·L. Gradients and Hessians
    are those of f. Solvers use the proximal operator of any other Ω. `hessp` and `hessian` refer to
    the last w of `value_grad`. The first call of `start` evaluates w = 0.

    Parameters
    ----------
    engine : Engine
        The loss L as a function of the weights.
    C : float
        The weight of the loss against the penalty.
    penalty : Penalty, optional
        Ω with its bounds; the default is ½‖w‖².
    """

    def __init__(self, engine: Engine, C: float, penalty: Penalty | None = None) -> None:
        self.engine = engine
        self.C = positive_number("C", C)
        penalty = L2() if penalty is None else penalty
        self.penalty = penalty.at(self.C).for_features(engine.n_features, engine.data.feature_names)

    def with_C(self, C: float) -> Problem:
        """Return the same problem with another C; the engine is shared."""
        return Problem(self.engine, C, self.penalty)

    def with_penalty(self, penalty: Penalty) -> Problem:
        """Return the same problem with another penalty; the engine is shared."""
        return Problem(self.engine, self.C, penalty)

    def with_engine(self, engine: Engine) -> Problem:
        """Return the same problem with the loss of another engine."""
        return Problem(engine, self.C, self.penalty)

    free: ClassVar[Mask | None] = None  #: all features may move; see `Face`

    @property
    def n_features(self) -> int:
        """The length of w."""
        return self.engine.n_features

    def value_grad(self, w: Vector) -> tuple[float, Vector]:
        """Return the objective at w and the gradient of the smooth part f.

        If Ω is smooth and a bound blocks the descent in a feature, its entry of the gradient is 0.
        The gradient is therefore 0 at the optimum.
        """
        loss, gradient = self.loss(w)
        gradient = self.C * gradient
        if isinstance(self.penalty, L2):
            gradient += self.penalty.gradient(w)
            limits = self.penalty.limits
            if limits is not None:
                gradient[limits.blocks(w, -gradient)] = 0.0
        return self.penalty.value(w) + self.C * loss, gradient

    def loss(self, w: Vector) -> tuple[float, Vector]:
        """Return L and its gradient at w; the last evaluation of the engine is not repeated."""
        last = self.engine.last
        if last is not None and np.array_equal(w, last[0]):
            return last[1], last[2]
        return self.engine.value_grad(w)

    def start(self) -> tuple[float, float]:
        """Return the objective at w = 0 and the norm of C·∇L there, which stopping rules use."""
        loss, slope = self.engine.at_zero
        return self.C * loss, self.C * slope

    def hessp(self, v: Vector) -> Vector:
        """Return the Hessian of f times v."""
        product = self.engine.hessp(v)
        product *= self.C
        if isinstance(self.penalty, L2):
            product += self.penalty.curvature * v
        return product

    def hessian(self, of_loss: Vector | None = None) -> Vector:
        """Return the Hessian of f as a matrix: exact, or from an estimate for the loss L.

        If the estimate is a diagonal, the function returns a diagonal.
        """
        H = self.C * (self.engine.hessian() if of_loss is None else of_loss)
        if not isinstance(self.penalty, L2):
            return H
        if H.ndim == 1:
            return H + self.penalty.curvature
        H.flat[:: self.n_features + 1] += self.penalty.curvature
        return H

    def hessian_diagonal(self) -> Vector:
        """Return an estimate of the diagonal of the Hessian of f."""
        return self.hessian(self.engine.hessian_diagonal())

    def loss_hessian(self, features: Integers, n_rows: int | None = None) -> Vector:
        """Return the Hessian of L in some features, at the last w of `value_grad`.

        If `n_rows` is given, the Hessian is that of a sample of about `n_rows` rows.
        """
        return self.engine.hessian(n_rows, features)

    def gap_bound(self, gradient: Vector) -> float:
        """Return the bound ½‖g‖² ≥ f(w) − f*, for the penalty ½‖w‖².

        L is convex, so the curvature of the objective is at least that of ½‖w‖².
        """
        return 0.5 * float(gradient @ gradient)

    def face(self, w: Vector, gradient: Vector) -> Problem | Face:
        """Return the problem in the features that may move from w, given the gradient at w."""
        limits = self.penalty.limits
        if limits is None:
            return self
        return Face(self, ~((gradient == 0) & ((w <= limits.low) | (w >= limits.high))))

    def beyond_bounds(self, w: Vector) -> Mask | None:
        """Return None: a problem without bounds has no weights beyond them; see `Face`."""
        return None

    def clip(self, w: Vector) -> Vector:
        """Return the nearest weights within the bounds; without bounds, w itself."""
        return self.penalty.clip(w)

    def smallest_C(self) -> float:
        """Return the smallest C at which a feature gets a weight, if all features have a cost."""
        return self.entry_C(np.zeros(self.n_features))

    def entry_C(self, w: Vector) -> float:
        """Return the smallest C at which a penalised feature gets a weight.

        w is the optimum without penalised features.
        """
        return self.penalty.entry_C(self.loss(w)[1])


class Face:
    """A problem in which some features may move and the others are fixed.

    It has the methods of `Problem` for gradients and Hessians. Vectors keep their length, with 0
    for the fixed features.

    Parameters
    ----------
    problem : Problem
    free : bool array of shape (n_features,)
        The features that may move.
    """

    def __init__(self, problem: Problem, free: Mask) -> None:
        self.problem, self.free = problem, free
        self.engine, self.n_features = problem.engine, problem.n_features

    def hessp(self, v: Vector) -> Vector:
        """Return the Hessian times v, where v is 0 for the fixed features."""
        return np.where(self.free, self.problem.hessp(v), 0.0)

    def hessian(self, of_loss: Vector | None = None) -> Vector:
        """Return the Hessian, with rows and columns of the identity for the fixed features."""
        H = self.problem.hessian(of_loss)
        if H.ndim == 1:
            return np.where(self.free, H, 1.0)
        stays = ~self.free
        H[stays] = 0.0
        H[:, stays] = 0.0
        H[stays, stays] = 1.0
        return H

    def gap_bound(self, gradient: Vector) -> float:
        """Return ½‖g‖² ≥ f(w) − f*; see `Problem.gap_bound`."""
        return self.problem.gap_bound(gradient)

    def beyond_bounds(self, w: Vector) -> Mask | None:
        """Return the free features with weights beyond their bounds; None if there are none."""
        limits = self.problem.penalty.limits
        assert limits is not None
        beyond = self.free & ((w < limits.low) | (w > limits.high))
        return beyond if beyond.any() else None

    def without(self, features: Mask) -> Face:
        """Return the face in which these features are fixed, too."""
        return Face(self.problem, self.free & ~features)


def make_problem(
    data: RankingData,
    C: float = 1.0,
    *,
    loss: LossName | Loss = "squared_hinge",
    counting: CountingName = "auto",
    preferences: Preferences = ALL_PAIRS,
    normalize: NormalizeName | None = None,
    penalty: PenaltyName | Penalty | None = None,
    n_threads: int | None = None,
    engine: EngineName = "threads",
) -> Problem:
    """Return the problem of ranking the data.

    Parameters
    ----------
    data : RankingData
    C : float
    loss, counting, normalize, n_threads, engine
        See `linrank.RankSVM`.
    preferences : Preferences
        Which pairs are compared, with which margins.
    penalty : Penalty, optional
        The default is ½‖w‖².

    Returns
    -------
    Problem

    Examples
    --------
    >>> from linrank import make_problem, make_ranking
    >>> from linrank.solvers import Newton
    >>> problem = make_problem(make_ranking(random_state=0), C=0.01, loss="huber")
    >>> result = Newton(tol=1e-6).solve(problem)
    >>> value, gradient = problem.value_grad(result.coef)
    >>> result.converged, gradient.shape
    (True, (20,))
    """
    chosen = make_engine(
        engine, data, get_loss(loss), normalize, n_threads, counting=counting,
        preferences=preferences,
    )  # fmt: skip
    return problem_of(chosen, C, None if penalty is None else make_penalty(penalty))


def problem_of(engine: Engine, C: float, penalty: Penalty | None = None) -> Problem:
    """Return the problem of an engine; raise a `DataError` if its data have no pair."""
    if engine.n_pairs == 0:
        raise no_pair(engine.data)
    return Problem(engine, C, penalty)


def no_pair(data: RankingData) -> DataError:
    """Return the error for data without any pair of different labels."""
    return DataError(
        "there is no pair to learn from: within every query all labels are equal "
        f"({data.n_docs:,} documents in {data.n_queries:,} "
        f"{'query' if data.n_queries == 1 else 'queries'}). Check the labels and the query ids."
    )
