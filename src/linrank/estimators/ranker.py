"""`Ranker`: the base class of all rankers, and checks of their arguments."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.utils import Tags, check_array
from sklearn.utils.validation import check_is_fitted, column_or_1d

from .._util.parallel import resolve_threads
from .._util.types import Array, Integers, Vector
from ..data.categories import Categories
from ..data.columns import QID
from ..data.frames import (
    column_values,
    frame_columns,
    frame_features,
    given_columns,
    is_frame,
)
from ..data.matching import matched_frame, no_valid_names
from ..data.pairs import Pairs, listed_pairs
from ..data.ranking import RankingData
from ..data.validation import Matrix, check_finite, check_kind, check_matrix, group_by_query
from ..errors import DataError, ForgottenQueriesWarning, SwappedArgumentsWarning, warn
from ..matrix.rows import multiply
from ..metrics import parse_metric, preference_accuracy
from ..model import Explanation, Model, load_model

if TYPE_CHECKING:
    from ..export import TargetName

# --------------------------------------------------------------------------------------------------
# Features of an estimator: any form of X as a matrix, and the names and number of its columns.


DTYPES = [np.float64, np.float32]  #: precisions in which X is used without a copy


def checked_features(
    estimator: BaseEstimator, X: Any, *, reset: bool = True, name: str = "X", **how: Any
) -> Matrix:
    """Return X as scikit-learn checks it, like its `validate_data`, but with names of any type.

    Parameters
    ----------
    estimator : estimator
    X : array, sparse matrix or frame
        The columns of a frame are its features, by any name; see `linrank.data.matching.matched`.
    reset : bool
        Whether to store `n_features_in_` and `feature_names_in_`. Otherwise X must have the stored
        features.
    name : str
        What errors call X.
    **how
        Options of scikit-learn's `check_array`. NaN and infinity are allowed by default.
    """
    is_framed = is_frame(X, name)
    names = frame_columns(X, name) if reset and is_framed else None
    if reset:
        estimator._categories = Categories()
        if is_framed:
            wanted = getattr(estimator, "categories", None)
            found = frame_features(X, list(map(str, given_columns(X))), wanted)
            X, estimator._categories = found.X, found.categories
            names = found.names if names is not None or found.categories.columns else None
    elif is_framed:
        X = matched_features(estimator, X, name)
    elif hasattr(estimator, "feature_names_in_"):
        warn(no_valid_names(name, type(estimator).__name__), UserWarning)
    X = _numbers(estimator, X, name, how)
    if reset:
        estimator.n_features_in_ = X.shape[1]
        store_names(estimator, names)
    elif X.shape[1] != estimator.n_features_in_:
        raise DataError(
            f"{name} has {X.shape[1]} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input"
        )
    return X


def matched_features(estimator: BaseEstimator, X: Any, name: str = "X") -> Any:
    """Return X; a frame becomes a matrix with the features of a fitted estimator."""
    if not is_frame(X):
        return X
    expected = getattr(estimator, "feature_names_in_", None)
    return matched_frame(
        X, None if expected is None else list(expected), estimator.n_features_in_,
        getattr(estimator, "_categories", Categories()), name, type(estimator).__name__,
    )  # fmt: skip


def store_names(estimator: BaseEstimator, names: list[str] | None) -> None:
    """Set `feature_names_in_`, or delete it if there are no names, as scikit-learn does."""
    estimator.__dict__.pop("feature_names_in_", None)
    if names is not None:
        estimator.feature_names_in_ = np.array(names, dtype=object)


class NotNumbersError(DataError, TypeError):
    """X holds objects that are not numbers; scikit-learn expects a `TypeError` for them."""


def _numbers(estimator: BaseEstimator, X: Any, name: str, how: dict[str, Any]) -> Matrix:
    """Return X as a matrix of real numbers, or raise an error of scikit-learn or a `DataError`."""
    options = {"dtype": DTYPES, "accept_sparse": "csr", "ensure_all_finite": False} | how
    try:
        X = np.asarray(X) if isinstance(X, list | tuple) else X
        check_kind(X, name)
        return check_array(X, estimator=estimator, input_name=name, **options)
    except TypeError as error:
        raise NotNumbersError(f"{name} cannot be read as numbers: {error}") from None
    except ValueError as error:
        if "could not convert" in str(error) or "array element with a sequence" in str(error):
            raise DataError(f"{name} cannot be read as numbers: {error}") from None
        raise


# --------------------------------------------------------------------------------------------------
# Mistakes in the arguments of `fit`.
#
# Some of them a fit would not notice: a forgotten `qid`, `y` in the place of `qid`, and the labels
# among the features.


GRADES = 5  #: labels 0, …, GRADES − 1 look like grades of relevance
LEAST_DOCS = 1000  #: documents from which a single query with grades looks like a forgotten qid
LEAST_IDS = 20  #: distinct values from which whole numbers look like query ids


def refuse_unknown(unknown: Mapping[str, Any]) -> None:
    """Raise a `TypeError` for arguments of `fit` that do not exist, such as ``groups=``."""
    for name in unknown:
        meant = "qid=, the query of each document"
        if "weight" in name:
            meant = "sample_weight= or query_weight="
        elif "quer" not in name and "group" not in name and "id" not in name:
            meant = "the arguments that the documentation of fit lists"
        raise TypeError(f"fit() has no argument {name!r}. Use {meant}.")


def check_arguments(X: Any, y: Any, qid: Any) -> None:
    """Raise a `DataError` for common mistakes in the arguments of `fit`."""
    if isinstance(X, str | os.PathLike):
        raise DataError(
            f"X is the path {os.fspath(X)!r}; expected features. Read the file first, as in "
            f"fit(linrank.load({os.fspath(X)!r}))."
        )
    if y is None:
        raise DataError(
            "fit requires y to be passed, but the target y is None. Pass the labels, as in "
            "fit(X, y, qid), or a RankingData, such as that of RankingData.from_frame."
        )
    if qid is None and QID in getattr(getattr(X, "index", None), "names", ()):
        raise DataError(
            f"the index of X has a level {QID!r}, but qid is None. Pass "
            f"qid=X.index.get_level_values({QID!r}), or rename the level."
        )
    _check_swapped_text(y, qid)
    _check_leak(X, y)


def _check_leak(X: Any, y: Any) -> None:
    """Raise a `DataError` if the labels are a column of a frame that has the features."""
    name = getattr(y, "name", None)
    if not isinstance(name, str) or name not in (frame_columns(X) or ()):
        return
    if np.array_equal(column_values(X, name), np.asarray(y)):
        raise DataError(
            f"X has a column {name!r} with the labels y, so the labels would be a feature. Leave "
            f"the column out, or use RankingData.from_frame(X, label={name!r})."
        )


def _check_swapped_text(y: Any, qid: Any) -> None:
    """Raise a `DataError` if y is text and qid holds numbers, because they look swapped."""
    if qid is None:
        return
    labels = np.asarray(y)
    first = labels.flat[0] if labels.size else None
    if not isinstance(first, str) or np.asarray(qid).dtype.kind not in "iufb":
        return
    try:
        float(first)
    except ValueError:
        raise DataError(
            f"y[0] is {str(first)[:40]!r}, but qid holds numbers. If y and qid are swapped, use "
            "fit(X, y, qid). Otherwise replace words by numbers; a larger label is more relevant."
        ) from None


def warn_of_swap(y: Array, qid: Any, call: str) -> None:
    """Warn if y and qid look swapped, and recommend a call.

    Then qid consists of two to five of the numbers 0, …, 4, with 0 among them, and its equal values
    are not adjacent. y consists of at least 20 different whole numbers, and its equal values are
    adjacent, as those of query ids are.
    """
    ids = np.asarray(qid)
    grades = _grades(ids)
    if grades is None or len(grades) < 2 or not _look_like_ids(y) or _n_runs(ids) == len(grades):
        return
    listed = ", ".join(f"{grade:g}" for grade in grades)
    warn(
        f"qid has only the values {listed}, as labels have, and y has {_n_runs(y):,} whole numbers "
        f"in blocks, as query ids have. If y and qid are swapped, use {call}.",
        SwappedArgumentsWarning,
    )


def warn_of_forgotten_qid(y: Array) -> None:
    """Warn if there is no qid, and the labels of many documents look like grades.

    There are at least 1000 documents, and their labels are three to five of the numbers 0, …, 4,
    with 0 among them. Two labels are a task for the AUC, and other labels are those of a
    regression, for which a single query is usual.
    """
    grades = _grades(y) if len(y) >= LEAST_DOCS else None
    if grades is None or len(grades) <= 2:
        return
    counts = np.bincount(y.astype(np.int64))
    n_pairs = (len(y) ** 2 - int((counts**2).sum())) // 2
    listed = ", ".join(f"{grade:g}" for grade in grades)
    warn(
        f"there is no qid, so all {len(y):,} documents are one query with {n_pairs:,} pairs. Their "
        f"labels {listed} look like grades of relevance within queries. Pass qid, or "
        "qid=np.zeros(len(y)) for one query.",
        ForgottenQueriesWarning,
    )


def _grades(values: Array) -> Array | None:
    """Return the distinct values if they are some of 0, …, 4 with 0 among them, and else None."""
    if values.dtype.kind not in "iuf" or values.ndim != 1 or not len(values):
        return None
    if values.min() != 0 or not values.max() < GRADES:
        return None
    found = np.unique(values)
    return found if (found == np.floor(found)).all() else None


def _look_like_ids(y: Array) -> bool:
    """Return whether y has many whole numbers, each in one block of adjacent rows."""
    n_runs = _n_runs(y)
    if n_runs < LEAST_IDS or y.dtype.kind not in "iuf" or not (y == np.floor(y)).all():
        return False
    return len(np.unique(y)) == n_runs


def _n_runs(values: Array) -> int:
    """Return the number of blocks of adjacent equal values."""
    return 1 + int(np.count_nonzero(values[1:] != values[:-1]))


# --------------------------------------------------------------------------------------------------
# Arguments in the manner of XGBoost and LightGBM, turned into those of linrank.
#
# These libraries give the queries as `group`, the number of documents of each query, and held-out
# data as `eval_set` with `eval_qid` or `eval_group`. Here, they are `qid` and `valid`.


#: Held-out data: (X, y, qid), (X, y) of one query, or a `RankingData`.
HeldOut: TypeAlias = (
    "tuple[Matrix, ArrayLike, ArrayLike | None] | tuple[Matrix, ArrayLike] | RankingData"
)
EvalSet: TypeAlias = "Sequence[tuple[Matrix, ArrayLike]]"


def queries(qid: Any, group: ArrayLike | None, rows: Any) -> Any:
    """Return the query of each of some rows, given as `qid` or as `group`.

    `rows` has one entry for each of them.

    Examples
    --------
    >>> queries(None, [2, 1], rows=[0.5, 0.25, 0.0]).tolist()
    [0, 0, 1]
    """
    if group is None:
        return qid
    if qid is not None:
        raise DataError("qid and group both give the queries. Leave out one of them.")
    if rows is None:
        raise DataError("group divides the rows of X and y into queries. Pass y, too.")
    return qid_of_group(group, np.size(rows))


def qid_of_group(group: ArrayLike, n_docs: int, name: str = "group") -> Integers:
    """Return the number of the query of each row, given the number of rows of each query."""
    try:
        sizes = np.asarray(group)
        whole = sizes.dtype.kind in "iuf" and bool((sizes == np.floor(sizes)).all())
    except ValueError:  # a list of lists of different lengths
        whole, sizes = False, np.empty(0)
    if not whole or sizes.ndim != 1 or not (sizes >= 1).all():
        raise DataError(
            f"{name} must be a list of the number of documents of each query, each at least 1"
        )
    if sizes.sum() != n_docs:
        hint = " It looks like a query id per row: pass it as qid." if len(sizes) == n_docs else ""
        raise DataError(
            f"{name} has {len(sizes):,} queries with {int(sizes.sum()):,} documents in total, but "
            f"X has {n_docs:,} rows.{hint or ' Use the number of documents of each query.'}"
        )
    return np.repeat(np.arange(len(sizes)), sizes.astype(np.int64))


def held_out(
    valid: HeldOut | None,
    eval_set: EvalSet | None,
    eval_qid: Sequence[Any] | None,
    eval_group: Sequence[ArrayLike] | None,
    has_qid: bool,
) -> HeldOut | None:
    """Return the held-out data, given as `valid` or as `eval_set`.

    `has_qid` says whether the training data have queries, so that the held-out data need them.
    """
    if eval_set is None:
        if eval_qid is not None or eval_group is not None:
            raise DataError("eval_qid and eval_group are the queries of eval_set. Pass eval_set.")
        return valid
    if valid is not None:
        raise DataError("valid and eval_set both give held-out data. Leave out one of them.")
    pairs = [eval_set] if isinstance(eval_set, tuple) else list(eval_set)
    if len(pairs) != 1 or len(pairs[0]) != 2:
        raise DataError(
            f"eval_set has {len(pairs)} entries; expected one pair, [(X, y)], because C is chosen "
            "on one set of held-out data"
        )
    X, y = pairs[0]
    qid, group = _only(eval_qid, "eval_qid"), _only(eval_group, "eval_group")
    if qid is not None and group is not None:
        raise DataError("eval_qid and eval_group both give the queries. Leave out one of them.")
    if group is not None:
        qid = qid_of_group(group, np.size(y), "eval_group[0]")
    if has_qid and qid is None:
        raise DataError(
            "the queries of eval_set are missing, but those of X are given. Pass eval_qid=[qid] or "
            "eval_group=[group]."
        )
    return X, y, qid


def _only(entries: Sequence[Any] | None, name: str) -> Any:
    """Return the entry for the only pair of `eval_set`."""
    if entries is None:
        return None
    if len(entries) != 1:
        raise DataError(
            f"{name} has {len(entries)} entries; expected a list with one entry, for the only pair "
            "of eval_set"
        )
    return entries[0]


# --------------------------------------------------------------------------------------------------
# Base class of all rankers: checks of the input, scores, ranks and the default metric.


class Ranker(BaseEstimator):
    """Base class of all rankers; subclasses implement `fit`.

    Scores are ``X @ coef_``, unless a subclass implements `_scores`.
    """

    uses_queries: ClassVar[bool] = True  #: whether queries matter in training
    chooses: ClassVar[bool] = False  #: whether `fit` chooses parameters, on `valid` if it is given
    has_weights: ClassVar[bool] = False  #: whether each feature has a weight in `coef_`
    takes_codes: ClassVar[bool] = False  #: whether features may hold codes without an order
    _categories = Categories()  # those of the training data

    # With metadata routing, scikit-learn passes these arguments on without `set_fit_request`.
    __metadata_request__fit: ClassVar = {"qid": True, "sample_weight": True}
    __metadata_request__predict: ClassVar = {"qid": True}
    __metadata_request__score: ClassVar = {"qid": True, "sample_weight": True}

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "ranker"
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.takes_missing
        return tags

    @property
    def takes_missing(self) -> bool:
        """Whether features may be NaN, which stands for a missing value."""
        return getattr(self, "missing", None) is not None

    @property
    def intercept_(self) -> float:
        """0, because a constant does not change a ranking.

        If the scores are not ``X @ coef_``, because features are scaled within queries or have a
        logarithm or limits, there is no such attribute. Explanations of ``X @ coef_`` would be
        wrong.
        """
        if not hasattr(self, "coef_") or not getattr(
            getattr(self, "model_", None), "is_linear", True
        ):
            raise AttributeError(
                "intercept_ is defined for fitted rankers whose scores are X @ coef_ only"
            )
        return 0.0

    @property
    def feature_importances_(self) -> Vector:
        """Absolute weights, times the standard deviations of the features if these are known.

        The products do not depend on the units of the features.
        """
        if not hasattr(self, "coef_"):
            raise AttributeError("feature_importances_ is defined for fitted rankers only")
        weights = getattr(getattr(self, "model_", None), "standardized_coef", None)
        return np.abs(self.coef_ if weights is None else weights)

    def predict(
        self, X: Matrix | RankingData, qid: ArrayLike | None = None, *,
        group: ArrayLike | None = None,
    ) -> Vector:  # fmt: skip
        """Score documents; a higher score is better.

        Only scores of documents of the same query can be compared.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_docs, n_features), or RankingData
            If the ranker was fitted on a frame, the columns of a frame are matched by name. Scores
            of a `RankingData` are in the order of its rows, which are grouped by query.
        qid : array of shape (n_docs,), optional
            The query of each document. Only rankers that scale features within queries need it.
        group : array of shape (n_queries,), optional
            The number of documents of each query, as in LightGBM; another form of `qid`.

        Returns
        -------
        scores : float64 array of shape (n_docs,)

        Examples
        --------
        >>> from linrank import RankSVM
        >>> ranker = RankSVM().fit([[1.0], [3.0], [2.0]], [0, 2, 1])
        >>> scores = ranker.predict([[5.0], [4.0]])
        >>> bool(scores[0] > scores[1])
        True
        """
        if qid is None and group is None and (scores := self._quick_scores(X)) is not None:
            return scores
        check_is_fitted(self)
        if isinstance(X, RankingData):
            refuse_arguments(qid=qid, group=group)
            self._check_features(X)
            return self._scores_of(X.X, X.qid)
        X = check_matrix(checked_features(self, X, reset=False))
        return self._scores_of(X, queries(qid, group, range(X.shape[0])))

    def decision_function(self, X: Matrix | RankingData, qid: ArrayLike | None = None) -> Vector:
        """Return the scores of `predict`, for functions of scikit-learn that expect this name.

        Parameters
        ----------
        X, qid
            See `predict`.

        Returns
        -------
        scores : float64 array of shape (n_docs,)

        Examples
        --------
        >>> from linrank import RankSVM
        >>> from sklearn.metrics import roc_auc_score
        >>> X, y = [[1.0], [3.0], [2.0], [4.0]], [0, 1, 0, 1]
        >>> float(roc_auc_score(y, RankSVM().fit(X, y).decision_function(X)))
        1.0
        """
        return self.predict(X, qid)

    def rank(
        self, X: Matrix | RankingData, qid: ArrayLike | None = None, *,
        group: ArrayLike | None = None,
    ) -> Integers:  # fmt: skip
        """Return the rank of each document in its query; rank 1 is the best.

        Documents with equal scores keep the order in which they are given.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_docs, n_features), or RankingData
        qid : array of shape (n_docs,), optional
            The query of each document. It is required if the ranker was fitted with `qid`.
            Otherwise, None puts all documents into one query.
        group : array of shape (n_queries,), optional
            The number of documents of each query, as in LightGBM; another form of `qid`.

        Returns
        -------
        ranks : int64 array of shape (n_docs,)

        Examples
        --------
        >>> from linrank import RankSVM
        >>> ranker = RankSVM().fit([[1.0], [3.0], [2.0]], [0, 2, 1])
        >>> ranker.rank([[1.0], [2.0], [3.0], [2.5]], qid=["a", "a", "b", "b"]).tolist()
        [2, 1, 1, 2]
        """
        scores = self.predict(X, qid, group=group)
        qid = X.qid if isinstance(X, RankingData) else queries(qid, group, scores)
        check_qid(self, qid, "rank")
        query_ptr, _, order = group_by_query(qid, len(scores))
        rows = np.arange(len(scores)) if order is None else order
        query = np.repeat(np.arange(len(query_ptr) - 1), np.diff(query_ptr))
        best_first = np.lexsort((-scores[rows], query))
        ranks = np.empty(len(scores), np.int64)
        ranks[rows[best_first]] = np.arange(len(scores)) - query_ptr[query] + 1
        return ranks

    def score(
        self,
        X: Matrix | RankingData,
        y: ArrayLike | None = None,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        metric: str = "ndcg@10",
        group: ArrayLike | None = None,
    ) -> float:
        """Return the mean of a metric over the queries, by default NDCG@10.

        See `linrank.ndcg` and the other metrics for their conventions.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_docs, n_features), or RankingData
            A `RankingData` has labels and queries, so `y` and `qid` are not given.
        y : array of shape (n_docs,)
            The label of each document.
        qid : array of shape (n_docs,), optional
            The query of each document. It is required if the ranker was fitted with `qid`.
        sample_weight : ignored
            Accepted because scikit-learn's pipelines pass it.
        metric : str
            ``"ndcg@10"``, ``"map"``, ``"pairwise-accuracy"``, …; see `linrank.parse_metric`.
        group : array of shape (n_queries,), optional
            The number of documents of each query, as in LightGBM; another form of `qid`.

        Returns
        -------
        float

        Examples
        --------
        >>> from linrank import RankSVM
        >>> X, y, qid = [[1.0], [3.0], [2.0], [5.0]], [0, 1, 0, 2], ["a", "a", "b", "b"]
        >>> ranker = RankSVM().fit(X, y, qid)
        >>> ranker.score(X, y, qid), ranker.score(X, y, qid, metric="pairwise-accuracy")
        (1.0, 1.0)
        """
        check_is_fitted(self)
        measure = parse_metric(metric)
        if isinstance(X, RankingData):
            refuse_arguments(y=y, qid=qid, group=group)
            return float(measure(X.y, self.predict(X), X.qid))
        if y is None:
            raise DataError("score needs the labels of the documents. Pass y.")
        qid = queries(qid, group, y)
        check_qid(self, qid, "score")
        return float(measure(y, self.predict(X, qid), qid))

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
        return self._fitted_model().explain(row, documents)

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
        return self._fitted_model().explain_pair(a, b, documents)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model of a fitted ranker as JSON; `linrank.load_ranker` reads it.

        The command line and `linrank.load_model` read the same file.

        Examples
        --------
        >>> import os, tempfile
        >>> from linrank import RankSVM, load_ranker
        >>> path = os.path.join(tempfile.mkdtemp(), "model.json")
        >>> RankSVM().fit([[1.0], [3.0], [2.0]], [0, 2, 1]).save(path)
        >>> load_ranker(path).rank([[5.0], [4.0]]).tolist()
        [1, 2]
        """
        self._fitted_model().save(path)

    def export(
        self, target: TargetName, path: str | os.PathLike[str] | None = None, **options: Any
    ) -> str | bytes:
        """Write the model in the form of a search engine, a database or a programming language.

        Parameters
        ----------
        target : str
            Such as ``"solr"``, ``"opensearch"``, ``"sql"`` or ``"onnx"``.
        path : path-like, optional
            File that is written.
        **options
            See `linrank.LinearModel.export`.

        Returns
        -------
        str or bytes
            The content of the file; bytes for ONNX.

        Examples
        --------
        >>> from linrank import SparseRankSVM, make_ranking
        >>> data = make_ranking(random_state=0)
        >>> ranker = SparseRankSVM().fit(data.X, data.y, qid=data.qid)
        >>> ranker.export("sql").startswith("0.23")
        True
        """
        return self._fitted_model().export(target, path, **options)

    def _fitted_model(self) -> Model:
        """Return what the ranker has learnt, in the form that is saved."""
        check_is_fitted(self)
        model: Model = self.model_
        return model

    def _quick_scores(self, X: Any) -> Vector | None:
        """Return the scores of a small array that needs no more checks, or else None."""
        return None

    def _scores_of(self, X: Matrix, qid: ArrayLike | None) -> Vector:
        """Return the scores of a checked matrix, which may depend on the queries of its rows."""
        return self._scores(X)

    def score_pairs(
        self,
        X: Matrix,
        pairs: ArrayLike | Pairs,
        pair_weight: ArrayLike | None = None,
        *,
        items: Sequence[Any] | None = None,
    ) -> float:
        """Return the share of pairs whose preferred document has the higher score.

        A pair of equal scores counts one half; see `linrank.preference_accuracy`.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_docs, n_features)
        pairs : integer array of shape (n_pairs, 2), array of names, Pairs or frame
            See `fit_pairs`.
        pair_weight : array of shape (n_pairs,), optional
            The default is the weight of a `Pairs`, or 1.
        items : sequence of shape (n_docs,), optional
            The name of each row of X.

        Returns
        -------
        float

        Examples
        --------
        >>> from linrank import RankSVM
        >>> ranker = RankSVM().fit([[1.0], [3.0], [2.0]], [0, 2, 1])
        >>> X, names = [[1.0], [2.0], [3.0]], ["A", "B", "C"]
        >>> ranker.score_pairs(X, [("B", "A"), ("A", "C")], items=names)
        0.5
        """
        scores = self.predict(X)
        listed = listed_pairs(pairs, items, len(scores), pair_weight)
        return preference_accuracy(scores, listed.rows, listed.weight)

    def _scores(self, X: Matrix) -> Vector:
        """Return the scores of a checked matrix, which may still hold NaN or infinity."""
        scores = multiply(X, self.coef_, getattr(self, "n_threads", None))
        if not np.isfinite(scores).all():
            check_finite(X, None)
        return scores

    def _ranking_data(
        self, X: Matrix | RankingData, y: ArrayLike | None, qid: ArrayLike | None,
        sample_weight: ArrayLike | None, query_weight: ArrayLike | None, reset: bool = True,
        **more: Any,
    ) -> RankingData:  # fmt: skip
        """Check the arguments of `fit`; `more` are other arguments of `RankingData`."""
        if isinstance(X, RankingData):
            refuse_arguments(
                y=y, qid=qid, sample_weight=sample_weight, query_weight=query_weight, **more
            )
            return self._own_data(X, reset)
        check_arguments(X, y, qid)
        X = checked_features(self, X, reset=reset, order="C", ensure_min_samples=2)
        y = column_or_1d(y, warn=True)
        if self.uses_queries and qid is None:
            warn_of_forgotten_qid(np.asarray(y))
        elif self.uses_queries:
            warn_of_swap(np.asarray(y), qid, "fit(X, y, qid)")
        self.fitted_with_qid_ = qid is not None
        return RankingData(
            X,
            y,
            qid,
            feature_names=getattr(self, "feature_names_in_", None),
            sample_weight=sample_weight,
            query_weight=query_weight,
            n_threads=resolve_threads(self.n_threads),
            allow_missing=self.takes_missing,
            categories=self._categories,
            **more,
        )

    def _held_out(self, valid: HeldOut) -> RankingData:
        """Check held-out data; `fit` has stored the features that they must have."""
        if not isinstance(valid, RankingData):
            valid = (*valid, None) if len(valid) == 2 else valid
            if len(valid) != 3 or (self.fitted_with_qid_ and valid[2] is None):
                raise DataError(
                    "valid must be (X, y, qid), with a qid if fit has one, or a RankingData; "
                    "without qid in fit, (X, y) is enough. If all rows of valid belong to one "
                    "query, use np.zeros(len(y)) as its qid."
                )
            X, y, qid = valid
            if qid is not None:
                warn_of_swap(np.asarray(y), qid, "valid=(X, y, qid)")
            valid = RankingData(
                matched_features(self, X, "the X of valid"), y, qid,
                n_threads=resolve_threads(self.n_threads),
                allow_missing=self.takes_missing,
            )  # fmt: skip
        self._check_held_out(valid)
        return valid

    def _check_held_out(self, valid: RankingData) -> None:
        """Raise a `DataError` unless held-out data have as many features as the training data."""
        if valid.n_features != self.n_features_in_:
            raise DataError(
                f"valid has {valid.n_features} features, but X has {self.n_features_in_}. Use the "
                "same features in both."
            )
        self._check_codes(valid)

    def _own_data(self, data: RankingData, reset: bool) -> RankingData:
        """Check data that the caller has made, and store the names and number of its features."""
        if data.has_missing and not self.takes_missing:
            check_finite(data.X, data.order, data.feature_names)
        if reset:
            self.n_features_in_ = data.n_features
            store_names(self, data.feature_names)
            self._categories = data.categories
        if len(data.codes) and not self.takes_codes:
            name = data.categories.texts[0]
            raise DataError(
                f"column {name!r} holds codes of text, which only AdditiveRanker takes. Read the "
                "data with categories='onehot'."
            )
        self._check_features(data)
        self.fitted_with_qid_ = data.n_queries > 1 and data.pairs is None
        return data

    def _check_features(self, data: RankingData) -> None:
        """Raise a `DataError` unless the features are those that the ranker was fitted on."""
        if data.n_features != self.n_features_in_:
            raise DataError(
                f"the data have {data.n_features} features, but the ranker was fitted on "
                f"{self.n_features_in_}. Use data with the same features."
            )
        expected = getattr(self, "feature_names_in_", None)
        if expected is not None and data.feature_names is not None:
            wrong = [n for n, name in enumerate(expected) if name != data.feature_names[n]]
            if wrong:
                raise DataError(
                    f"feature {wrong[0]} of the data is {data.feature_names[wrong[0]]!r}, but the "
                    f"ranker was fitted on {expected[wrong[0]]!r}. Use the same order of features."
                )
        self._check_codes(data)

    def _check_codes(self, data: RankingData) -> None:
        """Raise a `DataError` if codes of text do not mean the same as in the training data."""
        if len(data.codes) and data.categories != self._categories:
            raise DataError(
                "the codes of text in these data are not those of the training data. Read the data "
                "with categories=train.categories, where train are the training data."
            )


def refuse_arguments(**arguments: Any) -> None:
    """Raise a `DataError` if an argument is given in addition to a `RankingData`."""
    given = [name for name, value in arguments.items() if value is not None]
    if given:
        raise DataError(
            f"X is a RankingData, which has labels, queries and weights, so {given[0]} cannot be "
            "given. Leave it out, or pass arrays."
        )


def check_qid(ranker: object, qid: Any, method: str) -> None:
    """Raise a `DataError` if a ranker was fitted with `qid`, but one of its methods has none."""
    if qid is not None or not getattr(ranker, "fitted_with_qid_", False):
        return
    sentence = f"this ranker was fitted with qid, so {method} needs qid too."
    if method == "score" and not get_config()["enable_metadata_routing"]:
        sentence += (
            " If scikit-learn calls score, as GridSearchCV does, it passes qid on only after "
            "sklearn.set_config(enable_metadata_routing=True)."
        )
    raise DataError(f"{sentence} If all rows belong to one query, pass qid=np.zeros(X.shape[0]).")


def library_matrix(X: Matrix) -> Matrix:
    """Return X for other libraries: a sparse X has the index types that scipy chooses."""
    if not sparse.issparse(X):
        return X
    return sparse.csr_matrix((X.data, X.indices, X.indptr), shape=X.shape)


# --------------------------------------------------------------------------------------------------
# `load_ranker`: a saved model with the methods of a fitted ranker.


class SavedRanker(Ranker):
    """A fitted ranker whose scores are those of a saved model; it cannot be fitted again.

    Parameters
    ----------
    model : Model
        The model of a ranker, which is also `model_`.
    """

    def __init__(self, model: Model) -> None:
        self.model = self.model_ = model
        self.n_features_in_ = model.n_features
        store_names(self, model.feature_names)
        self._categories = model.categories
        self.fitted_with_qid_ = model.training.get("queries", 1) != 1

    def fit(self, *_: Any, **__: Any) -> NoReturn:
        """Raise a `DataError`, because a model file has no training data."""
        raise DataError(
            "a saved ranker cannot be fitted again. Make a new one, such as RankSVM(), and "
            "fit it. To start from the saved weights, use linrank train --warm-start."
        )

    @property
    def coef_(self) -> Vector:
        """The weights, if each feature has one."""
        return self.model.coef  # type: ignore[attr-defined]

    @property
    def takes_missing(self) -> bool:
        """Whether features may be NaN, which stands for a missing value."""
        return self.model.fills

    def _scores_of(self, X: Matrix, qid: ArrayLike | None) -> Vector:
        return self.model.predict(X, qid)


def load_ranker(path: str | os.PathLike[str]) -> SavedRanker:
    """Read a saved model as a fitted ranker: with `predict`, `rank`, `score` and `explain`.

    `linrank.load_model` reads the same files as models, which know nothing of labels.

    Parameters
    ----------
    path : path-like
        A file written by `save` of a ranker, or by ``linrank train``.

    Returns
    -------
    SavedRanker
        A ranker with the scores of the one that was saved. It cannot be fitted again.

    Examples
    --------
    >>> import os, tempfile
    >>> from linrank import RankSVM
    >>> X, y, qid = [[1.0], [3.0], [2.0], [5.0]], [0, 1, 0, 2], ["a", "a", "b", "b"]
    >>> path = os.path.join(tempfile.mkdtemp(), "model.json")
    >>> RankSVM().fit(X, y, qid).save(path)
    >>> load_ranker(path).score(X, y, qid)
    1.0
    """
    model = load_model(path)
    if model.format == "linrank-topics":
        raise DataError(
            f"{os.fspath(path)}: holds one ranker per topic, which have no common ranks. Use "
            "linrank.load_model."
        )
    return SavedRanker(model)
