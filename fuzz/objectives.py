"""Campaign "objectives": every reported objective and lower bound, in extended precision.

The problems are those of campaign "problems", with extreme scales: C from 1e-8 to 1e8, offsets of
the features up to 1e8, single precision, and weights of documents from 1e-8 to 1e8. The objective
that a fit reports must be that of its weights, and its lower bound must not exceed the objective
of any weights. Both are recomputed over listed pairs with `numpy.longdouble`, which has 64 bits of
precision on x86 and 53 to 113 bits elsewhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from linrank import DataError
from linrank.solvers import Result, Solver, make_solver

from .campaign import Campaign, Case
from .problems import CONCAVE, Drawn, prepare, slow_problem
from .problems import draw as draw_problem

EXACT = 1e-9  #: relative error of a reported objective that rounding explains
FITS = 4  #: problems per case
PRECISE = 1e-10  #: tolerance of the second fit, whose objective the lower bound must not exceed


def draw(rng: np.random.Generator) -> Drawn:
    """Return a random problem with extreme scales."""
    drawn = draw_problem(rng)
    data = dict(drawn.data)
    n, d = data["X"].shape
    if rng.random() < 0.3:
        data["X"] = data["X"] + 10.0 ** rng.uniform(2, 8, d) * rng.choice([0.0, 1.0], d)
    if rng.random() < 0.3:
        data["X"] = data["X"].astype(np.float32)
    if rng.random() < 0.3:
        data["sample_weight"] = 10.0 ** rng.uniform(-8, 8, n)
    return drawn._replace(data=data, C=float(10.0 ** rng.uniform(-8, 8)))


class Extended:
    """The objective of a problem over listed pairs, in extended precision."""

    def __init__(self, drawn: Drawn, penalty: Any) -> None:
        wide = {name: np.asarray(array, np.longdouble) for name, array in drawn.data.items()}
        wide["qid"] = drawn.data["qid"]
        self.slow = slow_problem(drawn._replace(data=wide))
        self.penalty = penalty if drawn.penalty in CONCAVE else None
        if self.penalty is not None:
            self.slow.l2 = np.zeros_like(self.slow.l2)

    def __call__(self, w: Any) -> float:
        """Return the objective at w. A penalty is a sum without cancellation."""
        more = 0.0 if self.penalty is None else self.penalty.value(w)
        return self.slow.value(np.asarray(w, np.longdouble)) + more


def judge(case: Case, drawn: Drawn) -> None:
    """Fit, and compare the objective and the lower bound with extended precision."""
    try:
        solver, problem = prepare(drawn)
        result = solver.solve(problem)
    except DataError:
        case.saw("refused")  # linrank does not support this combination, or says that f overflows
        return
    case.units += 1
    case.saw(result.status.name.lower())
    extended = Extended(drawn, problem.penalty)
    there = extended(result.coef)
    off = abs(there - result.objective) / abs(there) if there else 0.0
    if off > EXACT and not result.converged:
        case.saw("warned")  # users are told that the fit is not to be relied on
    elif off > EXACT:
        case.wrong(
            f"{result.status.name} with objective {result.objective!r}, where it is {there!r} "
            f"({off:.1e} off): {drawn}"
        )
    if solver.bound > -np.inf:
        judge_bound(case, drawn, solver, result, extended)


def judge_bound(
    case: Case, drawn: Drawn, solver: Solver, result: Result, extended: Extended
) -> None:
    """Check that no known weights have an objective below the lower bound."""
    problem = solver.problem
    better = make_solver("auto", problem.engine.loss, problem.penalty, tol=PRECISE, max_iter=300)
    best = min(extended(result.coef), extended(better.solve(problem, result.coef).coef))
    case.saw("bounds")
    if solver.bound > best:
        off = (solver.bound - best) / abs(best)
        case.wrong(f"bound {solver.bound!r} above {best!r} ({off:.1e} off): {drawn}")


def run(case: Case) -> None:
    """Judge `FITS` problems."""
    for _ in range(FITS):
        judge(case, draw(case.rng))


CAMPAIGN = Campaign("objectives", "fits", 4000, 6.0, run)
