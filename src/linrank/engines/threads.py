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

from .._binned import BinnedMatrix
from .._lazy import lazy_property
from .._rows import (
    aligned_zeros,
    choose_columns,
    contract,
    contract_squares,
    expand,
    for_products,
    kernel_matrix,
    multiply,
    n_entries,
    n_square_sums,
    n_sums,
    n_tasks,
    rmatvec,
    rmatvec_squares,
    row_ranges,
)
from .._threads import blas_threads, resolve_threads, run, split
from .._typing import Integers, Vector
from ..counting.base import Layout, State
from ..counting.preferences import ALL_PAIRS, Preferences
from ..data.ranking import RankingData
from ..data.samples import evenly_spaced, take_queries
from ..losses.base import Loss
from .base import Engine, Line, Work
from .by_level import hessian_by_level
from .by_query import hessian_by_query
from .documents import hessian_of_documents
from .symmetric import mirror_upper
from .walk import walk_blocks, walk_gaps, walk_scores

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
        The algorithm that sums over pairs: one of `linrank.counting.names.COUNTINGS`.
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
        X, in the form that the kernels read (`linrank._rows.kernel_matrix`).
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
        self.layout = layout.normalized(normalize)
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
        return listed.normalized(normalize)

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
        """Compute the derivatives in the scores, and X'u of each part; return their losses."""
        self._partial[:] = 0.0
        matrix = self.matrix if linearize else for_products(self.matrix)
        table = expand(self.data.X, v)
        known = self.layout.plan, self.state, self.hinges, linearize
        if self.fused:
            parts = zip(self._chunks, self.scratch, self._buffers, self._partial, strict=False)
            blocks = [
                (matrix, *known, a, b, self._block_rows, table, scratch, *buffers, partial)
                for (a, b), scratch, buffers, partial in parts
            ]
            return run(walk_blocks, blocks, self.n_threads)
        losses, u = self._derive(self.scores(v), linearize)
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
        """Run a kernel of `linrank._rows` such as `rmatvec` on all rows, with u."""
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
