"""What is done to the features before they are weighted: filling, logarithm, clipping, scaling."""

from __future__ import annotations

from .preprocessing import Preprocessing
from .steps import FeatureSteps
from .summary import FeatureSummary

__all__ = ["FeatureSteps", "FeatureSummary", "Preprocessing"]
