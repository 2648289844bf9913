"""The Dask engine: ``python -m benchmarks.dask``.

The sections measure the overhead of a cluster of worker processes on this machine compared with
threads, the bytes that are sent, and data larger than the memory of a worker.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
from distributed import Client

from linrank import RankingData, make_ranking, open_store
from linrank.dask import DaskData, DaskEngine, DaskTrainer
from linrank.dask.pool import local_cluster
from linrank.dask.sources import DataPart as Part
from linrank.dask.sources import array_parts, folder_parts
from linrank.engines.threads import ThreadEngine
from linrank.losses import get_loss
from linrank.training import Trainer

from .loopback import Loopback
from .shapes import QUICK, SHAPES, kept
from .tools import Options, Section, high_water, interleaved, run_sections, show_seconds

SHAPE = "web"
N_PARTS = 8
N_ROUNDS = 400
TOL = 1e-5
OVERHEAD = 2.0  #: largest ratio of the times of a fit on two workers and on two threads
ROUND = 3e-3  #: largest seconds of an empty request to two workers
LIMIT = (
    1_000_000_000  #: memory limit of a worker in bytes; Python and the kernels need a third of it
)
N_WORKERS = 10  #: workers that share data of three times the limit


@contextmanager
def cluster(n_workers: int) -> Iterator[Client]:
    """Start a cluster of worker processes with one thread each."""
    with (
        local_cluster(n_workers) as own,
        Client(own, set_as_default=False) as client,
    ):
        yield client


def write_parts(data: RankingData, folder: Path, copy: int = 0) -> None:
    """Write Parquet files of about equal numbers of queries; each copy has its own query ids."""
    cuts = np.linspace(0, data.n_queries, N_PARTS + 1).astype(int)
    edges, qid = data.query_ptr[cuts], data.qid + copy * data.n_queries
    for k, (a, b) in enumerate(pairwise(edges)):
        frame = pd.DataFrame(data.X[a:b], columns=[f"f{f}" for f in range(data.n_features)])
        frame = frame.assign(label=data.y[a:b], qid=qid[a:b])
        frame.to_parquet(folder / f"{copy:02}-{k}.parquet", compression=None)


def bench_overhead(options: Options) -> Section:
    """Compare two worker processes with two threads, and one with one."""
    data = open_store(kept(SHAPE, QUICK if options.quick else 1.0))
    section = Section(
        "overhead",
        "Worker processes against threads",
        f"{data.n_docs:,} × {data.n_features} dense float64 in {N_PARTS} parts; medians of turns "
        f"with each other; a fit is to {TOL:g}, from data that are loaded. Bytes are those of the "
        "messages to the workers and of the answers in one product: 2·8·d·workers are numbers",
        ["workers", "product", "threads", "ratio", "round", "fit", "threads", "ratio", "bytes",
         "of numbers", "load"],
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as name:
        write_parts(data, Path(name))
        for n_workers in (1, 2):
            _bench_workers(section, data, folder_parts(name), n_workers)
    two = section.numbers[-1]
    section.aim("a fit on two workers that have the data takes at most twice that of threads",
                f"{two['fit'] / two['fit_threads']:.2f} of it",
                two["fit"] <= OVERHEAD * two["fit_threads"])  # fmt: skip
    section.aim("a round of two workers takes at most 3 ms", show_seconds(two["round"]),
                two["round"] <= ROUND)  # fmt: skip
    section.aim("what travels in a product is O(d·workers)",
                f"{two['bytes'] / two['numbers']:.2f} of 2·8·d·workers",
                two["bytes"] <= 1.5 * two["numbers"] + 2048)  # fmt: skip
    return section


def _bench_workers(section: Section, data: RankingData, parts: list[Part], n: int) -> None:
    loss, v = get_loss("squared_hinge"), np.ones(data.n_features)
    own, C = np.zeros(data.n_features), 1.0
    with cluster(n) as client:
        started = time.perf_counter()
        with DaskData(client, parts) as held:
            load = time.perf_counter() - started
            engine, threads = DaskEngine(held, loss), ThreadEngine(data, loss, n_threads=n)
            C = SHAPES[SHAPE].weight_of_loss(data, threads.n_pairs)
            engine.value_grad(own), threads.value_grad(own)
            before = held.traffic
            engine.hessp(v)
            n_bytes = sum(held.traffic) - sum(before)
            here, there = Trainer(tol=TOL, n_threads=n), DaskTrainer(tol=TOL)
            times = interleaved({
                "product": lambda: engine.hessp(v),
                "product_threads": lambda: threads.hessp(v),
                "round": lambda: held.ask("discard_rows"),
            })  # fmt: skip
            times |= interleaved({
                "fit": lambda: there.train(held, C),
                "fit_threads": lambda: here.train(data, C),
            }, budget=30.0)  # fmt: skip
    numbers = {name: statistics.median(found) for name, found in times.items()}
    numbers |= {"workers": n, "bytes": n_bytes, "numbers": 16 * n * data.n_features, "load": load}
    section.add(
        str(n), show_seconds(numbers["product"]), show_seconds(numbers["product_threads"]),
        f"{numbers['product'] / numbers['product_threads']:.2f}", show_seconds(numbers["round"]),
        show_seconds(numbers["fit"]), show_seconds(numbers["fit_threads"]),
        f"{numbers['fit'] / numbers['fit_threads']:.2f}", f"{n_bytes:,}",
        f"{numbers['numbers']:,}", show_seconds(load), **numbers,
    )  # fmt: skip


def bench_memory(options: Options) -> Section:
    """Fit data of three times the memory limit of a worker, on several workers."""
    data = open_store(kept(SHAPE, QUICK if options.quick else 1.0))
    n_copies = 2 if options.quick else -(-3 * LIMIT // data.X.nbytes)
    section = Section(
        "memory",
        "Data larger than a worker's memory",
        f"{n_copies} × {data.n_docs:,} × {data.n_features} dense float64 in {N_PARTS} files each; "
        f"a scheduler and {N_WORKERS} workers of the command line, each ended by its nanny when it "
        "takes more than 95 % of its limit",
        ["data", "limit of a worker", "data / limit", "most of a worker", "load", "fit",
         "workers lost"],
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as name, Loopback(Path(name)) as loopback:
        loopback.start_worker("--nworkers", N_WORKERS, memory_limit=str(LIMIT))
        folder = Path(name) / "parts"
        folder.mkdir()
        for copy in range(n_copies):
            write_parts(data, folder, copy)
        with Client(loopback.address, set_as_default=False) as client:
            client.wait_for_workers(N_WORKERS)
            found = _train_in_parts(client, folder_parts(folder))
    size = n_copies * data.X.nbytes
    section.add(
        f"{size / 1e6:,.0f} MB", f"{LIMIT / 1e6:,.0f} MB", f"{size / LIMIT:.2f}",
        f"{found['most'] / 1e6:,.0f} MB", show_seconds(found["load"]), show_seconds(found["fit"]),
        str(found["lost"]), bytes=size, limit=LIMIT, **found,
    )  # fmt: skip
    section.aim("data of three times a worker's memory are trained on", found["status"],
                found["converged"] and found["lost"] == 0 and size >= 3 * LIMIT)  # fmt: skip
    return section


def _train_in_parts(client: Client, parts: list[Part]) -> dict[str, Any]:
    """Load and fit; return the seconds, the peak memory of a worker and the lost workers."""
    before = set(client.nthreads())
    started = time.perf_counter()
    with DaskData(client, parts) as held:
        loaded = time.perf_counter()
        result = DaskTrainer(tol=TOL).train(held, 1e-3).result
        done = time.perf_counter()
    return {
        "load": loaded - started,
        "fit": done - loaded,
        "most": max(high_water(pid) for pid in client.run(os.getpid).values()),
        "lost": len(before - set(client.nthreads())),
        "status": result.message,
        "converged": result.converged,
    }


class ActorEngine:
    """The engine of a worker as an Actor of Dask, for comparison with linrank's connections."""

    def __init__(self, data: RankingData) -> None:
        self.engine = ThreadEngine(data, get_loss("squared_hinge"), n_threads=1)
        self.engine.value_grad(np.zeros(data.n_features))

    def hessp(self, v: np.ndarray) -> np.ndarray:
        """Return the product with the Hessian of the worker's documents."""
        return self.engine.hessp(v)


def bench_rounds(options: Options) -> Section:
    """Measure the cost of a request by products on very small data, by workers and features."""
    section = Section(
        "rounds",
        "What a round costs",
        "Products of 160 documents in all, in turns; the client's share is the time of its "
        "processor, which its messages take one after the other. Actors are those of Dask, which "
        "hold the same engines",
        ["features", "workers", "round", "Actors", "ratio", "of the client, per message", "Actors",
         "bytes per message"],
    )  # fmt: skip
    for n_workers in (1, 2, 4, 8):
        with cluster(n_workers) as client:
            for n_features in (136, 1_000, 10_000):
                _bench_round(section, client, n_features)
    return section


def _bench_round(section: Section, client: Client, n_features: int) -> None:
    data = make_ranking(32, 5, n_features, random_state=0)
    chunks, v = (20,) * 8, np.ones(n_features)
    X, y, qid = (da.from_array(a, (chunks, *a.shape[1:])) for a in (data.X, data.y, data.qid))
    workers = sorted(client.nthreads())
    rows = np.array_split(np.arange(data.n_docs), len(workers))
    with client.as_current():  # actors remember it
        actors = [
            client.submit(ActorEngine, data.take(own), actor=True, workers=[worker]).result()
            for own, worker in zip(rows, workers, strict=True)
        ]
    with DaskData(client, array_parts(X, y, qid)) as held:
        engine = DaskEngine(held, get_loss("squared_hinge"))
        engine.value_grad(np.zeros(n_features))
        asked = {
            "round": lambda: engine.hessp(v),
            "actors": lambda: sum(found.result() for found in [a.hessp(v) for a in actors]),
        }
        seconds = interleaved(asked, most=N_ROUNDS)
        before = sum(held.traffic)
        busy = {name: _processor_time(ask) for name, ask in asked.items()}
        n_bytes = sum(held.traffic) - before
    n_messages = N_ROUNDS * 2 * len(workers)
    numbers = {
        "features": n_features, "workers": len(workers),
        **{name: statistics.median(found) for name, found in seconds.items()},
        **{f"{name}_message": spent / n_messages for name, spent in busy.items()},
        "bytes": n_bytes / n_messages,
    }  # fmt: skip
    section.add(
        f"{n_features:,}", str(numbers["workers"]), show_seconds(numbers["round"]),
        show_seconds(numbers["actors"]), f"{numbers['actors'] / numbers['round']:.1f}",
        show_seconds(numbers["round_message"]), show_seconds(numbers["actors_message"]),
        f"{numbers['bytes']:,.0f}", **numbers,
    )  # fmt: skip


def _processor_time(ask: Callable[[], object]) -> float:
    """Return the processor time that this process takes for `N_ROUNDS` rounds."""
    before = time.process_time()
    for _ in range(N_ROUNDS):
        ask()
    return time.process_time() - before


SECTIONS = {"overhead": bench_overhead, "rounds": bench_rounds, "memory": bench_memory}

if __name__ == "__main__":
    run_sections(__doc__, "dask", SECTIONS)
