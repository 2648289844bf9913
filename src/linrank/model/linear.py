"""`LinearModel`: weights, and what is done to the features before they are weighted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from .._lazy import lazy_property
from .._maps import check_maps
from .._rows import multiply
from .._threads import resolve_threads, run
from .._typing import Array, Integers, Vector
from ..data.checks import MAX_FEATURES, Matrix
from ..errors import DataError
from ..features.preprocessing import BLOCK_ENTRIES, Preprocessing, lowest_scores
from ..features.summary import FAR, FeatureSummary, warn_of_range
from .base import Model
from .files import Content, numbers
from .shown import Column
from .terms import Term, terms_of

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline


LARGEST = np.finfo(float).max


class _Near(NamedTuple):
    """Values x of a row that are near the training range: |(x − centre)·per_width| ≤ 1."""

    centre: Vector
    per_width: Vector  # 0 for features without a limit


class LinearModel(Model):
    """Linear model with the score ``w'x``, where x may be preprocessed.

    Parameters
    ----------
    coef : array of shape (n_features,)
        Weights w of the features after `preprocessing`.
    feature_names : sequence of str, optional
    index_base : {0, 1}
        Number of the first feature in the LETOR files that the model was trained on.
    settings : mapping, optional
        Parameters of the training.
    training : mapping, optional
        Outcome of the training, such as the number of iterations.
    preprocessing : Preprocessing, optional
        What is done to the features before they are weighted.
    summary : FeatureSummary, optional
        Statistics of the features in the training data.

    Attributes
    ----------
    coef : float64 array of shape (n_features,)
        Weights of the given features. Scaling is folded into them. With a logarithm or limits, they
        multiply the value after these steps. With scaling by query, they are the weights of the
        scaled features.
    missing : float64 array of shape (n_features,) or None
        The part of each feature in the score if its value is missing; NaN if that is refused.
    scaled_coef : float64 array
        Weights of the features after `preprocessing`, as the solver found them.

    Examples
    --------
    >>> model = LinearModel([1.0, -0.5], feature_names=["bm25", "length"])
    >>> model.predict([[2.0, 1.0], [1.0, 4.0]]).tolist()
    [1.5, -1.0]
    >>> model.predict({"length": 1.0, "bm25": 2.0}).tolist()
    [1.5]
    >>> model.largest(1)
    [('bm25', 1.0)]
    """

    format = "linrank-model"
    most_features = MAX_FEATURES  # the file holds a weight for each of them
    is_additive = True

    def __init__(
        self,
        coef: ArrayLike,
        *,
        feature_names: Sequence[str] | None = None,
        index_base: int = 1,
        settings: Mapping[str, object] | None = None,
        training: Mapping[str, object] | None = None,
        preprocessing: Preprocessing | None = None,
        summary: FeatureSummary | None = None,
    ) -> None:
        try:
            self.scaled_coef: Vector = np.array(coef, dtype=np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            raise DataError(f"coef cannot be read as numbers: {error}") from None
        if self.scaled_coef.ndim != 1 or not np.isfinite(self.scaled_coef).all():
            raise DataError("coef must be a vector of finite numbers")
        self.preprocessing = preprocessing
        self.summary = summary
        self.coef: Vector = self.scaled_coef
        self.missing: Vector | None = None
        n_features = len(self.scaled_coef)
        if preprocessing is not None:
            if n_features != preprocessing.n_outputs:
                raise DataError(
                    f"coef has {n_features} weights, but preprocessing gives "
                    f"{preprocessing.n_outputs} features. Use one weight per feature."
                )
            self.coef, self.missing = preprocessing.fold(self.scaled_coef)
            n_features = preprocessing.n_features
        super().__init__(n_features, feature_names, index_base, settings, training)

    @classmethod
    def from_pipeline(cls, pipe: Pipeline) -> LinearModel:
        """Make the model of a fitted scikit-learn pipeline that ends with a linear ranker.

        Scalers, `SimpleImputer`, feature selectors and a `ColumnTransformer` of these are folded
        into the weights. Other steps are refused by name.

        Examples
        --------
        >>> from linrank import RankSVM
        >>> from sklearn.pipeline import make_pipeline
        >>> from sklearn.preprocessing import StandardScaler
        >>> pipe = make_pipeline(StandardScaler(), RankSVM()).fit([[10.0], [30.0]], [0, 1])
        >>> model = LinearModel.from_pipeline(pipe)
        >>> bool(np.ptp(pipe.predict([[10.0], [30.0]]) - model.predict([[10.0], [30.0]])) < 1e-9)
        True
        """
        from .pipeline import fold_pipeline

        return fold_pipeline(pipe)

    @property
    def needs_qid(self) -> bool:
        """Whether features are scaled within each query."""
        return self.preprocessing is not None and self.preprocessing.by_query

    @property
    def is_linear(self) -> bool:
        """Whether scores are ``X @ coef`` for documents without missing values."""
        return self.preprocessing is None or self.preprocessing.is_linear

    @property
    def fills(self) -> bool:
        """Whether missing values of some features are replaced."""
        return self.missing is not None

    @property
    def version(self) -> int:
        """The oldest layout of model files that can hold this model."""
        return 1 if self.preprocessing is None else 2

    def with_coef(self, coef: ArrayLike, **training: object) -> LinearModel:
        """Return a copy with other weights, and with more entries in `training`."""
        return LinearModel(
            coef,
            feature_names=self.feature_names,
            index_base=self.index_base,
            settings=self.settings,
            training=self.training | training,
            preprocessing=self.preprocessing,
            summary=self.summary,
        )

    def predict(self, X: Any, qid: ArrayLike | None = None) -> Vector:
        """Score documents; higher is better. See `Model.predict`.

        A `FeatureRangeWarning` names features that are far outside the range of the training data.
        """
        # One document takes little longer than a product in numpy, because servers score single
        # rows. The distance of a row is NaN if a value is NaN or infinite.
        if type(X) is np.ndarray and X.shape in self._one_row and X.dtype.char in "df":
            row = X.reshape(-1)
            distance = (row - self._near.centre) * self._near.per_width
            if distance.dot(distance) <= 1.0 or np.abs(distance).max() <= 1.0:
                scores = np.dot(row[None], self.coef)
                if -LARGEST <= scores[0] <= LARGEST:
                    return scores
        return super().predict(X, qid)

    def scores(self, X: Matrix, query_ptr: Integers | None = None) -> Vector:
        """Score the rows of a matrix with the right number of features."""
        if self.preprocessing is None or (self.is_linear and self.missing is None):
            return _product(X, self.coef)
        if not (self.needs_qid or sparse.issparse(X)):
            return self._scores_of_values(X)
        # Preprocessed values in single precision would give other scores than the exports.
        rows = self.preprocessing.apply(X.astype(np.float64, copy=False), query_ptr)
        scores = _product(rows, self.scaled_coef)
        if not sparse.issparse(X):
            return scores
        if query_ptr is not None and self.needs_qid:
            return scores - lowest_scores(rows, self.scaled_coef[: self.n_features], query_ptr)
        return scores + float(self.coef @ self.preprocessing.at_zero())

    def _scores_of_values(self, X: Matrix) -> Vector:
        """Return the scores of dense rows with a logarithm, limits or missing values."""
        steps, scores = self.preprocessing, np.empty(X.shape[0])
        assert steps is not None
        of_indicators = self.scaled_coef[self.n_features :]
        block = max(1, BLOCK_ENTRIES // self.n_features)

        def score(first: int) -> None:
            rows = X[first : first + block]
            part = steps.transformed(rows) @ self.coef
            part += np.isnan(rows[:, steps.indicators]) @ of_indicators
            scores[first : first + block] = part

        run(score, [(first,) for first in range(0, X.shape[0], block)], resolve_threads())
        return scores

    def _checked_scores(self, X: Matrix, query_ptr: Integers | None) -> Vector:
        scores = super()._checked_scores(X, query_ptr)
        if self.summary is not None:
            warn_of_range(X, self.summary, self.used, self.names)
        return scores

    def _filled(self, X: Matrix) -> Matrix:
        return X if self.preprocessing is None else self.preprocessing.filled(X)

    @lazy_property
    def _one_row(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of an array that `predict` may multiply by `coef` as one document."""
        return ((self.n_features,), (1, self.n_features)) if self.is_linear else ()

    @lazy_property
    def used(self) -> Integers:
        """The features that have a part in the score, as numbers from 0 on."""
        used = self.scaled_coef[: self.n_features] != 0
        if self.missing is not None:
            used |= np.nan_to_num(self.missing) != 0
        return np.flatnonzero(used)

    @lazy_property
    def _near(self) -> _Near:
        """The values that are within `FAR` widths of the training range, of features in use."""
        if self.summary is None:
            return _Near(np.zeros(self.n_features), np.zeros(self.n_features))
        low, high, per_width = self.summary.minimum, self.summary.maximum, np.zeros(self.n_features)
        with np.errstate(over="ignore", divide="ignore"):
            per_width[self.used] = 1.0 / ((FAR + 0.5) * (high - low)[self.used])
        return _Near(0.5 * low + 0.5 * high, np.where(high > low, per_width, 0.0))

    def largest(self, n: int) -> list[tuple[str, float]]:
        """Return names and weights of the n features with the largest absolute weights."""
        order = np.argsort(-np.abs(self.coef), kind="stable")[:n]
        return [(self.part_name(f), float(self.coef[f])) for f in order.tolist()]

    @property
    def standardized_coef(self) -> Vector | None:
        """Weights times the standard deviations of their features; None if these are not known.

        They do not depend on the units of the features, so they say which features matter.
        """
        return None if self.summary is None else self.coef * self.summary.deviation

    @property
    def mean_parts(self) -> Vector | None:
        """The part of each feature in the score at the training means; None if not known."""
        return None if self.summary is None else self.coef * self.summary.mean

    def parts(self, X: Array, documents: Array | None = None) -> Vector:
        """Return the part of each feature in the scores of some rows. See `Model.parts`."""
        steps = self.preprocessing
        if steps is None:
            return X.astype(np.float64) * self.coef
        if self.needs_qid:
            rows = X if documents is None else np.vstack([documents, X])
            scaled = steps.apply(rows.astype(np.float64))[-len(X) :] * self.scaled_coef
            parts, of_indicators = scaled[:, : self.n_features], scaled[:, self.n_features :]
            parts[:, steps.indicators] += of_indicators
            return parts
        parts = steps.transformed(X) * self.coef
        return parts if self.missing is None else np.where(np.isnan(X), self.missing, parts)

    def facts(self) -> dict[str, object]:
        """Return what is done to the features before they are weighted, in words."""
        return {} if self.preprocessing is None else {"preprocessing": self.preprocessing.words()}

    def columns(self) -> list[Column]:
        """Return the weights and, if the deviations are known, the standardised weights."""
        unit = "range of the feature in its query" if self.needs_qid else "unit of the feature"
        found = [Column("weight", self.coef, f"weight (score per {unit})")]
        if self.standardized_coef is not None:
            meaning = "standardised weight (score per standard deviation of the feature)"
            found.append(Column("standardized_weight", self.standardized_coef, meaning))
        return found

    def terms(self) -> list[Term]:
        """Return the parts of the features that have one in the score, in the order of features.

        The sum of the parts is the score. A model that scales within queries has no such form, and
        raises a `DataError`.

        Examples
        --------
        >>> LinearModel([0.0, 2.0], feature_names=["a", "b"]).terms()[0][:3]
        ('b', 2.0, False)
        """
        return terms_of(self)

    def _parameters(self) -> Content:
        content: Content = {"weights": self.coef.tolist()}
        if self.preprocessing is not None:
            content["scaled_weights"] = self.scaled_coef.tolist()
            content["preprocessing"] = self.preprocessing.describe()
        if self.summary is not None:
            content["summary"] = {name: v.tolist() for name, v in vars(self.summary).items()}
        return content

    @classmethod
    def _from_parameters(cls, content: Content, **shared: Any) -> Self:
        steps = content.get("preprocessing")
        if steps is not None:
            shared["preprocessing"] = Preprocessing.from_description(steps)
        if content.get("summary") is not None:
            shared["summary"] = FeatureSummary.from_content(
                content["summary"], content["n_features"]
            )
        name = "weights" if steps is None else "scaled_weights"
        model = cls(numbers(content, name), **shared)
        if model.n_features != content["n_features"]:
            raise DataError(
                f"{model.n_features} weights where n_features is {content['n_features']}. Use one "
                "weight per feature."
            )
        weights = np.array(numbers(content, "weights"), dtype=np.float64)
        same = weights.shape == model.coef.shape and np.allclose(
            model.coef, weights, rtol=1e-6, atol=0.0
        )
        if not same:
            raise DataError("weights and scaled_weights contradict each other")
        return model


def _product(X: Matrix, w: Vector) -> Vector:
    """Return Xw. BLAS takes any layout of a dense X, but only double precision without a copy."""
    if sparse.issparse(X) or (X.dtype != np.float64 and X.flags.c_contiguous):
        return multiply(X, w)
    check_maps(X)
    return np.asarray(X @ w, dtype=np.float64)
