"""The algorithms of Laporte et al. 2014 in plain numpy, written from the paper alone.

The problem is J₁(w) + λΩ(w) with J₁(w) = Σ_p max(0, 1 − x̃_p'w)², as in eq. 8. Nothing here is
shared with linrank.
"""

from __future__ import annotations

import numpy as np


def preference_rows(X, y, qid):
    """X̃ (§III.A): one row x_s − x_t for each pair of a query in which s is preferred to t."""
    rows = []
    for s in range(len(y)):
        for t in range(len(y)):
            if qid[s] == qid[t] and y[s] > y[t]:
                rows.append(X[s] - X[t])
    return np.array(rows)


def loss(Xp, w):
    """J₁(w) of proposition 1."""
    return sum(max(0.0, 1.0 - float(x @ w)) ** 2 for x in Xp)


def gradient(Xp, w):
    """∇J₁(w) of proposition 1."""
    total = np.zeros(Xp.shape[1])
    for x in Xp:
        total += x * max(0.0, 1.0 - float(x @ w))
    return -2.0 * total


def printed_constant(Xp):
    """The constant at the end of the proof of proposition 1."""
    return sum(float(x @ x) for x in Xp)


def smallest_constant(Xp):
    """The smallest Lipschitz constant of ∇J₁ where all pairs are active: 2·λ_max(X̃'X̃)."""
    return 2.0 * np.linalg.norm(Xp, 2) ** 2


def soft_threshold(z, shift):
    """Eqs. 11 and 12, by feature."""
    out = np.zeros(len(z))
    for j in range(len(z)):
        rest = abs(z[j]) - shift[j]
        if rest > 0:
            out[j] = np.sign(z[j]) * rest
    return out


def algorithm_1(Xp, lam, beta, L, w0, n_steps, accelerated=True):
    """Yield w¹, w², … of algorithm 1, or of eq. 10 without acceleration."""
    before, z, t = w0, w0, 1.0
    for _ in range(n_steps):
        w = soft_threshold(z - gradient(Xp, z) / L, lam / L * beta)
        t_next = (1.0 + np.sqrt(1.0 + 4.0 * t**2)) / 2.0
        z = w + (t - 1.0) / t_next * (w - before) if accelerated else w
        before, t = w, t_next
        yield w


def derivative(name, w, lam, p=0.5, epsilon=0.1, gamma=2.0):
    """g'(|w_j|) of table II, for one weight."""
    u = abs(w)
    if name == "lp":
        return np.inf if u == 0 else p * u ** (p - 1.0)
    if name == "log":
        return 1.0 / (epsilon + u)
    return max(1.0 - u / (gamma * lam), 0.0)


def algorithm_2(Xp, lam, name, L, n_steps, n_outer):
    """Yield w¹, w², … of algorithm 2, with a fixed number of steps of algorithm 1 in each."""
    w = np.zeros(Xp.shape[1])
    beta = np.ones(Xp.shape[1])
    for _ in range(n_outer):
        *_, w = algorithm_1(Xp, lam, beta, L, w, n_steps)
        beta = np.array([derivative(name, one, lam) for one in w])
        yield w
