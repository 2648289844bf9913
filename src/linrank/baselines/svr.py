"""`LinearSVRRanker`: linear support vector regression of the labels."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVR

from .._util.checks import choice
from .._util.types import Vector
from ..data.ranking import RankingData
from ..data.validation import Matrix
from ..errors import NotConvergedWarning
from ..estimators.ranker import library_matrix
from ..features.preprocessing import warn_of_given_scales
from ..model import LinearModel
from .baseline import PointwiseRanker, sentences_of

LossName: TypeAlias = Literal["squared", "absolute"]

#: LIBLINEAR's names of the losses.
LOSSES: dict[LossName, str] = {
    "squared": "squared_epsilon_insensitive",
    "absolute": "epsilon_insensitive",
}


@dataclass(kw_only=True, eq=False, repr=False)
class LinearSVRRanker(PointwiseRanker):
    """Linear support vector regression of the labels.

    Minimises, over all documents i,

        ½‖w‖² + C·Σ_i |w'x_i − y_i|^p,    p = 2 (L2 loss) or p = 1 (L1 loss)

    (Lee & Lin 2014, §4.5; Ho & Lin 2012, with ε = 0). This class wraps scikit-learn's LIBLINEAR,
    which uses TRON in the primal for p = 2 and coordinate descent in the dual for p = 1.

    As in LIBLINEAR by default, there is no intercept. An intercept would not change a ranking,
    but it would change the other weights. Adding a constant to all labels therefore changes the
    result, unlike for RankSVM.

    Parameters
    ----------
    C : float
        Weight of the loss.
    loss : {"squared", "absolute"}
        L2 loss (p = 2) or L1 loss (p = 1).
    tol : float
        Tolerance of LIBLINEAR's stopping rule.
    max_iter : int
        Largest number of iterations.
    n_threads : int, optional
        Number of threads for checks and scores. LIBLINEAR uses one thread.
    random_state : int or RandomState, optional
        Seed of the order of the documents in dual coordinate descent.

    Attributes
    ----------
    coef_ : float64 array of shape (n_features,)
    model_ : LinearModel
        Model with the same weights, which can be saved: ``ranker.model_.save("model.json")``.
    n_queries_, n_iter_, n_features_in_ : int
    feature_names_in_ : array of str
        Column names of X, if it had any.

    Examples
    --------
    >>> from linrank import make_ranking
    >>> from linrank.baselines import LinearSVRRanker
    >>> data = make_ranking(random_state=0)
    >>> known = data.qid <= 75  # train on 75 queries; 25 are held out
    >>> ranker = LinearSVRRanker(C=0.01)
    >>> _ = ranker.fit(data.X[known], data.y[known], qid=data.qid[known])
    >>> ranker.score(data.X[~known], data.y[~known], qid=data.qid[~known]) > 0.8
    True
    """

    has_weights: ClassVar[bool] = True

    C: float = field(default=1.0, kw_only=False)
    loss: LossName = "squared"
    tol: float = 1e-3
    max_iter: int = 1000
    n_threads: int | None = None
    random_state: int | np.random.RandomState | None = None

    def fit(
        self,
        X: ArrayLike | Matrix | RankingData,
        y: ArrayLike | None = None,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> LinearSVRRanker:
        """Fit the weights.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_docs, n_features)
        y : array of shape (n_docs,)
            Labels: any real numbers; larger is more relevant.
        qid : array of shape (n_docs,), optional
            Checked, but not used: the queries are ignored in training.
        sample_weight : array of shape (n_docs,), optional
            Factor of each document's loss. Weight 0 removes a document, and weight 2 has the
            effect of a second copy.
        """
        choice("loss", self.loss, LOSSES)
        data = self._pointwise_data(X, y, qid, sample_weight)
        warn_of_given_scales(data)
        self.n_iter_, self.coef_ = self._solve(data)
        if self.n_iter_ >= self.max_iter:
            warnings.warn(
                f"LIBLINEAR stopped at max_iter = {self.max_iter} iterations, before tol = "
                f"{self.tol:g} was reached. Increase max_iter, scale the features or decrease C.",
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

    def _solve(self, data: RankingData) -> tuple[int, Vector]:
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
        with warnings.catch_warnings(), sentences_of(TypeError, ValueError):
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(library_matrix(data.X), data.y, data.weight)
        return int(model.n_iter_), np.ravel(model.coef_)
