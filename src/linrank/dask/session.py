"""The worker's side of a fit on a cluster: `WorkerSession` holds data and answers requests.

A client opens one connection to each worker, and the worker keeps one `WorkerSession` for each
open connection. The session holds the groups of parts that the client has assigned to this worker
and the engines on them. It is discarded when the connection closes, whether the client has
finished or has died.

Each request and each answer is one message of plain data (`linrank.dask.session`). Requests bypass
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
from typing import Any, NamedTuple, TypedDict

import msgpack
import numpy as np
from distributed import Status, Worker
from distributed.comm import Comm
from tornado.iostream import IOStream

from .._util.parallel import memory_limit
from .._util.types import Array, Integers, Vector
from .._version import __version__
from ..counting.plan import rank_labels
from ..counting.preferences import Delta, Preferences
from ..data.ranking import RankingData
from ..engines.threads import ThreadEngine
from ..errors import DataError, LinrankError
from ..losses.loss import Loss
from ..losses.pairwise import PairwiseLoss
from ..losses.registry import LOSSES
from ..metrics import Ranking, parse_metric, resolve_rules
from .sources import BlockRows, PartSummary, Shape, alike, join_parts, summarize

# --------------------------------------------------------------------------------------------------
# Messages between client and workers: plain data only, never pickles.
#
# A message is its length in eight bytes, followed by that many bytes of msgpack. Arrays are an
# extension type: dtype, shape, and the numbers as they lie in memory.
#
# Dask's own ``Comm.read`` unpickles whatever is marked as pickled, regardless of its
# ``deserializers``. Messages therefore use the stream below the connection that Dask has opened,
# including its TLS. A connection within one process has no stream; it passes the bytes on
# unchanged.


Message = dict[str, Any]

ARRAY = 1  #: msgpack code of the extension type for arrays
LENGTH_BYTES = 8  #: size of the length in front of a message
PIECE_BYTES = 1 << 24  #: memory that is allocated before the bytes of a message arrive
KINDS = "biufUmM"  #: kinds of dtypes that may travel: numbers, text and times, but no objects


class Wire:
    """Sends and receives plain messages over a connection that Dask has opened.

    Parameters
    ----------
    comm : distributed.comm.Comm

    Attributes
    ----------
    sent, received : int
        Bytes so far, without the overhead of TLS.
    """

    def __init__(self, comm: Comm) -> None:
        self.comm = comm
        self.sent = self.received = 0
        self._max_bytes = memory_limit()

    async def write(self, message: Message) -> None:
        """Send a message; raise `OSError` if the connection is broken."""
        body = encode(message)
        if (stream := self._stream()) is None:
            await self.comm.write(body)
        else:
            await stream.write(len(body).to_bytes(LENGTH_BYTES, "little") + body)
        self.sent += LENGTH_BYTES + len(body)

    async def read(self) -> Message:
        """Wait for a message.

        Raises
        ------
        OSError
            If the connection breaks.
        DataError
            If the bytes are not a message, or are too many. The connection is then closed, because
            the start of the next message is unknown.
        """
        try:
            if (stream := self._stream()) is None:
                body = await self.comm.read(deserializers=())
            else:
                body = await self._read_body(stream)
            message = decode(body)
        except DataError:
            self.comm.abort()
            raise
        self.received += LENGTH_BYTES + len(body)
        return message

    async def _read_body(self, stream: IOStream) -> bytearray:
        """Read a length and as many bytes; memory is allocated piece by piece as they arrive."""
        length = int.from_bytes(await stream.read_bytes(LENGTH_BYTES), "little")
        body = bytearray()
        try:
            if length > self._max_bytes:
                raise MemoryError
            while len(body) < length:
                piece = bytearray(min(PIECE_BYTES, length - len(body)))
                await stream.read_into(piece)
                body += piece
        except MemoryError:
            raise DataError(
                f"a message of {length:,} bytes does not fit into the memory of this process, "
                f"which is {self._max_bytes:,} bytes"
            ) from None
        return body

    def _stream(self) -> IOStream | None:
        """Return the stream of a connection over TCP or TLS; None for other connections."""
        if self.comm.closed():
            raise ConnectionError(f"the connection to {self.comm.peer_address} is closed")
        return getattr(self.comm, "stream", None)


def encode(message: Message) -> bytes:
    """Encode a message of dicts, lists, text, bytes, numbers and arrays.

    Examples
    --------
    >>> decode(encode({"w": np.array([1.0, 2.0]), "n": 3}))
    {'w': array([1., 2.]), 'n': 3}
    """
    return msgpack.packb(message, default=_encode_other)


def decode(body: bytes | bytearray) -> Message:
    """Decode the bytes of `encode`; every sequence becomes a list."""
    try:
        message = msgpack.unpackb(body, ext_hook=_decode_array, strict_map_key=False)
    except Exception as error:  # msgpack raises many kinds of errors for other bytes.
        raise DataError(f"a message is not plain data: {error!r}") from None
    if not isinstance(message, dict):
        raise DataError(f"a message is not plain data: {type(message).__name__} instead of a dict")
    return message


def _encode_other(value: object) -> object:
    if isinstance(value, np.generic):
        return value.item()
    if not isinstance(value, np.ndarray) or value.dtype.kind not in KINDS:
        raise TypeError(f"a message cannot hold {value!r}")
    return msgpack.ExtType(ARRAY, msgpack.packb((value.dtype.str, value.shape, value.tobytes())))


def _decode_array(code: int, content: bytes) -> Array:
    """Return a writable copy: kernels would be compiled again for read-only arrays."""
    if code != ARRAY:
        raise ValueError(f"unknown extension type {code}")
    dtype, shape, numbers = msgpack.unpackb(content)
    if np.dtype(dtype).kind not in KINDS:
        raise ValueError(f"unknown type of array {dtype!r}")
    return np.frombuffer(numbers, dtype).reshape(shape).copy()


# --------------------------------------------------------------------------------------------------
# Settings of an engine, encoded as plain data for workers.


class Recipe(NamedTuple):
    """Settings of an engine: its loss, normalisation, counting and preferences."""

    loss: Loss
    normalize: str | None
    counting: str
    preferences: Preferences

    @property
    def function(self) -> Delta | None:
        """The user's δ, or None. Dask sends it to the workers, because it is not plain data."""
        delta = self.preferences.delta
        return None if isinstance(delta, str) else delta

    def pack(self) -> list[Any]:
        """Encode the recipe as plain data, without the user's function."""
        loss, normalize, counting, preferences = self
        named = preferences.delta if self.function is None else None
        pairs, rescale = preferences.pairs, preferences.rescale
        return [pack_loss(loss), normalize, counting, pairs, rescale, named]

    @classmethod
    def unpack(cls, plain: list[Any], function: Delta | None) -> Recipe:
        """Return the recipe that `pack` encoded; `function` is the user's δ."""
        loss, normalize, counting, pairs, rescale, named = plain
        delta: Any = function if named is None else named
        return cls(unpack_loss(loss), normalize, counting, Preferences(pairs, rescale, delta))


def pack_loss(loss: Loss) -> list[Any]:
    """Encode a loss as plain data: its name and its hinges."""
    if loss != LOSSES.get(loss.name) and type(loss) is not PairwiseLoss:
        raise DataError(
            f"loss {loss.name!r} is a {type(loss).__name__}, which cannot be sent to workers. "
            f"Use one of {', '.join(LOSSES)}, or a PairwiseLoss."
        )
    return [loss.name, loss.table]


def unpack_loss(plain: list[Any]) -> Loss:
    """Return the loss that `pack_loss` encoded."""
    name, table = plain
    known = LOSSES.get(name)
    if known is not None and np.array_equal(known.table, table):
        return known
    return PairwiseLoss(name, table)


# --------------------------------------------------------------------------------------------------
# The worker's side of a fit on a cluster: `WorkerSession` holds data and answers requests.


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

    rows: dict[str, BlockRows] = field(default_factory=dict)  #: by key, until they are assembled
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


def deliver_rows(rows: BlockRows, token: str, key: str) -> PartSummary | None:
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


def select_queries(rows: BlockRows, ids: Array, keep: bool) -> BlockRows:
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
