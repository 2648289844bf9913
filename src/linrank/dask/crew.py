"""The client's side of the connections: who is there, who is gone, and who takes their place."""

from __future__ import annotations

import asyncio
import math
import os
import time
import uuid
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from distributed import Client
from distributed.comm import connect

from .._version import __version__
from ..errors import DataError, WorkersLost
from .resident import OPERATION, install, lend
from .wire import Message, Wire

CONNECT = 30.0  #: seconds in which a connection must be made, or a scheduler answer
READY = 120.0  #: seconds in which a worker must have loaded linrank
PROBE = 5.0  #: seconds in which a worker must say who it is
NOBODY = 0  #: in the place of a process that could not be asked
PATIENCE = 30.0  #: seconds that are waited for a nanny to bring a worker back
NOTICE = 2.0  #: seconds in which a scheduler notices that a worker is dead
POLL = 1.0  #: seconds after which the scheduler is asked whether who does not answer is there
PAUSES = 10  #: times in a row, POLL apart, that a paused worker is waited for
ROOM = 0.8  #: the part of a worker's memory limit that data may take


class Link:
    """One open connection to the resident of a worker."""

    def __init__(self, address: str, about: dict[str, Any], wire: Wire, token: str) -> None:
        self.address, self.token = address, token
        self.pid: int = about["pid"]
        self.n_threads: int = about["n_threads"]
        self.memory_limit: int | None = about["memory_limit"]
        self.has_nanny: bool = about["has_nanny"]
        self.wire = wire
        self.n_pauses = 0  #: times in a row that it was found to take no tasks

    async def ask(self, message: Message) -> Message:
        """Send a question and wait for its answer."""
        try:
            await self.wire.write(message)
            return await self.wire.read()
        except asyncio.CancelledError:
            self.wire.comm.abort()  # the answer must not be taken for that to the next question
            raise


class Crew:
    """The workers that take part, each with an open link.

    Parameters
    ----------
    client : Client
    timeout : float
        Seconds after which a worker that has not answered counts as lost.
    """

    def __init__(self, client: Client, timeout: float) -> None:
        self.client, self.timeout = client, timeout
        self.links: dict[str, Link] = {}
        self._lost: dict[str, int] = {}  #: the processes that were lost, by address
        deadline = time.monotonic() + READY
        while not self._open(sorted(self.present())):  # those that are known may just have died
            if time.monotonic() > deadline:
                raise WorkersLost(
                    f"no worker of the cluster could be connected to within {READY:g} s: "
                    f"the scheduler knows {len(self.present())}"
                )
            time.sleep(0.1)

    @property
    def room(self) -> float:
        """The most bytes that data may take on one worker."""
        limits = [link.memory_limit or math.inf for link in self.links.values()]
        return ROOM * max(limits)

    def present(self) -> set[str]:
        """The addresses of the workers that the scheduler knows."""
        return self._ask_scheduler("ncores")

    def running(self) -> set[str]:
        """Those of them that take tasks, and are not paused."""
        return self._ask_scheduler("ncores_running")

    def takes_tasks(self, link: Link) -> bool:
        """Whether a worker is there, and has not been paused for long.

        Dask pauses workers whose memory is nearly full; data that fill it do not go by themselves.
        """
        if link.address not in self.present():
            return False
        runs = link.address in self.running()
        link.n_pauses = 0 if runs else link.n_pauses + 1
        return link.n_pauses < PAUSES

    def _ask_scheduler(self, what: str) -> set[str]:
        try:
            return self.client.sync(self._addresses, what)
        except (OSError, TimeoutError) as error:
            raise WorkersLost(f"the scheduler does not answer: {error}") from None

    async def _addresses(self, what: str) -> set[str]:
        return set(await asyncio.wait_for(getattr(self.client.scheduler, what)(), CONNECT))

    def exchange(self, messages: dict[str, Message]) -> dict[str, Message | None]:
        """Ask several workers at one time; None is the answer of one that is lost."""
        try:
            replies = self.client.sync(self._exchange, messages)
        except (OSError, TimeoutError) as error:
            raise WorkersLost(f"the scheduler does not answer: {error}") from None
        for address, reply in replies.items():
            if reply is None:
                self.drop(address)
        return replies

    async def _exchange(self, messages: dict[str, Message]) -> dict[str, Message | None]:
        tasks = {
            asyncio.ensure_future(self.links[address].ask(message)): address
            for address, message in messages.items()
        }
        pending, deadline = set(tasks), time.monotonic() + self.timeout
        try:
            while pending:
                done, pending = await asyncio.wait(pending, timeout=POLL)
                if pending and not done:
                    in_time = time.monotonic() < deadline  # who is late is lost in any case
                    present = await self._addresses("ncores") if in_time else set()
                    for task in pending:
                        if tasks[task] not in present:
                            task.cancel()
        finally:  # after Ctrl-C nobody waits any more
            for task in tasks:
                task.cancel()
        return {address: _outcome(task) for task, address in tasks.items()}

    def lend(self, addresses: Iterable[str], key: str, function: Any) -> None:
        """Leave a function of the user's with workers, by Dask's own means.

        Whoever is lost meanwhile is found to be so by the next question.
        """
        self.client.sync(self._lend, list(addresses), key, function)

    async def _lend(self, addresses: list[str], key: str, function: Any) -> None:
        await asyncio.gather(*(
            asyncio.wait_for(
                self.client.run(lend, self.links[a].token, key, function, workers=[a]), READY
            )
            for a in addresses
        ), return_exceptions=True)  # fmt: skip

    def drop(self, address: str) -> None:
        """Give up a worker; should it still live, its resident ends with the connection."""
        link = self.links.pop(address, None)
        if link is not None:
            self._lost[address] = link.pid
            self.client.loop.add_callback(link.wire.comm.abort)

    def find_place(self, need: int, held: dict[str, int], lost: Link) -> Link:
        """A link to a worker for so many bytes: a new one, or one that has room for more.

        A new one is waited for where a nanny is about to start it, or where nobody else is left;
        longer where one has come and gone, as it does under a cluster that is being restarted.
        """
        started = quiet = time.monotonic()
        while True:
            present = self.present()
            for address in sorted(present - set(self.links)):
                known = address in self._lost
                self._open([address])
                if address in self.links:
                    return self.links[address]
                quiet = quiet if known else time.monotonic()
            now = time.monotonic()
            # A worker that the scheduler still knows is frozen: no nanny looks after it.
            comes = lost.has_nanny and (lost.address not in present or now - started < NOTICE)
            if now - quiet >= PATIENCE or now - started >= READY or (self.links and not comes):
                break
            time.sleep(0.1)
        roomy = [
            link for link in self.links.values()
            if not link.memory_limit
            or need + held.get(link.address, 0) <= ROOM * link.memory_limit
        ]  # fmt: skip
        if not roomy:
            left = len(self.links)
            raise WorkersLost(
                f"a worker is lost and cannot be replaced: no other came in {now - started:.0f} s, "
                f"and none of the {left} that are left has room for its {need / 1e6:,.3g} MB"
            )
        return min(roomy, key=lambda link: (held.get(link.address, 0), link.address))

    def _open(self, addresses: list[str]) -> bool:
        """Open links to those workers that let themselves be linked; whether there is any link."""
        found = self.client.sync(self._connect_all, addresses)
        for address, link in zip(addresses, found, strict=True):
            if isinstance(link, Link):
                self.links[address] = link
                self._lost.pop(address, None)
            elif isinstance(link, OSError | TimeoutError):
                self._lost.setdefault(address, NOBODY)
            else:
                raise link
        return bool(self.links)

    async def _connect_all(self, addresses: list[str]) -> list[Any]:
        return await asyncio.gather(
            *(asyncio.wait_for(self._connect(a), READY) for a in addresses),
            return_exceptions=True,
        )

    async def _connect(self, address: str) -> Link:
        try:
            if address in self._lost:  # a nanny may have started another process there
                answer = asyncio.wait_for(self.client.run(os.getpid, workers=[address]), PROBE)
                if (await answer)[address] == self._lost[address]:
                    raise ConnectionError(address)
            about = (await self.client.run(install, workers=[address]))[address]
        except ImportError as error:
            raise DataError(
                f"the worker {address} cannot load linrank ({error}): install linrank[dask] "
                f"{__version__} there"
            ) from None
        except KeyError:  # it left before it was asked
            raise ConnectionError(address) from None
        if about["version"] != __version__:
            raise DataError(
                f"the worker {address} has linrank {about['version']}, but here is {__version__}: "
                "install the same version"
            )
        token = uuid.uuid4().hex
        comm = await connect(address, timeout=CONNECT, **self.client.connection_args)
        await comm.write({"op": OPERATION, "token": token, "reply": False})
        wire = Wire(comm)
        await wire.read()
        return Link(address, about, wire, token)

    def close(self) -> None:
        """Close all links; the workers let go of what they hold."""
        with suppress(OSError, TimeoutError, RuntimeError):  # whoever is gone needs no farewell
            self.client.sync(self._close, callback_timeout=CONNECT)

    async def _close(self) -> None:
        links = list(self.links.values())
        self.links.clear()
        await asyncio.gather(*(link.wire.comm.close() for link in links), return_exceptions=True)


def _outcome(task: asyncio.Task[Message]) -> Message | None:
    """A task's result, None where the connection broke or was given up."""
    if task.cancelled():
        return None
    error = task.exception()
    if isinstance(error, OSError | TimeoutError | asyncio.CancelledError):
        return None
    if error is not None:
        raise error
    return task.result()
