"""Which cluster is used: a client's, that at an address, or processes that are started here."""

from __future__ import annotations

import logging
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from distributed import Client, Nanny, Scheduler, Security, SpecCluster, Worker, WorkerPlugin
from distributed.comm import resolve_address

import dask

from .._threads import resolve_threads
from ..errors import DataError
from .crew import CONNECT, READY

TLS = "tls://"
HOST = "127.0.0.1"


class Uninterrupted(WorkerPlugin):
    """Ctrl-C, which a terminal sends to all processes, is not for workers: the client ends them."""

    def setup(self, worker: Any) -> None:
        """Called by a worker that starts, or is there."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)


class _NoPages:
    """Dask's pages for browsers ask nobody for a certificate, so they are not served."""

    def start_http_server(self, *_: Any, **__: Any) -> None:
        """Listen on no port."""


class PrivateScheduler(_NoPages, Scheduler):
    """A scheduler with one port, which only holders of the credentials can use."""


class PrivateWorker(_NoPages, Worker):
    """A worker with one port, which only holders of the credentials can use."""


@contextmanager
def local_cluster(
    n_workers: int, *, processes: bool = True, memory_limit: Any = "auto"
) -> Iterator[SpecCluster]:
    """So many workers of one thread on this machine, which only this user can reach.

    Whoever can talk to a Dask scheduler or worker can run code as its owner, and every user of
    this machine can connect to its ports. So all connections need credentials, which are made
    anew for each cluster, and which only its processes hold. What workers spill goes to a folder
    that is the user's own, because workers unpickle what they read from there.

    Parameters
    ----------
    n_workers : int
    processes : bool
        False: workers are threads of this process.
    memory_limit : int, str or None
        Of each worker, as Dask takes it.
    """
    with tempfile.TemporaryDirectory(prefix="linrank-", ignore_cleanup_errors=True) as folder:
        common = {"host": HOST, "protocol": TLS, "security": _make_credentials()}
        options = common | {"nthreads": 1, "memory_limit": memory_limit, "local_directory": folder}
        worker = {"cls": PrivateWorker, "options": options}
        if processes:
            options |= {"worker_class": PrivateWorker, "silence_logs": logging.WARNING}
            worker = {"cls": Nanny, "options": options}
        with (
            # Dask gives up a worker that dies again while its nanny starts it, unless told to wait.
            dask.config.set({"distributed.deploy.lost-worker-timeout": READY}),
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
            "worker processes on this machine need the package cryptography: "
            "pip install 'linrank[dask]'"
        ) from None


@contextmanager
def connected(client: Client | str | None) -> Iterator[Client]:
    """A client: the one that is given, of a scheduler's address, or of processes started here."""
    if isinstance(client, Client):
        if client.asynchronous:
            raise DataError("client is asynchronous; give one without asynchronous=True")
        if client.status != "running":
            raise DataError(f"client is {client.status}; give one that is connected")
        yield client
    elif not isinstance(client, str | None):
        raise DataError(
            f"client is {type(client).__name__}; expected a distributed.Client, or the address of "
            "a scheduler"
        )
    elif client is None or client == "local":
        with (
            local_cluster(resolve_threads()) as cluster,
            Client(cluster, set_as_default=False) as own,
        ):
            own.register_plugin(Uninterrupted())
            yield own
    else:
        with _connect(client) as own:
            yield own


def _connect(address: str) -> Client:
    """A client of the scheduler at an address, with the credentials of Dask's configuration."""
    security = _find_credentials(address)
    try:
        resolve_address(address)  # a client that is made in vain is slow to end
        return Client(address, security=security, set_as_default=False, timeout=CONNECT)
    except (OSError, TimeoutError, ValueError) as error:
        hint = "" if address.startswith(TLS) else f" (with TLS, its address begins with {TLS})"
        raise DataError(f"no Dask scheduler answers at {address!r}: {error}{hint}") from None


def _find_credentials(address: str) -> Security:
    """What Dask's configuration says of TLS, which an address may need."""
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
            f"{address!r} needs TLS credentials: name their files in Dask's configuration "
            "(distributed.comm.tls.ca-file, .client.cert and .client.key), or in the variables "
            "DASK_DISTRIBUTED__COMM__TLS__CA_FILE, …__CLIENT__CERT and …__CLIENT__KEY"
        )
    return security
