"""Training: from data to a model that can be saved, with one C or the best of a grid."""

from __future__ import annotations

from .outcome import Training, training_summary
from .trainer import Report, Trainer

__all__ = ["Report", "Trainer", "Training", "training_summary"]
