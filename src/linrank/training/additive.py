"""`AdditiveTrainer`: from data to an additive model, a sum of curves of single features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from .._checks import choice, whole_number
from .._rows import multiply
from .._typing import Integers, Vector
from ..counting.names import DeltaName, RescaleName
from ..counting.preferences import ALL_PAIRS, Delta, Preferences
from ..data.ranking import RankingData
from ..errors import DataError
from ..features.design import Design, DesignSteps
from ..features.forms import FeaturesLike, FormsLike, read_forms
from ..features.names import ENDS, BasisName, EndsName
from ..features.prepared import Prepared
from ..features.steps import FeatureSteps
from ..grid import Grid, balanced_grid
from ..losses.base import Loss
from ..losses.tables import LossName
from ..model import AdditiveModel
from ..path import RegularizationPath, finished
from ..penalties import PenaltyName
from ..penalties.base import Penalty
from ..penalties.group import GroupL1
from ..penalties.l2 import L2
from ..penalties.mixed import with_groups
from ..problem import Problem
from ..solvers.base import Solver
from ..solvers.result import Result, Status
from .curves import curves_of, surfaces_of, with_bands
from .outcome import Training
from .screen import Gains, find_gains, rows_to_screen, score_derivatives, some_queries
from .trainer import Trainer

DEFAULT_DESIGN = DesignSteps()
DEFAULT_PREFERENCES = Preferences(rescale="slack", delta="gain")
TRIED_PENALTIES: tuple[PenaltyName, ...] = ("l2", "group_l1")  #: the best one is kept
AVERAGED_FITS = 3  #: fits of each penalty whose mean is the model, if C is chosen
PAIR_RIDGE = 1.0  #: l2 penalty of the weights of pairs
SCREEN_STEPS = 8  #: place in the grid of the C of the screen; larger values take longer
COVERAGE = 0.9  #: share of the fits on resampled queries that lie inside a band


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
        columns = self.design.apply_to(super().apply(data, n_threads), n_threads)
        return _stored(columns, self.explicit)

    def weight_names(self, names: list[str]) -> list[str]:
        """Return the feature or the pair of each column."""
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
        If C is chosen: the number of fits of each penalty whose mean is the model.
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

    design: DesignSteps = DEFAULT_DESIGN
    ends: EndsName = "flat"
    average: int = 1
    memory: list[tuple[RankingData, tuple[bool, float], PreparedDesign]] = field(
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
        if steps not in (FeatureSteps(), FeatureSteps(scale="query")):
            raise DataError(
                f"scale is {steps.name!r}; expected None or 'query'. Curves do not depend on the "
                "units of a feature."
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
        categories: FeaturesLike = (),
        interactions: int = 0,
        loss: LossName | Loss = "logistic",
        rescale: RescaleName | None = "slack",
        delta: DeltaName | Delta = "gain",
        **more: Any,
    ) -> Self:
        """Return the trainer for the options of `linrank.AdditiveRanker`, with its defaults."""
        design = DesignSteps(n_bins, basis, smooth, monotone, categories, interactions)
        if rescale is None and delta == DEFAULT_PREFERENCES.delta:
            delta = "label"  # the default of delta is that of a rescaling
        trainer = super().of(loss=loss, rescale=rescale, delta=delta, design=design, **more)
        if trainer.penalty.bounds is not None:
            raise DataError(
                "bounds are limits of the weights of features, but an additive ranker has curves. "
                "Use monotone, such as {'bm25': 'increasing'}."
            )
        return trainer

    def _resolved_solver(self, loss: Loss, penalty: Penalty) -> Solver:
        """Return the solver, which has to solve group penalties if there are interactions."""
        interacts = self.design.interactions > 0 and penalty.convex
        return super()._resolved_solver(loss, GroupL1() if interacts else penalty)

    def prepare(self, data: RankingData) -> PreparedDesign:
        """Fit scaling and basis to training data, and apply them."""
        explicit = self.engine != "threads" or self.solver.needs.rows
        form = explicit, self._smooth
        for known, known_form, prepared in self.memory:
            if known is data and known_form == form:
                return prepared
        self.memory.clear()
        scaled = super().prepare(data)
        pairs: list[tuple[int, int]] = []
        prices = np.empty(0)
        if self.design.interactions:
            pairs, prices = self._screen(scaled.data)
        steps = replace(self.design, smooth=self._smooth)
        design, columns = steps.fit(scaled.data, self.n_threads, pairs)
        columns = _stored(columns, explicit)
        prepared = PreparedDesign(data, scaled.steps, columns, design, explicit, prices)
        self.memory.append((data, form, prepared))
        return prepared

    @property
    def _smooth(self) -> float:
        """The smoothness of the basis: 0 for penalties of single rises, which need them as weights.

        Without it, the penalty l1 would not be the total variation of the curves.
        """
        return self.design.smooth if self.penalty.kind in ("l2", "group") else 0.0

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

    def _refit(
        self, data: RankingData, Cs: Vector, fold_values: Vector, whole_path: bool
    ) -> Training:
        """Train with all values of C if the model is a mean of several fits. See `Trainer`."""
        return super()._refit(data, Cs, fold_values, whole_path or self.average > 1)

    def joined(
        self, training: Training, trainings: Sequence[Training], data: RankingData
    ) -> Training:
        """Return the best training with the mean of the best fits of all trainings as its model.

        Each training has a part of `average` fits. The scores of a fit are divided by their
        spread before. The mean depends less on chance than the fit that is best on held-out data.
        Only fits of the same basis have a mean: penalties of single rises have another one. A
        criterion whose rule is not "best" chooses a single fit, which stays the model.
        """
        one_fit = self.average == 1 or self.criterion.rule != "best"
        if one_fit or training.interrupted or training.path is None:
            return training
        prepared = self.prepare(data)
        same = [one for one in trainings if one.model.settings["smooth"] == self._smooth]
        coefs = np.array([coef for one in same for coef in self._best_fits(one)])
        spreads = np.array(
            [multiply(prepared.data.X, coef, self.n_threads).std() for coef in coefs]
        )
        coefs, spreads = coefs[spreads > 0], spreads[spreads > 0]
        if not len(coefs):
            return training
        mean = (coefs / spreads[:, None]).mean(axis=0) * spreads.mean()
        result = replace(training.result, coef=mean)
        model = self._model(prepared, result, training.C, training.value, training.n_pairs)
        model.training["averaged_fits"] = len(coefs)
        return replace(training, model=model, coef=mean)

    def _best_fits(self, training: Training) -> Vector:
        """Return the weights of the best fits of a path, without those that are all 0."""
        assert training.path is not None
        assert training.values is not None
        n = min(len(training.path), len(training.values))
        sign = 1.0 if self.criterion.greater_is_better else -1.0
        used = np.flatnonzero(training.path.coefs[:n].any(axis=1) & ~np.isnan(training.values[:n]))
        order = np.argsort(-sign * training.values[used], kind="stable")
        return training.path.coefs[used[order[: self.average]]]

    def problem(self, data: RankingData, C: float = 1.0) -> Problem:
        """Return the problem of ranking the data."""
        return super(AdditiveTrainer, self._for(data)).problem(data, C)

    def _for(self, data: RankingData) -> Self:
        """Return the trainer without the default weights of pairs, if the pairs are listed."""
        if data.pairs is None or self.preferences != DEFAULT_PREFERENCES:
            return self
        return replace(self, preferences=ALL_PAIRS)

    def _penalty(self, prepared: Prepared) -> Penalty:
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
            parts["weights"] = parts["weights"][owner]
        if penalty.kind == "group":
            parts["groups"] = owner
        penalty = replace(penalty, **parts)
        if not self.design.interactions:
            return penalty
        pairs = design.owner[len(owner) :]
        thresholds = prepared.prices * np.array([pair.size for pair in design.pairs])
        thresholds = thresholds[pairs - prepared.given.n_features]
        return with_groups(penalty.for_features(len(owner)), pairs, thresholds, PAIR_RIDGE)

    def _grid(self, problem: Problem) -> Grid:
        """Return the values of C that are tried if the caller gives none."""
        return balanced_grid(problem)

    def bagged(self, training: Training, data: RankingData, n_bags: int) -> Training:
        """Add bands to the curves, from fits on resampled queries that start from the solution.

        Each fit draws as many queries as there are, with replacement. Nine out of ten of the fits
        lie inside a band. If the model is a mean of fits, only its best fit is repeated, and the
        bands are moved to the mean. An interrupt leaves the curves without bands.
        """
        if data.n_queries < 2:
            raise DataError(
                f"n_bags is {n_bags}, but there is one query, which cannot be resampled. Use "
                "n_bags=0."
            )
        prepared = self.prepare(data)
        generator = np.random.default_rng(self.seed)
        n, weight = data.n_queries, prepared.data.query_weight
        centre = 0.0 if training.coef is None else training.coef - training.result.coef
        coefs = []
        for _ in range(n_bags):
            drawn = np.bincount(generator.integers(n, size=n), minlength=n).astype(np.float64)
            drawn = drawn if weight is None else drawn * weight
            problem = self._problem(
                replace(prepared, data=prepared.data.replace(query_weight=drawn)), training.C
            )
            result = self.new_solver().solve(problem, training.result.coef)
            if result.status is Status.INTERRUPTED:
                return replace(training, interrupted=True)
            coefs.append(result.coef + centre)
        assert isinstance(training.model, AdditiveModel)
        curves = with_bands(training.model.curves, prepared.design, np.array(coefs), COVERAGE)
        return replace(training, model=training.model.with_curves(curves))

    def models(
        self, data: RankingData, path: RegularizationPath, n_pairs: int
    ) -> list[AdditiveModel]:
        """Return the model of each solution of a path, given the training data again."""
        prepared = self.prepare(data)
        return [
            self._model(prepared, result, C, None, n_pairs)
            for C, result in zip(path.Cs.tolist(), path.results, strict=True)
        ]

    def describe(self, C: float) -> dict[str, Any]:
        """Return the settings as plain data, for model files."""
        design = self.design
        return super().describe(C) | {
            "n_bins": design.n_bins,
            "basis": design.basis,
            "smooth": self._smooth,
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
        return AdditiveModel(
            given.n_features,
            curves_of(prepared.design, result.coef, self.ends),
            surfaces_of(prepared.design, result.coef),
            feature_names=given.feature_names,
            index_base=given.index_base,
            settings=self._for(given).describe(C),
            training=self._summary(prepared, result, value, n_pairs),
            preprocessing=prepared.steps,
        )


def _stored(data: RankingData, explicit: bool) -> RankingData:
    """Return data whose columns are an array, if a solver or an engine reads single entries."""
    return data.replace(X=data.X.toarray()) if explicit else data
