"""Rankers by short names: in Python, on the command line, and in model files."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import sparse

from commandline import error_of, run, run_json, write_text
from linrank import (
    DominationRank,
    KernelRankSVM,
    MultiTopicRanker,
    SparseRankSVM,
    load_model,
    make_ranking,
    read_letor,
)
from linrank.baselines import GradientBoostingRanker, LambdaMARTRanker, RandomForestRanker
from linrank.baselines.baseline import DecisionTree as Tree
from linrank.baselines.baseline import (
    LightGBMModel,
    TreeModel,
    parse_trees,
    thresholds_before_rounding,
)
from linrank.baselines.methods import METHODS, fit_ranker, make_ranker, model_of
from linrank.errors import DataError, FileFormatError
from linrank.estimators.kernel_ranksvm import KernelModel
from linrank.estimators.topics import TopicsModel, read_topics

QUICK = {  # parameters that make a method quick on the small data of these tests
    "fenchelrank": "fenchelrank:tol=0.1",
    "adarank": "adarank:n_rounds=5",
    "rankboost": "rankboost:n_rounds=5",
    "lambdamart": "lambdamart:n_estimators=5",
    "forest": "forest:n_estimators=5",
    "gbdt": "gbdt:n_estimators=5",
}


@pytest.fixture
def data():
    return make_ranking(n_queries=20, docs_per_query=8, n_features=5, random_state=3)


@pytest.fixture
def files(tmp_path, data, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_text(tmp_path / "train.txt", data)
    valid = make_ranking(n_queries=10, docs_per_query=8, n_features=5, random_state=4)
    write_text(tmp_path / "vali.txt", valid)
    return tmp_path


@pytest.mark.parametrize("name", METHODS)
def test_every_method_ranks_better_than_chance(name, data):
    ranker = fit_ranker(make_ranker(QUICK.get(name, name)), data)
    s, y = ranker.predict(data.X), data.y
    pairs = (data.qid[:, None] == data.qid) & (y[:, None] > y)
    assert (s[:, None] > s)[pairs].mean() > 0.6


@pytest.mark.parametrize("name", METHODS)
def test_models_of_methods_score_as_their_rankers(name, files, data):
    text = QUICK.get(name, name)
    run("train", "train.txt", "--method", text, "--out", "m.json", code=None)
    run("predict", "m.json", "vali.txt", "--out", "scores.txt")
    valid = read_letor("vali.txt")
    expected = fit_ranker(make_ranker(text, random_state=0), data).predict(valid.X)
    np.testing.assert_allclose(np.loadtxt("scores.txt"), expected, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("name", ["forest:n_estimators=5", "gbdt:n_estimators=5"])
def test_commands_that_take_a_model_take_trees(name, files):
    run("train", "train.txt", "--valid", "vali.txt", "--method", name, "--out", "m.json")
    found = run_json("evaluate", "vali.txt", "m.json")
    assert found["metrics"]["ndcg@10"]["mean"] > 0.5
    run("inspect", "m.json", "--report", "m.html")
    assert "splits" in (files / "m.html").read_text(encoding="utf-8")
    assert load_model("m.json").facts() == {"trees": 5}


def test_parameters_of_a_method():
    ranker = make_ranker("sparse: log, C=0.5, debias=true", n_threads=1, n_rounds=3)
    assert isinstance(ranker, SparseRankSVM)
    assert (ranker.penalty, ranker.C, ranker.debias, ranker.n_threads) == ("log", 0.5, True, 1)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nothing", "the method 'nothing' is not known; known are adarank, "),
        ("rankboost:n_round=3", "rankboost has no parameter 'n_round'; did you mean n_rounds"),
        ("rankboost:50", "rankboost has no parameter '50'"),
    ],
)
def test_wrong_methods(text, words):
    with pytest.raises(DataError, match=words):
        make_ranker(text)


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("forest:n_estimators=0", "'n_estimators' parameter of RandomForestRegressor must be"),
        ("forest:max_features=many", "'max_features' parameter of RandomForestRegressor must be"),
        ("gbdt:learning_rate=-1", "'learning_rate' parameter of HistGradientBoosting"),
        ("svr:C=x", "'C' parameter of LinearSVR must be"),
        ("lambdamart:n_estimators=x", "n_estimators is 'x'; expected a whole number"),
        ("lambdamart:learning_rate=-1", "learning_rate is -1; expected a finite number above 0"),
        ("lambdamart:max_leaf_nodes=1", "max_leaf_nodes is 1; expected a whole number"),
        ("lambdamart:min_samples_leaf=-4", "min_samples_leaf is -4; expected a whole number"),
        ("lambdamart:random_state=-1.5", "seed should be of type int"),
        ("gas:0", "n_features_to_select is 0; expected a whole number from 1 to 5"),
    ],
)
def test_wrong_parameters_get_a_sentence(method, words, files):
    assert words in error_of("train", "train.txt", "--method", method)


def test_weights_that_a_method_does_not_take(data):
    weighted = data.replace(query_weight=np.ones(data.n_queries))
    with pytest.raises(DataError, match="FSMRank takes no query_weight"):
        fit_ranker(make_ranker("fsmrank"), weighted)


def test_models_keep_the_names_of_features(data):
    named = data.replace(feature_names=list("abcde"), index_base=0)
    model = model_of(fit_ranker(make_ranker("rankboost:n_rounds=2"), named), named)
    assert (model.feature_names, model.index_base) == (list("abcde"), 0)


def test_report_and_json(files):
    text = run("train", "train.txt", "--valid", "vali.txt", "--method", "rankboost:n_rounds=2")
    assert "RankBoost(n_rounds=2)" in text.stdout
    found = run_json("train", "train.txt", "--valid", "vali.txt", "--method", "adarank")
    assert found["method"] == "AdaRank()"
    assert 0 < found["mean"] <= 1


@pytest.mark.parametrize("option", [("--C", "1"), ("--loss", "hinge"), ("--debias",)])
def test_options_of_the_trainer_are_refused(option, files):
    result = run("train", "train.txt", "--method", "rankboost", *option, code=2)
    assert f"{option[0]} is an option of linrank's own" in " ".join(result.stderr.split())


# Options of the trainer --------------------------------------------------------------------


def test_debias_on_the_command_line(files, data):
    run("train", "train.txt", "--penalty", "l1", "--C", "5", "--debias")
    expected = SparseRankSVM(C=5.0, debias=True).fit(data.X, data.y, qid=data.qid).coef_
    np.testing.assert_allclose(load_model("model.json").coef, expected, rtol=1e-4, atol=1e-9)
    assert "--debias needs a penalty" in run("train", "train.txt", "--debias", code=2).stderr


def test_margin_scale_on_the_command_line(files, data):
    options = "--loss", "domination", "--tol", "1e-8"
    run("train", "train.txt", *options, "--margin-scale", "0.5", "--C", "1")
    ranker = DominationRank(1.0, penalty="l2", margin=0.5, tol=1e-8)
    expected = ranker.fit(data.X, data.y, qid=data.qid).coef_
    np.testing.assert_allclose(load_model("model.json").coef, expected, rtol=1e-4)


def test_feature_costs_on_the_command_line(files):
    (files / "costs.txt").write_text("0\n1e9\n1e9\n1e9\n1e9\n")
    run("train", "train.txt", "--penalty", "l1", "--C", "1", "--feature-cost", "costs.txt")
    assert np.flatnonzero(load_model("model.json").coef).tolist() == [0]
    (files / "costs.txt").write_text("one\n")
    wrong = run("train", "train.txt", "--penalty", "l1", "--feature-cost", "costs.txt", code=2)
    assert "expected one number per line" in " ".join(wrong.stderr.split())


# Model files -------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_kernel_models_score_as_their_rankers(make, data, tmp_path):
    X = make(data.X)
    ranker = KernelRankSVM("polynomial", degree=2, C=0.1).fit(X, data.y, qid=data.qid)
    ranker.model_.save(tmp_path / "kernel.json")
    model = load_model(tmp_path / "kernel.json")
    np.testing.assert_allclose(model.predict(X), ranker.predict(X), rtol=1e-12)


@pytest.mark.parametrize("kernel", [np.dot, "precomputed"])
def test_kernels_that_no_file_can_hold(kernel, data):
    X = data.X @ data.X.T if kernel == "precomputed" else data.X
    ranker = KernelRankSVM(kernel).fit(X, data.y, qid=data.qid)
    with pytest.raises(DataError, match="which a model file cannot hold"):
        _ = ranker.model_


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kernel": "sigmoidal"}, "kernel is 'sigmoidal'; known choices"),
        ({"kernel": 3}, "kernel must be a name"),
        ({"params": {"gama": 1}}, "takes gamma"),
        ({"beta": [1.0]}, "damaged"),
        ({"params": {"gamma": "x"}}, "expected a finite number"),
        ({"params": {"gamma": [1]}}, "expected a finite number"),
        ({"anchors": [1.0]}, "not an object"),
        ({"anchors": {"data": [1.0]}}, "cannot reshape"),
        ({"n_features": 10**10}, "from 1 to 4194304"),
        ({"n_features": "2"}, "damaged"),
    ],
)
def test_damaged_kernel_models(change, words, data, tmp_path):
    ranker = KernelRankSVM(C=0.1).fit(data.X, data.y, qid=data.qid)
    path = tmp_path / "kernel.json"
    ranker.model_.save(path)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(FileFormatError, match=words):
        load_model(path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"indices": [0, 10**6]}, "not a valid sparse matrix"),
        ({"indices": [0, -(10**6)]}, "not a valid sparse matrix"),
        ({"indptr": [0, 10**6, 2]}, "not a valid sparse matrix"),
        ({"indptr": [0, 1, 10**6]}, "damaged"),
        ({"indptr": [0, 2]}, "damaged"),
        ({"data": [1.0, float("inf")]}, "damaged"),
        ({"data": [1.0, "x"]}, "data is not a list of numbers"),
    ],
)
@pytest.mark.parametrize("kind", ["kernel", "topics"])
def test_damaged_sparse_matrices(kind, change, words, tmp_path):
    X, path = sparse.csr_array(np.eye(2)), tmp_path / "model.json"
    kernel = KernelModel(X, np.ones(2), "linear", {})
    (kernel if kind == "kernel" else TopicsModel(X, ["1", "2"])).save(path)
    content = json.loads(path.read_text())
    (content["anchors"] if kind == "kernel" else content).update(change)
    path.write_text(json.dumps(content))
    with pytest.raises(FileFormatError, match=words):
        load_model(path)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_trees_score_as_in_lightgbm(make, tmp_path):
    """Ties with thresholds, many leaves, and a matrix of several blocks."""
    data = make_ranking(n_queries=500, docs_per_query=10, n_features=5, random_state=0)
    X = make(data.X.round(1) * (data.X > 0))
    ranker = LambdaMARTRanker(n_estimators=20, min_samples_leaf=1).fit(X, data.y, qid=data.qid)
    ranker.model_.save(tmp_path / "trees.json")
    model = load_model(tmp_path / "trees.json")
    np.testing.assert_allclose(model.predict(X), ranker.predict(X), rtol=1e-12)
    splits, gains = (column.values for column in model.columns())
    booster = ranker.estimator_.booster_
    assert splits.tolist() == booster.feature_importance("split").tolist()
    np.testing.assert_allclose(gains, booster.feature_importance("gain"), rtol=1e-4)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array, np.float32])
@pytest.mark.parametrize("ranker", [RandomForestRanker(n_estimators=7, random_state=0),
                                    GradientBoostingRanker(n_estimators=7)])  # fmt: skip
def test_trees_score_as_in_scikit_learn(ranker, make, tmp_path):
    """The scores are the same to the last bit, so that ties are the same, too."""
    data = make_ranking(n_queries=500, docs_per_query=10, n_features=5, random_state=0)
    dense = data.X.round(1) * (data.X > 0)
    X = make(dense)
    if sparse.issparse(X) and isinstance(ranker, GradientBoostingRanker):
        pytest.skip("this ranker takes dense features only")
    ranker.fit(X, data.y, qid=data.qid).model_.save(tmp_path / "trees.json")
    model = load_model(tmp_path / "trees.json")
    assert type(model) is TreeModel
    assert model.predict(X).tolist() == ranker.predict(X).tolist()
    assert model.count_used() == 5
    assert all(np.isfinite(column.values).all() for column in model.columns())


def test_gains_of_a_forest_are_those_of_scikit_learn(data):
    ranker = RandomForestRanker(n_estimators=1, random_state=0).fit(data.X, data.y, qid=data.qid)
    gain = ranker.model_.columns()[-1].values
    np.testing.assert_allclose(gain / gain.sum(), ranker.estimator_.feature_importances_)


def test_thresholds_of_forests_allow_for_rounding_to_single_precision():
    """Neighbours of the middle of two numbers, which go to the even one, and random numbers."""
    rng = np.random.default_rng(0)
    a = rng.normal(size=2000).astype(np.float32) * np.float32(10.0) ** rng.integers(-40, 30, 2000)
    b = np.nextafter(a, np.float32(np.inf))
    middle = 0.5 * (a.astype(float) + b)
    x = np.concatenate([a, b, *(np.nextafter(middle, way) for way in (-np.inf, 0, np.inf)), middle])
    for t in (a.astype(float), middle, np.nextafter(a.astype(float), -np.inf)):
        t = np.tile(t, 6)
        assert ((x <= thresholds_before_rounding(t)) == (x.astype(np.float32) <= t)).all()


def test_a_tree_without_splits_has_one_leaf(tmp_path):
    leaf = Tree.from_content({name: [] for name in Tree._fields} | {"value": [2.5]}, 3)
    LightGBMModel([leaf], 3).save(tmp_path / "leaf.json")
    assert load_model(tmp_path / "leaf.json").predict(np.zeros((2, 3))).tolist() == [2.5, 2.5]


TREE = {
    "feature": [1, 0], "threshold": [0.5, 0.5], "gain": [2.0, 1.0], "left": [1, -1],
    "right": [-3, -2], "value": [1.0, 2.0, 3.0],
}  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        {"feature": [1, 2]}, {"feature": [-1, 0]}, {"feature": [1]}, {"left": [0, -1]},
        {"left": [1, 0]}, {"left": [2, -1]}, {"right": [-4, -2]}, {"value": [1.0, 2.0]},
        {"value": [1.0, 2.0, float("nan")]}, {"threshold": [0.5, "x"]}, {"gain": None},
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("kind", [LightGBMModel, TreeModel])
def test_damaged_trees(kind, change, tmp_path):
    path = tmp_path / "trees.json"
    kind([Tree.from_content(TREE, 2)], 2).save(path)
    assert load_model(path).predict(np.eye(2)).tolist() == [2.0, 3.0]
    for trees in ([TREE | change], [change["feature"]] if "feature" in change else "trees"):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"trees": trees}))
        with pytest.raises(FileFormatError, match="damaged"):
            load_model(path)


def test_means_of_trees(tmp_path):
    path, tree = tmp_path / "trees.json", Tree.from_content(TREE, 2)
    TreeModel([tree, tree], 2, mean=True).save(path)
    assert load_model(path).predict(np.eye(2)).tolist() == [2.0, 3.0]
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | {"trees": []}))
    assert load_model(path).predict(np.eye(2)).tolist() == [0.0, 0.0]
    path.write_text(json.dumps(content | {"mean": 1}))
    with pytest.raises(FileFormatError, match="mean is not false or true"):
        load_model(path)


@pytest.mark.parametrize("n_features", [0, 10**12, 2**70, "2", True, None])
def test_trees_of_a_wrong_number_of_features(n_features, tmp_path):
    path = tmp_path / "trees.json"
    LightGBMModel([], 2).save(path)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"n_features": n_features}))
    with pytest.raises(FileFormatError, match="damaged: n_features is"):
        load_model(path)


def test_trees_of_categories_are_refused():
    text = "tree\n\nTree=0\nnum_cat=1\ndecision_type=1\n\nend of trees\n"
    with pytest.raises(DataError, match="trees of numbers only"):
        parse_trees(text)


# Topics ------------------------------------------------------------------------------------


@pytest.fixture
def topics(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    W = rng.normal(size=(3, 6))
    for name, n in (("train.txt", 80), ("test.txt", 40)):
        X = rng.normal(size=(n, 6)).round(4)
        lines = []
        for x, scores in zip(X, X @ W.T, strict=True):
            found = ",".join(str(10 * (t + 1)) for t in np.flatnonzero(scores > 1.5))
            lines.append(f"{found} " + " ".join(f"{f}:{v}" for f, v in enumerate(x, 1)))
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    return tmp_path


def test_topics_on_the_command_line(topics):
    text = run("train", "train.txt", "--topics", "--valid", "test.txt", "--out", "t.json").stdout
    assert "3 of 3 learnt" in text
    train = read_topics("train.txt")
    test = read_topics("test.txt", n_features=6, topics=train.topics)
    assert train.topics == ["10", "20", "30"]
    expected = MultiTopicRanker().fit(train.X, train.Y)
    run("predict", "t.json", "test.txt", "--out", "scores.txt")
    np.testing.assert_allclose(np.loadtxt("scores.txt"), expected.predict(test.X), atol=1e-9)
    found = run_json("evaluate", "test.txt", "t.json", "--metrics", "map,p@5")
    means = {name: entry["mean"] for name, entry in found["metrics"].items()}
    assert means == pytest.approx(expected.evaluate(test.X, test.Y, ["map", "p@5"]))
    run("evaluate", "test.txt", "t.json", "--per-query", "q.csv")
    assert [line.split(",")[0] for line in (topics / "q.csv").read_text().split()][1:] == [
        "10", "20", "30",
    ]  # fmt: skip


def test_topics_that_training_has_not_seen_are_left_out(tmp_path):
    path = tmp_path / "t.txt"
    path.write_text("5,7 1:1\n9 2:1\n")
    data = read_topics(path, topics=["9", "5"])
    assert data.Y.toarray().tolist() == [[0, 1], [1, 0]]


def test_topics_keep_all_their_digits(tmp_path):
    path = tmp_path / "t.txt"
    path.write_text("1234567,0.1 1:1\n1234568 2:1\n")
    data = read_topics(path)
    assert data.topics == ["0.1", "1234567", "1234568"]
    again = read_topics(path, topics=data.topics)
    assert (again.topics, again.Y.toarray().tolist()) == (data.topics, [[1, 1, 0], [0, 0, 1]])
    with pytest.raises(DataError, match="topics in files are numbers"):
        read_topics(path, topics=["sport"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b 1:2\n", "not a file of topics"),
        ("1_0 1:2\n", "not a file of topics: '1_0'"),
        ("1 1:2_0\n", "not a file of topics: '1:2_0'"),
        ("", "no documents"),
        ("1 x\n", "not a file of"),
    ],
)
def test_wrong_topic_files(text, words, tmp_path):
    path = tmp_path / "t.txt"
    path.write_text(text)
    with pytest.raises(FileFormatError, match=words):
        read_topics(path)


def test_topics_that_are_written_differently_are_different(tmp_path):
    path = tmp_path / "t.txt"
    path.write_text("007 1:1\n7 2:1\n3:1 # no topic\n")
    data = read_topics(path)
    assert (data.topics, data.Y.toarray().tolist()) == (["007", "7"], [[1, 0], [0, 1], [0, 0]])
