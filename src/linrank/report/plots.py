"""Plot files; they need matplotlib (``pip install 'linrank[plot]'``)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .._draw import (
    STYLE,
    WIDTH,
    check_matplotlib,
    draw_features,
    draw_metric,
    draw_weights,
)
from .._files import atomic_write
from .._typing import Vector
from ..errors import DataError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg", ".pdf")  #: suffixes of plot files
PAGE_WIDTH = 6.0  #: inches of a picture on a page; in wider ones, texts are too small on phones
DPI = 150  #: pixels per inch of .png files


def check_plot_file(path: str | os.PathLike[str]) -> None:
    """Raise an error before any long work if a plot cannot be drawn or written to this file."""
    if Path(path).suffix.lower() not in FORMATS:
        raise DataError(f"{path}: the name of a plot file must end in {', '.join(FORMATS)}")
    check_matplotlib()


def save_plot(
    path: str | os.PathLike[str], draw: Callable[[Axes], object], height: float = 4.0
) -> None:
    """Write a plot of one pair of axes to a file.

    Parameters
    ----------
    path : path-like
        Name of the plot file, which ends in .png, .svg or .pdf. An existing file is replaced
        when the new one is complete.
    draw : callable
        Draws on the axes that it is given, as ``explanation.plot`` does.
    height : float
        Height of the figure in inches.
    """
    save_figure(path, lambda figure: draw(figure.subplots()), (WIDTH, height))


def save_figure(
    path: str | os.PathLike[str], draw: Callable[[Figure], object], size: tuple[float, float]
) -> None:
    """Write a plot of a whole figure to a file; see `save_plot`.

    Parameters
    ----------
    path : path-like
    draw : callable
        Draws on the empty figure that it is given, as ``model.draw`` does.
    size : (float, float)
        Width and height of the figure in inches.
    """
    with _figure(path, size) as figure:
        draw(figure)


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
    best = int(np.nanargmax(values) if greater_is_better else np.nanargmin(values))
    word = "Best" if chosen in (None, best) else "Chosen"
    best = best if chosen is None else chosen
    n_features = np.count_nonzero(coefs, axis=1)
    sparse = bool((n_features < coefs.shape[1]).any())
    heights = (1, 1.2, 1) if sparse else (1, 1.2)
    with _figure(path, (7.5, 9.0 if sparse else 6.5)) as figure:
        above, below, *last = figure.subplots(len(heights), 1, height_ratios=heights)
        above.sharex(below)
        draw_metric(above, Cs, values, best, metric, word)
        above.label_outer()
        draw_weights(below, Cs, coefs, names, best, word)
        for axes in last:
            draw_features(axes, n_features, values, best, metric)


@contextmanager
def new_figure(height: float = 4.0, width: float = PAGE_WIDTH) -> Iterator[Figure]:
    """Give an empty figure in the style of linrank, with a size in inches.

    Draw on it, and write it, inside the ``with`` statement: matplotlib makes some parts of a figure
    when it is written.
    """
    check_matplotlib()
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        yield Figure(figsize=(width, height), dpi=DPI, layout="constrained")


@contextmanager
def _figure(path: str | os.PathLike[str], size: tuple[float, float]) -> Iterator[Figure]:
    """Give a figure in the style of linrank, and write it to a file at the end."""
    check_plot_file(path)
    with new_figure(size[1], size[0]) as figure:
        yield figure
        write_figure(figure, path)


def write_figure(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a figure to a .png, .svg or .pdf file; the same figure gives the same file."""
    kind = Path(path).suffix.lower()[1:]
    dates = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
    with atomic_write(path, "wb") as file:
        figure.savefig(file, format=kind, metadata=dates[kind])
