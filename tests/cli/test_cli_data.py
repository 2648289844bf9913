"""The command line on tables, folders and files of other kinds."""

from __future__ import annotations

import io
import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import csv, feather, parquet

from commandline import error_of, run, run_json, write_text
from linrank import LinearModel, make_ranking, open_store, read_letor

WRITERS = {
    "parquet": parquet.write_table,
    "feather": feather.write_feather,
    "csv": csv.write_csv,
    "tsv": lambda table, path: table.to_pandas().to_csv(path, sep="\t", index=False),
    "csv.gz": lambda table, path: table.to_pandas().to_csv(path, index=False),
}
COLUMNS = ("--label", "relevance", "--qid", "query_id", "--ignore", "title")


def table_of(data, **more):
    features = {f"f{k}": data.X[:, k] for k in range(data.n_features)}
    titles = [f"document {row}" for row in range(data.n_docs)]
    return pa.table(
        {"title": titles, "query_id": data.qid, **features, "relevance": data.y, **more}
    )


@pytest.fixture(scope="module")
def sets():
    return [make_ranking(12, (3, 9), 4, n_levels=3, noise=1.0, random_state=k) for k in range(3)]


@pytest.fixture
def folder(here, sets):
    """Training, held-out and test data as LETOR text and as Parquet files."""
    for name, data in zip(("train", "vali", "test"), sets, strict=True):
        write_text(here / f"{name}.txt", data)
        parquet.write_table(table_of(data), here / f"{name}.parquet")
    return here


def weights(path="model.json"):
    return LinearModel.load(path).coef


@pytest.mark.parametrize("kind", WRITERS)
def test_tables_give_the_model_of_the_text(folder, sets, kind):
    run("train", "train.txt", "--C", "0.1", "--out", "text.json")
    WRITERS[kind](table_of(sets[0]), folder / f"table.{kind}")
    found = run_json("train", f"table.{kind}", "--C", "0.1", *COLUMNS)
    assert found["train"]["documents"] == sets[0].n_docs
    np.testing.assert_allclose(weights(), weights("text.json"), rtol=1e-6)
    assert LinearModel.load("model.json").feature_names == ["f0", "f1", "f2", "f3"]


def test_all_commands_take_columns(folder):
    run("train", "train.parquet", "--valid", "vali.parquet", *COLUMNS)
    run("path", "train.parquet", "--valid", "vali.parquet", "--grid", "0.1,1", *COLUMNS)
    run("predict", "model.json", "test.parquet", "--out", "scores.txt", *COLUMNS)
    run("predict", "model.json", "test.txt", "--out", "text.txt")
    np.testing.assert_allclose(np.loadtxt("scores.txt"), np.loadtxt("text.txt"))
    text = run_json("evaluate", "test.txt", "text.txt")
    for scores in ("scores.txt", "model.json"):
        assert run_json("evaluate", "test.parquet", scores, *COLUMNS)["metrics"] == text["metrics"]
    assert run_json("inspect", "test.parquet", *COLUMNS)["n_features"] == 4
    run("convert", "test.parquet", "store", *COLUMNS)
    assert open_store("store").feature_names == ["f0", "f1", "f2", "f3"]


def test_predict_needs_no_label_and_finds_columns_by_name(folder, sets):
    run("train", "train.parquet", "--C", "1", *COLUMNS)
    frame = table_of(sets[2]).to_pandas().drop(columns=["relevance", "query_id"])
    frame[["f3", "f0", "f2", "title", "f1"]].to_parquet("test.parquet")
    run("predict", "model.json", "test.parquet", "--out", "scores.txt")
    np.testing.assert_allclose(np.loadtxt("scores.txt"), sets[2].X @ weights())
    frame.drop(columns="f2").to_parquet("test.parquet")
    assert "test.parquet: there is no column 'f2'" in error_of(
        "predict", "model.json", "test.parquet"
    )
    said = error_of("evaluate", "test.parquet", "scores.txt", "--ignore", "title")
    assert "there is no column 'label'" in said
    assert said.endswith("Name the column with the labels: label= (--label)")


def test_features_of_stores_are_checked_by_name(folder, sets):
    run("train", "train.parquet", "--C", "1", *COLUMNS)
    renamed = table_of(sets[2]).rename_columns(["title", "query_id", *"abcd", "relevance"])
    parquet.write_table(renamed, "test.parquet")
    run("convert", "test.parquet", "store", *COLUMNS)
    assert "the data lacks" in error_of("predict", "model.json", "store")


def test_weights_margins_and_ids_are_columns(folder, sets):
    n, rng = sets[0].n_docs, np.random.default_rng(0)
    more = {
        "w": rng.integers(1, 4, n), "p": rng.uniform(0.5, 1, n), "m": rng.uniform(0, 1, n),
        "v": sets[0].qid % 2 + 1.0, "doc": [f"D{row}" for row in range(n)],
    }  # fmt: skip
    parquet.write_table(table_of(sets[0], **more), "train.parquet")
    options = ("--sample-weight", "w", "--propensity", "p", "--margin", "m", "--query-weight", "v")
    run("convert", "train.parquet", "store", *COLUMNS, *options, "--doc-id", "doc")
    data = open_store("store")
    np.testing.assert_array_equal(data.weight, more["w"])
    np.testing.assert_array_equal(data.propensity, more["p"])
    np.testing.assert_array_equal(data.margin, more["m"])
    np.testing.assert_array_equal(np.repeat(data.query_weight, np.diff(data.query_ptr)), more["v"])
    assert data.doc_ids == more["doc"]
    assert data.feature_names == ["f0", "f1", "f2", "f3"]
    run("convert", "train.parquet", "other", *COLUMNS[:4], "--features", "f2,f0")
    assert open_store("other").feature_names == ["f2", "f0"]


def test_bounds_by_feature_name(folder):
    run("train", "train.parquet", "--C", "1", "--bounds", "f0=:-0.5,f2=0.25:0.5", *COLUMNS)
    coef = weights()
    assert coef[0] <= -0.5
    assert 0.25 <= coef[2] <= 0.5
    run("train", "train.parquet", "--C", "1", *COLUMNS)
    assert (weights() != coef).all()  # the limits matter
    said = error_of("train", "train.txt", "--bounds", "f0=0:")
    assert "given by feature name, but the features have no names" in said


def test_convert_keeps_the_type_of_a_table(folder, sets):
    """Without --float32, a table of float32 columns becomes a store of half the size."""
    table = table_of(sets[0])
    parquet.write_table(table, "double.parquet")
    types = {"f0": pa.float32(), "f1": pa.float32(), "f2": pa.float32(), "f3": pa.float32()}
    schema = pa.schema([pa.field(f.name, types.get(f.name, f.type)) for f in table.schema])
    parquet.write_table(table.cast(schema), "single.parquet")
    for name, options, expected in (
        ("single", (), "float32"), ("double", (), "float64"), ("double", ("--float32",), "float32"),
    ):  # fmt: skip
        assert run_json("convert", f"{name}.parquet", "s", *COLUMNS, *options)["dtype"] == expected
        assert open_store("s").X.dtype == expected
    run("convert", "single.parquet", "single.txt", *COLUMNS)
    back = read_letor("single.txt", dtype="float32")
    np.testing.assert_array_equal(back.X, sets[0].X.astype(np.float32))


def test_columns_are_for_tables_only(folder):
    said = error_of("train", "train.txt", "--label", "relevance")
    assert said == (
        "train.txt: label names a column, but a LETOR text file has no columns to choose. Leave "
        "out label (--label)"
    )
    run("convert", "train.txt", "store")
    assert "Leave out doc_id (--doc-id)" in error_of("inspect", "store", "--doc-id", "x")
    said = error_of("inspect", "train.parquet", *COLUMNS, "--feature-names", "names.txt")
    assert "feature_names is for LETOR text" in said


def test_columns_that_are_refused(folder):
    said = error_of("train", "train.parquet", *COLUMNS[:4])
    assert "column 'title' holds string; features must be numbers" in said
    assert "with ignore=['title'] (--ignore)" in said
    said = error_of("train", "train.parquet", "--label", "grade")
    assert "train.parquet: there is no column 'grade'; the columns are 'title', 'query_id'" in said
    said = error_of("train", "train.parquet", *COLUMNS, "--features", "f0,relevance")
    assert "column 'relevance' cannot be a feature: it has another use" in said
    assert "has an empty name" in run("inspect", "train.parquet", "--ignore", "a,", code=2).stderr


def test_missing_values_are_named(folder, sets):
    frame = table_of(sets[0]).to_pandas()
    frame.loc[3, "f1"] = None
    frame.to_parquet("train.parquet")
    said = error_of("train", "train.parquet", *COLUMNS)
    assert "train.parquet: X[3, 1] (feature 'f1') is NaN" in said
    assert "missing='median'" in said
    frame.assign(query_id=None).to_parquet("train.parquet")
    assert "qid[0] is missing" in error_of("train", "train.parquet", *COLUMNS)


# Folders


def test_a_fold_is_training_and_held_out_data(folder):
    (folder / "Fold1").mkdir()
    for name in ("train.txt", "vali.txt", "test.txt"):
        (folder / name).rename(folder / "Fold1" / name)
    found = run_json("train", "Fold1")
    assert found["train"]["file"] == "Fold1/train.txt"
    assert found["valid"]["file"] == "Fold1/vali.txt"
    assert run_json("train", "Fold1", "--valid", "Fold1/test.txt")["valid"]["file"].endswith(
        "t.txt"
    )
    for options in (("--C", "1"), ("--folds", "2")):
        assert run_json("train", "Fold1", *options)["valid"] is None
    assert run_json("path", "Fold1", "--grid", "0.1,1")["valid"]["file"] == "Fold1/vali.txt"
    said = error_of("evaluate", "Fold1", "model.json")
    assert said.endswith("Pass one of its files: Fold1/train.txt, Fold1/vali.txt, Fold1/test.txt")
    assert "Add --valid" in run("path", "Fold1/train.txt", code=2).stderr


def test_the_test_files_of_all_folds_are_one_data_set(folder):
    for k in (1, 2):
        (folder / "MQ" / f"Fold{k}").mkdir(parents=True)
        (folder / "MQ" / f"Fold{k}" / "train.txt").write_bytes((folder / "train.txt").read_bytes())
        (folder / "MQ" / f"Fold{k}" / "vali.txt").write_bytes((folder / "vali.txt").read_bytes())
    said = error_of("train", "MQ")
    assert said == (
        "MQ: the folder holds the folds Fold1, Fold2, but not all have test data. Pass one of "
        "them, such as MQ/Fold1"
    )
    for k, test in ((1, "vali.txt"), (2, "train.txt")):
        (folder / "MQ" / f"Fold{k}" / "test.txt").write_bytes((folder / test).read_bytes())
    parts = [run_json("inspect", name)["n_docs"] for name in ("vali.txt", "train.txt")]
    assert run_json("inspect", "MQ")["n_docs"] == sum(parts)
    assert run_json("train", "MQ", "--C", "1")["train"]["documents"] == sum(parts)


def test_a_folder_of_parts_is_one_data_set(folder, sets):
    run("train", "train.txt", "--C", "1", "--out", "whole.json")
    lines = (folder / "train.txt").read_text().splitlines(keepends=True)
    table, frame = table_of(sets[0]), table_of(sets[0]).to_pandas()
    for kind in ("text", "parquet", "csv"):
        (folder / kind).mkdir()
    for k, first in enumerate(range(0, len(lines), 20)):
        (folder / "text" / f"{k}.txt").write_text("".join(lines[first : first + 20]))
        parquet.write_table(table[first : first + 20], folder / "parquet" / f"{k}.parquet")
        frame[first : first + 20].to_csv(folder / "csv" / f"{k}.csv", index=False)
    (folder / "csv" / "_SUCCESS").touch()
    for kind in ("text", "parquet", "csv"):
        run("train", kind, "--C", "1", *(() if kind == "text" else COLUMNS))
        np.testing.assert_allclose(weights(), weights("whole.json"), rtol=1e-6)
        run("convert", kind, f"{kind}.store", *(() if kind == "text" else COLUMNS))
        np.testing.assert_array_equal(open_store(f"{kind}.store").X, sets[0].X)
    (folder / "text" / "1.txt").write_text("1 qid:1 1:x\n")
    assert error_of("train", "text").startswith("text/1.txt:1: feature 1 has the value 'x'")
    parquet.write_table(table.drop_columns("f1"), folder / "parquet" / "1.parquet")
    said = error_of("train", "parquet", *COLUMNS)
    assert "parquet/1.parquet: there is no column 'f1'" in said
    (folder / "csv" / "a.txt").write_text("1 qid:1 1:1\n")
    assert "csv: the folder holds files of different formats (csv, letor)" in error_of(
        "train", "csv"
    )


# Names and weights of LETOR text


@pytest.mark.parametrize("text", ["a\nb\nc\nd\n", "1 a\n2\tb\n4: d\n3 c\n"])
def test_names_of_features_in_text(folder, text):
    (folder / "names.txt").write_text(text)
    run("train", "train.txt", "--valid", "vali.txt", "--feature-names", "names.txt")
    assert LinearModel.load("model.json").feature_names == list("abcd")
    run("convert", "train.txt", "store", "--feature-names", "names.txt")
    assert open_store("store").feature_names == list("abcd")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\nb\n", "names.txt: there are 2 names, but the data have 4 features"),
        ("a\nb\nc\na\n", "names.txt: 'a' is the name of several features. Use distinct names"),
        ("2 1\n", "names.txt: '1' is the name of several features. Use distinct names"),
        ("5 a\n", "names.txt: feature 5 is named, but the features of the data are 1 to 4"),
        (None, "names.txt: cannot be read: No such file"),
    ],
)
def test_names_that_are_refused(folder, text, message):
    if text is not None:
        (folder / "names.txt").write_text(text)
    assert message in error_of("inspect", "train.txt", "--feature-names", "names.txt")


def test_costs_are_sample_weights(folder, sets):
    costs = np.random.default_rng(0).integers(1, 4, sets[0].n_docs)
    lines = (folder / "train.txt").read_text().splitlines()
    words = (line.split(" ", 2) for line in lines)
    text = "".join(f"{y} {q} cost:{c} {x}\n" for (y, q, x), c in zip(words, costs, strict=True))
    (folder / "costs.txt").write_text(text)
    run("train", "costs.txt", "--C", "1", "--out", "costs.json")
    parquet.write_table(table_of(sets[0], w=costs), "train.parquet")
    run("train", "train.parquet", "--C", "1", "--sample-weight", "w", *COLUMNS)
    np.testing.assert_allclose(weights(), weights("costs.json"), rtol=1e-6)
    run("convert", "costs.txt", "store")
    np.testing.assert_array_equal(open_store("store").weight, costs)


# Files of other kinds


def other_files():
    frame = pd.DataFrame({"a": [1.0]})
    return {
        "a pickle": lambda path: path.write_bytes(pickle.dumps(frame)),
        "a NumPy .npy file": lambda path: path.write_bytes(npy()),
        "a NumPy .npz file": lambda path: path.write_bytes(npz()),
        "an HDF5 file": lambda path: path.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(64)),
        "an Excel workbook": lambda path: path.write_bytes(
            b"PK\x03\x04" + bytes(26) + b"[Content_Types].xml"
        ),
        "a ZIP archive": lambda path: path.write_bytes(b"PK\x03\x04" + bytes(26) + b"train.txt"),
    }


def npy():
    buffer = io.BytesIO()
    np.save(buffer, np.eye(2))
    return buffer.getvalue()


def npz():
    buffer = io.BytesIO()
    np.savez(buffer, X=np.eye(2))
    return buffer.getvalue()


@pytest.mark.parametrize("kind", other_files())
def test_other_files_are_named(here, kind):
    other_files()[kind](here / "train.txt")
    said = error_of("train", "train.txt")
    advice = "expected LETOR text, or a Parquet, Arrow or CSV file. Write the data as one of these"
    if "archive" in kind:
        advice = "unpack it first"
    assert said == f"train.txt: the file is {kind}; {advice}"


def test_commands_list_the_same_options():
    """The options of columns are declared once."""
    for command in ("train", "path", "predict", "evaluate", "convert", "inspect"):
        text = run(command, "--help").output
        assert all(flag in text for flag in ("--label", "--doc-id", "--margin", "--feature-names"))
