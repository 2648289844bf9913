"""The design of additive rankers: knots, positions of values, and columns of the bases."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numba.core import config
from scipy import sparse
from scipy.interpolate import BSpline

import reference
from linrank import DataError, RankingData
from linrank.choices import BASES
from linrank.features.basis import (
    FORMS,
    Axis,
    fit_axis,
    level_axis,
    make_columns,
    ordered_axis,
    split_axis,
)
from linrank.features.design import BLOCK_ROWS, COUNTED, DesignSteps, choose_storage, find_positions

pytestmark = pytest.mark.interpreted

EXAMPLES = 15 if config.DISABLE_JIT else 60
KINDS = {
    "normal": lambda rng, n: rng.standard_normal(n),
    "heavy tails": lambda rng, n: rng.standard_cauchy(n) ** 3,
    "huge": lambda rng, n: rng.choice([-1.0, 1.0], n) * 10.0 ** rng.uniform(-300, 300, n),
    "denormal": lambda rng, n: rng.integers(0, 40, n) * 5e-324,
    "offset": lambda rng, n: 1e8 + 1e-7 * rng.integers(0, 100, n),
    "mass points": lambda rng, n: rng.standard_normal(n) * (rng.random(n) < 0.1),
    "integers": lambda rng, n: rng.geometric(0.2, n).astype(float),
    "two values": lambda rng, n: rng.integers(0, 2, n).astype(float),
    "constant": lambda rng, n: np.full(n, 3.7),
}

lists = st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=60)


def draw(kind, n=300, seed=0):
    return KINDS[kind](np.random.default_rng(seed), n)


# Knots -------------------------------------------------------------------------------------


def check_ordered(values, n_bins):
    knots = fit_axis(values, n_bins, "ramp", False).knots
    distinct = np.array(reference.merged_values(np.clip(values, -4e307, 4e307)))
    assert (np.diff(knots) > 0).all()
    assert len(knots) <= n_bins + 1
    assert reference.merged_values(knots) == knots.tolist()
    if np.abs(values).max() <= 1e307:
        assert np.isin(knots, distinct).all()
        assert knots[0] == distinct[0]
        assert knots[-1] == pytest.approx(distinct[-1], rel=1e-6)
    if len(distinct) <= n_bins + 1:
        assert len(knots) == len(distinct)


def check_split(values, n_bins):
    knots = fit_axis(values, n_bins, "step", False).knots
    assert (np.diff(knots) > 0).all()
    assert len(knots) <= n_bins - 1
    if np.abs(values).max() <= 1e307:
        cells = np.searchsorted(knots, values, side="right")
        assert len(np.unique(cells)) == len(knots) + 1  # no interval is empty
        n_distinct = len(reference.merged_values(values))
        assert len(knots) == min(n_bins, n_distinct) - 1 or len(knots) < n_bins - 1


@settings(max_examples=EXAMPLES)
@given(lists, st.integers(1, 12))
@example([-1.7e308, 1.7e308, 0.0], 2)
@example([5e-324, 0.0, 1e-323], 2)
@example([0.0, -0.0], 3)
def test_knots_of_any_values(values, n_bins):
    check_ordered(np.array(values), n_bins)
    check_split(np.array(values), n_bins)
    levels = level_axis(np.array([v for v in values if abs(v) < 1e307])).knots
    assert (np.diff(levels) > 0).all()
    assert set(levels.tolist()) == {v for v in values if abs(v) < 1e307}


@pytest.mark.parametrize("n_bins", [1, 2, 8, 40])
@pytest.mark.parametrize("kind", KINDS)
def test_knots_of_every_kind(kind, n_bins):
    values = draw(kind)
    check_ordered(values, n_bins)
    check_split(values, n_bins)


@pytest.mark.parametrize("basis", ["ramp", "step"])
def test_values_that_differ_by_rounding_have_no_jump_between_them(basis):
    alike = [[1.0, np.nextafter(1.0, 2.0)], [0.1, np.float32(0.1)], [0.0, 1e-60], [7.0, 7.000001]]
    for pair in alike:
        values = np.array([*pair, *pair, -5.0, 50.0])
        cells = fit_axis(values, 8, basis, False).cells(np.array(pair, np.float64))
        assert cells[0] == cells[1]
    offset = 1e8 + draw("normal")  # in single precision, these are one value
    assert len(fit_axis(offset, 8, basis, False).knots) >= 7


def test_knots_are_quantiles():
    values = draw("normal", 4001)
    found = ordered_axis(values, 8).knots
    np.testing.assert_allclose(found, np.quantile(values, np.linspace(0, 1, 9)), atol=0.01)
    cells = np.bincount(np.searchsorted(split_axis(values, 8).knots, values, side="right"))
    assert cells.max() - cells.min() <= 2


@pytest.mark.parametrize("where", [-5.0, 0.0, 5.0])
def test_a_frequent_value_takes_one_interval(where):
    """The other intervals divide the other values evenly, wherever the frequent one is."""
    values = np.append(np.full(9000, where), draw("normal", 1000))
    knots = ordered_axis(values, 8).knots
    others = np.histogram(values[values != where], knots)[0]
    assert len(knots) >= 8
    assert np.sort(others)[-2:].max() <= 260
    steps = split_axis(values, 8).knots
    assert len(steps) >= 6


# Positions ---------------------------------------------------------------------------------


def make_axes(X, basis, n_bins=6):
    axes = [fit_axis(x[~np.isnan(x)], n_bins, basis, f == 1) for f, x in enumerate(X.T)]
    return [Axis([]), *axes[1:]]  # a feature that had no values in training


def as_single(X):
    """X in single precision, without infinite values."""
    largest = float(np.finfo(np.float32).max)
    return np.clip(X, -largest, largest).astype(np.float32)


def around(knots):
    """The knots, the numbers next to them, and numbers far away."""
    near = [np.nextafter(knots, -np.inf), knots, np.nextafter(knots, np.inf)]
    return np.concatenate([*near, [np.nan, 0.0, -1e308, 1e308]])


def make_values(n=2 * BLOCK_ROWS + 7):
    rng = np.random.default_rng(0)
    X = np.column_stack([
        rng.standard_normal(n), rng.integers(0, 9, n), rng.standard_normal(n), draw("offset", n),
        draw("mass points", n), draw("constant", n), draw("denormal", n), draw("huge", n),
        draw("two values", n), rng.lognormal(0, 2, n), np.where(rng.random(n) < 0.3, 0, 1e-40),
    ])  # fmt: skip
    X[rng.random(X.shape) < 0.05] = np.nan
    return X


@pytest.mark.parametrize("form", ["dense64", "dense32", "csr64", "csr32"])
@pytest.mark.parametrize("n_bins", [1, 6, COUNTED, 60])
@pytest.mark.parametrize("basis", BASES)
def test_positions_are_those_of_the_slow_twin(basis, n_bins, form):
    X = make_values() if n_bins == 6 else make_values(70)
    axes = make_axes(X, basis, n_bins)
    for f, axis in enumerate(axes):
        values = around(axis.knots)[: len(X)]
        X[: len(values), f] = values
    X = as_single(X) if form.endswith("32") else X
    expected = reference.positions_of_values(X, axes, basis)
    matrix = sparse.csr_array(X) if form.startswith("csr") else X
    for threads in (1, 2):
        found = find_positions(matrix, axes, basis, choose_storage(axes, basis, len(X)), threads)
        assert found.dtype == (np.uint8 if basis == "step" else np.float32)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("basis", ["ramp", "spline"])
def test_positions_of_many_values_have_16_bits(basis, form, monkeypatch):
    X = make_values()
    axes = make_axes(X, basis, 6)
    for f, axis in enumerate(axes):
        values = around(axis.knots)[: len(X)]
        X[: len(values), f] = values
    expected = reference.positions_of_values(X, axes, basis, fixed=True)
    monkeypatch.setattr("linrank.features.design.MANY", X.size)
    storage = choose_storage(axes, basis, len(X))
    assert storage is np.uint16
    assert choose_storage(axes, basis, len(X) - 1) is np.float32
    assert choose_storage([*axes, Axis(np.arange(20.0))], basis, len(X)) is np.float32
    assert choose_storage(axes, basis, len(X), n_more=1) is np.float32
    found = find_positions(sparse.csr_array(X) if form == "csr" else X, axes, basis, storage)
    np.testing.assert_array_equal(found, expected)


def test_many_levels_do_not_fit_in_a_byte():
    X = np.arange(300.0)[:, None]
    axes = [level_axis(X[:, 0])]
    X = np.append(X, [[-1.0], [np.nan]], axis=0)
    found = find_positions(X, axes, "step", choose_storage(axes, "step", len(X)))
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found[0], np.arange(302))


def test_positions_do_not_leave_their_bins():
    """A value just below a knot has a position just below that of the knot."""
    knots = np.array([0.0, 1.0, 1e3, 1e300])
    x = np.nextafter(knots[1:], -np.inf)[:, None]
    found = find_positions(x, [Axis(knots)], "ramp", np.float32)
    np.testing.assert_array_equal(np.floor(found), [[0.0, 1.0, 2.0]])
    np.testing.assert_allclose(found, [[1.0, 2.0, 3.0]], rtol=3e-7)
    found = find_positions(x, [Axis(knots)], "ramp", np.uint16)
    np.testing.assert_array_equal(found, [[4095, 8191, 12287]])


# Columns -----------------------------------------------------------------------------------


def values_of(axis, basis, columns, x):
    """Return the columns at some values, by the slow twins."""
    positions = reference.positions_of_values(x[:, None], [axis], basis).astype(np.float64)
    return reference.columns_of_bins(positions, [columns.shape])


@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("kind", KINDS)
def test_columns_rise_from_0_to_1(kind, basis):
    axis = fit_axis(draw(kind), 6, basis, False)
    x = np.sort(np.append(draw(kind, 400, seed=1), axis.knots))
    X = values_of(axis, basis, make_columns(axis, basis), x)
    assert (np.diff(X, axis=0) >= -1e-12).all()
    below, above = x[0] - 1 - abs(x[0]), x[-1] + 1 + abs(x[-1])
    ends = values_of(axis, basis, make_columns(axis, basis), np.array([below, above]))
    np.testing.assert_allclose(ends, np.array([[0.0], [1.0]]) + 0 * ends, atol=1e-12)
    n = {"ramp": max(0, len(axis.knots) - 1), "step": len(axis.knots)}
    assert X.shape[1] == n.get(basis, len(axis.knots) + 1 if len(axis.knots) > 1 else 0)


@settings(max_examples=EXAMPLES)
@given(st.integers(2, 12), st.floats(0, 1e4), st.sampled_from(BASES), st.integers(0, 99))
def test_smoothness_is_a_change_of_variables(n_bins, smooth, basis, seed):
    rng = np.random.default_rng(seed)
    axis = fit_axis(rng.standard_normal(50), n_bins, basis, False)
    rises, columns = make_columns(axis, basis), make_columns(axis, basis, smooth)
    phi = rng.standard_normal(columns.shape.shape[2])
    table, n = (columns.shape @ phi).ravel(), len(phi)
    theta = np.linalg.lstsq(rises.shape.reshape(-1, n), table, rcond=None)[0]
    np.testing.assert_allclose(rises.shape.reshape(-1, n) @ theta, table, atol=1e-8)
    expected = theta @ theta + smooth * np.sum(np.diff(theta) ** 2)
    assert phi @ phi == pytest.approx(expected, rel=1e-6)


@settings(max_examples=EXAMPLES)
@given(st.sampled_from(FORMS), st.sampled_from(["ramp", "step"]), st.integers(0, 999))
def test_forms_of_admissible_weights(form, basis, seed):
    rng = np.random.default_rng(seed)
    axis = fit_axis(rng.lognormal(0, 2, 40), int(rng.integers(1, 9)), basis, False)
    if basis == "step" and ("conv" in form or "conc" in form):
        with pytest.raises(DataError, match="needs basis='ramp'"):
            make_columns(axis, basis, form=form)
        return
    columns = make_columns(axis, basis, form=form)
    n = columns.shape.shape[2]
    w = np.clip(rng.standard_normal(n) * rng.integers(0, 2, n), columns.low, columns.high)
    values = (columns.shape @ w)[0]
    check_form(form, axis.knots, values, 1e-9 * max(1.0, np.ptp(values)))


def check_form(form, knots, values, room):
    """Check a curve that is given by its values at knots, or in the cells of a step function."""
    rises = np.diff(values)
    if "increasing" in form:
        assert (rises >= -room).all()
    if "decreasing" in form:
        assert (rises <= room).all()
    if "conv" in form or "conc" in form:
        bends = np.diff(rises / np.diff(knots)) * np.minimum(*near_lengths(knots))
        assert ((bends if "convex" in form else -bends) >= -room).all()


def near_lengths(knots):
    lengths = np.diff(knots)
    return lengths[:-1], lengths[1:]


@pytest.mark.parametrize("form", FORMS)
def test_every_curve_of_a_form_has_admissible_weights(form):
    """Some curve of the form is a combination of the columns, with weights within the limits."""
    axis = Axis([0.0, 1.0, 3.0, 4.0])
    slope = {"": [-1.0, 0.0, 2.0], "increasing": [0.0, 1.0, 2.0], "decreasing": [-3.0, -2.0, 0.0]}
    slopes = np.array(slope[form.split()[0] if "creasing" in form else ""])
    slopes = slopes[::-1] if "concave" in form else slopes
    values = np.append(0.0, np.cumsum(slopes * np.diff(axis.knots)))
    columns = make_columns(axis, "ramp", form=form)
    w, *_ = np.linalg.lstsq(columns.shape[0], values, rcond=None)
    np.testing.assert_allclose(columns.shape[0] @ w, values, atol=1e-12)
    assert ((w >= columns.low - 1e-12) & (w <= columns.high + 1e-12)).all()


@pytest.mark.parametrize("kind", ["normal", "heavy tails", "offset", "two values", "integers"])
def test_splines_are_those_of_scipy(kind):
    axis = fit_axis(draw(kind), 7, "spline", False)
    knots = axis.knots
    rng, n = np.random.default_rng(0), len(knots) + 1
    w = rng.standard_normal(n)
    coefs = np.append(0.0, np.cumsum(w))
    spline = BSpline(np.concatenate([knots[:1]] * 3 + [knots] + [knots[-1:]] * 3), coefs, 3)
    pieces = make_columns(axis, "spline").shape @ w
    for cell, (a, b) in enumerate(pairwise(knots), 1):
        x = np.clip(np.linspace(a, b, 9), a, b)
        own = pieces[:, cell] @ ((x - a) / (b - a)) ** np.arange(4)[:, None]
        np.testing.assert_allclose(own, spline(x), atol=1e-9)
    np.testing.assert_allclose(pieces[:, -1], [coefs[-1], 0, 0, 0], atol=1e-12)
    np.testing.assert_array_equal(pieces[:, 0], 0.0)


def test_splines_have_continuous_second_derivatives():
    axis = fit_axis(draw("normal"), 7, "spline", False)
    pieces, widths = make_columns(axis, "spline").shape, np.diff(axis.knots)
    for cell, (a, b) in enumerate(pairwise(widths), 1):
        one, two = pieces[:, cell], pieces[:, cell + 1]
        np.testing.assert_allclose(one.sum(axis=0), two[0], atol=1e-10)
        np.testing.assert_allclose(
            (one[1] + 2 * one[2] + 3 * one[3]) / a, two[1] / b, atol=1e-8 / min(a, b)
        )
        np.testing.assert_allclose(
            (2 * one[2] + 6 * one[3]) / a**2, 2 * two[2] / b**2, atol=1e-8 / min(a, b) ** 2
        )


@pytest.mark.parametrize("basis", BASES)
def test_levels_have_a_column_each(basis):
    axis = level_axis(np.array([3.0, 7.0, 9.0]))
    X = values_of(axis, basis, make_columns(axis, basis), np.array([9.0, 3.0, 5.0, 7.0]))
    np.testing.assert_array_equal(X, [[0, 0, 1], [1, 0, 0], [0, 0, 0], [0, 1, 0]])


# Designs -----------------------------------------------------------------------------------


def make_data(n=90, seed=0):
    rng = np.random.default_rng(seed)
    X = make_values(n)
    X[:, 2] = np.nan  # all missing
    X[:, 3] = rng.standard_normal(n)  # none missing
    return RankingData(X, rng.integers(0, 3, n), np.arange(n) // 9, allow_missing=True)


@pytest.mark.parametrize("basis", BASES)
def test_columns_of_missing_values(basis):
    """Other columns have the mean 0 over the documents with a value, and are 0 without one."""
    data = make_data()
    design, columns = DesignSteps(6, basis, levels=["2"]).fit(data)
    dense = columns.X.toarray()
    assert not np.isnan(dense).any()
    assert not columns.has_missing
    for f, x in enumerate(data.X.T):
        own, lacks = dense[:, design.owner == f], np.isnan(x)
        if lacks.all():
            assert own.shape[1] == 0
        elif lacks.any():
            np.testing.assert_array_equal(own[:, -1], lacks)
            np.testing.assert_array_equal(own[lacks, :-1], 0.0)
            np.testing.assert_allclose(own[~lacks, :-1].mean(axis=0), 0.0, atol=1e-6)
        else:
            assert (own >= -1e-6).all()


@pytest.mark.parametrize("basis", BASES)
def test_principal_columns_are_turned_and_uncorrelated(basis):
    """Distances of documents stay, and so do columns of levels and of curves with a form."""
    data, forms = make_data(), {"4": "increasing"} if basis != "spline" else {}
    steps = DesignSteps(6, basis, 10.0, levels=["2"], forms=forms)
    given, turned = (replace(steps, turned=one).fit(data) for one in (False, True))
    before, after = given[1].X.toarray(), turned[1].X.toarray()
    for f in range(data.n_features):
        old, new = before[:, given[0].owner == f], after[:, turned[0].owner == f]
        if f == 1 or str(f + 1) in forms:
            np.testing.assert_array_equal(new, old)
            continue
        old = old - old.mean(axis=0)
        np.testing.assert_allclose(new @ new.T, old @ old.T, atol=1e-5)
        covariance = new.T @ new
        np.testing.assert_allclose(covariance, np.diag(np.diag(covariance)), atol=1e-4)


@pytest.mark.parametrize("basis", BASES)
def test_missing_values_that_training_did_not_have_count_as_the_mean(basis):
    data = make_data()
    design, columns = DesignSteps(6, basis).fit(data)
    own = columns.X.toarray()[:, design.owner == 3]
    X = np.full((1, data.n_features), np.nan)
    new = design.matrix(X, has_missing=True).toarray()[0, design.owner == 3]
    np.testing.assert_allclose(new, own.mean(axis=0), atol=1e-6)


@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("form", ["dense64", "dense32", "csr64"])
def test_moments_and_storage(basis, form):
    """Designs of all storages are equal; moments are sums over the documents of a bin."""
    data = make_data()
    X = as_single(np.where(np.isnan(data.X), 0.0, data.X))
    matrix = {"dense64": X.astype(float), "dense32": X, "csr64": sparse.csr_array(X.astype(float))}
    design, columns = DesignSteps(6, basis).fit(
        RankingData(matrix[form], data.y, np.arange(90) // 9), n_threads=2
    )
    for j, row in enumerate(columns.X.positions.astype(float)):
        own = np.zeros_like(design.moments[j])
        for z in row:
            own[:, int(z)] += (z - int(z)) ** np.arange(len(own))
        np.testing.assert_allclose(design.moments[j], own, atol=1e-9)
        axis = fit_axis(X[:, j].astype(float), 6, basis, False)
        np.testing.assert_array_equal(design.axes[j].knots, axis.knots)


def test_knots_come_from_a_sample_of_many_documents(monkeypatch):
    monkeypatch.setattr("linrank.features.design.FITTED_ROWS", 50)
    X = np.random.default_rng(0).standard_normal((1000, 19))
    design, _ = DesignSteps(4).fit(RankingData(X, np.arange(1000), np.zeros(1000)), n_threads=2)
    rows = np.linspace(0, 999, 50).astype(int)
    for x, axis in zip(X[rows].T, design.axes, strict=True):
        np.testing.assert_array_equal(axis.knots, ordered_axis(x, 4).knots)
