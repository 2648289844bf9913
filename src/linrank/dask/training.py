"""`DaskTrainer`: what `Trainer` does, on data that are in the memory of workers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Self

from ..errors import DataError
from ..losses import get_loss
from ..path import problem_of
from ..problem import Objective
from ..training import Trainer, Training
from .data import DaskData
from .engine import DaskEngine

#: Solvers that look at single rows, not at sums over them.
NEEDS_ROWS = ("sgd-pairs", "sgd-queries", "coordinate-descent")


@dataclass(frozen=True)
class DaskTrainer(Trainer):
    """Trains models on `DaskData`; settings are those of `Trainer`.

    Held-out data are a `RankingData` here, as elsewhere.
    """

    def __post_init__(self) -> None:
        check_solver(self.solver)
        if self.engine != "threads":
            raise DataError(
                f"engine={self.engine!r} is of one machine: the workers of a cluster count with "
                "threads"
            )
        super().__post_init__()

    @classmethod
    def like(cls, trainer: Trainer) -> Self:
        """A trainer with the settings of another."""
        return cls(**{field.name: getattr(trainer, field.name) for field in fields(trainer)})

    def problem(self, data: Any, C: float = 1.0) -> Objective:
        """What is to be minimised."""
        engine = DaskEngine(
            data, get_loss(self.loss), self.normalize, counting=self.counting,
            preferences=self.preferences,
        )  # fmt: skip
        return problem_of(engine, C, self.penalty)

    def train(self, data: Any, C: float = 1.0, **options: Any) -> Training:
        """Train with one C; see `Trainer.train`."""
        return _or_fault(data, lambda: super(DaskTrainer, self).train(data, C, **options))

    def train_on_grid(self, data: Any, valid: Any, Cs: Any = None) -> Training:
        """Train with every C and keep the best on the held-out data."""
        return _or_fault(data, lambda: super(DaskTrainer, self).train_on_grid(data, valid, Cs))

    def train_by_folds(self, data: Any, folds: Any = 5, Cs: Any = None) -> Training:
        """Refused: folds take rows out of the data."""
        raise DataError(
            "folds need the rows at hand, which stay with the workers: choose C on held-out data"
        )


def check_solver(solver: str) -> None:
    """Refuse solvers that need single rows."""
    if solver in NEEDS_ROWS:
        raise DataError(
            f"solver={solver!r} needs single rows, which stay with the workers: use 'auto', "
            "'newton', 'tron', 'smoothing', 'cutting-planes' or 'lbfgs', or with a penalty "
            "'proximal-newton', 'reweighted' or 'fista', which need sums only"
        )


def _or_fault(data: DaskData, train: Callable[[], Training]) -> Training:
    """Train; where workers were lost before anything was learnt, it is that which is said."""
    try:
        return train()
    except KeyboardInterrupt:
        if data.fault is None:
            raise
        raise data.fault from None
