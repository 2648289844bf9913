"""`DaskTrainer`: trains on data that are in the memory of the workers of a cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

from ..errors import DataError
from ..problem import Problem, problem_of
from ..training import Trainer, Training
from .data import DaskData
from .engine import DaskEngine


@dataclass(frozen=True)
class DaskTrainer(Trainer):
    """Trains models on `DaskData`; the settings are those of `Trainer`.

    Held-out data are a `RankingData` in this process.

    Parameters
    ----------
    loss, tol, solver, counting, preferences, normalize, penalty, max_iter, seed
        See `linrank.training.Trainer`.
    n_threads, margin_scale, criterion, callback, announce
        See `linrank.training.Trainer`.
    engine : {"threads"}
        The engine of each worker. No other one is possible.
    features : Features
        It must be empty: features are prepared before they are loaded.

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from linrank import make_ranking
    >>> from linrank.dask import DaskData, DaskTrainer
    >>> from linrank.dask.sources import find_parts
    >>> data = make_ranking(random_state=0)
    >>> X, y, qid = (da.from_array(a, chunks=1000) for a in (data.X, data.y, data.qid))
    >>> with Client(processes=False, n_workers=2, dashboard_address=":0") as client:
    ...     with DaskData(client, find_parts(X, y, qid)) as loaded:
    ...         training = DaskTrainer().train(loaded, C=0.01)
    >>> training.result.converged, training.model.n_features
    (True, 20)
    """

    has_rows: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.engine != "threads":
            raise DataError(
                f"engine={self.engine!r} works on one machine only, but the data are with the "
                "workers of a cluster. Use engine='threads'."
            )
        super().__post_init__()
        if not self.features.is_empty:
            raise DataError(
                "scale and missing need the rows of the data in this process, but they stay with "
                "the workers. Prepare the features before, and leave out scale and missing."
            )
        if self.margin_scale is not None:
            raise DataError(
                "margin_scale needs the rows of the data in this process, but they stay with the "
                "workers. Store a margin for each document instead."
            )

    @classmethod
    def like(cls, trainer: Trainer) -> Self:
        """Return a trainer with the settings of another."""
        return cls(**{field.name: getattr(trainer, field.name) for field in fields(trainer)})

    def problem(self, data: Any, C: float = 1.0) -> Problem:
        """Return the problem of ranking the data."""
        engine = DaskEngine(
            data, self.loss, self.normalize, counting=self.counting, preferences=self.preferences
        )
        return problem_of(engine, C, self.penalty)

    def train(self, data: Any, C: float = 1.0, **options: Any) -> Training:
        """Train with one C; see `Trainer.train`."""
        return _or_fault(data, lambda: super(DaskTrainer, self).train(data, C, **options))

    def train_on_grid(self, data: Any, valid: Any, Cs: Any = None) -> Training:
        """Train with every C and keep the best on the held-out data."""
        return _or_fault(data, lambda: super(DaskTrainer, self).train_on_grid(data, valid, Cs))

    def train_by_folds(
        self, data: Any, folds: Any = 5, Cs: Any = None, *, whole_path: bool = False
    ) -> Training:
        """Raise a `DataError`: folds take rows out of the data."""
        raise DataError(
            "folds need the rows of the data in this process, but they stay with the workers. "
            "Choose C on held-out data instead."
        )


def _or_fault(data: DaskData, train: Callable[[], Training]) -> Training:
    """Train; raise the loss of workers instead of the interrupt that it caused."""
    try:
        return train()
    except KeyboardInterrupt:
        if data.fault is None:
            raise
        raise data.fault from None
