"""`DaskEngine`: the loss as a function of the weights, summed over the workers of a cluster."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from .._typing import Integers, Vector
from ..counting.preferences import ALL_PAIRS, Delta, Preferences
from ..engines.base import Engine, Work
from ..errors import DataError
from ..losses.base import Loss
from .data import DaskData
from .recipe import Recipe, pack_loss


class DaskEngine(Engine):
    """An engine for data in the memory of the workers of a cluster.

    Each worker holds one `ThreadEngine` over its group of parts. For a Hessian-vector product, the
    client sends d numbers to each worker and receives d numbers back. It adds them in the order of
    the groups. A result therefore depends on how the data are cut into groups, but not on which
    worker answers first.

    Parameters
    ----------
    data : DaskData
    loss, normalize, counting, preferences
        See `ThreadEngine`.

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from linrank import make_ranking
    >>> from linrank.dask import DaskData, DaskEngine
    >>> from linrank.dask.sources import find_parts
    >>> from linrank.losses import get_loss
    >>> data = make_ranking(random_state=0)
    >>> X, y, qid = (da.from_array(a, chunks=1000) for a in (data.X, data.y, data.qid))
    >>> with Client(processes=False, n_workers=2, dashboard_address=":0") as client:
    ...     with DaskData(client, find_parts(X, y, qid)) as loaded:
    ...         engine = DaskEngine(loaded, get_loss("squared_hinge"))
    ...         loss, gradient = engine.value_grad([0.0] * data.n_features)
    >>> loss == engine.n_pairs, gradient.shape
    (True, (20,))
    """

    has_rows: ClassVar[bool] = False

    def __init__(
        self,
        data: DaskData,
        loss: Loss,
        normalize: str | None = None,
        *,
        counting: str = "auto",
        preferences: Preferences = ALL_PAIRS,
    ) -> None:
        # The weight of all pairs is known here only, so the sums are divided here.
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
        """Have the workers make their engines, from their engine with the id `base` if given."""
        self.data, self._recipe, self._base = data, recipe, base
        self.loss = recipe.loss
        self.last = None
        self._last_w: Vector | None = None
        self.engine_id = data.register_engine(self)
        return data.ask("make_engine", self.engine_id, self.state())

    @property
    def function(self) -> Delta | None:
        """The user's own δ, which is not part of `state` because it is no plain data."""
        return self._recipe.function

    def state(self) -> list[Any]:
        """Return what a worker needs to make its engine and evaluate it at the last w."""
        return [self._recipe.pack(), self._base, self._last_w]

    def with_loss(self, loss: Loss) -> DaskEngine:
        """Return an engine on the same data and pairs; the two cannot be used concurrently."""
        other = DaskEngine.__new__(DaskEngine)
        other.__dict__.update(self.__dict__)
        other.__dict__.pop("at_zero", None)
        other._make(self.data, self._recipe._replace(loss=loss), self.engine_id)
        return other

    def change_loss(self, loss: Loss) -> None:
        """Replace the loss by one with the same number of hinges; the order of scores is kept."""
        self._recipe = self._recipe._replace(loss=loss)
        self.loss = loss
        self.__dict__.pop("at_zero", None)
        self.last = None
        self.data.ask("change_loss", self.engine_id, pack_loss(loss))

    def value_grad(self, w: Vector) -> tuple[float, Vector]:
        """Return the loss and its gradient at w; Hessian products are then those at w."""
        self.last = None
        self.work.evaluations += 1
        total = self._sum("value_grad", _as_vector(w))
        self._last_w = np.array(w, dtype=np.float64)
        loss, gradient = float(total[0]), total[1:].copy()
        self.last = self._last_w, loss, gradient.copy()
        return loss, gradient

    def hessp(self, v: Vector) -> Vector:
        """Return ``H v`` with H = X'MX, the Hessian at the last w of `value_grad`."""
        self.work.products += 1
        return self._sum("hessp", _as_vector(v))

    def gaps(self, w: Vector) -> Vector:
        """Return ``Σ_pairs weight·max(0, τ_m − t)`` per hinge m at the last w of `value_grad`."""
        return self._sum("gaps", _as_vector(w))

    def scores(self, w: Vector) -> Vector:
        """Raise a `DataError`: scores are as many as rows, and rows stay on the workers."""
        raise DataError(
            "a DaskEngine does not return the scores of its rows. Use DaskRankSVM.predict"
        )

    def hessian(self, n_rows: int | None = None, features: Integers | None = None) -> Vector:
        """Return the Hessian as a matrix, exact or estimated from about `n_rows` rows.

        For an estimate, each worker samples its share of the rows from its own queries. It divides
        its part by the fraction of its total curvature that the sample holds.
        """
        return self._sum("hessian", [n_rows, self.data.n_docs, features])

    def hessian_diagonal(self) -> Vector:
        """Return ``Σ_i curvature_i x_i²``: the Hessian's diagonal without cross terms x_i x_j."""
        return self._sum("hessian_diagonal")

    def hessian_of_documents(self, n_rows: int) -> Vector:
        """Return ``Σ_i curvature_i (x_i − μ)(x_i − μ)'`` over samples of the workers' documents."""
        return self._sum("hessian_of_documents", [n_rows, self.data.n_docs, None])

    @property
    def makes_hessian_by_level(self) -> bool:
        """Whether the Hessian in the scores is a diagonal plus a few outer products."""
        return self._by_level

    def _sum(self, operation: str, body: Any = None) -> Vector:
        """Add up the answers of all groups in their order."""
        total, *others = self.data.ask(operation, self.engine_id, body)
        for other in others:
            total += other
        total *= self._scale
        return total


def _as_vector(numbers: Vector) -> Vector:
    return np.asarray(numbers, dtype=np.float64)
