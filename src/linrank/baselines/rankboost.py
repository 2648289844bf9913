"""`RankBoost`: thresholds of single features, boosted on pairs that are never listed."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted, validate_data

from .._files import atomic_write
from .._jit import by_type, njit
from .._rows import copy_columns, kernel_matrix
from .._version import __version__
from ..data.ranking import Matrix, RankingData, check_finite, check_matrix
from ..errors import DataError, FileFormatError
from ..estimators.base import DTYPES, Ranker, Vector
from ..model import _names, _numbers, _plain

FORMAT = "linrank-stumps"
VERSION = 1

SAME = 1e-12  #: |r| of two stumps that differ by less are equal but for rounding
LARGEST_R = 1.0 - 1e-10  #: a stump that puts all pairs right would get an infinite weight
BLOCK = 2**12  #: documents that are scored at a time


class Stumps(NamedTuple):
    """``H(x) = Σ_t alpha_t·[x_f > threshold_t]`` with f = feature_t."""

    feature: NDArray[np.int64]
    threshold: Vector
    alpha: Vector


class RankBoost(Ranker):
    """RankBoost with thresholds of features as weak rankers.

    Over the pairs (i, j) of documents of one query with label i above label j, with weights D that
    sum to 1, round t adds a stump h_t(x) = [x_f > θ] with a weight α_t,

        r_t = Σ_(i,j) D_t(i, j)·(h_t(x_i) − h_t(x_j)),    the stump with the largest |r_t|,
        α_t = ½·ln((1 + r_t) / (1 − r_t)),
        D_(t+1)(i, j) ∝ D_t(i, j)·exp(α_t·(h_t(x_j) − h_t(x_i))),

    and H = Σ_t α_t h_t is the score (Freund, Iyer, Schapire & Singer 2003, "An efficient boosting
    algorithm for combining preferences", with their third method of choosing α; compared with in
    Stevens, Bengio & Singer 2013). Each round lowers the loss
    Σ D_1(i, j)·exp(H(x_j) − H(x_i)), by a factor of √(1 − r_t²) or less.

    No pair is listed: r_t = Σ_i π_i·h_t(x_i) with the potentials

        π_i = v_i·Σ_(j below i) u_j − u_i·Σ_(j above i) v_j,

    v_i ∝ exp(−H(x_i)) and u_i ∝ exp(H(x_i)), whose sums run through the levels of a query. For
    two levels this is their RankBoost.B; it takes O(documents) for any number of levels. A round
    sums the potentials of each value of each feature: one read of X, whose values are numbered
    beforehand.

    Where the paper leaves it open: features have no missing values; of stumps that are
    equally good, that of the first feature and the largest θ is taken; |r| is at most 1 − 1e-10,
    so that a stump which puts every pair right gets α = 11.9 instead of ∞.

    Parameters
    ----------
    n_rounds : int
        The largest number of stumps; fewer where no stump tells the pairs apart any more. Choose it
        on validation data with `staged_predict`.
    n_thresholds : int or None
        θ are values of the feature: all but the largest, or where these are more than this, that
        many quantiles of its values. None: always all.
    n_threads : int, optional
        Threads for checking X; boosting has one. Default: ``LINRANK_THREADS``, or all usable cores.
    verbose : bool
        Print a line for each round.

    Attributes
    ----------
    stumps_ : Stumps
        Arrays ``feature``, ``threshold`` and ``alpha``, one entry per round.
    model_ : StumpModel
        The same stumps in the form that is saved: ``ranker.model_.save("model.json")``.
    losses_ : float64 array of shape (n_rounds + 1,)
        The mean loss of the pairs, from 1 on, after each round.
    n_pairs_, n_queries_, n_iter_, n_features_in_ : int
    feature_names_in_ : array of str
        Where X had column names.

    Examples
    --------
    >>> from linrank import make_ranking
    >>> from linrank.baselines import RankBoost
    >>> data = make_ranking(random_state=0)
    >>> ranker = RankBoost().fit(data.X, data.y, qid=data.qid)
    >>> ranker.score(data.X, data.y, qid=data.qid) > 0.8
    True
    """

    __metadata_request__fit: ClassVar = {"query_weight": True}

    model_: StumpModel

    def __init__(
        self,
        n_rounds: int = 100,
        *,
        n_thresholds: int | None = 255,
        n_threads: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_rounds = n_rounds
        self.n_thresholds = n_thresholds
        self.n_threads = n_threads
        self.verbose = verbose

    def fit(
        self, X: Any, y: Any, qid: Any = None, sample_weight: Any = None, query_weight: Any = None
    ) -> RankBoost:
        """Learn the stumps.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_docs, n_features)
        y : array of shape (n_docs,)
            Labels: any real numbers; larger is more relevant.
        qid : array of shape (n_docs,), optional
            The query of each document: any type, any order. None: one query.
        sample_weight : array of shape (n_docs,), optional
            Weight of each document: D_1 of a pair is query × upper document × lower document, so
            weight 0 is removal and weight 2 a second copy.
        query_weight : array of shape (n_docs,), optional
            Weight of each document's query: one value within a query.
        """
        n_rounds = check_count("n_rounds", self.n_rounds)
        if self.n_thresholds is not None:
            check_count("n_thresholds", self.n_thresholds)
        data = self._ranking_data(X, y, qid, sample_weight, query_weight)
        pairs = PairWeights(data)
        bins, thresholds = number_values(data.X, pairs.rows, pairs.weight, self.n_thresholds)
        found: list[tuple[int, float, float]] = []
        interrupted = None
        try:
            for stump in self._rounds(pairs, bins, thresholds, n_rounds):
                found.append(stump)
        except KeyboardInterrupt:
            if not found:
                raise
            interrupted = KeyboardInterrupt(
                f"Interrupted; these are the stumps of {len(found)} rounds."
            )
        self._store(found, pairs, data)
        if interrupted is not None:
            raise interrupted
        return self

    def _rounds(
        self, pairs: PairWeights, bins: Any, thresholds: list[Vector], n_rounds: int
    ) -> Iterator[tuple[int, float, float]]:
        """Feature, threshold and weight of one stump after the other."""
        started = time.perf_counter()
        for t in range(1, n_rounds + 1):
            feature, k, r = best_stump(bins, pairs.potential)
            if feature < 0:
                return
            alpha = float(np.arctanh(np.clip(r, -LARGEST_R, LARGEST_R)))
            add_stump(bins, feature, k, alpha, pairs.scores)
            pairs.update()
            threshold = float(thresholds[feature][k])
            if self.verbose:
                print(
                    f"round {t:<5d} feature {feature:<6d} threshold {threshold:<12.6g} "
                    f"alpha {alpha:<12.6g} loss {pairs.losses[-1]:<12.6g} "
                    f"{time.perf_counter() - started:.2f} s"
                )
            yield feature, threshold, alpha

    def _store(
        self, found: list[tuple[int, float, float]], pairs: PairWeights, data: RankingData
    ) -> None:
        self.n_iter_ = len(found)
        self.n_pairs_, self.n_queries_ = pairs.n_pairs, data.n_queries
        self.losses_ = np.array(pairs.losses[: len(found) + 1])
        columns = np.array(found, np.float64).reshape(-1, 3).T
        self.stumps_ = Stumps(columns[0].astype(np.int64), columns[1], columns[2])
        self.model_ = StumpModel(
            self.stumps_,
            data.n_features,
            feature_names=data.feature_names,
            settings={"method": "RankBoost", "n_rounds": self.n_rounds,
                      "n_thresholds": self.n_thresholds},
            training={"rounds": self.n_iter_, "loss": float(self.losses_[-1]),
                      "pairs": self.n_pairs_, "queries": self.n_queries_},
        )  # fmt: skip

    def staged_predict(self, X: Any) -> Iterator[Vector]:
        """The scores after one round, two rounds, and so on, to choose the number of rounds.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_docs, n_features)
        """
        return self.model_._staged(checked_rows(self, X))

    def _scores(self, X: Matrix) -> Vector:
        check_finite(X, None)
        return self.model_._scores(X)


def check_count(name: str, value: Any) -> int:
    """Refuse what is not a whole number of at least 1."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
        raise DataError(f"{name} is {value!r}; expected a whole number of at least 1")
    return int(value)


def checked_rows(ranker: Ranker, X: Any) -> Matrix:
    """What a fitted ranker is to score, checked."""
    check_is_fitted(ranker)
    X = validate_data(
        ranker, X, reset=False, dtype=DTYPES, accept_sparse="csr", ensure_all_finite=False
    )
    X = check_matrix(X)
    check_finite(X, None)
    return X


def no_pair(data: RankingData) -> DataError:
    """The error for data that say nothing."""
    return DataError(
        "there is no pair to learn from: within every query all labels are equal "
        f"({data.n_queries} queries, {data.n_docs} documents)"
    )


# The weights of the pairs ---------------------------------------------------------------------


class PairWeights:
    """``D(i, j) ∝ weight·exp(H_j − H_i)`` over all pairs, by what it gives to each document.

    Attributes
    ----------
    rows : int64 array
        The documents that are in some pair: by query, and in it from the lowest label to the
        highest. All that follows is in this order.
    weight, scores : float64 arrays
        Of documents; the scores are H, to be changed from outside.
    potential : float64 array
        π, up to date after `update`: Σ_i π_i h(x_i) is Σ D(i, j)·(h(x_i) − h(x_j)).
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
        # Sums are taken relative to this: at first a bound on the pairs, later their sum.
        self._log_total = float(2.0 * self._log_weight.max() + self._log_query.max())
        self.losses: list[float] = []
        self.update()

    def update(self) -> None:
        """Bring the potentials and the loss in line with the scores."""
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
    """Σ of all pairs, and each document's potential, both divided by exp(log_unit).

    A running sum of exponentials is kept as sum·exp(top), so that none of them overflows.
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
    """``total·exp(top) + exp(x)`` in the same form."""
    if x <= top:
        return top, total + np.exp(x - top)
    return x, total * np.exp(top - x) + 1.0


# The values of the features -------------------------------------------------------------------


class DenseBins(NamedTuple):
    """``codes[f, i]``: how many thresholds of feature f are below its value in document i."""

    codes: NDArray[Any]
    n_bins: NDArray[np.int64]


class SparseBins(NamedTuple):
    """The same for the entries of a sparse matrix, feature by feature; `zero` is the code of 0."""

    ptr: NDArray[np.int64]
    docs: NDArray[np.int32]
    codes: NDArray[Any]
    zero: NDArray[np.int64]
    n_bins: NDArray[np.int64]


def number_values(
    X: Matrix, rows: NDArray[np.int64], weight: Vector, n_thresholds: int | None
) -> tuple[DenseBins | SparseBins, list[Vector]]:
    """Choose the thresholds of each feature, and number its values in the given rows by them."""
    is_sparse = sparse.issparse(X)
    few = n_thresholds is not None and n_thresholds < 2**8
    dtype = np.uint8 if few else np.uint32
    thresholds: list[Vector] = []
    if is_sparse:
        X = sparse.csc_array(X[rows])
        codes = np.empty(X.nnz, dtype)
        for f in range(X.shape[1]):
            own = slice(X.indptr[f], X.indptr[f + 1])
            mass = weight[X.indices[own]]
            values, rest = X.data[own].astype(np.float64), weight.sum() - mass.sum()
            if len(values) < len(rows):
                values, mass = np.append(values, 0.0), np.append(mass, rest)
            thresholds.append(choose_thresholds(values, mass, n_thresholds))
            codes[own] = np.searchsorted(thresholds[f], X.data[own])
        n_bins = np.array([len(t) + 1 for t in thresholds])
        zero = np.array([np.searchsorted(t, 0.0) for t in thresholds])
        ptr, docs = X.indptr.astype(np.int64), X.indices.astype(np.int32)
        return SparseBins(ptr, docs, codes, zero, n_bins), thresholds
    codes = np.empty((X.shape[1], len(rows)), dtype)
    for f in range(X.shape[1]):
        values = X[rows, f].astype(np.float64)
        thresholds.append(choose_thresholds(values, weight, n_thresholds))
        codes[f] = np.searchsorted(thresholds[f], values)
    return DenseBins(codes, np.array([len(t) + 1 for t in thresholds])), thresholds


def choose_thresholds(values: Vector, mass: Vector, n: int | None) -> Vector:
    """All distinct values but the largest, or n quantiles of the values with these masses.

    Examples
    --------
    >>> choose_thresholds(np.array([3.0, 1.0, 2.0, 1.0]), np.ones(4), None)
    array([1., 2.])
    >>> choose_thresholds(np.arange(100.0), np.ones(100), 3)
    array([24., 49., 74.])
    """
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
    # All potentials add up to 0: what the entries do not have is at 0.
    total = 0.0
    for e in range(bins.ptr[f], bins.ptr[f + 1]):
        value = potential[bins.docs[e]]
        sums[bins.codes[e]] += value
        total += value
    sums[bins.zero[f]] -= total


def _add_dense(bins, f, k, alpha, scores):  # type: ignore[no-untyped-def]
    codes = bins.codes[f]
    for i in range(len(codes)):
        if codes[i] > k:
            scores[i] += alpha


def _add_sparse(bins, f, k, alpha, scores):  # type: ignore[no-untyped-def]
    # Relative to documents without an entry: a constant does not matter to pairs.
    base = bins.zero[f] > k
    for e in range(bins.ptr[f], bins.ptr[f + 1]):
        above = bins.codes[e] > k
        if above != base:
            scores[bins.docs[e]] += alpha if above else -alpha


_fill = by_type(
    0, {DenseBins: njit(_fill_dense, inner=True), SparseBins: njit(_fill_sparse, inner=True)}
)
_add = by_type(
    0, {DenseBins: njit(_add_dense, inner=True), SparseBins: njit(_add_sparse, inner=True)}
)


@njit
def best_stump(bins, potential):  # type: ignore[no-untyped-def]
    """The feature, the number of the threshold and r of the stump with the largest |r|.

    The feature is −1 where no stump has an r that is not 0.
    """
    buffer = np.empty(bins.n_bins.max())
    feature, threshold, best = -1, 0, 0.0
    for f in range(len(bins.n_bins)):
        sums = buffer[: bins.n_bins[f]]
        sums[:] = 0.0
        _fill(bins, f, potential, sums)
        r = 0.0
        for k in range(len(sums) - 1, 0, -1):
            r += sums[k]
            if abs(r) > abs(best) + SAME:
                feature, threshold, best = f, k - 1, r
    return feature, threshold, best


@njit
def add_stump(bins, f, k, alpha, scores):  # type: ignore[no-untyped-def]
    """Add alpha to the scores of the documents whose value is above threshold k of feature f."""
    _add(bins, f, k, alpha, scores)


# The model ------------------------------------------------------------------------------------


class StumpModel:
    """A score ``Σ_t alpha_t·[x_f > threshold_t]``, with the names of its features; JSON on disk.

    Parameters
    ----------
    stumps : Stumps
    n_features : int
    feature_names : sequence of str, optional
    settings : mapping
        The parameters of the training.
    training : mapping
        How the training went.

    Examples
    --------
    >>> stumps = Stumps(np.array([0, 1]), np.array([0.5, 2.0]), np.array([1.0, -0.25]))
    >>> StumpModel(stumps, n_features=2).predict([[1.0, 1.0], [1.0, 3.0], [0.5, 3.0]]).tolist()
    [1.0, 0.75, -0.25]
    """

    def __init__(
        self,
        stumps: Stumps,
        n_features: int,
        *,
        feature_names: Sequence[str] | None = None,
        settings: Mapping[str, Any] | None = None,
        training: Mapping[str, Any] | None = None,
    ) -> None:
        feature = np.array(stumps.feature, np.int64)
        threshold, alpha = (np.array(x, np.float64) for x in (stumps.threshold, stumps.alpha))
        if not feature.shape == threshold.shape == alpha.shape == (feature.size,):
            raise DataError("features, thresholds and alphas must be vectors of one length")
        if feature.size and not 0 <= feature.min() <= feature.max() < n_features:
            raise DataError(f"a feature of a stump is none of 0, …, {n_features - 1}")
        if not np.isfinite([threshold, alpha]).all():
            raise DataError("thresholds and alphas must be finite numbers")
        if feature_names is not None and len(feature_names) != n_features:
            raise DataError(f"feature_names has {len(feature_names)} entries for {n_features}")
        self.stumps = Stumps(feature, threshold, alpha)
        self.n_features = n_features
        self.feature_names = None if feature_names is None else [str(n) for n in feature_names]
        self.settings = dict(settings or {})
        self.training = dict(training or {})

    def predict(self, X: Any) -> Vector:
        """Score documents; higher is better."""
        X = check_matrix(X)
        if X.shape[1] != self.n_features:
            raise DataError(f"X has shape {X.shape} but the model has {self.n_features} features")
        check_finite(X, None)
        return self._scores(X)

    def _scores(self, X: Matrix) -> Vector:
        scores = np.zeros(X.shape[0])
        for first in range(0, X.shape[0], BLOCK):
            block = scores[first : first + BLOCK]
            for values, theta, alpha in self._walk(X, first, first + len(block)):
                block += alpha * (values > theta)
        return scores

    def _staged(self, X: Matrix) -> Iterator[Vector]:
        scores = np.zeros(X.shape[0])
        for values, theta, alpha in self._walk(X, 0, X.shape[0]):
            scores = scores + alpha * (values > theta)
            yield scores

    def _walk(self, X: Matrix, first: int, last: int) -> Iterator[tuple[Vector, float, float]]:
        """The values of some documents that each stump looks at, its threshold and its weight."""
        used, column = np.unique(self.stumps.feature, return_inverse=True)
        place = np.full(self.n_features, -1)
        place[used] = np.arange(len(used))
        values = np.zeros((len(used), last - first))
        copy_columns(kernel_matrix(X), first, last, (used, place), values)
        for t, k in enumerate(column):
            yield values[k], self.stumps.threshold[t], self.stumps.alpha[t]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model as JSON; an existing file is replaced only when all is written."""
        content = {
            "format": FORMAT,
            "version": VERSION,
            "linrank": __version__,
            "n_features": self.n_features,
            "feature_names": self.feature_names,
            "settings": _plain(self.settings),
            "training": _plain(self.training),
            "features": self.stumps.feature.tolist(),
            "thresholds": self.stumps.threshold.tolist(),
            "alphas": self.stumps.alpha.tolist(),
        }
        with atomic_write(path, "w") as file:
            json.dump(content, file, indent=1, allow_nan=False)
            file.write("\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> StumpModel:
        """Read a model; nothing in the file is executed."""
        try:
            content = json.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise FileFormatError(f"{path}: cannot be read ({error.strerror})") from None
        except (ValueError, RecursionError) as error:  # not JSON, or not UTF-8
            raise FileFormatError(f"{path}: not a model of stumps, or damaged: {error}") from None
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise FileFormatError(f"{path}: not a model of stumps (no format {FORMAT!r} in it)")
        if content.get("version") != VERSION:
            raise FileFormatError(
                f"{path}: file version {content.get('version')!r}, written by linrank "
                f"{content.get('linrank', 'unknown')}; this one ({__version__}) reads {VERSION}"
            )
        try:
            feature, threshold, alpha = (
                _numbers(content[name]) for name in ("features", "thresholds", "alphas")
            )
            if not all(type(f) is int for f in (*feature, content["n_features"])):
                raise DataError("features and n_features must be whole numbers")
            return cls(
                Stumps(np.array(feature, np.int64), np.array(threshold), np.array(alpha)),
                content["n_features"],
                feature_names=_names(content["feature_names"]),
                settings=content["settings"],
                training=content["training"],
            )
        except KeyError as error:
            raise FileFormatError(f"{path}: damaged: {error} is missing") from None
        except (DataError, OverflowError, TypeError, ValueError) as error:
            raise FileFormatError(f"{path}: damaged: {error}") from None
