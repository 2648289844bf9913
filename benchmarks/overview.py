"""The picture of the README: ``python -m benchmarks.overview``.

A shop ranks its products. The first panel explains why one product is above another, with a linear
ranker. The second is a curve of an additive ranker.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from linrank import AdditiveRanker, RankingData, RankSVM

from .plots import draw

FIGURE = Path(__file__).parents[1] / "docs" / "figures" / "overview.svg"
N_QUERIES, N_DOCUMENTS = 200, 20
NAMES = ("text match", "rating", "price", "delivery days", "discount", "reviews")


def generate(seed: int = 0) -> RankingData:
    """Return products with grades from 0 to 3. Prices around 60 are liked best."""
    rng = np.random.default_rng(seed)
    n = N_QUERIES * N_DOCUMENTS
    columns = [
        rng.gamma(4.0, 2.0, n), rng.uniform(1.0, 5.0, n), rng.uniform(5.0, 200.0, n),
        rng.integers(1, 15, n), rng.integers(0, 40, n), rng.geometric(0.01, n),
    ]  # fmt: skip
    X = np.column_stack(columns).astype(float)
    utility = X @ [0.25, 0.5, 0.0, -0.12, 0.02, 0.004] - np.abs(X[:, 2] - 60.0) / 60.0
    utility += rng.normal(0.0, 0.5, n)
    y = np.digitize(utility, np.quantile(utility, [0.5, 0.75, 0.9]))
    return RankingData(X, y, np.repeat(np.arange(N_QUERIES), N_DOCUMENTS), feature_names=NAMES)


def explain_first(axes: Any, data: RankingData) -> None:
    """Draw why the first product of a query is above the second."""
    ranker = RankSVM(C=0.01, scale="standard").fit(data)
    query = data.take(np.arange(N_DOCUMENTS))
    first, second = np.argsort(-ranker.predict(query))[:2]
    why = ranker.explain_pair(query.X[first], query.X[second])
    why.plot(axes)
    axes.set_title(f"RankSVM: A is above B by {why.score:.2f}")


def draw_price(axes: Any, data: RankingData) -> None:
    """Draw the curve of the price, with a band from resampled queries."""
    ranker = AdditiveRanker(C=0.01, n_bags=30, random_state=0).fit(data)
    ranker.model_.plot_curve("price", axes)
    axes.set_title("AdditiveRanker: what a price contributes")
    axes.set_xlabel("price")


def main() -> None:
    """Write the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=FIGURE)
    data = generate()
    panels = [lambda axes: explain_first(axes, data), lambda axes: draw_price(axes, data)]
    draw(parser.parse_args().out, panels)


if __name__ == "__main__":
    main()
