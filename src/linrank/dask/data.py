"""`DaskData`: ranked data in the memory of the workers, whole queries on each."""

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
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from weakref import WeakValueDictionary

import numpy as np
from distributed import Client, Future
from distributed.scheduler import KilledWorker
from numpy.typing import NDArray

from ..errors import REFUSALS, DataError, QueriesMovedWarning, WorkersLost
from .crew import PATIENCE, POLL, Crew, Link
from .queries import find_moves, refuse_large_query
from .resident import deposit, function_key, select
from .rows import Census, Shape, Survey, agree
from .sources import Part

if TYPE_CHECKING:
    from .engine import DaskEngine

ATTEMPTS = 3  #: workers that may die of one group of parts before it is given up


class Piece(NamedTuple):
    """Rows of a part: all, those of some queries (``keep``), or all but those."""

    part: int
    ids: NDArray[Any] | None = None
    keep: bool = False


@dataclass
class Group:
    """Pieces that stay together on a worker: sums are added up in the order of groups."""

    pieces: list[Piece]
    n_threads: int
    link: Link
    keys: tuple[str, ...] = ()  #: of the pieces in the inbox of the worker
    n_bytes: int = 0
    attempts: int = 0


class DaskData:
    """Ranked data in the memory of the workers of a Dask cluster; a context manager.

    The parts are cut into as many groups as there are workers. Each worker puts the parts of its
    group together once. Where queries lie across groups, their rows are moved to the group that
    has most of them, and a `QueriesMovedWarning` says how many. When a worker is lost, its group
    is loaded again from its source by another one, and every engine on it is brought to where it
    was; if that cannot be, `WorkersLost` is raised and kept as ``fault``.

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
    fault : WorkersLost or None
    """

    def __init__(
        self,
        client: Client,
        parts: Sequence[Part],
        n_threads: int | None = None,
        timeout: float = 600.0,
    ) -> None:
        self.client, self.parts = client, list(parts)
        self.fault: WorkersLost | None = None
        self.views: WeakValueDictionary[int, DaskEngine] = WeakValueDictionary()
        self.n_moved = 0
        self._shape: Shape | None = None
        self._n_views = 0
        self._crew = Crew(client, timeout)
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
        """Let the workers go, with all that they hold."""
        self._crew.close()

    @property
    def traffic(self) -> tuple[int, int]:
        """Bytes of all messages to the workers that are linked now, and of the answers."""
        links = self._crew.links.values()
        return sum(link.wire.sent for link in links), sum(link.wire.received for link in links)

    # Asking -------------------------------------------------------------------------------

    def ask(self, do: str, view: int = -1, body: Any = None) -> list[Any]:
        """The answers of all groups, in their order, whoever holds them by now."""
        answers: dict[int, Any] = {}
        try:
            while missing := [g for g in range(len(self._groups)) if g not in answers]:
                answers |= self._ask(missing, do, view, body)
                for g in missing:
                    if g in answers:
                        self._groups[g].attempts = 0
                    else:
                        self._bring_back(g)
        except WorkersLost as fault:
            self.fault = fault
            raise
        return [answers[g] for g in range(len(self._groups))]

    def _ask(self, groups: list[int], do: str, view: int, body: Any) -> dict[int, Any]:
        """The answers of those groups whose workers are there."""
        messages: dict[str, dict[str, Any]] = {}
        for g in groups:
            address = self._groups[g].link.address
            if self._crew.links.get(address) is self._groups[g].link:
                message = messages.setdefault(address, {"groups": []})
                message["groups"].append(g)
        alive = sorted(self.views)
        for message in messages.values():
            message |= {"do": do, "view": view, "body": body, "alive": alive}
        if do == "make" and (function := self.views[view].function) is not None:
            self._crew.lend(messages, function_key(view), function)
        answers: dict[int, Any] = {}
        for address, reply in self._crew.exchange(messages).items():
            if reply is not None:
                answers |= zip(messages[address]["groups"], _answers(address, reply), strict=True)
        return answers

    def add_view(self, engine: DaskEngine) -> int:
        """A number for an engine, which is made again where its group has to be loaded again."""
        self._n_views += 1
        self.views[self._n_views] = engine
        return self._n_views

    # Loading ------------------------------------------------------------------------------

    def _load(self, n_threads: int | None) -> None:
        links, room = list(self._crew.links.values()), self._crew.room
        sizes = np.cumsum([0] + [max(1, part.size) for part in self.parts])
        self._groups = [
            Group([Piece(p) for p in range(a, b)], n_threads or link.n_threads, link)
            for (a, b), link in zip(_deal(sizes, len(links)), links, strict=False)
        ]
        try:
            surveys = self._deliver_all()
        except WorkersLost:
            self._blame_large_query(room)
            raise
        shape = agree([survey for group in surveys for survey in group])
        counts = [[survey.census for survey in group] for group in surveys]
        refuse_large_query([census for group in counts for census in group], room)
        if self._gather_queries(counts):
            surveys = self._deliver_all()
        self._drop_empty(surveys)
        self._shape = shape
        self._describe(shape, self.ask("settle", body=self._settlement()))

    def _describe(self, shape: Shape, found: list[dict[str, Any]]) -> None:
        for name in sorted(set.intersection(*(set(about["weightless"]) for about in found))):
            raise DataError(f"{name} is zero everywhere; at least one row must count")
        self.n_docs = sum(about["n_docs"] for about in found)
        self.n_queries = sum(about["n_queries"] for about in found)
        self.n_levels = len(np.unique(np.concatenate([about["labels"] for about in found])))
        self.n_features, self.index_base = shape.n_features, shape.index_base
        self.is_sparse, self.dtype = shape.is_sparse, np.dtype(shape.dtype)
        self.feature_names, self.has_qid = shape.feature_names, shape.has_qid

    def _settlement(self) -> dict[int, Any]:
        """What each group is put together from."""
        return {g: (self._shape, x.keys, x.n_threads) for g, x in enumerate(self._groups)}

    def _deliver_all(self) -> list[list[Survey]]:
        """Have every group brought to its worker, or to another one where that is lost."""
        found: dict[int, list[Survey]] = {}
        while missing := [g for g in range(len(self._groups)) if g not in found]:
            found |= self._deliver(missing)
            for g in missing:
                if g not in found:
                    self._move(g)
        return [found[g] for g in range(len(self._groups))]

    def _deliver(self, groups: list[int]) -> dict[int, list[Survey]]:
        """Have the pieces of some groups brought to their workers; those that arrive.

        Futures are released by hand: one that an old traceback keeps would hold a task to a worker
        that is dead, and all that come after it with the same key.
        """
        shared = self._compute_parts(groups)
        futures = {g: self._deposit(self._groups[g], g, shared) for g in groups}
        _release(shared.values())
        found: dict[int, list[Survey]] = {}
        try:
            for g in groups:
                surveys = self._wait(self._groups[g].link, futures[g])
                if surveys is not None:
                    found[g] = surveys
                    self._groups[g].n_bytes = int(sum(s.census.n_bytes for s in surveys))
        finally:
            for own in futures.values():
                _release(own)
        return found

    def _compute_parts(self, groups: list[int]) -> dict[int, Future]:
        """The parts that some groups need, each where its rows are wanted, once.

        Others may compute them too: what parts have in common must not wait for one that is dead.
        """
        wanted: dict[int, str] = {}
        for g in groups:
            for piece in self._groups[g].pieces:
                wanted.setdefault(piece.part, self._groups[g].link.address)
        return {
            p: self.client.compute(self.parts[p].rows, workers=[address], allow_other_workers=True)
            for p, address in wanted.items()
        }

    def _deposit(self, group: Group, g: int, shared: dict[int, Future]) -> list[Future]:
        """Send a group's pieces into the inbox of its worker, under new keys."""
        group.keys = tuple(f"{g}-{k}-{time.monotonic_ns()}" for k in range(len(group.pieces)))
        futures = []
        for piece, key in zip(group.pieces, group.keys, strict=True):
            rows = shared[piece.part]
            if piece.ids is not None:
                rows = self.client.submit(select, rows, piece.ids, piece.keep, pure=False)
            futures.append(self.client.submit(
                deposit, rows, group.link.token, key, workers=[group.link.address],
                allow_other_workers=False, pure=False,
            ))  # fmt: skip
            if piece.ids is not None:
                _release([rows])
        return futures

    def _wait(self, link: Link, futures: list[Future]) -> list[Survey] | None:
        """Results of tasks of one worker; None where it dies of them, or before."""
        deadline, found = time.monotonic() + self._crew.timeout, []
        for future in futures:
            result = self._result(link, future, deadline)
            if result is None:
                self._crew.drop(link.address)
                return None
            found.append(result)
        return found

    def _result(self, link: Link, future: Future, deadline: float) -> Survey | None:
        """Wait for one result as long as its worker is there, which may leave at any time.

        One task gathers it. ``future.result(timeout)`` again and again would not do: all calls
        share one transfer, which the first one that times out cancels for all others.
        """
        gathering = self.client.sync(self._gather, future)
        try:
            while not self.client.sync(_wait_for, gathering):
                if time.monotonic() > deadline or not self._crew.takes_tasks(link):
                    self.client.loop.add_callback(gathering.cancel)
                    return None
            return gathering.result()
        except (KilledWorker, MemoryError) as error:
            raise WorkersLost(
                f"a part of the data cannot be loaded: {error} (is the workers' memory too "
                "small for it?)"
            ) from None
        except (OSError, CancelledError, asyncio.CancelledError):
            if future.status == "error":  # the error of the task itself
                raise
            return None

    async def _gather(self, future: Future) -> asyncio.Task[Survey]:
        return asyncio.ensure_future(self.client.gather(future, asynchronous=True))

    # Whole queries ------------------------------------------------------------------------

    def _blame_large_query(self, room: float) -> None:
        """Where workers were lost in loading, refuse a query that they cannot hold, if one is so.

        The ids alone are read for that, without the features.
        """
        if math.isinf(room):
            return
        futures = self.client.compute([part.census for part in self.parts])
        deadline = time.monotonic() + (self._crew.timeout if self._crew.running() else PATIENCE)
        try:
            counts = [future.result(max(0.0, deadline - time.monotonic())) for future in futures]
        except (KilledWorker, OSError, CancelledError, asyncio.CancelledError):
            return
        finally:
            _release(futures)
        refuse_large_query(counts, room)

    def _gather_queries(self, counts: list[list[Census]]) -> bool:
        """Give each query that lies across groups to the one that has most of its rows."""
        moves, self.n_moved, n_queries = find_moves(counts)
        if not moves:
            return False
        warnings.warn(
            f"{self.n_moved:,} rows of {n_queries:,} queries were moved between workers, because "
            "a query must be on one worker: keep the rows of a query in one part",
            QueriesMovedWarning,
            stacklevel=5,
        )
        gone: dict[int, list[NDArray[Any]]] = defaultdict(list)
        comes: dict[int, list[Piece]] = defaultdict(list)
        for part, g, ids in moves:
            gone[part].append(ids)
            comes[g].append(Piece(part, ids, keep=True))
        for g, group in enumerate(self._groups):
            own = [Piece(p, np.concatenate(gone[p])) if p in gone else Piece(p)
                   for p, *_ in group.pieces]  # fmt: skip
            group.pieces = own + comes[g]
        self._ask(list(range(len(self._groups))), "forget", -1, None)
        return True

    def _drop_empty(self, surveys: list[list[Survey]]) -> None:
        """Forget groups without rows."""
        self._groups = [
            group
            for group, found in zip(self._groups, surveys, strict=True)
            if any(survey.census.n_docs for survey in found)
        ]

    # Losses -------------------------------------------------------------------------------

    def _move(self, g: int) -> None:
        """Give a group, whose worker is lost, to another one."""
        group = self._groups[g]
        group.attempts += 1
        if group.attempts > ATTEMPTS:
            raise WorkersLost(
                f"{group.attempts} workers were lost that held the same parts of the data, the "
                f"last of them {group.link.address} (is their memory too small for them?)"
            )
        held: dict[str, int] = {}
        for other in self._groups:
            if other is not group:
                held[other.link.address] = held.get(other.link.address, 0) + other.n_bytes
        group.link = self._crew.find_place(group.n_bytes, held, group.link)

    def _bring_back(self, g: int) -> None:
        """Load a lost group from its source elsewhere, and bring its engines to where they were."""
        while True:
            self._move(g)
            if g not in self._deliver([g]):
                continue
            if not self._ask([g], "settle", -1, self._settlement()):
                continue
            # An engine that is made from another one comes after it: numbers ascend.
            engines = sorted(self.views.items())
            if all(self._ask([g], "make", n, engine.state()) for n, engine in engines):
                return


def _deal(ptr: NDArray[np.int64], n: int) -> list[tuple[int, int]]:
    """Cut parts into up to n runs of about equal size, each at the border nearest to the goal."""
    goals = ptr[-1] * np.arange(1, n) / n
    cuts = np.searchsorted((ptr[1:] + ptr[:-1]) / 2, goals)
    edges = [0, *(int(cut) for cut in cuts), len(ptr) - 1]
    return [(a, b) for a, b in pairwise(edges) if a < b]


async def _wait_for(task: asyncio.Task[Any]) -> bool:
    """Whether a task has come to its end, after at most `POLL` seconds."""
    return bool((await asyncio.wait([task], timeout=POLL))[0])


def _release(futures: Iterable[Future]) -> None:
    for future in futures:
        future.release()


def _answers(address: str, reply: dict[str, Any]) -> list[Any]:
    """The answers of a reply, or the error that it brings."""
    if "refusal" in reply:
        kind, sentence = reply["refusal"]
        if kind in REFUSALS:
            raise REFUSALS[kind](sentence)
        raise WorkersLost(f"the worker {address} has not enough memory for its data: {sentence}")
    if "fault" in reply:
        raise RuntimeError(f"the worker {address} failed:\n{reply['fault']}")
    return reply["answers"]
