"""`Trainer`: from data to a model, with one C or the best of a grid."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._rows import multiply
from .._typing import Vector
from ..criterion import Criterion, Fold, make_folds, mean_of_folds, standard_error
from ..data.ranking import RankingData
from ..errors import DataError
from ..features.prepared import Prepared
from ..grid import Grid, as_grid, default_grid, search
from ..metrics import parse_metric
from ..model import LinearModel, Model
from ..path import (
    NO_USEFUL_FEATURE,
    RegularizationPath,
    first_C,
    path_of,
    regularization_path,
)
from ..penalties.base import Penalty
from ..problem import Problem
from ..settings import Settings
from ..solvers.result import Result, Status, Step
from .outcome import Training, training_summary
from .refit import refit

Report = Callable[[float, Step, int], None]  #: gets C, step, and the fold (0: all of the data)

DEFAULT_CRITERION = Criterion()


@dataclass(frozen=True)
class Trainer(Settings):
    """Train models with given settings.

    Parameters
    ----------
    loss, tol, solver, counting, preferences, normalize, penalty, max_iter, seed, n_threads, \
engine, features, margin_scale
        See `linrank.settings.Settings`.
    criterion : Criterion
        The criterion by which C is chosen, and which is measured on held-out data.
    callback : callable, optional
        Called with C, a `Step`, and the number of the fold (0: all of the data) after every
        iteration.
    announce : callable, optional
        Called with values of C before they are tried.

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

    def train(
        self,
        data: RankingData,
        C: float = 1.0,
        *,
        w0: Vector | None = None,
        valid: RankingData | None = None,
    ) -> Training:
        """Train with one C, starting from 0 or from the weights `w0` of the given features."""
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
            value = self.criterion.mean(valid, multiply(valid.X, result.coef, self.n_threads))
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
        interrupted = False

        def measure(Cs: Vector) -> tuple[Vector, bool]:
            nonlocal interrupted
            below = [C for C in results if Cs.min() > C]
            start = results[max(below)].coef if below else None
            path, values, interrupted = self._path(problem, valid, Cs, 0, start)
            results.update(zip(path.Cs.tolist(), path.results, strict=True))
            return values[:, None], interrupted

        grid = self._grid(problem) if Cs is None else as_grid(Cs)
        found = search(grid, self.criterion, measure)
        values, path = found.values[:, 0], path_of([(C, results[C]) for C in found.Cs.tolist()])
        return replace(
            self._best(problem, path, values, prepared, valid),
            Cs=path.Cs,
            values=values,
            fold_values=found.values,
            path=path,
            edge=found.edge,
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
        parts = list(make_folds(data, folds) if isinstance(folds, int) else folds)
        first: Training | None = None
        n_done = 0
        cut_short = False

        def measure(Cs: Vector) -> tuple[Vector, bool]:
            nonlocal first, n_done
            columns = np.empty((len(parts), len(Cs)))
            for fold, (rows, others) in enumerate(parts, 1):
                prepared = self.prepare(data.part(rows))
                held_out = prepared.apply(data.part(others), self.n_threads)
                problem = self._problem(prepared)
                path, values, interrupted = self._path(problem, held_out, Cs, fold)
                if first is None and not np.isnan(values).all():
                    first = self._best(problem, path, values, prepared)
                if interrupted:
                    raise KeyboardInterrupt
                columns[fold - 1], n_done = values, max(n_done, fold)
                del problem, prepared  # two X may not fit in the memory of a graphics card
            return columns.T, False

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
            found = search(grid, self.criterion, measure_more)
            training = self._refit(data, found.Cs, found.values, whole_path)
            interrupted = training.interrupted or cut_short
            return replace(training, edge=found.edge, interrupted=interrupted)
        except KeyboardInterrupt:
            if first is None:
                raise
            return replace(first, interrupted=True, folds_done=n_done)

    def joined(
        self, training: Training, trainings: Sequence[Training], data: RankingData
    ) -> Training:
        """Return the best of several trainings on the data; subclasses may join them."""
        return training

    def _grid(self, problem: Problem) -> Grid:
        """Return the values of C that are tried if the caller gives none."""
        return default_grid(problem)

    def _refit(
        self, data: RankingData, Cs: Vector, fold_values: Vector, whole_path: bool
    ) -> Training:
        """Train on all of the data with the chosen C, with warm starts from smaller values."""
        means = mean_of_folds(fold_values)
        best = self.criterion.best(means)
        prepared = self.prepare(data)
        problem = self._problem(prepared)
        wanted = Cs if whole_path else Cs[: best + 1]
        path = self._solutions(problem, wanted, 0)
        last = min(best, len(path) - 1)
        if last == best:
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
        steps = self.features.fit(data, self.n_threads)
        if steps is None:
            return Prepared(data, None, data)
        return Prepared(data, steps, steps.apply_to(data, self.n_threads))

    def _problem(self, prepared: Prepared, C: float = 1.0) -> Problem:
        """Return the problem of ranking prepared data."""
        penalty = self._penalty(prepared)
        settings = self if penalty is self.penalty else replace(self, penalty=penalty)
        return settings.problem(prepared.data, C)

    def _penalty(self, prepared: Prepared) -> Penalty:
        """Return the penalty of the preprocessed features; costs and bounds are of given ones."""
        if prepared.steps is None or not len(prepared.steps.indicators):
            return self.penalty
        given = prepared.given
        penalty = self.penalty.for_features(given.n_features, given.feature_names)
        return penalty.with_companions(prepared.steps.indicators)

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
        result = refit(self, prepared.data, self._penalty(prepared), training.result.coef)
        summary = training_summary(result, training.n_pairs, data.n_queries)
        assert isinstance(training.model, LinearModel)
        model = training.model.with_coef(result.coef, **summary, debiased=True)
        interrupted = training.interrupted or result.status is Status.INTERRUPTED
        return replace(training, result=result, model=model, interrupted=interrupted)

    def _solutions(
        self, problem: Problem, Cs: Vector, fold: int, w0: Vector | None = None
    ) -> RegularizationPath:
        callback = self.callback
        report = None if callback is None else (lambda C, step: callback(C, step, fold))
        path = regularization_path(problem, Cs, solver=self.solver, callback=report, w0=w0)
        results = _with_weights(path.results)
        return RegularizationPath(path.Cs[: len(results)], path.coefs[: len(results)], results)

    def _path(
        self,
        problem: Problem,
        valid: RankingData,
        Cs: Vector,
        fold: int,
        w0: Vector | None = None,
    ) -> tuple[RegularizationPath, Vector, bool]:
        """Return the solutions and their values for each C, and whether an interrupt came."""
        if self.announce is not None:
            self.announce(Cs)
        path = self._solutions(problem, Cs, fold, w0)
        values = np.full(len(path), np.nan)
        try:
            for k, coef in enumerate(path.coefs):
                values[k] = self.criterion.mean(valid, multiply(valid.X, coef, self.n_threads))
        except KeyboardInterrupt:
            if np.isnan(values).all():
                raise
            return path, values, True
        return path, values, len(path) < len(np.unique(Cs)) or path.interrupted

    def _best(
        self,
        problem: Problem,
        path: RegularizationPath,
        values: Vector,
        prepared: Prepared,
        valid: RankingData | None = None,
    ) -> Training:
        """Return the training for the chosen C; rule 1se measures the error on `valid`."""
        k = replace(self.criterion, rule="best").choose(values, 0.0, path.n_features)
        if valid is not None and self.criterion.rule != "best":
            scores = multiply(valid.X, path.coefs[k], self.n_threads)
            error = self.criterion.standard_error(valid, scores)
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
        return LinearModel(
            coef,
            feature_names=data.feature_names,
            index_base=data.index_base,
            settings=self.describe(C),
            training={"status": "streamed", "steps": n_steps},
        )

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
        return LinearModel(
            result.coef,
            feature_names=data.feature_names,
            index_base=data.index_base,
            settings=self.describe(C),
            training=self._summary(prepared, result, value, n_pairs),
            preprocessing=prepared.steps,
            summary=prepared.summary(self.n_threads) if self.has_rows else None,
        )


def _with_weights(results: list[Result]) -> list[Result]:
    """Return the results, without a last one that was interrupted before its first iteration."""
    if results[-1].status is Status.INTERRUPTED and results[-1].n_iter == 0:
        results = results[:-1]
    if not results:
        raise KeyboardInterrupt
    return results
