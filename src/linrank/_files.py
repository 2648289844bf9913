"""Files that are written whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Literal

from .errors import DataError


@contextmanager
def atomic_write(path: str | os.PathLike[str], mode: Literal["w", "wb"]) -> Iterator[IO[Any]]:
    """Open a file for writing that takes the place of an old one only when all is written.

    It is written under another name in the same folder, brought to disk, and renamed. If
    anything fails, the old file stays as it is and nothing else is left behind.

    Parameters
    ----------
    path : path-like
        The file. A symbolic link stays one; a device or a pipe is written to directly.
    mode : {"w", "wb"}
        Text (UTF-8) or bytes.

    Raises
    ------
    DataError
        Where the system does not let the file be written: the folder does not exist, the
        disk is full, and so on. The message names the file and the reason.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "model.json")
    >>> with atomic_write(path, "w") as file:
    ...     _ = file.write("{}")
    >>> path.read_text()
    '{}'
    """
    target = Path(path)
    is_special = target.exists() and not target.is_file() and not target.is_dir()
    if not is_special:  # /dev/stdout may lead to a pipe, which has no path of its own
        target = target.resolve()
    place = target if is_special else target.with_name(f".linrank-{secrets.token_hex(8)}.tmp")
    encoding = None if mode == "wb" else "utf-8"
    try:
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        with place.open(mode, encoding=encoding) as file:
            yield file
            if not is_special:
                file.flush()
                os.fsync(file.fileno())
        if not is_special:
            if target.exists():
                place.chmod(stat.S_IMODE(target.stat().st_mode))
            place.replace(target)
    except OSError as error:
        raise write_error(path, error) from None
    finally:
        if not is_special:
            with suppress(OSError):
                place.unlink()


def write_error(path: str | os.PathLike[str], error: OSError) -> DataError:
    """Say that a file or folder cannot be written, and why.

    Examples
    --------
    >>> write_error("model.json", OSError(errno.ENOSPC, "No space left on device"))
    DataError('model.json: cannot be written: No space left on device')
    """
    reason = error.strerror or str(error)
    folder = Path(path).absolute().parent
    if error.errno == errno.ENOENT and not folder.is_dir():
        reason = f"there is no folder {folder}"
    return DataError(f"{os.fspath(path)}: cannot be written: {reason}")
