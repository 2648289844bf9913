"""The loss in the scores and the thread engine, compared with slow references."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import approx_fprime

import reference
from linrank import RankingData
from linrank.counting.plan import LEVELS, START, plan_pairs, rank_labels
from linrank.counting.tables import MOST_LEVELS
from linrank.engines import threads
from linrank.engines.threads import ThreadEngine
from linrank.losses.pairwise import SQUARED_HINGE, PairwiseLoss
from problems import KINDS, as_form, make_problem_arrays

pytestmark = pytest.mark.interpreted

HUBER = PairwiseLoss("huber", [(1.0, 0.0, 1.0), (0.0, 0.0, -1.0)])
HINGE_AND_MORE = PairwiseLoss("mixed", [(1.0, 1.0, 0.5), (0.3, 0.0, 0.25), (-0.5, 2.0, 0.0)])
TABLES = {
    "squared_hinge": (SQUARED_HINGE, [(1.0, 0.0, 1.0)]),
    "huber": (HUBER, [(1.0, 0.0, 1.0), (0.0, 0.0, -1.0)]),
    "mixed": (HINGE_AND_MORE, [(1.0, 1.0, 0.5), (0.3, 0.0, 0.25), (-0.5, 2.0, 0.0)]),
}


def make_engine(X, y, qid, loss=SQUARED_HINGE, weight=None, query_weight=None, **options):
    """Return an engine and its data."""
    data = RankingData(X, y, qid, sample_weight=weight, query_weight=query_weight)
    return ThreadEngine(data, loss, **options), data


@pytest.fixture(params=[False, True], ids=["unweighted", "weighted"])
def weights(request):
    """Return weights of documents and queries per row, some of them zero, or None."""

    def make(qid, seed=1):
        if not request.param:
            return None, None
        rng = np.random.default_rng(seed)
        per_query = rng.integers(0, 3, qid.max() + 1) + 0.5
        return rng.integers(0, 3, len(qid)).astype(float), per_query[qid]

    return make


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("table", TABLES)
def test_engine_equals_slow_twin(kind, tied, table, weights):
    X, y, qid = make_problem_arrays(kind, tied=tied)
    weight, query_weight = weights(qid)
    loss, hinges = TABLES[table]
    engine, _ = make_engine(X, y, qid, loss, weight, query_weight)
    rng = np.random.default_rng(2)
    for _ in range(2):  # the second time, the sort starts from another order
        w, v = rng.standard_normal((2, X.shape[1]))
        w = np.round(w) if tied else w
        scores = X @ w
        value, gradient = engine.value_grad(w)
        slow = reference.pairwise_parts(scores, y, qid, hinges, weight, query_weight)
        hessian = X.T @ slow[2] @ X
        scale = 1 + np.abs(hessian).sum()
        assert value == pytest.approx(slow[0], rel=1e-12, abs=1e-12)
        np.testing.assert_allclose(gradient, X.T @ slow[1], atol=1e-12 * scale)
        np.testing.assert_allclose(engine.hessp(v), hessian @ v, atol=1e-12 * scale)
        np.testing.assert_allclose(engine.hessian(), hessian, atol=1e-12 * scale)


@pytest.mark.parametrize("form", ["dense64", "csr64"])
def test_diagonal_is_exact_for_features_that_no_two_documents_share(form):
    X, y, qid = np.eye(30), np.arange(30) % 4, np.arange(30) // 10
    engine, _ = make_engine(as_form(X, form), y, qid)
    engine.value_grad(np.linspace(-1, 1, 30))
    np.testing.assert_allclose(engine.hessian_diagonal(), np.diag(engine.hessian()))


@pytest.mark.parametrize("form", ["dense64", "dense32", "csr64", "csr32"])
@pytest.mark.parametrize("kind", ["five levels", "all distinct"])
def test_derivatives_against_numeric_ones(form, kind, weights):
    X, y, qid = make_problem_arrays(kind, n=60, d=3)
    weight, query_weight = weights(qid)
    engine, _ = make_engine(as_form(X, form), y, qid, SQUARED_HINGE, weight, query_weight)
    w = np.array([0.3, -0.2, 0.5])
    _, gradient = engine.value_grad(w)
    hessian = engine.hessian()
    numeric = approx_fprime(w, lambda w: engine.value_grad(w)[0], 1e-7)
    np.testing.assert_allclose(gradient, numeric, rtol=1e-4, atol=1e-3)
    numeric = np.array([approx_fprime(w, lambda w, f=f: engine.value_grad(w)[1][f], 1e-7)
                        for f in range(3)])  # fmt: skip
    np.testing.assert_allclose(hessian, numeric, rtol=1e-3, atol=1e-2)


def test_forms_agree():
    X, y, qid = make_problem_arrays("five levels")
    X = X.astype(np.float32).astype(np.float64)  # float32 can represent these numbers exactly
    w = np.array([0.3, -0.2, 0.5, 0.1])
    value, gradient = make_engine(X, y, qid)[0].value_grad(w)
    for form in ("dense32", "csr64", "csr32"):
        other = make_engine(as_form(X, form), y, qid)[0].value_grad(w)
        assert other[0] == pytest.approx(value, rel=1e-13)
        np.testing.assert_allclose(other[1], gradient, rtol=1e-11)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", ["dense64", "csr64"])
def test_threads_and_routes_agree(kind, form, monkeypatch):
    X, y, qid = make_problem_arrays(kind, n=300)
    X = as_form(X, form)
    w = np.array([0.3, -0.2, 0.5, 0.1])
    one, _ = make_engine(X, y, qid, n_threads=1)
    monkeypatch.setattr(threads, "SMALL_BYTES", 0)
    monkeypatch.setattr(threads, "BLOCK_BYTES", 1000)
    three, _ = make_engine(X, y, qid, n_threads=3)
    assert three.n_threads == 3
    split, _ = make_engine(X, y, qid, n_threads=3)
    split.fused = not three.fused
    value, gradient = one.value_grad(w)
    for engine in (three, split):
        other = engine.value_grad(w)
        assert other[0] == pytest.approx(value, rel=1e-12, abs=1e-12)
        np.testing.assert_allclose(other[1], gradient, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(engine.hessp(w), one.hessp(w), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(engine.scores(w), one.scores(w), rtol=1e-12)
        np.testing.assert_allclose(engine.hessian(), one.hessian(), rtol=1e-9, atol=1e-9)
        again = engine.value_grad(w)
        assert other[0] == again[0]
        np.testing.assert_array_equal(other[1], again[1])


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.tuples(st.integers(0, 40), st.integers(-6, 6), st.integers(0, 2)),
        min_size=1, max_size=60,
    )
)  # fmt: skip
def test_any_labels_and_tied_scores(documents):
    """Scores are multiples of ¼, so that many pairs are tied or lie exactly on the margin."""
    y, s, qid = (np.array(column, dtype=float) for column in zip(*documents, strict=True))
    X = s[:, None] / 4
    engine, _ = make_engine(X, y, qid)
    value, gradient = engine.value_grad(np.ones(1))
    hinges = [(1.0, 0.0, 1.0)]
    assert value == pytest.approx(reference.pairwise_loss(X[:, 0], y, qid, hinges), abs=1e-9)
    slow = X.T @ reference.pairwise_gradient(X[:, 0], y, qid, hinges)
    np.testing.assert_allclose(gradient, slow, atol=1e-9)
    slow = X.T @ reference.pairwise_hessian(X[:, 0], y, qid, hinges) @ X
    np.testing.assert_allclose(engine.hessp(np.ones(1)), slow[0], atol=1e-9)


@pytest.mark.parametrize(
    "k", [2, MOST_LEVELS, MOST_LEVELS + 1, 8 * MOST_LEVELS, 8 * MOST_LEVELS + 1, 700, 5000]
)
def test_every_pair_lies_in_one_node(k):
    """Two documents of different levels have different digits in exactly one node, in order."""
    rng = np.random.default_rng(k)
    y = rng.integers(0, k, 40).astype(float)
    data = RankingData(np.zeros((40, 1)), y)
    levels = rank_labels(data, np.ones(1), n_threads=1)
    plan, docs = plan_pairs(data, np.ones(1), levels, MOST_LEVELS, None)
    assert levels.mass[0, 0] == len(reference.preference_pairs(y, np.zeros(40)))
    engine, _ = make_engine(np.zeros((40, 1)), y, np.zeros(40))
    engine.value_grad(np.zeros(1))
    state = engine.state
    assert len(docs) == len(state.docs)
    above = np.zeros((40, 40), int)
    for node in range(plan.query_nodes[1]):
        part = slice(plan.nodes[node, START], plan.nodes[node + 1, START])
        members, digits = state.docs[part], state.digit[part].astype(int)
        assert digits.max() < max(plan.nodes[node, LEVELS], 1) <= MOST_LEVELS
        above[np.ix_(members, members)] += digits[:, None] > digits[None, :]
    np.testing.assert_array_equal(above, y[:, None] > y[None, :])


def test_scores_far_from_zero_do_not_cancel():
    X, y, qid = make_problem_arrays("five levels")
    X = np.hstack([X, np.ones((len(X), 1))])
    w = np.array([0.3, -0.2, 0.5, 0.1, 0.0])
    shifted = w + np.array([0, 0, 0, 0, 1e6])
    engine, _ = make_engine(X, y, qid)
    assert engine.value_grad(shifted)[0] == pytest.approx(engine.value_grad(w)[0], rel=1e-8)


def test_sampled_hessian_is_close_and_ignores_row_order():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((4000, 3)), rng.integers(0, 3, 4000).astype(float)
    qid = np.repeat(np.arange(400), 10)
    w = np.array([0.1, 0.2, 0.3])
    engine, _ = make_engine(X, y, qid)
    engine.value_grad(w)
    exact, sampled = engine.hessian(), engine.hessian(1000)
    assert 0 < np.abs(sampled - exact).max() < 0.2 * np.abs(exact).max()
    shuffle = rng.permutation(4000)
    names = np.array([f"query {q}" for q in qid])
    other, _ = make_engine(X[shuffle], y[shuffle], names[shuffle])
    other.value_grad(w)
    np.testing.assert_allclose(other.hessian(1000), sampled, rtol=1e-9)


def test_hessian_with_threads_when_one_query_without_pairs_holds_most_rows(monkeypatch):
    """The rows are split into fewer chunks than the queries with pairs."""
    monkeypatch.setattr(threads, "SMALL_BYTES", 0)
    rng = np.random.default_rng(0)
    sizes = [40, 30, 1000]
    X, qid = rng.standard_normal((sum(sizes), 3)), np.repeat([0, 1, 2], sizes)
    y = np.where(qid < 2, rng.integers(0, 2, sum(sizes)), 1)
    engine, _ = make_engine(X, y, qid, n_threads=2)
    engine.value_grad(np.zeros(3))
    np.testing.assert_allclose(engine.hessian() @ np.ones(3), engine.hessp(np.ones(3)))


def test_products_do_not_see_what_a_query_shares():
    """A feature such as a time stamp is large in all documents and differs little."""
    X, y, qid = make_problem_arrays("five levels")
    w, v = np.random.default_rng(0).standard_normal((2, 4))
    engine, _ = make_engine(X, y, qid)
    shifted, _ = make_engine(X + 2.0**31, y, qid)
    np.testing.assert_allclose(shifted.value_grad(w)[1], engine.value_grad(w)[1], rtol=1e-3)
    np.testing.assert_allclose(shifted.hessp(v), engine.hessp(v), rtol=1e-3)


def test_normalize():
    X, y, qid = make_problem_arrays("five levels")
    rng = np.random.default_rng(0)
    weight, per_query = rng.random(len(y)), np.array([1.0, 2.0, 3.0])[qid]
    pairs = reference.preference_pairs(y, qid)
    hinges, scores = [(1.0, 0.0, 1.0)], X @ np.ones(4)
    mass = {q: sum(weight[i] * weight[j] for i, j in pairs if qid[i] == q) for q in range(3)}
    total = sum((q + 1.0) * mass[q] for q in range(3))
    engine, _ = make_engine(X, y, qid, SQUARED_HINGE, weight, per_query, normalize="pairs")
    slow = reference.pairwise_loss(scores, y, qid, hinges, weight, per_query)
    assert engine.value_grad(np.ones(4))[0] == pytest.approx(slow / total)
    engine, _ = make_engine(X, y, qid, SQUARED_HINGE, weight, per_query, normalize="queries")
    shares = per_query / np.array([mass[q] for q in qid])
    slow = reference.pairwise_loss(scores, y, qid, hinges, weight, shares)
    assert engine.value_grad(np.ones(4))[0] == pytest.approx(slow)


def test_queries_without_pairs_are_counted():
    engine, _ = make_engine(np.eye(5), np.array([1.0, 0, 1, 1, 0]), np.array([0, 0, 1, 1, 2]))
    assert (engine.n_pairs, engine.n_empty_queries) == (1, 2)


@pytest.mark.parametrize("n_levels", [2, 5, 40])
def test_pairs_that_are_not_active_leave_nothing(n_levels):
    """All scores but those of one pair are far apart; their sums leave no rounding error."""
    rng = np.random.default_rng(0)
    y = np.arange(200) % n_levels
    scores = 1e4 * (y + 0.1 * rng.random(200))
    low, high = np.flatnonzero(y == 0)[0], np.flatnonzero(y == 1)[0]
    scores[high] = scores[low] + 0.75
    others = (y == 0) & (np.arange(200) != low)
    scores[others] = np.minimum(scores[others], scores[low] - 10.0)
    engine = ThreadEngine(RankingData(scores[:, None], y), SQUARED_HINGE)
    loss, gradient = engine.value_grad(np.ones(1))
    difference = scores[high] - scores[low]
    np.testing.assert_allclose(loss, (1 - difference) ** 2, rtol=1e-8)
    np.testing.assert_allclose(gradient, [-2 * (1 - difference) * difference], rtol=1e-8)
