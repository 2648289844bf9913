"""Sums over preference pairs for many values of each document at once.

A Hessian as a matrix needs the sums of `linrank.counting.tables` for every feature. The features of
a document lie side by side, so SIMD vectors hold several features. The ends of partners never
decrease from one document to the next. Running sums by level therefore take the place of a table.
"""

from __future__ import annotations

import numpy as np

from .._jit import njit
from .plan import LEVELS, START
from .tables import COLUMNS, row_length


@njit(inner=True)
def add_row_sums(plan, state, q, x, wanted, factor, buffer, out):  # type: ignore[no-untyped-def]
    """Do what `add_pair_sums` does for each column of a matrix x, with weights of documents.

    The value of a document is its row of x times its weight. The first of the `Wanted` sums is
    multiplied by the weight of the document that it belongs to. ``buffer`` has room for a row of
    x per level of a node.
    """
    sums = buffer[: COLUMNS * x.shape[1]].reshape((COLUMNS, x.shape[1]))
    weight = plan.weight[plan.query_ptr[q] :] if len(plan.weight) > 0 else plan.weight
    for node in range(plan.query_nodes[q], plan.query_nodes[q + 1]):
        a, b = plan.nodes[node, START], plan.nodes[node + 1, START]
        levels = plan.nodes[node, LEVELS]
        if levels < 2:
            continue
        docs, digits = state.docs[a:b], state.digit[a:b]
        for t in range(len(state.above)):
            above, below = state.above[t, a:b], state.below[t, a:b]
            scale = factor * wanted.scale[0, t]
            _sweep_up(docs, digits, levels, above, weight, x, scale, sums, out)
            _sweep_down(docs, digits, levels, below, weight, x, scale * wanted.sign[0], sums, out)


@njit(inner=True)
def _sweep_up(docs, digits, levels, above, weight, x, scale, sums, out):  # type: ignore[no-untyped-def]
    """Add the sums over partners above; ``sums[c]`` is over the digits > c before an end."""
    length, end = row_length(levels), 0
    sums[: levels - 1] = 0.0
    for p in range(len(docs)):
        digit = np.int64(digits[p])
        if digit < levels - 1:
            last = above[p] // length  # see `_point_to_ends`
            while end < last:
                for c in range(digits[end]):
                    _add_row(weight, docs[end], 1.0, x[docs[end]], sums[c])
                end += 1
            _add_row(weight, docs[p], scale, sums[digit], out[docs[p]])


@njit(inner=True)
def _sweep_down(docs, digits, levels, below, weight, x, scale, sums, out):  # type: ignore[no-untyped-def]
    """Add the sums over partners below; ``sums[c]`` is over the digits ≤ c from a start on."""
    length, start = row_length(levels), len(docs)
    sums[: levels - 1] = 0.0
    for p in range(len(docs) - 1, -1, -1):
        digit = np.int64(digits[p])
        if digit > 0:
            first = below[p] // length
            while start > first:
                start -= 1
                for c in range(digits[start], levels - 1):
                    _add_row(weight, docs[start], 1.0, x[docs[start]], sums[c])
            _add_row(weight, docs[p], scale, sums[digit - 1], out[docs[p]])


@njit(fast=True, inner=True)
def _add_row(weight, doc, scale, row, out):  # type: ignore[no-untyped-def]
    """Add a row to another one, times a scale and the weight of a document if it has one."""
    factor = scale * weight[doc] if len(weight) > 0 else scale
    for f in range(len(row)):
        out[f] += factor * row[f]
