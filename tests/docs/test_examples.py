"""The pages of the gallery run without warnings, draw pictures, and show what they claim."""

from __future__ import annotations

import re
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest

import linrank
from linrank.plots import COLOURS, STYLE

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PATHS = {path.stem: path for path in sorted(EXAMPLES.glob("*/plot_*.py"))}
PAGES = list(PATHS)
QUICK = {"plot_first_ranker", "plot_which_features"}  # the others are left out of make test-quick

#: For each page, facts that its text speaks of, computed from the variables of the script.
CLAIMS: dict[str, Callable[[dict[str, Any]], list[bool]]] = {
    "plot_additive": lambda v: [
        v["results"]["curves"] > v["results"]["weights of logarithms"] + 0.05,
        np.corrcoef(*v["centred"])[0, 1] > 0.9,
    ],
    "plot_auc": lambda v: [
        v["found"] > 0.6,
        v["ranker"].n_pairs_ > 1_000_000,
        abs(v["probability"].mean() - v["y_test"].mean()) < 0.01,
    ],
    "plot_choose_c": lambda v: [
        v["on_train"][-1] > v["on_train"][0],
        v["on_future"].max() > max(v["on_future"][0], v["on_future"][-1]) + 0.02,
        v["ranker"].score(v["future"]) > v["on_future"][-1],
    ],
    "plot_clicks": lambda v: [
        v["quality"]["true labels"][-1] >= v["quality"]["propensity"][-1],
        v["quality"]["propensity"][-1] > v["quality"]["naive"][-1] + 0.03,
        v["quality"]["naive"][-1] > v["old"],
    ],
    "plot_command_line": lambda v: [
        linrank.load_model(v["folder"] / "sparse.json").count_used() < 25,
    ],
    "plot_compare_rankers": lambda v: [
        v["found"].metrics["map"].p_holm["randomization"] < 0.05,
        v["found"].most_changed(40)[-1].difference != 0,
        v["friedman"].p_value < 0.01,
    ],
    "plot_domination_topics": lambda v: [
        bool((v["own"] > 0).all()),
        v["topics"].zero_weights_ > 0.8,
    ],
    "plot_experiment": lambda v: [
        v["table"]["ranksvm"]["ndcg@10"] > v["table"]["adarank"]["ndcg@10"],
        v["run"].tag == "ranksvm",
    ],
    "plot_explain_pair": lambda v: [
        v["why"].score > 0,
        abs(v["why"].contributions.sum() - v["why"].score) < 1e-9,
    ],
    "plot_export": lambda v: [
        bool(np.abs(v["from_sql"] - v["scores"]).max() < 1e-9),
        np.median(np.abs(v["in_single"] - v["shift"] - v["scores"])) > 1e-7,
    ],
    "plot_first_ranker": lambda v: [
        v["ranker"].score(v["X_test"], v["y_test"], qid=v["qid_test"])
        > linrank.ndcg(v["y_test"], v["by_feature"], qid=v["qid_test"], k=10) + 0.03,
    ],
    "plot_grid_search": lambda v: [
        v["grid"].max() == v["search"].best_score_,
        np.ptp(v["difference"]) < 1e-9,
    ],
    "plot_huge_queries": lambda v: [
        bool(np.allclose(v["logarithm"].coef_, v["ranker"].coef_)),
        v["n_pairs"][-1] > 1e10,
    ],
    "plot_losses": lambda v: [
        max(x[0] for x in v["found"].values()) - min(x[0] for x in v["found"].values()) < 0.01,
        v["found"]["hinge"][-1] > v["found"]["squared_hinge"][-1] + 0.005,
        v["quick"].result_.n_evaluations < v["slow"].result_.n_evaluations,
    ],
    "plot_missing_scaling": lambda v: [
        min(v["found"]["log1p+standard"]) > max(v["found"]["standard"]) + 0.05,
        v["filled"][2] > v["filled"][1] > v["filled"][0],  # indicator, median, zero
    ],
    "plot_monotone": lambda v: [
        v["wrong"]["free"] > 0,
        v["wrong"]["monotone"] == v["wrong"]["rating also concave"] == 0,
    ],
    "plot_preferences": lambda v: [
        v["correlation"] > 0.95,
        bool((np.sign(v["weights"]) == [1, -1, -1, 1]).all()),
        bool(np.allclose(v["again"].coef_, v["ranker"].coef_, rtol=1e-3)),
    ],
    "plot_solvers": lambda v: [
        v["passes"]["Newton (default)"][-1] < 0.5 * v["passes"]["TRON"][-1],
        v["distance"]["L-BFGS"][-1] < 1e-6 < v["distance"]["SGD over pairs"][-1],
    ],
    "plot_sparse_path": lambda v: [
        max(v["first"]) < v["noise"],
        v["ranker"].n_selected_ <= 10,
    ],
    "plot_which_features": lambda v: [
        bool(np.allclose(v["ranker"].standardized_coef_, v["again"].standardized_coef_)),
        np.flatnonzero(v["crosses"]).tolist() == [5],
    ],
}


@pytest.fixture
def drawing():
    """Keep figures and settings of matplotlib from other tests."""
    with matplotlib.rc_context():
        matplotlib.use("Agg")
        yield
    plt.close("all")


@pytest.mark.parametrize(
    "page", [pytest.param(p, marks=() if p in QUICK else pytest.mark.slow) for p in PAGES]
)
def test_a_page_draws_what_it_says(page, here, drawing, capsys):
    values = runpy.run_path(str(PATHS[page]))
    figures = [plt.figure(number) for number in plt.get_fignums()]
    assert figures
    for figure in figures:
        figure.draw_without_rendering()
        assert any(ax.get_title(loc="left") or ax.images for ax in figure.axes)
    assert all(CLAIMS[page](values))
    assert capsys.readouterr().err == ""
    assert not list(here.iterdir())  # no files are left behind


def test_every_page_has_claims():
    assert len(PAGES) >= 15
    assert set(CLAIMS) == set(PAGES)


def test_every_script_is_a_page_of_a_section():
    assert set(EXAMPLES.rglob("*.py")) == set(PATHS.values())
    for folder in {EXAMPLES, *(path.parent for path in PATHS.values())}:
        assert (folder / "GALLERY_HEADER.rst").is_file()


@pytest.mark.parametrize("page", PAGES)
def test_links_and_names_of_a_page_exist(page):
    text = PATHS[page].read_text("utf-8")
    for target in re.findall(r":doc:`([^`]+)`", text):
        found = (PATHS[page].parent / f"{target}.py").resolve()
        assert found in PATHS.values()
        assert found != PATHS[page]
    for name in re.findall(r":(?:class|func):`linrank\.(\w+)`", text):
        assert hasattr(linrank, name)
    title, line = text.splitlines()[1:3]
    assert title.endswith("?")
    assert line == "=" * len(title)
    assert "# What to read next\n# -----------------\n# - :doc:" in text


def test_the_style_is_that_of_the_library(drawing):
    plt.style.use("linrank.style")
    used = plt.rcParams["axes.prop_cycle"].by_key()["color"]
    assert [colour.upper() for colour in used] == list(COLOURS)
    shown = dict(plt.rcParams)
    with matplotlib.rc_context(STYLE):
        assert dict(plt.rcParams) == shown
