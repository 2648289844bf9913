"""Kernels that visit the queries of one thread: scores, pair sums, X'u.

All kernels take the plan, the state, the hinges and the scratch buffers that the layout and the
loss of the engine provide (`ThreadEngine.layout`), and work on the queries q0, …, q1 − 1.
"""

from __future__ import annotations

from .._jit import njit
from .._rows import advance, copy_rows, matvec
from ..losses.kernels import curve_query, curve_rows, gaps_query, linearize_query


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
    to compute its scores.
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
