"""Campaign "results": edited and damaged files of results of studies.

``linrank study`` must end with one sentence, or with results. If an edit does not concern the runs
of the study, the results must be the same. SIGINT must always end the command.
"""

from __future__ import annotations

import io
import json
import os
import re
import resource
import signal
import sqlite3
import sys
import threading
import time
import warnings
import zipfile
from collections.abc import Callable
from contextlib import chdir, closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from linrank import make_ranking, write_letor

from .campaign import Campaign, Case
from .damage import HOSTILE, MEMORY, damage_bytes, damage_json
from .scenarios import COMMAND, Child, Done, Scenario, execute, fork

FILE = "study.sqlite"
HANGS = 60.0  #: seconds after which a command counts as hanging; it usually takes less than one
GRACE = 60.0  #: seconds between SIGINT and SIGKILL for a command that hangs
COLUMNS = ("key", "data", "fold", "method", "setting", "content", "arrays", "made", "versions")
SHAPES = [(2**40,), (2**29,), (2**31, 2**31), (0,), (1,), (), (3, 5), (-1,)]
PAGES = ["--report", "page.html", "--tables", "t", "--runs", "r"]  #: files that take some seconds
PROGRESS = re.compile("runs? are stored already| on data: ")  #: lines of a command without trouble
MUST = ("a run is missing", "nothing", "WAL")  #: harmless edits that may not be refused
KEEP = ("metric", "flavour", "failed", "problems")  #: results that do not depend on time

#: What a new process would do: SIGINT is not ignored, as in the background, and output is kept.
PROGRAM = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.stdout = open("out.json", "w")
"""

Edit = Callable[[np.random.Generator, Path], str]


class Study(NamedTuple):
    """A study with finished runs, its results, and arrays of zeros that unpack to 2 GiB."""

    scenario: Scenario
    results: Any
    zeros: bytes


def prepare(folder: Path) -> Study:
    """Run a small study in this process, which loads all modules."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    os.environ["LINRANK_THREADS"] = "1"
    before = folder / "before"
    before.mkdir()
    write_letor(before / "data.txt", make_ranking(12, 6, 4, n_levels=3, random_state=0))
    arguments = ["study", "data.txt", "--methods", "ranksvm:C=0.1|1,adarank:map", "--folds", "3"]
    arguments += ["--results", FILE, "--jobs", "0", "--json"]
    program = PROGRAM + COMMAND
    scenario = Scenario("study", arguments, FILE, Path.read_bytes, program, before)
    stdout = sys.stdout
    for more in (PAGES, []):
        with chdir(before):
            assert execute(scenario_with(scenario, more)) == 0
        sys.stdout.close()
        sys.stdout = stdout
    results = plain_results(before)
    scenario.names = frozenset(os.listdir(before))
    return Study(scenario, results, make_zeros())


def scenario_with(scenario: Scenario, more: list[str]) -> Scenario:
    """Return a scenario with more arguments."""
    return Scenario("study", [*scenario.arguments, *more], FILE, scenario.read, scenario.program,
                    scenario.folder)  # fmt: skip


def plain_results(folder: Path) -> Any:
    """Return the results that a command has printed, without times."""
    found = json.loads((folder / "out.json").read_text(encoding="utf-8"))
    for data in found["data"].values():
        for method in data["methods"].values():
            for fold in method["folds"].values():
                del fold["train_seconds"]
    return {name: found[name] for name in (*KEEP, "data")}


def array_bytes(shape: tuple[int, ...], dtype: str, content: bytes) -> bytes:
    """Return an npy file with a header that may not fit its content."""
    with closing(io.BytesIO()) as file:
        header = {"descr": dtype, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)  # type: ignore[arg-type]
        return file.getvalue() + content


def make_zeros() -> bytes:
    """Return an npz file of some megabytes with an array of 2 GiB."""
    with closing(io.BytesIO()) as file:
        with (
            zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as packed,
            packed.open("scores.npy", "w", force_zip64=True) as array,
        ):
            array.write(array_bytes((2**28,), "<f8", b""))
            for _ in range(2**11):
                array.write(bytes(2**20))
        return file.getvalue()


# Edits of the runs


def _execute(path: Path, *statements: str, values: tuple[Any, ...] = ()) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement, values)


def _row(rng: np.random.Generator, path: Path, column: str) -> tuple[str, Any]:
    """Return the key and a value of a random run."""
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute(f"SELECT key, {column} FROM run ORDER BY key").fetchall()
    return rows[rng.integers(len(rows))]


def _set(path: Path, key: str, column: str, value: Any) -> None:
    _execute(path, f"UPDATE run SET {column} = ? WHERE key = '{key}'", values=(value,))


def edit_content(rng: np.random.Generator, path: Path) -> str:
    """Damage the JSON of a run."""
    column = str(rng.choice(["content", "content", "content", "versions"]))
    key, text = _row(rng, path, column)
    _set(path, key, column, damage_json(rng, text))
    return f"{column}: another value"


def edit_value(rng: np.random.Generator, path: Path) -> str:
    """Replace a value of a run by one of any type."""
    column = str(rng.choice(COLUMNS[1:]))
    values = [None, 0, -1, 2**62, "{}", "[]", "null", "x" * 10**6, b"", b"PK", b"\xff",
              *(value for value in HOSTILE if isinstance(value, str | float))]  # fmt: skip
    value = values[rng.integers(len(values))]
    _set(path, _row(rng, path, "key")[0], column, value)
    return f"{column} = {str(value)[:20]!r}"


def edit_arrays(rng: np.random.Generator, path: Path) -> str:
    """Replace an array of a run by one of another shape, type or size."""
    key, content = _row(rng, path, "arrays")
    with np.load(io.BytesIO(content)) as found:
        arrays = {name: array_bytes(a.shape, a.dtype.str, a.tobytes()) for name, a in found.items()}
        name = str(rng.choice(list(arrays)))
        old = found[name]
    shape = SHAPES[rng.integers(len(SHAPES))] if rng.random() < 0.5 else old.shape
    dtype = str(rng.choice(["<f8", ">f8", "<f4", "<i8", "|O", "<U3", "<c16", "<M8[s]", "|b1"]))
    values = np.where(rng.random(old.shape) < 0.2, [np.nan, np.inf, 1e308][rng.integers(3)], old)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # casts of infinity and of complex numbers
        raw = values.astype(dtype if dtype != "|O" else "<f8").tobytes()
    arrays[name] = array_bytes(shape, dtype, raw)
    if rng.random() < 0.2:
        del arrays[name]
    with closing(io.BytesIO()) as file:
        with zipfile.ZipFile(file, "w") as packed:
            for name_of, array in arrays.items():
                packed.writestr(f"{name_of}.npy", array)
        whole = file.getvalue()
    _set(path, key, "arrays", whole if rng.random() < 0.9 else damage_bytes(rng, whole))
    return f"arrays: {name} as {dtype}{shape}"


# Edits of the file


_RECURSIVE = ", ".join(f"NULL AS {name}" if name != "key" else "1 AS key" for name in COLUMNS)
SCHEMAS: dict[str, list[str]] = {
    "no table": ["DROP TABLE run"],
    "an empty table": ["DELETE FROM run"],
    "a table with other columns": ["DROP TABLE run", "CREATE TABLE run (key, x)"],
    "a table without one column": ["ALTER TABLE run DROP COLUMN arrays"],
    "a column more": ["ALTER TABLE run ADD COLUMN more TEXT"],
    "a column of another name": ["ALTER TABLE run RENAME COLUMN content TO contents"],
    "a view": ["ALTER TABLE run RENAME TO old", "CREATE VIEW run AS SELECT * FROM old"],
    "a view that recurses": [
        "DROP TABLE run",
        f"CREATE VIEW run AS WITH RECURSIVE r AS (SELECT {_RECURSIVE} UNION ALL "
        f"SELECT key + 1, {', '.join(COLUMNS[1:])} FROM r) SELECT * FROM r",
    ],
    "a trigger that deletes": [
        "DELETE FROM run",
        "CREATE TRIGGER t AFTER INSERT ON run BEGIN DELETE FROM run; END",
    ],
    "a trigger that fails": [
        "DELETE FROM run",
        "CREATE TRIGGER t BEFORE INSERT ON run BEGIN SELECT RAISE(ABORT, 'no'); END",
    ],
    "a virtual table": ["DROP TABLE run", "CREATE VIRTUAL TABLE run USING fts5(key, content)"],
    "a newer version": ["PRAGMA user_version = 99"],
    "an older version": ["PRAGMA user_version = -1"],
    "another application": ["PRAGMA application_id = 7"],
    "another key": ["UPDATE run SET key = key || 'x'"],
}


def edit_schema(rng: np.random.Generator, path: Path) -> str:
    """Change the tables of the file."""
    name = str(rng.choice(list(SCHEMAS)))
    try:
        _execute(path, *SCHEMAS[name])
    except sqlite3.Error as error:
        return f"{name} ({error})"
    return name


def edit_bytes(rng: np.random.Generator, path: Path) -> str:
    """Damage the bytes of the file."""
    path.write_bytes(damage_bytes(rng, path.read_bytes()))
    return "other bytes"


def harmless(rng: np.random.Generator, path: Path) -> str:
    """Change the file in a way that does not concern the results."""
    key = _row(rng, path, "key")[0]
    edits = {
        "a run is missing": f"DELETE FROM run WHERE key = '{key}'",
        "another run": "INSERT INTO run (key) VALUES ('x')",
        "an index": "CREATE INDEX i ON run (data)",
        "statistics": "ANALYZE",
        "WAL": "PRAGMA journal_mode = WAL",
        "nothing": "SELECT 1",
    }
    name = str(rng.choice(list(edits)))
    _execute(path, edits[name])
    return name


EDITS: tuple[Edit, ...] = (
    edit_content, edit_content, edit_value, edit_value, edit_arrays, edit_arrays, edit_schema,
    edit_schema, edit_bytes, harmless,
)  # fmt: skip


# The command


def wait(case: Case, about: str, child: Child) -> Done:
    """Wait for a command; one that hangs is a defect, and one that SIGINT does not end, too."""
    alarms = [
        threading.Timer(HANGS, os.kill, (child.pid, signal.SIGINT)),
        threading.Timer(HANGS + GRACE, os.kill, (child.pid, signal.SIGKILL)),
    ]
    started = time.monotonic()
    for alarm in alarms:
        alarm.start()
    done = child.wait(begin=False)
    for alarm in alarms:
        alarm.cancel()
        alarm.join()
    if time.monotonic() - started > HANGS:
        case.wrong(
            f"{about}: hangs" + (", even after SIGINT" if done.code == -signal.SIGKILL else "")
        )
    return done


def run(case: Case) -> None:
    """Edit the file, and run the command on it."""
    study: Study = case.state
    folder = study.scenario.copy(case.folder / "data")
    (folder / "out.json").unlink()
    edit = EDITS[case.rng.integers(len(EDITS))]
    if case.rng.random() < 0.02:
        _set(folder / FILE, _row(case.rng, folder / FILE, "key")[0], "arrays", study.zeros)
        about = "an array of 2 GiB"
    else:
        about = f"{edit.__name__} ({edit(case.rng, folder / FILE)})"
    page = PAGES if case.rng.random() < 0.05 else []
    child = fork(scenario_with(study.scenario, page), folder)
    child.begin()
    interrupted = case.rng.random() < 0.15
    if interrupted:
        about += " with SIGINT"
        time.sleep(float(case.rng.uniform(0.0, 0.5)))
        os.kill(child.pid, signal.SIGINT)
    case.units += 1
    done = wait(case, about, child)
    judge(case, about, folder, done, interrupted)
    if edit is harmless and not interrupted:
        if done.code == 2 and any(text in about for text in MUST):
            case.wrong(f"{about}: refused: {done.said}")
        elif done.code == 0 and plain_results(folder) != study.results:
            case.wrong(f"{about}: other results")


def judge(case: Case, about: str, folder: Path, done: Done, interrupted: bool) -> None:
    """Check the exit code and the sentence of a command."""
    case.saw(f"exit {done.code}")
    lines = [line for line in done.said.splitlines() if PROGRESS.search(line) is None]
    if "Traceback" in done.said:
        case.wrong(f"{about}: exit code {done.code}: {' '.join(lines[-1:])[:500]}")
    elif interrupted and done.code in (130, -signal.SIGINT) and len(lines) <= 1:
        case.saw("interrupted")
    elif done.code == 2:
        if len(lines) != 1 or not lines[0].startswith("error: ") or "not enough memory" in lines[0]:
            case.wrong(f"{about}: not one sentence: {done.said[:800]}")
    elif done.code not in (0, 1):
        case.wrong(f"{about}: exit code {done.code}: {done.said[-500:]}")
    else:
        plain_results(folder)  # raises an error if they are no JSON


CAMPAIGN = Campaign("results", "edited files", 500, 6.0, run, prepare)
