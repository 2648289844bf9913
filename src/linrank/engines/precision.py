"""The rounding error of the loss at given weights, and the loss in extended precision."""

from __future__ import annotations

import numpy as np

from .._binned import BinnedMatrix
from .._typing import Vector
from ..counting.explicit import ExplicitPlan
from .base import Engine
from .threads import ThreadEngine

TRIALS = 3  #: number of roundings of the scores that are tried; more trials find larger errors
MOST_PAIRS = 10**6  #: pairs that are listed for `extended_loss`; more pairs take more time
MOST_ENTRIES = 10**7  #: entries of X that `extended_loss` converts; more entries take more memory


def rounding_error(engine: Engine, w: Vector, enough: float = 0.0) -> float:
    """Estimate the error that rounding causes in the loss at w; 0 if the rows are elsewhere.

    The score Σ x_f·w_f of a document is exact to about ε·Σ |x_f·w_f| (`Engine.score_size`), where ε
    is the distance of 1 to the next number. If features have an offset, this is far more than ε
    times the score differences. The scores of all documents are
    moved by this error, up or down at random. The result is the largest change of the loss. Pair
    sums whose terms cancel change, too, because they round differently.

    If the bound 16ε·Ω·r² on the error is at most `enough`, it is returned instead, and X is not
    read. Ω is the weight of all pairs, and r bounds their margins and score differences. A pair
    adds at most r² to the loss. Its slope is at most 2r.

    Examples
    --------
    >>> from linrank import make_problem, make_ranking
    >>> data = make_ranking(random_state=0)
    >>> near = make_problem(data).engine
    >>> far = make_problem(data.replace(X=data.X + 1e8)).engine
    >>> w = np.ones(near.n_features)
    >>> rounding_error(near, w) < 1e-9 < rounding_error(far, w)
    True
    """
    if type(engine) is not ThreadEngine:  # rows in workers or on a graphics card
        return 0.0
    eps, weight = float(np.finfo(float).eps), engine.layout.total_weight()
    size = engine.score_size(w)
    reach = 1.0 + size + engine.at_zero[0] / weight
    if 16.0 * eps * weight * reach**2 <= enough:
        return 16.0 * eps * weight * reach**2
    scores, other = engine.scores(w), engine.with_loss(engine.loss)  # with a state of its own
    loss, rng = other.loss_of(scores), np.random.default_rng(0)
    changes = []
    for _ in range(TRIALS):
        move = eps * size * rng.choice((-1.0, 1.0), len(scores))
        changes += [other.loss_of(scores + move) - loss, other.loss_of(scores - move) - loss]
    return float(np.abs(changes).max())


def extended_loss(engine: Engine, w: Vector) -> float | None:
    """Compute the loss at w over listed pairs in `numpy.longdouble`.

    The result is None if there are too many pairs, or if the loss is not a sum over pairs. On
    processors whose `longdouble` is no more precise than a float, it is still more exact than the
    loss of the engine, because no terms of different pairs cancel.
    """
    if (
        type(engine) is not ThreadEngine
        or not engine.loss.pairwise
        or isinstance(engine.data.X, BinnedMatrix)
        or engine.n_pairs > MOST_PAIRS
        or engine.n_entries > MOST_ENTRIES
    ):
        return None
    plan, wide = engine.list_pairs().plan, np.longdouble
    assert isinstance(plan, ExplicitPlan)
    n_listed = np.diff(plan.query_nodes)
    start = np.repeat(plan.query_ptr[:-1], n_listed)
    scores = engine.data.X.astype(wide) @ w.astype(wide)
    t = scores[start + plan.upper] - scores[start + plan.lower]
    if len(plan.shift):
        t = t - plan.shift
    weight = np.repeat(plan.query_weight, n_listed).astype(wide)
    if len(plan.weight):
        weight = weight * plan.weight
    if engine.loss.exact:
        return float(weight @ np.logaddexp(wide(0.0), -t))
    value = np.zeros_like(t)
    for tau, a, c in engine.loss.table.tolist():
        gap = np.maximum(wide(0.0), tau - t)
        value += (a + c * gap) * gap
    return float(weight @ value)
