"""One algorithm per file; each takes a `Problem` and returns a `Result`."""

from __future__ import annotations

from typing import Any

from .._checks import choice
from ..errors import DataError
from ..losses import Loss
from ..losses.pairwise import SQUARED_HINGE
from ..penalties import Penalty
from .base import Callback, Solver
from .coordinate_descent import CoordinateDescent
from .cutting_planes import CuttingPlanes
from .fista import FISTA
from .lbfgs import LBFGS
from .newton import Newton
from .proximal_newton import ProximalNewton
from .result import Result, Status, Step
from .reweighted import Reweighted
from .sgd import PairSGD, QuerySGD
from .smoothing import Smoothing
from .sparse import SparseSolver
from .tron import PaperTron, Tron

SOLVERS: dict[str, type[Solver]] = {
    "newton": Newton,
    "tron": Tron,
    "tron-paper": PaperTron,
    "smoothing": Smoothing,
    "cutting-planes": CuttingPlanes,
    "lbfgs": LBFGS,
    "sgd-pairs": PairSGD,
    "sgd-queries": QuerySGD,
}
SPARSE_SOLVERS: dict[str, type[SparseSolver]] = {
    "proximal-newton": ProximalNewton,
    "reweighted": Reweighted,
    "fista": FISTA,
}
#: For either kind of penalty, but no sums over pairs.
DOMINATION_SOLVERS: dict[str, type[CoordinateDescent]] = {"coordinate-descent": CoordinateDescent}
SMOOTH_ONLY = (Newton, Tron, PaperTron, LBFGS)
PAIRS_ONLY = (CuttingPlanes, PairSGD, QuerySGD)
STOCHASTIC = (PairSGD, QuerySGD)


def make_solver(
    name: str,
    loss: Loss = SQUARED_HINGE,
    penalty: Penalty | None = None,
    *,
    seed: int = 0,
    **options: Any,
) -> Solver:
    """The solver of that name, if it can minimise the loss with the penalty (None: ½‖w‖²).

    ``"auto"`` is preconditioned Newton, which chooses its preconditioner by what it costs
    on the problem at hand: it needs the fewest passes over the data on every shape measured
    so far, and its stopping rule does not depend on the scale of the features. For the hinge,
    which has no second derivative, it is `Smoothing`. With a penalty it is `ProximalNewton`, or
    where that is not convex `Reweighted`. `seed` is for stochastic solvers.
    """
    choice("solver", name, ["auto", *SOLVERS, *SPARSE_SOLVERS, *DOMINATION_SOLVERS])
    if name in DOMINATION_SOLVERS:
        DOMINATION_SOLVERS[name].check(loss, penalty)
        return DOMINATION_SOLVERS[name](**options)
    if penalty is not None:
        return _make_sparse_solver(name, loss, penalty, **options)
    if name in SPARSE_SOLVERS:
        raise DataError(
            f"solver={name!r} is for sparse rankers, which have a penalty such as 'l1': without "
            "one use solver='auto'"
        )
    if name == "auto":
        name = "newton" if loss.smooth else "smoothing"
    solver = SOLVERS[name]
    if solver in PAIRS_ONLY and not loss.pairwise:
        raise DataError(
            f"solver={name!r} is for sums over pairs, of which loss={loss.name!r} is none: use "
            "solver='newton' (which 'auto' is then), 'tron' or 'lbfgs'"
        )
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


def _make_sparse_solver(name: str, loss: Loss, penalty: Penalty, **options: Any) -> Solver:
    if not loss.smooth:
        raise DataError(
            f"a sparse ranker needs a loss with a derivative, which loss={loss.name!r} has not: "
            "use loss='squared_hinge' or 'huber'"
        )
    if name == "auto":
        name = "proximal-newton" if penalty.convex else "reweighted"
    if name in SOLVERS:
        raise DataError(
            f"solver={name!r} is for the penalty ½‖w‖²; with {type(penalty).__name__} use "
            "solver='auto'"
        )
    if name == "proximal-newton" and not penalty.convex:
        raise DataError(
            f"solver='proximal-newton' is for l1 and elastic_net; with {type(penalty).__name__} "
            "use solver='reweighted' (which 'auto' is then) or 'fista'"
        )
    if name == "reweighted" and penalty.convex:
        raise DataError(
            f"solver='reweighted' is for concave penalties; with {type(penalty).__name__} use "
            "solver='proximal-newton' (which 'auto' is then)"
        )
    return SPARSE_SOLVERS[name](**options)


__all__ = [
    "DOMINATION_SOLVERS",
    "FISTA",
    "LBFGS",
    "SOLVERS",
    "SPARSE_SOLVERS",
    "Callback",
    "CoordinateDescent",
    "CuttingPlanes",
    "Newton",
    "PairSGD",
    "PaperTron",
    "ProximalNewton",
    "QuerySGD",
    "Result",
    "Reweighted",
    "Smoothing",
    "Solver",
    "SparseSolver",
    "Status",
    "Step",
    "Tron",
    "make_solver",
]
