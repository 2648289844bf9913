"""Solvers by name, and the check that a solver fits a problem."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from importlib import import_module
from typing import Any

from .._checks import choice
from ..errors import DataError
from ..losses.base import Loss
from ..losses.pairwise import SQUARED_HINGE
from ..losses.registry import LOSSES
from ..penalties.base import Penalty
from ..penalties.l2 import L2
from . import AUTOMATIC, CLASSES, SOLVER_CHOICES, SolverChoice
from .base import Solver


class _Solvers(Mapping[str, type[Solver]]):
    """Mapping from names to classes; the module of a class is imported on first use."""

    _places: Mapping[Any, str] = CLASSES

    def __getitem__(self, name: str) -> type[Solver]:
        module, kind = self._places[name].split(".")
        return getattr(import_module(f".{module}", __package__), kind)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


#: The class of each solver by its name, such as ``SOLVERS["newton"]``.
SOLVERS = _Solvers()


def make_solver(
    name: SolverChoice | Solver,
    loss: Loss = SQUARED_HINGE,
    penalty: Penalty | None = None,
    *,
    has_rows: bool = True,
    seed: int = 0,
    **options: Any,
) -> Solver:
    """Return the solver of a name, if it can minimise the loss with the penalty.

    ``"auto"`` is `Newton`, which needs the fewest passes over the data on all measured shapes. For
    a loss without a derivative, such as the hinge, it is `Smoothing`. For a convex penalty other
    than ½‖w‖² it is `ProximalNewton`, and for a concave one `Reweighted`.

    Parameters
    ----------
    name : str or Solver
        A `Solver` is checked and copied. It has its own options, so `seed` and `options` are
        ignored.
    loss : Loss
    penalty : Penalty, optional
        The default is ½‖w‖².
    has_rows : bool
        Whether the rows of X are in this process.
    seed : int
        Seed of the stochastic solvers.
    **options
        Fields of the solver's class.

    Returns
    -------
    Solver

    Raises
    ------
    DataError
        If the name is not known, or the solver does not support the loss or the penalty. The
        message names solvers that do.

    Examples
    --------
    >>> from linrank.losses import get_loss
    >>> from linrank.penalties import L1
    >>> make_solver("auto").name, make_solver("auto", get_loss("hinge")).name
    ('newton', 'smoothing')
    >>> make_solver("fista", penalty=L1(), tol=1e-4)
    FISTA(tol=0.0001, max_iter=1000, step='backtracking', restart=True)
    """
    penalty = L2() if penalty is None else penalty
    if isinstance(name, Solver):
        check_solver(type(name), loss, penalty, has_rows)
        return replace(name)
    choice("solver", name, SOLVER_CHOICES, "or a Solver, such as Newton(max_iter=50)")
    if name == "auto":
        kind = _automatic(loss, penalty, has_rows)
    else:
        kind = SOLVERS[name]
        check_solver(kind, loss, penalty, has_rows)
    seeded = {"seed": seed} if any(field.name == "seed" for field in fields(kind)) else {}
    return with_options(kind(), seeded | options)


def with_options(solver: Solver, options: Mapping[str, Any]) -> Solver:
    """Return a copy of the solver with other options.

    Examples
    --------
    >>> from linrank.solvers import Newton
    >>> with_options(Newton(), {"tol": 0.1}).tol
    0.1
    """
    known = [field.name for field in fields(solver) if field.init]
    for name in options:
        if name not in known:
            listed = ", ".join(name for name in known if name != "callback")
            raise DataError(
                f"solver={solver.name!r} has no option {name!r}. Its options: {listed}."
            )
    return replace(solver, **options)


def usable_solvers(loss: Loss, penalty: Penalty | None = None, has_rows: bool = True) -> list[str]:
    """Return the names of the solvers that support a problem; the choice of ``"auto"`` is first.

    Parameters
    ----------
    loss : Loss
    penalty : Penalty, optional
        The default is ½‖w‖².
    has_rows : bool
        Whether the rows of X are in this process; False for data on a cluster.

    Returns
    -------
    list of str

    Examples
    --------
    >>> from linrank.losses import get_loss
    >>> usable_solvers(get_loss("hinge"))
    ['smoothing', 'cutting-planes', 'dual', 'sgd-pairs', 'sgd-queries']
    """
    return list(_usable(loss, L2() if penalty is None else penalty, has_rows))


def _usable(loss: Loss, penalty: Penalty, has_rows: bool) -> Iterator[str]:
    for name in (*AUTOMATIC, *(name for name in SOLVERS if name not in AUTOMATIC)):
        if SOLVERS[name].needs.complaint(loss, penalty, has_rows) is None:
            yield name


def _automatic(loss: Loss, penalty: Penalty, has_rows: bool) -> type[Solver]:
    first = next(_usable(loss, penalty, has_rows), None)
    if first is None:
        raise DataError(_nothing_fits(loss, penalty))
    return SOLVERS[first]


def check_solver(kind: type[Solver], loss: Loss, penalty: Penalty, has_rows: bool) -> None:
    """Raise a `DataError` that names usable solvers, unless this solver is usable."""
    complaint = kind.needs.complaint(loss, penalty, has_rows)
    if complaint is None:
        return
    usable = usable_solvers(loss, penalty, has_rows)
    if not usable:
        raise DataError(_nothing_fits(loss, penalty))
    first, *others = (repr(name) for name in usable)
    more = "" if not others else f", or {', '.join(others)}"
    raise DataError(
        f"solver={kind.name!r} {complaint}. Use solver={first} (the choice of 'auto'){more}."
    )


def _nothing_fits(loss: Loss, penalty: Penalty) -> str:
    """Return the error message for a loss and a penalty that no solver supports."""
    bounds = "" if penalty.bounds is None else " and bounds"
    losses = [name for name, other in LOSSES.items() if usable_solvers(other, penalty)]
    listed = " or ".join(f"loss={name!r}" for name in losses[:2])
    advice = f" Use {listed}." if losses else " Use another penalty, or bounds=None."
    return f"no solver supports loss={loss.name!r} with penalty={penalty.name!r}{bounds}.{advice}"
