"""A second fit on the features that a first fit selected, almost without a penalty."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .._typing import Vector
from ..data.checks import check_matrix
from ..data.ranking import RankingData
from ..losses.pairwise import SQUARED_HINGE
from ..penalties.base import Penalty
from ..penalties.l2 import L2
from ..problem import Problem
from ..settings import Settings
from ..solvers.fista import trace_of_hessian
from ..solvers.registry import make_solver
from ..solvers.result import Result

REFIT_RIDGE = 1e-6  #: l2 penalty of a refit, relative to the mean curvature of the loss
REFIT_TOL = 1e-4  #: largest tolerance of a refit


def refit(settings: Settings, data: RankingData, penalty: Penalty, coef: Vector) -> Result:
    """Minimise the loss over the weights that are not 0, with a small l2 penalty.

    Parameters
    ----------
    settings : Settings
    data : RankingData
        Preprocessed training data.
    penalty : Penalty
        The penalty of the first fit. Its bounds also hold for the second fit.
    coef : array
        The weights of the first fit, from which the second fit starts.
    """
    used = np.flatnonzero(coef)
    chosen = data.replace(X=check_matrix(data.X[:, used]), feature_names=None)
    penalty = penalty.for_features(data.n_features, data.feature_names).for_some(used)
    tol = min(settings.tol, REFIT_TOL)
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
