"""`AdditiveModel`: a sum of curves, one per feature, and of surfaces for pairs of features."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from .._util.lazy import lazy_property
from .._util.maps import check_maps
from .._util.parallel import resolve_threads, run, split
from .._util.types import Array, Integers, Vector
from ..data.validation import Matrix
from ..errors import DataError
from ..features.preprocessing import BLOCK_ENTRIES, Preprocessing, position_name
from ..matrix.rows import n_tasks, row_ranges
from ..plots import drawn_figure
from ..plots.curve_plots import PlottedPart, draw_curves, grid_size, plot_curve
from .curves import (
    Curve,
    Surface,
    Tables,
    describe_curve,
    describe_surface,
    make_tables,
    read_all,
    read_curve,
    read_surface,
    remark_of,
    score_rows,
)
from .model import QUICK_ENTRIES, Content, FeatureColumn, Model

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


CURVES = 12  #: curves and surfaces that a plot shows by default


class AdditiveModel(Model):
    """Additive model with the score ``Σ_j f_j(x_j) + Σ_jk f_jk(x_j, x_k)``.

    Parameters
    ----------
    n_features : int
    curves : sequence of Curve
        At most one per feature. Features without a curve have no part in the score. If
        `preprocessing` has positions in queries beside the features, the position of feature j has
        the number n_features + j, and may have a curve, too.
    surfaces : sequence of Surface
    feature_names, index_base, settings, training
        See `LinearModel`.
    preprocessing : Preprocessing, optional
        What is done to the features before the curves are applied.

    Examples
    --------
    >>> from linrank.features.basis import Axis
    >>> curve = Curve(1, Axis([0.0, 2.0]), [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.25, 0.0]])
    >>> model = AdditiveModel(2, [curve], feature_names=["length", "bm25"])
    >>> model.predict([[5.0, 1.0], [5.0, 3.0], [5.0, np.nan]]).tolist()
    [0.5, 1.0, 0.25]
    """

    format = "linrank-additive"
    is_additive = True
    base_name = "on average over the training documents"

    def __init__(
        self,
        n_features: int,
        curves: Sequence[Curve],
        surfaces: Sequence[Surface] = (),
        *,
        feature_names: Sequence[str] | None = None,
        index_base: int = 1,
        settings: Mapping[str, object] | None = None,
        training: Mapping[str, object] | None = None,
        preprocessing: Preprocessing | None = None,
    ) -> None:
        super().__init__(n_features, feature_names, index_base, settings, training)
        self.curves = sorted(curves, key=lambda curve: curve.feature)
        self.surfaces = list(surfaces)
        self.preprocessing = preprocessing
        _check_features(curves, surfaces, n_features * (2 if self.has_positions else 1))
        if preprocessing is not None and preprocessing.n_features != n_features:
            raise DataError(
                f"preprocessing has {preprocessing.n_features} features where the model has "
                f"{n_features}. Use preprocessing of the same features."
            )

    @lazy_property
    def pairs(self) -> list[tuple[int, int]]:
        """The two features of each surface."""
        d = self.n_features
        return [(j % d, k % d) for j, k in (surface.features for surface in self.surfaces)]

    @property
    def has_positions(self) -> bool:
        """Whether features have curves of their positions in queries beside their own."""
        return self.preprocessing is not None and self.preprocessing.beside

    def part_names(self) -> list[str]:
        """Return the names of the features, and then of the pairs. See `Model.part_names`."""
        places = range(self.n_features, self.n_features + len(self.surfaces))
        return self.names() + [self.part_name(place) for place in places]

    def part_name(self, part: int) -> str:
        """Return the name of one part of a score; see `part_names`."""
        if part < self.n_features:
            return super().part_name(part)
        features = self.surfaces[part - self.n_features].features
        return " × ".join(map(self._name_of_input, features))

    def _name_of_input(self, feature: int) -> str:
        """Return the name of a feature or of its position, given as in a curve."""
        name = super().part_name(feature % self.n_features)
        return name if feature < self.n_features else position_name(name)

    def with_functions(self, curves: Sequence[Curve], surfaces: Sequence[Surface]) -> AdditiveModel:
        """Return a copy with other curves and surfaces."""
        model = AdditiveModel(
            self.n_features,
            curves,
            surfaces,
            feature_names=self.feature_names,
            index_base=self.index_base,
            settings=self.settings,
            training=self.training,
            preprocessing=self.preprocessing,
        )
        model.categories = self.categories
        return model

    @property
    def needs_qid(self) -> bool:
        """Whether features are scaled within each query."""
        return self.preprocessing is not None and self.preprocessing.by_query

    @property
    def fills(self) -> bool:
        """Whether missing values have a part of their own in the score: always."""
        return True

    @property
    def version(self) -> int:
        """The oldest layout of model files that can hold this model."""
        bands = [curve.band[0] for curve in self.curves if curve.band is not None]
        return 3 if any(band.shape[1] > 2 for band in bands) else 2

    def scores(self, X: Matrix, query_ptr: Integers | None = None) -> Vector:
        """Score the rows of a matrix with the right number of features."""
        check_maps(X)
        scores = np.empty(X.shape[0])
        ptr = query_ptr if self.needs_qid and query_ptr is not None else None

        def score(first: int, last: int) -> None:
            a, b = (first, last) if ptr is None else (ptr[first], ptr[last])
            rows = X[a:b].toarray() if sparse.issparse(X) else X[a:b]
            if self.preprocessing is not None:
                own = None if ptr is None else ptr[first : last + 1] - a
                rows = self.preprocessing.apply(rows.astype(np.float64, copy=False), own, 1)
            score_rows(self._tables, rows, scores[a:b])

        n_threads = resolve_threads()
        run(score, self._blocks(X, ptr, n_threads), n_threads)
        return scores

    def quick_scores(self, X: Any) -> Vector | None:
        """Score a small array in this thread. See `Model.quick_scores`."""
        if type(X) is not np.ndarray or X.dtype.char not in "df" or not X.flags.c_contiguous:
            return None
        if self.preprocessing is not None or X.ndim != 2 or X.shape[1] != self.n_features:
            return None
        if not 0 < X.size <= QUICK_ENTRIES:
            return None
        check_maps(X)
        scores = np.empty(len(X))
        score_rows(self._tables, X, scores)
        return scores if np.isfinite(scores).all() else None

    def predict(self, X: Any, qid: ArrayLike | None = None) -> Vector:
        """Score documents; higher is better. See `Model.predict`."""
        scores = self.quick_scores(X)
        return super().predict(X, qid) if scores is None else scores

    def _blocks(self, X: Matrix, ptr: Integers | None, n_threads: int) -> list[tuple[int, int]]:
        """Return ranges of rows, or of queries, that are scored at a time."""
        if self.preprocessing is None and not sparse.issparse(X):
            return row_ranges(X, n_tasks(X, n_threads))
        n_blocks = max(n_threads, X.shape[0] * self.n_features // BLOCK_ENTRIES)
        return split(np.arange(X.shape[0] + 1) if ptr is None else ptr, n_blocks)

    @lazy_property
    def _tables(self) -> Tables:
        return make_tables(self.curves, self.surfaces)

    def _filled(self, X: Matrix) -> Matrix:
        """Return X with 0 in place of missing values, for the check that others are finite."""
        if sparse.issparse(X):
            X = X.copy()
            X.data = np.where(np.isnan(X.data), 0.0, X.data)
            return X
        return np.where(np.isnan(X), 0.0, X)

    def parts(self, X: Array, documents: Array | None = None) -> Vector:
        """Return the values of the curves and the surfaces in some rows. See `Model.parts`."""
        if self.preprocessing is not None:
            rows = X if documents is None else np.vstack([documents, X])
            X = self.preprocessing.apply(rows.astype(np.float64))[-len(X) :]
        parts = np.zeros((len(X), self.n_features + len(self.surfaces)))
        for part, function, features in self._functions():
            parts[:, part] += function(*(X[:, feature] for feature in features))
        return parts

    def _functions(self) -> Iterator[tuple[int, Curve | Surface, tuple[int, ...]]]:
        """Yield all curves and surfaces, with their places among the parts and their features."""
        for curve in self.curves:
            yield curve.feature % self.n_features, curve, (curve.feature,)
        for place, surface in enumerate(self.surfaces, self.n_features):
            yield place, surface, surface.features

    @property
    def mean_parts(self) -> Vector | None:
        """The mean of each curve and surface in the training data; None if one is not known."""
        return self._of_parts(lambda function: function.mean)

    def _of_parts(self, number: Callable[[Any], float | None]) -> Vector | None:
        """Return a number of each curve and surface, 0 of other features; None if one is None."""
        found = np.zeros(self.n_features + len(self.surfaces))
        for part, function, _ in self._functions():
            value = number(function)
            if value is None:
                return None
            found[part] += value  # a feature with two curves has the sum
        return found

    def columns(self) -> list[FeatureColumn]:
        """Return the importance of each curve and surface or, if it is not known, its range.

        A feature with two curves has the sum of both numbers.
        """
        spread = self._of_parts(lambda function: function.spread)
        if spread is not None:
            meaning = "importance (standard deviation of the curve over the training documents)"
            if self.has_positions:
                meaning = "importance (sum of the standard deviations of both curves)"
            return [FeatureColumn("importance", spread, meaning)]
        extent = self._of_parts(lambda function: function.extent)
        assert extent is not None
        return [FeatureColumn("range", extent, "range (highest minus lowest value of the curve)")]

    def remarks(self, parts: Integers) -> dict[str, list[str]]:
        """Return the form of some curves as text, and their values at the ends and if missing."""
        titles = ["curve", "first knot", "last knot", "missing"]
        texts = {(part, self._is_position(f)): remark_of(f) for part, f, _ in self._functions()}
        rows = [list(texts.get((part, False), [""] * 4)) for part in parts.tolist()]
        if self.has_positions:
            titles.append("curve in the query")
            for part, row in zip(parts.tolist(), rows, strict=True):
                row.append(texts.get((part, True), [""])[0])
        return {title: [row[k] for row in rows] for k, title in enumerate(titles)}

    def _is_position(self, function: Curve | Surface) -> bool:
        """Return whether a function is the curve of a position in the query."""
        return isinstance(function, Curve) and function.feature >= self.n_features

    def details(self, part: int) -> dict[str, object]:
        """Return the entry of a curve or surface in the model file."""
        found: dict[str, object] = {}
        for place, function, _ in self._functions():
            if place == part and isinstance(function, Surface):
                found["surface"] = describe_surface(function)
            elif place == part and isinstance(function, Curve):
                name = "curve_in_query" if self._is_position(function) else "curve"
                found[name] = describe_curve(function)
        return found

    def facts(self) -> dict[str, object]:
        """Return the numbers of curves, knots and surfaces, and the preprocessing in words."""
        found: dict[str, object] = {
            "curves": len(self.curves),
            "knots": sum(len(curve.axis.knots) for curve in self.curves),
            "surfaces": len(self.surfaces),
        }
        if self.preprocessing is not None:
            found["preprocessing"] = self.preprocessing.words()
        return found

    def plot(self, ax: Axes | None = None, top: int = CURVES, column: str | None = None) -> Axes:
        """Draw the most important curves and surfaces in a grid, and return the first axes.

        A curve is drawn above a histogram of the training documents, minus its mean. Its band is
        shaded. Missing values are an open circle, and levels are points. A number on the right of
        the title is the importance. A surface is a heat map, in which a cross marks cells without
        training documents.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            None: a new figure with a grid. Otherwise the importances are drawn as bars.
        top : int
            Number of curves and surfaces to draw.
        column : str, optional
            The name of one of `columns`, which is then drawn as bars.

        Returns
        -------
        matplotlib Axes

        Examples
        --------
        >>> from linrank import AdditiveRanker, make_ranking
        >>> model = AdditiveRanker(C=0.1).fit(make_ranking(random_state=0)).model_
        >>> len(model.plot(top=6).figure.axes) >= 6
        True
        """
        if ax is not None or column is not None:
            return super().plot(ax, top, column)
        return drawn_figure(lambda figure: self.draw(figure, top), self.figure_size(top))

    def plot_curve(self, feature: int | str, ax: Axes | None = None) -> Axes:
        """Draw one curve or surface.

        Parameters
        ----------
        feature : int or str
            The number of a feature, from 0 on, its name, or the names of a pair as in
            `part_names`: "a × b". With ``scale="both"``, "a in its query" is one of two curves.
        ax : matplotlib Axes, optional
            None: those of a new figure. Two curves of a feature have two axes.

        Returns
        -------
        matplotlib Axes

        Examples
        --------
        >>> from linrank import AdditiveRanker, make_ranking
        >>> model = AdditiveRanker(C=0.1).fit(make_ranking(random_state=0)).model_
        >>> axes = model.plot_curve(int(model.used[0]))
        """
        return plot_curve(self, feature, ax)

    def draw(self, figure: Figure, top: int = CURVES) -> Axes:
        """Draw the most important curves and surfaces on a figure, and return the first axes."""
        return draw_curves(self, figure, top)

    def figure_size(self, top: int = CURVES) -> tuple[float, float]:
        """Return the width and height of a figure for `draw`, in inches."""
        drawings = self.drawings()
        shown = [part for part in self.ordered().tolist() if part in drawings][:top]
        return grid_size(max(1, sum(len(drawings[part]) for part in shown)))

    def drawings(self) -> dict[int, list[PlottedPart]]:
        """Return all curves and surfaces with their names, by their places among the parts."""
        found: dict[int, list[PlottedPart]] = {}
        for part, function, features in self._functions():
            plotted = PlottedPart(function, [self._name_of_input(f) for f in features])
            found.setdefault(part, []).append(plotted)
        return found

    @property
    def used(self) -> Integers:
        """The features that have a part in the score, as numbers from 0 on."""
        functions = [found for found in self._functions() if found[1].extent > 0]
        used = [f % self.n_features for *_, features in functions for f in features]
        return np.unique(np.array(used, np.int64))

    def largest(self, n: int) -> list[tuple[str, float]]:
        """Return names and importances of the n most important curves and surfaces."""
        importance = self.columns()[-1].values
        return [(self.part_name(f), float(importance[f])) for f in self.ordered()[:n].tolist()]

    def count_used(self) -> int:
        """Return the number of features that have a part in the score."""
        return len(self.used)

    def _parameters(self) -> Content:
        content: Content = {
            "curves": [describe_curve(curve) for curve in self.curves],
            "surfaces": [describe_surface(surface) for surface in self.surfaces],
        }
        if self.preprocessing is not None:
            content["preprocessing"] = self.preprocessing.describe()
        return content

    @classmethod
    def _from_parameters(cls, content: Content, **shared: Any) -> Self:
        steps = content.get("preprocessing")
        if steps is not None:
            shared["preprocessing"] = Preprocessing.from_description(steps)
        curves = read_all(content, "curves", read_curve)
        surfaces = read_all(content, "surfaces", read_surface)
        return cls(content["n_features"], curves, surfaces, **shared)


def _check_features(curves: Sequence[Curve], surfaces: Sequence[Surface], n_features: int) -> None:
    """Raise a `DataError` for features that do not exist, or that have two curves or surfaces."""
    features, pairs = [curve.feature for curve in curves], [one.features for one in surfaces]
    used = [*features, *(feature for pair in pairs for feature in pair)]
    if max(used, default=0) >= n_features:
        raise DataError(
            f"a curve has feature {max(used)}, but there are {n_features} features. Use features "
            f"from 0 to {n_features - 1}."
        )
    if len(set(features)) < len(features):
        raise DataError("two curves have the same feature. Use one curve per feature.")
    if len({frozenset(pair) for pair in pairs}) < len(pairs):
        raise DataError("two surfaces have the same features. Use one surface per pair.")
