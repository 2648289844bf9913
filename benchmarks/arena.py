"""Preference models: time beside other tools, memory with features, and coverage of intervals.

``python -m benchmarks.arena [SECTION…]`` prints processor seconds of fits in turns with evalica,
choix and arena-rank, as far as they are installed (``speed``); the memory of a fit with many
features (``features``); and the share of intervals of 95 % that cover the truth in 1,000
simulations, with ties, judges and votes that are separated (``coverage``).
"""

from __future__ import annotations

import importlib.util
import resource
import sys
import time
import warnings
from collections.abc import Callable

import numpy as np

from linrank import PreferenceModel, SeparationWarning
from linrank._util.types import Array

WORDS = np.array(["a", "b", "tie"])
TIE = np.log(0.5)  # η of Davidson's model
ROUNDS = 3  # runs in turns, of which the fastest is taken
ABSURD = 20.0  # log-odds beyond which an end of an interval says nothing


def draw_outcomes(rng: np.random.Generator, margins: Array, tie: float = TIE) -> Array:
    """Draw the outcomes of votes from Davidson's model."""
    weights = np.exp([margins / 2, -margins / 2, np.full_like(margins, tie)])
    shares = np.cumsum(weights / weights.sum(axis=0), axis=0)
    return WORDS[(rng.random(len(margins)) > shares).sum(axis=0)]


def draw_pairs(rng: np.random.Generator, n_items: int, n_votes: int) -> tuple[Array, Array]:
    """Draw two different items per vote."""
    a = rng.integers(n_items, size=n_votes)
    return a, (a + rng.integers(1, n_items, n_votes)) % n_items


def take_turns(calls: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Return the least processor time of each call, which take turns."""
    found = dict.fromkeys(calls, np.inf)
    for _ in range(ROUNDS):
        for name, call in calls.items():
            start = time.process_time()
            call()
            found[name] = min(found[name], time.process_time() - start)
    return found


def other_tools(a: Array, b: Array, outcome: list[str]) -> dict[str, Callable[[], object]]:
    """Return fits of Bradley–Terry models by other tools, each from its own form of the votes."""
    names = np.array([f"model-{k:03d}" for k in range(int(max(a.max(), b.max())) + 1)])
    first, second = names[a].tolist(), names[b].tolist()
    found: dict[str, Callable[[], object]] = {}
    if importlib.util.find_spec("evalica"):
        import evalica

        kinds = {"a": evalica.Winner.X, "b": evalica.Winner.Y, "tie": evalica.Winner.Draw}
        winners = [kinds[word] for word in outcome]
        found["evalica"] = lambda: evalica.bradley_terry(first, second, winners)
    if importlib.util.find_spec("choix"):
        import choix

        wins = [pair if word == "a" else pair[::-1]
                for *pair, word in zip(a.tolist(), b.tolist(), outcome, strict=True)
                if word != "tie"]  # fmt: skip
        found["choix, without ties"] = lambda: choix.ilsr_pairwise(len(names), wins, alpha=1e-4)
    if importlib.util.find_spec("arena_rank"):
        import pandas as pd
        from arena_rank.models.bradley_terry import BradleyTerry
        from arena_rank.utils.data_utils import PairDataset

        said = {"a": "model_a", "b": "model_b", "tie": "tie"}
        winner = [said[word] for word in outcome]
        frame = pd.DataFrame({"model_a": first, "model_b": second, "winner": winner})

        def fit_arena_rank() -> object:
            data = PairDataset.from_pandas(frame)
            return BradleyTerry(n_competitors=len(data.competitors)).compute_ratings_and_cis(data)

        found["arena-rank, with intervals"] = fit_arena_rank
    return found


def measure_speed(n_votes: int = 1_000_000, n_items: int = 200) -> None:
    """Print the processor time of fits in turns, and of bootstrap samples."""
    rng = np.random.default_rng(0)
    strengths = 0.8 * rng.standard_normal(n_items)
    a, b = draw_pairs(rng, n_items, n_votes)
    outcome = draw_outcomes(rng, strengths[a] - strengths[b]).tolist()
    names = np.array([f"model-{k:03d}" for k in range(n_items)])
    votes = names[a].tolist(), names[b].tolist(), outcome
    calls: dict[str, Callable[[], object]] = {
        f"linrank, ties={ties}": lambda ties=ties: PreferenceModel(ties).fit(*votes)
        for ties in ("half", "davidson")
    }
    for name, seconds in take_turns(calls | other_tools(a, b, outcome)).items():
        print(f"{name}: {seconds:.2f} s")
    model = PreferenceModel().fit(*votes)
    start = time.process_time()
    model.bootstrap(1000)
    print(f"1,000 bootstrap samples: {time.process_time() - start:.1f} s")
    model.fit(*votes, covariates=rng.standard_normal((n_votes, 10)))
    start = time.process_time()
    model.bootstrap(100)
    print(f"100 samples, 10 covariates: {time.process_time() - start:.1f} s")


def measure_features(n_pairs: int = 100_000, n_features: int = 4096) -> None:
    """Print the time and the largest memory of a fit of weights of dense features."""
    small = PreferenceModel(features=np.eye(3), deviations=False, penalty=1.0)
    small.fit([0, 1, 2], [1, 2, 0], ["a", "b", "a"])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rng = np.random.default_rng(0)
    F = np.empty((n_pairs, n_features), np.float32)
    for row in F:  # in parts, so that the drawing takes no memory of its own
        row[:] = rng.standard_normal(n_features, dtype=np.float32)
    scores = F @ (2 * rng.standard_normal(n_features) / np.sqrt(n_features)).astype(np.float32)
    a, b = draw_pairs(rng, n_pairs, n_pairs)
    share = 1 / (1 + np.exp(scores[b] - scores[a].astype(float)))
    outcome = (rng.random(n_pairs) < share).astype(float)
    start = time.process_time()
    PreferenceModel(features=F, deviations=False, penalty=1.0).fit(a, b, outcome)
    seconds = time.process_time() - start
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - before
    size = F.nbytes / 2**20
    print(f"{n_pairs:,} pairs × {n_features:,} features: {seconds:.0f} s")
    print(f"memory with the features: {memory / size:.2f} times their {size:,.0f} MB")


def measure_coverage(
    n_judges: int = 0, ties: str = "davidson", n_simulations: int = 1000, n_votes: int = 2000
) -> float:
    """Return the share of intervals of 95 % that cover the true difference of two strengths.

    Half of the judges repeat their first vote of a pair. Without judges, votes are independent.
    """
    truth, covered = np.linspace(0.0, 1.5, 6), []
    for seed in range(n_simulations):
        rng = np.random.default_rng(seed)
        a, b = draw_pairs(rng, 6, n_votes)
        outcome = draw_outcomes(rng, truth[a] - truth[b], -np.inf if ties == "half" else TIE)
        judge = rng.integers(n_judges, size=n_votes) if n_judges else None
        if judge is not None:
            key = (judge * 6 + np.minimum(a, b)) * 6 + np.maximum(a, b)
            _, first, of = np.unique(key, return_index=True, return_inverse=True)
            same = (a == a[first][of]) & (judge % 2 == 0)
            outcome = np.where(same, outcome[first][of], outcome)
        table = PreferenceModel(ties, reference=0).fit(a, b, outcome, judge=judge).table()
        table = table.set_index("item").loc[np.arange(1, 6)]
        covered.append(((table["low"] < truth[1:]) & (truth[1:] < table["high"])).mean())
    return float(np.mean(covered))


def count_absurd(n_simulations: int = 1000) -> tuple[int, int]:
    """Return how many simulated tables are separated, and how many have an absurd interval."""
    truth, separated, absurd = np.array([0.0, 1.0, 2.0, 3.0, 5.0]), 0, 0
    for seed in range(n_simulations):
        rng = np.random.default_rng(seed)
        a, b = draw_pairs(rng, 5, 40)
        outcome = draw_outcomes(rng, truth[a] - truth[b])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SeparationWarning)
            try:
                model = PreferenceModel().fit(a, b, outcome)
            except ValueError:  # The votes do not connect all items.
                continue
        ends = model.table()[["low", "high"]].to_numpy()
        separated += bool(model.separated_)
        absurd += not (np.abs(ends) < ABSURD).all()
    return separated, absurd


def show_coverage() -> None:
    """Print the coverage with ties and with judges, and what separated votes give."""
    for n_judges, ties in ((0, "half"), (0, "davidson"), (200, "davidson"), (10, "davidson")):
        share = measure_coverage(n_judges, ties)
        print(f"coverage, ties={ties}, {n_judges} judges: {share:.3f}")
    separated, absurd = count_absurd()
    print(f"{separated} of 1,000 tables are separated; {absurd} have an absurd interval")


SECTIONS = {"speed": measure_speed, "features": measure_features, "coverage": show_coverage}

if __name__ == "__main__":
    for section in sys.argv[1:] or SECTIONS:
        SECTIONS[section]()
