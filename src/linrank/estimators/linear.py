"""`LinearRanker`: the base class of the rankers whose scores are products with weights."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from .._rows import multiply
from .._typing import Vector
from ..data.checks import Matrix, check_finite
from ..model import LinearModel
from .base import Ranker


class LinearRanker(Ranker):
    """Base class of the rankers whose scores are ``X @ coef_``."""

    __metadata_request__fit: ClassVar = {"query_weight": True}

    coef_: Vector

    @property
    def intercept_(self) -> float:
        """0, because a constant does not change a ranking.

        If the scores are not ``X @ coef_``, because features are scaled within queries or have a
        logarithm or limits, there is no such attribute. Explanations of ``X @ coef_`` would be
        wrong.
        """
        if not hasattr(self, "coef_") or not getattr(model_of(self), "is_linear", True):
            raise AttributeError(
                "intercept_ is defined for fitted rankers whose scores are X @ coef_ only"
            )
        return 0.0

    @property
    def feature_importances_(self) -> Vector:
        """Absolute weights, times the standard deviations of the features if these are known.

        The products do not depend on the units of the features.
        """
        if not hasattr(self, "coef_"):
            raise AttributeError("feature_importances_ is defined for fitted rankers only")
        weights = getattr(model_of(self), "standardized_coef", None)
        return np.abs(self.coef_ if weights is None else weights)

    def _scores(self, X: Matrix) -> Vector:
        scores = multiply(X, self.coef_, getattr(self, "n_threads", None))
        if not np.isfinite(scores).all():
            check_finite(X, None)
        return scores


def model_of(ranker: LinearRanker) -> LinearModel | None:
    """Return the model of a fitted ranker, if it has one."""
    return getattr(ranker, "model_", None)
