"""The best of several trainers, such as those of different penalties."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from ..criterion import Criterion
from ..data.ranking import RankingData
from .outcome import Training
from .trainer import Trainer


def train_best(
    trainers: Sequence[Trainer], data: RankingData, train: Callable[[Trainer], Training]
) -> tuple[Trainer, Training]:
    """Return the trainer with the best criterion on held-out data, and its training.

    If the trainer joins fits (`Trainer.joined`), the model is made of all trainings.

    Of equal trainers, the first is returned. An interrupt ends the loop: the result is the best of
    the trainers before it, or what the first trainer has so far.

    Parameters
    ----------
    trainers : sequence of Trainer
        Trainers with the same criterion.
    data : RankingData
        The training data.
    train : callable
        Takes a trainer and returns its training, as `Trainer.train_on_grid` does.
    """
    found = [(trainers[0], train(trainers[0]))]
    interrupted = found[0][1].interrupted
    for trainer in trainers[1:]:
        if interrupted:
            break
        try:
            training = train(trainer)
            interrupted = training.interrupted
        except KeyboardInterrupt:
            interrupted = True
        if not interrupted:
            found.append((trainer, training))
    trainer, training = found[_best([one for _, one in found], trainers[0].criterion)]
    training = replace(training, interrupted=interrupted)
    return trainer, trainer.joined(training, [one for _, one in found], data)


def _best(trainings: Sequence[Training], criterion: Criterion) -> int:
    """Return the index of the best training, among those that use features if there are any."""
    if len(trainings) == 1:
        return 0
    values = np.array([np.nan if one.value is None else one.value for one in trainings])
    n_used = np.array([one.result.n_selected for one in trainings])
    return replace(criterion, rule="best").choose(values, 0.0, n_used)
