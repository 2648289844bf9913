"""Model files of LIBLINEAR, SVMrank and SVMlight."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np

from .._util.types import Vector
from ..errors import DataError
from .formula import LinearFormula, check_single_precision, require_linear


def write_liblinear(formula: LinearFormula) -> str:
    """Write a model file for LIBLINEAR's ``predict``, whose output are the scores.

    The file says that it is a regression model, because LIBLINEAR prints the values of such models
    instead of a class. Features are numbered from 1 in the order of the model.
    """
    require_linear(formula, "a LIBLINEAR model file")
    weights = np.zeros(len(formula.names))
    weights[list(formula.terms)] = [term.weight for term in formula.terms.values()]
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


# --------------------------------------------------------------------------------------------------
# Model files of SVMrank and SVMlight, with a linear kernel.


def write_svmrank(formula: LinearFormula, *, version: str = "V6.20") -> str:
    """Write a model file for ``svm_rank_classify``.

    The weights are one support vector with the coefficient 1, as SVMrank writes them. SVMrank
    holds them in single precision. Features are numbered from 1 in the order of the model.

    Parameters
    ----------
    formula : LinearFormula
    version : str
        SVMlight's version in the first line; programs refuse files of another version.
        SVMrank 1.00 has V6.20, and SVMlight 6.02 has V6.02.
    """
    require_linear(formula, "an SVMrank model file")
    if not re.fullmatch(r"V[0-9.]+", version):
        raise DataError(f"version is {version!r}; expected a version of SVMlight, such as 'V6.20'")
    for term in formula.terms.values():
        check_single_precision(term.weight, term.name, "SVMrank")
    vector = " ".join(f"{j + 1}:{formula.terms[j].weight:.9g}" for j in formula.columns)
    return (
        f"SVM-light Version {version}\n"
        "0 # kernel type\n"
        "3 # kernel parameter -d \n"
        "1 # kernel parameter -g \n"
        "1 # kernel parameter -s \n"
        "1 # kernel parameter -r \n"
        "empty# kernel parameter -u \n"
        f"{len(formula.names)} # highest feature index \n"
        "1 # number of training documents \n"
        "2 # number of support vectors plus 1 \n"
        f"{-formula.constant or 0.0:.17g} # threshold b, each following line is a SV (starting "
        "with alpha*y)\n"
        f"1 {vector} #\n"
    )


def weights_in_float32(formula: LinearFormula, X: Any, **_: object) -> Vector:
    """Score rows with weights and values in single precision, as SVMlight holds them."""
    with np.errstate(over="ignore"):
        rounded = {
            column: term._replace(weight=float(np.float32(term.weight)))
            for column, term in formula.terms.items()
        }
        return replace(formula, terms=rounded).scores(X.astype(np.float32))
