"""Pairwise losses by name, each as a table of hinges.

A pairwise loss is a function ℓ of the score difference t of a pair,

    ℓ(t) = Σ_m a_m·max(0, τ_m − t) + c_m·max(0, τ_m − t)².

Its table has a row ``(τ_m, a_m, c_m)`` for each hinge m. To add a loss, add its name to
`PairwiseName` and its rows to `TABLES`. This module imports neither numpy nor numba, so that the
command line starts fast.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

Hinge: TypeAlias = tuple[float, float, float]  #: (τ, a, c)

#: The names of the pairwise losses.
PairwiseName = Literal["squared_hinge", "hinge", "huber", "logistic", "logistic_exact"]
#: The names of the listwise losses.
DominationName = Literal["domination", "domination_binary"]
#: The names of all losses.
LossName = Literal[PairwiseName, DominationName]


LOGISTIC_ERROR = 0.0029  #: largest difference between the loss "logistic" and log(1 + exp(−t))


def _from_steps(edges: Sequence[float], heights: Sequence[float]) -> tuple[Hinge, ...]:
    """Return the loss whose second derivative is ∝ heights[k] for edges[k − 1] < |t| < edges[k].

    The slope of the loss goes from −1 to 0.
    """
    widths = [edge - before for before, edge in zip((0.0, *edges), edges, strict=False)]
    area = 2 * sum(height * width for height, width in zip(heights, widths, strict=True))
    drops = [high - low for high, low in zip(heights, (*heights[1:], 0.0), strict=True)]
    curvatures = [0.5 * drop / area for drop in drops]
    right = [(edge, 0.0, c) for edge, c in zip(edges, curvatures, strict=True)]
    left = [(-edge, 0.0, -c) for edge, c in zip(edges, curvatures, strict=True)]
    return (*right, *left)


TABLES: Mapping[PairwiseName, tuple[Hinge, ...]] = {
    # ℓ(t) = max(0, 1 − t)²: L2-loss RankSVM (Chapelle & Keerthi 2010; Lee & Lin 2014, eq. 3).
    "squared_hinge": ((1.0, 0.0, 1.0),),
    # ℓ(t) = max(0, 1 − t): L1-loss RankSVM (Joachims 2002; Lee & Lin 2014, eq. 2).
    "hinge": ((1.0, 1.0, 0.0),),
    # ℓ(t) = max(0, 1 − t)² − max(0, −t)²: quadratic, then linear (Chapelle & Keerthi 2010, §4.1).
    "huber": ((1.0, 0.0, 1.0), (0.0, 0.0, -1.0)),
    # ℓ(t) ≈ log(1 + exp(−t)), the loss of RankNet, to within `LOGISTIC_ERROR` for every t. The
    # second derivative is a step function with three heights on each side of 0, which were
    # chosen for the smallest error.
    "logistic": _from_steps(
        (1.4063788, 3.09072961, 5.99650972), (0.22881683, 0.08792983, 0.01035597)
    ),
    # ℓ(t) = log(1 + exp(−t)) is not a sum of hinges. Its pairs are listed one by one.
    "logistic_exact": (),
}
