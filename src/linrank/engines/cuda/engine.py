"""The CUDA engine: evaluation and Hessian products on the device, the rest on the host.

What is asked for rarely, such as the sample of the Hessian that preconditions, is made by the
thread engine that this one is, at the same weights: only the sampled queries are linearised there.
Per product v goes to the device and H v comes back, d numbers each.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._lazy import lazy_property
from ..._rows import matvec
from ..._typing import Vector
from ...counting.layout import MAX_PAIRS
from ...counting.preferences import ALL_PAIRS, Preferences
from ...counting.sweep import STRUCTURES
from ...data.ranking import RankingData
from ...errors import DataError
from ...losses import Loss
from ..threads import ThreadEngine, _walk_scores
from .device import (
    DenseRows,
    Part,
    SparseRows,
    check_rows,
    empty,
    launch,
    launch_over,
    to_device,
    zeros,
)
from .dominate import DominationLevels
from .fused import FUSED_BYTES, FUSED_KERNELS
from .listed import ListedPairs
from .p_swx import SortedPairs
from .pairs import GridPairs, GroupedPairs
from .rows import ROW_BYTES, ROW_KERNELS, add_up, clear, multiply_csc, score_csr
from .sizes import BLOCKS, GROUP

AT_SCORES = ("_groups", "_pairs", "_scores", "_curvature")  #: what each loss has of its own

#: What the device counts with instead of what the host would choose.
INSTEAD = {"two-level": "explicit", **dict.fromkeys(STRUCTURES, "tables")}


class CudaEngine(ThreadEngine):
    """`ThreadEngine` with X on a graphics card.

    Parameters
    ----------
    data, loss, normalize, n_threads, counting, preferences
        See `ThreadEngine`; of the ways of counting, the device has tables and listed pairs.
    streaming : bool
        Copy X to the device in parts for every product: for X that does not fit.
    paper : bool
        Sum over pairs as in Jin & Lin 2014 (`linrank.engines.cuda.p_swx`).
    """

    def __init__(
        self,
        data: RankingData,
        loss: Loss,
        normalize: str | None = None,
        n_threads: int | None = None,
        *,
        counting: str = "auto",
        preferences: Preferences = ALL_PAIRS,
        streaming: bool = False,
        paper: bool = False,
    ) -> None:
        if streaming and data.is_sparse:
            raise DataError("engine='cuda-streaming' takes dense X: use engine='cuda' for sparse X")
        check_rows(data.n_docs, "documents")
        self._paper = paper
        how: dict[str, Any] = {"preferences": preferences}
        super().__init__(data, loss, normalize, n_threads, counting=counting, **how)
        if self.counting in INSTEAD:
            _check_listed(self.counting, self.n_pairs)
            counting = INSTEAD[self.counting]
            super().__init__(data, loss, normalize, n_threads, counting=counting, **how)
        self._device: Any = (
            SparseRows(data.X) if data.is_sparse else DenseRows(data.X, data.query_ptr, streaming)
        )
        self._streaming = streaming
        self._losses = zeros((BLOCKS * (1 + streaming), 1))
        self._total, self._v = zeros(self.n_features + 1), empty(self.n_features)
        self._u, self._product = zeros(data.n_docs), zeros(data.n_docs)
        self._offset, self._nothing = to_device(self._plan.offset), to_device(np.empty(0))

    def value_grad(self, w: Vector) -> tuple[float, Vector]:
        """The loss and its gradient at w; Hessian products are then those at w."""
        self.last = None
        self.work.evaluations += 1
        total = self._walk_device(w, linearize=True)
        loss, gradient = float(total[-1]), total[:-1]
        self.last = np.array(w, dtype=np.float64), loss, gradient.copy()
        return loss, gradient

    def hessp(self, v: Vector) -> Vector:
        """``H v`` with H = X'MX, the Hessian at the last w of `value_grad`."""
        self.work.products += 1
        return self._walk_device(v, linearize=False)[:-1]

    def gaps(self, w: Vector) -> Vector:
        """``Σ_pairs weight·max(0, τ_m − t)`` for each hinge m, at the last w of `value_grad`."""
        found = np.empty(len(self._hinges.tau))
        for m in range(len(found)):
            launch_over(self._losses.size, clear, self._losses)
            for pairs in (self._groups, self._pairs):
                if pairs is not None:
                    pairs.add_gap(m, self._losses)
            launch(add_up, 1, self._losses, self._total[self.n_features :])
            found[m] = self._total[self.n_features :].copy_to_host()[0]
        return found

    # What the host does -------------------------------------------------------------------

    def hessian(
        self, n_rows: int | None = None, features: NDArray[np.int64] | None = None
    ) -> Vector:
        """The Hessian as a matrix, exact or estimated: see `ThreadEngine.hessian`."""
        self._linearize_on_host(self._sample(n_rows))
        return super().hessian(n_rows, features)

    def hessian_diagonal(self) -> Vector:
        """``Σ_i curvature_i x_i²``: see `ThreadEngine.hessian_diagonal`."""
        self._linearize_on_host(np.empty(0, np.int64))
        return super().hessian_diagonal()

    def hessian_of_documents(self, n_rows: int) -> Vector:
        """An estimate from documents: see `ThreadEngine.hessian_of_documents`."""
        self._linearize_on_host(np.empty(0, np.int64))
        return super().hessian_of_documents(n_rows)

    def _linearize_on_host(self, queries: NDArray[np.int64]) -> None:
        """Bring the host to the last w: the curvature of all documents, and all of some queries."""
        assert self.last is not None
        w, ptr = self.last[0], self.data.query_ptr
        self._state.curvature[:] = self._curvature.copy_to_host()
        for run in np.split(queries, np.flatnonzero(np.diff(queries) != 1) + 1):
            if len(run):
                a, b = int(run[0]), int(run[-1]) + 1
                s = np.empty(ptr[b] - ptr[a])
                matvec(self._X, ptr[a], ptr[b], w, s)
                known = self._plan, self._state, self._hinges
                _walk_scores(*known, True, a, b, s, np.empty_like(s), self._scratch[0])

    def change_loss(self, loss: Loss) -> None:
        """Take a loss of as many hinges."""
        known = {name: self.__dict__[name] for name in AT_SCORES if name in self.__dict__}
        super().change_loss(loss)
        self.__dict__.update(known)
        for pairs in (known.get("_groups"), known.get("_pairs")):
            if pairs is not None:
                pairs.set_hinges(self._hinges)

    def _set_loss(self, loss: Loss) -> None:
        super()._set_loss(loss)
        for name in AT_SCORES:
            self.__dict__.pop(name, None)

    # Pairs on the device ------------------------------------------------------------------

    @lazy_property
    def _scores(self) -> Any:
        """The scores of the rows that the fused kernels leave."""
        return zeros(self.data.n_docs)

    @lazy_property
    def _curvature(self) -> Any:
        return zeros(self.data.n_docs)

    @lazy_property
    def _routes(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The queries of the fused kernels, and those of the other ones; none without pairs."""
        n_nodes = np.diff(self._plan.query_nodes)
        alive = np.flatnonzero(n_nodes > 0)
        if self.counting != "tables" or self._paper or self.data.is_sparse:
            return alive[:0], alive
        short = (n_nodes == 1) & (np.diff(self._plan.query_ptr) <= GROUP)
        return alive[short[alive]], alive[~short[alive]]

    @lazy_property
    def _groups(self) -> GroupedPairs | None:
        queries = self._routes[0]
        if not len(queries):
            return None
        groups = GroupedPairs(self._plan, queries, self._device.starts, self._curvature)
        groups.set_hinges(self._hinges)
        return groups

    @lazy_property
    def _pairs(self) -> Any:
        queries, known = self._routes[1], (self._scores, self._curvature)
        if not len(queries):
            return None
        pairs: Any
        if self._paper:
            pairs = SortedPairs(self.counting, self._plan, self.data.y, *known)
        elif not self.loss.pairwise:
            pairs = DominationLevels(self._plan, *known)
        elif self.counting == "explicit":
            pairs = ListedPairs(self._plan, *known)
        else:
            pairs = GridPairs(self._plan, queries, *known)
        pairs.set_hinges(self._hinges)
        return pairs

    @lazy_property
    def _n_sums(self) -> int:
        """Blocks of a launch that add up rows of X, at most."""
        groups, pairs = self._groups, self._pairs
        n_groups = 0 if groups is None else len(groups.ptr) - 1
        n_tiles = 0 if pairs is None else self._n_tiles(len(pairs.rows))
        return min(BLOCKS, max(1, n_groups, n_tiles))

    @lazy_property
    def _sums(self) -> Any:
        """The sums of each block, for each of two streams; of a sparse X, each column has one."""
        n_rows = 0 if self.data.is_sparse else self._n_sums * (1 + self._streaming)
        return zeros((n_rows, self.n_features))

    def _sums_of(self, part: Part) -> Any:
        return self._sums[part.turn * self._n_sums : (part.turn + 1) * self._n_sums]

    # The three steps of every sum, on the device ------------------------------------------

    def _walk_device(self, v: Vector, linearize: bool) -> Vector:
        """The sum over all queries and, where scores are linearised, the loss behind it."""
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
        """All three steps in one launch, part of X by part of X."""
        evaluate, curve = FUSED_KERNELS[self._device.dtype]
        shape, shared = self._device.tile(FUSED_BYTES[0 if linearize else 1])
        known = groups.plan, groups.state, groups.hinges, self._v, shape
        for part in self._device.parts_with(groups.heads):
            where = {"stream": part.stream, "shared": shared}
            some = part.X, part.first, part.a, part.b, *known, self._sums_of(part)
            if linearize:
                losses = self._losses[part.turn * BLOCKS : (part.turn + 1) * BLOCKS]
                launch(evaluate, part.b - part.a, *some, losses, **where)
            else:
                launch(curve, part.b - part.a, *some, **where)

    def _walk_pairs(self, pairs: Any, linearize: bool) -> None:
        """Scores of rows, the pairs, X'u."""
        if linearize:
            self._score(pairs, self._offset, self._scores)
            pairs.linearize(self._u, self._losses)
        else:
            self._score(pairs, self._nothing, self._product)
            pairs.curve(self._product, self._u)
        self._add_rows(pairs)

    def _n_tiles(self, n_rows: int) -> int:
        return 0 if self.data.is_sparse else -(-n_rows // self._device.tile(ROW_BYTES)[0][0])

    def _score(self, pairs: Any, offset: Any, target: Any) -> None:
        """``x_i · v − offset_i`` of the rows of the pairs."""
        if self.data.is_sparse:
            launch(score_csr, len(target), *self._device.by_row, offset, self._v, target)
            return
        kernel = ROW_KERNELS[self._device.dtype][0]
        shape, shared = self._device.tile(ROW_BYTES)
        for part in self._device.parts_with(pairs.rows):
            launch(
                kernel, self._n_tiles(part.b - part.a), part.X, part.first, pairs.device_rows,
                offset, part.a, part.b, self._v, shape, target, stream=part.stream, shared=shared,
            )  # fmt: skip

    def _add_rows(self, pairs: Any) -> None:
        """Add ``Σ u_i x_i`` over the rows of the pairs."""
        if self.data.is_sparse:
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
    """Refuse more pairs with weights or margins of their own than are listed one by one."""
    if INSTEAD[counting] == "explicit" and n_pairs > MAX_PAIRS:
        raise DataError(
            f"there are {n_pairs:,} pairs with weights or margins of their own, which are listed "
            f"one by one on a graphics card; at most {MAX_PAIRS:,} are: use engine='threads'"
        )
