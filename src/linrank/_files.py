"""Files that are written whole or not at all, and the removal of what killed writers left."""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import stat
import time
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
_DESCRIPTORS = re.compile(r"/dev/fd|/proc/([0-9]+)(/task/[0-9]+)?/fd")
_LOCK_SECONDS = 60.0  # a writer gives up if another process holds a lock for longer
_MAX_LINKS = 40  # symbolic links that are followed, as many as Linux follows


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
        pipe is written to directly. What is written to an open file such as ``/dev/stdout`` or
        ``/dev/fd/3`` follows what has been written there before.
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
        descriptor_path = find_descriptor(path)
        if descriptor_path is not None:
            with open(_open_again(descriptor_path), mode, encoding=encoding) as file:
                yield file
            return
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


def find_descriptor(path: str | os.PathLike[str]) -> str | None:
    """The ``/dev/fd/N`` or ``/proc/PID/fd/N`` that a path leads to; None for other paths.

    Examples
    --------
    >>> find_descriptor("model.json") is None
    True
    """
    place = os.fspath(path)
    for _ in range(_MAX_LINKS):
        folder, name = os.path.split(place)
        try:
            folder = os.path.realpath(folder)
            if name.isdecimal() and _DESCRIPTORS.fullmatch(folder):
                return os.path.join(folder, name)
            place = os.path.join(folder, os.readlink(os.path.join(folder, name)))
        except (OSError, ValueError):  # not a link, or no path at all
            return None
    return None


def _open_again(place: str) -> int:
    """Open what a descriptor stands for, to write behind what has been written there.

    A descriptor of this process is duplicated, because both then share one position in the file.
    """
    folder, name = os.path.split(place)
    found = _DESCRIPTORS.fullmatch(folder)
    if found is None or found.group(1) in (None, str(os.getpid())):
        return os.dup(int(name))
    return os.open(place, os.O_WRONLY | os.O_APPEND)


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
    An `OSError` is raised if `wait` is true and another process does not release the lock in time.
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
    ends. What can be locked therefore belongs to nobody. Things of other users stay, and so does
    what is neither a file nor a folder.
    """
    if fcntl is None:
        return
    try:
        names = [name for name in os.listdir(parent) if _TEMPORARY.fullmatch(name)]
    except OSError:
        return
    for name in names:
        with suppress(OSError):
            # Without O_NONBLOCK, opening a pipe waits for someone who writes into it.
            descriptor = os.open(parent / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                if _may_be_left(os.fstat(descriptor)) and _lock(descriptor, wait=False):
                    _remove(parent / name)
            finally:
                _unlock(descriptor)


def _may_be_left(status: os.stat_result) -> bool:
    is_known = stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)
    return is_known and status.st_uid == os.geteuid()


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
    end = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not wait:
                return False
        except OSError:
            return False
        else:
            return True
        if time.monotonic() > end:
            reason = f"another process has held its lock for {_LOCK_SECONDS:g} seconds"
            raise OSError(errno.EAGAIN, f"{reason}; try again when that process has ended")
        time.sleep(0.01)


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
