"""Stores: the same data are read back, and a damaged store gives a clear error."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tracemalloc
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import zstandard
from scipy import sparse

from commandline import error_of
from linrank import (
    DataError,
    FileFormatError,
    LinearModel,
    RankingData,
    RankSVM,
    convert,
    load,
    make_problem,
    make_ranking,
    open_store,
    read_letor,
    save_store,
    write_letor,
)
from linrank.data import letor, source, store
from linrank.data.ids import TextColumn
from problems import PAPERS


def parts(data):
    """Return all attributes of the data as plain values."""
    arrays = store.arrays_of(data)
    return (
        {name: (array.dtype, array.tolist()) for name, array in arrays.items()},
        data.feature_names,
        data.index_base,
        data.X.shape,
    )


def files_of(folder):
    """Return all files of a store."""
    return sorted(file for file in folder.rglob("*") if file.is_file())


def file_of(folder, name):
    """Return the file of a store with the given name."""
    return next(file for file in files_of(folder) if file.name == name)


def contents(folder):
    """Return the content of the files of a store, without the name of the folder of arrays."""
    return {
        file.name: re.sub(rb"arrays-[0-9a-f]{16}", b"", file.read_bytes())
        for file in files_of(folder)
    }


def data_of_every_kind():
    rng = np.random.default_rng(0)
    X, y, qid = rng.standard_normal((6, 3)), [0, 1, 2, 0, 1, 2], [1, 1, 1, 2, 2, 2]
    yield RankingData(X, y, qid)
    yield RankingData(X.astype(np.float32), y, qid, index_base=0, feature_names=["a", "b", "c"])
    yield RankingData(sparse.csr_array(X * (X > 0)), y, ["b", "a", "b", "a", "b", "ä"])
    yield RankingData(sparse.csr_array((6, 3), dtype=np.float32), y, doc_ids=list("abcdef"))
    yield RankingData(X, y, qid, sample_weight=[1, 2, 1, 1, 1, 1], query_weight=[2] * 3 + [1] * 3)


@pytest.mark.parametrize("data", list(data_of_every_kind()), ids=str)
@pytest.mark.parametrize("mmap", [True, False])
def test_round_trip(data, mmap, tmp_path):
    save_store(data, tmp_path / "store")
    back = open_store(tmp_path / "store", mmap=mmap)
    assert parts(back) == parts(data)
    assert type(back.y) is np.ndarray
    assert os.listdir(tmp_path) == ["store"]


def shared_texts(rows):
    """Return documents that share two comments, "a" and "b" repeated 200 times."""
    comments = TextColumn.from_strings(["a" * 200, "b" * 200], np.array(rows))
    return RankingData(np.eye(len(rows)), np.arange(len(rows)) % 2, comments=comments)


@pytest.mark.parametrize("mmap", [True, False])
def test_texts_that_rows_share_are_stored_once(mmap, tmp_path):
    rows = [0, 1, 1, 0, 1, 0]
    save_store(shared_texts(rows), tmp_path / "store")
    back = open_store(tmp_path / "store", mmap=mmap)
    assert [text[0] for text in back.comments] == ["ab"[k] for k in rows]
    assert [text[0] for text in back.take(np.array([3, 1])).comments] == ["a", "b"]
    assert file_of(tmp_path / "store", "comments.npy").stat().st_size < 600
    save_store(back, tmp_path / "again")
    assert contents(tmp_path / "again") == contents(tmp_path / "store")


@pytest.mark.parametrize(
    ("texts", "rows", "missing", "version"),
    [
        (["a", "b", "c"], [0, 1, 2], False, 2),
        (["a", "b", "c"], [2, 0, 1], True, 3),
        (["a" * 50, "b" * 50], [0, 1, 0], False, 2),  # saves less than half of the bytes
        (["a" * 500], [0, 0, 0], False, 4),
        (["a" * 500], [0, 0, 0], True, 4),
    ],
)
def test_stores_have_the_oldest_version_that_holds_them(texts, rows, missing, version, tmp_path):
    X = np.eye(3) * (np.nan if missing else 1.0)
    comments = TextColumn.from_strings(texts, np.array(rows))
    data = RankingData(X, [1, 0, 1], comments=comments, allow_missing=missing)
    save_store(data, tmp_path / "store")
    assert json.loads((tmp_path / "store" / "meta.json").read_text())["version"] == version
    back = open_store(tmp_path / "store", allow_missing=missing)
    assert list(back.comments) == [texts[k] for k in rows]


def test_features_are_mapped_and_read_only(tmp_path):
    save_store(make_ranking(random_state=0), tmp_path / "store")
    data = open_store(tmp_path / "store")
    assert not data.X.flags.writeable
    assert isinstance(data.X.base, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        data.X[0, 0] = 1.0
    assert open_store(tmp_path / "store", mmap=False).X.flags.writeable


def test_ids_of_other_kinds_are_saved_as_strings(tmp_path):
    ids = np.array([("a", 1), "b", 3], dtype=object)
    save_store(RankingData(np.eye(3), [1, 0, 0], qid=ids), tmp_path / "store")
    assert open_store(tmp_path / "store").query_ids.tolist() == ["('a', 1)", "b", "3"]
    with pytest.raises(DataError, match="some of them are the same as strings"):
        save_store(
            RankingData(np.eye(2), [1, 0], qid=np.array([1, "1"], dtype=object)), tmp_path / "two"
        )
    assert os.listdir(tmp_path) == ["store"]


# From text

TORN = "1 qid:b 2:1 # x\n2 qid:a 1:2\n3 qid:b 1:3 # z\n"


@pytest.mark.parametrize(
    "text", [TORN, "1 1:0.5\n", "1 qid:1 0:1 50:2\n0 qid:1 3:4\n", "1\n0 3:0\n"]
)
@pytest.mark.parametrize("form", ["dense", "csr"])
def test_convert_is_read_and_save(text, form, tmp_path):
    path = tmp_path / "train.txt"
    path.write_text(text)
    seen = []
    data = convert(path, tmp_path / "store", form=form, dtype=np.float32, progress=seen.append)
    assert parts(data) == parts(read_letor(path, form=form, dtype=np.float32))
    assert seen[-1] == 1.0
    expected = {f"{name}.npy" for name in store.arrays_of(data)} | {"meta.json"}
    assert {file.name for file in files_of(tmp_path / "store")} == expected


def zstandard_frames(text):
    parts = [text[k : k + 10_000] for k in range(0, len(text), 10_000)]
    return b"".join(zstandard.ZstdCompressor().compress(part) for part in parts)


PACK = {"plain": bytes, "gz": gzip.compress, "zst": zstandard_frames}


def letor_text(torn, n_docs, n_features=30):
    """Write half of the features, with the rows of a query adjacent or scattered."""
    rng = np.random.default_rng(0)
    lines = []
    for row, values in enumerate(rng.normal(size=(n_docs, n_features))):
        features = " ".join(f"{f + 1}:{v:.6f}" for f, v in enumerate(values) if f % 2 == row % 2)
        lines.append(f"{row % 3} qid:{row // 9} {features} # document {'x' * (row % 7)}{row}\n")
    if torn:
        lines = [lines[row] for row in rng.permutation(n_docs)]
    return "".join(lines).encode()


@pytest.fixture
def small_pieces(monkeypatch):
    """Use small buffers, so that 10 kB of text need many of them."""
    monkeypatch.setattr(letor, "read_source", partial(letor.read_source, chunk_bytes=10_000))
    monkeypatch.setattr(source, "_PIECE_BYTES", 2000)
    move_rows = partial(letor.move_rows, part_bytes=10_000)
    monkeypatch.setattr(letor, "move_rows", move_rows)


@pytest.mark.parametrize("kind", PACK)
@pytest.mark.parametrize("torn", [False, True])
@pytest.mark.parametrize("form", ["dense", "csr"])
def test_convert_writes_the_very_store(kind, torn, form, small_pieces, tmp_path):
    text = letor_text(torn, n_docs=500)
    (tmp_path / "plain").write_bytes(text)
    (tmp_path / "packed").write_bytes(PACK[kind](text))
    save_store(read_letor(tmp_path / "plain", form=form), tmp_path / "expected")
    convert(tmp_path / "packed", tmp_path / "store", form=form, n_threads=2)
    expected, found = (contents(tmp_path / name) for name in ("expected", "store"))
    assert found == expected
    assert ("order.npy" in expected) == torn


@pytest.mark.parametrize("kind", PACK)
@pytest.mark.parametrize("torn", [False, True])
def test_convert_holds_neither_text_nor_features(kind, torn, small_pieces, tmp_path):
    text = letor_text(torn, n_docs=10_000)
    (tmp_path / "packed").write_bytes(PACK[kind](text))
    (tmp_path / "few").write_bytes(text[: text.index(b"\n", 10_000) + 1])
    convert(tmp_path / "few", tmp_path / "store", n_threads=1)  # This compiles the kernels.
    tracemalloc.start()
    data = convert(tmp_path / "packed", tmp_path / "store", n_threads=1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert data.X.nbytes == 240 * data.n_docs
    assert peak < 6e5 + 60 * data.n_docs < len(text)


def test_convert_leaves_nothing_behind_on_bad_text(tmp_path):
    path = tmp_path / "train.txt"
    path.write_text("1 qid:1 1:1\n1 qid:1 1:x\n")
    with pytest.raises(FileFormatError, match=r"train\.txt:2: "):
        convert(path, tmp_path / "store")
    assert os.listdir(tmp_path) == ["train.txt"]
    path.write_bytes(gzip.compress(b"1 qid:1 1:1\n" * 100)[:-9])
    with pytest.raises(FileFormatError, match=r"train\.txt: the compressed data ends too early"):
        convert(path, tmp_path / "store")
    assert os.listdir(tmp_path) == ["train.txt"]
    with pytest.raises(TypeError):
        convert(path, tmp_path / "store", colour="red")


def test_load_takes_either(tmp_path):
    data = make_ranking(3, 4, 5, random_state=0)
    write_letor(tmp_path / "a.txt", data)
    save_store(data, tmp_path / "a")
    assert parts(load(tmp_path / "a.txt", n_features=5)) == parts(data)
    assert parts(load(tmp_path / "a", n_features=5, index_base=1, dtype=None)) == parts(data)
    with pytest.raises(FileFormatError, match="the store has 5 features, but 4 are expected"):
        load(tmp_path / "a", n_features=4)
    with pytest.raises(FileFormatError, match="numbered from 1, but numbers from 0 are expected"):
        load(tmp_path / "a", index_base=0)
    with pytest.raises(FileFormatError, match="no such file"):
        load(tmp_path / "b")


# Writing safely


def test_store_is_replaced_only_on_success(tmp_path, monkeypatch):
    old, new = make_ranking(2, 3, 4, random_state=0), make_ranking(3, 3, 4, random_state=1)
    save_store(old, tmp_path / "store")

    def fail(*arguments, **options):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("linrank.data.store._save", fail)
        with pytest.raises(DataError, match="store: cannot be written: No space left on device"):
            save_store(new, tmp_path / "store")
    assert parts(open_store(tmp_path / "store")) == parts(old)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", fail)
        with pytest.raises(DataError, match="store: cannot be written: No space left on device"):
            save_store(new, tmp_path / "store")
    assert parts(open_store(tmp_path / "store")) == parts(old)
    assert len(os.listdir(tmp_path / "store")) == 2
    assert os.listdir(tmp_path) == ["store"]
    mapped = open_store(tmp_path / "store")
    save_store(new, tmp_path / "store")
    assert parts(mapped) == parts(old)  # Mapped data are unchanged.
    assert parts(open_store(tmp_path / "store")) == parts(new)


def test_store_can_replace_what_it_is_mapped_from(tmp_path):
    save_store(make_ranking(random_state=0), tmp_path / "store")
    data = open_store(tmp_path / "store")
    save_store(data, tmp_path / "store")
    assert parts(open_store(tmp_path / "store")) == parts(data)


def test_foreign_folders_are_left_alone(tmp_path):
    data = make_ranking(2, 3, 4, random_state=0)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "meta.json").write_text('{"format": "another"}')
    (tmp_path / "file").write_text("precious")
    for name, message in [
        ("folder", "holds 'meta.json', which is not part"),
        ("file", "is a file"),
    ]:
        with pytest.raises(DataError, match=f"{name}: .*{message}.*not replaced"):
            save_store(data, tmp_path / name)
    assert (tmp_path / "file").read_text() == "precious"
    assert os.listdir(tmp_path / "folder") == ["meta.json"]
    with pytest.raises(DataError, match="there is no folder"):
        save_store(data, tmp_path / "no" / "store")
    (tmp_path / "empty").mkdir()
    save_store(data, tmp_path / "empty")
    assert open_store(tmp_path / "empty").n_docs == 6


@pytest.mark.parametrize("where", ["", "arrays"])
@pytest.mark.parametrize("kind", ["file", "folder", "link"])
def test_a_store_with_foreign_files_is_left_alone(where, kind, tmp_path):
    data = make_ranking(2, 3, 4, random_state=0)
    save_store(data, tmp_path / "store")
    place = file_of(tmp_path / "store", "X.npy").parent if where else tmp_path / "store"
    if kind == "file":
        (place / "notes.txt").write_text("precious")
    elif kind == "folder":
        (place / "notes.txt").mkdir()
    else:
        (place / "notes.txt").symlink_to(tmp_path)
    before = sorted(map(str, tmp_path.rglob("*")))
    with pytest.raises(DataError, match=r"the folder holds '(notes\.txt|arrays-.*)', which is not"):
        save_store(data, tmp_path / "store")
    assert sorted(map(str, tmp_path.rglob("*"))) == before
    assert parts(open_store(tmp_path / "store")) == parts(data)


@pytest.mark.parametrize("beside", ["nothing", "version 1", "version 2", "replaced", "leftover"])
@pytest.mark.parametrize("kind", ["file", "link"])
def test_arrays_of_others_are_left_alone(beside, kind, tmp_path):
    """Whether an array belongs to a store depends on meta.json, not on its name."""
    data, path = make_ranking(2, 3, 4, random_state=0), tmp_path / "store"
    if beside == "nothing":
        path.mkdir()
    else:
        save_store(data, path)
    if beside in ("version 1", "replaced"):
        to_version_1(path)
    if beside == "replaced":
        save_store(data, path)
        assert "y.npy" in json.loads((path / "meta.json").read_text())["replaced"]
    if beside == "leftover":
        (path / "meta.json").unlink()
    mine = path / ("weight.npy" if beside == "version 1" else "y.npy")
    np.save(tmp_path / "mine.npy", [1.0, 2.0])
    if kind == "file":
        shutil.copy(tmp_path / "mine.npy", mine)
    else:
        mine.symlink_to(tmp_path / "mine.npy")
    before = sorted(map(str, tmp_path.rglob("*")))
    (tmp_path / "good.txt").write_text("1 qid:1 1:1\n")
    with pytest.raises(DataError, match=rf"the folder holds '{mine.name}', which is not part of"):
        convert(tmp_path / "good.txt", path)
    (tmp_path / "good.txt").unlink()
    assert sorted(map(str, tmp_path.rglob("*"))) == before
    assert np.load(mine).tolist() == [1.0, 2.0]


def test_links_in_a_store_are_left_alone(tmp_path):
    data, path = make_ranking(2, 3, 4, random_state=0), tmp_path / "store"
    save_store(data, path)
    for name, shown in (("meta.json", "meta.json"), ("X.npy", "arrays-")):
        place = file_of(path, name)
        shutil.move(place, tmp_path / name)
        place.symlink_to(tmp_path / name)
        with pytest.raises(DataError, match=rf"the folder holds '{shown}"):
            save_store(data, path)
        assert place.is_symlink()
        place.unlink()
        shutil.move(tmp_path / name, place)
    save_store(data, path)


def test_nothing_is_removed_for_bad_text(tmp_path):
    data, path = make_ranking(2, 3, 4, random_state=0), tmp_path / "store"
    save_store(data, path)
    shutil.copytree(file_of(path, "X.npy").parent, path / "arrays-0123456789abcdef")
    before = sorted(map(str, path.rglob("*")))
    (tmp_path / "bad.txt").write_text("garbage line\n")
    with pytest.raises(FileFormatError, match=r"bad\.txt:1"):
        convert(tmp_path / "bad.txt", path)
    assert sorted(map(str, path.rglob("*"))) == before
    save_store(data, path)
    assert len(os.listdir(path)) == 2


def test_a_store_of_version_1_opens_and_can_be_replaced(tmp_path):
    old, new = make_ranking(2, 3, 4, random_state=0), make_ranking(3, 3, 4, random_state=1)
    save_store(old.replace(query_ids=np.array(["a", "b"])), tmp_path / "store")
    to_version_1(tmp_path / "store")
    meta = tmp_path / "store" / "meta.json"
    content = json.loads(meta.read_text())
    (tmp_path / "store" / "query_ids_ptr.npy").unlink()
    np.save(tmp_path / "store" / "query_ids.npy", np.array(["a", "b"]))
    del content["arrays"]["query_ids_ptr"]
    content["arrays"]["query_ids"] = "<U1 2"
    meta.write_text(json.dumps(content))
    assert open_store(tmp_path / "store").query_ids.tolist() == ["a", "b"]
    save_store(new, tmp_path / "store")
    assert parts(open_store(tmp_path / "store")) == parts(new)
    assert len(os.listdir(tmp_path / "store")) == 2


def test_a_private_store_stays_private(tmp_path):
    data = make_ranking(2, 3, 4, random_state=0)
    save_store(data, tmp_path / "store")
    (tmp_path / "store").chmod(0o700)
    with store.new_store(tmp_path / "store") as folder:
        assert stat.S_IMODE(folder.parent.stat().st_mode) == 0o700
        store.fill(folder, data, {})
    assert stat.S_IMODE((tmp_path / "store").stat().st_mode) == 0o700


@pytest.mark.parametrize("permissions", [0o600, 0o640, 0o664])
def test_files_of_a_store_keep_their_permissions(permissions, tmp_path):
    data = make_ranking(2, 3, 4, random_state=0)
    save_store(data, tmp_path / "store")
    for version in (2, 1):
        if version == 1:
            to_version_1(tmp_path / "store")
        (tmp_path / "store").chmod(0o770)
        for file in files_of(tmp_path / "store"):
            file.chmod(permissions)
        if os.getuid() == 0:
            os.chown(tmp_path / "store" / "meta.json", 12345, 54321)
        save_store(data, tmp_path / "store")
        for file in files_of(tmp_path / "store"):
            status = file.stat()
            assert stat.S_IMODE(status.st_mode) == permissions
            assert os.getuid() or (status.st_uid, status.st_gid) == (12345, 54321)
        folder = file_of(tmp_path / "store", "X.npy").parent
        assert stat.S_IMODE(folder.stat().st_mode) == 0o770


def test_a_link_to_a_store_stays_a_link(tmp_path):
    old, new = make_ranking(2, 3, 4, random_state=0), make_ranking(3, 3, 4, random_state=1)
    save_store(old, tmp_path / "store")
    (tmp_path / "link").symlink_to("store")
    save_store(new, tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert parts(open_store(tmp_path / "store")) == parts(new)
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(DataError, match="loop: cannot be written: Too many levels"):
        save_store(new, tmp_path / "loop")
    with pytest.raises(FileFormatError, match="loop: no such folder"):
        open_store(tmp_path / "loop")


KILLS = """
import json, os, shutil, signal, sys
from pathlib import Path
from linrank import make_ranking, open_store, save_store
from test_store import parts, to_version_1

path, there = Path(sys.argv[1]), None
os.fsync = lambda descriptor: None  # Count fsync as a step, but skip the slow call.
old, new = make_ranking(2, 3, 4, random_state=0), make_ranking(3, 3, 4, random_state=1)


def prepare():
    shutil.rmtree(path, ignore_errors=True)
    if there == "empty":
        path.mkdir()
    elif there != "nothing":
        save_store(old, path)
    if there == "version 1":
        to_version_1(path)


def counted(function, n_left):
    def call(*arguments, **options):
        if not n_left:
            os.kill(os.getpid(), signal.SIGKILL)
        n_left.pop()
        return function(*arguments, **options)

    return call


def save_and_die(at):
    n_left = [None] * at
    for name in ("mkdir", "rename", "replace", "unlink", "rmdir", "fsync"):
        setattr(os, name, counted(getattr(os, name), n_left))
    save_store(new, path)
    os._exit(0)


def look():
    if not (path / "meta.json").exists():
        return "empty" if path.exists() else "nothing"
    found = parts(open_store(path))
    return "old" if found == parts(old) else "new" if found == parts(new) else "mixed"


outcomes = {}
for there in ("nothing", "store", "empty", "version 1"):
    at, status = 0, None
    while status != 0:
        prepare()
        child = os.fork()
        if child == 0:
            save_and_die(at)
        status, at = os.waitpid(child, 0)[1], at + 1
        assert status in (0, signal.SIGKILL), status
        outcomes.setdefault(there, []).append(look())
        save_store(new, path)  # The next writer removes leftovers.
        assert look() == "new"
        assert os.listdir(path.parent) == ["store"], os.listdir(path.parent)
        assert len(os.listdir(path)) == 2, os.listdir(path)
print(json.dumps(outcomes))
"""


def to_version_1(path):
    """Change a store into the format of version 1."""
    meta = json.loads((path / "meta.json").read_text())
    for file in (path / meta["folder"]).iterdir():
        shutil.move(file, path)
    (path / meta["folder"]).rmdir()
    del meta["folder"]
    (path / "meta.json").write_text(json.dumps(meta | {"version": 1}))


def test_killed_at_any_step(tmp_path):
    """The path leads to the old or the new store, and the next writer removes leftovers."""
    (tmp_path / "data").mkdir()
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", KILLS, tmp_path / "data" / "store"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([*sys.path, str(Path(__file__).parent)])},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    outcomes = json.loads(done.stdout)
    before = {"nothing": "nothing", "store": "old", "empty": "empty", "version 1": "old"}
    for there, found in outcomes.items():
        n_before = found.count(before[there])
        assert n_before > 8
        assert len(found) > n_before + 1
        assert found == [before[there]] * n_before + ["new"] * (len(found) - n_before)


def test_a_full_disk_leaves_the_old_store(tmp_path):
    """For a short array, the error occurs only when its file is closed."""
    old = make_ranking(2, 3, 4, random_state=0)
    save_store(old, tmp_path / "store")
    program = """
import resource, sys
from linrank import LinrankError, make_ranking, save_store
data = make_ranking(20, 5, 4, random_state=1)
resource.setrlimit(resource.RLIMIT_FSIZE, (400, 400))
try:
    save_store(data, sys.argv[1])
except LinrankError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "store"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "LINRANK_JIT_CACHE": "0"},
        capture_output=True, text=True,
    )  # fmt: skip
    assert re.fullmatch(r"\S+store: cannot be written: [^\n]+\n", done.stdout), done.stderr
    assert open_store(tmp_path / "store").y.tolist() == old.y.tolist()
    assert os.listdir(tmp_path) == ["store"]


WRITERS = """
import sys
from linrank import make_ranking, open_store, save_store

n_queries, path = int(sys.argv[1]), sys.argv[2]
data = make_ranking(n_queries, 3, 4, random_state=0)
for _ in range(30):
    save_store(data, path)
    assert open_store(path).n_queries in (5, 6)
"""


def test_two_processes_replace_one_store(tmp_path):
    path = tmp_path / "data" / "store"
    path.parent.mkdir()
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITERS, str(n), path], stderr=subprocess.PIPE)
        for n in (5, 6)
    ]
    assert [writer.communicate()[1] for writer in writers] == [b"", b""]
    assert open_store(path).n_queries in (5, 6)
    assert os.listdir(path.parent) == ["store"]
    assert len(os.listdir(path)) == 2


# Files that change


@pytest.mark.parametrize("change", ["cut", "overwrite"])
@pytest.mark.parametrize("name", ["X", "X_data", "X_indices", "X_indptr"])
def test_mapped_files_that_change_are_refused(change, name, tmp_path):
    data = make_ranking(20, 30, 4, random_state=0)
    if name != "X":
        data = RankingData(sparse.csr_array(data.X), data.y, data.qid)
    save_store(data, tmp_path / "store")
    opened, apart = open_store(tmp_path / "store"), open_store(tmp_path / "store", mmap=False)
    ranker = RankSVM(C=1.0, **PAPERS).fit(opened.X, opened.y, qid=opened.qid)
    file = file_of(tmp_path / "store", f"{name}.npy")
    if change == "cut":
        os.truncate(file, 200)
    else:
        with file.open("r+b") as stream:
            stream.seek(-8, 2)
            stream.write(bytes(8))
        os.utime(file, ns=(1, 1))  # Make the time differ, whatever the resolution of the clock.
    message = r"\.npy: the file was changed after it was opened. Open the store again"
    for use in (
        lambda: RankSVM(C=1.0, **PAPERS).fit(opened.X, opened.y, qid=opened.qid),
        lambda: make_problem(opened),
        lambda: opened.take(np.arange(3)),
        lambda: ranker.predict(opened.X),
        lambda: write_letor(tmp_path / "text", opened),
        lambda: save_store(opened, tmp_path / "other"),
    ):
        with pytest.raises(DataError, match=message):
            use()
    assert RankSVM(C=1.0, **PAPERS).fit(apart.X, apart.y, qid=apart.qid)


CUT_COMMENTS = """
import os, sys
import numpy as np
from linrank import DataError, open_store, save_store, write_letor

file, folder = sys.argv[1:]
data = open_store(f"{folder}/store")
os.truncate(file, 200)
for use in (
    lambda: data.doc_ids,
    lambda: data.comments[2000],
    lambda: list(data.comments),
    lambda: data.take(np.arange(data.n_docs)),
    lambda: write_letor(f"{folder}/text", data),
    lambda: save_store(data, f"{folder}/other"),
):
    try:
        use()
    except DataError as error:
        print(error)
"""


@pytest.mark.parametrize("shared", [1, 4])
@pytest.mark.parametrize("name", ["comments", "comments_ptr"])
def test_mapped_comments_that_change_are_refused(name, shared, tmp_path):
    texts = [f"{k:060d}" for k in range(4000 // shared)]
    comments = TextColumn.from_strings(texts, None if shared == 1 else np.arange(4000) // shared)
    data = RankingData(np.ones((4000, 1)), np.arange(4000) % 2, comments=comments)
    save_store(data, tmp_path / "store")
    file = file_of(tmp_path / "store", f"{name}.npy")
    done = subprocess.run(
        [sys.executable, "-c", CUT_COMMENTS, file, tmp_path],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}, capture_output=True, text=True,
    )  # fmt: skip
    message = f"{file}: the file was changed after it was opened. Open the store again\n"
    assert (done.stdout, done.returncode) == (6 * message, 0), done.stderr
    assert os.listdir(tmp_path) == ["store"]


def test_mapped_files_that_are_replaced_stay(tmp_path):
    old, new = make_ranking(2, 3, 4, random_state=0), make_ranking(3, 3, 4, random_state=1)
    save_store(old, tmp_path / "store")
    opened = open_store(tmp_path / "store")
    save_store(new, tmp_path / "store")
    assert make_problem(opened).n_features == 4
    assert parts(opened) == parts(old)


def test_a_store_that_is_replaced_while_it_is_opened(tmp_path, monkeypatch):
    """The old arrays are removed after a reader has read the old meta.json."""
    old, new = make_ranking(2, 3, 4, random_state=0), make_ranking(3, 3, 4, random_state=1)
    save_store(old, tmp_path / "store")
    read, calls = store._read, []

    def late(*arguments):
        if not calls:
            calls.append(1)
            save_store(new, tmp_path / "store")
        return read(*arguments)

    monkeypatch.setattr(store, "_read", late)
    assert parts(open_store(tmp_path / "store")) == parts(new)


# Damaged stores


@pytest.fixture
def sound(tmp_path):
    data = RankingData(
        np.eye(4), [1, 0, 1, 0], qid=["a", "b", "a", "b"], doc_ids="abcd", sample_weight=[1] * 4
    )
    save_store(data, tmp_path / "sound")
    save_store(RankingData(sparse.csr_array(np.eye(4)), [1, 0, 1, 0]), tmp_path / "sparse")
    save_store(shared_texts([0, 1, 1, 0, 1, 0]), tmp_path / "shared")
    return tmp_path


def test_every_missing_file_is_noticed(sound):
    for kind in ("sound", "sparse", "shared"):
        for file in [file.name for file in files_of(sound / kind)]:
            shutil.rmtree(sound / "copy", ignore_errors=True)
            shutil.copytree(sound / kind, sound / "copy")
            file_of(sound / "copy", file).unlink()
            with pytest.raises(FileFormatError, match=file.replace(".", r"\.")):
                open_store(sound / "copy")


@pytest.mark.parametrize("n_bytes", [0, 5, 60, 128])
def test_every_short_file_is_noticed(n_bytes, sound):
    for kind in ("sound", "sparse", "shared"):
        for file in [file.name for file in files_of(sound / kind)]:
            shutil.rmtree(sound / "copy", ignore_errors=True)
            shutil.copytree(sound / kind, sound / "copy")
            place = file_of(sound / "copy", file)
            place.write_bytes(place.read_bytes()[:n_bytes])
            for mmap in (True, False):
                with pytest.raises(FileFormatError, match=r"copy: the store is damaged: "):
                    open_store(sound / "copy", mmap=mmap)


@pytest.mark.parametrize(
    ("kind", "name", "array", "message"),
    [
        ("sound", "y", np.zeros(3), "y.npy holds <f8 3; expected <f8 4"),
        ("sound", "y", np.zeros(4, np.float32), "y.npy holds float32"),
        ("sound", "query_ids", np.array(["a", None]), "query_ids.npy holds objects"),
        ("sound", "query_ptr", np.array([0, 2, 5]), "query_ptr.npy does not fit"),
        ("sound", "query_ptr", np.array([0, 4, 4]), "query_ptr.npy does not ascend"),
        ("sound", "comments_ptr", np.array([0, 1, 2, 3, 4]), "comments_ptr.npy does not fit"),
        ("shared", "comments_ptr", np.array([0, 1, 2]), "comments_ptr.npy does not fit"),
        (
            "shared",
            "comments_ptr",
            np.zeros(0, int),
            "comments_ptr.npy holds <i8 0; expected <i8 3",
        ),
        ("shared", "comments_rows", np.array([0, 1, 2, 0, 0, 0]), "comments_rows.npy does not fit"),
        (
            "shared",
            "comments_rows",
            np.array([0, 1, -1, 0, 0, 0]),
            "comments_rows.npy does not fit",
        ),
        ("shared", "comments_rows", np.zeros(3, int), "comments_rows.npy holds <i8 3; expected"),
        ("shared", "comments_rows", np.zeros(6, np.int32), "comments_rows.npy holds int32"),
        ("sound", "y", np.array([1.0, 0, np.nan, 0]), r"y\[2\] is nan; labels must be finite"),
        ("sound", "order", np.array([0, 0, 1, 2]), "order.npy is not a permutation of the rows"),
        ("sparse", "X_indptr", np.array([0, 1, 2, 3, 9], np.int32), "X_indptr.npy does not fit"),
        ("sparse", "X_indptr", np.array([0, 3, 2, 3, 4], np.int32), "X_indptr.npy does not fit"),
        ("sparse", "X_indices", np.array([0, 1, 2, 4], np.int32), "holds indices outside"),
        ("sparse", "X_indices", np.array([0, -1, 2, 3], np.int32), "holds indices outside"),
    ],
)
def test_arrays_that_do_not_fit(kind, name, array, message, sound):
    np.save(file_of(sound / kind, f"{name}.npy"), array)
    with pytest.raises(FileFormatError, match=f"the store is damaged: .*{message}"):
        open_store(sound / kind)


def retyped(array, dtype):
    return array.astype(dtype)


DAMAGES = {
    "big-endian": lambda a: retyped(a, a.dtype.newbyteorder(">")),
    "float16": lambda a: retyped(a, np.float16),
    "int8": lambda a: retyped(a, np.int8),
    "unsigned": lambda a: retyped(a, np.uint64),
    "complex": lambda a: retyped(a, np.complex128),
    "times": lambda a: retyped(a, "M8[s]"),
    "bytes": lambda a: retyped(a, "S3"),
    "one dimension more": lambda a: a[None],
    "columns": lambda a: np.asfortranarray(a[:, None]),
    "a number": lambda a: a.reshape(-1)[:1].reshape(()),
    "no rows": lambda a: a[:0],
    "one row less": lambda a: a[:-1],
    "one row more": lambda a: np.concatenate([a, a[-1:]]),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_every_array_must_be_what_kernels_expect(damage, sound):
    """An array of another type is an error even if meta.json names that type."""
    for kind in ("sound", "sparse"):
        for name in [file.name for file in files_of(sound / kind) if file.suffix == ".npy"]:
            shutil.rmtree(sound / "copy", ignore_errors=True)
            shutil.copytree(sound / kind, sound / "copy")
            file, meta = file_of(sound / "copy", name), sound / "copy" / "meta.json"
            array = np.load(file)
            new = DAMAGES[damage](array)
            if new.dtype == array.dtype and new.shape == array.shape:
                continue  # Single bytes have no byte order.
            np.save(file, new)
            content = json.loads(meta.read_text())
            content["arrays"][file.stem] = store.describe(new.dtype, new.shape)
            meta.write_text(json.dumps(content))
            for mmap in (True, False):
                if may_be_sound(kind, name, damage):
                    open_store(sound / "copy", mmap=mmap)
                    continue
                with pytest.raises(FileFormatError, match="copy: the store is damaged: "):
                    open_store(sound / "copy", mmap=mmap)


def may_be_sound(kind, name, damage):
    """The id of the only query of `sparse` may be a number, a time or text."""
    kinds = {"float16", "int8", "unsigned", "times", "bytes"}
    return kind == "sparse" and name == "query_ids.npy" and damage in kinds


HEADS = [
    b"", b"x", b"{", b"{}", b"[" * 5000, b"(" * 9000, b"{'shape': (", b"\xff\xfe", b"\0" * 100,
    b"{'descr': '<f8', 'fortran_order': False, 'shape': (-1,)}",
    b"{'descr': '<f8', 'fortran_order': False, 'shape': (" + b"9" * 30 + b",)}",
    b"{'descr': '<f8', 'fortran_order': False, 'shape': (" + b"9" * 5000 + b",)}",
    b"{'descr': '<f8', 'fortran_order': False, 'shape': (1.5,)}",
    b"{'descr': '|O', 'fortran_order': False, 'shape': (4,)}",
    b"{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (4,)}",
]  # fmt: skip


@pytest.mark.parametrize("head", HEADS, ids=range(len(HEADS)))
def test_heads_of_arrays(head, sound):
    for version in (b"\x01\x00", b"\x02\x00", b"\x03\x00", b"\xff\xff"):
        size = len(head).to_bytes(2 if version[0] == 1 else 4, "little")
        content = b"\x93NUMPY" + version + size + head + bytes(32)
        file_of(sound / "sound", "y.npy").write_bytes(content)
        with pytest.raises(FileFormatError, match=r"sound: the store is damaged: y\.npy"):
            open_store(sound / "sound")


@pytest.mark.parametrize("name", ["meta.json", "y.npy", "X.npy"])
@pytest.mark.parametrize("kind", ["folder", "loop", "pipe"])
def test_what_is_no_file(name, kind, sound):
    file = file_of(sound / "sound", name)
    file.unlink()
    if kind == "folder":
        file.mkdir()
    elif kind == "loop":
        file.symlink_to(file.name)
    else:
        os.mkfifo(file)
    with pytest.raises(FileFormatError, match=f"(has no |damaged: ){name}"):
        open_store(sound / "sound")


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a":' * 100_000, "9" * 5000, "null", '{"format": 1}', "\0"]
)
def test_meta_that_is_none(text, sound):
    (sound / "sound" / "meta.json").write_text(text)
    with pytest.raises(FileFormatError, match=r"sound: (the store is damaged: meta|not a linrank)"):
        open_store(sound / "sound")
    with pytest.raises(DataError, match=r"the folder holds 'meta\.json', which is not part"):
        save_store(make_ranking(2, 3, 4, random_state=0), sound / "sound")


def test_indices_must_ascend_within_a_row(tmp_path):
    X = sparse.csr_array(np.ones((3, 3)))
    save_store(RankingData(X, [1, 0, 2]), tmp_path / "store")
    file = file_of(tmp_path / "store", "X_indices.npy")
    for indices in ([0, 1, 2, 0, 2, 1, 0, 1, 2], [0, 1, 2, 0, 1, 1, 0, 1, 2]):
        np.save(file, np.array(indices, np.int32))
        with pytest.raises(FileFormatError, match=r"X_indices\.npy does not ascend within a row"):
            open_store(tmp_path / "store")


def test_checks_look_at_every_block(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    X = sparse.random_array((40, 30), density=0.3, format="csr", rng=rng)
    save_store(RankingData(X, rng.normal(size=40)), tmp_path / "store")
    monkeypatch.setattr(store, "_BLOCK", 7)
    assert open_store(tmp_path / "store").X.nnz == X.nnz
    file = file_of(tmp_path / "store", "X_indices.npy")
    sound = np.load(file)
    for at in range(len(sound)):
        for value in (-1, 30):
            np.save(file, np.where(np.arange(len(sound)) == at, np.int32(value), sound))
            with pytest.raises(FileFormatError, match="holds indices outside of the features"):
                open_store(tmp_path / "store")


def test_numbers_that_are_not_finite_are_no_scores(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_store(make_ranking(2, 3, 4, random_state=0), "store")
    array = np.load(file_of(Path("store"), "X.npy"))
    array[3, 1] = np.nan
    np.save(file_of(Path("store"), "X.npy"), array)
    LinearModel(np.ones(4)).save("m.json")
    message = "store: X[3, 1] is NaN; features must be finite"
    assert message in error_of("predict", "m.json", "store", "--out", "s")
    assert "store: X[3, 1] is NaN; features must be finite" in error_of("train", "store")
    assert not Path("s").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "x"}, "not a linrank store"),
        ({"version": 9, "linrank": "9.9"}, r"written by a newer linrank \(9\.9, store version 9\)"),
        ({"version": "1"}, "the store is damaged: its version is '1'"),
        ({"n_features": 5}, "the store is damaged: X has a wrong shape"),
        ({"feature_names": ["a"]}, "the store is damaged: feature_names has 1 entries"),
        ({"index_base": 2}, "the store is damaged: "),
        ({"index_base": -1}, "the store is damaged: "),
        ({"arrays": None}, "the store is damaged: "),
        ({"arrays": {"../x": "<f8 1"}}, "the store is damaged: it has an unknown array '../x'"),
        ({"arrays": {}}, "the store is damaged: 'X_data' is missing"),
        ({"folder": "../sparse"}, "the store is damaged: its folder is '../sparse'"),
        ({"folder": 3}, "the store is damaged: its folder is 3"),
        ({"n_features": 2**40}, "the store is damaged: n_features is 1099511627776"),
        ({"n_features": 0}, "the store is damaged: n_features is 0"),
        ({"n_features": True}, "the store is damaged: n_features is 'True'"),
        ({"n_features": "4"}, "the store is damaged: n_features is '4'"),
        ({"feature_names": [1, 2, 3, 4]}, "the store is damaged: feature_names is not a list"),
        ({"version": True}, "the store is damaged: its version is True"),
    ],
)
def test_bad_meta(change, message, sound):
    file = sound / "sound" / "meta.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(FileFormatError, match=message):
        open_store(sound / "sound")


def test_what_is_not_a_store(tmp_path):
    with pytest.raises(FileFormatError, match="no such folder; expected a linrank store"):
        open_store(tmp_path / "none")
    with pytest.raises(FileFormatError, match=r"not a linrank store: it has no meta\.json"):
        open_store(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(FileFormatError, match="is a file; expected a linrank store"):
        open_store(tmp_path / "file")
    (tmp_path / "meta.json").write_text("[]")
    with pytest.raises(FileFormatError, match="not a linrank store"):
        open_store(tmp_path)
    with pytest.raises(FileFormatError, match="is a store; open it with open_store"):
        read_letor(tmp_path)
