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


@pytest.mark.parametrize(
    ("suffix", "magic"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF"),
                          (".PNG", b"\x89PNG")]
)  # fmt: skip
def test_formats(tmp_path, suffix, magic):
    draw(tmp_path / f"plot{suffix}")
    assert (tmp_path / f"plot{suffix}").read_bytes().startswith(magic)
    assert os.listdir(tmp_path) == [f"plot{suffix}"]


def test_the_same_plot_gives_the_same_file(tmp_path):
    for suffix in (".png", ".svg", ".pdf"):
        draw(tmp_path / f"a{suffix}")
        draw(tmp_path / f"b{suffix}")
        assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes()


def test_what_is_drawn(tmp_path, monkeypatch):
    """The best C is marked and named, axes are labelled, the largest weights are listed."""
    figures = []
    monkeypatch.setattr("linrank.report.plots._write", lambda figure, path: figures.append(figure))
    draw(tmp_path / "plot.png")
    above, below = figures[0].axes
    assert above.get_title(loc="left") == "Best: 0.5000 at C = $2^{-1}$"
    assert above.get_ylabel() == "mean ndcg@10 on vali.txt"
    assert "C" in below.get_xlabel()
    assert "weight" in below.get_ylabel()
    assert above.get_xscale() == below.get_xscale() == "log"
    assert len(below.get_legend().get_texts()) == len(COLOURS)


@pytest.mark.parametrize("n_features", [1, 2])
def test_few_features(tmp_path, n_features):
    draw(tmp_path / "plot.png", n_features)


def test_names_that_mean_something_to_matplotlib(tmp_path):
    draw(tmp_path / "plot.svg", 3, ["_hidden", "$x^2", "a" * 200])


def test_sentences(tmp_path, monkeypatch):
    with pytest.raises(DataError, match=r"plot\.jpeg: plots are written as \.png, \.svg, \.pdf"):
        check_plot_file("plot.jpeg")
    with pytest.raises(DataError, match="there is no folder"):
        draw(tmp_path / "none" / "plot.png")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(DataError, match=r"pip install linrank\[plot\]"):
        check_plot_file("plot.png")
