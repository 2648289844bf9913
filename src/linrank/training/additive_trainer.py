"""`AdditiveTrainer`: from data to an additive model, a sum of curves of single features."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .._compile.jit import njit
from .._util.checks import choice, whole_number
from .._util.parallel import resolve_threads, run, split
from .._util.types import Integers, Vector
from ..choices import ENDS, BasisName, DeltaName, EndsName, NormalizeName, RescaleName
from ..counting.preferences import ALL_PAIRS, Delta, Preferences
from ..data.categories import chosen_form
from ..data.ranking import RankingData, evenly_spaced, take_queries
from ..engines.engine import Engine
from ..engines.threads import ThreadEngine
from ..errors import DataError
from ..features.basis import FeaturesLike, FormsLike, read_forms
from ..features.design import Design, DesignSteps, Pair
from ..features.preprocessing import FeatureSteps, Prepared, Preprocessing
from ..losses.hinge_tables import LossName
from ..losses.loss import Loss
from ..losses.pairwise import SQUARED_HINGE
from ..matrix.rows import multiply
from ..model import AdditiveModel, Curve, Surface
from ..penalties import PenaltyName
from ..penalties.group import GroupL1, with_groups
from ..penalties.penalty import Penalty
from ..penalties.separable import L2
from ..problem import Problem
from ..solvers.result import Result, Status
from ..solvers.solver import Solver
from .selection import Grid, RegularizationPath, Search, balanced_grid, finished
from .settings import AS_GIVEN
from .trainer import Fit, Trainer, Training

# --------------------------------------------------------------------------------------------------
# The curves of an additive model, from the weights of its columns.


def curves_of(design: Design, coef: Vector, ends: EndsName) -> list[Curve]:
    """Return a curve for each feature that has one, with the mean 0 over the training documents.

    Parameters
    ----------
    design : Design
    coef : array
        The weights of the columns.
    ends : {"flat", "linear"}
    """
    weights = _by_part(design, coef)[: len(design.columns)]
    return [_curve(design, j, own, ends) for j, own in enumerate(weights) if own.any()]


def surfaces_of(design: Design, coef: Vector) -> list[Surface]:
    """Return a surface for each pair that has an interaction.

    Its mean over the training documents is 0 in each row and column of cells.
    """
    weights = _by_part(design, coef)[len(design.columns) :]
    return [
        _surface(pair, own) for pair, own in zip(design.pairs, weights, strict=True) if own.any()
    ]


def _by_part(design: Design, coef: Vector) -> list[Vector]:
    """Return the weights of each feature and of each pair."""
    n_parts = len(design.columns) + len(design.pairs)
    return np.split(coef, np.searchsorted(design.owner, np.arange(1, n_parts)))


def _surface(pair: Pair, coef: Vector) -> Surface:
    values, counts = (pair.columns @ coef).reshape(pair.counts.shape), pair.counts
    spread = float(np.sqrt(np.sum(counts * values**2) / counts.sum()))
    return Surface(pair.features, pair.axes, values, counts, mean=0.0, spread=spread)


def with_bands(
    model: AdditiveModel, design: Design, coefs: Vector, coverage: float
) -> AdditiveModel:
    """Return a model with bands ``f ± t·s`` around its curves and surfaces.

    s² is the mean squared distance of the functions of other weights from f, and t the quantile of
    Student's distribution with as many degrees of freedom as there are other weights.

    Parameters
    ----------
    model : AdditiveModel
    design : Design
    coefs : array of shape (n_fits, n_columns)
        Weights of fits on resampled queries.
    coverage : float
        The probability that the true value lies in the band, at each knot.
    """
    from scipy.stats import t  # takes long to import

    factor, n = t.ppf(0.5 + 0.5 * coverage, len(coefs)), len(design.columns)
    by_part = [_by_part(design, coef) for coef in coefs]
    place = {pair.features: n + k for k, pair in enumerate(design.pairs)}

    def width(found: list[Vector], known: Vector) -> Vector:
        return factor * np.sqrt(np.mean((np.array(found) - known) ** 2, axis=0))

    curves, surfaces = [], []
    for curve in model.curves:
        j = curve.feature
        fits = [_curve(design, j, own[j], "flat").pieces[:, 0] for own in by_part]
        half = _line(width(fits, curve.pieces[:, 0]), curve)
        curves.append(replace(curve, band=(curve.pieces - half, curve.pieces + half)))
    for surface in model.surfaces:
        k = place[surface.features]
        fits = [_surface(design.pairs[k - n], own[k]).values for own in by_part]
        half = width(fits, surface.values)
        surfaces.append(replace(surface, band=(surface.values - half, surface.values + half)))
    return model.with_functions(curves, surfaces)


def _line(values: Vector, curve: Curve) -> Vector:
    """Return pieces of a step function or a broken line with the given values at its cells."""
    pieces = np.zeros((len(values), curve.pieces.shape[1]))
    pieces[:, 0] = values
    if not curve.axis.levels and curve.degree:
        pieces[1:-2, 1] = np.diff(values[1:-1])
    return pieces


def _curve(design: Design, j: int, coef: Vector, ends: EndsName) -> Curve:
    """Return the curve of feature j."""
    axis, (pieces, moments) = design.axes[j], _by_cells(design, j, coef)
    pieces[:, 0] -= (pieces.T * moments[: pieces.shape[1]]).sum() / moments[0].sum()
    if not moments[0, -1]:
        pieces[-1, 0] = 0.0  # no training document lacks this value: take the mean of the others
    if not axis.levels:
        _join_lines(pieces)
        if ends == "linear":
            _continue_lines(pieces)
    counts = moments[0].round().astype(np.int64)
    return Curve(j, axis, pieces, counts, mean=0.0, spread=_spread(pieces, moments))


def _by_cells(design: Design, j: int, coef: Vector) -> tuple[Vector, Vector]:
    """Return polynomials of feature j, of shape (cells, powers), and its moments by cells."""
    axis, shape = design.axes[j], design.columns[j].shape
    values = shape @ coef
    if design.basis != "spline" and not axis.levels:
        n_bins = max(1, len(axis.knots)) if design.basis == "ramp" else len(axis.knots) + 1
        rises = np.zeros_like(values[0])
        rises[: n_bins - 1] = np.diff(shape[0, :n_bins], axis=0) @ coef
        # Sums of rises never fall if no rise is negative, while other sums may by rounding.
        values[0, 1:n_bins] = values[0, 0] + np.cumsum(rises[: n_bins - 1])
        if design.basis == "ramp":
            values = np.array([values[0], rises])
    pieces = design.by_cells(j, values).T
    if design.basis == "ramp" and not axis.levels:
        pieces[0, 0] = values[0, 0]
    return pieces, design.by_cells(j, design.moments[j])


def _join_lines(pieces: Vector) -> None:
    """Make every line begin where the one before it ends, to the last digit.

    If no line falls, the curve then never falls, also after rounding.
    """
    last = len(pieces) - 2
    if pieces.shape[1] == 2:
        for cell in range(1, last):
            pieces[cell + 1, 0] = pieces[cell, 0] + pieces[cell, 1]
        pieces[0, 0] = pieces[1, 0]


def _continue_lines(pieces: Vector) -> None:
    """Continue the curve beyond its first and last knot, with its slope there."""
    last = len(pieces) - 2
    if pieces.shape[1] > 1 and last > 1:
        pieces[0, 1] = pieces[1, 1]
        pieces[last, 1] = pieces[last - 1] @ np.arange(pieces.shape[1])  # derivative at t = 1


def _spread(pieces: Vector, moments: Vector) -> float:
    """Return the standard deviation of a curve with mean 0 over the training documents."""
    powers = range(pieces.shape[1])
    squares = [(pieces[:, p] * pieces[:, q]) @ moments[p + q] for p in powers for q in powers]
    return float(np.sqrt(max(0.0, sum(squares) / moments[0].sum())))


# --------------------------------------------------------------------------------------------------
# Which pairs of features interact: a screen of all pairs by histograms of derivatives.
#
# At the optimum without interactions, the loss is replaced by a quadratic function of the scores.
# For each pair of features, gradient and curvature of the documents are summed by the cells of a
# grid. The sums give the decrease of the loss by a function of the cells, and by a sum of a
# function of the rows and one of the columns. Their difference is the gain of an interaction. The
# screen is that of FAST (Lou, Caruana, Gehrke & Hooker 2013), with more than one cut per feature.


FEWEST_ROWS = 2**14  #: documents of a screen of many features
MOST_ROWS = 2**16  #: documents of a screen of few features; more hardly change the best pairs
SUMMED = 2**29  #: documents times pairs, if there are neither fewer nor more documents
TASKS = 4  #: tasks per thread, which are uneven if features have different numbers of cells


class Gains(NamedTuple):
    """Gains by interactions of all pairs of features.

    ``gains`` has the decrease of the loss by the interaction of each pair, and ``free`` the number
    of its free values. Without interaction, 2·gain/noise has about a χ² distribution with as many
    degrees of freedom. ``slope`` is the root mean square of the gradients of the documents.
    """

    pairs: Integers
    gains: Vector
    free: Vector
    noise: float
    slope: float

    def largest(self, n: int) -> Integers:
        """Return at most n pairs with the largest gains beyond those that are expected."""
        beyond = self.gains - 0.5 * self.noise * self.free
        best = np.argsort(-beyond, kind="stable")[:n]
        return best[(beyond[best] > 0) & (self.free[best] > 0)]

    def prices(self, chosen: Integers) -> Vector:
        """Return thresholds of the gradients of pairs, per unit of their columns.

        A pair with a shorter gradient gets no weight. The threshold is the length that the best of
        all pairs reaches if none interacts. Pairs with a larger gain have a lower threshold, in
        inverse proportion to the gain, so that their weights shrink less.
        """
        from scipy.special import chdtri  # takes long to import

        gain = self.gains[chosen] / (0.5 * self.noise * self.free[chosen])
        best = chdtri(self.free[chosen], 1.0 / len(self.pairs)) / self.free[chosen]
        return self.slope * np.sqrt(best) * np.minimum(1.0, best / gain)


def rows_to_screen(n_pairs: int) -> int:
    """Return how many documents the screen of some pairs reads, which bounds its time."""
    return max(FEWEST_ROWS, min(MOST_ROWS, SUMMED // max(1, n_pairs)))


def some_queries(data: RankingData, n_rows: int) -> RankingData:
    """Return queries with about `n_rows` rows, evenly spaced in the order of their content.

    Data with listed pairs are not sampled.
    """
    if data.pairs is not None or data.n_docs <= n_rows:
        return data
    n = max(1, round(data.n_queries * n_rows / data.n_docs))
    return take_queries(data, evenly_spaced(data.query_keys, n))


def score_derivatives(engine: Engine, coef: Vector) -> tuple[Vector, Vector]:
    """Return gradient and curvature of the loss in the scores, or of the nearest smooth loss."""
    curved = engine if engine.loss.smooth else engine.with_loss(SQUARED_HINGE)
    assert isinstance(curved, ThreadEngine)
    return curved.score_derivatives(coef)


def find_gains(
    codes: NDArray[np.uint8],
    sizes: Integers,
    gradient: Vector,
    curvature: Vector,
    ridge: float,
    n_threads: int | None = None,
) -> Gains:
    """Return all pairs of features, and the gain of the interaction of each pair.

    If there is no interaction, the expected gain is half the number of free values of the grid,
    times the ratio of squared gradients to curvatures.

    Parameters
    ----------
    codes : uint8 array of shape (n_features, n_rows)
        The cell of each value.
    sizes : int64 array of shape (n_features,)
        The number of cells of each feature.
    gradient, curvature : float64 arrays of shape (n_rows,)
        First and second derivative of the loss in the score of each document.
    ridge : float
        The curvature of a penalty of the value of each cell.

    Examples
    --------
    >>> codes = np.array([[0, 0, 1, 1], [0, 1, 0, 1], [0, 1, 1, 0]], np.uint8)
    >>> gradient = np.array([1.0, -1.0, -1.0, 1.0])
    >>> found = find_gains(codes, np.full(3, 2), gradient, np.ones(4), 0.0)
    >>> found.pairs[found.largest(1)].tolist()
    [[0, 1]]
    """
    n_threads = resolve_threads(n_threads)
    pairs = np.stack(np.triu_indices(len(codes), 1), axis=1)
    noise = float(gradient @ gradient) / max(float(curvature.sum()), np.finfo(float).tiny)
    derivatives, found = np.stack([gradient, curvature], axis=1), np.empty((len(pairs), 2))
    ranges = split(np.arange(len(pairs) + 1), TASKS * n_threads)
    tasks = [(codes, sizes, derivatives, ridge, pairs[a:b], found[a:b]) for a, b in ranges]
    run(_sum_cells, tasks, n_threads)
    slope = float(np.sqrt(np.mean(gradient**2)))
    return Gains(pairs, found[:, 0], found[:, 1], noise, slope)


@njit(allocates=True)
def _sum_cells(codes, sizes, derivatives, ridge, pairs, found):  # type: ignore[no-untyped-def]
    most = sizes.max()
    sums = np.empty((most * most, 2))
    system = np.empty((most, most + 1))
    for p in range(len(pairs)):
        j, k = pairs[p, 0], pairs[p, 1]
        m, n = sizes[j], sizes[k]
        sums[: m * n] = 0.0
        first, second = codes[j], codes[k]
        for i in range(len(first)):
            c = first[i] * n + second[i]
            sums[c, 0] += derivatives[i, 0]
            sums[c, 1] += derivatives[i, 1]
        found[p] = _gain(sums[: m * n], m, n, ridge, system)


@njit(inner=True)
def _gain(sums, m, n, ridge, system):  # type: ignore[no-untyped-def]
    """Return half of ``Σ_c g_c²/h_c − g'A⁺g``, and the number of free values.

    A is the matrix of the quadratic model for sums of a function of rows and one of columns. Its
    rows are eliminated first. ``system`` becomes the equations of the columns that are left.
    """
    total, n_free = 0.0, 1
    system[:n, : n + 1] = 0.0
    for a in range(m):
        slope, curvature = 0.0, 0.0
        for b in range(n):
            g, h = sums[a * n + b]
            if h > 0.0:
                sums[a * n + b, 1] = h + ridge
                slope, curvature = slope + g, curvature + h + ridge
                total += g * g / (h + ridge)
                n_free += 1
        if curvature > 0.0:
            total -= slope * slope / curvature
            n_free -= 1
            for b in range(n):
                g, h = sums[a * n + b]
                system[b, b] += h
                system[b, n] += g - h * slope / curvature
                for c in range(n):
                    system[b, c] -= h * sums[a * n + c, 1] / curvature
    explained, rank = _solve(system, n)
    return 0.5 * (total - explained), float(max(0, n_free - rank - 1))


@njit(inner=True)
def _solve(system, n):  # type: ignore[no-untyped-def]
    """Return g'A⁺g for the first n equations A·x = g of a semidefinite system, and the rank."""
    explained, rank = 0.0, 0
    for b in range(n):
        scale = system[b, b]
        for c in range(b):
            scale = max(scale, abs(system[c, b]))
        if system[b, b] <= 1e-9 * scale or scale <= 0.0:
            continue
        rank += 1
        explained += system[b, n] ** 2 / system[b, b]
        for c in range(b + 1, n):
            factor = system[c, b] / system[b, b]
            for d in range(b + 1, n + 1):
                system[c, d] -= factor * system[b, d]
    return explained, rank


# --------------------------------------------------------------------------------------------------
# Means of fits, and resampled queries. Scores have no scale, so each fit is divided by its own.


def spread_within(data: RankingData, coef: Vector, n_threads: int | None = None) -> float:
    """Return the standard deviation of the scores within queries."""
    scores, sizes = multiply(data.X, coef, n_threads), np.diff(data.query_ptr)
    means = np.add.reduceat(scores, data.query_ptr[:-1]) / sizes
    return float((scores - np.repeat(means, sizes)).std())


def mean_of_fits(
    data: RankingData, coefs: Sequence[Vector], n_threads: int | None = None
) -> Vector:
    """Return the mean of weights after their scores within queries got the deviation 1.

    Weights without such scores are left out. The scores of the mean have the deviation 1, too.
    """
    spreads = np.array([spread_within(data, coef, n_threads) for coef in coefs])
    scaled = [coef / spread for coef, spread in zip(coefs, spreads, strict=True) if spread > 0]
    mean = np.mean(scaled, axis=0) if scaled else np.zeros_like(coefs[0])
    return mean / (spread_within(data, mean, n_threads) or 1.0)


def with_drawn_queries(data: RankingData, generator: np.random.Generator) -> RankingData:
    """Return the data with queries that count as often as they are drawn with replacement."""
    n, weight = data.n_queries, data.query_weight
    drawn = np.bincount(generator.integers(n, size=n), minlength=n).astype(np.float64)
    return data.replace(query_weight=drawn if weight is None else drawn * weight)


# --------------------------------------------------------------------------------------------------
# `AdditiveTrainer`: from data to an additive model, a sum of curves of single features.


DEFAULT_DESIGN = DesignSteps()
DEFAULT_PREFERENCES = Preferences(rescale="slack", delta="gain")
TRIED_PENALTIES: tuple[PenaltyName, ...] = ("l2", "group_l1")  #: the best one is kept
#: Normalisations of the loss that are tried with each penalty. Their mean is better than each of
#: them on MQ2007, on MQ2008 and on six other collections together.
TRIED_NORMALIZATIONS: tuple[NormalizeName | None, ...] = (None, "queries")
AVERAGED_FITS = 3  #: fits of each penalty and normalisation whose mean is the model
PAIR_RIDGE = 1.0  #: l2 penalty of the weights of pairs
SCREEN_STEPS = 8  #: place in the grid of the C of the screen; larger values take longer
COVERAGE = 0.95  #: probability that a band contains the true value of a curve, at each knot
#: Factor of C in the fits of a band. The penalty makes curves flatter than the true ones. With a
#: larger C the fits are less so, and the band has room for this difference.
BAND_FACTOR = 4.0


Normalizations: TypeAlias = NormalizeName | Sequence[NormalizeName | None] | None


def tried_normalizations(given: Normalizations, interactions: int) -> list[NormalizeName | None]:
    """Return the normalisations that are tried, given one or several of them.

    Interactions are found with one of them. Fits with other pairs of features have no mean.

    Examples
    --------
    >>> tried_normalizations((None, "queries"), interactions=0), tried_normalizations("pairs", 0)
    ([None, 'queries'], ['pairs'])
    """
    found = [given] if given is None or isinstance(given, str) else list(given)
    if not found:
        raise DataError(f"normalize is {given!r}; expected None, 'pairs', 'queries' or a list")
    return found[:1] if interactions else found


@dataclass(frozen=True)
class PreparedDesign(Prepared):
    """Training data before and after the features became columns of basis functions.

    Attributes
    ----------
    design : Design
    explicit : bool
        Whether the columns are stored as an array.
    prices : array of shape (n_pairs,)
        Thresholds of the gradients of pairs, per unit of their columns.
    """

    design: Design
    explicit: bool
    prices: Vector

    def apply(self, data: RankingData, n_threads: int | None = None) -> RankingData:
        """Return other data with the same features, as columns of the same basis functions."""
        if self.steps is not None:
            data = _dense(data)
        columns = self.design.apply_to(super().apply(data, n_threads), n_threads)
        return _stored(columns, self.explicit)

    def weight_names(self, names: list[str]) -> list[str]:
        """Return the feature or the pair of each column."""
        names = super().weight_names(names)
        pairs = [" × ".join(names[f] for f in pair.features) for pair in self.design.pairs]
        parts = names + pairs
        return [parts[f] for f in self.design.owner.tolist()]


@dataclass(frozen=True)
class AdditiveTrainer(Trainer):
    """Train additive models with given settings.

    Parameters
    ----------
    design : DesignSteps
        The basis of the curves.
    ends : {"flat", "linear"}
        Curves beyond the training range: constant, or along the line of the last interval.
    average : int
        If C is chosen: the number of fits of each trainer whose mean is the model.
    memory : list
        The last data that were prepared, their form, and the outcome. Trainers that differ in
        penalty only may share it. A copy with another design or other features needs its own list.

    Other parameters are those of `Trainer`. Costs of features are those of all their columns.

    Examples
    --------
    >>> from linrank import make_ranking
    >>> data = make_ranking(random_state=0)
    >>> len(AdditiveTrainer().train(data, C=0.1).model.curves)
    20
    """

    normalize: NormalizeName | None = None
    features: FeatureSteps = field(default=AS_GIVEN, kw_only=True)
    design: DesignSteps = DEFAULT_DESIGN
    ends: EndsName = "flat"
    average: int = 1
    memory: list[tuple[RankingData, tuple[bool, float, bool], PreparedDesign]] = field(
        default_factory=list, compare=False, repr=False
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        choice("ends", self.ends, ENDS)
        object.__setattr__(self, "average", whole_number("average", self.average))
        steps = self.features
        if steps.missing is not None:
            raise DataError(
                f"missing is {steps.missing!r}, but missing values have a part of their own in "
                "each curve. Use missing=None."
            )
        if steps not in (FeatureSteps(), FeatureSteps(scale="query"), FeatureSteps(scale="both")):
            raise DataError(
                f"scale is {steps.name!r}; expected None, 'query' or 'both'. Curves do not depend "
                "on the units of a feature."
            )
        if self.design.interactions and not self.penalty.convex:
            raise DataError(
                f"interactions need a convex penalty, but penalty is {self.penalty.name!r}. Use "
                "penalty='l2', 'l1', 'elastic_net' or 'group_l1'."
            )

    @classmethod
    def of(
        cls,
        *,
        n_bins: int = 8,
        basis: BasisName = "ramp",
        smooth: float = 10.0,
        monotone: FormsLike = None,
        categories: str | FeaturesLike = (),
        interactions: int = 0,
        loss: LossName | Loss = "logistic",
        rescale: RescaleName | None = "slack",
        delta: DeltaName | Delta = "gain",
        scale: str | None = None,
        **more: Any,
    ) -> Self:
        """Return the trainer for the options of `linrank.AdditiveRanker`, with its defaults."""
        if isinstance(categories, str):  # how columns of text are read
            chosen_form(categories)
            categories = ()
        design = DesignSteps(n_bins, basis, smooth, monotone, categories, interactions)
        if rescale is None and delta == DEFAULT_PREFERENCES.delta:
            delta = "label"  # the default of delta is that of a rescaling
        trainer = super().of(
            loss=loss, rescale=rescale, delta=delta, scale=scale, design=design, **more
        )
        if trainer.penalty.bounds is not None:
            raise DataError(
                "bounds are limits of the weights of features, but an additive ranker has curves. "
                "Use monotone, such as {'bm25': 'increasing'}."
            )
        return trainer

    @property
    def default_C(self) -> float:
        """The C of a training that is given none: 1."""
        return 1.0

    @property
    def leans(self) -> bool:
        """Whether the choice of C prefers one: never, because curves depend on their number."""
        return False

    def _resolved_solver(self, loss: Loss, penalty: Penalty) -> Solver:
        """Return the solver, which has to solve group penalties if there are interactions."""
        interacts = self.design.interactions > 0 and penalty.convex
        return super()._resolved_solver(loss, GroupL1() if interacts else penalty)

    def prepare(self, data: RankingData) -> PreparedDesign:
        """Fit scaling and basis to training data, and apply them."""
        explicit = self.engine != "threads" or self.solver.needs.rows
        form = explicit, *self._basis
        for known, known_form, prepared in self.memory:
            if known is data and known_form == form:
                return prepared
        self.memory.clear()
        scaled = super().prepare(_dense(data) if self.features.by_query else data)
        wanted = self.design.for_positions(scaled.given) if self._has_positions else self.design
        pairs: list[tuple[int, int]] = []
        prices = np.empty(0)
        if wanted.interactions:
            pairs, prices = replace(self, design=wanted)._screen(scaled.data)
        smooth, turned = self._basis
        steps = replace(wanted, smooth=smooth, turned=turned)
        design, columns = steps.fit(scaled.data, self.n_threads, pairs)
        columns = _stored(columns, explicit)
        prepared = PreparedDesign(data, scaled.steps, columns, design, explicit, prices)
        self.memory.append((data, form, prepared))
        return prepared

    @property
    def _has_positions(self) -> bool:
        """Whether features have a second curve, of their position in the query."""
        return self.features.scale == "both"

    def _steps(self, data: RankingData) -> Preprocessing | None:
        """Fit the preprocessing. Curves need no units, and values without an order no position."""
        steps = super()._steps(data)
        if steps is None:
            return None
        levels = self.design.level_features(data)
        return replace(steps, shift=None, factor=None, unscaled=np.union1d(steps.unscaled, levels))

    @property
    def _basis(self) -> tuple[float, bool]:
        """The smoothness of the basis, and whether the columns of a feature are turned.

        Penalties of single rises need them as weights, so the smoothness is 0. Without this, the
        penalty l1 would not be the total variation of the curves. Columns are turned for penalties
        that depend only on norms of the weights of a feature.
        """
        smooth = self.design.smooth if self.penalty.kind in ("l2", "group") else 0.0
        norms_only = isinstance(self.penalty, GroupL1) and self.penalty.ratio == 0
        return smooth, self.penalty.kind == "l2" or norms_only

    def _screen(self, data: RankingData) -> tuple[list[tuple[int, int]], Vector]:
        """Return the pairs of features that interact most, and the prices of their weights.

        The pairs are those with the largest gains at an optimum without interactions, for a sample
        of the queries. A price is a threshold of the gradient of a pair, per unit of its columns.
        """
        n, d = self.design.interactions, data.n_features
        forms = read_forms(self.design.forms, d, data.feature_names, data.index_base)
        free = np.array([j for j in range(d) if j not in forms], np.int64)
        most = len(free) * (len(free) - 1) // 2
        if most < n:
            raise DataError(
                f"interactions is {n}, but {len(free)} features without a form have {most} pairs. "
                f"Use interactions={most}."
            )
        main = replace(
            self, design=replace(self.design, interactions=0), features=FeatureSteps(),
            penalty=L2(), solver="auto", engine="threads",  # type: ignore[arg-type]
            callback=None, announce=None, memory=[],
        )  # fmt: skip
        sample = some_queries(data, rows_to_screen(most))
        found = main.interaction_gains(sample, free)
        best = found.largest(n)
        prices = found.prices(best)
        if self.normalize == "pairs":
            prices *= sample.n_docs / data.n_docs  # all documents have more pairs than the sample
        return free[found.pairs[best]].tolist(), prices

    def interaction_gains(self, data: RankingData, features: Integers) -> Gains:
        """Return the gains by interactions of some features, at an optimum without interactions."""
        prepared = self.prepare(data)
        problem = self._problem(prepared)
        problem = problem.with_C(self._grid(problem).Cs[SCREEN_STEPS])
        coef = finished(self.new_solver().solve(problem)).coef
        codes, sizes = prepared.design.coarse_codes(prepared.data.X.positions, self.n_threads)
        derivatives = score_derivatives(problem.engine, coef)
        ridge = 1.0 / problem.C
        return find_gains(codes[features], sizes[features], *derivatives, ridge, self.n_threads)

    def _refit(self, data: RankingData, found: Search, whole_path: bool) -> Training:
        """Train with all values of C if the model is a mean of several fits. See `Trainer`."""
        return super()._refit(data, found, whole_path or self.average > 1)

    def joined(
        self, training: Training, found: Sequence[tuple[Trainer, Training]], data: RankingData
    ) -> Training:
        """Return the best training with the mean of the best fits of all trainings as its model.

        Each training has a part of `average` fits. The mean depends less on chance than the fit
        that is best on held-out data. Only fits of the same basis have a mean: penalties of single
        rises have another one. A criterion whose rule is not "best" chooses a single fit, which
        stays the model.
        """
        one_fit = self.average == 1 or self.criterion.rule != "best"
        if one_fit or training.interrupted or training.path is None:
            return training
        prepared = self.prepare(data)
        fits = [
            Fit(trainer, *fit)
            for trainer, one in found
            if isinstance(trainer, AdditiveTrainer) and trainer._basis == self._basis
            for fit in self._best_fits(one)
        ]
        if not fits:
            return training
        mean = mean_of_fits(prepared.data, [fit.coef for fit in fits], self.n_threads)
        result = replace(training.result, coef=mean)
        model = self._model(prepared, result, training.C, training.value, training.n_pairs)
        model.training["averaged_fits"] = len(fits)
        return replace(training, model=model, coef=mean, fits=fits)

    def _best_fits(self, training: Training) -> Iterator[tuple[float, Vector]]:
        """Yield C and weights of the best fits of a path, without those that are all 0."""
        assert training.path is not None
        assert training.values is not None
        n = min(len(training.path), len(training.values))
        sign = 1.0 if self.criterion.greater_is_better else -1.0
        used = np.flatnonzero(training.path.coefs[:n].any(axis=1) & ~np.isnan(training.values[:n]))
        order = np.argsort(-sign * training.values[used], kind="stable")
        for k in used[order[: self.average]]:
            yield float(training.path.Cs[k]), training.path.coefs[k]

    def problem(self, data: RankingData, C: float = 1.0) -> Problem:
        """Return the problem of ranking the data."""
        return super(AdditiveTrainer, self._for(data)).problem(data, C)

    def _for(self, data: RankingData) -> Self:
        """Return the trainer without the default weights of pairs, if the pairs are listed."""
        if data.pairs is None or self.preferences != DEFAULT_PREFERENCES:
            return self
        return replace(self, preferences=ALL_PAIRS)

    def penalty_for(self, prepared: Prepared) -> Penalty:
        """Return the penalty of the columns; costs are those of features."""
        assert isinstance(prepared, PreparedDesign)
        design, penalty = prepared.design, self.penalty
        low, high = design.limits()
        owner = design.owner[: len(low)]
        is_free = np.isinf(low).all() and np.isinf(high).all()
        parts: dict[str, Any] = {"bounds": None if is_free else (low, high)}
        if penalty.weights is not None:
            n_features = prepared.given.n_features
            parts["weights"] = replace(penalty, bounds=None).for_features(n_features).weights
            parts["weights"] = parts["weights"][owner % n_features]
        if penalty.kind == "group":
            parts["groups"] = owner
        penalty = replace(penalty, **parts)
        if not self.design.interactions:
            return penalty
        pairs = design.owner[len(owner) :]
        thresholds = prepared.prices * np.array([pair.size for pair in design.pairs])
        thresholds = thresholds[pairs - len(design.columns)]
        return with_groups(penalty.for_features(len(owner)), pairs, thresholds, PAIR_RIDGE)

    def _grid(self, problem: Problem) -> Grid:
        """Return the values of C that are tried if the caller gives none."""
        return balanced_grid(problem)

    def bagged(self, training: Training, data: RankingData, n_bags: int) -> Training:
        """Add bands to curves and surfaces, from fits on resampled queries.

        Each resample has as many queries as there are, drawn with replacement. The fits of the
        model are repeated on it with their penalties, and with `BAND_FACTOR` times their C. Their
        mean gets the scale of the model, because scores of a ranker have none. An interrupt leaves
        the model without bands.
        """
        if data.n_queries < 2:
            raise DataError(
                f"n_bags is {n_bags}, but there is one query, which cannot be resampled. Use "
                "n_bags=0."
            )
        prepared = self.prepare(data)
        coef = training.result.coef if training.coef is None else training.coef
        size = spread_within(prepared.data, coef, self.n_threads)
        fits = training.fits or [Fit(self, training.C, coef)]
        generator, means = np.random.default_rng(self.seed), []
        for _ in range(n_bags):
            drawn = with_drawn_queries(prepared.data, generator)
            results = [
                fit.trainer.solution(
                    replace(prepared, data=drawn), BAND_FACTOR * fit.C, start=fit.coef
                )
                for fit in fits
            ]
            if any(result.status is Status.INTERRUPTED for result in results):
                return replace(training, interrupted=True)
            mean = mean_of_fits(prepared.data, [one.coef for one in results], self.n_threads)
            means.append(mean * size)
        assert isinstance(training.model, AdditiveModel)
        model = with_bands(training.model, prepared.design, np.array(means), COVERAGE)
        return replace(training, model=model)

    def models(
        self, data: RankingData, path: RegularizationPath, n_pairs: int
    ) -> list[AdditiveModel]:
        """Return the model of each solution of a path, given the training data again."""
        prepared = self.prepare(data)
        return [
            self._model(prepared, result, C, None, n_pairs)
            for C, result in zip(path.Cs.tolist(), path.results, strict=True)
        ]

    def describe(self, C: float, data: RankingData | None = None) -> dict[str, Any]:
        """Return the settings as plain data, for model files."""
        design = self.design
        return super().describe(C, data) | {
            "n_bins": design.n_bins,
            "basis": design.basis,
            "smooth": self._basis[0],
            "monotone": design.forms,
            "categories": list(design.levels),
            "interactions": design.interactions,
            "ends": self.ends,
        }

    def _model(
        self, prepared: Prepared, result: Result, C: float, value: float | None, n_pairs: int
    ) -> AdditiveModel:
        assert isinstance(prepared, PreparedDesign)
        given = prepared.given
        model = AdditiveModel(
            given.n_features,
            curves_of(prepared.design, result.coef, self.ends),
            surfaces_of(prepared.design, result.coef),
            feature_names=given.feature_names,
            index_base=given.index_base,
            settings=self._for(given).describe(C, given),
            training=self._summary(prepared, result, value, n_pairs),
            preprocessing=prepared.steps,
        )
        model.categories = given.categories
        return model


def _dense(data: RankingData) -> RankingData:
    """Return data whose zeros are stored: within a query, they have a position as others have."""
    return data.replace(X=data.X.toarray()) if data.is_sparse else data


def _stored(data: RankingData, explicit: bool) -> RankingData:
    """Return data whose columns are an array, if a solver or an engine reads single entries."""
    return data.replace(X=data.X.toarray()) if explicit else data
