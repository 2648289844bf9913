"""`load` and its registry of formats."""

import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse

import reference
from commandline import PATIENCE, run
from linrank import (
    DataError,
    FileFormatError,
    RankingData,
    convert,
    load,
    make_ranking,
    open_store,
    read_letor,
    save_store,
    write_letor,
)
from linrank.data import formats, table_files
from linrank.data.formats import FORMATS, Format, find_format
from linrank.data.table_files import arrow_errors, open_parquet


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
    with pytest.raises(FileFormatError, match=r"train\.parquet: no such file or folder"):
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
    with pytest.raises(DataError, match=r"needs pyarrow.* pip install 'linrank\[frames\]'"):
        load(tmp_path / "train.parquet")


def test_a_new_format_is_one_line_of_the_registry(tmp_path, data, monkeypatch):
    def read(path, *, n_features, index_base):
        return data

    new = Format("orc", "an ORC file", lambda path: path.suffix == ".orc", read)
    monkeypatch.setattr(formats, "FORMATS", (new, *FORMATS))
    (tmp_path / "train.orc").touch()
    assert load(tmp_path / "train.orc") is data


def test_stores_are_folders(tmp_path, data):
    save_store(data, tmp_path / "train.parquet")
    assert find_format(tmp_path / "train.parquet").name == "store"
    assert_same(load(tmp_path / "train.parquet"), data)


def test_parquet_on_the_command_line(tmp_path, data):
    frame_of(data).to_parquet(tmp_path / "train.parquet")
    run("convert", tmp_path / "train.parquet", tmp_path / "store")
    assert_same(open_store(tmp_path / "store"), data)


# Tables


def write_csv(frame, path):
    frame.to_csv(path, index=False)


def write_tsv(frame, path):
    frame.to_csv(path, index=False, sep="\t")


def write_semicolons(frame, path):
    frame.to_csv(path, index=False, sep=";")


WRITERS = {
    "a.parquet": pd.DataFrame.to_parquet,
    "a.feather": pd.DataFrame.to_feather,
    "a.arrow": pd.DataFrame.to_feather,
    "feather": pd.DataFrame.to_feather,
    "a.csv": write_csv,
    "a.txt": write_csv,
    "a.csv.gz": write_csv,
    "a.csv.zst": write_csv,
    "a.tsv": write_tsv,
    "semicolons": write_semicolons,
}


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("is_grouped", [True, False])
def test_tables_are_read_and_converted(tmp_path, data, name, is_grouped, monkeypatch):
    monkeypatch.setattr(table_files, "BLOCK_BYTES", 300)  # The first block is a part of the file.
    frame = frame_of(data).assign(doc=[f"D{row}" for row in range(data.n_docs)])
    if not is_grouped:
        frame = frame.sample(frac=1, random_state=0)
    WRITERS[name](frame.reset_index(drop=True), tmp_path / name)
    expected = RankingData.from_frame(frame, doc_id="doc")
    converted = convert(tmp_path / name, tmp_path / "store", doc_id="doc")
    for found in (load(tmp_path / name, doc_id="doc"), converted):
        assert_same(found, expected)
        assert found.doc_ids == expected.doc_ids
        assert found.feature_names == ["f0", "f1", "f2"]
        assert (found.order is None) == is_grouped
        np.testing.assert_array_equal(found.restore(found.y), frame["label"])


def test_columns_of_csv_get_their_types_from_all_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(table_files, "BLOCK_BYTES", 64)
    rows = [f"{k % 2},{k // 30},{k},true" for k in range(60)] + ["1,q,0.5,false"]
    path = tmp_path / "a.csv"
    path.write_text("label,qid,f,flag\n" + "\n".join(rows) + "\n")
    data = load(path)
    assert data.query_ids.tolist() == ["0", "1", "q"]
    assert data.X[-1].tolist() == [0.5, 0]
    assert data.X[0].tolist() == [0, 1]
    path.write_text("label,qid,f,flag\n" + "\n".join([*rows, "1,q,x,true"]) + "\n")
    with pytest.raises(FileFormatError, match=r"a\.csv: column 'f' holds 'x'; expected a number"):
        load(path)


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
def test_no_thread_reads_a_csv_file_in_python_after_an_error(tmp_path, name, data, monkeypatch):
    """Otherwise the process aborts if the interpreter exits at this moment."""
    import pyarrow as pa
    from pyarrow import csv

    monkeypatch.setattr(table_files, "BLOCK_BYTES", 64)
    streams, sizes = [], []
    open_csv, readinto = csv.open_csv, table_files._CsvPieces.readinto

    def spy(stream, **options):
        streams.append(stream)
        return open_csv(stream, **options)

    def count(pieces, buffer):
        sizes.append(readinto(pieces, buffer))
        return sizes[-1]

    monkeypatch.setattr(csv, "open_csv", spy)
    monkeypatch.setattr(table_files._CsvPieces, "readinto", count)
    frame_of(data).rename(columns={"label": "grade"}).to_csv(tmp_path / name, index=False)
    with pytest.raises(FileFormatError, match="there is no column 'label'"):
        load(tmp_path / name)
    is_native = isinstance(streams[0], pa.NativeFile)
    assert is_native or sizes[-1] == 0
    assert is_native == (name == "a.csv")


def test_missing_values_of_tables(tmp_path, data):
    frame = frame_of(data)
    frame.loc[[2, 7], "f1"] = np.nan
    for name in ("a.parquet", "a.feather", "a.csv"):
        WRITERS[name](frame, tmp_path / name)
        with pytest.raises(FileFormatError, match=rf"{name}: X\[2, 1\] \(feature 'f1'\) is NaN"):
            load(tmp_path / name)
        found = load(tmp_path / name, allow_missing=True)
        assert found.has_missing
        np.testing.assert_array_equal(found.X, frame[["f0", "f1", "f2"]])
        convert(tmp_path / name, tmp_path / "store", allow_missing=True)
        with pytest.raises(FileFormatError, match=r"store: X\[2, 1\] \(feature 'f1'\) is NaN"):
            open_store(tmp_path / "store")
        stored = load(tmp_path / "store", allow_missing=True)
        assert stored.has_missing
        np.testing.assert_array_equal(stored.query_keys, found.query_keys)


@pytest.mark.parametrize("form", ["dense", "csr"])
def test_missing_values_of_text(tmp_path, form):
    path = tmp_path / "a.txt"
    path.write_text("1 qid:1 1:NaN 3:2\n0 qid:2 2:nan\n2 qid:1 3:1\n")
    with pytest.raises(FileFormatError, match=r"a\.txt:1: feature 1 is 'NaN'; .*missing='median'"):
        load(path)
    data = load(path, allow_missing=True, form=form)
    X = data.X.toarray() if data.is_sparse else data.X
    np.testing.assert_array_equal(data.restore(X), [[np.nan, 0, 2], [0, np.nan, 0], [0, 0, 1]])
    assert data.has_missing
    assert np.isfinite(data.query_keys).all()
    path.write_text("1 qid:1 1:nano\n")
    with pytest.raises(FileFormatError, match="feature 1 has the value 'nano'"):
        load(path, allow_missing=True)


@pytest.mark.parametrize("decimals", [None, 2])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_missing_values_are_written(tmp_path, form, decimals):
    X = np.array([[0.5, np.nan], [np.nan, 0], [0.25, 2]])
    data = RankingData(form(X), [1, 0, 2], [1, 2, 1], allow_missing=True)
    write_letor(tmp_path / "a.txt", data, decimals=decimals)
    found = load(tmp_path / "a.txt", allow_missing=True, form="dense")
    np.testing.assert_array_equal(found.restore(found.X), X)


def test_readers_of_text_name_tables(tmp_path, data):
    frame_of(data).to_parquet(tmp_path / "a.txt")
    with pytest.raises(FileFormatError, match=r"the file is a Parquet file; .*linrank\.load"):
        read_letor(tmp_path / "a.txt")
    write_csv(frame_of(data), tmp_path / "a.txt")
    with pytest.raises(FileFormatError, match=r"a\.txt:1: .* of a CSV file; .*linrank\.load"):
        read_letor(tmp_path / "a.txt")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "", "cannot be read as CSV: Empty CSV file"),
        ("a.csv", "label,qid,f\n", "there are no rows"),
        ("a.csv", "label,qid,f\n1,2\n", "CSV parse error: Expected 3 columns, got 2"),
        ("a.arrow", "ARROW1", "cannot be read as Arrow"),
        ("a.feather", "label", "cannot be read as Arrow"),
    ],
)
def test_tables_that_cannot_be_read(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(FileFormatError, match=message):
        load(tmp_path / name)


@pytest.mark.parametrize("offset", [2**30, -(2**30), 0])
def test_wrong_offsets_in_arrow_files_are_an_error(offset, tmp_path):
    pa = pytest.importorskip("pyarrow")
    columns = {"label": [0.0, 1.0, 0.0], "qid": ["first", "first", "third"], "x": [1.0, 2.0, 3.0]}
    path, table = tmp_path / "a.arrow", pa.table(columns)
    with pa.ipc.new_file(path, table.schema) as file:
        file.write_table(table)
    content, offsets = path.read_bytes(), np.array([0, 5, 10, 15], np.int32)
    assert content.count(offsets.tobytes()) == 1
    wrong = np.array([0, 5, offset, 15], np.int32)
    path.write_bytes(content.replace(offsets.tobytes(), wrong.tobytes()))
    with pytest.raises(FileFormatError, match="cannot be read as Arrow"):
        load(path)


def test_parquet_files_are_read_in_constant_memory(tmp_path):
    rng, path = np.random.default_rng(0), tmp_path / "d.parquet"
    table = pa.table({name: rng.random(200_000) for name in "abcdefgh"})
    pq.write_table(table, path, row_group_size=2_000)
    del table
    before, most = pa.total_allocated_bytes(), 0
    with open_parquet(str(path)) as file:
        for batch in file.read(file.schema.names, []):
            most = max(most, pa.total_allocated_bytes() - before)
            del batch
    assert 0 < most < path.stat().st_size / 4


ODD_IDS = ["007", "7", "0x10", "16", "+7", "-0", "a", "a\0", "NA"]


def odd_frame(ids):
    rows = range(len(ids))
    return pd.DataFrame({"label": [float(k % 2) for k in rows], "qid": ids, "f": [0.5] * len(ids)})


@pytest.mark.parametrize("ids", [ODD_IDS, ["7", "16", "-3"], ["7", str(2**63)]])
def test_ids_are_text_unless_all_are_canonical_integers(tmp_path, ids):
    frame, expected = odd_frame(ids), reference.ids_of_texts(ids)
    found = {"frame": RankingData.from_frame(frame)}
    for name in ("a.parquet", "a.feather", "a.csv", "a.tsv"):
        WRITERS[name](frame, tmp_path / name)
        found[name] = load(tmp_path / name)
        found[f"{name} store"] = convert(tmp_path / name, tmp_path / f"{name}.store")
    for name, data in found.items():
        assert data.query_ids.tolist() == expected, name
        assert data.n_queries == len(ids), name


@pytest.mark.parametrize("name", ["a.parquet", "a.csv"])
def test_ids_of_several_files_are_compared_as_text(tmp_path, name):
    for k, ids in enumerate(([7, 8], ["7", "x"])):
        WRITERS[name](odd_frame(ids), tmp_path / f"{k}{name}")
    data = load(tmp_path)
    assert data.query_ids.tolist() == ["7", "8", "x"]
    assert data.restore(data.qid).tolist() == ["7", "8", "7", "x"]


def test_long_ids_stay_codes(tmp_path):
    """As text, the ids of this small file would take 4 GB, and in an array of fixed width 16 GB."""
    n, path = 200_000, tmp_path / "a.parquet"
    column = pa.DictionaryArray.from_arrays(np.zeros(n, np.int32), pa.array(["q" * 20_000]))
    table = {"label": np.arange(n) % 2, "qid": column, "doc": column, "f": np.zeros(n)}
    pq.write_table(pa.table(table), path)
    assert path.stat().st_size < 1e6
    code = f"""
import resource
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
import pyarrow.parquet as pq
from linrank import RankingData, convert, load
data = load({str(path)!r}, doc_id="doc")
assert len(data.qid) == len(data.doc_ids) == {n}
data = convert({str(path)!r}, {str(tmp_path / "store")!r}, doc_id="doc")
assert data.n_queries == 1 and data.comments[{n - 1}] == "docid = " + "q" * 20_000
table = pq.read_table({str(path)!r}, read_dictionary=["qid", "doc"])
for frame in (table, table.to_pandas()):
    assert RankingData.from_frame(frame, doc_id="doc").n_queries == 1
"""
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment, timeout=PATIENCE)


@pytest.mark.parametrize(
    "error", [pa.ArrowIndexError("8 out of bounds"), pa.ArrowNotImplementedError("type"),
              UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"), MemoryError(),
              IndexError("index 8"), OverflowError("too large"), KeyError("f"), ValueError("x")],
)  # fmt: skip
def test_all_errors_of_damaged_tables_are_one_sentence(error):
    message = r"^a\.parquet: cannot be read as Parquet: [^\n]+$"
    with pytest.raises(FileFormatError, match=message), arrow_errors("a.parquet", "Parquet"):
        raise error


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow"])
def test_ids_that_are_not_text_get_a_sentence(tmp_path, name):
    offsets, letters = np.array([0, 1, 2], np.int32), b"a\xff"
    column = pa.Array.from_buffers(
        pa.string(), 2, [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(letters)]
    )
    table = pa.table({"label": [0.0, 1.0], "qid": column, "f": [0.0, 1.0]})
    if name == "a.parquet":
        pq.write_table(table, tmp_path / name)
    else:
        with pa.ipc.new_file(tmp_path / name, table.schema) as file:
            file.write_table(table)
    with pytest.raises(FileFormatError, match=r"cannot be read as .*UTF-?8"):
        load(tmp_path / name)


@pytest.mark.parametrize(
    ("encoding", "message"),
    [
        ("latin1", "cannot be read as CSV: it holds text that is not valid UTF-8. Write"),
        ("utf-16", "the file is text in UTF-16 or UTF-32; expected UTF-8. Save it as UTF-8"),
        ("utf-16-le", "the file is text in UTF-16 or UTF-32; expected UTF-8"),
        ("utf-32", "the file is text in UTF-16 or UTF-32; expected UTF-8"),
    ],
)
def test_text_of_other_encodings(tmp_path, encoding, message):
    path = tmp_path / "a.csv"
    path.write_bytes("label,qid,Größe\n1,1,0.5\n0,1,0.25\n".encode(encoding))
    with pytest.raises(FileFormatError, match=rf"a\.csv: {message}"):
        load(path)
