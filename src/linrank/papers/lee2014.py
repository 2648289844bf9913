"""Lee & Lin (2014): TRON with the settings of the paper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..solvers.smooth import StopName
from ..solvers.tron import Tron


@dataclass
class PaperTron(Tron):
    """TRON as Lee & Lin 2014 ran it: rule (38) alone, and each C of a path from w = 0 (§4.4).

    Parameters
    ----------
    tol, max_iter, callback, stop
        See `Solver` and `Newton`.

    Examples
    --------
    >>> from linrank import make_problem, make_ranking
    >>> result = PaperTron(tol=0.01).solve(make_problem(make_ranking(random_state=0), C=0.01))
    >>> result.status.name, result.gradient_norm <= 0.01
    ('CONVERGED', True)
    """

    tol: float = 1e-3
    stop: StopName = "gradient"
    name: ClassVar[str] = "tron-paper"
    warm_starts: ClassVar[bool] = False
