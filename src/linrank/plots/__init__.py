"""Plots: figures, colours and texts that all of them share, and plot files.

Each module draws the results of one subject. matplotlib is imported when it is needed.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._util.files import atomic_write
from .._util.text import NEGATIVE, POSITIVE, printable
from ..errors import DataError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


#: Palette of Okabe & Ito, which colour-blind readers can distinguish. Yellow is left out because
#: it is too pale for a line on white.
COLOURS = (POSITIVE, NEGATIVE, "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
LINES = ("-", "--", "-.", ":")  #: styles of lines that may lie on each other
REST = "#999999"  #: colour of a bar that stands for several features
C_AXIS = "C, the weight of the loss against the penalty (log scale)"
WIDTH = 7.0  #: inches of a new figure
LEAST_SHOWN = 1e-16  #: relative distances below this are rounding, and are not drawn
FORMATS = (".png", ".svg", ".pdf")  #: suffixes of plot files
PAGE_WIDTH = 6.0  #: inches of a picture on a page; in wider ones, texts are too small on phones
DPI = 150  #: pixels per inch of .png files

_STYLE_FILE = Path(__file__).parents[1] / "style.mplstyle"  # plt.style.use("linrank.style")
#: Settings of matplotlib, as texts that matplotlib reads
STYLE: dict[str, Any] = {
    name: value.strip('"')
    for line in _STYLE_FILE.read_text("utf-8").splitlines()
    if not line.startswith("#")
    for name, value in [line.split(": ", 1)]
}


def has_matplotlib() -> bool:
    """Tell whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def check_matplotlib() -> None:
    """Raise a `DataError` if matplotlib is not installed."""
    if not has_matplotlib():
        raise DataError("plots need matplotlib; install it: pip install 'linrank[plot]'")


def drawn(draw: Callable[[Axes], None], ax: Axes | None, height: float = 4.0) -> Axes:
    """Draw on the given axes, or on those of a new figure of pyplot, and return them.

    Given axes keep their style. A new figure has the style of linrank.
    """

    def draw_alone(figure: Figure) -> Axes:
        axes: Axes = figure.subplots()
        draw(axes)
        return axes

    if ax is None:
        return drawn_figure(draw_alone, (WIDTH, height))
    draw(ax)
    return ax


def drawn_figure(draw: Callable[[Figure], Axes], size: tuple[float, float]) -> Axes:
    """Draw on a new figure of pyplot, of a size in inches, and return the axes that `draw` does."""
    check_matplotlib()
    import matplotlib
    from matplotlib import pyplot

    with matplotlib.rc_context(STYLE):
        return draw(pyplot.figure(figsize=size, layout="constrained"))


def colour(k: int) -> str:
    """Return the k-th colour of the palette, or of its repetition.

    Black is replaced by the present colour of text, which is seen on dark pages too.
    """
    import matplotlib

    found = COLOURS[k % len(COLOURS)]
    return matplotlib.rcParams["text.color"] if found == "#000000" else found


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
    check_plot_file(path)
    with new_figure(size[1], size[0]) as figure:
        draw(figure)
        write_figure(figure, path)


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


def write_figure(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a figure to a .png, .svg or .pdf file; the same figure gives the same file."""
    kind = Path(path).suffix.lower()[1:]
    dates = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
    with atomic_write(path, "wb") as file:
        figure.savefig(file, format=kind, metadata=dates[kind])


def power_of_two(C: float) -> str:
    """Return a number as text, as a formula of matplotlib if it is a power of two."""
    mantissa, exponent = np.frexp(C)
    return f"$2^{{{exponent - 1}}}$" if mantissa == 0.5 else f"{C:.4g}"


def number_text(x: float) -> str:
    """Return a number as a short label of an axis.

    Examples
    --------
    >>> [number_text(x) for x in (0.1234, 12345.6, 2e7, -1e-9)]
    ['0.123', '12,300', '2e7', '-1e-9']
    """
    size = abs(x)
    if 1000.0 <= size < 1e6:
        return f"{float(f'{x:.3g}'):,.0f}"
    mantissa, _, exponent = f"{x:.3g}".partition("e")
    return f"{mantissa}e{int(exponent)}" if exponent else mantissa


def short(name: str, length: int = 24) -> str:
    """Shorten a name for a legend. matplotlib would hide a name that begins with "_"."""
    name = printable(name)
    name = plain(name if len(name) <= length else name[: length - 1] + "…")
    return name.replace("_", " _", 1) if name[:1] == "_" else name


def plain(text: str) -> str:
    """Escape control characters and "$", which begins a formula in matplotlib."""
    return printable(text).replace("$", r"\$")
