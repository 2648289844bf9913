"""Stochastic gradient descent: a rough answer after a few looks at the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from .._typing import Vector
from ..engines.threads import ThreadEngine
from ..errors import DataError
from .base import Iterate, Solver, state
from .needs import Needs
from .result import Status
from .stochastic import SGDState, StochasticPass, check_seed

WINDOW = 5  #: epochs over which the objective must have settled


@dataclass
class _SGD(Solver):
    """What both kinds share; the step is described in `linrank.solvers.stochastic`."""

    seed: int = 0
    average: bool = True
    needs: ClassVar[Needs] = Needs(loss="pairwise", penalties=("smooth",), rows=True)
    over: ClassVar[Literal["pairs", "queries"]]
    _steps: StochasticPass = state()
    _state: SGDState = state()
    _values: list[float] = state()

    def __post_init__(self) -> None:
        super().__post_init__()
        check_seed(self.seed)
        if not isinstance(self.average, bool):
            raise DataError(f"average is {self.average!r}; expected True or False")

    def _prepare(self) -> None:
        engine = self.problem.engine
        assert isinstance(engine, ThreadEngine)
        self._steps = StochasticPass(engine, self.over)
        self._state = SGDState(self.problem.n_features, self.seed)
        self._state.w[:] = self.point.w
        self._steps.join(self._state)
        self._values = [self.point.value]

    def _minimise(self) -> Status:
        for _ in range(self.max_iter):
            if (status := self._status()) is not None:
                return status
            self._steps.run(self._state, self.problem.C, self._steps.n_steps)
            w = self._weights()
            trial = Iterate(w, *self.problem.value_grad(w))
            self._values.append(trial.value)
            if trial.value <= self.point.value:
                self.point = trial
            self._record()
        return self._status() or Status.MAX_ITER

    def _weights(self) -> Vector:
        return self._state.coef if self.average else self._state.w.copy()

    def _status(self) -> Status | None:
        """Return why to stop: the optimum is near, or the objective has settled."""
        if self.problem.gap_bound(self.point.gradient) <= self.tol * self.point.value:
            return Status.CONVERGED
        last = self._values[-WINDOW - 1 :]
        settled = len(last) > WINDOW and max(last) - min(last) <= self.tol * min(last)
        return Status.SETTLED if settled else None


@dataclass
class PairSGD(_SGD):
    """``w ← w − η (λw + ℓ'(w'(x_i − x_j))(x_i − x_j))`` for a pair (i, j) drawn at random.

    Chapelle & Keerthi 2010, algorithm 2; the step lengths and the averaging are those of
    `linrank.solvers.stochastic`. Pairs are drawn by their weight: without weights all have the
    same chance, and with ``normalize="queries"`` all queries have (Sculley 2009).

    An epoch, which counts as an iteration, is as many steps as there are documents, and one
    evaluation of the objective.

    The solver stops with `Status.CONVERGED` when ½‖g(w)‖², a bound on the distance to the optimum,
    is at most ε·f(w). More often it stops with `Status.SETTLED`, when the objectives of the last
    five epochs, and the one before them, are within ε of each other: they may still be falling, by
    less than that. Expect ε = 1e-3 to end within about 1e-2 of the optimum where a good part of
    the pairs cannot be ranked right, and farther from it where nearly all can. The weights
    returned are those of the epoch with the least objective.

    Parameters
    ----------
    tol : float
        ε of these rules.
    max_iter : int
        The largest number of epochs.
    callback : callable, optional
    seed : int
        Of the random numbers. The same seed gives the same bits.
    average : bool
        Whether the weights are the mean of the iterates, or the last one.

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
class QuerySGD(_SGD):
    """``w ← w − η (λw + g_q)`` for a query q drawn at random, g_q the mean gradient of its pairs.

    Chapelle & Keerthi 2010, algorithm 3: O(l log l) for a query of l documents, however many
    pairs they make. Queries are drawn by the weight of their pairs, so that none needs
    a longer step than another. An epoch is as many steps as there are queries. It needs many
    queries: with one, a step is a step of plain gradient descent.

    Stopping and parameters are those of `PairSGD`.

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
