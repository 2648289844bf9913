"""Generated data with known true weights, for tests, benchmarks and demonstrations."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike
from scipy import sparse

from .._util.files import write_error
from .._util.types import Array, Integers, Vector
from ..errors import DataError
from ..matrix.rows import kernel_matrix, matvec
from .letor import check_dtype, write_letor
from .ranking import RankingData, read_content
from .validation import MAX_FEATURES, Matrix, assemble_csr

_BLOCK_ROWS = 1 << 12  # rows processed at a time, so that they stay in the cache
_HEAVY_TAIL = 1.5  # standard deviation of the logarithm of a heavy-tailed feature
_DECADES = 8  # powers of ten over which the scales of heavy-tailed features are spread


def make_ranking(
    n_queries: int = 100,
    docs_per_query: int | Sequence[int] = 20,
    n_features: int = 20,
    *,
    n_levels: int | None = 5,
    density: float = 1.0,
    noise: float = 0.5,
    query_effect: float = 0.5,
    n_informative: int | None = None,
    correlation: float = 0.0,
    heavy_tails: bool = False,
    dtype: DTypeLike = np.float64,
    random_state: int | np.random.Generator | None = None,
    return_coef: bool = False,
) -> Any:
    """Generate ranked data that a linear function ranks correctly up to noise.

    The utility of a document is ``x·w + query_effect·q + noise·e``. Here x·w is scaled to variance
    1, and q (one per query) and e (one per document) are standard normal. The label is the level
    into which the utility falls. Levels are as skewed as in web search: half of the documents have
    level 0, and each further level is half as frequent as the one below it. Without noise, a larger
    x·w never has a smaller label within a query.

    Parameters
    ----------
    n_queries : int
    docs_per_query : int or (int, int)
        The number of documents of each query, or the smallest and the largest number.
    n_features : int
    n_levels : int or None
        The number of labels 0, 1, …. If None, the utility itself is the label, so that all
        labels differ.
    density : float
        The fraction of the features that are not 0. Below 1, X is CSR.
    noise : float
        Standard deviation of the noise in the labels, relative to the signal. With 0, a linear
        function ranks perfectly.
    query_effect : float
        Standard deviation of an offset of each query, which makes all its documents more or less
        relevant. No feature explains it, and it does not change the order within a query.
    n_informative : int, optional
        The number of features with a weight other than 0; by default all.
    correlation : float
        Correlation of each feature with the next one, at least 0 and below 1.
    heavy_tails : bool
        Whether features are log-normal with scales from 1 to 10⁸, like raw features of web search,
        instead of standard normal.
    dtype : {np.float64, np.float32}
        The type of the features.
    random_state : int, numpy.random.Generator or None
        The same number gives the same data. X, w and q do not depend on `noise`.
    return_coef : bool
        Whether to return w too.

    Returns
    -------
    data : RankingData
    coef : float64 array of shape (n_features,)
        The true weights w; only if `return_coef`.

    Examples
    --------
    >>> make_ranking(n_queries=3, docs_per_query=4, n_features=2, random_state=0)
    RankingData(12 documents, 3 queries, 2 features, dense float64)
    >>> data, coef = make_ranking(noise=0, query_effect=0, random_state=0, return_coef=True)
    >>> order = np.argsort(data.X @ coef)
    >>> bool((np.diff(data.y[order]) >= 0).all())
    True
    """
    n_informative = n_features if n_informative is None else n_informative
    _check_range("n_queries", n_queries, 1)
    _check_range("n_features", n_features, 1, MAX_FEATURES)
    _check_range("n_levels", 2 if n_levels is None else n_levels, 2)
    _check_range("n_informative", n_informative, 1, n_features)
    _check_range("density", density, np.nextafter(0, 1), 1)
    _check_range("noise", noise, 0)
    _check_range("query_effect", query_effect, 0)
    _check_range("correlation", correlation, 0, np.nextafter(1, 0))
    if correlation and density < 1:
        raise DataError(
            f"correlation is {correlation} but density is {density}; correlated features need "
            "density=1"
        )
    feature_type = check_dtype(dtype)

    for_sizes, for_X, for_coef, for_labels = np.random.default_rng(random_state).spawn(4)
    query_ptr = _query_ptr(for_sizes, n_queries, docs_per_query)
    n_docs = int(query_ptr[-1])
    scales = 10.0 ** for_coef.uniform(0, _DECADES if heavy_tails else 0, n_features)
    if density < 1:
        X = _sparse_features(for_X, n_docs, n_features, density, feature_type)
    else:
        X = _dense_features(for_X, n_docs, n_features, correlation, feature_type)
    if heavy_tails:
        _make_tails_heavy(X, scales)
    signal, coef = _signal(for_coef, X, n_informative, scales)
    utility = signal + query_effect * np.repeat(
        for_labels.standard_normal(n_queries), np.diff(query_ptr)
    )
    utility += noise * for_labels.standard_normal(n_docs)
    data = RankingData.from_parts(
        X=X,
        y=utility if n_levels is None else _levels(utility, n_levels),
        query_ptr=query_ptr,
        query_ids=np.arange(1, n_queries + 1),
        **read_content(X, query_ptr),
    )
    return (data, coef) if return_coef else data


def _check_range(name: str, value: float, low: float, high: float = np.inf) -> None:
    if not low <= value <= high:
        limits = f"at least {low}" if high == np.inf else f"{low:g} to {high:g}"
        raise DataError(f"{name} is {value!r}; expected {limits}")


def _query_ptr(
    rng: np.random.Generator, n_queries: int, docs_per_query: int | Sequence[int]
) -> Integers:
    low, high = (
        docs_per_query if isinstance(docs_per_query, Sequence) else (docs_per_query, docs_per_query)
    )
    if not 1 <= low <= high:
        raise DataError(
            f"docs_per_query is {docs_per_query!r}; expected a number of at least 1, or the "
            "smallest and the largest number, such as (5, 20)"
        )
    query_ptr = np.zeros(n_queries + 1, np.int64)
    np.cumsum(rng.integers(low, high, n_queries, endpoint=True), out=query_ptr[1:])
    return query_ptr


def _dense_features(
    rng: np.random.Generator, n_docs: int, n_features: int, correlation: float, dtype: np.dtype[Any]
) -> Array:
    """Return standard normal features, each correlated with the next one."""
    X = np.empty((n_docs, n_features), dtype)
    for start in range(0, n_docs, _BLOCK_ROWS):
        block = X[start : start + _BLOCK_ROWS]
        rng.standard_normal(dtype=dtype, out=block)
        if correlation:
            block[:, 1:] *= np.sqrt(1 - correlation**2)
            for f in range(1, n_features):
                block[:, f] += correlation * block[:, f - 1]
    return X


def _sparse_features(
    rng: np.random.Generator, n_docs: int, n_features: int, density: float, dtype: np.dtype[Any]
) -> sparse.csr_array:
    """Return sparse standard normal features, each present with probability `density`."""
    size, mean = n_docs * n_features, n_docs * n_features * density
    # The distances between entries, in row-major order, are geometrically distributed. The number
    # of entries exceeds its mean by less than ten standard deviations.
    steps = rng.geometric(density, int(mean + 10 * np.sqrt(mean) + 10))
    places = np.cumsum(steps) - 1
    places = places[: max(np.searchsorted(places, size), 1)] % size  # Keep at least one entry.
    indptr = np.searchsorted(places, n_features * np.arange(n_docs + 1))
    data = rng.standard_normal(len(places), dtype=dtype)
    return assemble_csr(indptr, (places % n_features).astype(np.int32), data, n_features)


def _make_tails_heavy(X: Matrix, scales: Vector) -> None:
    """Transform standard normal features into log-normal ones with given scales, in place."""
    if sparse.issparse(X):
        X.data = (np.exp(_HEAVY_TAIL * X.data) * scales[X.indices]).astype(X.dtype)
        return
    for start in range(0, len(X), _BLOCK_ROWS):
        block = X[start : start + _BLOCK_ROWS]
        np.exp(_HEAVY_TAIL * block, out=block)
        block *= scales


def _signal(
    rng: np.random.Generator, X: Matrix, n_informative: int, scales: Vector
) -> tuple[Vector, Vector]:
    """Draw the true weights w; return ``x·w`` of each document, with variance 1, and w."""
    coef, signal = np.zeros(X.shape[1]), np.empty(X.shape[0])
    informative = rng.choice(X.shape[1], n_informative, replace=False)
    coef[informative] = rng.standard_normal(n_informative)
    coef /= scales
    matvec(kernel_matrix(X), 0, X.shape[0], coef, signal)
    spread = signal.std() or 1.0
    return signal / spread, coef / spread


def _levels(utility: Vector, n_levels: int) -> Vector:
    """Cut utilities into levels, of which each is half as frequent as the one below it."""
    thresholds = np.quantile(utility, 1 - 0.5 ** np.arange(1, n_levels))
    return np.searchsorted(thresholds, utility, side="right").astype(np.float64)


def make_letor_folder(
    path: str | os.PathLike[str], *, n_queries: int = 500, decimals: int | None = 6, **options: Any
) -> list[Path]:
    """Write generated data as one fold of a LETOR data set.

    The files ``train.txt``, ``vali.txt`` and ``test.txt`` share the true weights. They hold three
    fifths, one fifth and one fifth of the queries, as the folds of the LETOR data sets do.

    Parameters
    ----------
    path : path-like
        The folder; it is created if it does not exist.
    n_queries : int
        The number of queries in all three files together, at least 3.
    decimals : int or None
        See `linrank.write_letor`.
    **options
        See `make_ranking`.

    Returns
    -------
    list of Path
        The three files.

    Examples
    --------
    >>> import tempfile
    >>> files = make_letor_folder(tempfile.mkdtemp(), n_queries=10, random_state=0)
    >>> [file.name for file in files]
    ['train.txt', 'vali.txt', 'test.txt']
    """
    _check_range("n_queries", n_queries, 3)
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise write_error(path, error) from None
    data = make_ranking(n_queries, **options)
    fifth = max(n_queries // 5, 1)
    edges = data.query_ptr[[0, n_queries - 2 * fifth, n_queries - fifth, n_queries]]
    files = [folder / name for name in ("train.txt", "vali.txt", "test.txt")]
    for file, (first, last) in zip(files, pairwise(edges), strict=True):
        write_letor(file, data.take(np.arange(first, last)), decimals=decimals)
    return files
