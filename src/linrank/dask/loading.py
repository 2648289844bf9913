"""Loading of parts into the memory of their workers, by Dask tasks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from distributed import Client, Future
from distributed.scheduler import KilledWorker

from .._typing import Array
from ..errors import WorkersLost
from .pool import POLL_SECONDS, REPLACEMENT_SECONDS, WorkerConnection, WorkerPool
from .rows import PartSummary, QueryCounts
from .session import deliver_rows, select_queries
from .sources import Part


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
    parts: Sequence[Part], workers: Sequence[WorkerConnection], n_threads: int | None
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

    def __init__(self, client: Client, pool: WorkerPool, parts: Sequence[Part]) -> None:
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
