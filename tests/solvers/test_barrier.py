"""The hinge with a penalty and few pairs: the barrier method ends at the optimum."""

from __future__ import annotations

import numpy as np
import pytest

from linrank import RankingData, make_problem
from linrank.penalties import GroupL1, make_penalty
from linrank.solvers import ProximalSmoothing


@pytest.mark.parametrize("kind", ["elastic_net", "group"])
@pytest.mark.parametrize("C", [2e4, 1e6])
def test_few_pairs_and_a_large_C_end_at_the_optimum(kind, C):
    """Smoothing alone is stuck at gaps of some percent."""
    for seed in (1, 3):
        rng = np.random.default_rng(seed)
        y = np.zeros(12)
        y[:2] = 1.0, 2.0
        groups = np.arange(9) // 3
        penalty = GroupL1(groups=groups) if kind == "group" else make_penalty(kind)
        data = RankingData(np.round(rng.standard_normal((12, 9))), y, np.zeros(12))
        problem = make_problem(data, C, loss="hinge", penalty=penalty)
        result = ProximalSmoothing(tol=1e-6).solve(problem)
        assert result.converged, (seed, result.message)
        assert result.gap <= 1.1e-6
