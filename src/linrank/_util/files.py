"""Atomic writing of files and folders, and removal of temporary files of killed processes."""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Literal

from ..errors import DataError

try:
    import fcntl
except ImportError:  # Windows has no flock, so nothing is locked and no leftover is removed.
    fcntl = None  # type: ignore[assignment]

_TEMPORARY = re.compile(r"\.linrank-[0-9a-f]{16}\.tmp")
_DESCRIPTORS = re.compile(r"/dev/fd|/proc/([0-9]+)(/task/[0-9]+)?/fd")
_LOCK_SECONDS = 60.0  # time that a writer waits for a lock before it raises an error
_MAX_LINKS = 40  # symbolic links that are followed; Linux follows as many


@contextmanager
def atomic_write(path: str | os.PathLike[str], mode: Literal["w", "wb"]) -> Iterator[IO[Any]]:
    """Open a file for writing that replaces an old one only after it is complete.

    The new file is written under a temporary name in the same folder, synced to disk, and renamed.
    If anything fails, the old file is kept and the temporary file is removed. The new file gets the
    permissions and, if the system allows it, the owner of the old one. Until it is complete, only
    its owner can read it.

    Parameters
    ----------
    path : path-like
        The file. A symbolic link is kept, and the file that it leads to is replaced. A device or a
        pipe is written directly. Text for an open file such as ``/dev/stdout`` or ``/dev/fd/3``
        is appended to what was written there before.
    mode : {"w", "wb"}
        Text (UTF-8) or bytes.

    Raises
    ------
    DataError
        If the file cannot be written, for example because the folder does not exist or the disk
        is full. The message names the file and the reason.

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
            # The descriptor, and with it the lock, is kept until the file is renamed.
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
    except UnicodeEncodeError as error:
        letters = error.object[error.start : error.end][:20]
        raise DataError(
            f"{os.fspath(path)}: cannot be written: a name or text holds {letters!r}, which is not "
            "valid Unicode. Rename it"
        ) from None
    except OSError as error:
        raise write_error(path, error) from None


def find_descriptor(path: str | os.PathLike[str]) -> str | None:
    """Return the ``/dev/fd/N`` or ``/proc/PID/fd/N`` that a path leads to, otherwise None.

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
        except (OSError, ValueError):  # The path is not a link, or is invalid.
            return None
    return None


def _open_again(place: str) -> int:
    """Open the file of a descriptor for appending to what was written there.

    A descriptor of this process is duplicated, so that both share one position in the file.
    """
    folder, name = os.path.split(place)
    found = _DESCRIPTORS.fullmatch(folder)
    if found is None or found.group(1) in (None, str(os.getpid())):
        return os.dup(int(name))
    return os.open(place, os.O_WRONLY | os.O_APPEND)


def write_error(path: str | os.PathLike[str], error: OSError) -> DataError:
    """Return the error for a file or folder that cannot be written, with the reason.

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
    """Return the status of the file or folder at a path; None if there is none."""
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None
    except ValueError as error:  # The path contains a NUL.
        raise OSError(errno.EINVAL, str(error)) from None


def sync_folder(folder: Path) -> None:
    """Sync the names in a folder to disk, if the system supports it."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def bring_to_disk(place: Path, replaced: Path) -> None:
    """Give a new file or folder the permissions of the one it replaces, and sync it to disk."""
    if place.is_dir() and fcntl is None:
        return  # Windows cannot open folders.
    descriptor = os.open(place, os.O_RDONLY if place.is_dir() else os.O_RDWR)
    try:
        _take_permissions(descriptor, replaced)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def temporary_folder(parent: Path, mode: int = 0o777) -> Iterator[Path]:
    """Yield a new folder in `parent`, which is removed at the end unless it was renamed."""
    remove_leftovers(parent)
    while True:
        folder = parent / _temporary_name()
        folder.mkdir(mode)
        with locked(folder):
            if not folder.exists():  # Another process removed it before it was locked.
                continue
            try:
                yield folder
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            return


@contextmanager
def locked(folder: Path, *, wait: bool = True) -> Iterator[bool]:
    """Hold the lock of a folder, and yield whether it is held.

    It is not held if the file system has no locks, or if `wait` is false and another process holds
    it. If `wait` is true and another process does not release the lock in time, an `OSError` is
    raised.
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

    A process locks what it writes, and the system releases the lock when the process ends. A
    temporary file that can be locked is therefore no longer in use. Files of other users are kept,
    and so is anything that is neither a file nor a folder.
    """
    if fcntl is None:
        return
    try:
        names = [name for name in os.listdir(parent) if _TEMPORARY.fullmatch(name)]
    except OSError:
        return
    for name in names:
        with suppress(OSError):
            # Without O_NONBLOCK, opening a pipe would wait for a writer.
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
    return f".linrank-{os.urandom(8).hex()}.tmp"


def _lock(descriptor: int, *, wait: bool = True) -> bool:
    """Lock an open file or folder until it is closed; return whether that was possible."""
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
    """Close a locked file, and release its lock even if a forked process has the file open."""
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
        _unlock(descriptor)  # Another process removed the file before it was locked.


def _take_permissions(descriptor: int, target: Path) -> None:
    """Give a new file the owner, the group and the permissions of the file that it replaces."""
    old = find_status(target)
    if old is None or not hasattr(os, "fchown"):
        return
    permissions = stat.S_IMODE(old.st_mode)
    for owner in (old.st_uid, -1):  # Only an administrator can change the owner.
        with suppress(OSError):
            os.fchown(descriptor, owner, old.st_gid)
            break
    if os.fstat(descriptor).st_gid != old.st_gid:  # A new group gets the permissions of others.
        permissions = permissions & ~0o070 | (permissions & 0o007) << 3
    os.fchmod(descriptor, permissions)
