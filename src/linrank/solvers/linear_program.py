"""The hinge with an l1 penalty as a linear program, for few pairs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from .._typing import Vector
from ..engines.threads import ThreadEngine
from ..problem import Problem
from .dual import DualPairs, dual_pairs

MOST_PAIRS = 2000  #: pairs of a linear program; 1,400 pairs of 50 features take half a second
MOST_ENTRIES = 10**6  #: pairs times features of a linear program


class Optimum(NamedTuple):
    """The weights of a linear program, and what its multipliers prove.

    Attributes
    ----------
    w : float64 array of shape (n_features,)
    gradient : float64 array of shape (n_features,)
        −Σ_p α_p x̃_p, a subgradient of C·L for the multipliers α of the pairs.
    bound : float
        A lower bound on the optimum of the problem.
    """

    w: Vector
    gradient: Vector
    bound: float


def is_small_program(problem: Problem) -> bool:
    """Return whether the problem is a linear program of few pairs, and has a lower bound."""
    engine, penalty = problem.engine, problem.penalty
    return (
        isinstance(engine, ThreadEngine)
        and engine.loss.single
        and not engine.loss.smooth
        and penalty.norm_part() is None
        and not penalty.parts()[1].any()
        and bool(penalty.weights.all())
        and engine.n_pairs <= MOST_PAIRS
        and engine.n_pairs * engine.n_features <= MOST_ENTRIES
    )


def solve_program(problem: Problem) -> Optimum | None:
    """Solve a problem of `is_small_program` by the simplex method; None if that fails.

    With w = u − v and a slack ξ_p for each pair, the program is

        min β'(u + v) + Σ_p U_p ξ_p    subject to    x̃_p'(u − v) + ξ_p ≥ m_p,

    where m_p is the margin and U_p is C times the weight of the pair. The multipliers α of the
    constraints, moved into 0 ≤ α ≤ U, are a point of the dual problem. The bound is therefore
    right even if the program is solved badly.
    """
    from scipy.optimize import linprog  # takes long to import

    engine, penalty = problem.engine, problem.penalty
    assert isinstance(engine, ThreadEngine)
    pairs = dual_pairs(engine, problem.C)
    rows = _differences(engine, pairs)
    n, d = rows.shape
    l1, free = penalty.parts()[0], np.full(d, np.inf)
    low, high = penalty.limits or (-free, free)
    found = linprog(
        np.concatenate([l1, l1, pairs.limit]),
        A_ub=sparse.hstack([-rows, rows, -sparse.eye_array(n)], format="csc"),
        b_ub=-pairs.margin,
        bounds=np.column_stack(
            [
                np.maximum(0.0, np.concatenate([low, -high, np.zeros(n)])),
                np.maximum(0.0, np.concatenate([high, -low, np.full(n, np.inf)])),
            ]
        ),
        method="highs",
    )
    if found.x is None or not np.isfinite(found.x).all():
        return None
    alpha = np.clip(-found.ineqlin.marginals, 0.0, pairs.limit)
    gradient = -(rows.T @ alpha)
    bound = penalty.best_dual(float(alpha @ pairs.margin), 0.0, gradient, 1.0)
    return Optimum(problem.clip(found.x[:d] - found.x[d : 2 * d]), gradient, bound)


def _differences(engine: ThreadEngine, pairs: DualPairs) -> sparse.csr_array:
    """Return the difference x̃_p of the two rows of each pair, as a sparse matrix."""
    X = engine.data.X
    X = sparse.csr_array(X if sparse.issparse(X) or isinstance(X, np.ndarray) else X.toarray())
    return (X[pairs.upper] - X[pairs.lower]).astype(np.float64)
