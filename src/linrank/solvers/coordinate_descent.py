"""Coordinate descent for the domination loss."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._compile.jit import njit
from .._util.checks import boolean
from .._util.parallel import split
from .._util.types import Integers, Vector
from ..data.validation import take_rows
from ..engines.threads import ThreadEngine
from ..losses.domination import DominationPlan
from ..matrix.rows import Floats, UserMatrix
from ..penalties.penalty import SeparablePenalty
from .result import Status
from .smooth import SmoothSolver
from .solver import ROUNDING, Iterate, Needs, Solver, SparseSolver, state

# --------------------------------------------------------------------------------------------------
# Kernels of coordinate descent: the domination loss as a function of a single weight.
#
# With z = score − s and the notation of `linrank.losses.domination`, the derivative of the loss in
# w_r (Stevens, Bengio & Singer 2013, §1.4) is
#
#     Σ_k Σ_{i∈G(k)} u_i t_i (μ_k,r − Z_k x_ir) = Σ_j w_j e^{z_j} A_j x_jr − Σ_i u_i t_i Z_k x_ir,
#
# where μ_k,r = Σ_{j∈D(k)} w_j e^{z_j} x_jr, and A_j is Σ u_i t_i over all levels above that of j.
# The right side is a sum over the entries of column r, so X is stored by columns.
#
# A step along w_r changes z and its exponentials for the documents of the column. It also changes Z
# and A of their queries, and t_i of documents that do not have the feature. A step that moves the
# weight therefore costs O(entries of the column + levels and better documents of their queries). A
# step that does not move it costs O(entries of the column). The better documents are visited to
# compute A. If 1 or 2 % of the documents are relevant, as the loss is meant for, this takes 2 to 25
# % of a sweep.
#
# The exponentials of a level are relative to a floor: the largest z below the level when the query
# was last refreshed. A query is refreshed before each sweep, and whenever some Z_k has changed by a
# factor of more than `REFRESH_FACTOR`. Exponentials therefore neither overflow nor lose digits,
# however large the scores are.


REFRESH_FACTOR = 1e3  #: change of some Z that refreshes a query; a larger one costs digits
#: Largest exponent. A document beyond it outscores all worse ones, or its query is refreshed.
LARGEST_EXPONENT = 500.0
CHUNK = 2**22  #: entries of X between two checks for Ctrl-C


class ColumnMatrix(NamedTuple):
    """X by columns: feature r has the entries ``data[indptr[r]:indptr[r + 1]]``."""

    indptr: Integers
    indices: NDArray[np.uint32]
    data: Floats


class Places(NamedTuple):
    """The documents that are compared, in the order of `DominationPlan.docs`: by query and level.

    Query q has the groups ``query_nodes[q]:query_nodes[q + 1]``, one per level. Group g has the
    documents ``group_ptr[g]:group_ptr[g + 1]``. ``query`` and ``group`` are those of each
    document. ``upper`` is u times the weight of the query, and ``lower`` is w.
    """

    query: NDArray[np.uint32]
    group: NDArray[np.uint32]
    upper: Vector
    lower: Vector
    query_nodes: Integers
    group_ptr: Integers


class CoordinateState(NamedTuple):
    """Quantities that depend on the weights, and are updated with each of them.

    Let floor' be the floor of the next level above. Each document has ``z``, ``share`` =
    w·e^{z − floor'} and ``exp_z`` = e^{z − floor}. Each level has ``floor``, ``decay`` =
    e^{floor − floor'}, ``sums`` = Σ share, ``total`` = Z·e^{−floor}, ``begun``, the total at the
    last refresh, and ``pull`` = A·e^{floor'}. The lowest level of a query has the floor +∞, and
    the highest level has floor' = +∞: these exponentials are 0.
    """

    z: Vector
    share: Vector
    exp_z: Vector
    decay: Vector
    sums: Vector
    total: Vector
    begun: Vector
    pull: Vector
    floor: Vector


class CoordinateRule(NamedTuple):
    """The rule of a step: C, the bounds β_r / C, η, and the penalty Σ l1|w| + ½ l2 w²."""

    C: float
    bound: Vector
    eta: float
    l1: Vector
    l2: Vector


class CoordinateSteps:
    """Steps along single coordinates of the weights, for the domination loss.

    Parameters
    ----------
    engine : ThreadEngine
        An engine with a `DominationLoss`. The rows of X that are compared are copied and stored
        by columns, without zeros.

    Attributes
    ----------
    engine : ThreadEngine
    bound : float64 array of shape (n_features,)
        ``Σ_q query weight·Σ_{i∈q} u_i·max_{j∈q} x_jr²``, an upper bound of the second derivative
        in w_r at any w (eq. 1.3: m·B_r for each query).
    columns : ColumnMatrix
    places : Places
    state : CoordinateState

    Examples
    --------
    >>> from linrank import make_ranking
    >>> from linrank.losses import get_loss
    >>> engine = ThreadEngine(make_ranking(random_state=0), get_loss("domination"))
    >>> coordinates = CoordinateSteps(engine)
    >>> w, none = np.zeros(engine.n_features), np.zeros(engine.n_features)
    >>> for _ in range(5):
    ...     coordinates.begin(w)
    ...     coordinates.sweep(w, CoordinateRule(1.0, coordinates.bound, 1.0, none, none))
    >>> engine.value_grad(w)[0] < engine.at_zero[0]
    True
    """

    def __init__(self, engine: ThreadEngine) -> None:
        plan = engine.layout.plan
        assert isinstance(plan, DominationPlan)
        self.engine = engine
        query = np.repeat(np.arange(engine.data.n_queries), np.diff(plan.query_nodes))
        sizes = np.diff(plan.group_ptr)
        query = np.repeat(query, sizes)
        self._rows = plan.query_ptr[query] + plan.docs
        self.places = Places(
            query=query.astype(np.uint32),
            group=np.repeat(np.arange(len(sizes), dtype=np.uint32), sizes),
            upper=plan.query_weight[query] * self._of_rows(plan.upper, 1.0),
            lower=self._of_rows(plan.lower, 1.0),
            query_nodes=plan.query_nodes,
            group_ptr=plan.group_ptr,
        )
        self._offset = self._of_rows(plan.offset, 0.0)
        self.columns = _by_columns(engine.data.X, self._rows)
        groups = np.zeros((6, len(sizes) + 1))  # the last level also reads the floor after it
        self.state = CoordinateState(*np.zeros((3, len(query))), *groups)
        self.state.floor[:] = np.inf
        self.bound = np.zeros(engine.n_features)
        _bound(self.columns, self.places, self.bound)
        indptr = self.columns.indptr
        self._parts = split(indptr, 1 + int(indptr[-1]) // CHUNK)

    def _of_rows(self, values: Vector, default: float) -> Vector:
        """Return the values of the compared documents; an empty array stands for the default."""
        return values[self._rows] if len(values) else np.full(len(self._rows), default)

    def begin(self, w: Vector) -> None:
        """Compute the state from the weights w."""
        self.state.z[:] = self.engine.scores(w)[self._rows] - self._offset
        _begin(self.places, self.state)

    def sweep(self, w: Vector, rule: CoordinateRule) -> None:
        """Minimise along each coordinate once, in order; the state must belong to w."""
        for first, last in self._parts:
            _sweep(self.columns, self.places, self.state, rule, first, last, w)


def _by_columns(X: UserMatrix, rows: Integers) -> ColumnMatrix:
    """Copy some rows of X into a matrix that is stored by columns."""
    chosen = take_rows(X, rows)
    if sparse.issparse(X):
        chosen.eliminate_zeros()
    found = sparse.csc_array(chosen)
    return ColumnMatrix(found.indptr.astype(np.int64), found.indices.astype(np.uint32), found.data)


@njit(allocates=True)
def _bound(columns, places, bound):  # type: ignore[no-untyped-def]
    """Compute Σ_q Σ_{i∈q} u_i·max_{j∈q} x_jr² for each feature r."""
    n_queries = len(places.query_nodes) - 1
    mass = np.zeros(n_queries)
    for p in range(len(places.upper)):
        q = places.query[p]
        if places.group[p] > places.query_nodes[q]:
            mass[q] += places.upper[p]
    for r in range(len(bound)):
        q, largest = np.uint32(0), 0.0
        for e in range(columns.indptr[r], columns.indptr[r + 1]):
            p, x = columns.indices[e], columns.data[e]
            if places.query[p] != q:
                bound[r] += mass[q] * largest
                q, largest = places.query[p], 0.0
            largest = max(largest, float(x) * float(x))
        bound[r] += mass[q] * largest


# A sweep ---------------------------------------------------------------------------------------


@njit
def _sweep(columns, places, state, rule, first, last, w):  # type: ignore[no-untyped-def]
    """Take a step for each of the weights first, …, last − 1."""
    for r in range(first, last):
        a, b = columns.indptr[r], columns.indptr[r + 1]
        indices, data = columns.indices[a:b], columns.data[a:b]
        slope = rule.C * _slope(indices, data, places, state)
        curvature = rule.C * rule.bound[r] / rule.eta
        new = _least(curvature, curvature * w[r] - slope, rule.l1[r], rule.l2[r])
        if new != w[r]:
            _move(indices, data, new - w[r], places, state)
            w[r] = new


@njit(inner=True)
def _least(curvature, pull, l1, l2):  # type: ignore[no-untyped-def]
    """Minimise ½·curvature·v² − pull·v + l1|v| + ½ l2 v² over v (eq. 1.4, lemmas 1 and 2)."""
    size = abs(pull) - l1
    if size <= 0.0 or curvature + l2 == 0.0:  # it is 0 if all squares of x are rounded to 0
        return 0.0
    return math.copysign(size, pull) / (curvature + l2)


@njit(inner=True, fast=True)
def _slope(indices, data, places, state):  # type: ignore[no-untyped-def]
    """Compute the derivative of the loss in the weight of a column."""
    slope = 0.0
    for e in range(len(data)):
        p = indices[e]
        g = places.group[p]
        total, part = state.total[g], state.share[p] * state.pull[g]
        if total > 0.0:
            part -= places.upper[p] * total / (total + state.exp_z[p])
        slope += data[e] * part
    return slope


@njit(inner=True)
def _move(indices, data, step, places, state):  # type: ignore[no-untyped-def]
    """Add step·x to the scores, and update the state of the queries of the column."""
    a = 0
    while a < len(data):
        q, b = places.query[indices[a]], a + 1
        while b < len(data) and places.query[indices[b]] == q:
            b += 1
        _move_query(
            indices[a:b], data[a:b], step, places.group, places.lower,
            state.floor, state.z, state.exp_z, state.share, state.sums,
        )  # fmt: skip
        if not _add_up(places, state, q):
            _begin_query(places, state, q)
        _pull_down(places, state, q)
        a = b


@njit(inner=True)
def _move_query(indices, data, step, group, lower, floor, z, exp_z, share, sums):  # type: ignore[no-untyped-def]
    """Add step·x to the scores of one query, and update the sums of its levels."""
    for e in range(len(data)):
        p = indices[e]
        g = group[p]
        z[p] += step * data[e]
        old = share[p]
        exp_z[p], share[p] = _exponentials(z[p], lower[p], floor[g], floor[g + 1])
        sums[g] += share[p] - old


# The state of a query ---------------------------------------------------------------------------


@njit
def _begin(places, state):  # type: ignore[no-untyped-def]
    """Compute the state of all queries from their scores."""
    for q in range(len(places.query_nodes) - 1):
        _begin_query(places, state, q)
        _pull_down(places, state, q)


@njit(inner=True)
def _begin_query(places, state, q):  # type: ignore[no-untyped-def]
    """Refresh a query: compute its floors, exponentials and totals from its scores."""
    g0, g1 = places.query_nodes[q], places.query_nodes[q + 1]
    top = -np.inf
    for g in range(g0, g1):
        if g > g0:
            state.floor[g] = top
        for p in range(places.group_ptr[g], places.group_ptr[g + 1]):
            top = max(top, state.z[p])
    for g in range(g0, g1):
        if g > g0:
            state.decay[g] = math.exp(state.floor[g] - state.floor[g + 1])
        state.sums[g] = 0.0
        for p in range(places.group_ptr[g], places.group_ptr[g + 1]):
            state.exp_z[p], state.share[p] = _exponentials(
                state.z[p], places.lower[p], state.floor[g], state.floor[g + 1]
            )
            state.sums[g] += state.share[p]
    _add_up(places, state, q)
    for g in range(g0, g1):
        state.begun[g] = state.total[g]


@njit(inner=True)
def _exponentials(z, lower, floor, next_floor):  # type: ignore[no-untyped-def]
    """Return e^{z − floor} and the share of a document; 0 if no level is below or above."""
    exp_z = math.exp(min(z - floor, LARGEST_EXPONENT)) if floor < np.inf else 0.0
    share = lower * math.exp(min(z - next_floor, LARGEST_EXPONENT)) if next_floor < np.inf else 0.0
    return exp_z, share


@njit(inner=True)
def _add_up(places, state, q):  # type: ignore[no-untyped-def]
    """Compute Z of each level from the level below; return False if the query needs a refresh."""
    near, total = True, 0.0
    for g in range(places.query_nodes[q], places.query_nodes[q + 1]):
        state.total[g] = total
        begun = state.begun[g]
        near = near and begun <= REFRESH_FACTOR * total and total <= REFRESH_FACTOR * begun
        total = state.decay[g] * total + state.sums[g]
    return near


@njit(inner=True)
def _pull_down(places, state, q):  # type: ignore[no-untyped-def]
    """Compute A of each level from the level above."""
    pull, g0 = 0.0, places.query_nodes[q]
    for g in range(places.query_nodes[q + 1] - 1, g0 - 1, -1):
        state.pull[g] = pull
        if g > g0:
            a, b = places.group_ptr[g], places.group_ptr[g + 1]
            here = _pull_of_level(places.upper[a:b], state.exp_z[a:b], state.total[g])
            pull = here + state.decay[g] * pull


@njit(inner=True, fast=True)
def _pull_of_level(upper, exp_z, total):  # type: ignore[no-untyped-def]
    """Compute Σ_{i∈G(k)} u_i / (Z_k + e^{z_i})."""
    pull = 0.0
    for i in range(len(upper)):
        pull += upper[i] / (total + exp_z[i])
    return pull


# --------------------------------------------------------------------------------------------------
# Coordinate descent for the domination loss.


GROWTH = 1.5  #: factor of η after a sweep that lowers the objective
SETBACK = 16.0  #: divisor of η after a sweep that does not lower the objective


@dataclass
class CoordinateDescent(SparseSolver, SmoothSolver):
    """Coordinate descent of Domination Rank (Stevens, Bengio & Singer 2013, fig. 1.1 and §1.4).

    For each feature r in turn, the step is

        w_r ← argmin_v g_r v + ½(β_r/η)(v − w_r)² + Ω_r(v).

    Here g_r is the derivative of C times the loss. β_r = C·m·max_j x_jr², summed over the queries,
    is an upper bound on the second derivative (eq. 1.3). With η = 1 no step raises the objective.
    Ω is ½‖w‖², l1 with any costs, including 0 (lemmas 1 and 2), or the elastic net. The solver
    needs a domination loss. It stops on the rule of `SmoothSolver` for ½‖w‖², and on the rule of
    `SparseSolver` for other penalties.

    An iteration is a sweep over all features, in O(entries of X), and an evaluation of the
    objective. A weight that changes also costs a visit to all dominating documents of the queries
    with the feature. This is cheap if few documents are relevant, but takes most of the time if
    half of them are.

    Parameters
    ----------
    relax : bool
        Whether steps may be longer than those of the paper (Roweis & Salakhutdinov 2003). If True,
        η grows by half after every sweep. A sweep that does not lower the objective is undone, and
        η is divided by 16, but not below 1. If False, η = 1, as in `PaperCoordinateDescent`.

        The bound β is far above the curvature for features that few documents have. On text-like
        data (50,000 × 40,000, l1, ten times the smallest C), longer steps came within 1e-4 of
        the optimum in 25 sweeps. Without them, 158 sweeps were still 5 % above it.
    tol, max_iter, callback, stop
        See `Solver` and `Newton`.

    Examples
    --------
    >>> from linrank import make_ranking
    >>> from linrank.problem import make_problem
    >>> from linrank.penalties import L1
    >>> problem = make_problem(make_ranking(random_state=0), 0.1, loss="domination", penalty=L1())
    >>> result = CoordinateDescent(tol=1e-4).solve(problem)
    >>> result.converged, result.gap <= 1e-4
    (True, True)
    """

    relax: bool = True
    name: ClassVar[str] = "coordinate-descent"
    needs: ClassVar[Needs] = Needs(loss="listwise", penalties=("l2", "convex"), rows=True)
    _coordinates: CoordinateSteps | None = state(default=None)
    _rule: CoordinateRule = state()

    def __post_init__(self) -> None:
        super().__post_init__()
        boolean("relax", self.relax)

    def _prepare(self) -> None:
        super()._prepare()
        engine, penalty = self.problem.engine, self.problem.penalty
        assert isinstance(engine, ThreadEngine)
        assert isinstance(penalty, SeparablePenalty)
        if self._coordinates is None or self._coordinates.engine is not engine:
            self._coordinates = CoordinateSteps(engine)
        self._rule = CoordinateRule(self.problem.C, self._coordinates.bound, 1.0, *penalty.parts())

    def _minimise(self) -> Status:
        eta = 1.0
        for _ in range(self.max_iter):
            if self._is_done():
                return Status.CONVERGED
            if self._keep(self._sweep(eta)):
                eta *= GROWTH if self.relax else 1.0
            elif eta > 1.0:
                eta = max(1.0, eta / SETBACK)
            else:
                return self._status_at_rest()
            self._record()
        return Status.CONVERGED if self._is_done() else Status.MAX_ITER

    def _sweep(self, eta: float) -> Iterate:
        assert self._coordinates is not None
        w = self.point.w.copy()
        self._coordinates.begin(w)
        self._coordinates.sweep(w, self._rule._replace(eta=eta))
        return Iterate(w, *self.problem.value_grad(w))

    def _keep(self, new: Iterate) -> bool:
        """Accept a point with a lower objective, or a smaller gradient if rounding hides it."""
        old, distance = self.point, self._relative_norm()
        change = new.value - old.value
        self.point = new
        if change < 0 or (change <= ROUNDING * abs(old.value) and self._relative_norm() < distance):
            return True
        self.point = old
        return False

    def _relative_norm(self) -> float:
        return (Solver if self.problem.penalty.smooth else SparseSolver)._relative_norm(self)

    def _status_at_rest(self) -> Status:
        if self.problem.penalty.smooth:
            return super()._status_at_rest()
        return Status.PRECISION if self._gradient_is_small() else Status.STUCK

    def _allowed(self) -> float:
        return (SmoothSolver if self.problem.penalty.smooth else SparseSolver)._allowed(self)

    def _excess(self, goal: float) -> float:
        kind = SmoothSolver if self.problem.penalty.smooth else SparseSolver
        return kind._excess(self, goal)

    def _is_done(self) -> bool:
        return self._has_arrived() if self.problem.penalty.smooth else super()._is_done()
