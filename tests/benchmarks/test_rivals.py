"""Other tools: each solves linrank's problem with C mapped, and model files are read back."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from benchmarks.file_events import CLOSED, CREATED, FileEvents
from benchmarks.programs import PROGRAMS, read_liblinear, read_svmlight
from benchmarks.rivals import TOOLS, Job, differences, run_linrank, run_tool, text_of, tight_solver
from scipy import sparse

from benchmarks import comparison, rivals
from commandline import PATIENCE
from linrank import RankingData, make_ranking, save_store
from linrank.errors import FileFormatError
from linrank.problem import make_problem

pytestmark = pytest.mark.slow

C = 1e-3


def many_queries():
    return make_ranking(12, (5, 20), 6, n_levels=4, noise=1.0, random_state=3)


def one_query():
    return make_ranking(1, 60, 6, n_levels=None, noise=1.0, random_state=3)


def as_sparse(data):
    return RankingData(sparse.csr_array(np.where(data.X > 0.3, data.X, 0.0)), data.y, data.qid)


def make_job(data, folder, cap=PATIENCE):
    save_store(data, folder / "store")
    return Job(folder / "store", C, make_problem(data).engine.n_pairs, 1, cap)


def distance(data, loss, coef):
    """(f − f*)/f* of weights, by linrank."""
    problem = make_problem(data, C, loss=loss)
    return problem.value_grad(coef)[0] / tight_solver(problem).solve(problem).objective - 1


# Objectives -------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [many_queries(), as_sparse(many_queries()), one_query()], ids=repr)
@pytest.mark.parametrize("name", TOOLS)
def test_a_tool_solves_the_same_problem(name, data):
    tool = TOOLS[name]
    pytest.importorskip(tool.module)
    reason = tool.refuse(data, make_problem(data).engine.n_pairs)
    if reason is not None:
        pytest.skip(reason)
    coef = tool.prepare(data, C)(1e-6)
    assert abs(distance(data, tool.loss, coef)) < 1e-5
    assert distance(data, tool.loss, tool.prepare(data, 2 * C)(1e-6)) > 2e-4  # it would show


def test_differences_are_those_of_all_pairs():
    data = many_queries()
    D, sign = differences(data)
    D_sparse, sign_sparse = differences(data.replace(X=sparse.csr_array(data.X)))
    pairs = [
        data.X[i] - data.X[j]
        for i in range(data.n_docs)
        for j in range(data.n_docs)
        if data.qid[i] == data.qid[j] and data.y[i] > data.y[j]
    ]
    upright = D * sign[:, None]
    np.testing.assert_allclose(upright, pairs)
    np.testing.assert_allclose(D_sparse.toarray(), D, atol=1e-15)
    assert sign.tolist() == sign_sparse.tolist()
    assert abs(sign.sum()) <= 1


def test_a_tool_says_what_it_cannot_take(monkeypatch):
    data = many_queries()
    n_pairs = make_problem(data).engine.n_pairs
    assert all(TOOLS[name].refuse(data, n_pairs) is None for name in ("LinearSVC, dual", "dlib"))
    reason = TOOLS["FastSurvivalSVM"].refuse(data, n_pairs)
    assert reason == "one query with distinct labels only"
    assert TOOLS["FastSurvivalSVM"].refuse(one_query(), 60 * 59 // 2) is None
    monkeypatch.setattr(rivals, "MEMORY", 8 * 6 * n_pairs - 1)
    assert TOOLS["LinearSVC, dual"].refuse(data, n_pairs) == f"{n_pairs:.1e} pairs do not fit"
    monkeypatch.setattr(rivals, "MEMORY", 8 * 6 * data.n_docs)
    assert TOOLS["dlib"].refuse(data, n_pairs).endswith("vectors do not fit")


def test_runs_go_from_loose_to_tight(tmp_path, monkeypatch):
    monkeypatch.setattr(rivals, "SETTINGS", (1.0, 1e-6))
    data = many_queries()
    ready, loose, tight = run_tool("LinearSVC, primal", make_job(data, tmp_path))
    assert set(ready) == {"prepared"}
    away = [distance(data, "squared_hinge", run["coef"]) for run in (loose, tight)]
    assert away[0] > 1e-4 > 1e-8 > away[1]
    assert loose["seconds"] > 0
    assert tight["memory"] >= loose["memory"] >= 0


@pytest.mark.parametrize("loss", ["logistic", "logistic_exact"])
def test_linrank_is_judged_by_the_objective_of_the_tool(tmp_path, loss):
    data = many_queries()
    job = make_job(data, tmp_path)
    problem = make_problem(data, C, loss="logistic_exact")
    best = tight_solver(problem).solve(problem).objective
    (fit,) = run_linrank(job, loss, "logistic_exact", 0.0, repeats=1)
    seconds, objectives = np.array(fit["curve"]).T
    assert (np.diff(seconds) > 0).all()
    assert objectives[0] == pytest.approx(C * job.n_pairs * np.log(2))
    assert -1e-12 < objectives[-1] / best - 1 < 1e-3
    assert (objectives[-1] / best - 1 < 1e-9) == (loss == "logistic_exact")


def test_linrank_stops_at_the_goal(tmp_path):
    job = make_job(many_queries(), tmp_path)
    goal = 0.7 * C * job.n_pairs
    (fit,) = run_linrank(job, "squared_hinge", "squared_hinge", goal, repeats=1)
    assert fit["curve"][-1][1] <= goal < fit["curve"][-2][1]
    (read,) = run_linrank(job, "squared_hinge", "squared_hinge", goal, True, repeats=1)
    np.testing.assert_allclose([f for _, f in read["curve"]], [f for _, f in fit["curve"]])


# Model files ------------------------------------------------------------------------------------

LIBLINEAR = "solver_type L2R_L2LOSS_RANKSVM\nnr_class 2\nnr_feature 3\nbias -1\nw\n"
SVMLIGHT = """SVM-light Version V6.20
0 # kernel type
3 # kernel parameter -d
1 # kernel parameter -g
1 # kernel parameter -s
1 # kernel parameter -r
empty# kernel parameter -u
4 # highest feature index
12 # number of training documents
2 # number of support vectors plus 1
0 # threshold b, each following line is a SV (starting with alpha*y)
"""


@pytest.fixture
def model(tmp_path):
    def write(text):
        path = tmp_path / "model"
        path.write_text(text)
        return path

    return write


def test_liblinear_models_are_read(model):
    path = model(LIBLINEAR + "0.5 \n-1.25e-3 \n0 \n")
    assert read_liblinear(path, 4).tolist() == [0.5, -1.25e-3, 0.0, 0.0]
    path = model(LIBLINEAR.replace("bias -1\n", "") + "0.5 \n1 \n2 \n")
    assert read_liblinear(path, 3).tolist() == [0.5, 1.0, 2.0]
    path = model(LIBLINEAR.replace("bias -1", "bias 1") + "0.5 \n1 \n2 \n3 \n")
    assert read_liblinear(path, 3).tolist() == [0.5, 1.0, 2.0]


def test_svmlight_models_are_read(model):
    assert read_svmlight(model(SVMLIGHT + "1 1:0.5 4:-2e-3 #\n"), 5).tolist() == [
        0.5, 0.0, 0.0, -2e-3, 0.0,
    ]  # fmt: skip
    two = model(SVMLIGHT + "2 qid:1 1:0.5 3:1 #\n-1 1:0.25 #\n")
    assert read_svmlight(two, 3).tolist() == [0.75, 0.0, 2.0]


def test_what_is_no_model_gets_a_sentence(model):
    with pytest.raises(FileFormatError, match=r"model: no line is 'w'"):
        read_liblinear(model(SVMLIGHT), 3)
    with pytest.raises(FileFormatError, match=r"model: 2 weights, expected 3 \(nr_feature\)"):
        read_liblinear(model(LIBLINEAR + "1\n2\n"), 3)
    with pytest.raises(FileFormatError, match=r"model: no '# threshold b'"):
        read_svmlight(model(LIBLINEAR), 3)


# Programs ---------------------------------------------------------------------------------------

FAKE = """#!{python}
import sys
import numpy as np
from linrank import read_letor
from linrank.training.selection import make_problem
from linrank.solvers import make_solver

*options, file, model = sys.argv[1:]
options = dict(zip(options[::2], map(float, options[1::2]), strict=True))
data = read_letor(file)
C, loss, head, line = {body}
problem = make_problem(data, C, loss=loss)
w = np.zeros(data.n_features)
if options["-e"] < 1:  # a part of the loss at w = 0
    w = make_solver("auto", problem.engine.loss, tol=options["-e"]).solve(problem).coef
with open(model, "w") as out:
    out.write(head + line(w))
"""
BODIES = {
    "LINRANK_BENCH_RANKSVM_OPENMP": (
        '(options["-c"], "squared_hinge", "solver_type SELECTION_TREE\\nnr_class 2\\n'
        'nr_feature %d\\nw\\n" % data.n_features, '
        'lambda w: "".join("%.16g \\n" % v for v in w)) if options["-t"] == 1 else None'
    ),
    "LINRANK_BENCH_RANKSVM": (
        '(options["-c"], "squared_hinge", "solver_type L2R_L2LOSS_RANKSVM\\nnr_class 2\\n'
        'nr_feature %d\\nbias -1\\nw\\n" % data.n_features, '
        'lambda w: "".join("%.16g \\n" % v for v in w)) if options["-s"] == 8 else None'
    ),
    "LINRANK_BENCH_SVMRANK": (
        f'(options["-c"] / len(np.unique(data.qid)), "hinge", {SVMLIGHT!r}, '
        'lambda w: "1 " + "".join("%d:%.8g " % (k + 1, v) for k, v in enumerate(w) if v) + "#\\n")'
    ),
}


@pytest.fixture
def executable(tmp_path):
    def write(text):
        path = tmp_path / "program"
        path.write_text(text)
        path.chmod(0o755)
        return str(path)

    return write


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_a_program_solves_the_same_problem(program, tmp_path, executable, monkeypatch):
    path = executable(FAKE.format(python=sys.executable, body=BODIES[program.variable]))
    monkeypatch.setenv(program.variable, path)
    monkeypatch.setattr("benchmarks.programs.SETTINGS", (0.1, 1e-5))
    data = many_queries()
    job = make_job(data, tmp_path, cap=600.0)  # kernels may have to be compiled first
    started = time.perf_counter()
    _, loose, run = program.runs(job)
    assert 0 < loose["seconds"] + run["seconds"] <= time.perf_counter() - started
    assert loose["coef"].any()  # 0.1 of the loss at w = 0 is not reached at w = 0
    assert abs(distance(data, program.loss, run["coef"])) < 1e-4
    assert run["memory"] > 1e6
    assert 0 < run["training"] < run["seconds"]
    first = text_of(job.store).read_text().splitlines()[0]
    assert first.split()[1] == "qid:1"
    assert float(first.split()[2].removeprefix("1:")) == data.X[0, 0]


def test_a_program_that_fails_or_takes_too_long(tmp_path, executable, monkeypatch):
    program = PROGRAMS[0]
    job = make_job(many_queries(), tmp_path)
    monkeypatch.setenv(program.variable, executable("#!/bin/sh\nexit 3\n"))
    with pytest.raises(RuntimeError, match="program ended with 3; see above"):
        list(program.runs(job))
    monkeypatch.setenv(program.variable, executable("#!/bin/sh\nexec sleep 600\n"))
    assert list(program.runs(replace(job, cap=0.2))) == [{"prepared": 0.0}]


def test_events_of_files_are_seen(tmp_path):
    text = tmp_path / "text"
    text.write_text("words")
    folder = tmp_path / "folder"
    folder.mkdir()
    script = (
        f"cat {text} {text} > /dev/null; touch {folder}/model; sleep 0.1; touch {tmp_path}/other"
    )
    with FileEvents({text: CLOSED, folder: CREATED}) as events:
        process = subprocess.Popen(["/bin/sh", "-c", script])
        seen = list(events.until_exit(process.pid, PATIENCE))
        assert list(dict.fromkeys(seen)) == [text, folder]
        assert process.wait() == 0
        sleeper = subprocess.Popen(["sleep", "600"])
        assert list(events.until_exit(sleeper.pid, 0.1)) == []
        assert sleeper.poll() is None
        sleeper.kill()
        sleeper.wait()
    with pytest.raises(OSError, match=r"cannot observe: .*nothing"):
        FileEvents({tmp_path / "nothing": CLOSED}).__enter__()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("#!/bin/sh\ntrue\n", "FileNotFoundError: .* '.*/model'"),
        ("#!/bin/sh\nfor last; do :; done\necho words > $last\n", "FileFormatError: .* no line"),
        ("#!/bin/sh\nfor last; do :; done\nprintf 'a b\nw\n1' > $last\n", "KeyError: 'nr_feature'"),
        ("no program\n", "OSError: .* Exec format error"),
    ],
)
def test_a_program_that_leaves_no_model(text, reason, tmp_path, executable, monkeypatch):
    program = PROGRAMS[0]
    monkeypatch.setenv(program.variable, executable(text))
    assert program.refuse(many_queries(), 1) is None
    with pytest.raises(RuntimeError, match=reason):
        list(program.runs(make_job(many_queries(), tmp_path)))


def test_what_is_no_program_is_refused(tmp_path, monkeypatch):
    plain = tmp_path / "plain"
    plain.write_text("")
    for path in ("", str(plain), str(tmp_path), str(tmp_path / "nothing")):
        monkeypatch.setenv(PROGRAMS[0].variable, path)
        reason = f"LINRANK_BENCH_RANKSVM is {path!r}, which is no program that can be run"
        assert PROGRAMS[0].refuse(many_queries(), 1) == reason


# The comparison ---------------------------------------------------------------------------------


def measure(runs):
    """What is taken down of a tool with these runs, where weights are their own objective."""
    problem = SimpleNamespace(value_grad=lambda coef: (coef, None))
    tool = SimpleNamespace(runs=lambda job: iter(runs()))
    job = SimpleNamespace(cap=60.0)
    return comparison._measure(tool, job, problem, best=1.0)


def test_a_tool_is_measured_until_it_is_near_enough():
    def runs(*objectives, more=False):
        def generate():
            yield {"prepared": 0.0}
            yield from ({"seconds": 1.0, "coef": objective} for objective in objectives)
            if more:
                raise RuntimeError("it ended with 3")

        return generate

    reached = measure(runs(2.0, 1.0005, 1.0))
    assert [run["objective"] for run in reached.runs] == [2.0, 1.0005]
    assert not reached.given_up
    assert measure(runs(2.0)).given_up
    assert not measure(runs(*len(rivals.SETTINGS) * [2.0])).given_up
    assert measure(runs(2.0, more=True)).note == "broke off: it ended with 3"
    assert measure(runs(2.0, np.inf)).note == "broke off: its weights have the objective inf"
    assert measure(list).note == "not ready in 70 s"


def test_times_and_ratios_are_shown():
    assert comparison._show_times(330.0, 2.0, False, 600.0, True) == ["330 s", "2 s", "165"]
    assert comparison._show_times(None, 2.0, True, 60.0, True) == ["> 60 s", "2 s", "> 30"]
    assert comparison._show_times(None, 2.0, False, 60.0, True) == ["not reached", "2 s", "—"]
    late = comparison._show_times(30.0, np.inf, False, 60.0, False)
    assert late == ["30 s", "> 60 s", "< 0.5"]
    ended = comparison._show_times(30.0, np.inf, False, 60.0, True)
    assert ended == ["30 s", "not reached", "—"]
    fits = [{"curve": [(1.0, 9.0), (k, 3.0)]} for k in (2.0, 3.0, 4.0)]
    assert comparison._seconds_to(fits, 3.0) == 3.0
    assert comparison._seconds_to(fits, 9.0) == 1.0
    assert comparison._seconds_to(fits, 2.0) == np.inf
    assert comparison._seconds_to([], 9.0) == np.inf
