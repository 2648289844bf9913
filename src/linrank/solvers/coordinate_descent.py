"""Coordinate descent for the domination loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .._checks import boolean
from ..engines.threads import ThreadEngine
from ..penalties.base import SeparablePenalty
from .base import ROUNDING, Iterate, Solver, state
from .coordinates import CoordinateSteps, Rule
from .needs import Needs
from .result import Status
from .smooth import SmoothSolver
from .sparse import SparseSolver

GROWTH = 1.5  #: factor of η after a sweep that lowers the objective
SETBACK = 16.0  #: divisor of η after a sweep that does not lower the objective


@dataclass
class CoordinateDescent(SparseSolver, SmoothSolver):
    """Coordinate descent of Domination Rank (Stevens, Bengio & Singer 2013, fig. 1.1 and §1.4).

    For each feature r in turn, the step is

        w_r ← argmin_v g_r v + ½(β_r/η)(v − w_r)² + Ω_r(v).

    Here g_r is the derivative of C times the loss. β_r = C·m·max_j x_jr², summed over the queries,
    is an upper bound on the second derivative (eq. 1.3). With η = 1 no step raises the objective.
    Ω is ½‖w‖², l1 with any costs, including 0 (lemmas 1 and 2), or the elastic net. The solver
    needs a domination loss. It stops on the rule of `SmoothSolver` for ½‖w‖², and on the rule of
    `SparseSolver` for other penalties.

    An iteration is a sweep over all features, in O(entries of X), and an evaluation of the
    objective. A weight that changes also costs a visit to all dominating documents of the queries
    with the feature (`linrank.solvers.coordinates`). This is cheap if few documents are relevant,
    but takes most of the time if half of them are.

    Parameters
    ----------
    relax : bool
        Whether steps may be longer than those of the paper (Roweis & Salakhutdinov 2003). If True,
        η grows by half after every sweep. A sweep that does not lower the objective is undone, and
        η is divided by 16, but not below 1. If False, η = 1, as in `PaperCoordinateDescent`.

        The bound β is far above the curvature for features that few documents have. On text-like
        data (50,000 × 40,000, l1, ten times the smallest C), longer steps came within 1e-4 of
        the optimum in 25 sweeps. Without them, 158 sweeps were still 5 % above it.
    tol, max_iter, callback, stop
        See `Solver` and `Newton`.

    Examples
    --------
    >>> from linrank import make_ranking
    >>> from linrank.problem import make_problem
    >>> from linrank.penalties import L1
    >>> problem = make_problem(make_ranking(random_state=0), 0.1, loss="domination", penalty=L1())
    >>> result = CoordinateDescent(tol=1e-4).solve(problem)
    >>> result.converged, result.gap <= 1e-4
    (True, True)
    """

    relax: bool = True
    name: ClassVar[str] = "coordinate-descent"
    needs: ClassVar[Needs] = Needs(loss="listwise", penalties=("l2", "convex"), rows=True)
    _coordinates: CoordinateSteps | None = state(default=None)
    _rule: Rule = state()

    def __post_init__(self) -> None:
        super().__post_init__()
        boolean("relax", self.relax)

    def _prepare(self) -> None:
        super()._prepare()
        engine, penalty = self.problem.engine, self.problem.penalty
        assert isinstance(engine, ThreadEngine)
        assert isinstance(penalty, SeparablePenalty)
        if self._coordinates is None or self._coordinates.engine is not engine:
            self._coordinates = CoordinateSteps(engine)
        self._rule = Rule(self.problem.C, self._coordinates.bound, 1.0, *penalty.parts())

    def _minimise(self) -> Status:
        eta = 1.0
        for _ in range(self.max_iter):
            if self._is_done():
                return Status.CONVERGED
            if self._keep(self._sweep(eta)):
                eta *= GROWTH if self.relax else 1.0
            elif eta > 1.0:
                eta = max(1.0, eta / SETBACK)
            else:
                return self._status_at_rest()
            self._record()
        return Status.CONVERGED if self._is_done() else Status.MAX_ITER

    def _sweep(self, eta: float) -> Iterate:
        assert self._coordinates is not None
        w = self.point.w.copy()
        self._coordinates.begin(w)
        self._coordinates.sweep(w, self._rule._replace(eta=eta))
        return Iterate(w, *self.problem.value_grad(w))

    def _keep(self, new: Iterate) -> bool:
        """Accept a point with a lower objective, or a smaller gradient if rounding hides it."""
        old, away = self.point, self._relative_norm()
        change = new.value - old.value
        self.point = new
        if change < 0 or (change <= ROUNDING * abs(old.value) and self._relative_norm() < away):
            return True
        self.point = old
        return False

    def _relative_norm(self) -> float:
        return (Solver if self.problem.penalty.smooth else SparseSolver)._relative_norm(self)

    def _status_at_rest(self) -> Status:
        if self.problem.penalty.smooth:
            return super()._status_at_rest()
        return Status.PRECISION if self._gradient_is_small() else Status.STUCK

    def _allowed(self) -> float:
        return (SmoothSolver if self.problem.penalty.smooth else SparseSolver)._allowed(self)

    def _excess(self, goal: float) -> float:
        kind = SmoothSolver if self.problem.penalty.smooth else SparseSolver
        return kind._excess(self, goal)

    def _is_done(self) -> bool:
        return self._has_arrived() if self.problem.penalty.smooth else super()._is_done()


@dataclass
class PaperCoordinateDescent(CoordinateDescent):
    """Coordinate descent with the steps of Stevens, Bengio & Singer 2013, fig. 1.1: η = 1.

    The features are visited in order. Each step minimises the bound of eq. 1.3, or of eq. 1.4 with
    a penalty:

        δ_r = −g_r / β_r,    β_r = C·Σ_q m_q·max_{j∈q} x_jr².

    m_q is the number of documents of query q that dominate others. The paper does not say when it
    stops. The rule is that of `CoordinateDescent`.

    Parameters
    ----------
    tol, max_iter, callback, stop
        See `CoordinateDescent`.

    Examples
    --------
    >>> from linrank import make_ranking
    >>> from linrank.problem import make_problem
    >>> problem = make_problem(make_ranking(random_state=0), 0.1, loss="domination")
    >>> values = [s.objective for s in PaperCoordinateDescent(max_iter=5).solve(problem).history]
    >>> all(after < before for before, after in zip(values, values[1:]))
    True
    """

    relax: bool = state(default=False)  #: longer steps would not be those of the paper
    name: ClassVar[str] = "coordinate-descent-paper"
