"""The scaled engine gives what the engine of a scaled copy of X gives."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from linrank import make_ranking
from linrank.engines.engine import ScaledEngine
from linrank.engines.threads import extended_loss, rounding_error, slope_error
from linrank.losses import get_loss
from linrank.problem import make_problem
from linrank.solvers import make_solver

FACTOR = np.array([0.25, 4.0, 1e-3, 32.0, 1.0])


def engines(form, loss, **options):
    """Return the scaled engine, and the engine of a scaled copy."""
    data = make_ranking(30, docs_per_query=(3, 9), n_features=5, n_levels=3, random_state=0)
    raw = data.X / FACTOR
    given, copied = (
        data.replace(X=sparse.csr_array(X) if form == "csr" else X) for X in (raw, raw * FACTOR)
    )
    scaled = ScaledEngine(make_problem(given, loss=loss, **options).engine, FACTOR)
    return scaled, make_problem(copied, loss=loss, **options).engine


@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("loss", ["squared_hinge", "hinge", "domination"])
def test_it_is_the_engine_of_a_scaled_copy(form, loss):
    scaled, copied = engines(form, loss)
    rng = np.random.default_rng(0)
    w, v = rng.standard_normal((2, 5))
    close = {"rtol": 1e-9, "atol": 1e-9}

    def both(take):
        np.testing.assert_allclose(take(scaled), take(copied), **close)

    assert scaled.last is None
    both(lambda engine: np.append(*engine.value_grad(w)[::-1]))
    assert np.array_equal(scaled.last[0], w)
    if scaled.loss.smooth:
        both(lambda engine: engine.hessp(v))
        both(lambda engine: engine.hessian())
        both(lambda engine: engine.hessian(20, np.array([3, 1])))
        both(lambda engine: engine.hessian_diagonal())
        both(lambda engine: engine.hessian_of_documents(60))
        both(lambda engine: engine.total_curvature())
    if scaled.loss.pairwise:
        both(lambda engine: engine.gaps(w))
        both(lambda engine: extended_loss(engine, w))
        assert slope_error(scaled, w) == pytest.approx(slope_error(copied, w), rel=1e-6)
    both(lambda engine: engine.scores(w))
    both(lambda engine: engine.score_size(w))
    both(lambda engine: engine.score_spread(w))
    both(lambda engine: engine.row_size)
    both(lambda engine: engine.at_zero)
    assert rounding_error(scaled, w) == pytest.approx(rounding_error(copied, w), rel=30, abs=1e-9)
    both(lambda engine: engine.line(w, v)(0.5))
    assert scaled.last is None  # the state of the engine is that of the line
    both(lambda engine: engine.sample(50).value_grad(w)[1])
    assert scaled.sample(1) is None
    assert scaled.makes_hessian_by_level == copied.makes_hessian_by_level


def test_another_loss_forgets_the_old_one():
    scaled, copied = engines("dense", "squared_hinge")
    w = np.linspace(-1.0, 1.0, 5)
    start = scaled.at_zero
    for engine in (scaled, copied):
        engine.value_grad(w)
        engine.change_loss(get_loss("squared_hinge"))
    assert scaled.last is None
    assert scaled.at_zero == start
    other = scaled.with_loss(get_loss("huber"))
    expected = copied.with_loss(get_loss("huber")).value_grad(w)
    assert other.value_grad(w)[0] == pytest.approx(expected[0])
    np.testing.assert_allclose(other.value_grad(w)[1], expected[1])


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge", "logistic", "domination"])
@pytest.mark.parametrize("name", ["auto", "tron", "lbfgs", "cutting-planes"])
def test_solvers_reach_the_optimum_of_the_scaled_copy(name, loss):
    if name == "cutting-planes" and loss == "domination":
        return
    if name in ("tron", "lbfgs") and loss == "hinge":
        return
    scaled, copied = engines("dense", loss, normalize="pairs")
    best = make_solver("auto", copied.loss, tol=1e-9).solve(problem_of(copied))
    found = make_solver(name, scaled.loss, tol=1e-5).solve(problem_of(scaled))
    assert best.objective * (1 - 1e-8) <= found.objective <= best.objective * (1 + 1e-4)
    assert found.objective * (1 - found.gap) <= best.objective * (1 + 1e-8)
    assert found.gap <= 1e-3


def problem_of(engine):
    return make_problem(engine.data, 10.0).with_engine(engine)
