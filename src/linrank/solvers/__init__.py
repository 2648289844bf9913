"""One algorithm per file; each takes a `Problem` and returns a `Result`."""

from __future__ import annotations

from typing import Any

from ..errors import DataError, choice
from ..losses.pairwise import SQUARED_HINGE, PairwiseLoss
from .base import Callback, Solver
from .cutting_planes import CuttingPlanes
from .lbfgs import LBFGS
from .newton import Newton
from .result import Result, Status, Step
from .sgd import PairSGD, QuerySGD
from .smoothing import Smoothing
from .tron import Tron

SOLVERS: dict[str, type[Solver]] = {
    "newton": Newton,
    "tron": Tron,
    "smoothing": Smoothing,
    "cutting-planes": CuttingPlanes,
    "lbfgs": LBFGS,
    "sgd-pairs": PairSGD,
    "sgd-queries": QuerySGD,
}
SMOOTH_ONLY = (Newton, Tron, LBFGS)
STOCHASTIC = (PairSGD, QuerySGD)


def make_solver(
    name: str, loss: PairwiseLoss = SQUARED_HINGE, *, seed: int = 0, **options: Any
) -> Solver:
    """The solver of that name, if it can minimise the loss.

    ``"auto"`` is preconditioned Newton, which chooses its preconditioner by what it costs
    on the problem at hand: it needs the fewest passes over the data on every shape measured
    so far, and its stopping rule does not depend on the scale of the features. For the hinge,
    which has no second derivative, it is `Smoothing`. `seed` is for stochastic solvers.
    """
    choice("solver", name, ["auto", *SOLVERS])
    if name == "auto":
        name = "newton" if loss.smooth else "smoothing"
    solver = SOLVERS[name]
    if solver in SMOOTH_ONLY and not loss.smooth:
        raise DataError(
            f"solver={name!r} needs a loss with a derivative, which loss={loss.name!r} has not: "
            "use solver='smoothing' (which 'auto' is then) or 'cutting-planes'"
        )
    if solver is Smoothing and loss.name != "hinge":
        raise DataError(
            f"solver='smoothing' is for loss='hinge', but loss={loss.name!r} is smooth: use "
            "solver='newton' (which 'auto' is then)"
        )
    if solver in STOCHASTIC:
        options["seed"] = seed
    return solver(**options)


__all__ = [
    "LBFGS",
    "SOLVERS",
    "Callback",
    "CuttingPlanes",
    "Newton",
    "PairSGD",
    "QuerySGD",
    "Result",
    "Smoothing",
    "Solver",
    "Status",
    "Step",
    "Tron",
    "make_solver",
]
