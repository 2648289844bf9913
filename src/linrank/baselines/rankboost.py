"""`RankBoost`: boosting of feature thresholds on pairs, without listing the pairs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.utils import Tags

from .._compile.jit import by_type, njit
from .._util.checks import choice, whole_number
from .._util.types import Array, Integers, Vector
from ..data.ranking import RankingData
from ..data.validation import Matrix, check_finite, check_matrix, holds_missing
from ..errors import ConstantFeaturesWarning, DataError, warn
from ..estimators.ranker import Ranker
from ..matrix.rows import choose_columns, copy_columns, kernel_matrix
from ..model import Column, Content, Model, numbers
from ..problem import no_pair
from .baseline import LARGEST_R, TIE_TOLERANCE, checked_rows, collect_rounds

# --------------------------------------------------------------------------------------------------
# Stumps (thresholds of single features): binning, search for the best stump, and models.


BLOCK = 2**12  #: documents that are scored at a time; more need more memory
LOWEST = float(np.finfo(np.float64).min)  #: threshold below all values, but not below missing ones

Codes: TypeAlias = NDArray[np.uint8] | NDArray[np.uint32]  #: bin numbers
Flags: TypeAlias = NDArray[np.bool_]


class Stumps(NamedTuple):
    """Parameters of the score H(x) = Σ_t alpha_t·[x_f > threshold_t] with f = feature_t."""

    feature: Integers
    threshold: Vector
    alpha: Vector


class DenseBins(NamedTuple):
    """Bin numbers of a dense matrix.

    ``codes[f, i]`` is the number of thresholds of feature f below its value in document i. If
    ``has_missing[f]``, bin 0 holds the documents without a value, and no others.
    """

    codes: Codes
    n_bins: Integers
    has_missing: Flags


class SparseBins(NamedTuple):
    """Bin numbers of the stored entries of a sparse matrix, feature by feature.

    Feature f owns the entries ``ptr[f]:ptr[f + 1]``, and ``zero[f]`` is the bin of the value 0.
    `has_missing` is that of `DenseBins`.
    """

    ptr: Integers
    docs: NDArray[np.int32]
    codes: Codes
    zero: Integers
    n_bins: Integers
    has_missing: Flags


def number_values(
    X: Matrix, rows: Integers, weight: Vector, n_thresholds: int | None
) -> tuple[DenseBins | SparseBins, list[Vector]]:
    """Choose the thresholds of each feature, and replace its values in the rows by bin numbers."""
    few = n_thresholds is not None and n_thresholds + holds_missing(X) < 2**8
    dtype = np.uint8 if few else np.uint32
    if sparse.issparse(X):
        return _number_sparse(sparse.csc_array(X[rows]), weight, n_thresholds, dtype)
    thresholds: list[Vector] = []
    codes = np.empty((X.shape[1], len(rows)), dtype)
    for f in range(X.shape[1]):
        values = X[rows, f].astype(np.float64)
        thresholds.append(choose_thresholds(values, weight, n_thresholds))
        codes[f] = _find_bins(thresholds[f], values)
    return DenseBins(codes, *_describe_bins(thresholds)), thresholds


def _number_sparse(
    X: sparse.csc_array,
    weight: Vector,
    n_thresholds: int | None,
    dtype: type[np.uint8] | type[np.uint32],
) -> tuple[SparseBins, list[Vector]]:
    thresholds: list[Vector] = []
    codes = np.empty(X.nnz, dtype)
    for f in range(X.shape[1]):
        own = slice(X.indptr[f], X.indptr[f + 1])
        mass = weight[X.indices[own]]
        values, rest = X.data[own].astype(np.float64), weight.sum() - mass.sum()
        if len(values) < X.shape[0]:
            values, mass = np.append(values, 0.0), np.append(mass, rest)
        thresholds.append(choose_thresholds(values, mass, n_thresholds))
        codes[own] = _find_bins(thresholds[f], X.data[own])
    zero = np.array([np.searchsorted(t, 0.0) for t in thresholds])
    ptr, docs = X.indptr.astype(np.int64), X.indices.astype(np.int32)
    return SparseBins(ptr, docs, codes, zero, *_describe_bins(thresholds)), thresholds


def _find_bins(thresholds: Vector, values: Vector) -> Integers:
    """Return the number of thresholds below each value; 0 if the value is missing."""
    return np.where(np.isnan(values), 0, np.searchsorted(thresholds, values))


def _describe_bins(thresholds: list[Vector]) -> tuple[Integers, Flags]:
    """Return the number of bins of each feature, and whether bin 0 holds missing values."""
    n_bins = np.array([len(t) + 1 for t in thresholds])
    return n_bins, np.array([LOWEST in t[:1] for t in thresholds])


def choose_thresholds(values: Vector, mass: Vector, n: int | None) -> Vector:
    """Return all distinct values but the largest or, if these are more than n, n quantiles.

    The masses are the weights of the values in the quantiles. If some values are missing (NaN),
    `LOWEST` is a threshold, too, which separates the missing values from the others.

    Examples
    --------
    >>> choose_thresholds(np.array([3.0, 1.0, 2.0, 1.0]), np.ones(4), None)
    array([1., 2.])
    >>> choose_thresholds(np.arange(100.0), np.ones(100), 3)
    array([24., 49., 74.])
    """
    known = ~np.isnan(values)
    if not known.all():
        found = choose_thresholds(values[known], mass[known], n)
        return np.append(LOWEST, found) if known.any() else found
    levels, inverse = np.unique(values, return_inverse=True)
    if n is None or len(levels) - 1 <= n:
        return levels[:-1]
    upto = np.cumsum(np.bincount(inverse, mass))
    picked = np.unique(np.searchsorted(upto, upto[-1] * np.arange(1, n + 1) / (n + 1)))
    return levels[picked[picked < len(levels) - 1]]


def _fill_dense(bins, f, potential, sums):  # type: ignore[no-untyped-def]
    codes = bins.codes[f]
    for i in range(len(codes)):
        sums[codes[i]] += potential[i]


def _fill_sparse(bins, f, potential, sums):  # type: ignore[no-untyped-def]
    # All potentials sum to 0, so documents without an entry have minus the sum of the entries.
    total = 0.0
    for e in range(bins.ptr[f], bins.ptr[f + 1]):
        value = potential[bins.docs[e]]
        sums[bins.codes[e]] += value
        total += value
    sums[bins.zero[f]] -= total


def _add_dense(bins, f, k, default, alpha, scores):  # type: ignore[no-untyped-def]
    codes = bins.codes[f]
    for i in range(len(codes)):
        if codes[i] > k or (default and codes[i] == 0):
            scores[i] += alpha


def _add_sparse(bins, f, k, default, alpha, scores):  # type: ignore[no-untyped-def]
    # Adds alpha up to a constant that is the same for all documents: those without an entry stay
    # as they are. The constant cancels in score differences.
    base = bins.zero[f] > k
    for e in range(bins.ptr[f], bins.ptr[f + 1]):
        above = bins.codes[e] > k or (default and bins.codes[e] == 0)
        if above != base:
            scores[bins.docs[e]] += alpha if above else -alpha


_fill = by_type(
    0, {DenseBins: njit(_fill_dense, inner=True), SparseBins: njit(_fill_sparse, inner=True)}
)
_add = by_type(
    0, {DenseBins: njit(_add_dense, inner=True), SparseBins: njit(_add_sparse, inner=True)}
)


@njit(allocates=True)
def best_stump(bins, potential):  # type: ignore[no-untyped-def]
    """Return feature, number of the threshold, default and r of the stump with the largest |r|.

    The default is the value of the stump for missing values. It is 1 only if the feature has
    missing values and this enlarges |r|. The feature is −1 if r is 0 for all stumps.
    """
    buffer = np.empty(bins.n_bins.max())
    feature, threshold, default, best = -1, 0, False, 0.0
    for f in range(len(bins.n_bins)):
        sums = buffer[: bins.n_bins[f]]
        sums[:] = 0.0
        _fill(bins, f, potential, sums)
        r = 0.0
        for k in range(len(sums) - 1, 0, -1):
            r += sums[k]
            if abs(r) > abs(best) + TIE_TOLERANCE:
                feature, threshold, default, best = f, k - 1, False, r
            if bins.has_missing[f] and abs(r + sums[0]) > abs(best) + TIE_TOLERANCE:
                feature, threshold, default, best = f, k - 1, True, r + sums[0]
    return feature, threshold, default, best


@njit
def add_stump(bins, f, k, default, alpha, scores):  # type: ignore[no-untyped-def]
    """Add alpha to the scores of the documents whose value is above threshold k of feature f.

    If `default` is true, add it to those whose value is missing, too.
    """
    _add(bins, f, k, default, alpha, scores)


class StumpModel(Model):
    """Model with the score ``Σ_t alpha_t·[x_f > threshold_t]``.

    If x_f is missing (NaN), the default of the stump takes the place of [x_f > threshold_t].

    Parameters
    ----------
    stumps : Stumps
        Feature, threshold and alpha of each stump.
    n_features : int
    feature_names, index_base, settings, training
        As in `linrank.LinearModel`.
    defaults : array of shape (n_stumps,), optional
        Default of each stump, 0 or 1. None: missing values are refused.

    Examples
    --------
    >>> stumps = Stumps(np.array([0, 1]), np.array([0.5, 2.0]), np.array([1.0, -0.25]))
    >>> StumpModel(stumps, n_features=2).predict([[1.0, 1.0], [1.0, 3.0], [0.5, 3.0]]).tolist()
    [1.0, 0.75, -0.25]
    >>> model = StumpModel(stumps, n_features=2, defaults=[0, 1])
    >>> model.predict([[np.nan, 3.0], [1.0, np.nan]]).tolist()
    [-0.25, 0.75]
    """

    format = "linrank-stumps"
    is_additive = True

    def __init__(
        self,
        stumps: Stumps,
        n_features: int,
        *,
        feature_names: Sequence[str] | None = None,
        index_base: int = 1,
        settings: Mapping[str, object] | None = None,
        training: Mapping[str, object] | None = None,
        defaults: ArrayLike | None = None,
    ) -> None:
        feature = np.array(stumps.feature, np.int64)
        threshold, alpha = (np.array(x, np.float64) for x in (stumps.threshold, stumps.alpha))
        if not feature.shape == threshold.shape == alpha.shape == (feature.size,):
            raise DataError("features, thresholds and alphas must be vectors of one length")
        if feature.size and not 0 <= feature.min() <= feature.max() < n_features:
            raise DataError(f"features of stumps must be among 0, …, {n_features - 1}")
        if not np.isfinite([threshold, alpha]).all():
            raise DataError("thresholds and alphas must be finite numbers")
        super().__init__(n_features, feature_names, index_base, settings, training)
        self.stumps = Stumps(feature, threshold, alpha)
        self.defaults: Flags | None = None
        if defaults is not None:
            if np.shape(defaults) != feature.shape or not np.isin(defaults, (0, 1)).all():
                raise DataError("defaults must be 0 or 1 for each stump")
            self.defaults = np.array(defaults, np.bool_)

    @property
    def fills(self) -> bool:
        """Whether documents may have missing values."""
        return self.defaults is not None

    @property
    def version(self) -> int:
        """The oldest layout of model files that can hold this model."""
        return 2 if self.fills else 1

    def scores(self, X: Matrix, query_ptr: Integers | None = None) -> Vector:
        """Score the rows of a matrix with the right number of features."""
        X = check_matrix(X)
        check_finite(X, None, allow_missing=self.fills)
        scores = np.zeros(X.shape[0])
        for first in range(0, X.shape[0], BLOCK):
            block = scores[first : first + BLOCK]
            for part in self._walk(X, first, first + len(block)):
                block += part
        return scores

    def staged_scores(self, X: Matrix) -> Iterator[Vector]:
        """Yield the scores of a checked matrix by the first stump, the first two, and so on."""
        scores = np.zeros(X.shape[0])
        for part in self._walk(X, 0, X.shape[0]):
            scores = scores + part
            yield scores

    def _walk(self, X: Matrix, first: int, last: int) -> Iterator[Vector]:
        """Yield the part of each stump in the scores of some documents."""
        used, column = np.unique(self.stumps.feature, return_inverse=True)
        values = np.zeros((len(used), last - first))
        chosen = choose_columns(used, self.n_features)
        copy_columns(kernel_matrix(X), first, last, chosen, values)
        _, threshold, alpha = self.stumps
        for t, k in enumerate(column):
            above = values[k] > threshold[t]
            if self.defaults is not None and self.defaults[t]:
                above |= np.isnan(values[k])
            yield alpha[t] * above

    def parts(self, X: Array, documents: Array | None = None) -> Vector:
        """Return the part of each feature in the scores of some rows. See `Model.parts`."""
        parts = np.zeros(X.shape)
        walk = self._walk(check_matrix(X), 0, len(X))
        for f, part in zip(self.stumps.feature, walk, strict=True):
            parts[:, f] += part
        return parts

    def facts(self) -> dict[str, object]:
        """Return the number of stumps."""
        return {"stumps": len(self.stumps.feature)}

    def columns(self) -> list[Column]:
        """Return the number of stumps of each feature, and the sum of their absolute weights."""
        feature, size = self.stumps.feature, np.abs(self.stumps.alpha)
        counts = np.bincount(feature, minlength=self.n_features)
        weights = np.bincount(feature, size, minlength=self.n_features)
        return [
            Column("stumps", counts, "number of stumps"),
            Column("total_weight", weights, "sum of the absolute weights of the stumps"),
        ]

    def _parameters(self) -> Content:
        content: Content = {
            "features": self.stumps.feature.tolist(),
            "thresholds": self.stumps.threshold.tolist(),
            "alphas": self.stumps.alpha.tolist(),
        }
        if self.defaults is not None:
            content["defaults"] = self.defaults.astype(int).tolist()
        return content

    @classmethod
    def _from_parameters(cls, content: Content, **shared: Any) -> Self:
        feature = numbers(content, "features")
        if not all(type(f) is int for f in feature):
            raise DataError("features must be whole numbers")
        threshold, alpha = (np.array(numbers(content, name)) for name in ("thresholds", "alphas"))
        if "defaults" in content:
            shared["defaults"] = numbers(content, "defaults")
        stumps = Stumps(np.array(feature, np.int64), threshold, alpha)
        return cls(stumps, content["n_features"], **shared)


# --------------------------------------------------------------------------------------------------
# `RankBoost`: boosting of feature thresholds on pairs, without listing the pairs.


NAMED = 5  #: constant features that a warning names; more make it longer


class RankBoostRound(NamedTuple):
    """The stump of one round of boosting."""

    feature: int
    threshold: float
    alpha: float
    default: bool


@dataclass(kw_only=True, eq=False, repr=False)
class RankBoost(Ranker):
    """RankBoost with thresholds of features as weak rankers.

    The pairs (i, j) of documents of one query with label i above label j have weights D that sum
    to 1. Round t adds a stump h_t(x) = [x_f > θ] with a weight α_t,

        r_t = Σ_(i,j) D_t(i, j)·(h_t(x_i) − h_t(x_j)),    the stump with the largest |r_t|,
        α_t = ½·ln((1 + r_t) / (1 − r_t)),
        D_(t+1)(i, j) ∝ D_t(i, j)·exp(α_t·(h_t(x_j) − h_t(x_i))),

    and H = Σ_t α_t h_t is the score (Freund, Iyer, Schapire & Singer 2003, "An efficient boosting
    algorithm for combining preferences", with their third method of choosing α; a baseline in
    Stevens, Bengio & Singer 2013). Each round multiplies the loss
    Σ D_1(i, j)·exp(H(x_j) − H(x_i)) by a factor of at most √(1 − r_t²).

    Pairs are not listed. Instead, r_t = Σ_i π_i·h_t(x_i) is computed from the potentials

        π_i = v_i·Σ_(j below i) u_j − u_i·Σ_(j above i) v_j

    with v_i ∝ exp(−H(x_i)) and u_i ∝ exp(H(x_i)). Running sums over the levels of a query give
    all potentials in O(documents), for any number of levels. For two levels, this is the
    RankBoost.B of the paper. The values of X are replaced by bin numbers before the first round.
    A round then reads the bins once, and sums the potentials in each bin of each feature.

    A stump abstains from documents whose feature is missing (NaN): they get its default
    q ∈ {0, 1} in the place of [x_f > θ]. q is chosen with f and θ by the largest |r_t|, as in the
    paper (§3.2).

    Thresholds:

    - A document with x_f = θ is not above θ.
    - The thresholds of a feature are its distinct values in the documents that belong to pairs,
      without the largest one, which no document would exceed. Between two values, every θ gives
      the same ranking of the training data, and the smaller value is taken.
    - If these are more than `n_thresholds`, the thresholds are n quantiles of the values, at the
      shares 1/(n + 1), …, n/(n + 1) of the weight of the documents. Equal quantiles count once.
    - A feature with missing values has one more threshold, the smallest finite number. Its
      stump is 1 for all values, and differs from its default for missing values only.
    - A constant feature has no threshold. A `linrank.ConstantFeaturesWarning` names such features.

    Details that the paper leaves open:

    - Among equally good stumps, the one with the first feature, the largest θ and q = 0 is taken.
    - |r| is limited to 1 − 1e-10, so that a stump that orders every pair correctly gets
      α = 11.9 instead of ∞.

    Parameters
    ----------
    n_rounds : int
        Largest number of stumps. Training ends earlier if every stump has r = 0. The number can
        be chosen on validation data with `staged_predict`.
    n_thresholds : int or None
        Largest number of thresholds θ per feature, apart from that for missing values. None: no
        limit.
    n_threads : int, optional
        Number of threads for checks of X; boosting uses one thread. None: ``LINRANK_THREADS``,
        or all usable cores.
    verbose : bool
        Print a line for each round.
    missing : {None, "abstain"}
        What is done with missing values (NaN) in `fit` and `predict`. None: they are errors.
        ``"abstain"``: stumps have defaults. A stump of a feature without missing values in the
        training data has the default 0.

    Attributes
    ----------
    stumps_ : Stumps
        Arrays ``feature``, ``threshold`` and ``alpha``, one entry per round.
    model_ : StumpModel
        Model with the same stumps, which can be saved: ``ranker.model_.save("model.json")``.
        If `missing` is "abstain", its `defaults` has q of each stump.
    losses_ : float64 array of shape (n_rounds + 1,)
        Mean loss of the pairs before the first round, which is 1, and after each round.
    n_pairs_, n_queries_, n_iter_, n_features_in_ : int
    feature_names_in_ : array of str
        Column names of X, if it had any.

    Examples
    --------
    >>> from linrank import make_ranking
    >>> from linrank.baselines import RankBoost
    >>> data = make_ranking(random_state=0)
    >>> known = data.qid <= 75  # train on 75 queries; 25 are held out
    >>> ranker = RankBoost()
    >>> _ = ranker.fit(data.X[known], data.y[known], qid=data.qid[known])
    >>> ranker.score(data.X[~known], data.y[~known], qid=data.qid[~known]) > 0.8
    True
    """

    __metadata_request__fit: ClassVar = {"query_weight": True}

    n_rounds: int = field(default=100, kw_only=False)
    n_thresholds: int | None = 255
    n_threads: int | None = None
    verbose: bool = False
    missing: str | None = None

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing is not None
        return tags

    def fit(
        self,
        X: ArrayLike | Matrix | RankingData,
        y: ArrayLike | None = None,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        query_weight: ArrayLike | None = None,
    ) -> RankBoost:
        """Fit the stumps.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_docs, n_features)
        y : array of shape (n_docs,)
            Labels: any real numbers; larger is more relevant.
        qid : array of shape (n_docs,), optional
            Query of each document: any type, in any order. None: all documents form one query.
        sample_weight : array of shape (n_docs,), optional
            Weight of each document. D_1 of a pair is proportional to the product of the weights
            of its query and its two documents. Weight 0 removes a document, and weight 2 has the
            effect of a second copy.
        query_weight : array of shape (n_docs,), optional
            Weight of the query of each document. All documents of a query have the same value.
        """
        n_rounds = whole_number("n_rounds", self.n_rounds)
        if self.n_thresholds is not None:
            whole_number("n_thresholds", self.n_thresholds)
        choice("missing", self.missing, [None, "abstain"])
        data = self._ranking_data(X, y, qid, sample_weight, query_weight)
        pairs = PairWeights(data)
        bins, thresholds = number_values(data.X, pairs.rows, pairs.weight, self.n_thresholds)
        rounds, interrupted = collect_rounds(self._rounds(pairs, bins, thresholds, n_rounds))
        self._store(rounds, pairs, data)
        _warn_of_constant_features(thresholds, self.model_.names())
        if interrupted:
            raise KeyboardInterrupt(f"Interrupted; the stumps of {len(rounds)} rounds are kept.")
        return self

    def _rounds(
        self,
        pairs: PairWeights,
        bins: DenseBins | SparseBins,
        thresholds: list[Vector],
        n_rounds: int,
    ) -> Iterator[RankBoostRound]:
        started = time.perf_counter()
        for t in range(1, n_rounds + 1):
            feature, k, default, r = best_stump(bins, pairs.potential)
            if feature < 0:
                return
            alpha = float(np.arctanh(np.clip(r, -LARGEST_R, LARGEST_R)))
            add_stump(bins, feature, k, default, alpha, pairs.scores)
            pairs.update()
            threshold = float(thresholds[feature][k])
            if self.verbose:
                print(
                    f"round {t:<5d} feature {feature:<6d} threshold {threshold:<12.6g} "
                    f"alpha {alpha:<12.6g} loss {pairs.losses[-1]:<12.6g} "
                    f"{time.perf_counter() - started:.2f} s"
                )
            yield RankBoostRound(feature, threshold, alpha, default)

    def _store(self, rounds: list[RankBoostRound], pairs: PairWeights, data: RankingData) -> None:
        self.n_iter_ = len(rounds)
        self.n_pairs_, self.n_queries_ = pairs.n_pairs, data.n_queries
        self.losses_ = np.array(pairs.losses[: len(rounds) + 1])
        columns = np.array(rounds, np.float64).reshape(-1, 4).T
        self.stumps_ = Stumps(columns[0].astype(np.int64), columns[1], columns[2])
        self.model_ = StumpModel(
            self.stumps_,
            data.n_features,
            feature_names=data.feature_names,
            settings={"method": "RankBoost", "n_rounds": self.n_rounds,
                      "n_thresholds": self.n_thresholds, "missing": self.missing},
            training={"rounds": self.n_iter_, "loss": float(self.losses_[-1]),
                      "pairs": self.n_pairs_, "queries": self.n_queries_},
            defaults=None if self.missing is None else columns[3],
        )  # fmt: skip

    def staged_predict(self, X: ArrayLike | Matrix) -> Iterator[Vector]:
        """Yield the scores after one round, two rounds, and so on.

        They serve to choose the number of rounds on validation data.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_docs, n_features)

        Yields
        ------
        scores : float64 array of shape (n_docs,)

        Examples
        --------
        >>> from linrank import make_ranking, ndcg
        >>> from linrank.baselines import RankBoost
        >>> data = make_ranking(random_state=0)
        >>> ranker = RankBoost(n_rounds=5).fit(data)
        >>> stages = ranker.staged_predict(data.X)
        >>> values = [ndcg(data.y, scores, data.qid, k=10) for scores in stages]
        >>> values[-1] > values[0]
        True
        """
        return self.model_.staged_scores(checked_rows(self, X))

    def _scores(self, X: Matrix) -> Vector:
        return self.model_.scores(X)


def _warn_of_constant_features(thresholds: list[Vector], names: list[str]) -> None:
    constant = [name for name, found in zip(names, thresholds, strict=True) if not len(found)]
    if constant:
        named = ", ".join(constant[:NAMED]) + (", …" if len(constant) > NAMED else "")
        warn(
            f"RankBoost cannot use features that are constant in the training data: {named} "
            f"({len(constant)} of {len(names)}). Remove them, or ignore ConstantFeaturesWarning.",
            ConstantFeaturesWarning,
        )


class PairWeights:
    """Weights D(i, j) ∝ weight·exp(H_j − H_i) of all pairs, as one potential per document.

    Attributes
    ----------
    rows : int64 array
        Documents that belong to at least one pair, grouped by query and sorted by increasing
        label. The following arrays are in this order.
    weight, scores : float64 arrays
        Weight and score H of each document. The caller changes the scores and calls `update`.
    potential : float64 array
        Potentials π after the last `update`, with
        Σ_i π_i·h(x_i) = Σ_(i,j) D(i, j)·(h(x_i) − h(x_j)) for every h.
    losses : list of float
        Mean of exp(H_j − H_i) over the pairs, at each update.
    n_pairs : int
    """

    def __init__(self, data: RankingData) -> None:
        query = np.repeat(np.arange(data.n_queries), np.diff(data.query_ptr))
        weight = np.ones(data.n_docs) if data.weight is None else data.weight
        of_query = np.ones(data.n_queries) if data.query_weight is None else data.query_weight
        rows = np.flatnonzero((weight > 0) & (of_query[query] > 0))
        rows = rows[np.lexsort((data.y[rows], query[rows]))]
        first = np.searchsorted(query[rows], query[rows])
        last = np.searchsorted(query[rows], query[rows], side="right") - 1
        self.rows = rows = rows[data.y[rows][first] < data.y[rows][last]]
        if not len(rows):
            raise no_pair(data)
        query, label = query[rows], data.y[rows]
        new_query = np.diff(query, prepend=-1) != 0
        new_level = new_query | (np.diff(label, prepend=label[0]) != 0)
        starts = np.flatnonzero(new_level)
        self._level_ptr = np.append(starts, len(rows))
        self._query_levels = np.append(np.flatnonzero(new_query[starts]), len(starts))
        below = starts - np.searchsorted(query, query[starts])
        self.n_pairs = int(np.diff(self._level_ptr) @ below)
        self.weight = weight[rows]
        self._log_weight = np.log(weight[rows])
        self._log_query = np.log(of_query[query[new_query]])
        self.scores, self.potential = np.zeros((2, len(rows)))
        # Sums over pairs are divided by exp(_log_total), so that they cannot overflow. It is first
        # an upper bound on the weight of a pair, and after an update the sum over all pairs.
        self._log_total = float(2.0 * self._log_weight.max() + self._log_query.max())
        self.losses: list[float] = []
        self.update()

    def update(self) -> None:
        """Compute the potentials and the loss at the current scores."""
        total = sum_potentials(
            self._level_ptr, self._query_levels, self._log_weight, self._log_query, self.scores,
            self._log_total, self.potential,
        )  # fmt: skip
        self.potential /= total
        self._log_total += float(np.log(total))
        if not self.losses:
            self._log_start = self._log_total
        self.losses.append(float(np.exp(self._log_total - self._log_start)))


@njit
def sum_potentials(level_ptr, query_levels, log_weight, log_query, scores, log_unit, potential):  # type: ignore[no-untyped-def]
    """Return the sum over all pairs, and write the potentials, both divided by exp(log_unit).

    A running sum of exponentials is stored as sum·exp(top), so that it does not overflow.
    """
    total = 0.0
    for q in range(len(query_levels) - 1):
        unit = log_query[q] - log_unit
        top, below = -np.inf, 0.0
        for level in range(query_levels[q], query_levels[q + 1]):
            for i in range(level_ptr[level], level_ptr[level + 1]):
                potential[i] = 0.0
                if below > 0.0:
                    potential[i] = below * np.exp(log_weight[i] - scores[i] + top + unit)
                total += potential[i]
            for i in range(level_ptr[level], level_ptr[level + 1]):
                top, below = _add_exp(top, below, log_weight[i] + scores[i])
        top, above = -np.inf, 0.0
        for level in range(query_levels[q + 1] - 1, query_levels[q] - 1, -1):
            for i in range(level_ptr[level], level_ptr[level + 1]):
                if above > 0.0:
                    potential[i] -= above * np.exp(log_weight[i] + scores[i] + top + unit)
            for i in range(level_ptr[level], level_ptr[level + 1]):
                top, above = _add_exp(top, above, log_weight[i] - scores[i])
    return total


@njit(inner=True)
def _add_exp(top, total, x):  # type: ignore[no-untyped-def]
    """Return total·exp(top) + exp(x) in the form (new top, new total)."""
    if x <= top:
        return top, total + np.exp(x - top)
    return x, total * np.exp(top - x) + 1.0
