"""Programs for RankSVM: which runs are compared, and what the tables say of them."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import numpy as np
import pytest
from benchmarks.peers import Case, Match
from benchmarks.programs import PROGRAMS, Program
from benchmarks.rivals import Job
from benchmarks.tools import Options, Section
from benchmarks.turns import Contestant, fit_linrank

from benchmarks import peers, stops, turns, usage
from linrank import make_ranking, open_store, save_store
from linrank.problem import make_problem
from linrank.solvers import make_solver

pytestmark = pytest.mark.slow

LIBLINEAR, OPENMP, _ = PROGRAMS


def run(setting, seconds, objective, curve=()):
    return {"setting": setting, "seconds": seconds, "objective": objective, "curve": curve}


@pytest.fixture
def options(tmp_path):
    return Options(2, True, tmp_path)


@pytest.fixture
def job(tmp_path):
    data = make_ranking(12, (5, 20), 6, n_levels=4, noise=1.0, random_state=3)
    save_store(data, tmp_path / "store")
    return Job(tmp_path / "store", 1e-3, make_problem(data).engine.n_pairs, 2, 60.0)


# Settings ---------------------------------------------------------------------------------------


def test_settings_are_tried_until_one_is_near_enough():
    runs = {1e-1: run(1e-1, 1, 2.0), 1e-2: run(1e-2, 2, 1.5), 1e-3: run(1e-3, 3, 1.0), 1e-4: None}
    fits = Contestant(runs.get, tuple(runs))
    assert [own["setting"] for own in fits.climb(1.5)] == [1e-1, 1e-2]
    assert [own["setting"] for own in fits.climb(0.5)] == [
        1e-1,
        1e-2,
        1e-3,
    ]  # then it took too long
    assert Contestant(runs.get, (1e-4, 1e-3)).climb(0.5) == []


def match(job, theirs, ours):
    climbed = {LIBLINEAR.name: theirs, 2: ours, 1: ours}
    return Match("web", "squared_hinge", job, climbed, 1.0)


def test_the_loosest_setting_that_reaches_a_target_is_measured(job):
    theirs = [run(0.3, 1, 1.5), run(0.1, 2, 1.0005), run(1e-2, 3, 1.0)]
    own = match(job, theirs, [run(0.1, 1, 1.02), run(1e-2, 2, 1.0)])
    assert own.best == 1.0
    assert own.setting(LIBLINEAR.name, 1e-2) == own.setting(LIBLINEAR.name, 1e-3) == 0.1
    assert own.setting(LIBLINEAR.name, 1e-6) == 1e-2
    assert own.chosen() == [(LIBLINEAR.name, 0.1), (LIBLINEAR.name, 1e-2), (2, 1e-2), (1, 1e-2)]
    lower = match(job, [run(0.3, 1, 0.5)], [run(0.1, 1, 1.0)])
    assert lower.best == 0.5
    assert lower.setting(2, 1e-2) is None


# Rows -------------------------------------------------------------------------------------------


def section():
    names = ("to stop", "× stop", "to reach", "× reach")
    columns = [f"{name}, {count}" for count in (2, 1) for name in names]
    heads = ["data", "load", "loss", "target", "program", "threads", "training"]
    return Section("peers", "title", "about", [*heads, *columns])


def row_of(job, theirs, found, target=1e-2):
    ours = [run(0.1, 1.0, 1.0)]
    table = section()
    match(job, theirs, ours).add_row(table, "quiet", target, LIBLINEAR, found)
    return table


OURS = {
    (2, 0.1): [run(0.1, t, 1.0, [(0.0, 9.0), (t / 2, 1.005), (t, 1.0)]) for t in (1.0, 2.0, 7.0)],
    (1, 0.1): [run(0.1, 4.0, 1.0, [(0.0, 9.0), (4.0, 1.0)])],
}


def test_ratios_are_of_medians(job):
    theirs = {(LIBLINEAR.name, 0.3): [run(0.3, t, 1.0) for t in (30.0, 20.0, 90.0)]}
    table = row_of(job, [run(0.3, 25.0, 1.0)], theirs | OURS)
    assert table.rows == [
        ["web", "quiet", "squared_hinge", "0.01", LIBLINEAR.name, "1", "30 s (0.3)",
         "2 s (0.1)", "15", "1 s", "30", "4 s (0.1)", "7.5", "4 s", "7.5"]
    ]  # fmt: skip
    (numbers,) = table.numbers
    assert numbers["ratios"] == {"stop, 2": 15, "reach, 2": 30, "stop, 1": 7.5, "reach, 1": 7.5}
    json.dumps(numbers, allow_nan=False)


def test_a_program_that_does_not_arrive(job):
    ladder = [run(setting, 1.0, 1.31) for setting in turns.EPSILONS]
    assert row_of(job, ladder, OURS).rows[0][6:9] == [
        "not reached: stops at 0.31",
        "2 s (0.1)",
        "—",
    ]
    given_up = row_of(job, ladder[:3], OURS)
    assert given_up.rows[0][6:9] == ["> 60 s (at 0.31)", "2 s (0.1)", "> 30"]
    assert given_up.numbers[0]["ratios"]["stop, 2"] is None
    assert row_of(job, [], OURS).rows[0][6] == "> 60 s"
    json.dumps(row_of(job, [], OURS).numbers, allow_nan=False)


def test_linrank_that_does_not_arrive(job):
    table = section()
    own = match(job, [run(0.3, 1, 1.0)], [run(0.1, 1.0, 2.0)])
    found = {(LIBLINEAR.name, 0.3): [run(0.3, 5.0, 1.0)]}
    own.add_row(table, "quiet", 1e-3, LIBLINEAR, found)
    assert table.rows[0][6:11] == ["5 s (0.3)", "not reached", "—", "not reached", "—"]


def test_the_worst_ratio_is_judged():
    table = section()
    for ratio in (4.0, 16.0, None):
        table.numbers.append({"program": "p", "load": "quiet", "ratios": {"stop, 2": ratio}})
    peers.judge(table, 2)
    assert table.notes == [
        "p, quiet, to stop, 2 threads: 4 to 16 ×, geometric mean 8 ×, 1 of 2 at least 10 ×"
    ]
    assert table.goals[0]["measured"] == "4 × at worst"
    assert not table.goals[0]["met"]


# Turns and loads --------------------------------------------------------------------------------


def test_turns_alternate():
    called = []
    late = iter([None, run(1, 1, 1), run(1, 2, 1)])
    found = turns.in_turns(
        {
            "a": lambda: called.append("a") or run(1, 1, 1),
            "b": lambda: called.append("b") or next(late),
        },
        budget=-1.0,
    )
    assert called == ["a", "b"] * turns.TURNS
    assert len(found["a"]) == 3
    assert [own["seconds"] for own in found["b"]] == [1, 2]


def test_the_busy_process_ends(monkeypatch):
    started = []
    popen = turns.subprocess.Popen
    monkeypatch.setattr(
        turns.subprocess, "Popen", lambda *words: started.append(popen(*words)) or started[-1]
    )
    with turns.busy_core():
        assert started[0].poll() is None
    assert started[0].poll() is not None


def test_a_fit_of_linrank_is_recorded(job):
    data = open_store(job.store)
    own = fit_linrank(data, job, "squared_hinge", 1e-6)
    times, objectives = np.array(own["curve"]).T
    assert (np.diff(times) > 0).all()
    assert times[-1] <= own["seconds"]
    assert objectives[-1] == own["objective"]
    assert peers.seconds_to(own, objectives[1]) == times[1]
    assert peers.seconds_to(own, 0.0) == np.inf


def test_a_long_fit_of_linrank_is_given_up(job):
    data = open_store(job.store)
    assert turns.fit_warm(data, replace(job, cap=0.0), "squared_hinge", 1e-6) is None
    assert turns.fit_warm(data, job, "squared_hinge", 1e-6)["setting"] == 1e-6


# Sections ---------------------------------------------------------------------------------------


@pytest.fixture
def stand_ins(tmp_path, monkeypatch):
    """Programs that are linrank with another stopping rule, and one small shape."""

    def run_once(program, job, setting):
        problem = make_problem(open_store(job.store), job.C, loss=program.loss)
        coef = make_solver("auto", problem.engine.loss, tol=setting).solve(problem).coef
        return {"setting": setting, "coef": coef, "training": 5.0, "seconds": 6.0, "memory": 0}

    monkeypatch.setattr(Program, "run_once", run_once)
    monkeypatch.setattr(peers, "CASES", (Case("web-scaled"), Case("mq2008")))
    monkeypatch.setattr(turns, "MOST_TURNS", turns.TURNS)
    monkeypatch.setattr(peers, "available", lambda: ("web-scaled",))
    monkeypatch.setenv("LINRANK_BENCH", str(tmp_path))
    for program in PROGRAMS:
        monkeypatch.delenv(program.variable, raising=False)
    monkeypatch.setenv(LIBLINEAR.variable, sys.executable)
    monkeypatch.setenv(OPENMP.variable, "no program")


def test_all_programs_are_compared(options, stand_ins):
    table = peers.bench_peers(options)
    assert [(own["load"], own["target"]) for own in table.numbers] == [
        (load, target) for load in turns.LOADS for target in (1e-2, 1e-3, 1e-6)
    ]
    assert [row[5] for row in table.rows] == ["1"] * 6
    assert all(0 < own["ratios"]["stop, 2"] <= own["ratios"]["reach, 2"] for own in table.numbers)
    assert table.notes[0].startswith(f"{LIBLINEAR.name}: python")
    assert table.notes[1] == (
        f"{OPENMP.name}: {OPENMP.variable} is 'no program', which is no program that can be run"
    )
    assert sum(OPENMP.name in note for note in table.notes) == 1


def test_default_fits_and_programs_run_to_their_stop(options, stand_ins):
    table = stops.bench_stops(options)
    assert [own["load"] for own in table.numbers] == list(turns.LOADS)
    for own in table.numbers:
        assert own["seconds"][LIBLINEAR.name] == [5.0] * turns.TURNS
        assert own["ratios"][2] == 5.0 / np.median(own["seconds"][2])
        assert 0 <= own["away"][2] <= 1e-6
    assert [aim["goal"] for aim in table.goals] == ["web-scaled: 12 × liblinear"]
    assert stops.show_quartiles([4.0, 1.0, 2.0, 3.0, 5.0]) == "3 s (2–4)"


def test_a_program_that_breaks_off_is_noted(options, stand_ins, monkeypatch):
    def run_once(program, job, setting):
        raise RuntimeError("it ended with 3")

    monkeypatch.setattr(Program, "run_once", run_once)
    table = peers.bench_peers(options)
    assert table.rows == []
    assert f"web-scaled, {LIBLINEAR.name}: it ended with 3" in table.notes


def test_nothing_is_compared_without_programs(options, stand_ins, monkeypatch):
    monkeypatch.delenv(LIBLINEAR.variable)
    monkeypatch.delenv(OPENMP.variable)
    assert peers.bench_peers(options).rows == []
    assert usage.bench_command(options).rows == []


def call_once(ways, **_):
    """Call each function; all take two seconds."""
    for way in ways.values():
        way()
    return {name: [2.0] for name in ways}


def test_commands_are_compared(options, stand_ins, monkeypatch):
    monkeypatch.setattr(usage, "interleaved", call_once)
    (row,) = usage.bench_command(options).rows
    assert row[0] == "web-scaled"
    assert row[3] == LIBLINEAR.name
    assert row[-1] == "1"
    assert (
        float(row[2].split("(")[-1].strip(")")) < 1e-2
    )  # what `linrank train` wrote is the optimum


def test_tolerances_are_compared(options, stand_ins):
    table = usage.bench_tolerances(options)
    (own,) = table.numbers
    assert 0 <= own["away"]["1e-05"] < 1e-6
    assert own["away"]["0.1"] < 1.0
    assert own["ratios"]["1e-05"] == 1.0


def test_fits_at_once_are_compared(options, stand_ins, monkeypatch):
    monkeypatch.setattr(usage, "SHORTEST", 0.0)
    monkeypatch.setattr(usage, "interleaved", call_once)
    (row,) = usage.bench_together(options).rows
    assert row[1:] == ["2 s", "2 s", "1.00", "2 s", "1.00"]


def test_cases_have_names():
    names = [case.name for case in peers.CASES]
    assert len(set(names)) == len(names)
    assert Case("text", 0.125, 0.5).name == "text, 0.125 of it, C = 0.5"
