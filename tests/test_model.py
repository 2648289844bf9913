"""Model files: written atomically, read without trust."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module

import numpy as np
import pytest

from linrank import DataError, FileFormatError, LinearModel, RankSVM, load_model
from linrank.model import FORMATS, Model

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
    ranker = RankSVM(C=2.0).fit(X, y)
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
    from linrank.baselines.stumps import StumpModel, Stumps

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
