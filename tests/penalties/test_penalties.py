"""Penalties by their definitions: values on a grid, numeric slopes, brute-force minima."""

from __future__ import annotations

import numpy as np
import pytest

from linrank import DataError
from linrank.penalties import L1, MCP, PENALTIES, SCAD, ElasticNet, Log, Lp, make_penalty

pytestmark = pytest.mark.interpreted

#: Each penalty with parameters for a weak and a strong effect.
ALL = [
    L1(),
    ElasticNet(ratio=0.3),
    ElasticNet(ratio=1.0),
    MCP(),
    MCP(gamma=0.3),
    SCAD(),
    SCAD(a=2.1),
    Log(),
    Log(epsilon=2.0),
    Lp(),
    Lp(p=0.1),
    Lp(p=0.9),
]
CONCAVE = [penalty for penalty in ALL if not penalty.convex]
NAMES = {"L2", "NoPenalty", "L1", "ElasticNet", "MCP", "SCAD", "Log", "Lp", "GroupL1"}


def name_of(penalty):
    parameter = penalty.parameter
    return type(penalty).__name__ + (f"-{getattr(penalty, parameter)}" if parameter else "")


each = pytest.mark.parametrize("penalty", ALL, ids=name_of)


def slow_curve(penalty, u):
    """g(u) of one number, from the formulas of the papers; λ = 1."""
    kind = type(penalty)
    if kind is L1:
        return u
    if kind is ElasticNet:
        return penalty.ratio * u + (1 - penalty.ratio) * u**2 / 2
    if kind is MCP:
        gamma = penalty.gamma
        return u - u**2 / (2 * gamma) if u <= gamma else gamma / 2
    if kind is SCAD:
        a = penalty.a
        if u <= 1:
            return u
        return (2 * a * u - u**2 - 1) / (2 * (a - 1)) if u <= a else (a + 1) / 2
    return np.log(1 + u / penalty.epsilon) if kind is Log else u**penalty.p


@each
def test_value_is_the_sum_over_features(penalty):
    w = np.array([0.0, -0.4, 1.5, -2.6, 9.0])
    beta = np.array([1.0, 2.0, 0.5, 1.0, 3.0])
    known = type(penalty)(**vars(penalty) | {"weights": beta}).for_features(5)
    expected = sum(b * slow_curve(penalty, abs(x)) for b, x in zip(beta, w, strict=True))
    assert known.value(w) == pytest.approx(expected, rel=1e-12)
    assert penalty.for_features(5).value(np.zeros(5)) == 0.0


@each
def test_slope_is_the_derivative(penalty):
    u = np.array([0.01, 0.2, 0.6, 1.3, 2.4, 3.5, 8.0])
    h = 1e-6
    numeric = (penalty.curve(u + h) - penalty.curve(u - h)) / (2 * h)
    np.testing.assert_allclose(penalty.slope(u), numeric, rtol=1e-5, atol=1e-8)
    at_zero = (penalty.curve(np.array([1e-9])) - 0.0) / 1e-9
    if isinstance(penalty, Lp):
        assert penalty.slope(np.zeros(1)) == np.inf
    else:
        np.testing.assert_allclose(penalty.slope(np.zeros(1)), at_zero, rtol=1e-6)


@pytest.mark.parametrize("penalty", CONCAVE, ids=name_of)
def test_concave_penalties_lie_below_their_tangents(penalty):
    """Reweighting needs g(u) ≤ g(u₀) + g'(u₀)(u − u₀)."""
    u = np.linspace(0.0, 10.0, 200)
    at = np.array([0.05, 0.5, 1.0, 2.5, 6.0])[:, None]
    tangent = penalty.curve(at) + penalty.slope(at) * (u - at)
    assert (penalty.curve(u) <= tangent + 1e-12).all()


@each
@pytest.mark.parametrize("step", [1e-3, 0.1, 0.5, 1.0, 2.0, 3.0, 20.0])
def test_prox_is_the_minimum_of_a_fine_grid(penalty, step):
    """No point of a grid has a smaller ½(v − z)² + step·Ω(v) than the result."""
    known = penalty.for_features(1)
    for z in (0.0, 1e-8, 0.02, 0.05, 0.3, 0.9, 1.0, 1.1, 1.9, 2.0, 2.2, 3.7, 4.0, 7.0):
        grid = np.linspace(0.0, z, 20_001)
        best = (0.5 * (grid - z) ** 2 + step * penalty.curve(grid)).min()
        for signed in (z, -z):
            found = known.prox(np.array([signed]), step)[0]
            assert found * signed >= 0
            assert abs(found) <= z
            value = 0.5 * (found - signed) ** 2 + step * known.value(np.array([found]))
            assert value <= best * (1 + 1e-12) + 1e-15


@pytest.mark.parametrize("penalty", [MCP(), SCAD(), SCAD(a=2.1)], ids=name_of)
@pytest.mark.parametrize("C", [0.2, 5.0])
def test_lambda_is_a_unit_of_length(penalty, C):
    """With λ = 1/C, g_λ(λu) = λ·g(u): values, slopes and proximal points follow."""
    known, scaled = penalty.for_features(30), penalty.at(C).for_features(30)
    u = np.linspace(0.0, 6.0, 30)
    np.testing.assert_allclose(scaled.curve(u / C), known.curve(u) / C, rtol=1e-12)
    np.testing.assert_allclose(scaled.slope(u / C), known.slope(u), rtol=1e-9, atol=1e-12)
    for step in (0.1, 0.7, 1.5, 3.0):
        near = scaled.prox(u / C, step / C) * C
        np.testing.assert_allclose(near, known.prox(u, step), rtol=1e-9, atol=1e-12)


def test_defaults_are_those_of_the_papers():
    assert (MCP().gamma, SCAD().a, Log().epsilon, Lp().p) == (2.0, 3.7, 0.1, 0.5)
    assert ElasticNet().ratio == 0.5


@each
def test_a_description_makes_the_same_penalty(penalty):
    described = type(penalty)(**vars(penalty) | {"weights": [0.5, 2.0]}).describe()
    again = make_penalty(described["name"], described["shape"], described["weights"])
    assert again.describe() == described
    assert described["weights"] == [0.5, 2.0]
    assert penalty.describe()["weights"] is None
    w = np.array([0.3, -1.2])
    assert again.for_features(2).value(w) == pytest.approx(
        0.5 * slow_curve(penalty, 0.3) + 2.0 * slow_curve(penalty, 1.2)
    )


@each
def test_prices_are_slopes_times_costs(penalty):
    known = type(penalty)(**vars(penalty) | {"weights": [0.0, 0.5, 3.0]}).for_features(3)
    w = np.array([0.7, -0.7, 0.7])
    slope = penalty.slope(np.array([0.7]))[0]
    np.testing.assert_allclose(known.prices(w), [0.0, 0.5 * slope, 3.0 * slope], rtol=1e-15)


@each
def test_prox_leaves_the_derivative_at_zero(penalty):
    """Between 0 and z the result solves v − z + step·g'(v) = 0, more exactly than a grid."""
    known = penalty.for_features(40)
    z = np.linspace(0.05, 8.0, 40)
    for step in (0.01, 0.2, 1.3):
        v = known.prox(z, step)
        inside = v > 0
        assert inside.any()
        residual = v - z + step * penalty.slope(v)
        np.testing.assert_allclose(residual[inside], 0.0, atol=1e-9)


@each
def test_prox_takes_weights_and_steps(penalty):
    beta = np.array([0.5, 1.0, 3.0, 2.0])
    known = type(penalty)(**vars(penalty) | {"weights": beta}).for_features(4)
    z, steps = np.array([1.5, -2.5, 4.0, -0.7]), np.array([1.0, 0.2, 0.7, 0.1])
    one = penalty.for_features(1)
    each_alone = [one.prox(z[[j]], steps[j] * beta[j])[0] for j in range(4)]
    np.testing.assert_allclose(known.prox(z, steps), each_alone, rtol=1e-12)


@pytest.mark.parametrize("penalty", [L1(), ElasticNet(ratio=0.3), ElasticNet(ratio=1.0)])
def test_convex_penalties_are_the_sum_of_their_parts(penalty):
    beta, w = np.array([0.5, 0.0, 3.0, 2.0]), np.array([1.5, -2.5, 0.0, -0.7])
    known = type(penalty)(**vars(penalty) | {"weights": beta}).for_features(4)
    l1, l2 = known.parts()
    assert known.value(w) == pytest.approx(l1 @ np.abs(w) + 0.5 * l2 @ w**2, rel=1e-12)


def test_one_weight_is_for_all_features():
    np.testing.assert_array_equal(L1(weights=2.0).for_features(3).weights, [2.0, 2.0, 2.0])


@each
def test_distance_is_zero_at_critical_points_only(penalty):
    known = penalty.for_features(3)
    w = np.array([0.7, -2.4, 0.0])
    slope = penalty.slope(np.abs(w))
    inside = min(0.4 * slope[2], 1e6)  # g'(0) may be infinite
    gradient = np.array([-slope[0], slope[1], inside])
    np.testing.assert_allclose(known.distance(w, gradient), 0.0, atol=1e-15)
    away = known.distance(w, gradient + np.array([0.25, 0.0, 0.0]))
    np.testing.assert_allclose(away, [0.25, 0.0, 0.0], atol=1e-15)
    away = known.distance(w, gradient * np.array([1.0, -1.0, 1.0]))
    np.testing.assert_allclose(away, [0.0, 2 * slope[1], 0.0], atol=1e-15)
    if np.isfinite(slope[2]):
        away = known.distance(w, np.array([-slope[0], slope[1], -slope[2] - 0.5]))
        np.testing.assert_allclose(away, [0.0, 0.0, 0.5], atol=1e-12)


@each
def test_the_prox_stays_at_a_critical_point(penalty):
    """If −gradient is in the subdifferential, a small proximal step does not move."""
    known = penalty.for_features(3)
    w = np.array([0.9, -2.2, 0.0])
    slope = penalty.slope(np.abs(w))
    gradient = np.array([-slope[0], slope[1], min(0.9 * slope[2], 0.9)])
    for step in (1e-3, 1e-2):
        np.testing.assert_allclose(known.prox(w - step * gradient, step), w, rtol=1e-12)


@pytest.mark.parametrize(
    "penalty",
    [pytest.param(penalty, id=name_of(penalty)) for penalty in ALL],
)
def test_a_feature_of_weight_zero_is_free(penalty):
    known = type(penalty)(**vars(penalty) | {"weights": [0.0, 1.0]}).for_features(2)
    w = np.array([3.0, 0.5])
    assert known.value(w) == pytest.approx(slow_curve(penalty, 0.5))
    assert known.prox(w, 1.0)[0] == 3.0
    assert known.distance(w, np.array([-0.3, 0.0]))[0] == pytest.approx(0.3)
    assert known.distance(np.zeros(2), np.array([-0.3, 0.0]))[0] == pytest.approx(0.3)


@pytest.mark.parametrize("kind", [MCP, SCAD])
def test_these_take_lambda_from_C(kind):
    penalty = kind().at(4.0)
    assert penalty.strength == 0.25
    u = np.linspace(0.0, 3.0, 50)
    plain = kind()
    np.testing.assert_allclose(penalty.slope(u), plain.slope(4.0 * u), rtol=1e-12)
    np.testing.assert_allclose(penalty.curve(u), 0.25 * plain.curve(4.0 * u), rtol=1e-12)


@pytest.mark.parametrize("penalty", [L1(), ElasticNet(), Log(), Lp()], ids=name_of)
def test_others_do_not_depend_on_C(penalty):
    assert penalty.at(4.0) is penalty


def test_limits_between_penalties():
    """For some parameters, two penalties are equal."""
    u = np.linspace(0.0, 3.0, 50)
    np.testing.assert_array_equal(ElasticNet(ratio=1.0).curve(u), L1().curve(u))
    np.testing.assert_allclose(MCP(gamma=1e9).curve(u), u, rtol=1e-8)
    np.testing.assert_allclose(Log(epsilon=1e9).curve(u) * 1e9, u, rtol=1e-8)


def test_every_name_makes_its_penalty():
    assert {type(make_penalty(name)).__name__ for name in PENALTIES} == NAMES
    assert make_penalty("mcp", 3.0).gamma == 3.0
    assert make_penalty("l1", weights=[1.0, 2.0]).weights == [1.0, 2.0]
    with pytest.raises(DataError, match="penalty is 'l3'; known choices are 'l2', 'none', 'l1'"):
        make_penalty("l3")
    with pytest.raises(DataError, match="penalty='l1' has no parameter, but shape is 2"):
        make_penalty("l1", 2)


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("lp", 0.0, "p is 0.0; expected a number between 0 and 1"),
        ("lp", 1.0, "p is 1.0; expected a number between 0 and 1"),
        ("lp", float("nan"), "p is nan; expected a number between 0 and 1"),
        ("mcp", 0.0, "gamma is 0.0; expected a number above 0"),
        ("mcp", -1, "gamma is -1; expected a number above 0"),
        ("mcp", "2", "gamma is '2'; expected a number above 0"),
        ("log", 0.0, "epsilon is 0.0; expected a number above 0"),
        ("log", float("inf"), "epsilon is inf; expected a number above 0"),
        ("scad", 2.0, "a is 2.0; expected a number above 2"),
        ("elastic_net", 0.0, "ratio is 0.0; expected a number between 0 and 1"),
        ("elastic_net", 1.5, "ratio is 1.5; expected a number between 0 and 1"),
    ],
)
def test_bad_parameters_get_a_sentence(name, value, sentence):
    with pytest.raises(DataError) as error:
        make_penalty(name, value)
    assert str(error.value) == sentence


@pytest.mark.parametrize(
    ("weights", "sentence"),
    [
        ([1.0, 2.0], r"feature costs have shape \(2,\), but there are 3 features"),
        ([[1.0, 2.0, 3.0]], r"feature costs have shape \(1, 3\), but there are 3 features"),
        ([1.0, -2.0, 1.0], "feature cost 1 is -2.0; expected finite numbers ≥ 0"),
        ([1.0, 2.0, np.nan], "feature cost 2 is nan; expected finite numbers ≥ 0"),
        ([np.inf, 2.0, 1.0], "feature cost 0 is inf; expected finite numbers ≥ 0"),
        (["a", "b", "c"], "feature costs cannot be read as numbers"),
    ],
)
def test_bad_weights_get_a_sentence(weights, sentence):
    with pytest.raises(DataError, match=sentence):
        L1(weights=weights).for_features(3)


def test_weights_are_copied():
    """Later changes of the caller's array do not change the penalty."""
    beta = np.ones(2)
    penalty = L1(weights=beta).for_features(2)
    beta[:] = 5.0
    assert penalty.value(np.ones(2)) == 2.0
