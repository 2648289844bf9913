"""The command line, end to end."""

from __future__ import annotations

import gzip
import json
import os
import pkgutil
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from linrank import LinearModel, RankSVM, evaluate, make_ranking, read_letor
from linrank.cli._options import parse_grid
from linrank.cli.app import app
from linrank.path import C_GRID

HEAVY = ("numpy", "scipy", "numba", "sklearn", "matplotlib")
PROGRAM = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # also where tests run in the background
from linrank.cli.app import main
main()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder with train.txt, vali.txt and test.txt."""
    folder = tmp_path_factory.mktemp("letor")
    for seed, name in enumerate(("train.txt", "vali.txt", "test.txt")):
        data = make_ranking(12, (3, 9), 5, n_levels=3, noise=1.0, random_state=seed)
        write_text(folder / name, data)
    return folder


def write_text(path: Path, data) -> None:
    """Write LETOR text, without the library's own writer."""
    lines = (
        f"{y:g} qid:{q} " + " ".join(f"{f}:{v!r}" for f, v in enumerate(row.tolist(), 1))
        for y, q, row in zip(data.y, data.qid, data.X, strict=True)
    )
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """An empty folder to work in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments, code: int = 0):
    """Run a command in this process."""
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result


def run_json(*arguments, code: int = 0):
    """Run a command with --json; nothing else may be on stdout, and no NaN."""
    return json.loads(run(*arguments, "--json", code=code).stdout, parse_constant=pytest.fail)


def error_of(*arguments) -> str:
    """Run a command that must fail with one line on stderr and nothing on stdout."""
    result = run(*arguments, code=2)
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr[len("error: ") :].strip()


def start(*arguments, **options) -> subprocess.Popen:
    """Start a command in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *map(str, arguments)], text=True, **options
    )


# What there is -----------------------------------------------------------------------------


def test_version():
    assert run("--version").stdout.startswith("linrank ")


@pytest.mark.parametrize(
    "command", ["train", "predict", "evaluate", "path", "convert", "inspect", "demo", "warmup"]
)
def test_every_command_has_help_with_examples(command):
    text = run(command, "--help").stdout
    assert "Examples:" in text
    assert f"linrank {command}" in text


def test_help_imports_nothing_heavy():
    code = (
        "import sys\n"
        "from linrank.cli.app import app\n"
        "try:\n    app(['--help'])\n"
        "except SystemExit:\n"
        f"    print([name for name in {HEAVY} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


# Train, predict, evaluate ------------------------------------------------------------------


def test_train_predict_evaluate_equal_the_python_api(folder, here):
    run("train", folder / "train.txt", "--C", "2^-3", "--tol", "1e-6", "--out", "m.json")
    run("predict", "m.json", folder / "test.txt", "--out", "scores.txt")
    found = run_json("evaluate", folder / "test.txt", "scores.txt", "--metrics", "ndcg@5,map")

    train, test = read_letor(folder / "train.txt"), read_letor(folder / "test.txt")
    ranker = RankSVM(C=2.0**-3, tol=1e-6).fit(train.X, train.y, qid=train.qid)
    scores = ranker.predict(test.X)
    expected = evaluate(test.y, scores, test.qid, ["ndcg@5", "map"])
    np.testing.assert_array_equal(LinearModel.load("m.json").coef, ranker.coef_)
    np.testing.assert_array_equal(np.loadtxt("scores.txt"), scores)
    for name, mean in expected.mean.items():
        skipped = expected.n_skipped[name]
        row = {"mean": mean, "queries": expected.n_queries - skipped, "skipped": skipped}
        assert found["metrics"][name] == row
    assert found["flavour"] == "standard"


def test_train_says_what_it_did(folder, here):
    text = run("train", folder / "train.txt").stdout
    data = read_letor(folder / "train.txt")
    assert f"{data.n_docs} documents, 12 queries, 5 features (dense float64)" in text
    assert "pairs, 3 levels" in text
    assert "The stopping rule is met." in text
    assert "saved as model.json" in text
    assert LinearModel.load("model.json").settings["C"] == 1.0


def test_queries_without_pairs_are_counted(here):
    Path("t.txt").write_text("1 qid:1 1:2\n0 qid:1 1:1\n1 qid:2 1:5\n1 qid:2 1:6\n0 qid:3 1:1\n")
    assert "2 queries without pairs skipped" in run("train", "t.txt").stdout
    assert run_json("train", "t.txt")["train"]["queries_without_pairs"] == 2


def test_C_is_chosen_on_the_validation_file(folder, here):
    arguments = "train", folder / "train.txt", "--valid", folder / "vali.txt", "--metric", "map"
    found = run_json(*arguments)
    values = [row["mean"] for row in found["grid"]]
    assert [row["C"] for row in found["grid"]] == list(C_GRID)
    assert found["C"] == C_GRID[int(np.argmax(values))]
    assert found["held_out"] == {
        "metric": "map", "flavour": "standard", "mean": max(values), "folds": None
    }  # fmt: skip
    again = run_json("evaluate", folder / "vali.txt", "model.json", "--metrics", "map")
    assert again["metrics"]["map"]["mean"] == max(values)
    assert f"map {max(values):.4f} on {folder / 'vali.txt'} (standard)" in run(*arguments).stdout


def test_C_is_chosen_by_folds_as_RankSVMCV_does(folder, here):
    from linrank import RankSVMCV

    found = run_json("train", folder / "train.txt", "--folds", "3")
    data = read_letor(folder / "train.txt")
    ranker = RankSVMCV(cv=3).fit(data.X, data.y, qid=data.qid)
    assert found["C"] == ranker.C_
    assert found["held_out"]["folds"] == 3
    np.testing.assert_array_equal(LinearModel.load("model.json").coef, ranker.coef_)


def test_C_with_a_validation_file_is_only_measured(folder, here):
    found = run_json("train", folder / "train.txt", "--valid", folder / "vali.txt", "--C", "0.5")
    assert found["C"] == 0.5
    assert found["grid"] is None
    assert 0 < found["held_out"]["mean"] <= 1


def test_json_of_train(folder, here):
    found = run_json("train", folder / "train.txt")
    assert set(found) == {
        "train", "valid", "C", "held_out", "grid", "solver", "interrupted", "model"
    }  # fmt: skip
    assert set(found["solver"]) == {
        "status", "converged", "message", "objective", "gradient_norm", "iterations",
        "hessian_products", "seconds",
    }  # fmt: skip
    assert found["solver"]["status"] == "converged"
    assert found["model"] == "model.json"


def test_options_reach_the_solver(folder, here):
    found = run_json(
        "train", folder / "train.txt", "--solver", "tron", "--tol", "1e-8", "--normalize", "pairs",
        "--float32", "--threads", "1", "--max-iter", "77",
    )  # fmt: skip
    settings = LinearModel.load("model.json").settings
    assert settings == {
        "C": 1.0, "tol": 1e-8, "solver": "tron", "normalize": "pairs", "max_iter": 77
    }  # fmt: skip
    assert found["train"]["dtype"] == "float32"
    assert found["solver"]["gradient_norm"] <= 1e-8


def test_warm_start(folder, here):
    run("train", folder / "train.txt", "--tol", "1e-9")
    again = run_json(
        "train", folder / "train.txt", "--warm-start", "model.json", "--out", "again.json"
    )
    assert again["solver"]["iterations"] == 0
    Path("t.txt").write_text("1 1:1\n0 1:2\n")
    assert "5 features" in error_of("train", "t.txt", "--warm-start", "model.json")


def test_gz_and_store_give_the_same_model(folder, here):
    text = (folder / "train.txt").read_bytes()
    with gzip.open("train.txt.gz", "wb") as file:
        file.write(text)
    run("convert", folder / "train.txt", "train.store")
    models = []
    for source in (folder / "train.txt", "train.txt.gz", "train.store"):
        run("train", source, "--out", "m.json")
        models.append(LinearModel.load("m.json").coef)
        scores = run("predict", "m.json", source).stdout
        assert scores == run("predict", "m.json", folder / "train.txt").stdout
    np.testing.assert_array_equal(models[0], models[1])
    np.testing.assert_array_equal(models[0], models[2])


def test_a_file_with_torn_queries_keeps_its_order(here):
    Path("torn.txt").write_text("1 qid:b 1:3\n0 qid:a 1:5\n0 qid:b 1:1\n1 qid:a 1:9\n")
    run("train", "torn.txt", "--tol", "1e-9")
    w = LinearModel.load("model.json").coef[0]
    run("predict", "model.json", "torn.txt", "--out", "s.txt")
    np.testing.assert_allclose(np.loadtxt("s.txt"), np.array([3, 5, 1, 9]) * w)
    found = run_json("evaluate", "torn.txt", "s.txt", "--metrics", "pairwise-accuracy")
    assert found["metrics"]["pairwise-accuracy"]["mean"] == 1.0


def test_index_base_of_the_training_file_holds_for_others(here):
    Path("zero.txt").write_text("1 0:1 1:5\n0 0:0 1:5\n")
    Path("other.txt").write_text("1 1:2\n0 1:1\n")
    run("train", "zero.txt")
    first, second = LinearModel.load("model.json").coef
    assert first > 0
    assert second == 0.0
    assert run("predict", "model.json", "other.txt").stdout == "0.0\n0.0\n"
    run("train", "other.txt", "--index-base", "0")
    assert LinearModel.load("model.json").n_features == 2


def test_evaluate_table_states_flavour_and_skipped_queries(here):
    Path("d.txt").write_text("2 qid:1 1:1\n0 qid:1 1:1\n0 qid:2 1:1\n0 qid:2 1:1\n")
    Path("s.txt").write_text("1\n0.5\n3\n-2e-3\n")
    text = run("evaluate", "d.txt", "s.txt", "--metrics", "ndcg@10").stdout
    assert "flavour  standard" in text
    assert text.split()[-4:] == ["ndcg@10", "1.0000", "1", "1"]
    found = run_json("evaluate", "d.txt", "s.txt", "--metrics", "ndcg@10", "--flavour", "letor4")
    assert found["flavour"] == "letor4"
    assert found["metrics"]["ndcg@10"]["skipped"] == 0
    assert found["metrics"]["ndcg@10"]["queries"] == 2


def test_undefined_means_are_null(here):
    Path("d.txt").write_text("0 qid:1 1:1\n0 qid:1 1:1\n")
    Path("s.txt").write_text("1\n2\n")
    assert run_json("evaluate", "d.txt", "s.txt", "--metrics", "map")["metrics"]["map"] == {
        "mean": None, "queries": 0, "skipped": 1
    }  # fmt: skip


def test_per_query_values(here):
    Path("d.txt").write_text("1 qid:x 1:1\n0 qid:x 1:1\n0 qid:y 1:1\n0 qid:y 1:1\n")
    Path("s.txt").write_text("1\n2\n1\n2\n")
    run("evaluate", "d.txt", "s.txt", "--metrics", "map,mrr", "--per-query", "q.csv")
    assert Path("q.csv").read_text() == "qid,map,mrr\nx,0.5,0.5\ny,,\n"


# The other commands ------------------------------------------------------------------------


def test_path(folder, here):
    arguments = "path", folder / "train.txt", "--valid", folder / "vali.txt"
    text = run(*arguments, "--out", "best.json", "--plot", "path.png").stdout
    assert text.count("2^") >= 25
    assert "ndcg@10" in text
    assert text.count("best") >= 1
    assert Path("path.png").read_bytes().startswith(b"\x89PNG")
    found = run_json(*arguments, "--grid", "2^-4:2^1", "--metric", "map")
    assert [row["C"] for row in found["path"]] == [2.0**k for k in range(-4, 2)]
    best = max(found["path"], key=lambda row: row["mean"])
    assert found["best"] == {"C": best["C"], "mean": best["mean"]}
    assert found["model"] is None
    assert run_json(*arguments, "--grid", "3,0.1")["path"][1]["C"] == 3.0


def test_grids():
    assert parse_grid("2^-15:2^10") == C_GRID
    assert parse_grid("0.001:0.01") == (0.001, 0.002, 0.004, 0.008)


@pytest.mark.parametrize("text", ["x", "1:0.5", "-1", "nan", "inf", "2^", "0", "2^9999", "1,,2"])
def test_bad_grids_are_usage_errors(folder, here, text):
    result = run("path", folder / "train.txt", "--valid", folder / "vali.txt", f"--grid={text}",
                 code=2)  # fmt: skip
    assert "--grid" in result.stderr


def test_inspect_data(here):
    Path("d.txt").write_text(
        "2 qid:1 1:1 2:0 3:7\n0 qid:1 1:2 2:0 3:7\n1 qid:1 1:3 2:0 3:7\n1 qid:2 1:4 2:0 3:7\n"
    )
    found = run_json("inspect", "d.txt")
    assert found == {
        "file": "d.txt", "kind": "data", "n_docs": 4, "n_queries": 2, "n_features": 3,
        "query_size": [1, 2.0, 3], "n_pairs": 3, "n_empty_queries": 1, "density": 8 / 12,
        "n_constant_features": 2, "dtype": "float64", "form": "dense", "index_base": 1,
        "levels": [{"label": 0.0, "documents": 1}, {"label": 1.0, "documents": 2},
                   {"label": 2.0, "documents": 1}],
    }  # fmt: skip
    text = run("inspect", "d.txt").stdout
    assert "1 to 3 documents, median 2" in text
    assert "2 constant" in text
    assert "3; 1 query without" in text
    assert "66.7%" in text


def test_inspect_sparse_data(here):
    Path("d.txt").write_text("1 qid:1 7:1 900:1\n0 qid:1 8:1 900:1\n")
    found = run_json("inspect", "d.txt")
    assert found["form"] == "csr"
    assert found["n_constant_features"] == 898
    assert found["density"] == 4 / 1800


def test_inspect_model(folder, here):
    run("train", folder / "train.txt", "--C", "2^-5")
    model = LinearModel.load("model.json")
    found = run_json("inspect", "model.json", "--top", "2")
    assert found["kind"] == "model"
    assert [(row["feature"], row["weight"]) for row in found["largest"]] == model.largest(2)
    text = run("inspect", "model.json").stdout
    assert "2^-5" in text
    assert "converged" in text
    assert "█" in text


def test_convert_there_and_back(folder, here):
    found = run_json("convert", folder / "train.txt", "train.store")
    assert found["documents"] == read_letor(folder / "train.txt").n_docs
    assert found["source_bytes"] == (folder / "train.txt").stat().st_size
    assert found["dest_bytes"] > 0
    assert "documents" in run("convert", "train.store", "back.txt").stdout
    first, second = read_letor(folder / "train.txt"), read_letor("back.txt")
    np.testing.assert_array_equal(first.X, second.X)
    np.testing.assert_array_equal(first.y, second.y)
    np.testing.assert_array_equal(first.qid, second.qid)
    run("convert", "train.store", "back.txt.gz")
    assert gzip.decompress(Path("back.txt.gz").read_bytes()) == Path("back.txt").read_bytes()


def test_demo(here):
    text = run("demo", "--dir", "out/demo").stdout
    for name in ("train.txt", "vali.txt", "test.txt", "model.json", "path.png"):
        assert (here / "out/demo" / name).is_file()
    for metric in ("ndcg@10", "map", "pairwise-accuracy"):
        assert metric in text
    commands = [line.split()[1:] for line in text.splitlines() if line.startswith("  linrank ")]
    assert [command[0] for command in commands] == [
        "train", "predict", "evaluate", "path", "inspect",
    ]  # fmt: skip
    before = LinearModel.load("out/demo/model.json").coef
    outputs = [run(*command).stdout for command in commands]
    np.testing.assert_array_equal(LinearModel.load("out/demo/model.json").coef, before)
    assert all(line in text for line in outputs[2].splitlines()[-3:])


def test_warmup():
    text = run("warmup").stdout
    assert "compiled" in text
    assert "cache" in text


# What users get wrong ----------------------------------------------------------------------


def test_bad_lines_are_named(folder, here):
    Path("bad.txt").write_text("1 qid:1 1:1\n0 qid:1 1:x\n")
    for arguments in (
        ("train", "bad.txt"),
        ("inspect", "bad.txt"),
        ("convert", "bad.txt", "bad.store"),
        ("train", folder / "train.txt", "--valid", "bad.txt"),
    ):
        assert "bad.txt:2:" in error_of(*arguments)
    assert sorted(os.listdir()) == ["bad.txt"]


def test_more_features_than_at_training(folder, here):
    Path("wide.txt").write_text("1 qid:1 1:1\n0 qid:1 6:1\n")
    assert "wide.txt:2:" in error_of("train", folder / "train.txt", "--valid", "wide.txt")
    run("train", folder / "train.txt")
    assert "wide.txt:2:" in error_of("predict", "model.json", "wide.txt")
    assert "wide.txt:2:" in error_of("evaluate", "wide.txt", "model.json")


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("1\n2\n3\n", "s.txt:3:", "4 documents"),
        ("1\n2\n3\n4\n5\n\n", "s.txt:5:", "4 documents"),
        ("1\nx\n3\n4\n", "s.txt:2:", "'x' is not a finite number"),
        ("1\nnan\n3\n4\n", "s.txt:2:", "'nan' is not a finite number"),
        ("1\n\n3\n4\n", "s.txt:2:", "the line is empty"),
        ("1\n2 3\n4\n5\n", "s.txt:2:", "'2 3'"),
        ("", "s.txt:", "the file is empty"),
    ],
)
def test_score_files(here, text, place, words):
    Path("d.txt").write_text("1 1:1\n0 1:2\n1 1:3\n0 1:4\n")
    Path("s.txt").write_text(text)
    message = error_of("evaluate", "d.txt", "s.txt")
    assert message.startswith(place)
    assert words in message


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["train", "none.txt"], "none.txt"),
        (["predict", "none.json", "t.txt"], "none.json"),
        (["predict", "t.txt", "t.txt"], "t.txt: not a linrank model"),
        (["evaluate", "t.txt", "none.txt"], "none.txt"),
        (["inspect", "none.txt"], "none.txt"),
        (["convert", "none.txt", "x.store"], "none.txt"),
        (["train", "t.txt", "--tol", "0"], "tol is 0.0"),
        (["train", "t.txt", "--valid", "t.txt", "--metric", "ndgc@10"], "did you mean 'ndcg'"),
        (["evaluate", "t.txt", "s.txt", "--metrics", "map,foo"], "'foo' is unknown"),
        (["train", "same.txt"], "no pair to learn from"),
        (["train", "t.txt", "--valid", "same.txt"], "undefined in all 1 queries"),
        (["train", "t.txt", "--folds", "9"], "9 folds cannot be made"),
        (["train", "t.txt", "--out", "none/m.json"], "none/m.json: cannot be written"),
        (["train", "t.txt", "--out", "."], "is a folder"),
        (["train", "t.txt", "--out", "t.txt/m.json"], "t.txt/m.json: cannot be written"),
        (["predict", "m.json", "t.txt", "--out", "none/s.txt"], "none/s.txt: cannot be written"),
        (["path", "t.txt", "--valid", "t.txt", "--plot", "p.jpeg"], "p.jpeg: plots are written"),
        (["path", "t.txt", "--valid", "t.txt", "--plot", "none/p.png"], "none/p.png: cannot be"),
        (["demo", "--dir", "t.txt/x"], "t.txt/x"),
    ],
)
def test_one_sentence_for_what_users_get_wrong(here, arguments, words):
    Path("t.txt").write_text("1 1:1\n0 1:2\n")
    Path("same.txt").write_text("0 1:1\n0 1:2\n")
    assert words in error_of(*arguments)
    assert sorted(os.listdir()) == ["same.txt", "t.txt"]


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["nonsense"],
        ["train"],
        ["train", "t.txt", "--C", "-1"],
        ["train", "t.txt", "--folds", "1"],
        ["train", "t.txt", "--folds", "3", "--C", "1"],
        ["train", "t.txt", "--folds", "3", "--valid", "v.txt"],
        ["train", "t.txt", "--valid", "v.txt", "--warm-start", "m.json"],
        ["train", "t.txt", "--solver", "magic"],
        ["evaluate", "t.txt", "s.txt", "--flavour", "vanilla"],
        ["path", "t.txt"],
    ],
)
def test_bad_usage(arguments):
    result = run(*arguments, code=2)
    assert "Usage:" in result.output


def test_debug_shows_the_traceback(here, monkeypatch):
    monkeypatch.setenv("LINRANK_DEBUG", "1")
    with pytest.raises(Exception, match=r"none\.txt"):
        run("train", "none.txt")


def test_memory_errors_are_a_sentence(folder, here, monkeypatch):
    def fail(*_, **__):
        raise MemoryError("Unable to allocate 3.00 TiB")

    monkeypatch.setattr("linrank.training.make_problem", fail)
    assert "not enough memory (Unable to allocate 3.00 TiB)" in error_of(
        "train", folder / "train.txt"
    )


def test_not_converged_is_saved_and_exit_code_1(folder, here):
    result = run("train", folder / "train.txt", "--max-iter", "1", "--tol", "1e-12", code=1)
    assert "has not converged; it was saved as model.json" in result.stderr
    assert LinearModel.load("model.json").training["status"] == "max_iter"
    found = run_json("train", folder / "train.txt", "--max-iter", "1", "--tol", "1e-12", code=1)
    assert found["solver"]["converged"] is False


def test_a_full_disk_leaves_the_old_model(folder, here):
    run("train", folder / "train.txt", "--C", "2")
    before = Path("model.json").read_bytes()
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300))"
    done = subprocess.run(
        [sys.executable, "-c", f"{limit}{PROGRAM}", "train", folder / "train.txt"],
        text=True, capture_output=True, env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith("error: model.json: cannot be written: ")
    assert Path("model.json").read_bytes() == before
    assert os.listdir() == ["model.json"]


# Terminals, pipes and signals --------------------------------------------------------------


@pytest.fixture(scope="module")
def hard(tmp_path_factory) -> Path:
    """A store that TRON needs minutes for at a tight tolerance."""
    from linrank import save_store

    path = tmp_path_factory.mktemp("hard") / "hard.store"
    save_store(make_ranking(2000, 40, 50, heavy_tails=True, noise=2.0, random_state=0), path)
    return path


def read_until(terminal: int, words: str, seconds: float = 60.0) -> str:
    """What a program writes to its terminal, until some words appear."""
    deadline, text = time.monotonic() + seconds, ""
    while words not in text:
        assert time.monotonic() < deadline, text
        text += os.read(terminal, 4096).decode()
    return text


def test_ctrl_c_keeps_the_best_so_far(hard, here):
    ours, theirs = pty.openpty()
    process = start(
        "train", hard, "--solver", "tron", "--tol", "1e-12", "--C", "2^10", "--out", "m.json",
        stdout=subprocess.PIPE, stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    with process:
        assert "gradient" in read_until(ours, "objective")  # progress: stderr is a terminal
        process.send_signal(signal.SIGINT)
        said = read_until(ours, "saved as m.json")
        out = process.stdout.read()
    os.close(ours)
    assert process.returncode == 130
    assert "the best so far" in said
    assert "Interrupted; these are the best weights so far." in out
    assert "\x1b" not in out  # stdout is a pipe
    model = LinearModel.load("m.json")
    assert model.training["status"] == "interrupted"
    assert np.abs(model.coef).max() > 0


def test_ctrl_c_cuts_a_path_short(hard, here):
    ours, theirs = pty.openpty()
    process = start(
        "path", hard, "--valid", hard, "--solver", "tron", "--tol", "1e-10", "--out", "m.json",
        "--json", stdout=subprocess.PIPE, stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    assert "/26" in read_until(ours, "objective")
    process.send_signal(signal.SIGINT)
    out = process.communicate(timeout=60)[0]
    os.close(ours)
    assert process.returncode == 130
    found = json.loads(out)
    assert found["interrupted"] is True
    assert 1 <= len(found["path"]) < 26
    assert LinearModel.load("m.json").settings["C"] == found["best"]["C"]


def interrupt(monkeypatch, where: str, when) -> None:
    """Let Ctrl-C come in a function, at the first call for which `when` is true."""
    module, name = where.rsplit(".", 1)
    function = pkgutil.resolve_name(module).__dict__[name]

    def interrupted(*arguments, **options):
        if when(*arguments):
            raise KeyboardInterrupt
        return function(*arguments, **options)

    monkeypatch.setattr(where, interrupted)


STEP = "linrank.cli._progress.TrainingProgress.__call__"


def test_ctrl_c_while_folds_choose_C(folder, here, monkeypatch):
    interrupt(monkeypatch, STEP, lambda _, C, step, fold: fold == 2)
    result = run("train", folder / "train.txt", "--folds", "3", code=130)
    assert "it was saved as model.json (C was being chosen, 1 of 3 folds were done" in result.stderr
    assert LinearModel.load("model.json").training["queries"] == 8  # of 12: those of the first fold


def test_ctrl_c_after_folds_have_chosen_C(folder, here, monkeypatch):
    interrupt(monkeypatch, STEP, lambda _, C, step, fold: fold == 0 and step.iteration > 0)
    result = run("train", folder / "train.txt", "--folds", "3", code=130)
    assert "it was saved as model.json\n" in result.stderr
    assert LinearModel.load("model.json").training["queries"] == 12


def test_ctrl_c_while_the_path_is_evaluated(folder, here, monkeypatch):
    """The best of what is evaluated is kept; before anything is, there is no best."""
    calls = []
    interrupt(monkeypatch, "linrank.training.Criterion.mean",
              lambda *_: calls.append(1) or len(calls) == 5)  # fmt: skip
    arguments = "train", folder / "train.txt", "--valid", folder / "vali.txt"
    found = run_json(*arguments, code=130)
    assert [row["mean"] is None for row in found["grid"]] == [False] * 3 + [True] * 23
    assert found["C"] <= C_GRID[2]


@pytest.mark.parametrize("extra", [[], ["--folds", "3"], ["--valid"]])
def test_ctrl_c_before_anything_is_learnt_leaves_the_old_model(folder, here, monkeypatch, extra):
    Path("model.json").write_text("old")
    interrupt(monkeypatch, "linrank.problem.Problem.start", lambda *_: True)
    extra = [*extra, folder / "vali.txt"] if extra == ["--valid"] else extra
    result = run("train", folder / "train.txt", *extra, code=130)
    assert (result.stdout, result.stderr) == ("", "interrupted\n")
    assert Path("model.json").read_text() == "old"


def test_ctrl_c_elsewhere_is_a_short_line(here):
    os.mkfifo("pipe.txt")
    process = start("inspect", "pipe.txt", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with open("pipe.txt", "wb"):  # it is now reading, and will wait for ever
        process.send_signal(signal.SIGINT)
        out, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert (out, said) == ("", "interrupted\n")


def test_a_reader_that_goes_away_is_no_error(hard, here):
    LinearModel(np.ones(50)).save("m.json")
    with start(
        "predict", "m.json", hard, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert float(process.stdout.readline())
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 141


def test_silence_and_plain_text_where_there_is_no_terminal(hard, here):
    process = start("train", hard, "--solver", "tron", "--tol", "1e-3", "--max-iter", "40",
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
    out, said = process.communicate(timeout=120)
    assert "\x1b" not in out + said
    assert all(line == line.rstrip() for line in out.splitlines())
    assert said.count("\n") == (process.returncode == 1)


def test_wide_tables_are_not_cut(folder, here, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    name = "a" * 70
    path = here / f"{name}.txt"
    path.write_bytes((folder / "train.txt").read_bytes())
    model = LinearModel(np.ones(2), feature_names=[name, "b"])
    model.save("m.json")
    assert name in run("inspect", path).stdout
    assert name in run("inspect", "m.json").stdout


# Published figures -------------------------------------------------------------------------

FIGURES = [  # set, C, metric, published (TRON at 1e-3), at the optimum
    ("MQ2007", "2^-15", "mean-ndcg", 0.5211, 0.5211),
    ("MQ2007", "2^-5", "pairwise-accuracy", 0.7036, 0.7031),
    ("MQ2008", "2^7", "pairwise-accuracy", 0.8270, 0.8271),
    ("MQ2008", "2^7", "mean-ndcg", 0.4571, 0.4594),
]


@pytest.mark.parametrize(("name", "C", "metric", "published", "optimum"), FIGURES)
@pytest.mark.parametrize("solver", ["tron", "auto"])
def test_published_figures(real_data, here, name, C, metric, published, optimum, solver):
    """Lee & Lin 2014, tables 3 and 5, fold 1: as published, and fully trained."""
    fold = real_data / name / "Fold1"
    tol, expected = ("1e-3", published) if solver == "tron" else ("1e-7", optimum)
    run("train", fold / "train.txt", "--C", C, "--solver", solver, "--tol", tol)
    run("predict", "model.json", fold / "test.txt", "--out", "scores.txt")
    found = run_json("evaluate", fold / "test.txt", "scores.txt", "--flavour", "letor4",
                     "--metrics", "mean-ndcg,pairwise-accuracy")  # fmt: skip
    assert found["metrics"][metric]["mean"] == pytest.approx(expected, abs=0.001)
