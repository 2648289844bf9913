"""Solvers: one algorithm per file; each takes a `Problem` and returns a `Result`.

To add a solver, write its class in a module of this folder. Add its name to `SolverName` and its
module and class to `CLASSES`. To add an option, add a field to the class of the solver. This module
imports neither numpy nor numba, so that the command line starts fast.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

from .._lazy import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .base import Callback, Solver
    from .coordinate_descent import CoordinateDescent, PaperCoordinateDescent
    from .cutting_planes import CuttingPlanes
    from .dual import Dual
    from .fista import FISTA
    from .forward_backward import PaperFISTA
    from .lbfgs import LBFGS
    from .newton import Newton
    from .nonlinear_cg import NonlinearCG
    from .paper_newton import PaperNewton
    from .proximal_newton import ProximalNewton
    from .proximal_smoothing import ProximalSmoothing
    from .registry import SOLVERS, make_solver, usable_solvers
    from .result import Result, Status, Step
    from .reweighted import PaperReweighted, Reweighted
    from .sgd import PairSGD, QuerySGD
    from .smoothing import Smoothing
    from .tron import PaperTron, Tron

#: The names of the solvers.
SolverName = Literal[
    "newton", "tron", "tron-paper", "smoothing", "cutting-planes", "dual", "lbfgs", "nonlinear-cg",
    "newton-paper", "sgd-pairs", "sgd-queries", "proximal-newton", "proximal-smoothing",
    "reweighted", "fista", "coordinate-descent", "coordinate-descent-paper", "fista-paper",
    "reweighted-paper",
]  # fmt: skip
#: What the option `solver` may be: a name, or ``"auto"``.
SolverChoice = Literal["auto", SolverName]
#: All values of `SolverChoice`.
SOLVER_CHOICES: tuple[SolverChoice, ...] = get_args(SolverChoice)

#: The module and the class of each solver.
CLASSES: Mapping[SolverName, str] = {
    "newton": "newton.Newton",
    "tron": "tron.Tron",
    "tron-paper": "tron.PaperTron",
    "smoothing": "smoothing.Smoothing",
    "cutting-planes": "cutting_planes.CuttingPlanes",
    "dual": "dual.Dual",
    "lbfgs": "lbfgs.LBFGS",
    "nonlinear-cg": "nonlinear_cg.NonlinearCG",
    "newton-paper": "paper_newton.PaperNewton",
    "sgd-pairs": "sgd.PairSGD",
    "sgd-queries": "sgd.QuerySGD",
    "proximal-newton": "proximal_newton.ProximalNewton",
    "proximal-smoothing": "proximal_smoothing.ProximalSmoothing",
    "reweighted": "reweighted.Reweighted",
    "fista": "fista.FISTA",
    "coordinate-descent": "coordinate_descent.CoordinateDescent",
    "coordinate-descent-paper": "coordinate_descent.PaperCoordinateDescent",
    "fista-paper": "forward_backward.PaperFISTA",
    "reweighted-paper": "reweighted.PaperReweighted",
}
#: The solvers of ``"auto"``, which is the first of them that supports the loss and the penalty.
AUTOMATIC: tuple[SolverName, ...] = (
    "newton", "smoothing", "proximal-newton", "proximal-smoothing", "reweighted", "fista"
)  # fmt: skip

__all__ = [
    "FISTA", "LBFGS", "SOLVERS", "SOLVER_CHOICES", "Callback", "CoordinateDescent",
    "CuttingPlanes", "Dual", "Newton", "NonlinearCG", "PairSGD", "PaperCoordinateDescent",
    "PaperFISTA", "PaperNewton", "PaperReweighted", "PaperTron", "ProximalNewton",
    "ProximalSmoothing", "QuerySGD", "Result", "Reweighted", "Smoothing", "Solver", "SolverChoice",
    "SolverName", "Status", "Step", "Tron", "make_solver", "usable_solvers",
]  # fmt: skip

_HOMES = {name: home for home, name in (place.split(".") for place in CLASSES.values())}
_HOMES |= dict.fromkeys(("Callback", "Solver"), "base")
_HOMES |= dict.fromkeys(("Result", "Status", "Step"), "result")
_HOMES |= dict.fromkeys(("SOLVERS", "make_solver", "usable_solvers"), "registry")
if not TYPE_CHECKING:  # type checkers report unknown names
    __getattr__ = lazy_names(__name__, _HOMES)
