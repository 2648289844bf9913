"""Domination Rank against the twin of Stevens, Bengio & Singer 2013: equal iterates.

A sweep is a smooth map of the weights except where lemma 2 sets a weight to 0. The problems are
random, so no weight is within rounding of this limit in the few sweeps that are compared.
"""

from __future__ import annotations

import numpy as np
import pytest

import twin_stevens2013 as twin
from commandline import run, run_json
from linrank import DataError, DominationRank, DominationRankCV, RankingData, load_model
from linrank.penalties import L1
from linrank.problem import make_problem
from linrank.solvers import PaperCoordinateDescent, make_solver
from linrank.training.settings import Settings
from problems import PAPERS, as_form

SWEEPS = 4
D = 5


def make_arrays(kind):
    """Return X, labels, queries and margins of one of three problems."""
    rng = np.random.default_rng(8)
    n = 36
    X = rng.standard_normal((n, D)) * (1.0 if kind == "one query" else rng.random((n, D)) < 0.6)
    qid = np.zeros(n, int) if kind == "one query" else np.arange(n) // 9
    y = {"one query": (rng.random(n) < 0.2) * 1.0,
         "levels": rng.integers(0, 3, n) * 1.0,
         "real labels": np.round(rng.standard_normal(n), 1)}[kind]  # fmt: skip
    return X, y, qid, rng.random(n) + 0.5 * y


def iterates(data, loss="domination", penalty=None, C=1.0):
    """Return the weights after 1, 2, … sweeps of linrank."""
    problem = make_problem(data, C, loss=loss, penalty=penalty)
    return [
        PaperCoordinateDescent(tol=1e-14, max_iter=k).solve(problem).coef
        for k in range(1, SWEEPS + 1)
    ]


def assert_same(found, expected):
    assert np.abs(expected[-1]).max() > 0.05  # the weights moved
    for w, v in zip(found, expected, strict=True):
        np.testing.assert_allclose(w, v, rtol=0.0, atol=1e-12 * np.abs(v).max())


every_kind = pytest.mark.parametrize("kind", ["one query", "levels", "real labels"])


@pytest.mark.parametrize("form", ["dense64", "csr64"])
def test_figure_1_1(form):
    X, y, qid, _ = make_arrays("one query")
    found = iterates(RankingData(as_form(X, form), y, qid), penalty=L1(weights=np.zeros(D)))
    assert_same(found, twin.figure_1_1(X, y > 0, SWEEPS))


def test_binary_feedback_of_several_queries():
    """§1.3 on labels that are cut at 0, as in the base variant of tables 1.1 and 1.2."""
    X, y, qid, _ = make_arrays("levels")
    data = RankingData(X, y, qid)
    found = iterates(data, loss="domination_binary", penalty=L1(weights=np.zeros(D)))
    expected = twin.coordinate_descent(X, (y > 0) * 1.0, qid, SWEEPS, twin.l1_step, 0.0)
    assert_same(found, expected)


@every_kind
def test_multi_valued_feedback_with_l1(kind):
    X, y, qid, _ = make_arrays(kind)
    lam = 0.5 * max(abs(twin.slope(X, y, qid, np.zeros(D), r, 0 * y, -1)) for r in range(D))
    found = iterates(RankingData(X, y, qid), penalty=L1(), C=1.0 / lam)
    expected = twin.coordinate_descent(X, y, qid, SWEEPS, twin.l1_step, lam)
    assert (expected[-1] == 0).any()  # lemma 2 applies
    assert_same(found, expected)
    np.testing.assert_array_equal(found[-1] == 0, expected[-1] == 0)


@every_kind
def test_multi_valued_feedback_with_l2(kind):
    X, y, qid, _ = make_arrays(kind)
    found = iterates(RankingData(X, y, qid), C=2.0)
    assert_same(found, twin.coordinate_descent(X, y, qid, SWEEPS, twin.l2_step, 0.5))


@every_kind
def test_margins(kind):
    X, y, qid, s = make_arrays(kind)
    found = iterates(RankingData(X, y, qid, margin=s), C=2.0)
    assert_same(found, twin.coordinate_descent(X, y, qid, SWEEPS, twin.l2_step, 0.5, s))


def test_a_margin_per_label_is_that_of_the_estimator():
    X, y, qid, _ = make_arrays("levels")
    solver = PaperCoordinateDescent(tol=1e-14, max_iter=SWEEPS)
    with pytest.warns(UserWarning, match="iterations"):
        ranker = DominationRank(2.0, penalty="l2", margin=0.3, solver=solver, **PAPERS).fit(
            X, y, qid
        )
    expected = twin.coordinate_descent(X, y, qid, SWEEPS, twin.l2_step, 0.5, 0.3 * y)
    assert_same([ranker.coef_], expected[-1:])


# Errors of the paper ---------------------------------------------------------------------------


def test_the_printed_sign_of_the_margin_is_that_of_another_loss():
    """With e^{w·x_i + s(i)}, the derivative belongs to Δ(i, j) = −s(i) − s(j)."""
    X, y, qid, s = make_arrays("levels")
    w, r, h = np.random.default_rng(0).standard_normal(D), 2, 1e-5
    shift = h * np.eye(D)[r]

    def numeric(Delta):
        return (twin.loss(X, y, qid, w + shift, Delta) - twin.loss(X, y, qid, w - shift, Delta)) / (
            2 * h
        )

    right, printed = (twin.slope(X, y, qid, w, r, s, sign) for sign in (-1, 1))
    assert right == pytest.approx(numeric(lambda i, j: s[i] - s[j]), rel=1e-6)
    assert printed == pytest.approx(numeric(lambda i, j: -s[i] - s[j]), rel=1e-6)
    assert abs(right - printed) > 0.01 * abs(right)


def test_the_printed_start_of_Z_does_not_end_at_the_minimum():
    """If Z starts at m, the number of relevant documents, it is wrong in all later steps."""
    X, y, qid, _ = make_arrays("one query")
    good = y > 0
    ends = [twin.figure_1_1(X, good, 400, first_Z)[-1] for first_Z in (None, float(good.sum()))]
    values = [twin.loss(X, y, qid, w, lambda i, j: 0.0) for w in ends]
    slopes = [
        max(abs(twin.slope(X, y, qid, w, r, 0 * y, -1)) for r in range(D)) for w in ends
    ]  # fmt: skip
    assert values[0] < values[1] - 1e-3
    assert slopes[0] < 0.01 * slopes[1]


@pytest.mark.parametrize("w", [-0.7, 0.0, 0.4])
@pytest.mark.parametrize("g", [-2.0, -0.3, 0.0, 0.25, 1.5])
def test_lemmas_1_and_2(g, w):
    """The step of the lemmas is the minimum of eq. 1.4."""
    beta, lam = 1.7, 0.5
    delta = twin.l1_step(g, beta, w, lam)
    others = delta + np.linspace(-2.0, 2.0, 4001)
    values = g * others + 0.5 * beta * others**2 + lam * np.abs(w + others)
    assert values.min() >= g * delta + 0.5 * beta * delta**2 + lam * abs(w + delta) - 1e-12


# Names -----------------------------------------------------------------------------------------


def test_the_name_of_the_solver():
    by_name = make_solver("coordinate-descent-paper", Settings(loss="domination").loss, L1())
    assert type(by_name) is PaperCoordinateDescent
    assert not by_name.relax
    with pytest.raises(DataError, match="has no option 'relax'"):
        make_solver("coordinate-descent-paper", Settings(loss="domination").loss, relax=True)
    with pytest.raises(DataError, match=r"a sum over pairs. Use solver='newton'"):
        make_solver("coordinate-descent-paper")


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    for name, n_queries in (("train.txt", 20), ("vali.txt", 12)):
        with open(name, "w") as file:
            for q in range(n_queries):
                X = rng.standard_normal((8, 3))
                y = np.clip(np.round(X[:, 0] + 0.5 * rng.standard_normal(8)), 0, 2)
                for row, label in zip(X, y, strict=True):
                    values = " ".join(f"{f}:{v:.4f}" for f, v in enumerate(row, 1))
                    file.write(f"{label:.0f} qid:{q} {values}\n")
    return tmp_path


def read(name):
    from linrank import read_letor

    return read_letor(name)


def test_the_command_line_has_the_algorithm(files):
    run("train", "train.txt", "--loss", "domination", "--penalty", "l1", "--C", "0.5", "--tol",
        "1e-4", "--solver", "coordinate-descent-paper", "--normalize", "none",
        "--scale", "none")  # fmt: skip
    data = read("train.txt")
    model = load_model("model.json")
    assert model.settings["solver"] == "coordinate-descent-paper"
    ranker = DominationRank(0.5, tol=1e-8, **PAPERS).fit(data.X, data.y, qid=data.qid)
    expected = ranker.coef_
    np.testing.assert_allclose(model.coef, expected, atol=0.02 * np.abs(expected).max())


# The scale of the margin (§1.5) ------------------------------------------------------------------

SCALES = [0.0, 0.5, 2.0]
CS = [0.01, 0.1, 1.0]


def test_the_scale_of_the_margin_is_chosen_on_held_out_data(files):
    train, valid = read("train.txt"), read("vali.txt")
    single = [
        DominationRankCV(CS, penalty="l2", margin=scale, **PAPERS).fit(train, valid=valid)
        for scale in SCALES
    ]
    best = max(single, key=lambda ranker: ranker.best_score_)
    ranker = DominationRankCV(CS, penalty="l2", margin=SCALES, **PAPERS).fit(train, valid=valid)
    assert len({one.best_score_ for one in single}) > 1
    assert (ranker.margin_, ranker.C_) == (best.margin, best.C_)
    assert ranker.best_params_ == {"C": best.C_, "margin": best.margin}
    assert ranker.model_.settings["margin_scale"] == best.margin
    np.testing.assert_array_equal(ranker.coef_, best.coef_)
    assert single[1].best_params_ == {"C": single[1].C_}


def test_the_scale_of_the_margin_is_chosen_by_folds(files):
    data = read("train.txt")
    options = {"penalty": "l2", "cv": 3, "metric": "domination-error"}
    single = [DominationRankCV(CS, margin=scale, **PAPERS | options).fit(data) for scale in SCALES]
    best = min(single, key=lambda ranker: ranker.best_score_)
    ranker = DominationRankCV(CS, margin=SCALES, **PAPERS | options).fit(data)
    assert ranker.best_params_ == {"C": best.C_, "margin": best.margin}
    np.testing.assert_array_equal(ranker.coef_, best.coef_)


def test_the_scale_of_the_margin_on_the_command_line(files):
    options = "--loss", "domination", "--valid", "vali.txt", "--margin-scale"
    found = run_json("train", "train.txt", *options, "0.25,0.5,2")
    single = {
        scale: run_json("train", "train.txt", *options, scale, "--out", "other.json")
        for scale in ("0.25", "0.5", "2")
    }
    best = max(single, key=lambda scale: single[scale]["held_out"]["mean"])
    assert found["margin_scale"] == float(best)
    assert found["held_out"] == single[best]["held_out"]
    assert load_model("model.json").settings["margin_scale"] == float(best)
    text = run("train", "train.txt", *options, "0.25,0.5,2").stdout
    assert f"scale {best}, the best of 0.25, 0.5, 2" in text
    path = run_json("path", "train.txt", *options, "0.25,0.5,2")
    assert path["margin_scale"] == float(best)


@pytest.mark.parametrize(
    ("margin", "words"),
    [([], "margin is an empty list"), ([0.5, -1.0], "margin is -1.0"), ("wide", "margin is 'wi")],
)
def test_bad_margins_get_a_sentence(margin, words):
    X, y, qid, _ = make_arrays("levels")
    with pytest.raises(DataError, match=words):
        DominationRankCV(CS, margin=margin, **PAPERS).fit(X, y, qid)


@pytest.mark.parametrize("scale", SCALES)
def test_margins_of_documents_are_scaled(scale):
    """§1.5 scales the difference of user counts, which are not the labels."""
    X, y, qid, s = make_arrays("levels")
    chosen = DominationRankCV(CS, penalty="l2", cv=2, margin=[scale], **PAPERS).fit(
        X, y, qid, margin=s
    )
    scaled = DominationRankCV(CS, penalty="l2", cv=2, **PAPERS).fit(X, y, qid, margin=scale * s)
    assert (chosen.margin_, chosen.C_) == (scale, scaled.C_)
    np.testing.assert_array_equal(chosen.coef_, scaled.coef_)


def test_the_best_scale_of_margins_of_documents():
    X, y, qid, s = make_arrays("levels")
    options = {"penalty": "l2", "cv": 2, "metric": "pairwise-accuracy"}
    single = [
        DominationRankCV(CS, **PAPERS | options).fit(X, y, qid, margin=scale * s).best_score_
        for scale in SCALES
    ]
    ranker = DominationRankCV(CS, margin=SCALES, **PAPERS | options).fit(X, y, qid, margin=s)
    assert len(set(single)) > 1
    assert ranker.best_score_ == max(single)


def test_one_number_does_not_scale_margins_of_documents():
    X, y, qid, s = make_arrays("levels")
    for ranker in (
        DominationRank(C=1.0, margin=0.5, **PAPERS),
        DominationRankCV(CS, margin=0.5, **PAPERS),
    ):
        with pytest.raises(DataError, match=r"Use fit\(…, margin=0.5 \* s\) and margin=0"):
            ranker.fit(X, y, qid, margin=s)


@pytest.mark.parametrize("margin", [5e307, 1e308])
@pytest.mark.parametrize("solver", ["auto", "coordinate-descent-paper"])
def test_margins_beyond_double_precision_get_a_sentence(solver, margin):
    """The gradient of the loss is finite. Margins of two levels are finite, or infinite."""
    X, y, qid, _ = make_arrays("levels")
    with pytest.raises(DataError, match=r"the objective at w = 0 is (inf|nan), .* margins"):
        DominationRank(C=1.0, penalty="l2", margin=margin, solver=solver, **PAPERS).fit(X, y, qid)


def test_clusters_have_no_scale_of_the_margin():
    from linrank.dask.estimator import DaskTrainer

    with pytest.raises(DataError, match="Store a margin for each document instead"):
        DaskTrainer(loss="domination", margin_scale=0.5, normalize=None)


def usage_error(*arguments):
    """Return the text of a usage error without its frame and line breaks."""
    return " ".join(run(*arguments, code=2).stderr.replace("│", " ").split())


def test_bad_options_of_the_command_line(files):
    text = usage_error("train", "train.txt", "--margin-scale", "0.5,1", "--C", "1")
    assert "--margin-scale with several numbers needs a choice. Add --valid or --folds" in text
    held_out = "--valid", "vali.txt", "--C", "1"
    text = usage_error("train", "train.txt", "--margin-scale", "0.5,1", *held_out)
    assert "and leave out --C" in text
    assert "not a list of numbers ≥ 0" in usage_error("train", "train.txt", "--margin-scale=-1")
