"""The CUDA engine: evaluations and Hessian products on a graphics card, the rest on the host.

The engine inherits from the thread engine. Rare operations, such as the Hessian of a sample of
queries for a preconditioner, run on the host: only the sampled queries are linearised there, at the
same weights. For each product, v is copied to the device and H v is copied back, which is d numbers
each.
"""

from __future__ import annotations

from typing import Any, ClassVar, Protocol, cast

import numpy as np

from ..._util.lazy import lazy_property
from ..._util.types import Integers, Vector
from ...counting.explicit import ExplicitLayout
from ...counting.plan import MAX_PAIRS, Layout
from ...counting.preferences import ALL_PAIRS, Preferences
from ...counting.tables import TableLayout
from ...counting.trees import TreeLayout
from ...counting.two_level import TwoLevelLayout
from ...data.ranking import RankingData
from ...errors import DataError
from ...losses.domination import DominationLayout
from ...losses.loss import Hinges, Loss
from ...matrix.rows import matvec
from ..engine import Engine
from ..threads import ThreadEngine, walk_scores
from .device import (
    BLOCKS,
    GROUP,
    DenseRows,
    DeviceArray,
    RowPart,
    SparseRows,
    check_rows,
    empty,
    launch,
    launch_over,
    to_device,
    zeros,
)
from .device_kernels import (
    FUSED_BYTES,
    FUSED_KERNELS,
    ROW_BYTES,
    ROW_KERNELS,
    DominationLevels,
    GridPairs,
    GroupedPairs,
    ListedPairs,
    add_up,
    clear,
    multiply_csc,
    score_csr,
)

#: Attributes that are computed for each loss anew.
PER_LOSS = ("_groups", "_pairs", "_scores", "_curvature")

#: Name of the counting that the device uses for a layout for which it has no kernels.
COUNTING_ON_DEVICE: dict[type[Layout], str] = {TwoLevelLayout: "explicit", TreeLayout: "tables"}


class DevicePairs(Protocol):
    """Sums over the pairs of some queries on the device.

    Attributes
    ----------
    rows, device_rows : int64 array, and an array on the device
        The rows of X that are in some pair.
    """

    rows: Integers
    device_rows: DeviceArray

    def set_hinges(self, hinges: Hinges) -> None:
        """Replace the loss."""

    def linearize(self, u: DeviceArray, losses: DeviceArray) -> None:
        """Compute the gradient u in the scores, and add the loss to `losses`."""

    def curve(self, v: DeviceArray, u: DeviceArray) -> None:
        """Compute the Hessian product u = H v in the scores."""

    def add_gap(self, m: int, losses: DeviceArray) -> None:
        """Add Σ_pairs weight·max(0, τ_m − t) to `losses`, at the scores last linearised."""


class CudaEngine(ThreadEngine):
    """The engine of data whose X is on a graphics card.

    Parameters
    ----------
    data, loss, normalize, n_threads, counting, preferences
        See `ThreadEngine`. The device has kernels for ``counting="tables"`` and ``"explicit"``, and
        uses one of them in place of the others (`COUNTING_ON_DEVICE`).
    """

    streaming: ClassVar[bool] = False  #: whether X is copied to the device for every product
    fuses: ClassVar[bool] = True  #: whether short queries have kernels that do all in one launch

    def __init__(
        self,
        data: RankingData,
        loss: Loss,
        normalize: str | None = None,
        n_threads: int | None = None,
        *,
        counting: str = "auto",
        preferences: Preferences = ALL_PAIRS,
    ) -> None:
        streaming = self.streaming
        if streaming and data.is_sparse:
            raise DataError(
                "engine='cuda-streaming' needs a dense X, but X is sparse. Use engine='cuda'."
            )
        check_rows(data.n_docs, "documents")
        super().__init__(
            data, loss, normalize, n_threads, counting=counting, preferences=preferences
        )
        instead = COUNTING_ON_DEVICE.get(type(self.layout))
        if instead is not None:
            _check_listed(instead, self.n_pairs)
            super().__init__(
                data, loss, normalize, n_threads, counting=instead, preferences=preferences
            )
        self._device: SparseRows | DenseRows = (
            SparseRows(data.X) if data.is_sparse else DenseRows(data.X, data.query_ptr, streaming)
        )
        self._losses = zeros((BLOCKS * (1 + streaming), 1))
        self._total, self._v = zeros(self.n_features + 1), empty(self.n_features)
        self._u, self._product = zeros(data.n_docs), zeros(data.n_docs)
        self._offset, self._nothing = to_device(self.layout.plan.offset), to_device(np.empty(0))

    line = Engine.line  # trials are evaluated on the card

    def value_grad(self, w: Vector) -> tuple[float, Vector]:
        """Compute the loss and its gradient at w; Hessian products then refer to w."""
        self.last = None
        self.work.evaluations += 1
        total = self._walk_device(w, linearize=True)
        loss, gradient = float(total[-1]), total[:-1]
        self.last = np.array(w, dtype=np.float64), loss, gradient.copy()
        return loss, gradient

    def hessp(self, v: Vector) -> Vector:
        """Compute the product H v with the Hessian H = X'MX at the last w of `value_grad`."""
        self.work.products += 1
        return self._walk_device(v, linearize=False)[:-1]

    def gaps(self, w: Vector) -> Vector:
        """Compute Σ_pairs weight·max(0, τ_m − t) for each hinge m: see `ThreadEngine.gaps`."""
        found = np.empty(len(self.hinges.tau))
        for m in range(len(found)):
            launch_over(self._losses.size, clear, self._losses)
            for pairs in (self._groups, self._pairs):
                if pairs is not None:
                    pairs.add_gap(m, self._losses)
            launch(add_up, 1, self._losses, self._total[self.n_features :])
            found[m] = self._total[self.n_features :].copy_to_host()[0]
        return found

    # Operations on the host ---------------------------------------------------------------

    def hessian(self, n_rows: int | None = None, features: Integers | None = None) -> Vector:
        """Compute the Hessian as a matrix: see `ThreadEngine.hessian`."""
        self._linearize_on_host(self.sample_queries(n_rows))
        return super().hessian(n_rows, features)

    def total_curvature(self) -> float:
        """Return the sum of the curvatures of all documents at the last w."""
        return float(self._curvature.copy_to_host().sum())

    def sample(self, n_rows: int) -> None:
        """Return None: copying a sample to the device would take longer than it saves."""

    def hessian_diagonal(self) -> Vector:
        """Compute Σ_i curvature_i x_i²: see `ThreadEngine.hessian_diagonal`."""
        self._linearize_on_host(np.empty(0, np.int64))
        return super().hessian_diagonal()

    def hessian_of_documents(self, n_rows: int) -> Vector:
        """Estimate the Hessian from documents: see `ThreadEngine.hessian_of_documents`."""
        self._linearize_on_host(np.empty(0, np.int64))
        return super().hessian_of_documents(n_rows)

    def _linearize_on_host(self, queries: Integers) -> None:
        """Update the state on the host to the last w: all curvatures, and the given queries."""
        assert self.last is not None
        w, ptr = self.last[0], self.data.query_ptr
        self.state.curvature[:] = self._curvature.copy_to_host()
        for run in np.split(queries, np.flatnonzero(np.diff(queries) != 1) + 1):
            if len(run):
                a, b = int(run[0]), int(run[-1]) + 1
                s = np.empty(ptr[b] - ptr[a])
                matvec(self.matrix, ptr[a], ptr[b], w, s)
                known = self.layout.plan, self.state, self.hinges
                walk_scores(*known, True, a, b, s, np.empty_like(s), self.scratch[0])

    def change_loss(self, loss: Loss) -> None:
        """Replace the loss by one with as many hinges, and keep the pairs on the device."""
        known = {name: self.__dict__[name] for name in PER_LOSS if name in self.__dict__}
        super().change_loss(loss)
        self.__dict__.update(known)
        for pairs in (known.get("_groups"), known.get("_pairs")):
            if pairs is not None:
                pairs.set_hinges(self.hinges)

    def _set_loss(self, loss: Loss) -> None:
        super()._set_loss(loss)
        for name in PER_LOSS:
            self.__dict__.pop(name, None)

    # Pairs on the device ------------------------------------------------------------------

    @lazy_property
    def _scores(self) -> DeviceArray:
        """The scores of the documents that the fused kernels do not handle."""
        return zeros(self.data.n_docs)

    @lazy_property
    def _curvature(self) -> DeviceArray:
        return zeros(self.data.n_docs)

    @lazy_property
    def _routes(self) -> tuple[Integers, Integers]:
        """The queries with pairs that the fused kernels handle, and all others with pairs."""
        plan = self.layout.plan
        n_nodes = np.diff(plan.query_nodes)
        alive = np.flatnonzero(n_nodes > 0)
        if not self.fuses or not isinstance(self.layout, TableLayout) or self.data.is_sparse:
            return alive[:0], alive
        short = (n_nodes == 1) & (np.diff(plan.query_ptr) <= GROUP)
        return alive[short[alive]], alive[~short[alive]]

    @lazy_property
    def _groups(self) -> GroupedPairs | None:
        queries = self._routes[0]
        if not len(queries):
            return None
        assert isinstance(self.layout, TableLayout)
        assert isinstance(self._device, DenseRows)
        groups = GroupedPairs(self.layout.plan, queries, self._device.starts, self._curvature)
        groups.set_hinges(self.hinges)
        return groups

    @lazy_property
    def _pairs(self) -> DevicePairs | None:
        queries = self._routes[1]
        if not len(queries):
            return None
        pairs = self._device_pairs(queries)
        pairs.set_hinges(self.hinges)
        return pairs

    def _device_pairs(self, queries: Integers) -> DevicePairs:
        """Return the pairs of some queries, for the kernels of their layout."""
        known = self._scores, self._curvature
        if isinstance(self.layout, DominationLayout):
            return DominationLevels(self.layout.plan, *known)
        if isinstance(self.layout, ExplicitLayout):
            return ListedPairs(self.layout.plan, *known)
        return GridPairs(cast(TableLayout, self.layout).plan, queries, *known)

    @lazy_property
    def _n_sums(self) -> int:
        """The largest number of blocks of a launch that sums rows of X."""
        groups, pairs = self._groups, self._pairs
        n_groups = 0 if groups is None else len(groups.ptr) - 1
        n_tiles = 0 if pairs is None else self._n_tiles(len(pairs.rows))
        return min(BLOCKS, max(1, n_groups, n_tiles))

    @lazy_property
    def _sums(self) -> DeviceArray:
        """The partial sums of rows of each block, for each of two streams; empty for a sparse X."""
        n_rows = 0 if self.data.is_sparse else self._n_sums * (1 + self.streaming)
        return zeros((n_rows, self.n_features))

    def _sums_of(self, part: RowPart) -> DeviceArray:
        return self._sums[part.turn * self._n_sums : (part.turn + 1) * self._n_sums]

    # The three steps of every sum, on the device ------------------------------------------

    def _walk_device(self, v: Vector, linearize: bool) -> Vector:
        """Return X'u, followed by the loss if `linearize` is True."""
        groups, pairs, sums = self._groups, self._pairs, self._sums
        self._device.load()
        self._v.copy_to_device(np.ascontiguousarray(v, np.float64))
        if not self.data.is_sparse:
            launch_over(sums.size, clear, sums)
        if linearize:
            launch_over(self._losses.size, clear, self._losses)
        if groups is not None:
            self._walk_groups(groups, linearize)
        if pairs is not None:
            self._walk_pairs(pairs, linearize)
        if not self.data.is_sparse:
            launch(add_up, self.n_features, sums, self._total[: self.n_features])
        if linearize:
            launch(add_up, 1, self._losses, self._total[self.n_features :])
        return self._total.copy_to_host()

    def _walk_groups(self, groups: GroupedPairs, linearize: bool) -> None:
        """Compute scores, pair sums and X'u in one launch for each part of X."""
        assert isinstance(self._device, DenseRows)
        evaluate, curve = FUSED_KERNELS[self._device.dtype]
        shape, shared = self._device.tile(FUSED_BYTES[0 if linearize else 1])
        known = groups.plan, groups.state, groups.hinges, self._v, shape
        for part in self._device.parts_with(groups.heads):
            where: dict[str, Any] = {"stream": part.stream, "shared": shared}
            some = part.X, part.first, part.a, part.b, *known, self._sums_of(part)
            if linearize:
                losses = self._losses[part.turn * BLOCKS : (part.turn + 1) * BLOCKS]
                launch(evaluate, part.b - part.a, *some, losses, **where)
            else:
                launch(curve, part.b - part.a, *some, **where)

    def _walk_pairs(self, pairs: DevicePairs, linearize: bool) -> None:
        """Compute the scores, the pair sums and X'u in separate launches."""
        if linearize:
            self._score(pairs, self._offset, self._scores)
            pairs.linearize(self._u, self._losses)
        else:
            self._score(pairs, self._nothing, self._product)
            pairs.curve(self._product, self._u)
        self._add_rows(pairs)

    def _n_tiles(self, n_rows: int) -> int:
        """Return the number of tiles of so many rows; 0 for a sparse X, which has none."""
        device = self._device
        return 0 if isinstance(device, SparseRows) else -(-n_rows // device.tile(ROW_BYTES)[0][0])

    def _score(self, pairs: DevicePairs, offset: DeviceArray, target: DeviceArray) -> None:
        """Compute x_i · v − offset_i for the rows of the pairs."""
        if isinstance(self._device, SparseRows):
            launch(score_csr, len(target), *self._device.by_row, offset, self._v, target)
            return
        kernel = ROW_KERNELS[self._device.dtype][0]
        shape, shared = self._device.tile(ROW_BYTES)
        for part in self._device.parts_with(pairs.rows):
            launch(
                kernel, self._n_tiles(part.b - part.a), part.X, part.first, pairs.device_rows,
                offset, part.a, part.b, self._v, shape, target, stream=part.stream, shared=shared,
            )  # fmt: skip

    def _add_rows(self, pairs: DevicePairs) -> None:
        """Add Σ u_i x_i over the rows of the pairs."""
        if isinstance(self._device, SparseRows):
            total = self._total[: self.n_features]
            launch(multiply_csc, self.n_features, *self._device.by_column, self._u, total)
            return
        kernel = ROW_KERNELS[self._device.dtype][1]
        shape, shared = self._device.tile(ROW_BYTES)
        for part in self._device.parts_with(pairs.rows):
            launch(
                kernel, self._n_tiles(part.b - part.a), part.X, part.first, pairs.device_rows,
                part.a, part.b, self._u, shape, self._sums_of(part), stream=part.stream,
                shared=shared,
            )  # fmt: skip


def _check_listed(counting: str, n_pairs: int) -> None:
    """Raise a `DataError` if there are too many pairs for a counting that lists them."""
    if counting == "explicit" and n_pairs > MAX_PAIRS:
        raise DataError(
            f"there are {n_pairs:,} pairs with weights or margins of their own, which a graphics "
            f"card lists one by one; the limit is {MAX_PAIRS:,} pairs. Use engine='threads'."
        )


class StreamingEngine(CudaEngine):
    """The engine of a dense X that does not fit on the device.

    X is copied to the device in parts, for every product. The parameters are those of `CudaEngine`.
    """

    streaming = True
