"""`DaskEngine`: the loss as a function of the weights, summed over the workers of a cluster."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._typing import Vector
from ..counting.preferences import ALL_PAIRS, Delta, Preferences
from ..engines.base import Engine, Work
from ..errors import DataError
from ..losses.base import Loss
from .data import DaskData
from .recipe import Recipe, pack_loss


class DaskEngine(Engine):
    """What `ThreadEngine` answers, for data that are in the memory of many workers.

    Each worker holds one `ThreadEngine` over its group of parts. A product sends d numbers to
    each, and gets d numbers of each back; they are added in the order of the groups, so a result
    depends on how the data are cut, not on which worker is faster.

    Parameters
    ----------
    data : DaskData
    loss, normalize, counting, preferences
        See `ThreadEngine`.
    """

    def __init__(
        self,
        data: DaskData,
        loss: Loss,
        normalize: str | None = None,
        *,
        counting: str = "auto",
        preferences: Preferences = ALL_PAIRS,
    ) -> None:
        # Dividing by the weight of all pairs takes all workers: the sums are divided here.
        own = None if normalize == "pairs" else normalize
        self.work = Work()
        found = self._make(data, Recipe(loss, own, counting, preferences), None)
        self.n_features = data.n_features
        self.n_entries = sum(about["n_entries"] for about in found)
        self.n_pairs = sum(about["n_pairs"] for about in found)
        self.n_empty_queries = sum(about["n_empty_queries"] for about in found)
        self.largest_query = max(about["largest_query"] for about in found)
        self.pair_weight = sum(about["pair_weight"] for about in found)
        self.counting = next((a["counting"] for a in found if a["counting"]), counting)
        self._by_level = all(about["by_level"] for about in found)
        divide = normalize == "pairs" and self.pair_weight > 0
        self._scale = 1.0 / self.pair_weight if divide else 1.0

    def _make(self, data: DaskData, recipe: Recipe, base: int | None) -> list[dict[str, Any]]:
        """Have the workers make their engines, from another one of theirs if there is one."""
        self.data, self._recipe, self._base = data, recipe, base
        self.loss = recipe.loss
        self.last = None
        self._at: Vector | None = None
        self._view = data.add_view(self)
        return data.ask("make", self._view, self.state())

    @property
    def function(self) -> Delta | None:
        """The user's own δ, which `state` does not hold."""
        return self._recipe.function

    def state(self) -> list[Any]:
        """What a worker needs to make its engine and bring it to the last w of `value_grad`."""
        return [self._recipe.pack(), self._base, self._at]

    def with_loss(self, loss: Loss) -> DaskEngine:
        """The same data and pairs with another loss; the two must not be used at one time."""
        other = DaskEngine.__new__(DaskEngine)
        other.__dict__.update(self.__dict__)
        other.__dict__.pop("at_zero", None)
        other._make(self.data, self._recipe._replace(loss=loss), self._view)
        return other

    def change_loss(self, loss: Loss) -> None:
        """Take a loss of as many hinges; what is known of the order of scores is kept."""
        self._recipe = self._recipe._replace(loss=loss)
        self.loss = loss
        self.__dict__.pop("at_zero", None)
        self.last = None
        self.data.ask("change_loss", self._view, pack_loss(loss))

    def value_grad(self, w: Vector) -> tuple[float, Vector]:
        """The loss and its gradient at w; Hessian products are then those at w."""
        self.last = None
        self.work.evaluations += 1
        total = self._sum("value_grad", _as_vector(w))
        self._at = np.array(w, dtype=np.float64)
        loss, gradient = float(total[0]), total[1:].copy()
        self.last = self._at, loss, gradient.copy()
        return loss, gradient

    def hessp(self, v: Vector) -> Vector:
        """``H v`` with H = X'MX, the Hessian at the last w of `value_grad`."""
        self.work.products += 1
        return self._sum("hessp", _as_vector(v))

    def gaps(self, w: Vector) -> Vector:
        """``Σ_pairs weight·max(0, τ_m − t)`` for each hinge m, at the last w of `value_grad`."""
        return self._sum("gaps", _as_vector(w))

    def scores(self, w: Vector) -> Vector:
        """Refused: there is one for each row, and rows stay with the workers."""
        raise DataError("the scores of rows on a cluster cannot be had here: use predict")

    def hessian(
        self, n_rows: int | None = None, features: NDArray[np.int64] | None = None
    ) -> Vector:
        """The Hessian as a matrix, exact or estimated from about `n_rows` rows.

        Of a sample, each worker takes its share from its own queries, and scales its part by the
        curvature that its sample holds of its whole.
        """
        return self._sum("hessian", [n_rows, self.data.n_docs, features])

    def hessian_diagonal(self) -> Vector:
        """``Σ_i curvature_i x_i²``: the Hessian's diagonal without its cross terms x_i x_j."""
        return self._sum("hessian_diagonal")

    def hessian_of_documents(self, n_rows: int) -> Vector:
        """``Σ_i curvature_i (x_i − μ)(x_i − μ)'`` over samples of each worker's documents."""
        return self._sum("hessian_of_documents", [n_rows, self.data.n_docs, None])

    @property
    def makes_hessian_by_level(self) -> bool:
        """Whether the Hessian is a diagonal and a few vectors, in the scores."""
        return self._by_level

    def _sum(self, do: str, body: Any = None) -> Vector:
        """Add up the numbers of all groups, in their order."""
        total, *others = self.data.ask(do, self._view, body)
        for other in others:
            total += other
        total *= self._scale
        return total


def _as_vector(numbers: Vector) -> Vector:
    return np.asarray(numbers, dtype=np.float64)
