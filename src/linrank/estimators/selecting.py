"""Base class of the rankers that select features.

It is a module of its own, because scikit-learn's feature selection takes long to import.
"""

from __future__ import annotations

import numpy as np
from sklearn.feature_selection import SelectorMixin
from sklearn.utils.validation import check_is_fitted

from .._typing import Mask
from ..data.ranking import RankingData
from ..data.sparsity import count_valued, sparsity_ratio
from ..training import Trainer, Training
from .trained import TrainedRanker


class SparseRanker(SelectorMixin, TrainedRanker):
    """Base class of the rankers that select features, as feature selectors of scikit-learn."""

    debias = False

    def _get_support_mask(self) -> Mask:
        check_is_fitted(self)
        support = np.zeros(self.n_features_in_, dtype=np.bool_)
        support[self.model_.used] = True
        return support

    def _store(self, training: Training, data: RankingData, trainer: Trainer) -> None:
        if training.result.coef.any() and self.debias and trainer.penalty.selects:
            training = trainer.debias(training, data)
        used = training.model.used
        self.n_selected_ = len(used)
        self.zero_weights_ = 1.0 - len(used) / data.n_features
        self.sparsity_ratio_ = float(sparsity_ratio(len(used), count_valued(data.X)))
        super()._store(training, data, trainer)
