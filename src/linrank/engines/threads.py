"""The thread engine: the loss as a function of the weights, computed on the processor.

A pass is cut into parts: contiguous ranges of queries. Each thread takes one part after another,
and walks through it in blocks of rows that fit in the second-level cache. For each block it
computes the scores and the pair sums. While the rows are still in the cache, it adds them to X'u,
and computes the scores of the next block. X is therefore read
from memory once per value and gradient, and once per Hessian product.

If one query holds most of the rows, threads cannot share the queries evenly. Each of the three
steps is then threaded by itself.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
from scipy import sparse

from .._compile.jit import njit
from .._util.lazy import lazy_property
from .._util.parallel import blas_threads, resolve_threads, run, split
from .._util.types import Integers, Vector
from ..counting.explicit import ExplicitPlan
from ..counting.plan import Layout, Plan, Scratch, State
from ..counting.preferences import ALL_PAIRS, Preferences
from ..data.ranking import RankingData, evenly_spaced, take_queries
from ..losses.domination import DominationPlan, DominationState, curvature_parts
from ..losses.loss import Hinges, Loss
from ..losses.registry import curve_query, curve_rows, gaps_query, linearize_query, rows_buffer
from ..matrix.binned import BinnedMatrix
from ..matrix.rows import (
    CSR,
    AnyMatrix,
    Columns,
    KernelMatrix,
    UserMatrix,
    advance,
    aligned_zeros,
    choose_columns,
    contract,
    contract_squares,
    copy_columns,
    copy_rows,
    dense_rows,
    expand,
    for_products,
    kernel_matrix,
    matvec,
    multiply,
    n_entries,
    n_square_sums,
    n_sums,
    n_tasks,
    rmatvec,
    rmatvec_squares,
    row_ranges,
)
from .engine import Engine, Line, Work

# --------------------------------------------------------------------------------------------------
# Symmetric matrix products, of which only one triangle is computed.


SYMMETRIC_BLOCK = 32  #: rows computed at a time; more save less work, fewer are slower in BLAS


def add_upper(total: Vector, A: Vector, B: Vector) -> None:
    """Add the upper triangle of the symmetric matrix AB' to `total`; the rest is undefined.

    Blocks below the diagonal are left out, which saves up to half of the work.

    Examples
    --------
    >>> total = np.zeros((2, 2))
    >>> add_upper(total, np.array([[1.0], [2.0]]), np.array([[1.0], [2.0]]))
    >>> np.triu(total).tolist()
    [[1.0, 2.0], [0.0, 4.0]]
    """
    for a in range(0, len(A), SYMMETRIC_BLOCK):
        b = a + SYMMETRIC_BLOCK
        total[a:b, a:] += A[a:b] @ B[a:].T


def mirror_upper(total: Vector) -> None:
    """Copy the upper triangle of a square matrix to the lower one.

    Examples
    --------
    >>> H = np.array([[1.0, 2.0], [9.0, 4.0]])
    >>> mirror_upper(H)
    >>> H.tolist()
    [[1.0, 2.0], [2.0, 4.0]]
    """
    for a in range(0, len(total), SYMMETRIC_BLOCK):
        b = a + SYMMETRIC_BLOCK
        block = total[a:b, a:b]
        block[:] = np.triu(block) + np.triu(block, 1).T
        total[b:, a:b] = total[a:b, b:].T


# --------------------------------------------------------------------------------------------------
# The Hessian as a matrix, from products with the Hessian in the scores of each query.


SAMPLE_ROWS = 1024  #: rows of X that are multiplied at a time; more take more memory
SAMPLE_NUMBERS = 2**18  #: entries of these rows; more take more memory


def hessian_by_query(
    X: KernelMatrix, plan: Plan, state: State, hinges: Hinges, query_ptr: Integers,
    queries: Integers, chosen: Columns, scratch: Scratch,
) -> Vector:  # fmt: skip
    """Compute the part X'(MX) of some queries in the Hessian, in blocks of rows.

    Only the upper triangle is computed. The columns are those of `choose_columns`.
    """
    sizes, n_columns = np.diff(query_ptr)[queries], len(chosen[0])
    room = max(1, min(SAMPLE_ROWS, SAMPLE_NUMBERS // n_columns))
    n_rows = min(int(sizes.sum()), room + int(sizes.max()))
    rows, products = np.empty((2, n_rows, n_columns))
    buffer = np.empty(rows_buffer(int(sizes.max()), n_columns))
    total = np.zeros((n_columns, n_columns))
    first = 0
    while first < len(queries):
        starts = np.concatenate([[0], np.cumsum(sizes[first:])])
        n = max(1, int(np.searchsorted(starts, n_rows, side="right")) - 1)
        curve_sample(
            X, plan, state, hinges, queries[first : first + n], starts, chosen, rows, products,
            scratch, buffer,
        )  # fmt: skip
        add_upper(total, rows[: starts[n]].T, products[: starts[n]].T)
        first += n
    return total


# --------------------------------------------------------------------------------------------------
# The Hessian of the domination loss as a matrix, without a Hessian product for each feature.
#
# In the scores, the Hessian M is a diagonal D minus products of two vectors per level
# (`linrank.losses.domination`). X'MX is therefore X'DX minus products of sums of rows of X. For a
# sparse X, the cost of X'DX is the number of pairs of entries that lie in the same row.


BLOCK_ROWS = 1024  #: rows of a dense X multiplied at a time; more take more memory


def hessian_by_level(
    X: UserMatrix, plan: Plan, state: State, features: Integers, n_threads: int
) -> Vector:
    """Compute X'MX in some features, with M at the scores last linearised."""
    assert isinstance(plan, DominationPlan)
    assert isinstance(state, DominationState)
    parts = curvature_parts(plan, state)
    chosen = choose_columns(features, X.shape[1])
    shape = len(state.total), len(features)
    matrix, b, c = kernel_matrix(X), np.zeros(shape), np.zeros(shape)
    H = gram(X, parts.diagonal, chosen, n_threads)
    tasks = [
        (matrix, parts.group, weight, chosen, sums)
        for weight, sums in ((parts.share, b), (parts.cross, c))
    ]
    run(_sum_csr if isinstance(matrix, CSR) else _sum_dense, tasks, n_threads)
    _sum_upward(plan.query_nodes, state.decay, b)
    mixed = b.T @ (0.5 * parts.square[:, None] * b + c)
    H -= mixed
    H -= mixed.T
    return H


def gram(X: UserMatrix, weight: Vector, chosen: Columns, n_threads: int) -> Vector:
    """Compute X' diag(weight) X in the chosen features; the weights must not be negative."""
    ranges = row_ranges(X, n_threads)
    tasks = [(kernel_matrix(X), a, b, weight, chosen) for a, b in ranges]
    with blas_threads(1):  # each thread of `run` calls BLAS for its own rows
        H, *others = run(_gram_of_rows, tasks, n_threads)
    for other in others:
        H += other
    mirror_upper(H)
    return H


def _gram_of_rows(
    X: KernelMatrix, first: int, last: int, weight: Vector, chosen: Columns
) -> Vector:
    """Compute the part of some rows in `gram`; of CSR rows, only its upper triangle."""
    n = len(chosen[0])
    H = np.zeros((n, n))
    if isinstance(X, CSR):
        _gram_csr(X, first, last, weight, chosen[1], np.empty(n, np.int64), np.empty(n), H)
        return H
    columns = np.empty((n, BLOCK_ROWS))
    for a in range(first, last, BLOCK_ROWS):
        b = min(a + BLOCK_ROWS, last)
        copy_columns(X, a, b, chosen, columns)
        scaled = columns[:, : b - a] * np.sqrt(weight[a:b])
        H += scaled @ scaled.T
    return H


@njit
def _gram_csr(X, first, last, weight, place, at, values, H):  # type: ignore[no-untyped-def]
    """Add the product of every two entries of a row to the upper triangle."""
    for i in range(first, last):
        n = 0
        for e in range(X.indptr[i], X.indptr[i + 1]):
            k = place[X.indices[e]]
            if k >= 0:
                at[n], values[n] = k, X.data[e]
                n += 1
        for r in range(n):
            factor, k = weight[i] * values[r], at[r]
            for s in range(r, n):
                H[min(k, at[s]), max(k, at[s])] += factor * values[s]


@njit
def _sum_dense(X, group, weight, chosen, sums):  # type: ignore[no-untyped-def]
    """Add Σ weight_i x_i over the documents of each group g to ``sums[g]``."""
    features, _ = chosen
    for i in range(len(group)):
        if group[i] >= 0:
            for k in range(len(features)):
                sums[group[i], k] += weight[i] * X[i, features[k]]


@njit
def _sum_csr(X, group, weight, chosen, sums):  # type: ignore[no-untyped-def]
    """Do what `_sum_dense` does, for CSR rows."""
    _, place = chosen
    for i in range(len(group)):
        if group[i] >= 0:
            for e in range(X.indptr[i], X.indptr[i + 1]):
                k = place[X.indices[e]]
                if k >= 0:
                    sums[group[i], k] += weight[i] * X.data[e]


@njit(allocates=True)
def _sum_upward(query_nodes, decay, sums):  # type: ignore[no-untyped-def]
    """Replace sums of levels by sums over all levels below: S_{g+1} = decay_g·S_g + sum_g."""
    for q in range(len(query_nodes) - 1):
        below = np.zeros(sums.shape[1])
        for g in range(query_nodes[q], query_nodes[q + 1]):
            for k in range(sums.shape[1]):
                own = sums[g, k]
                sums[g, k] = below[k]
                below[k] = decay[g] * below[k] + own


# --------------------------------------------------------------------------------------------------
# The Hessian from a sample of documents, if queries are too large for a sample of queries.


BLOCK_NUMBERS = 2**21  #: entries of sampled documents multiplied at a time; more take more memory


def hessian_of_documents(
    X: AnyMatrix, query_ptr: Integers, curvature: Vector, n_rows: int, n_threads: int
) -> Vector:
    """Compute Σ_i curvature_i (x_i − μ)(x_i − μ)' over a sample of about `n_rows` documents.

    μ is the mean of the sampled documents of the query of i, weighted by curvature. If all n
    documents of a query are compared with each other, this is the Hessian of the query up to a
    factor of 1 − 1/n. The sample is evenly spaced in the order of curvature. The sum is multiplied
    by the curvature of all documents, divided by that of the sampled documents.

    Parameters
    ----------
    X : array or CSR of shape (n_docs, n_features)
    query_ptr : int64 array
        The rows of query q are ``query_ptr[q]:query_ptr[q + 1]``.
    curvature : float64 array of shape (n_docs,)
    n_rows, n_threads : int

    Examples
    --------
    >>> X, ptr = np.array([[0.0], [1.0], [5.0], [7.0]]), np.array([0, 2, 4])
    >>> hessian_of_documents(X, ptr, np.ones(4), n_rows=4, n_threads=1)
    array([[2.5]])
    """
    picks = ((np.arange(n_rows) + 0.5) * len(curvature) / n_rows).astype(np.int64)
    rows = np.sort(np.argsort(curvature, kind="stable")[picks])
    weight = curvature[rows]
    _, group = np.unique(np.searchsorted(query_ptr, rows, side="right"), return_inverse=True)
    mass = np.maximum(np.bincount(group, weight), np.finfo(float).tiny)[:, None]
    n_blocks = max(n_threads, -(-n_rows * X.shape[1] // BLOCK_NUMBERS))
    blocks = np.array_split(np.arange(n_rows), n_blocks)
    sums = np.zeros((len(mass), X.shape[1]))
    for block in blocks:
        place = group[block], np.arange(len(block))
        owner = sparse.csr_array((weight[block], place), (len(mass), len(block)))
        sums += owner @ dense_rows(X, rows[block])
    means = sums / mass
    tasks = [(X, blocks[k::n_threads], rows, group, weight, means) for k in range(n_threads)]
    with blas_threads(1):  # each thread of `run` multiplies its own blocks
        H = np.sum(run(_scatter, tasks, n_threads), axis=0)
    if sparse.issparse(X):
        H -= sums.T @ means
    total = weight.sum()
    return H * (curvature.sum() / total if total > 0 else 1.0)


def _scatter(
    X: AnyMatrix,
    blocks: list[Integers],
    rows: Integers,
    group: Integers,
    weight: Vector,
    means: Vector,
) -> Vector:
    """Compute Σ_i weight_i (x_i − μ)(x_i − μ)' over blocks of rows; for sparse X without the μ.

    The means would fill a sparse X. The caller subtracts them from the result instead.
    """
    H = np.zeros((X.shape[1], X.shape[1]))
    for block in blocks:
        part, own = dense_rows(X, rows[block]), weight[block]
        if sparse.issparse(part):
            H += part.T @ (sparse.diags_array(own) @ part)
        else:
            part = part - means[group[block]]
            H += (part.T * own) @ part
    return H


# --------------------------------------------------------------------------------------------------
# The thread engine: the loss as a function of the weights, computed on the processor.


BLOCK_BYTES = 2**18  #: bytes of X in a block of rows; larger blocks leave the second-level cache
SMALL_BYTES = 2**22  #: bytes of X up to which one thread is used; starting others would cost more
LARGE_QUERY = 2**16  #: documents above which several threads sort a query; fewer sort it alone
#: Mean documents per level from which `hessian_by_level` is used; with fewer, it is slower.
MIN_DOCUMENTS_PER_LEVEL = 8
SUM_ENTRIES = 32  #: least entries of X per entry of a part's sum X'u; more make fewer parts


class ThreadEngine(Engine):
    """The engine of data in the memory of this process, or mapped into it.

    Parameters
    ----------
    data : RankingData
    loss : Loss
    normalize : {None, "pairs", "queries"}
        Whether to divide the loss by the weight of all pairs, or the loss of each query by the
        weight of its pairs.
    n_threads : int, optional
        The default is the number of usable cores.
    counting : str
        The algorithm that sums over pairs: one of `linrank.choices.COUNTINGS`.
    preferences : Preferences
        Which pairs are compared.

    Attributes
    ----------
    layout : Layout
        What the labels and the preferences decide: the pairs, in the form that the kernels read.
        The query weights in ``layout.plan`` are normalized.
    state : NamedTuple
        What the kernels have derived from the scores of the last `value_grad`.
    hinges : Hinges
        The loss, in the form that the kernels read.
    matrix : array or CSR
        X, in the form that the kernels read (`linrank.matrix.rows.kernel_matrix`).
    scratch : list of NamedTuples
        The buffers of each part.
    n_threads : int
        The threads that are used: 1 if X is small.
    pair_weight : float
        The weight of all pairs, before normalization.
    fused : bool
        Whether a thread computes scores, pair sums and X'u block by block. If False, each of
        these steps is threaded by itself.

    Examples
    --------
    >>> from linrank import make_ranking
    >>> from linrank.losses import get_loss
    >>> engine = ThreadEngine(make_ranking(random_state=0), get_loss("squared_hinge"))
    >>> loss, gradient = engine.value_grad(np.zeros(engine.n_features))
    >>> loss == engine.n_pairs
    True
    """

    data: RankingData

    def __init__(
        self,
        data: RankingData,
        loss: Loss,
        normalize: str | None = None,
        n_threads: int | None = None,
        *,
        counting: str = "auto",
        preferences: Preferences = ALL_PAIRS,
    ) -> None:
        X = data.X
        self.matrix = kernel_matrix(X)  # before all else: it refuses mapped files that have changed
        self.data = data
        self.work = Work()
        self.n_features = data.n_features
        self.n_entries = n_entries(X)
        n_threads = resolve_threads(n_threads)
        self.n_threads = n_threads if self.n_entries * X.dtype.itemsize > SMALL_BYTES else 1
        layout: Layout = loss.lay_out(data, preferences, counting, n_threads)
        self.counting = layout.counting
        self.n_pairs = int(layout.mass[:, 0].sum())
        self.n_empty_queries = int(np.count_nonzero(layout.mass[:, 0] == 0))
        self.pair_weight = layout.total_weight()
        self.layout = layout if normalize is None else layout.normalized(normalize)
        self._options = normalize, counting, preferences
        self.largest_query = int(np.diff(data.query_ptr).max())
        row_bytes = max(1, self.n_entries * X.dtype.itemsize // data.n_docs)
        self._block_rows = max(1, BLOCK_BYTES // row_bytes)
        self.fused = self.largest_query * self.n_threads * 2 <= data.n_docs or self.n_threads == 1
        # Each part of a pass has a sum X'u of its own. Few parts bound the cost of adding the sums.
        least = self.n_entries // (SUM_ENTRIES * n_sums(X))
        self._n_tasks = max(self.n_threads, min(n_tasks(X, self.n_threads), least))
        few = self.largest_query * self._n_tasks * 2 > data.n_docs  # buffers take memory
        self._chunks = split(data.query_ptr, self.n_threads if few else self._n_tasks)
        self.scratch = [layout.make_scratch(self.largest_query) for _ in self._chunks]
        self._partial = aligned_zeros(self._n_tasks, n_sums(X))
        self._set_loss(loss)

    def with_loss(self, loss: Loss) -> ThreadEngine:
        """Return an engine for the same data and pairs with another loss.

        Both engines share buffers, so they must not be used at the same time.
        """
        other = copy.copy(self)
        other.layout = self.layout.with_own_documents()
        other._set_loss(loss)
        return other

    def _set_loss(self, loss: Loss) -> None:
        """Replace the loss, and forget everything that depends on it. Subclasses extend this."""
        self.loss = loss
        self.__dict__.pop("at_zero", None)
        self.last = None
        # Offsets contain the whole margin. The margin of 1 in the hinges is removed then.
        self.hinges = loss.hinges(shift=-1.0 if len(self.layout.plan.offset) else 0.0)
        self.state: State = self.layout.make_state(len(self.hinges.tau))

    def list_pairs(self) -> Layout:
        """Lay out the pairs one by one, whatever the counting of this engine."""
        normalize, _, preferences = self._options
        listed = self.loss.lay_out(self.data, preferences, "explicit", self.n_threads)
        return listed if normalize is None else listed.normalized(normalize)

    def change_loss(self, loss: Loss) -> None:
        """Replace the loss by one with as many hinges, and keep the order of the scores."""
        state = self.state
        self._set_loss(loss)
        self.state = state

    def value_grad(self, w: Vector) -> tuple[float, Vector]:
        """Compute the loss and its gradient at w; Hessian products then refer to w."""
        self.last = None
        self.work.evaluations += 1
        loss, gradient = float(sum(self._walk(w, linearize=True))), self._collect()
        self.last = np.array(w, dtype=np.float64), loss, gradient.copy()
        return loss, gradient

    def score_derivatives(self, w: Vector) -> tuple[Vector, Vector]:
        """Compute the derivative of the loss in each score at w, and the curvature in each score.

        Hessian products then refer to w.
        """
        self.last = None
        self.work.evaluations += 1
        _, u = self._derive(self.scores(w), linearize=True)
        return u, self.state.curvature.copy()

    def line(self, w: Vector, direction: Vector) -> Line:
        """Return the loss on a line, from the scores of both vectors: no value reads X again."""
        start, along = self.scores(w), self.scores(direction)

        def evaluate(t: float) -> tuple[float, float]:
            self.last = None
            losses, u = self._derive(start + t * along, linearize=True)
            return float(sum(losses)), float(u @ along)

        return evaluate

    def loss_of(self, scores: Vector) -> float:
        """Compute the loss of any scores; Hessian products then need another `value_grad`."""
        self.last = None
        return float(sum(self._derive(scores, linearize=True)[0]))

    def hessp(self, v: Vector) -> Vector:
        """Compute the product H v with the Hessian H = X'MX at the last w of `value_grad`."""
        self.work.products += 1
        self._walk(v, linearize=False)
        return self._collect()

    def gaps(self, w: Vector) -> Vector:
        """Compute Σ_pairs weight·max(0, τ_m − t) for each hinge m, at the last w of `value_grad`.

        Duality gaps consist of these sums.
        """
        ptr, scores = self.data.query_ptr, self.scores(w)
        parts = zip(self._chunks, self.scratch, strict=True)
        found = np.zeros((len(self._chunks), len(self.hinges.tau)))
        known = self.layout.plan, self.state, self.hinges
        tasks = [
            (*known, a, b, scores[ptr[a] : ptr[b]], out, scratch)
            for ((a, b), scratch), out in zip(parts, found, strict=True)
        ]
        run(walk_gaps, tasks, self.n_threads)
        return found.sum(axis=0)

    def scores(self, w: Vector) -> Vector:
        """Compute the scores Xw of all documents, in the row order of the data."""
        return multiply(self.data.X, w, self.n_threads)

    def hessian(self, n_rows: int | None = None, features: Integers | None = None) -> Vector:
        """Compute the Hessian as a matrix, from all queries or a sample (`sample_queries`).

        An estimate from a sample is multiplied by the curvature of all documents, divided by the
        curvature of the sampled documents.
        """
        queries = self.sample_queries(n_rows)
        features = np.arange(self.n_features) if features is None else features
        if (
            self.makes_hessian_by_level
            and len(queries) == self.data.n_queries - self.n_empty_queries
        ):
            plan, state = self.layout.plan, self.state
            return hessian_by_level(self.data.X, plan, state, features, self.n_threads)
        chosen = choose_columns(features, self.n_features)
        starts = np.concatenate([[0], np.cumsum(np.diff(self.data.query_ptr)[queries])])
        parts = split(starts, min(self.n_threads, len(self.scratch)))
        known = self.matrix, self.layout.plan, self.state, self.hinges, self.data.query_ptr
        tasks = [(*known, queries[a:b], chosen, self.scratch[k]) for k, (a, b) in enumerate(parts)]
        with blas_threads(1):  # each of our threads multiplies its own part
            found = run(hessian_by_query, tasks, self.n_threads)
        total = found[0] if found else np.zeros((len(features), len(features)))
        for other in found[1:]:
            total += other
        mirror_upper(total)
        if len(queries) < self.data.n_queries:
            mass = np.add.reduceat(self.state.curvature, self.data.query_ptr[:-1])
            sampled = mass[queries].sum()
            total *= mass.sum() / sampled if sampled > 0 else 1.0
        return total

    @property
    def makes_hessian_by_level(self) -> bool:
        """Whether the Hessian in the scores is a diagonal plus a few vectors per query.

        The sums of `hessian_by_level` read the entries of X, which a binned matrix does not store.
        """
        if isinstance(self.data.X, BinnedMatrix):
            return False
        n_nodes = int(self.layout.plan.query_nodes[-1])
        return not self.loss.pairwise and MIN_DOCUMENTS_PER_LEVEL * n_nodes <= self.data.n_docs

    def hessian_diagonal(self) -> Vector:
        """Compute Σ_i curvature_i x_i²: the diagonal of the Hessian without the terms x_i x_j.

        These terms are 0 for a feature that no two compared documents share, and small for a rare
        feature.
        """
        X = self.data.X
        sums = np.zeros((self._n_tasks, n_square_sums(X)))
        self._run_rows(rmatvec_squares, self.state.curvature, sums)
        return contract_squares(X, _sum_in_order(sums))

    def hessian_of_documents(self, n_rows: int) -> Vector:
        """Estimate the Hessian from about `n_rows` documents (`documents.hessian_of_documents`)."""
        data = self.data
        return hessian_of_documents(
            data.X, data.query_ptr, self.state.curvature, n_rows, self.n_threads
        )

    # The three steps of every sum: scores, pair sums, X'u ----------------------------------

    def _walk(self, v: Vector, linearize: bool) -> list[float]:
        """Compute the derivatives in the scores, and X'u of each part; return their losses.

        If v is 0, X is read for X'u only.
        """
        self._partial[:] = 0.0
        matrix = self.matrix if linearize else for_products(self.matrix)
        table = expand(self.data.X, v)[: None if v.any() else 0]
        known = self.layout.plan, self.state, self.hinges, linearize
        if self.fused:
            parts = zip(self._chunks, self.scratch, self._buffers, self._partial, strict=False)
            blocks = [
                (matrix, *known, a, b, self._block_rows, table, scratch, *buffers, partial)
                for (a, b), scratch, buffers, partial in parts
            ]
            return run(walk_blocks, blocks, self.n_threads)
        scores = self.scores(v) if v.any() else np.zeros(self.data.n_docs)
        losses, u = self._derive(scores, linearize)
        self._run_rows(rmatvec, u, self._partial)
        return losses

    def _derive(self, scores: Vector, linearize: bool) -> tuple[list[float], Vector]:
        """Return the losses of all parts, and the derivatives u in the scores."""
        ptr = self.data.query_ptr
        if linearize:
            self._sort_large_queries(scores)
        u = np.empty_like(scores)
        tasks = [
            (
                self.layout.plan, self.state, self.hinges, linearize, a, b,
                scores[ptr[a] : ptr[b]], u[ptr[a] : ptr[b]], scratch,
            )
            for (a, b), scratch in zip(self._chunks, self.scratch, strict=True)
        ]  # fmt: skip
        return run(walk_scores, tasks, self.n_threads), u

    @lazy_property
    def _buffers(self) -> list[tuple[Vector, Vector]]:
        """Buffers of each part for the scores of a block, and the derivatives in them."""
        n = max(self.largest_query, self._block_rows)
        return [(np.empty(n), np.empty(n)) for _ in self._chunks]

    def _sort_large_queries(self, scores: Vector) -> None:
        """Sort the documents of large queries with all threads, before one thread reads them."""
        ptr = self.data.query_ptr
        for q in np.flatnonzero(np.diff(ptr) > LARGE_QUERY):
            keys = scores[ptr[q] : ptr[q + 1]]
            self.layout.sort_query(int(q), keys, self.scratch[0], self.n_threads)

    def _run_rows(self, kernel: Callable[..., None], u: Vector, sums: Vector) -> None:
        """Run a kernel of `linrank.matrix.rows` such as `rmatvec` on all rows, with u."""
        ranges = row_ranges(self.data.X, self._n_tasks)
        tasks = [(self.matrix, a, b, u[a:b], sums[k]) for k, (a, b) in enumerate(ranges)]
        run(kernel, tasks, self.n_threads)

    def _collect(self) -> Vector:
        """Return X'u, from the sums of the parts."""
        return contract(self.data.X, _sum_in_order(self._partial))

    # The Hessian as a matrix --------------------------------------------------------------

    def sample_queries(self, n_rows: int | None) -> Integers:
        """Choose queries with pairs that have about `n_rows` rows together; None means all.

        The chosen queries are evenly spaced in the order of `RankingData.query_keys`. The sample
        therefore depends neither on the order of the rows nor on the names of the queries.
        """
        plan = self.layout.plan
        alive = np.flatnonzero(plan.query_nodes[1:] > plan.query_nodes[:-1])
        rows = int(np.diff(self.data.query_ptr)[alive].sum())
        if n_rows is None or n_rows >= rows:
            return alive
        n_queries = max(1, round(len(alive) * n_rows / rows))
        return alive[evenly_spaced(self.data.query_keys[alive], n_queries)]

    def total_curvature(self) -> float:
        """Return the sum of the curvatures of all documents at the last w."""
        return float(self.state.curvature.sum())

    def sample(self, n_rows: int) -> ThreadEngine | None:
        """Return an engine for a sample of the queries with about `n_rows` rows.

        The rows are copied. The result is None if a query has more rows, or if a user listed the
        pairs one by one.
        """
        if self.data.pairs is not None or self.largest_query > n_rows:
            return None
        data = take_queries(self.data, self.sample_queries(n_rows))
        normalize, counting, preferences = self._options
        return ThreadEngine(
            data, self.loss, normalize, self.n_threads, counting=counting, preferences=preferences
        )


def _sum_in_order(parts: Vector) -> Vector:
    """Add the sums of the parts, in a fixed order."""
    total = parts[0].copy()
    for part in parts[1:]:
        total += part
    return total


# --------------------------------------------------------------------------------------------------
# The rounding error of the loss at given weights, and the loss in extended precision.


TRIALS = 3  #: number of roundings of the scores that are tried; more trials find larger errors
#: Trials if there are few documents. In each, a pair is left as it is with a probability of 1/2.
MANY_TRIALS = 16
FEW_DOCUMENTS = 1000  #: documents up to which `MANY_TRIALS` take hardly any time
FEW_PAIRS = 10**4  #: pairs up to which `extended_loss` takes hardly any time
MOST_PAIRS = 10**6  #: pairs that are listed for `extended_loss`; more pairs take more time
MOST_ENTRIES = 10**7  #: entries of X that `extended_loss` converts; more entries take more memory
BLOCK = 4096  #: pairs whose rows `extended_loss` subtracts at a time


def rounding_error(engine: Engine, w: Vector, enough: float = 0.0) -> float:
    """Estimate the error that rounding causes in the loss at w; 0 if the rows are elsewhere.

    The score Σ x_f·w_f of a document is exact to about ε·Σ |x_f·w_f| (`Engine.score_size`), where ε
    is the distance of 1 to the next number. If features have an offset, this is far more than ε
    times the score differences. The scores of all documents are
    moved by this error, up or down at random. The result is the largest change of the loss. Pair
    sums whose terms cancel change, too, because they round differently. If such a sum is much
    smaller than its terms, it may stay the same. The loss of up to `FEW_PAIRS` pairs is therefore
    also compared with `extended_loss`.

    If the bound 16ε·Ω·r² on the error is at most `enough`, it is returned instead, and X is not
    read. Ω is the weight of all pairs, and r bounds their margins and score differences. A pair
    adds at most r² to the loss. Its slope is at most 2r.

    Examples
    --------
    >>> from linrank import make_problem, make_ranking
    >>> data = make_ranking(random_state=0)
    >>> near = make_problem(data).engine
    >>> far = make_problem(data.replace(X=data.X + 1e8)).engine
    >>> w = np.ones(near.n_features)
    >>> rounding_error(near, w) < 1e-9 < rounding_error(far, w)
    True
    """
    given, (engine, w) = engine, engine.unscaled(w)
    if type(engine) is not ThreadEngine:  # rows in workers or on a graphics card
        return 0.0
    eps, weight = float(np.finfo(float).eps), engine.layout.total_weight()
    size = engine.score_size(w)
    reach = 1.0 + size + given.at_zero[0] / weight
    if 16.0 * eps * weight * reach**2 <= enough:
        return 16.0 * eps * weight * reach**2
    scores, other = engine.scores(w), engine.with_loss(engine.loss)  # with a state of its own
    loss, rng = other.loss_of(scores), np.random.default_rng(0)
    changes = []
    for _ in range(MANY_TRIALS if len(scores) <= FEW_DOCUMENTS else TRIALS):
        move = eps * size * rng.choice((-1.0, 1.0), len(scores))
        changes += [other.loss_of(scores + move) - loss, other.loss_of(scores - move) - loss]
    exact = extended_loss(engine, w) if engine.n_pairs <= FEW_PAIRS else None
    if exact is not None:
        changes.append(exact - loss)
    return float(np.abs(changes).max())


def slope_error(engine: Engine, w: Vector) -> float:
    """Bound the error that rounding causes in the gradient g of the loss at w.

    The gradient is a sum over pairs of rounded terms a_p·x̃_p. The error of g'v is at most about
    κ·max_i Σ_f |x_if·v_f| with the result

        κ = 2ε·Ω·ρ,

    where ρ bounds the slopes of the hinges of a pair: 1, or 2r·max(1, Σ|c|) for losses with squares
    c·max(0, τ − t)², where r bounds the margins and score differences. The result is 0 if the rows
    are elsewhere.
    """
    given, (engine, w) = engine, engine.unscaled(w)
    if type(engine) is not ThreadEngine:
        return 0.0
    weight, steepest = engine.layout.total_weight(), 1.0
    squares = 0.0 if engine.loss.exact else float(np.abs(engine.loss.table[:, 2]).sum())
    if squares:
        reach = 1.0 + engine.score_spread(w) + given.at_zero[0] / weight
        steepest = 2.0 * max(1.0, squares) * reach
    return 2.0 * float(np.finfo(float).eps) * weight * steepest


def extended_loss(engine: Engine, w: Vector) -> float | None:
    """Compute the loss at w over listed pairs in `numpy.longdouble`.

    The result is None if there are too many pairs, or if the loss is not a sum over pairs. On
    processors whose `longdouble` is no more precise than a float, it is still more exact than the
    loss of the engine, because no terms of different pairs cancel.
    """
    engine, w = engine.unscaled(w)
    if (
        type(engine) is not ThreadEngine
        or not engine.loss.pairwise
        or isinstance(engine.data.X, BinnedMatrix)
        or engine.n_pairs > MOST_PAIRS
        or engine.n_entries > MOST_ENTRIES
    ):
        return None
    plan, wide = engine.list_pairs().plan, np.longdouble
    assert isinstance(plan, ExplicitPlan)
    n_listed = np.diff(plan.query_nodes)
    start = np.repeat(plan.query_ptr[:-1], n_listed)
    X, upper, lower = engine.data.X.astype(wide), start + plan.upper, start + plan.lower
    t = np.empty(len(upper), wide)
    for first in range(0, len(t), BLOCK):  # differences of rows first: offsets cancel exactly
        some = slice(first, first + BLOCK)
        t[some] = (X[upper[some]] - X[lower[some]]) @ w.astype(wide)
    if len(plan.shift):
        t = t - plan.shift
    weight = np.repeat(plan.query_weight, n_listed).astype(wide)
    if len(plan.weight):
        weight = weight * plan.weight
    if engine.loss.exact:
        return float(weight @ np.logaddexp(wide(0.0), -t))
    value = np.zeros_like(t)
    for tau, a, c in engine.loss.table.tolist():
        gap = np.maximum(wide(0.0), tau - t)
        value += (a + c * gap) * gap
    return float(weight @ value)


# --------------------------------------------------------------------------------------------------
# Kernels that visit the queries of one thread: scores, pair sums, X'u.
#
# All kernels take the plan, the state, the hinges and the scratch buffers that the layout and the
# loss of the engine provide (`ThreadEngine.layout`), and work on the queries q0, …, q1 − 1.


@njit(inner=True)
def _next_block(plan, q, q1, block_rows):  # type: ignore[no-untyped-def]
    """Return the next run of queries with pairs whose rows fit in the cache; q1, q1 at the end."""
    while q < q1 and plan.query_nodes[q] == plan.query_nodes[q + 1]:
        q += 1  # a query without pairs contributes nothing, so its rows are not read
    end = min(q + 1, q1)
    while (
        end < q1
        and plan.query_nodes[end] < plan.query_nodes[end + 1]
        and plan.query_ptr[end + 1] - plan.query_ptr[q] <= block_rows
    ):
        end += 1
    return q, end


@njit
def walk_blocks(X, plan, state, hinges, linearize, q0, q1, block_rows, v, scratch, s, u, out):  # type: ignore[no-untyped-def]
    """Compute scores, pair sums and X'u in blocks of rows that fit in the cache.

    While the rows of one block are added to X'u, the rows of the next block are read from memory
    to compute its scores. If v is empty, all scores are 0.
    """
    loss = 0.0
    q, end = _next_block(plan, q0, q1, block_rows)
    first, last = plan.query_ptr[q], plan.query_ptr[end]
    if len(v) > 0:
        matvec(X, first, last, v, s)
    else:
        s[:] = 0.0
    while q < q1:
        n = last - first
        loss += _walk_queries(plan, state, hinges, linearize, q, end, s[:n], u[:n], scratch)
        q, end = _next_block(plan, end, q1, block_rows)
        next_first, next_last = plan.query_ptr[q], plan.query_ptr[end]
        if len(v) > 0:
            advance(X, first, last, u, out, next_first, next_last, v, s)
        else:
            rmatvec(X, first, last, u, out)
            s[:] = 0.0  # offsets were subtracted from them
        first, last = next_first, next_last
    return loss


@njit
def walk_scores(plan, state, hinges, linearize, q0, q1, s, u, scratch):  # type: ignore[no-untyped-def]
    """Compute the pair sums for given scores; see `_walk_queries`."""
    return _walk_queries(plan, state, hinges, linearize, q0, q1, s, u, scratch)


@njit(inner=True)
def _walk_queries(plan, state, hinges, linearize, q0, q1, s, u, scratch):  # type: ignore[no-untyped-def]
    """Compute the loss and its gradient u at the scores s, or the Hessian product u = H s.

    ``s`` and ``u`` start at the first row of query q0. With `linearize`, s becomes scores minus
    offsets, and the loss is returned. Without it, H is the Hessian of the last linearisation.
    """
    loss = 0.0
    first = plan.query_ptr[q0]
    if linearize:
        _subtract_offsets(plan, q0, q1, s)
    for q in range(q0, q1):
        a, b = plan.query_ptr[q] - first, plan.query_ptr[q + 1] - first
        if plan.query_nodes[q] == plan.query_nodes[q + 1]:
            u[a:b] = 0.0
        elif linearize:
            loss += linearize_query(plan, state, hinges, q, s[a:b], u[a:b], scratch)
        else:
            curve_query(plan, state, hinges, q, s[a:b], u[a:b], scratch)
    return loss


@njit(inner=True)
def _subtract_offsets(plan, q0, q1, s):  # type: ignore[no-untyped-def]
    """Subtract the offsets of the documents, if there are any, from their scores."""
    if len(plan.offset) > 0:
        first = plan.query_ptr[q0]
        for i in range(first, plan.query_ptr[q1]):
            s[i - first] -= plan.offset[i]


@njit
def walk_gaps(plan, state, hinges, q0, q1, s, gaps, scratch):  # type: ignore[no-untyped-def]
    """Add ``Σ weight·max(0, τ_m − t)`` over the pairs to ``gaps[m]``, for each hinge m."""
    _subtract_offsets(plan, q0, q1, s)
    first = plan.query_ptr[q0]
    for q in range(q0, q1):
        if plan.query_nodes[q] < plan.query_nodes[q + 1]:
            a, b = plan.query_ptr[q] - first, plan.query_ptr[q + 1] - first
            gaps_query(plan, state, hinges, q, s[a:b], gaps, scratch)


@njit
def curve_sample(X, plan, state, hinges, queries, starts, chosen, rows, out, scratch, buffer):  # type: ignore[no-untyped-def]
    """Copy the chosen features of some queries into `rows`, and compute ``out = M·rows``.

    M is the Hessian in the scores. Numbers may be subtracted from the features of a query.
    """
    for r in range(len(queries)):
        q = queries[r]
        first, last = plan.query_ptr[q], plan.query_ptr[q + 1]
        a, b = starts[r], starts[r] + last - first
        copy_rows(X, first, last, chosen, rows[a:b])
        curve_rows(plan, state, hinges, q, rows[a:b], out[a:b], scratch, buffer)
