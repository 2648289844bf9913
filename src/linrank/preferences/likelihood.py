"""Likelihoods of votes: Bradley–Terry, Davidson and Rao–Kupper, their optima, and samples.

A vote between a and b has the margin δ = s_a − s_b + z'γ, where s are strengths and z is the
context of the vote. With η for ties, the probabilities of "a wins", "b wins" and "tie" are

- Bradley–Terry: σ(δ), σ(−δ);
- Davidson (1970): proportional to e^{δ/2}, e^{−δ/2}, e^η, where ν = e^η;
- Rao & Kupper (1967): σ(δ − η), σ(−δ − η) and the rest, where θ = e^η > 1.

All are log-concave in (s, γ, η).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.linalg import LinAlgError, cho_factor, cho_solve, lapack

from .._compile.jit import njit
from .._util import parallel
from .._util.types import Array, Integers, Vector
from ..errors import DataError
from ..matrix import rows as products
from ..solvers.smooth import conjugate_gradients
from .votes import Rows

BINARY, DAVIDSON, RAO_KUPPER = 0, 1, 2  #: numbers of the models for kernels
DENSE = 3000  #: parameters up to which the Hessian is a matrix; above, products are used
ROUNDING = 1e-15  #: rounding error of the objective, relative to the weight of all votes
TOLERANCE = 1e-12  #: half the squared Newton decrement per vote at which iterations end
MAX_ITER = 200  #: Newton steps
COLLINEAR = 1e-7  #: root of the share of a column that others do not explain, at its least
LARGEST_ETA = 700.0  #: log ν beyond which ν is no number
_STATISTICS = np.array([[0.5, 0.0], [-0.5, 0.0], [0.0, 1.0]])  #: (δ, η) of the three outcomes
SAMPLE_STEPS = 30  #: steps with the Hessian of all votes before a sample gets its own
SAMPLE_GAP = 1e-6  #: distance of the objective of a sample to its optimum, as estimated
#: Penalty of all parameters of a sample that bias reduction cannot fit; larger values pull harder.
SAMPLE_PENALTY = 1.0
CHUNK_ROWS = 50_000  #: fewest rows per thread; threads cost more than they save with fewer rows


@njit(inner=True)
def _softplus(t: float) -> float:
    """Return log(1 + e^t)."""
    return t + math.log1p(math.exp(-t)) if t > 0 else math.log1p(math.exp(t))


@njit(inner=True)
def _sigmoid(t: float) -> float:
    return 1.0 / (1.0 + math.exp(-t)) if t > 0 else 1.0 - 1.0 / (1.0 + math.exp(t))


@njit(inner=True)
def _binary(d: float, wa: float, wb: float) -> Any:
    """Return −log-likelihood of a row, its slope and its curvature in δ."""
    small, w = math.exp(-abs(d)), wa + wb
    p = 1.0 / (1.0 + small) if d > 0 else small / (1.0 + small)
    value = w * math.log1p(small) + (wb * d if d > 0 else -wa * d)
    return value, w * p - wa, 0.0, w * p * (1.0 - p), 0.0, 0.0


@njit(inner=True)
def _davidson(d: float, e: float, wa: float, wb: float, wt: float) -> Any:
    """P(a), P(b), P(tie) ∝ 1, e^{−δ}, e^{η − δ/2} if δ > 0, and so on for δ < 0."""
    if e > LARGEST_ETA:
        return np.inf, 0.0, 0.0, 0.0, 0.0, 0.0
    half = math.exp(-abs(d) / 2.0)
    high, low, pt = 1.0, half * half, half * math.exp(e)
    total, w = high + low + pt, wa + wb + wt
    pa, pb, pt = (high if d > 0 else low) / total, (low if d > 0 else high) / total, pt / total
    mean = (pa - pb) / 2.0
    value = w * (math.log(total) + abs(d) / 2.0) - (wa - wb) * d / 2.0 - wt * e
    return (
        value, w * mean - (wa - wb) / 2.0, w * pt - wt,
        w * ((pa + pb) / 4.0 - mean * mean), -w * mean * pt, w * pt * (1.0 - pt),
    )  # fmt: skip


@njit(inner=True)
def _rao_kupper(d: float, e: float, wa: float, wb: float, wt: float) -> Any:
    """P(tie) = (θ² − 1)·σ(δ − η)·σ(−δ − η)."""
    if e <= 0.0:
        return np.inf, 0.0, 0.0, 0.0, 0.0, 0.0
    na, nb, p, q = wa + wt, wb + wt, _sigmoid(d - e), _sigmoid(-d - e)
    grown = 2.0 / -math.expm1(-2.0 * e)  # the slope of log(e^{2η} − 1)
    value = na * _softplus(e - d) + nb * _softplus(e + d)
    value -= wt * (2.0 * e + math.log(-math.expm1(-2.0 * e)))
    u, v = na * (1.0 - p), nb * (1.0 - q)
    ca, cb = u * p, v * q
    curvature = wt * grown * (grown - 2.0)
    return value, v - u, u + v - wt * grown, ca + cb, cb - ca, ca + cb + curvature


@njit(inner=True)
def _terms(kind: int, d: float, e: float, W: Array) -> Any:
    """Return value, slopes in δ and η, and curvatures δδ, δη and ηη of a row."""
    if kind == 1:
        return _davidson(d, e, W[0], W[1], W[2])
    if kind == 2:
        return _rao_kupper(d, e, W[0], W[1], W[2])
    return _binary(d, W[0], W[1])


@njit(inner=True)
def _margin(a: int, b: int, z: Array, x: Array, n: int) -> float:
    d = x[a] - x[b]
    for k in range(len(z)):
        d += z[k] * x[n + k]
    return d


@njit
def add_gradient(
    kind: int, a: Array, b: Array, Z: Array, W: Array, n: int, x: Array, first: int, last: int,
    grad: Array,
) -> float:  # fmt: skip
    """Add the gradient of rows [first, last) in x = (s, γ, η), and return their value."""
    m = Z.shape[1]
    e = x[n + m] if kind else 0.0
    total = 0.0
    for r in range(first, last):
        value, u, v, _, _, _ = _terms(kind, _margin(a[r], b[r], Z[r], x, n), e, W[r])
        total += value
        grad[a[r]] += u
        grad[b[r]] -= u
        for k in range(m):
            grad[n + k] += u * Z[r, k]
        if kind:
            grad[n + m] += v
    return total


@njit
def add_hessian(
    kind: int, a: Array, b: Array, Z: Array, W: Array, n: int, x: Array, first: int, last: int,
    H: Array,
) -> None:  # fmt: skip
    """Add the Hessian of rows [first, last); a part of entries goes above the diagonal only."""
    m = Z.shape[1]
    e = x[n + m] if kind else 0.0
    for r in range(first, last):
        i, j = a[r], b[r]
        _, _, _, c, mixed, own = _terms(kind, _margin(i, j, Z[r], x, n), e, W[r])
        H[i, i] += c
        H[j, j] += c
        H[min(i, j), max(i, j)] -= c
        for k in range(m):
            t = c * Z[r, k]
            H[i, n + k] += t
            H[j, n + k] -= t
            for l in range(k, m):  # noqa: E741
                H[n + k, n + l] += t * Z[r, l]
        if kind:
            H[i, n + m] += mixed
            H[j, n + m] -= mixed
            for k in range(m):
                H[n + k, n + m] += mixed * Z[r, k]
            H[n + m, n + m] += own


@njit
def row_terms(
    kind: int, a: Array, b: Array, Z: Array, W: Array, n: int, x: Array, out: Array
) -> None:  # fmt: skip
    """Write the six terms of each row into the rows of `out`."""
    m = Z.shape[1]
    e = x[n + m] if kind else 0.0
    for r in range(len(a)):
        out[r] = _terms(kind, _margin(a[r], b[r], Z[r], x, n), e, W[r])


def log_odds(kind: int, d: float, e: float) -> tuple[float, float, float]:
    """Return the log-odds of "a wins" against all other outcomes, and their slopes in δ and η."""
    if kind == BINARY:
        return d, 1.0, 0.0
    if kind == RAO_KUPPER:
        return d - e, 1.0, -1.0
    lost, tied = -d, e - d / 2.0
    odds = -float(np.logaddexp(lost, tied))
    share = math.exp(tied + odds)  # of ties among the other outcomes
    return odds, 1.0 - share / 2.0, -share


@njit
def row_variances(
    kind: int, a: Array, b: Array, Z: Array, C: Array, n: int, out: Array
) -> None:  # fmt: skip
    """Write the variance of δ, its covariance with η and the variance of η, given that of x."""
    m = Z.shape[1]
    for r in range(len(a)):
        i, j = a[r], b[r]
        v = C[i, i] + C[j, j] - 2.0 * C[i, j]
        mixed = C[i, n + m] - C[j, n + m] if kind else 0.0
        for k in range(m):
            row = 2.0 * (C[i, n + k] - C[j, n + k])
            for l in range(m):  # noqa: E741
                row += C[n + k, n + l] * Z[r, l]
            v += Z[r, k] * row
            mixed += Z[r, k] * C[n + k, n + m] if kind else 0.0
        out[r, 0], out[r, 1], out[r, 2] = v, mixed, C[n + m, n + m] if kind else 0.0


class ItemFeatures:
    """Features of items: item k has row ``rows[k]`` of X, minus the mean of all items.

    X is not copied. The mean changes all strengths by the same number.
    """

    def __init__(self, X: products.UserMatrix, rows: Integers, n_threads: int) -> None:
        self.X, self.rows, self.n_threads = X, rows, n_threads
        self.mean = self._add(products.rmatvec, np.ones(len(rows))) / len(rows)

    @property
    def n_features(self) -> int:
        """The number of features."""
        return len(self.mean)

    def strengths(self, weights: Vector) -> Vector:
        """Return the part of the strengths of all items that features explain."""
        scores = products.multiply(self.X, weights, self.n_threads)[self.rows]
        return scores - self.mean @ weights

    def sums(self, of_items: Vector) -> Vector:
        """Return the sum over items of a number times the features."""
        return self._add(products.rmatvec, of_items) - of_items.sum() * self.mean

    def square_sums(self, of_items: Vector) -> Vector:
        """Return the sum over items of a number times the squares of the features."""
        squares = self._add(products.rmatvec_squares, of_items)
        squares -= 2.0 * self.mean * self._add(products.rmatvec, of_items)
        return np.maximum(squares + of_items.sum() * self.mean**2, 0.0)

    def _add(self, add: Any, of_items: Vector) -> Vector:
        matrix, u = products.kernel_matrix(self.X), np.bincount(
            self.rows, of_items, self.X.shape[0])  # fmt: skip
        ranges = products.row_ranges(self.X, self.n_threads)
        parts = products.aligned_zeros(len(ranges), self.X.shape[1])
        tasks = [(matrix, first, last, u[first:last], part)
                 for (first, last), part in zip(ranges, parts, strict=True)]  # fmt: skip
        parallel.run(add, tasks, self.n_threads)
        return parts.sum(axis=0)

    def matrix(self) -> Vector:
        """Return the features of all items as a dense float64 array."""
        found: Any = self.X[self.rows]
        found = np.asarray(found.todense() if sparse.issparse(found) else found, np.float64)
        found = found - self.mean
        found[np.abs(found) <= 1e-14 * np.abs(self.mean)] = 0.0  # the rounding error of the mean
        return found


class FittedVotes(NamedTuple):
    """Parameters at the optimum, with the objective and half the squared Newton decrement.

    ``step`` is the last Newton step.
    """

    theta: Vector
    objective: float
    gap: float
    n_iter: int
    converged: bool
    step: Vector


class Likelihood:
    """−log-likelihood of joined votes plus ½ Σ penalty_j θ_j², as a function of θ.

    θ holds the deviations of items (if there are any), the weights of features, the coefficients γ
    of the context and η. The strengths are s = deviations + features·weights.

    Parameters
    ----------
    rows : Rows
    n_items : int
    kind : {BINARY, DAVIDSON, RAO_KUPPER}
    features : ItemFeatures, optional
    deviations : bool
        Whether items have strengths beyond what features say.
    penalty : float
        Of the deviations, or of the weights if there are no deviations.
    n_threads : int
    """

    #: What is wrong if the Hessian is singular.
    not_unique = (
        "the estimates are not unique: the covariates or features are collinear, or they separate "
        "the votes perfectly. Leave out columns, or use penalty=1.0 or penalty='firth'"
    )

    def __init__(
        self, rows: Rows, n_items: int, kind: int, features: ItemFeatures | None = None,
        deviations: bool = True, penalty: float = 0.0, n_threads: int = 1,
    ) -> None:  # fmt: skip
        self.rows, self.n_items, self.kind = rows, n_items, kind
        self.features, self.deviations, self.n_threads = features, deviations, n_threads
        self.n_tail = rows.Z.shape[1] + (kind != BINARY)
        n_weights = 0 if features is None else features.n_features
        self.n_head = n_items * deviations + n_weights
        self.n_theta = self.n_head + self.n_tail
        self.scale = penalty
        self.penalty = np.zeros(self.n_theta)
        self.penalty[: n_items if deviations else self.n_head] = penalty
        self.free_shift = deviations and penalty == 0.0 and features is None
        self.is_dense = self.n_theta <= DENSE and n_items <= DENSE

    @property
    def size(self) -> float:
        """The weight of all votes, with which tolerances grow."""
        return float(self.rows.W.sum())

    def again(self, W: Vector, bias_reduced: bool = False) -> Likelihood:
        """Return the likelihood with other weights of the outcomes, for one thread."""
        kind = BiasReduced if bias_reduced else type(self)
        return kind(self.rows._replace(W=W), self.n_items, self.kind, self.features,
                    self.deviations, self.scale)  # fmt: skip

    def start(self) -> Vector:
        """Return θ = 0, with the η of the share of ties among equal items."""
        theta = np.zeros(self.n_theta)
        total, ties = self.rows.W.sum(), self.rows.W[:, 2].sum()
        if self.kind == DAVIDSON:
            theta[-1] = math.log(2.0 * ties / (total - ties))
        elif self.kind == RAO_KUPPER:
            theta[-1] = math.log((total + ties) / (total - ties))
        return theta

    def expand(self, theta: Vector) -> Vector:
        """Return x = (s, γ, η)."""
        n, head = self.n_items, theta[: self.n_head]
        s = head[:n].copy() if self.deviations else np.zeros(n)
        if self.features is not None:
            s += self.features.strengths(head[n * self.deviations :])
        return np.concatenate([s, theta[self.n_head :]])

    def contract(self, x: Vector) -> Vector:
        """Return the transpose of `expand` times x."""
        s, parts = x[: self.n_items], []
        if self.deviations:
            parts.append(s)
        if self.features is not None:
            parts.append(self.features.sums(s))
        return np.concatenate([*parts, x[self.n_items :]])

    def transform(self) -> Vector | None:
        """Return the matrix T of `expand`, or None if it is the identity."""
        if self.features is None and self.deviations:
            return None
        n, tail = self.n_items, self.n_tail
        T = np.zeros((n + tail, self.n_theta))
        if self.deviations:
            T[:n, :n] = np.eye(n)
        if self.features is not None:
            T[:n, n * self.deviations : self.n_head] = self.features.matrix()
        T[n:, self.n_head :] = np.eye(tail)
        return T

    def _chunks(self) -> list[tuple[int, int]]:
        n = len(self.rows.a)
        parts = max(1, min(self.n_threads, n // CHUNK_ROWS))
        ends = np.linspace(0, n, parts + 1).astype(int).tolist()
        return list(pairwise(ends))

    def value_grad(self, theta: Vector, W: Vector | None = None) -> tuple[float, Vector]:
        """Return the objective and its gradient, optionally with other weights of the outcomes."""
        x, rows = self.expand(theta), self.rows
        W = rows.W if W is None else W
        chunks = self._chunks()
        grads = np.zeros((len(chunks), len(x)))
        tasks = [(self.kind, rows.a, rows.b, rows.Z, W, self.n_items, x, first, last, grad)
                 for (first, last), grad in zip(chunks, grads, strict=True)]  # fmt: skip
        value = sum(parallel.run(add_gradient, tasks, self.n_threads))
        value += 0.5 * float(self.penalty @ theta**2)
        return value, self.contract(grads.sum(axis=0)) + self.penalty * theta

    def hessian(self, theta: Vector) -> Vector:
        """Return the Hessian as a matrix."""
        x, rows = self.expand(theta), self.rows
        chunks = self._chunks()
        parts = np.zeros((len(chunks), len(x), len(x)))
        tasks = [(self.kind, rows.a, rows.b, rows.Z, rows.W, self.n_items, x, first, last, H)
                 for (first, last), H in zip(chunks, parts, strict=True)]  # fmt: skip
        parallel.run(add_hessian, tasks, self.n_threads)
        H = parts.sum(axis=0)
        H = H + np.triu(H, 1).T
        T = self.transform()
        H = H if T is None else T.T @ H @ T
        H[np.diag_indices_from(H)] += self.penalty
        return H

    def terms(self, theta: Vector, W: Vector | None = None) -> Vector:
        """Return value, slopes in δ and η, and curvatures δδ, δη, ηη of each row."""
        rows, out = self.rows, np.empty((len(self.rows.a), 6))
        row_terms(self.kind, rows.a, rows.b, rows.Z, rows.W if W is None else W, self.n_items,
                  self.expand(theta), out)  # fmt: skip
        return out

    def margins(self, theta: Vector) -> Vector:
        """Return the margin δ of each row."""
        n = self.n_items + self.rows.Z.shape[1]
        return self.columns() @ self.expand(theta)[:n]

    def certificate(self, theta: Vector, inverse: Vector | None) -> float | None:
        """Return an upper bound of the distance of the objective to its infimum.

        With the gradient g and the covariance C = H⁻¹, let λ² = g'Cg. All third derivatives along a
        direction h are at most R(h) ≤ M‖h‖_H times the second ones (Bach 2010). The lower bound
        f + g'h + ‖h‖²·ψ(M‖h‖) with ψ(u) = (e^{−u} + u − 1)/u² then gives, if Mλ < 1, the distance
        ((1 − Mλ)·log(1 − Mλ) + Mλ)/M². It is infinite for Mλ ≥ 1, which holds for all θ if no
        finite θ is an optimum. Without C, it is ‖g‖²/(2·penalty) if all parameters are penalised,
        and otherwise None.
        """
        value, grad = self.value_grad(theta)
        rounding = ROUNDING * max(abs(value), self.size)
        if inverse is None:
            bounded = self.penalty.all()
            return float(grad @ (grad / self.penalty)) / 2.0 + rounding if bounded else None
        M, decrement = self._slant(theta, inverse), max(float(grad @ inverse @ grad), 0.0)
        u = M * math.sqrt(decrement)
        if not u < 0.5:  # Without a finite optimum, rounding may leave u slightly below 1.
            return math.inf
        if u < 1e-4:  # The formula would lose digits.
            return decrement / 2.0 * (1.0 + u) + rounding
        return ((1.0 - u) * math.log1p(-u) + u) / (M * M) + rounding

    def _slant(self, theta: Vector, inverse: Vector) -> float:
        """Return M: the standard error of the margin that bounds third derivatives, at its most."""
        rows, T = self.rows, self.transform()
        C = inverse if T is None else T @ inverse @ T.T
        out = np.empty((len(rows.a), 3))
        row_variances(self.kind, rows.a, rows.b, rows.Z, np.ascontiguousarray(C), self.n_items, out)
        v, mixed, own = out.T
        if self.kind == BINARY:
            found = v
        elif self.kind == DAVIDSON:  # the largest difference of δ/2, −δ/2 and η
            found = np.maximum(v, v / 4.0 + np.abs(mixed) + own)
        else:  # δ − η, −δ − η, and 2·coth(η)·η of the logarithm of e^{2η} − 1
            slope = 2.0 / math.tanh(theta[-1])
            found = np.maximum(v + 2.0 * np.abs(mixed) + own, own * slope**2)
        return math.sqrt(max(float(found.max()), 0.0))

    def diverges(self, step: Vector) -> bool:
        """Return whether the likelihood rises for ever in the direction of a Newton step.

        No vote may lose, and one must gain. A vote gains δ − η where a wins, −δ − η where b wins,
        and η − δ and η + δ where nobody does, for the directions of δ and η (2η in Davidson's
        model). In Davidson's model, it also gains δ where a wins, and −δ where b wins.
        """
        x, W = self.expand(step), self.rows.W
        d = self.columns() @ x[: self.n_items + self.rows.Z.shape[1]]
        e = {BINARY: 0.0, DAVIDSON: 2.0, RAO_KUPPER: 1.0}[self.kind] * x[-1]
        a, b, tied = (W > 0).T
        gains = [(d - e)[a], (-d - e)[b], (e - d)[tied], (e + d)[tied]]
        if self.kind == DAVIDSON:
            gains += [d[a], -d[b]]
        gain = np.concatenate(gains)
        return bool(gain.max() > 0.1 and gain.min() > -1e-3 * gain.max())

    def factor(self, H: Vector) -> tuple[Array, Vector]:
        """Return the Cholesky factor of the Hessian with a diagonal of 1, and the root of its own.

        The shift of all strengths is held at 0 if votes do not tell it.
        """
        if self.free_shift:
            n = self.n_items
            H = H.copy()
            H[:n, :n] += self._shift_curvature(H) / n
        root = np.sqrt(np.maximum(H.diagonal(), 0.0))
        if not (np.isfinite(root) & (root > 0)).all():
            raise LinAlgError
        lower, _ = cho_factor(H / root / root[:, None], lower=True)
        if lower.diagonal().min() < COLLINEAR:
            raise LinAlgError
        return lower, root

    def _shift_curvature(self, H: Vector) -> float:
        """Return the curvature that a common shift of the strengths gets: that of their mean."""
        return float(H[: self.n_items, : self.n_items].trace()) / self.n_items

    def solve(self, factor: tuple[Array, Vector], right: Vector) -> Vector:
        """Return the solution of Hx = right, given the result of `factor`."""
        lower, root = factor
        return cho_solve((lower, True), right / root, check_finite=False) / root

    def inverse(self, theta: Vector) -> Vector:
        """Return the inverse of the Hessian, in which a free shift has no variance."""
        return self.invert(self.factor(self.hessian(theta)))

    def invert(self, factor: tuple[Array, Vector]) -> Vector:
        """Return the inverse, given the result of `factor`."""
        lower, root = factor
        inverse, _ = lapack.dpotri(lower, lower=1)
        inverse = (np.tril(inverse) + np.tril(inverse, -1).T) / root / root[:, None]
        if self.free_shift:
            n = self.n_items
            inverse[:n] -= inverse[:n].mean(axis=0)
            inverse[:, :n] -= inverse[:, :n].mean(axis=1, keepdims=True)
        return inverse

    def columns(self) -> sparse.csr_array:
        """Return the matrix X of the margins δ = Xx, without the column of η."""
        rows, n_rows = self.rows, len(self.rows.a)
        index = np.arange(n_rows)
        signs = np.concatenate([np.ones(n_rows), -np.ones(n_rows)])
        where = (np.concatenate([index, index]), np.concatenate([rows.a, rows.b]))
        items = sparse.csr_array((signs, where), shape=(n_rows, self.n_items))
        return sparse.csr_array(sparse.hstack([items, sparse.csr_array(rows.Z)]))


class BiasReduced(Likelihood):
    """−log-likelihood − ½ log det H(θ), the Jeffreys penalty, for Bradley–Terry and Davidson.

    This is the bias reduction of Firth (1993), whose estimates are finite for separated votes.

    In these models the observed information H does not depend on the outcomes. The slope of the
    penalty is a sum over rows of third cumulants times leverages.
    """

    @property
    def size(self) -> float:
        """The weight of all votes, or that of the penalty if this is larger."""
        return max(1.0, super().size)

    def certificate(self, theta: Vector, inverse: Vector | None) -> float | None:
        """Return None: the objective is not convex everywhere."""
        return None

    def value_grad(self, theta: Vector, W: Vector | None = None) -> tuple[float, Vector]:
        """Return the penalised objective and its gradient."""
        value, grad = super().value_grad(theta, W)
        if not np.isfinite(value):
            return value, grad
        try:
            H = self.hessian(theta)
            lower, root = self.factor(H)
        except LinAlgError:
            return math.inf, grad
        shift = math.log(self._shift_curvature(H)) if self.free_shift else 0.0
        log_det = 2.0 * float(np.log(lower.diagonal() * root).sum()) - shift
        slope = self._slope(theta, self.invert((lower, root)))
        return value - 0.5 * log_det, grad - 0.5 * slope

    def _slope(self, theta: Vector, inverse: Vector) -> Vector:
        """Return the gradient of log det H."""
        rows, T = self.rows, self.transform()
        C = inverse if T is None else T @ inverse @ T.T
        variances = np.empty((len(rows.a), 3))
        row_variances(self.kind, rows.a, rows.b, rows.Z, np.ascontiguousarray(C), self.n_items,
                      variances)  # fmt: skip
        leverage = variances[:, [0, 1, 1, 2]].reshape(-1, 2, 2)
        slopes = np.einsum("rij,rijk->rk", leverage, self._third_cumulants(theta))
        tail = [slopes[:, 1].sum()] if self.kind == DAVIDSON else []
        return self.contract(np.concatenate([self.columns().T @ slopes[:, 0], tail]))

    def _third_cumulants(self, theta: Vector) -> Vector:
        """Return the derivatives of the Hessian of each row in (δ, η)."""
        x, margins = self.expand(theta), self.margins(theta)
        logits = np.stack([margins / 2, -margins / 2, np.full_like(margins, -np.inf)], axis=1)
        if self.kind == DAVIDSON:
            logits[:, 2] = x[-1]
        p = np.exp(logits - logits.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        centred = _STATISTICS[None] - (p @ _STATISTICS)[:, None]
        weighted = centred * (p * self.rows.W.sum(axis=1)[:, None])[:, :, None]
        return np.einsum("roi,roj,rok->rijk", weighted, centred, centred)


def minimise(likelihood: Likelihood, theta: Vector | None = None) -> FittedVotes:
    """Minimise by Newton's method with halved steps; many parameters need products only."""
    theta = likelihood.start() if theta is None else theta
    value, grad = likelihood.value_grad(theta)
    gap, n_iter, moved, size = math.inf, 0, True, likelihood.size
    step = np.zeros_like(theta)
    while moved and n_iter < MAX_ITER and gap > TOLERANCE * size:
        n_iter += 1
        step = _newton_step(likelihood, theta, grad)
        gap = 0.5 * float(-(grad @ step))
        theta, value, grad, moved = _line_search(likelihood, theta, value, grad, step)
    return FittedVotes(theta, value, gap, n_iter, gap <= 1e-9 * size, step)


def _newton_step(likelihood: Likelihood, theta: Vector, grad: Vector) -> Vector:
    if not likelihood.is_dense:
        return _step_by_products(likelihood, theta, grad)
    try:
        return -likelihood.solve(likelihood.factor(likelihood.hessian(theta)), grad)
    except LinAlgError:
        raise DataError(likelihood.not_unique) from None


def _step_by_products(likelihood: Likelihood, theta: Vector, grad: Vector) -> Vector:
    """Return a Newton step by conjugate gradients with a diagonal preconditioner."""
    _, _, _, c, mixed, own = likelihood.terms(theta).T
    X, tied = likelihood.columns(), likelihood.kind != BINARY
    XT = X.T.tocsr()

    def product(v: Vector) -> Vector:
        x = likelihood.expand(v)
        eta = x[-1] if tied else 0.0
        margins = X @ (x[:-1] if tied else x)
        image = XT @ (c * margins + mixed * eta)
        tail = [float(mixed @ margins) + own.sum() * eta] if tied else []
        return likelihood.contract(np.concatenate([image, tail])) + likelihood.penalty * v

    of_x = np.concatenate([XT.power(2) @ c, [own.sum()] if tied else []])
    parts = [of_x[: likelihood.n_items]] if likelihood.deviations else []
    if likelihood.features is not None:
        parts.append(likelihood.features.square_sums(of_x[: likelihood.n_items]))
    diagonal = np.concatenate([*parts, of_x[likelihood.n_items :]]) + likelihood.penalty
    diagonal = np.maximum(diagonal, 1e-12 * diagonal.max())
    forcing = min(1e-4, float(grad @ (grad / diagonal)) ** 0.5 * 1e-3)
    return conjugate_gradients(
        product, -grad, lambda v: v / diagonal, max(forcing, 1e-14), 10 * likelihood.n_theta
    ).x


def _line_search(
    likelihood: Likelihood, theta: Vector, value: float, grad: Vector, step: Vector
) -> tuple[Vector, float, Vector, bool]:
    """Halve a Newton step until the objective falls enough."""
    slope, size = float(grad @ step), 1.0
    rounding = 1e-14 * max(likelihood.size, abs(value))
    for _ in range(40):
        trial = theta + size * step
        found, trial_grad = likelihood.value_grad(trial)
        if found <= value + 1e-4 * size * slope + rounding:
            return trial, found, trial_grad, True
        size /= 2.0
    return theta, value, grad, False


# --------------------------------------------------------------------------------------------------
# Bootstrap samples of votes or judges, whose fits begin at the estimates of all votes.


Draw = Callable[[np.random.Generator], Vector]


def fit_samples(
    likelihood: Likelihood, theta: Vector, draw: Draw, n_samples: int, seed: int
) -> Vector:
    """Return the parameters x = (s, γ, η) of bootstrap samples, one row for each.

    Parameters
    ----------
    likelihood : Likelihood
    theta : array
        The estimates of all votes.
    draw : callable
        Takes a random generator, and returns weights of the outcomes of all rows.
    n_samples, seed : int
    """
    factor = likelihood.factor(likelihood.hessian(theta))
    one = likelihood.again(likelihood.rows.W)
    seeds = np.random.SeedSequence(seed).spawn(n_samples)
    tasks = [(one, factor, theta, draw, s) for s in seeds]
    with parallel.blas_threads(1):
        return np.stack(parallel.run(fit_sample, tasks, likelihood.n_threads))


def fit_sample(
    likelihood: Likelihood, factor: Any, theta: Vector, draw: Draw, seed: np.random.SeedSequence
) -> Vector:
    """Return the parameters of a sample, beginning with the Hessian of all votes.

    The gap falls by about the same factor in each step, which tells the gap after the next one.
    """
    W = np.ascontiguousarray(draw(np.random.default_rng(seed)))
    if isinstance(likelihood, BiasReduced):
        return _fit_alone(likelihood, theta, W)
    best, gap = math.inf, math.inf
    for _ in range(SAMPLE_STEPS):
        value, grad = likelihood.value_grad(theta, W)
        step = -likelihood.solve(factor, grad)
        before, gap = gap, -0.5 * float(grad @ step)
        if not value <= best + 1e-10 * abs(best) or gap > before:
            break
        best, theta = value, theta + step
        falls_by = gap / before if math.isfinite(before) else 1.0
        if gap * falls_by < SAMPLE_GAP:
            return likelihood.expand(theta)
    return _fit_alone(likelihood, theta, W)


def _fit_alone(likelihood: Likelihood, theta: Vector, W: Vector) -> Vector:
    """Return the parameters of a sample by Newton's method, finite in any case."""
    own = likelihood.again(W)
    try:
        solution = minimise(own, theta)
        if not own.diverges(solution.step):
            return own.expand(solution.theta)
    except DataError:  # The Hessian of the sample is singular.
        pass
    if likelihood.kind != RAO_KUPPER:
        with suppress(DataError):
            own = likelihood.again(W, bias_reduced=True)
            return own.expand(minimise(own, np.zeros_like(theta)).theta)
    own = likelihood.again(W)
    own.penalty[:] = np.maximum(own.penalty, SAMPLE_PENALTY)
    return own.expand(minimise(own, theta).theta)
