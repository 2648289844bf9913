"""`load` and its registry of formats."""

import sys

import numpy as np
import pandas as pd
import pytest

from commandline import run
from linrank import DataError, FileFormatError, load, make_ranking, open_store, save_store
from linrank.data import formats
from linrank.data.formats import FORMATS, Format, find_format


def frame_of(data, names=("label", "qid")):
    columns = {f"f{k}": data.X[:, k] for k in range(data.n_features)}
    return pd.DataFrame({names[0]: data.y, names[1]: data.qid, **columns})


@pytest.fixture
def data():
    return make_ranking(5, 4, 3, random_state=0)


def assert_same(found, data):
    np.testing.assert_array_equal(found.X, data.X)
    np.testing.assert_array_equal(found.y, data.y)
    np.testing.assert_array_equal(found.qid, data.qid)


@pytest.mark.parametrize("name", ["train.parquet", "train.pq", "TRAIN.PARQUET", "train", "a.txt"])
def test_parquet_is_found_by_its_name_or_its_content(tmp_path, data, name):
    frame_of(data).to_parquet(tmp_path / name)
    assert find_format(tmp_path / name).name == "parquet"
    found = load(tmp_path / name, n_threads=1)
    assert_same(found, data)
    assert found.feature_names == ["f0", "f1", "f2"]
    assert (found.index_base, found.dtype) == (1, np.float64)


def test_parquet_with_options(tmp_path, data):
    path, done = tmp_path / "train.parquet", []
    frame_of(data, ("grade", "query")).to_parquet(path)
    options = {"label": "grade", "qid": "query"}
    assert_same(load(path, **options), data)
    found = load(
        path, n_features=3, index_base=0, dtype=np.float32, progress=done.append, **options
    )
    assert (found.index_base, found.dtype, done) == (0, np.float32, [1.0])
    frame_of(data).astype({f"f{k}": np.float32 for k in range(3)}).to_parquet(path)
    assert load(path).dtype == np.float32
    frame_of(data).drop(columns="qid").to_parquet(path)
    assert load(path).n_queries == 1


def test_parquet_files_that_cannot_be_read(tmp_path, data):
    path = tmp_path / "train.parquet"
    with pytest.raises(FileFormatError, match=r"train\.parquet: cannot be read as Parquet"):
        load(path)
    path.write_text("1 qid:1 1:0.5\n")
    with pytest.raises(FileFormatError, match=r"train\.parquet: cannot be read as Parquet"):
        load(path)
    frame_of(data).to_parquet(path)
    with pytest.raises(DataError, match="there is no column 'grade'; the columns are 'label'"):
        load(path, label="grade")
    with pytest.raises(FileFormatError, match="the file has 3 features, but 4 are expected"):
        load(path, n_features=4)
    with pytest.raises(DataError, match="index_base is 2; expected 'auto', 0 or 1"):
        load(path, index_base=2)
    frame_of(data).assign(f1=np.nan).to_parquet(path)
    with pytest.raises(FileFormatError, match=r"train\.parquet: X\[0, 1\] \(feature 'f1'\) is NaN"):
        load(path)
    frame_of(data).assign(title="text").to_parquet(path)
    with pytest.raises(DataError, match=r"column 'title' holds .* features must be numbers"):
        load(path)


def test_parquet_needs_pyarrow(tmp_path, data, monkeypatch):
    frame_of(data).to_parquet(tmp_path / "train.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(DataError, match=r"needs pyarrow.* pip install linrank\[frames\]"):
        load(tmp_path / "train.parquet")


def test_a_new_format_is_one_line_of_the_registry(tmp_path, data, monkeypatch):
    def read(path, *, n_features, index_base):
        return data

    new = Format("orc", "an ORC file", lambda path: path.suffix == ".orc", read)
    monkeypatch.setattr(formats, "FORMATS", (new, *FORMATS))
    assert load(tmp_path / "train.orc") is data


def test_stores_are_folders(tmp_path, data):
    save_store(data, tmp_path / "train.parquet")
    assert find_format(tmp_path / "train.parquet").name == "store"
    assert_same(load(tmp_path / "train.parquet"), data)


def test_parquet_on_the_command_line(tmp_path, data):
    frame_of(data).to_parquet(tmp_path / "train.parquet")
    run("convert", tmp_path / "train.parquet", tmp_path / "store")
    assert_same(open_store(tmp_path / "store"), data)
