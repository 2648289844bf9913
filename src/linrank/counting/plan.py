"""The plan of all pairs: what the labels decide, before any score is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._jit import njit
from .._sort import sort_by_key
from .._threads import run, split
from .._typing import Integers, Vector

if TYPE_CHECKING:
    from ..data.ranking import RankingData

START, LEVELS, UNIT, BASE = range(4)  #: columns of `PairPlan.nodes`
DIGIT_BITS = 3  #: bits of a level in each digit but the first; 8 digits fill one SIMD vector


class PairPlan(NamedTuple):
    """The pairs of all queries as nodes (`linrank.counting.tables` defines nodes and digits).

    Query q has the nodes ``query_nodes[q]:query_nodes[q + 1]``: none if it has no pairs. Node m has
    the positions ``nodes[m, START]:nodes[m + 1, START]`` of the state. In node m, a document of
    level v has the digit ``v // nodes[m, UNIT] − nodes[m, BASE]``, one of ``nodes[m, LEVELS]``
    digits. ``level`` is −1 for documents that are left out. ``weight`` is empty if all documents
    weigh 1. ``offset`` is subtracted from the scores before documents are compared; it is empty if
    no document has one.
    """

    query_ptr: Integers
    level: NDArray[np.int32]
    weight: Vector
    query_weight: Vector
    offset: Vector
    query_nodes: Integers
    nodes: Integers


class Wanted(NamedTuple):
    """Combinations of pair sums that a kernel computes, numbered by r.

    Sum r adds ``factor·Σ_t scale[r, t]·(Σ_above x_j + sign[r]·Σ_below x_j)`` over the hinges t to
    ``out[r, i]``.
    """

    scale: Vector
    sign: Vector


class Levels(NamedTuple):
    """The levels of documents, the number of levels of each query, and the mass of its pairs.

    ``level`` is −1 for documents that are left out. ``mass`` has the number of pairs of each query,
    and the sum of w_i·w_j over them.
    """

    level: NDArray[np.int32]
    n_levels: Integers
    mass: Vector


def rank_labels(data: RankingData, query_weight: Vector, n_threads: int) -> Levels:
    """Number the distinct labels of each query from 0 upward.

    Documents of weight 0 and queries of weight 0 are left out.
    """
    levels = Levels(
        level=np.empty(data.n_docs, np.int32),
        n_levels=np.empty(data.n_queries, np.int64),
        mass=np.empty((data.n_queries, 2)),
    )
    weight = np.empty(0) if data.weight is None else data.weight
    tasks = []
    for a, b in split(data.query_ptr, n_threads):
        n = int(np.diff(data.query_ptr[a : b + 1]).max())
        scratch = np.empty(n, np.uint32), np.empty(2 * n, np.uint32), np.empty(2 * n)
        tasks.append((data.y, data.query_ptr, weight, query_weight, a, b, *levels, *scratch))
    run(_rank_labels, tasks, n_threads)
    return levels


def plan_pairs(
    data: RankingData,
    query_weight: Vector,
    levels: Levels,
    most: int | None,
    offsets: Vector | None,
) -> tuple[PairPlan, NDArray[np.uint32]]:
    """Lay out the pairs of all queries in nodes of at most `most` levels.

    Parameters
    ----------
    data : RankingData
    query_weight : float64 array
    levels : Levels
    most : int or None
        If None, each query has one node.
    offsets : float64 array, optional
        What is subtracted from the score of each document.

    Returns
    -------
    plan : PairPlan
    docs : uint32 array
        A place for each document of each node. The documents of the first node of a query are
        filled in, in row order; kernels fill in the others.
    """
    n_levels = levels.n_levels
    layers = count_layers(n_levels, most)
    has_pairs = n_levels > 1
    n_used = np.add.reduceat(levels.level >= 0, data.query_ptr[:-1], dtype=np.int64)
    n_nodes = np.count_nonzero(has_pairs)
    for depth in range(1, int(layers.max())):
        span = 1 << DIGIT_BITS * depth
        n_nodes += int((-(-n_levels // span))[has_pairs & (depth < layers)].sum())
    plan = PairPlan(
        query_ptr=data.query_ptr,
        level=levels.level,
        weight=np.empty(0) if data.weight is None else data.weight,
        query_weight=query_weight,
        offset=np.empty(0) if offsets is None else offsets,
        query_nodes=np.empty(data.n_queries + 1, np.int64),
        nodes=np.empty((n_nodes + 1, 4), np.int64),
    )
    docs = np.empty(int((n_used * layers)[has_pairs].sum()), np.uint32)
    _lay_out_nodes(plan, n_levels, layers, docs)
    return plan, docs


@njit
def _rank_labels(  # type: ignore[no-untyped-def]
    y, query_ptr, weight, query_weight, q0, q1, level, n_levels, mass, docs, tmp_docs, tmp_keys
):
    """Do what `rank_labels` does, for the queries q0, …, q1 − 1."""
    for q in range(q0, q1):
        first = query_ptr[q]
        labels = y[first : query_ptr[q + 1]]
        n = 0
        for i in range(len(labels)):
            level[first + i] = -1
            if query_weight[q] > 0.0 and (len(weight) == 0 or weight[first + i] > 0.0):
                docs[n] = i
                n += 1
        sort_by_key(labels, docs[:n], tmp_keys, tmp_docs)
        k, start, n_pairs, weight_below, weight_here, total = 0, 0, 0.0, 0.0, 0.0, 0.0
        for p in range(n):
            if p > 0 and labels[docs[p]] > labels[docs[p - 1]]:
                k, start = k + 1, p
                weight_below += weight_here
                weight_here = 0.0
            own = 1.0 if len(weight) == 0 else weight[first + docs[p]]
            level[first + docs[p]] = k
            n_pairs += start
            total += own * weight_below
            weight_here += own
        n_levels[q] = k + 1
        mass[q, 0] = n_pairs
        mass[q, 1] = total


def count_layers(k: Integers, most: int | None) -> Integers:
    """Return the number of digits of k levels, where the first digit has at most `most` values.

    Examples
    --------
    >>> count_layers(np.array([2, 16, 17, 128, 129]), most=16)
    array([1, 1, 2, 2, 3])
    """
    layers = np.ones_like(k)
    if most is not None:
        while (short := most << DIGIT_BITS * (layers - 1) < k).any():
            layers += short
    return layers


@njit
def _lay_out_nodes(plan, n_levels, n_layers, docs):  # type: ignore[no-untyped-def]
    """Fill the nodes of the plan, and put the documents of each query into its first node.

    The children of a node follow the children of the nodes before it in the same layer.
    """
    node, position = 0, 0
    plan.nodes[0, START] = 0
    for q in range(len(n_levels)):
        plan.query_nodes[q] = node
        k = n_levels[q]
        if k < 2:
            continue
        level = plan.level[plan.query_ptr[q] : plan.query_ptr[q + 1]]
        for layer in range(n_layers[q]):
            unit = 1 << DIGIT_BITS * (n_layers[q] - 1 - layer)
            span = unit << DIGIT_BITS if layer > 0 else k
            head = node
            for group in range((k + span - 1) // span):
                base = group * span // unit
                plan.nodes[node, UNIT] = unit
                plan.nodes[node, BASE] = base
                plan.nodes[node, LEVELS] = (min((group + 1) * span, k) - 1) // unit - base + 1
                plan.nodes[node + 1, START] = 0
                node += 1
            for i in range(len(level)):
                if level[i] >= 0:
                    plan.nodes[head + level[i] // span + 1, START] += 1
            for m in range(head, node):
                plan.nodes[m + 1, START] += plan.nodes[m, START]
        for i in range(len(level)):
            if level[i] >= 0:
                docs[position] = i
                position += 1
        position = plan.nodes[node, START]
    plan.query_nodes[len(n_levels)] = node


@njit
def running_sums(values, starts, sums):  # type: ignore[no-untyped-def]
    """Fill ``sums[k]`` with values[a] + … + values[k], where a is the last start ≤ k.

    The starts increase. A sum over the first places of a segment is then one entry, instead of a
    difference of two sums, so values before the segment cause no rounding error in it.
    """
    segment, total = 0, 0.0
    for k in range(len(values)):
        if segment < len(starts) and starts[segment] == k:
            segment, total = segment + 1, 0.0
        total += values[k]
        sums[k] = total


@njit(fast=True, inner=True)
def centre_of(x, activity):  # type: ignore[no-untyped-def]
    """Return the mean of x over documents, each weighted by the weight of its active pairs.

    Only differences of scores matter, so any number may be subtracted from all of them. With this
    mean, the sums over the heaviest active pairs lose the fewest digits. A document without active
    pairs has no influence.
    """
    total, mass = 0.0, 0.0
    for i in range(len(x)):
        total += activity[i] * x[i]
        mass += activity[i]
    return total / mass if mass > 0.0 else 0.0
