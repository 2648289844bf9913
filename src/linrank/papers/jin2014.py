"""P-SWX and GPU-quicksorting of Jin & Lin 2014: L2-loss RankSVM, one thread block per query.

The scores w'x of each query are sorted (Algorithm 3). One thread per document computes the six sums
of eq. 10 over its sorted query (Algorithm 2), and eqs. 11 to 13 follow from these sums. This costs
O(|X_t|) steps per document of query t, where running sums cost a few steps. The engine exists for
comparison with the paper. The products with X are those of `rows` instead of CUBLAS, and sums are
in float64. `PaperEngine` has the products of CUBLAS and float32.

Two places of the paper's listings are changed, because they would not work as printed:

- Algorithm 3, lines 14 and 24: in the paper the pivot is moved to the right part together with all
  larger nodes. If the pivot is the smallest node, the left part is then empty and the sequence is
  not divided. All nodes that are equal to the pivot are moved to one side, so a sequence of n equal
  values would be divided n times. At w = 0, where a fit starts, every query is such a sequence.
  Here the id decides between nodes of equal value, and the pivot is placed between the two parts,
  as in lines 30 to 32.
- Algorithm 2, lines 3 and 10: a loop that stops at the first document outside of SV stops at the
  first document with the wrong label, and its sums are not those of eq. 10. Here the loop skips
  such documents, and stops at the first score beyond the margin.

The arithmetic of eqs. 10 to 13 differs in one way. The paper sums the scores of partners, and
subtracts them from β times the score of the document. If scores are large compared with their
differences, all digits cancel: gradients were 10 % wrong with a feature whose values are near 1e8.
Here α and γ are sums of differences to the value of the document, and the loss is summed pair by
pair.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import cuda, float32, float64, int32, int64

from .._util.types import Integers, Vector
from ..counting.plan import Layout, PairPlan
from ..counting.tables import TableLayout
from ..engines.cuda.cuda_engine import CudaEngine
from ..engines.cuda.device import (
    INDEX,
    MINSIZE,
    THREADS,
    DeviceArray,
    bitonic,
    block_sum,
    empty,
    launch,
    launch_over,
    precedes,
    sum_before,
    to_device,
    zeros,
)
from ..engines.cuda.device_kernels import LibraryProducts
from ..errors import DataError
from ..losses.loss import Hinges

STACK = 64  #: parts on the stack, at most; each is at most half as long as the one below it
BEG, END = range(2)  #: columns of `workset` and of a stack


class Sequence(NamedTuple):
    """A sequence d of nodes (value, id): the score w'x of a document, and its number."""

    value: DeviceArray
    id: DeviceArray


class Sums(NamedTuple):
    """The sums β, α and γ of eq. 10, over SV+ and SV− (eq. 9), for each document.

    α and γ are reduced by β times the value of the document. ``loss`` is the sum of max(0, 1 − t)²
    over the pairs of SV+.
    """

    beta_plus: DeviceArray
    beta_minus: DeviceArray
    alpha_plus: DeviceArray
    alpha_minus: DeviceArray
    gamma_plus: DeviceArray
    gamma_minus: DeviceArray
    loss: DeviceArray


# Algorithm 3: GPU-quicksorting --------------------------------------------------------------------


@cuda.jit
def gpu_quicksort(workset, d_pri, d_aux):  # type: ignore[no-untyped-def]
    """Sort ``d_pri[beg:end]`` for every row (beg, end) of `workset`, in one launch (eq. 14)."""
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
    """Move smaller nodes to the left of a pivot and larger ones to its right (lines 10 to 32).

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
        counts[0] = lp  # the place after all smaller nodes, which is that of the pivot
        d_pri.value[lp], d_pri.id[lp] = value, id
    cuda.syncthreads()
    middle = counts[0]
    cuda.syncthreads()
    return middle


@cuda.jit(device=True)
def _random(beg, end):  # type: ignore[no-untyped-def]
    """Return a pseudo-random number that depends only on the part, so that runs are repeatable."""
    return ((beg * 1103515245 + end * 12345 + 1013904223) >> 4) & 0x3FFFFFFF


@cuda.jit(device=True)
def _push(stack, depth, beg, middle, end):  # type: ignore[no-untyped-def]
    """Push both parts (lines 34 to 47), the longer one first, so that the shorter is next."""
    longer = 0 if middle - beg > end - middle else 1
    for side in range(2):
        k = depth + (side ^ longer)
        stack[k, BEG] = beg if side == 0 else middle + 1
        stack[k, END] = middle if side == 0 else end


# Algorithm 2: P-SWX -------------------------------------------------------------------------------


@cuda.jit
def p_swx(workset, d_pri, y, Xv, sums):  # type: ignore[no-untyped-def]
    """Compute the sums of eq. 10: block t has the query t, and each thread has a document.

    The scores are sorted, so a loop stops at the first x_π(j) beyond the margin. It runs upward
    from the lowest score for SV+ (lines 2 to 8), and downward from the highest for SV− (lines 9 to
    15). Values are relative to that of the document.
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
    """Fill the sequence with the scores w'x and the numbers of the documents."""
    for i in range(cuda.grid(1), len(scores), cuda.gridsize(1)):
        d_pri.value[i], d_pri.id[i] = scores[i], i


@cuda.jit
def gradient_of(sums, u, curvature, losses):  # type: ignore[no-untyped-def]
    """Compute u = 2(A'A Xw − A'e) of eq. 12, and the sum of max(0, 1 − t)² of eq. 11."""
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
    """Sum max(0, 1 − t) over all pairs, which is the sum of β+ − γ+ over the documents."""
    partial = cuda.shared.array(THREADS, float64)
    gap = 0.0
    for i in range(cuda.grid(1), len(sums.beta_plus), cuda.gridsize(1)):
        gap += sums.beta_plus[i] - sums.gamma_plus[i]
    gap = block_sum(gap, partial)
    if cuda.threadIdx.x == 0:
        losses[cuda.blockIdx.x, 0] += gap


@cuda.jit
def product_of(sums, u):  # type: ignore[no-untyped-def]
    """Compute u = 2A'A Xv of eq. 13."""
    for i in range(cuda.grid(1), len(u), cuda.gridsize(1)):
        u[i] = -2.0 * (sums.alpha_plus[i] + sums.alpha_minus[i])


def check_plain(layout: Layout, hinges: Hinges, engine: str) -> None:
    """Raise a `DataError` unless the loss is the one of the paper: all pairs, squared hinge."""
    if not isinstance(layout, TableLayout) or _has_weights(layout.plan):
        raise DataError(
            f"engine={engine!r} follows the paper: it needs loss='squared_hinge' and all pairs, "
            "without weights, margins and normalization. Use engine='cuda'"
        )
    if hinges.exact or hinges.c.tolist() != [1.0] or hinges.a.any():
        raise DataError(
            f"engine={engine!r} supports loss='squared_hinge' only. Use engine='cuda' for other "
            "losses."
        )


def _has_weights(plan: PairPlan) -> bool:
    """Whether some pair has a weight or a margin other than 1."""
    return bool(len(plan.weight) or len(plan.offset) or (plan.query_weight != 1.0).any())


class SortedPairs:
    """P-SWX of Jin & Lin 2014: sums over the sorted scores of each query."""

    def __init__(
        self, layout: Layout, hinges: Hinges, y: Vector, scores: DeviceArray, curvature: DeviceArray
    ) -> None:
        check_plain(layout, hinges, "p-swx")
        ptr = layout.plan.query_ptr
        n = int(ptr[-1])
        self.rows = np.arange(n)
        self.device_rows = to_device(self.rows, INDEX)
        self._workset = to_device(np.column_stack([ptr[:-1], ptr[1:]]), np.int64)
        self._layout = layout
        self._y, self._scores, self._curvature = to_device(y), scores, curvature
        self._d_pri = Sequence(empty(n), empty(n, INDEX))
        self._d_aux = Sequence(empty(n), empty(n, INDEX))
        self._sums = Sums(*(empty(n) for _ in Sums._fields))

    def set_hinges(self, hinges: Hinges) -> None:
        """Raise a `DataError` unless the loss is max(0, 1 − t)², the only one of the paper."""
        check_plain(self._layout, hinges, "p-swx")

    def linearize(self, u: DeviceArray, losses: DeviceArray) -> None:
        """Compute the gradient and the loss: Algorithm 3, Algorithm 2, and eqs. 11 and 12."""
        self.sort()
        self.sum(self._scores)
        launch_over(len(u), gradient_of, self._sums, u, self._curvature, losses)

    def curve(self, v: DeviceArray, u: DeviceArray) -> None:
        """Compute the Hessian product u = H v: Algorithm 2 and eq. 13."""
        self.sum(v)
        launch_over(len(u), product_of, self._sums, u)

    def add_gap(self, m: int, losses: DeviceArray) -> None:
        """Add Σ_pairs max(0, 1 − t) to `losses`, at the scores last linearised."""
        launch_over(len(self.rows), gap_of, self._sums, losses)

    def sort(self) -> None:
        """Sort the scores of each query: Algorithm 3."""
        launch_over(len(self.rows), take_scores, self._scores, self._d_pri)
        launch(gpu_quicksort, len(self._workset), self._workset, self._d_pri, self._d_aux)

    def sum(self, Xv: DeviceArray) -> None:
        """Compute the sums of eq. 10: Algorithm 2."""
        launch(p_swx, len(self._workset), self._workset, self._d_pri, self._y, Xv, self._sums)


# --------------------------------------------------------------------------------------------------
# P-SWX in float32 with the products of a library, as Jin & Lin 2014 ran it.
#
# `PaperEngine` differs from `SortingEngine` where that differs from the paper by choice:
#
# - Scores, sums and products are in float32, and α and γ are the plain sums of eq. 10. If scores
#   are large compared with their differences, digits cancel in eqs. 11 to 13.
# - The products Xv and X'u are those of cuBLAS or cuSPARSE (`LibraryProducts`).
#
# The repairs of Algorithms 2 and 3 also hold here: the listings do not work as printed. The number
# of support vectors Σ p_t of eq. 11 is summed in float64, because float32 has no integers above
# 2^24.


NAMES = ("beta_plus", "beta_minus", "alpha_plus", "alpha_minus", "gamma_plus", "gamma_minus")
BETA_PLUS, BETA_MINUS, ALPHA_PLUS, ALPHA_MINUS, GAMMA_PLUS, GAMMA_MINUS = range(len(NAMES))


@cuda.jit
def p_swx_sums(workset, d_pri, y, Xv, sums):  # type: ignore[no-untyped-def]
    """Compute the six sums of eq. 10 in float32: block t has query t, a thread has a document."""
    for t in range(cuda.blockIdx.x, len(workset), cuda.gridDim.x):
        beg, end = workset[t, BEG], workset[t, END]
        for k in range(beg + cuda.threadIdx.x, end, THREADS):
            i, score = d_pri.id[k], d_pri.value[k]
            beta, alpha, gamma = float32(0.0), float32(0.0), float32(0.0)
            j = beg
            while j < end and float32(1.0) - (d_pri.value[j] - score) > float32(0.0):
                if y[d_pri.id[j]] > y[i]:
                    alpha += Xv[d_pri.id[j]]
                    beta += float32(1.0)
                    gamma += d_pri.value[j]
                j += 1
            sums[BETA_PLUS, i], sums[ALPHA_PLUS, i], sums[GAMMA_PLUS, i] = beta, alpha, gamma
            beta, alpha, gamma = float32(0.0), float32(0.0), float32(0.0)
            j = end - 1
            while j >= beg and float32(1.0) - (score - d_pri.value[j]) > float32(0.0):
                if y[d_pri.id[j]] < y[i]:
                    alpha += Xv[d_pri.id[j]]
                    beta += float32(1.0)
                    gamma += d_pri.value[j]
                j -= 1
            sums[BETA_MINUS, i], sums[ALPHA_MINUS, i], sums[GAMMA_MINUS, i] = beta, alpha, gamma


@cuda.jit
def gradient_parts(sums, scores, u, value, curvature):  # type: ignore[no-untyped-def]
    """Compute u = 2(A'AXw − A'e) of eq. 12, and A'AXw − 2A'e of eq. 11."""
    for i in range(cuda.grid(1), len(u), cuda.gridsize(1)):
        beta = sums[BETA_PLUS, i] + sums[BETA_MINUS, i]
        AAXw = beta * scores[i] - (sums[GAMMA_PLUS, i] + sums[GAMMA_MINUS, i])
        Ae = sums[BETA_MINUS, i] - sums[BETA_PLUS, i]
        u[i] = float32(2.0) * (AAXw - Ae)
        value[i] = AAXw - float32(2.0) * Ae
        curvature[i] = 2.0 * beta


@cuda.jit
def product_parts(sums, Xv, u):  # type: ignore[no-untyped-def]
    """Compute u = 2A'AXv of eq. 13."""
    for i in range(cuda.grid(1), len(u), cuda.gridsize(1)):
        beta = sums[BETA_PLUS, i] + sums[BETA_MINUS, i]
        u[i] = float32(2.0) * (beta * Xv[i] - (sums[ALPHA_PLUS, i] + sums[ALPHA_MINUS, i]))


class SortingEngine(CudaEngine):
    """P-SWX in float64 (Jin & Lin 2014): L2-loss RankSVM without weights.

    Parameters
    ----------
    *arguments, **options
        See `CudaEngine`.
    """

    fuses = False

    def _device_pairs(self, queries: Integers) -> SortedPairs:
        return SortedPairs(self.layout, self.hinges, self.data.y, self._scores, self._curvature)

    def steps(self, v: Vector) -> dict[str, Callable[[], object]]:
        """Return the three parts of an evaluation, for measurements: sort, sums and products.

        Call `value_grad` before. The products are Xv and X'u.
        """
        pairs = self._pairs
        assert isinstance(pairs, SortedPairs)

        def multiply() -> None:
            self._v.copy_to_device(np.ascontiguousarray(v, np.float64))
            self._score(pairs, self._nothing, self._product)
            self._add_rows(pairs)
            self._total.copy_to_host()

        return {"sort": pairs.sort, "sums": lambda: pairs.sum(self._scores), "products": multiply}


class PaperEngine(CudaEngine):
    """P-SWX in float32 with library products (Jin & Lin 2014): L2-loss RankSVM without weights.

    Parameters
    ----------
    *arguments, **options
        See `CudaEngine`.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        check_plain(self.layout, self.hinges, "p-swx-paper")
        ptr, n = self.data.query_ptr, self.data.n_docs
        self._products = LibraryProducts(self.data.X)
        self._workset = to_device(np.column_stack([ptr[:-1], ptr[1:]]), np.int64)
        self._y = to_device(self.data.y)
        self._d_pri, self._d_aux = (
            Sequence(empty(n, np.float32), empty(n, INDEX)) for _ in range(2)
        )
        self._six = zeros((len(NAMES), n), np.float32)
        self._slope, self._parts_of_value = zeros(n, np.float32), zeros(n, np.float32)
        self._Xw = zeros(n, np.float32)

    def _walk_device(self, v: Vector, linearize: bool) -> Vector:
        """Return X'u, followed by the loss if `linearize` is True."""
        Xv = self._products.score(v)
        if linearize:
            self._Xw = Xv
            self._sort()
        self._sum(Xv)
        loss = 0.0
        if linearize:
            known = self._six, Xv, self._slope, self._parts_of_value, self._curvature
            launch_over(len(self._slope), gradient_parts, *known)
            n_support = self._six.copy_to_host()[BETA_PLUS].sum(dtype=np.float64)
            loss = self._products.dot(Xv, self._parts_of_value) + n_support
        else:
            launch_over(len(self._slope), product_parts, self._six, Xv, self._slope)
        return np.append(self._products.gather(self._slope), loss)

    def _sort(self) -> None:
        """Sort the scores of each query: Algorithm 3."""
        launch_over(len(self._slope), take_scores, self._Xw, self._d_pri)
        launch(gpu_quicksort, len(self._workset), self._workset, self._d_pri, self._d_aux)

    def _sum(self, Xv: DeviceArray) -> None:
        """Compute the six sums: Algorithm 2."""
        launch(p_swx_sums, len(self._workset), self._workset, self._d_pri, self._y, Xv, self._six)

    def gaps(self, w: Vector) -> Vector:
        """Compute Σ_pairs max(0, 1 − t) at the last w: see `ThreadEngine.gaps`."""
        six, scores = (array.copy_to_host().astype(np.float64) for array in (self._six, self._Xw))
        return np.array([(six[BETA_PLUS] * (1.0 + scores) - six[GAMMA_PLUS]).sum()])

    def steps(self, v: Vector) -> dict[str, Callable[[], object]]:
        """Return the three parts of an evaluation, for measurements: sort, sums and products.

        Call `value_grad` before. The products are Xv and X'u.
        """
        return {
            "sort": self._sort,
            "sums": lambda: self._sum(self._Xw),
            "products": lambda: (self._products.score(v), self._products.gather(self._slope)),
        }
