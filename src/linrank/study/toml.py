"""Study files: data sets, methods, metrics and outputs of a study as TOML.

Paths in a file are relative to the folder of the file. In a `StudyFile` they are relative to the
current folder, or absolute.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

from .._checks import known_names
from .._files import atomic_write
from ..data.columns import Columns
from ..errors import DataError, FileFormatError
from ..metrics.names import FLAVOURS, FlavourName
from .entries import ScoreFiles
from .folds import DEFAULT_FOLDS, DataSet
from .study import DEFAULT_METHODS, DEFAULT_METRIC, DEFAULT_METRICS, Study

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


class _Kind(NamedTuple):
    """The type of a value in a file, and its words in an error."""

    words: str
    fits: Callable[[Any], bool]


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_list_of_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


TEXT = _Kind("a text in quotes", _is_text)
TEXTS = _Kind("a list of texts", _is_list_of_texts)
FOLDS = _Kind("a whole number of at least 3", lambda value: type(value) is int and value >= 3)
NUMBER = _Kind("a whole number of at least 1", lambda value: type(value) is int and value >= 1)
JOBS = _Kind("a whole number of at least 0", lambda value: type(value) is int and value >= 0)
TABLE = _Kind("a table", lambda value: isinstance(value, dict))
TEXT_OR_TABLE = _Kind("a text in quotes or a table", lambda value: isinstance(value, str | dict))

#: The keys of a file, in the order in which they are written, with comments.
TOP: dict[str, tuple[_Kind, str]] = {
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
DATA: dict[str, _Kind] = {
    "path": TEXT,
    "folds": FOLDS,
    "n_features": NUMBER,
    "feature_names": TEXT,
    **{
        column.name: TEXTS if column.name in ("features", "ignore") else TEXT
        for column in fields(Columns)
    },
}
METHOD: dict[str, _Kind] = {"method": TEXT, "grid": TABLE, "scores": TEXT}  #: keys of a method


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


def _table(where: str, given: Any, main: str, kinds: Mapping[str, _Kind]) -> dict[str, Any]:
    """Return a checked table; a text alone is the value of its main key."""
    if not TEXT_OR_TABLE.fits(given):
        raise DataError(f"{where} is {_shown(given)}; expected {TEXT_OR_TABLE.words}")
    table = {main: given} if isinstance(given, str) else given
    _check(f"{where}.", table, kinds)
    return table


def _check(where: str, table: Mapping[str, Any], kinds: Mapping[str, _Kind]) -> None:
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
            yield f"[{key}]"
            write = _data_value if key == "data" else _method_value
            for name, given in value.items():
                yield f"{_key(name)} = {write(given, folder, study.folds)}"
            if not value:
                yield '# MQ2007 = "data/MQ2007"'
        elif value is None:
            yield f"# {key} = {EXAMPLES[key]}"
        else:
            yield f"{key} = {_value(relative(value, folder) if key in PATHS else value)}"
    yield ""


EXAMPLES = {
    "report": '"report.html"', "tables": '"tables"', "runs": '"runs"', "jobs": "2",
    "baseline": '"ranksvm"',
}  # fmt: skip


def _data_value(data: DataSet, folder: Path, folds: int) -> str:
    table: dict[str, Any] = {"path": relative(data.source, folder)}
    table |= {} if data.n_folds == folds else {"folds": data.n_folds}
    table |= {} if data.n_features is None else {"n_features": data.n_features}
    table |= data.options or {}
    if "feature_names" in table:
        table["feature_names"] = relative(table["feature_names"], folder)
    return _value(table if len(table) > 1 else table["path"])


def _method_value(method: MethodText, folder: Path, folds: int) -> str:
    if isinstance(method, ScoreFiles):
        return _value({"scores": relative(method.pattern, folder, braced)})
    if isinstance(method, tuple):
        return _value({"method": method[0], "grid": method[1]})
    return _value(method)


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
    is_bare = name.isascii() and name.replace("-", "").replace("_", "").isalnum()
    return name if is_bare else _value(name)


def _value(value: Any) -> str:
    """Return a value of TOML, in one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):  # Of the characters that TOML escapes, JSON does not escape DEL.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_key(name)} = {_value(item)}" for name, item in value.items())
        return f"{{ {inner} }}"
    if isinstance(value, Sequence):
        return f"[{', '.join(map(_value, value))}]"
    return repr(value)
