"""Campaign "models": damaged model files of every format.

A file must be refused with one sentence, or hold a model that can be shown, used and saved. A small
file must not take much memory or time.
"""

from __future__ import annotations

import json
import resource
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from linrank import (
    AdditiveRanker,
    DominationRank,
    KernelRankSVM,
    MultiTopicRanker,
    RankSVM,
    baselines,
    load_model,
    make_ranking,
    write_letor,
)
from linrank.export import TARGETS
from linrank.model.model import FORMATS

from .campaign import Campaign, Case
from .damage import MEMORY, call, damage_bytes, damage_json
from .rankers import RANKERS
from .sentences import tried

BUDGET = 5.0  #: CPU seconds that a call may take; calls with undamaged files take some milliseconds
WIDEST = 100_000  #: features of a model with which dense rows are scored
ENTRIES = 200_000  #: entries of an object with one repeated name; a quadratic check takes for ever
KINDS = (
    "RankSVM",
    "RankSVM missing",
    "SparseRankSVM",
    "AdditiveRanker",
    "RankBoost",
    "PAMIR",
    "LambdaMARTRanker",
    "KernelRankSVM",
    "RandomForestRanker",
    "GradientBoostingRanker",
)
SIZES = [-1, 0, 10**5, 2**24 - 1, 2**24, 5 * 10**7, 2**31 - 1, 2**31, 2**40, 2**62, 2**63, 10**30]
NAMES = ["", " ", "\x00", "\ufffe", "\uffff", "\ud800", "</script>", "x" * 100_000, "\x1b[2J", "a"]


class Models(NamedTuple):
    """The undamaged files, some data, and the rows that are scored."""

    files: list[Path]
    data: Path
    X: Any


def prepare(folder: Path) -> Models:
    """Save models of all formats, with and without names."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    warnings.simplefilter("ignore")
    data = make_ranking(8, (3, 6), 4, n_levels=3, noise=1.0, random_state=0)
    X = np.round(data.X, 1)
    rankers: dict[str, Any] = {name: RANKERS[name]() for name in KINDS}
    rankers |= {
        "query": RankSVM(scale="query", bounds=(0.0, None)),
        "interactions": AdditiveRanker(n_bins=3, interactions=2, categories=[1], monotone={0: 1}),
        "sparse kernel": KernelRankSVM("linear"),
        "stumps missing": baselines.RankBoost(3, missing="abstain"),
    }
    files = []
    for name, ranker in rankers.items():
        for names in (None, ["a", "b", "c", "d"]):
            given = sparse.csr_array(X) if name.startswith("sparse") else X
            ranker.fit(given, data.y, data.qid)
            if not hasattr(ranker, "model_"):
                continue
            ranker.model_.feature_names = names
            files.append(folder / f"{name}, {'with' if names else 'without'} names.json")
            ranker.model_.save(files[-1])
    labels = np.column_stack([data.y > 0, data.y > 1]).astype(float)
    files.append(folder / "topics.json")
    MultiTopicRanker(DominationRank(5.0)).fit(X, labels).model_.save(files[-1])
    found = {json.loads(file.read_text())["format"] for file in files}
    assert found == set(FORMATS), f"no model of {set(FORMATS) - found}"
    write_letor(folder / "data.txt", data)
    return Models(files, folder / "data.txt", X)


# Damage


def change_size(rng: np.random.Generator, text: str) -> str:
    """Give the model another number of features."""
    content = json.loads(text)
    content["n_features"] = SIZES[rng.integers(len(SIZES))]
    if rng.random() < 0.5:
        content["feature_names"] = None
    return json.dumps(content)


def change_names(rng: np.random.Generator, text: str) -> str:
    """Give features names that are difficult to show."""
    content = json.loads(text)
    count = content["n_features"]
    content["feature_names"] = [NAMES[k] for k in rng.permutation(len(NAMES))[:count]]
    return json.dumps(content)


def change_record(rng: np.random.Generator, text: str) -> str:
    """Add a value that JSON cannot hold, or a difficult text, to a record of the training."""
    content = json.loads(text)
    value = [float("nan"), float("inf"), 10**400, NAMES[5], [[float("nan")]], {"x": 1e400}]
    content[str(rng.choice(["settings", "training"]))]["C"] = value[rng.integers(len(value))]
    return json.dumps(content)


def repeat_entry(rng: np.random.Generator, text: str) -> str:
    """Repeat an entry, in an object that may be large."""
    count = ENTRIES if rng.random() < 0.2 else 2
    entries = "".join(f'"k{k}": 0, ' for k in range(count))
    return text.replace('"settings": {', f'"settings": {{{entries}"k{count - 1}": 1, ', 1)


def change_list(rng: np.random.Generator, text: str) -> str:
    """Shorten, lengthen or reorder a list."""
    content, lists = json.loads(text), []

    def visit(node: Any) -> None:
        lists.extend([node] if isinstance(node, list) and node else [])
        for below in node.values() if isinstance(node, dict) else node:
            if isinstance(below, dict | list):
                visit(below)

    visit(content)
    chosen = lists[rng.integers(len(lists))]
    place = int(rng.integers(len(chosen)))
    changes: list[Callable[[], Any]] = [
        lambda: chosen.pop(place),
        lambda: chosen.append(chosen[place]),
        lambda: chosen.extend(chosen * 1000),
        lambda: chosen.reverse(),
        lambda: chosen.clear(),
    ]
    changes[rng.integers(len(changes))]()
    return json.dumps(content)


def change_bytes(rng: np.random.Generator, text: str) -> str:
    """Replace some bytes."""
    return damage_bytes(rng, text.encode()).decode(errors="surrogateescape")


DAMAGE = (damage_json, damage_json, damage_json, change_size, change_names, change_record,
          repeat_entry, change_list, change_list, change_bytes)  # fmt: skip


# Use


def timed(case: Case, about: str, work: Callable[..., Any], *arguments: Any) -> Any:
    """Return what `tried` returns; a call that takes long is a defect."""
    started = time.process_time()
    found = tried(case, about, work, *arguments)
    took = time.process_time() - started
    if took > BUDGET:
        case.wrong(f"{about}: takes {took:.0f} s of CPU time")
    return found


def use(case: Case, about: str, path: Path) -> None:
    """Load a model, and show, use and save it if it is not refused."""
    model = timed(case, f"{about}: load", load_model, path)
    if model is None:
        return
    case.saw("loaded")
    if model.n_features < 1:
        case.wrong(f"{about}: a model with {model.n_features} features")
        return
    for what in (repr, lambda model: model._repr_html_() or True):
        timed(case, f"{about}: shown", what, model)
    X = case.state.X
    if model.n_features != X.shape[1]:
        wide = model.n_features > WIDEST
        X = sparse.csr_array((2, model.n_features)) if wide else np.zeros((2, model.n_features))
    qid = np.zeros(X.shape[0], int)
    scores = timed(case, f"{about}: predict", model.predict, X, qid)
    if scores is not None and not np.isfinite(scores).all():
        case.wrong(f"{about}: scores that are not finite")
        return
    copy = path.with_name("copy.json")
    timed(case, f"{about}: save", lambda: model.save(copy) or True)
    if not copy.exists():
        case.wrong(f"{about}: loaded, but cannot be saved")
        return
    again = timed(case, f"{about}: load again", load_model, copy)
    if again is None:
        case.wrong(f"{about}: saved, but cannot be loaded")
        return
    if not np.array_equal(timed(case, f"{about}: predict again", again.predict, X, qid), scores):
        case.wrong(f"{about}: other scores after save and load")


def command(case: Case, about: str, path: Path) -> None:
    """Run a command with a model."""
    out = case.folder / "out"
    target = list(TARGETS)[case.rng.integers(len(TARGETS))]
    commands = [
        ("inspect", path),
        ("inspect", path, "--report", f"{out}.html"),
        ("export", path, "--to", target, "--out", out),
        ("predict", path, case.state.data),
        ("evaluate", case.state.data, path),
    ]
    call(case, about, *commands[case.rng.integers(len(commands))])


def run(case: Case) -> None:
    """Damage one model file and use it."""
    source = case.state.files[case.rng.integers(len(case.state.files))]
    damage = DAMAGE[case.rng.integers(len(DAMAGE))]
    path = case.folder / "model.json"
    text = damage(case.rng, source.read_text(encoding="utf-8"))
    path.write_text(text, encoding="utf-8", errors="surrogateescape")
    about = f"{source.stem} ({damage.__name__})"
    case.units += 1
    use(case, about, path)
    if case.rng.random() < 0.3:
        command(case, about, path)


CAMPAIGN = Campaign("models", "model files", 3000, 6.0, run, prepare, patience=120.0)
