"""Files of a study that is running: its results, a lock, and the parts of folds for processes."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from ..data.store import save_store
from ..errors import DataError
from .folds import PARTS, FoldData
from .store import ResultStore

SUFFIX = ".parts"  #: of the folder beside the results from which processes read the data


class Workspace:
    """The file of results, and a folder with the parts of folds that is removed at the end.

    If the process is killed, the folder stays. The next study with the same results writes its
    parts again, because nothing says who wrote those that it finds.

    Parameters
    ----------
    results : path-like, optional
        The SQLite file. None: results are kept in memory.

    Attributes
    ----------
    store : ResultStore
    problems : list of str
        Sentences about files that could not be written.
    """

    store: ResultStore

    def __init__(self, results: str | os.PathLike[str] | None) -> None:
        self.results = None if results is None else Path(results)
        self.problems: list[str] = []
        self._written: dict[str, Path] = {}  # folders of parts by their digests
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with self._stack:
            if self.results is None:
                self.store = self._stack.enter_context(ResultStore(":memory:"))
                self._folder = self._temporary()
            else:
                self.store = self._stack.enter_context(ResultStore(self.results))
                # An absolute path, because a ranker may change the folder of its process.
                self._folder = Path(os.path.abspath(f"{self.results}{SUFFIX}"))
                self._lock()
            self._stack = self._stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self._stack.close()

    def _temporary(self) -> Path:
        folder = tempfile.TemporaryDirectory(prefix="linrank-study-")
        return Path(self._stack.enter_context(folder))

    def _lock(self) -> None:
        """Refuse a second study with the same results; SQLite frees the lock of a killed process.

        A folder that cannot be made, as on a full disk, is replaced by a temporary one.
        """
        try:
            self._folder.mkdir(exist_ok=True)
            lock = sqlite3.connect(self._folder / "lock", timeout=0.0, isolation_level=None)
            self._stack.enter_context(closing(lock))
            lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise DataError(
                    f"{self.results}: another study writes its results to this file. Wait until it "
                    "has ended, or name another file."
                ) from None
            self._use_temporary(str(error))
        except OSError as error:
            self._use_temporary(error.strerror or str(error))
        else:  # removed before the lock is freed, because the next study uses the same folder
            self._stack.callback(shutil.rmtree, self._folder, ignore_errors=True)

    def _use_temporary(self, reason: str) -> None:
        self.problems.append(f"{self._folder}: cannot be used: {reason}")
        self._folder = self._temporary()

    def write_parts(self, fold: FoldData) -> Path:
        """Write the parts of a fold as stores, each fold once, and return their folder.

        If there is no room beside the results, the parts are written to the temporary folder of
        the system.
        """
        if fold.digest not in self._written:
            try:
                folder = _write(fold, self._folder / fold.digest)
            except (DataError, OSError) as error:
                with suppress(OSError):
                    shutil.rmtree(self._folder / fold.digest)
                self._use_temporary(" ".join(str(error).split()))
                folder = _write(fold, self._folder / fold.digest)
            self._written[fold.digest] = folder
        return self._written[fold.digest]


def _write(fold: FoldData, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in zip(PARTS, fold.parts, strict=True):
        save_store(data, folder / name)
    return folder
