"""Runs of a study: one setting of a method, fitted to the training part of one fold.

If the method chooses C along a path, a run is the whole path.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from .._version import __version__
from ..criterion import Criterion
from .entries import Entry
from .folds import FoldData

#: Parameters that do not change what is learnt.
WITHOUT_EFFECT = {"n_threads", "n_jobs", "verbose", "verbosity"}
SEED = 0  #: `random_state` of rankers that name none, so that runs can be repeated
KEY_VERSION = 1  #: raised when the same settings mean something else than before


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
    parts: Path = Path()


def plan(entry: Entry, fold: FoldData, criterion: Criterion, n_threads: int) -> Iterator[Job]:
    """Yield the runs of an entry on one fold, before its parts are written."""
    for setting, ranker in entry.variants():
        if ranker.get_params(deep=False).get("random_state", SEED) is None:
            ranker.set_params(random_state=SEED)
        chooser, Cs = None, None
        if entry.follows_path:
            chooser, given = entry.chooser, entry.grid["C"]
            Cs = None if given is None else tuple(float(C) for C in given)
        key = key_of(ranker, chooser, Cs, fold.digest, criterion)
        yield Job(
            key, fold.data, fold.fold, entry.name, setting, ranker, chooser, Cs, criterion,
            n_threads,
        )  # fmt: skip


def key_of(
    ranker: Any, chooser: Any, Cs: tuple[float, ...] | None, digest: str, criterion: Criterion
) -> str:
    """Return a hash of everything that the outcome of a run depends on."""
    kind = type(ranker)
    package = kind.__module__.partition(".")[0]
    content = [
        KEY_VERSION, __version__, package, _version_of(package), kind.__qualname__,
        describe_parameters(ranker), chooser and chooser.__name__, Cs, digest, criterion.metric,
        criterion.flavour,
    ]  # fmt: skip
    return hashlib.blake2b(json.dumps(content).encode(), digest_size=16).hexdigest()


def describe_parameters(ranker: Any) -> dict[str, str]:
    """Return the parameters that have an effect, as texts; arrays and objects by their content."""
    from joblib import hash as content_hash

    found = {}
    for name, value in sorted(ranker.get_params(deep=True).items()):
        if name.rpartition("__")[2] in WITHOUT_EFFECT:
            continue
        simple = value is None or isinstance(value, bool | int | float | str)
        found[name] = repr(value) if simple else content_hash(value)
    return found


def _version_of(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
