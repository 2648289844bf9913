"""The data structures of sweeps: their sums, compared with a slow reference, and their balance."""

from __future__ import annotations

from math import log2

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from linrank._compile.jit import njit
from linrank.counting.trees import (
    AA,
    AVL,
    BALANCE,
    BLACK,
    HEAD,
    KEY,
    LEFT,
    NIL,
    RED,
    RED_BLACK,
    RIGHT,
    STRUCTURES,
    TOTAL,
    VALUE,
    add,
    clear,
    grow,
    make_tree,
    make_work,
    sweep,
)

pytestmark = pytest.mark.interpreted

TREES = {"red-black": RED_BLACK, "avl": AVL, "aa": AA}


# Sums over pairs ---------------------------------------------------------------------------


@pytest.fixture(params=STRUCTURES)
def structure(request):
    """Return a value of `STRUCTURES`."""
    return STRUCTURES[request.param]


def pair_sums_by_definition(level, scores, x, tau):
    """Compute ``above`` and ``below``, one pair at a time."""
    above, below = np.zeros((2, len(level)))
    for i in range(len(level)):
        for j in range(len(level)):
            if level[i] > level[j] and scores[i] - scores[j] < tau:
                above[j] += x[i]
                below[i] += x[j]
    return above, below


def pair_sums(structure, level, scores, x, tau, k=None, work=None):
    """Compute ``above`` and ``below`` with `sweep`; the scores must increase."""
    level = np.asarray(level, np.int32)
    k = int(level.max()) + 1 if k is None else k
    gaps = np.subtract.outer(scores, scores)  # s_i − s_j
    high = np.count_nonzero(gaps < tau, axis=0).astype(np.uint32)
    low = np.count_nonzero(gaps >= tau, axis=1).astype(np.uint32)
    above, below = np.full((2, len(level)), np.nan)
    work = make_work(len(level), k) if work is None else work
    sweep(structure, level, k, x, high, low, above, below, work)
    return above, below


def make_query(kind, n=40):
    """Return levels and increasing scores."""
    rng = np.random.default_rng(0)
    scores = np.sort(2 * rng.standard_normal(n))
    if kind == "random":
        return rng.integers(0, 5, n), scores
    if kind == "tied scores":
        return rng.integers(0, 5, n), np.round(scores)
    if kind == "one score":
        return rng.integers(0, 5, n), np.zeros(n)
    if kind == "two levels":
        return rng.integers(0, 2, n), scores
    if kind == "one level":
        return np.zeros(n, int), scores
    if kind == "one document":
        return np.zeros(1, int), np.zeros(1)
    if kind == "distinct levels":
        return rng.permutation(n), scores
    if kind == "levels by score":
        return np.arange(n), scores
    assert kind == "levels against score"
    return np.arange(n)[::-1], scores


@pytest.mark.parametrize("tau", [1.0, 0.0, -0.5, np.inf, -np.inf])
@pytest.mark.parametrize(
    "kind",
    [
        "random",
        "tied scores",
        "one score",
        "two levels",
        "one level",
        "one document",
        "distinct levels",
        "levels by score",
        "levels against score",
    ],
)
def test_sums_equal_those_by_definition(structure, kind, tau):
    level, scores = make_query(kind)
    x = np.random.default_rng(1).standard_normal(len(level))
    expected = pair_sums_by_definition(level, scores, x, tau)
    np.testing.assert_allclose(
        pair_sums(structure, level, scores, x, tau), expected, rtol=0, atol=1e-13
    )


def test_many_levels(structure):
    n = 700
    level, scores = make_query("distinct levels", n)
    x = np.random.default_rng(1).integers(-9, 10, n).astype(float)
    above, below = pair_sums(structure, level, scores, x, 1.0)
    active = scores[:, None] - scores[None, :] < 1.0
    active &= level[:, None] > level[None, :]
    np.testing.assert_array_equal(above, x @ active)
    np.testing.assert_array_equal(below, active @ x)


def test_levels_that_no_document_has(structure):
    level, scores = np.array([17, 3, 3, 17, 9]), np.arange(5) / 4
    x = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
    expected = pair_sums_by_definition(level, scores, x, 1.0)
    np.testing.assert_array_equal(pair_sums(structure, level, scores, x, 1.0, k=20), expected)


def test_buffers_serve_one_query_after_another():
    """What a larger query has left in the buffers, with any structure, has no effect."""
    work = make_work(40, 40)
    for kind in ["distinct levels", "random", "one document", "tied scores", "two levels"]:
        level, scores = make_query(kind)
        x = np.arange(1.0, len(level) + 1)
        expected = pair_sums_by_definition(level, scores, x, 1.0)
        for structure in STRUCTURES.values():
            got = pair_sums(structure, level, scores, x, 1.0, work=work)
            np.testing.assert_array_equal(got, expected)


@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(-8, 8)), min_size=1, max_size=30),
    st.integers(-4, 6),
    st.data(),
)
def test_any_query(documents, tau, data):
    """Values are small integers, so that sums are exact and all structures agree in all bits."""
    documents.sort(key=lambda document: document[1])
    level, scores = (np.array(column) for column in zip(*documents, strict=True))
    x = np.array([data.draw(st.integers(-99, 99)) for _ in level], dtype=float)
    expected = pair_sums_by_definition(level, scores, x, tau)
    for structure in STRUCTURES.values():
        np.testing.assert_array_equal(pair_sums(structure, level, scores, x, tau), expected)


# Balance -----------------------------------------------------------------------------------


@njit
def fill(structure, tree, keys, x):
    """Insert keys into an empty tree."""
    nodes, sums, path = tree
    clear(nodes)
    for i in range(len(keys)):
        depth = add(nodes, sums, path, keys[i], x[i])
        if depth > 0:
            grow(structure, nodes, sums, path, depth, keys[i], x[i])


def check_tree(tree, node, check_node, depths, depth=1):
    """Check a subtree; return its keys in order, its total and its measure of balance.

    ``check_node(own, left, right)`` gets the balance of a node and the measures of its children,
    and returns the measure of the node. ``depths`` collects the depths of the keys.
    """
    if node == NIL:
        assert tree.sums[NIL, TOTAL] == 0
        assert not tree.nodes[NIL].any()
        return [], 0.0, None
    left, right, key, balance = tree.nodes[node].tolist()
    left_keys, left_total, left_count = check_tree(tree, left, check_node, depths, depth + 1)
    right_keys, right_total, right_count = check_tree(tree, right, check_node, depths, depth + 1)
    total = left_total + tree.sums[node, VALUE] + right_total
    assert tree.sums[node, TOTAL] == total
    depths.append(depth)
    return [*left_keys, key, *right_keys], total, check_node(balance, left_count, right_count)


def check_colours(colour, left, right):
    """Return the colour of a node and the number of black nodes on each path below it."""
    left, right = left or (BLACK, 0), right or (BLACK, 0)
    assert left[1] == right[1]
    if colour == RED:
        assert left[0] == right[0] == BLACK
    else:
        assert colour == BLACK
    return colour, left[1] + (colour == BLACK)


def check_heights(height, left, right):
    """Return the height of a node."""
    left, right = left or 0, right or 0
    assert abs(left - right) <= 1
    assert height == max(left, right) + 1
    return height


def check_levels(level, left, right):
    """Return the level of a node and that of its right child."""
    left, right = left or (0, 0), right or (0, 0)
    assert left[0] == level - 1
    assert right[0] in (level - 1, level)
    assert right[1] < level
    return level, right[0]


CHECKS = {RED_BLACK: check_colours, AVL: check_heights, AA: check_levels}
DEPTHS = {
    RED_BLACK: lambda n: 2 * log2(n + 1),
    AVL: lambda n: 1.4405 * log2(n + 2) - 0.327,
    AA: lambda n: 2 * log2(n + 1),
}


def check_whole(structure, tree, keys, x):
    """Check that a tree is ordered and balanced, and has the sums of what was inserted."""
    root, depths = tree.nodes[HEAD, RIGHT], []
    found, total, _ = check_tree(tree, root, CHECKS[structure], depths)
    known = np.unique(keys)
    assert found == known.tolist()
    assert total == x.sum()
    if structure == RED_BLACK:
        assert tree.nodes[root, BALANCE] == BLACK
    assert max(depths) <= DEPTHS[structure](len(known)) + 1e-9
    used = slice(HEAD + 1, tree.nodes[HEAD, LEFT] + 1)
    order = np.argsort(tree.nodes[used, KEY])
    values = np.bincount(keys, weights=x)[known]
    np.testing.assert_array_equal(tree.sums[used, VALUE][order], values)


def make_keys(kind, n):
    """Return keys in the order of their insertion."""
    rng = np.random.default_rng(n)
    if kind == "ascending":
        return np.arange(n)
    if kind == "descending":
        return np.arange(n)[::-1].copy()
    if kind == "inwards":
        return np.where(np.arange(n) % 2 == 0, np.arange(n), 2 * n - np.arange(n))
    if kind == "permuted":
        return rng.permutation(n)
    assert kind == "repeated"
    return rng.integers(0, 1 + n // 3, n)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 50, 300])
@pytest.mark.parametrize("kind", ["ascending", "descending", "inwards", "permuted", "repeated"])
@pytest.mark.parametrize("name", TREES)
def test_trees_keep_their_balance(name, kind, n):
    keys = make_keys(kind, n).astype(np.int32)
    x = np.random.default_rng(0).integers(-99, 100, n).astype(float)
    tree = make_tree(n)
    fill(TREES[name], tree, keys, x)
    check_whole(TREES[name], tree, keys, x)


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(-99, 99)), min_size=1, max_size=60))
def test_any_insertions_keep_the_balance(insertions):
    keys, x = (np.array(column) for column in zip(*insertions, strict=True))
    keys, x = keys.astype(np.int32), x.astype(float)
    tree = make_tree(len(keys))
    for structure in TREES.values():  # each reuses the buffers of the one before
        fill(structure, tree, keys, x)
        check_whole(structure, tree, keys, x)
