"""Files that rank documents: models, scores and runs; and the data whose documents they rank."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..errors import about
from ._io import looks_like_model, read_data, read_for

if TYPE_CHECKING:
    from .._typing import Vector
    from ..data.ranking import RankingData
    from ..model import Model
    from ._input import Input

FileKind = Literal["model", "qrels", "run", "other"]


def kind_of(path: Path) -> FileKind:
    """Tell what a file holds by its first line; "other" are scores and data."""
    from ..data.trec import looks_like_qrels, looks_like_run

    if looks_like_model(path):
        return "model"
    if looks_like_qrels(path):
        return "qrels"
    return "run" if looks_like_run(path) else "other"


def find_model(path: Path) -> Model | None:
    """Return the model in a file; None for a file of scores."""
    if not looks_like_model(path):
        return None
    from ..model import load_model

    return load_model(path)


class Documents:
    """Data that models and score files rank. Models with the same features share one reading.

    Parameters
    ----------
    path : Path
    inputs : Input
        The columns of tables, and names for the features of LETOR text.
    **options
        Options of `linrank.load`.
    """

    def __init__(self, path: Path, inputs: Input, **options: Any) -> None:
        self.path = path
        self._inputs = inputs
        self._options = options
        self._readings: dict[object, RankingData] = {}

    def read(self, model: Model | None = None) -> RankingData:
        """Return the data with the features of a model, or with any features for None."""
        if model is None:
            if not self._readings:
                self._readings[None] = read_data(self.path, self._inputs, **self._options)
            return next(iter(self._readings.values()))
        names = None if model.feature_names is None else tuple(model.feature_names)
        key = (names, model.n_features, model.index_base, model.fills)
        if key not in self._readings:
            self._readings[key] = read_for(model, self.path, self._inputs, **self._options)
        return self._readings[key]

    def score(self, file: Path, model: Model | None) -> Vector:
        """Return the scores of a model or of a score file, in the row order of the data."""
        from ..data.scores import read_scores

        data = self.read(model)
        if model is not None:
            with about(self.path):
                return model.predict(data.X, data.qid)
        values = read_scores(file, data.n_docs)
        return values if data.order is None else values[data.order]
