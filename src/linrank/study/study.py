"""`Study`: many methods on many folds, chosen and tested by one protocol."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from .._checks import choice
from .._threads import resolve_threads
from ..criterion import Criterion
from ..data.ranking import RankingData
from ..data.sparsity import count_valued
from ..errors import DataError
from ..metrics import parse_metric, parse_metrics
from ..metrics.names import FLAVOURS, FlavourName
from .entries import Entry, ScoreFiles, entry_of, parse_entry, split_methods
from .folds import DEFAULT_FOLDS, DataSet, FoldData
from .jobs import Job, plan
from .lanes import Finished, run_all
from .outcomes import Brief, Outcome
from .results import FoldResult, Missing, StudyResults, best_of
from .scored import outcome_of_scores
from .store import ResultStore, StoreFailed, TestPart
from .workspace import Workspace

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
        from .toml import read_study

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
    return method.name if isinstance(method, Entry | ScoreFiles) else str(method).strip()


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
