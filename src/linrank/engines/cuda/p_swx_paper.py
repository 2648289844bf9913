"""P-SWX in float32 with the products of a library, as Jin & Lin 2014 ran it.

The engine differs from `p_swx` in the two ways in which `p_swx` differs from the paper by choice:

- Scores, sums and products are in float32, and α and γ are the plain sums of eq. 10. If scores are
  large compared with their differences, digits cancel in eqs. 11 to 13.
- The products Xv and X'u are those of cuBLAS or cuSPARSE (`products`).

The repairs of Algorithms 2 and 3 in `p_swx` also hold here: the listings do not work as printed.
The number of support vectors Σ p_t of eq. 11 is summed in float64, because float32 has no integers
above 2^24.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import cuda, float32

from ..._typing import Vector
from .device import INDEX, DeviceArray, empty, launch, launch_over, to_device, zeros
from .engine import CudaEngine
from .p_swx import BEG, END, Sequence, check_plain, gpu_quicksort, take_scores
from .products import LibraryProducts
from .sizes import THREADS

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
