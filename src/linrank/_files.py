"""Files that are written whole or not at all, and the removal of what killed writers left."""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Literal

from .errors import DataError

try:
    import fcntl
except ImportError:  # Windows: nothing is locked there, and so no leftover is removed
    fcntl = None  # type: ignore[assignment]

_TEMPORARY = re.compile(r"\.linrank-[0-9a-f]{16}\.tmp")


@contextmanager
def atomic_write(path: str | os.PathLike[str], mode: Literal["w", "wb"]) -> Iterator[IO[Any]]:
    """Open a file for writing that takes the place of an old one only when all is written.

    The file is written under another name in the same folder, brought to disk, and renamed. If
    anything fails, the old file stays as it is and nothing else is left behind. The new file has
    the permissions and, where the system allows it, the owner of the old one. While it is
    written, only its owner can read it.

    Parameters
    ----------
    path : path-like
        The file. A symbolic link stays, and the file that it leads to is replaced. A device or a
        pipe is written to directly.
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
    encoding = None if mode == "wb" else "utf-8"
    try:
        old = find_status(path)
        if old is not None and stat.S_ISDIR(old.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if old is not None and not stat.S_ISREG(old.st_mode):
            with open(path, mode, encoding=encoding) as file:
                yield file
            return
        target = Path(os.path.realpath(path))
        remove_leftovers(target.parent)
        place, descriptor = _new_file(target.parent, 0o666 if old is None else 0o600)
        try:
            # The descriptor stays open, and with it the lock, until the file has its name.
            with open(descriptor, mode, encoding=encoding, closefd=fcntl is None) as file:
                yield file
                file.flush()
                _take_permissions(descriptor, target)
                os.fsync(descriptor)
            place.replace(target)
        finally:
            with suppress(OSError):
                place.unlink()
            if fcntl is not None:
                _unlock(descriptor)
        sync_folder(target.parent)
    except OSError as error:
        raise write_error(path, error) from None


def write_error(path: str | os.PathLike[str], error: OSError) -> DataError:
    """Say that a file or folder cannot be written, and why.

    Examples
    --------
    >>> write_error("model.json", OSError(errno.ENOSPC, "No space left on device"))
    DataError('model.json: cannot be written: No space left on device')
    """
    reason = error.strerror or str(error)
    folder = Path(os.path.realpath(path)).parent
    if error.errno == errno.ENOENT and not folder.is_dir():
        reason = f"there is no folder {folder}"
    return DataError(f"{os.fspath(path)}: cannot be written: {reason}")


def find_status(path: str | os.PathLike[str]) -> os.stat_result | None:
    """The status of what a path leads to; None if there is nothing."""
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None
    except ValueError as error:  # the path holds a NUL
        raise OSError(errno.EINVAL, str(error)) from None


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to disk, where the system can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def bring_to_disk(place: Path, replaced: Path) -> None:
    """Give a new file or folder the permissions of the one that it replaces, and sync it."""
    if place.is_dir() and fcntl is None:
        return  # Windows does not open folders
    descriptor = os.open(place, os.O_RDONLY if place.is_dir() else os.O_RDWR)
    try:
        _take_permissions(descriptor, replaced)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def temporary_folder(parent: Path, mode: int = 0o777) -> Iterator[Path]:
    """A new folder in `parent`, which is removed at the end unless it was renamed."""
    remove_leftovers(parent)
    while True:
        folder = parent / _temporary_name()
        folder.mkdir(mode)
        with locked(folder):
            if not folder.exists():  # removed before it was locked
                continue
            try:
                yield folder
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            return


@contextmanager
def locked(folder: Path, *, wait: bool = True) -> Iterator[bool]:
    """Hold the lock of a folder.

    False where another process holds it and `wait` is false, or where the file system has no locks.
    """
    descriptor = None
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
    try:
        yield descriptor is not None and _lock(descriptor, wait=wait)
    finally:
        if descriptor is not None:
            _unlock(descriptor)


def remove_leftovers(parent: Path) -> None:
    """Remove temporary files and folders of processes that were killed.

    A process holds a lock on what it writes, and the system releases the lock when the process
    ends. What can be locked therefore belongs to nobody.
    """
    try:
        names = [name for name in os.listdir(parent) if _TEMPORARY.fullmatch(name)]
    except OSError:
        return
    for name in names:
        with suppress(OSError):
            descriptor = os.open(parent / name, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
            try:
                if _lock(descriptor, wait=False):
                    _remove(parent / name)
            finally:
                _unlock(descriptor)


def _remove(place: Path) -> None:
    if place.is_dir():
        shutil.rmtree(place, ignore_errors=True)
    else:
        place.unlink()


def _temporary_name() -> str:
    return f".linrank-{secrets.token_hex(8)}.tmp"


def _lock(descriptor: int, *, wait: bool = True) -> bool:
    """Lock an open file or folder until it is closed; false where that is not possible."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        return False
    return True


def _unlock(descriptor: int) -> None:
    """Close a locked file, and release its lock also where a forked process has the file."""
    if fcntl is not None:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def _new_file(folder: Path, permissions: int) -> tuple[Path, int]:
    """Create a temporary file, open for writing and locked."""
    while True:
        place = folder / _temporary_name()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        descriptor = os.open(place, flags, permissions)
        _lock(descriptor)
        if place.exists():
            return place, descriptor
        _unlock(descriptor)  # removed before it was locked


def _take_permissions(descriptor: int, target: Path) -> None:
    """Give a new file the owner, the group and the permissions of the file that it replaces."""
    old = find_status(target)
    if old is None or not hasattr(os, "fchown"):
        return
    permissions = stat.S_IMODE(old.st_mode)
    for owner in (old.st_uid, -1):  # only an administrator can give files away
        with suppress(OSError):
            os.fchown(descriptor, owner, old.st_gid)
            break
    if os.fstat(descriptor).st_gid != old.st_gid:  # another group gets what everybody gets
        permissions = permissions & ~0o070 | (permissions & 0o007) << 3
    os.fchmod(descriptor, permissions)
