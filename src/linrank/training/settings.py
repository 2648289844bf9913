"""Settings of a training: one frozen object for estimators, command line and model files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from inspect import signature
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from .._util.checks import choice, number_from_zero
from ..choices import (
    COUNTINGS,
    ENGINES,
    DeltaName,
    MissingName,
    PairsName,
    RescaleName,
)
from ..counting.preferences import ALL_PAIRS, Delta, Preferences
from ..data.ranking import RankingData
from ..errors import DataError
from ..features.preprocessing import FeatureSteps
from ..losses.hinge_tables import LossName
from ..losses.loss import Loss
from ..losses.registry import describe_loss, get_loss
from ..penalties import PenaltyName
from ..penalties.penalty import BoundsLike, Penalty, make_penalty
from ..problem import Problem, make_problem
from ..solvers import SolverChoice
from ..solvers.solver import Callback, Solver, make_solver, with_options
from .options import (
    DEFAULT_C,
    DEFAULT_MAX_ITER,
    DEFAULT_SCALE,
    DEFAULT_SELECTING_C,
    Options,
)

AS_GIVEN = FeatureSteps()
DEFAULT_STEPS = FeatureSteps.parse(DEFAULT_SCALE, None)


@dataclass(frozen=True)
class Settings(Options):
    """Loss, penalty, solver and all other options of a training.

    `Options` declares the fields. Loss, penalty and solver may be given by name. The constructor
    checks them against each other, and stores objects as attributes.

    Parameters
    ----------
    loss : str or Loss
    tol, max_iter
        Options of a solver that is given by name. A `Solver` has its own. If `tol` is None, the
        class of the solver has a default.
    solver : str or Solver
    counting, normalize, n_threads, engine
        See `linrank.RankSVM`.
    preferences : Preferences
        Which pairs are compared, with which margins.
    penalty : str, Penalty or None
        None is ``"l2"``.
    seed : int
        Seed of a stochastic solver that is given by name.
    features : FeatureSteps
        What is done to the features before they are weighted.
    margin_scale : float, optional
        The scores of a pair should differ by margin_scale·(y_i − y_j), instead of 1 for a pairwise
        loss and 0 for a domination loss. If the data have a margin s for each document, they should
        differ by margin_scale·(s_i − s_j).

    Examples
    --------
    >>> settings = Settings(loss="hinge", tol=1e-4)
    >>> settings.solver
    Smoothing(tol=0.0001, max_iter=1000)
    >>> Settings.of(penalty="l1", bounds="positive").solver.name
    'proximal-newton'
    """

    loss: Loss = "squared_hinge"  # type: ignore[assignment]  # __post_init__ resolves names
    solver: Solver = "auto"  # type: ignore[assignment]
    preferences: Preferences = ALL_PAIRS
    penalty: Penalty = None  # type: ignore[assignment]
    features: FeatureSteps = field(default=DEFAULT_STEPS, kw_only=True)

    has_rows: ClassVar[bool] = True  #: whether the rows of X are in this process

    @property
    def default_C(self) -> float:
        """The C of a training that is given none."""
        return DEFAULT_SELECTING_C if self.penalty.selects else DEFAULT_C

    def __post_init__(self) -> None:
        loss = get_loss(self.loss)
        penalty = make_penalty("l2" if self.penalty is None else self.penalty)
        choice("counting", self.counting, COUNTINGS)
        choice("engine", self.engine, ENGINES)
        if self.margin_scale is not None:
            object.__setattr__(
                self, "margin_scale", number_from_zero("margin_scale", self.margin_scale)
            )
        solver = self._resolved_solver(loss, penalty)
        for name, value in (("loss", loss), ("penalty", penalty), ("solver", solver)):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "tol", solver.tol)
        object.__setattr__(self, "max_iter", solver.max_iter)
        object.__setattr__(self, "seed", getattr(solver, "seed", self.seed))

    def _resolved_solver(self, loss: Loss, penalty: Penalty) -> Solver:
        given = {"tol": self.tol, "max_iter": self.max_iter}
        if not isinstance(self.solver, Solver):
            return make_solver(
                self.solver, loss, penalty, has_rows=self.has_rows, seed=self.seed, **given
            )
        defaults = {"tol": None, "max_iter": DEFAULT_MAX_ITER, "seed": 0}
        for name, value in (given | {"seed": self.seed}).items():
            if value not in (defaults[name], getattr(self.solver, name, value)):
                kind = type(self.solver).__name__
                raise DataError(
                    f"{name} is {value!r}, but solver is an object with its own {name}. Use "
                    f"solver={kind}({name}={value!r})."
                )
        return make_solver(self.solver, loss, penalty, has_rows=self.has_rows)

    @classmethod
    def of(
        cls,
        *,
        loss: LossName | Loss = "squared_hinge",
        solver: SolverChoice | Solver = "auto",
        pairs: PairsName = "all",
        rescale: RescaleName | None = None,
        delta: DeltaName | Delta = "label",
        penalty: PenaltyName | Penalty | None = None,
        shape: float | None = None,
        feature_cost: ArrayLike | None = None,
        bounds: BoundsLike = None,
        solver_options: Mapping[str, Any] | None = None,
        scale: str | None = DEFAULT_SCALE,
        missing: MissingName | None = None,
        **more: Any,
    ) -> Self:
        """Return the settings for the options of estimators and of the command line.

        Parameters
        ----------
        loss, solver, pairs, rescale, delta
            See `linrank.RankSVM`.
        penalty, shape, feature_cost, bounds
            See `linrank.SparseRankSVM`.
        solver_options : mapping, optional
            Options of the solver, which are the fields of its class.
        scale, missing
            See `linrank.RankSVM`.
        **more
            Other fields of this class.
        """
        settings = cls(
            loss=get_loss(loss),
            solver=solver,  # type: ignore[arg-type]
            preferences=Preferences(pairs, rescale, delta),
            penalty=make_penalty("l2" if penalty is None else penalty, shape, feature_cost, bounds),
            features=FeatureSteps.parse(scale, missing),
            **more,
        )
        if not solver_options:
            return settings
        chosen = with_options(settings.solver, solver_options)
        return replace(settings, solver=chosen, tol=chosen.tol, max_iter=chosen.max_iter)

    @classmethod
    @cache
    def option_names(cls) -> frozenset[str]:
        """Return the names of all options of `of`, with those that a subclass adds."""
        own = {name for kind in (Settings, cls) for name in signature(kind.of).parameters}
        own -= {"more"}
        return frozenset(own | {field.name for field in fields(cls)} - {"preferences", "features"})

    def problem(self, data: RankingData, C: float = 1.0) -> Problem:
        """Return the problem of ranking the data."""
        return make_problem(
            self._with_margins(data), C, loss=self.loss, counting=self.counting,
            preferences=self.preferences, normalize=self.normalize, penalty=self.penalty,
            n_threads=self.n_threads, engine=self.engine,
        )  # fmt: skip

    def _with_margins(self, data: RankingData) -> RankingData:
        """Return the data with the scaled margins of documents, or of labels if there are none."""
        if self.margin_scale is None:
            return data
        margin = data.y if data.margin is None else data.margin
        with np.errstate(over="ignore"):  # The solver refuses margins that are not finite.
            return data.replace(margin=self.margin_scale * margin)

    def new_solver(self, callback: Callback | None = None) -> Solver:
        """Return a copy of the solver for one fit."""
        return replace(self.solver, callback=callback)

    def describe(self, C: float, data: RankingData | None = None) -> dict[str, Any]:
        """Return the settings as plain data, for model files.

        Settings that depend on the data are those for `data`. If there are any,
        ``chosen_for_data`` names them.
        """
        preferences = self.preferences
        features = self.features if data is None else self.features.for_data(data)
        chosen = [] if features == self.features else ["scale"]
        described = {
            "C": C,
            "loss": describe_loss(self.loss),
            "tol": self.tol,
            "solver": self.solver.name,
            "solver_options": self.solver.options(),
            "counting": self.counting,
            "pairs": preferences.pairs,
            "rescale": preferences.rescale,
            "delta": None if preferences.rescale is None else preferences.delta_name,
            "normalize": self.normalize,
            "penalty": self.penalty.describe(),
            "max_iter": self.max_iter,
            "seed": self.seed,
            "engine": self.engine,
            "threads": self.n_threads,
            "scale": features.name,
            "missing": features.missing,
            "margin_scale": self.margin_scale,
            **({"chosen_for_data": chosen} if chosen else {}),
        }
        more = {f.name for f in fields(Options) if f.metadata} - described.keys()
        return described | {name: getattr(self, name) for name in sorted(more)}
