"""`ExplainsScores`: explanations of the scores of a fitted ranker."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted

from .._typing import Vector
from ..model import Explanation, LinearModel


class ExplainsScores:
    """Mixin of the rankers that have a linear model in `model_`."""

    model_: LinearModel

    @property
    def standardized_coef_(self) -> Vector | None:
        """Weights times the standard deviations of their features in the training data.

        They do not depend on the units of the features, so they say which features matter. None if
        the data have too many features for such statistics.
        """
        return self.model_.standardized_coef

    def explain(self, row: Any, documents: Any = None) -> Explanation:
        """Return the contribution of each feature to the score of one document.

        Parameters
        ----------
        row : array, sparse row, frame of one row, or mapping of names to values
            The features of the document.
        documents : array, sparse matrix or frame, optional
            The documents of its query. Only a ranker with ``scale="query"`` needs them.

        Returns
        -------
        Explanation
            Contributions, which are counted from the means of the training data.

        Examples
        --------
        >>> from linrank import RankSVM
        >>> ranker = RankSVM().fit([[2.0, 0.0], [0.0, 0.0], [1.0, 0.0]], [1, 0, 0])
        >>> found = ranker.explain([2.0, 5.0])
        >>> bool(abs(found.base + found.contributions.sum() - found.score) < 1e-12)
        True
        """
        check_is_fitted(self)
        return self.model_.explain(row, documents)

    def explain_pair(self, a: Any, b: Any, documents: Any = None) -> Explanation:
        """Return the contribution of each feature to the score of a minus the score of b.

        Parameters
        ----------
        a, b : arrays, sparse rows, frames of one row, or mappings of names to values
            The features of two documents of one query.
        documents
            See `explain`.

        Returns
        -------
        Explanation

        Examples
        --------
        >>> from linrank import RankSVM
        >>> ranker = RankSVM().fit([[2.0, 0.0], [0.0, 0.0], [1.0, 0.0]], [1, 0, 0])
        >>> found = ranker.explain_pair([1.0, 5.0], [2.0, 5.0])
        >>> found.score < 0, found.contributions[1]
        (True, np.float64(0.0))
        """
        check_is_fitted(self)
        return self.model_.explain_pair(a, b, documents)
