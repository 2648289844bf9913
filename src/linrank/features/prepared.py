"""`Prepared`: training data before and after preprocessing."""

from __future__ import annotations

from dataclasses import dataclass

from ..data.matching import with_features
from ..data.names import names_or_numbers
from ..data.ranking import RankingData
from .preprocessing import Preprocessing
from .summary import FeatureSummary, summarise, warn_of_scales

MOST_SUMMARISED = 10_000  #: features of which a model file holds statistics, if it has no more


@dataclass(frozen=True)
class Prepared:
    """Training data as given, the preprocessing that was fitted to them, and its outcome.

    Attributes
    ----------
    given : RankingData
    steps : Preprocessing or None
        None: the features are used as they are given.
    data : RankingData
        The data with preprocessed features.
    """

    given: RankingData
    steps: Preprocessing | None
    data: RankingData

    def apply(self, data: RankingData, n_threads: int | None = None) -> RankingData:
        """Return other data with the same features, preprocessed in the same way."""
        data = with_features(data, self.given.feature_names, self.given.n_features)
        return data if self.steps is None else self.steps.apply_to(data, n_threads)

    def weight_names(self, names: list[str]) -> list[str]:
        """Return the names of the preprocessed features, given those of the features."""
        return names if self.steps is None else self.steps.names(names)

    def summary(self, n_threads: int | None = None) -> FeatureSummary | None:
        """Return the statistics of the features for a model; None if there are very many."""
        d = self.given.n_features
        if d > MOST_SUMMARISED:
            return None
        found = summarise(self.given.X, n_threads)
        if self.steps is None:
            warn_of_scales(
                found.deviation,
                names_or_numbers(self.given.feature_names, d, self.given.index_base),
            )
            return found
        values = summarise(self.data.X, n_threads)
        mean, deviation = values.mean[:d], values.deviation[:d]
        if self.steps.factor is not None and self.steps.shift is not None:
            shift = self.steps.at_zero() if self.data.is_sparse else self.steps.shift
            mean, deviation = mean / self.steps.factor + shift, deviation / self.steps.factor
        return FeatureSummary(found.minimum, found.maximum, mean, deviation)
