"""`DaskData`: ranked data in the memory of the workers, with whole queries on each worker."""

from __future__ import annotations

import math
import warnings
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakValueDictionary

import numpy as np
from distributed import Client

from .._typing import Array
from ..errors import REFUSALS, DataError, QueriesMovedWarning, WorkersLost
from .loading import Group, GroupLoader, Piece, make_groups
from .pool import WorkerPool
from .queries import check_largest_query, find_moves
from .rows import PartSummary, QueryCounts, Shape, combine_shapes
from .sources import Part
from .wire import Message

if TYPE_CHECKING:
    from .engine import DaskEngine

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
        parts: Sequence[Part],
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
