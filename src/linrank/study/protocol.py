"""The protocol of a study: methods with their settings, runs, and their keys."""

from __future__ import annotations

import hashlib
import inspect
import json
import pickle
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from itertools import product
from pathlib import Path
from types import CodeType
from typing import Any, TypeAlias

import numpy as np

from .._util.checks import known_names, positive_number
from .._util.text import parse_literal
from .._util.types import Array
from ..baselines.methods import METHODS, Method, parse_method
from ..errors import DataError
from ..training.selection import Criterion
from .folds import FoldData

# --------------------------------------------------------------------------------------------------
# Methods of a study: rankers with the settings that are tried, and score files of other tools.


#: Separates the values of a parameter that are tried, as in ``forest:min_samples_leaf=1|5``.
OR = "|"

#: The settings that are tried unless a study names others. None: the values of C are chosen from
#: the data, along a path with warm starts.
GRIDS: dict[str, dict[str, tuple[Any, ...] | None]] = {
    "ranksvm": {"C": None},
    "refined": {"metric": ("ndcg@10",)},
    "sparse": {"C": None},
    "domination": {"C": None},
    "additive": {"penalty": ("l2", "group_l1"), "C": None},
    "kernel": {"n_components": (500,), "gamma": (0.01, 0.1), "C": (0.01, 1.0)},
    "coordinate-ascent": {"metric": ("ndcg@10",)},
    "adarank": {"metric": ("map", "ndcg@10")},
    "rankboost": {"n_rounds": (30, 100, 300)},
    "pamir": {"C": tuple(10.0**k for k in range(-5, 1)), "max_iter": (5, 20)},
    "fenchelrank": {"r": (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)},
    "fsmrank": {
        "importance_weight": (1e-4, 1e-3, 1e-2, 1e-1),
        "similarity_weight": (1e-4, 1e-2),
    },
    "gas": {"C": tuple(10.0**k for k in range(-4, 1))},
    "svr": {"C": tuple(2.0**k for k in range(-10, 5, 2))},
    "lambdamart": {
        "n_estimators": (50, 150),
        "learning_rate": (0.05, 0.1),
        "max_leaf_nodes": (7, 31),
    },
    "forest": {"n_estimators": (100,), "min_samples_leaf": (5, 20, 50)},
    "gbdt": {"n_estimators": (50, 150), "learning_rate": (0.05, 0.1), "max_depth": (2, 4)},
}

#: What the word ``all`` stands for in a list of methods.
ALL = tuple(
    text for name in METHODS
    for text in ([f"sparse:{penalty}" for penalty in ("l1", "mcp", "log", "lp")]
                 if name == "sparse" else [name])
)  # fmt: skip


@dataclass(frozen=True)
class Entry:
    """A ranker in a study, with the settings that are tried.

    Attributes
    ----------
    name : str
        The name in tables and pictures.
    ranker : object
        An unfitted ranker with the parameters that do not vary.
    grid : mapping of parameters to values
        All combinations are tried, and the best on validation data is kept. The value None of C
        stands for values that the ranker chooses from the data.
    chooser : class, optional
        The ranker that chooses C along a path with warm starts.

    Examples
    --------
    >>> from linrank import RankSVM
    >>> from linrank.study import Entry
    >>> entry = Entry("huber", RankSVM(loss="huber"), {"C": [0.1, 1.0], "normalize": [None]})
    >>> list(entry.settings())
    [{'C': 0.1, 'normalize': None}, {'C': 1.0, 'normalize': None}]
    """

    name: str
    ranker: Any
    grid: Mapping[str, Sequence[Any] | Array | None] = field(default_factory=dict)
    chooser: Any = None

    def __post_init__(self) -> None:
        known = self.ranker.get_params(deep=True)
        for key, values in self.grid.items():
            if key not in known:
                raise DataError(
                    f"the method {self.name!r} has no parameter {key!r}; {known_names(key, known)}"
                )
            if not (values is None and key == "C" and self.follows_path):
                _check_values(self.name, key, values)
        for _, ranker in self.variants():
            try:
                getattr(ranker, "check_settings", lambda: None)()
            except DataError as error:
                raise DataError(f"the method {self.name!r}: {error}") from None
        if self.chooser is not None:
            for C in self.grid.get("C", [self.ranker.C]) or ():
                positive_number(f"the method {self.name!r}: C", C)

    @property
    def follows_path(self) -> bool:
        """Whether C varies, and is chosen along a path with warm starts."""
        return self.chooser is not None and "C" in self.grid

    def settings(self) -> Iterator[dict[str, Any]]:
        """Yield the combinations of values; C is left out if it is chosen along a path."""
        varied = {
            key: values for key, values in self.grid.items()
            if values is not None and not (key == "C" and self.follows_path)
        }  # fmt: skip
        for values in product(*varied.values()):
            plain = [value.item() if isinstance(value, np.generic) else value for value in values]
            yield dict(zip(varied, plain, strict=True))

    def variants(self) -> Iterator[tuple[dict[str, Any], Any]]:
        """Yield each setting with an unfitted ranker that has it."""
        from sklearn.base import clone

        for setting in self.settings():
            yield setting, clone(self.ranker).set_params(**setting)


def _check_values(method: str, key: str, values: object) -> None:
    """Raise an error unless the values of a parameter are a list of at least one."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise DataError(
            f"the method {method!r} has {values!r} for {key!r}; expected a list of the values that "
            f"are tried, such as [{1.0 if values is None else values!r}]"
        )
    values = list(values)
    if not values:
        raise DataError(f"the method {method!r} has no values for {key!r}. List at least one.")


def parse_entry(text: str, name: str | None = None, grid: Mapping[str, Any] | None = None) -> Entry:
    """Make an entry from a text: ``METHOD``, or ``METHOD:parameter=value,…``.

    Several values of a parameter are separated by ``|``; the best one on validation data is kept.
    A parameter without a value has those of `GRIDS`, or its default.

    Parameters
    ----------
    text : str
        A name of `linrank.baselines.methods.METHODS`, with parameters.
    name : str, optional
        The name of the entry; by default the text.
    grid : mapping of parameters to lists of values, optional
        More values that are tried.

    Returns
    -------
    Entry

    Examples
    --------
    >>> entry = parse_entry("svr:C=0.1|1,loss=squared")
    >>> entry.ranker, list(entry.settings())
    (LinearSVRRanker(), [{'C': 0.1}, {'C': 1}])
    >>> parse_entry("ranksvm:loss=huber").follows_path
    True
    """
    method, texts = parse_method(text)
    given = {key: [parse_literal(part) for part in value.split(OR)] for key, value in texts.items()}
    fixed = {key: values[0] for key, values in given.items() if len(values) == 1}
    varied = {key: values for key, values in given.items() if len(values) > 1} | dict(grid or {})
    short = text.strip().partition(":")[0]
    default = {key: values for key, values in GRIDS[short].items() if key not in fixed}
    ranker = method.ranker_class()(**fixed)
    return Entry(name or text.strip(), ranker, default | varied, method.chooser_class())


def split_methods(text: str) -> list[str]:
    """Split a list of methods at those commas that do not separate the settings of one method.

    A part that begins with the name of a method starts a new one. A part ``parameter=value``
    belongs to the method before it. So does a value without a name, if that method has such a value
    and it is not set yet. The word ``all`` stands for every method.

    Examples
    --------
    >>> split_methods("ranksvm:loss=huber,normalize=queries,sparse:log,svr")
    ['ranksvm:loss=huber,normalize=queries', 'sparse:log', 'svr']
    """
    found: list[list[str]] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        if part == "all":
            found += [[name] for name in ALL]
        elif found and _continues(found[-1], part):
            found[-1].append(part)
        else:
            found.append([part])
    return [_joined(parts) for parts in found]


def _continues(parts: list[str], part: str) -> bool:
    """Return whether a part of a list belongs to the method whose parts come before it."""
    if part.partition(":")[0] in METHODS:
        return False
    if "=" in part:
        return True
    name, colon, first = parts[0].partition(":")
    takes_value = name in METHODS and METHODS[name].main is not None
    return bool(colon) and takes_value and all("=" in value for value in [first, *parts[1:]])


def _joined(parts: list[str]) -> str:
    first, *rest = parts
    if rest and ":" not in first:
        return f"{first}:{','.join(rest)}"
    return ",".join(parts)


def entry_of(name: str, ranker: Any, grid: Mapping[str, Any] | None = None) -> Entry:
    """Make an entry from a ranker of Python: one of linrank, or any with `fit` and `predict`.

    Examples
    --------
    >>> from linrank import RankSVM
    >>> entry_of("l2", RankSVM(), {"C": [0.1, 1.0]}).follows_path
    True
    """
    if isinstance(ranker, type):
        raise DataError(
            f"the method {name!r} is the class {ranker.__name__}. Pass an object of it: "
            f"{ranker.__name__}()."
        )
    for needed in ("fit", "predict", "get_params", "set_params"):
        if not hasattr(ranker, needed):
            raise DataError(
                f"the method {name!r} is {ranker!r}, which has no {needed}. Pass a ranker as in "
                "scikit-learn, or a text such as 'ranksvm:loss=huber'."
            )
    known = _method_of(ranker)
    return Entry(name, ranker, dict(grid or {}), None if known is None else known.chooser_class())


def _method_of(ranker: Any) -> Method | None:
    """Return the method of linrank whose class a ranker has; None for other rankers."""
    kind = type(ranker)
    for method in METHODS.values():
        if kind.__module__ == f"linrank.{method.module}" and kind.__name__ == method.kind:
            return method
    return None


@dataclass(frozen=True)
class ScoreFiles:
    """Scores of another tool: a file per fold, with one score per line or in TREC's format.

    Attributes
    ----------
    name : str
        The name in tables and pictures.
    pattern : str
        The path of the files, in which ``{data}`` and ``{fold}`` stand for the names of the data
        set and of the fold. For data that are split into folds, a path without ``{fold}`` names a
        file with the scores of all documents.

    Examples
    --------
    >>> from linrank.study import ScoreFiles
    >>> files = ScoreFiles("other tool", "scores/{data}-{fold}.txt")
    >>> files.path("MQ2008", "Fold1")
    'scores/MQ2008-Fold1.txt'
    """

    name: str
    pattern: str

    def __post_init__(self) -> None:
        self.path("data", "fold")  # raises an error about other names in braces

    @property
    def has_folds(self) -> bool:
        """Whether each fold has a file of its own."""
        return self.path("", "1") != self.path("", "2")

    def path(self, data: str, fold: str) -> str:
        """Return the path of the file of one fold."""
        try:
            return self.pattern.format(data=data, fold=fold)
        except (KeyError, IndexError, ValueError, AttributeError, TypeError):
            raise DataError(
                f"the path {self.pattern!r} of the method {self.name!r} has other names in braces "
                "than {data} and {fold}. Write {{ and }} for braces in the name of a file."
            ) from None


# --------------------------------------------------------------------------------------------------
# Keys of runs: hashes of everything that the outcome of a run depends on.


#: Parameters that do not change what is learnt.
WITHOUT_EFFECT = {"n_threads", "n_jobs", "verbose", "verbosity"}
KEY_VERSION = 2  #: raised when the same settings mean something else than before

Content: TypeAlias = "str | list[Content]"  #: a value as JSON, such that equal values are equal


def key_of(
    ranker: Any, chooser: Any, Cs: tuple[float, ...] | None, digest: str, criterion: Criterion
) -> str:
    """Return a hash of everything that the outcome of a run depends on.

    These are the ranker with its parameters and its code, the way in which C is chosen, the digest
    of the data, and the metric. Code counts by the versions of its packages, and code of modules
    without a version, such as a notebook, by its instructions.
    """
    content = [
        KEY_VERSION, content_of(ranker), chooser and chooser.__name__, Cs, digest,
        criterion.metric, criterion.flavour,
    ]  # fmt: skip
    return hashlib.blake2b(json.dumps(content).encode(), digest_size=16).hexdigest()


def content_of(value: Any) -> Content:
    """Describe a ranker or a parameter by its content and its code.

    Raises
    ------
    DataError
        If an object cannot be pickled, so that its content is not known.

    Examples
    --------
    >>> content_of([1, np.float64(0.5), "map"])
    ['list', '1', '0.5', "'map'"]
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    if isinstance(value, type):
        return _class_content(value)
    if inspect.isfunction(value):
        return _function_content(value)
    if isinstance(value, partial):
        return ["partial", content_of([value.func, value.args, value.keywords])]
    if hasattr(value, "get_params"):
        return [_class_content(type(value)), *_parameters(value)]
    if type(value) in (list, tuple):
        return [type(value).__name__, *map(content_of, value)]
    if type(value) is dict:
        return ["dict", *map(content_of, value.items())]
    return [_class_content(type(value)), _hash_of(value)]


def _parameters(ranker: Any) -> list[Content]:
    """Describe the parameters that have an effect."""
    known = sorted(ranker.get_params(deep=False).items())
    return [[name, content_of(value)] for name, value in known if name not in WITHOUT_EFFECT]


def _hash_of(value: Any) -> str:
    from joblib import hash as content_hash

    try:
        return str(content_hash(value))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise DataError(
            f"a ranker of a study has the parameter {value!r}, which cannot be pickled: "
            f"{error.args[0]}. Use a class or function of a module instead."
        ) from None


def _class_content(kind: type) -> Content:
    releases = {_release(one) for one in kind.__mro__} | set(_backend(kind).items())
    texts = [text for release in sorted(releases) for text in release]
    return [f"{kind.__module__}.{kind.__qualname__}", *texts]


def _function_content(function: Any) -> Content:
    """Describe a function by its code, default values and the variables that it encloses."""
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    enclosed = [value for value in cells if value is not function]  # it may call itself
    return [
        function.__qualname__, *_release(function),
        content_of([function.__defaults__, function.__kwdefaults__, enclosed]),
    ]  # fmt: skip


def _release(definition: Any) -> tuple[str, str]:
    """Return the package and version of a class or function; without a version, its code."""
    package = definition.__module__.partition(".")[0]
    if package in sys.stdlib_module_names:
        return "", ""
    number = package_version(package)
    return package, number or json.dumps(_code_of(definition))


def _code_of(definition: Any) -> Content:
    """Describe a class or function without a version by its code, wherever it stands in a file."""
    if inspect.isfunction(definition):
        return _instructions(definition.__code__)
    found: list[Content] = []
    for name, value in sorted(vars(definition).items()):
        value = getattr(value, "fget", None) or getattr(value, "__func__", value)
        value = inspect.unwrap(value) if callable(value) else value
        if inspect.isfunction(value):
            found.append([name, _instructions(value.__code__)])
        elif isinstance(value, bool | int | float | str) and not name.startswith("__"):
            found.append([name, repr(value)])
    return found


def _instructions(code: CodeType) -> Content:
    constants: list[Content] = [
        _instructions(one) if isinstance(one, CodeType)
        else ["frozenset", *sorted(map(repr, one))] if isinstance(one, frozenset)
        else repr(one)
        for one in code.co_consts
    ]  # fmt: skip
    return [code.co_code.hex(), list(code.co_names), constants]


def _backend(kind: type) -> dict[str, str]:
    """Return the package that a ranker of linrank wraps, with its version."""
    package = getattr(kind, "backend", None)
    return {package: package_version(package)} if isinstance(package, str) else {}


def package_versions(ranker: Any) -> dict[str, str]:
    """Return the versions of the packages that hold the class of a ranker and its bases.

    Examples
    --------
    >>> from linrank import RankSVM
    >>> sorted(package_versions(RankSVM()))
    ['linrank', 'sklearn']
    """
    packages = [kind.__module__.partition(".")[0] for kind in type(ranker).__mro__]
    found = {package: package_version(package) for package in packages
             if package not in sys.stdlib_module_names}  # fmt: skip
    return {name: number for name, number in (found | _backend(type(ranker))).items() if number}


def package_version(package: str) -> str:
    """Return the version of a package; an empty text if it has none."""
    number = getattr(sys.modules.get(package), "__version__", None)
    if isinstance(number, str):
        return number
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


# --------------------------------------------------------------------------------------------------
# Runs of a study: one setting of a method, fitted to the training part of one fold.
#
# If the method chooses C along a path, a run is the whole path.


SEED = 0  #: `random_state` of rankers that name none, so that runs can be repeated


@dataclass(frozen=True)
class Job:
    """A run that has not been done yet; it can be sent to another process.

    Attributes
    ----------
    key : str
        A hash of everything that the outcome depends on.
    data, fold, method : str
    setting : dict
        Values of the parameters that vary.
    ranker : object
        An unfitted ranker with this setting.
    chooser : class or None
        The class that chooses C along a path, and `Cs`, its values.
    criterion : Criterion
    n_threads : int
    n_docs, n_features : int
        Documents of the test part, and features of the data, which the outcome must have.
    parts : Path
        The folder of the stores ``train``, ``valid`` and ``test``.
    """

    key: str
    data: str
    fold: str
    method: str
    setting: dict[str, Any]
    ranker: Any
    chooser: Any
    Cs: tuple[float, ...] | None
    criterion: Criterion
    n_threads: int
    n_docs: int
    n_features: int
    parts: Path = Path()


def plan(entry: Entry, fold: FoldData, criterion: Criterion, n_threads: int) -> Iterator[Job]:
    """Yield the runs of an entry on one fold, before its parts are written."""
    for setting, ranker in entry.variants():
        ranker.set_params(**dict.fromkeys(unset_seeds(ranker), SEED))
        chooser, Cs = None, None
        if entry.follows_path:
            chooser, given = entry.chooser, entry.grid["C"]
            Cs = None if given is None else tuple(float(C) for C in given)
        key = key_of(ranker, chooser, Cs, fold.digest, criterion)
        yield Job(
            key, fold.data, fold.fold, entry.name, setting, ranker, chooser, Cs, criterion,
            n_threads, fold.test.n_docs, fold.train.n_features,
        )  # fmt: skip


def unset_seeds(ranker: Any) -> list[str]:
    """Return the names of the seeds of a ranker, and of the rankers in it, that are None.

    Examples
    --------
    >>> from sklearn.linear_model import SGDRegressor
    >>> from sklearn.pipeline import make_pipeline
    >>> unset_seeds(make_pipeline(SGDRegressor()))
    ['sgdregressor__random_state']
    """
    return [
        name for name, value in ranker.get_params(deep=True).items()
        if name.rpartition("__")[2] == "random_state" and value is None
    ]  # fmt: skip


# --------------------------------------------------------------------------------------------------
# Names of files, and parts of HTML ids, from free-form names of methods and data sets.


LONGEST = 60  #: characters of a name; file systems allow 255 bytes with all suffixes
_OTHER = re.compile("[^a-z0-9]+")
#: Names that Windows keeps for devices, with any suffix.
_DEVICES = {"con", "prn", "aux", "nul"} | {
    f"{port}{k}" for port in ("com", "lpt") for k in range(10)
}


def safe_names(names: Iterable[str]) -> dict[str, str]:
    """Return a distinct name of lower-case letters, digits and hyphens for each name.

    Examples
    --------
    >>> safe_names(["sparse:l1", "sparse l1", "../ü", "con"])
    {'sparse:l1': 'sparse-l1', 'sparse l1': 'sparse-l1-2', '../ü': 'unnamed', 'con': 'con-2'}
    """
    found: dict[str, str] = {}
    taken = set(_DEVICES)
    for name in names:
        if name in found:
            continue
        start = _OTHER.sub("-", name.lower())[:LONGEST].strip("-") or "unnamed"
        safe, number = start, 2
        while safe in taken:
            safe, number = f"{start}-{number}", number + 1
        taken.add(safe)
        found[name] = safe
    return found
