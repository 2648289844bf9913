"""Data for the tables and figures of Chapelle & Keerthi 2010: folds, and generated shapes."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from scipy import sparse

from benchmarks.sparse_letor import read_parts
from linrank import RankingData, make_ranking

#: Number of entries of a row and of features of RCV1 (Lewis et al. 2004).
TEXT_ENTRIES, TEXT_FEATURES = 76, 47_236
POSITIVE = 0.47  #: share of the documents of RCV1 in the category CCAT


class Shape(NamedTuple):
    """A row of table 1, with the pairs of a training part that §5.1 gives."""

    queries: int
    levels: int
    features: int
    docs: int
    relevant: float
    pairs: int
    C: float  #: best C of figure 1


SHAPES = {
    "Ohsumed": Shape(106, 3, 45, 152, 0.30, 350_000, 1e-4),
    "TD 2004": Shape(75, 2, 64, 989, 0.015, 648_000, 1e-2),
}


@cache
def generate(name: str, quick: bool) -> RankingData:
    """Generate data with the queries, levels, features and relevant documents of table 1.

    Features are moved into the range 0 to 1, in which the features of LETOR are.
    """
    shape = SHAPES[name]
    queries, docs = (20, shape.docs // 4) if quick else (shape.queries, shape.docs)
    data = make_ranking(
        queries, (docs // 2, docs + docs // 2), shape.features, n_levels=None, noise=1.5,
        query_effect=0.3, correlation=0.7, random_state=0,
    )  # fmt: skip
    # Half of the relevant documents above the lowest level are on the highest of three levels.
    shares = np.cumsum([1 - shape.relevant, shape.relevant * 0.6][: shape.levels - 1])
    y = np.digitize(data.y, np.quantile(data.y, shares)).astype(float)
    return RankingData(np.clip(0.5 + data.X / 8, 0, 1), y, data.qid)


def split(data: RankingData, fold: int) -> list[RankingData]:
    """Return the training, validation and test part of a fold: three fifths, one, and one."""
    part = (np.repeat(np.arange(data.n_queries), np.diff(data.query_ptr)) - fold) % 5
    return [data.take(np.flatnonzero(rows)) for rows in (part < 3, part == 3, part == 4)]


def parts_of(name: str, fold: int, quick: bool) -> list[RankingData]:
    """Return the parts of a fold of generated data, or of LETOR 4.0."""
    return split(generate(name, quick), fold) if name in SHAPES else read_parts(name, fold)


def make_text(n: int) -> RankingData:
    """Generate documents with words as rare as in text, rows of norm 1, and two classes.

    The rank of a word has a Zipf distribution. The topics of the two classes differ in half of the
    words.
    """
    rng = np.random.default_rng(n)
    ranks = rng.random((n, TEXT_ENTRIES)) ** 3 * TEXT_FEATURES
    columns = ranks.astype(np.int32)
    values = rng.exponential(size=columns.shape) * np.log1p(ranks)
    starts = np.arange(0, columns.size + 1, TEXT_ENTRIES)
    X = sparse.csr_array((values.ravel(), columns.ravel(), starts), shape=(n, TEXT_FEATURES))
    X.sum_duplicates()
    X = sparse.csr_array(X.multiply(1 / np.sqrt(X.power(2).sum(axis=1))[:, None]))
    topic = np.random.default_rng(0).standard_normal(TEXT_FEATURES)
    utility = X @ topic + 0.5 * rng.standard_normal(n) * np.sqrt(0.5)
    return RankingData(X, (utility > np.quantile(utility, 1 - POSITIVE)).astype(float))
