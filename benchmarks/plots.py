"""Plots of the benchmarks: style, lines and panels."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from linrank.plots import COLOURS

STYLE = {
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10.0,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "svg.hashsalt": "linrank",
    "svg.fonttype": "none",
}


def line_style(k: int) -> dict[str, Any]:
    """Return the style of the k-th line: colours vary first, then dashes."""
    dashes = ("-", "--", ":")
    return {
        "color": COLOURS[k % len(COLOURS)],
        "linestyle": dashes[k // len(COLOURS) % len(dashes)],
        "linewidth": 1.4,
        "marker": "o",
        "markersize": 3.0,
    }


def draw(path: Path, draws: list[Callable[[Any], None]], width: float = 4.6) -> None:
    """Write a plot with two panels per row; each function draws one panel."""
    n_rows, n_columns = -(-len(draws) // 2), min(2, len(draws))
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width * n_columns, 3.8 * n_rows), layout="constrained")
        panels = [figure.add_subplot(n_rows, n_columns, k + 1) for k in range(len(draws))]
        for axes, function in zip(panels, draws, strict=True):
            axes.grid(True)
            function(axes)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, format="svg", metadata={"Date": None})
