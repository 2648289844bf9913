"""Campaign "damage": damaged files and stores.

A command must give the right result, or one error message and exit code 2. A damaged file may
still be valid, such as a text with a different digit. The scores that ``linrank predict`` prints
must then be those of the content of the file, as another reader finds it.
"""

from __future__ import annotations

import json
import resource
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from typer.testing import CliRunner

from linrank import LinearModel, RankingData, make_ranking, save_store, write_letor
from linrank.cli.app import app
from linrank.data.ids import TextColumn

from .campaign import Campaign, Case
from .lines import COMPRESS, slow_rows
from .table_files import (
    FEATURES,
    arrow_scores,
    csv_scores,
    damage_text,
    encode_csv,
    parquet_scores,
    write_long_ids,
    write_tables,
)

MEMORY = 4 << 30  #: bytes of address space of a command; all files are smaller than 1 MB
DEEP = 100_000  #: nesting depth of a JSON value that must be refused
HOSTILE: list[Any] = [
    None, True, -1, 0, 1, 0.5, 2**31 - 1, 2**31, 2**63, 10**30, 1e308, float("nan"),
    float("-inf"), "", "x", "7", [], {}, [1, 2], {"a": 1}, "\x1b[2J", "é" * 50,
]  # fmt: skip
DTYPES = [">i4", ">f8", "<f2", "<f4", "<i2", "<i8", "<u4", "<c16", "?", "<M8[s]", "<U3", "|S4"]
#: Exit codes without a defect.
SAFE = ("exit 0", "exit 1", "exit 2")

Floats = Any


class Clean(NamedTuple):
    """The undamaged files, and the scores of their documents."""

    folder: Path
    coef: Floats
    scores: Floats


def prepare(folder: Path) -> Clean:
    """Write the same documents in all formats, and a model."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    warnings.simplefilter("always")  # a warning would be a second line on stderr
    data = make_ranking(8, (3, 9), 6, n_levels=3, noise=1.0, random_state=0)
    X = np.where(np.random.default_rng(0).random(data.X.shape) < 0.5, 0.0, data.X)
    order = np.random.default_rng(1).permutation(len(X))  # rows of a query are not contiguous
    names = {"comments": [f"docid = {k}" for k in range(len(X))], "feature_names": list(FEATURES)}
    weights = {"sample_weight": 1.0 + data.y, "query_weight": 1.0 + data.qid % 2}
    dense = RankingData(X[order], data.y[order], data.qid[order], **names)
    shared = {"comments": TextColumn.from_strings(["a" * 99, "b" * 99], np.arange(len(X)) % 2)}
    heavy = RankingData(sparse.csr_array(X), data.y, data.qid, **names | shared, **weights)
    save_store(dense, folder / "dense.store")
    save_store(heavy, folder / "csr.store")
    write_tables(folder, dense)
    write_letor(folder / "clean", dense)
    text = (folder / "clean").read_bytes()
    middle = text.index(b"\n", len(text) // 2) + 1
    for kind, compress in COMPRESS.items():
        (folder / f"data.{kind}").write_bytes(compress(text[:middle]) + compress(text[middle:]))
    coef = np.linspace(-1.0, 1.0, 6)
    LinearModel(coef, feature_names=list(FEATURES), settings={"C": 1.0}).save(folder / "model.json")
    return Clean(folder, coef, dense.restore(dense.X @ coef))


# Damage


def damage_bytes(rng: np.random.Generator, content: bytes) -> bytes:
    """Flip, cut, blank, insert, repeat, move or append bytes."""
    data, n = bytearray(content), len(content)
    first, last = sorted(rng.integers(0, n + 1, 2).tolist())
    last = min(last, first + int(rng.integers(1, 200)))
    kind = rng.integers(8)
    if kind == 0:
        for _ in range(rng.integers(1, 4)):
            data[rng.integers(n)] ^= 1 << int(rng.integers(8))
    elif kind == 1:
        data[rng.integers(n)] = rng.integers(256)
    elif kind == 2:
        del data[rng.integers(n) :]
    elif kind == 3:
        data[first:last] = bytes(last - first)
    elif kind == 4:
        data[first:first] = rng.bytes(int(rng.integers(1, 20)))
    elif kind == 5:
        data[first:first] = data[first:last]
    elif kind == 6:
        del data[first:last]
    else:
        data += rng.choice([b"\x00", b"\x00\x00\x00\x00", b"x", b"\n", rng.bytes(30)])
    return bytes(data)


def damage_json(rng: np.random.Generator, text: str) -> str:
    """Replace or remove a random value of a JSON text, or nest it too deeply."""
    content, places = json.loads(text), []

    def visit(node: Any) -> None:
        keys = list(node) if isinstance(node, dict) else range(len(node))
        for key in keys:
            places.append((node, key))
            if isinstance(node[key], dict | list):
                visit(node[key])

    visit(content)
    node, key = places[rng.integers(len(places))]
    kind = rng.integers(8)
    if kind == 0:
        del node[key]
    elif kind == 1:
        node[key] = [node[key]]
    else:
        node[key] = HOSTILE[rng.integers(len(HOSTILE))]
    if kind == 2:
        node[key] = "DEEP"
    elif kind == 3:
        node[key] = "LONG"
    damaged = json.dumps(content, indent=1)
    return damaged.replace('"DEEP"', "[" * DEEP + "]" * DEEP).replace('"LONG"', "9" * 5000)


def damage_array(rng: np.random.Generator, file: Path) -> str:
    """Change type, shape or content of an array of a store, and often its entry in meta.json."""
    array = np.load(file)
    kind = rng.choice(["dtype", "dtype", "shape", "value", "empty", "order"])
    if kind == "dtype":
        dtype = np.dtype(DTYPES[rng.integers(len(DTYPES))])
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            new = array.astype(str).astype(dtype) if dtype.kind in "US" else array.astype(dtype)
    elif kind == "shape":
        new = [array[None], array[..., None], array.reshape(-1)[:-1], array.reshape(-1)[0]][
            rng.integers(4)
        ]
    elif kind == "empty":
        new = array[:0]
    elif kind == "order":
        new = np.asfortranarray(array) if array.ndim > 1 else array[::-1]
    else:
        new = array.copy()
        values = [-1, 0, 2**31 - 1] if array.dtype.kind in "iu" else [np.nan, np.inf, -1.0, 1e308]
        if array.dtype.kind in "iuf":
            new.reshape(-1)[rng.integers(max(new.size, 1))] = np.array(
                values[rng.integers(len(values))]
            ).astype(array.dtype)
    np.save(file, new, allow_pickle=False)
    if rng.random() < 0.7:
        describe(file, new)
    return f"{file.name}: {kind} {array.dtype}{array.shape} -> {new.dtype}{new.shape}"


def describe(file: Path, new: Floats) -> None:
    """Update the description of an array in meta.json."""
    meta = next(folder / "meta.json" for folder in file.parents if (folder / "meta.json").exists())
    content = json.loads(meta.read_text(encoding="utf-8"))
    content["arrays"][file.stem] = f"{new.dtype.str} {' × '.join(map(str, new.shape))}"
    meta.write_text(json.dumps(content), encoding="utf-8")


def damage_store(rng: np.random.Generator, store: Path) -> str:
    """Damage one file of a store."""
    files = sorted(path for path in store.rglob("*") if path.is_file())
    files += 2 * [file for file in files if file.name.startswith(("X", "query_ptr", "meta"))]
    file = files[rng.integers(len(files))]
    kind = rng.random()
    if kind < 0.05:
        file.unlink()
        return f"{file.name} removed"
    if kind < 0.8 and file.suffix == ".npy":
        return damage_array(rng, file)
    if kind < 0.8 and file.suffix == ".json":
        file.write_text(damage_json(rng, file.read_text(encoding="utf-8")), encoding="utf-8")
        return f"{file.name}: another value"
    file.write_bytes(damage_bytes(rng, file.read_bytes()))
    return f"{file.name}: other bytes"


# Expected scores of damaged files


def text_scores(path: Path, clean: Clean) -> Floats | None:
    """Return the scores of a plain text, or None if the text must be refused."""
    # We add a line with a feature. With a model, the number of features is known, so that linrank
    # accepts a text without features, but the slow parser does not.
    tried = (slow_rows(path.read_bytes() + b"\n0 %s1:0" % qid, False) for qid in (b"qid:x ", b""))
    rows = next((rows[:-1] for rows in tried if rows), None)
    if not rows or any(not 1 <= index <= len(clean.coef) for row in rows for index in row[2]):
        return None
    return np.array([sum(clean.coef[f - 1] * v for f, v in row[2].items()) for row in rows])


def store_scores(store: Path, clean: Clean) -> Floats | None:
    """Return the scores of a store whose arrays are read by numpy, if ``meta.json`` lists them."""
    listed = json.loads((store / "meta.json").read_text(encoding="utf-8"))["arrays"]
    arrays = {file.stem: np.load(file) for file in store.rglob("*.npy") if file.stem in listed}
    X = arrays.get("X")
    if X is None:
        parts = arrays["X_data"], arrays["X_indices"], arrays["X_indptr"]
        X = sparse.csr_array(parts, shape=(len(arrays["y"]), len(clean.coef)))
    scores = X @ clean.coef
    restored = scores.copy()
    restored[arrays.get("order", np.arange(len(scores)))] = scores
    return restored


def model_scores(path: Path, clean: Clean) -> Floats | None:
    """Return the scores with the weights of a model file, read by the json module."""
    coef = json.loads(path.read_text(encoding="utf-8"))["weights"]
    return store_scores(clean.folder / "dense.store", clean._replace(coef=np.array(coef, float)))


def clean_scores(path: Path, clean: Clean) -> Floats | None:
    """Return the scores before the damage; compressed files have checksums that detect damage."""
    return clean.scores


class Kind(NamedTuple):
    """A kind of file, with functions that damage it and compute its scores."""

    name: str
    damage: Callable[[np.random.Generator, Path], str]
    scores: Callable[[Path, Clean], Floats | None]


def _bytes(rng: np.random.Generator, path: Path) -> str:
    path.write_bytes(damage_bytes(rng, path.read_bytes()))
    return "other bytes"


def _model(rng: np.random.Generator, path: Path) -> str:
    if rng.random() < 0.3:
        return _bytes(rng, path)
    path.write_text(damage_json(rng, path.read_text(encoding="utf-8")), encoding="utf-8")
    return "another value"


def _csv(rng: np.random.Generator, path: Path) -> str:
    return encode_csv(rng, path) if rng.random() < 0.2 else _bytes(rng, path)


def _table(rng: np.random.Generator, path: Path) -> str:
    return damage_text(rng, path) if rng.random() < 0.2 else _bytes(rng, path)


def _of_table(scores: Callable[[Path, Floats], Floats]) -> Callable[[Path, Clean], Floats]:
    return lambda path, clean: scores(path, clean.coef)


KINDS = [
    Kind("data.txt", _bytes, text_scores),
    *(Kind(f"data.{kind}", _bytes, clean_scores) for kind in COMPRESS if kind != "txt"),
    Kind("dense.store", damage_store, store_scores),
    Kind("csr.store", damage_store, store_scores),
    Kind("dense.store", damage_store, store_scores),
    Kind("csr.store", damage_store, store_scores),
    Kind("model.json", _model, model_scores),
    *2 * [Kind("data.csv", _csv, _of_table(csv_scores))],
    *2 * [Kind("data.arrow", _table, _of_table(arrow_scores))],
    Kind("data.parquet", _table, _of_table(parquet_scores)),
    *2 * [Kind("codes.parquet", _table, _of_table(parquet_scores))],
    Kind("codes.parquet", write_long_ids, _of_table(parquet_scores)),
]


# The command line


def call(case: Case, about: str, *arguments: Any) -> str | None:
    """Run a command in this process; return its stdout, or None if it fails."""
    words = [str(argument) for argument in arguments]
    result = CliRunner().invoke(app, words)
    where = f"{about}: linrank {' '.join(words[:1])}"
    error = result.exception
    if error is not None and not isinstance(error, SystemExit):
        case.wrong(f"{where}: traceback: {type(error).__name__}: {str(error)[:300]}")
        return None
    case.saw(f"exit {result.exit_code}")
    if f"exit {result.exit_code}" not in SAFE:
        case.wrong(f"{where}: exit code {result.exit_code}: {result.stderr}")
    if result.exit_code == 2 and (
        result.stdout or not result.stderr.startswith("error: ") or result.stderr.count("\n") != 1
    ):
        case.wrong(f"{where}: not one error message: {result.stdout!r} {result.stderr[:800]!r}")
    if "not enough memory" in result.stderr:
        case.wrong(f"{where}: a small file needs more than {MEMORY >> 30} GiB: {result.stderr}")
    if result.exit_code == 0 and result.stderr:
        case.saw("warnings")
    return result.stdout if result.exit_code == 0 else None


def check_scores(case: Case, about: str, kind: Kind, path: Path, printed: str) -> None:
    """Compare the scores that ``predict`` printed with those of the file."""
    found = np.array([float(line) for line in printed.split()])
    try:
        with np.errstate(all="ignore"):
            expected = kind.scores(path, case.state)
    except Exception as error:  # the other reader cannot read the file
        case.wrong(f"{about}: predict succeeded, but {type(error).__name__}: {error}")
        return
    if expected is None:
        case.wrong(f"{about}: predict succeeded on what the slow parser refuses")
    elif not np.isfinite(found).all():
        case.wrong(f"{about}: scores that are not finite")
    elif found.shape != expected.shape or not np.allclose(found, expected, rtol=1e-9, atol=1e-300):
        case.wrong(f"{about}: other scores than those of the file")


def run(case: Case) -> None:
    """Damage one file and run commands on it."""
    clean, kind = case.state, KINDS[case.rng.integers(len(KINDS))]
    path, model = case.folder / kind.name, clean.folder / "model.json"
    source = clean.folder / kind.name
    (shutil.copytree if source.is_dir() else shutil.copy)(source, path)
    about = f"{kind.name} ({kind.damage(case.rng, path)})"
    case.units += 1
    is_model = kind.name == "model.json"
    data = clean.folder / "data.txt" if is_model else path
    model = path if is_model else model
    out = case.folder / "out"
    printed = call(case, about, "predict", model, data)
    if printed is not None:
        check_scores(case, about, kind, path, printed)
    commands = [
        ("inspect", path),
        ("evaluate", data, model),
        ("train", data, "--max-iter", "5", "--out", out)
        + (("--warm-start", model) if is_model else ()),
        ("path", data, "--valid", data, "--grid", "0.1,1", "--max-iter", "3", "--out", out),
        ("convert", data, case.folder / "copy.store"),
        ("convert", data, case.folder / "copy.txt"),
    ]
    for chosen in case.rng.choice(len(commands), 2, replace=False):
        call(case, about, *commands[chosen])


CAMPAIGN = Campaign("damage", "damaged files", 1500, 6.0, run, prepare)
