"""Messages between client and workers: plain data only, never pickles.

A message is a length of eight bytes and as many bytes of msgpack. Arrays are an extension type:
their dtype, their shape, and their numbers as they lie in memory. Dask's own messages cannot be
held to that: ``Comm.read`` unpickles whatever is marked as pickled, with any ``deserializers``.
So messages go over the stream below the connection that Dask has opened, with its TLS. A
connection within a process has no stream, and passes the bytes on as they are.
"""

from __future__ import annotations

from typing import Any

import msgpack
import numpy as np

from .._memory import memory_limit
from ..errors import DataError

Message = dict[str, Any]

ARRAY = 1  #: code of the extension type
LENGTH = 8  #: bytes in front of a message
PIECE = 1 << 24  #: bytes of a message for which memory is allocated before they arrive
KINDS = "biufUmM"  #: of arrays that travel: numbers, text and times, but no objects


class Wire:
    """Sends and receives plain messages over a connection that Dask has opened.

    Parameters
    ----------
    comm : distributed.comm.Comm

    Attributes
    ----------
    sent, received : int
        Bytes so far, without those of TLS.
    """

    def __init__(self, comm: Any) -> None:
        self.comm = comm
        self.sent = self.received = 0
        self._longest = memory_limit()

    async def write(self, message: Message) -> None:
        """Send a message; OSError where the connection is broken."""
        body = encode(message)
        if (stream := self._stream()) is None:
            await self.comm.write(body)
        else:
            await stream.write(len(body).to_bytes(LENGTH, "little") + body)
        self.sent += LENGTH + len(body)

    async def read(self) -> Message:
        """Wait for a message.

        Raises
        ------
        OSError
            If the connection breaks.
        DataError
            If what arrives is no message, or is too long. The connection is then closed, because
            nobody knows where the next message begins.
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
        self.received += LENGTH + len(body)
        return message

    async def _read_body(self, stream: Any) -> bytearray:
        """Read a length and as many bytes; the memory in use grows with what has arrived."""
        length, body = int.from_bytes(await stream.read_bytes(LENGTH), "little"), bytearray()
        try:
            if length > self._longest:
                raise MemoryError
            while len(body) < length:
                piece = bytearray(min(PIECE, length - len(body)))
                await stream.read_into(piece)
                body += piece
        except MemoryError:
            raise DataError(
                f"a message of {length:,} bytes does not fit into the memory of this process, "
                f"which is {self._longest:,} bytes"
            ) from None
        return body

    def _stream(self) -> Any:
        """The stream of a connection over TCP or TLS; None for other kinds of connections."""
        if self.comm.closed():
            raise ConnectionError(f"the connection to {self.comm.peer_address} is closed")
        return getattr(self.comm, "stream", None)


def encode(message: Message) -> bytes:
    """A message of dicts, lists, text, bytes, numbers and arrays as bytes.

    Examples
    --------
    >>> decode(encode({"w": np.array([1.0, 2.0]), "n": 3}))
    {'w': array([1., 2.]), 'n': 3}
    """
    return msgpack.packb(message, default=_encode_other)


def decode(body: Any) -> Message:
    """The message in bytes that `encode` has made; lists stand for all sequences."""
    try:
        message = msgpack.unpackb(body, ext_hook=_decode_array, strict_map_key=False)
    except Exception as error:  # msgpack raises errors of many kinds for bytes that are not its own
        raise DataError(f"a message is not plain data: {error!r}") from None
    if not isinstance(message, dict):
        raise DataError(f"a message is not plain data: {type(message).__name__} instead of a dict")
    return message


def _encode_other(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if not isinstance(value, np.ndarray) or value.dtype.kind not in KINDS:
        raise TypeError(f"a message cannot hold {value!r}")
    return msgpack.ExtType(ARRAY, msgpack.packb((value.dtype.str, value.shape, value.tobytes())))


def _decode_array(code: int, content: bytes) -> np.ndarray[Any, Any]:
    """An array of its own, since kernels are compiled once more for one that is read-only."""
    if code != ARRAY:
        raise ValueError(f"unknown extension type {code}")
    dtype, shape, numbers = msgpack.unpackb(content)
    if np.dtype(dtype).kind not in KINDS:
        raise ValueError(f"unknown type of array {dtype!r}")
    return np.frombuffer(numbers, dtype).reshape(shape).copy()
