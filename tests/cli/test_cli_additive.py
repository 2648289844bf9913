"""Additive rankers on the command line: options, defaults, reports and studies."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import pytest
from typer.main import get_command

from commandline import error_of, run, run_json
from linrank import (
    AdditiveModel,
    AdditiveRanker,
    AdditiveRankerCV,
    load_model,
    make_ranking,
    read_letor,
    write_letor,
)
from linrank.baselines.methods import count_used, fit_ranker, make_ranker
from linrank.cli.app import app
from linrank.cli.shared_options import CURVE_OPTIONS, SHARED, flag_of
from linrank.study import Study
from linrank.study.protocol import GRIDS
from linrank.training import Trainer
from linrank.training.additive_trainer import (
    AVERAGED_FITS,
    TRIED_NORMALIZATIONS,
    TRIED_PENALTIES,
    AdditiveTrainer,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files of training and held-out data."""
    folder = tmp_path_factory.mktemp("additive")
    data = make_ranking(n_queries=60, docs_per_query=8, n_features=4, random_state=0)
    for part, name in enumerate(("train.txt", "vali.txt", "test.txt")):
        write_letor(folder / name, data.take(np.arange(160 * part, 160 * (part + 1))))
    return folder


@pytest.fixture
def train(folder):
    return folder / "train.txt"


def additive(train, *options, code=0):
    """Train, and return the model that was saved."""
    run("train", train, "--additive", *options, code=code)
    model = load_model("model.json")
    assert isinstance(model, AdditiveModel)
    return model


# Models --------------------------------------------------------------------------------------


def test_one_C_equals_the_python_api(train, here):
    data = read_letor(train)
    model = additive(train, "--C", "0.1")
    ranker = AdditiveRanker(0.1).fit(data)
    np.testing.assert_array_equal(model.predict(data.X), ranker.predict(data))
    settings = dict(model.settings, threads=None)
    assert settings == dict(ranker.model_.settings, threads=None)


@pytest.mark.parametrize("folds", [True, False])
def test_the_choice_equals_the_python_api(folder, here, folds):
    data, valid = read_letor(folder / "train.txt"), read_letor(folder / "vali.txt")
    where = ("--folds", "2") if folds else ("--valid", folder / "vali.txt")
    found = run_json("train", folder / "train.txt", "--additive", *where)
    ranker = AdditiveRankerCV(cv=2).fit(data, valid=None if folds else valid)
    assert (found["C"], found["penalty"]) == (ranker.C_, ranker.penalty_)
    assert found["held_out"]["mean"] == ranker.best_score_
    assert [row["C"] for row in found["grid"]] == ranker.path_.Cs.tolist()[: len(found["grid"])]
    model = load_model("model.json")
    np.testing.assert_array_equal(model.predict(data.X), ranker.predict(data))


def test_all_options_reach_the_model(train, here):
    model = additive(
        train, "--bins", "5", "--basis", "step", "--smooth", "0.5",
        "--monotone", "2=-1, 3=increasing", "--categories", "4", "--ends", "linear",
        "--scale", "query", "--penalty", "group_l1",
        "--bags", "3", "--loss", "squared_hinge", "--rescale", "margin", "--delta", "label",
        "--C", "1", "--interactions", "1",
    )  # fmt: skip
    names = ("n_bins", "basis", "smooth", "monotone", "categories", "ends", "scale", "loss",
             "rescale", "delta", "interactions")  # fmt: skip
    assert [model.settings[name] for name in names] == [
        5, "step", 0.5, {"2": -1, "3": "increasing"}, ["4"], "linear", "query", "squared_hinge",
        "margin", "label", 1,
    ]  # fmt: skip
    assert model.settings["penalty"]["name"] == "group_l1"
    curves = {curve.feature: curve for curve in model.curves}
    assert all(curve.band is not None for curve in curves.values())
    values = np.linspace(0.0, 1.0, 50)
    rises = {feature: np.diff(curve(values)) for feature, curve in curves.items()}
    assert 1 not in rises or (rises[1] <= 0).all()  # the penalty may drop a feature
    assert 2 not in rises or (rises[2] >= 0).all()
    assert curves[3].axis.levels


def test_names_and_numbers_of_features(folder, here):
    Path("names.txt").write_text("bm25\nage\nclicks\nlength\n")
    named = "--feature-names", "names.txt"
    model = additive(folder / "train.txt", *named, "--monotone", "age=decreasing", "--C", "1")
    (curve,) = [curve for curve in model.curves if curve.feature == 1]
    assert (np.diff(curve(np.linspace(-3.0, 3.0, 50))) <= 0).all()
    words = "monotone has feature 'Age'; did you mean age?"
    wrong = "--additive", *named, "--monotone", "Age=1"
    assert words in error_of("train", folder / "train.txt", *wrong)
    text = (folder / "train.txt").read_text()
    Path("zero.txt").write_text(text.replace(" 1:", " 0:0.5 1:"))
    (first, *_) = additive("zero.txt", "--monotone", "1=1", "--C", "1").curves
    assert first.feature == 1  # the number in the file, which begins with 0
    assert (np.diff(first(np.linspace(-3.0, 3.0, 50))) >= 0).all()


def test_missing_values_need_no_option(here):
    rows = [f"{i % 3} qid:{i // 6} 1:{'nan' if i % 5 == 0 else i % 7} 2:{i % 3}" for i in range(60)]
    Path("gaps.txt").write_text("\n".join(rows) + "\n")
    assert "feature 1 is 'nan'" in error_of("train", "gaps.txt")
    model = additive("gaps.txt", "--C", "1")
    assert (model.curves[0].counts[-1], model.curves[1].counts[-1]) == (12, 0)
    assert run("predict", "model.json", "gaps.txt").stdout.count("\n") == 60


def test_models_are_used_by_the_other_commands(folder, here):
    test = folder / "test.txt"
    additive(folder / "train.txt", "--C", "0.1", "--out", "model.json")
    run("train", folder / "train.txt", "--out", "linear.json")
    scores = np.array([float(line) for line in run("predict", "model.json", test).stdout.split()])
    model = load_model("model.json")
    np.testing.assert_array_equal(scores, model.predict(read_letor(test).X))
    measured = run_json("evaluate", test, "model.json", "--metrics", "map")["metrics"]["map"]
    assert 0 < measured["mean"] <= 1
    compared = run_json("compare", "linear.json", "model.json", "--data", test, "--metrics", "map")
    assert "model.json" in str(compared)


def test_preferences(here):
    lines = [f"0 qid:1 1:{i % 7} 2:{i % 3} # docid = d{i}" for i in range(40)]
    Path("items.txt").write_text("\n".join(lines) + "\n")
    pairs = [f"d{i},d{j}" for i in range(40) for j in range(40) if i % 7 > j % 7 + 3]
    Path("pairs.csv").write_text("preferred,other\n" + "\n".join(pairs) + "\n")
    chosen = "--preferences", "pairs.csv", "--folds", "2"
    found = run_json("train", "items.txt", "--additive", *chosen)
    assert found["held_out"]["mean"] > 0.9
    assert load_model("model.json").settings["rescale"] is None


# Defaults and texts --------------------------------------------------------------------------


def test_there_is_an_option_for_each_parameter():
    parameters = inspect.signature(AdditiveRankerCV).parameters
    fields = AdditiveTrainer.option_names() - Trainer.option_names()
    fields -= {"design", "memory", "categories"}  # --categories is about reading, too
    assert fields | {"n_bags", "additive"} == set(CURVE_OPTIONS)
    flags = {name: option.opts[0] for option in get_command(app).commands["train"].params
             for name in [option.name]}  # fmt: skip
    for name, declared in CURVE_OPTIONS.items():
        assert flags[name] == flag_of(name)
        if name in parameters and name != "monotone":
            shown = declared.annotation.__metadata__[0].show_default
            assert shown == str(parameters[name].default), name


def test_defaults_that_differ_are_stated():
    usual, own = Trainer.of(), AdditiveTrainer.of()
    given = inspect.signature(AdditiveTrainer.of).parameters
    plain = inspect.signature(Trainer.of).parameters
    differing = [
        name for name in given.keys() & plain.keys() & SHARED.keys()
        if given[name].default != plain[name].default
    ]  # fmt: skip
    assert {"loss", "rescale", "delta"} <= set(differing)
    for name in differing:
        shown = SHARED[name].annotation.__metadata__[0].show_default
        defaults = [str(one[name].default).lower() for one in (plain, given)]
        assert shown == "; with --additive ".join(defaults)
    assert (usual.tol, usual.max_iter, usual.counting) == (own.tol, own.max_iter, own.counting)
    assert "the best of " + " and ".join(TRIED_PENALTIES) in (
        SHARED["penalty"].annotation.__metadata__[0].show_default
    )


def test_given_options_replace_the_defaults_of_additive_rankers(train, here):
    default = additive(train, "--C", "1").settings
    assert [default[name] for name in ("loss", "rescale", "delta")] == ["logistic", "slack", "gain"]
    given = additive(train, "--C", "1", "--loss", "squared_hinge", "--delta", "label").settings
    assert [given[name] for name in ("loss", "rescale", "delta")] == [
        "squared_hinge", "slack", "label"
    ]  # fmt: skip
    assert additive(train, "--C", "1", "--rescale", "none").settings["rescale"] is None
    run("train", train, "--rescale", "none")
    assert load_model("model.json").settings["loss"] == "squared_hinge"


def test_the_report_names_the_penalty(folder, here):
    chosen = "--valid", folder / "vali.txt"
    text = run("train", folder / "train.txt", "--additive", *chosen).stdout
    assert f", the best of {', '.join(TRIED_PENALTIES)}" in text
    n_fits = AVERAGED_FITS * len(TRIED_PENALTIES) * len(TRIED_NORMALIZATIONS)
    assert f"the mean of {n_fits} of the best fits" in text
    text = run("train", folder / "train.txt", "--additive", *chosen, "--penalty", "l1",
               "--average", "1").stdout  # fmt: skip
    assert "penalty" not in text
    assert "average" not in text
    assert "of 4 selected" in text


def test_path(folder, here):
    options = "--additive", "--valid", folder / "vali.txt", "--penalty", "group_l1"
    files = "--plot", "path.svg", "--out", "m.json"
    found = run_json("path", folder / "train.txt", *options, *files)
    assert max(row["features"] for row in found["path"]) <= 4
    assert found["penalty"] == "group_l1"
    assert load_model("m.json").format == "linrank-additive"
    assert Path("path.svg").stat().st_size > 0
    text = run("path", folder / "train.txt", *options[:-2], "--grid", "0.01,0.1").stdout
    assert ", the best of l2, group_l1" in text


# Mistakes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--bins", "4"], "--bins is about curves. Add --additive."),
        (["--monotone", "1=1"], "--monotone is about curves. Add --additive."),
        (["--bags", "9"], "--bags is about curves. Add --additive."),
        (["--additive", "--warm-start", "m.json"], "--additive does not support --warm-start."),
        (["--additive", "--dask", "local"], "--additive does not support --dask."),
        (["--additive", "--debias"], "--additive does not support --debias."),
        (["--additive", "--method", "svr"], "--additive is an option of linrank's own trainer"),
        (["--method", "additive", "--bins", "4"], "--bins is an option of linrank's own trainer"),
        (["--additive", "--topics"], "--additive is an option of linrank's own trainer"),
        (["--additive", "--average", "2"], "--average needs a choice of C. Add --valid or --folds"),
        (["--additive", "--monotone", "3"], "'3' is not FEATURE=FORM, such as bm25=increasing"),
        (["--additive", "--monotone", "=1"], "'=1' is not FEATURE=FORM"),
        (["--additive", "--monotone", "1=1,1=-1"], "feature '1' has two forms"),
        (["--additive", "--categories", "1,,2"], "'1,,2' is not valid; expected onehot, hash,"),
        (["--additive", "--basis", "ramps"], "'ramps' is not one of 'ramp', 'step', 'spline'"),
    ],
)  # fmt: skip
def test_wrong_usage(train, here, options, words):
    said = run("train", train, *options, code=2).stderr
    assert words in " ".join(said.replace("│", " ").split())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--bins", "0"], "n_bins is 0; expected a whole number from 1 to 254"),
        (["--smooth=-1"], "smooth is -1.0; expected a finite number of at least 0"),
        (["--missing", "zero"], "missing values have a part of their own"),
        (["--bounds", "positive"], "Use monotone"),
        (["--scale", "standard"], "scale is 'standard'; expected None, 'query' or 'both'"),
        (["--monotone", "1=up"], "monotone is 'up'; known choices are 'increasing'"),
        (["--monotone", "5=1"], "Use their numbers, '1' to '4'."),
        (["--categories", "bm25"], "categories has feature 'bm25', but the features have no names"),
        (["--basis", "spline", "--monotone", "1=1"], "increasing needs basis='ramp'"),
    ],
)  # fmt: skip
def test_wrong_input(train, here, options, words):
    assert words in error_of("train", train, "--additive", *options)


def test_wrong_options_are_noticed_before_data_are_read(here):
    assert "n_bins is 0" in error_of("train", "nothing.txt", "--additive", "--bins", "0")
    assert "'up'" in error_of("train", "nothing.txt", "--additive", "--monotone", "1=up")


# Methods and studies -------------------------------------------------------------------------


def test_methods(train, here):
    text = run("train", train, "--method", "additive:group_l1,n_bins=16,C=0.1").stdout
    assert "AdditiveRanker(C=0.1, n_bins=16, penalty='group_l1'" in text
    assert load_model("model.json").settings["n_bins"] == 16


def test_features_in_use_are_counted(train):
    data = read_letor(train)
    ranker = fit_ranker(make_ranker("additive:group_l1,C=0.02"), data)
    n_used = len({curve.feature for curve in ranker.model_.curves})
    assert count_used(ranker) == n_used
    assert 0 < n_used < data.n_features


def test_the_penalties_of_studies_are_those_of_the_ranker():
    assert GRIDS["additive"]["penalty"] == TRIED_PENALTIES


def test_studies(folder):
    parts = [read_letor(folder / name) for name in ("train.txt", "vali.txt", "test.txt")]
    methods = ["additive", "additive:elastic_net,shape=0.3", "additive:l2,C=0.1"]
    results = Study({"made": [tuple(parts)]}, methods).run(n_processes=0)
    for method in methods:
        assert 0 < results.mean("made", method, "ndcg@10") <= 1
    train, valid, test = parts
    expected = AdditiveRanker(0.1).fit(train).score(test)
    assert results.mean("made", methods[2], "ndcg@10") == pytest.approx(expected, abs=1e-12)
    single = [
        AdditiveRankerCV(penalties=[penalty], normalize=None, average=1).fit(train, valid=valid)
        for penalty in TRIED_PENALTIES
    ]
    best = max(single, key=lambda ranker: ranker.best_score_)
    assert results.mean("made", "additive", "ndcg@10") == pytest.approx(best.score(test), abs=1e-12)
