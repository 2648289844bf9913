"""FISTA: proximal gradient steps from a point that runs ahead."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..errors import choice
from .result import Status
from .sparse import SparseSolver

STEPS = ("backtracking", "power", "paper")
LOOK = 10  #: steps of a constant length from one look at the objective to the next
EASE = 0.7  #: what a backtracking L is multiplied by where it may fall
MARGIN = 1.1  #: L above a curvature that is only estimated, or that a concave penalty adds to
POWER_TOL, POWER_STEPS = 1e-3, 100  #: when the power iteration ends
BLOCK = 128  #: features whose part of the trace is computed at a time
ROUNDING = 1e-13  #: relative changes of the objective below this are rounding


@dataclass
class FISTA(SparseSolver):
    """``w_k = prox_{Ω/L}(z_k − ∇f(z_k)/L)``, accelerated (Laporte et al. 2014, algorithm 1).

    With f = C·Σ_p ℓ(w'x̃_p), which is the paper's J₁ + λΩ times C = 1/λ, and

        t_{k+1} = (1 + √(1 + 4t_k²))/2,    z_{k+1} = w_k + (t_k − 1)/t_{k+1}·(w_k − w_{k−1}).

    Where z runs uphill, the momentum starts anew (O'Donoghue & Candès 2015, the gradient
    scheme). Concave penalties have no such proof: they get plain proximal steps, z_k = w_k,
    which lower the objective every time and end at a critical point. There the first step is
    taken even from a critical point, because w = 0 is one wherever g'(0) is infinite.

    A step costs a gradient at z and, to see the objective at w, a second evaluation: always when
    backtracking, else at every tenth step. Where there is no momentum the two are one.

    Parameters
    ----------
    step : {"backtracking", "power", "paper"}
        L. By backtracking: large enough for f(w) ≤ f(z) + ∇f(z)'(w − z) + ½L‖w − z‖² at each
        step; it may fall where there is no momentum. By power iteration: the largest eigenvalue
        of a matrix that is above every Hessian (see `dominating_engine`). As in the paper's
        proposition 1: the trace of that matrix, 2C·Σ_p‖x̃_p‖² for the squared hinge.
    restart : bool
        Whether the momentum may start anew.

    Examples
    --------
    >>> from linrank import make_ranking
    >>> from linrank.path import make_problem
    >>> from linrank.penalties import L1
    >>> problem = make_problem(make_ranking(random_state=0), C=1e-4, penalty=L1())
    >>> result = FISTA(tol=1e-4).solve(problem)
    >>> result.converged, result.gap <= 1e-4
    (True, True)
    """

    step: str = "backtracking"
    restart: bool = True
    L: float = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        choice("step", self.step, STEPS)

    def _minimise(self) -> Status:
        convex = self.problem.penalty.convex
        if convex and self._is_done():
            return Status.CONVERGED
        self.L = self._first_L()
        z, before, t = self.point, self.point.w, 1.0
        for k in range(1, self.max_iter + 1):
            looks = self.step == "backtracking" or k % LOOK == 0 or k == self.max_iter
            new = self._proximal_step(z, looks)
            moved = new.w - before
            if not convex or (self.restart and float((z.w - new.w) @ moved) > 0):
                t = 1.0
            t, momentum = 0.5 + np.sqrt(0.25 + t * t), t - 1.0
