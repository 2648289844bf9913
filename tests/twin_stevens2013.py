"""Stevens, Bengio & Singer 2013 in plain numpy, document by document.

This module is written from the paper alone and shares no code with linrank. λ is the weight of the
penalty, so it is 1/C of linrank.
"""

from __future__ import annotations

import numpy as np


def figure_1_1(X, relevant, n_sweeps, first_Z=None):
    """Follow fig. 1.1 line by line, for one query; return w after each sweep.

    The figure starts with Z = m, and the text says that m is the number of relevant documents. Z is
    a sum over the irrelevant documents, so the default is their number.
    """
    D, rest = np.flatnonzero(~relevant), np.flatnonzero(relevant)
    m = len(rest)
    Z = float(len(D)) if first_Z is None else first_Z
    rho, w = np.zeros(len(X)), np.zeros(X.shape[1])
    B = (X**2).max(axis=0)
    found = []
    for _ in range(n_sweeps):
        for r in range(X.shape[1]):
            v = mu = 0.0
            for j in D:
                mu += np.exp(rho[j]) * X[j, r]
            for i in rest:
                v += (Z * X[i, r] - mu) / (Z + np.exp(rho[i]))
            delta = v / (m * B[r])
            w[r] += delta
            for j in D:
                Z -= np.exp(rho[j])
                rho[j] += delta * X[j, r]
                Z += np.exp(rho[j])
            for i in rest:
                rho[i] += delta * X[i, r]
        found.append(w.copy())
    return found


def loss(X, y, qid, w, Delta):
    """Return the sum of eq. 1.1 over all documents; Delta is a function of i and j."""
    total = 0.0
    for i in range(len(y)):
        worse = [j for j in range(len(y)) if qid[j] == qid[i] and y[j] < y[i]]
        if worse:
            total += np.log(1.0 + sum(np.exp(w @ (X[j] - X[i]) + Delta(i, j)) for j in worse))
    return total


def slope(X, y, qid, w, r, s, sign):
    """Return the derivative in w_r of §1.4: Σ (μ − Z x_ir)/(Z + e^{w·x_i + sign·s(i)}).

    The paper prints sign = +1. Eq. 1.1 with Δ(i, j) = s(i) − s(j) has the sign −1.
    """
    g = 0.0
    for i in range(len(y)):
        worse = [j for j in range(len(y)) if qid[j] == qid[i] and y[j] < y[i]]
        Z = sum(np.exp(w @ X[j] - s[j]) for j in worse)
        mu = sum(np.exp(w @ X[j] - s[j]) * X[j, r] for j in worse)
        g += (mu - Z * X[i, r]) / (Z + np.exp(w @ X[i] + sign * s[i]))
    return g


def curvature_bound(X, y, qid, r):
    """Return Σ m·B_r over the queries (eq. 1.3); m is the number of dominating documents."""
    beta = 0.0
    for q in np.unique(qid):
        rows = np.flatnonzero(qid == q)
        m = sum(y[i] > y[rows].min() for i in rows)
        beta += m * max(X[j, r] ** 2 for j in rows)
    return beta


def l1_step(g, beta, w, lam):
    """Return δ of eq. 1.4, by lemma 2 and the two-step procedure below it."""
    if abs(g - beta * w) <= lam:
        return -w
    return -(g + lam) / beta if beta * w - g > 0 else (-g + lam) / beta


def l2_step(g, beta, w, lam):
    """Return the δ that minimises g·δ + ½β·δ² + ½λ(w + δ)², the l2 form of eq. 1.4."""
    return -(g + lam * w) / (beta + lam)


def coordinate_descent(X, y, qid, n_sweeps, step, lam, s=None, sign=-1):
    """Return w after each sweep over the features, for any levels and margins (§1.4)."""
    w, found = np.zeros(X.shape[1]), []
    s = np.zeros(len(y)) if s is None else s
    for _ in range(n_sweeps):
        for r in range(X.shape[1]):
            beta = curvature_bound(X, y, qid, r)
            w[r] += step(slope(X, y, qid, w, r, s, sign), beta, w[r], lam)
        found.append(w.copy())
    return found
