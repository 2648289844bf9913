"""Pair sums on the device with tables of running sums.

Each class copies the plan of the host to the device, in the form that its kernels read.
`GroupedPairs` is for the kernels of `fused`, and `GridPairs` for those of `grid`. The modules
`listed`, `dominate` and `p_swx` have such classes for other layouts.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..._typing import Integers, Vector
from ...counting.plan import BASE, LEVELS, START, UNIT, PairPlan
from ...losses.base import Hinges
from . import fused, grid
from .device import (
    INDEX,
    DeviceArray,
    check_room,
    check_rows,
    empty,
    launch,
    launch_over,
    to_device,
)
from .sizes import GROUP, THREADS


def device_hinges(hinges: Hinges) -> fused.DeviceHinges:
    """Copy the table of a loss to the device."""
    return fused.DeviceHinges(
        to_device(hinges.tau), to_device(hinges.counts.scale), to_device(hinges.values.scale[0])
    )


def gap_hinges(hinges: Hinges, m: int) -> fused.DeviceHinges:
    """Return the loss max(0, τ_m − t) as a table with the same τ, on the device."""
    only = np.zeros(len(hinges.tau))
    only[m] = 1.0
    counts = np.array([0.0 * only, only, hinges.tau * only])
    return fused.DeviceHinges(to_device(hinges.tau), to_device(counts), to_device(0.0 * only))


def _documents(plan: PairPlan, queries: Integers) -> tuple[Integers, Integers]:
    """Return the rows of the compared documents of some queries, and their number per query."""
    ptr, level = plan.query_ptr, plan.level
    chosen = np.zeros(len(ptr) - 1, bool)
    chosen[queries] = True
    rows = np.flatnonzero(np.repeat(chosen, np.diff(ptr)) & (level >= 0))
    query = np.searchsorted(ptr, rows, side="right") - 1
    return rows, np.bincount(query, minlength=len(ptr) - 1)[queries]


def _weights(
    plan: PairPlan, rows: Integers, queries: Integers, sizes: Integers
) -> tuple[Vector, Vector]:
    """Return the weights of documents, and of their queries."""
    own = plan.weight[rows] if len(plan.weight) else np.ones(len(rows))
    return own, np.repeat(plan.query_weight[queries], sizes)


class GroupedPairs:
    """The pairs of short queries with few levels, for the fused kernels.

    Attributes
    ----------
    rows : int64 array
        The rows of the documents, group by group.
    heads : int64 array
        The first row of each group.
    ptr : int64 array
        Group g has the rows ``rows[ptr[g]:ptr[g + 1]]``.
    """

    def __init__(
        self, plan: PairPlan, queries: Integers, starts: list[int], curvature: DeviceArray
    ) -> None:
        rows, sizes = _documents(plan, queries)
        ends = np.cumsum(sizes)
        own, query_weight = _weights(plan, rows, queries, sizes)
        part = np.searchsorted(starts, plan.query_ptr[queries], side="right")
        cuts = group_queries(sizes, part, THREADS)
        self.ptr = np.concatenate([[0], ends])[cuts]
        levels = plan.nodes[plan.query_nodes[queries], LEVELS]
        self.rows, self.heads = rows, rows[self.ptr[:-1]]
        self.plan = fused.GroupPlan(
            ptr=to_device(self.ptr, np.int64),
            levels=to_device(np.maximum.reduceat(levels, cuts[:-1]), np.int64),
            rows=to_device(rows, INDEX),
            digit=to_device(plan.level[rows], np.uint8),
            first=to_device(np.repeat(ends - sizes, sizes), INDEX),
            last=to_device(np.repeat(ends, sizes), INDEX),
            weight=to_device(own),
            query_weight=to_device(query_weight),
            offset=to_device(plan.offset[rows] if len(plan.offset) else np.empty(0)),
        )
        self._curvature = curvature

    def set_hinges(self, hinges: Hinges) -> None:
        """Replace the loss."""
        n, T = len(self.rows), len(hinges.tau)
        self._tables, self.hinges = hinges, device_hinges(hinges)
        self.state = fused.GroupState(
            order=empty(n, INDEX),
            above=empty((T, n), INDEX),
            below=empty((T, n), INDEX),
            scores=empty(n),
            curvature=self._curvature,
        )

    def add_gap(self, m: int, losses: DeviceArray) -> None:
        """Add Σ_pairs weight·max(0, τ_m − t) to `losses`, at the scores last linearised."""
        unused = empty(self._curvature.shape)
        launch(
            fused.value_of_groups, len(self.ptr) - 1, self.plan, self.state,
            gap_hinges(self._tables, m), unused, losses,
        )  # fmt: skip


def group_queries(sizes: Integers, part: Integers, room: int) -> Integers:
    """Return the first query of each group, and the number of queries.

    A group has consecutive queries of one part of X that have at most `room` documents together, or
    a single query with more documents.

    Examples
    --------
    >>> group_queries(np.array([3, 4, 2, 9]), np.zeros(4, int), 8).tolist()
    [0, 2, 3, 4]
    """
    cuts, held = [0], 0
    for q, size in enumerate(sizes.tolist()):
        if q and (held + size > room or part[q] != part[q - 1]):
            cuts.append(q)
            held = 0
        held += size
    return np.array([*cuts, len(sizes)])


class GridPairs:
    """The pairs of long queries, many levels or a sparse X, for the kernels of `grid`."""

    def __init__(
        self, plan: PairPlan, queries: Integers, scores: DeviceArray, curvature: DeviceArray
    ) -> None:
        rows, sizes = _documents(plan, queries)
        own, query_weight = _weights(plan, rows, queries, sizes)
        nodes, query, layer = _nodes(plan, queries)
        heads = np.searchsorted(query, np.arange(len(queries)))  # each query's first node
        lengths = np.diff(plan.nodes[:, START])[nodes]
        node_ptr = np.concatenate([[0], np.cumsum(lengths)])
        n_places = int(node_ptr[-1])
        check_rows(n_places, "places of documents")
        n_chunks = -(-lengths // GROUP)
        node_chunks = np.concatenate([[0], np.cumsum(n_chunks)])
        owner = np.repeat(np.arange(len(nodes)), n_chunks)
        start = node_ptr[owner] + GROUP * (np.arange(len(owner)) - node_chunks[owner])
        end = np.minimum(start + GROUP, node_ptr[owner + 1])
        self.rows, self.n_places = rows, n_places
        self.device_rows = to_device(rows, INDEX)
        self.n_chunks, self.n_nodes = len(owner), len(nodes)
        self.n_layers, self.longest = int(layer.max()) + 1, int(lengths.max())
        self.n_tables = 2 * (int(plan.nodes[nodes, LEVELS].max()) - 1)
        self.plan = grid.GridPlan(
            rows=to_device(rows, INDEX),
            level=to_device(plan.level[rows], INDEX),
            middle=to_device(np.repeat(node_ptr[heads] + sizes // 2, sizes), INDEX),
            weight=to_device(own),
            query_weight=to_device(query_weight),
            node_ptr=to_device(node_ptr, np.int64),
            node_chunks=to_device(node_chunks, np.int64),
            levels=to_device(plan.nodes[nodes, LEVELS], INDEX),
            unit=to_device(plan.nodes[nodes, UNIT], INDEX),
            base=to_device(plan.nodes[nodes, BASE], INDEX),
            layer=to_device(layer, INDEX),
            chunks=to_device(np.column_stack([start, end, owner]), np.int64),
            node=to_device(np.repeat(np.arange(len(nodes)), lengths), INDEX),
        )
        self._docs = _place(
            plan.nodes[nodes, UNIT], query, layer, np.repeat(np.arange(len(queries)), sizes),
            plan.level[rows],
        )  # fmt: skip
        self._scores, self._curvature = scores, curvature

    def set_hinges(self, hinges: Hinges) -> None:
        """Replace the loss."""
        n, T = self.n_places, len(hinges.tau)
        n_bytes = 8 * self.n_tables * n + n * (33 + 8 * T)
        check_room(n_bytes, "the tables of pair sums", "engine='threads'")
        self._tables, self.hinges = hinges, device_hinges(hinges)
        self._totals = empty((self.n_tables, self.n_chunks))
        self._sums = empty((self.n_tables, n))
        self._x = empty(len(self.rows))
        self._spare = empty(n, INDEX), empty(n)
        self.state = grid.GridState(
            docs=to_device(self._docs, INDEX),
            keys=empty(n),
            digit=empty(n, np.uint8),
            place=to_device(np.full((self.n_layers, len(self.rows)), -1), INDEX),
            above=empty((T, n), INDEX),
            below=empty((T, n), INDEX),
            scores=self._scores,
            curvature=self._curvature,
        )

    def linearize(self, u: DeviceArray, losses: DeviceArray) -> None:
        """Compute the gradient u in the scores, and add the loss to `losses`."""
        self.sort()
        launch_over(self.n_places, grid.find_ends, self.plan, self.state, self.hinges.tau)
        self._evaluate(self.hinges, u, self._curvature, losses)

    def _evaluate(
        self,
        hinges: fused.DeviceHinges,
        u: DeviceArray,
        curvature: DeviceArray,
        losses: DeviceArray,
    ) -> None:
        n, known = len(self.rows), (self.plan, self.state, hinges, self._sums)
        self._fill(self.plan.weight)
        launch_over(n, grid.add_counts, *known, u, curvature, losses)
        self._fill(self._take_values(self._scores))
        launch_over(n, grid.add_values, *known, self._x, u, losses)

    def curve(self, v: DeviceArray, u: DeviceArray) -> None:
        """Compute the Hessian product u = H v in the scores."""
        x = self._take_values(v)
        self._fill(x)
        known = self.plan, self.state, self.hinges, self._sums
        launch_over(len(self.rows), grid.curve, *known, x, u)

    def add_gap(self, m: int, losses: DeviceArray) -> None:
        """Add Σ_pairs weight·max(0, τ_m − t) to `losses`, at the scores last linearised."""
        shape = self._curvature.shape
        self._evaluate(gap_hinges(self._tables, m), empty(shape), empty(shape), losses)

    def sort(self) -> None:
        """Sort the documents of each node by score: in chunks, which are then merged."""
        docs, keys = self.state.docs, self.state.keys
        launch(grid.sort_chunks, self.n_chunks, self.plan, self._scores, docs, keys)
        other, width = self._spare, GROUP
        while width < self.longest:
            launch_over(self.n_places, grid.merge_runs, self.plan, width, docs, keys, *other)
            (docs, keys), other, width = other, (docs, keys), 2 * width
        self._spare, self.state = other, self.state._replace(docs=docs, keys=keys)

    # The next kernels get only the arrays that they read: each argument adds to the launch time.

    def _take_values(self, scores: DeviceArray) -> DeviceArray:
        """Compute the weighted and centred scores x."""
        plan = self.plan
        known = plan.rows, plan.middle, plan.weight, self.state.docs
        launch_over(len(self.rows), grid.take_values, *known, scores, self._x)
        return self._x

    def _fill(self, x: DeviceArray) -> None:
        """Fill the tables of running sums of x."""
        known = self.plan.chunks, self.state.digit, self.state.docs, x, self._totals
        launch(grid.sum_chunks, self.n_chunks, *known)
        launch(grid.scan_chunks, self.n_nodes, self.plan.node_chunks, self._totals)
        launch(grid.fill_tables, self.n_chunks, *known, self._sums)


def _nodes(plan: PairPlan, queries: Integers) -> tuple[Integers, Integers, Integers]:
    """Return the nodes of some queries, the number of the query of each node, and its layer.

    A new layer starts where the unit changes.
    """
    counts = np.diff(plan.query_nodes)[queries]
    query, first = np.repeat(np.arange(len(queries)), counts), np.cumsum(counts) - counts
    nodes = np.arange(len(query)) + (plan.query_nodes[queries] - first)[query]
    changes = np.cumsum(np.diff(plan.nodes[nodes, UNIT], prepend=0) != 0)
    return nodes, query, changes - changes[first][query]


def _place(
    unit: Integers, query: Integers, layer: Integers, owner: Integers, level: NDArray[np.int32]
) -> Integers:
    """Return the documents of each node, in the order of their rows.

    ``unit``, ``query`` and ``layer`` are the unit of the digits, the query and the layer of each
    node. ``owner`` and ``level`` are the query and the level of each document.
    """
    docs, nodes = [], []
    for depth in range(int(layer.max()) + 1):
        here = np.flatnonzero(layer == depth)
        queries, heads = np.unique(query[here], return_index=True)
        head = np.full(int(query[-1]) + 1, -1)
        head[queries] = here[heads]
        mine = np.flatnonzero(head[owner] >= 0)
        node = head[owner[mine]]
        if depth:  # a node has the documents with one digit in the layer before
            node = node + level[mine] // unit[node - 1]
        docs.append(mine)
        nodes.append(node)
    return np.concatenate(docs)[np.argsort(np.concatenate(nodes), kind="stable")]
