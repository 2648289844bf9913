"""`Trainer`: from data to a model, with one C or the best of a grid."""

from __future__ import annotations

import builtins
import math
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from .._util.text import format_C
from .._util.types import Vector
from ..data.ranking import RankingData
from ..data.validation import check_matrix
from ..engines.engine import ScaledEngine
from ..errors import DataError
from ..features.preprocessing import Prepared, Preprocessing
from ..losses.pairwise import SQUARED_HINGE
from ..metrics import parse_metric
from ..model import LinearModel, Model
from ..penalties.penalty import Penalty
from ..penalties.separable import L2
from ..problem import Problem
from ..solvers.fista import trace_of_hessian
from ..solvers.result import Result, Status, Step
from ..solvers.solver import make_solver
from .selection import (
    NO_USEFUL_FEATURE,
    Criterion,
    Edge,
    Fold,
    Grid,
    RegularizationPath,
    Search,
    as_grid,
    default_grid,
    error_of_folds,
    first_C,
    grid_around,
    make_folds,
    mean_of_folds,
    most_folds,
    path_of,
    regularization_path,
    search,
    standard_error,
)
from .settings import Settings

# --------------------------------------------------------------------------------------------------
# `Training`: a trained model, with the result of the solver and the choice of C.


@dataclass
class Training:
    """A trained model, with the result of the solver and the choice of C.

    Attributes
    ----------
    model : Model
        A `LinearModel`, or the model of a subclass of `Trainer`.
    result : Result
        The result of the solver for the C of the model.
    C : float
    weight_names : list of str
        The names of the weights in `result` and `path`, which are those after preprocessing.
    n_pairs, n_levels, n_empty_queries : int
        Pairs and levels of the training data, and queries without pairs, which are skipped.
    value : float or None
        The criterion on the held-out data; with folds, its mean over the folds.
    Cs, values : float64 arrays or None
        If C was chosen: the grid, and the criterion for each C.
    fold_values : float64 array of shape (n_Cs, n_parts) or None
        If C was chosen: the criterion on each held-out part. With folds there are several parts.
    path : RegularizationPath or None
        The solutions on all of the data for `Cs`, in the same order. If folds chose C, the path
        ends at that C, unless the whole path was asked for.
    edge : {None, "smallest", "largest"}
        If C was chosen: whether the best C is the smallest or the largest of the grid. None if
        values beyond that end were tried and were no better.
    interrupted : bool
        Whether an interrupt ended the training early. The model is then the best so far.
    leans : bool
        Whether C is the nearest to a preferred one among those within one standard error of the
        best; see `linrank.training.selection.Grid`.
    coef : float64 array or None
        The weights of the model, if it is a mean of several fits.
    fits : list of Fit
        The fits whose mean is the model. Empty if the model is that of `result`.
    folds_done : int or None
        The number of finished folds, if an interrupt came before a fit on all of the data. The
        weights are then those of the first fold.
    """

    model: Model
    result: Result
    C: float
    weight_names: list[str]
    n_pairs: int
    n_levels: int
    n_empty_queries: int
    value: float | None = None
    Cs: Vector | None = None
    values: Vector | None = None
    fold_values: Vector | None = None
    path: RegularizationPath | None = None
    edge: Edge | None = None
    interrupted: bool = False
    folds_done: int | None = None
    leans: bool = False
    coef: Vector | None = None
    fits: Sequence[Fit] = ()

    def count_features(self, coef: Vector) -> int:
        """Return the number of features that have a weight, or several of them, other than 0."""
        return len({self.weight_names[k] for k in np.flatnonzero(coef)})

    def sizes_along_path(self) -> tuple[list[str], Vector]:
        """Return the names of all features, and their weights for each C of the path.

        If features have several weights, the norms of these are returned instead.
        """
        assert self.path is not None
        names, place = np.unique(self.weight_names, return_inverse=True)
        if len(names) == len(self.weight_names):
            return self.weight_names, self.path.coefs
        return names.tolist(), np.sqrt(self.path.coefs**2 @ np.eye(len(names))[place])


class Fit(NamedTuple):
    """The weights that a trainer found for a C."""

    trainer: Trainer
    C: float
    coef: Vector


def training_summary(result: Result, n_pairs: int, n_queries: int) -> dict[str, Any]:
    """Return the entries of a model file that describe the training."""
    return {
        "status": result.status.name.lower(),
        "objective": result.objective,
        "gradient_norm": result.gradient_norm,
        "duality_gap": result.gap,
        "accuracy": result.accuracy,
        "iterations": result.n_iter,
        "hessian_products": result.n_products,
        "seconds": round(result.seconds, 3),
        "pairs": n_pairs,
        "queries": n_queries,
    }


# --------------------------------------------------------------------------------------------------
# A second fit on the features that a first fit selected, almost without a penalty.


REFIT_RIDGE = 1e-6  #: l2 penalty of a refit, relative to the mean curvature of the loss
REFIT_TOL = 1e-4  #: largest tolerance of a refit


def refit(settings: Settings, prepared: Prepared, penalty: Penalty, coef: Vector) -> Result:
    """Minimise the loss over the weights that are not 0, with a small l2 penalty.

    Parameters
    ----------
    settings : Settings
    prepared : Prepared
        The training data.
    penalty : Penalty
        The penalty of the first fit. Its bounds also hold for the second fit.
    coef : array
        The weights of the first fit, from which the second fit starts.
    """
    used, data = np.flatnonzero(coef), prepared.data
    X = data.X[:, used] if prepared.factor is None else data.X[:, used] * prepared.factor[used]
    chosen = data.replace(X=check_matrix(X), feature_names=None)
    penalty = penalty.for_features(data.n_features, data.feature_names).for_some(used)
    tol = min(settings.solver.tol, make_solver("auto", settings.loss).tol, REFIT_TOL)
    solver = make_solver("auto", settings.loss, tol=tol, max_iter=settings.max_iter)
    engine = replace(settings, penalty=L2(), solver=solver, tol=tol).problem(chosen).engine
    curved = engine if engine.loss.smooth else engine.with_loss(SQUARED_HINGE)
    curved.value_grad(np.zeros(len(used)))
    curvature = trace_of_hessian(curved) / len(used)
    C = 1.0 / max(REFIT_RIDGE * curvature, np.finfo(float).tiny)
    result = solver.solve(Problem(engine, C, L2(bounds=penalty.limits)), coef[used])
    found = np.zeros_like(coef)
    found[used] = result.coef
    return replace(result, coef=found)


# --------------------------------------------------------------------------------------------------
# `Trainer`: from data to a model, with one C or the best of a grid.


Report = Callable[[float, Step, int], None]  #: gets C, step, and the fold (0: all of the data)

DEFAULT_CRITERION = Criterion()
ONE_PART_DOCS = 20_000  #: documents of one query from which one part is held out, instead of folds


@dataclass(frozen=True)
class Trainer(Settings):
    """Train models with given settings.

    Parameters
    ----------
    loss, tol, solver, counting, preferences, normalize, penalty, max_iter, seed, n_threads, \
engine, features, margin_scale
        See `linrank.training.settings.Settings`.
    criterion : Criterion
        The criterion by which C is chosen, and which is measured on held-out data.
    callback : callable, optional
        Called with C, a `Step`, and the number of the fold (0: all of the data) after every
        iteration.
    announce : callable, optional
        Called with values of C before they are tried.
    tell : callable, optional
        Called with values of C that were tried, and with the criterion for each of them.

    Examples
    --------
    >>> from linrank import make_ranking
    >>> from linrank.training import Trainer
    >>> data, valid = make_ranking(random_state=0), make_ranking(random_state=1)
    >>> Trainer().train(data, C=0.1).model.n_features
    20
    >>> Trainer().train_on_grid(data, valid, [0.01, 1.0]).values.shape
    (2,)
    >>> Trainer().train_by_folds(data, 3, [0.01, 1.0]).C in (0.01, 1.0)
    True
    """

    criterion: Criterion = DEFAULT_CRITERION
    callback: Report | None = None
    announce: Callable[[Vector], None] | None = None
    tell: Callable[[Vector, Vector], None] | None = None

    def train(
        self,
        data: RankingData,
        C: float | None = None,
        *,
        w0: Vector | None = None,
        valid: RankingData | None = None,
    ) -> Training:
        """Train with one C, starting from 0 or from the weights `w0` of the given features."""
        C = self.default_C if C is None else C
        if w0 is not None and len(w0) != data.n_features:
            raise DataError(
                f"the weights to start from have {len(w0)} features, but the data have "
                f"{data.n_features}. Start from a model of data with the same features."
            )
        prepared = self.prepare(data)
        if w0 is not None and prepared.steps is not None:
            w0 = prepared.steps.unfold(w0)
        callback = self.callback
        report = None if callback is None else (lambda step: callback(C, step, 0))
        problem = self._problem(prepared, C)
        result = _with_weights([self.new_solver(report).solve(problem, w0)])[0]
        value = None
        if valid is not None:
            valid = prepared.apply(valid, self.n_threads)
            scores = prepared.scores(valid, result.coef, self.n_threads)
            value = self.criterion.mean(valid, scores)
        return self._training(problem, result, C, value, prepared)

    def train_on_grid(
        self, data: RankingData, valid: RankingData, Cs: Sequence[float] | Grid | None = None
    ) -> Training:
        """Train with every C, with warm starts, and keep the best model on the held-out data.

        Parameters
        ----------
        data, valid : RankingData
        Cs : sequence of float or Grid, optional
            The grid. The default is `default_grid`, which is extended while the best C is at an
            end.
        """
        self.criterion.check(valid)
        prepared = self.prepare(data)
        valid = prepared.apply(valid, self.n_threads)
        problem = self._problem(prepared)
        results: dict[float, Result] = {}
        errors: dict[float, Vector] = {}
        interrupted = False

        def measure(Cs: Vector) -> tuple[Vector, bool]:
            nonlocal interrupted
            below = [C for C in results if Cs.min() > C]
            start = results[max(below)].coef if below else None
            # Smaller values than those before it have no place to end.
            known = None if results and Cs.max() < min(results) else grid
            path, values, interrupted = self._path(problem, prepared, valid, Cs, 0, start, known)
            results.update(zip(path.Cs.tolist(), path.results, strict=True))
            errors.update(zip(path.Cs.tolist(), values[:, 1:], strict=True))
            if self.tell is not None:
                self.tell(path.Cs, values[:, 0])
            return values[:, :1], interrupted

        grid = self._grid(problem) if Cs is None else as_grid(Cs)
        found = search(grid, self.criterion, measure, lambda C, row: error_of_folds(row, errors[C]))
        values, path = found.values[:, 0], path_of([(C, results[C]) for C in found.Cs.tolist()])
        return replace(
            self._best(problem, path, values, prepared, found, errors),
            Cs=path.Cs,
            values=values,
            fold_values=found.values,
            path=path,
            edge=found.edge,
            leans=found.leans,
            interrupted=interrupted,
        )

    def train_by_folds(
        self,
        data: RankingData,
        folds: int | Iterable[Fold] = 5,
        Cs: Sequence[float] | Grid | None = None,
        *,
        whole_path: bool = False,
    ) -> Training:
        """Choose C by folds, and train with the best one on all of the data.

        Parameters
        ----------
        data : RankingData
        folds : int or iterable of (rows, held-out rows)
            The number of folds for `make_folds`, or the parts of each fold; see `RankingData.part`.
        Cs : sequence of float or Grid, optional
            The grid, as for `train_on_grid`.
        whole_path : bool
            Also solve for the values of C above the best one on all of the data.
        """
        parts = _few_folds(data, folds) if isinstance(folds, int) else list(folds)
        errors: dict[float, list[float]] = {}
        first: Training | None = None
        n_done, cut_short = 0, False

        def measure(Cs: Vector) -> tuple[Vector, bool]:
            nonlocal first, n_done
            columns = np.empty((len(parts), len(Cs)))
            for fold, part in enumerate(parts, 1):
                values, interrupted, best = self._train_on_fold(data, part, Cs, fold, first is None)
                first = first or best
                if interrupted:
                    raise KeyboardInterrupt
                columns[fold - 1], n_done = values[:, 0], max(n_done, fold)
                for C, error in zip(Cs.tolist(), values[:, 1], strict=True):
                    errors.setdefault(C, []).append(error)
            if self.tell is not None:
                self.tell(Cs, mean_of_folds(columns.T))
            return columns.T, False

        def error_at(C: float, row: Vector) -> float:
            return error_of_folds(row, np.array(errors[C]))

        def measure_more(Cs: Vector) -> tuple[Vector, bool]:
            nonlocal cut_short
            if n_done < len(parts):
                return measure(Cs)
            try:
                return measure(Cs)
            except KeyboardInterrupt:  # keep the complete grid, and drop its extension
                cut_short = True
                return np.empty((0, len(parts))), True

        try:
            grid = self._grid(self._problem(self.prepare(data))) if Cs is None else as_grid(Cs)
            found = search(grid, self.criterion, measure_more, error_at)
            training = self._refit(data, found, whole_path)
            interrupted = training.interrupted or cut_short
            return replace(training, edge=found.edge, leans=found.leans, interrupted=interrupted)
        except KeyboardInterrupt:
            if first is None:
                raise
            return replace(first, interrupted=True, folds_done=n_done)

    def _train_on_fold(
        self, data: RankingData, part: Fold, Cs: Vector, fold: int, keep: bool
    ) -> tuple[Vector, bool, Training | None]:
        """Return the values of `_path` for one fold, and its best training if `keep` is true.

        X of the fold is freed, because two X may not fit in the memory of a graphics card.
        """
        rows, others = part
        prepared = self.prepare(data.part(rows))
        held_out = prepared.apply(data.part(others), self.n_threads)
        problem = self._problem(prepared)
        path, values, interrupted = self._path(problem, prepared, held_out, Cs, fold)
        if not keep or np.isnan(values[:, 0]).all():
            return values, interrupted, None
        return values, interrupted, self._best(problem, path, values[:, 0], prepared)

    def joined(
        self, training: Training, found: Sequence[tuple[Trainer, Training]], data: RankingData
    ) -> Training:
        """Return the best of several trainings on the data; subclasses may join them."""
        return training

    @property
    def leans(self) -> bool:
        """Whether the choice of C prefers `default_C`, which is good for most data.

        It does with the penalty ½‖w‖² and a loss that is divided by the number of pairs.
        """
        return self.normalize == "pairs" and isinstance(self.penalty, L2)

    def _grid(self, problem: Problem) -> Grid:
        """Return the values of C that are tried if the caller gives none."""
        if self.leans:
            return grid_around(problem, self.default_C)
        return default_grid(problem)

    def _refit(self, data: RankingData, found: Search, whole_path: bool) -> Training:
        """Train on all of the data with the chosen C, with warm starts from smaller values."""
        Cs, fold_values, best = found.Cs, found.values, found.chosen
        means = mean_of_folds(fold_values)
        prepared = self.prepare(data)
        problem = self._problem(prepared)
        wanted = Cs if whole_path else Cs[: best + 1]
        path = self._solutions(problem, wanted, 0)
        last = min(best, len(path) - 1)
        if last == best and not found.leans:
            error = standard_error(fold_values[best][~np.isnan(fold_values[best])])
            last = self.criterion.choose(means[: best + 1], error, path.n_features[: best + 1])
        training = self._training(problem, path.results[last], Cs[last], means[last], prepared)
        return replace(
            training,
            Cs=Cs,
            values=means,
            fold_values=fold_values,
            path=path,
            interrupted=path.interrupted or len(path) < len(wanted),
        )

    def prepare(self, data: RankingData) -> Prepared:
        """Fit the preprocessing to training data, and apply it."""
        steps = self._steps(data)
        return Prepared.of(data, steps, self.n_threads, copy=self.solver.needs.rows)

    def _steps(self, data: RankingData) -> Preprocessing | None:
        """Fit the preprocessing to training data."""
        return self.features.fit(data, self.n_threads)

    def solution(self, prepared: Prepared, C: float, start: Vector) -> Result:
        """Solve the problem of prepared data, starting from some weights."""
        return self.new_solver().solve(self._problem(prepared, C), start)

    def _problem(self, prepared: Prepared, C: float = 1.0) -> Problem:
        """Return the problem of ranking prepared data."""
        penalty = self.penalty_for(prepared)
        settings = self if penalty is self.penalty else replace(self, penalty=penalty)
        problem = settings.problem(prepared.data, C)
        if prepared.factor is None:
            return problem
        return problem.with_engine(ScaledEngine(problem.engine, prepared.factor))

    def penalty_for(self, prepared: Prepared) -> Penalty:
        """Return the penalty of the preprocessed features; costs and bounds are of given ones.

        A weight is divided by the factor of its feature, and so are its bounds. The weight of a
        position has the sign that the bounds of its feature ask for.
        """
        given, steps, penalty = prepared.given, prepared.steps, self.penalty
        if steps is None or (penalty.bounds is None and not len(steps.companions)):
            return penalty
        penalty = penalty.for_features(given.n_features, given.feature_names)
        if steps.factor is not None:
            penalty = penalty.with_units(steps.factor)
        if not len(steps.companions):
            return penalty
        return penalty.with_companions(steps.companions, steps.n_values - given.n_features)

    def nothing_selected(self, training: Training, data: RankingData) -> str | None:
        """Return a warning if all weights are 0; it names the smallest useful C, if any."""
        if (training.result.coef if training.coef is None else training.coef).any():
            return None
        if self.penalty.smooth:
            return f"all weights are 0: {NO_USEFUL_FEATURE}"
        problem = self._problem(self.prepare(data), training.C)
        least = first_C(problem)
        about = "" if problem.penalty.convex else "about "
        where = f"the smallest C that selects one is {about}{least:.6g}"
        where = where if np.isfinite(least) else NO_USEFUL_FEATURE
        return f"no feature is selected at C = {training.C:g}: {where}"

    def debias(self, training: Training, data: RankingData) -> Training:
        """Fit the loss again on the features in use, with a small l2 penalty.

        The penalty keeps the weights finite. The result is that of the second fit, so it has no
        certificate of the first fit.
        """
        prepared = self.prepare(data)
        result = refit(self, prepared, self.penalty_for(prepared), training.result.coef)
        summary = training_summary(result, training.n_pairs, data.n_queries)
        assert isinstance(training.model, LinearModel)
        model = training.model.with_coef(result.coef, **summary, debiased=True)
        interrupted = training.interrupted or result.status is Status.INTERRUPTED
        return replace(training, result=result, model=model, interrupted=interrupted)

    def _solutions(
        self,
        problem: Problem,
        Cs: Vector,
        fold: int,
        w0: Vector | None = None,
        until: Callable[[Result], bool] | None = None,
    ) -> RegularizationPath:
        callback = self.callback
        report = None if callback is None else (lambda C, step: callback(C, step, fold))
        path = regularization_path(
            problem, Cs, solver=self.solver, callback=report, w0=w0, until=until
        )
        results = _with_weights(path.results)
        return RegularizationPath(path.Cs[: len(results)], path.coefs[: len(results)], results)

    def _path(
        self,
        problem: Problem,
        prepared: Prepared,
        valid: RankingData,
        Cs: Vector,
        fold: int,
        w0: Vector | None = None,
        grid: Grid | None = None,
    ) -> tuple[RegularizationPath, Vector, bool]:
        """Return the solutions for each C, with what they measure, and whether an interrupt came.

        The second array has a row for each C: the mean of the criterion, and its standard error.
        The path ends early if `grid` is past its best value.
        """
        if self.announce is not None:
            self.announce(Cs)
        values: list[tuple[float, float]] = []
        interrupted = has_ended = False

        def until(result: Result) -> bool:
            nonlocal interrupted, has_ended
            try:
                scores = prepared.scores(valid, result.coef, self.n_threads)
                values.append(self.criterion.measure(valid, scores))
            except KeyboardInterrupt:
                interrupted = True
                return True
            better = self.criterion.greater_is_better
            means = [mean for mean, _ in values]
            has_ended = grid is not None and grid.is_past_best(means, better)
            return has_ended

        path = self._solutions(problem, Cs, fold, w0, until)
        if interrupted and all(np.isnan(mean) for mean, _ in values):
            raise KeyboardInterrupt
        found = np.full((len(path), 2), np.nan)
        found[: len(values)] = values[: len(path)] or found[:0]
        missing = len(path) < len(np.unique(Cs)) and not has_ended
        return path, found, interrupted or missing or path.interrupted

    def _best(
        self,
        problem: Problem,
        path: RegularizationPath,
        values: Vector,
        prepared: Prepared,
        found: Search | None = None,
        errors: Mapping[float, Vector] | None = None,
    ) -> Training:
        """Return the training for the chosen C; without `errors`, for the best one."""
        k = replace(self.criterion, rule="best").choose(values, 0.0, path.n_features)
        if found is not None and found.leans:
            k = found.chosen
        elif errors is not None and self.criterion.rule != "best":
            error = float(np.nan_to_num(errors[float(path.Cs[k])][0]))
            k = self.criterion.choose(values[: k + 1], error, path.n_features[: k + 1])
        return self._training(problem, path.results[k], path.Cs[k], values[k], prepared)

    def _training(
        self,
        problem: Problem,
        result: Result,
        C: float,
        value: float | None,
        prepared: Prepared,
    ) -> Training:
        engine = problem.engine
        model = self._model(prepared, result, float(C), value, engine.n_pairs)
        return Training(
            model=model,
            result=result,
            C=float(C),
            weight_names=prepared.weight_names(model.names()),
            n_pairs=engine.n_pairs,
            n_levels=prepared.given.n_levels,
            n_empty_queries=engine.n_empty_queries,
            value=None if value is None else float(value),
            interrupted=result.status is Status.INTERRUPTED,
        )

    def streamed(self, data: RankingData, coef: Vector, C: float, n_steps: int) -> LinearModel:
        """Return the model of weights that were learnt from batches; `data` is the last batch."""
        model = LinearModel(
            coef,
            feature_names=data.feature_names,
            index_base=data.index_base,
            settings=self.describe(C, data),
            training={"status": "streamed", "steps": n_steps},
        )
        model.categories = data.categories
        return model

    def _summary(
        self, prepared: Prepared, result: Result, value: float | None, n_pairs: int
    ) -> dict[str, Any]:
        """Return the outcome of the training, for the model."""
        training = training_summary(result, n_pairs, prepared.given.n_queries)
        if value is not None:
            training["held_out"] = {
                "metric": parse_metric(self.criterion.metric).name,
                "flavour": self.criterion.flavour,
                "mean": None if np.isnan(value) else float(value),
            }
        return training

    def _model(
        self, prepared: Prepared, result: Result, C: float, value: float | None, n_pairs: int
    ) -> Model:
        data = prepared.given
        model = LinearModel(
            result.coef,
            feature_names=data.feature_names,
            index_base=data.index_base,
            settings=self.describe(C, data),
            training=self._summary(prepared, result, value, n_pairs),
            preprocessing=prepared.steps,
            summary=prepared.summary(self.n_threads) if self.has_rows else None,
        )
        model.categories = data.categories
        return model


def _few_folds(data: RankingData, n_folds: int) -> list[Fold]:
    """Return folds, or only the first one if the data are a single query of many documents."""
    parts = list(make_folds(data, n_folds))
    is_one_query = most_folds(data) == data.n_docs
    return parts[:1] if is_one_query and data.n_docs >= ONE_PART_DOCS else parts


def _with_weights(results: list[Result]) -> list[Result]:
    """Return the results, without a last one that was interrupted before its first iteration."""
    if results[-1].status is Status.INTERRUPTED and results[-1].n_iter == 0:
        results = results[:-1]
    if not results:
        raise KeyboardInterrupt
    return results


# --------------------------------------------------------------------------------------------------
# Progress of training, as a text and a share of the work, for any kind of screen.


FIRST_SECONDS = 1.0  #: seconds before a status line appears; short work shows none
EVERY_SECONDS = 0.1  #: seconds between two changes of a status line


def is_watched() -> bool:
    """Return whether stderr is a terminal or belongs to a notebook."""
    return sys.stderr is not None and (hasattr(builtins, "__IPYTHON__") or sys.stderr.isatty())


class StatusLine:
    """A line on stderr that is replaced by the next text, and removed at the end."""

    def __init__(self) -> None:
        self._next = time.monotonic() + FIRST_SECONDS
        self._width = 0

    def show(self, text: str) -> None:
        """Replace the line, unless it was replaced a moment ago."""
        if time.monotonic() < self._next:
            return
        text = text[: shutil.get_terminal_size().columns - 1]
        self._write(text + " " * (self._width - len(text)))
        self._width, self._next = len(text), time.monotonic() + EVERY_SECONDS

    def clear(self) -> None:
        """Remove the line."""
        if self._width:
            self._write(" " * self._width + "\r")
            self._width = 0

    def _write(self, text: str) -> None:
        print(f"\r{text}", end="", file=sys.stderr, flush=True)


class Update(Protocol):
    """Function that changes a progress bar; arguments that are not given keep their values."""

    def __call__(self, *, completed: float = ..., total: float = ..., text: str = ...) -> None:
        """Change what the bar shows."""


class TrainingProgress:
    """Progress of training: the objective and the stopping criterion of each iteration.

    With one C, the bar shows the gradient norm on a logarithmic scale from ‖g(0)‖ to
    √tol·‖g(0)‖, or the duality gap down to tol. With a grid of C, it shows the position in the
    grid.
    """

    def __init__(self, update: Update, tol: float, n_folds: int = 0) -> None:
        self._update = update
        self._tol = tol
        self._Cs: list[float] = []
        self._n_folds = n_folds
        self._nearest = 0.0

    def expect(self, Cs: Iterable[float]) -> None:
        """Add values of C that are about to be tried."""
        self._Cs = sorted({*self._Cs, *map(float, Cs)})

    def __call__(self, C: float, step: Step, fold: int) -> None:
        """Show an iteration of the solver."""
        text = f"iteration {step.iteration}, objective {step.objective:.6g}"
        if len(self._Cs) <= 1:
            left, what = step.gradient_norm**2, f"gradient {step.gradient_norm:.1e}"
            if step.gap is not None:
                left, what = step.gap, f"duality gap {step.gap:.1e} (to {self._tol:g})"
            nearness = math.log(max(left, 1e-300)) / math.log(self._tol)
            self._nearest = max(self._nearest, min(nearness, 1.0))
            text += f", {what}"
            self._update(completed=self._nearest, total=1.0, text=text)
            return
        k = self._Cs.index(C)
        where = f"C = {format_C(C)} ({k + 1}/{len(self._Cs)})"
        if self._n_folds:
            where = f"fold {fold}/{self._n_folds}, {where}" if fold else f"all data, {where}"
        self._update(completed=k, total=len(self._Cs), text=f"{where}, {text}")


@contextmanager
def watched(trainer: Trainer, n_folds: int, verbose: bool) -> Iterator[Trainer]:
    """Show what a trainer does within a ``with`` block: a line on stderr if somebody watches.

    With `verbose`, each C that was measured is printed with its value of the metric.
    """

    def tell(Cs: Vector, values: Vector) -> None:
        line.clear()
        for C, value in zip(Cs.tolist(), values.tolist(), strict=True):
            shown = "undefined" if np.isnan(value) else f"{value:.4f}"
            print(f"C {C:<12.6g}{trainer.criterion.metric} {shown}", flush=True)

    line = StatusLine()
    tell_if_asked = tell if verbose else None
    if not is_watched():
        yield replace(trainer, tell=tell_if_asked)
        return
    shown = TrainingProgress(lambda **what: line.show(what["text"]), trainer.solver.tol, n_folds)
    try:
        yield replace(trainer, callback=shown, announce=shown.expect, tell=tell_if_asked)
    finally:
        line.clear()


# --------------------------------------------------------------------------------------------------
# The best of several trainers, such as those of different penalties.


def train_best(
    trainers: Sequence[Trainer], data: RankingData, train: Callable[[Trainer], Training]
) -> tuple[Trainer, Training]:
    """Return the trainer with the best criterion on held-out data, and its training.

    If the trainer joins fits (`Trainer.joined`), the model is made of all trainings.

    Of equal trainers, the first is returned. An interrupt ends the loop: the result is the best of
    the trainers before it, or what the first trainer has so far.

    Parameters
    ----------
    trainers : sequence of Trainer
        Trainers with the same criterion.
    data : RankingData
        The training data.
    train : callable
        Takes a trainer and returns its training, as `Trainer.train_on_grid` does.
    """
    found = [(trainers[0], train(trainers[0]))]
    interrupted = found[0][1].interrupted
    for trainer in trainers[1:]:
        if interrupted:
            break
        try:
            training = train(trainer)
            interrupted = training.interrupted
        except KeyboardInterrupt:
            interrupted = True
        if not interrupted:
            found.append((trainer, training))
    trainer, training = found[_best([one for _, one in found], trainers[0].criterion)]
    training = replace(training, interrupted=interrupted)
    return trainer, trainer.joined(training, found, data)


def _best(trainings: Sequence[Training], criterion: Criterion) -> int:
    """Return the index of the best training, among those that use features if there are any."""
    if len(trainings) == 1:
        return 0
    values = np.array([np.nan if one.value is None else one.value for one in trainings])
    n_used = np.array([one.result.n_selected for one in trainings])
    return replace(criterion, rule="best").choose(values, 0.0, n_used)
