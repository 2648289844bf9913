"""One algorithm per file; each takes a `Problem` and returns a `Result`."""

from __future__ import annotations

from typing import Any

from ..errors import DataError
from .base import Callback, Solver
from .newton import Newton
from .result import Result, Status, Step
from .tron import Tron

SOLVERS: dict[str, type[Solver]] = {"newton": Newton, "tron": Tron}


def make_solver(name: str, **options: Any) -> Solver:
    """The solver of that name.

    ``"auto"`` is preconditioned Newton, which chooses its preconditioner by what it costs
    on the problem at hand: it needs the fewest passes over the data on every shape measured
    so far, and its stopping rule does not depend on the scale of the features.
    """
    if name == "auto":
        name = "newton"
    if name not in SOLVERS:
        known = ", ".join(["auto", *sorted(SOLVERS)])
        raise DataError(f"solver is {name!r}; known solvers are {known}")
    return SOLVERS[name](**options)


__all__ = ["Callback", "Newton", "Result", "Solver", "Status", "Step", "Tron", "make_solver"]
