"""Stochastic gradient descent over pairs or queries: a rough solution after a few epochs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from .._checks import boolean, choice
from .._typing import Vector
from ..engines.threads import ThreadEngine
from ..errors import DataError
from .base import Iterate, Solver, state
from .needs import Needs
from .result import Status
from .smooth import estimated_distance
from .smoothing import Smoothing
from .stochastic import STEPS, SGDState, StepName, StochasticPass, check_seed

WINDOW = 5  #: epochs over which the objective must have settled; more epochs stop later
SETTLED_GAP = 10.0  #: f(w) − f*, as a fraction of ε·f(w), above which a fit has not settled
BOUND_PART = 0.5  #: gap of the lower bound, as a fraction of the distance that it must prove
LARGEST_WEIGHT = 1e100  #: absolute weight above which steps of length 1/t have diverged


@dataclass
class StochasticSolver(Solver):
    """Base class of both solvers; `linrank.solvers.stochastic` describes the steps."""

    seed: int = 0
    average: bool = True
    step: StepName = "adaptive"
    needs: ClassVar[Needs] = Needs(loss="pairwise", penalties=("l2",), rows=True)
    over: ClassVar[Literal["pairs", "queries"]]
    _steps: StochasticPass = state()
    _state: SGDState = state()
    _values: list[float] = state()

    def __post_init__(self) -> None:
        super().__post_init__()
        check_seed(self.seed)
        boolean("average", self.average)
        choice("step", self.step, STEPS)

    def _prepare(self) -> None:
        engine = self.problem.engine
        assert isinstance(engine, ThreadEngine)
        self._steps = StochasticPass(engine, self.over, self.step)
        self._state = SGDState(self.problem.n_features, self.seed)
        self._state.w[:] = self.point.w
        self._steps.join(self._state)
        self._values = [self.point.value]

    def _minimise(self) -> Status:
        for _ in range(self.max_iter):
            if (status := self._status()) is not None:
                return status
            self._steps.run(self._state, self.problem.C, self._steps.n_steps)
            w = self.weights_of(self._state)
            if not np.abs(w).max() < LARGEST_WEIGHT:
                raise DataError(
                    f"solver={self.name!r} with step={self.step!r} has diverged: its first steps "
                    f"are too long for these features and C={self.problem.C:g}. Use "
                    "step='adaptive'."
                )
            trial = Iterate(w, *self.problem.value_grad(w))
            self._values.append(trial.value)
            if trial.value <= self.point.value:
                self.point = trial
            self._record()
        return self._status() or Status.MAX_ITER

    def weights_of(self, stream: SGDState) -> Vector:
        """Return the mean of the iterates, or the last one if `average` is False."""
        return stream.coef if self.average else stream.w.copy()

    def _allowed(self) -> float:
        return SETTLED_GAP * super()._allowed()

    def _excess(self, goal: float) -> float:
        """Estimate f(w) − f* by a Newton step or, if the loss has corners, by a lower bound on f*.

        The bound is that of `Smoothing`, with at most as many iterations as there were epochs.
        """
        problem, spent = self.problem, len(self._values)
        if problem.engine.loss.smooth:
            problem.engine.last = None  # Steps on queries overwrite what Hessian products refer to.
            return estimated_distance(problem, self.point.w, goal, spent)
        smoothing = Smoothing(tol=BOUND_PART * goal / self.point.value, max_iter=spent)
        smoothing.solve(problem, self.point.w)
        return self.point.value - smoothing.bound

    def _status(self) -> Status | None:
        """Return why to stop: the optimum is near, or the objective has settled."""
        if self.problem.gap_bound(self.point.gradient) <= self.tol * self.point.value:
            return Status.CONVERGED
        last = self._values[-WINDOW - 1 :]
        settled = len(last) > WINDOW and max(last) - min(last) <= self.tol * min(last)
        return Status.SETTLED if settled else None


@dataclass
class PairSGD(StochasticSolver):
    """Stochastic gradient descent over pairs (Chapelle & Keerthi 2010, algorithm 2).

    For a pair (i, j) drawn at random, the step is

        w ← w − η (λw + ℓ'(w'(x_i − x_j))(x_i − x_j)).

    The step lengths η and the averaging are those of `linrank.solvers.stochastic`. The probability
    of a pair is proportional to its weight. Without weights all pairs have the same probability.
    With ``normalize="queries"`` all queries have the same probability (Sculley 2009).

    An iteration is an epoch: as many steps as there are documents, and one evaluation of the
    objective.

    The solver stops with `Status.CONVERGED` when ½‖g(w)‖², a bound on the distance to the optimum,
    is at most ε·f(w). More often it stops when the last six objectives are within ε of each other.
    The objective may then still be falling slowly, so the distance to the optimum is estimated by a
    Newton step. The status is `Status.SETTLED` if the distance is at most 10·ε·f(w), and otherwise
    `Status.FAR`. The weights are those of the epoch with the smallest objective.

    Parameters
    ----------
    tol : float
        ε of the stopping rules.
    max_iter : int
        The largest number of epochs.
    callback : callable, optional
    seed : int
        Seed of the random numbers. The same seed gives the same bits.
    average : bool
        Whether the weights are the mean of the iterates, or the last iterate.
    step : {"adaptive", "paper"}
        ``adaptive``: the step lengths and the preconditioner of `linrank.solvers.stochastic`.
        ``paper``: the steps of the paper as written, whose lengths are 1/t. They are too short if
        C is small, and their first ones too long if C is large. The paper does not average, which
        is ``average=False``.

    Examples
    --------
    >>> from linrank import make_ranking
    >>> from linrank.problem import make_problem
    >>> result = PairSGD(max_iter=20).solve(make_problem(make_ranking(random_state=0), C=0.01))
    >>> result.n_products, result.objective < 30.0
    (0, True)
    """

    name: ClassVar[str] = "sgd-pairs"
    over = "pairs"


@dataclass
class QuerySGD(StochasticSolver):
    """Stochastic gradient descent over queries (Chapelle & Keerthi 2010, algorithm 3).

    For a query q drawn at random, with the mean gradient g_q of its pairs, the step is

        w ← w − η (λw + g_q).

    A step for a query of l documents takes O(l log l) time for any number of pairs. The probability
    of a query is proportional to the weight of its pairs, so that all queries have the same step
    length. An epoch has as many steps as there are queries. The method is for many queries: with
    one query, it is plain gradient descent.

    Stopping and parameters are those of `PairSGD`.

    Parameters
    ----------
    tol, max_iter, callback, seed, average, step
        See `Solver` and `PairSGD`.

    Examples
    --------
    >>> from linrank import make_ranking
    >>> from linrank.problem import make_problem
    >>> result = QuerySGD(max_iter=20).solve(make_problem(make_ranking(random_state=0), C=0.01))
    >>> result.n_products, result.objective < 30.0
    (0, True)
    """

    name: ClassVar[str] = "sgd-queries"
    over = "queries"
