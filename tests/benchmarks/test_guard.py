"""The guard against slowdowns: what it calls slower, and what it compares with."""

from __future__ import annotations

import subprocess
import sys
from itertools import cycle

import numpy as np
import pytest
from benchmarks.guard import (
    LEAST,
    ROOT,
    Comparison,
    Missing,
    Worker,
    compare,
    digest,
    find_base,
    laid_out,
    markdown,
    measure,
    named,
)
from benchmarks.guard_workloads import mean_seconds

from commandline import PATIENCE

pytestmark = pytest.mark.slow


def drawn(ratio, rounds, noise=0.03, seed=0, machine=None):
    """Rounds on a machine that is now faster and now slower, each sample with its own noise."""
    rng = np.random.default_rng(seed)
    speed = np.ones(rounds) if machine is None else machine
    base, current = speed * np.exp(noise * rng.standard_normal((2, rounds)))
    return Comparison(tuple(base), tuple(ratio * current))


# Statistics ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ratio", "verdict"), [(1.0, "same"), (1.1, "slower"), (2.0, "slower"), (0.9, "faster")]
)
def test_verdict(ratio, verdict):
    assert drawn(ratio, 24, noise=0.02).verdict == verdict


def test_few_rounds_prove_nothing():
    found = drawn(2.0, 4)
    assert found.interval == (0.0, np.inf)
    assert found.verdict == "unclear"


def test_noise_widens_the_interval_until_nothing_is_claimed():
    found = drawn(1.1, 12, noise=0.3)
    low, high = found.interval
    assert low < 1.05 < high
    assert found.verdict == "unclear"


def test_interval_holds_the_median_as_often_as_it_says():
    intervals = [drawn(1.2, 24, noise=0.2, seed=seed).interval for seed in range(200)]
    assert np.mean([low <= 1.2 <= high for low, high in intervals]) >= 0.98


def test_false_alarms_are_rare_and_slowdowns_are_seen():
    for ratio, least, most in ((1.0, 0, 0), (1.05, 0, 3), (1.1, 195, 200)):
        verdicts = [drawn(ratio, 48, noise=0.03, seed=seed).verdict for seed in range(200)]
        assert least <= verdicts.count("slower") <= most


def test_a_machine_that_changes_its_speed_is_no_slowdown():
    machine = np.repeat([1.0, 3.0, 1.5, 5.0], 6)
    found = drawn(1.0, 24, noise=0.02, machine=machine)
    assert found.verdict == "same"
    assert drawn(1.1, 24, noise=0.02, machine=machine).verdict == "slower"


def test_rounds_of_several_processes_count_together():
    """A pair of processes that is unlucky is outvoted; a slowdown that noise hides comes out."""
    unlucky, others = drawn(1.08, 12, noise=0.005), drawn(1.0, 24, noise=0.005)
    assert unlucky.verdict == "slower"
    assert (unlucky + others).verdict != "slower"
    noisy = Comparison((1.0,) * 12, (1.2,) * 9 + (1.0,) * 3)
    assert noisy.verdict == "unclear"
    assert (noisy + noisy + noisy).verdict == "slower"


def test_one_interruption_is_no_slowdown():
    found = drawn(1.0, 12, noise=0.01)
    assert Comparison(found.base, (*found.current[:-1], 100.0)).verdict == "same"


def test_a_clear_case_ends_at_the_first_look_and_an_unclear_one_at_the_last():
    rng = np.random.default_rng(0)
    clear = compare(lambda: 1.0, lambda: 1.2, 48)
    assert clear.verdict == "slower"
    assert len(clear.base) == LEAST
    unclear = compare(lambda: 1.0, lambda: float(np.exp(rng.standard_normal())), 30)
    assert unclear.verdict == "unclear"
    assert len(unclear.base) == 30


def test_trees_take_turns_in_going_first():
    order = []
    compare(lambda: order.append("a") or 1.0, lambda: order.append("b") or 1.0, 48)
    assert "".join(order[:8]) == "abbaabba"


def test_going_second_costs_neither_tree():
    """Each sample after another process's is 30 % slower: as A B B A has it, both pay."""
    cost = cycle([1.0, 1.3])
    found = compare(lambda: next(cost), lambda: next(cost), 48)
    assert found.verdict != "slower"


def test_table_names_what_is_slower():
    found = {
        "fit": Comparison((0.1,) * 12, (0.12,) * 12),
        "read": Comparison((0.1,) * 12, (0.1,) * 12),
        "fly": Comparison((), (0.25,)),
    }
    assert named(found, "slower") == ["fit"]
    lines = markdown(found).splitlines()
    assert lines[2] == "| fit | 100.00 | 120.00 | 1.200 (1.200 to 1.200) | 12 | slower |"
    assert lines[3].endswith("| same |")
    assert lines[4] == "| fly | — | 250.00 | — | — | new |"


class Tree:
    """A worker that takes as long as it is told, or lacks what is asked for."""

    def __init__(self, seconds):
        self.taken = seconds
        self.calls = []

    def seconds(self, name, calls=1):
        self.calls.append(calls)
        if self.taken is None:
            raise Missing(f"AttributeError: no {name}")
        return self.taken


def test_short_workloads_are_called_several_times_by_both():
    base, current = Tree(0.02), Tree(0.01)
    assert measure("fit", base, current, 12).verdict == "faster"
    assert set(base.calls[1:]) == set(current.calls[1:]) == {10}


def test_a_slowdown_of_every_second_call_counts(monkeypatch):
    clock = [0.0]
    cost = cycle([1.0, 3.0])
    monkeypatch.setattr("benchmarks.guard_workloads.time.perf_counter", lambda: clock[0])
    assert mean_seconds(lambda: clock.append(clock.pop() + next(cost)), 10) == 2.0


def test_workload_that_the_base_lacks_is_new(capsys):
    assert measure("fit", Tree(None), Tree(0.1), 12).verdict == "new"
    assert "fit: not in the base (AttributeError: no fit)" in capsys.readouterr().out


def test_workload_that_this_tree_lacks_is_an_error():
    with pytest.raises(SystemExit, match="'fit' fails in this tree: AttributeError: no fit"):
        measure("fit", Tree(0.1), Tree(None), 12)


# The base --------------------------------------------------------------------------------------


@pytest.fixture
def repository(tmp_path):
    """A repository with two commits on main, and a function that runs git in it."""

    def git(*arguments):
        who = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
        command = ["git", *who, "-C", str(tmp_path), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "--initial-branch=main")
    module = tmp_path / "src" / "linrank" / "__init__.py"
    module.parent.mkdir(parents=True)
    for text in ("one", "two"):
        module.write_text(f"text = {text!r}\n")
        git("add", "src")
        git("commit", "--message", text)
    return tmp_path, module, git


def test_base_on_main_is_the_last_commit_without_the_changes(repository):
    root, module, git = repository
    assert find_base(root=root) == git("rev-parse", "HEAD~1")
    (root / "notes.txt").write_text("nothing that is measured")
    assert find_base(root=root) == git("rev-parse", "HEAD~1")
    module.write_text("text = 'three'\n")
    assert find_base(root=root) == git("rev-parse", "HEAD")
    assert find_base("main~1", root=root) == git("rev-parse", "HEAD~1")


def test_base_of_a_branch_is_where_it_left_main(repository):
    root, module, git = repository
    left = git("rev-parse", "HEAD")
    git("switch", "--create", "topic")
    for text in ("three", "four"):
        module.write_text(f"text = {text!r}\n")
        git("commit", "--all", "--message", text)
    assert find_base(root=root) == left
    module.write_text("text = 'five'\n")
    assert find_base(root=root) == left


def test_base_without_a_branch_main(repository):
    root, _, git = repository
    git("branch", "--move", "trunk")
    assert find_base(root=root) == git("rev-parse", "HEAD~1")


def test_unknown_base(repository):
    with pytest.raises(SystemExit, match="--base is 'nowhere'; expected a revision of this"):
        find_base("nowhere", root=repository[0])


def test_base_is_laid_out_at_one_place_with_its_own_times_and_removed(repository):
    """Place and time are what numba's cache goes by."""
    root, module, git = repository
    module.write_text("text = 'three'\n")
    seen = []
    for _ in range(2):
        with laid_out(git("rev-parse", "HEAD"), root=root) as src:
            file = src / "linrank" / "__init__.py"
            assert file.read_text() == "text = 'two'\n"
            seen.append((file, file.stat().st_mtime))
        assert not src.parent.exists()
    assert seen[0] == seen[1]
    assert seen[0][1] == float(git("show", "--no-patch", "--format=%ct", "HEAD"))


def test_guards_of_one_tree_take_turns(repository):
    root, _, git = repository
    commit = git("rev-parse", "HEAD")
    code = f"""
from pathlib import Path
from benchmarks.guard import laid_out
with laid_out({commit!r}, root=Path({str(root)!r})) as src:
    print((src / "linrank" / "__init__.py").read_text(), end="")
"""
    with laid_out(commit, root=root) as src:
        other = subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=ROOT
        )
        assert other.stdout.readline().startswith("another guard is at work on this tree")
        assert other.poll() is None
        assert (src / "linrank" / "__init__.py").exists()
    printed, _ = other.communicate(timeout=PATIENCE)
    assert other.returncode == 0
    assert printed == "text = 'two'\n"
    assert not src.parent.exists()


def test_base_is_removed_after_an_interruption(repository):
    root, _, git = repository
    with pytest.raises(KeyboardInterrupt), laid_out(git("rev-parse", "HEAD"), root=root) as src:
        raise KeyboardInterrupt
    assert not src.parent.exists()


# Processes -------------------------------------------------------------------------------------


def test_digest_is_of_names_and_content(tmp_path):
    a, b = tmp_path / "a", tmp_path / "b"
    for folder in (a, b):
        folder.mkdir()
        (folder / "x.py").write_text("1")
    assert digest(a) == digest(b)
    (b / "x.py").rename(b / "y.py")
    assert digest(a) != digest(b)


def test_process_imports_the_tree_that_it_is_given(tmp_path):
    """An empty package lacks everything, although a whole one is installed."""
    package = tmp_path / "src" / "linrank"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    with Worker(tmp_path / "src", str(tmp_path), 1, 0.02) as worker:
        for _ in range(2):
            with pytest.raises(Missing, match="ImportError: cannot import name 'LinearModel'"):
                worker.seconds("predict")


def test_process_refuses_the_installed_package_in_place_of_a_tree(tmp_path, capfd):
    with (
        Worker(tmp_path, str(tmp_path), 1, 0.02) as worker,
        pytest.raises(SystemExit, match="broke off at 'predict'; see above"),
    ):
        worker.seconds("predict")
    assert f"expected one below {tmp_path}" in capfd.readouterr().err


def test_process_times_a_workload_of_this_tree(tmp_path):
    with Worker(ROOT / "src", str(tmp_path), 1, 0.02) as worker:
        assert worker.seconds("predict", 3) > 0
    assert worker.process.returncode is not None
