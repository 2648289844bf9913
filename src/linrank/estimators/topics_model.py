"""`TopicsModel`: one weight vector per topic, in one model file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from scipy import sparse

from .._typing import Integers, Vector
from ..data.checks import Matrix, check_finite, check_matrix
from ..errors import DataError
from ..model import Column, Content, Model, matrix_parts, read_matrix


class TopicsModel(Model):
    """Model with the scores ``w_t'x`` of each topic t.

    Parameters
    ----------
    coef : CSR array of shape (n_topics, n_features)
    topics : sequence of str
        The name of each topic.
    feature_names, index_base, settings, training
        As in `linrank.LinearModel`.

    Examples
    --------
    >>> TopicsModel(np.eye(2), ["sport", "politics"]).predict([[2.0, 1.0]]).tolist()
    [[2.0, 1.0]]
    """

    format = "linrank-topics"

    def __init__(
        self,
        coef: Matrix,
        topics: Sequence[str],
        *,
        feature_names: Sequence[str] | None = None,
        index_base: int = 1,
        settings: Mapping[str, object] | None = None,
        training: Mapping[str, object] | None = None,
    ) -> None:
        self.coef = sparse.csr_array(check_matrix(coef)).astype(np.float64)
        self.topics = [str(topic) for topic in topics]
        if len(self.topics) != self.coef.shape[0]:
            raise DataError(
                f"topics has {len(self.topics)} names for {self.coef.shape[0]} weight vectors"
            )
        super().__init__(self.coef.shape[1], feature_names, index_base, settings, training)

    def scores(self, X: Matrix, query_ptr: Integers | None = None) -> Vector:
        """Return the scores of all topics, of shape (n_docs, n_topics)."""
        check_finite(X, None)
        scores = X @ self.coef.T
        return np.asarray(scores.toarray() if sparse.issparse(scores) else scores, np.float64)

    def facts(self) -> dict[str, object]:
        """Return the numbers of topics and of weights that are not 0."""
        return {"topics": len(self.topics), "weights": self.coef.nnz}

    def columns(self) -> list[Column]:
        """Return in how many topics each feature has a weight, and the sum of their sizes."""
        feature, size = self.coef.indices, np.abs(self.coef.data)
        return [
            Column("topics", np.bincount(feature, minlength=self.n_features), "number of topics"),
            Column(
                "total_weight", np.bincount(feature, size, minlength=self.n_features),
                "sum of the absolute weights in all topics",
            ),
        ]  # fmt: skip

    def _parameters(self) -> Content:
        return {"topics": self.topics, **matrix_parts(self.coef)}

    @classmethod
    def _from_parameters(cls, content: Content, **shared: Any) -> Self:
        topics = content["topics"]
        if not isinstance(topics, list) or not all(isinstance(topic, str) for topic in topics):
            raise DataError("topics is not a list of names")
        return cls(read_matrix(content, (len(topics), content["n_features"])), topics, **shared)
