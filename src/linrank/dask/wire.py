"""Messages between client and workers: plain data only, never pickles.

A message is its length in eight bytes, followed by that many bytes of msgpack. Arrays are an
extension type: dtype, shape, and the numbers as they lie in memory.

Dask's own ``Comm.read`` unpickles whatever is marked as pickled, regardless of its
``deserializers``. Messages therefore use the stream below the connection that Dask has opened,
including its TLS. A connection within one process has no stream; it passes the bytes on unchanged.
"""

from __future__ import annotations

from typing import Any

import msgpack
import numpy as np
from distributed.comm import Comm
from tornado.iostream import IOStream

from .._memory import memory_limit
from .._typing import Array
from ..errors import DataError

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
