"""Stochastic gradient descent over pairs or queries: a rough solution after a few epochs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from numba import types
from numba.extending import overload
from numpy.typing import NDArray

from .._compile.jit import FAST, njit
from .._compile.simd import prefetch_row
from .._util.checks import boolean, choice, positive_number
from .._util.types import Vector
from ..counting.explicit import pair_loss
from ..counting.preferences import ALL_PAIRS, Preferences
from ..counting.sampling import PairSampler
from ..data.ranking import RankingData
from ..engines.threads import ThreadEngine
from ..errors import DataError
from ..losses.loss import Hinges, Loss
from ..losses.registry import linearize_query
from ..matrix.rows import CSR, PREFETCH_ROWS, KernelMatrix, matvec, rmatvec
from .result import Status
from .smooth import estimated_distance
from .smoothing import Smoothing
from .solver import Iterate, Needs, Solver, state

# --------------------------------------------------------------------------------------------------
# Kernels of stochastic gradient descent: one step on the rows of a pair or of a query.
#
# A step first sums its rows into x = Σ u_i x_i. For a CSR matrix it lists the features that occur
# in the rows, each once, and changes only these. A step therefore costs O(entries of its rows), for
# any number of features.


T, TOTAL, SLOPES, WARM_SLOPES = range(4)  #: entries of `Weights.clock`


class SGDWeights(NamedTuple):
    """The iterate and its mean.

    ``lag`` is Σt times the difference between the mean and w. ``clock`` has the number of steps t,
    Σt, the sum of g'Pg over all steps, and that sum after the steps of constant η.
    """

    w: Vector
    lag: Vector
    clock: Vector


class StepRule(NamedTuple):
    """Step lengths (see `linrank.solvers.sgd`).

    ``metric`` is the diagonal of P, ``penalty`` is λ, ``warm`` the number of steps with constant
    η, and ``period`` the number of steps after which the penalty is applied for all of them. If
    ``harmonic``, the length of step t is η/t, and each step applies the penalty at its start.
    """

    metric: Vector
    penalty: float
    eta: float
    warm: float
    period: float
    harmonic: bool = False


class RowSums(NamedTuple):
    """The sum Σ u_i x_i over the rows of a step and, for CSR rows, the features that occur.

    ``sums`` has the sum in each feature, ``touched`` the list of features that occur, and
    ``listed`` whether a feature is in the list.
    """

    sums: Vector
    touched: NDArray[np.uint32]
    listed: NDArray[np.bool_]


def make_row_sums(n_features: int) -> RowSums:
    """Allocate the sum of the rows of a step, as 0."""
    # One more place in the list: a feature is written there before it is known to be new.
    touched = np.zeros(n_features + 1, np.uint32)
    return RowSums(np.zeros(n_features), touched, np.zeros(n_features, np.bool_))


# The rows of a step --------------------------------------------------------------------------


def _add_rows_dense(X, first, last, u, work, n):  # type: ignore[no-untyped-def]
    rmatvec(X, first, last, u, work.sums)
    return X.shape[1]


def _add_rows_csr(X, first, last, u, work, n):  # type: ignore[no-untyped-def]
    sums, touched, listed = work.sums, work.touched, work.listed
    for i in range(first, last):
        for e in range(X.indptr[i], X.indptr[i + 1]):
            f = np.uint32(X.indices[e])
            touched[n] = f
            n += not listed[f]
            listed[f] = True
            sums[f] += u[i - first] * X.data[e]
    return n


def add_rows(X: KernelMatrix, first: int, last: int, u: Vector, work: RowSums, n: int) -> int:
    """Add Σ_i u_i x_i over a range of rows; return n plus the number of newly listed features."""
    return (_add_rows_csr if isinstance(X, CSR) else _add_rows_dense)(X, first, last, u, work, n)


@overload(add_rows, jit_options={"fastmath": FAST, "error_model": "numpy"})
def _overload_add_rows(X, first, last, u, work, n):  # type: ignore[no-untyped-def]
    return _add_rows_csr if isinstance(X, types.BaseNamedTuple) else _add_rows_dense


def feature_at(X: KernelMatrix, touched: NDArray[np.uint32], m: int) -> int:
    """Return the m-th feature that a step changes: for a dense X, feature m."""
    return int(touched[m]) if isinstance(X, CSR) else m


@overload(feature_at)
def _overload_feature_at(X, touched, m):  # type: ignore[no-untyped-def]
    if isinstance(X, types.BaseNamedTuple):
        return lambda X, touched, m: touched[m]
    return lambda X, touched, m: m


def ask_for(X: KernelMatrix, i: int) -> None:
    """Prefetch row i of a dense X, because randomly drawn rows are not in the cache."""


@overload(ask_for)
def _overload_ask_for(X, i):  # type: ignore[no-untyped-def]
    if isinstance(X, types.BaseNamedTuple):
        return lambda X, i: None
    return lambda X, i: prefetch_row(X, i)


@njit(allocates=True)
def add_squares(X, rows, following, squares, counts, work):  # type: ignore[no-untyped-def]
    """Add the squares of x_i − x_j for the given rows i and j, and count the nonzero ones."""
    sign = np.array([1.0, -1.0])
    for p in range(len(rows)):
        n = add_rows(X, rows[p], rows[p] + 1, sign[:1], work, 0)
        n = add_rows(X, following[p], following[p] + 1, sign[1:], work, n)
        for m in range(n):
            f = feature_at(X, work.touched, m)
            squares[f] += work.sums[f] ** 2
            counts[f] += work.sums[f] != 0.0
            work.sums[f] = 0.0
            work.listed[f] = False


# Steps ---------------------------------------------------------------------------------------


@njit(allocates=True)
def walk_pairs(X, hinges, upper, lower, shift, weights, rule, work):  # type: ignore[no-untyped-def]
    """Take a step for each of the given pairs."""
    sign = np.array([1.0, -1.0])
    for k in range(len(upper)):
        if k + PREFETCH_ROWS < len(upper):
            ask_for(X, upper[k + PREFETCH_ROWS])
            ask_for(X, lower[k + PREFETCH_ROWS])
        n = add_rows(X, upper[k], upper[k] + 1, sign[:1], work, 0)
        n = add_rows(X, lower[k], lower[k] + 1, sign[1:], work, n)
        t, size = _products(X, weights, rule, work, n)
        loss, slope, _ = pair_loss(hinges, t - shift[k])
        _step(X, weights, rule, work, n, loss, slope, size)


@njit
def walk_queries(X, plan, state, hinges, queries, mass, weights, rule, work, s, u, scratch):  # type: ignore[no-untyped-def]
    """Take a step for each of the given queries, on the mean loss of its pairs."""
    for k in range(len(queries)):
        q = queries[k]
        first, last = plan.query_ptr[q], plan.query_ptr[q + 1]
        scores, slopes = s[: last - first], u[: last - first]
        matvec(X, first, last, weights.w, scores)
        if len(plan.offset) > 0:
            for i in range(last - first):
                scores[i] -= plan.offset[first + i]
        loss = linearize_query(plan, state, hinges, q, scores, slopes, scratch) / mass[k]
        n = add_rows(X, first, last, slopes, work, 0)
        _, size = _products(X, weights, rule, work, n)
        _step(X, weights, rule, work, n, loss, 1.0 / mass[k], size)


@njit(fast=True, inner=True)
def _products(X, weights, rule, work, n):  # type: ignore[no-untyped-def]
    """Return w'x and x'Px for the sum x of the rows of a step."""
    w, metric, sums, touched = weights.w, rule.metric, work.sums, work.touched
    t, size = 0.0, 0.0
    for m in range(n):
        f = feature_at(X, touched, m)
        t += w[f] * sums[f]
        size += metric[f] * sums[f] * sums[f]
    return t, size


@njit(fast=True, inner=True)
def _step(X, weights, rule, work, n, loss, slope, size):  # type: ignore[no-untyped-def]
    """Move w along −slope·Px, apply the penalty if its period has ended, and update the mean.

    x is the sum of the rows of the step.
    """
    w, lag, clock = weights
    metric, sums, touched, total = rule.metric, work.sums, work.touched, clock[TOTAL]
    eta, part = rule.eta, 1.0
    if rule.harmonic:
        eta /= clock[T] + 1.0
        _shrink(weights, 1.0 - rule.penalty / (clock[T] + 1.0))
    else:
        eta, part = _adaptive_length(clock, rule, loss, slope * slope * size)
    for m in range(n):
        f = feature_at(X, touched, m)
        change = -part * eta * slope * metric[f] * sums[f]
        w[f] += change
        lag[f] -= total * change
        sums[f] = 0.0
        work.listed[f] = False
    clock[T] += 1.0
    if clock[T] % rule.period == 0.0:
        strength = eta * rule.period * rule.penalty
        for f in range(len(w)):
            kept = w[f] / (1.0 + strength * metric[f])
            lag[f] += total * (w[f] - kept)
            w[f] = kept
    clock[TOTAL] = total + clock[T]


@njit(fast=True, inner=True)
def _adaptive_length(clock, rule, loss, steepness):  # type: ignore[no-untyped-def]
    """Return η of a step, and the part of it after which the tangent of the loss reaches 0."""
    eta = rule.eta
    if clock[SLOPES] > 0.0:
        eta *= np.sqrt(clock[WARM_SLOPES] / clock[SLOPES])
    part = 1.0 if eta * steepness <= loss else loss / (eta * steepness)
    clock[SLOPES] += part * part * steepness
    if clock[T] < rule.warm or clock[WARM_SLOPES] == 0.0:
        clock[WARM_SLOPES] = clock[SLOPES]
    return eta, part


@njit(fast=True, inner=True)
def _shrink(weights, factor):  # type: ignore[no-untyped-def]
    """Multiply w by a factor, and leave the mean of the iterates so far."""
    w, lag, clock = weights
    for f in range(len(w)):
        lag[f] += clock[TOTAL] * (w[f] - factor * w[f])
        w[f] *= factor


# --------------------------------------------------------------------------------------------------
# Epochs of stochastic gradient descent on the pairs or the queries of an engine.
#
# With Ω the weight of all pairs and λ = 1 / (CΩ), the objective is CΩ times
#
#     f(w) = λ/2 ‖w‖² + (1/Ω) Σ_pairs weight·ℓ(w'(x_i − x_j)).
#
# If a pair is drawn with a probability proportional to its weight, the expected gradient of its
# loss is the gradient of the second term (Chapelle & Keerthi 2010, algorithm 2; Sculley 2009). The
# same holds for the mean loss over the pairs of a query that is drawn by the weight of its pairs
# (algorithm 3). With ℓ the drawn loss and g its gradient, a step is
#
#     w ← w − min(η_t, ℓ / g'Pg)·P g,        w ← w / (1 + η_t λ P).
#
# The step length 1/t of the papers is too long at first and too short later, unless C, the number
# of pairs and the scales of the features happen to fit. Four changes make the steps robust:
#
# - P is diagonal with the entries 1 / (κ r D_f + λ). D_f is the mean square of the difference in
#   feature f between two documents of a query, over the differences that are not 0. r is the mean
#   number of features that differ, and κ the largest curvature of ℓ. A step of η = 1 then fits an
#   average pair, and features may have any scale.
# - A step ends where the tangent of the drawn loss reaches 0, because no loss is negative. With
#   this truncated model (Asi & Duchi 2019) no step length diverges.
# - η_t = η·√(G_s / G_t), where G_t is the sum of g'Pg over t steps, and η_t = η in the first s = 30
#   r steps. Steps stay long while the gradients of the losses vanish, and fall like 1/√t if they do
#   not (Duchi et al. 2011).
# - The result is the mean of all iterates, in which w_t has the weight t (Lacoste-Julien et al.
#   2012).
#
# A step changes only the features of its rows, which costs O(their entries). The mean is stored as
# w plus a lag, which a step moves against w. The penalty changes all d features; if d is large, it
# is applied for many steps at once.
#
# The rule ``"paper"`` takes the steps of Chapelle & Keerthi 2010, §6.1, as they are written. The
# objective is there a sum over the |P| pairs, or over the Q queries, and step t is
#
#   w ← w − 1/t·(w/|P| + C ℓ'(w'(x_i − x_j))(x_i − x_j))        for a random pair     (algorithm 2)
#   w ← w − 1/t·(w/Q + C Σ_pairs of q ℓ'(w'(x_i − x_j))(x_i − x_j))    for a random query q     (3)
#
# All queries have the same probability. Weighted pairs are drawn by their weight, which the paper
# does not have. ℓ' is then multiplied by the mean weight, so that the expected step is unchanged.
# Each step costs O(d) in addition, because it multiplies all of w.


#: What a step draws.
OverName: TypeAlias = Literal["pairs", "queries"]
OVER: tuple[OverName, ...] = get_args(OverName)
#: How long steps are.
StepName: TypeAlias = Literal["adaptive", "paper"]
STEPS: tuple[StepName, ...] = get_args(StepName)

CONSTANT_STEPS = 30  #: steps of constant η per feature that differs; more delay the decrease of η
PENALTY_FEATURES = 64  #: features updated by the penalty per document of a step; more cost time
PENALTIES_PER_EPOCH = 4  #: least number of times that an epoch applies the penalty
CHUNK = 2**16  #: documents between two checks for Ctrl-C


class SGDState:
    """The state of stochastic gradient descent between steps, and between batches of a stream.

    Parameters
    ----------
    n_features : int
    seed : int
        The seed of the random numbers.

    Attributes
    ----------
    coef : float64 array
        The mean of the iterates, in which w_t has the weight t.
    w : float64 array
        The last iterate.
    n_steps : int
        The number of steps taken.
    mass : float
        The weight Ω of all pairs in the data joined so far.
    n_differences : int
        The number of differences x_i − x_j that were measured.
    squares, counts : float64 arrays
        For each feature, the sum of the squares of these differences, and the number of
        differences that are not 0.

    Examples
    --------
    >>> state = SGDState(n_features=2)
    >>> state.coef.tolist(), state.n_steps
    ([0.0, 0.0], 0)
    """

    def __init__(self, n_features: int, seed: int = 0) -> None:
        check_seed(seed)
        self.weights = SGDWeights(np.zeros(n_features), np.zeros(n_features), np.zeros(4))
        self.rng = np.random.default_rng(seed)
        self.mass = 0.0
        self.squares, self.counts = np.zeros((2, n_features))
        self.n_differences = 0

    @property
    def w(self) -> Vector:
        """The last iterate."""
        return self.weights.w

    @property
    def coef(self) -> Vector:
        """The mean of the iterates, in which w_t has the weight t."""
        w, lag, clock = self.weights
        return w + lag / max(1.0, clock[TOTAL])

    @property
    def n_steps(self) -> int:
        """The number of steps taken."""
        return int(self.weights.clock[T])


def check_seed(seed: object) -> None:
    """Raise a `DataError` if the seed is not a whole number of at least 0."""
    if not isinstance(seed, int | np.integer) or isinstance(seed, bool) or seed < 0:
        raise DataError(f"seed is {seed!r}; expected a whole number of at least 0")


class StochasticPass:
    """Stochastic gradient steps over the pairs or the queries of an engine.

    Parameters
    ----------
    engine : ThreadEngine
        The engine that has the data, the loss and the pairs. Steps on queries overwrite its state,
        so its Hessian products are valid only after another `value_grad`.
    over : {"pairs", "queries"}
        What a step draws.
    step : {"adaptive", "paper"}
        How long steps are.

    Attributes
    ----------
    sampler : PairSampler
    docs_per_step : float
        The mean number of documents that a step draws; a pair counts as one.
    n_steps : int
        The steps of one epoch: the number of documents, or of queries, that have pairs.

    Examples
    --------
    >>> from linrank import make_ranking
    >>> from linrank.losses.pairwise import SQUARED_HINGE
    >>> engine = ThreadEngine(make_ranking(random_state=0), SQUARED_HINGE)
    >>> steps, state = StochasticPass(engine, "pairs"), SGDState(engine.n_features)
    >>> steps.join(state)
    >>> steps.run(state, C=0.01, n_steps=5 * steps.n_steps)
    >>> engine.value_grad(state.coef)[0] < 0.5 * engine.at_zero[0]
    True
    """

    def __init__(self, engine: ThreadEngine, over: str, step: str = "adaptive") -> None:
        choice("over", over, OVER)
        choice("step", step, STEPS)
        self.engine, self.over, self.step = engine, over, step
        self.sampler = PairSampler(engine.layout.plan, engine.layout.docs)
        n_docs, n_queries = len(self.sampler.rows), len(self.sampler.queries)
        self.docs_per_step = n_docs / max(1, n_queries) if over == "queries" else 1.0
        self.n_steps = n_queries if over == "queries" else n_docs
        self._sums = make_row_sums(engine.n_features)
        self._scores, self._slopes = np.empty((2, engine.largest_query))

    def join(self, state: SGDState) -> None:
        """Add the weight of the pairs of this data, and the scales of its features, to the state.

        The scales are measured on differences between successive documents of a query.
        """
        rows, engine = self.sampler.rows, self.engine
        query = np.searchsorted(engine.data.query_ptr, rows, side="right")
        starts = np.flatnonzero(np.diff(query, prepend=-1))
        following = np.append(rows, 0)[1:]
        following[np.append(starts, len(rows))[1:] - 1] = rows[starts]  # the last meets the first
        squares, counts = np.zeros((2, engine.n_features))
        add_squares(engine.matrix, rows, following, squares, counts, self._sums)
        if not np.isfinite(squares).all():
            feature = int(np.flatnonzero(~np.isfinite(squares))[0])
            raise DataError(
                f"feature {feature} of X is so large that its square is not finite. Use rescaled "
                "features, for example with values between −1 and 1."
            )
        state.squares += squares
        state.counts += counts
        state.n_differences += len(rows)
        state.mass += self.sampler.mass

    def run(self, state: SGDState, C: float, n_steps: int) -> None:
        """Take that many steps on ½‖w‖² + C·(the loss of all pairs in the data joined so far)."""
        if not self.sampler.mass:
            return
        rule = self._paper_rule(C) if self.step == "paper" else self._rule(state, C)
        chunk = max(1, int(CHUNK / self.docs_per_step))
        for start in range(0, n_steps, chunk):
            n = min(chunk, n_steps - start)
            if self.over == "pairs":
                self._run_pairs(state, rule, n)
            else:
                self._run_queries(state, rule, n)

    def _rule(self, state: SGDState, C: float) -> StepRule:
        """Return the step lengths and the preconditioner P for the data joined so far."""
        differing = max(1.0, float(state.counts.sum()) / state.n_differences)
        scale = state.squares / np.maximum(state.counts, 1.0)
        penalty = 1.0 / (C * state.mass)
        metric = 1.0 / (_curvature(self.engine.hinges) * differing * scale + penalty)
        # The mean loss of the pairs of a query has less curvature than the loss of one pair. The
        # factor lies between 1 and the number of directions that the documents span. The square
        # root of this number lies between these two.
        eta = np.sqrt(min(self.docs_per_step, differing))
        period = 1 + int(len(scale) / (PENALTY_FEATURES * self.docs_per_step))
        period = max(1, min(period, self.n_steps // PENALTIES_PER_EPOCH))
        return StepRule(metric, penalty, float(eta), CONSTANT_STEPS * differing, float(period))

    def _paper_rule(self, C: float) -> StepRule:
        """Return the step lengths 1/t of the paper, with the objective as a sum of |P| or Q terms.

        Pairs of weight ω are drawn with the probability ω/Ω, so that C·Ω/|P| replaces C·ω.
        """
        engine, ones = self.engine, np.ones(self.engine.n_features)
        if self.over == "queries":
            return StepRule(ones, 1.0 / engine.data.n_queries, C, 0.0, np.inf, harmonic=True)
        n_pairs = float(engine.n_pairs)
        return StepRule(ones, 1.0 / n_pairs, C * self.sampler.mass / n_pairs, 0.0, np.inf, True)

    def _run_pairs(self, state: SGDState, rule: StepRule, n: int) -> None:
        engine = self.engine
        pairs = self.sampler.draw_pairs(state.rng, n)
        walk_pairs(engine.matrix, engine.hinges, *pairs, state.weights, rule, self._sums)

    def _run_queries(self, state: SGDState, rule: StepRule, n: int) -> None:
        engine = self.engine
        if self.step == "paper":
            drawn = state.rng.integers(engine.data.n_queries, size=n), np.ones(n)
        else:
            drawn = self.sampler.draw_queries(state.rng, n)
        walk_queries(
            engine.matrix, engine.layout.plan, engine.state, engine.hinges, *drawn,
            state.weights, rule, self._sums, self._scores, self._slopes, engine.scratch[0],
        )  # fmt: skip


def stream_pass(
    state: SGDState | None,
    data: RankingData,
    loss: Loss,
    C: float,
    over: str = "pairs",
    seed: int = 0,
    *,
    counting: str = "auto",
    preferences: Preferences = ALL_PAIRS,
    is_mean: bool = False,
) -> SGDState:
    """Run one epoch on the next batch of a stream; the weights are ``coef`` of the result.

    The objective is ½‖w‖² + C·(the loss of all pairs of all batches so far): λ is 1 / (CΩ), and Ω
    includes the pairs of this batch. The weights therefore approach those of one fit of all the
    data, and no batch is stored. All documents of a query must be in the same batch: pairs across
    batches are not formed.

    Parameters
    ----------
    state : SGDState or None
        The result of the previous call, which is modified; None for the first batch.
    data : RankingData
        The batch. A batch without pairs changes nothing.
    loss : Loss
    C : float
    over : {"pairs", "queries"}
        What a step draws.
    seed : int
        The seed for the first batch. Later batches continue with the random numbers of the state.
    counting, preferences
        See `ThreadEngine`.
    is_mean : bool
        Whether the loss is divided by the weight of all pairs of all batches so far.

    Examples
    --------
    >>> from linrank import make_ranking
    >>> from linrank.losses.pairwise import SQUARED_HINGE
    >>> data, state = make_ranking(random_state=0), None
    >>> for rows in np.split(np.arange(data.n_docs), 4):
    ...     state = stream_pass(state, data.take(rows), SQUARED_HINGE, C=0.01)
    >>> state.n_steps  # as many as there are documents in queries with pairs
    1960
    """
    positive_number("C", C)
    state = SGDState(data.n_features, seed) if state is None else state
    if data.n_features != len(state.w):
        raise DataError(
            f"X has {data.n_features} features, but the batches before had {len(state.w)}. Use "
            "the same features in all batches."
        )
    engine = ThreadEngine(data, loss, n_threads=1, counting=counting, preferences=preferences)
    steps = StochasticPass(engine, over)
    steps.join(state)
    steps.run(state, C / state.mass if is_mean and state.mass else C, steps.n_steps)
    return state


def _curvature(hinges: Hinges) -> float:
    """Return the largest second derivative of the loss, plus the jumps of its first derivative."""
    if hinges.exact:
        return 0.25
    bends = np.cumsum(2.0 * hinges.c[np.argsort(-hinges.tau)])
    return float(max(0.0, bends.max()) + np.abs(hinges.a).sum())


# --------------------------------------------------------------------------------------------------
# Stochastic gradient descent over pairs or queries: a rough solution after a few epochs.


WINDOW = 5  #: epochs over which the objective must have settled; more epochs stop later
SETTLED_GAP = 10.0  #: f(w) − f*, as a fraction of ε·f(w), above which a fit has not settled
BOUND_PART = 0.5  #: gap of the lower bound, as a fraction of the distance that it must prove
LARGEST_WEIGHT = 1e100  #: absolute weight above which steps of length 1/t have diverged


@dataclass
class StochasticSolver(Solver):
    """Base class of both solvers; `linrank.solvers.sgd` describes the steps."""

    seed: int = 0
    average: bool = True
    step: StepName = "adaptive"
    needs: ClassVar[Needs] = Needs(loss="pairwise", penalties=("l2",), rows=True)
    over: ClassVar[Literal["pairs", "queries"]]
    _steps: StochasticPass = state()
    _state: SGDState = state()
    _values: list[float] = state()

    def __post_init__(self) -> None:
        super().__post_init__()
        check_seed(self.seed)
        boolean("average", self.average)
        choice("step", self.step, STEPS)

    def _prepare(self) -> None:
        engine = self.problem.engine
        assert isinstance(engine, ThreadEngine)
        self._steps = StochasticPass(engine, self.over, self.step)
        self._state = SGDState(self.problem.n_features, self.seed)
        self._state.w[:] = self.point.w
        self._steps.join(self._state)
        self._values = [self.point.value]

    def _minimise(self) -> Status:
        for _ in range(self.max_iter):
            if (status := self._status()) is not None:
                return status
            self._steps.run(self._state, self.problem.C, self._steps.n_steps)
            w = self.weights_of(self._state)
            if not np.abs(w).max() < LARGEST_WEIGHT:
                raise DataError(
                    f"solver={self.name!r} with step={self.step!r} has diverged: its first steps "
                    f"are too long for these features and C={self.problem.C:g}. Use "
                    "step='adaptive'."
                )
            trial = Iterate(w, *self.problem.value_grad(w))
            self._values.append(trial.value)
            if trial.value <= self.point.value:
                self.point = trial
            self._record()
        return self._status() or Status.MAX_ITER

    def weights_of(self, stream: SGDState) -> Vector:
        """Return the mean of the iterates, or the last one if `average` is False."""
        return stream.coef if self.average else stream.w.copy()

    def _allowed(self) -> float:
        return SETTLED_GAP * super()._allowed()

    def _excess(self, goal: float) -> float:
        """Estimate f(w) − f* by a Newton step or, if the loss has corners, by a lower bound on f*.

        The bound is that of `Smoothing`, with at most as many iterations as there were epochs.
        """
        problem, spent = self.problem, len(self._values)
        if problem.engine.loss.smooth:
            problem.engine.last = None  # Steps on queries overwrite what Hessian products refer to.
            return estimated_distance(problem, self.point.w, goal, spent)
        smoothing = Smoothing(tol=BOUND_PART * goal / self.point.value, max_iter=spent)
        smoothing.solve(problem, self.point.w)
        self.bound = max(self.bound, smoothing.bound)
        return self.point.value - smoothing.bound

    def _bound_below(self) -> None:
        self._bound_by_gradient(self.point)

    def _status(self) -> Status | None:
        """Return why to stop: the optimum is near, or the objective has settled."""
        if self.problem.gap_bound(self.point.gradient) <= self.tol * self.point.value:
            return Status.CONVERGED
        last = self._values[-WINDOW - 1 :]
        settled = len(last) > WINDOW and max(last) - min(last) <= self.tol * min(last)
        return Status.SETTLED if settled else None


@dataclass
class PairSGD(StochasticSolver):
    """Stochastic gradient descent over pairs (Chapelle & Keerthi 2010, algorithm 2).

    For a pair (i, j) drawn at random, the step is

        w ← w − η (λw + ℓ'(w'(x_i − x_j))(x_i − x_j)).

    The step lengths η and the averaging are those of `linrank.solvers.sgd`. The probability
    of a pair is proportional to its weight. Without weights all pairs have the same probability.
    With ``normalize="queries"`` all queries have the same probability (Sculley 2009).

    An iteration is an epoch: as many steps as there are documents, and one evaluation of the
    objective.

    The solver stops with `Status.CONVERGED` when ½‖g(w)‖², a bound on the distance to the optimum,
    is at most ε·f(w). More often it stops when the last six objectives are within ε of each other.
    The objective may then still be falling slowly, so the distance to the optimum is estimated by a
    Newton step. The status is `Status.SETTLED` if the distance is at most 10·ε·f(w), and otherwise
    `Status.FAR`. The weights are those of the epoch with the smallest objective.

    Parameters
    ----------
    tol : float
        ε of the stopping rules.
    max_iter : int
        The largest number of epochs.
    callback : callable, optional
    seed : int
        Seed of the random numbers. The same seed gives the same bits.
    average : bool
        Whether the weights are the mean of the iterates, or the last iterate.
    step : {"adaptive", "paper"}
        ``adaptive``: the step lengths and the preconditioner of `linrank.solvers.sgd`.
        ``paper``: the steps of the paper as written, whose lengths are 1/t. They are too short if
        C is small, and their first ones too long if C is large. The paper does not average, which
        is ``average=False``.

    Examples
    --------
    >>> from linrank import make_ranking
    >>> from linrank.problem import make_problem
    >>> result = PairSGD(max_iter=20).solve(make_problem(make_ranking(random_state=0), C=0.01))
    >>> result.n_products, result.objective < 30.0
    (0, True)
    """

    name: ClassVar[str] = "sgd-pairs"
    over = "pairs"


@dataclass
class QuerySGD(StochasticSolver):
    """Stochastic gradient descent over queries (Chapelle & Keerthi 2010, algorithm 3).

    For a query q drawn at random, with the mean gradient g_q of its pairs, the step is

        w ← w − η (λw + g_q).

    A step for a query of l documents takes O(l log l) time for any number of pairs. The probability
    of a query is proportional to the weight of its pairs, so that all queries have the same step
    length. An epoch has as many steps as there are queries. The method is for many queries: with
    one query, it is plain gradient descent.

    Stopping and parameters are those of `PairSGD`.

    Parameters
    ----------
    tol, max_iter, callback, seed, average, step
        See `Solver` and `PairSGD`.

    Examples
    --------
    >>> from linrank import make_ranking
    >>> from linrank.problem import make_problem
    >>> result = QuerySGD(max_iter=20).solve(make_problem(make_ranking(random_state=0), C=0.01))
    >>> result.n_products, result.objective < 30.0
    (0, True)
    """

    name: ClassVar[str] = "sgd-queries"
    over = "queries"
