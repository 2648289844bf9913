"""Stevens, Bengio & Singer (2013): coordinate descent with the steps of the paper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..solvers.coordinate_descent import CoordinateDescent
from ..solvers.solver import state


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
