"""Runs of a study: one setting of a method, fitted to the training part of one fold.

If the method chooses C along a path, a run is the whole path.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..criterion import Criterion
from .entries import Entry
from .folds import FoldData
from .keys import key_of

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
