"""`Training`: a trained model, with the result of the solver and the choice of C."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._typing import Vector
from ..grid import Edge
from ..model import Model
from ..path import RegularizationPath
from ..solvers.result import Result


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
    coef : float64 array or None
        The weights of the model, if it is a mean of several fits.
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
    coef: Vector | None = None

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


def training_summary(result: Result, n_pairs: int, n_queries: int) -> dict[str, Any]:
    """Return the entries of a model file that describe the training."""
    return {
        "status": result.status.name.lower(),
        "objective": result.objective,
        "gradient_norm": result.gradient_norm,
        "duality_gap": result.gap,
        "iterations": result.n_iter,
        "hessian_products": result.n_products,
        "seconds": round(result.seconds, 3),
        "pairs": n_pairs,
        "queries": n_queries,
    }
