"""Workers die during a fit: the result is the same, nothing hangs, and no process remains."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time

import numpy as np
import psutil
import pytest
from benchmarks.loopback import PATIENCE, Loopback
from distributed import Client

import dask
from commandline import run, run_json
from linrank import (
    DataError,
    LinearModel,
    RankingData,
    RankSVM,
    WorkersLost,
    make_ranking,
    save_store,
)
from linrank.counting.preferences import ALL_PAIRS, Preferences
from linrank.dask import DaskData, DaskEngine, DaskRankSVM
from linrank.dask.pool import local_cluster
from linrank.dask.sources import folder_parts
from linrank.engines.threads import ThreadEngine
from linrank.losses import get_loss
from linrank.training.trainer import TrainingProgress
from problems import PAPERS

SETTINGS = {
    "C": 1e-3,
    "tol": 1e-9,
    "solver": "tron",
}  # TRON takes many small steps, so that workers die in between.


LONG = 300.0  #: seconds; longer than any step takes, even on a busy machine


@pytest.fixture(autouse=True)
def no_hang():
    """Fail a test that hangs after a quarter of an hour."""

    def give_up(*_):
        raise TimeoutError("the test hangs")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(900)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def own_children():
    """Return the child processes of this one, without Python's own helpers."""
    found = {}
    for child in psutil.Process().children(recursive=True):
        try:
            command = " ".join(child.cmdline())
        except psutil.Error:
            continue
        if "resource_tracker" not in command and "forkserver" not in command:
            found[child.pid] = command
    return found


@pytest.fixture(scope="module", autouse=True)
def patience():
    """Let the pool wait for slow processes on a busy machine."""
    with pytest.MonkeyPatch.context() as patch:
        for name in (
            "pool.CONNECT_SECONDS",
            "pool.REPLACEMENT_SECONDS",
            "pool.START_SECONDS",
            "dask_engine.REPLACEMENT_SECONDS",
        ):
            patch.setattr(f"linrank.dask.{name}", LONG)
        yield


@pytest.fixture(scope="module", autouse=True)
def nothing_is_left():
    """Check that no process outlives the tests."""
    before = own_children()
    yield
    deadline = time.monotonic() + PATIENCE
    while own_children().keys() - before.keys() and time.monotonic() < deadline:
        time.sleep(0.1)
    left = own_children()
    assert not {pid: left[pid] for pid in left.keys() - before.keys()}


@pytest.fixture
def loopback(tmp_path):
    with Loopback(tmp_path) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def cluster(patience, nothing_is_left):
    """Start two workers with nannies, which restart them."""
    with local_cluster(2, memory_limit="1GB") as cluster:
        yield cluster


@pytest.fixture
def nannies(cluster):
    """Return a client of the cluster once both workers are present."""
    with Client(cluster, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=PATIENCE)
        yield client


@pytest.fixture(scope="module")
def data():
    return make_ranking(400, (30, 60), 20, n_levels=5, noise=1.0, random_state=0)


@pytest.fixture(scope="module")
def store(data, tmp_path_factory):
    path = tmp_path_factory.mktemp("faults") / "store"
    save_store(data, path)
    return path


@pytest.fixture(scope="module")
def expected(data):
    """Return the fit in one process."""
    return RankSVM(**PAPERS | SETTINGS).fit(data.X, data.y, data.qid)


def pids(client):
    """Return the process ids of the workers."""
    return [int(pid) for pid in client.run(os.getpid).values()]


class Killer(threading.Thread):
    """Kills two workers of a client's cluster at random moments."""

    def __init__(self, client, rng, longest=1.5):
        super().__init__(daemon=True)
        self.delays = rng.random(2) * longest
        self.victims = rng.choice(pids(client), 2, replace=False).tolist()
        self.killed = 0

    def run(self):
        for delay, pid in zip(self.delays, self.victims, strict=True):
            time.sleep(delay)
            os.kill(pid, signal.SIGKILL)
            self.killed += 1


def fit_under_fire(client, store, expected, rng):
    """Fit repeatedly until two workers have been killed; return the number of killed workers."""
    killer = Killer(client, rng)
    killer.start()
    coefs = []
    while killer.is_alive() or not coefs:
        coefs.append(DaskRankSVM(client=client, **SETTINGS, normalize=None).fit(store).coef_)
    for coef in coefs:
        np.testing.assert_allclose(coef, expected.coef_, rtol=1e-5, atol=1e-9)
    return killer.killed


def test_nannies_bring_workers_back(nannies, store, expected):
    rng, n_killed = np.random.default_rng(1), 0
    for _ in range(4):
        nannies.wait_for_workers(2, timeout=PATIENCE)
        n_killed += fit_under_fire(nannies, store, expected, rng)
    assert n_killed == 8


def test_workers_without_nannies_from_the_command_line(loopback, store, expected):
    """The remaining workers load the parts of the dead ones."""
    rng, n_killed = np.random.default_rng(2), 0
    with Client(loopback.address, set_as_default=False) as client:
        for _ in range(6):
            for _ in range(3 - len(client.nthreads())):
                loopback.start_worker("--no-nanny")
            client.wait_for_workers(3, timeout=PATIENCE)
            n_killed += fit_under_fire(client, store, expected, rng)
            while len(client.nthreads()) > 1:
                time.sleep(0.05)
    assert n_killed == 12


def test_a_worker_that_cannot_be_replaced(loopback, store, monkeypatch):
    """The best weights so far are kept, and the error says what happened."""
    monkeypatch.setattr("linrank.dask.pool.REPLACEMENT_SECONDS", 1.0)
    loopback.start_worker("--no-nanny")
    with Client(loopback.address, set_as_default=False) as client:
        client.wait_for_workers(1, timeout=PATIENCE)
        ranker = DaskRankSVM(client=client, verbose=True, **SETTINGS, normalize=None)
        steps = []

        def kill_later(C, step, fold):
            steps.append(step)
            if len(steps) == 4:
                os.kill(pids(client)[0], signal.SIGKILL)

        monkeypatch.setattr("linrank.estimators.trained.print_step", kill_later)
        with pytest.raises(WorkersLost, match=r"cannot be replaced: .* weights so far are kept"):
            ranker.fit(store)
    assert ranker.coef_.any()
    assert ranker.result_.objective == min(step.objective for step in steps)
    assert ranker.result_.objective < steps[0].objective


def test_command_line_that_loses_workers(loopback, store, expected, tmp_path, monkeypatch):
    """After the loss of one of two workers the model is the same.

    Without losses, nothing is logged. After the loss of both, the best weights so far are kept.
    """
    monkeypatch.setattr("linrank.dask.pool.REPLACEMENT_SECONDS", 1.0)
    model = tmp_path / "model.json"
    command = ("train", store, "--C", "1e-3", "--tol", "1e-9", "--solver", "tron", "--out", model,
               "--normalize", "none", "--dask", loopback.address)  # fmt: skip
    for _ in range(2):
        loopback.start_worker("--no-nanny")
    with Client(loopback.address, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=PATIENCE)
        assert run_json(*command)["solver"]["status"] == "converged"
        assert "Traceback" not in loopback.log()

        class Killing(TrainingProgress):
            def __call__(self, C, step, fold):
                super().__call__(C, step, fold)
                if step.iteration == 3:
                    os.kill(pids(client)[0], signal.SIGKILL)

        monkeypatch.setattr("linrank.training.trainer.TrainingProgress", Killing)
        assert run_json(*command)["solver"]["status"] == "converged"
        np.testing.assert_allclose(
            LinearModel.load(model).coef, expected.coef_, rtol=1e-5, atol=1e-9
        )
        result = run(*command, code=1)
        assert "cannot be replaced" in result.stderr
        assert "the model is the best so far, and it was saved" in result.stderr
        assert LinearModel.load(model).coef.any()


def test_engines_are_brought_back_to_where_they_were(nannies, store, data):
    """After a worker has died, Hessian products of every engine are those at its last w."""
    rng = np.random.default_rng(0)
    w, u, v = rng.standard_normal((3, 20))
    own = Preferences("all", "slack", lambda upper, lower: np.sqrt(upper - lower))
    with DaskData(nannies, folder_parts(store)) as held:
        engine = DaskEngine(held, get_loss("squared_hinge"))
        other = engine.with_loss(get_loss("huber"))
        third = DaskEngine(held, get_loss("squared_hinge"), preferences=own)
        engine.value_grad(w)
        other.value_grad(u)
        third.value_grad(w)
        before = engine.hessp(v)
        os.kill(pids(nannies)[0], signal.SIGKILL)
        np.testing.assert_array_equal(engine.hessp(v), before)
        for found, loss, at, preferences in (
            (engine, "squared_hinge", w, ALL_PAIRS),
            (other, "huber", u, ALL_PAIRS),
            (third, "squared_hinge", w, own),
        ):
            here = ThreadEngine(data, get_loss(loss), preferences=preferences)
            here.value_grad(at)
            np.testing.assert_allclose(found.hessp(v), here.hessp(v), rtol=1e-8)


def wait_for(condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def test_a_worker_that_comes_back_at_its_old_address_is_a_new_one(loopback, store, data):
    """No request is made while the worker restarts, and the new process has the same address."""
    w, v = np.random.default_rng(0).standard_normal((2, 20))
    for _ in range(2):
        loopback.start_worker("--worker-port", free_port())
    with Client(loopback.address, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=PATIENCE)
        with DaskData(client, folder_parts(store)) as held:
            engine = DaskEngine(held, get_loss("squared_hinge"))
            loss, _ = engine.value_grad(w)
            addresses, product = sorted(client.nthreads()), engine.hessp(v)
            victim = next(iter(client.run(os.getpid, workers=addresses[:1]).values()))
            os.kill(victim, signal.SIGKILL)
            wait_for(lambda: sorted(client.nthreads()) == addresses[1:])
            wait_for(lambda: sorted(client.nthreads()) == addresses)
            np.testing.assert_array_equal(engine.hessp(v), product)
            assert sorted(group.worker.address for group in held.groups) == addresses
            assert engine.value_grad(w)[0] == loss


def test_workers_that_are_frozen_count_as_lost(nannies, store, expected):
    started = time.monotonic()
    with DaskData(nannies, folder_parts(store)) as held:
        engine = DaskEngine(held, get_loss("squared_hinge"))
        loss, _ = engine.value_grad(expected.coef_)
        # The other worker has to load the data of both, which takes less than this timeout.
        held.pool.timeout = max(10.0, 10.0 * (time.monotonic() - started))
        frozen = pids(nannies)[0]
        os.kill(frozen, signal.SIGSTOP)
        try:
            again, _ = engine.value_grad(expected.coef_)
        finally:
            os.kill(frozen, signal.SIGCONT)
    assert again == pytest.approx(loss, rel=1e-12)


def test_workers_that_die_of_one_query(tmp_path):
    """Nannies kill every worker that loads the query; the query ids alone identify it."""
    qid = np.repeat(["small", "large"], [10, 50_000])
    data = RankingData(np.zeros((len(qid), 1_000)), np.arange(len(qid)) % 2, qid)
    save_store(data, tmp_path / "store")
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        local_cluster(2, memory_limit="450MB") as cluster,
        Client(cluster, set_as_default=False) as client,
        pytest.raises(DataError, match=r"query large has 50,000 documents, which take 400 MB"),
    ):
        DaskRankSVM(C=1.0, client=client, normalize=None).fit(tmp_path / "store")
