"""Twins of the algorithms of Chapelle & Keerthi 2010, written from the paper with explicit pairs.

Nothing here is shared with linrank. A pair (i, j) is a row x_i − x_j of the matrix AX (§3), Krylov
spaces are explicit matrices, and sums are loops.
"""

from __future__ import annotations

import numpy as np


def preference_pairs(y, qid):
    """Return P: the pairs (i, j) of one query with y_i > y_j (§1)."""
    documents = [np.flatnonzero(qid == q) for q in np.unique(qid)]
    return [(i, j) for of in documents for i in of for j in of if y[i] > y[j]]


class Objective:
    """½‖w‖² + C Σ max(0, 1 − w'(x_i − x_j))² over listed pairs, eq. 1."""

    def __init__(self, X, y, qid, C):
        pairs = np.array(preference_pairs(y, qid))
        self.AX = X[pairs[:, 0]] - X[pairs[:, 1]]
        self.C = C

    def value(self, w):
        return 0.5 * w @ w + self.C * np.sum(np.maximum(0, 1 - self.AX @ w) ** 2)

    def gradient(self, w):
        return w - 2 * self.C * np.maximum(0, 1 - self.AX @ w) @ self.AX

    def hessian(self, w):
        """I + 2C Σ (x_i − x_j)(x_i − x_j)' over the support vectors."""
        sv = self.AX[self.AX @ w < 1]
        return np.eye(len(w)) + 2 * self.C * sv.T @ sv


# §4: sums over two levels -----------------------------------------------------------------------


def two_levels(y_tilde, in_A):
    """Return the sets B_i of each i in A, and A_j of each j in B, as lists."""
    n = len(y_tilde)
    partners = [[] for _ in range(n)]
    for i in range(n):
        for j in range(n):
            if in_A[i] and not in_A[j] and y_tilde[j] > y_tilde[i]:
                partners[i].append(j)
                partners[j].append(i)
    return partners


def section_4(scores, in_A, delta=None):
    """Return L, ∂L/∂y, and z/2 of H_L s with δ = Xs, by α, β and γ (§4.1)."""
    y_tilde = np.where(in_A, scores - 0.5, scores + 0.5)
    partners = two_levels(y_tilde, in_A)
    alpha = np.array([len(of) for of in partners], float)
    beta = np.array([sum(y_tilde[k] for k in of) for of in partners])
    L = np.sum(alpha * y_tilde**2 - beta * y_tilde)
    slope = 2 * (alpha * y_tilde - beta)
    if delta is None:
        return L, slope, None
    gamma = np.array([sum(delta[k] for k in of) for of in partners])
    return L, slope, 2 * (alpha * delta - gamma)


def section_4_hinge(scores, in_A):
    """Return L and ∂L/∂y of the hinge, by α and ρ (§4.1)."""
    y_tilde = np.where(in_A, scores - 0.5, scores + 0.5)
    alpha = np.array([len(of) for of in two_levels(y_tilde, in_A)], float)
    rho = np.where(in_A, 1.0, -1.0)
    return -np.sum(rho * alpha * y_tilde), -rho * alpha


def by_query_and_level(y, qid):
    """Yield the documents of each P_qr, and which of them have the label r (§4.2)."""
    for q in sorted(set(qid)):
        for r in sorted(set(y[qid == q])):
            docs = np.flatnonzero((qid == q) & (y <= r))
            yield docs, y[docs] == r


# Algorithm 1 ------------------------------------------------------------------------------------


def krylov_solve(H, b, system, tol, most):
    """Solve Hx = b in Krylov spaces of growing dimension, until ‖b − Hx‖ ≤ tol‖b‖.

    MINRES minimises ‖b − Hx‖ over the space, and conjugate gradients ½x'Hx − b'x. The residual of
    each space relative to ‖b‖ is returned as well.
    """
    V, ratios = np.empty((len(b), 0)), []
    following = b
    for _ in range(most):
        for _ in range(2):  # twice, so that rounding does not spoil the basis
            following = following - V @ (V.T @ following)
        V = np.column_stack([V, following / np.linalg.norm(following)])
        if system == "minres":
            x = V @ np.linalg.lstsq(H @ V, b, rcond=None)[0]
        else:
            x = V @ np.linalg.solve(V.T @ H @ V, V.T @ b)
        ratios.append(np.linalg.norm(b - H @ x) / np.linalg.norm(b))
        if ratios[-1] <= tol:
            break
        following = H @ V[:, -1]
    return x, ratios


def truncated_newton(f, n_features, system, search="fallback", tol=1e-6, cg_tol=1e-3, cg_iter=20):
    """Run algorithm 1 until the Newton decrement is at most tol·f(w).

    With the system "exact", steps are those of Newton's method: w ← w − H⁻¹g (§2). Returns the
    iterates, the residuals of the products of each, and the decrements relative to f.
    """
    w, iterates, products, decrements = np.zeros(n_features), [], [], []
    for _ in range(100):
        g, H = f.gradient(w), f.hessian(w)
        if system == "exact":
            step, ratios = np.linalg.solve(H, -g), []
        else:
            step, ratios = krylov_solve(H, -g, system, cg_tol, cg_iter)
        t = 1.0
        rise = f.value(w + step) / f.value(w) - 1
        if search == "always" or (search == "fallback" and rise > 1e-13):
            t = search_along(f, w, step, 1.0)
        w = w + t * step
        iterates.append(w)
        products.append(ratios)
        decrements.append(-g @ step / f.value(w))
        if decrements[-1] <= tol:
            break
    return iterates, products, decrements


# §2: line search and non-linear conjugate gradients -----------------------------------------------


def search_along(f, w, s, first, rule="secant", tol=1e-3):
    """Return the step length: secants or cubics through the last two trials, within a bracket."""
    trials = [(0.0, f.value(w), f.gradient(w) @ s)]
    below, above, t = 0.0, None, first
    for _ in range(50):
        trials.append((t, f.value(w + t * s), f.gradient(w + t * s) @ s))
        (t0, f0, g0), (t1, f1, g1) = trials[-2:]
        if abs(g1) <= tol * abs(trials[0][2]):
            return t
        if g1 < 0:
            below = t
        else:
            above = t
        t = t1 - g1 * (t1 - t0) / (g1 - g0)
        d1 = g0 + g1 - 3 * (f0 - f1) / (t0 - t1)
        if rule == "cubic" and d1**2 >= g0 * g1:
            d2 = np.sign(t1 - t0) * np.sqrt(d1**2 - g0 * g1)
            t = t1 - (t1 - t0) * (g1 + d2 - d1) / (g1 - g0 + 2 * d2)
        if t <= below or (above is not None and t >= above):
            t = 2 * below if above is None else (below + above) / 2
    raise AssertionError("no minimum on this line")


def exact_minimum(f, w, s):
    """Return the t at which the piecewise linear slope of t ↦ f(w + ts) is 0."""
    m, a = 1 - f.AX @ w, f.AX @ s  # a pair is active while m − ta > 0
    kinks = sorted(t for t in m[a != 0] / a[a != 0] if t > 0)
    slope = [f.gradient(w + t * s) @ s for t in (0.0, *kinks)]
    k = sum(value <= 0 for value in slope) - 1  # the piece on which the slope changes its sign
    t0 = (0.0, *kinks)[k]
    inside = t0 + 1e-9 if k == len(kinks) else (t0 + kinks[k]) / 2
    active = m - inside * a > 0
    return (2 * f.C * m[active] @ a[active] - w @ s) / (s @ s + 2 * f.C * a[active] @ a[active])


def nonlinear_cg(f, n_features, n_iter, beta_rule="polak-ribiere", rule="secant"):
    """Run non-linear conjugate gradients with restarts (Shewchuk 1994); return the iterates."""
    w, iterates, since = np.zeros(n_features), [], 0
    g = f.gradient(w)
    s, first = -g, min(1.0, f.value(w) / (g @ g))
    for _ in range(n_iter):
        t = search_along(f, w, s, first, rule)
        fall = t * (g @ s)
        w = w + t * s
        iterates.append(w)
        before, g = g, f.gradient(w)
        top = g @ g if beta_rule == "fletcher-reeves" else g @ g - g @ before
        beta = top / (before @ before)
        since += 1
        if since == n_features or beta <= 0 or g @ (beta * s - g) >= 0:
            s, since = -g, 0
        else:
            s = beta * s - g
        first = fall / (g @ s)
    return iterates


# §6.1: stochastic gradients -----------------------------------------------------------------------


def slope_of_squared_hinge(t):
    return -2 * max(0.0, 1 - t)


def algorithm_2(X, pairs, n_pairs, C):
    """Return the iterates of algorithm 2 for a sequence of drawn pairs."""
    w, iterates = np.zeros(X.shape[1]), []
    for t, (i, j) in enumerate(pairs, start=1):
        x = X[i] - X[j]
        w = w - (w / n_pairs + C * slope_of_squared_hinge(w @ x) * x) / t
        iterates.append(w)
    return iterates


def algorithm_3(X, y, qid, queries, n_queries, C):
    """Return the iterates of algorithm 3 for a sequence of drawn queries."""
    w, iterates, P = np.zeros(X.shape[1]), [], preference_pairs(y, qid)
    for t, q in enumerate(queries, start=1):
        g = w / n_queries
        for i, j in P:
            if qid[i] == q:
                g = g + C * slope_of_squared_hinge(w @ (X[i] - X[j])) * (X[i] - X[j])
        w = w - g / t
        iterates.append(w)
    return iterates
