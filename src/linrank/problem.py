"""The objective as an oracle: what a solver may ask about weights w."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ._checks import positive_number
from ._typing import Vector

if TYPE_CHECKING:
    from .engines.base import Engine
    from .penalties import Penalty


class Objective:
    """What a solver may ask of any problem: Ω(w) + C·Σ_pairs weight·ℓ(w'x_i − w'x_j).

    Parameters
    ----------
    engine : Engine
        The loss L as a function of the weights.
    C : float
        The weight of the loss against the penalty.
    """

    def __init__(self, engine: Engine, C: float) -> None:
        positive_number("C", C)
        self.engine = engine
        self.C = float(C)

    def with_C(self, C: float) -> Objective:
        """The same problem with another C; nothing is computed again."""
        raise NotImplementedError

    @property
    def n_features(self) -> int:
        """The length of w."""
        return self.engine.n_features

    def value_grad(self, w: Vector) -> tuple[float, Vector]:
        """The objective and a gradient at w."""
        raise NotImplementedError

    def _loss(self, w: Vector) -> tuple[float, Vector]:
        """L and its gradient at w, unless the engine has just computed them, for whatever C."""
        last = self.engine.last
        if last is not None and np.array_equal(w, last[0]):
            return last[1], last[2]
        return self.engine.value_grad(w)

    def start(self) -> tuple[float, float]:
        """The objective at w = 0 and the norm of C·∇L there, which stopping rules use."""
        loss, slope = self.engine.at_zero
        return self.C * loss, self.C * slope


class Problem(Objective):
    """L2-regularised ranking: minimise ½‖w‖² + C·Σ_pairs weight·ℓ(w'x_i − w'x_j).

    (Lee & Lin 2014, eq. 3, for the squared hinge ℓ.) The loss L and its derivatives come
    from an engine; with g_L and H_L those of L,

        gradient  w + C·g_L(w)          Hessian product  v + C·H_L v.

    `hessp` and `hessian` speak of the last w given to `value_grad` (and the first call of
    `start` evaluates w = 0).
    """

    def with_C(self, C: float) -> Problem:
        """The same problem with another C; nothing is computed again."""
        return Problem(self.engine, C)

    def value_grad(self, w: Vector) -> tuple[float, Vector]:
        """The objective and its gradient at w."""
        loss, gradient = self._loss(w)
        return 0.5 * float(w @ w) + self.C * loss, self.C * gradient + w

    def hessp(self, v: Vector) -> Vector:
        """The Hessian times v."""
        product = self.engine.hessp(v)
        product *= self.C
        product += v
        return product

    def gap_bound(self, gradient: Vector) -> float:
        """``½‖g‖² ≥ f(w) − f*``: f bends at least as much as its ½‖w‖², since L is convex."""
        return 0.5 * float(gradient @ gradient)

    def hessian(self, of_loss: Vector | None = None) -> Vector:
        """The Hessian as a matrix: exact, or with an estimate of the Hessian of the loss L.

        Where that is a diagonal, so is what is returned.
        """
        H = self.C * (self.engine.hessian() if of_loss is None else of_loss)
        if H.ndim == 1:
            return H + 1.0
        H.flat[:: self.n_features + 1] += 1.0
        return H


class SparseProblem(Objective):
    """Sparse ranking: minimise Ω(w) + C·Σ_pairs weight·ℓ(w'x_i − w'x_j).

    (Laporte et al. 2014, eq. 7 for l1 and the squared hinge, eq. 2 for other Ω.) The smooth
    part f = C·L and the penalty Ω are kept apart, because solvers treat them differently; the
    loss must have a derivative.
    """

    def __init__(self, engine: Engine, C: float, penalty: Penalty) -> None:
        super().__init__(engine, C)
        self.penalty = penalty.at(self.C).for_features(engine.n_features)

    def with_C(self, C: float) -> SparseProblem:
        """The same problem with another C; nothing is computed again."""
        return SparseProblem(self.engine, C, self.penalty)

    def with_penalty(self, penalty: Penalty) -> SparseProblem:
        """The same problem with another penalty; nothing is computed again."""
        return SparseProblem(self.engine, self.C, penalty)

    def value_grad(self, w: Vector) -> tuple[float, Vector]:
        """The objective f(w) + Ω(w), and the gradient of f."""
        loss, gradient = self._loss(w)
        return self.C * loss + self.penalty.value(w), self.C * gradient

    def hessp(self, v: Vector) -> Vector:
        """The Hessian of f times v."""
        return self.C * self.engine.hessp(v)

    def hessian_diagonal(self) -> Vector:
        """An estimate of the diagonal of the Hessian of f."""
        return self.C * self.engine.hessian_diagonal()

    def loss_hessian(self, features: NDArray[np.int64], n_rows: int | None = None) -> Vector:
        """The Hessian of L in some features, from a sample of about `n_rows` rows if given.

        At the last w of `value_grad`; that of f is C times it.
        """
        return self.engine.hessian(n_rows, features)

    @property
    def smallest_C(self) -> float:
        """The C from which on w = 0 is not optimal, where no feature is free."""
        return self.entry_C(np.zeros(self.n_features))

    def entry_C(self, w: Vector) -> float:
        """The C from which on a feature with a price comes in: min_j β_j·g'(0) / |∂L/∂w_j|.

        w is the optimum without such features. For penalties that are not convex, which begin
        with the l1 solution: of l1.
        """
        penalty = self.penalty
        _, gradient = self._loss(w)
        need = penalty.prices(np.zeros_like(w)) if penalty.convex else penalty.weights
        with np.errstate(divide="ignore", invalid="ignore"):
            C = np.where((gradient == 0) | (penalty.weights == 0), np.inf, need / np.abs(gradient))
        return float(C.min())
