"""Solvers: one algorithm per file; each takes a `Problem` and returns a `Result`.

To add a solver, write its class in a module of this folder. Add its name to `SolverName` and its
module and class to `CLASSES`. To add an option, add a field to the class of the solver. This module
imports neither numpy nor numba, so that the command line starts fast.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

from .._util.lazy import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..papers.chapelle2010 import NonlinearCG, PaperNewton
    from ..papers.laporte2014 import PaperFISTA, PaperReweighted
    from ..papers.lee2014 import PaperTron
    from ..papers.stevens2013 import PaperCoordinateDescent
    from .coordinate_descent import CoordinateDescent
    from .cutting_planes import CuttingPlanes
    from .dual import Dual
    from .fista import FISTA
    from .lbfgs import LBFGS
    from .newton import Newton
    from .proximal_newton import ProximalNewton
    from .proximal_smoothing import ProximalSmoothing
    from .result import Result, Status, Step
    from .reweighted import Reweighted
    from .sgd import PairSGD, QuerySGD
    from .smoothing import Smoothing
    from .solver import SOLVERS, Callback, Solver, make_solver, usable_solvers
    from .tron import Tron

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
    "tron-paper": ".papers.lee2014.PaperTron",
    "smoothing": "smoothing.Smoothing",
    "cutting-planes": "cutting_planes.CuttingPlanes",
    "dual": "dual.Dual",
    "lbfgs": "lbfgs.LBFGS",
    "nonlinear-cg": ".papers.chapelle2010.NonlinearCG",
    "newton-paper": ".papers.chapelle2010.PaperNewton",
    "sgd-pairs": "sgd.PairSGD",
    "sgd-queries": "sgd.QuerySGD",
    "proximal-newton": "proximal_newton.ProximalNewton",
    "proximal-smoothing": "proximal_smoothing.ProximalSmoothing",
    "reweighted": "reweighted.Reweighted",
    "fista": "fista.FISTA",
    "coordinate-descent": "coordinate_descent.CoordinateDescent",
    "coordinate-descent-paper": ".papers.stevens2013.PaperCoordinateDescent",
    "fista-paper": ".papers.laporte2014.PaperFISTA",
    "reweighted-paper": ".papers.laporte2014.PaperReweighted",
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

_HOMES = {name: home for home, _, name in (place.rpartition(".") for place in CLASSES.values())}
_HOMES |= dict.fromkeys(("Result", "Status", "Step"), "result")
_HOMES |= dict.fromkeys(
    ("SOLVERS", "Callback", "Solver", "make_solver", "usable_solvers"), "solver"
)
if not TYPE_CHECKING:  # type checkers report unknown names
    __getattr__ = lazy_names(__name__, _HOMES)
