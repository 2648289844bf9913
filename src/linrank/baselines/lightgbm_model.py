"""`LightGBMModel`: trees of LightGBM in a model file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from .._typing import Integers, Vector
from ..data.checks import Matrix, check_finite, check_matrix
from ..errors import DataError
from ..estimators.base import library_matrix
from ..model import Column, Content, Model
from .lambdamart import lightgbm


class LightGBMModel(Model):
    """Model whose scores are the predictions of a LightGBM booster.

    Parameters
    ----------
    text : str
        The booster in LightGBM's own text format, as `Booster.model_to_string` returns it.
    feature_names, index_base, settings, training
        As in `linrank.LinearModel`.
    """

    format = "linrank-lightgbm"

    def __init__(
        self,
        text: str,
        *,
        feature_names: Sequence[str] | None = None,
        index_base: int = 1,
        settings: Mapping[str, object] | None = None,
        training: Mapping[str, object] | None = None,
    ) -> None:
        if not isinstance(text, str) or not text.startswith("tree"):
            raise DataError("the text is not a model of LightGBM")
        library = lightgbm()
        try:
            self.booster = library.Booster(model_str=text)
        except library.basic.LightGBMError as error:
            raise DataError(f"LightGBM cannot read the trees: {error}") from None
        self.text = text
        n_features = self.booster.num_feature()
        super().__init__(n_features, feature_names, index_base, settings, training)

    def scores(self, X: Matrix, query_ptr: Integers | None = None) -> Vector:
        """Score the rows of a matrix with the right number of features."""
        X = check_matrix(X)
        check_finite(X, None)
        return np.asarray(self.booster.predict(library_matrix(X)), dtype=np.float64)

    def facts(self) -> dict[str, object]:
        """Return the number of trees."""
        return {"trees": self.booster.num_trees()}

    def columns(self) -> list[Column]:
        """Return the splits of each feature, and the sum of their gains in training."""
        splits, gains = (self.booster.feature_importance(kind) for kind in ("split", "gain"))
        return [
            Column("splits", np.asarray(splits, np.int64), "number of splits"),
            Column("gain", np.asarray(gains, np.float64), "sum of the gains of the splits"),
        ]

    def _parameters(self) -> Content:
        return {"text": self.text}

    @classmethod
    def _from_parameters(cls, content: Content, **shared: Any) -> Self:
        return cls(content["text"], **shared)
