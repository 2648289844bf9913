"""Model files: written atomically, read without trust."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from importlib import import_module

import numpy as np
import pytest
from rich.console import Console

from linrank import DataError, FileFormatError, LinearModel, RankSVM, load_model
from linrank.cli.fitting import bar_table
from linrank.errors import FeatureRangeWarning
from linrank.model import FORMATS, Model
from problems import PAPERS

pytestmark = pytest.mark.interpreted


@pytest.fixture
def model():
    return LinearModel(
        [0.1, -2.0, 1e-300],
        feature_names=["a", "b", "c"],
        index_base=0,
        settings={"C": np.float64(0.5), "tol": 1e-3, "metric": None},
        training={"pairs": np.int64(7)},
    )


def test_round_trip_is_exact(model, tmp_path):
    path = tmp_path / "model.json"
    model.save(path)
    other = LinearModel.load(path)
    np.testing.assert_array_equal(other.coef, model.coef)
    assert other.feature_names == model.feature_names
    assert (other.index_base, other.training) == (0, {"pairs": 7})
    assert other.settings == {"C": 0.5, "tol": 1e-3, "metric": None}


def test_estimator_to_model(tmp_path):
    X, y = np.eye(4), np.array([3.0, 2, 1, 0])
    ranker = RankSVM(C=2.0, **PAPERS).fit(X, y)
    ranker.model_.save(tmp_path / "m.json")
    model = LinearModel.load(tmp_path / "m.json")
    np.testing.assert_array_equal(model.predict(X), ranker.predict(X))
    assert model.settings["C"] == 2.0
    assert model.training["status"] == "converged"
    assert model.training["pairs"] == 6


def test_names_and_largest(model):
    assert model.largest(2) == [("b", -2.0), ("a", 0.1)]
    assert LinearModel([1.0, 2.0]).names() == ["1", "2"]
    assert LinearModel([1.0, 2.0], index_base=0).names() == ["0", "1"]


def nested(depth):
    """Lists within each other."""
    return [nested(depth - 1)] if depth else []


def damage(content, **changes):
    content = dict(content) | changes
    return {key: value for key, value in content.items() if value != "REMOVED"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"format": "other"}, "not a linrank model"),
        ({"version": 99}, "written by a newer linrank"),
        ({"version": "x"}, "its version is not a number"),
        ({"weights": "REMOVED"}, "'weights' is missing"),
        ({"weights": [1.0, "import os", 2.0]}, "weights is not a list of numbers"),
        ({"weights": [1.0, True, 2.0]}, "weights is not a list of numbers"),
        ({"weights": [1.0]}, "feature_names has 3 entries for 1 features"),
        ({"n_features": 4}, "3 weights where n_features is 4"),
        ({"feature_names": "abc"}, "feature_names is not a list of names"),
        ({"index_base": 7}, "index_base is 7"),
        ({"index_base": True}, "index_base is True"),
        ({"index_base": 1.0}, "index_base is 1.0"),
        ({"index_base": [0]}, r"index_base is \[0\]"),
        ({"version": True}, "its version is not a number"),
        ({"version": 10**400}, "written by a newer linrank"),
        ({"weights": [1.0, 10**400, 2.0]}, "damaged"),
        ({"weights": [[1.0], 1.0, 2.0]}, "weights is not a list of numbers"),
        ({"weights": {"0": 1.0}}, "weights is not a list of numbers"),
        ({"weights": [], "feature_names": None, "n_features": 0}, "n_features is 0"),
        ({"n_features": 10**400}, "n_features is a number of more than 40 digits"),
        ({"n_features": None}, "n_features is None"),
        ({"feature_names": ["a", "b", None]}, "feature_names is not a list of names"),
        ({"settings": 3}, "settings is not an object"),
        ({"training": [["a", 1]]}, "training is not an object"),
        ({"settings": {"a": nested(19)}}, "it is nested more than 20 levels deep"),
        ({"settings": {"a": nested(800)}}, "it is nested more than 20 levels deep"),
    ],
)
def test_damaged_files_are_refused(model, tmp_path, changes, words):
    path = tmp_path / "model.json"
    model.save(path)
    path.write_text(json.dumps(damage(json.loads(path.read_text()), **changes)))
    with pytest.raises(FileFormatError, match=words) as caught:
        LinearModel.load(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[1, 2]", "\xff", '{"format": "linrank-model"}', "[" * 100_000, '{"a":' * 100_000,
        "9" * 5000, '{"version": %s}' % ("9" * 5000), '{"format": 1, "format": "linrank-model"}',
        "\0", "null", '"linrank-model"', "\ufeff{}".encode().decode("latin-1"),
    ],
)  # fmt: skip
def test_what_is_not_a_model_is_refused(tmp_path, text):
    path = tmp_path / "model.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(FileFormatError, match=r"model\.json"):
        LinearModel.load(path)


def test_weights_in_the_file_must_be_finite(model, tmp_path):
    path = tmp_path / "model.json"
    model.save(path)
    path.write_text(path.read_text().replace("-2.0", "NaN"))
    with pytest.raises(FileFormatError, match="finite"):
        LinearModel.load(path)


def test_every_truncation_is_refused(model, tmp_path):
    path = tmp_path / "model.json"
    model.save(path)
    whole = path.read_bytes().rstrip()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(FileFormatError):
            LinearModel.load(path)


def test_missing_file_and_missing_folder(model, tmp_path):
    with pytest.raises(FileFormatError, match="no such file; expected a file that"):
        LinearModel.load(tmp_path / "none.json")
    with pytest.raises(DataError, match="nowhere"):
        model.save(tmp_path / "nowhere" / "model.json")


def test_a_failed_save_keeps_the_old_model(model, tmp_path):
    path = tmp_path / "model.json"
    model.save(path)
    before = path.read_bytes()
    model.scaled_coef[0] = float("nan")  # JSON cannot hold it: writing fails half-way
    with pytest.raises(ValueError, match="JSON"):
        model.save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["model.json"]


def test_wrong_shape_at_predict(model):
    with pytest.raises(DataError, match="the model has 3 features"):
        model.predict(np.ones((2, 4)))


def test_any_format_is_loaded_by_its_name(model, tmp_path):
    from linrank.baselines.rankboost import StumpModel, Stumps

    path = tmp_path / "model.json"
    model.save(path)
    assert type(load_model(path)) is LinearModel
    StumpModel(Stumps(np.array([0]), np.array([0.5]), np.array([1.0])), n_features=2).save(path)
    assert type(load_model(path)) is StumpModel
    with pytest.raises(FileFormatError, match=r"'linrank-stumps', but 'linrank-model' is expected"):
        LinearModel.load(path)


def test_every_format_is_registered():
    for module, _ in FORMATS.values():
        import_module(module)
    kinds = Model.__subclasses__()
    kinds += [more for kind in kinds for more in kind.__subclasses__()]
    assert {kind.format: (kind.__module__, kind.__name__) for kind in kinds} == FORMATS


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            '{"format": "onnx"}',
            "its format is 'onnx'; expected 'linrank-model' or 'linrank-kernel' or",
        ),
        ('{"format": ["linrank-model"]}', r"its format is \['linrank-model'\]; expected"),
        ("{}", 'it has no "format"'),
        ("[1]", 'it has no "format"'),
    ],
)
def test_unknown_formats_are_refused(tmp_path, text, words):
    path = tmp_path / "model.json"
    path.write_text(text)
    with pytest.raises(FileFormatError, match=rf"model\.json: not a linrank model: {words}"):
        load_model(path)


def test_the_module_of_models_loads_no_baseline():
    code = "import sys, linrank.model; sys.exit(any('baselines' in name for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


# Small files must not take much time or memory -----------------------------------------------

TREE = {"feature": [0], "threshold": [0.5], "gain": [1.0], "left": [-1], "right": [-2]}
CURVE = {"feature": 0, "knots": [0.5], "levels": False, "pieces": [[0.0], [1.0], [0.0]]}
ROWS = {"indptr": [0, 1], "indices": [0], "data": [1.0]}
SMALL = {
    "linrank-model": {"weights": [1.0, 0.0]},
    "linrank-kernel": {"kernel": "linear", "params": {}, "beta": [1.0], "anchors": ROWS},
    "linrank-additive": {
        "curves": [CURVE | dict.fromkeys(("band", "counts", "mean", "spread"))],
        "surfaces": [],
    },
    "linrank-lightgbm": {"trees": [TREE | {"value": [0.0, 1.0]}]},
    "linrank-trees": {"trees": [TREE | {"value": [0.0, 1.0]}], "mean": True},
    "linrank-stumps": {"features": [0], "thresholds": [0.5], "alphas": [1.0]},
    "linrank-topics": {"topics": ["1"], **ROWS},
}


def write_small(path, kind, **changes):
    shared = {"version": 2, "index_base": 1, "feature_names": None, "settings": {}, "training": {}}
    content = {"format": kind, "n_features": 2, **shared, **SMALL[kind], **changes}
    path.write_text(json.dumps(content))


@pytest.mark.parametrize("kind", FORMATS)
def test_small_files_of_every_format_are_read(kind, tmp_path):
    path = tmp_path / "model.json"
    write_small(path, kind)
    model = load_model(path)
    assert "2 features" in repr(model)
    assert model.predict(np.eye(2)).shape[0] == 2


LARGE = {
    "linrank-model": {"weights": [1e308, -1e308]},
    "linrank-kernel": {"beta": [1e308]},
    "linrank-trees": {"trees": 2 * [TREE | {"value": [0.0, 1e308]}], "mean": False},
    "linrank-topics": {"data": [1e308]},
}


@pytest.mark.parametrize("kind", LARGE)
@pytest.mark.parametrize("row", [[100.0, 0.0], [100.0, 100.0]])
def test_scores_that_overflow_are_an_error(kind, row, tmp_path):
    path = tmp_path / "model.json"
    write_small(path, kind, **LARGE[kind])
    with pytest.raises(DataError, match=r"the score of row 1 is (inf|nan|-inf), because"):
        load_model(path).predict([[0.0, 0.0], row])


def test_bars_of_very_large_numbers_are_drawn():
    table = bar_table(["feature"], [["a"], ["b"]], [1e308, -1e308])
    Console(file=io.StringIO()).print(table)


@pytest.mark.parametrize("n", [-1, 0, 2**40, 10**400, 2.0, True, None, "2"])
@pytest.mark.parametrize("kind", FORMATS)
def test_numbers_of_features_that_no_model_has(kind, n, tmp_path):
    path = tmp_path / "model.json"
    write_small(path, kind, n_features=n)
    with pytest.raises(FileFormatError, match=r"n_features is .*; expected a whole number"):
        load_model(path)


@pytest.mark.parametrize("kind", FORMATS)
def test_the_largest_number_of_features_takes_no_name_for_each(kind, tmp_path, monkeypatch):
    path = tmp_path / "model.json"
    model_class = getattr(import_module(FORMATS[kind][0]), FORMATS[kind][1])
    n = model_class.most_features
    write_small(path, kind, n_features=n)
    if kind == "linrank-model":  # its file must hold a weight for each feature
        with pytest.raises(FileFormatError, match=f"2 weights where n_features is {n}"):
            load_model(path)
        return
    model = load_model(path)
    monkeypatch.setattr(Model, "names", lambda _: pytest.fail("all names are made"))
    assert f"{n} features" in repr(model).replace(",", "")
    model._repr_html_()
    model.save(path)
    write_small(path, kind, n_features=n + 1)
    with pytest.raises(FileFormatError, match="n_features is"):
        load_model(path)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "1" + "0" * 400])
@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("name", ["settings", "training"])
def test_settings_hold_finite_numbers(kind, name, number, tmp_path):
    path = tmp_path / "model.json"
    write_small(path, kind, **{name: {"penalty": {"l1": [0.5, "HERE"]}}})
    path.write_text(path.read_text().replace('"HERE"', number))
    with pytest.raises(FileFormatError, match=f"{name} has a number that is not finite"):
        load_model(path)


def test_settings_that_json_cannot_hold_are_saved_as_text(tmp_path):
    path = tmp_path / "model.json"
    LinearModel([1.0], settings={"limits": (1, np.inf), "C": np.nan}).save(path)
    assert load_model(path).settings == {"limits": [1, "Infinity"], "C": "NaN"}


def test_repeated_names_are_found_in_one_pass(tmp_path):
    """The number of comparisons of names must not grow like the square of their number."""
    path = tmp_path / "model.json"
    names = [f'"{k}": 0' for k in range(300_000)]
    path.write_text("{" + ", ".join([*names, names[-1]]) + "}")
    with pytest.raises(FileFormatError, match="'299999' is given twice"):
        load_model(path)


def test_curves_of_high_degree_are_refused(tmp_path):
    path = tmp_path / "model.json"
    curve = SMALL["linrank-additive"]["curves"][0] | {"pieces": [[0.0] * 50] * 3}
    write_small(path, "linrank-additive", curves=[curve])
    with pytest.raises(FileFormatError, match="pieces has degree 49; expected 15 at most"):
        load_model(path)


def test_small_arrays_are_scored_at_once_and_others_by_more_checks():
    """`quick_scores` gives the scores of `predict`, or None if `predict` must check or warn."""
    X = np.random.default_rng(0).uniform(size=(40, 3))
    ranker = RankSVM(C=1.0, **PAPERS).fit(X, np.arange(40) % 3)
    model = ranker.model_
    for rows in (X[:1], X[:7], X[::2], np.asfortranarray(X), X.astype(np.float32)):
        quick = model.quick_scores(rows)
        np.testing.assert_allclose(quick, model.predict(rows.tolist()), rtol=1e-12)
        np.testing.assert_array_equal(quick, ranker.predict(rows))
    for value in (np.nan, np.inf, 1e308, 4.0):  # a value at 4 is three widths beyond the range
        wild = X[:4].copy()
        wild[2, 1] = value
        assert model.quick_scores(wild) is None
    for rows in (X[:, :2], X[:0], X[None], X.tolist(), X.astype(int)):
        assert model.quick_scores(rows) is None
    with pytest.warns(FeatureRangeWarning, match="far outside its range"):
        ranker.predict(np.vstack([X[:4], [[0.5, 40.0, 0.5]]]))
