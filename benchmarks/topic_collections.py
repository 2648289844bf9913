"""Collections for the comparison with PAMIR: LETOR, Reuters-21578, and generated images."""

from __future__ import annotations

import html
import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.datasets import load_svmlight_files
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import normalize

from .sparse_letor import read_parts

LEAST_DOCUMENTS = 50  #: documents that a topic of Reuters-21578 needs; rarer topics are left out
LEAST_PER_PART = 2  #: documents that it needs in each of the three parts


class Part(NamedTuple):
    """Documents for training, validation or test.

    Attributes
    ----------
    X : matrix of shape (n_docs, n_features)
    counts : array of shape (n_docs,) or (n_docs, n_topics)
        Feedback; documents with 1 or more are relevant.
    levels : array of the same shape
        Feedback with the values 0, 1 and 2.
    qid : array of shape (n_docs,) or None
        None: each topic is a query over all documents, with weights of its own.
    """

    X: Any
    counts: np.ndarray
    levels: np.ndarray
    qid: np.ndarray | None = None


Split = tuple[Part, Part, Part]


def letor_splits(name: str, n_folds: int) -> Iterator[Split]:
    """Yield the folds of MQ2007 or MQ2008; all queries share their weights."""
    for fold in range(1, n_folds + 1):
        train, valid, test = (
            Part(data.X, data.y, data.y, np.asarray(data.qid)) for data in read_parts(name, fold)
        )
        yield train, valid, test


def cut(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return random rows: one half, and two quarters (Stevens et al. 2013, §1.5)."""
    rows = np.random.default_rng(seed).permutation(n)
    return rows[: n // 2], rows[n // 2 : 3 * n // 4], rows[3 * n // 4 :]


def generated_images(n: int, d: int, n_topics: int) -> Iterator[Split]:
    """Yield generated features of 2 % density, and counts of clicks for each topic.

    Rows have the length 1. The appeal of a document is a linear score of 3 % of the features plus
    as much noise. The 2 % of the documents with the largest appeal get a Poisson number of clicks,
    whose mean grows with the appeal.
    """
    rng = np.random.default_rng(0)
    X = normalize(sparse.random_array((n, d), density=0.02, rng=rng, format="csr"))
    W = np.where(rng.random((d, n_topics)) < 0.03, rng.standard_normal((d, n_topics)), 0.0)
    scores = X @ W
    appeal = (scores - scores.mean(axis=0)) / scores.std(axis=0) + rng.standard_normal(scores.shape)
    above = appeal - np.quantile(appeal, 0.98, axis=0)
    counts = np.where(above > 0, rng.poisson(5.0 * np.exp(np.minimum(above, 3.0))), 0).astype(float)
    middle = np.array([np.median(column[column > 0]) for column in counts.T])
    levels = (counts > 0) + (counts > middle).astype(float)
    learn, valid, test = (Part(X[rows], counts[rows], levels[rows]) for rows in cut(n))
    yield learn, valid, test


def reuters_topic() -> Iterator[Split]:
    """Yield one topic of Reuters, with a quarter of its training file as the validation part.

    Yield nothing if the files ``reuters/train.txt`` and ``reuters/test.txt`` are not in
    ``LINRANK_DATA``.
    """
    files = [
        Path(os.environ.get("LINRANK_DATA", ""), "reuters", f"{name}.txt")
        for name in ("train", "test")
    ]
    if not all(file.is_file() for file in files):
        return
    X, y, test_X, test_y = load_svmlight_files([str(file) for file in files])
    rows = np.random.default_rng(0).permutation(len(y))
    known, valid = rows[len(y) // 4 :], rows[: len(y) // 4]
    places = ((X[known], y[known]), (X[valid], y[valid]), (test_X, test_y))
    one, two, three = (
        Part(sparse.csr_array(some), *[(labels > 0).astype(float)[:, None]] * 2)
        for some, labels in places
    )
    yield one, two, three


def reuters_splits(n_topics: int | None = None) -> Iterator[Split]:
    """Yield Reuters-21578 with tf·idf features of the words that occur in two training documents.

    Documents without topics are left out, and topics after the first `n_topics`. Yield nothing if
    the folder ``reuters21578`` is not in ``LINRANK_DATA``.
    """
    folder = Path(os.environ.get("LINRANK_DATA", ""), "reuters21578")
    files = sorted(folder.glob("*.sgm"))
    if not files:
        return
    texts, topics = zip(*(found for file in files for found in _articles(file)), strict=True)
    parts = cut(len(texts))
    total = Counter(topic for own in topics for topic in own)
    names = sorted(topic for topic, n in total.items() if n >= LEAST_DOCUMENTS)
    Y = np.array([[name in own for name in names] for own in topics], dtype=float)
    Y = Y[:, np.min([Y[rows].sum(axis=0) for rows in parts], axis=0) >= LEAST_PER_PART]
    Y = Y[:, :n_topics]
    words = TfidfVectorizer(sublinear_tf=True, min_df=2, token_pattern="[a-z]{2,}")
    words.fit(texts[row] for row in parts[0])
    X = sparse.csr_array(words.transform(texts))
    learn, valid, test = (Part(X[rows], Y[rows], Y[rows]) for rows in parts)
    yield learn, valid, test


def _articles(file: Path) -> Iterator[tuple[str, set[str]]]:
    """Yield the text and the topics of each article that has topics."""
    for article in file.read_text(encoding="latin-1").split("</REUTERS>"):
        topics = re.search("<TOPICS>(.*?)</TOPICS>", article)
        text = re.search("<TEXT.*?>(.*)</TEXT>", article, re.DOTALL)
        own = set(re.findall("<D>(.*?)</D>", topics[1])) if topics else set()
        if own and text:
            yield html.unescape(re.sub("<[^>]*>", " ", text[1])), own
