"""All countings give the same results, for every loss and every kind of pairs."""

from __future__ import annotations

import itertools
from functools import partial

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import approx_fprime

import reference
from linrank import DataError, RankingData, RankSVM
from linrank.choices import COUNTINGS
from linrank.counting import layout, plan
from linrank.counting.preferences import Preferences, ideal_discounts
from linrank.engines import threads
from linrank.engines.threads import ThreadEngine
from linrank.losses import get_loss
from linrank.losses.hinge_tables import LOGISTIC_ERROR
from linrank.losses.pairwise import HINGE, PAIRWISE, SQUARED_HINGE, PairwiseLoss
from problems import KINDS, PAPERS, as_form, make_problem_arrays

pytestmark = pytest.mark.interpreted

MIXED = PairwiseLoss("mixed", [(1.0, 1.0, 0.5), (0.3, 0.0, 0.25), (-0.5, 2.0, 0.0)])
GENERAL = ("two-level", "explicit")


def parts_of(engine, w, v):
    """Return the value, gradient, product, Hessian, its diagonal, and the gaps at w."""
    value, gradient = engine.value_grad(w)
    return value, gradient, engine.hessp(v), engine.hessian(), engine.gaps(w)


def check_against_pairs(engine, X, w, v, pairs, loss, weights=None, margins=None):
    """Compare the engine with sums over listed pairs."""
    value, gradient, product, hessian, gaps = parts_of(engine, w, v)
    twin = reference.logistic_loss if loss.exact else partial(reference.hinge_loss, loss.table)
    slow = reference.sum_over_pairs(X @ w, pairs, twin, weights, margins)
    scale = 1e-12 * (1 + abs(slow[0]) + np.abs(X.T @ slow[2] @ X).sum())
    assert value == pytest.approx(slow[0], rel=1e-11, abs=1e-12)
    np.testing.assert_allclose(gradient, X.T @ slow[1], atol=scale)
    np.testing.assert_allclose(product, X.T @ slow[2] @ X @ v, atol=10 * scale)
    np.testing.assert_allclose(hessian, X.T @ slow[2] @ X, atol=10 * scale)
    for tau, gap in zip(loss.table[:, 0], gaps, strict=True):
        single = partial(reference.hinge_loss, [(tau, 1.0, 0.0)])
        slow_gap = reference.sum_over_pairs(X @ w, pairs, single, weights, margins)[0]
        assert gap == pytest.approx(slow_gap, rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("counting", COUNTINGS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weighted", [False, True])
def test_every_counting_equals_the_listed_pairs(counting, kind, weighted):
    X, y, qid = make_problem_arrays(kind, n=60, tied=True)
    rng = np.random.default_rng(3)
    weight = rng.integers(0, 3, 60).astype(float) if weighted else None
    query_weight = (rng.integers(0, 3, qid.max() + 1) + 0.5)[qid] if weighted else None
    data = RankingData(X, y, qid, sample_weight=weight, query_weight=query_weight)
    engine = ThreadEngine(data, MIXED, counting=counting)
    pairs = reference.preference_pairs(y, qid)
    weights = reference.pair_weights(pairs, weight, query_weight)
    for _ in range(2):  # the second time, the sort starts from another order
        w, v = np.round(2 * rng.standard_normal((2, 4))) / 2
        check_against_pairs(engine, X, w, v, pairs, MIXED, weights)
    assert engine.n_pairs == np.count_nonzero(weights)


@pytest.mark.parametrize("counting", COUNTINGS)
def test_a_query_of_many_levels(counting):
    rng = np.random.default_rng(0)
    y, X = rng.permutation(700).astype(float), rng.standard_normal((700, 2))
    engine = ThreadEngine(RankingData(X, y), SQUARED_HINGE, counting=counting)
    fast = ThreadEngine(RankingData(X, y), SQUARED_HINGE)
    w = np.array([0.3, -0.7])
    for one, other in zip(parts_of(engine, w, w), parts_of(fast, w, w), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)


@pytest.mark.parametrize("counting", COUNTINGS)
def test_documents_far_ahead_do_not_blur_the_others(counting):
    """Such documents have no active pairs, so all sums equal those of the data without them."""
    X, y, qid = make_problem_arrays("five levels", n=60)
    w, v = np.random.default_rng(1).standard_normal((2, 4))
    ahead = 1e9 * (1 + np.arange(30))[:, None] * w
    everything = RankingData(
        np.vstack([X, ahead]), np.r_[y, np.full(30, 9.0)], np.r_[qid, np.resize(qid, 30)]
    )
    found = parts_of(ThreadEngine(everything, MIXED, counting=counting), w, v)
    expected = parts_of(ThreadEngine(RankingData(X, y, qid), MIXED), w, v)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize(
    ("counting", "form"),
    [("tables", "dense32"), ("two-level", "csr64"), ("explicit", "csr64"), ("avl", "csr64")],
)
def test_storages_and_threads(counting, form, monkeypatch):
    X, y, qid = make_problem_arrays("five levels", n=200)
    X = X.astype(np.float32).astype(np.float64)
    w, v = np.random.default_rng(0).standard_normal((2, 4))
    expected = parts_of(ThreadEngine(RankingData(X, y, qid), MIXED), w, v)
    monkeypatch.setattr(threads, "SMALL_BYTES", 0)
    monkeypatch.setattr(threads, "BLOCK_BYTES", 1000)
    engine = ThreadEngine(
        RankingData(as_form(X, form), y, qid), MIXED, n_threads=3, counting=counting
    )
    for fused in (True, False):
        engine.fused = fused
        for one, other in zip(parts_of(engine, w, v), expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("counting", [name for name in COUNTINGS if name != "auto"])
@settings(deadline=None, max_examples=25)
@given(
    documents=st.lists(
        st.tuples(st.integers(0, 12), st.integers(-6, 6), st.integers(0, 2)),
        min_size=1, max_size=30,
    )
)  # fmt: skip
def test_any_labels_and_tied_scores(counting, documents):
    """Scores are multiples of ¼, so that many pairs are tied or lie exactly on the margin."""
    y, s, qid = (np.array(column, dtype=float) for column in zip(*documents, strict=True))
    X = s[:, None] / 4
    engine = ThreadEngine(RankingData(X, y, qid), MIXED, counting=counting)
    pairs = reference.preference_pairs(y, qid)
    check_against_pairs(engine, X, np.ones(1), np.ones(1), pairs, MIXED)


def test_every_name_has_a_family():
    assert list(COUNTINGS) == ["auto", *layout.FAMILIES]


# Losses -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PAIRWISE)
@pytest.mark.parametrize("kind", ["five levels", "all distinct"])
def test_losses_against_numeric_derivatives(name, kind):
    X, y, qid = make_problem_arrays(kind, n=50, d=3)
    loss = get_loss(name)
    engine = ThreadEngine(RankingData(X, y, qid), loss)
    w = np.array([0.31, -0.22, 0.53])
    _, gradient = engine.value_grad(w)
    numeric = approx_fprime(w, lambda w: engine.value_grad(w)[0], 1e-7)
    np.testing.assert_allclose(gradient, numeric, rtol=1e-4, atol=1e-3)
    if loss.smooth:
        engine.value_grad(w)
        hessian = engine.hessian()
        numeric = np.array(
            [approx_fprime(w, lambda w, f=f: engine.value_grad(w)[1][f], 1e-7) for f in range(3)]
        )
        np.testing.assert_allclose(hessian, numeric, rtol=1e-3, atol=2e-2)


def test_losses_as_functions():
    t = np.linspace(-3, 3, 61)
    np.testing.assert_allclose(PAIRWISE["hinge"](t), np.maximum(0, 1 - t))
    huber = np.where(t >= 1, 0, np.where(t >= 0, (1 - t) ** 2, 1 - 2 * t))
    np.testing.assert_allclose(PAIRWISE["huber"](t), huber, atol=1e-14)
    np.testing.assert_allclose(PAIRWISE["logistic_exact"](t), np.log1p(np.exp(-t)))
    assert not HINGE.smooth
    assert all(loss.smooth for name, loss in PAIRWISE.items() if name != "hinge")


def test_the_logistic_table_is_as_close_as_it_says():
    t = np.concatenate([np.linspace(-20, 20, 400_001), [-1e6, -1e3, 1e3, 1e6]])
    error = np.abs(PAIRWISE["logistic"](t) - np.logaddexp(0, -t))
    assert 0.95 * LOGISTIC_ERROR < error.max() <= LOGISTIC_ERROR


@pytest.mark.parametrize("mu", [1.0, 0.1, 1e-3])
def test_the_smoothed_hinge_is_below_the_hinge_by_half_its_width(mu):
    t = np.linspace(-2, 2, 4001)
    below = np.maximum(0, 1 - t) - HINGE.smoothed(mu)(t)
    assert below.min() >= -1e-9
    assert below.max() == pytest.approx(mu / 2)


def test_the_exact_logistic_loss_over_listed_pairs():
    X, y, qid = make_problem_arrays("five levels")
    engine = ThreadEngine(RankingData(X, y, qid), PAIRWISE["logistic_exact"])
    pairs = reference.preference_pairs(y, qid)
    w, v = np.random.default_rng(0).standard_normal((2, 4))
    check_against_pairs(engine, X, w, v, pairs, PAIRWISE["logistic_exact"])
    table = ThreadEngine(RankingData(X, y, qid), PAIRWISE["logistic"]).value_grad(w)[0]
    assert abs(engine.value_grad(w)[0] - table) <= LOGISTIC_ERROR * len(pairs)
    assert np.isfinite(engine.value_grad(1e4 * w)[0])


# Pairs, margins and weights ---------------------------------------------------------------------


def lost_dcg(y, qid):
    """Return 1/log2(1 + place) in the ideal ranking, averaged over documents of one label."""
    discount = np.empty(len(y))
    for i in range(len(y)):
        mine = y[qid == qid[i]]
        better, equal = np.sum(mine > y[i]), np.sum(mine == y[i])
        discount[i] = np.mean(1 / np.log2(1 + better + np.arange(1, equal + 1)))
    return discount


DELTAS = {
    "label": lambda y, d, i, j: y[i] - y[j],
    "label-squared": lambda y, d, i, j: (y[i] - y[j]) ** 2,
    "gain": lambda y, d, i, j: 2.0 ** y[i] - 2.0 ** y[j],
    "dcg": lambda y, d, i, j: (2.0 ** y[i] - 2.0 ** y[j]) * (d[i] - d[j]),
    "mine": lambda y, d, i, j: 1 / (1 + y[j]),
}


@pytest.mark.parametrize("counting", ["auto", *GENERAL])
@pytest.mark.parametrize("pairs", ["all", "adjacent"])
@pytest.mark.parametrize(
    ("rescale", "delta"), [(None, "label"), *itertools.product(("margin", "slack"), DELTAS)]
)
def test_rescaled_and_adjacent_pairs(counting, pairs, rescale, delta):
    X, y, qid = make_problem_arrays("five levels", n=40)
    first = np.flatnonzero(qid == 0)
    y[first] = 1.0  # the first query has one level, so it has no pairs
    rng = np.random.default_rng(1)
    weight, propensity = rng.random(40), 0.2 + 0.8 * rng.random(40)
    named = (lambda upper, lower: 1 / (1 + lower)) if delta == "mine" else delta
    data = RankingData(X, y, qid, sample_weight=weight, propensity=propensity)
    engine = ThreadEngine(
        data, MIXED, counting=counting, preferences=Preferences(pairs, rescale, named)
    )
    find = reference.preference_pairs if pairs == "all" else reference.adjacent_pairs
    listed = find(y, qid)
    d = lost_dcg(y, qid)
    deltas = np.array([DELTAS[delta](y, d, i, j) for i, j in listed])
    weights = reference.pair_weights(listed, weight, propensity=propensity)
    weights = weights * deltas if rescale == "slack" else weights
    margins = np.sqrt(deltas) if rescale == "margin" else None
    w, v = rng.standard_normal((2, 4))
    check_against_pairs(engine, X, w, v, listed, MIXED, weights, margins)
    assert engine.n_pairs == len(listed)
    for normalize in ("pairs", "queries"):
        other = ThreadEngine(
            data, MIXED, normalize, counting=counting,
            preferences=Preferences(pairs, rescale, named),
        )  # fmt: skip
        value = other.value_grad(w)[0]
        of = qid[[i for i, _ in listed]] if normalize == "queries" else np.zeros(len(listed), int)
        shares = weights / np.bincount(of, weights)[of]
        twin = partial(reference.hinge_loss, MIXED.table)
        slow = reference.sum_over_pairs(X @ w, listed, twin, shares, margins)[0]
        assert value == pytest.approx(slow)


@pytest.mark.parametrize("counting", COUNTINGS)
@pytest.mark.parametrize("how", ["rescale", "margin"])
def test_separable_margins_are_open_to_every_counting(counting, how):
    X, y, qid = make_problem_arrays("five levels", n=50, tied=True)
    own = y if how == "rescale" else np.round(np.random.default_rng(0).standard_normal(50), 1)
    rescaled = Preferences("all", "margin", "label-squared")
    preferences = rescaled if how == "rescale" else Preferences()
    data = RankingData(X, y, qid, margin=None if how == "rescale" else own)
    engine = ThreadEngine(data, MIXED, counting=counting, preferences=preferences)
    listed = reference.preference_pairs(y, qid)
    margins = np.array([own[i] - own[j] for i, j in listed])
    w, v = np.random.default_rng(1).standard_normal((2, 4))
    check_against_pairs(engine, X, w, v, listed, MIXED, margins=margins)


@pytest.mark.parametrize("counting", COUNTINGS)
def test_propensity_of_clicks_is_open_to_every_counting(counting):
    X, y, qid = make_problem_arrays("two levels", n=60)
    propensity = 0.1 + 0.9 * np.random.default_rng(0).random(60)
    data = RankingData(X, y, qid, propensity=propensity)
    engine = ThreadEngine(data, MIXED, counting=counting)
    listed = reference.preference_pairs(y, qid)
    weights = reference.pair_weights(listed, propensity=propensity)
    w, v = np.random.default_rng(1).standard_normal((2, 4))
    check_against_pairs(engine, X, w, v, listed, MIXED, weights)
    normalized = ThreadEngine(data, MIXED, "pairs", counting=counting)
    assert normalized.value_grad(w)[0] == pytest.approx(engine.value_grad(w)[0] / weights.sum())


# Exact sums -------------------------------------------------------------------------------------

HEAVY, LIGHT = 1e17, 1e-17  #: weights beside which, and beside others, 1 has no digits

#: Levels of each case, and its options of `Preferences`; "propensity" belongs to the data.
VARIANTS = {
    "plain": (5, {}),
    "many levels": (15, {}),
    "separable": (5, {"rescale": "margin", "delta": "label-squared"}),
    "clicks": (2, {"propensity": True}),
    "propensity": (5, {"propensity": True}),
    "adjacent": (5, {"pairs": "adjacent"}),
    "slack": (5, {"rescale": "slack", "delta": "gain"}),
    "margin": (5, {"rescale": "margin"}),
    "adjacent margin": (5, {"pairs": "adjacent", "rescale": "margin", "delta": "gain"}),
}
OF_ALL = ("plain", "many levels", "separable", "clicks")  #: what every counting can do


def extreme_problem(case, variant):
    """Return data with X = I, the scores, and the pairs with their weights and margins."""
    n_levels, options = VARIANTS[variant]
    rng = np.random.default_rng(len(case) + len(variant))
    y, qid, weight = np.arange(60) % n_levels * 0.5, np.arange(60) // 30, 0.5 + rng.random(60)
    s, ends = 0.5 * rng.standard_normal(60) + y, np.isin(np.arange(60) % 30, (0, n_levels - 1))
    if case == "heavy":  # the lowest label is far below all others, the highest far above
        weight[ends] = HEAVY
        s[ends] += np.where(y[ends] > 0, 1e4, -1e4)
    elif case == "light":
        weight[::3] = LIGHT
    elif case == "offset":
        s += 1e8
    propensity = 0.2 + 0.8 * rng.random(60) if "propensity" in options else None
    adjacent = options.get("pairs") == "adjacent"
    pairs = (reference.adjacent_pairs if adjacent else reference.preference_pairs)(y, qid)
    deltas = np.array([DELTAS[options.get("delta", "label")](y, None, i, j) for i, j in pairs])
    weights = reference.pair_weights(pairs, weight, propensity=propensity)
    weights = weights * deltas if options.get("rescale") == "slack" else weights
    margins = np.sqrt(deltas) if options.get("rescale") == "margin" else np.ones(len(pairs))
    if case == "small gaps":  # as at the solution for a large C, where gaps are tiny
        steps = {y[i]: margin for (i, j), margin in zip(pairs, margins, strict=True)
                 if y[i] - y[j] == 0.5}  # fmt: skip
        s = np.array([sum(steps[label] for label in set(y) if 0 < label <= own) for own in y])
        s += 1e-9 * rng.standard_normal(60)
    data = RankingData(np.eye(60), y, qid, sample_weight=weight, propensity=propensity)
    return data, s, pairs, weights, margins


@pytest.mark.parametrize("case", ["heavy", "light", "offset", "small gaps"])
@pytest.mark.parametrize(
    ("counting", "variant"),
    [
        (counting, variant)
        for counting, variant in itertools.product(COUNTINGS, VARIANTS)
        if variant in OF_ALL or counting in ("auto", *GENERAL)
    ],
)
def test_every_counting_meets_the_exact_sums(counting, variant, case):
    """The error of a document is bounded by its own active pairs, whatever others weigh.

    X is the identity, so that scores equal weights and the gradient has the sums of each document.
    """
    data, s, pairs, weights, margins = extreme_problem(case, variant)
    options = {k: v for k, v in VARIANTS[variant][1].items() if k != "propensity"}
    loss = SQUARED_HINGE if case == "small gaps" else MIXED
    v = np.random.default_rng(1).standard_normal(60) + (1e8 if case == "offset" else 0.0)
    exact = reference.exact_sums(s, v, pairs, loss.table, weights, margins)
    engine = ThreadEngine(data, loss, counting=counting, preferences=Preferences(**options))
    value, gradient = engine.value_grad(s)
    found = np.array([value]), engine.gaps(s), gradient, engine.hessp(v)
    active = exact[2][1] > 0
    reach, reach_v = (1 + np.ptp(x[active]) for x in (s, v))
    # The errors of listed pairs and of two-level problems are bounded by the gaps of the pairs.
    gap = 1e-8 if case == "small gaps" and engine.counting in GENERAL else reach
    for ours, (truth, size), bound in zip(
        found, exact, (gap * reach, reach, reach, reach_v), strict=True
    ):
        assert active.any()
        assert np.all(np.abs(ours - truth) <= 1e-14 * bound * size)


@pytest.mark.parametrize("counting", GENERAL)
def test_a_large_C_on_separable_data_with_rescaled_margins(counting):
    """Rounding does not make the reported objective lower than the exact one at the weights."""
    rng = np.random.default_rng(0)
    X, y, C = rng.standard_normal((30, 40)), rng.integers(0, 4, 30).astype(float), 1e8
    ranker = RankSVM(C, rescale="margin", counting=counting, tol=1e-8, **PAPERS).fit(X, y)
    assert ranker.result_.converged
    w, pairs = ranker.coef_, reference.preference_pairs(y, np.zeros(30))
    gaps = np.array([np.sqrt(y[i] - y[j]) - (X[i] @ w - X[j] @ w) for i, j in pairs])
    truth = 0.5 * w @ w + C * np.sum(np.maximum(gaps, 0.0) ** 2)
    assert ranker.result_.objective == pytest.approx(truth, rel=1e-9)


def test_a_heavy_document_with_active_pairs():
    """The gaps at the solution are tiny, but two-level sums keep all their digits."""
    rng = np.random.default_rng(0)
    X, y, weight = rng.standard_normal((60, 5)), rng.integers(0, 4, 60), np.ones(60)
    heavy = int(np.argmax(y))
    X[heavy], weight[heavy] = X.mean(axis=0) + 5 * rng.standard_normal(5), 1e12
    data = RankingData(X, y, sample_weight=weight)
    ranker = RankSVM(C=1e-6, rescale="slack", counting="explicit", tol=1e-6, **PAPERS)
    w = ranker.fit(X, y, sample_weight=weight).coef_
    slack = Preferences("all", "slack")
    one, other = (
        ThreadEngine(data, SQUARED_HINGE, counting=counting, preferences=slack)
        for counting in GENERAL
    )
    (value, gradient), (expected, slope) = one.value_grad(w), other.value_grad(w)
    assert value == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(gradient, slope, atol=1e-12 * np.linalg.norm(w) / 1e-6)
    fitted = RankSVM(C=1e-6, rescale="slack", counting="two-level", **PAPERS).fit(
        X, y, sample_weight=weight
    )
    assert fitted.result_.converged


#: Options of `Preferences`, and the arrays that the data have in addition to labels.
WEIGHED = [
    {}, {"propensity": True}, {"margin": True},
    *({"rescale": rescale, "delta": delta} for rescale in ("margin", "slack") for delta in DELTAS),
]  # fmt: skip


@pytest.mark.parametrize("normalize", [None, "pairs", "queries"])
@pytest.mark.parametrize("options", WEIGHED, ids=str)
@pytest.mark.parametrize("pairs", ["all", "adjacent"])
def test_weights_are_copies(pairs, options, normalize):
    """Weight 0 equals removal; weight k equals k copies, except with delta="dcg"."""
    X, y, qid = make_problem_arrays("five levels", n=40)
    rng = np.random.default_rng(2)
    more = {"propensity": 0.2 + 0.8 * rng.random(40), "margin": rng.standard_normal(40)}
    more = {name: values for name, values in more.items() if name in options}
    options = {k: v for k, v in options.items() if k not in more}
    if options.get("delta") == "mine":
        options = {**options, "delta": lambda upper, lower: 1 / (1 + lower)}
    preferences = Preferences(pairs, **options)
    weight = rng.integers(0, 2 if options.get("delta") == "dcg" else 4, 40)
    rows = np.repeat(np.arange(40), weight)
    data = RankingData(X, y, qid, sample_weight=weight, **more)
    copied = {name: values[rows] for name, values in more.items()}
    copies = RankingData(X[rows], y[rows], qid[rows], **copied)
    w, v = rng.standard_normal((2, 4))
    expected = parts_of(ThreadEngine(copies, MIXED, normalize, preferences=preferences), w, v)
    for counting in GENERAL:
        engine = ThreadEngine(data, MIXED, normalize, counting=counting, preferences=preferences)
        for one, other in zip(parts_of(engine, w, v), expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("rescale", ["margin", "slack"])
def test_a_document_holds_one_place_in_the_ideal_ranking(rescale):
    """With delta="dcg", weights only scale pairs: doubling all weights multiplies pairs by 4."""
    X, y, qid = make_problem_arrays("five levels", n=40)
    weight = 0.5 + np.random.default_rng(2).random(40)
    w, preferences = np.ones(4), Preferences("all", rescale, "dcg")
    one, other = (
        ThreadEngine(
            RankingData(X, y, qid, sample_weight=scale * weight), MIXED, preferences=preferences
        ).value_grad(w)[0]
        for scale in (1.0, 2.0)
    )
    assert other == pytest.approx(4 * one)


def test_ideal_discounts():
    _, y, qid = make_problem_arrays("five levels")
    order = np.argsort(qid, kind="stable")
    y, qid = y[order], qid[order]
    ptr = np.concatenate([[0], np.cumsum(np.bincount(qid))])
    levels = y.astype(np.int32)
    np.testing.assert_allclose(ideal_discounts(levels, ptr), lost_dcg(y, qid))


@pytest.mark.parametrize("weighted", [False, True])
def test_given_pairs(weighted):
    rng = np.random.default_rng(0)
    X, pairs = rng.standard_normal((30, 4)), rng.integers(0, 30, (80, 2))
    pairs = pairs[(pairs[:, 0] != pairs[:, 1]) & (pairs % 3 == pairs[:, :1] % 3).all(axis=1)]
    weight, margin = (rng.random(len(pairs)), rng.random(len(pairs))) if weighted else (None, None)
    data = RankingData.from_pairs(X, pairs, weight, margin)
    assert data.n_queries >= 3  # documents that are not compared are in separate queries
    engine = ThreadEngine(data, MIXED)
    w, v = rng.standard_normal((2, 4))
    check_against_pairs(engine, X, w, v, pairs, MIXED, weight, margin)


def test_fit_pairs_equals_fit_on_the_same_pairs():
    X, y, qid = make_problem_arrays("five levels")
    pairs = reference.preference_pairs(y, qid)
    by_label = RankSVM(C=1.0, tol=1e-8, **PAPERS).fit(X, y, qid)
    by_pair = RankSVM(C=1.0, tol=1e-8, **PAPERS).fit_pairs(X, pairs)
    np.testing.assert_allclose(by_pair.coef_, by_label.coef_, rtol=1e-6)
    assert by_pair.n_pairs_ == len(pairs)
    twice = RankSVM(C=0.5, tol=1e-8, **PAPERS).fit_pairs(
        X, pairs, pair_weight=np.full(len(pairs), 2.0)
    )
    np.testing.assert_allclose(twice.coef_, by_label.coef_, rtol=1e-6)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"counting": "magic"}, "known choices are 'auto', 'tables', 'explicit'"),
        ({"pairs": "some"}, "pairs is 'some'; known choices are 'all', 'adjacent'"),
        ({"rescale": "both"}, "rescale is 'both'; known choices are None, 'margin', 'slack'"),
        ({"delta": "rank"}, "delta is 'rank'; known choices are 'label'"),
        ({"loss": "exp"}, "loss is 'exp'; known choices are 'squared_hinge', 'hinge'"),
        ({"loss": "logistic_exact", "counting": "avl"}, "Use counting='explicit', or loss='log"),
        ({"pairs": "adjacent", "counting": "tables"}, "Use counting='two-level' or 'explicit'"),
        ({"rescale": "slack", "counting": "aa"}, "rescale='slack' with delta='label' does not"),
        ({"delta": "gain"}, "Use rescale='margin' or 'slack' as well"),
        ({"rescale": "slack", "delta": lambda a, b: a[:1]}, "delta returned an array of shape"),
        ({"rescale": "slack", "delta": lambda a, b: ["x"] * len(a)}, "cannot be read as numbers"),
        ({"rescale": "slack", "delta": lambda a, b: b - a}, "delta is -1.0 for the labels 1 above"),
    ],
)
def test_what_cannot_be_counted_gets_a_sentence(options, words):
    X, y, qid = make_problem_arrays("five levels")
    with pytest.raises(DataError, match=words):
        RankSVM(**PAPERS | options).fit(X, np.sort(y), np.sort(qid))


@pytest.mark.parametrize("pairs", ["all", "adjacent"])
@pytest.mark.parametrize("kind", KINDS)
def test_listed_pairs_are_those_of_the_labels(kind, pairs):
    X, y, qid = make_problem_arrays(kind, n=60)
    order = np.argsort(qid, kind="stable")
    y, qid = y[order], qid[order]
    weight = np.random.default_rng(0).integers(0, 3, 60).astype(float)
    find = reference.preference_pairs if pairs == "all" else reference.adjacent_pairs
    kept = np.flatnonzero(weight)
    expected = [(kept[i], kept[j]) for i, j in find(y[kept], qid[kept])]
    data = RankingData(X, y, qid, sample_weight=weight)
    found = layout.lay_out(data, Preferences(pairs), "explicit", exact=False, n_threads=1)
    plan = found.plan
    start = np.repeat(plan.query_ptr[:-1], np.diff(plan.query_nodes))
    assert sorted(zip(start + plan.upper, start + plan.lower, strict=True)) == sorted(expected)
    np.testing.assert_array_equal(found.mass[:, 0], np.diff(plan.query_nodes))


@pytest.mark.parametrize(
    ("preferences", "exact"),
    [(Preferences("adjacent"), False), (Preferences("all", "slack"), False), (Preferences(), True)],
)
def test_few_pairs_of_many_documents_are_listed_without_comparing_all(preferences, exact):
    """A million documents have 10^12 ordered pairs, but only 10^6 preference pairs."""
    n = 10_000 if numba.config.DISABLE_JIT else 1_000_000
    y = np.zeros(n)
    y[n // 3] = 1.0
    found = layout.lay_out(RankingData(np.zeros((n, 1)), y), preferences, "auto", exact, 1)
    assert found.counting == "explicit"
    assert np.all(found.plan.upper == n // 3)
    np.testing.assert_array_equal(found.plan.lower, np.delete(np.arange(n), n // 3))


def test_auto_lists_no_more_pairs_than_can_be_listed(monkeypatch):
    data = RankingData(np.zeros((200, 1)), np.arange(200) == 0)
    engine = partial(ThreadEngine, data, SQUARED_HINGE, preferences=Preferences("adjacent"))
    assert engine().counting == "explicit"
    monkeypatch.setattr(plan, "MAX_PAIRS", 100)
    assert engine().counting == "two-level"


def test_auto_weighs_each_query_by_its_own_documents():
    """One query has most of the documents, and many short queries have most of the levels."""
    y = np.r_[np.arange(10_000) < 5, np.tile(np.arange(10), 100)]
    qid = np.r_[np.zeros(10_000), np.repeat(np.arange(1, 101), 10)]
    preferences = Preferences("all", "slack")
    for rows, counting in ((slice(None), "two-level"), (slice(10_000, None), "explicit")):
        data = RankingData(np.zeros((len(y[rows]), 1)), y[rows], qid[rows])
        found = layout.lay_out(data, preferences, "auto", exact=False, n_threads=1)
        assert found.counting == counting


@pytest.mark.parametrize("normalize", [None, "pairs", "queries"])
@pytest.mark.parametrize("counting", COUNTINGS)
def test_data_without_pairs(counting, normalize):
    """Every counting returns zero, and a fit ends with an error that names the reason."""
    X, y, qid = make_problem_arrays("one level", n=12)
    engine = ThreadEngine(RankingData(X, y, qid), MIXED, normalize, counting=counting)
    value, gradient = engine.value_grad(np.ones(4))
    assert (engine.n_pairs, value) == (0, 0.0)
    assert not gradient.any()
    with pytest.raises(DataError, match="there is no pair to learn from"):
        RankSVM(C=1.0, counting=counting, normalize=normalize, scale=None).fit(X, y, qid)


def test_too_many_pairs_get_a_sentence(monkeypatch):
    monkeypatch.setattr(plan, "MAX_PAIRS", 100)
    X, y, qid = make_problem_arrays("five levels")
    with pytest.raises(DataError, match=r"there are 1,\d\d\d pairs.*Use counting='auto'"):
        RankSVM(C=1.0, counting="explicit", **PAPERS).fit(X, y, qid)
    with pytest.raises(DataError, match="Use counting='two-level'"):
        RankSVM(C=1.0, counting="explicit", rescale="slack", delta="dcg", **PAPERS).fit(X, y, qid)
    with pytest.raises(DataError, match="Use loss='logistic', which"):
        RankSVM(C=1.0, loss="logistic_exact", **PAPERS).fit(X, y, qid)
    X, y, qid = make_problem_arrays("all distinct")
    with pytest.raises(DataError, match="Use labels with fewer levels, or rescale='margin'"):
        RankSVM(C=1.0, rescale="slack", **PAPERS).fit(X, y, qid)
    with pytest.raises(DataError, match="compares every two levels, which makes 4,005"):
        RankSVM(C=1.0, counting="two-level", rescale="slack", **PAPERS).fit(X, y, qid)


@pytest.mark.parametrize(
    ("pairs", "more", "words"),
    [
        ([[0, 1, 2]], {}, r"pairs has shape \(1, 3\)"),
        (np.empty((0, 2), int), {}, "at least one pair"),
        ([[0.0, 1.0]], {}, "pairs holds float64"),
        ([[0, 9]], {}, r"pairs\[0\] is \[0, 9\]; expected row numbers of X, from 0 to 2"),
        ([[1, 1]], {}, "compares row 1 with itself"),
        ([[0, 1]], {"pair_weight": [-1.0]}, r"pair_weight\[0\] is -1"),
        ([[0, 1]], {"margin": [np.nan]}, r"margin\[0\] is nan"),
        ([[0, 1]], {"margin": [1.0, 2.0]}, "margin has shape"),
    ],
)
def test_bad_pairs_get_a_sentence(pairs, more, words):
    with pytest.raises(DataError, match=words):
        RankSVM(C=1.0, **PAPERS).fit_pairs(np.eye(3), pairs, **more)


@pytest.mark.parametrize("value", [0.0, -0.1, 1e-320, 1.5, np.nan])
def test_bad_propensity_gets_a_sentence(value):
    with pytest.raises(DataError, match=r"propensity\[1\] is"):
        RankSVM(C=1.0, **PAPERS).fit(np.eye(3), [0, 1, 0], propensity=[1.0, value, 1.0])


def test_given_pairs_do_not_mix_with_labels():
    data = RankingData.from_pairs(np.eye(3), [[0, 1]])
    with pytest.raises(DataError, match="Use counting='explicit'"):
        ThreadEngine(data, SQUARED_HINGE, counting="avl")
    with pytest.raises(DataError, match="pairs are listed one by one"):
        ThreadEngine(data, SQUARED_HINGE, preferences=Preferences("adjacent"))
    for delta in ("label", "label-squared"):
        with pytest.raises(DataError, match="Use only one of them"):
            RankSVM(C=1.0, rescale="margin", delta=delta, **PAPERS).fit(
                np.eye(3), [0, 1, 2], margin=[0.0, 1.0, 2.0]
            )


def test_numbers_beyond_double_precision_get_a_sentence():
    X, y = np.eye(3), [0, 1, 2]
    # Without compilation, numpy warns of the overflow.
    with np.errstate(all="ignore"), pytest.raises(DataError, match="weights and margins"):
        RankSVM(C=1.0, **PAPERS).fit(X, y, margin=[-1e308, 0.0, 1e308])


def test_auto_counts_many_levels_by_fenwick_trees():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((6000, 2)), rng.permutation(6000).astype(float)
    assert ThreadEngine(RankingData(X, y), SQUARED_HINGE).counting == "fenwick"
    assert ThreadEngine(RankingData(X, y // 30), SQUARED_HINGE).counting == "tables"


def test_a_large_query_is_sorted_by_all_threads(monkeypatch):
    monkeypatch.setattr(threads, "SMALL_BYTES", 0)
    monkeypatch.setattr(threads, "LARGE_QUERY", 50)
    rng = np.random.default_rng(0)
    X, w = np.round(rng.standard_normal((400, 3)), 1), np.array([0.5, -1.0, 0.25])
    for y in (rng.integers(0, 2, 400), rng.permutation(400)):
        one = ThreadEngine(RankingData(X, y), SQUARED_HINGE, n_threads=1)
        three = ThreadEngine(RankingData(X, y), SQUARED_HINGE, n_threads=3)
        assert not three.fused
        for _ in range(2):
            for a, b in zip(parts_of(one, w, w), parts_of(three, w, w), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-10)
