"""The algorithms of Lee & Lin 2014, written from the paper with explicit pairs.

Nothing here is fast, and nothing is shared with linrank. Numbers in brackets are equations of the
paper. Where the paper leaves a choice, a comment names it.
"""

from __future__ import annotations

import itertools

import numpy as np


def pairs_of(y, qid, adjacent=False):
    """Return P (1) as two arrays of rows: by query, by upper level, by upper row, by lower row.

    If `adjacent`, only neighbouring levels of a query are compared (§5).
    """
    upper, lower = [], []
    for q in sorted(set(qid.tolist())):
        rows = np.flatnonzero(qid == q)
        levels = sorted(set(y[rows].tolist()))
        for k, level in enumerate(levels):
            below = [r for low in (levels[k - 1 : k] if adjacent and k else levels[:k])
                     for r in rows[y[rows] == low]]  # fmt: skip
            for i, j in itertools.product(rows[y[rows] == level], below):
                upper.append(i)
                lower.append(j)
    return np.array(upper, int), np.array(lower, int)


# The objective: (9), (10) and (12), by pairs -----------------------------------------------------


def differences(X, pairs, w):
    """Return A X w."""
    scores = X @ w
    return scores[pairs[0]] - scores[pairs[1]]


def back(X, pairs, values):
    """Return X' A' values."""
    n = X.shape[0]
    return X.T @ (np.bincount(pairs[0], values, n) - np.bincount(pairs[1], values, n))


def squared_objective(X, pairs, C, w):
    """Return f(w) of (9)."""
    slack = np.maximum(0.0, 1.0 - differences(X, pairs, w))
    return 0.5 * (w @ w) + C * (slack @ slack)


def squared_gradient(X, pairs, C, w):
    """Return the gradient (10)."""
    slack = np.maximum(0.0, 1.0 - differences(X, pairs, w))
    return w - 2.0 * C * back(X, pairs, slack)


def hessian_product(X, pairs, C, w, v):
    """Return the product (12) with the generalised Hessian (11)."""
    active = differences(X, pairs, w) < 1.0
    return v + 2.0 * C * back(X, pairs, active * differences(X, pairs, v))


# TRON (§4.1) -------------------------------------------------------------------------------------


def tron(X, pairs, C, eps=1e-3, most=1000):
    """Run TRON; return the iterates w_0, w_1, …, and the number of CG iterations of each step.

    The paper leaves open: Δ_0, which is ‖∇f(w_0)‖ here and at most ‖s_0‖ in the first update; the
    residual 0.1·‖∇f‖ at which CG stops (Lin et al. 2008); and the place within the intervals (37),
    which is that of the quadratic through f(w), f(w + s) and the slope (Lin & Moré 1999).
    """
    w = np.zeros(X.shape[1])
    f, g = squared_objective(X, pairs, C, w), squared_gradient(X, pairs, C, w)
    first = delta = np.linalg.norm(g)
    iterates, counts = [w], []
    for t in range(most):
        if np.linalg.norm(g) <= eps * first:  # (38)
            break
        s, n_cg = steihaug(lambda v, w=w: hessian_product(X, pairs, C, w, v), g, delta)
        model = g @ s + 0.5 * (s @ hessian_product(X, pairs, C, w, s))  # (7)
        fall = squared_objective(X, pairs, C, w + s) - f
        if t == 0:
            delta = min(delta, np.linalg.norm(s))
        delta = next_delta(delta, np.linalg.norm(s), fall / model, fall, g @ s)
        if fall / model > 1e-4:  # (36)
            w = w + s
            f, g = squared_objective(X, pairs, C, w), squared_gradient(X, pairs, C, w)
        iterates.append(w)
        counts.append(n_cg)
    return iterates, counts


def steihaug(product, g, delta):
    """Minimise (7) within (35) by CG; return the step and the number of products."""
    s = np.zeros_like(g)
    r = -g
    d = r
    n_cg = 0
    while np.linalg.norm(r) > 0.1 * np.linalg.norm(g):
        n_cg += 1
        Hd = product(d)
        alpha = (r @ r) / (d @ Hd)
        if np.linalg.norm(s + alpha * d) > delta:
            root = np.roots([d @ d, 2.0 * (s @ d), s @ s - delta**2])
            return s + root.max() * d, n_cg
        s = s + alpha * d
        new = r - alpha * Hd
        d = new + (new @ new) / (r @ r) * d
        r = new
    return s, n_cg


def next_delta(delta, length, rho, fall, slope):
    """Return Δ_{t+1} by (37)."""
    sigma1, sigma2, sigma3 = 0.25, 0.5, 4.0
    alpha = sigma3 if fall <= slope else max(sigma1, -0.5 * slope / (fall - slope))
    if rho < 1e-4:
        return min(alpha * length, sigma2 * delta)
    if rho < 0.25:
        return max(sigma1 * delta, min(alpha * length, sigma2 * delta))
    if rho < 0.75:
        return max(sigma1 * delta, min(alpha * length, sigma3 * delta))
    return max(delta, min(alpha * length, sigma3 * delta))


# Cutting planes (§3.2) ---------------------------------------------------------------------------


def cutting_planes(X, pairs, C, n_planes):
    """Return the iterates of (33) for the hinge, and the minimum of the model after each plane."""
    w = np.zeros(X.shape[1])
    slopes, offsets, iterates, bounds = [], [], [w], []
    for _ in range(n_planes):
        t = differences(X, pairs, w)
        a = -C * back(X, pairs, (t < 1.0).astype(float))
        slopes.append(a)
        offsets.append(C * np.maximum(0.0, 1.0 - t).sum() - a @ w)
        w, bound = lowest_point(np.array(slopes), np.array(offsets))
        iterates.append(w)
        bounds.append(bound)
    return iterates, bounds


def lowest_point(A, b):
    """Minimise ½‖w‖² + max(Aw + b): the best λ among those of all subsets of planes.

    The dual problem is max b'λ − ½‖A'λ‖² on the simplex. Its solution is the solution without the
    inequalities on the subset of planes with λ > 0.
    """
    best, found = -np.inf, None
    for size in range(1, len(b) + 1):
        for chosen in itertools.combinations(range(len(b)), size):
            rows = A[list(chosen)]
            system = np.block([[rows @ rows.T, np.ones((size, 1))], [np.ones((1, size)), 0.0]])
            right = np.append(b[list(chosen)], 1.0)
            # One step of refinement removes the rounding of the first solution.
            solution = np.linalg.lstsq(system, right, rcond=1e-14)[0]
            solution += np.linalg.lstsq(system, right - system @ solution, rcond=1e-14)[0]
            weights = solution[:-1]
            value = b[list(chosen)] @ weights - 0.5 * np.sum((weights @ rows) ** 2)
            if weights.min() >= 0 and value > best:
                best, found = value, -(weights @ rows)
    return found, best


def hinge_objective(X, pairs, C, w):
    """Return the objective of (2)."""
    return 0.5 * (w @ w) + C * np.maximum(0.0, 1.0 - differences(X, pairs, w)).sum()


# The dual problem (appendix A) -------------------------------------------------------------------


def dual_matrix(X, pairs, C, squared):
    """Return Q + D and U of the dual problem."""
    rows = X[pairs[0]] - X[pairs[1]]
    Q = rows @ rows.T
    return (Q + np.eye(len(Q)) / (2.0 * C), np.inf) if squared else (Q, C)


def dual_descent(Q, limit, orders):
    """Minimise ½α'Qα − e'α in one multiplier after the other; return α after each order."""
    alpha, found = np.zeros(len(Q)), []
    for order in orders:
        for p in order:
            slope = Q[p] @ alpha - 1.0
            # Two equal rows have Q_pp = 0 for the hinge: the slope is then −1 at any α.
            step = slope / Q[p, p] if Q[p, p] else -np.inf
            alpha[p] = min(max(alpha[p] - step, 0.0), limit)
        found.append(alpha.copy())
    return found


# Algorithm 2 -------------------------------------------------------------------------------------


def algorithm_2(y, scores, values):
    """Return l⁺, l⁻, γ⁺ and γ⁻ by the sweeps of algorithm 2; the tree is a plain list of nodes."""
    order = np.argsort(scores, kind="stable")
    n = len(y)
    l_plus, l_minus, gamma_plus, gamma_minus = np.zeros((4, n))
    tree, j = [], 0
    for i in order:
        while j < n and 1.0 - scores[order[j]] + scores[i] > 0:
            tree.append((y[order[j]], values[order[j]]))
            j += 1
        larger = [xv for key, xv in tree if key > y[i]]
        l_plus[i], gamma_plus[i] = len(larger), sum(larger)
    tree, j = [], n - 1
    for i in order[::-1]:
        while j >= 0 and 1.0 - scores[i] + scores[order[j]] > 0:
            tree.append((y[order[j]], values[order[j]]))
            j -= 1
        smaller = [xv for key, xv in tree if key < y[i]]
        l_minus[i], gamma_minus[i] = len(smaller), sum(smaller)
    return l_plus, l_minus, gamma_plus, gamma_minus
