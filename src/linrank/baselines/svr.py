"""`LinearSVRRanker`: the labels by linear support vector regression."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVR
from sklearn.utils.metadata_routing import UNUSED

from .._checks import choice
from ..data.ranking import RankingData
from ..errors import NotConvergedWarning
from ..estimators.base import LinearRanker, library_matrix
from ..model import LinearModel
from .base import pointwise_data

LOSSES = {"squared": "squared_epsilon_insensitive", "absolute": "epsilon_insensitive"}


class LinearSVRRanker(LinearRanker):
    """Linear support vector regression of the labels.

    Minimises, over all documents i,

        ½‖w‖² + C·Σ_i |w'x_i − y_i|^p,    p = 2 (L2 loss) or p = 1 (L1 loss)

    (Lee & Lin 2014, §4.5; Ho & Lin 2012, with ε = 0) by scikit-learn's LIBLINEAR: TRON in
    the primal for p = 2, coordinate descent in the dual for p = 1. There is no intercept, as
    in LIBLINEAR by default: a ranking would not see it, but the weights learnt beside it
    would be others. So the labels' zero matters, where for RankSVM it does not.

    Parameters
    ----------
    C : float
    loss : {"squared", "absolute"}
    tol : float
        LIBLINEAR's ε.
    max_iter : int
    n_threads : int, optional
        Threads for checking and scoring; LIBLINEAR itself has one.
    random_state : int or RandomState, optional
        The order of the documents in the dual.

    Attributes
    ----------
    coef_ : float64 array of shape (n_features,)
    model_ : LinearModel
        The same weights in the form that is saved: ``ranker.model_.save("model.json")``.
    n_queries_, n_iter_, n_features_in_ : int
    feature_names_in_ : array of str
        Where X had column names.

    Examples
    --------
    >>> from linrank import make_ranking
    >>> from linrank.baselines import LinearSVRRanker
    >>> data = make_ranking(random_state=0)
    >>> known = data.qid <= 75  # the queries to learn from; 25 others remain
    >>> ranker = LinearSVRRanker(C=0.01)
    >>> _ = ranker.fit(data.X[known], data.y[known], qid=data.qid[known])
    >>> ranker.score(data.X[~known], data.y[~known], qid=data.qid[~known]) > 0.8
    True
    """

    __metadata_request__fit: ClassVar = {"query_weight": UNUSED}

    model_: LinearModel
    n_queries_: int

    def __init__(
        self,
        C: float = 1.0,
        *,
        loss: str = "squared",
        tol: float = 1e-3,
        max_iter: int = 1000,
        n_threads: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.C = C
        self.loss = loss
        self.tol = tol
        self.max_iter = max_iter
        self.n_threads = n_threads
        self.random_state = random_state

    def fit(self, X: Any, y: Any, qid: Any = None, sample_weight: Any = None) -> LinearSVRRanker:
        """Learn the weights.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_docs, n_features)
        y : array of shape (n_docs,)
            Labels: any real numbers; larger is more relevant.
        qid : array of shape (n_docs,), optional
            Checked, but not used: the regression does not see the queries.
        sample_weight : array of shape (n_docs,), optional
            Multiplies each document's loss: 0 is removal, 2 a second copy.
        """
        choice("loss", self.loss, LOSSES)
        data = pointwise_data(self, X, y, qid, sample_weight)
        self.n_iter_, self.coef_ = self._solve(data)
        if self.n_iter_ >= self.max_iter:
            warnings.warn(
                f"LIBLINEAR stopped at max_iter = {self.max_iter} iterations, before tol = "
                f"{self.tol:g} was reached.",
                NotConvergedWarning,
                stacklevel=2,
            )
        settings = {"method": "LinearSVRRanker", "C": self.C, "loss": self.loss, "tol": self.tol}
        self.model_ = LinearModel(
            self.coef_,
            feature_names=data.feature_names,
            settings=settings | {"max_iter": self.max_iter},
            training={"iterations": self.n_iter_, "queries": self.n_queries_},
        )
        return self

    def _solve(self, data: RankingData) -> tuple[int, np.ndarray]:
        model = LinearSVR(
            C=self.C,
            loss=LOSSES[self.loss],
            epsilon=0.0,
            dual=self.loss == "absolute",
            fit_intercept=False,
            tol=self.tol,
            max_iter=self.max_iter,
            random_state=self.random_state,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(library_matrix(data.X), data.y, data.weight)
        return int(model.n_iter_), np.ravel(model.coef_)
