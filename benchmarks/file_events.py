"""Events of files while a program runs, from the kernel (inotify).

The observer sleeps between events. An observer that wakes up at intervals slowed a program with two
OpenMP threads on two cores by 40 %.
"""

from __future__ import annotations

import ctypes
import os
import select
import struct
from collections.abc import Iterator
from pathlib import Path

CLOSED = 0x10  #: a file that was opened for reading is closed (IN_CLOSE_NOWRITE)
CREATED = 0x100  #: a file is created in a folder (IN_CREATE)
HEAD = struct.Struct("iIII")  #: an event: watch, mask, cookie, length of the name that follows


class FileEvents:
    """The events of some files and folders; a context manager.

    Parameters
    ----------
    masks : dict
        `CLOSED` for files, `CREATED` for folders, by path.
    """

    def __init__(self, masks: dict[Path, int]) -> None:
        self._masks = masks

    def __enter__(self) -> FileEvents:
        libc = ctypes.CDLL(None, use_errno=True)
        self._file = libc.inotify_init1(os.O_CLOEXEC)
        self._paths: dict[int, Path] = {}
        for path, mask in self._masks.items():
            watch = libc.inotify_add_watch(self._file, os.fsencode(path), mask)
            if watch < 0:
                os.close(self._file)
                raise OSError(ctypes.get_errno(), "cannot observe", str(path))
            self._paths[watch] = path
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)

    def until_exit(self, process: int, cap: float) -> Iterator[Path]:
        """Yield the path of each event until a process ends, or nothing happens for some seconds.

        Equal events that follow each other may be reported as one.
        """
        ended = os.pidfd_open(process)
        try:
            while ready := select.select([self._file, ended], [], [], cap)[0]:
                if self._file not in ready:
                    return
                yield from self._read()
        finally:
            os.close(ended)

    def _read(self) -> Iterator[Path]:
        content = os.read(self._file, 1 << 16)
        while content:
            watch, _, _, length = HEAD.unpack_from(content)
            content = content[HEAD.size + length :]
            yield self._paths[watch]
