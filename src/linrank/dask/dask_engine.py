"""`DaskEngine`: the loss as a function of the weights, over `DaskData` in the workers."""

from __future__ import annotations

import asyncio
import math
import time
import warnings
from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, Self
from weakref import WeakValueDictionary

import numpy as np
from distributed import Client, Future
from distributed.scheduler import KilledWorker

from .._util.types import Array, Integers, Vector
from ..counting.preferences import ALL_PAIRS, Delta, Preferences
from ..data.categories import Categories
from ..engines.engine import Engine, Work
from ..errors import REFUSALS, DataError, QueriesMovedWarning, WorkersLost
from ..losses.loss import Loss
from .pool import POLL_SECONDS, REPLACEMENT_SECONDS, WorkerConnection, WorkerPool
from .session import Message, Recipe, deliver_rows, pack_loss, select_queries
from .sources import DataPart, PartSummary, QueryCounts, Shape, alike, combine_shapes

# --------------------------------------------------------------------------------------------------
# `DaskData`: ranked data in the memory of the workers, with whole queries on each worker.


MAX_LOSSES = 3  #: workers in a row that may be lost with one group before the fit ends
NO_ENGINE = -1  #: engine id of requests that concern no engine


class DaskData:
    """Ranked data in the memory of the workers of a Dask cluster; a context manager.

    The parts are cut into one group per worker, and each worker assembles its group once. If the
    rows of a query lie in several groups, they are moved to the group that has most of them, and a
    `QueriesMovedWarning` counts the moved rows.

    When a worker is lost, another worker loads its group from the source, and restores every
    engine to its last state. If no worker can do so, `WorkersLost` is raised and kept in `fault`.

    Parameters
    ----------
    client : Client
    parts : sequence of Part
        From `linrank.dask.sources`.
    n_threads : int, optional
        Threads of each worker; by default as many as Dask gives it.
    timeout : float
        Seconds after which a worker that has not answered counts as lost.

    Attributes
    ----------
    n_docs, n_queries, n_features, n_levels : int
    is_sparse : bool
    dtype : numpy dtype
    feature_names : list of str or None
    index_base : {0, 1}
    has_qid : bool
    n_moved : int
        Rows that were moved between workers.
    groups : list of Group
        The pieces that each worker holds, in the order in which sums are added.
    pool : WorkerPool
        The connections to the workers.
    fault : WorkersLost or None

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from linrank import make_ranking
    >>> from linrank.dask import DaskData
    >>> from linrank.dask.sources import find_parts
    >>> data = make_ranking(random_state=0)
    >>> X, y, qid = (da.from_array(a, chunks=1000) for a in (data.X, data.y, data.qid))
    >>> with Client(processes=False, n_workers=2, dashboard_address=":0") as client:
    ...     with DaskData(client, find_parts(X, y, qid)) as loaded:
    ...         print(loaded.n_docs, loaded.n_queries, len(loaded.groups))
    2000 100 2
    """

    n_docs: int
    n_queries: int
    n_levels: int

    def __init__(
        self,
        client: Client,
        parts: Sequence[DataPart],
        n_threads: int | None = None,
        timeout: float = 600.0,
    ) -> None:
        self.client = client
        self.fault: WorkersLost | None = None
        self.n_moved = 0
        self.groups: list[Group] = []
        self._engines: WeakValueDictionary[int, DaskEngine] = WeakValueDictionary()
        self._n_engines = 0
        self.pool = WorkerPool(client, timeout)
        self._loader = GroupLoader(client, self.pool, parts)
        try:
            self._load(n_threads)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Disconnect from the workers, which then discard the data."""
        self.pool.close()

    @property
    def traffic(self) -> tuple[int, int]:
        """Bytes sent to and received from the workers that are connected now."""
        wires = [worker.wire for worker in self.pool.connections.values()]
        return sum(wire.sent for wire in wires), sum(wire.received for wire in wires)

    # Requests -----------------------------------------------------------------------------

    def ask(self, operation: str, engine_id: int = NO_ENGINE, body: Any = None) -> list[Any]:
        """Run an operation on all groups, and return the answers in the order of the groups.

        Operations are those of `linrank.dask.session.OPERATIONS`. Groups whose workers are lost
        are loaded elsewhere, and asked again.
        """
        answers: dict[int, Any] = {}
        try:
            while missing := [g for g in range(len(self.groups)) if g not in answers]:
                answers |= self._ask(missing, operation, engine_id, body)
                for g in missing:
                    if g in answers:
                        self.groups[g].n_losses = 0
                    else:
                        self._restore(g)
        except WorkersLost as fault:
            self.fault = fault
            raise
        return [answers[g] for g in range(len(self.groups))]

    def _ask(
        self, groups: list[int], operation: str, engine_id: int = NO_ENGINE, body: Any = None
    ) -> dict[int, Any]:
        """Return the answers of those groups whose workers are not lost."""
        asked: dict[str, list[int]] = defaultdict(list)
        for g in groups:
            worker = self.groups[g].worker
            if self.pool.connections.get(worker.address) is worker:
                asked[worker.address].append(g)
        live = sorted(self._engines)
        request = {"operation": operation, "engine": engine_id, "body": body, "live": live}
        if operation == "make_engine":
            function = self._engines[engine_id].function
            if function is not None:
                self.pool.send_function(asked, engine_id, function)
        messages = {address: request | {"groups": own} for address, own in asked.items()}
        answers: dict[int, Any] = {}
        for address, reply in self.pool.request_all(messages).items():
            if reply is not None:
                answers |= zip(asked[address], _answers(address, reply), strict=True)
        return answers

    def register_engine(self, engine: DaskEngine) -> int:
        """Return a new id for an engine, which is made again wherever a group is loaded again."""
        self._n_engines += 1
        self._engines[self._n_engines] = engine
        return self._n_engines

    # Loading ------------------------------------------------------------------------------

    def _load(self, n_threads: int | None) -> None:
        workers, limit = list(self.pool.connections.values()), self.pool.data_limit()
        self.groups = make_groups(self._loader.parts, workers, n_threads)
        try:
            summaries = self._load_groups()
        except WorkersLost:
            self._check_largest_query(limit)
            raise
        self._shape = combine_shapes([part for group in summaries for part in group])
        queries = [[part.queries for part in group] for group in summaries]
        check_largest_query([part for group in queries for part in group], limit)
        if self._move_queries(queries):
            summaries = self._load_groups()
        self._drop_empty_groups(summaries)
        self._describe(self._shape, self.ask("assemble", body=self._assembly()))

    def _load_groups(self) -> list[list[PartSummary]]:
        """Load every group on its worker, or on another one if that is lost."""
        found: dict[int, list[PartSummary]] = {}
        while missing := {g: x for g, x in enumerate(self.groups) if g not in found}:
            found |= self._loader.load(missing)
            for g in missing:
                if g not in found:
                    self._reassign(g)
        return [found[g] for g in range(len(self.groups))]

    def _assembly(self) -> dict[int, tuple[Shape, tuple[str, ...], int]]:
        """Return what each group is assembled from: the body of the operation "assemble"."""
        return {g: (self._shape, x.keys, x.n_threads) for g, x in enumerate(self.groups)}

    def _describe(self, shape: Shape, found: list[dict[str, Any]]) -> None:
        for name in sorted(set.intersection(*(set(about["zero_weights"]) for about in found))):
            raise DataError(
                f"{name} is zero everywhere. Use a positive weight for at least one row."
            )
        self.n_docs = sum(about["n_docs"] for about in found)
        self.n_queries = sum(about["n_queries"] for about in found)
        self.n_levels = len(np.unique(np.concatenate([about["labels"] for about in found])))
        self.n_features, self.index_base = shape.n_features, shape.index_base
        self.is_sparse, self.dtype = shape.is_sparse, np.dtype(shape.dtype)
        self.categories = Categories()  # columns of text are refused
        self.feature_names, self.has_qid = shape.feature_names, shape.has_qid

    def _check_largest_query(self, limit: float) -> None:
        """After workers were lost while loading, raise an error if a query is too large for them.

        Only the query ids are read for this check, not the features.
        """
        queries = None if math.isinf(limit) else self._loader.count_queries()
        if queries is not None:
            check_largest_query(queries, limit)

    def _move_queries(self, queries: list[list[QueryCounts]]) -> bool:
        """Assign each query that lies in several groups to one; return whether any row moves."""
        moves, self.n_moved, n_queries = find_moves(queries)
        if not moves:
            return False
        warnings.warn(
            f"{self.n_moved:,} rows of {n_queries:,} queries were moved between workers, because "
            "a query must be on one worker. Keep the rows of a query in one part to avoid this",
            QueriesMovedWarning,
            stacklevel=5,
        )
        leaving: dict[int, list[Array]] = defaultdict(list)
        arriving: dict[int, list[Piece]] = defaultdict(list)
        for part, g, ids in moves:
            leaving[part].append(ids)
            arriving[g].append(Piece(part, ids, keep=True))
        for g, group in enumerate(self.groups):
            staying = [Piece(p, np.concatenate(leaving[p])) if p in leaving else Piece(p)
                       for p, *_ in group.pieces]  # fmt: skip
            group.pieces = staying + arriving[g]
        self._ask(list(range(len(self.groups))), "discard_rows")
        return True

    def _drop_empty_groups(self, summaries: list[list[PartSummary]]) -> None:
        self.groups = [
            group
            for group, parts in zip(self.groups, summaries, strict=True)
            if any(part.queries.n_docs for part in parts)
        ]

    # Lost workers -------------------------------------------------------------------------

    def _reassign(self, g: int) -> None:
        """Assign a group, whose worker is lost, to another worker."""
        group = self.groups[g]
        group.n_losses += 1
        if group.n_losses > MAX_LOSSES:
            raise WorkersLost(
                f"{group.n_losses} workers in a row were lost that held the same parts of the "
                f"data, the last one at {group.worker.address}. If they run out of memory, give "
                "them more, or use more workers"
            )
        held: dict[str, int] = defaultdict(int)
        for other in self.groups:
            if other is not group:
                held[other.worker.address] += other.n_bytes
        group.worker = self.pool.find_replacement(group.n_bytes, held, group.worker)

    def _restore(self, g: int) -> None:
        """Load a lost group on another worker, and restore its engines to their last state."""
        while True:
            self._reassign(g)
            if g not in self._loader.load({g: self.groups[g]}):
                continue
            if not self._ask([g], "assemble", body=self._assembly()):
                continue
            # An engine may be made from another one, which has a smaller id.
            engines = sorted(self._engines.items())
            if all(self._ask([g], "make_engine", n, engine.state()) for n, engine in engines):
                return


def _answers(address: str, reply: Message) -> list[Any]:
    """Return the answers of a reply, or raise the error that it reports."""
    if "error" in reply:
        kind, sentence = reply["error"]
        if kind in REFUSALS:
            raise REFUSALS[kind](sentence)
        raise WorkersLost(
            f"the worker {address} has too little memory for its data: {sentence}. Give the "
            "workers more memory, or use more workers"
        )
    if "traceback" in reply:
        raise RuntimeError(f"the worker {address} failed:\n{reply['traceback']}")
    return reply["answers"]


# --------------------------------------------------------------------------------------------------
# The engine.


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


# --------------------------------------------------------------------------------------------------
# `DaskData`: ranked data in the memory of the workers, with whole queries on each worker.


# --------------------------------------------------------------------------------------------------
# Queries whose rows lie on several workers, and queries too large for any worker.


class Move(NamedTuple):
    """Queries of one part whose rows go to another group."""

    part: int
    group: int
    ids: Array


class Moves(NamedTuple):
    """All moves that bring the rows of every query into one group."""

    moves: list[Move]
    n_rows: int
    n_queries: int


def find_moves(groups: Sequence[Sequence[QueryCounts]]) -> Moves:
    """Assign each query to the group that has most of its rows, and list the rows to move.

    Each group is a sequence of consecutive parts. Parts are numbered across all groups.
    """
    parts = [part for group in groups for part in group]
    owner = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    ids, query, part, counts = _list_queries(parts)
    home = _find_homes(query, owner[part], counts, len(groups))[query]
    moved = np.flatnonzero(home != owner[part])
    places, place = np.unique(part[moved] * len(groups) + home[moved], return_inverse=True)
    order = np.argsort(place, kind="stable")
    runs = np.split(moved[order], np.cumsum(np.bincount(place))[:-1])
    moves = [
        Move(int(own // len(groups)), int(own % len(groups)), ids[query[run]])
        for own, run in zip(places, runs, strict=False)  # Without moves there is one empty run.
    ]
    return Moves(moves, int(counts[moved].sum()), len(np.unique(query[moved])))


def _list_queries(
    parts: Sequence[QueryCounts],
) -> tuple[Array, Integers, Integers, Integers]:
    """List the queries of all parts.

    Returns
    -------
    ids : array
        The distinct ids.
    query, part, counts : arrays with one entry for each query of each part
        The place of the query in `ids`, the number of the part, and the number of documents.
    """
    filled = [part for part in parts if len(part.ids)]  # The dtype of empty arrays is arbitrary.
    together = np.concatenate(alike([part.ids for part in filled]))
    ids, query = np.unique(together, return_inverse=True)
    part = np.repeat(np.arange(len(parts)), [len(part.ids) for part in parts])
    return ids, query, part, np.concatenate([part.counts for part in filled])


def _find_homes(query: Integers, group: Integers, counts: Integers, n_groups: int) -> Integers:
    """Return for each query the group with most of its rows, the first such group in a tie."""
    cells, cell = np.unique(query * n_groups + group, return_inverse=True)
    rows = np.bincount(cell, counts)
    query, group = np.divmod(cells, n_groups)
    best = np.lexsort((group, -rows, query))
    return group[best][np.searchsorted(query[best], np.arange(query[-1] + 1))]


def check_largest_query(parts: Sequence[QueryCounts], limit: float) -> None:
    """Raise a `DataError` if the features of a query take more than `limit` bytes."""
    ids, query, part, counts = _list_queries(parts)
    row_bytes = np.array([own.n_bytes / max(1, own.n_docs) for own in parts])
    sizes = np.bincount(query, counts * row_bytes[part])
    k = int(np.argmax(sizes))
    if sizes[k] > limit:
        n_docs = int(counts[query == k].sum())
        raise DataError(
            f"query {ids[k]} has {n_docs:,} documents, which take {_megabytes(sizes[k])}, but a "
            f"query must fit on one worker, where data may take at most {_megabytes(limit)}. Give "
            "the workers more memory"
        )


def _megabytes(n_bytes: float) -> str:
    return f"{n_bytes / 1e6:,.{0 if n_bytes >= 1e7 else 2}f} MB"


# --------------------------------------------------------------------------------------------------
# Loading of parts into the memory of their workers, by Dask tasks.


class Piece(NamedTuple):
    """Rows of a part: all rows, those of the queries `ids` (``keep``), or all but those."""

    part: int
    ids: Array | None = None
    keep: bool = False


@dataclass
class Group:
    """Pieces that one worker holds together. Sums are added in the order of the groups."""

    pieces: list[Piece]
    n_threads: int
    worker: WorkerConnection
    keys: tuple[str, ...] = ()  #: of the pieces that were delivered to the worker's session
    n_bytes: int = 0  #: memory of the features
    n_losses: int = 0  #: workers lost in a row while they held this group


def make_groups(
    parts: Sequence[DataPart], workers: Sequence[WorkerConnection], n_threads: int | None
) -> list[Group]:
    """Cut the parts into consecutive groups of about equal size, at most one per worker."""
    ptr = np.cumsum([0] + [max(1, part.size) for part in parts])
    goals = ptr[-1] * np.arange(1, len(workers)) / len(workers)
    cuts = np.searchsorted((ptr[1:] + ptr[:-1]) / 2, goals)  # the borders nearest to the goals
    edges = [0, *(int(cut) for cut in cuts), len(parts)]
    runs = [(a, b) for a, b in pairwise(edges) if a < b]
    return [
        Group([Piece(p) for p in range(a, b)], n_threads or worker.n_threads, worker)
        for (a, b), worker in zip(runs, workers, strict=False)
    ]


class GroupLoader:
    """Loads groups of parts on their workers.

    All futures are released explicitly. A future that a traceback keeps alive would bind its task
    to a worker that may be dead, and every later task with the same key would wait for it.
    """

    def __init__(self, client: Client, pool: WorkerPool, parts: Sequence[DataPart]) -> None:
        self.client, self.pool, self.parts = client, pool, list(parts)

    def load(self, groups: dict[int, Group]) -> dict[int, list[PartSummary]]:
        """Deliver the pieces of groups to their workers; return summaries of those that arrived.

        A group is missing in the result if its worker was lost.
        """
        shared = self._compute_parts(groups.values())
        futures = {g: self._deliver(group, g, shared) for g, group in groups.items()}
        _release(shared.values())
        found: dict[int, list[PartSummary]] = {}
        try:
            for g, group in groups.items():
                summaries = self._wait(group.worker, futures[g])
                if summaries is not None:
                    found[g] = summaries
                    group.n_bytes = int(sum(s.queries.n_bytes for s in summaries))
        finally:
            for own in futures.values():
                _release(own)
        return found

    def count_queries(self) -> list[QueryCounts] | None:
        """Count the queries of all parts without loading features; None if that fails too."""
        futures = self.client.compute([part.queries for part in self.parts])
        seconds = self.pool.timeout if self.pool.running() else REPLACEMENT_SECONDS
        deadline = time.monotonic() + seconds
        try:
            return [future.result(max(0.0, deadline - time.monotonic())) for future in futures]
        except (KilledWorker, OSError, CancelledError, asyncio.CancelledError):
            return None
        finally:
            _release(futures)

    def _compute_parts(self, groups: Iterable[Group]) -> dict[int, Future]:
        """Compute each part once, preferably on a worker that needs its rows.

        Other workers may compute the part too. Tasks that several parts share must not wait for
        a worker that is dead.
        """
        wanted: dict[int, str] = {}
        for group in groups:
            for piece in group.pieces:
                wanted.setdefault(piece.part, group.worker.address)
        return {
            p: self.client.compute(self.parts[p].rows, workers=[address], allow_other_workers=True)
            for p, address in wanted.items()
        }

    def _deliver(self, group: Group, g: int, shared: dict[int, Future]) -> list[Future]:
        """Submit tasks that hand the pieces of a group to its worker's session, under new keys."""
        group.keys = tuple(f"{g}-{k}-{time.monotonic_ns()}" for k in range(len(group.pieces)))
        futures = []
        for piece, key in zip(group.pieces, group.keys, strict=True):
            rows = shared[piece.part]
            if piece.ids is not None:
                rows = self.client.submit(
                    select_queries, rows, piece.ids, piece.keep, pure=False
                )  # fmt: skip
            futures.append(self.client.submit(
                deliver_rows, rows, group.worker.token, key, workers=[group.worker.address],
                allow_other_workers=False, pure=False,
            ))  # fmt: skip
            if piece.ids is not None:
                _release([rows])
        return futures

    def _wait(self, worker: WorkerConnection, futures: list[Future]) -> list[PartSummary] | None:
        """Wait for the tasks of one worker; return None if the worker is lost."""
        deadline, found = time.monotonic() + self.pool.timeout, []
        for future in futures:
            result = self._result(worker, future, deadline)
            if result is None:
                self.pool.drop(worker.address)
                return None
            found.append(result)
        return found

    def _result(
        self, worker: WorkerConnection, future: Future, deadline: float
    ) -> PartSummary | None:
        """Wait for one result while its worker accepts tasks.

        A single task gathers the result. Repeated calls of ``future.result(timeout)`` share one
        transfer, and the first call that times out would cancel it for all.
        """
        gathering = self.client.sync(self._gather, future)
        try:
            while not self.client.sync(_is_done, gathering):
                if time.monotonic() > deadline or not self.pool.accepts_tasks(worker):
                    self.client.loop.add_callback(gathering.cancel)
                    return None
            return gathering.result()
        except (KilledWorker, MemoryError) as error:
            raise WorkersLost(
                f"a part of the data cannot be loaded: {error}. If the workers run out of memory, "
                "give them more, or cut the data into smaller parts"
            ) from None
        except (OSError, CancelledError, asyncio.CancelledError):
            if future.status == "error":  # The task itself has raised this error.
                raise
            return None

    async def _gather(self, future: Future) -> asyncio.Task[PartSummary]:
        return asyncio.ensure_future(self.client.gather(future, asynchronous=True))


async def _is_done(task: asyncio.Task[Any]) -> bool:
    """Wait for at most `POLL_SECONDS`, and return whether a task is done."""
    return bool((await asyncio.wait([task], timeout=POLL_SECONDS))[0])


def _release(futures: Iterable[Future]) -> None:
    for future in futures:
        future.release()
