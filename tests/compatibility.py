"""What a released version promises: call signatures, command lines and files.

Each folder in ``tests/compat`` holds what one released version had. ``test_compatibility.py``
compares the present version with it. A release records its own folder once, from the root of the
repository, and never changes it afterwards:

    PYTHONPATH=src .venv/bin/python tests/compatibility.py tests/compat/0.1
"""

from __future__ import annotations

import inspect
import json
import sys
from enum import Enum, EnumType
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Literal, get_args, get_origin

import numpy as np
import pandas
import typer
from scipy.sparse import csr_array

import linrank
from linrank import baselines
from linrank.cli.app import app

METHODS = ("__init__", "fit", "predict")
# Packages whose `__all__` lists public names, beside `linrank` itself.
PACKAGES = (
    "baselines", "dask", "fusion", "losses", "metrics", "penalties", "preferences.diagnosis",
    "solvers", "statistics", "study",
)  # fmt: skip
# Public names that no `__all__` of these packages lists. `path` is where version 0.1 had them.
MORE = ("path.make_problem", "path.regularization_path", "training.Trainer")
PLAIN = (bool, int, float, str, type(None))
UNKNOWN = "<object>"  # a default that JSON cannot hold, and that is not compared


def public_callables() -> dict[str, object]:
    """Return every public function and class by its name below `linrank`."""
    found = {name: getattr(linrank, name) for name in linrank.__all__}
    names = [f"{home}.{name}" for home in PACKAGES for name in package(home).__all__]
    for name in (*names, *MORE):
        home, _, last = name.rpartition(".")
        value = getattr(package(home), last)
        if not any(value is known for known in found.values()) or name in MORE:
            found[name] = value
    return {
        name: value
        for name, value in found.items()
        if inspect.isfunction(value)
        or (inspect.isclass(value) and not issubclass(value, (Exception, Enum)))
    }


def package(name: str) -> ModuleType:
    """Return a package of `linrank`; what version 0.1 had in `path` is now in `linrank`."""
    return linrank if name == "path" else import_module(f"linrank.{name}")


@cache
def signatures() -> dict[str, list[dict]]:
    """Describe the parameters of every public function, and of METHODS of every public class."""
    described = {}
    for name, value in public_callables().items():
        if not inspect.isclass(value):
            described[name] = parameters(value)
            continue
        for method in METHODS:
            if inspect.isfunction(getattr(value, method, None)):
                described[f"{name}.{method}"] = parameters(getattr(value, method))[1:]
    return described


def parameters(function) -> list[dict]:
    """Describe the parameters of a function: name, kind, and the default if there is one."""
    described = []
    for parameter in inspect.signature(function).parameters.values():
        entry = {"name": parameter.name, "kind": parameter.kind.name}
        if parameter.default is not parameter.empty:
            entry["default"] = plain(parameter.default)
        described.append(entry)
    return described


def plain(value):
    """Return a default as JSON holds it, and UNKNOWN for an object."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    return value if isinstance(value, PLAIN) else UNKNOWN


def commands() -> dict[str, dict[str, dict]]:
    """Describe all arguments and options of every command by their names."""
    group = typer.main.get_command(app)
    described = {"": options(group)}
    for name, command in group.commands.items():
        described[name] = options(command)
    return described


def options(command) -> dict[str, dict]:
    """Describe the arguments and options of one command."""
    return {
        "/".join([*option.opts, *option.secondary_opts]): {
            "argument": option.param_type_name == "argument",
            "required": option.required,
            "takes_value": not getattr(option, "is_flag", False),
            "multiple": getattr(option, "multiple", False),
            "default": plain(option.default),
            "choices": choices(option),
        }
        for option in command.params
    }


def choices(option) -> list[str]:
    """Return the values that an option may have, if they are listed."""
    if hasattr(option, "type"):  # typer before version 0.29 uses the types of click
        return [str(getattr(c, "value", c)) for c in getattr(option.type, "choices", ())]
    kind = option.type_descriptor.annotation
    if isinstance(kind, EnumType):
        return [str(member.value) for member in kind]
    return [str(value) for value in get_args(kind)] if get_origin(kind) is Literal else []


def make_data() -> linrank.RankingData:
    """Make the documents that the models are trained on and that the store holds."""
    random = np.random.default_rng(0)
    X = np.round(np.maximum(random.normal(size=(30, 4)), 0), 3)
    y = np.clip(np.round(X @ [1.0, 0.5, 0.0, 0.0] + 1), 0, 2)
    return linrank.RankingData(X, y, qid=[f"q{i // 6}" for i in range(30)])


def record_files(folder: Path) -> None:
    """Write a model of each kind, a store, and the predictions that belong to them."""
    data = make_data()
    frame = pandas.DataFrame(data.X, columns=["bm25", "pagerank", "length", "Zahl der Wörter"])
    fitted = {
        "ranksvm": linrank.RankSVM(C=0.1).fit(frame, data.y, qid=data.qid),
        "sparse": linrank.SparseRankSVM(C=0.1, penalty="l1").fit(data.X, data.y, qid=data.qid),
        "stumps": baselines.RankBoost(n_rounds=5).fit(data.X, data.y, qid=data.qid),
        "additive": linrank.AdditiveRanker(C=0.1, n_bins=4, interactions=1).fit(data),
        "kernel": linrank.KernelRankSVM(C=0.1, gamma=0.5).fit(data.X, data.y, qid=data.qid),
        "topics": linrank.MultiTopicRanker(linrank.DominationRank(C=5.0)).fit(
            data.X, (data.y[:, None] > [0, 1]).astype(float)
        ),
    }
    predictions = {}
    for name, ranker in fitted.items():
        ranker.model_.save(folder / f"{name}.json")
        predictions[name] = ranker.model_.predict(data.X).tolist()
    linrank.save_store(data, folder / "dense.store")
    sparse = linrank.RankingData(csr_array(data.X), data.y, qid=[i // 6 for i in range(30)])
    linrank.save_store(sparse, folder / "csr.store")
    content = {"X": data.X.tolist(), "y": data.y.tolist(), "qid": data.qid.tolist()}
    write_json(folder / "expected.json", {**content, "predictions": predictions})


def write_json(path: Path, content: dict) -> None:
    """Write an object with one line for each of its names, so that a difference can be read."""
    lines = (f"{json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}" for k, v in content.items())
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def record(folder: Path) -> None:
    """Record what this version promises."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "signatures.json", signatures())
    write_json(folder / "commands.json", commands())
    record_files(folder)


if __name__ == "__main__":
    record(Path(sys.argv[1]))
