"""SQLite, DuckDB and PostgreSQL score exported expressions."""

from __future__ import annotations

import os
import shutil
import socket
import sqlite3
import subprocess
import tempfile
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from commandline import PATIENCE
from linrank import LinearModel
from linrank.export import export_model

from .conftest import absent


@pytest.fixture(scope="module")
def sqlite():
    with closing(sqlite3.connect(":memory:")) as base:
        yield lambda text, rows=(): _on_cursor(base.cursor(), text, rows)


@pytest.fixture(scope="module")
def duckdb(needs):
    with closing(needs("duckdb").connect()) as base:
        yield lambda text, rows=(): _on_cursor(base, text, rows)


def _on_cursor(cursor, text, rows):
    if rows:
        cursor.executemany(text, rows)
        return []
    return cursor.execute(text).fetchall()


def find_postgres() -> Path | None:
    """Return the folder of PostgreSQL's programs; Debian does not put it on the path."""
    found = shutil.which("initdb")
    places = [Path(found)] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return places[-1].parent if places else None


@pytest.fixture(scope="module")
def postgresql(needs):
    """A server on the loopback interface that ends with the tests."""
    psycopg = needs("psycopg")
    programs = find_postgres()
    if programs is None:
        absent("PostgreSQL")
    # The server refuses to run as root. Debian's package makes a user for it.
    user = {"user": "postgres", "group": "postgres", "extra_groups": []} if not os.getuid() else {}
    folder = tempfile.mkdtemp(prefix="linrank-postgres-")
    try:
        if user:
            shutil.chown(folder, "postgres", "postgres")
        base = f"{folder}/base"
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder, **user}
        made = [programs / "initdb", "-D", base, "-A", "trust", "-U", "tester", "--no-sync"]
        subprocess.run([*made, "-E", "UTF8", "--locale=C"], check=True, **quiet)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        settings = ["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="]
        server = subprocess.Popen(
            [programs / "postgres", "-D", base, "-p", str(port), "-F", *settings], **quiet
        )
        try:
            yield from _connected(psycopg, port, server)
        finally:
            server.terminate()
            server.wait(PATIENCE)
    finally:
        shutil.rmtree(folder)


def _connected(psycopg, port, server):
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            base = psycopg.connect(host="127.0.0.1", port=port, user="tester", dbname="postgres")
            break
        except psycopg.OperationalError:
            assert server.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)

    def run(text, rows=()):
        with base.cursor() as cursor:
            if rows:
                cursor.executemany(text.replace("?", "%s"), rows)
                return []
            cursor.execute(text)
            return cursor.fetchall() if cursor.description else []

    with base:
        yield run


@pytest.fixture(params=["sqlite", "duckdb", "postgresql"])
def base(request):
    """A dialect, and a function that runs a statement."""
    return request.param, request.getfixturevalue(request.param)


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


def fill(run, names, X, types=None):
    """Make a table with a column per feature; NaN becomes NULL."""
    columns = ", ".join(f"{quoted(name)} DOUBLE PRECISION" for name in names)
    run("DROP TABLE IF EXISTS docs")
    run(f"CREATE TABLE docs (id INTEGER, {columns})")
    rows = [
        (i, *(None if value != value else value for value in row))
        for i, row in enumerate(np.asarray(X, dtype=float).tolist())
    ]
    run(f"INSERT INTO docs VALUES ({', '.join('?' * (len(names) + 1))})", rows)


def test_databases_score_as_the_model(case, base):
    dialect, run = base
    rows = slice(0, 400)  # to insert rows one by one is slow
    part = case._replace(X=np.asarray(case.X)[rows], qid=case.qid[rows])
    fill(run, case.model.names(), part.X)
    text = export_model(case.model, "sql", dialect=dialect, shift=-2.5)
    found = run(f"SELECT {text} FROM docs ORDER BY id")
    part.check([score for (score,) in found], -2.5)
    ranked = [i for (i,) in run(f"SELECT id FROM docs ORDER BY {text} DESC, id")]
    assert (np.diff(part.scores[ranked]) <= 1e-9 * np.abs(part.scores).max()).all()


def test_windows_scale_features_within_queries(in_queries, base):
    dialect, run = base
    names = in_queries.model.names()
    fill(run, names, in_queries.X)
    run("DROP TABLE IF EXISTS queries")
    run("CREATE TABLE queries (id INTEGER, qid INTEGER)")
    number = np.unique(in_queries.qid, return_inverse=True)[1].tolist()
    run("INSERT INTO queries VALUES (?, ?)", list(enumerate(number)))
    text = export_model(in_queries.model, "sql", dialect=dialect, partition="qid", shift=0.5)
    found = run(f"SELECT docs.id, {text} FROM docs JOIN queries ON docs.id = queries.id")
    in_queries.check([score for _, score in sorted(found)], 0.5)


def test_integers_and_other_expressions(base):
    dialect, run = base
    run("DROP TABLE IF EXISTS docs")
    run("CREATE TABLE docs (id INTEGER, clicks INTEGER, price INTEGER)")
    run("INSERT INTO docs VALUES (?, ?, ?)", [(0, 3, 10), (1, 1, 7)])
    model = LinearModel([0.5, 1e-30, -1.0 / 3], feature_names=["a", "b", "c"])
    features = {"a": "clicks", "b": "d.price", "c": "d.price / (clicks + 1)"}
    text = model.export("sql", dialect=dialect, features=features)
    found = [s for (s,) in run(f"SELECT {text} FROM docs AS d ORDER BY id")]
    division = [10 / 4, 7 / 2] if dialect == "duckdb" else [10 // 4, 7 // 2]
    np.testing.assert_allclose(found, [1.5 - division[0] / 3, 0.5 - division[1] / 3])
    assert all(isinstance(score, float) for score in found)


def test_missing_values_that_training_did_not_have_give_no_score(bent, base):
    dialect, run = base
    names = bent.model.names()
    row = np.full((1, len(names)), 0.5)
    row[0, 1] = np.nan  # a limited feature without a rule for missing values
    fill(run, names, row)
    assert run(f"SELECT {export_model(bent.model, 'sql', dialect=dialect)} FROM docs") == [(None,)]


@pytest.mark.parametrize("base", ["duckdb", "postgresql"], indirect=True)
def test_nan_is_a_missing_value_too(bent, base):
    dialect, run = base
    names = bent.model.names()
    fill(run, names, np.full((1, len(names)), 0.5))
    text = export_model(bent.model, "sql", dialect=dialect)
    found = []
    for value in ("NULL", "'NaN'"):
        run(f"UPDATE docs SET f0 = {value}")
        found += run(f"SELECT {text} FROM docs")
    assert found[0] == found[1]


def test_thousands_of_features(base):
    """A sum without groups would be deeper than SQLite allows."""
    dialect, run = base
    n = 4000
    names = [f"f{k}" for k in range(n)]
    model = LinearModel(np.arange(1.0, n + 1), feature_names=names)
    features = {name: f"({k} + 0 * one)" for k, name in enumerate(names)}
    run("DROP TABLE IF EXISTS docs")
    run("CREATE TABLE docs (one INTEGER)")
    run("INSERT INTO docs VALUES (?)", [(1,)])
    text = model.export("sql", dialect=dialect, features=features)
    ((found,),) = run(f"SELECT {text} FROM docs")
    assert found == sum((k + 1) * k for k in range(n))
