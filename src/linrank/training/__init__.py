"""Training: from data to a model that can be saved, with one C or the best of a grid."""

from __future__ import annotations

from .choice import train_best
from .outcome import Training, training_summary
from .trainer import Report, Trainer

__all__ = ["Report", "Trainer", "Training", "train_best", "training_summary"]
