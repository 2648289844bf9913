"""Plots are written whole or not at all, and say what they show."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from linrank import DataError, LinearModel, RankSVM, evaluate, make_ranking, regularization_path
from linrank._util.text import NEGATIVE, POSITIVE
from linrank.plots import COLOURS, LEAST_SHOWN, REST, check_plot_file, save_plot
from linrank.plots.result_plots import plot_path
from linrank.problem import make_problem
from linrank.solvers.result import Result, Status
from problems import PAPERS

CS = 2.0 ** np.arange(-4, 3)
VALUES = np.array([0.1, 0.2, np.nan, 0.5, 0.4, 0.4, 0.3])


def draw(path: Path, n_features: int = 20, names: list[str] | None = None) -> None:
    coefs = np.cumsum(np.random.default_rng(0).standard_normal((len(CS), n_features)), axis=0)
    names = names or [f"feature-{f}" for f in range(n_features)]
    plot_path(path, CS, VALUES, coefs, metric="ndcg@10 on vali.txt", names=names)


@pytest.fixture
def figures(monkeypatch):
    """What is drawn, instead of a file."""
    figures = []
    monkeypatch.setattr("linrank.plots.write_figure", lambda figure, path: figures.append(figure))
    return figures


@pytest.mark.slow
@pytest.mark.parametrize(
    ("suffix", "magic"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF"),
                          (".PNG", b"\x89PNG")]
)  # fmt: skip
def test_formats(tmp_path, suffix, magic):
    draw(tmp_path / f"plot{suffix}")
    assert (tmp_path / f"plot{suffix}").read_bytes().startswith(magic)
    assert os.listdir(tmp_path) == [f"plot{suffix}"]


@pytest.mark.slow
def test_the_same_plot_gives_the_same_file(tmp_path):
    for suffix in (".png", ".svg", ".pdf"):
        draw(tmp_path / f"a{suffix}")
        draw(tmp_path / f"b{suffix}")
        assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes()


def test_what_is_drawn(tmp_path, figures):
    """The best C is marked and named, axes are labelled, the largest weights are listed."""
    draw(tmp_path / "plot.png")
    above, below = figures[0].axes
    assert above.get_title(loc="left") == "Best: 0.5000 at C = $2^{-1}$"
    assert above.get_ylabel() == "mean ndcg@10 on vali.txt"
    assert "C" in below.get_xlabel()
    assert "weight" in below.get_ylabel()
    assert above.get_xscale() == below.get_xscale() == "log"
    assert below.get_title(loc="left") == "Weights (the 7 largest at the best C)"
    assert len(below.get_legend().get_texts()) == len(COLOURS)


@pytest.mark.parametrize(
    ("weights", "chosen", "title", "shown", "features"),
    [
        ({3: [0, 0, 0, 1, 2, 2, 0], 8: [0, 0, 0, 0, 3, 3, 3]}, None,
         "Weights (2 features, 1 of them in use at the best C)", ["8", "3"], "1 feature, 0.5000"),
        ({3: [0, 0, 0, 1, 2, 2, 0], 8: [0, 0, 0, 0, 3, 3, 3]}, 4,
         "Weights (the 2 largest at the chosen C)", ["8", "3"], "2 features, 0.4000"),
        ({f: [0, 0, 0, float(f == 1), 0, f, 9 - f] for f in range(1, 9)}, None,
         "Weights (7 features, 1 of them in use at the best C)",
         ["1", "2", "3", "4", "6", "7", "8"], "1 feature, 0.5000"),
        ({}, None, "Weights", None, "0 features, 0.5000"),
    ],
)  # fmt: skip
def test_features_without_a_weight(tmp_path, figures, weights, chosen, title, shown, features):
    """Those in use at the marked C come first, then those in use elsewhere, and no others."""
    coefs = np.zeros((len(CS), 20))
    for f, values in weights.items():
        coefs[:, f] = values
    names = [str(f) for f in range(20)]
    plot_path(tmp_path / "plot.png", CS, VALUES, coefs, metric="map", names=names, chosen=chosen)
    _, below, last = figures[0].axes
    legend = below.get_legend()
    assert below.get_title(loc="left") == title
    assert last.get_title(loc="left") == features
    assert (legend and [text.get_text() for text in legend.get_texts()]) == shown


@pytest.mark.parametrize("n_features", [1, 2])
def test_few_features(tmp_path, n_features):
    draw(tmp_path / "plot.png", n_features)


def test_names_that_mean_something_to_matplotlib(tmp_path):
    draw(tmp_path / "plot.svg", 3, ["_hidden", "$x^2", "a" * 200])


def test_sentences(tmp_path, monkeypatch):
    with pytest.raises(DataError, match=r"plot\.jpeg: the name of a plot file must end in \.png"):
        check_plot_file("plot.jpeg")
    with pytest.raises(DataError, match="there is no folder"):
        draw(tmp_path / "none" / "plot.png")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(DataError, match=r"pip install 'linrank\[plot\]'"):
        check_plot_file("plot.png")


# Plots of objects -------------------------------------------------------------------------


@pytest.fixture
def ax():
    return Figure().subplots()


@pytest.fixture(scope="module")
def ranker():
    data = make_ranking(10, 6, 4, random_state=0)
    return RankSVM(C=0.1, **PAPERS).fit(data.X, data.y, qid=data.qid)


def widths(ax):
    return [bar.get_width() for bar in ax.patches]


def test_bars_of_an_explanation_sum_to_the_score(ax):
    model = LinearModel([3.0, -2.0, 1.0, 0.5], feature_names=["a", "_b", "c$", "d"])
    found = model.explain([1.0, 1.0, 1.0, 1.0])
    assert found.plot(ax, top=2) is ax
    assert widths(ax) == [3.0, -2.0, 1.5]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", " _b", "2 others"]
    colours = [to_hex(bar.get_facecolor()).upper() for bar in ax.patches]
    assert colours == [POSITIVE, NEGATIVE, REST]
    assert ax.get_title() == "Score 2.5"
    assert ax.get_xlabel() == "contribution to the score"
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # the largest is on top


def test_bars_of_a_pair(ax):
    found = LinearModel([3.0, 0.0]).explain_pair([1.0, 1.0], [2.0, 0.0])
    found.plot(ax)
    assert widths(ax) == [-3.0, 0.0]
    assert ax.get_title() == "Score difference -3"
    assert ax.get_xlabel() == "contribution to the score difference"


def test_bars_of_a_model(ax, ranker):
    model = ranker.model_
    model.plot(ax, top=3)
    order = np.argsort(-np.abs(ranker.standardized_coef_))[:3]
    assert widths(ax) == ranker.standardized_coef_[order].tolist()
    assert ax.get_title() == "3 of 4 features, by standardized weight"
    assert "standard deviation" in ax.get_xlabel()


def test_bars_of_weights(ax, ranker):
    ranker.model_.plot(ax, column="weight")
    assert widths(ax) == sorted(ranker.coef_.tolist(), key=abs, reverse=True)
    assert ax.get_xlabel() == "weight (score per unit of the feature)"


def test_features_without_a_weight_have_no_bar(ax):
    LinearModel([0.0, 2.0]).plot(ax)
    assert widths(ax) == [2.0]


def test_convergence(ax, ranker):
    result = ranker.result_
    assert result.plot(ax) is ax
    gradient, objective = ax.get_lines()
    norms = np.array([step.gradient_norm for step in result.history])
    norms[norms <= LEAST_SHOWN] = np.nan  # rounding, which is not drawn
    np.testing.assert_array_equal(gradient.get_ydata(), norms)
    assert np.nanmin(objective.get_ydata()) > 0.0
    assert ax.get_yscale() == "log"
    assert ax.get_title().startswith(f"Converged: {result.n_iter} iterations")
    assert "Result(4 of 4 features. The stopping rule is met." in repr(result)
    assert "The stopping rule is met." in result._repr_html_()


def test_a_result_without_history(ax):
    Result(np.zeros(1), Status.CONVERGED, 0.0, 0.0, 0, 0, 1, 0.0, []).plot(ax)
    assert ax.get_title() == "Converged: 0 iterations, 0.00 s"


def test_paths(ax):
    data = make_ranking(10, 6, 4, random_state=0)
    path = regularization_path(make_problem(data), CS)
    path.plot(ax, names=list("abcd"))
    assert ax.get_title() == "Weights"
    assert {text.get_text() for text in ax.get_legend().get_texts()} == set("abcd")
    assert repr(path) == (
        "RegularizationPath(7 values of C from 0.0625 to 4, 4 to 4 features with a weight)"
    )
    frame = path.to_frame()
    assert frame["C"].tolist() == CS.tolist()
    assert frame["objective"].tolist() == [result.objective for result in path.results]
    assert set(frame["status"]) == {"converged"}
    assert path._repr_html_().count("<tr>") == 1 + len(CS)
    ax.clear()
    path.plot_metric(VALUES, "map", ax)
    assert ax.get_title() == "Best: 0.5000 at C = $2^{-1}$"
    ax.clear()
    path.plot_metric(VALUES, "an error", ax, greater_is_better=False)
    assert ax.get_title() == "Best: 0.1000 at C = $2^{-4}$"


def test_evaluations(ax):
    found = evaluate([1, 0, 1, 0, 0, 0], [2.0, 1.0, 1.0, 2.0, 1.0, 0.0], list("aabbcc"), "mrr,map")
    assert found.plot(ax) is ax
    for line in ax.get_lines():
        assert line.get_xdata().tolist() == [0.5, 0.5, 1.0]  # two queries, without the skipped one
        assert line.get_ydata().tolist() == [0.0, 0.5, 1.0]
    legend = [text.get_text() for text in ax.get_legend().get_texts()]
    assert legend == ["mrr: mean 0.7500", "map: mean 0.7500"]
    frame = found.to_frame()
    assert frame.columns.tolist() == ["qid", "mrr", "map"]
    assert frame["qid"].tolist() == list("abc")
    np.testing.assert_array_equal(frame["mrr"], [1.0, 0.5, np.nan])
    assert repr(found) == str(found)
    assert found._repr_html_().count("<tr>") == 3


def test_an_evaluation_without_values(ax):
    evaluate([0, 0], [1.0, 2.0], metrics="mrr").plot(ax)
    assert not ax.get_lines()


def test_new_axes_are_of_pyplot(monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "agg")
    from matplotlib import pyplot

    ax = LinearModel([1.0, -2.0]).plot()
    assert ax.figure is pyplot.gcf()
    assert ax.get_title(loc="left") == "2 of 2 features, by weight"
    assert not ax.spines["top"].get_visible()
    pyplot.close(ax.figure)


def test_plots_are_saved_whole(tmp_path):
    found = LinearModel([1.0, -2.0]).explain([1.0, 1.0])
    save_plot(tmp_path / "plot.svg", found.plot)
    assert os.listdir(tmp_path) == ["plot.svg"]
    with pytest.raises(RuntimeError):
        save_plot(tmp_path / "other.svg", fail)
    assert os.listdir(tmp_path) == ["plot.svg"]


def fail(ax):
    raise RuntimeError


def test_plots_need_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(DataError, match=r"pip install 'linrank\[plot\]'"):
        LinearModel([1.0]).plot()
