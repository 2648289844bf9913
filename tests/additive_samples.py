"""Additive models with random curves, which no fit has made.

``python tests/additive_samples.py FILE`` draws one of them.
"""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np

from linrank.features.basis import Axis, level_axis, ordered_axis, split_axis
from linrank.model.additive import AdditiveModel
from linrank.model.curves import Curve, Surface

NAMES = [
    "bm25_title", "bm25_body", "page_rank", "url_length", "title_length", "days_since_change",
    "clicks", "language", "in_links", "tf_idf_anchor", "spam_score", "reading_time",
]  # fmt: skip
CATEGORIES = 7  # the feature of the sample whose values are levels
SETTINGS = {"loss": "squared_hinge", "basis": "ramp", "n_bins": 8, "interactions": 2, "C": 0.125}


def line_pieces(heights: np.ndarray, missing: float) -> np.ndarray:
    """A broken line through heights at the knots, flat beyond the ends."""
    inner = np.column_stack([heights[:-1], np.diff(heights)])
    return np.concatenate([[[heights[0], 0.0]], inner, [[heights[-1], 0.0], [missing, 0.0]]])


def random_axis(rng: np.random.Generator, n_knots: int, levels: bool = False) -> Axis:
    return Axis(np.unique(rng.lognormal(0.0, 1.5, n_knots).round(6)) + rng.normal(), levels)


def random_curve(
    rng: np.random.Generator, feature: int, degree: int = 1, n_knots: int = 8, levels: bool = False
) -> Curve:
    """A curve whose pieces are not connected."""
    axis = random_axis(rng, n_knots, levels)
    return Curve(feature, axis, rng.normal(size=(axis.n_cells, degree + 1)))


def random_surface(rng: np.random.Generator, j: int, k: int, n_knots: int = 4) -> Surface:
    axes = random_axis(rng, n_knots), random_axis(rng, max(0, n_knots - 1))
    return Surface((j, k), axes, rng.normal(size=(axes[0].n_cells, axes[1].n_cells)))


def random_model(rng: np.random.Generator, degree: int = 1, n_knots: int = 8) -> AdditiveModel:
    """A model of 6 features: 4 curves, one of them of levels, and 2 surfaces."""
    curves = [random_curve(rng, f, degree, n_knots, levels=f == 2) for f in (0, 1, 2, 4)]
    surfaces = [random_surface(rng, 1, 0, n_knots), random_surface(rng, 2, 5, n_knots)]
    return AdditiveModel(6, curves, surfaces)


def random_values(rng: np.random.Generator, model: AdditiveModel, n_docs: int) -> np.ndarray:
    """Values inside and outside of the knots, on them, next to them, and missing ones."""
    X = rng.lognormal(0.0, 2.0, (n_docs, model.n_features)) - 1.0
    for curve in model.curves:
        if len(curve.axis.knots):
            chosen = rng.choice(curve.axis.knots, (3, n_docs))
            on, below, above = np.split(rng.permutation(n_docs), [n_docs // 3, n_docs // 2])
            X[on, curve.feature] = chosen[0, on]
            X[below, curve.feature] = np.nextafter(chosen[1, below], -np.inf)
            X[above[::3], curve.feature] = np.nextafter(chosen[2, above[::3]], np.inf)
    X[rng.uniform(size=X.shape) < 0.1] = np.nan
    return X


def sample_documents(rng: np.random.Generator, n_docs: int) -> np.ndarray:
    """Features as in web search: heavy tails, many zeros, counts, a category, missing values."""
    X = rng.normal(size=(n_docs, len(NAMES)))
    X[:, [2, 5, 8]] = np.exp(2.5 * X[:, [2, 5, 8]])
    X[:, [3, 4]] = np.round(20 * np.exp(0.5 * X[:, [3, 4]]))
    X[:, 6] = np.maximum(0.0, np.round(3 * np.exp(1.5 * X[:, 6]) - 4))
    X[:, CATEGORIES] = rng.choice([1.0, 2.0, 3.0, 7.0, 12.0, 30.0], n_docs, p=[0.5, *[0.1] * 5])
    X[rng.uniform(size=n_docs) < 0.1, 9] = np.nan
    X[rng.uniform(size=n_docs) < 0.3, 5] = np.nan
    return X


def sample_curve(rng: np.random.Generator, feature: int, x: np.ndarray) -> Curve:
    """A curve of a feature with knots at quantiles: a line, or steps if the feature is odd."""
    size, x = 0.8 ** (3 * feature % 11), x[~np.isnan(x)]
    if feature == CATEGORIES:
        axis = level_axis(x)
        return Curve(feature, axis, size * rng.normal(size=(axis.n_cells, 1)))
    axis = split_axis(x, 8) if feature % 2 else ordered_axis(x, 8)
    heights = size * np.cumsum(rng.normal(0.2, 0.5, len(axis.knots) + 1))
    if feature % 2:
        return Curve(feature, axis, np.append(heights, heights.mean())[:, None])
    return Curve(feature, axis, line_pieces(heights[:-1], heights.mean()))


def with_band(rng: np.random.Generator, curve: Curve) -> Curve:
    """The curve with a band that is wide where documents are few."""
    assert curve.counts is not None
    if curve.axis.levels or curve.degree == 0:
        room = 0.05 + 0.8 / np.sqrt(1 + curve.counts)[:, None]
        return replace(curve, band=(curve.pieces - room, curve.pieces + room))
    room = rng.uniform(0.05, 0.3, len(curve.axis.knots))
    heights = np.append(curve.pieces[1:-2, 0], curve.pieces[-2, 0])
    missing = curve.pieces[-1, 0]
    lower, upper = (line_pieces(heights + k * room, missing + k * 0.2) for k in (-1, 1))
    return replace(curve, band=(lower, upper))


def sample_model(n_docs: int = 4000, seed: int = 0) -> tuple[AdditiveModel, np.ndarray]:
    """A model of 12 features with steps, lines, a category, two surfaces and bands; documents."""
    rng = np.random.default_rng(seed)
    X = sample_documents(rng, n_docs)
    curves = [sample_curve(rng, f, X[:, f]).measured(X[:, f]) for f in range(len(NAMES) - 1)]
    curves = [with_band(rng, curve) if curve.feature % 3 else curve for curve in curves]
    surfaces = []
    for j, k in ((0, 2), (4, 1)):
        axes = split_axis(X[:, j], 5), split_axis(X[:, k], 4)
        values = 0.4 * rng.normal(size=(axes[0].n_cells, axes[1].n_cells))
        surfaces.append(Surface((j, k), axes, values).measured(X[:, j], X[:, k]))
    return (
        AdditiveModel(len(NAMES), curves, surfaces, feature_names=NAMES, settings=SETTINGS),
        X,
    )


def draw_sample(path: str) -> None:
    """Draw a part of each kind as SVG: lines, steps, levels, a surface, with and without bands."""
    import matplotlib

    model, _ = sample_model()
    curves = [curve for curve in model.curves if curve.feature in (0, 4, 5, CATEGORIES, 8)]
    model = AdditiveModel(len(NAMES), curves, model.surfaces[:1], feature_names=NAMES)
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "linrank"}):
        axes = model.plot()
        axes.figure.savefig(path, format="svg", metadata={"Date": None})


if __name__ == "__main__":
    draw_sample(sys.argv[1])
