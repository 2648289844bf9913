"""Methods of a study: rankers with the settings that are tried, and score files of other tools."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

from .._checks import known_names, positive_number
from .._literals import parse_literal
from .._typing import Array
from ..errors import DataError
from ..methods import METHODS, Method, parse_method

#: Separates the values of a parameter that are tried, as in ``forest:min_samples_leaf=1|5``.
OR = "|"

#: The settings that are tried unless a study names others. None: the values of C are chosen from
#: the data, along a path with warm starts.
GRIDS: dict[str, dict[str, tuple[Any, ...] | None]] = {
    "ranksvm": {"C": None},
    "sparse": {"C": None},
    "domination": {"C": None},
    "additive": {"penalty": ("l2", "group_l1"), "C": None},
    "kernel": {"n_components": (500,), "gamma": (0.01, 0.1), "C": (0.01, 1.0)},
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
        A name of `linrank.methods.METHODS`, with parameters.
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
