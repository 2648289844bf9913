"""The results of studies on disk: an SQLite file with one row per run.

A run is written in one transaction when it is finished. If the process is killed at any moment, the
file holds every run that was finished, and no part of another one. Rows are found by the key of a
run, which is a hash of its data, method, settings and metric. Several studies can use one file.
"""

from __future__ import annotations

import io
import json
import os
import platform
import sqlite3
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from .._typing import Array, Integers, Vector
from ..data.ranking import RankingData
from ..errors import DataError, FileFormatError
from .jobs import Job
from .keys import package_version, package_versions
from .outcomes import Brief, Curve, Outcome, Trial, Weights

APPLICATION = 0x6C72736B  #: number by which SQLite files of studies are recognised: "lrsk"
VERSION = 1  #: of the table
PATIENCE = 60.0  #: seconds to wait while another process writes
PACKAGES = ("linrank", "numpy", "scipy", "sklearn", "numba")  #: whose versions are stored
BATCH = 500  #: keys in one question; SQLite limits the number of its parameters

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
    ...     store.known(["a key"])
    {}
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        with self._sentences():
            self._connection = sqlite3.connect(self.path, timeout=PATIENCE)
            self._prepare()

    def _prepare(self) -> None:
        """Make the table of a new file, and refuse files of other programs and versions."""
        with self._connection as transaction:
            transaction.execute("BEGIN IMMEDIATE")
            (application,) = transaction.execute("PRAGMA application_id").fetchone()
            (version,) = transaction.execute("PRAGMA user_version").fetchone()
            (n_tables,) = transaction.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            if not n_tables:
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
        except (zipfile.BadZipFile, json.JSONDecodeError, KeyError) as error:
            raise FileFormatError(
                f"{self.path}: damaged: {error}. Remove the file, or name another one."
            ) from None
        except sqlite3.DatabaseError as error:
            said = str(error)
            if "not a database" in said or "malformed" in said:
                raise FileFormatError(
                    f"{self.path}: not a file of results ({said}). Name another file."
                ) from None
            raise StoreFailed(f"{self.path}: results cannot be stored: {said}") from None

    def known(self, keys: Iterable[str]) -> dict[str, Brief]:
        """Return those of the keys whose runs are finished, with what a table shows of them."""
        keys = list(keys)
        found: dict[str, Brief] = {}
        with self._sentences():
            for first in range(0, len(keys), BATCH):
                some = keys[first : first + BATCH]
                marks = ", ".join("?" * len(some))
                rows = self._connection.execute(
                    f"SELECT key, content FROM run WHERE key IN ({marks})", some
                )
                found.update((key, _brief(json.loads(content))) for key, content in rows)
        return found

    def add(self, job: Job, outcome: Outcome) -> None:
        """Store a finished run in one transaction."""
        content, arrays = _pack(outcome)
        row = (
            job.key, job.data, job.fold, job.method, json.dumps(job.setting, default=_plain),
            json.dumps(content, default=_plain), _bytes(arrays),
            datetime.now(UTC).isoformat(timespec="seconds"), json.dumps(versions(job.ranker)),
        )  # fmt: skip
        with self._sentences(), self._connection as transaction:
            transaction.execute(f"INSERT OR REPLACE INTO run VALUES ({', '.join('?' * 9)})", row)

    def get(self, key: str) -> Outcome:
        """Return a finished run."""
        with self._sentences():
            found = self._connection.execute(
                "SELECT content, arrays FROM run WHERE key = ?", (key,)
            ).fetchone()
            if found is None:
                raise KeyError(key)
            return _unpack(json.loads(found[0]), _arrays(found[1]))

    def made(self, keys: Iterable[str]) -> list[tuple[str, dict[str, str]]]:
        """Return when some runs were made, and with which versions of programs."""
        with self._sentences():
            found = [
                self._connection.execute(
                    "SELECT made, versions FROM run WHERE key = ?", (key,)
                ).fetchone()
                for key in keys
            ]
        return [(row[0], json.loads(row[1])) for row in found if row is not None]


class StoreFailed(DataError):
    """A run could not be stored, because the disk is full or the file is locked or read-only."""


def versions(ranker: Any) -> dict[str, str]:
    """Return the versions of the programs that the results of a ranker depend on."""
    python = {"Python": platform.python_version()}
    return python | {name: package_version(name) for name in PACKAGES} | package_versions(ranker)


def _pack(outcome: Outcome) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return the plain values of an outcome, and its arrays."""
    content = {
        "trials": [trial._asdict() for trial in outcome.trials],
        **{name: getattr(outcome, name) for name in PLAIN},
    }
    arrays = {"scores": outcome.scores}
    for part in (outcome.weights, outcome.curve):
        if part is not None:
            values = {n: v for n, v in vars(part).items() if isinstance(v, np.ndarray)}
            arrays |= {f"{type(part).__name__}.{name}": value for name, value in values.items()}
    if outcome.weights is not None:
        content["names"] = outcome.weights.names
    return content, arrays


def _plain(value: Any) -> Any:
    """Return a number or list of numpy as one of Python, and other values as text."""
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else repr(value)


#: Attributes of an outcome that are numbers or texts.
PLAIN = (
    "chosen", "n_features", "n_used", "train_seconds", "score_seconds", "total_seconds", "notes"
)  # fmt: skip


def _unpack(content: dict[str, Any], arrays: dict[str, Array]) -> Outcome:
    """Return the outcome that `_pack` has packed."""

    def part(kind: type) -> dict[str, Array]:
        start = f"{kind.__name__}."
        return {k.removeprefix(start): v for k, v in arrays.items() if k.startswith(start)}

    weights, curve = part(Weights), part(Curve)
    return Outcome(
        trials=[Trial(**trial) for trial in content["trials"]],
        scores=arrays["scores"],
        weights=Weights(**weights, names=content["names"]) if weights else None,
        curve=Curve(**curve) if curve else None,
        **{name: content[name] for name in PLAIN},
    )


def _brief(content: dict[str, Any]) -> Brief:
    return Brief(Trial(**content["trials"][content["chosen"]]), content["total_seconds"])


def _bytes(arrays: dict[str, Any]) -> bytes:
    with closing(io.BytesIO()) as file:
        np.savez_compressed(file, **arrays)
        return file.getvalue()


def _arrays(content: bytes) -> dict[str, Array]:
    with np.load(io.BytesIO(content), allow_pickle=False) as found:
        return dict(found)
