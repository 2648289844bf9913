"""The client's side of a cluster: its start, and one connection to each worker (`WorkerPool`).

The pool detects workers that are lost and finds replacements for them.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import signal
import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from distributed import Client, Nanny, Scheduler, Security, SpecCluster, Worker, WorkerPlugin
from distributed.comm import connect, resolve_address

import dask

from .._util.parallel import resolve_threads
from .._version import __version__
from ..counting.preferences import Delta
from ..errors import DataError, WorkersLost
from .session import HANDLER, Message, Wire, WorkerInfo, deliver_function, install

CONNECT_SECONDS = 30.0  #: to open a connection, or for the scheduler to answer
START_SECONDS = 120.0  #: for a worker to import linrank
PROBE_SECONDS = 5.0  #: for a worker to return its process id
REPLACEMENT_SECONDS = 30.0  #: to wait for a nanny to restart a worker
DETECTION_SECONDS = 2.0  #: within which a scheduler notices that a worker is dead
POLL_SECONDS = 1.0  #: between questions to the scheduler about workers that do not answer
MAX_PAUSED_POLLS = 10  #: polls in a row after which a paused worker counts as lost
MEMORY_SHARE = 0.8  #: fraction of a worker's memory limit that data may take
UNKNOWN_PID = 0  #: process id of a lost worker that was never connected
RETRY_SECONDS = 0.1  #: between attempts to find a worker


class WorkerConnection:
    """One open connection to the session of a worker."""

    def __init__(self, address: str, info: WorkerInfo, wire: Wire, token: str) -> None:
        self.address, self.token = address, token
        self.pid = info["pid"]
        self.n_threads = info["n_threads"]
        self.memory_limit = info["memory_limit"]
        self.has_nanny = info["has_nanny"]
        self.wire = wire
        self.n_paused_polls = 0  #: polls in a row in which the worker was paused

    async def request(self, message: Message) -> Message:
        """Send a request and wait for its answer."""
        try:
            await self.wire.write(message)
            return await self.wire.read()
        except asyncio.CancelledError:
            # A late answer would otherwise be read as the answer to the next request.
            self.wire.comm.abort()
            raise


class WorkerPool:
    """The connected workers of a cluster.

    Parameters
    ----------
    client : Client
    timeout : float
        Seconds after which a worker that has not answered counts as lost.
    """

    def __init__(self, client: Client, timeout: float) -> None:
        self.client, self.timeout = client, timeout
        self.connections: dict[str, WorkerConnection] = {}
        self._lost_pids: dict[str, int] = {}  #: process ids of lost workers, by address
        deadline = time.monotonic() + START_SECONDS
        while not self._open(sorted(self.present())):  # Workers may die before they are connected.
            if time.monotonic() > deadline:
                raise WorkersLost(
                    f"none of the {len(self.present())} workers that the scheduler knows could be "
                    f"connected within {START_SECONDS:g} s. Check that the cluster has running "
                    "workers that this machine can reach"
                )
            time.sleep(RETRY_SECONDS)

    def data_limit(self) -> float:
        """Return the most bytes that data may take on one worker."""
        limits = [worker.memory_limit or math.inf for worker in self.connections.values()]
        return MEMORY_SHARE * max(limits)

    def present(self) -> set[str]:
        """Return the addresses of the workers that the scheduler knows."""
        return self._ask_scheduler("ncores")

    def running(self) -> set[str]:
        """Return the addresses of the workers that accept tasks, that is, are not paused."""
        return self._ask_scheduler("ncores_running")

    def accepts_tasks(self, worker: WorkerConnection) -> bool:
        """Return whether a worker is present and has not been paused for long.

        Dask pauses workers whose memory is nearly full. If linrank's data fill the memory, the
        worker would stay paused for ever.
        """
        if worker.address not in self.present():
            return False
        runs = worker.address in self.running()
        worker.n_paused_polls = 0 if runs else worker.n_paused_polls + 1
        return worker.n_paused_polls < MAX_PAUSED_POLLS

    def _ask_scheduler(self, question: str) -> set[str]:
        try:
            return self.client.sync(self._addresses, question)
        except (OSError, TimeoutError) as error:
            raise WorkersLost(f"the scheduler does not answer: {error}") from None

    async def _addresses(self, question: str) -> set[str]:
        answer = getattr(self.client.scheduler, question)()
        return set(await asyncio.wait_for(answer, CONNECT_SECONDS))

    def request_all(self, messages: dict[str, Message]) -> dict[str, Message | None]:
        """Send requests to several workers at once; the answer of a lost worker is None."""
        try:
            replies = self.client.sync(self._request_all, messages)
        except (OSError, TimeoutError) as error:
            raise WorkersLost(f"the scheduler does not answer: {error}") from None
        for address, reply in replies.items():
            if reply is None:
                self.drop(address)
        return replies

    async def _request_all(self, messages: dict[str, Message]) -> dict[str, Message | None]:
        tasks = {
            asyncio.ensure_future(self.connections[address].request(message)): address
            for address, message in messages.items()
        }
        pending, deadline = set(tasks), time.monotonic() + self.timeout
        try:
            while pending:
                done, pending = await asyncio.wait(pending, timeout=POLL_SECONDS)
                if pending and not done:
                    in_time = time.monotonic() < deadline
                    present = await self._addresses("ncores") if in_time else set()
                    for task in pending:
                        if tasks[task] not in present:
                            task.cancel()
        finally:  # After Ctrl-C, some tasks are still pending.
            for task in tasks:
                task.cancel()
        return {address: _outcome(task) for task, address in tasks.items()}

    def send_function(self, addresses: Iterable[str], engine_id: int, function: Delta) -> None:
        """Send the user's δ to workers. A function is no plain data, so Dask pickles it.

        A worker that is lost meanwhile is detected by the next request.
        """
        self.client.sync(self._send_function, list(addresses), engine_id, function)

    async def _send_function(self, addresses: list[str], engine_id: int, function: Delta) -> None:
        tokens = {address: self.connections[address].token for address in addresses}
        await asyncio.gather(*(
            asyncio.wait_for(
                self.client.run(deliver_function, token, engine_id, function, workers=[address]),
                START_SECONDS,
            )
            for address, token in tokens.items()
        ), return_exceptions=True)  # fmt: skip

    def drop(self, address: str) -> None:
        """Count a worker as lost; if it is still alive, its session ends with the connection."""
        worker = self.connections.pop(address, None)
        if worker is not None:
            self._lost_pids[address] = worker.pid
            self.client.loop.add_callback(worker.wire.comm.abort)

    def find_replacement(
        self, n_bytes: int, held: dict[str, int], lost: WorkerConnection
    ) -> WorkerConnection:
        """Return a new worker, or a connected one whose memory limit allows `n_bytes` more.

        A new worker is awaited if the nanny of the lost worker is about to start it, or if no
        worker is left. While workers appear and die again, as during a restart of the cluster, the
        wait is extended up to `START_SECONDS`.
        """
        started = last_seen = time.monotonic()
        while True:
            present = self.present()
            for address in sorted(present - set(self.connections)):
                known = address in self._lost_pids
                self._open([address])
                if address in self.connections:
                    return self.connections[address]
                last_seen = last_seen if known else time.monotonic()
            now = time.monotonic()
            # The scheduler removes a dead worker soon. If it still knows the lost worker, the
            # process is frozen, and its nanny will not restart it.
            removed = lost.address not in present or now - started < DETECTION_SECONDS
            gave_up = now - last_seen >= REPLACEMENT_SECONDS or now - started >= START_SECONDS
            if gave_up or (self.connections and not (lost.has_nanny and removed)):
                return self._choose_connected(n_bytes, held, now - started)
            time.sleep(RETRY_SECONDS)

    def _choose_connected(
        self, n_bytes: int, held: dict[str, int], seconds: float
    ) -> WorkerConnection:
        """Return the connected worker that holds least, among those with memory for `n_bytes`."""
        fitting = [
            worker for worker in self.connections.values()
            if not worker.memory_limit
            or n_bytes + held.get(worker.address, 0) <= MEMORY_SHARE * worker.memory_limit
        ]  # fmt: skip
        if not fitting:
            raise WorkersLost(
                f"a worker is lost and cannot be replaced: no new worker started in "
                f"{seconds:.0f} s, and none of the {len(self.connections)} remaining workers has "
                f"memory for its {n_bytes / 1e6:,.3g} MB of data. Start more workers, or give them "
                "more memory"
            )
        return min(fitting, key=lambda worker: (held.get(worker.address, 0), worker.address))

    def _open(self, addresses: list[str]) -> bool:
        """Connect to the workers that answer; return whether the pool has any connection."""
        found = self.client.sync(self._connect_all, addresses)
        for address, outcome in zip(addresses, found, strict=True):
            if isinstance(outcome, WorkerConnection):
                self.connections[address] = outcome
                self._lost_pids.pop(address, None)
            elif isinstance(outcome, OSError | TimeoutError):
                self._lost_pids.setdefault(address, UNKNOWN_PID)
            else:
                raise outcome
        return bool(self.connections)

    async def _connect_all(self, addresses: list[str]) -> list[WorkerConnection | BaseException]:
        return await asyncio.gather(
            *(asyncio.wait_for(self._connect(a), START_SECONDS) for a in addresses),
            return_exceptions=True,
        )

    async def _connect(self, address: str) -> WorkerConnection:
        info = await self._prepare(address)
        if info["version"] != __version__:
            raise DataError(
                f"the worker {address} has linrank {info['version']}, but the client has "
                f"{__version__}. Install the same version on both"
            )
        token = uuid.uuid4().hex
        comm = await connect(address, timeout=CONNECT_SECONDS, **self.client.connection_args)
        await comm.write({"op": HANDLER, "token": token, "reply": False})
        wire = Wire(comm)
        await wire.read()
        return WorkerConnection(address, info, wire, token)

    async def _prepare(self, address: str) -> WorkerInfo:
        """Have a worker import linrank; raise `ConnectionError` if it is a lost process."""
        try:
            if address in self._lost_pids:  # A nanny may have started a new process there.
                pid = self.client.run(os.getpid, workers=[address])
                if (await asyncio.wait_for(pid, PROBE_SECONDS))[address] == self._lost_pids[
                    address
                ]:
                    raise ConnectionError(address)
            return (await self.client.run(install, workers=[address]))[address]
        except ImportError as error:
            raise DataError(
                f"the worker {address} cannot import linrank ({error}). Run pip install "
                f"'linrank[dask]=={__version__}' there"
            ) from None
        except KeyError:  # The worker left before it was asked.
            raise ConnectionError(address) from None

    def close(self) -> None:
        """Close all connections; the workers then discard what they hold."""
        with suppress(OSError, TimeoutError, RuntimeError):  # Workers or the loop may be gone.
            self.client.sync(self._close, callback_timeout=CONNECT_SECONDS)

    async def _close(self) -> None:
        workers = list(self.connections.values())
        self.connections.clear()
        closing = (worker.wire.comm.close() for worker in workers)
        await asyncio.gather(*closing, return_exceptions=True)


def _outcome(task: asyncio.Task[Message]) -> Message | None:
    """Return the result of a task; None if its connection broke or the task was cancelled."""
    if task.cancelled():
        return None
    error = task.exception()
    if isinstance(error, OSError | TimeoutError | asyncio.CancelledError):
        return None
    if error is not None:
        raise error
    return task.result()


# --------------------------------------------------------------------------------------------------
# The cluster of a fit: that of a client, that at an address, or processes started here.


TLS = "tls://"  #: beginning of addresses that use TLS
HOST = "127.0.0.1"  #: address of clusters that linrank starts


class IgnoreInterrupts(WorkerPlugin):
    """Has workers ignore SIGINT.

    On Ctrl-C, a terminal sends SIGINT to all processes. Workers must go on, because the client
    ends them in order.
    """

    def setup(self, worker: Worker) -> None:
        """Ignore SIGINT; Dask calls this on every worker."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)


class _NoHTTPServer:
    """Turns off Dask's web pages, which do not ask for a certificate."""

    def start_http_server(self, *_: object, **__: object) -> None:
        """Start no server."""


class PrivateScheduler(_NoHTTPServer, Scheduler):
    """A scheduler whose only port requires the cluster's credentials."""


class PrivateWorker(_NoHTTPServer, Worker):
    """A worker whose only port requires the cluster's credentials."""


@contextmanager
def local_cluster(
    n_workers: int, *, processes: bool = True, memory_limit: int | str | None = "auto"
) -> Iterator[SpecCluster]:
    """Start a cluster of single-threaded workers on this machine that only this user can use.

    Everyone who can send messages to a Dask scheduler or worker can run code as its owner, and
    every user of this machine can connect to local ports. All connections therefore need
    credentials. They are generated for each cluster, and only its processes hold them. Workers
    unpickle the data that they have spilled to disk, so the folder for such data is readable and
    writable for this user only.

    Parameters
    ----------
    n_workers : int
    processes : bool
        Whether each worker is a process of its own. If false, workers are threads of this process.
    memory_limit : int, str or None
        The memory limit of each worker, in any form that Dask accepts.
    """
    with tempfile.TemporaryDirectory(prefix="linrank-", ignore_cleanup_errors=True) as folder:
        common = {"host": HOST, "protocol": TLS, "security": _make_credentials()}
        options = common | {"nthreads": 1, "memory_limit": memory_limit, "local_directory": folder}
        worker = {"cls": PrivateWorker, "options": options}
        if processes:
            options |= {"worker_class": PrivateWorker, "silence_logs": logging.WARNING}
            worker = {"cls": Nanny, "options": options}
        with (
            # Without this setting, Dask removes a worker that dies while its nanny restarts it.
            dask.config.set({"distributed.deploy.lost-worker-timeout": START_SECONDS}),
            SpecCluster(
                workers=dict.fromkeys(range(n_workers), worker),
                scheduler={"cls": PrivateScheduler, "options": common | {"port": 0}},
                security=common["security"],
                silence_logs=logging.WARNING,
            ) as cluster,
        ):
            yield cluster


def _make_credentials() -> Security:
    try:
        return Security.temporary()
    except ImportError:
        raise DataError(
            "worker processes on this machine need the package cryptography: run "
            "pip install 'linrank[dask]'"
        ) from None


@contextmanager
def connected(client: Client | str | None) -> Iterator[Client]:
    """Yield a client: the given one, one of a scheduler's address, or one of a local cluster."""
    if isinstance(client, Client):
        if client.asynchronous:
            raise DataError("client is asynchronous; expected one made without asynchronous=True")
        if client.status != "running":
            raise DataError(f"client is {client.status}; expected one that is connected")
        yield client
    elif not isinstance(client, str | None):
        raise DataError(
            f"client is {type(client).__name__}; expected a distributed.Client, the address of a "
            "scheduler, or None for worker processes on this machine"
        )
    elif client is None or client == "local":
        with (
            local_cluster(resolve_threads()) as cluster,
            Client(cluster, set_as_default=False) as own,
        ):
            own.register_plugin(IgnoreInterrupts())
            yield own
    else:
        with _connect(client) as own:
            yield own


def _connect(address: str) -> Client:
    """Connect to the scheduler at an address, with the credentials of Dask's configuration."""
    security = _find_credentials(address)
    try:
        resolve_address(address)  # A client that cannot connect takes long to close.
        return Client(address, security=security, set_as_default=False, timeout=CONNECT_SECONDS)
    except (OSError, TimeoutError, ValueError) as error:
        hint = "" if address.startswith(TLS) else f". If it uses TLS, its address begins with {TLS}"
        raise DataError(
            f"no Dask scheduler answers at {address!r}: {error}. Check that it is running{hint}"
        ) from None


def _find_credentials(address: str) -> Security:
    """Return the TLS credentials of Dask's configuration; it is an error if TLS has none."""
    try:
        security = Security()
        context = security.get_connection_args("client")["ssl_context"]
    except (OSError, ValueError) as error:
        raise DataError(
            f"the TLS credentials in Dask's configuration (distributed.comm.tls) cannot be "
            f"read: {error}"
        ) from None
    if address.startswith(TLS) and context is None:
        raise DataError(
            f"{address!r} needs TLS credentials. Name their files in Dask's configuration "
            "(distributed.comm.tls.ca-file, .client.cert and .client.key), or in the variables "
            "DASK_DISTRIBUTED__COMM__TLS__CA_FILE, …__CLIENT__CERT and …__CLIENT__KEY"
        )
    return security
