"""The thread engine: the loss as a function of the weights, summed over all queries.

X meets w here. Each thread walks a contiguous range of queries in blocks that fit in the
second-level cache: scores of the block's rows, pair sums of its queries, and while the
rows are still in the cache their part of X'u, together with the scores of the next block.
So X is read from memory once per value and gradient, and once per Hessian product. Where
one query holds most of the rows, that walk cannot be shared out, and the three steps are
threaded one by one instead.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._jit import njit
from .._lazy import lazy_property
from .._rows import (
    advance,
    aligned_zeros,
    choose_columns,
    copy_columns,
    kernel_matrix,
    matvec,
    multiply,
    rmatvec,
    rmatvec_squares,
    row_ranges,
)
from .._sort import sort_in_threads
from .._threads import blas_threads, resolve_threads, run, split
from .._typing import Vector
from ..counting.plan import START
from ..counting.preferences import ALL_PAIRS, Preferences
from ..data.ranking import RankingData
from ..errors import DataError
from ..losses.base import Loss
from ..losses.kernels import curve_query, gaps_query, linearize_query
from .base import Engine, Work
from .by_level import hessian_by_level

BLOCK_BYTES = 2**19  #: rows of X handled at a time: about a core's second-level cache
SMALL_BYTES = 2**20  #: less work than this per product does not pay for handing it to threads
LARGE_QUERY = 2**16  #: documents of a query whose sorting is shared among threads
FEW = 8  #: documents per level, from which on the Hessian is made by level
SAMPLE_ROWS = 1024  #: rows of the Hessian sample that are multiplied out at a time
BLOCK_NUMBERS = 2**21  #: of sampled documents that are multiplied out at a time
SAMPLE_NUMBERS = 2**18  #: of these rows in the features at hand; fewer rows where these are many


class ThreadEngine(Engine):
    """The engine of data in this process's memory, or mapped into it.

    Parameters
    ----------
    data : RankingData
    loss : Loss
    normalize : {None, "pairs", "queries"}
        Divide by the weight of all pairs, or each query's part by the weight of its pairs.
    n_threads : int, optional
    counting : str
        How pairs are summed over: one of `linrank.counting.layout.COUNTINGS`.
    preferences : Preferences
        Which pairs there are.
    """

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
        self._X = kernel_matrix(X)  # first of all: it refuses mapped files that have changed
        self.data = data
        self.work = Work()
        self.n_features = data.n_features
        self.n_entries = int(X.nnz if sparse.issparse(X) else X.size)
        n_threads = resolve_threads(n_threads)
        self.n_threads = n_threads if self.n_entries * X.dtype.itemsize > SMALL_BYTES else 1
        self._layout = loss.lay_out(data, preferences, counting, n_threads)
        self.counting = self._layout.counting
        plan, mass = self._layout.plan, self._layout.mass
        self.n_pairs = int(mass[:, 0].sum())
        self.n_empty_queries = int(np.count_nonzero(mass[:, 0] == 0))
        self.pair_weight = float(plan.query_weight @ mass[:, 1])  #: of all pairs, undivided
        query_weight = _normalize(plan.query_weight, mass[:, 1], normalize)
        self._plan = plan._replace(query_weight=query_weight)
        sizes = np.diff(data.query_ptr)
        row_bytes = max(1, self.n_entries * X.dtype.itemsize // data.n_docs)
        self.largest_query = int(sizes.max())
        self._block_rows = max(1, BLOCK_BYTES // row_bytes)
        self._fused = self.largest_query * self.n_threads * 2 <= data.n_docs or self.n_threads == 1
        self._chunks = split(data.query_ptr, self.n_threads)
        self._scratch = [self._layout.make_scratch(self.largest_query) for _ in self._chunks]
        self._partial = aligned_zeros(self.n_threads, self.n_features)
        self._set_loss(loss)

    def with_loss(self, loss: Loss) -> ThreadEngine:
        """The same data and pairs with another loss; the two must not be used at one time."""
        other = copy.copy(self)
        other._layout = self._layout._replace(docs=self._layout.docs.copy())
        other._set_loss(loss)
        return other

    def _set_loss(self, loss: Loss) -> None:
        self.loss = loss
        self.__dict__.pop("at_zero", None)
        self.last = None
        # Offsets are the margins themselves, so that none is left where 1 was.
        self._hinges = loss.hinges(shift=-1.0 if len(self._plan.offset) else 0.0)
        self._state = self._layout.make_state(len(self._hinges.tau))

    def change_loss(self, loss: Loss) -> None:
        """Take a loss of as many hinges; what is known of the order of scores is kept."""
        state = self._state
        self._set_loss(loss)
        self._state = state

    def value_grad(self, w: Vector) -> tuple[float, Vector]:
        """The loss and its gradient at w; Hessian products are then those at w."""
        self.last = None
        self.work.evaluations += 1
        loss, gradient = float(sum(self._walk(w, linearize=True))), self._collect()
        self.last = np.array(w, dtype=np.float64), loss, gradient.copy()
        return loss, gradient

    def hessp(self, v: Vector) -> Vector:
        """``H v`` with H = X'MX, the Hessian at the last w of `value_grad`."""
        self.work.products += 1
        self._walk(v, linearize=False)
        return self._collect()

    def gaps(self, w: Vector) -> Vector:
        """``Σ_pairs weight·max(0, τ_m − t)`` for each hinge m, at the last w of `value_grad`.

        Duality gaps are made of these sums.
        """
        ptr, scores = self.data.query_ptr, self.scores(w)
        parts = zip(self._chunks, self._scratch, strict=True)
        found = np.zeros((len(self._chunks), len(self._hinges.tau)))
        tasks = [
            (self._plan, self._state, self._hinges, a, b, scores[ptr[a] : ptr[b]], out, scratch)
            for ((a, b), scratch), out in zip(parts, found, strict=True)
        ]
        run(_walk_gaps, tasks, self.n_threads)
        return found.sum(axis=0)

    def scores(self, w: Vector) -> Vector:
        """``Xw``, in the data's row order."""
        return multiply(self.data.X, w, self.n_threads)

    def hessian(
        self, n_rows: int | None = None, features: NDArray[np.int64] | None = None
    ) -> Vector:
        """The Hessian as a matrix, exact or estimated from queries with about `n_rows` rows.

        With `features`, of these only.

        The sampled queries lie evenly in the order of `RankingData.query_keys`, so the
        sample depends neither on the order of the rows nor on the names of the queries.
        The estimate is scaled by the curvature that the sample holds of the whole.
        """
        queries = self._sample(n_rows)
        features = np.arange(self.n_features) if features is None else features
        if (
            self.makes_hessian_by_level
            and len(queries) == self.data.n_queries - self.n_empty_queries
        ):
            return hessian_by_level(self.data.X, self._plan, self._state, features, self.n_threads)
        chosen = choose_columns(features, self.n_features)
        starts = np.concatenate([[0], np.cumsum(np.diff(self.data.query_ptr)[queries])])
        parts = split(starts, len(self._scratch))  # at most as many parts
        tasks = [(queries[a:b], chosen, self._scratch[k]) for k, (a, b) in enumerate(parts)]
        with blas_threads(1):  # each of our threads multiplies its own part
            found = run(self._hessian_of, tasks, self.n_threads)
        total = found[0] if found else np.zeros((len(features), len(features)))
        for other in found[1:]:
            total += other
        if len(queries) < self.data.n_queries:
            mass = np.add.reduceat(self._state.curvature, self.data.query_ptr[:-1])
            sampled = mass[queries].sum()
            total *= mass.sum() / sampled if sampled > 0 else 1.0
        return total

    @property
    def makes_hessian_by_level(self) -> bool:
        """Whether the Hessian is a diagonal and a few vectors, in the scores."""
        return not self.loss.pairwise and FEW * int(self._plan.query_nodes[-1]) <= self.data.n_docs

    def hessian_diagonal(self) -> Vector:
        """``Σ_i curvature_i x_i²``: the Hessian's diagonal without its cross terms x_i x_j.

        They vanish for a feature that no two partners share, and are small for a rare one.
        """
        self._run_rows(rmatvec_squares, self._state.curvature)
        return self._collect()

    def hessian_of_documents(self, n_rows: int) -> Vector:
        """``Σ_i curvature_i (x_i − μ)(x_i − μ)'`` over a sample of documents, μ their query's mean.

        Where all n documents of a query are compared with each other it is the Hessian, but for
        a factor 1 − 1/n: an estimate for a query that is too large to be multiplied out. The
        documents lie evenly in the order of their curvature.
        """
        curvature = self._state.curvature
        picks = ((np.arange(n_rows) + 0.5) * self.data.n_docs / n_rows).astype(np.int64)
        rows = np.sort(np.argsort(curvature, kind="stable")[picks])
        weight = curvature[rows]
        query = np.searchsorted(self.data.query_ptr, rows, side="right")
        _, group = np.unique(query, return_inverse=True)
        mass = np.maximum(np.bincount(group, weight), np.finfo(float).tiny)[:, None]
        blocks = np.array_split(np.arange(n_rows), -(-n_rows * self.n_features // BLOCK_NUMBERS))
        sums = np.zeros((len(mass), self.n_features))
        for block in blocks:
            place = group[block], np.arange(len(block))
            owner = sparse.csr_array((weight[block], place), (len(mass), len(block)))
            sums += owner @ self.data.X[rows[block]]
        means = sums / mass
        H = np.zeros((self.n_features, self.n_features))
        for block in blocks:
            X, own = self.data.X[rows[block]], weight[block]
            if sparse.issparse(X):  # squares less those of the means: what is sparse stays so
                H += X.T @ (sparse.diags_array(own) @ X)
            else:
                X = X - means[group[block]]
                H += (X.T * own) @ X
        if self.data.is_sparse:
            H -= sums.T @ means
        total = weight.sum()
        return H * (curvature.sum() / total if total > 0 else 1.0)

    # The three steps of every sum: scores, pairs, X'u -------------------------------------

    def _walk(self, v: Vector, linearize: bool) -> list[float]:
        self._partial[:] = 0.0
        known = self._plan, self._state, self._hinges, linearize
        if self._fused:
            parts = zip(self._chunks, self._scratch, self._buffers, self._partial, strict=False)
            tasks: list[Any] = [
                (self._X, *known, a, b, self._block_rows, v, scratch, *buffers, partial)
                for (a, b), scratch, buffers, partial in parts
            ]
            return run(_walk_blocks, tasks, self.n_threads)
        scores, ptr = self.scores(v), self.data.query_ptr
        if linearize:
            self._sort_large_queries(scores)
        u = np.empty_like(scores)
        tasks = [
            (*known, a, b, scores[ptr[a] : ptr[b]], u[ptr[a] : ptr[b]], scratch)
            for (a, b), scratch in zip(self._chunks, self._scratch, strict=True)
        ]
        losses = run(_walk_scores, tasks, self.n_threads)
        del scores, tasks
        self._run_rows(rmatvec, u)
        return losses

    @lazy_property
    def _buffers(self) -> list[tuple[Vector, Vector]]:
        """Scores and their derivatives of one block of queries, for each thread."""
        n = max(self.largest_query, self._block_rows)
        return [(np.empty(n), np.empty(n)) for _ in self._chunks]

    def _sort_large_queries(self, scores: Vector) -> None:
        """Sort the documents of queries that are many threads' work; kernels find them sorted."""
        if self.counting not in ("explicit", "two-level", "by-level"):
            for q in np.flatnonzero(np.diff(self.data.query_ptr) > LARGE_QUERY):
                node, nodes = self._plan.query_nodes[q], self._plan.nodes
                if node < self._plan.query_nodes[q + 1]:
                    docs = self._state.docs[nodes[node, START] : nodes[node + 1, START]]
                    keys = scores[self.data.query_ptr[q] : self.data.query_ptr[q + 1]]
                    scratch = self._scratch[0]
                    sort_in_threads(keys, docs, scratch.keys, scratch.docs, self.n_threads)

    def _run_rows(self, kernel: Any, u: Vector) -> None:
        ranges = row_ranges(self.data.X, self.n_threads)  # at most as many as there are partials
        tasks = [(self._X, a, b, u[a:b], self._partial[k]) for k, (a, b) in enumerate(ranges)]
        self._partial[:] = 0.0
        run(kernel, tasks, self.n_threads)

    def _collect(self) -> Vector:
        """Add the threads' parts in a fixed order."""
        total = self._partial[0].copy()
        for partial in self._partial[1:]:
            total += partial
        return total

    # The Hessian as a matrix --------------------------------------------------------------

    def _sample(self, n_rows: int | None) -> NDArray[np.int64]:
        plan = self._plan
        alive = np.flatnonzero(plan.query_nodes[1:] > plan.query_nodes[:-1])
        rows = int(np.diff(self.data.query_ptr)[alive].sum())
        if n_rows is None or n_rows >= rows:
            return alive
        n_queries = max(1, round(len(alive) * n_rows / rows))
        by_content = alive[np.argsort(self.data.query_keys[alive], kind="stable")]
        picks = ((np.arange(n_queries) + 0.5) * len(alive) / n_queries).astype(np.int64)
        return np.sort(by_content[picks])

    def _hessian_of(self, queries: NDArray[np.int64], chosen: Any, scratch: Any) -> Vector:
        """The part of some queries in the Hessian, X'(MX), a few thousand rows at a time."""
        sizes = np.diff(self.data.query_ptr)[queries]
        room = max(1, min(SAMPLE_ROWS, SAMPLE_NUMBERS // len(chosen[0])))
        n_rows = min(int(sizes.sum()), room + int(sizes.max()))
        XT, MXT = np.empty((2, len(chosen[0]), n_rows))
        total = np.zeros((len(chosen[0]), len(chosen[0])))
        first = 0
        while first < len(queries):
            starts = np.concatenate([[0], np.cumsum(sizes[first:])])
            n = max(1, int(np.searchsorted(starts, n_rows, side="right")) - 1)
            part = queries[first : first + n]
            _curve_columns(
                self._X, self._plan, self._state, self._hinges, part, starts, chosen, XT, MXT,
                scratch,
            )  # fmt: skip
            total += XT[:, : starts[n]] @ MXT[:, : starts[n]].T
            first += n
        return total


def _normalize(query_weight: Vector, mass: Vector, normalize: str | None) -> Vector:
    """Divide the queries' weights by the weight of the pairs, of all or of each query."""
    if normalize is None:
        return query_weight
    if normalize == "pairs":
        total = float(query_weight @ mass)
        return query_weight / total if total > 0 else query_weight
    if normalize == "queries":
        return np.divide(query_weight, mass, out=np.zeros_like(mass), where=mass > 0)
    raise DataError(f'normalize is {normalize!r}; expected None, "pairs" or "queries"')


@njit(inner=True)
def _next_block(plan, q, q1, block_rows):  # type: ignore[no-untyped-def]
    """The next queries with pairs, from q on, whose rows fit in the cache; q1, q1 at the end."""
    while q < q1 and plan.query_nodes[q] == plan.query_nodes[q + 1]:
        q += 1  # no pairs: its rows are not read
    end = min(q + 1, q1)
    while (
        end < q1
        and plan.query_nodes[end] < plan.query_nodes[end + 1]
        and plan.query_ptr[end + 1] - plan.query_ptr[q] <= block_rows
    ):
        end += 1
    return q, end


@njit
def _walk_blocks(X, plan, state, hinges, linearize, q0, q1, block_rows, v, scratch, s, u, out):  # type: ignore[no-untyped-def]
    """Scores, pairs and X'u of the queries q0, …, q1 − 1, in blocks that fit in the cache.

    While the rows of a block go into X'u, those of the next come from memory for its scores.
    """
    loss = 0.0
    q, end = _next_block(plan, q0, q1, block_rows)
    first, last = plan.query_ptr[q], plan.query_ptr[end]
    matvec(X, first, last, v, s)
    while q < q1:
        n = last - first
        loss += _walk_queries(plan, state, hinges, linearize, q, end, s[:n], u[:n], scratch)
        q, end = _next_block(plan, end, q1, block_rows)
        next_first, next_last = plan.query_ptr[q], plan.query_ptr[end]
        advance(X, first, last, u, out, next_first, next_last, v, s)
        first, last = next_first, next_last
    return loss


@njit
def _walk_scores(plan, state, hinges, linearize, q0, q1, s, u, scratch):  # type: ignore[no-untyped-def]
    return _walk_queries(plan, state, hinges, linearize, q0, q1, s, u, scratch)


@njit(inner=True)
def _walk_queries(plan, state, hinges, linearize, q0, q1, s, u, scratch):  # type: ignore[no-untyped-def]
    """The pairs of the queries q0, …, q1 − 1; `s` and `u` begin at the first one's first row.

    Linearise: s are scores, u becomes the gradient in them, the loss is returned.
    Otherwise: u = H s with the Hessian of the last linearisation.
    """
    loss = 0.0
    first = plan.query_ptr[q0]
    if linearize:
        _take_offsets(plan, q0, q1, s)
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
def _take_offsets(plan, q0, q1, s):  # type: ignore[no-untyped-def]
    """Subtract the documents' offsets, if there are any, from the scores of some queries."""
    if len(plan.offset) > 0:
        first = plan.query_ptr[q0]
        for i in range(first, plan.query_ptr[q1]):
            s[i - first] -= plan.offset[i]


@njit
def _walk_gaps(plan, state, hinges, q0, q1, s, gaps, scratch):  # type: ignore[no-untyped-def]
    """Add the pairs' gaps of the queries q0, …, q1 − 1."""
    _take_offsets(plan, q0, q1, s)
    first = plan.query_ptr[q0]
    for q in range(q0, q1):
        if plan.query_nodes[q] < plan.query_nodes[q + 1]:
            a, b = plan.query_ptr[q] - first, plan.query_ptr[q + 1] - first
            gaps_query(plan, state, hinges, q, s[a:b], gaps, scratch)


@njit
def _curve_columns(X, plan, state, hinges, queries, starts, chosen, XT, MXT, scratch):  # type: ignore[no-untyped-def]
    """Copy the chosen features of some queries, transposed, and apply M to each."""
    for r in range(len(queries)):
        q = queries[r]
        first, last = plan.query_ptr[q], plan.query_ptr[q + 1]
        a, b = starts[r], starts[r] + last - first
        XT[:, a:b] = 0.0
        copy_columns(X, first, last, chosen, XT[:, a:b])
        for f in range(XT.shape[0]):
            curve_query(plan, state, hinges, q, XT[f, a:b], MXT[f, a:b], scratch)
