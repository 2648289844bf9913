"""Campaigns, their cases, and what they found."""

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
    """One trial: everything random in it comes from `rng`, so that it can be repeated.

    A case reports what is wrong with `wrong`, and counts what it has seen with `saw`.
    """

    number: int
    rng: np.random.Generator
    folder: Path
    state: Any = None  #: what `Campaign.prepare` returned
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
    """A kind of trial.

    Parameters
    ----------
    name, unit : str
        The name for ``--only``, and what is counted.
    goal : int or None
        Number of units after which the campaign ends; None: when all cases are done.
    minutes : float
        Share of the time of the whole run, in minutes of a run of an hour.
    run : callable
        Tries one case. It adds to ``case.units`` and reports with ``case.wrong``.
    prepare : callable, optional
        Called once in each worker process with an empty folder; returns ``case.state``.
    size : callable, optional
        Number of cases, given that state; without it there is no end of cases.
    missing : callable, optional
        Returns a sentence if something that the campaign needs is not installed.
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
        """The case of that number; the same seed and number give the same case."""
        rng = np.random.default_rng([seed, zlib.crc32(self.name.encode()), number])
        return Case(number, rng, folder, state)
