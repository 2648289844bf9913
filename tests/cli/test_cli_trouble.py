"""The command line when something goes wrong: one sentence, an exit code, nothing lost."""

from __future__ import annotations

import json
import os
import pkgutil
import pty
import signal
import subprocess
import sys
import threading
import warnings
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import linrank
from commandline import PATIENCE, PROGRAM, error_of, read_until, run, run_json, start
from linrank import LinearModel, make_problem, make_ranking, read_letor
from linrank.cli.console import guarded
from linrank.cli.shared_options import parse_grid
from linrank.errors import KernelCacheWarning
from linrank.penalties import L1
from linrank.training.selection import C_GRID

needs_compilation = pytest.mark.skipif(
    os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="compilation is what is tested"
)

# What users get wrong ----------------------------------------------------------------------


def test_bad_lines_are_named(letor, here):
    Path("bad.txt").write_text("1 qid:1 1:1\n0 qid:1 1:x\n")
    for arguments in (
        ("train", "bad.txt"),
        ("inspect", "bad.txt"),
        ("convert", "bad.txt", "bad.store"),
        ("train", letor / "train.txt", "--valid", "bad.txt"),
    ):
        assert "bad.txt:2:" in error_of(*arguments)
    assert sorted(os.listdir()) == ["bad.txt"]


def test_more_features_than_at_training(letor, here):
    Path("wide.txt").write_text("1 qid:1 1:1\n0 qid:1 6:1\n")
    assert "wide.txt:2:" in error_of("train", letor / "train.txt", "--valid", "wide.txt")
    run("train", letor / "train.txt")
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
        (
            ["path", "t.txt", "--valid", "t.txt", "--plot", "p.jpeg"],
            "p.jpeg: the name of a plot file must end in",
        ),
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


@pytest.mark.parametrize("number", ["1" + "0" * 20, "9" * 5000])
@pytest.mark.parametrize(
    "arguments",
    [
        ["train", "t.txt", "--threads"],
        ["train", "t.txt", "--folds"],
        ["inspect", "t.txt", "--threads"],
        ["convert", "t.txt", "t.store", "--n-features"],
        ["evaluate", "t.txt", "s.txt", "--metrics", "ndcg@"],
    ],
)
def test_huge_numbers_are_refused(arguments, number, here):
    Path("t.txt").write_text("1 1:1\n0 1:2\n")
    if arguments[-1].endswith("@"):
        *arguments, number = *arguments[:-1], arguments[-1] + number
    assert run(*arguments, number, code=2).stdout == ""
    assert sorted(os.listdir()) == ["t.txt"]


@pytest.mark.parametrize("option", ["--max-iter", "--seed"])
def test_huge_numbers_that_make_sense(option, here):
    Path("t.txt").write_text("1 1:1\n0 1:2\n")
    run("train", "t.txt", option, "1" + "0" * 20)
    run("inspect", "model.json", "--top", "1" + "0" * 20)


@pytest.mark.parametrize("C", ["1e400", "2^99999", "9" * 5000, "nan"])
def test_huge_C(C, here):
    Path("t.txt").write_text("1 1:1\n0 1:2\n")
    assert "positive number" in " ".join(run("train", "t.txt", "--C", C, code=2).stderr.split())


def test_a_grid_over_all_numbers():
    grid = parse_grid("1e-300:1e300")
    assert len(grid) == 1994
    assert grid[0] == 1e-300
    assert grid[-1] <= 1e300 < 2 * grid[-1]


NASTY = "title\x1b[2J\x07\r\nerror: \u202etxt\x9b31m"


def test_control_characters_are_escaped(here, capfd):
    LinearModel(
        [2.0, 1.0], feature_names=[NASTY, "b"], settings={NASTY: NASTY}, training={"a": [NASTY]}
    ).save("m.json")
    Path(NASTY).write_text("1 1:1 2:1\n0 1:x\n")
    Path("t.txt").write_text("1 1:1 2:1\n0 1:2\n")
    shown = [
        run("inspect", "m.json").stdout,
        run("inspect", "m.json", "--json").stdout,
        run("train", "t.txt", "--out", NASTY).stdout,
        error_of("inspect", "t.txt\x1b[2J"),
        error_of("predict", "m.json", "t.txt\x1b[2J"),
    ]
    for text in shown:
        assert not set(text) & set("\x1b\x07\r\x9b\u202e")
    assert r"title\x1b[2J\x07\r\nerror: \u202etxt\x9b31m" in shown[0]
    assert r"t.txt\x1b[2J: no such file" in shown[3]


@pytest.mark.parametrize("kind", ["folder", "nothing", "loop", "unreadable", "pipe", "long"])
@pytest.mark.parametrize("command", ["train", "predict", "evaluate", "inspect", "convert", "save"])
def test_paths_that_are_no_files(kind, command, here):
    """One sentence each; nothing is written."""
    Path("t.txt").write_text("1 1:1\n0 1:2\n")
    LinearModel([1.0]).save("m.json")
    path = "/dev/null" if kind == "nothing" else "x" * 300 if kind == "long" else "x"
    writer = None
    if kind == "folder":
        Path(path).mkdir()
    elif kind == "loop":
        Path(path).symlink_to(path)
    elif kind == "unreadable":
        Path(path).symlink_to("t.txt/x")
    elif kind == "pipe":
        if command == "save":
            pytest.skip("a model is written into a pipe")
        os.mkfifo(path)
        writer = threading.Thread(target=feed, args=(path,))
        writer.start()
    arguments = {
        "train": ["train", path],
        "predict": ["predict", path, "t.txt"],
        "evaluate": ["evaluate", "t.txt", path],
        "inspect": ["inspect", path],
        "convert": ["convert", path, "x.store"],
        "save": ["train", "t.txt", "--out", path],
    }[command]
    if command == "save" and kind == "nothing":
        run(*arguments)
    else:
        assert error_of(*arguments)
    if writer is not None:
        writer.join()


def feed(path):
    with suppress(BrokenPipeError), open(path, "wb") as pipe:
        pipe.write(b"no data\n")


def test_debug_shows_the_traceback(here, monkeypatch):
    monkeypatch.setenv("LINRANK_DEBUG", "1")
    with pytest.raises(Exception, match=r"none\.txt"):
        run("train", "none.txt")


def test_memory_errors_are_a_sentence(letor, here, monkeypatch):
    def fail(*_, **__):
        raise MemoryError("Unable to allocate 3.00 TiB")

    monkeypatch.setattr("linrank.training.settings.make_problem", fail)
    assert "not enough memory (Unable to allocate 3.00 TiB)" in error_of(
        "train", letor / "train.txt"
    )


def test_not_converged_is_saved_and_exit_code_1(letor, here):
    result = run("train", letor / "train.txt", "--max-iter", "1", "--tol", "1e-12", code=1)
    assert "has not converged; it was saved as model.json" in result.stderr
    assert LinearModel.load("model.json").training["status"] == "max_iter"
    found = run_json("train", letor / "train.txt", "--max-iter", "1", "--tol", "1e-12", code=1)
    assert found["solver"]["converged"] is False


@pytest.mark.parametrize("extra", [[], ["--json"]])
def test_nothing_selected_is_a_warning(letor, here, extra):
    least = make_problem(read_letor(letor / "train.txt"), penalty=L1()).smallest_C()
    sentence = f"no feature is selected at C = {{}}: the smallest C that selects one is {least:.6g}"
    extra = [*extra, "--penalty", "l1", "--normalize", "none", "--scale", "none"]
    train = "train", letor / "train.txt", *extra
    path = "path", letor / "train.txt", "--valid", letor / "vali.txt", *extra
    assert run(*train, "--C", "1e-12").stderr == f"warning: {sentence.format('1e-12')}\n"
    assert not LinearModel.load("model.json").coef.any()
    assert run(*path, "--grid", "1e-9,1e-8").stderr == f"warning: {sentence.format('1e-09')}\n"
    assert run(*train, "--C", 1.1 * least).stderr == ""
    assert run(*path).stderr == ""


@pytest.mark.slow
def test_a_full_disk_leaves_the_old_model(letor, here):
    run("train", letor / "train.txt", "--C", "2")
    before = Path("model.json").read_bytes()
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300))"
    no_caches = {"PYTHONDONTWRITEBYTECODE": "1", "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(
        [sys.executable, "-c", f"{limit}{PROGRAM}", "train", letor / "train.txt"],
        text=True, capture_output=True, env=os.environ | no_caches,
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


@pytest.mark.slow
def test_ctrl_c_keeps_the_best_so_far(hard, here):
    ours, theirs = pty.openpty()
    process = start(
        "train", hard, "--solver", "tron", "--tol", "1e-12", "--C", "2^10", "--out", "m.json",
        "--normalize", "none", "--scale", "none", stdout=subprocess.PIPE, stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    with process:
        read_until(ours, "iteration [1-9].*objective.*gradient")  # progress: stderr is a terminal
        process.send_signal(signal.SIGINT)
        said = read_until(ours, r"saved as m\.json")
        out = process.stdout.read()
    os.close(ours)
    assert process.returncode == 130
    assert "the best so far" in said
    assert "Interrupted; these are the best weights so far." in out
    assert "\x1b" not in out  # stdout is a pipe
    model = LinearModel.load("m.json")
    assert model.training["status"] == "interrupted"
    assert np.abs(model.coef).max() > 0


@pytest.mark.slow
def test_ctrl_c_cuts_a_path_short(hard, here):
    ours, theirs = pty.openpty()
    process = start(
        "path", hard, "--valid", hard, "--solver", "tron", "--tol", "1e-10", "--out", "m.json",
        "--json", "--normalize", "none", "--scale", "none", stdout=subprocess.PIPE, stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    assert "/26" in read_until(ours, "iteration [1-9].*objective")
    process.send_signal(signal.SIGINT)
    out = process.communicate(timeout=PATIENCE)[0]
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


STEP = "linrank.training.trainer.TrainingProgress.__call__"


def test_ctrl_c_while_folds_choose_C(letor, here, monkeypatch):
    interrupt(monkeypatch, STEP, lambda _, C, step, fold: fold == 2)
    result = run("train", letor / "train.txt", "--folds", "3", code=130)
    assert "it was saved as model.json (it is the model of the first fold" in result.stderr
    assert "1 of 3 folds were done" in result.stderr
    assert LinearModel.load("model.json").training["queries"] == 8  # of 12: those of the first fold


def test_ctrl_c_after_folds_have_chosen_C(letor, here, monkeypatch):
    interrupt(monkeypatch, STEP, lambda _, C, step, fold: fold == 0 and step.iteration > 0)
    result = run("train", letor / "train.txt", "--folds", "3", code=130)
    assert "it was saved as model.json\n" in result.stderr
    assert LinearModel.load("model.json").training["queries"] == 12


def test_ctrl_c_while_folds_make_a_path(letor, here, monkeypatch):
    """In the folds there is no path yet; on all of the data it ends early."""
    arguments = "path", letor / "train.txt", "--folds", "3", "--grid", "2^-6:2^4"
    with monkeypatch.context() as patch:
        interrupt(patch, STEP, lambda _, C, step, fold: fold == 2)
        found = run_json(*arguments, "--plot", "p.png", code=130)
        assert (found["path"], found["best"], found["plot"]) == ([], None, None)
        assert "1 of 3 folds were done" in run(*arguments, code=130).stderr
    interrupt(monkeypatch, STEP, lambda _, C, step, fold: fold == 0 and C == 16)
    found = run_json(*arguments, code=130)
    Cs = [row["C"] for row in found["path"]]
    assert Cs == [2.0**k for k in range(-6, 4)]
    assert found["chosen"]["C"] in Cs
    assert found["interrupted"] is True


def test_ctrl_c_while_the_path_is_evaluated(letor, here, monkeypatch):
    """The best of what is evaluated is kept; before anything is, there is no best."""
    calls = []
    interrupt(monkeypatch, "linrank.training.selection.Criterion.measure",
              lambda *_: calls.append(1) or len(calls) == 5)  # fmt: skip
    arguments = (
        "train",
        letor / "train.txt",
        "--valid",
        letor / "vali.txt",
        "--normalize",
        "none",
        "--scale",
        "none",
    )
    found = run_json(*arguments, code=130)
    assert [row["mean"] is None for row in found["grid"]] == [False] * 3 + [True]
    assert found["C"] <= C_GRID[2]


@pytest.mark.parametrize("where", [STEP, "linrank.problem.Problem.start"])
@pytest.mark.parametrize("extra", [[], ["--folds", "3"], ["--valid"]])
def test_ctrl_c_before_anything_is_learnt_leaves_the_old_model(
    letor, here, monkeypatch, extra, where
):
    Path("model.json").write_text("old")
    interrupt(monkeypatch, where, lambda *_: True)
    extra = [*extra, letor / "vali.txt"] if extra == ["--valid"] else extra
    result = run("train", letor / "train.txt", *extra, code=130)
    assert (result.stdout, result.stderr) == ("", "interrupted\n")
    assert Path("model.json").read_text() == "old"


@pytest.mark.slow
def test_ctrl_c_elsewhere_is_a_short_line(here):
    os.mkfifo("pipe.txt")
    process = start("inspect", "pipe.txt", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with open("pipe.txt", "wb"):  # it is now reading, and will wait for ever
        process.send_signal(signal.SIGINT)
        out, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert (out, said) == ("", "interrupted\n")


INTERRUPTED_AT = """
import atexit, os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
event, left = sys.argv[1], int(sys.argv[2])
del sys.argv[1:3]

def interrupt():
    os.kill(os.getpid(), signal.SIGINT)

def hook(name, arguments):
    global left
    if name == event and (name == "import" or str(arguments[0]).endswith(".nbc")):
        left -= 1
        if left == 0:
            interrupt()

if event == "exit":
    atexit.register(interrupt)
from linrank.__main__ import main
sys.addaudithook(hook)
main()
"""


@pytest.mark.parametrize(
    ("event", "count", "arguments"),
    [
        ("import", 1, ["--help"]),  # of the command line itself
        ("import", 100, ["--help"]),
        ("import", 250, ["--help"]),
        ("import", 330, ["train"]),  # of numpy, scipy and numba: a command is running
        ("import", 440, ["train"]),
        ("import", 700, ["train"]),
        pytest.param("open", 1, ["train"], marks=needs_compilation),  # when a kernel is compiled
        ("exit", 1, ["--version"]),
        ("exit", 1, ["train"]),
    ],
)
def test_ctrl_c_is_quiet_at_any_moment(letor, here, event, count, arguments):
    files = [letor / "train.txt"] if arguments == ["train"] else []
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_AT, event, str(count), *arguments, *files],
        text=True, capture_output=True,
    )  # fmt: skip
    assert done.returncode == 130
    assert done.stderr == "interrupted\n"
    assert (done.stdout == "") == (event != "exit")


IN_A_CALLBACK = """
import ctypes, signal, sys, time, typer
from linrank.cli.console import guarded
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    with guarded():
        ctypes.CFUNCTYPE(None)(lambda: signal.raise_signal(signal.SIGINT))()
        time.sleep(600)
except typer.Exit as end:
    sys.exit(end.exit_code)
"""


def test_ctrl_c_in_a_callback_from_c_is_not_lost():
    """Nothing can be raised there; LLVM calls back while it compiles."""
    done = subprocess.run([sys.executable, "-c", IN_A_CALLBACK], text=True, capture_output=True)
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


def test_a_process_that_ignores_ctrl_c_goes_on_ignoring_it(here):
    ignoring = INTERRUPTED_AT.replace("signal.default_int_handler", "signal.SIG_IGN")
    done = subprocess.run([sys.executable, "-c", ignoring, "import", "9", "--version"],
                          text=True, capture_output=True)  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("linrank ")


def test_the_program_is_a_module_too():
    done = subprocess.run([sys.executable, "-m", "linrank", "--version"],
                          text=True, capture_output=True)  # fmt: skip
    assert done.stdout == f"linrank {linrank.__version__}\n"


def test_warnings_are_one_line(capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        with guarded():
            warnings.warn("the disk is full", KernelCacheWarning, stacklevel=1)
    assert capsys.readouterr() == ("", "warning: the disk is full\n")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(
    ("arguments", "code"),
    [("inspect t.txt", 0), ("train t.txt --out m.json", 0), ("inspect none.txt", 2), ("-x", 2)],
)
def test_closed_standard_streams(here, closed, arguments, code):
    Path("t.txt").write_text("1 qid:1 1:1\n0 qid:1 1:2\n")
    command = f"exec {sys.executable} -m linrank {arguments} {closed}"
    done = subprocess.run(["sh", "-c", command], text=True, capture_output=True)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert Path("t.txt").read_text() == "1 qid:1 1:1\n0 qid:1 1:2\n"
    if "m.json" in arguments:
        assert LinearModel.load("m.json").coef[0] < 0


def test_no_file_takes_the_number_of_a_closed_stream():
    program = """
import os
from linrank._start import replace_closed_streams
replace_closed_streams()
assert os.open(os.devnull, os.O_RDONLY) > 2
assert all(os.get_inheritable(number) for number in range(3))
"""
    command = f'exec {sys.executable} -c "$0" <&- >&- 2>&-'
    assert subprocess.run(["sh", "-c", command, program]).returncode == 0


@pytest.mark.slow
def test_a_reader_that_goes_away_is_no_error(hard, here):
    LinearModel(np.ones(50)).save("m.json")
    with start(
        "predict", "m.json", hard, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert float(process.stdout.readline())
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 141


@pytest.mark.slow
def test_silence_and_plain_text_where_there_is_no_terminal(hard, here):
    process = start("train", hard, "--solver", "tron", "--tol", "1e-3", "--max-iter", "40",
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
    out, said = process.communicate(timeout=PATIENCE)
    assert "\x1b" not in out + said
    assert all(line == line.rstrip() for line in out.splitlines())
    assert said.count("\n") == (process.returncode == 1)


def test_wide_tables_are_not_cut(here, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    name = "a" * 70
    LinearModel(np.ones(2), feature_names=[name, "b"]).save("m.json")
    assert name in run("inspect", "m.json").stdout
    ours, theirs = pty.openpty()
    with start("inspect", "m.json", stdout=theirs) as process:
        os.close(theirs)
        assert name in read_until(ours, "█")
    os.close(ours)
    assert process.returncode == 0
