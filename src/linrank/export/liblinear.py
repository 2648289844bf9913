"""Model files of LIBLINEAR."""

from __future__ import annotations

import numpy as np

from .linear import LinearFormula, require_linear


def write_liblinear(formula: LinearFormula) -> str:
    """Write a model file for LIBLINEAR's ``predict``, whose output are the scores.

    The file says that it is a regression model, because LIBLINEAR prints the values of such models
    instead of a class. Features are numbered from 1 in the order of the model.
    """
    require_linear(formula, "a LIBLINEAR model file")
    weights = np.zeros(len(formula.names))
    weights[list(formula.columns)] = [term.weight for term in formula.terms]
    lines = [
        "solver_type L2R_L2LOSS_SVR",
        "nr_class 2",
        f"nr_feature {len(weights)}",
        f"bias {1 if formula.constant else -1}",
        "w",
        *map(repr, weights.tolist()),
    ]
    if formula.constant:
        lines.append(repr(formula.constant))
    return "\n".join(lines) + "\n"
