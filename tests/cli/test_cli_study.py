"""The command ``linrank study``: data, methods, files, continuing and bad input."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import signal
import sqlite3
import string
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import csv, parquet
from rich.console import Console

from commandline import (
    PATIENCE,
    PROGRAM,
    Command,
    error_of,
    read_until,
    run,
    run_json,
    write_text,
)
from linrank import RankSVM, evaluate, load, make_ranking, save_store
from linrank.baselines.methods import METHODS
from linrank.cli.study import ProgressCell as Cell
from linrank.cli.study import StudyProgress, format_seconds, time_left
from linrank.errors import FileFormatError
from linrank.study import DataSet, ScoreFiles, Study
from linrank.study.folds import split
from linrank.study.protocol import ALL, GRIDS, Job, split_methods
from linrank.study.results import Brief, Outcome, Trial
from linrank.study.study import StudyFile, read_study, write_study
from linrank.study.workers import Finished
from linrank.training.selection import Criterion

QUICK = "svr:C=0.1|1"
JOBS = ("--jobs", "0")  # runs in this process


def ranking(seed: int, n_features: int = 4):
    data = make_ranking(12, (3, 9), n_features, n_levels=3, noise=1.0, random_state=seed)
    return data.take(np.arange(data.n_docs))


def write_folds(folder: Path, n_folds: int = 2, n_features: int = 4, seed: int = 0) -> None:
    """Write LETOR folds; the ids of queries differ between parts."""
    for fold in range(1, n_folds + 1):
        (folder / f"Fold{fold}").mkdir(parents=True)
        for k, part in enumerate(("train", "vali", "test")):
            path = folder / f"Fold{fold}" / f"{part}.txt"
            write_text(path, ranking(seed + 10 * fold + k, n_features))
            renumbered = path.read_text().replace("qid:", f"qid:{k + 1}0")
            path.write_text(renumbered)


@pytest.fixture
def folds(here):
    write_folds(here / "folds")
    return here


@pytest.fixture
def one(here):
    """Data that are one part, in several formats."""
    data = ranking(5)
    write_text(here / "one.txt", data)
    features = {f"f{k}": data.X[:, k] for k in range(data.n_features)}
    table = pa.table({"title": ["t"] * data.n_docs, "query": data.qid, **features, "grade": data.y})
    parquet.write_table(table, here / "one.parquet")
    csv.write_csv(table, here / "one.csv")
    save_store(data, here / "one.store")
    return here


def rows(path="study.sqlite") -> dict[str, str]:
    """When each run of a file of results was made, by its key."""
    with sqlite3.connect(path) as connection:
        found = dict(connection.execute("SELECT key, made FROM run").fetchall())
    connection.close()
    return found


def means(found, metric="ndcg@10"):
    return {
        data: {name: method["mean"][metric] for name, method in content["methods"].items()}
        for data, content in found["data"].items()
    }


# Data -------------------------------------------------------------------------------------------


def test_a_folder_with_folds_is_fitted_chosen_and_tested(folds):
    found = run_json("study", "folds", "--methods", f"ranksvm:C=0.1|1,{QUICK}", "--jobs", "1")
    method = found["data"]["folds"]["methods"]["ranksvm:C=0.1|1"]
    assert found["data"]["folds"]["folds"] == ["Fold1", "Fold2"]
    for fold, chosen in method["folds"].items():
        train, valid, test = (
            load(f"folds/{fold}/{part}.txt") for part in ("train", "vali", "test")
        )
        values = {}
        for C in (0.1, 1.0):
            ranker = RankSVM(C=C).fit(train.X, train.y, train.qid)
            values[C] = [
                evaluate(data.y, ranker.predict(data.X), qid=data.qid).mean["ndcg@10"]
                for data in (valid, test)
            ]
        best = max(values, key=lambda C: values[C][0])
        assert chosen["setting"] == {"C": best}
        assert (chosen["valid"], chosen["test"]) == pytest.approx(values[best], abs=5e-3)
    tests = [chosen["test"] for chosen in method["folds"].values()]
    assert method["mean"]["ndcg@10"] == pytest.approx(np.mean(tests))
    assert found["failed"] == []
    assert set(method["mean"]) == {"ndcg@10", "map", "ndcg@5", "p@10", "mrr"}


def test_one_part_in_any_format_is_split_into_the_same_folds(one):
    columns = ("--label", "grade", "--qid", "query", "--ignore", "title")
    common = ("--methods", QUICK, "--folds", "3", *JOBS)
    text = run_json("study", "one.txt", *common)
    assert text["data"]["one"]["folds"] == ["Fold1", "Fold2", "Fold3"]
    assert text["data"]["one"]["queries"] == 12
    assert means(run_json("study", "one.store", *common)) == means(text)
    for table in ("one.parquet", "one.csv"):
        assert means(run_json("study", table, *columns, *common)) == means(text)


def test_several_data_sets_with_one_name_are_told_apart(here):
    for k, place in enumerate(("a", "b")):
        write_folds(here / place / "folds", 1, seed=100 * k)
    found = run_json("study", "a/folds", "b/folds", "--methods", QUICK, *JOBS)
    assert list(found["data"]) == ["a/folds", "b/folds"]
    assert means(found)["a/folds"] != means(found)["b/folds"]
    said = error_of("study", "a/folds", "a/folds", "--methods", QUICK)
    assert "two data sets have the name 'a/folds'" in said


def test_missing_values_are_left_to_the_methods(one):
    table = Path("one.csv").read_text().splitlines()
    cells = table[1].split(",")
    Path("one.csv").write_text(
        "\n".join([table[0], ",".join([*cells[:2], "", *cells[3:]]), *table[2:]])
    )
    columns = ("--label", "grade", "--qid", "query", "--ignore", "title")
    filling = "ranksvm:missing=median,C=1"
    found = run(
        "study", "one.csv", *columns, "--methods", f"{QUICK},{filling}", "--folds", "3", "--json",
        *JOBS, code=1,
    )  # fmt: skip
    assert re.search(rf"\d runs of {re.escape(QUICK)} on one failed: .*NaN", found.stderr)
    assert f"of {filling} on one failed" not in found.stderr
    assert means(json.loads(found.stdout))["one"][filling] > 0


def test_metrics_and_flavours(folds):
    found = run_json(
        "study", "folds", "--methods", QUICK, "--metric", "p@3", "--metrics", "err@5,p(rel=2)@5",
        "--flavour", "letor4", *JOBS,
    )  # fmt: skip
    assert found["metric"] == "p@3"
    assert found["flavour"] == "letor4"
    method = found["data"]["folds"]["methods"][QUICK]
    assert list(method["mean"]) == ["p@3", "err@5", "p(rel=2)@5"]


# Methods ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ranksvm,sparse:log,svr", ["ranksvm", "sparse:log", "svr"]),
        ("ranksvm:loss=huber,normalize=queries,sparse:log,C=1",
         ["ranksvm:loss=huber,normalize=queries", "sparse:log,C=1"]),
        ("sparse:C=1|2,log,forest", ["sparse:C=1|2,log", "forest"]),
        ("ranksvm,loss=huber", ["ranksvm:loss=huber"]),
        ("sparse:log,lambdamrt", ["sparse:log", "lambdamrt"]),
        ("ranksvm,lambdamrt", ["ranksvm", "lambdamrt"]),
        ("forest:n_estimators=3,lambdamrt", ["forest:n_estimators=3", "lambdamrt"]),
        (" svr , , pamir ", ["svr", "pamir"]),
        ("all", list(ALL)),
    ],
)  # fmt: skip
def test_lists_of_methods_are_split(text, expected):
    assert split_methods(text) == expected


def test_all_is_every_method_once():
    assert {text.partition(":")[0] for text in ALL} == METHODS.keys() == GRIDS.keys()
    assert [text for text in ALL if text.startswith("sparse")] == [
        "sparse:l1", "sparse:mcp", "sparse:log", "sparse:lp"
    ]  # fmt: skip


def test_methods_may_be_repeated(folds):
    found = run_json("study", "folds", "--methods", QUICK, "--methods", "adarank:map", *JOBS)
    assert list(found["data"]["folds"]["methods"]) == [QUICK, "adarank:map"]


def test_scores_of_other_tools_are_methods(folds):
    rng = np.random.default_rng(0)
    expected = []
    for fold in ("Fold1", "Fold2"):
        test = load(f"folds/{fold}/test.txt")
        scores = rng.standard_normal(test.n_docs)
        Path(f"{fold}.scores").write_text("".join(f"{score!r}\n" for score in scores.tolist()))
        expected.append(evaluate(test.y, scores, qid=test.qid).mean["ndcg@10"])
    found = run_json("study", "folds", "--methods", QUICK, "--scores", "other={fold}.scores", *JOBS)
    assert means(found)["folds"]["other"] == pytest.approx(np.mean(expected))
    assert len(rows()) == 4  # 2 settings of svr on 2 folds


def test_runs_of_trec_are_methods(here):
    data = ranking(5)
    names = [f"D{k}" for k in range(data.n_docs)]
    lines = [
        f"{y:g} qid:{q} " + " ".join(f"{f}:{v!r}" for f, v in enumerate(row, 1)) + f" #docid = {n}"
        for y, q, row, n in zip(data.y, data.qid, data.X.tolist(), names, strict=True)
    ]
    Path("one.txt").write_text("\n".join(lines) + "\n")
    scores = data.X[:, 0]
    trec = [
        f"{q} Q0 {n} 1 {s!r} tool" for q, n, s in zip(data.qid, names, scores.tolist(), strict=True)
    ]
    Path("one.run").write_text("\n".join(trec) + "\n")
    Path("all.scores").write_text("1\n2\n")
    common = ("study", "one.txt", "--folds", "3", "--methods", QUICK, *JOBS)
    found = run_json(*common, "--scores", "tool={data}.run")
    expected = [
        evaluate(test.y, test.X[:, 0], qid=test.qid).mean["ndcg@10"]
        for _, _, _, test in split(load("one.txt"), 3)
    ]
    assert means(found)["one"]["tool"] == pytest.approx(np.mean(expected))
    assert "all.scores" in error_of(*common, "--scores", "bad=all.scores")
    assert "{other}" in error_of(*common, "--scores", "bad={other}.run")
    assert "not NAME=PATTERN" in run(*common, "--scores", "tool", code=2).stderr
    assert "two methods" in error_of(*common, "--methods", "svr", "--scores", "svr=one.run")


# Results on disk --------------------------------------------------------------------------------


def test_the_same_command_does_no_run_again(folds):
    command = ("study", "folds", "--methods", QUICK, *JOBS)
    first = run_json(*command)
    before = rows()
    again = run(*command, "--json")
    assert "4 of 4 runs are stored already" in again.stderr
    assert rows() == before
    assert means(run_json(*command)) == means(first)
    assert not Path("study.sqlite.parts").exists()


def test_a_later_study_adds_methods_and_data_sets(folds):
    write_folds(folds / "more", 1, seed=300)
    run_json("study", "folds", "--methods", QUICK, "--results", "r.sqlite", *JOBS)
    before = rows("r.sqlite")
    found = run_json(
        "study", "folds", "more", "--methods", f"{QUICK},adarank:map", "--results", "r.sqlite",
        *JOBS,
    )  # fmt: skip
    after = rows("r.sqlite")
    assert before.items() <= after.items()
    assert len(after) == len(before) + 2 + 1 + 2  # adarank twice; on the new fold both methods
    assert found["written"] == {"results": "r.sqlite"}


def test_a_method_that_fails_leaves_the_others(folds):
    methods = f"{QUICK},rankboost:n_rounds=-1"
    found = run("study", "folds", "--methods", methods, "--jobs", "2", "--json", code=1)
    assert "2 runs of rankboost:n_rounds=-1 on folds failed: DataError: n_rounds" in found.stderr
    assert "rankboost:n_rounds=-1 on folds: ndcg@10 - (2 runs, 2 failed, " in found.stderr
    assert len(rows()) == 4


def test_the_page_tables_and_runs_are_written(folds):
    found = run(
        "study", "folds", "--methods", f"{QUICK},adarank:map", "--report", "out.html",
        "--tables", "tables", "--runs", "runs", "--baseline", QUICK, *JOBS,
    )  # fmt: skip
    for text in (QUICK, "adarank:map", "ndcg@10", "report   saved as out.html"):
        assert text in found.stdout
    assert "adarank:map" in Path("out.html").read_text()
    assert list(Path("tables").glob("*.csv"))
    assert list(Path("runs").rglob("*"))


def test_other_commands_do_not_import_studies():
    code = "import sys, linrank.cli.app; print([m for m in sys.modules if 'linrank.study' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


#: The program, which waits after three runs, so that Ctrl-C comes before the end of the study.
PAUSED = f"""
import time
from linrank.cli.study import StudyProgress
n_done, finished = [], StudyProgress.finished

def pause(self, done):
    finished(self, done)
    n_done.append(done)
    if len(n_done) == 3:
        time.sleep({PATIENCE})

StudyProgress.finished = pause
{PROGRAM}
"""


@pytest.mark.slow
def test_ctrl_c_keeps_finished_runs_and_the_same_command_continues(here):
    write_text(here / "one.txt", ranking(1))
    command = (
        "study",
        "one.txt",
        "--methods",
        "pamir:C=1,max_iter=10,random_state=" + "|".join(map(str, range(40))),
    )
    ours, theirs = pty.openpty()
    start_paused = [sys.executable, "-c", PAUSED, *command, "--jobs", "1"]
    with Command(start_paused, stdout=subprocess.PIPE, stderr=theirs, text=True) as process:
        os.close(theirs)
        read_until(ours, r"3 of 200 runs.*left")
        process.send_signal(signal.SIGINT)
        said = read_until(ours, r"continues the study\.")
        assert process.stdout.read() == ""
    os.close(ours)
    assert process.returncode == 130
    n_said = int(re.search(r"interrupted: (\d+) of 200 runs are stored", said)[1])
    before = rows()
    assert n_said == len(before) == 3
    assert said.rstrip().endswith("continues the study.\x1b[0m") or "\x1b[?25h" in said
    again = run(*command, *JOBS, "--json")
    assert f"{len(before)} of 200 runs are stored already" in again.stderr
    assert before.items() <= rows().items()
    assert len(rows()) == 200


# TOML -------------------------------------------------------------------------------------------

names = st.text(min_size=1, max_size=8)
places = st.text(string.ascii_letters + " {}#\"'é=.", min_size=1, max_size=8).filter(
    lambda name: name.strip(".") == name
)
values = st.lists(
    st.one_of(st.integers(), st.floats(allow_nan=False), st.booleans(), names), min_size=1,
    max_size=3,
)  # fmt: skip
columns = st.fixed_dictionaries(
    {}, optional={"label": names, "qid": names, "ignore": st.lists(names).map(tuple)}
)


def doubled_braces(path):
    return path.replace("{", "{{").replace("}", "}}")


@st.composite
def study_files(draw):
    folds = draw(st.integers(3, 9))
    data = {
        name: DataSet(name, draw(places), draw(st.sampled_from([folds, 4])),
                      draw(st.none() | st.integers(1, 9)), draw(columns))
        for name in draw(st.lists(names, unique=True, max_size=3))
    }  # fmt: skip
    kinds = st.sampled_from(["text", "grid", "scores"])
    methods: dict[str, object] = {}
    for name in draw(st.lists(names, unique=True, min_size=1, max_size=3)):
        kind = draw(kinds)
        text = draw(names)
        methods[name] = text
        if kind == "grid":
            methods[name] = text, draw(st.dictionaries(names, values, min_size=1, max_size=2))
        if kind == "scores":
            methods[name] = ScoreFiles(name, draw(places.map(doubled_braces)))
    return StudyFile(
        data, methods, draw(names), tuple(draw(st.lists(names))), "standard", folds,
        draw(places), *(draw(st.none() | places) for _ in range(3)),
        draw(st.none() | st.integers(0, 64)), draw(st.none() | names),
    )  # fmt: skip


@settings(max_examples=60)
@given(study_files())
def test_files_hold_a_study_with_any_names(tmp_path_factory, file):
    """Paths are relative to the file; both folders have braces, which scores must not expand."""
    work, other = (tmp_path_factory.mktemp("{x}") for _ in range(2))
    before = os.getcwd()
    os.chdir(work)
    try:
        write_study("study.toml", file)
        again = read_study("study.toml")
        assert again == file
        assert (list(again.data), list(again.methods)) == (list(file.data), list(file.methods))
        write_study(other / "study.toml", file)
        found = read_study(other / "study.toml")
    finally:
        os.chdir(before)
    assert found.metric == file.metric
    for name, data in file.data.items():
        assert os.path.realpath(found.data[name].source) == str(work / data.source)
    for name, method in file.methods.items():
        if not isinstance(method, ScoreFiles):
            assert found.methods[name] == method
        elif "{" not in method.pattern and "}" not in method.pattern:
            assert os.path.realpath(found.methods[name].path("d", "f")) == str(
                work / method.pattern
            )


def test_a_written_file_repeats_the_command(one):
    """Also from another folder, because paths are relative to the file."""
    (one / "deep").mkdir()
    arguments = (
        "one.csv", "--label", "grade", "--qid", "query", "--ignore", "title", "--folds", "3",
        "--methods", f"{QUICK},adarank:map", "--metric", "map", "--metrics", "p@3", *JOBS,
    )  # fmt: skip
    run("study", *arguments, "--write-toml", "deep/study.toml")
    assert not Path("study.sqlite").exists()
    found = run_json("study", *arguments)
    before = rows()
    os.chdir("deep")
    again = run_json("study", "study.toml")
    assert means(again, "map") == means(found, "map")
    assert rows("../study.sqlite") == before
    assert again["written"] == {"results": "../study.sqlite"}
    assert run_json("study", "study.toml", "--metrics", "mrr")["data"]["one"]["methods"][QUICK][
        "mean"
    ].keys() == {"map", "mrr"}


def test_a_file_without_data_is_a_start(here):
    run("study", "--write-toml", "study.toml")
    assert "study.toml: exists already" in error_of("study", "--write-toml", "study.toml")
    assert read_study("study.toml") == StudyFile({})
    assert "the study has no data" in error_of("study", "study.toml")


def test_python_reads_the_same_file(folds):
    Path("study.toml").write_text(
        'metric = "map"\n[data]\nfolds = "folds"\n[methods]\n'
        'quick = { method = "svr", grid = { C = [0.1, 1.0] } }\n'
    )
    results = Study.from_toml("study.toml").run(n_processes=0)
    assert results.methods == ["quick"]
    assert results.metric == "map"
    found = run_json("study", "study.toml", *JOBS)
    assert means(found, "map")["folds"]["quick"] == pytest.approx(results.mean("folds", "quick"))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('metirc = "map"', "the key metirc is not known; did you mean metric"),
        ('metrics = "map"', "metrics is 'map'; expected a list of texts"),
        ("jobs = -1", "jobs is -1; expected a whole number of at least 0"),
        ("folds = true", "folds is True; expected a whole number of at least 3"),
        ('data = "a"', "data is 'a'; expected a table"),
        ("[data]\na = 3", "data.a is 3; expected a text in quotes or a table"),
        ('[data.a]\npaht = "x"', "the key data.a.paht is not known; did you mean path"),
        ('[data.a]\nlabel = "x"', "data.a has no path"),
        ('[data."a b"]\nlabel = 3', 'data."a b".label is 3; expected a text'),
        ("[methods.a]\ngrid = {C = [1]}", "methods.a has no method"),
        ('[methods.a]\nmethod = "svr"\ngrid = {C = 1}', "methods.a.grid.C is 1; expected a list"),
        ('[methods.a]\nscores = "x"\nmethod = "svr"', "methods.a has scores and a method"),
        ("metric = ", "not a TOML file: "),
        (b"\xff", "not a TOML file: "),
    ],
)
def test_bad_files_are_refused_with_the_key(here, content, said):
    Path("study.toml").write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(FileFormatError) as error:
        read_study("study.toml")
    assert str(error.value).startswith("study.toml: ")
    assert said in str(error.value)


def test_a_file_and_data_are_not_mixed(folds):
    run("study", "folds", "--write-toml", "study.toml")
    wrong = [
        ("folds", "names the data"), ("--folds=3", "--folds is not combined"),
        ("--methods=svr", "--methods is not combined"), ("--label=x", "--label is not combined"),
        ("--n-features=3", "--n-features is not combined"),
    ]  # fmt: skip
    for argument, said in wrong:
        found = " ".join(run("study", "study.toml", argument, code=2).stderr.split())
        assert said in found.replace("│ ", "").replace(" │", "")
    assert "is read by this command" in error_of("study", "study.toml", "--write-toml=study.toml")
    assert "cannot be read" in error_of("study", "missing.toml")


# Bad input --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--methods", "ranksvm,lambdamrt"], "did you mean lambdamart?"),
        (["--methods", "svr:max_itr=1"], "did you mean max_iter?"),
        (["--metric", "ndgc@10"], "did you mean 'ndcg'?"),
        (["--metrics", "map,mr"], "did you mean"),
        (["--baseline", "ranksvn"], "did you mean ranksvm?"),
        (["--report", "nowhere/out.html"], "there is no folder"),
        (["--results", "folds"], "is read by this command"),
        (["--results", "folds/Fold1"], "is a folder"),
        (["--methods", "ranksvm:C=ten"], "the method 'ranksvm:C=ten': C is 'ten'"),
        (["--methods", "sparse:l1,C=1|0"], "C is 0; expected a finite number above 0"),
        (["--methods", ","], "--methods is empty"),
        (["--tables", "folds/Fold1/test.txt"], "is a file; pass the name of a folder"),
        (["--report", "folds/Fold1/test.txt"], "is a file of the data"),
        (["--report", "study.sqlite"], "is named for results and for report"),
        (["--scores", "x={data.x}.txt"], "other names in braces than {data} and {fold}"),
    ],
)
def test_mistakes_are_said_before_any_run(folds, arguments, said):
    assert said in error_of("study", "folds", *arguments, *JOBS)
    assert not Path("study.sqlite").exists()


def test_a_missing_part_is_named(folds):
    Path("folds/Fold2/vali.txt").unlink()
    assert "folds/Fold2: the fold has no validation file" in error_of("study", "folds", *JOBS)


def test_folds_with_different_features_are_named(folds):
    shutil.rmtree("folds/Fold2")
    write_folds(folds / "other", 2, n_features=3)
    shutil.move("other/Fold2", "folds/Fold2")
    said = error_of("study", "folds", "--methods", QUICK, *JOBS)
    assert "Fold1 has 4 features, but Fold2 has 3" in said
    assert "--n-features 4" in said
    run("study", "folds", "--methods", QUICK, "--n-features", "4", "--json", *JOBS)


def test_overlapping_queries_are_named(folds):
    train, test = Path("folds/Fold1/train.txt"), Path("folds/Fold1/test.txt")
    lines = [line for line in train.read_text().splitlines() if " qid:101 " in line]
    test.write_text(test.read_text() + "\n".join(lines) + "\n")
    said = error_of("study", "folds", "--methods", QUICK, *JOBS)
    assert "folds, Fold1: the test part and the training part share documents of the query" in said
    assert "the query: 101. Move each query to one part." in said


# The live table ---------------------------------------------------------------------------------


def test_time_left_takes_the_nearest_mean():
    cells = {
        ("a", "X"): Cell(4, n_done=2, seconds=20.0),
        ("a", "Y"): Cell(3),  # as on X: 10 seconds each
        ("b", "X"): Cell(2, n_done=1, n_failed=1, seconds=1.0),
        ("c", "X"): Cell(1),  # as all: 7 seconds
    }
    assert time_left(cells, 1, now=0.0) == pytest.approx(2 * 10 + 3 * 10 + 7)
    assert time_left(cells, 2, now=0.0) == pytest.approx(57 / 2)
    cells["a", "X"].running = {"k": 96.0, "l": 0.0}  # one 4 seconds old, one longer than the mean
    assert time_left(cells, 1, now=100.0) == pytest.approx(57 - 4 - 10)


def test_time_left_is_unknown_at_first_and_0_at_the_end():
    assert time_left({("a", "X"): Cell(4)}, 2, now=0.0) is None
    assert time_left({("a", "X"): Cell(4, n_failed=4)}, 2, now=0.0) == 0.0
    assert time_left({}, 2, now=0.0) == 0.0
    one_left = {("a", "X"): Cell(4, n_done=3, seconds=30.0)}
    assert time_left(one_left, 8, now=0.0) == 10.0  # other processes cannot help


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (59.6, "1:00 min"), (3599.7, "1:00 h")]
)
def test_durations(seconds, text):
    assert format_seconds(seconds) == text


def job(key: str, method: str, fold: str = "Fold1", metric: str = "map") -> Job:
    criterion = Criterion(metric)
    return Job(key, "X", fold, method, {}, None, None, None, criterion, 1, 0, 1)


def ended(one: Job, valid: float, test: float) -> Finished:
    outcome = Outcome([Trial({}, valid, test, 1, 0.0)], 0, np.zeros(0), 1, 1, 0.0, 0.0, 0.0)
    return Finished(one, outcome, None)


def text_of(news: StudyProgress, height: int = 40) -> str:
    screen = Console(width=100)
    with screen.capture() as captured:
        screen.print(news.render(height))
    return captured.get()


def test_the_table_shows_what_is_done_runs_and_failed():
    now, lines = [0.0], []
    news = StudyProgress(1, lines.append, clock=lambda: now[0])
    news.reading("X")
    assert "reading X" in text_of(news)
    a, b, c, d = (
        job(key, "svr", fold) for key, fold in zip("abcd", ("1", "1", "2", "2"), strict=True)
    )
    other = job("e", "pamir")
    news.planned([b, c, d, other], [(a, Brief(Trial({}, 0.5, 0.4, 1, 0.0), 10.0))])
    news.started(b)
    now[0] = 4.0
    assert re.search(r"svr +1/4 +0\.4000 +1 running", text_of(news))
    assert "1 of 5 runs, 4 s elapsed, about 36 s left" in text_of(news)
    now[0] = 10.0
    news.finished(ended(b, valid=0.6, test=0.3))  # better on validation data
    news.started(c)
    news.started(d)
    now[0] = 20.0
    news.finished(ended(c, valid=0.2, test=0.9))
    assert re.search(r"svr +3/4 +0\.6000", text_of(news))
    news.finished(Finished(d, None, "reason"))
    assert re.search(r"svr +3/4 +0\.6000 +1 failed", text_of(news))
    assert lines == [
        "1 of 5 runs are stored already", "svr on X: map 0.6000 (4 runs, 1 failed, 30 s)"
    ]  # fmt: skip
    low = text_of(news, height=1)  # the method with runs left is shown
    assert "pamir" in low
    assert "svr" not in low
    assert "… and 1 more method" in low


def test_the_table_knows_metrics_that_should_be_small():
    news = StudyProgress(1)
    jobs = [job(key, "svr", metric="domination-error") for key in "ab"]
    news.planned(jobs, [])
    for one, valid, test in zip(jobs, (0.5, 0.3), (0.4, 0.7), strict=True):
        news.started(one)
        news.finished(ended(one, valid, test))
    assert news.cells["svr", "X"].mean() == 0.7


# The document -----------------------------------------------------------------------------------


def test_the_document_lists_the_grids():
    page = (Path(__file__).parents[2] / "docs" / "guide" / "study.md").read_text()
    for name, grid in GRIDS.items():
        tried = "; ".join(f"{key}: {listed(values)}" for key, values in grid.items())
        method = METHODS[name]
        main = f"`{method.main}`" if method.main else ""
        assert f"| `{name}` | `{method.kind}` | {main} | {tried} |" in page


def listed(values) -> str:
    if values is None:
        return "chosen from the data"
    return ", ".join(f"{v:.3g}" if isinstance(v, float) else str(v) for v in values)
