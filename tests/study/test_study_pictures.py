"""Pictures of a study show every result once, and can be read on any page and in print."""

from __future__ import annotations

from itertools import pairwise

import matplotlib
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.colors import same_color, to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text

from linrank.plots import COLOURS, STYLE, WIDTH, result_plots, study_plots
from linrank.plots.study_plots import line, marker, over_folds, short_names

DATA_SETS = ["Ohsumed", "MQ2008", "MQ2007", "HP2004", "NP2004", "a long name of a data set, $TD_4"]
TWELVE = ["RankSVM", "l1", "log", "MCP", "ℓ_0.5", "FenchelRank", "FSMRank", "RankBoost", "AdaRank",
          "ListNet", "LambdaMART", "best single feature"]  # fmt: skip
CROWD = [f"_método muy largo, coûte $x^2_{k}$ числа {k}" for k in range(16)]
DARK = {
    "text.color": "#fefefe", "axes.labelcolor": "#fefefe", "xtick.color": "#fefefe",
    "ytick.color": "#fefefe", "axes.edgecolor": "#fefefe", "grid.color": "#333333",
}  # fmt: skip
CS = 2.0 ** np.arange(-6, 3)


@pytest.fixture(autouse=True)
def style():
    with matplotlib.rc_context(STYLE):
        yield


def new_figure(height: float = 4.0) -> Figure:
    return Figure(figsize=(WIDTH, height), layout="constrained")


def some_results(n_data_sets: int, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    values = 0.4 + 0.01 * rng.standard_normal((n_data_sets, n))
    return rng.beta(2, 3, (n_data_sets, n)), values


def tradeoff(names, n_data_sets=6):
    sparsity, values = some_results(n_data_sets, len(names))
    sets = DATA_SETS[:n_data_sets]
    return study_plots.draw_tradeoff(new_figure(), names, sets, sparsity, values, metric="MAP")


def removed(names, n_data_sets=6):
    sparsity = some_results(n_data_sets, len(names))[0]
    return study_plots.draw_removed(new_figure(), names, DATA_SETS[:n_data_sets], sparsity)


def dots(names):
    return removed(names, n_data_sets=2)


def along_C(names):
    rng = np.random.default_rng(0)
    found = [rng.random((3, 5, len(CS))) for _ in names]
    grids, chosen = [CS] * len(names), [[CS[k % len(CS)]] for k in range(len(names))]
    values, counts, seconds = ([f[i] * 100**i for f in found] for i in range(3))
    return study_plots.draw_along_C(
        new_figure(), names, grids, values, counts, seconds, metric="ndcg@10", chosen=chosen
    )


def convergence(names):
    distances = [10.0 ** -np.arange(3 + k) for k in range(len(names))]
    seconds = [np.arange(len(d)) * 2.0**k for k, d in enumerate(distances)]
    products = [np.arange(len(d)) * 7.0 for d in distances]
    return study_plots.draw_convergence(new_figure(), names, distances, seconds, products)


def differences(names):
    found = np.round(np.random.default_rng(0).normal(0.01, 0.1, 1692), 2)
    figure = new_figure()
    study_plots.draw_differences(
        figure.subplots(), (names[0], names[-1]), found, metric="MAP", interval=(-0.001, 0.02)
    )
    return figure


def cutoffs(names):
    figure = new_figure()
    values = np.random.default_rng(0).random((len(names), 10))
    study_plots.draw_cutoffs(figure.subplots(), names, range(1, 11), values)
    return figure


def critical_difference(names):
    n = len(names)
    figure = new_figure(study_plots.height_of_ranks(n))
    groups = [(k, k + 1) for k in range(n - 1)]
    study_plots.draw_critical_difference(figure.subplots(), names, np.arange(n) + 1.0, 1.5, groups)
    return figure


def pareto(names):
    figure = new_figure()
    costs, values = some_results(2, len(names))
    costs, front = 1000 ** costs[0], np.arange(len(names)) < 3
    study_plots.draw_pareto(
        figure.subplots(), names, costs, values[0], front, cost="time (s)", metric="MAP"
    )
    return figure


ALL = [tradeoff, removed, dots, along_C, convergence, differences, cutoffs, critical_difference,
       pareto]  # fmt: skip


def visible_texts(figure: Figure) -> list[Text]:
    """Return all texts that are seen. Ticks beyond the limits of an axis are not."""
    figure.draw_without_rendering()
    ticks = {
        label
        for ax in figure.axes
        for axis in (ax.xaxis, ax.yaxis)
        for tick in (*axis.majorTicks, *axis.minorTicks)
        for label in (tick.label1, tick.label2)
        if not axis.get_view_interval().min() <= tick.get_loc() <= axis.get_view_interval().max()
    }
    off = {label for ax in figure.axes if not ax.axison
           for axis in (ax.xaxis, ax.yaxis) for label in axis.findobj(Text)}  # fmt: skip
    texts = [t for t in figure.findobj(Text) if t.get_text().strip() and t.get_visible()]
    return [text for text in texts if text not in ticks | off]


def boxes_of(texts: list[Text]) -> np.ndarray:
    """Return x0, y0, x1 and y1 of each text, in points."""
    dpi = texts[0].figure.dpi
    renderer = RendererAgg(1, 1, dpi)
    return np.array([Text.get_window_extent(t, renderer).extents for t in texts]) * 72 / dpi


def overlaps(boxes: np.ndarray) -> np.ndarray:
    """Return the smaller side of the rectangle that each two boxes share; negative if none."""
    low = np.maximum(boxes[:, None, :2], boxes[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
    shared = (high - low).min(axis=2)
    np.fill_diagonal(shared, -np.inf)
    return shared


@pytest.mark.parametrize("names", [["RankSVM"], TWELVE, CROWD], ids=["one", "twelve", "crowd"])
@pytest.mark.parametrize("draw", ALL, ids=lambda draw: draw.__name__)
def test_methods_are_named_and_texts_fit_and_do_not_overlap(draw, names):
    figure = draw(names)
    texts = visible_texts(figure)
    boxes = boxes_of(texts)
    width, height = figure.get_size_inches() * 72
    beyond = (boxes < -1.0).any(axis=1) | (boxes[:, 2] > width + 1) | (boxes[:, 3] > height + 1)
    assert [text for text, out in zip(texts, beyond, strict=True) if out] == []
    pairs = [(texts[i], texts[j]) for i, j in np.argwhere(overlaps(boxes) > 1.5)]
    assert pairs == []
    shown = " ".join(text.get_text() for text in texts)
    expected = [names[0], names[-1]] if draw is differences else names
    length = {differences: 20}.get(draw, 24)
    assert [name for name in short_names(expected, length) if name not in shown] == []


@pytest.mark.parametrize("draw", ALL, ids=lambda draw: draw.__name__)
def test_dark_pages_have_no_black(draw):
    """Texts and lines have the colours of the page, or of the palette without its black."""
    with matplotlib.rc_context(DARK):
        figure = draw(TWELVE)
    assert all(same_color(text.get_color(), "#fefefe") for text in visible_texts(figure))
    allowed = {c.lower() for c in (*COLOURS[:-1], "#fefefe", "#333333")}
    drawn = {to_hex(artist.get_color()) for artist in figure.findobj(Line2D)}
    assert drawn <= allowed


def test_sixteen_methods_differ_without_colours():
    marks = [(m["marker"], m["markerfacecolor"] == "none") for m in map(marker, range(16))]
    assert len(set(marks)) == 16
    styles = [(s["color"], s["linestyle"]) for s in map(line, range(16))]
    assert len(set(styles)) == 16


@given(st.lists(st.text(), unique=True, max_size=20))
def test_short_names_differ_if_the_names_do(names):
    found = short_names(names)
    assert len(found) == len(names) == len(set(found))


def test_over_folds_ignores_missing_folds():
    values = np.array([[1.0, np.nan, np.nan], [3.0, np.nan, 5.0]])
    mean, low, high = over_folds(values)
    np.testing.assert_array_equal(mean, [2.0, np.nan, 5.0])
    np.testing.assert_array_equal(low, [1.0, np.nan, 5.0])
    np.testing.assert_array_equal(high, [3.0, np.nan, 5.0])


def test_tradeoff_has_a_panel_for_each_data_set_and_a_mark_for_each_result():
    sparsity, values = some_results(3, 4)
    values[0, 1], sparsity[0, 2], values[2] = np.nan, np.nan, np.nan
    figure = study_plots.draw_tradeoff(
        new_figure(), list("abcd"), DATA_SETS[:3], sparsity, values, metric="$MAP_1"
    )
    first, second, third = figure.axes
    assert [len(ax.texts) for ax in figure.axes] == [2, 4, 0]
    mean = np.mean(values[0, [0, 3]])  # of the results that are drawn
    assert first.get_title(loc="left") == f"Ohsumed (dotted: mean {mean:.4f})"
    assert third.get_title(loc="left") == "MQ2007: no results"
    assert first.get_ylabel() == r"\$MAP_1"
    colours = [text.get_text() for text in second.texts]
    assert sorted(colours) == list("abcd")
    drawn = [to_hex(mark.get_color()) for mark in first.lines if mark.get_marker() != "None"]
    assert drawn == [COLOURS[0].lower(), COLOURS[3].lower()]  # d keeps its colour


def test_equal_points_have_two_labels():
    same = np.full((1, 2), 0.5)
    figure = study_plots.draw_tradeoff(
        new_figure(), ["first", "second"], ["MQ2007"], same, same, metric="MAP"
    )
    assert {text.get_text() for text in figure.axes[0].texts} == {"first", "second"}
    assert overlaps(boxes_of(figure.axes[0].texts)).max() < 0


@pytest.mark.parametrize("value", [0.6180, 0.6200, 0.6220, 0.6240, 0.6244, 0.6250])
def test_labels_of_neighbours_are_nearest_to_their_own_points(value):
    names = ["adarank:map", "sparse:log", "ranksvm:C=0.01"]
    sparsity, values = np.array([[0.09, 0.13, 0.87]]), np.array([[0.6250, value, 0.6152]])
    figure = study_plots.draw_tradeoff(new_figure(), names, ["set"], sparsity, values, metric="MAP")
    (ax,) = figure.axes
    texts = [text for text in ax.texts if text.get_text() in names]
    at = ax.transData.transform([text.xy for text in texts]) * 72 / figure.dpi
    for k, (text, box) in enumerate(zip(texts, boxes_of(texts), strict=True)):
        gaps = np.hypot(*np.maximum(0.0, np.maximum(box[:2] - at, at - box[2:])).T)
        assert text.arrow_patch.get_visible() or np.delete(gaps, k).min() > gaps[k] + 3.0


def test_names_that_do_not_fit_are_numbered_in_a_legend():
    figure = tradeoff(CROWD)
    for ax in figure.axes:
        assert sorted(int(text.get_text()) for text in ax.texts) == list(range(1, 17))
    (legend,) = figure.legends
    numbers = [text.get_text().split()[0] for text in legend.get_texts()]
    assert numbers == [str(k) for k in range(1, 17)]
    assert not tradeoff(TWELVE[:3]).legends


def test_radars_show_removed_features_and_close():
    sparsity = np.array([[0.1, np.nan], [0.2, np.nan], [0.4, np.nan]])
    figure = study_plots.draw_removed(new_figure(), ["a", "b"], DATA_SETS[:3], sparsity)
    (ax,) = figure.axes
    assert ax.name == "polar"
    (drawn,) = ax.lines
    np.testing.assert_allclose(drawn.get_ydata(), [0.9, 0.8, 0.6, 0.9])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a"]


@pytest.mark.parametrize("n_data_sets", [1, 2])
def test_few_data_sets_are_rows_of_dots(n_data_sets):
    (ax,) = removed(TWELVE, n_data_sets).axes
    assert ax.name == "rectilinear"
    assert len(ax.lines) == n_data_sets
    assert [label.get_text() for label in ax.get_yticklabels()] == TWELVE


def test_lines_along_C_are_means_with_marks_at_the_chosen_C():
    values = np.array([[0.1, 0.2, np.nan], [0.3, 0.2, np.nan]])
    seconds = np.array([[0.0, 1.0, 100.0]] * 2)
    missing = np.full((2, 3), np.nan)
    figure = study_plots.draw_along_C(
        new_figure(), ["a", "b"], [CS[:3], CS[:3]], [values, missing], [values, missing],
        [seconds, missing], metric="MAP", chosen=[[CS[1], CS[1]], []],
    )  # fmt: skip
    above, _, below = figure.axes
    mean, chosen = above.lines
    np.testing.assert_allclose(mean.get_ydata(), [0.2, 0.2, np.nan])
    np.testing.assert_allclose([*chosen.get_xdata(), *chosen.get_ydata()], [CS[1], 0.2])
    assert len(above.collections) == 1
    assert (above.get_xscale(), below.get_yscale()) == ("log", "symlog")
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a"]
    assert not along_C(TWELVE).axes[0].collections  # bands would hide each other


def test_grids_of_C_may_differ():
    grids = [CS, CS[2:4]]
    values = [np.ones((1, len(grid))) for grid in grids]
    figure = study_plots.draw_along_C(
        new_figure(), ["a", "b"], grids, values, values, values, metric="MAP"
    )
    assert [len(drawn.get_xdata()) for drawn in figure.axes[0].lines] == [len(CS), 2]


def test_solvers_without_products_are_in_one_panel():
    distances = [np.array([1.0, 0.1, 0.0]), np.array([1.0, 0.5, -1e-18])]
    seconds = [np.array([0.0, 0.0, 1.0]), np.array([0.0, 2.0, 3.0])]
    products = [np.array([0.0, 3.0, 9.0]), np.full(3, np.nan)]
    figure = study_plots.draw_convergence(
        new_figure(), ["newton", "sgd"], distances, seconds, products
    )
    assert [len(ax.lines) for ax in figure.axes] == [2, 1]
    np.testing.assert_array_equal(figure.axes[0].lines[0].get_ydata(), [1.0, 0.1, np.nan])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["newton", "sgd"]


def test_differences_count_wins_and_ties():
    found = np.array([0.1, np.nan, 1e-16, -0.2, 0.3, 0.0])
    ax = study_plots.draw_differences(new_figure().subplots(), ("a", "b"), found, metric="MAP")
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts == ["a is better: 2 queries", "b is better: 1 query", "ties: 2 queries",
                     "mean: +0.0400"]  # fmt: skip
    wins, losses = ax.patches
    np.testing.assert_allclose(wins.get_data().values, [0.3, 0.1, 0, 0, 0])
    np.testing.assert_allclose(losses.get_data().values, [0, 0, 0, 0, -0.2])


def test_differences_without_queries():
    ax = study_plots.draw_differences(
        new_figure().subplots(), ("a", "b"), np.full(3, np.nan), metric="MAP", interval=(0, 1)
    )
    assert ax.get_legend().get_texts()[0].get_text() == "a is better: 0 queries"


def test_methods_without_values_have_no_curve():
    values = np.array([[0.4, 0.5], [np.nan, np.nan], [np.nan, 0.3]])
    ax = study_plots.draw_cutoffs(new_figure().subplots(), list("abc"), [1, 10], values, metric="P")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["a", "c"]
    assert ax.get_ylabel() == "P@k"
    assert to_hex(ax.lines[1].get_color()) == COLOURS[2].lower()


def test_groups_of_equal_methods_are_joined_by_bars_that_do_not_touch():
    ranks = np.array([1.5, 1.5, 3.0, np.nan, 4.0])
    ax = study_plots.draw_critical_difference(
        new_figure().subplots(), list("abcde"), ranks, 1.6, [(0, 1, 2), (2, 4), (4,)]
    )
    bars = [drawn for drawn in ax.lines if drawn.get_gid() == "group"]
    heights = [bar.get_ydata()[0] for bar in bars]
    assert len(set(heights)) == len(bars) == 2
    assert bars[0].get_xdata()[0] < 1.5 < 3.0 < bars[0].get_xdata()[1]
    texts = {text.get_text() for text in ax.texts}
    assert texts == {*"1234", "CD = 1.60", "a (1.50)", "b (1.50)", "c (3.00)", "e (4.00)"}


def test_an_unknown_critical_difference_is_not_drawn():
    ax = study_plots.draw_critical_difference(
        new_figure().subplots(), ["a", "b"], np.array([1.0, 2.0]), np.nan, []
    )
    assert {text.get_text() for text in ax.texts} == {"1", "2", "a (1.00)", "b (2.00)"}


@pytest.mark.parametrize(
    ("costs", "scale"),
    [([1.0, 2.0, 5.0], "linear"), ([0.1, 2.0, 50.0], "log"), ([0.0, 0.1, 50.0], "symlog"),
     ([0.0, 0.0, 0.0], "linear"), ([np.nan, np.nan, np.nan], "linear")],
)  # fmt: skip
def test_costs_of_several_magnitudes_have_a_log_scale(costs, scale):
    values, front = np.array([0.1, 0.3, 0.2]), np.array([True, True, False])
    ax = study_plots.draw_pareto(
        new_figure().subplots(), list("abc"), np.array(costs), values, front, cost="s", metric="MAP"
    )
    assert ax.get_xscale() == scale
    known = np.isfinite(costs)
    assert len(ax.texts) == np.count_nonzero(known)
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), values[known & front])


def test_weights_are_told_apart_without_colours():
    coefs = np.cumsum(np.ones((len(CS), 7)) * np.arange(1, 8), axis=0)
    ax = new_figure().subplots()
    with matplotlib.rc_context(DARK):
        result_plots.draw_weights(ax, CS, coefs, [f"feature {f}" for f in range(7)], marked=3)
    curves = ax.lines[:7]
    assert len({(to_hex(c.get_color()), c.get_linestyle()) for c in curves}) == 7
    assert "#000000" not in {to_hex(c.get_color()) for c in curves}
    assert all(a.get_linestyle() != b.get_linestyle() for a, b in pairwise(curves))
