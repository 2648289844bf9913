"""Requirements of a solver, and the error message for a problem that does not meet them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..losses.base import Loss
from ..penalties.base import Kind, Penalty


@dataclass(frozen=True)
class Needs:
    """Requirements of a solver; a class attribute of every solver.

    Attributes
    ----------
    loss : {"any", "smooth", "squared", "cornered", "hinge", "pairwise", "listwise"}
        ``smooth``: a loss with a derivative. ``squared``: one squared hinge. ``cornered``: a
        pairwise loss without a derivative. ``hinge``: one hinge or one squared hinge.
        ``pairwise``: a sum over pairs. ``listwise``: a loss that is not a sum over pairs.
    penalties : tuple of {"l2", "convex", "concave", "group"}
        The kinds of penalty that the solver supports.
    bounds : bool
        Whether the solver supports bounds on the weights.
    rows : bool
        Whether the rows of X must be in this process, and not in the workers of a cluster.
    """

    loss: Literal["any", "smooth", "squared", "cornered", "hinge", "pairwise", "listwise"] = "any"
    penalties: tuple[Kind, ...] = ("l2", "convex", "concave", "group")
    bounds: bool = False
    rows: bool = False

    def complaint(self, loss: Loss, penalty: Penalty, has_rows: bool = True) -> str | None:
        """Return why a problem does not fit, as the end of a sentence; None if it fits."""
        if self.loss == "smooth" and not loss.smooth:
            return f"needs a loss with a derivative, which loss={loss.name!r} does not have"
        if self.loss == "squared" and not (loss.pairwise and loss.squared):
            return f"needs loss='squared_hinge', unlike loss={loss.name!r}"
        if self.loss == "cornered" and (loss.smooth or not loss.pairwise):
            return f"needs a pairwise loss without a derivative, unlike loss={loss.name!r}"
        if self.loss == "hinge" and not loss.single:
            return f"needs loss='hinge' or 'squared_hinge', but the loss is {loss.name!r}"
        if self.loss == "pairwise" and not loss.pairwise:
            return f"needs a pairwise loss, but loss={loss.name!r} is listwise"
        if self.loss == "listwise" and loss.pairwise:
            return f"needs a listwise loss, but loss={loss.name!r} is a sum over pairs"
        if penalty.kind not in self.penalties:
            return f"does not support penalty={penalty.name!r}"
        if penalty.bounds is not None and not self.bounds:
            return "does not support bounds"
        if self.rows and not has_rows:
            return "needs the rows of X in this process, but they are in the workers"
        return None
