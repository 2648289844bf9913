"""Plots, pages and texts of additive models show what the curves are."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from additive_samples import CATEGORIES, NAMES, line_pieces, sample_model
from commandline import error_of, run, run_json
from linrank import DataError, LinearModel
from linrank.features.basis import Axis
from linrank.model.additive import AdditiveModel
from linrank.model.curves import Curve, Surface
from linrank.plots import new_figure
from linrank.report.model_page import model_page
from linrank.report.page import Details, Picture, render_page

LINE = Curve(0, Axis([0.0, 1.0, 2.0]), line_pieces(np.array([1.0, 3.0, 2.0]), -1.0))
ABOVE = np.array([1.0, 0.0])  # pieces that lift a line by 1


@pytest.fixture(scope="module")
def sample():
    return sample_model(1000)[0]


@pytest.fixture
def ax():
    return Figure().subplots()


def labels(ax):
    return [text.get_text().strip() for text in ax.get_xticklabels()]


def test_a_curve_is_drawn_minus_its_mean(ax):
    counts = np.array([0, 30, 10, 5, 5])
    model = AdditiveModel(1, [replace(LINE, counts=counts, mean=1.5)], feature_names=["bm25"])
    assert model.plot_curve("bm25", ax) is ax
    assert ax.get_title() == "bm25"
    zero, line, missing = ax.get_lines()
    assert zero.get_ydata()[0] == 0.0
    x, y = line.get_data()
    for place, height in ((0.0, 1.0), (0.5, 2.0), (1.0, 3.0), (1.75, 2.25), (9.0, 2.0)):
        assert np.interp(place, x, y) == pytest.approx(height - 1.5)
    assert missing.get_ydata().tolist() == [-2.5]
    assert missing.get_xdata()[0] > x.max()
    assert labels(ax)[-1] == "missing"
    areas = [bar.get_width() * bar.get_height() for bar in ax.patches]
    assert np.array(areas) / areas[1] == pytest.approx(counts / counts[1])
    low, high = ax.get_ylim()
    assert low < -2.5
    assert high > 1.5
    top_of_bars = low + max(bar.get_height() for bar in ax.patches) * (high - low)
    assert top_of_bars < -2.5  # no bar hides the curve


def test_missing_values_are_drawn_only_if_there_were_some(ax):
    AdditiveModel(1, [replace(LINE, counts=[1, 1, 1, 1, 0])]).plot_curve(0, ax)
    assert len(ax.get_lines()) == 2
    assert "missing" not in labels(ax)


def test_steps_and_polynomials(ax):
    step = Curve(0, Axis([1.0, 2.0]), [[5.0], [6.0], [7.0], [0.0]])
    AdditiveModel(1, [step]).plot_curve(0, ax)
    x, y = ax.get_lines()[1].get_data()
    assert y.tolist() == [5.0, 5.0, 6.0, 6.0, 7.0, 7.0]
    assert x[1:5].tolist() == [1.0, 1.0, 2.0, 2.0]
    other = Figure().subplots()
    cubic = Curve(0, step.axis, np.arange(16.0).reshape(4, 4))
    AdditiveModel(1, [cubic]).plot_curve(0, other)
    x, y = other.get_lines()[1].get_data()
    inside = (x > 1.0) & (x < 2.0)
    assert y[inside] == pytest.approx(cubic(x[inside]))
    beyond = x > 2.0
    assert y[beyond] == pytest.approx(cubic(x[beyond]))


def test_heavy_tails_are_on_a_logarithmic_axis(ax):
    knots = [0.0, 1.0, 10.0, 3e3, 1e5]
    curve = Curve(0, Axis(knots), line_pieces(np.arange(5.0), 0.0))
    AdditiveModel(1, [curve]).plot_curve(0, ax)
    x, y = ax.get_lines()[1].get_data()
    positive = (x >= 0) & (x <= 5)
    np.testing.assert_allclose(y[positive], curve(10.0 ** x[positive]), atol=1e-9)
    zero = ax.get_xticks()[0]
    between = (x >= zero) & (x < 0)  # 0 has a place of its own, with a line to the next knot
    np.testing.assert_allclose(y[between], 1 - x[between] / zero, atol=1e-9)
    assert labels(ax) == ["0", "1", "10", "100", "1,000", "10,000", "100,000", "missing"]
    assert ax.get_xticks(minor=True) == pytest.approx(np.log10([3e3]))  # a knot between labels
    assert [text.get_text() for text in ax.texts] == ["logarithmic"]
    narrow = Curve(0, Axis([2.0, 2.1, 2.11, 4.0]), line_pieces(np.arange(4.0), 0.0))
    AdditiveModel(1, [narrow]).plot_curve(0, other := Figure().subplots())
    assert labels(other)[:-1] == ["2", "2.1", "2.11", "4"]


def test_cells_of_heavy_tails_on_both_sides_have_the_same_room(ax):
    knots = [-1e6, -10.0, -1.0, 1.0, 10.0, 1e6]
    curve = Curve(0, Axis(knots), line_pieces(np.arange(6.0), 0.0))
    AdditiveModel(1, [curve]).plot_curve(0, ax)
    x, y = ax.get_lines()[1].get_data()
    inner = (x >= 0) & (x <= 5)
    np.testing.assert_allclose(np.diff(y[inner]), np.diff(x[inner]), atol=1e-12)
    assert labels(ax) == ["-1e6", "-10", "-1", "1", "10", "1e6", "missing"]
    assert [text.get_text() for text in ax.texts] == ["evenly spaced knots"]


def test_levels_are_points(ax):
    level = Curve(0, Axis([3.0, 7.0], levels=True), [[1.0], [2.0], [4.0], [3.0]])
    AdditiveModel(1, [level]).plot_curve(0, ax)
    assert ax.get_lines()[1].get_ydata().tolist() == [1.0, 2.0, 4.0]
    assert labels(ax) == ["3", "7", "other", "missing"]
    other = Figure().subplots()
    AdditiveModel(1, [replace(level, counts=[5, 5, 0, 0])]).plot_curve(0, other)
    assert labels(other) == ["3", "7"]


def test_bands(ax):
    known = replace(LINE, band=(LINE.pieces - ABOVE, LINE.pieces + ABOVE))
    AdditiveModel(1, [known]).plot_curve(0, ax)
    area, at_missing = ax.collections
    y = area.get_paths()[0].vertices[:, 1]
    assert (y.min(), y.max()) == (0.0, 4.0)
    assert at_missing.get_segments()[0][:, 1].tolist() == [-2.0, 0.0]


def test_surfaces_are_heat_maps(ax):
    values = np.arange(12.0).reshape(4, 3)
    counts = np.array([[1, 1, 0], [1, 0, 0], [1, 1, 0], [0, 0, 0]])
    axes = Axis([0.0, 9.0]), Axis([5.0])
    surface = Surface((1, 0), axes, values, counts, mean=4.0, spread=1.0)
    AdditiveModel(2, [], [surface], feature_names=["a", "b"]).plot_curve("b × a", ax)
    (mesh,) = ax.collections
    np.testing.assert_array_equal(mesh.get_array().reshape(2, 3), values[:3, :2].T - 4.0)
    assert mesh.get_clim() == (-7.0, 7.0)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("b", "a")
    assert labels(ax) == ["0", "9"]
    (empty,) = ax.get_lines()
    assert (empty.get_xdata().tolist(), empty.get_ydata().tolist()) == ([1.5], [1.5])
    without = Figure().subplots()
    AdditiveModel(2, [], [replace(surface, counts=None)]).plot_curve(2, without)
    assert labels(without) == ["0", "9", "missing"]


def test_a_grid_is_sorted_by_importance(sample):
    with new_figure(*sample.figure_size(6)[::-1]) as figure:
        first = sample.draw(figure, 6)
        plots = [ax for ax in figure.axes if ax.get_label() != "<colorbar>"]
    order = sample.ordered()[:6]
    assert first is plots[0]
    shown = [ax.get_title(loc="left") or f"{ax.get_xlabel()} × {ax.get_ylabel()}" for ax in plots]
    assert shown == [sample.part_names()[part] for part in order]
    spreads = [float(ax.get_title(loc="right")) for ax in plots]
    assert spreads == pytest.approx(sample.columns()[0].values[order], rel=0.1)
    limits = {ax.get_ylim() for ax, part in zip(plots, order, strict=True) if part < 12}
    assert len(limits) == 1  # curves can be compared


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_labels_do_not_overlap(seed):
    model = sample_model(400, seed)[0]
    with new_figure(*model.figure_size(14)[::-1]) as figure:
        model.draw(figure, 14)
        renderer = FigureCanvasAgg(figure).get_renderer()
        figure.draw(renderer)
        assert len(figure.axes) == 13 + 2
        for ax in figure.axes:
            titles = [ax.title, ax._left_title, ax._right_title]
            for texts in (ax.get_xticklabels(), ax.get_yticklabels(), titles):
                boxes = [t.get_window_extent(renderer) for t in texts if t.get_text().strip()]
                lines = [text.get_text() for text in texts if text.get_text().strip()]
                for k, box in enumerate(boxes):
                    for other, line in zip(boxes[:k], lines, strict=False):
                        same_line = line.count("\n") == lines[k].count("\n")
                        assert not (same_line and box.overlaps(other)), (line, lines[k])


def test_odd_models_can_be_drawn(tmp_path):
    curves = [
        Curve(0, Axis([]), [[1.0], [2.0]]),
        Curve(1, Axis([5.0]), [[1.0, 0.0], [1.0, 0.0], [0.0, 0.0]]),
        Curve(2, Axis([], levels=True), [[1.0], [2.0]], counts=[0, 3]),
        Curve(3, Axis([1.0], levels=True), [[1.0], [2.0], [2.0]], counts=[0, 0, 0]),
        Curve(4, Axis([1.0, 2.0]), np.zeros((4, 1)), mean=0.0, spread=0.0),
        Curve(5, Axis([-1e300, 1e300]), [[0.0], [1e300], [0.0], [0.0]]),
    ]
    surface = Surface((0, 1), (Axis([]), Axis([], levels=True)), np.zeros((2, 2)))
    names = ["$x$", "_y", "a" * 200, "\x1b[2J", "<b>", "ü", "z"]
    model = AdditiveModel(7, curves, [surface], feature_names=names)
    with new_figure(*model.figure_size()[::-1]) as figure:
        model.draw(figure)
        figure.savefig(tmp_path / "plot.png")
    model.write_report(tmp_path / "page.html", "<script>")
    text = (tmp_path / "page.html").read_text()
    assert "<h1>&lt;script&gt;</h1>" in text
    assert "\x1b" not in text


def test_what_cannot_be_drawn(sample, ax):
    with pytest.raises(DataError, match="did you mean bm25_title"):
        sample.plot_curve("bm25_titel", ax)
    with pytest.raises(DataError, match="feature 11 has no curve"):
        sample.plot_curve(11, ax)
    with pytest.raises(DataError, match="no curves to plot"):
        AdditiveModel(1, []).draw(Figure())


def test_plots_are_of_pyplot(sample, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "agg")
    from matplotlib import pyplot

    first = sample.plot(top=2)
    assert first.figure is pyplot.gcf()
    assert len(first.figure.axes) == 2
    pyplot.close(first.figure)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(DataError, match=r"pip install 'linrank\[plot\]'"):
        sample.plot()


def test_importances_are_bars_on_given_axes(sample, ax):
    sample.plot(ax, top=3)
    assert len(ax.patches) == 3
    assert ax.get_title() == "3 of 12 features, by importance"
    with pytest.raises(DataError, match="column is 'weight'"):
        sample.plot(column="weight")


def blocks(page, key):
    (found,) = [section.blocks for section in page.sections if section.key == key]
    return found


def test_a_page_has_every_curve(sample):
    page = model_page(sample, "model.json")
    pictures = [block for block in blocks(page, "curves") if isinstance(block, Picture)]
    order = [part for part in sample.ordered().tolist() if part != 11]
    expected = sorted(order, key=lambda part: part >= 12)  # curves first; the sort is stable
    assert [picture.key for picture in pictures] == [f"part-{part}" for part in expected]
    (table,) = blocks(page, "features")
    assert [row[0].value for row in table.rows] == [
        sample.part_names()[part] for part in sample.ordered()
    ]
    (settings,) = blocks(page, "settings")
    assert ["C", "2^-3"] in [[cell.value for cell in row] for row in settings.rows]
    text = render_page(page)
    assert not re.search(r'(src|href)="(?!#)', text)  # the page loads nothing
    assert f'aria-label="Plot: {NAMES[CATEGORIES]} lies between' in text


@pytest.mark.slow
def test_a_long_page_is_folded():
    rng = np.random.default_rng(0)
    curves = [replace(LINE, feature=f, pieces=rng.normal(size=(5, 2))) for f in range(26)]
    found = blocks(model_page(AdditiveModel(26, curves)), "curves")
    assert isinstance(found[-1], Details)
    assert found[-1].title == "2 less important curves"
    assert len(found[-1].blocks) == 2


def test_pages_without_pictures(sample, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr("linrank.report.model_page.has_matplotlib", lambda: False)
    page = model_page(sample)
    assert "matplotlib is not installed" in page.lead
    keys = [section.key for section in page.sections]
    assert keys == ["summary", "features", "score", "settings"]


def test_pages_of_other_models(tmp_path):
    LinearModel([1.0, -2.0], feature_names=["a", "b"]).write_report(tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert "<h1>LinearModel</h1>" in text
    assert 'id="picture-importance"' in text
    assert text.index(">b</th>") < text.index(">a</th>")


DOCUMENTS = "1 qid:7 1:2 2:1\n0 qid:7 1:1 2:3\n0 qid:7 1:4 2:0\n"


@pytest.fixture
def files(here):
    both = Surface((0, 1), (Axis([1.5]), Axis([0.5])), [[0, 0, 0], [0, 4.0, 0], [0, 0, 0]])
    model = AdditiveModel(2, [LINE], [both], feature_names=["bm25", "length"])
    model.save("m.json")
    Path("d.txt").write_text(DOCUMENTS)
    return here


def test_inspect(files):
    lines = [line.split() for line in run("inspect", "m.json").stdout.splitlines()]
    assert ["bm25", "×", "length", "+4.0000", "▁▁", "▁█"] in [line[:6] for line in lines]
    (curve,) = [line for line in lines if line[:2] == ["bm25", "+4.0000"]]
    assert curve[2][0] == "▁"
    assert curve[3:6] == ["+1", "+2", "-1"]
    found = run_json("inspect", "m.json", "--top", "2")
    assert [part["feature"] for part in found["largest"]] == ["bm25", "bm25 × length"]
    assert found["largest"][0]["curve"]["knots"] == [0.0, 1.0, 2.0]
    assert found["largest"][1]["surface"]["features"] == [0, 1]
    assert found["curves"] == 1


def test_inspect_writes_plots_and_pages(files):
    text = run("inspect", "m.json", "--plot", "c.svg", "--report", "m.html").stdout
    assert "saved as c.svg" in text
    assert "saved as m.html" in text
    assert Path("c.svg").read_bytes().startswith(b"<?xml")
    assert "<h1>m.json</h1>" in Path("m.html").read_text()
    assert error_of("inspect", "m.json", "--report", "m.json").startswith("m.json: is read by")
    assert "must end in" in error_of("inspect", "m.json", "--plot", "c.txt")
    assert run("inspect", "d.txt", "--report", "m.html", code=2).stdout == ""
    LinearModel([1.0, 2.0]).save("l.json")
    run("inspect", "l.json", "--plot", "l.png", "--report", "l.html")
    assert Path("l.png").read_bytes().startswith(b"\x89PNG")


def test_explain(files):
    found = run_json("explain", "m.json", "d.txt", "--query", "7", "--pair", "1", "2")
    best = found["contributions"][0]
    assert best == {"feature": "bm25 × length", "first": "2 × 1", "second": "1 × 3",
                    "contribution": 4.0}  # fmt: skip
    text = run("explain", "m.json", "d.txt", "--query", "7", "--document", "1").stdout
    assert "bm25 × length" in text
    content = json.loads(Path("m.json").read_text())
    for part in (*content["curves"], *content["surfaces"]):
        part["mean"] = 0.5
    Path("m.json").write_text(json.dumps(content))
    text = run("explain", "m.json", "d.txt", "--query", "7").stdout
    assert "base   1, the score on average over the training documents" in text
