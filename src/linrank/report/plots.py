"""Plots of regularisation paths; they need matplotlib (``pip install linrank[plot]``)."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .._files import atomic_write
from .._text import printable
from .._typing import Integers, Vector
from ..errors import DataError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg", ".pdf")  #: suffixes of plot files
DPI = 150  #: pixels per inch of .png files

#: Palette of Okabe & Ito, which colour-blind readers can distinguish. Yellow is left out because
#: it is too pale for a line on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")

_STYLE = {
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.titlesize": 10.0,
    "axes.titlelocation": "left",
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "svg.hashsalt": "linrank",  # makes .svg files of the same plot identical
}


def has_matplotlib() -> bool:
    """Tell whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def check_plot_file(path: str | os.PathLike[str]) -> None:
    """Raise an error before any long work if a plot cannot be drawn or written to this file."""
    if Path(path).suffix.lower() not in FORMATS:
        raise DataError(f"{path}: the name of a plot file must end in {', '.join(FORMATS)}")
    if not has_matplotlib():
        raise DataError("plots need matplotlib; install it: pip install linrank[plot]")


def plot_path(
    path: str | os.PathLike[str],
    Cs: Vector,
    values: Vector,
    coefs: Vector,
    *,
    metric: str,
    names: Sequence[str],
    chosen: int | None = None,
    greater_is_better: bool = True,
) -> None:
    """Plot a metric and the largest weights against C.

    If some weights are 0, the metric is also plotted against the number of selected features.

    Parameters
    ----------
    path : path-like
        Name of the plot file, which ends in .png, .svg or .pdf. An existing file is replaced
        when the new one is complete.
    Cs : float64 array of shape (n_Cs,)
    values : float64 array of shape (n_Cs,)
        Metric for each C; NaN if it is undefined.
    coefs : float64 array of shape (n_Cs, n_features)
        Weights for each C.
    metric : str
        Description of the values, such as ``"ndcg@10 on vali.txt"``.
    names : sequence of str
        Names of the features.
    chosen : int, optional
        Index of the C to mark. None: that of the best value.
    greater_is_better : bool
        Whether larger values are better; False for errors.
    """
    check_plot_file(path)
    import matplotlib
    from matplotlib.figure import Figure

    best = int(np.nanargmax(values) if greater_is_better else np.nanargmin(values))
    word = "Best" if chosen in (None, best) else "Chosen"
    best = best if chosen is None else chosen
    n_features = np.count_nonzero(coefs, axis=1)
    sparse = bool((n_features < coefs.shape[1]).any())
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(7.5, 9.0 if sparse else 6.5), dpi=DPI, layout="constrained")
        heights = (1, 1.2, 1) if sparse else (1, 1.2)
        above, below, *last = figure.subplots(len(heights), 1, height_ratios=heights)
        above.sharex(below)
        above.tick_params(labelbottom=False)
        _draw_metric(above, Cs, values, best, metric, word)
        _draw_weights(below, Cs, coefs, best, names, word)
        below.set_xlabel("C, the weight of the loss against the penalty (log scale)")
        for axes in last:
            _draw_features(axes, n_features, values, best, metric)
        _write(figure, path)


def _draw_metric(axes: Axes, Cs: Vector, values: Vector, best: int, metric: str, word: str) -> None:
    axes.semilogx(Cs, values, "o-", base=2, color=COLOURS[0], markersize=3.5, linewidth=1.4)
    axes.plot(Cs[best], values[best], "D", color=COLOURS[1], markersize=7, zorder=3)
    axes.axvline(Cs[best], color=COLOURS[1], linewidth=0.8, linestyle=":")
    axes.set_title(f"{word}: {values[best]:.4f} at C = {_power_of_two(Cs[best])}")
    axes.set_ylabel(f"mean {_plain(metric)}")
    axes.margins(y=0.1)


def _draw_weights(
    axes: Axes, Cs: Vector, coefs: Vector, best: int, names: Sequence[str], word: str
) -> None:
    """Draw the weights that are largest at the marked C, and then those largest at any C."""
    here, anywhere = np.abs(coefs[best]), np.abs(coefs).max(axis=0)
    largest = np.lexsort((-anywhere, -here))[: min(len(COLOURS), np.count_nonzero(anywhere))]
    shown = largest[np.argsort(-coefs[-1, largest], kind="stable")]  # the order of the legend
    for feature, colour in zip(shown, COLOURS, strict=False):
        label = _short(names[feature])
        axes.semilogx(Cs, coefs[:, feature], base=2, color=colour, linewidth=1.4, label=label)
    axes.axhline(0.0, color="#666666", linewidth=0.8)
    axes.axvline(Cs[best], color=COLOURS[1], linewidth=0.8, linestyle=":")
    title, n_used = "Weights", np.count_nonzero(here[shown])
    if n_used < len(shown):
        title += f" ({_features(len(shown))}, {n_used} of them in use at the {word.lower()} C)"
    elif 0 < n_used < len(here):
        title += f" (the {n_used} largest at the {word.lower()} C)"
    axes.set_title(title)
    axes.set_ylabel("weight w (score per unit of the feature)")
    if len(shown):
        axes.legend(
            title="feature", loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0
        )


def _draw_features(
    axes: Axes, n_features: Integers, values: Vector, best: int, metric: str
) -> None:
    axes.plot(n_features, values, "o-", color=COLOURS[0], markersize=3.5, linewidth=1.0)
    axes.plot(n_features[best], values[best], "D", color=COLOURS[1], markersize=7, zorder=3)
    axes.set_title(f"{_features(n_features[best])}, {values[best]:.4f}")
    axes.set_xlabel("features with a weight")
    axes.set_ylabel(f"mean {_plain(metric)}")
    axes.locator_params(axis="x", integer=True)
    axes.margins(y=0.1)


def _features(n: int) -> str:
    return f"{n} feature" if n == 1 else f"{n} features"


def _power_of_two(C: float) -> str:
    mantissa, exponent = np.frexp(C)
    return f"$2^{{{exponent - 1}}}$" if mantissa == 0.5 else f"{C:.4g}"


def _short(name: str, length: int = 24) -> str:
    """Shorten a name for a legend. matplotlib would hide a name that begins with "_"."""
    name = printable(name)
    name = _plain(name if len(name) <= length else name[: length - 1] + "…")
    return name.replace("_", " _", 1) if name[:1] == "_" else name


def _plain(text: str) -> str:
    """Escape control characters and "$", which begins a formula in matplotlib."""
    return printable(text).replace("$", r"\$")


def _write(figure: Figure, path: str | os.PathLike[str]) -> None:
    kind = Path(path).suffix.lower()[1:]
    dates = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
    with atomic_write(path, "wb") as file:
        figure.savefig(file, format=kind, metadata=dates[kind])
