"""Generators of small ranking problems that the tests share."""

from __future__ import annotations

import numpy as np
from scipy import sparse

import reference
from linrank.losses import get_loss

#: The options of rankers whose objective is that of the papers.
PAPERS = {"normalize": None, "scale": None}

#: Functions that draw the labels and the query ids of n documents, by the kind of problem.
KINDS = {
    "two levels": (lambda rng, n: rng.integers(0, 2, n), lambda rng, n: rng.integers(0, 4, n)),
    "five levels": (lambda rng, n: rng.integers(0, 5, n), lambda rng, n: rng.integers(0, 3, n)),
    "nine levels": (lambda rng, n: rng.integers(0, 9, n), lambda rng, n: np.zeros(n, int)),
    "ten levels": (lambda rng, n: rng.integers(0, 10, n), lambda rng, n: np.zeros(n, int)),
    "all distinct": (lambda rng, n: rng.permutation(n), lambda rng, n: np.zeros(n, int)),
    "real labels": (lambda rng, n: rng.standard_normal(n), lambda rng, n: rng.integers(0, 3, n)),
    "one level": (lambda rng, n: np.ones(n), lambda rng, n: rng.integers(0, 3, n)),
    "one document each": (lambda rng, n: rng.integers(0, 3, n), lambda rng, n: np.arange(n)),
    "pairs of documents": (lambda rng, n: rng.integers(0, 3, n), lambda rng, n: np.arange(n) // 2),
}


def make_problem_arrays(kind, n=90, d=4, seed=0, tied=False):
    """Generate X, y and qid of a kind of problem, in random row order."""
    rng = np.random.default_rng(seed)
    labels, queries = KINDS[kind]
    X = rng.standard_normal((n, d))
    X[rng.random((n, d)) < 0.4] = 0.0
    if tied:
        X = np.round(X)
    return X, labels(rng, n).astype(float), queries(rng, n)


def as_form(X, form):
    """Convert X to the form "dense64", "dense32", "csr64" or "csr32"."""
    X = X.astype(np.float32 if form.endswith("32") else np.float64)
    return sparse.csr_array(X) if form.startswith("csr") else X


def slow_loss(name, y, qid):
    """Return the loss of scores and its gradient, from listed pairs or documents."""
    loss = get_loss(name)
    if not loss.pairwise:
        labels = (y > 0).astype(float) if name == "domination_binary" else y
        return lambda scores: reference.domination_loss(scores, labels, qid)[:2]
    pairs = reference.preference_pairs(y, qid)
    twin = reference.logistic_loss if loss.exact else (
        lambda t: reference.hinge_loss(loss.table, t)
    )  # fmt: skip
    return lambda scores: reference.sum_over_pairs(scores, pairs, twin)[:2]
