"""`Study`: many methods on many folds by one protocol, in Python and as a TOML file."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

import tomli_w

from .._util.checks import choice, known_names
from .._util.files import atomic_write
from .._util.parallel import resolve_threads
from ..choices import FLAVOURS, FlavourName
from ..data.columns import Columns
from ..data.ranking import RankingData, count_valued
from ..data.store import save_store
from ..errors import DataError, FileFormatError
from ..metrics import parse_metric, parse_metrics
from ..training.selection import Criterion
from .folds import DEFAULT_FOLDS, PARTS, DataSet, FoldData
from .protocol import Entry, Job, ScoreFiles, entry_of, parse_entry, plan, split_methods
from .results import (
    Brief,
    FoldResult,
    Missing,
    Outcome,
    ResultStore,
    StoreFailed,
    StudyResults,
    TestPart,
    best_of,
    outcome_of_scores,
)
from .workers import Finished, run_all

# --------------------------------------------------------------------------------------------------
# Files of a study that is running: its results, a lock, and the parts of folds for processes.


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


# --------------------------------------------------------------------------------------------------
# `Study`: many methods on many folds, chosen and tested by one protocol.


DEFAULT_METRICS = ("map", "ndcg@5", "ndcg@10", "p@10", "mrr")  #: reported beside the chosen one
DEFAULT_METRIC = "ndcg@10"  #: by which settings are chosen
DEFAULT_METHODS = ("ranksvm", "sparse:l1", "sparse:log", "domination", "svr")


class Progress(Protocol):
    """Gets news of a study while it runs."""

    def reading(self, data: str) -> None:
        """Called before the folds of a data set are read."""

    def planned(self, jobs: Sequence[Job], stored: Sequence[tuple[Job, Brief]]) -> None:
        """Called once, with the runs to do, and with those that were found on disk."""

    def started(self, job: Job) -> None:
        """Called when a run begins."""

    def finished(self, done: Finished) -> None:
        """Called when a run has ended."""


class _NoProgress:
    def reading(self, data: str) -> None: ...
    def planned(self, jobs: Sequence[Job], stored: Sequence[tuple[Job, Brief]]) -> None: ...
    def started(self, job: Job) -> None: ...
    def finished(self, done: Finished) -> None: ...


@dataclass
class Study:
    """Compare methods on data sets: fit, choose settings on validation data, measure on test data.

    For each fold, a method is fitted to the training part with every setting. The setting with the
    best mean metric on the validation part is kept, and its scores of the test part are compared.

    Parameters
    ----------
    data : path, RankingData, or mapping of names to sources
        A source is a folder with folds of LETOR data, a file, a store, a `RankingData`, a data
        frame, or a list of (train, valid, test) of these. Data that are one part are split into
        `n_folds` folds of queries.
    methods : text, sequence of texts, or mapping of names to methods
        A method is a text such as ``"ranksvm:loss=huber"`` (see `parse_entry`), a ranker with the
        interface of scikit-learn, a tuple of a ranker and a grid, or `ScoreFiles`. One text lists
        methods as ``--methods`` does: ``"ranksvm,sparse:log"``.
    metric : str
        The metric by which settings are chosen.
    metrics : sequence of str, or str
        Metrics that are reported, too; a str may hold several, separated by commas.
    flavour : str
        The conventions of the metrics; see `linrank.evaluate`.
    n_folds : int
    n_features : int, optional
        The number of features of LETOR text whose last features may not occur.
    options : mapping, optional
        Options of `linrank.load` for all files and frames, such as the names of columns.

    Examples
    --------
    >>> from linrank import make_ranking
    >>> from linrank.study import Study
    >>> data = make_ranking(n_queries=30, docs_per_query=8, random_state=0)
    >>> study = Study({"made": data}, ["ranksvm:C=0.1|1", "adarank:map"], n_folds=3)
    >>> results = study.run(n_processes=0)
    >>> results.methods
    ['ranksvm:C=0.1|1', 'adarank:map']
    """

    data: Any
    methods: Any = DEFAULT_METHODS
    metric: str = DEFAULT_METRIC
    metrics: Sequence[str] | str = DEFAULT_METRICS
    flavour: FlavourName = "standard"
    n_folds: int = DEFAULT_FOLDS
    n_features: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        choice("flavour", self.flavour, FLAVOURS)
        self.metric = parse_metric(self.metric).name
        others = parse_metrics(self.metrics) if self.metrics else []
        self.metrics = tuple(dict.fromkeys([self.metric, *(metric.name for metric in others)]))
        self.data_sets = self._data_sets()
        self.entries = self._entries()

    def _data_sets(self) -> list[DataSet]:
        given = self.data
        if not isinstance(given, Mapping):
            sources = given if isinstance(given, list | tuple) else [given]
            given = dict(zip(names_of(sources), sources, strict=True))
        if not given:
            raise DataError(
                "the study has no data. Name a folder with folds, or a file. In a TOML file, data "
                "sets are below [data]."
            )
        return [
            replace(source, name=name) if isinstance(source, DataSet)
            else DataSet(name, source, self.n_folds, self.n_features, self.options)
            for name, source in given.items()
        ]  # fmt: skip

    def _entries(self) -> list[Entry | ScoreFiles]:
        given = split_methods(self.methods) if isinstance(self.methods, str) else self.methods
        if not isinstance(given, Mapping):
            listed = dict.fromkeys(given) if all(isinstance(m, str) for m in given) else given
            names = [_method_name(method) for method in listed]
            check_distinct("methods", names)
            given = dict(zip(names, listed, strict=True))
        if not given:
            raise DataError("the study has no methods. Name some, such as ranksvm and sparse:log.")
        return [_entry(name, method) for name, method in given.items()]

    @classmethod
    def from_toml(cls, path: str | os.PathLike[str]) -> Study:
        r"""Read a study from a TOML file, as ``linrank study FILE.toml`` does.

        Paths are relative to the file. Its keys for outputs, such as ``report``, have no effect.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> from linrank import make_ranking, write_letor
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> write_letor(folder / "made.txt", make_ranking(n_queries=30, random_state=0))
        >>> text = "[data]\nmade = 'made.txt'\n[methods]\nl2 = 'ranksvm'\nsvr = 'svr'\n"
        >>> _ = (folder / "study.toml").write_text(text)
        >>> [entry.name for entry in Study.from_toml(folder / "study.toml").entries]
        ['l2', 'svr']
        """
        return read_study(path).study()

    def run(
        self,
        results: str | os.PathLike[str] | None = None,
        *,
        n_processes: int | None = None,
        progress: Progress | None = None,
    ) -> StudyResults:
        """Do the runs that are not in the file of results yet, and return all results.

        Parameters
        ----------
        results : path-like, optional
            The SQLite file. If a study was killed or interrupted, the same call continues it. None:
            results are kept in memory.
        n_processes : int, optional
            By default one per core. 0: the runs are done in this process; if one exhausts the
            memory, the study ends.
        progress : Progress, optional
            Gets news while the study runs.

        Returns
        -------
        StudyResults
        """
        progress = _NoProgress() if progress is None else progress
        n_cores = resolve_threads(None)
        n_processes = n_cores if n_processes is None else n_processes
        n_threads = max(1, n_cores // max(1, n_processes))
        with Workspace(results) as place:
            store, work = place.store, self._plan(place, n_threads, progress)
            progress.planned(work.waiting, work.stored)
            n_processes = min(n_processes, len(work.waiting))
            for done in run_all(work.waiting, n_processes, progress.started):
                work.take(done, store)
                progress.finished(done)
            work.store_again(store)
            return self._results(work, store)

    def _plan(self, place: Workspace, n_threads: int, progress: Progress) -> _Work:
        """Read all folds, and list the runs that are not in the store."""
        work = _Work()
        for data_set in self.data_sets:
            progress.reading(data_set.name)
            for fold in data_set.folds():
                self._plan_fold(fold, work, place, n_threads)
        work.problems += place.problems
        return work

    def _plan_fold(self, fold: FoldData, work: _Work, place: Workspace, n_threads: int) -> None:
        criterion = Criterion(self.metric, self.flavour)
        work.tests[fold.data, fold.fold] = TestPart.of(fold.test)
        work.n_valued[fold.data, fold.fold] = count_valued(fold.train.X)
        jobs: list[Job] = []
        for entry in self.entries:
            if isinstance(entry, ScoreFiles):
                work.read_scores(entry, fold, criterion)
                continue
            # A dict, because equal values of a grid give equal keys.
            planned = {job.key: job for job in plan(entry, fold, criterion, n_threads)}
            work.planned[fold.data, fold.fold, entry.name] = list(planned.values())
            jobs += planned.values()
        known = place.store.known(jobs)
        work.stored += [(job, known[job.key]) for job in jobs if job.key in known]
        others = {job.key for job in work.waiting}  # runs that several methods share are done once
        waiting = {job.key: job for job in jobs if job.key not in known.keys() | others}
        if waiting:
            parts = place.write_parts(fold)
            work.waiting += [replace(job, parts=parts) for job in waiting.values()]

    def _results(self, work: _Work, store: ResultStore) -> StudyResults:
        greater = parse_metric(self.metric).greater_is_better
        found = dict(work.scored)
        for place, planned in work.planned.items():
            outcomes = [
                work.outcome(job, store)
                for job in planned if job.key not in work.failed
            ]  # fmt: skip
            if outcomes:
                found[place] = best_of(outcomes, greater)
        jobs = [job for planned in work.planned.values() for job in planned]
        return StudyResults(
            metric=self.metric, metrics=list(self.metrics), flavour=self.flavour,
            methods=[entry.name for entry in self.entries], tests=work.tests, found=found,
            missing=work.missing(), problems=work.problems,
            settings={entry.name: describe(entry) for entry in self.entries},
            made=store.made(jobs), n_valued=work.n_valued,
        )  # fmt: skip


class _Work:
    """The runs of a study while they are done."""

    def __init__(self) -> None:
        self.planned: dict[tuple[str, str, str], list[Job]] = {}
        self.waiting: list[Job] = []
        self.stored: list[tuple[Job, Brief]] = []
        self.tests: dict[tuple[str, str], TestPart] = {}
        self.n_valued: dict[tuple[str, str], int] = {}
        self.scored: dict[tuple[str, str, str], FoldResult] = {}
        self.unsaved: dict[str, Finished] = {}
        self.failed: dict[str, str] = {}  #: reasons by the keys of runs
        self.refused: list[str] = []  #: why runs could not be stored
        self.problems: list[str] = []

    def read_scores(self, entry: ScoreFiles, fold: FoldData, criterion: Criterion) -> None:
        """Take the scores of another tool for one fold."""
        path = entry.path(fold.data, fold.fold)
        lines = None if entry.has_folds else fold.lines
        outcome = outcome_of_scores(path, fold.test, criterion, lines)
        self.scored[fold.data, fold.fold, entry.name] = best_of([outcome], True)

    def take(self, done: Finished, store: ResultStore) -> None:
        """Store a finished run; a run that cannot be stored is kept in memory."""
        key = done.job.key
        if done.outcome is None:
            self.failed[key] = done.error or ""
            return
        try:
            store.add(done.job, done.outcome)
            self.unsaved.pop(key, None)
        except StoreFailed as error:
            self.unsaved[key] = done
            if str(error) not in self.refused:
                self.refused.append(str(error))

    def store_again(self, store: ResultStore) -> None:
        """Try once more to store the runs in memory; say how many are not stored."""
        for done in list(self.unsaved.values()):
            self.take(done, store)
        if self.unsaved:
            n = len(self.unsaved)
            self.problems += [
                *self.refused,
                f"{n:,} finished {'run is' if n == 1 else 'runs are'} in this report but not in "
                f"{store.path}. The next study does them again.",
            ]

    def outcome(self, job: Job, store: ResultStore) -> Outcome:
        """Return a finished run from memory or from the store."""
        done = self.unsaved.get(job.key)
        if done is not None and done.outcome is not None:
            return done.outcome
        return store.get(job)

    def missing(self) -> list[Missing]:
        """Return the runs that failed; equal runs of several methods are listed for each."""
        return [
            Missing(job.data, job.fold, job.method, job.setting, self.failed[job.key])
            for jobs in self.planned.values() for job in jobs if job.key in self.failed
        ]  # fmt: skip


def _method_name(method: Any) -> str:
    """Return the name of a method in a list; a ranker without a `repr` has that of its class."""
    if isinstance(method, Entry | ScoreFiles):
        return method.name
    ranker = method[0] if isinstance(method, tuple) and method else method
    has_no_repr = repr(ranker).startswith("<") and not isinstance(ranker, type)
    return type(ranker).__name__ if has_no_repr else str(method).strip()


def _entry(name: str, method: Any) -> Entry | ScoreFiles:
    if isinstance(method, Entry | ScoreFiles):
        return replace(method, name=name)
    if isinstance(method, str):
        return parse_entry(method, name)
    if isinstance(method, tuple):
        if len(method) != 2:
            raise DataError(
                f"the method {name!r} is a tuple of {len(method)}; expected a ranker and the "
                "values that are tried, such as (Ridge(), {'alpha': [1, 10]})"
            )
        ranker, grid = method
        return (
            parse_entry(ranker, name, grid)
            if isinstance(ranker, str)
            else entry_of(name, ranker, grid)
        )
    return entry_of(name, method)


def names_of(sources: Sequence[Any]) -> list[str]:
    """Return names of data sets: those of their folders or files, or their numbers.

    Examples
    --------
    >>> names_of(["data/MQ2007", "clicks.csv"]), names_of(["MQ2007/Fold1", "MQ2008/Fold1"])
    (['MQ2007', 'clicks'], ['MQ2007/Fold1', 'MQ2008/Fold1'])
    """
    names = [_name_of(source, k) for k, source in enumerate(sources, 1)]
    longer = [_name_of(source, k, parents=1) for k, source in enumerate(sources, 1)]
    names = [name if names.count(name) == 1 else longer[k] for k, name in enumerate(names)]
    check_distinct("data sets", names)
    return names


def check_distinct(what: str, names: Sequence[str]) -> None:
    """Raise a `DataError` if two data sets or methods have the same name."""
    for name in names:
        if names.count(name) > 1:
            raise DataError(
                f"two {what} have the name {name!r}. Give them different names, as a mapping in "
                "Python or in a TOML file (--write-toml)."
            )


def _name_of(source: Any, number: int, parents: int = 0) -> str:
    """Return the name of a source, after the names of this number of folders that it is in."""
    if isinstance(source, DataSet):
        return source.name
    if isinstance(source, RankingData) or not isinstance(source, str | os.PathLike):
        return f"data {number}"
    path = Path(os.path.abspath(source))
    return "/".join([*path.parts[-1 - parents : -1], path.name.partition(".")[0] or path.name])


def describe(entry: Entry | ScoreFiles) -> str:
    """Return the exact settings of a method as text."""
    if isinstance(entry, ScoreFiles):
        return f"scores of {entry.pattern}"
    ranker = " ".join(repr(entry.ranker).split())
    tried = [
        f"{key} chosen from the data along a path" if values is None
        else f"{key} of {', '.join(map(str, values))}"
        for key, values in entry.grid.items()
    ]  # fmt: skip
    return f"{ranker}; {'; '.join(tried)}" if tried else ranker


# --------------------------------------------------------------------------------------------------
# Study files: data sets, methods, metrics and outputs of a study as TOML.
#
# Paths in a file are relative to the folder of the file. In a `StudyFile` they are relative to the
# current folder, or absolute.


RESULTS = "study.sqlite"  #: the default name of the file with results

MethodText = str | tuple[str, dict[str, Any]] | ScoreFiles


@dataclass(frozen=True)
class StudyFile:
    """What a study file holds: a study, and what is written.

    Attributes
    ----------
    data : mapping of names to DataSet
    methods : mapping of names to methods
        A method is a text, a tuple of a text and a grid, or `ScoreFiles`.
    metric, metrics, flavour
        See `Study`.
    folds : int
        The folds of data that are given as one part.
    results : str
        The SQLite file with the results of runs.
    report, tables, runs : str, optional
        The HTML page, the folder of tables, and the folder of test scores.
    jobs : int, optional
        The number of processes; by default one per core. 0: runs are done in this process.
    baseline : str, optional
        The method with which reports and tables compare all others; by default the best one.
    """

    data: Mapping[str, DataSet]
    methods: Mapping[str, MethodText] = field(
        default_factory=lambda: {text: text for text in DEFAULT_METHODS}
    )
    metric: str = DEFAULT_METRIC
    metrics: Sequence[str] = DEFAULT_METRICS
    flavour: FlavourName = "standard"
    folds: int = DEFAULT_FOLDS
    results: str = RESULTS
    report: str | None = None
    tables: str | None = None
    runs: str | None = None
    jobs: int | None = None
    baseline: str | None = None

    def study(self) -> Study:
        """Return the study; its arguments are checked."""
        if self.baseline is not None and self.baseline not in self.methods:
            raise DataError(
                f"the baseline {self.baseline!r} is not a method of the study; "
                f"{known_names(self.baseline, self.methods)}"
            )
        return Study(
            dict(self.data), dict(self.methods), self.metric, self.metrics, self.flavour, self.folds
        )


class _FieldKind(NamedTuple):
    """The type of a value in a file, and its words in an error."""

    words: str
    fits: Callable[[Any], bool]


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_list_of_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


TEXT = _FieldKind("a text in quotes", _is_text)
TEXTS = _FieldKind("a list of texts", _is_list_of_texts)
FOLDS = _FieldKind("a whole number of at least 3", lambda value: type(value) is int and value >= 3)
NUMBER = _FieldKind("a whole number of at least 1", lambda value: type(value) is int and value >= 1)
JOBS = _FieldKind("a whole number of at least 0", lambda value: type(value) is int and value >= 0)
TABLE = _FieldKind("a table", lambda value: isinstance(value, dict))
TEXT_OR_TABLE = _FieldKind(
    "a text in quotes or a table", lambda value: isinstance(value, str | dict)
)

#: The keys of a file, in the order in which they are written, with comments.
TOP: dict[str, tuple[_FieldKind, str]] = {
    "metric": (TEXT, "The metric on validation data by which settings are chosen."),
    "metrics": (TEXTS, "Metrics that are reported, too."),
    "flavour": (TEXT, f"The conventions of metrics, one of {', '.join(FLAVOURS)}."),
    "folds": (FOLDS, "The number of folds of queries of data that are one file, table or store."),
    "results": (TEXT, "Finished runs are stored here. The same command continues a study."),
    "report": (TEXT, "Write an HTML page with all tables and pictures."),
    "tables": (TEXT, "Write the tables to this folder."),
    "runs": (TEXT, "Write the test scores to this folder, as TREC runs."),
    "jobs": (JOBS, "The number of processes; by default one per core. 0: no others than this one."),
    "baseline": (TEXT, "The method with which others are compared; by default the best one."),
    "data": (TABLE, "Data sets: a name and a path, or a table with path and its options."),
    "methods": (TABLE, "Methods: a name and a text, or a table with method and grid or scores."),
}
PATHS = ("results", "report", "tables", "runs")  #: keys whose values are paths

#: The keys of a data set.
DATA: dict[str, _FieldKind] = {
    "path": TEXT,
    "folds": FOLDS,
    "n_features": NUMBER,
    "feature_names": TEXT,
    "categories": TEXT,
    **{
        column.name: TEXTS if column.name in ("features", "ignore") else TEXT
        for column in fields(Columns)
    },
}
METHOD: dict[str, _FieldKind] = {"method": TEXT, "grid": TABLE, "scores": TEXT}  #: keys of a method


def read_study(path: str | os.PathLike[str]) -> StudyFile:
    """Read a study file.

    Raises
    ------
    FileFormatError
        If the file is not TOML, has an unknown key, or a value of another type. The message names
        the file and the key.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "study.toml")
    >>> _ = path.write_text('metric = "map"' + chr(10) + 'data.clicks = "clicks.csv"')
    >>> read_study(path).metric, list(read_study(path).data)
    ('map', ['clicks'])
    """
    path = Path(path)
    try:
        content = tomllib.loads(path.read_bytes().decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FileFormatError(f"{path}: not a TOML file: {error}") from None
    except OSError as error:
        raise FileFormatError(f"{path}: cannot be read: {error.strerror}") from None
    try:
        return _Reader(path.parent).file(content)
    except DataError as error:
        raise FileFormatError(f"{path}: {error}") from None


class _Reader:
    """Turns the content of a file into a `StudyFile`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def file(self, content: dict[str, Any]) -> StudyFile:
        _check("", content, {key: kind for key, (kind, _) in TOP.items()})
        values = {"results": RESULTS} | content
        values |= {key: self._path(values[key]) for key in PATHS if key in values}
        folds = values.get("folds", DEFAULT_FOLDS)
        values["data"] = {
            name: self._data_set(name, given, folds)
            for name, given in content.get("data", {}).items()
        }
        if "methods" in content:
            values["methods"] = {
                name: self._method(name, given) for name, given in content["methods"].items()
            }
        if "metrics" in content:
            values["metrics"] = tuple(content["metrics"])
        return StudyFile(**values)

    def _data_set(self, name: str, given: Any, folds: int) -> DataSet:
        where = f"data.{_key(name)}"
        table = _table(where, given, "path", DATA)
        if "path" not in table:
            raise DataError(f'{where} has no path. Add one, such as path = "data/MQ2007".')
        options: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value
            for key, value in table.items() if key not in ("path", "folds", "n_features")
        }  # fmt: skip
        if "feature_names" in options:
            options["feature_names"] = self._path(options["feature_names"])
        return DataSet(
            name, self._path(table["path"]), table.get("folds", folds), table.get("n_features"),
            options,
        )  # fmt: skip

    def _method(self, name: str, given: Any) -> MethodText:
        where = f"methods.{_key(name)}"
        table = _table(where, given, "method", METHOD)
        if "scores" in table:
            if len(table) > 1:
                raise DataError(f"{where} has scores and a {min(table)}. Leave out one of them.")
            return ScoreFiles(name, str(Path(braced(self._folder), table["scores"])))
        if "method" not in table:
            raise DataError(f'{where} has no method. Add one, such as method = "ranksvm".')
        grid = table.get("grid", {})
        for key, values in grid.items():
            if not isinstance(values, list):
                raise DataError(
                    f"{where}.grid.{_key(key)} is {_shown(values)}; expected a list of values"
                )
        return (table["method"], grid) if grid else table["method"]

    def _path(self, text: str) -> str:
        return str(Path(self._folder, text))


def _table(where: str, given: Any, main: str, kinds: Mapping[str, _FieldKind]) -> dict[str, Any]:
    """Return a checked table; a text alone is the value of its main key."""
    if not TEXT_OR_TABLE.fits(given):
        raise DataError(f"{where} is {_shown(given)}; expected {TEXT_OR_TABLE.words}")
    table = {main: given} if isinstance(given, str) else given
    _check(f"{where}.", table, kinds)
    return table


def _check(where: str, table: Mapping[str, Any], kinds: Mapping[str, _FieldKind]) -> None:
    for key, value in table.items():
        if key not in kinds:
            raise DataError(f"the key {where}{_key(key)} is not known; {known_names(key, kinds)}")
        if not kinds[key].fits(value):
            raise DataError(f"{where}{key} is {_shown(value)}; expected {kinds[key].words}")


def _shown(value: object) -> str:
    return repr(value)[:60]


def braced(path: str | os.PathLike[str]) -> str:
    """Return a path in which braces stand for themselves, as the start of a pattern of scores."""
    return os.fspath(path).replace("{", "{{").replace("}", "}}")


# Writing ---------------------------------------------------------------------------------------


def write_study(path: str | os.PathLike[str], study: StudyFile) -> None:
    """Write a study file, with a comment for each key."""
    text = "\n".join(_lines(study, Path(path).parent))
    try:
        text.encode()
    except UnicodeEncodeError:
        raise DataError(
            f"{os.fspath(path)}: cannot be written: a name or a path of the study is not Unicode"
        ) from None
    with atomic_write(path, "w") as file:
        file.write(text)


def _lines(study: StudyFile, folder: Path) -> Iterator[str]:
    yield "# A study of linrank. Run it by: linrank study FILE. Paths are relative to this file."
    for key, (kind, comment) in TOP.items():
        value = getattr(study, key)
        yield f"\n# {comment}"
        if kind is TABLE:
            main, write = _WRITERS[key]
            tables = {name: write(given, folder, study.folds) for name, given in value.items()}
            if all(table.keys() == {main} for table in tables.values()):
                tables = {name: table[main] for name, table in tables.items()}
            yield tomli_w.dumps({key: tables}).rstrip()
            if not value:
                yield '# MQ2007 = "data/MQ2007"'
        elif value is None:
            yield f"# {key} = {EXAMPLES[key]}"
        else:
            value = relative(value, folder) if key in PATHS else value
            yield tomli_w.dumps({key: value}).rstrip()
    yield ""


EXAMPLES = {
    "report": '"report.html"', "tables": '"tables"', "runs": '"runs"', "jobs": "2",
    "baseline": '"ranksvm"',
}  # fmt: skip


def _data_table(data: DataSet, folder: Path, folds: int) -> dict[str, Any]:
    table: dict[str, Any] = {"path": relative(data.source, folder)}
    table |= {} if data.n_folds == folds else {"folds": data.n_folds}
    table |= {} if data.n_features is None else {"n_features": data.n_features}
    table |= data.options or {}
    if "feature_names" in table:
        table["feature_names"] = relative(table["feature_names"], folder)
    return table


def _method_table(method: MethodText, folder: Path, folds: int) -> dict[str, Any]:
    if isinstance(method, ScoreFiles):
        return {"scores": relative(method.pattern, folder, braced)}
    if isinstance(method, tuple):
        return {"method": method[0], "grid": method[1]}
    return {"method": method}


#: For data sets and methods: the key that a text alone stands for, and what makes their table.
_WRITERS: dict[str, tuple[str, Callable[..., dict[str, Any]]]] = {
    "data": ("path", _data_table), "methods": ("method", _method_table),
}  # fmt: skip


def relative(
    path: str | os.PathLike[str], folder: Path, spelled: Callable[[str], str] = os.fspath
) -> str:
    """Return a path relative to a folder; an absolute path is kept.

    `spelled` says how folders are written in this kind of path.
    """
    path = os.fspath(path)
    if os.path.isabs(path):
        return path
    here, there = spelled(os.getcwd()), spelled(os.path.abspath(folder))
    try:
        return os.path.relpath(os.path.join(here, path), there)
    except ValueError:  # another drive of Windows
        return os.path.join(here, path)


def _key(name: str) -> str:
    """Return a key of TOML, in quotes if it needs them."""
    return tomli_w.dumps({name: 0}).rpartition(" = ")[0]
