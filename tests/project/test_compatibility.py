"""Call signatures, command lines and files of earlier versions still work.

``compatibility.py`` says how the folders in ``tests/compat`` were recorded. Additions are allowed:
new parameters, options and choices. What an earlier version had must stay.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import typer

import compatibility
import linrank
from commandline import run
from linrank.cli.app import app

RECORDED = sorted((Path(__file__).parents[1] / "compat").iterdir())
VERSIONS = [pytest.param(folder, id=folder.name) for folder in RECORDED]


def read(folder: Path, name: str) -> dict:
    return json.loads((folder / name).read_text(encoding="utf-8"))


MODELS = [
    pytest.param(folder, name, id=f"{folder.name} {name}")
    for folder in RECORDED
    for name in read(folder, "expected.json")["predictions"]
]


def cases(name: str) -> list:
    """Each entry of a recorded file, with its key."""
    return [
        pytest.param(key, old, id=f"{folder.name} {key or 'linrank'}")
        for folder in RECORDED
        for key, old in read(folder, name).items()
    ]


@pytest.mark.parametrize(("folder", "name"), MODELS)
def test_models_are_read_and_predict_the_same(folder, name, here):
    expected = read(folder, "expected.json")
    linrank.write_letor("data.txt", linrank.RankingData(expected["X"], expected["y"]))
    run("predict", folder / f"{name}.json", "data.txt", "--out", "scores.txt")
    scores = np.loadtxt("scores.txt")
    np.testing.assert_allclose(scores, expected["predictions"][name], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("folder", VERSIONS)
def test_linear_models_keep_what_they_knew(folder):
    expected, stored = read(folder, "expected.json"), read(folder, "ranksvm.json")
    model = linrank.LinearModel.load(folder / "ranksvm.json")
    assert model.feature_names == ["bm25", "pagerank", "length", "Zahl der Wörter"]
    assert model.settings == stored["settings"]
    assert model.training == stored["training"]
    scores = model.predict(np.array(expected["X"]))
    np.testing.assert_allclose(scores, expected["predictions"]["ranksvm"], rtol=1e-12, atol=1e-14)
    assert np.count_nonzero(linrank.LinearModel.load(folder / "sparse.json").coef) < 4


@pytest.mark.parametrize("folder", VERSIONS)
def test_a_saved_model_is_a_warm_start(folder, here):
    expected = read(folder, "expected.json")
    data = linrank.RankingData(expected["X"], expected["y"], qid=expected["qid"])
    linrank.write_letor("data.txt", data)
    model = folder / "ranksvm.json"
    run("train", "data.txt", "--C", "0.1", "--warm-start", model, "--out", "model.json")


@pytest.mark.parametrize("folder", VERSIONS)
@pytest.mark.parametrize("name", ["dense", "csr"])
def test_stores_are_read(folder, name, here):
    expected = read(folder, "expected.json")
    data = linrank.open_store(folder / f"{name}.store")
    X = data.X if name == "dense" else data.X.toarray()
    np.testing.assert_array_equal(X, expected["X"])
    np.testing.assert_array_equal(data.y, expected["y"])
    assert [str(q).removeprefix("q") for q in data.qid] == [q[1:] for q in expected["qid"]]
    papers = ("--normalize", "none", "--scale", "none")
    run("train", folder / f"{name}.store", "--C", "0.1", *papers, "--out", "model.json")
    coef = linrank.LinearModel.load("model.json").coef
    old = read(folder, "ranksvm.json")["weights"]
    np.testing.assert_allclose(coef, old, atol=1e-2)  # both are at the tolerance of the solver


@pytest.mark.parametrize(("name", "old"), cases("signatures.json"))
def test_calls_are_accepted(name, old):
    now = compatibility.signatures()[name]
    by_name = {parameter["name"]: parameter for parameter in now}
    for parameter in old:
        if parameter["kind"].startswith("VAR_"):
            continue
        found = by_name.get(parameter["name"])
        assert found, f"{name} has lost the parameter {parameter['name']!r}"
        if "default" in parameter:
            old_default, new = parameter["default"], found.get("default")
            assert kept_or_changed(parameter["name"], old_default, new)
        assert accepts(found["kind"], parameter["kind"])
    assert positions(now)[: len(positions(old))] == positions(old)
    added = [p for p in now if p["name"] not in {p["name"] for p in old}]
    assert all("default" in p or p["kind"].startswith("VAR_") for p in added)


#: Defaults that a version after 0.2 has changed: the old ones and the new ones. The changelog names
#: the arguments that give the old results.
CHANGED_DEFAULTS = {
    "tol": (1e-3, (None, 1e-6)),
    "C": (1.0, (10.0, 100.0)),
    "normalize": (None, ("pairs", [None, "queries"])),
    "scale": (None, ("auto",)),
}


def kept_or_changed(name: str, old: object, new: object) -> bool:
    """Whether a default is that of the old version, or one that was changed on purpose."""
    before, after = CHANGED_DEFAULTS.get(name, (old, ()))
    return old in (compatibility.UNKNOWN, new) or (old == before and new in after)


def accepts(kind: str, old: str) -> bool:
    """Whether a parameter can be passed as it could be."""
    return kind in {old, "POSITIONAL_OR_KEYWORD"}


def positions(parameters: list[dict]) -> list[str]:
    """The names of parameters that may be passed by position, in their order."""
    return [p["name"] for p in parameters if p["kind"].startswith("POSITIONAL")]


@pytest.mark.parametrize(("name", "old"), cases("commands.json"))
def test_options_are_accepted(name, old):
    group = typer.main.get_command(app)
    command = group.commands[name] if name else group
    now = compatibility.options(command)
    arguments = [key for key, option in old.items() if option["argument"]]
    assert [key for key, option in now.items() if option["argument"]][: len(arguments)] == arguments
    by_name = {text: option for option in command.params for text in option.opts}
    described = {text: entry for key, entry in now.items() for text in key.split("/")}
    for key, option in old.items():
        for text in key.split("/"):
            assert text in described, f"linrank {name} has lost {text}"
            assert described[text]["takes_value"] == option["takes_value"]
            assert described[text]["required"] <= option["required"]
            if option["default"] is not None:  # None says only that nothing was given
                new = described[text]["default"]
                assert kept_or_changed(text.lstrip("-"), option["default"], new)
        for choice in option["choices"]:
            with command.make_context(name, [], resilient_parsing=True) as context:
                by_name[key].process_value(context, choice)  # raises an error if it is refused


# Command lines that version 0.1 accepts.
COMMAND_LINES = [
    "train train.txt --valid vali.txt --out model.json",
    "train train.txt --C 0.1 --penalty l1 --out model.json",
    "train train.txt --valid vali.txt --penalty log --shape 0.2 --rule 1se --metric map",
    "train train.txt --folds 3 --metric map --flavour letor4",
    "train train.txt --C 0.01 --solver tron-paper --tol 1e-3 --max-iter 50",
    "train train.txt --C 0.01 --rescale slack --delta dcg --counting explicit --normalize queries",
    "train train.txt --C 0.01 --rescale margin --delta label-squared --pairs adjacent",
    "train train.txt --C 0.01 --loss domination --solver coordinate-descent",
    "train train.txt --C 0.01 --loss hinge --solver smoothing --threads 1 --float32",
    "train train.txt --C 0.01 --solver sgd-pairs --seed 3 --max-iter 3",
    "path train.txt --valid vali.txt --grid 2^-5:2^-2 --penalty elastic_net --out path.json",
    "path train.txt --valid vali.txt --grid 0.01,0.1 --loss huber --counting fenwick",
    "convert train.txt train.store --float32 --index-base 1",
    "inspect train.txt --top 3",
]


@pytest.mark.slow
@pytest.mark.parametrize("line", COMMAND_LINES)
def test_command_lines_run(line, letor, here):
    for name in ("train.txt", "vali.txt"):
        (here / name).write_bytes((letor / name).read_bytes())
    code = None if "sgd" in line or "tron-paper" in line else 0
    result = run(*line.split(), "--json", code=code)
    assert json.loads(result.stdout)
