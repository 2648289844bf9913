"""Base class of the rankers that select features.

It is a module of its own, because scikit-learn's feature selection takes long to import.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import issparse
from sklearn.feature_selection import SelectorMixin
from sklearn.utils.validation import check_is_fitted

from .._typing import Mask
from ..data.checks import Matrix
from ..data.ranking import RankingData
from ..training import Trainer, Training
from .trained import TrainedRanker

BLOCK_ENTRIES = 2**20  #: entries of X that `has_values` reads at a time


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
        self.sparsity_ratio_ = len(used) / max(1, int(has_values(data.X).sum()))
        super()._store(training, data, trainer)


def has_values(X: Matrix) -> Mask:
    """Return which features are not zero in all documents, in blocks of rows."""
    found: Mask = np.zeros(X.shape[1], dtype=np.bool_)
    step = max(1, BLOCK_ENTRIES // max(1, X.shape[1]))
    for first in range(0, X.shape[0], step):
        rows = X[first : first + step]
        if issparse(rows):
            found[rows.indices[rows.data != 0]] = True
        else:
            found |= rows.any(axis=0)
    return found
