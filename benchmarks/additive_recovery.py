"""True and fitted curves of generated data, and one interaction.

Run it with ``python -m benchmarks.additive_recovery``. It prints the correlation of each fitted
curve with the true one over new documents, and draws docs/figures/additive-recovery.svg.

With ``--simulations 200``, it prints how often a band of 95 % contains the true curve.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from linrank import AdditiveModel, AdditiveRanker, AdditiveRankerCV, RankingData
from linrank._util.parallel import resolve_threads
from linrank._util.types import Vector
from linrank.plots import COLOURS

from .plots import draw
from .tools import machine

FIGURE = Path(__file__).parents[1] / "docs" / "figures" / "additive-recovery.svg"
N_QUERIES = 1000
DOCS_PER_QUERY = 20
NOISE = 1.0  #: standard deviation of the noise in the labels; that of a curve is about 1
N_BAGS = 20  #: fits on resampled queries, for the bands
CELLS = 4  #: cells of the interaction in each direction, in the figure
LARGEST = 2.0  #: value of the interaction with the darkest blue; its negative is the darkest red

#: The true curves of the first features; further features have none.
TRUTH: dict[str, Callable[[Vector], Vector]] = {
    "bump": lambda x: 3.0 * np.exp(-2.0 * x**2),
    "saturation": lambda x: 2.0 * np.tanh(2.0 * x + 1.0),
    "kink": lambda x: 2.0 * np.maximum(x, 0.0),
    "wave": lambda x: np.sin(2.5 * x),
    "nothing": np.zeros_like,
}
PAIR = (5, 6)  #: features that interact, without curves of their own
N_FEATURES = 10


def interaction(x: Vector, z: Vector) -> Vector:
    """Return the true interaction: positive where x and z have the same sign."""
    return 1.5 * np.tanh(2.0 * x) * np.tanh(2.0 * z)


def generate(seed: int) -> RankingData:
    """Return data with five grades of a sum of curves, an interaction and noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N_QUERIES * DOCS_PER_QUERY, N_FEATURES))
    utility = sum(curve(X[:, j]) for j, curve in enumerate(TRUTH.values()))
    utility = utility + interaction(X[:, PAIR[0]], X[:, PAIR[1]])
    utility += NOISE * rng.normal(size=len(X))
    y = np.searchsorted(np.quantile(utility, (0.5, 0.75, 0.875, 0.9375)), utility)
    return RankingData(X, y.astype(np.float64), np.repeat(np.arange(N_QUERIES), DOCS_PER_QUERY))


class Fitted(NamedTuple):
    """A fitted model, with the factor that brings its scores to the scale of the truth."""

    model: AdditiveModel
    factor: float

    def curve(self, j: int, x: Vector) -> Vector:
        """Return the curve of feature j, which is 0 if the model has none."""
        own = [curve for curve in self.model.curves if curve.feature == j]
        return self.factor * own[0](x) if own else np.zeros_like(x)

    def band(self, j: int, x: Vector) -> tuple[Vector, Vector] | None:
        """Return the limits of the band of feature j."""
        own = [curve for curve in self.model.curves if curve.feature == j]
        limits = own[0].limits(x) if own else None
        return None if limits is None else (self.factor * limits[0], self.factor * limits[1])

    def interaction(self, x: Vector, z: Vector) -> Vector:
        """Return the interaction of the pair, which is 0 if the model has none."""
        own = [one for one in self.model.surfaces if tuple(one.features) == PAIR]
        return self.factor * own[0](x, z) if own else np.zeros_like(x)


def fit(train: RankingData, valid: RankingData) -> Fitted:
    """Fit the ranker; the scale of scores is free, so it is taken from a regression."""
    ranker = AdditiveRankerCV(interactions=3, n_bags=N_BAGS, random_state=0)
    model = ranker.fit(train, valid=valid).model_
    columns = [curve(train.X[:, j]) for j, curve in enumerate(TRUTH.values())]
    truth = sum(columns) + interaction(*train.X[:, PAIR].T)
    scores = model.predict(train.X)
    covariance = np.cov(truth, scores)
    return Fitted(model, float(covariance[0, 1] / covariance[1, 1]))


def report(fitted: Fitted, data: RankingData) -> None:
    """Print correlations with the truth, and the size of what is not in the data."""
    X = data.X
    print("| part | correlation with the truth | standard deviation |\n|---|---|---|")
    for j, (name, curve) in enumerate(TRUTH.items()):
        print(_row(name, curve(X[:, j]), fitted.curve(j, X[:, j])))
    x, z = X[:, PAIR].T
    print(_row("interaction", interaction(x, z), fitted.interaction(x, z)))
    others = [j for j in range(len(TRUTH), N_FEATURES)]
    largest = max(float(fitted.curve(j, X[:, j]).std()) for j in others)
    print(f"| largest of {len(others)} other curves | | {largest:.3f} |")
    print(f"pairs in the model: {fitted.model.pairs}; the true one is {PAIR}")


def _row(name: str, truth: Vector, found: Vector) -> str:
    known = truth.std() > 0 and found.std() > 0
    correlation = f"{np.corrcoef(truth, found)[0, 1]:.3f}" if known else "—"
    return f"| {name} | {correlation} | {found.std():.3f} (true {truth.std():.3f}) |"


# Coverage of bands ------------------------------------------------------------------------------

SIMULATED_QUERIES = 100
SIMULATED_DOCS = 10
SIMULATED_BAGS = 20
#: Curves that broken lines with eight intervals can follow.
SMOOTH_TRUTH: tuple[Callable[[Vector], Vector], ...] = (
    lambda x: 3.0 * np.exp(-2.0 * x**2),
    lambda x: 2.0 * np.tanh(2.0 * x + 1.0),
    lambda x: 2.0 * np.maximum(x, 0.0),
    lambda x: np.sin(1.5 * x),
    lambda x: 0.5 * x,
    np.zeros_like,
)
#: Places at which a band is compared: quantiles of the features.
PLACES = np.array([NormalDist().inv_cdf(p) for p in np.linspace(0.01, 0.99, 50)])


def covered(seed: int, ranker: AdditiveRanker | AdditiveRankerCV, noise: float = NOISE) -> Vector:
    """Return whether the bands of a fit contain the true curves, by curve and place.

    The true scores and those of the model get the deviation 1 within queries.
    """
    rng = np.random.default_rng(seed)
    n = SIMULATED_QUERIES * SIMULATED_DOCS
    qid = np.repeat(np.arange(SIMULATED_QUERIES), SIMULATED_DOCS)
    X = rng.normal(size=(2, n, len(SMOOTH_TRUTH)))
    parts = np.stack([curve(X[..., j]) for j, curve in enumerate(SMOOTH_TRUTH)], axis=-1)
    utility = parts.sum(axis=-1) + noise * rng.normal(size=(2, n))
    y = [np.searchsorted(np.quantile(u, (0.5, 0.75, 0.875, 0.9375)), u) for u in utility]
    train, valid = (RankingData(X[k], y[k].astype(np.float64), qid) for k in range(2))
    choice = {"valid": valid} if isinstance(ranker, AdditiveRankerCV) else {}
    model = ranker.fit(train, **choice).model_
    unit = _deviation(parts[0].sum(axis=1)) / _deviation(model.predict(train.X))
    found = np.ones((len(SMOOTH_TRUTH), len(PLACES)), bool)
    for curve in model.curves:
        truth = SMOOTH_TRUTH[curve.feature](PLACES) - parts[0, :, curve.feature].mean()
        low, high = curve.limits(PLACES)
        found[curve.feature] = (unit * low <= truth) & (truth <= unit * high)
    return found


def _deviation(scores: Vector) -> float:
    by_query = scores.reshape(SIMULATED_QUERIES, SIMULATED_DOCS)
    return float((by_query - by_query.mean(axis=1, keepdims=True)).std())


def report_coverage(n_simulations: int) -> None:
    """Print the share of places at which a band contains the true curve, for several rankers."""
    rankers = {
        "AdditiveRankerCV()": AdditiveRankerCV(n_bags=SIMULATED_BAGS, n_threads=1),
        "AdditiveRankerCV(average=1)": AdditiveRankerCV(
            average=1, n_bags=SIMULATED_BAGS, n_threads=1
        ),
    }
    print("| ranker | noise | share of places in the band | least of a curve |\n|---|---|---|---|")
    for name, ranker in rankers.items():
        for noise in (0.5, 1.0, 2.0):
            found = [covered(seed, ranker, noise) for seed in range(n_simulations)]
            by_curve = np.mean(found, axis=(0, 2))
            print(
                f"| {name} | {noise} | {by_curve.mean():.3f} | {by_curve.min():.3f} |", flush=True
            )


# The figure -------------------------------------------------------------------------------------


def panel_of_curve(fitted: Fitted, j: int, sample: Vector) -> Callable[[Any], None]:
    """Return a function that draws the true and the fitted curve of a feature."""
    name, curve = list(TRUTH.items())[j]
    x = np.linspace(-2.5, 2.5, 33)

    def panel(axes: Any) -> None:
        limits = fitted.band(j, x)
        if limits is not None:
            axes.fill_between(x, *limits, color=COLOURS[0], alpha=0.25, linewidth=0)
        axes.plot(x, fitted.curve(j, x), color=COLOURS[0], label="fitted, with a 95 % band")
        axes.plot(x, curve(x) - curve(sample).mean(), "--", color="#333333", label="truth")
        axes.set_ylim(-3.0, 4.0)
        axes.set_xticks([-2, 0, 2])
        axes.set_yticks([-2, 0, 2])
        axes.set_title(name)
        if j == 0:
            axes.legend(loc="upper right", fontsize="small")

    return panel


def panel_of_interaction(function: Callable[..., Vector], title: str) -> Callable[[Any], None]:
    """Return a function that draws an interaction as a heat map."""
    edges = np.linspace(-2.0, 2.0, CELLS + 1)
    centres = 0.5 * (edges[1:] + edges[:-1])
    values = function(np.repeat(centres, CELLS), np.tile(centres, CELLS)).reshape(CELLS, CELLS)

    def panel(axes: Any) -> None:
        axes.grid(visible=False)
        axes.pcolormesh(edges, edges, values.T, cmap="RdBu", vmin=-LARGEST, vmax=LARGEST)
        axes.set_xticks([-2, 0, 2])
        axes.set_yticks([-2, 0, 2])
        axes.set_title(title)
        axes.set_xlabel(f"feature {PAIR[0] + 1}")
        axes.set_ylabel(f"feature {PAIR[1] + 1}")

    return panel


def main() -> None:
    """Run the program."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=FIGURE)
    parser.add_argument("--simulations", type=int, default=0, help="of the coverage of bands")
    arguments = parser.parse_args()
    print(machine(resolve_threads()), flush=True)
    if arguments.simulations:
        report_coverage(arguments.simulations)
        return
    train, valid, test = (generate(seed) for seed in range(3))
    fitted = fit(train, valid)
    report(fitted, test)
    panels = [panel_of_curve(fitted, j, train.X[:, j]) for j in range(4)]
    panels += [panel_of_interaction(interaction, "true interaction"),
               panel_of_interaction(fitted.interaction, "fitted interaction")]  # fmt: skip
    draw(arguments.out, panels, width=3.6)


if __name__ == "__main__":
    main()
