"""The cluster of a fit: that of a client, that at an address, or processes started here."""

from __future__ import annotations

import logging
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from distributed import Client, Nanny, Scheduler, Security, SpecCluster, Worker, WorkerPlugin
from distributed.comm import resolve_address

import dask

from .._threads import resolve_threads
from ..errors import DataError
from .pool import CONNECT_SECONDS, START_SECONDS

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
