"""Seconds and memory of an additive ranker and of tuned boosted trees, from data to chosen model.

Run it with ``python -m benchmarks.additive_speed --rows 240000 --peer-settings 2``. The data are
generated: 136 raw features as in web search, queries of 120 documents, 5 grades, and effects that
bend. Validation has a fifth of the rows of training.

`AdditiveRankerCV` chooses penalty and C with its defaults. LightGBM's lambdarank stops early; it
is fitted with some of the 24 settings of ``benchmarks.additive_quality``, and the seconds for all
24 are estimated from these. Its bins are computed once for all settings.

``--waiting MQ2007 7000x136 1050x2000`` makes another table: for each collection or shape, the
seconds of the whole `AdditiveRankerCV` and of one LightGBM fit with early stopping, in turns.

Ratios are those of processor time, because other programs lengthen the time on the clock. Waiting
threads of LightGBM use the processor, too, so that ``--threads 1`` is the fair choice on a busy
machine.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from importlib.metadata import version
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

from linrank import AdditiveRankerCV, RankingData, make_ranking
from linrank._util.parallel import resolve_threads
from linrank._util.types import Vector
from linrank.choices import BASES, BasisName
from linrank.errors import GridEdgeWarning
from linrank.problem import Problem
from linrank.training import Trainer
from linrank.training.additive_trainer import DEFAULT_PREFERENCES, AdditiveTrainer

from .additive_quality import PATIENCE, Boosting, boosting_settings, measured
from .sparse_letor import read_parts
from .tools import (
    Options,
    Section,
    forget_high_water,
    high_water,
    interleaved,
    machine,
    markdown,
    show_seconds,
)

N_FEATURES = 136
DOCS_PER_QUERY = 120
N_LEVELS = 5
N_BENT = 40  #: features that the labels depend on
N_SETTINGS = 24  #: settings of tuned boosted trees
MAX_ROUNDS = 500  #: largest number of trees
PRODUCT_ROWS = 240_000  #: largest number of documents with which Hessian products are timed
WARM_ROWS = 24_000  #: documents of a fit before the measurement; enough for several threads
BLOCK_ROWS = 1 << 14  #: documents whose utility is computed at a time
NOISE = 1.0  #: standard deviation of the noise in the labels, relative to the effects
TIME_LIMIT = 480.0  #: seconds after which no further tree is added


class Spent(NamedTuple):
    """Seconds on the clock, and seconds of processor time of all threads."""

    clock: float
    processor: float

    @classmethod
    def since(cls, start: Spent) -> Spent:
        """Return the seconds since a moment that `now` returned."""
        return cls(*(b - a for a, b in zip(start, cls.now(), strict=True)))

    @classmethod
    def now(cls) -> Spent:
        """Return the current readings."""
        return cls(time.perf_counter(), time.process_time())

    def cells(self) -> tuple[str, str]:
        """Return both numbers as text."""
        return show_seconds(self.clock), show_seconds(self.processor)


class Halves(NamedTuple):
    """The training and the validation part of generated data."""

    train: RankingData
    valid: RankingData


class Peer(NamedTuple):
    """Seconds of LightGBM's bins and of each setting, and what was reached."""

    binning: Spent
    fits: list[Spent]
    values: list[float]
    rounds: list[int]

    @property
    def tuned(self) -> Spent:
        """Seconds of all settings, if the others take as long as those that were fitted."""
        means = np.mean(self.fits, axis=0)
        return Spent(*(np.array(self.binning) + N_SETTINGS * means).tolist())

    @property
    def stopped(self) -> bool:
        """Whether a fit ended at the time limit."""
        return max(spent.clock for spent in self.fits) > TIME_LIMIT


# Data -------------------------------------------------------------------------------------------


def bent_web(n_rows: int, n_features: int = N_FEATURES, seed: int = 0) -> Halves:
    """Return data whose labels depend on bent functions of some features.

    Small data have at least 20 documents per query, so that there are enough queries.
    """
    size = max(20, min(DOCS_PER_QUERY, n_rows // 100))
    n_queries = max(2, n_rows // size)
    n_valid = max(1, n_queries // 5)
    given = make_ranking(
        n_queries + n_valid, size, n_features, correlation=0.7, heavy_tails=True,
        dtype=np.float32, random_state=seed,
    )  # fmt: skip
    X, y, qid = given.X, graded(given.X, seed), given.qid
    n = n_queries * size
    return Halves(RankingData(X[:n], y[:n], qid[:n]), RankingData(X[n:], y[n:], qid[n:]))


def graded(X: Vector, seed: int) -> Vector:
    """Return labels 0 to 4, each half as frequent as the one below it."""
    rng = np.random.default_rng(seed)
    features = rng.choice(X.shape[1], N_BENT, replace=False)
    peaks, sizes = (
        rng.normal(size=N_BENT),
        rng.exponential(size=N_BENT) * rng.choice([-1, 1], N_BENT),
    )
    centre = np.log(X[:BLOCK_ROWS, features]).mean(axis=0, dtype=np.float64)
    spread = np.log(X[:BLOCK_ROWS, features]).std(axis=0, dtype=np.float64)
    utility = np.empty(len(X))
    for a in range(0, len(X), BLOCK_ROWS):
        z = (np.log(X[a : a + BLOCK_ROWS, features]) - centre) / spread
        utility[a : a + BLOCK_ROWS] = np.exp(-((z - peaks) ** 2)) @ sizes
    utility += NOISE * utility.std() * rng.standard_normal(len(X))
    edges = np.quantile(utility, 1.0 - 0.5 ** np.arange(1, N_LEVELS))
    return np.searchsorted(edges, utility).astype(np.float64)


def data_of(name: str) -> Halves:
    """Return the first fold of a collection, or generated data of a shape such as ``7000x136``."""
    if "x" in name:
        n_rows, n_features = map(int, name.split("x"))
        return bent_web(n_rows, n_features)
    train, valid, _ = read_parts(name, 1)
    return Halves(train, valid)


# Fits -------------------------------------------------------------------------------------------


def warm_up(threads: int) -> None:
    """Load the compiled kernels and the buffers of BLAS, by a fit that stores data as a large one.

    They are there once per process, and do not grow with the data.
    """
    with patch("linrank.features.design.MANY", 0), warnings.catch_warnings():
        warnings.simplefilter("ignore", GridEdgeWarning)
        fit_additive(bent_web(WARM_ROWS), threads, Cs=[1e-6, 1e-4])


def fit_additive(
    data: Halves, threads: int, Cs: list[float] | None = None
) -> tuple[Spent, float, AdditiveRankerCV]:
    """Return seconds, validation NDCG@10 and the ranker, from arrays to the chosen model."""
    train, valid = data
    started = Spent.now()
    ranker = AdditiveRankerCV(Cs, n_threads=threads)
    ranker.fit(train.X, train.y, qid=train.qid, valid=(valid.X, valid.y, valid.qid))
    spent = Spent.since(started)
    return spent, float(np.nanmean(measured(valid, ranker.predict(valid.X)))), ranker


def fit_lightgbm(data: Halves, n_settings: int, threads: int) -> Peer:
    """Fit LightGBM with settings that are spread evenly over the grid."""
    import lightgbm as lgb

    started = Spent.now()
    shared = {"verbose": -1, "num_threads": threads, "feature_pre_filter": False}
    train = lgb.Dataset(
        data.train.X, data.train.y, group=np.diff(data.train.query_ptr), params=shared
    ).construct()
    valid = lgb.Dataset(
        data.valid.X, data.valid.y, group=np.diff(data.valid.query_ptr), reference=train
    ).construct()
    peer = Peer(Spent.since(started), [], [], [])
    for own in spread_settings(n_settings):
        started = Spent.now()
        booster = lgb.train(
            shared | lightgbm_parameters(own), train, MAX_ROUNDS, [valid],
            callbacks=[lgb.early_stopping(PATIENCE, verbose=False), limit(lgb, started.clock)],
        )  # fmt: skip
        peer.fits.append(Spent.since(started))
        peer.values.append(booster.best_score["valid_0"]["ndcg@10"])
        peer.rounds.append(booster.current_iteration())
        print(f"LightGBM {own}: {peer.fits[-1].clock:.1f} s, {peer.rounds[-1]} rounds", flush=True)
    return peer


def spread_settings(n: int) -> list[Boosting]:
    """Return n settings of the grid, at even distances from each other."""
    grid = boosting_settings(N_SETTINGS)
    places = np.linspace(0, len(grid) - 1, n + 2)[1:-1]
    return [grid[round(place)] for place in places]


def lightgbm_parameters(own: Boosting) -> dict[str, Any]:
    """Return the parameters of LightGBM for a setting."""
    return {
        "objective": "lambdarank", "metric": "ndcg", "eval_at": [10], "num_leaves": own.leaves,
        "learning_rate": own.rate, "min_data_in_leaf": own.min_data, "lambda_l2": own.l2,
        "feature_fraction": own.features, "seed": 0,
    }  # fmt: skip


def limit(lgb: Any, started: float) -> Any:
    """Return a callback that ends boosting at the time limit."""

    def callback(env: Any) -> None:
        if time.perf_counter() - started > TIME_LIMIT:
            raise lgb.callback.EarlyStopException(env.iteration, env.evaluation_result_list)

    return callback


def fit_once(data: Halves, threads: int) -> tuple[Spent, float]:
    """Return seconds and validation NDCG@10 of `LGBMRanker` with its defaults and early stopping.

    More than `MAX_ROUNDS` trees are not tried.
    """
    import lightgbm as lgb

    train, valid = data
    started = Spent.now()
    ranker = lgb.LGBMRanker(n_estimators=MAX_ROUNDS, n_jobs=threads, random_state=0, verbose=-1)
    ranker.fit(
        train.X, train.y, group=np.diff(train.query_ptr), eval_X=valid.X, eval_y=valid.y,
        eval_group=[np.diff(valid.query_ptr)], eval_at=[10],
        callbacks=[lgb.early_stopping(PATIENCE, verbose=False), limit(lgb, started.clock)],
    )  # fmt: skip
    return Spent.since(started), float(ranker.best_score_["valid_0"]["ndcg@10"])


# Waiting ----------------------------------------------------------------------------------------


def compare_waiting(names: list[str], threads: int, turns: int) -> Section:
    """Measure how long the additive ranker and one LightGBM fit take, in turns."""
    section = Section(
        "waiting",
        "Waiting for an additive ranker and for one LightGBM fit",
        "From arrays to the chosen model; medians of turns in which both methods follow each "
        "other. Validation NDCG@10 of the additive ranker is that of its best single fit",
        ["data", "method", "seconds", "processor seconds", "memory above the data", "NDCG@10"],
    )
    warm_up(threads)
    for name in names:
        data = data_of(name)
        fit_additive(data, threads)
        rows: dict[str, list[tuple[Spent, float, int]]] = {"AdditiveRankerCV": [], "LightGBM": []}
        for _ in range(turns):
            for method, own in rows.items():
                before = forget_high_water()
                if method == "LightGBM":
                    spent, value = fit_once(data, threads)
                else:
                    spent, _, ranker = fit_additive(data, threads)
                    assert ranker.best_score_ is not None
                    value = ranker.best_score_
                own.append((spent, value, high_water() - before))
        add_waiting(section, name, rows, data.train.X.size * 4)
    return section


def add_waiting(
    section: Section, name: str, rows: dict[str, list[tuple[Spent, float, int]]], size: int
) -> None:
    """Add the rows of both methods; `size` is that of the training rows in single precision."""
    seconds = {}
    for method, own in rows.items():
        spent = Spent(*np.median([one for one, _, _ in own], axis=0).tolist())
        memory = max(more for _, _, more in own)
        seconds[method] = spent.clock
        section.add(
            name, method, *spent.cells(), f"{memory / 2**20:.0f} MB: {memory / size:.2f} × X",
            f"{own[0][1]:.4f}", seconds=spent, memory=memory, value=own[0][1],
        )  # fmt: skip
    ratio = seconds["AdditiveRankerCV"] / seconds["LightGBM"]
    section.aim(f"{name}: no longer than LightGBM", f"{ratio:.2f} of it", ratio <= 1.0)


# Products ---------------------------------------------------------------------------------------


def time_products(section: Section, data: RankingData, all_threads: int) -> dict[str, float]:
    """Add rows for Hessian products, and return their ratios to those of the linear model."""
    data = data.take(np.arange(min(data.n_docs, PRODUCT_ROWS)))
    linear = data.replace(X=(data.X / data.X.std(axis=0, dtype=np.float64)).astype(np.float64))
    ratios: dict[str, float] = {}
    for threads in sorted({1, all_threads}):
        options: dict[str, Any] = {"loss": "logistic", "n_threads": threads}
        problems = {"linear": Trainer(preferences=DEFAULT_PREFERENCES, **options).problem(linear)}
        for basis in BASES:
            problems[basis] = additive_problem(data, basis, threads)
        times = interleaved({name: product_of(own) for name, own in problems.items()})
        medians = {name: statistics.median(own) for name, own in times.items()}
        for name, own in problems.items():
            X = own.engine.data.X
            ratio = medians[name] / medians["linear"]
            section.add(
                f"Hessian product, {name}", f"{threads}", show_seconds(medians[name]), "",
                f"{ratio:.2f} × linear", f"{X.nbytes / data.X.size:.2f} bytes per entry",
                times=times[name],
            )  # fmt: skip
            if name == "ramp":
                ratios[f"{threads} threads"] = ratio
    return ratios


def additive_problem(data: RankingData, basis: BasisName, threads: int) -> Problem:
    """Return the problem of an additive ranker."""
    trainer = AdditiveTrainer.of(basis=basis, n_threads=threads)
    return trainer.problem(trainer.prepare(data).data)


def product_of(problem: Problem) -> Any:
    """Return a function that computes a Hessian product at 0."""
    engine = problem.engine
    v = np.random.default_rng(0).normal(size=problem.n_features)
    engine.value_grad(np.zeros(problem.n_features))
    return lambda: engine.hessp(v)


# The table --------------------------------------------------------------------------------------


def measure(n_rows: int, n_settings: int, threads: int) -> Section:
    """Measure fits, memory and Hessian products."""
    data = bent_web(n_rows)
    section = Section(
        "additive",
        "Additive rankers and tuned boosted trees",
        f"Generated web search data, {data.train.n_docs:,} × {N_FEATURES} float32 for training "
        f"and {data.valid.n_docs:,} rows for validation; the settings are chosen by validation "
        "NDCG@10, which is given in the last column",
        ["what", "threads", "time", "processor time", "ratio or memory", "remark"],
    )
    warm_up(threads)
    spent, matrices = add_additive(section, data, threads)
    if n_settings:
        peer = fit_lightgbm(data, n_settings, threads)
        add_lightgbm(section, peer, spent)
        ratio = peer.tuned.processor / spent.processor
        section.aim("5 times faster than tuned LightGBM", f"{ratio:.1f} times", ratio >= 5.0)
    section.aim(
        "memory at most the float32 matrix of the training rows",
        f"{matrices:.2f} of it",
        matrices <= 1.0,
    )
    ratios = time_products(section, data.train, threads)
    section.aim_at_most("a product at most 1.5 × linear", 1.5, dict(ratios))
    return section


def add_additive(section: Section, data: Halves, threads: int) -> tuple[Spent, float]:
    """Add the row of the additive ranker.

    Returns its seconds, and its memory as a multiple of the matrix of the training rows.
    """
    before = forget_high_water()
    spent, value, ranker = fit_additive(data, threads)
    memory = high_water() - before
    parts = [memory / X for X in (data.train.X.nbytes, data.train.X.nbytes + data.valid.X.nbytes)]
    section.add(
        "AdditiveRankerCV, defaults", f"{threads}", *spent.cells(),
        f"{memory / 2**20:.0f} MB: {parts[0]:.2f} × X, {parts[1]:.2f} × X with validation",
        f"{value:.4f}, best fit {ranker.penalty_} with C = {ranker.C_:.3g}",
        seconds=spent, memory=memory, value=value,
    )  # fmt: skip
    return spent, parts[0]


def add_lightgbm(section: Section, peer: Peer, additive: Spent) -> None:
    """Add the rows of LightGBM, given the seconds of the additive ranker."""
    n, threads = len(peer.fits), section.rows[0][1]
    section.add("LightGBM, bins", threads, *peer.binning.cells(), "", "", seconds=peer.binning)
    for own, used, value, rounds in zip(
        spread_settings(n), peer.fits, peer.values, peer.rounds, strict=True
    ):
        section.add(
            f"LightGBM, {own.leaves} leaves, rate {own.rate}", threads, *used.cells(), "",
            f"{value:.4f}, {rounds} trees" + (", stopped" if used.clock > TIME_LIMIT else ""),
            seconds=used, value=value, rounds=rounds,
        )  # fmt: skip
    section.add(
        f"LightGBM, {N_SETTINGS} settings", threads, *peer.tuned.cells(),
        f"{peer.tuned.processor / additive.processor:.1f} × additive",
        f"estimate: bins + {N_SETTINGS}/{n} of the seconds of {n} settings",
        seconds=peer.tuned,
    )  # fmt: skip
    if peer.stopped:
        section.notes.append(
            f"Boosting was stopped after {TIME_LIMIT:.0f} s; complete fits take longer."
        )


def bench_additive(options: Options) -> Section:
    """Measure fits, memory and products, for the suite."""
    return measure(6_000 if options.quick else 240_000, 2, options.threads)


def main() -> None:
    """Run the program."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=240_000, help="documents for training")
    parser.add_argument("--peer-settings", type=int, default=2, help="settings of LightGBM")
    parser.add_argument("--threads", type=int, default=resolve_threads())
    parser.add_argument("--waiting", nargs="+", metavar="DATA", help="compare with one fit")
    parser.add_argument("--turns", type=int, default=3, help="turns of --waiting")
    arguments = parser.parse_args()
    if arguments.waiting:
        section = compare_waiting(arguments.waiting, arguments.threads, arguments.turns)
    else:
        section = measure(arguments.rows, arguments.peer_settings, arguments.threads)
    section.machine = f"{machine(arguments.threads)}, LightGBM {version('lightgbm')}"
    print("\n" + markdown(section.as_dict()))


if __name__ == "__main__":
    main()
