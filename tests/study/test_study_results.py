"""Files of results that are damaged or made by others: one sentence, or the right results."""

import io
import json
import random
import shutil
import sqlite3
import tracemalloc
import zipfile
from contextlib import closing
from copy import deepcopy
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from commandline import error_of, write_text
from linrank import make_ranking
from linrank.errors import DataError, FileFormatError
from linrank.study import Study
from linrank.study.analysis import Analysis
from linrank.study.results import APPLICATION, LONGEST_CURVE, TABLE, VERSION, ResultStore
from linrank.study.study import Workspace
from linrank.study.study_page import Drawing, study_parts, walk

METHODS = ["ranksvm:C=0.1|1", "svr:C=1"]
#: Sentences about other files, newer versions and disks.
OTHERS = ("Name another file", "Upgrade linrank", "results cannot be stored: ")
COLUMNS = ("key", "data", "fold", "method", "setting", "content", "arrays", "made", "versions")


class News:
    def __init__(self):
        self.jobs = []

    def reading(self, data): ...
    def planned(self, jobs, stored): ...
    def started(self, job): ...

    def finished(self, done):
        self.jobs.append(done.job)


@pytest.fixture(scope="module")
def study():
    data = make_ranking(n_queries=15, docs_per_query=6, n_features=4, random_state=3)
    return Study({"made": data}, METHODS, n_folds=3)


@pytest.fixture(scope="module")
def whole(study, tmp_path_factory):
    """A file of results, the jobs of its rows, and what they found."""
    file, news = tmp_path_factory.mktemp("results") / "whole.sqlite", News()
    study.run(file, n_processes=0, progress=news)
    with ResultStore(file) as store:
        found = {job.key: store.get(job) for job in news.jobs}
        made = dict(zip(found, store.made(news.jobs), strict=True))
    return SimpleNamespace(file=file, jobs=news.jobs, found=found, made=made)


@pytest.fixture
def file(whole, tmp_path):
    return shutil.copy(whole.file, tmp_path / "a.sqlite")


def execute(file, question, values=()):
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute(question, values)


def outcomes_of(file, jobs):
    """Read all runs that the file has, as a study does."""
    with ResultStore(file) as store:
        known = store.known(jobs)
        assert len(store.made(jobs)) == len(known)
        kept = [job for job in jobs if job.key in known]
        return {job.key: (store.get(job), store.made([job])[0]) for job in kept}


def content_of(outcome):
    weights = outcome.weights and {name: str(part) for name, part in vars(outcome.weights).items()}
    curve = outcome.curve and {name: str(part) for name, part in vars(outcome.curve).items()}
    plain = {name: repr(value) for name, value in vars(outcome).items() if name != "scores"}
    return plain | {"weights": weights, "curve": curve, "scores": outcome.scores.tolist()}


def holds(file, whole):
    """Return whether a damaged file is read; check the sentence, or all results that it has."""
    try:
        found = outcomes_of(file, whole.jobs)
    except DataError as error:
        said = str(error)
    else:
        said = ""
    if said:
        assert said.startswith(f"{file}: ")
        assert said.endswith("name another file.") or any(part in said for part in OTHERS)
        assert "\n" not in said
        assert len(said) < 500 + len(str(file))
        return False
    for key, (outcome, made) in found.items():
        assert content_of(outcome) == content_of(whole.found[key])
        assert made == whole.made[key]
    return True


def any_value(rng):
    deep = "[" * 100_000
    return rng.choice([
        None, 0, -1, 2**62, 1.5, float("inf"), "", "x", "{}", "[]", "null", "\ud7ff\0", b"", b"PK",
        b"\xff" * 9, deep, '{"trials": ' + deep, "1" * 5000, '{"trials": 1e999}', "NaN",
    ])  # fmt: skip


def test_values_of_other_types_in_any_column(whole, tmp_path):
    rng, file = random.Random(0), tmp_path / "a.sqlite"
    n_read = 0
    for _ in range(150):
        shutil.copy(whole.file, file)
        column, key = rng.choice(COLUMNS), rng.choice(whole.jobs).key
        execute(file, f"UPDATE OR IGNORE run SET {column} = ? WHERE key = ?", (any_value(rng), key))
        is_read = holds(file, whole)
        # Columns that no report reads may hold anything, and a run with another key is done again.
        assert is_read == (column in ("key", "data", "fold", "method", "setting"))
        n_read += is_read
    assert 30 < n_read < 120


def test_flipped_bytes_and_truncated_files(whole, tmp_path):
    rng, file = np.random.default_rng(0), tmp_path / "a.sqlite"
    original = np.frombuffer(whole.file.read_bytes(), np.uint8)
    n_read = 0
    for trial in range(200):
        data = original.copy()
        places = rng.integers(100 if trial % 3 else len(data), size=1 + trial % 4)
        data[places] ^= rng.integers(1, 256, len(places)).astype(np.uint8)
        size = rng.integers(len(data)) if trial % 5 == 0 else len(data)
        file.write_bytes(data[:size].tobytes())
        n_read += holds(file, whole)
    assert 20 < n_read < 180


def test_flipped_bytes_in_rows_are_noticed(whole, file):
    rng = random.Random(0)
    for _ in range(100):
        column, job = rng.choice(COLUMNS[5:]), rng.choice(whole.jobs)
        shutil.copy(whole.file, file)
        with closing(sqlite3.connect(file)) as connection:
            (value,) = connection.execute(
                f"SELECT {column} FROM run WHERE key = ?", (job.key,)
            ).fetchone()
        data = bytearray(value if column == "arrays" else value.encode())
        place = rng.randrange(len(data))
        data[place] = rng.choice([byte for byte in range(32, 127) if byte != data[place]])
        new = bytes(data) if column == "arrays" else data.decode()
        execute(file, f"UPDATE run SET {column} = ? WHERE key = ?", (new, job.key))
        is_read = holds(file, whole)
        assert not is_read or column == "content"  # the word "digest" itself


SCHEMAS = {
    "no table": ["DROP TABLE run"],
    "another table": ["CREATE TABLE more (x)"],
    "a view": ["CREATE VIEW more AS SELECT 1"],
    "a trigger": ["CREATE TRIGGER more AFTER INSERT ON run BEGIN DELETE FROM run; END"],
    "an index": ["CREATE INDEX more ON run (length(content))"],
    "statistics": ["ANALYZE"],
    "a column": ["ALTER TABLE run ADD COLUMN more"],
    "a generated column": ["ALTER TABLE run ADD COLUMN more AS (zeroblob(1000000000))"],
    "a view in place of the table": [
        "ALTER TABLE run RENAME TO old",
        "CREATE VIEW run AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) "
        "SELECT x AS key, x AS content, x AS arrays, x AS made, x AS versions FROM n",
    ],
    "a virtual table": ["CREATE VIRTUAL TABLE more USING fts5(x)"],
    "version 0": ["PRAGMA user_version = 0"],
    "a negative version": ["PRAGMA user_version = -1"],
    "a newer version": ["PRAGMA user_version = 2"],
    "another program": ["PRAGMA application_id = 7"],
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_other_schemas_are_refused(whole, file, name):
    for question in SCHEMAS[name]:
        execute(file, question)
    if name == "no table":  # a new file
        assert outcomes_of(file, whole.jobs) == {}
        return
    assert not holds(file, whole)
    with closing(sqlite3.connect(file)) as connection:
        before = connection.execute("SELECT sql FROM sqlite_schema").fetchall()
    with pytest.raises(FileFormatError, match=r"a\.sqlite: "):
        ResultStore(file)
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("SELECT sql FROM sqlite_schema").fetchall() == before


def row_of(whole, file):
    """Return the key and the content of a run along a path, without its digest."""
    key = next(job.key for job in whole.jobs if job.chooser is not None)
    with closing(sqlite3.connect(file)) as connection:
        question = "SELECT content, arrays FROM run WHERE key = ?"
        content, arrays = connection.execute(question, (key,)).fetchone()
    content = json.loads(content)
    del content["digest"]
    with np.load(io.BytesIO(arrays)) as found:
        return key, content, dict(found)


def write_row(file, key, content, arrays=None):
    execute(file, "UPDATE run SET content = ? WHERE key = ?", (json.dumps(content), key))
    if arrays is not None:
        file_of = io.BytesIO()
        np.savez_compressed(file_of, **arrays)
        execute(file, "UPDATE run SET arrays = ? WHERE key = ?", (file_of.getvalue(), key))


def test_rows_without_a_digest_are_read(whole, file):
    """linrank 0.2.0 wrote none."""
    key, content, _ = row_of(whole, file)
    write_row(file, key, content)
    assert holds(file, whole)


def entries_of(content):
    """Yield all entries of some content, as paths."""
    parts = content.items() if isinstance(content, dict) else enumerate(content)
    for name, value in list(parts):
        yield [name]
        if isinstance(value, dict | list):
            yield from ([name, *path] for path in entries_of(value))


def report_of(study, file):
    """Make all of a report but its pictures' files."""
    analysis = Analysis(study.run(file, n_processes=0))
    for part in study_parts(analysis, "command"):
        for content in walk(part.contents):
            if not isinstance(content, Drawing):
                str(content).encode()


def test_edited_rows_without_a_digest_are_refused_or_reported(study, whole, file):
    """An editor can leave out the digest, so each value is checked, too."""
    key, content, _ = row_of(whole, file)
    wrong = [None, True, -1, 2**70, float("inf"), "x", [], {}, [1], {"a": 1}, "\ud800"]
    n_read = 0
    for path in entries_of(content):
        for value in wrong:
            edited = deepcopy(content)
            place = edited
            for name in path[:-1]:
                place = place[name]
            place[path[-1]] = value
            write_row(file, key, edited)
            try:
                with ResultStore(file) as store:
                    store.known(whole.jobs)
            except FileFormatError:
                continue
            n_read += 1
            report_of(study, file)
    assert 0 < n_read < 30  # names, and None for unknown numbers of features


def with_arrays(**changes):
    return lambda arrays: arrays | changes


ARRAYS = {
    "too few scores": with_arrays(scores=np.zeros(3)),
    "scores of another type": with_arrays(scores=np.zeros(30, np.float32)),
    "scores that are not finite": with_arrays(scores=np.full(30, np.nan)),
    "a table of scores": with_arrays(scores=np.zeros((30, 1))),
    "no scores": lambda arrays: {name: a for name, a in arrays.items() if name != "scores"},
    "no weights": lambda arrays: {name: a for name, a in arrays.items() if name != "Weights.coef"},
    "too many weights": with_arrays(**{"Weights.coef": np.zeros(5)}),
    "features of other data": with_arrays(**{"Weights.features": np.array([0, 1, 2, 4])}),
    "negative C": with_arrays(**{"Weights.Cs": np.array([-1.0, 1.0])}),
    "more C than trials": with_arrays(**{"Weights.Cs": np.arange(1.0, 4.0)}),
    "an empty curve": with_arrays(**{"Curve.objective": np.zeros(0)}),
    "an unknown array": with_arrays(other=np.zeros(3)),
    "objects": with_arrays(scores=np.array([{}] * 30)),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_that_do_not_fit_are_refused(whole, file, name):
    key, content, arrays = row_of(whole, file)
    write_row(file, key, content, ARRAYS[name](arrays))
    assert not holds(file, whole)


def archive(name, data, **lies):
    found = io.BytesIO()
    with zipfile.ZipFile(found, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(name, data)
    written = found.getvalue()
    for size, claimed in lies.get("sizes", ()):
        written = written.replace(size.to_bytes(4, "little"), claimed.to_bytes(4, "little"))
    return written


def npy(array, shape=None):
    found = io.BytesIO()
    np.save(found, array)
    return found.getvalue() if shape is None else found.getvalue().replace(*shape)


@pytest.mark.parametrize("n_claimed", [None, 200])
def test_arrays_are_not_decompressed_beyond_their_largest_size(whole, file, n_claimed):
    key, content, _ = row_of(whole, file)
    data = npy(np.zeros(16 * LONGEST_CURVE))
    sizes = [(len(data), n_claimed)] if n_claimed else []
    packed = archive("Curve.seconds.npy", data, sizes=sizes)
    write_row(file, key, content)
    execute(file, "UPDATE run SET arrays = ? WHERE key = ?", (packed, key))
    tracemalloc.start()
    assert not holds(file, whole)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * 8 * LONGEST_CURVE < len(data) / 3


def test_headers_do_not_allocate(whole, file):
    key, content, _ = row_of(whole, file)
    huge = npy(np.zeros((30,)), (b"(30,), }       ", b"(536870912,), }"))
    write_row(file, key, content)
    packed = archive("scores.npy", huge)
    execute(file, "UPDATE run SET arrays = ? WHERE key = ?", (packed, key))
    with ResultStore(file) as store, pytest.raises(FileFormatError, match="536870912"):
        store.known(whole.jobs)


def test_parts_of_others_are_not_used(study, tmp_path):
    """Parts of another study, or of a file's author, may lie beside the results."""
    file = tmp_path / "a.sqlite"
    expected = study.run(n_processes=0)
    with Workspace(file) as place:
        for fold in study.data_sets[0].folds():
            wrong = fold.train.replace(y=fold.train.y[::-1].copy())
            place.write_parts(replace(fold, train=wrong))
        shutil.copytree(f"{file}.parts", tmp_path / "kept")
    shutil.copytree(tmp_path / "kept", f"{file}.parts")
    results = study.run(file, n_processes=0)
    for method in METHODS:
        assert results.mean("made", method) == expected.mean("made", method)


def test_the_command_says_it_in_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = make_ranking(12, 6, 3, random_state=0)
    write_text(tmp_path / "one.txt", data)
    with closing(sqlite3.connect("study.sqlite")) as connection:
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute(TABLE)
        connection.execute("CREATE VIEW more AS SELECT 1")
    said = error_of("study", "one.txt", "--methods", "svr:C=1", "--jobs", "0")
    assert said == (
        "study.sqlite: the file of results is damaged: it has an unknown view 'more'. Restore it "
        "from a copy, or name another file."
    )
