"""Plots are written whole or not at all, and say what they show."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from linrank import DataError
from linrank.report.plots import COLOURS, check_plot_file, plot_path

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
    monkeypatch.setattr("linrank.report.plots._write", lambda figure, path: figures.append(figure))
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
    with pytest.raises(DataError, match=r"pip install linrank\[plot\]"):
        check_plot_file("plot.png")
