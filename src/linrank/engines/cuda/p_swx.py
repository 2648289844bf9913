"""P-SWX and GPU-quicksorting of Jin & Lin 2014: L2-loss RankSVM, a thread block per query.

The scores w'x of each query are sorted (Algorithm 3), a thread for each document adds up the six
sums of eq. 10 over its sorted query (Algorithm 2), and eqs. 11 to 13 are made of these. It costs
O(|X_t|) steps per document of query t, where running sums cost a few: it is here to be compared
with. The products with X are those of `rows`, in place of the paper's CUBLAS.

Two lines of the listings cannot be meant as they are printed:

- Algorithm 3, lines 14 and 24: what is not less or equal goes to the right, and so does the pivot
  itself, so that a part is not divided by a pivot that is its least node. And of equal values all
  go to the left: a sequence of n equal ones, which every query is at w = 0, where a fit begins,
  would be divided n times. Here nodes of equal value are told apart by their id, and the pivot
  stands between the two parts, where lines 30 to 32 put it.
- Algorithm 2, lines 3 and 10: a walk that ends at the first document outside of SV ends at the
  first one with the wrong label, and the sums are not those of eq. 10. Here it goes past these, and
  ends at the first score that is too far away.

The arithmetic of eqs. 10 to 13 differs in one way. The paper sums the scores of partners, and
subtracts them from β times a document's own score. All digits cancel when scores are large beside
their differences: with a feature whose values are near 1e8, gradients were 10 % off. Here α and γ
are sums of differences from the document's own value, and the loss is summed pair by pair.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import cuda, float64, int32, int64
from numpy.typing import NDArray

from ...counting.plan import PairPlan
from ...errors import DataError
from .blocks import bitonic, block_sum, precedes, sum_before
from .device import INDEX, empty, launch, launch_over, to_device
from .sizes import MINSIZE, THREADS

STACK = 64  #: parts that wait: the longer of two does, so each is half as long as the one before
BEG, END = range(2)  #: columns of `workset` and of a stack


class Sequence(NamedTuple):
    """A sequence d of nodes (value, id): w'x of all documents, and which document it is."""

    value: Any
    id: Any


class Sums(NamedTuple):
    """β, α and γ of eq. 10, over SV+ and SV− (eq. 9), for each document.

    α and γ are less β times the document's own value. ``loss`` is the sum of max(0, 1 − t)² over
    the pairs of SV+.
    """

    beta_plus: Any
    beta_minus: Any
    alpha_plus: Any
    alpha_minus: Any
    gamma_plus: Any
    gamma_minus: Any
    loss: Any


# Algorithm 3: GPU-quicksorting --------------------------------------------------------------------


@cuda.jit
def gpu_quicksort(workset, d_pri, d_aux):  # type: ignore[no-untyped-def]
    """Sort many sequences in one launch: ``d_pri[beg:end]`` for every row of `workset` (eq. 14)."""
    stack = cuda.shared.array((STACK, 2), int64)
    segments = cuda.shared.array(MINSIZE, int32)
    values = cuda.shared.array(MINSIZE, float64)
    ids = cuda.shared.array(MINSIZE, int32)
    counts = cuda.shared.array(THREADS, int64)
    for bx in range(cuda.blockIdx.x, len(workset), cuda.gridDim.x):
        depth = 1
        cuda.syncthreads()
        if cuda.threadIdx.x == 0:
            stack[0, BEG], stack[0, END] = workset[bx, BEG], workset[bx, END]
        cuda.syncthreads()
        while depth > 0:
            depth -= 1
            beg, end = stack[depth, BEG], stack[depth, END]
            cuda.syncthreads()
            if end - beg <= MINSIZE:
                _sort_short(d_pri, beg, end, segments, values, ids)
            else:
                middle = _partition(d_pri, d_aux, beg, end, counts)
                if cuda.threadIdx.x == 0:
                    _push(stack, depth, beg, middle, end)
                depth += 2
                cuda.syncthreads()


@cuda.jit(device=True)
def _sort_short(d_pri, beg, end, segments, values, ids):  # type: ignore[no-untyped-def]
    """Sort at most `MINSIZE` nodes in shared memory (lines 5 and 6)."""
    for i in range(cuda.threadIdx.x, end - beg, THREADS):
        segments[i], values[i], ids[i] = 0, d_pri.value[beg + i], d_pri.id[beg + i]
    cuda.syncthreads()
    bitonic(segments, values, ids, end - beg)
    for i in range(cuda.threadIdx.x, end - beg, THREADS):
        d_pri.value[beg + i], d_pri.id[beg + i] = values[i], ids[i]
    cuda.syncthreads()


@cuda.jit(device=True)
def _partition(d_pri, d_aux, beg, end, counts):  # type: ignore[no-untyped-def]
    """Write what is less than a pivot to its left and the rest to its right (lines 10 to 32).

    Returns the place of the pivot.
    """
    for i in range(beg + cuda.threadIdx.x, end, THREADS):
        d_aux.value[i], d_aux.id[i] = d_pri.value[i], d_pri.id[i]
    cuda.syncthreads()
    at = beg + _random(beg, end) % (end - beg)
    value, id = d_aux.value[at], d_aux.id[at]
    lt, gt = 0, 0
    for i in range(beg + cuda.threadIdx.x, end, THREADS):
        if precedes(0, d_aux.value[i], d_aux.id[i], 0, value, id):
            lt += 1
        elif d_aux.id[i] != id:
            gt += 1
    lp, gp = beg + sum_before(lt, 0, THREADS, counts), end - 1 - sum_before(gt, 0, THREADS, counts)
    for i in range(beg + cuda.threadIdx.x, end, THREADS):
        if precedes(0, d_aux.value[i], d_aux.id[i], 0, value, id):
            d_pri.value[lp], d_pri.id[lp] = d_aux.value[i], d_aux.id[i]
            lp += 1
        elif d_aux.id[i] != id:
            d_pri.value[gp], d_pri.id[gp] = d_aux.value[i], d_aux.id[i]
            gp -= 1
    cuda.syncthreads()
    if cuda.threadIdx.x == THREADS - 1:
        counts[0] = lp  # the last thread's last place, and so the pivot's
        d_pri.value[lp], d_pri.id[lp] = value, id
    cuda.syncthreads()
    middle = counts[0]
    cuda.syncthreads()
    return middle


@cuda.jit(device=True)
def _random(beg, end):  # type: ignore[no-untyped-def]
    """A number that depends on the part of the sequence only, so that runs can be repeated."""
    return ((beg * 1103515245 + end * 12345 + 1013904223) >> 4) & 0x3FFFFFFF


@cuda.jit(device=True)
def _push(stack, depth, beg, middle, end):  # type: ignore[no-untyped-def]
    """Push both parts (lines 34 to 47), the longer first: the shorter is sorted first."""
    longer = 0 if middle - beg > end - middle else 1
    for side in range(2):
        k = depth + (side ^ longer)
        stack[k, BEG] = beg if side == 0 else middle + 1
        stack[k, END] = middle if side == 0 else end


# Algorithm 2: P-SWX -------------------------------------------------------------------------------


@cuda.jit
def p_swx(workset, d_pri, y, Xv, sums):  # type: ignore[no-untyped-def]
    """The sums of eq. 10: block t has the sorted w'X'_t, X'_t v and Y'_t, a thread has a document.

    The scores are sorted, so the first x_π(j) that is too far away ends the walk: upward from the
    lowest score for SV+ (lines 2 to 8), downward from the highest for SV− (lines 9 to 15).
    Values are taken relative to those of the document itself.
    """
    for t in range(cuda.blockIdx.x, len(workset), cuda.gridDim.x):
        beg, end = workset[t, BEG], workset[t, END]
        for k in range(beg + cuda.threadIdx.x, end, THREADS):
            i, score = d_pri.id[k], d_pri.value[k]
            beta, alpha, gamma, loss = 0.0, 0.0, 0.0, 0.0
            j = beg
            while j < end and 1.0 - (d_pri.value[j] - score) > 0.0:
                if y[d_pri.id[j]] > y[i]:
                    ahead = d_pri.value[j] - score
                    alpha += Xv[d_pri.id[j]] - Xv[i]
                    beta += 1.0
                    gamma += ahead
                    loss += (1.0 - ahead) ** 2
                j += 1
            sums.loss[i] = loss
            sums.alpha_plus[i], sums.beta_plus[i], sums.gamma_plus[i] = alpha, beta, gamma
            beta, alpha, gamma = 0.0, 0.0, 0.0
            j = end - 1
            while j >= beg and 1.0 - (score - d_pri.value[j]) > 0.0:
                if y[d_pri.id[j]] < y[i]:
                    alpha += Xv[d_pri.id[j]] - Xv[i]
                    beta += 1.0
                    gamma += d_pri.value[j] - score
                j -= 1
            sums.alpha_minus[i], sums.beta_minus[i], sums.gamma_minus[i] = alpha, beta, gamma


@cuda.jit
def take_scores(scores, d_pri):  # type: ignore[no-untyped-def]
    """Turn w'X into nodes of value and id."""
    for i in range(cuda.grid(1), len(scores), cuda.gridsize(1)):
        d_pri.value[i], d_pri.id[i] = scores[i], i


@cuda.jit
def gradient_of(sums, u, curvature, losses):  # type: ignore[no-untyped-def]
    """U = 2(A'A Xw − A'e) of eq. 12, and the sum of max(0, 1 − t)² that eq. 11 stands for."""
    partial = cuda.shared.array(THREADS, float64)
    loss = 0.0
    for i in range(cuda.grid(1), len(u), cuda.gridsize(1)):
        AAXw = -(sums.gamma_plus[i] + sums.gamma_minus[i])
        Ae = sums.beta_minus[i] - sums.beta_plus[i]
        u[i] = 2.0 * (AAXw - Ae)
        curvature[i] = 2.0 * (sums.beta_plus[i] + sums.beta_minus[i])
        loss += sums.loss[i]
    loss = block_sum(loss, partial)
    if cuda.threadIdx.x == 0:
        losses[cuda.blockIdx.x, 0] += loss


@cuda.jit
def gap_of(sums, losses):  # type: ignore[no-untyped-def]
    """The sum of max(0, 1 − t) over all pairs: that of β+ − γ+ over the documents."""
    partial = cuda.shared.array(THREADS, float64)
    gap = 0.0
    for i in range(cuda.grid(1), len(sums.beta_plus), cuda.gridsize(1)):
        gap += sums.beta_plus[i] - sums.gamma_plus[i]
    gap = block_sum(gap, partial)
    if cuda.threadIdx.x == 0:
        losses[cuda.blockIdx.x, 0] += gap


@cuda.jit
def product_of(sums, u):  # type: ignore[no-untyped-def]
    """U = 2A'A Xv of eq. 13."""
    for i in range(cuda.grid(1), len(u), cuda.gridsize(1)):
        u[i] = -2.0 * (sums.alpha_plus[i] + sums.alpha_minus[i])


def _has_weights(plan: PairPlan) -> bool:
    """Whether pairs differ in weight or margin."""
    return bool(len(plan.weight) or len(plan.offset) or (plan.query_weight != 1.0).any())


class SortedPairs:
    """P-SWX of Jin & Lin 2014, with its sums over each query's sorted scores."""

    def __init__(
        self, counting: str, plan: Any, y: NDArray[np.float64], scores: Any, curvature: Any
    ) -> None:
        if counting != "tables" or _has_weights(plan):
            raise DataError(
                "engine='p-swx' is that of the paper, for loss='squared_hinge' of all pairs, "
                "without weights, margins and normalization: use engine='cuda'"
            )
        ptr = plan.query_ptr
        n = int(ptr[-1])
        self.rows = np.arange(n)
        self.device_rows = to_device(self.rows, INDEX)
        self._workset = to_device(np.column_stack([ptr[:-1], ptr[1:]]), np.int64)
        self._y, self._scores, self._curvature = to_device(y), scores, curvature
        self._d_pri = Sequence(empty(n), empty(n, INDEX))
        self._d_aux = Sequence(empty(n), empty(n, INDEX))
        self._sums = Sums(*(empty(n) for _ in Sums._fields))

    def set_hinges(self, hinges: Any) -> None:
        """The paper's loss is max(0, 1 − t)², and no other."""
        if hinges.exact or hinges.c.tolist() != [1.0] or hinges.a.any():
            raise DataError("engine='p-swx' is for loss='squared_hinge': use engine='cuda'")

    def linearize(self, u: Any, losses: Any) -> None:
        """Algorithm 3, Algorithm 2, and eqs. 11 and 12."""
        launch_over(len(u), take_scores, self._scores, self._d_pri)
        n_queries = len(self._workset)
        launch(gpu_quicksort, n_queries, self._workset, self._d_pri, self._d_aux)
        self._sum(self._scores)
        launch_over(len(u), gradient_of, self._sums, u, self._curvature, losses)

    def curve(self, v: Any, u: Any) -> None:
        """Algorithm 2 and eq. 13."""
        self._sum(v)
        launch_over(len(u), product_of, self._sums, u)

    def add_gap(self, m: int, losses: Any) -> None:
        """Add Σ_pairs max(0, 1 − t) to `losses`, at the scores last linearised."""
        launch_over(len(self.rows), gap_of, self._sums, losses)

    def _sum(self, Xv: Any) -> None:
        launch(p_swx, len(self._workset), self._workset, self._d_pri, self._y, Xv, self._sums)
