"""Training: from data to a model that can be saved, with one C or the best of a grid.

The names are imported when they are first used, because the command line needs `options` only.
"""

from __future__ import annotations

from .._util.lazy import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .trainer import Report, Trainer, Training, train_best, training_summary

__all__ = ["Report", "Trainer", "Training", "train_best", "training_summary"]

if not TYPE_CHECKING:  # type checkers report unknown names
    __getattr__ = lazy_names(__name__, dict.fromkeys(__all__, "trainer"))
