"""Jin & Lin 2014 in plain numpy, pair by pair.

This module is written from the paper alone and shares no code with linrank.
"""

from __future__ import annotations

import numpy as np


def support_vectors(y, qid, s):
    """Return the pairs (i, j) of eq. 9: one query, y_i > y_j, and 1 − (s_i − s_j) > 0."""
    return [
        (i, j)
        for i in range(len(y))
        for j in range(len(y))
        if qid[i] == qid[j] and y[i] > y[j] and 1.0 - (s[i] - s[j]) > 0
    ]


def sums(y, qid, s, Xv):
    """Return β+, β−, α+, α−, γ+ and γ− of eq. 10, as rows."""
    found = np.zeros((6, len(y)))
    for i, j in support_vectors(y, qid, s):
        found[[0, 2, 4], j] += 1.0, Xv[i], s[i]  # i is in SV+ of j
        found[[1, 3, 5], i] += 1.0, Xv[j], s[j]  # j is in SV− of i
    return found


def evaluate(X, y, qid, w, v, C):
    """Return f(w), its gradient and ∇²f(w)v of eqs. 11 to 13, with A as a matrix."""
    pairs = support_vectors(y, qid, X @ w)
    A = np.zeros((len(pairs), len(y)))
    for row, (i, j) in enumerate(pairs):
        A[row, i], A[row, j] = 1.0, -1.0
    e, AXw = np.ones(len(pairs)), A @ (X @ w)
    f = 0.5 * w @ w + C * ((X @ w) @ (A.T @ AXw - 2.0 * A.T @ e) + len(pairs))
    gradient = w + 2.0 * C * X.T @ (A.T @ AXw - A.T @ e)
    return f, gradient, v + 2.0 * C * X.T @ (A.T @ (A @ (X @ v)))


def algorithm_2_as_printed(y, s, Xv):
    """Return the six sums of Algorithm 2 for one query, line by line.

    The loops of lines 3 and 10 stop at the first document that is not in SV+ or SV−.
    """
    order = np.argsort(s, kind="stable")
    found = np.zeros((6, len(y)))
    for i in order:
        j = 0
        while j < len(y) and y[order[j]] > y[i] and 1.0 - (s[order[j]] - s[i]) > 0:
            found[[0, 2, 4], i] += 1.0, Xv[order[j]], s[order[j]]
            j += 1
        j = len(y) - 1
        while j >= 0 and y[order[j]] < y[i] and 1.0 - (s[i] - s[order[j]]) > 0:
            found[[1, 3, 5], i] += 1.0, Xv[order[j]], s[order[j]]
            j -= 1
    return found


def divide_as_printed(values, pivot):
    """Return both parts of lines 14 to 29 of Algorithm 3, as lists of places."""
    places = range(len(values))
    lt = [i for i in places if values[i] <= values[pivot] and i != pivot]
    return lt, [i for i in places if i not in lt]


def move_as_printed(values, pivot):
    """Return what lines 22 to 29 of Algorithm 3 write with one thread, by place from 0 on."""
    lt, gt = divide_as_printed(values, pivot)
    lp, gp = 0, len(values) - 1 - len(gt)
    written = {}
    for i in range(len(values)):
        if i in lt:
            written[lp] = values[i]
            lp += 1
        else:
            written[gp] = values[i]
            gp -= 1
    return written


def quicksort_as_printed(values, minsize, rng, limit=10_000):
    """Return how many divisions Algorithm 3 needs for one sequence."""
    stack, n_divisions = [np.asarray(values)], 0
    while stack and n_divisions < limit:
        part = stack.pop()
        if len(part) <= minsize:
            continue
        lt, gt = divide_as_printed(part, rng.integers(len(part)))
        n_divisions += 1
        stack += [part[lt], part[gt]]
    return n_divisions
