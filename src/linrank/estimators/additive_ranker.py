"""`AdditiveRanker` and `AdditiveRankerCV`: rankers whose score is a sum of curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from .._util.checks import whole_number
from .._util.types import Vector
from ..choices import (
    BasisName,
    DeltaName,
    EndsName,
    MissingName,
    NormalizeName,
    RescaleName,
)
from ..counting.preferences import Delta
from ..data.categories import CategoriesLike
from ..data.ranking import RankingData
from ..errors import DataError
from ..features.basis import FormsLike
from ..losses.hinge_tables import LossName
from ..losses.loss import Loss
from ..model import AdditiveModel
from ..penalties import PenaltyName
from ..penalties.penalty import BoundsLike, Penalty
from ..training import Trainer, Training
from ..training.additive_trainer import (
    AVERAGED_FITS,
    TRIED_NORMALIZATIONS,
    TRIED_PENALTIES,
    AdditiveTrainer,
    Normalizations,
    tried_normalizations,
)
from ..training.selection import Criterion
from .trained import Splitter, TrainedRanker


@dataclass(kw_only=True, eq=False, repr=False)
class SumsCurves(TrainedRanker):
    """Parameters of the rankers whose model is an `AdditiveModel`."""

    trainer_class: ClassVar[type[Trainer]] = AdditiveTrainer
    has_weights: ClassVar[bool] = False
    takes_codes: ClassVar[bool] = True

    n_bins: int = 8
    basis: BasisName = "ramp"
    smooth: float = 10.0
    monotone: FormsLike = None
    categories: CategoriesLike = ()
    interactions: int = 0
    ends: EndsName = "flat"
    n_bags: int = 0
    loss: LossName | Loss = "logistic"
    rescale: RescaleName | None = "slack"
    delta: DeltaName | Delta = "gain"
    feature_cost: ArrayLike | None = None
    random_state: int | None = None
    normalize: NormalizeName | None = None
    scale: str | None = None
    bounds: BoundsLike = field(default=None, init=False)
    missing: MissingName | None = field(default=None, init=False)

    @property
    def takes_missing(self) -> bool:
        """Whether features may be NaN: always, because missing values have a bin of their own."""
        return True

    @property
    def feature_importances_(self) -> Vector:
        """The standard deviation of each curve over the training documents.

        Interactions are not part of it; see ``model_.largest``.
        """
        if not hasattr(self, "model_"):
            raise AttributeError("feature_importances_ is defined for fitted rankers only")
        importance = self.model_.columns()[-1].values[: self.model_.n_features]
        return importance.astype(np.float64)

    def _trainer(self, **more: Any) -> Trainer:
        whole_number("n_bags", self.n_bags, least=0)  # here, because a fit may take long
        return super()._trainer(**more)

    def _store(self, training: Training, data: RankingData, trainer: Trainer) -> None:
        if self.n_bags and not training.interrupted:
            assert isinstance(trainer, AdditiveTrainer)
            training = trainer.bagged(training, data, self.n_bags)
        super()._store(training, data, trainer)


@dataclass(kw_only=True, eq=False, repr=False)
class AdditiveRanker(SumsCurves):
    """Additive ranker: the score is Σ_f c_f(x_f), with a curve c_f for each feature.

    A curve is a broken line, a step function or a cubic spline, with knots at quantiles of the
    training data. With the rises θ of all curves from knot to knot, the ranker minimises

        Ω(θ) + C·Σ_(i,j) δ_ij·ℓ(s_i − s_j),      s_i = Σ_f c_f(x_if),

    over the pairs (i, j) of documents of one query with label i > label j. The objective is convex.
    Missing values (NaN) have a value of their own in each curve.

    Parameters
    ----------
    C : float
        The weight of the loss against the penalty.
    n_bins : int
        The number of intervals between the knots of a feature.
    basis : {"ramp", "step", "spline"}
        Broken lines, step functions, or cubic splines with continuous curvature.
    penalty : str or Penalty
        Ω: ``"l2"`` keeps all features; ``"group_l1"`` drops whole features; ``"l1"`` is the total
        variation of the curves, which makes them constant in most intervals. Others are those of
        `SparseRankSVM`.
    smooth : float
        s in ½·Σ_f (‖θ_f‖² + s·Σ_b (θ_f,b+1 − θ_f,b)²), the penalty ``"l2"`` of the rises. A larger
        s makes rises of neighbouring intervals more alike. The norm of ``"group_l1"`` is the same.
        Penalties of single rises, such as ``"l1"``, take no s. Curves with a form take none,
        either.
    monotone : mapping or sequence, optional
        The form of curves: a dict of features to forms, or one form per feature. Features are names
        or numbers as text, such as ``"12"``, as plots and exports show them. A form is 1 or
        ``"increasing"``, −1 or ``"decreasing"``, ``"convex"``, ``"concave"``, two of these words as
        in ``"increasing concave"``, or 0 for any curve.
    categories : sequence of features, or str
        Features whose values have no order: numbers, or columns of text. Each value in the training
        data has a weight of its own; new values have the mean. ``"onehot"`` and ``"hash"`` turn all
        columns of text into features that are 0 or 1; see `RankingData.from_frame`.
    interactions : int
        The largest number of pairs of features that have a common part in the score, at most 50. A
        screen of all pairs finds them, and a group penalty drops those that do not lower the loss.
    ends : {"flat", "linear"}
        Curves beyond the range of the training data: constant, or along the last line.
    n_bags : int
        The number of fits on resampled queries, from which the curves get bands. 0: no bands.
    scale : {None, "query", "both"}
        ``"query"`` scales each feature to the range from 0 to 1 within each query, before the
        curves. ``"both"`` gives each feature two curves: of its value, and of its place between the
        lowest and the highest value of the query. Raw features of web search need one of them.
        Other scales do not change the curves. `predict` then needs `qid`.
    loss, tol, solver, counting, pairs, rescale, delta, normalize, max_iter, n_threads, engine, \
verbose, random_state
        See `RankSVM`. The defaults were chosen on the validation parts of MQ2007 and MQ2008
        together.
    shape : float, optional
        The parameter of the penalty, such as the share of l1 in ``"elastic_net"``.
    feature_cost : array of shape (n_features,), optional
        The cost of each feature in the penalty.

    Attributes
    ----------
    model_ : AdditiveModel
        The curves, in the form that is saved: ``ranker.model_.save("model.json")``. Its `plot`
        draws them.
    result_ : Result
        Status, objective and history of the solver, and a message that summarises them.
    valid_score_ : float
        NDCG@10 on the held-out data, if `fit` got any.
    n_pairs_, n_queries_, n_iter_, n_features_in_, n_empty_queries_ : int
    feature_names_in_ : array of str
        The column names of X, if it has any.

    Examples
    --------
    >>> import numpy as np
    >>> from linrank import AdditiveRanker, RankSVM
    >>> X = np.random.default_rng(0).normal(size=(600, 3))
    >>> y, qid = -np.abs(X[:, 0]), np.repeat(np.arange(60), 10)  # the best values are near 0
    >>> bent = AdditiveRanker(C=0.1).fit(X, y, qid=qid)
    >>> round(bent.score(X, y, qid=qid, metric="kendall"), 1)
    0.9
    >>> bent.model_.curves[0](np.array([-2.0, 0.0, 2.0])).argmax()
    np.int64(1)
    """

    C: float = field(default=1.0, kw_only=False)
    penalty: PenaltyName | Penalty = "l2"
    shape: float | None = None


@dataclass(kw_only=True, eq=False, repr=False)
class AdditiveRankerCV(SumsCurves):
    """Additive ranker with penalty and C chosen by a ranking metric.

    For each penalty, fits with increasing C start from the solution for the previous C. They are
    compared on held-out data, or by query folds.

    Parameters
    ----------
    Cs : sequence of float, optional
        The grid. By default 14 values around the C at which loss and penalty have the same
        curvature; for penalties that select features, 12 values from the first useful one on. The
        grid is extended while the best C is at one of its ends.
    penalties : sequence of str or Penalty
        The penalties that are tried.
    normalize : {None, "pairs", "queries"} or sequence of them
        What the loss is divided by; see `RankSVM`. By default, None and ``"queries"`` are tried
        with each penalty. Interactions take the first one only.
    average : int
        The model is the mean of that many fits of each penalty and `normalize`, those with the best
        metric. It depends less on chance than the single best fit, which is the model if `average`
        is 1.
    metric, cv
        See `RankSVMCV`.
    n_bins, basis, smooth, monotone, categories, interactions, ends, n_bags, scale, loss, tol, \
solver, counting, pairs, rescale, delta, feature_cost, max_iter, n_threads, engine, verbose, \
random_state
        See `AdditiveRanker`.

    Attributes
    ----------
    C_, penalty_ : float and str
        The C and the penalty of the best fit.
    best_score_, best_params_, cv_results_, metric_path_, path_
        See `RankSVMCV`. They describe the path of that penalty.
    model_, n_pairs_, n_queries_
        See `AdditiveRanker`.
    result_ : Result
        The best fit.

    Examples
    --------
    >>> from linrank import AdditiveRankerCV, make_ranking
    >>> data = make_ranking(random_state=0)
    >>> known = data.qid <= 75  # train on 75 queries, and choose on the other 25
    >>> held_out = data.X[~known], data.y[~known], data.qid[~known]
    >>> ranker = AdditiveRankerCV()
    >>> _ = ranker.fit(data.X[known], data.y[known], qid=data.qid[known], valid=held_out)
    >>> ranker.penalty_ in ("l2", "group_l1"), ranker.C_ in ranker.path_.Cs
    (True, True)
    """

    chooses: ClassVar[bool] = True

    Cs: Sequence[float] | None = field(default=None, kw_only=False)
    penalties: Sequence[PenaltyName | Penalty] = TRIED_PENALTIES
    normalize: Normalizations = TRIED_NORMALIZATIONS  # type: ignore[assignment]
    average: int = AVERAGED_FITS
    metric: str = "ndcg@10"
    cv: Splitter = 5

    def _trainer(self, **more: Any) -> Trainer:
        first = tried_normalizations(self.normalize, self.interactions)[0]
        return super()._trainer(**{"normalize": first} | more)

    def _trainers(self, criterion: Criterion) -> list[Trainer]:
        """Return a trainer for each penalty and each normalisation."""
        if isinstance(self.penalties, str) or not len(self.penalties):
            raise DataError(
                f"penalties is {self.penalties!r}; expected a list of penalties, such as "
                "['l2', 'group_l1']"
            )
        shared = {"criterion": criterion, "memory": []}
        return [
            self._trainer(penalty=penalty, normalize=normalize, **shared)
            for normalize in tried_normalizations(self.normalize, self.interactions)
            for penalty in self.penalties
        ]

    def _store(self, training: Training, data: RankingData, trainer: Trainer) -> None:
        self.penalty_ = training.model.settings["penalty"]["name"]
        self.best_params_["penalty"] = self.penalty_
        super()._store(training, data, trainer)

    def path_models(self, data: RankingData) -> Sequence[AdditiveModel]:
        """Return the model for each C of `path_`, given the training data again."""
        assert self.path_ is not None
        names = ("penalty", "normalize")
        chosen = [self.model_.settings[name] for name in names]
        for trainer in self._trainers(Criterion(self.metric)):
            assert isinstance(trainer, AdditiveTrainer)
            described = trainer.describe(self.C_)
            if [described[name] for name in names] == chosen:
                return trainer.models(data, self.path_, self.n_pairs_)
        raise DataError(
            "penalties or normalize was changed after the fit, which chose "
            f"penalty={self.penalty_!r} and normalize={chosen[1]!r}. Fit the ranker again."
        )
