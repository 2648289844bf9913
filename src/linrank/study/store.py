"""The results of studies on disk: an SQLite file with one row per run.

A run is written in one transaction when it is finished. If the process is killed at any moment, the
file holds every run that was finished, and no part of another one. Rows are found by the key of a
run, which is a hash of its data, method, settings and metric. Several studies can use one file.

The file may be damaged or come from others. It must have the one table of `TABLE` and nothing else,
such as views or triggers, and `rows` checks each row that is read.
"""

from __future__ import annotations

import json
import os
import platform
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from .._text import printable
from .._typing import Integers, Vector
from ..data.ranking import RankingData
from ..errors import DataError, FileFormatError
from .jobs import Job
from .keys import package_version, package_versions
from .outcomes import Brief, Outcome
from .rows import Row, origin, pack, plain, unpack

APPLICATION = 0x6C72736B  #: number by which SQLite files of studies are recognised: "lrsk"
VERSION = 1  #: of the table
PATIENCE = 60.0  #: seconds to wait while another process writes
PACKAGES = ("linrank", "numpy", "scipy", "sklearn", "numba")  #: whose versions are stored
LONGEST_REASON = 200  #: characters of an error about damage, which may quote the file
#: Errors of SQLite about the disk, rights and other processes; all others are about the content.
DISK = {
    sqlite3.SQLITE_BUSY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY,
}  # fmt: skip

TABLE = """
CREATE TABLE run (
    key TEXT PRIMARY KEY, data TEXT, fold TEXT, method TEXT, setting TEXT, content TEXT,
    arrays BLOB, made TEXT, versions TEXT
) WITHOUT ROWID
"""


@dataclass(frozen=True)
class TestPart:
    """What a report needs to know of the test part of a fold."""

    __test__ = False  # not a test of pytest

    y: Vector
    query_ptr: Integers
    query_ids: list[str]
    doc_ids: list[str] | None

    @classmethod
    def of(cls, data: RankingData) -> TestPart:
        """Return the labels, queries and documents of some data."""
        return cls(data.y, data.query_ptr, list(map(str, data.query_ids)), data.doc_ids)


class ResultStore:
    """An SQLite file with the results of studies, which is made if it does not exist.

    Parameters
    ----------
    path : path-like

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "study.sqlite")
    >>> with ResultStore(path) as store:
    ...     store.known([])
    {}
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        with self._sentences():
            self._connection = sqlite3.connect(self.path, timeout=PATIENCE)
            self._connection.execute("PRAGMA trusted_schema = OFF")
            self._prepare()

    def _prepare(self) -> None:
        """Make the table of a new file, and refuse files of other programs and versions."""
        with self._connection as transaction:
            transaction.execute("BEGIN IMMEDIATE")
            (application,) = transaction.execute("PRAGMA application_id").fetchone()
            (version,) = transaction.execute("PRAGMA user_version").fetchone()
            schema = transaction.execute("SELECT type, name, sql FROM sqlite_schema").fetchall()
            if not schema:
                transaction.execute(TABLE)
                transaction.execute(f"PRAGMA application_id = {APPLICATION}")
                transaction.execute(f"PRAGMA user_version = {VERSION}")
            elif application != APPLICATION:
                raise FileFormatError(
                    f"{self.path}: an SQLite file of another program. Name another file for the "
                    "results."
                )
            elif version > VERSION:
                raise FileFormatError(
                    f"{self.path}: written by a newer linrank (version {version} of the file; this "
                    f"linrank reads versions up to {VERSION}). Upgrade linrank."
                )
            else:
                self._check(version, schema, transaction.execute("PRAGMA quick_check(1)"))

    def _check(self, version: int, schema: list[tuple[Any, ...]], damage: Iterable[Any]) -> None:
        """Refuse a file whose version, tables or pages are not those of a file of results."""
        if version < 1:
            raise self._damaged(f"its version is {version}")
        for kind, name, sql in schema:
            if (kind, name) != ("table", "run") or str(sql).split() != TABLE.split():
                raise self._damaged(f"it has an unknown {kind} {name!r}")
        for (said,) in damage:
            if said != "ok":
                raise self._damaged(str(said))

    def _damaged(self, reason: str) -> FileFormatError:
        reason = printable(" ".join(reason.split())[:LONGEST_REASON])
        return FileFormatError(
            f"{self.path}: the file of results is damaged: {reason}. Restore it from a copy, or "
            "name another file."
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self._connection.close()

    @contextmanager
    def _sentences(self) -> Iterator[None]:
        """Turn errors of SQLite into sentences that name the file."""
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
            if code == sqlite3.SQLITE_NOTADB:
                raise FileFormatError(
                    f"{self.path}: not a file of results ({error}). Name another file."
                ) from None
            if code not in DISK:
                raise self._damaged(str(error)) from None
            raise StoreFailed(f"{self.path}: results cannot be stored: {error}") from None

    def known(self, jobs: Iterable[Job]) -> dict[str, Brief]:
        """Return the keys of those runs that are finished, with what a table shows of them."""
        found: dict[str, Brief] = {}
        for job, row in self._rows(jobs):
            with self._checked(job):
                outcome, _ = unpack(row, job), origin(row)
            found[job.key] = Brief(outcome.best, outcome.total_seconds)
        return found

    def add(self, job: Job, outcome: Outcome) -> None:
        """Store a finished run in one transaction."""
        made = datetime.now(UTC).isoformat(timespec="seconds")
        packed = pack(job, outcome, made, versions(job.ranker))
        row = (
            job.key, job.data, job.fold, job.method, json.dumps(plain(job.setting)), *packed
        )  # fmt: skip
        with self._sentences(), self._connection as transaction:
            transaction.execute(f"INSERT OR REPLACE INTO run VALUES ({', '.join('?' * 9)})", row)

    def get(self, job: Job) -> Outcome:
        """Return a finished run."""
        for _, row in self._rows([job]):
            with self._checked(job):
                return unpack(row, job)
        raise self._damaged(f"the run {job.key} is no longer in it")

    def made(self, jobs: Iterable[Job]) -> list[tuple[str, dict[str, str]]]:
        """Return when some runs were made, and with which versions of programs."""
        found = []
        for job, row in self._rows(jobs):
            with self._checked(job):
                found.append(origin(row))
        return found

    def _rows(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, tuple[Any, ...]]]:
        """Yield the runs that are finished, with their rows as they are in the file."""
        question = f"SELECT {', '.join(Row._fields)} FROM run WHERE key = ?"
        for job in jobs:
            with self._sentences():
                row = self._connection.execute(question, (job.key,)).fetchone()
            if row is not None:
                yield job, row

    @contextmanager
    def _checked(self, job: Job) -> Iterator[None]:
        """Turn the errors of a damaged row into a sentence that names the file."""
        try:
            yield
        except (ValueError, RecursionError) as error:
            raise self._damaged(f"the run {job.key}: {error}") from None


class StoreFailed(DataError):
    """A run could not be stored, because the disk is full or the file is locked or read-only."""


def versions(ranker: Any) -> dict[str, str]:
    """Return the versions of the programs that the results of a ranker depend on."""
    python = {"Python": platform.python_version()}
    return python | {name: package_version(name) for name in PACKAGES} | package_versions(ranker)
