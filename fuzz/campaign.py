"""Campaigns and their cases."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np


@dataclass
class Case:
    """One test case. All randomness comes from `rng`, so that a case can be repeated.

    A case reports defects with `wrong`, and counts outcomes with `saw`.
    """

    number: int
    rng: np.random.Generator
    folder: Path
    state: Any = None  #: return value of `Campaign.prepare`
    units: int = 0
    complaints: list[str] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)

    def wrong(self, sentence: str) -> None:
        """Report a defect."""
        self.complaints.append(sentence)

    def saw(self, what: str) -> None:
        """Count an outcome for the summary."""
        self.seen[what] += 1


@dataclass(frozen=True)
class Campaign:
    """A series of random test cases of one kind.

    Parameters
    ----------
    name, unit : str
        Name for ``--only``, and name of the units that are counted.
    goal : int or None
        Number of units after which the campaign ends. None: it ends after the last case.
    minutes : float
        Time of the campaign in a run of one hour; in other runs, in proportion.
    run : callable
        Runs one case. It adds to ``case.units`` and reports with ``case.wrong``.
    prepare : callable, optional
        Called once in each worker process with an empty folder; returns ``case.state``.
    size : callable, optional
        Number of cases, given ``case.state``. None: no limit.
    missing : callable, optional
        Returns a text if a program that the campaign needs is not installed.
    patience : float
        Seconds after which a case counts as hanging.
    """

    name: str
    unit: str
    goal: int | None
    minutes: float
    run: Callable[[Case], None]
    prepare: Callable[[Path], Any] | None = None
    size: Callable[[Any], int] | None = None
    missing: Callable[[], str | None] | None = None
    patience: float = 180.0

    def make_case(self, seed: int, number: int, folder: Path, state: Any) -> Case:
        """Return a case. The same seed and number give the same case."""
        rng = np.random.default_rng([seed, zlib.crc32(self.name.encode()), number])
        return Case(number, rng, folder, state)
