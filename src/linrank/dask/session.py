"""The worker's side of a fit on a cluster: `WorkerSession` holds data and answers requests.

A client opens one connection to each worker, and the worker keeps one `WorkerSession` for each
open connection. The session holds the groups of parts that the client has assigned to this worker
and the engines on them. It is discarded when the connection closes, whether the client has
finished or has died.

Each request and each answer is one message of plain data (`linrank.dask.wire`). Requests bypass
Dask's scheduler; only the loading of the data uses Dask tasks.
"""

from __future__ import annotations

import asyncio
import atexit
import gc
import logging
import os
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypedDict

import numpy as np
from distributed import Status, Worker
from distributed.comm import Comm

from .._typing import Array, Integers, Vector
from .._version import __version__
from ..counting.plan import rank_labels
from ..counting.preferences import Delta
from ..data.ranking import RankingData
from ..engines.threads import ThreadEngine
from ..errors import DataError, LinrankError
from ..losses.base import Loss
from ..metrics import Ranking, parse_metric, resolve_rules
from .recipe import Recipe, unpack_loss
from .rows import PartSummary, Rows, Shape, alike, join_parts, summarize
from .wire import Message, Wire

logger = logging.getLogger(__name__)

HANDLER = "linrank"  #: name of the Dask worker's handler that starts a session


class WorkerInfo(TypedDict):
    """What a worker says about itself before a client connects to it."""

    version: str
    pid: int
    n_threads: int
    memory_limit: int | None
    has_nanny: bool


@dataclass
class Delivered:
    """What Dask has brought to this worker for one session."""

    rows: dict[str, Rows] = field(default_factory=dict)  #: by key, until they are assembled
    functions: dict[int, Delta] = field(default_factory=dict)  #: the user's δ, by engine


#: Deliveries by the token of their session; a token is present while its connection is open.
_delivered: dict[str, Delivered] = {}


def open_sessions() -> set[str]:
    """Return the tokens of the sessions that are open in this process."""
    return set(_delivered)


def install(dask_worker: Worker) -> WorkerInfo:
    """Add linrank's handler to a Dask worker, and describe the worker."""
    dask_worker.handlers[HANDLER] = serve
    # When a process with compiled kernels ends, Python's garbage collection takes seconds. A nanny
    # that is closed kills its worker after four seconds. Frozen objects are not collected.
    atexit.unregister(gc.freeze)
    atexit.register(gc.freeze)
    return {
        "version": __version__,
        "pid": os.getpid(),
        "n_threads": dask_worker.state.nthreads,
        "memory_limit": dask_worker.memory_manager.memory_limit or None,
        "has_nanny": dask_worker.nanny is not None,
    }


def deliver_rows(rows: Rows, token: str, key: str) -> PartSummary | None:
    """Hand rows to a session and summarise them; runs as a Dask task on the session's worker.

    The result is None if the session does not exist. Either the client has gone, or this process
    has replaced the one that the client was connected to.
    """
    if token not in _delivered:
        return None
    _delivered[token].rows[key] = rows
    return summarize(rows)


def deliver_function(token: str, engine_id: int, function: Delta) -> None:
    """Hand the user's δ to a session, if the session is still open."""
    if token in _delivered:
        _delivered[token].functions[engine_id] = function


def select_queries(rows: Rows, ids: Array, keep: bool) -> Rows:
    """Return the rows of the queries in `ids` if `keep` is true, otherwise all other rows."""
    qid = np.zeros(len(rows.y), np.int64) if rows.qid is None else rows.qid
    own, wanted = alike([qid, ids])
    return rows.take(np.isin(own, wanted) == keep)


async def serve(comm: Comm, token: str) -> Status:
    """Answer the requests of one connection until it closes."""
    session, wire = WorkerSession(_delivered.setdefault(token, Delivered())), Wire(comm)
    pool = ThreadPoolExecutor(1, "linrank-session")
    loop = asyncio.get_running_loop()
    try:
        await wire.write({})
        while True:
            message = await wire.read()
            await wire.write(await loop.run_in_executor(pool, session.answer, message))
    except OSError:  # Every session ends this way. Dask would log it as a lost connection.
        return Status.dont_reply
    except DataError as error:
        logger.warning("the connection from %s is closed: %s", comm.peer_address, error)
        return Status.dont_reply
    finally:
        comm.abort()
        _delivered.pop(token, None)
        pool.shutdown(wait=False)


class WorkerSession:
    """The data and the engines that one worker holds for one client.

    Data are kept by the number of their group, engines by group and engine id. An engine is None
    if its loss finds nothing to compare in the group.
    """

    def __init__(self, delivered: Delivered) -> None:
        self._delivered = delivered
        self._data: dict[int, RankingData] = {}
        self._threads: dict[int, int] = {}
        self._engines: dict[tuple[int, int], ThreadEngine | None] = {}

    def answer(self, message: Message) -> Message:
        """Run one operation for each group of a request; errors become answers too."""
        try:
            engine_id, live = message["engine"], message["live"]
            for key in [key for key in self._engines if key[1] not in live]:
                del self._engines[key]
            name, body = message["operation"], message["body"]
            if name not in OPERATIONS:
                raise DataError(f"unknown operation {name!r}; known are {', '.join(OPERATIONS)}")
            run = OPERATIONS[name]
            return {"answers": [run(self, g, engine_id, body) for g in message["groups"]]}
        except (LinrankError, MemoryError) as error:
            return {"error": [type(error).__name__, str(error)]}
        except Exception:
            return {"traceback": traceback.format_exc()}

    # Data ---------------------------------------------------------------------------------

    def discard_rows(self, group: int, engine_id: int, body: Any) -> None:
        """Discard all delivered rows; they will be delivered again in another arrangement."""
        self._delivered.rows.clear()

    def assemble(self, group: int, engine_id: int, body: Any) -> dict[str, Any]:
        """Assemble the delivered parts of a group, unless that is done; summarise the data."""
        shape, keys, n_threads = body[group]
        if group not in self._data:
            parts = [self._delivered.rows.pop(key) for key in keys]
            self._data[group] = join_parts(parts, Shape(*shape), n_threads)
            self._threads[group] = n_threads
        data = self._data[group]
        weights = {"sample_weight": data.weight, "query_weight": data.query_weight}
        return {
            "n_docs": data.n_docs,
            "n_queries": data.n_queries,
            "labels": np.unique(data.y),
            "zero_weights": [name for name, w in weights.items() if w is not None and not w.any()],
        }

    def evaluate(self, group: int, engine_id: int, body: Any) -> tuple[dict[str, Any], Any]:
        """Compute metrics per query; the only feature is the score."""
        names, flavour = body
        data, rules = self._data[group], resolve_rules(flavour)
        scores = np.ascontiguousarray(data.X[:, 0], dtype=np.float64)
        ranking = Ranking(data.y, scores, data.query_ptr, rules.ties, self._threads[group])
        found = {name: parse_metric(name).values(ranking, rules) for name in names}
        return found, np.asarray(data.query_ids)

    # Engines ------------------------------------------------------------------------------

    def make_engine(self, group: int, engine_id: int, body: Any) -> dict[str, Any]:
        """Make an engine, from the engine `base` with another loss if this worker has it.

        If `w` is given, the engine is evaluated there: Hessian products are then those at w.
        """
        plain, base, w = body
        recipe = Recipe.unpack(plain, self._delivered.functions.get(engine_id))
        data, known = self._data[group], self._engines.get((group, base))
        if known is not None:
            engine: ThreadEngine | None = known.with_loss(recipe.loss)
        elif _has_nothing_to_compare(data, recipe.loss, self._threads[group]):
            engine = None
        else:
            engine = ThreadEngine(
                data, recipe.loss, recipe.normalize, self._threads[group],
                counting=recipe.counting, preferences=recipe.preferences,
            )  # fmt: skip
        self._engines[group, engine_id] = engine
        if engine is not None and w is not None:
            engine.value_grad(w)
        return self._describe(group, engine)

    def change_loss(self, group: int, engine_id: int, body: Any) -> None:
        """Replace the loss of an engine by one with the same number of hinges."""
        engine = self._engines[group, engine_id]
        if engine is not None:
            engine.change_loss(unpack_loss(body))

    def _describe(self, group: int, engine: ThreadEngine | None) -> dict[str, Any]:
        data = self._data[group]
        X = data.X
        return {
            "n_entries": int(X.nnz if data.is_sparse else X.size),
            "largest_query": int(np.diff(data.query_ptr).max()),
            "n_pairs": 0 if engine is None else engine.n_pairs,
            "n_empty_queries": data.n_queries if engine is None else engine.n_empty_queries,
            "pair_weight": 0.0 if engine is None else engine.pair_weight,
            "by_level": engine is None or engine.makes_hessian_by_level,
            "counting": None if engine is None else engine.counting,
        }

    # Sums: each operation returns numbers that the client adds up over all groups -------------

    def value_grad(self, group: int, engine_id: int, w: Vector) -> Vector:
        """Return the loss, followed by its gradient."""
        engine = self._engines[group, engine_id]
        if engine is None:
            return np.zeros(1 + len(w))
        loss, gradient = engine.value_grad(w)
        return np.concatenate([[loss], gradient])

    def hessp(self, group: int, engine_id: int, v: Vector) -> Vector:
        """Return a Hessian-vector product."""
        engine = self._engines[group, engine_id]
        return np.zeros(len(v)) if engine is None else engine.hessp(v)

    def gaps(self, group: int, engine_id: int, w: Vector) -> Vector:
        """Return the sum of the pairs' gaps for each hinge."""
        engine = self._engines[group, engine_id]
        assert engine is not None  # A loss with hinges always has an engine.
        return engine.gaps(w)

    def hessian_diagonal(self, group: int, engine_id: int, body: None) -> Vector:
        """Return an estimate of the diagonal of the Hessian."""
        engine = self._engines[group, engine_id]
        return np.zeros(self._data[group].n_features) if engine is None else (
            engine.hessian_diagonal()
        )  # fmt: skip

    def hessian(
        self, group: int, engine_id: int, body: tuple[int | None, int, Integers | None]
    ) -> Vector:
        """Return the Hessian in some features: exact, or of this group's share of a sample."""
        n_rows, total, features = body
        engine = self._engines[group, engine_id]
        if engine is None:
            n = self._data[group].n_features if features is None else len(features)
            return np.zeros((n, n))
        return engine.hessian(self._share(group, n_rows, total), features)

    def hessian_of_documents(
        self, group: int, engine_id: int, body: tuple[int, int, None]
    ) -> Vector:
        """Return the Hessian estimated from this group's share of a sample of documents."""
        n_rows, total, _ = body
        engine, d = self._engines[group, engine_id], self._data[group].n_features
        share = self._share(group, n_rows, total)
        return np.zeros((d, d)) if engine is None else engine.hessian_of_documents(share or 1)

    def _share(self, group: int, n_rows: int | None, total: int) -> int | None:
        """Return the rows that this group contributes to a sample of `n_rows` rows of `total`."""
        if n_rows is None or n_rows >= total:
            return None if n_rows is None else self._data[group].n_docs
        return max(1, round(n_rows * self._data[group].n_docs / total))


#: Every operation that a client can request. Its arguments are the group, the engine id, and the
#: body of the request; its result is plain data.
OPERATIONS: dict[str, Callable[[WorkerSession, int, int, Any], Any]] = {
    "discard_rows": WorkerSession.discard_rows,
    "assemble": WorkerSession.assemble,
    "evaluate": WorkerSession.evaluate,
    "make_engine": WorkerSession.make_engine,
    "change_loss": WorkerSession.change_loss,
    "value_grad": WorkerSession.value_grad,
    "hessp": WorkerSession.hessp,
    "gaps": WorkerSession.gaps,
    "hessian_diagonal": WorkerSession.hessian_diagonal,
    "hessian": WorkerSession.hessian,
    "hessian_of_documents": WorkerSession.hessian_of_documents,
}


def _has_nothing_to_compare(data: RankingData, loss: Loss, n_threads: int) -> bool:
    """Return whether a binary loss finds no query with both kinds of labels in this group.

    `ThreadEngine` raises an error for such data, but other groups may have such queries.
    """
    if not getattr(loss, "binary", False):
        return False
    weight = np.ones(data.n_queries) if data.query_weight is None else data.query_weight
    labels = data.replace(y=(data.y > 0).astype(np.float64))
    return not rank_labels(labels, weight, n_threads).mass[:, 0].any()
