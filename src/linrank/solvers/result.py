"""Results of solvers: weights, status, work and history."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .._util.text import count, html_table
from .._util.types import Vector
from ..plots.result_plots import plot_convergence

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Status(enum.Enum):
    """The reason why a solver stopped; the value is a sentence for users.

    Examples
    --------
    >>> from linrank import RankSVM, Status
    >>> ranker = RankSVM().fit([[1.0], [3.0], [2.0]], [0, 2, 1])
    >>> ranker.result_.status is Status.CONVERGED, ranker.result_.status.value
    (True, 'The stopping rule is met.')
    """

    CONVERGED = "The stopping rule is met."
    CRITICAL = "A critical point is reached. The penalty is not convex, so others may be better."
    SETTLED = "The objective has settled, and is estimated to be within 10·tol of the optimum."
    FAR = (
        "The stopping rule is met, but the optimum is far: by an estimate, the objective can still "
        "fall by more than tol allows."
    )
    PRECISION = "The objective cannot be lowered further in double precision."
    STUCK = "No step lowers the objective, because rounding hides the slope."
    MAX_ITER = "The largest number of iterations was reached before the stopping rule was met."
    INTERRUPTED = "Interrupted; these are the best weights so far."

    @property
    def claims(self) -> bool:
        """Whether the solver claims to be as near to the optimum as its tolerance says."""
        return self in (Status.CONVERGED, Status.CRITICAL, Status.SETTLED)


class Step(NamedTuple):
    """One iteration in the history of a solver.

    Attributes
    ----------
    iteration : int
        The number of the outer iteration; 0 is the start.
    objective : float
    gradient_norm : float
        The norm of the gradient, relative to the gradient at w = 0.
    products : int
        Hessian products so far.
    seconds : float
        Time since the start of the fit.
    gap : float, optional
        The relative duality gap, if the solver computes one.

    Examples
    --------
    >>> from linrank import RankSVM
    >>> first, *_, last = RankSVM().fit([[1.0], [3.0], [2.0]], [0, 2, 1]).result_.history
    >>> first.iteration, first.gradient_norm, last.objective < first.objective
    (0, 1.0, True)
    """

    iteration: int
    objective: float
    gradient_norm: float  #: relative to the gradient at w = 0
    products: int  #: Hessian products so far
    seconds: float
    gap: float | None = None  #: relative duality gap, if the solver computes one


@dataclass
class Result:
    """The weights that a solver found, with its status, work and history.

    Attributes
    ----------
    coef : float64 array
    status : Status
    objective, gradient_norm : float
        The values at ``coef``. The norm is relative to that of the gradient at w = 0.
    n_iter, n_products, n_evaluations : int
        Outer iterations, Hessian products, and evaluations of value and gradient.
    seconds : float
    history : list of Step
    gap : float, optional
        The certified relative distance to the optimum: the difference of the objective and a lower
        bound on the optimum, divided by the objective. It is None if no bound is known: for concave
        penalties, and for features without a penalty.
    tol : float, optional
        The tolerance of the solver. If the status claims the optimum, the relative distance is at
        most `tol`: certified if ``gap`` says so, and otherwise by an estimate.

    Examples
    --------
    >>> from linrank import RankSVM
    >>> result = RankSVM(C=0.5).fit([[1.0], [3.0], [2.0]], [0, 2, 1]).result_
    >>> result.converged, result.n_selected, round(result.objective, 3)
    (True, 1, 0.167)
    """

    coef: Vector
    status: Status
    objective: float
    gradient_norm: float
    n_iter: int
    n_products: int
    n_evaluations: int
    seconds: float
    history: list[Step] = field(repr=False)
    gap: float | None = None
    tol: float | None = None

    @property
    def n_selected(self) -> int:
        """The number of features with a weight."""
        return int(np.count_nonzero(self.coef))

    @property
    def converged(self) -> bool:
        """Whether the stopping rule is met, or double precision allows no better weights.

        `Status.SETTLED` counts as converged. The solution of a stochastic solver is rough: its
        estimated distance to the optimum is at most 10·tol of the objective.
        """
        return self.status.claims or self.status is Status.PRECISION

    @property
    def accuracy(self) -> str:
        """The distance to the optimum in words: certified, estimated, or empty if unknown.

        A distance is relative to the objective. A gap of 1 or more says nothing.

        Examples
        --------
        >>> from linrank import RankSVM
        >>> RankSVM().fit([[1.0], [3.0], [2.0]], [0, 2, 1]).result_.accuracy.split(", ")[1]
        'certified'
        """
        gap = None if self.gap is None or self.gap >= 1 else _rounded_up(self.gap)
        known = f"within {gap} of the optimum, certified" if gap else ""
        if self.tol is None or self.status is not Status.CONVERGED:
            return known
        if self.gap is not None and self.gap <= self.tol:
            return known
        proof = f" (certified: within {gap})" if gap else ""
        return f"within {self.tol:g} of the optimum by an estimate{proof}"

    @property
    def message(self) -> str:
        """A summary for users: status, accuracy, iterations, products, objective, seconds."""
        accuracy = f"{self.accuracy}; " if self.accuracy else ""
        return (
            f"{self.status.value} {count(self.n_iter, 'iteration')}, "
            f"{count(self.n_products, 'Hessian product')}, "
            f"objective {self.objective:.6g}, {accuracy}"
            f"gradient at {self.gradient_norm:.1e} of its start, {self.seconds:.2f} s."
        )

    def __repr__(self) -> str:
        return f"Result({self.n_selected} of {len(self.coef)} features. {self.message})"

    def _repr_html_(self) -> str:
        facts = {
            "features with a weight": f"{self.n_selected:,} of {len(self.coef):,}",
            "objective": f"{self.objective:.6g}",
            "gradient norm, relative to w = 0": f"{self.gradient_norm:.1e}",
            "accuracy": self.accuracy,
            "iterations": f"{self.n_iter:,}",
            "Hessian products": f"{self.n_products:,}",
            "seconds": f"{self.seconds:.2f}",
        }
        rows = [(name, text) for name, text in facts.items() if text]
        return html_table(["result", self.status.name.lower()], rows, title=self.status.value)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw how the solver converged: gradient, objective and duality gap by iteration.

        The curve of the objective is its distance from the last value, divided by that value.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            None: those of a new figure.

        Returns
        -------
        matplotlib Axes

        Examples
        --------
        >>> from linrank import RankSVM
        >>> axes = RankSVM().fit([[1.0], [3.0], [2.0]], [0, 2, 1]).result_.plot()
        >>> axes.get_xlabel()
        'iteration'
        """
        return plot_convergence(self, ax)


def _rounded_up(part: float) -> str:
    """Return a number with one digit, rounded up, so that a distance is no larger than it says.

    Examples
    --------
    >>> _rounded_up(1.94e-5), _rounded_up(0.031), _rounded_up(1.0)
    ('2e-05', '0.04', '1')
    """
    if part <= 0.0:
        return "0"
    unit = 10.0 ** np.floor(np.log10(part))
    return f"{np.ceil(part / unit * (1 - 1e-9)) * unit:.1g}"
