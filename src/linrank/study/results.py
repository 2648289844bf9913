"""Results of a study: chosen settings, and the metrics of each query of the test parts."""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import platform
import sqlite3
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from .._util.lazy import lazy_property
from .._util.text import data_frame, html_table, printable
from .._util.types import Array, Integers, Vector
from ..choices import FlavourName
from ..data.ranking import RankingData, sparsity_ratio
from ..data.store import read_head
from ..data.trec import Qrels, Run, looks_like_run, read_run, read_scores, require_doc_ids
from ..errors import DataError, FileFormatError, prefix_file_errors
from ..metrics import Evaluation, evaluate, evaluate_run, parse_metric
from ..training.selection import Criterion, best_index
from .folds import Lines
from .protocol import Job, package_version, package_versions

if TYPE_CHECKING:
    import pandas as pd

    from ..report.page import Table

# --------------------------------------------------------------------------------------------------
# What the runs of a study found.


PATH_FEATURES = 20  #: features whose weights along a path are kept, for pictures
LONGEST_CURVE = 2**20  #: steps of a solver that are kept; pictures show fewer


class Trial(NamedTuple):
    """One setting of a method on one fold."""

    setting: dict[str, Any]
    valid: float  #: the metric on the validation part, by which settings are chosen
    test: float  #: the metric on the test part
    n_features: int | None  #: features in use; None if the model does not tell
    seconds: float  #: of the fit; along a path, from the solution for the C before


class Brief(NamedTuple):
    """What a table shows of a run: the chosen trial, and the seconds of the whole run."""

    trial: Trial
    seconds: float


@dataclass(frozen=True)
class MetricCurve:
    """How a solver approached the optimum, from weights of 0, with the chosen setting."""

    seconds: Vector
    products: Integers
    objective: Vector
    gradient_norm: Vector


@dataclass(frozen=True)
class FeatureWeights:
    """Weights of the chosen setting, and those of the largest features along a path of C."""

    coef: Vector
    Cs: Vector
    features: Integers
    path: Vector  #: of shape (n_Cs, len(features))
    names: list[str]  #: of all features


@dataclass(frozen=True)
class Outcome:
    """What a run found.

    Attributes
    ----------
    trials : list of Trial
        One trial, or one for each C of a path.
    chosen : int
        The trial with the best validation metric.
    scores : float64 array
        Scores of the documents of the test part with the chosen trial.
    n_features : int
        Features of the data; those that are zero in all documents count, too.
    n_used : int or None
        Features that the chosen model uses; None if it does not tell.
    train_seconds, score_seconds : float
        Seconds of a fit with the chosen setting, and of scoring the test part.
    total_seconds : float
        Seconds of the whole run.
    weights : Weights, optional
        For linear models.
    curve : Curve, optional
        For models of linrank's own solvers.
    notes : list of str
        Sentences of warnings.
    """

    trials: list[Trial]
    chosen: int
    scores: Vector
    n_features: int
    n_used: int | None
    train_seconds: float
    score_seconds: float
    total_seconds: float
    weights: FeatureWeights | None = None
    curve: MetricCurve | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def best(self) -> Trial:
        """The chosen trial."""
        return self.trials[self.chosen]


# --------------------------------------------------------------------------------------------------
# Rows of a file of results: outcomes as text and bytes, which are checked when they are read.
#
# A file may be damaged, or come from others. A row is therefore compared with the run for which it
# is read: the documents and features of its data give the size of each array. Settings are not read
# from the file, because the run has them. A digest tells whether any byte of a row has changed.


LONGEST_HEAD = 2**14  #: bytes of the header of an array; numpy writes 128
LARGEST_COUNT = 2**53  #: integers up to this one are exact as float64
SECONDS = ("train_seconds", "score_seconds", "total_seconds")
#: Attributes of an outcome that are numbers or texts.
PLAIN = ("chosen", "n_features", "n_used", *SECONDS, "notes")
#: Arrays of the parts of an outcome.
PARTS = {
    "Weights": ("coef", "Cs", "features", "path"),
    "Curve": ("seconds", "products", "objective", "gradient_norm"),
}
COUNTS = ("Weights.features", "Curve.products")  #: arrays of integers; others are of float64


class Row(NamedTuple):
    """The columns of a row that are read."""

    content: str
    arrays: bytes
    made: str
    versions: str


def pack(job: Job, outcome: Outcome, made: str, versions: Mapping[str, str]) -> Row:
    """Return the row of a finished run, with its digest in the content."""
    content: dict[str, Any] = {
        "trials": [trial._asdict() for trial in outcome.trials],
        **{name: getattr(outcome, name) for name in PLAIN},
    }
    arrays = {"scores": outcome.scores}
    for name, part in (("Weights", outcome.weights), ("Curve", outcome.curve)):
        values = vars(part) if part is not None else {}
        arrays |= {f"{name}.{n}": v for n, v in values.items() if isinstance(v, np.ndarray)}
    if outcome.weights is not None:
        content["names"] = outcome.weights.names
    content = plain(content)
    row = Row(json.dumps(content), _bytes(arrays), made, json.dumps(versions))
    return row._replace(content=json.dumps(content | {"digest": _digest(job.key, row)}))


def plain(value: Any) -> Any:
    """Return what JSON makes of a value: numbers of numpy become plain, and objects become text."""
    return json.loads(json.dumps(value, default=_plain))


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else repr(value)


def _bytes(arrays: dict[str, Any]) -> bytes:
    with closing(io.BytesIO()) as file:
        np.savez_compressed(file, **arrays)
        return file.getvalue()


def _digest(key: str, row: Row) -> str:
    """Return a hash of the key and the columns of a row."""
    found = hashlib.blake2b(digest_size=16)
    for part in (key, *row):
        data = part if isinstance(part, bytes) else part.encode()
        found.update(len(data).to_bytes(8, "little") + data)
    return found.hexdigest()


def unpack(row: Sequence[Any], job: Job) -> Outcome:
    """Return the outcome that `pack` has packed.

    Raises
    ------
    ValueError, RecursionError
        If the row is damaged or does not fit the run; the message gives the reason.
    """
    row = _typed(row)
    content = _object("content", row.content)
    digest = content.pop("digest", None)  # rows of linrank 0.2.0 have none
    if digest is not None:
        same = digest == _digest(job.key, row._replace(content=json.dumps(content)))
        _require(same, "its digest differs from its content")
    trials = _trials(content.get("trials"), job)
    chosen = _count("chosen", content.get("chosen"))
    _require(chosen < len(trials), f"trial {chosen} is chosen of {len(trials)}")
    n_features = _count("n_features", content.get("n_features"))
    _require(n_features == job.n_features, f"it has {n_features} features, not {job.n_features}")
    arrays = _arrays(row.arrays, _sizes(job, len(trials)))
    weights = _part("Weights", arrays)
    names = _texts("names", content.get("names")) if weights else []
    _require(len(names) == (n_features if weights else 0), f"it has {len(names)} names of features")
    curve = _part("Curve", arrays)
    return Outcome(
        trials=trials, chosen=chosen, scores=arrays["scores"], n_features=n_features,
        n_used=_used("n_used", content.get("n_used")),
        weights=FeatureWeights(**weights, names=names) if weights else None,
        curve=MetricCurve(**curve) if curve else None, notes=_texts("notes", content.get("notes")),
        **{name: _seconds(name, content.get(name)) for name in SECONDS},
    )  # fmt: skip


def origin(row: Sequence[Any]) -> tuple[str, dict[str, str]]:
    """Return when the run of a row was made, and with which versions of programs."""
    row = _typed(row)
    datetime.fromisoformat(row.made)
    versions = _object("versions", row.versions)
    names, numbers = (_texts("versions", list(part)) for part in (versions, versions.values()))
    return row.made, dict(zip(names, numbers, strict=True))


def _typed(row: Sequence[Any]) -> Row:
    for name, value in zip(Row._fields, row, strict=True):
        kind = bytes if name == "arrays" else str
        _require(isinstance(value, kind), f"{name} is of the type {type(value).__name__}")
    return Row(*row)


def _object(name: str, text: str) -> dict[str, Any]:
    content = json.loads(text)
    _require(isinstance(content, dict), f"{name} is not an object of JSON")
    return content


def _trials(found: Any, job: Job) -> list[Trial]:
    """Return the trials with the settings of the run; those of a path have a C of their own."""
    _require(isinstance(found, list) and len(found) > 0, "it has no list of trials")
    _require(len(found) == 1 or job.chooser is not None, f"it has {len(found)} trials instead of 1")
    return [_trial(one, job) for one in found]


def _trial(found: Any, job: Job) -> Trial:
    is_trial = isinstance(found, dict) and found.keys() == set(Trial._fields)
    _require(is_trial and isinstance(found["setting"], dict), "a trial has other entries")
    setting = plain(job.setting)
    if job.chooser is not None:
        C = _number("C", found["setting"].get("C"))
        _require(C > 0, f"C is {C}")
        setting |= {"C": C}
    valid, test = (_number(name, found[name], may_lack=True) for name in ("valid", "test"))
    n_features, seconds = _used("n_features", found["n_features"]), found["seconds"]
    return Trial(setting, valid, test, n_features, _seconds("seconds", seconds))


def _number(name: str, value: Any, *, may_lack: bool = False) -> float:
    """Return a finite number; if it may lack, NaN is allowed, too."""
    is_number = type(value) is float or (type(value) is int and abs(value) <= LARGEST_COUNT)
    fits = is_number and (math.isfinite(value) or (may_lack and math.isnan(value)))
    _require(fits, f"{name} is {str(value)[:40] if is_number else type(value).__name__}")
    return value


def _seconds(name: str, value: Any) -> float:
    _require(_number(name, value) >= 0, f"{name} is {value}")
    return value


def _count(name: str, value: Any) -> int:
    fits = type(value) is int and 0 <= value <= LARGEST_COUNT
    _require(fits, f"{name} is not a number of things")
    return value


def _used(name: str, value: Any) -> int | None:
    return None if value is None else _count(name, value)


def _texts(name: str, value: Any) -> list[str]:
    """Return a list of texts that can be written as UTF-8."""
    fits = isinstance(value, list) and all(isinstance(one, str) for one in value)
    _require(fits, f"{name} is not a list of texts")
    return [one.encode("utf-8", "backslashreplace").decode() for one in value]


def _sizes(job: Job, n_trials: int) -> dict[str, tuple[int, ...]]:
    """Return the largest shape of each array."""
    n_Cs = 0 if job.chooser is None else n_trials
    return {
        "scores": (job.n_docs,), "Weights.coef": (job.n_features,), "Weights.Cs": (n_Cs,),
        "Weights.features": (PATH_FEATURES,), "Weights.path": (n_Cs, PATH_FEATURES),
        **{f"Curve.{name}": (LONGEST_CURVE,) for name in PARTS["Curve"]},
    }  # fmt: skip


def _arrays(content: bytes, sizes: dict[str, tuple[int, ...]]) -> dict[str, Array]:
    """Read arrays, each up to its largest size, and check them."""
    found: dict[str, Array] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as file:
            for member in file.infolist():
                name = member.filename.removesuffix(".npy")
                _require(name in sizes and name not in found, f"the array {name[:40]!r} is unknown")
                found[name] = _array(file, member, name, sizes[name])
    except Exception as error:  # zipfile raises many kinds of errors for damaged files
        raise ValueError(f"its arrays cannot be read: {error}") from None
    _check_arrays(found, sizes)
    return found


def _array(
    file: zipfile.ZipFile, member: zipfile.ZipInfo, name: str, largest: tuple[int, ...]
) -> Array:
    _require(
        member.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED), "other compression"
    )
    limit = LONGEST_HEAD + 8 * math.prod(largest)
    with file.open(member) as opened:
        data = opened.read(limit + 1)  # no more is decompressed, whatever the archive claims
    _require(len(data) <= limit, f"{name} has more than {limit:,} bytes")
    start = io.BytesIO(data)
    shape, is_fortran, dtype = read_head(start, name)
    kind = np.dtype(np.int64 if name in COUNTS else np.float64)
    _require(dtype.newbyteorder("=") == kind, f"{name} holds {dtype}")
    fits = len(shape) == len(largest) and all(n <= m for n, m in zip(shape, largest, strict=True))
    _require(fits, f"{name} has the shape {shape}; expected at most {largest}")
    order: Literal["F", "C"] = "F" if is_fortran else "C"
    return np.frombuffer(data, dtype, offset=start.tell()).reshape(shape, order=order).astype(kind)


def _check_arrays(found: dict[str, Array], sizes: dict[str, tuple[int, ...]]) -> None:
    """Check that arrays are complete, fit together, and are finite where numbers are drawn."""
    _require("scores" in found, "it has no scores")
    for name in ("scores", "Weights.coef", "Weights.Cs"):
        if name in found:
            _require(bool(np.isfinite(found[name]).all()), f"{name} are not finite")
    for name in ("scores", "Weights.coef"):
        if name in found:
            _require(found[name].shape == sizes[name], f"{name} has {len(found[name])} values")
    weights, curve = _part("Weights", found), _part("Curve", found)
    if weights:
        Cs, features = weights["Cs"], weights["features"]
        _require(weights["path"].shape == (len(Cs), len(features)), "path has a wrong shape")
        _require(bool((Cs > 0).all()), "a C is not positive")
        inside = (features >= 0) & (features < len(weights["coef"]))
        _require(bool(inside.all()), "features are not those of the data")
    if curve:
        lengths = set(map(len, curve.values()))
        _require(len(lengths) == 1 and lengths != {0}, "the lengths of its curve differ")


def _part(part: str, arrays: dict[str, Array]) -> dict[str, Array]:
    """Return the arrays of a part of an outcome; an empty dict if there are none."""
    found = {name: arrays[f"{part}.{name}"] for name in PARTS[part] if f"{part}.{name}" in arrays}
    _require(len(found) in (0, len(PARTS[part])), f"it lacks arrays of {part}")
    return found


def _require(fits: bool, reason: str) -> None:
    if not fits:
        raise ValueError(reason)


# --------------------------------------------------------------------------------------------------
# The results of studies on disk: an SQLite file with one row per run.
#
# A run is written in one transaction when it is finished. If the process is killed at any moment,
# the file holds every run that was finished, and no part of another one. Rows are found by the key
# of a run, which is a hash of its data, method, settings and metric. Several studies can use one
# file.
#
# The file may be damaged or come from others. It must have the one table of `TABLE` and nothing
# else, such as views or triggers, and `rows` checks each row that is read.


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


# --------------------------------------------------------------------------------------------------
# Scores of other tools as the outcome of a run.


def outcome_of_scores(
    path: str, test: RankingData, criterion: Criterion, lines: Lines | None = None
) -> Outcome:
    """Read scores of the test part of a fold: one per line, or in TREC's format for runs.

    If `lines` is given, a file with one score per line has those of all documents of the data.
    """
    if looks_like_run(Path(path)):
        with prefix_file_errors(path):
            scores = scores_of_run(read_run(path), test)
    elif lines is not None:
        scores = read_scores(path, lines.n_docs)[lines.places]
    else:
        scores = read_scores(path, test.n_docs)
        scores = scores if test.order is None else scores[test.order]
    measured = measure(TestPart.of(test), scores, criterion.metric, criterion.flavour)
    (value,) = measured.mean.values()
    trial = Trial({}, math.nan, value, None, math.nan)
    n_lacking = int(np.count_nonzero(np.isnan(scores)))
    lacking = f"the run lacks {n_lacking:,} of {test.n_docs:,} documents, which count as not found"
    return Outcome(
        trials=[trial], chosen=0, scores=scores, n_features=test.n_features, n_used=None,
        train_seconds=math.nan, score_seconds=math.nan, total_seconds=math.nan,
        notes=[lacking] if n_lacking else [],
    )  # fmt: skip


def measure(test: TestPart, scores: Vector, metric: str, flavour: FlavourName) -> Evaluation:
    """Evaluate scores of a test part; documents with NaN are not in the run of another tool.

    Such documents count as not found, as in `linrank.evaluate_run` and in trec_eval.
    """
    listed = ~np.isnan(scores)
    if listed.all():
        return evaluate(
            test.y, scores, query_ptr=test.query_ptr, metrics=[metric], flavour=flavour,
            doc_ids=test.doc_ids if flavour == "trec" else None,
        )  # fmt: skip
    assert test.doc_ids is not None  # runs are matched by them
    # Queries are numbered, so that the values are in the order of the test part.
    qid = np.repeat(np.arange(len(test.query_ids)), np.diff(test.query_ptr)).astype(str).tolist()
    kept = np.flatnonzero(listed).tolist()
    run = Run([qid[k] for k in kept], [test.doc_ids[k] for k in kept], scores[listed])
    return evaluate_run(Qrels(qid, test.doc_ids, test.y), run, [metric], flavour=flavour)


def scores_of_run(run: Run, data: RankingData) -> Vector:
    """Return the scores of the documents of data; NaN for documents that the run lacks.

    Raises
    ------
    DataError
        If the data have no document ids, or if the run has no document of some query.

    Examples
    --------
    >>> data = RankingData([[0.5], [2.0], [1.0]], [0, 0, 0], ["q"] * 3, doc_ids=["A", "B", "C"])
    >>> scores_of_run(Run(["q", "q"], ["C", "A"], [5.0, 7.0]), data).tolist()
    [7.0, nan, 5.0]
    """
    known = dict(zip(zip(run.qid, run.doc_ids, strict=True), run.scores.tolist(), strict=True))
    qid = list(map(str, data.qid.tolist()))
    found = [known.get(key) for key in zip(qid, require_doc_ids(data), strict=True)]
    scores = np.array([math.nan if score is None else score for score in found])
    for q, name in enumerate(data.query_ids):
        rows = scores[data.query_ptr[q] : data.query_ptr[q + 1]]
        if np.isnan(rows).all():
            raise DataError(
                f"the run has no document of the query {name}. Use a run of the same queries and "
                "documents"
            )
    return scores


# --------------------------------------------------------------------------------------------------
# Results of a study: chosen settings, and the metrics of each query of the test parts.


class FoldResult(NamedTuple):
    """A method on one fold: the outcome of the chosen setting, and the trials of all settings."""

    outcome: Outcome
    trials: list[Trial]
    total_seconds: float  #: of all runs


class Missing(NamedTuple):
    """A run that failed, and the reason."""

    data: str
    fold: str
    method: str
    setting: dict[str, Any]
    reason: str


def best_of(outcomes: Sequence[Outcome], greater_is_better: bool) -> FoldResult:
    """Return the outcome with the best validation metric; the first one of equal ones."""
    values = np.array([outcome.best.valid for outcome in outcomes])
    best = 0 if np.isnan(values).all() else best_index(values, greater_is_better)
    trials = [trial for outcome in outcomes for trial in outcome.trials]
    return FoldResult(outcomes[best], trials, sum(one.total_seconds for one in outcomes))


@dataclass(repr=False)
class StudyResults:
    """Results of a study.

    Attributes
    ----------
    metric : str
        The metric by which settings were chosen.
    metrics : list of str
        All metrics that are reported; `metric` is the first.
    flavour : str
        The conventions of the metrics.
    methods : list of str
    tests : mapping of (data set, fold) to TestPart
        The folds of all data sets, in order.
    found : mapping of (data set, fold, method) to FoldResult
        Methods without any finished run on a fold are left out.
    missing : list of Missing
        Runs that failed.
    problems : list of str
        Sentences about other problems, such as a full disk.
    settings : mapping of methods to their exact settings, as text
    made : list of (time, versions)
        When the runs were made, and with which versions of programs.
    n_valued : mapping of (data set, fold) to int
        Features that are not zero in all documents of the training part; sparsity ratios count no
        others.

    Examples
    --------
    >>> from linrank import make_ranking
    >>> from linrank.study import Study
    >>> data = make_ranking(n_queries=30, docs_per_query=8, random_state=0)
    >>> study = Study({"made": data}, ["ranksvm:C=1", "adarank:map"], metric="map", n_folds=3)
    >>> results = study.run(n_processes=0)
    >>> results.mean("made", "ranksvm:C=1") > results.mean("made", "adarank:map")
    True
    >>> results.summary().names[:3], len(results.to_frame()) > 6
    (['method', 'map', '95 % low'], True)
    """

    metric: str
    metrics: list[str]
    flavour: FlavourName
    methods: list[str]
    tests: dict[tuple[str, str], TestPart]
    found: dict[tuple[str, str, str], FoldResult]
    missing: list[Missing] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)
    made: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    n_valued: dict[tuple[str, str], int] = field(default_factory=dict)

    @lazy_property
    def data_sets(self) -> list[str]:
        """The names of the data sets."""
        return list(dict.fromkeys(data for data, _ in self.tests))

    def folds(self, data: str) -> list[str]:
        """Return the names of the folds of a data set."""
        found = [fold for name, fold in self.tests if name == data]
        if not found:
            raise DataError(
                f"the study has no data set {data!r}; it has {', '.join(self.data_sets)}"
            )
        return found

    def queries(self, data: str) -> list[tuple[str, str]]:
        """Return the fold and the id of each query of the test parts, in the order of values."""
        return [
            (fold, query) for fold in self.folds(data) for query in self.tests[data, fold].query_ids
        ]

    def per_query(self, data: str, method: str, metric: str | None = None) -> Vector:
        """Return the metric of each query of the test parts of all folds.

        Values are NaN for queries in which the metric is undefined, and for folds without results.
        """
        self._check_method(method)
        return np.concatenate(
            [self.fold_values(data, fold, method, metric) for fold in self.folds(data)]
        )

    def fold_values(self, data: str, fold: str, method: str, metric: str | None = None) -> Vector:
        """Return the metric of each query of the test part of one fold; see `per_query`."""
        test = self.tests[data, fold]
        found = self.found.get((data, fold, method))
        if found is None:
            return np.full(len(test.query_ids), math.nan)
        name = parse_metric(metric or self.metric).name
        return self._values(data, fold, method, name, found.outcome.scores)

    def _values(self, data: str, fold: str, method: str, metric: str, scores: Vector) -> Vector:
        """Return values of a metric; each is computed once."""
        cache = self.__dict__.setdefault("_cache", {})
        key = (data, fold, method, metric)
        if key not in cache:
            measured = measure(self.tests[data, fold], scores, metric, self.flavour)
            cache[key] = measured.per_query[metric]
        return cache[key]

    def fold_means(self, data: str, method: str, metric: str | None = None) -> Vector:
        """Return the mean of the metric in each fold; NaN for folds without results."""
        return np.array(
            [known_mean(self.fold_values(data, fold, method, metric)) for fold in self.folds(data)]
        )

    def mean(self, data: str, method: str, metric: str | None = None) -> float:
        """Return the mean over the folds of their means, as in LETOR; NaN if a fold is missing."""
        return float(self.fold_means(data, method, metric).mean())

    def weighs_queries(self, metric: str) -> bool:
        """Tell whether `linrank.evaluate` weights queries, such as by their pairs, in its mean."""
        for (data, fold, method), found in self.found.items():
            values = self.fold_values(data, fold, method, metric)
            scores = found.outcome.scores
            measured = measure(self.tests[data, fold], scores, metric, self.flavour)
            mean = known_mean(values)
            if not math.isnan(mean) and not math.isclose(mean, measured.mean[metric], rel_tol=1e-9):
                return True
        return False

    def used(self, data: str, method: str) -> Vector:
        """Return the number of features in use in each fold; NaN if it is not known."""
        return self._over_folds(data, method, lambda found: found.outcome.n_used)

    def sparsity(self, data: str, method: str) -> Vector:
        """Return the sparsity ratio in each fold; see `linrank.data.ranking.sparsity_ratio`."""
        n_valued = [self.n_valued.get((data, fold), math.nan) for fold in self.folds(data)]
        return sparsity_ratio(self.used(data, method), n_valued)

    def train_seconds(self, data: str, method: str) -> Vector:
        """Return the seconds of one fit with the chosen setting, in each fold."""
        return self._over_folds(data, method, lambda found: found.outcome.train_seconds)

    def total_seconds(self, data: str, method: str) -> Vector:
        """Return the seconds of all runs, which fit and measure all settings, in each fold."""
        return self._over_folds(data, method, lambda found: found.total_seconds)

    def score_seconds(self, data: str, method: str) -> Vector:
        """Return the seconds of scoring the test part, in each fold."""
        return self._over_folds(data, method, lambda found: found.outcome.score_seconds)

    def n_settings(self, data: str, method: str) -> Vector:
        """Return the number of settings that were tried, in each fold."""
        return self._over_folds(data, method, lambda found: len(found.trials))

    def chosen(self, data: str, method: str) -> list[dict[str, Any] | None]:
        """Return the chosen setting in each fold; None for folds without results."""
        found = [self.found.get((data, fold, method)) for fold in self.folds(data)]
        return [None if one is None else one.outcome.best.setting for one in found]

    def _over_folds(
        self, data: str, method: str, get: Callable[[FoldResult], float | None]
    ) -> Vector:
        """Return a number of each fold; NaN for None, and for folds without results."""
        self._check_method(method)
        found = [self.found.get((data, fold, method)) for fold in self.folds(data)]
        values = [None if one is None else get(one) for one in found]
        return np.array([math.nan if value is None else value for value in values], np.float64)

    def summary(self) -> Table:
        """Return the means of all methods and metrics, the features in use and the seconds."""
        from .analysis import Analysis
        from .summary_tables import summary_table

        return summary_table(Analysis(self))

    def to_frame(self) -> pd.DataFrame:
        """Return a pandas data frame with a row for each data set, fold, method and metric.

        ``value`` is the mean over the queries of the test part for which the metric is defined, and
        ``n_queries`` the number of these queries.
        """
        rows = [
            (data, fold, method, metric, known_mean(values), int(np.isfinite(values).sum()))
            for data, fold in self.tests
            for method in self.methods
            for metric in self.metrics
            for values in [self.fold_values(data, fold, method, metric)]
        ]
        names = ("data", "fold", "method", "metric", "value", "n_queries")
        return data_frame({name: [row[k] for row in rows] for k, name in enumerate(names)})

    def report(
        self, path: str | os.PathLike[str], *, command: str = "", baseline: str | None = None
    ) -> None:
        """Write the report as one HTML file; see `linrank.study.study_page.write_report`.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> from linrank import make_ranking
        >>> from linrank.study import Study
        >>> data = make_ranking(n_queries=30, docs_per_query=8, random_state=0)
        >>> results = Study(data, "ranksvm:C=1,adarank:map", n_folds=3).run(n_processes=0)
        >>> path = pathlib.Path(tempfile.mkdtemp(), "study.html")
        >>> results.report(path)
        >>> "adarank" in path.read_text(encoding="utf-8")
        True
        """
        from .study_page import write_report

        write_report(path, self, command, baseline=baseline)

    def tables(self, folder: str | os.PathLike[str], *, baseline: str | None = None) -> None:
        """Write all tables and pictures as files; see `linrank.study.study_page.write_tables`."""
        from .study_page import write_tables

        write_tables(folder, self, baseline=baseline)

    def runs(self, folder: str | os.PathLike[str]) -> None:
        """Write TREC files of judgements and runs; see `linrank.study.study_page.write_runs`."""
        from .study_page import write_runs

        write_runs(folder, self)

    def __repr__(self) -> str:
        return self.summary().to_text()

    def _repr_html_(self) -> str:
        table = self.summary()
        rows = [
            [text + cell.mark for text, cell in zip(table.shown(row), row, strict=True)]
            for row in table.cells
        ]
        return html_table(table.names, rows, title=table.title)

    def _check_method(self, method: str) -> None:
        if method not in self.methods:
            raise DataError(f"the study has no method {method!r}; it has {', '.join(self.methods)}")


def known_mean(values: ArrayLike) -> float:
    """Return the mean of the numbers that are not NaN; NaN without such numbers.

    Examples
    --------
    >>> known_mean([1.0, math.nan, 2.0])
    1.5
    """
    array = np.asarray(values, np.float64)
    known = array[~np.isnan(array)]
    return float(known.mean()) if len(known) else math.nan
