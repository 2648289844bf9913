"""Drawing of names and numbers on axes of matplotlib, which is imported when a plot is drawn."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ._tables import NEGATIVE, POSITIVE, same_decimals
from ._text import printable
from ._typing import Integers, Vector
from .errors import DataError

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
BAR_HEIGHT = 0.27  #: inches of a bar with its margin
LEAST_SHOWN = 1e-16  #: relative distances below this are rounding, and are not drawn

_STYLE_FILE = Path(__file__).with_name("style.mplstyle")  # plt.style.use("linrank.style")
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


def height_of_bars(n: int) -> float:
    """Return the height of a figure with n bars, in inches."""
    return 1.0 + BAR_HEIGHT * max(n, 2)


def colour(k: int) -> str:
    """Return the k-th colour of the palette, or of its repetition.

    Black is replaced by the present colour of text, which is seen on dark pages too.
    """
    import matplotlib

    found = COLOURS[k % len(COLOURS)]
    return matplotlib.rcParams["text.color"] if found == "#000000" else found


def draw_bars(
    ax: Axes, names: Sequence[str], values: Sequence[float], *, title: str, label: str,
    rest: float | None = None, rest_name: str = "",
) -> None:  # fmt: skip
    """Draw horizontal bars with their values, the first name on top.

    `rest` is a last bar in grey, for all that has no bar of its own.
    """
    values, colours = list(values), [NEGATIVE if v < 0 else POSITIVE for v in values]
    labels = [short(name) for name in names]
    if rest is not None:
        values, colours, labels = [*values, rest], [*colours, REST], [*labels, rest_name]
    places = np.arange(len(values))
    bars = ax.barh(places, values, color=colours, height=0.7)
    ax.bar_label(bars, same_decimals(values), padding=3)
    ax.axvline(0.0, color="#666666", linewidth=0.8)
    ax.set_yticks(places, labels)
    ax.set_ylim(len(values) - 0.4, -0.6)  # the first name is on top
    ax.grid(visible=False, axis="y")
    ax.tick_params(axis="y", length=0)
    ax.margins(x=0.28)  # room for the values
    ax.set_title(title)
    ax.set_xlabel(label)
    ax.set_ylabel("feature")


def draw_history(
    ax: Axes, iterations: Sequence[int], curves: Mapping[str, Vector], title: str
) -> None:
    """Draw quantities that should fall towards 0 against the iterations, on a log scale."""
    marker = "o" if len(iterations) < 50 else ""
    for k, (name, values) in enumerate(curves.items()):
        shown = np.where(values > LEAST_SHOWN, values, np.nan)
        ax.semilogy(
            iterations, shown, marker=marker, linestyle=LINES[k % len(LINES)], color=COLOURS[k],
            markersize=3.5, linewidth=1.4, label=name,
        )  # fmt: skip
    ax.set_title(title)
    ax.set_xlabel("iteration")
    ax.set_ylabel("relative size (log scale)")
    ax.locator_params(axis="x", integer=True)
    _legend_inside(ax, "best")


def draw_distribution(ax: Axes, values: Mapping[str, Vector], title: str) -> None:
    """Draw, for each name, the share of values that are at most as large as the one on the axis."""
    for k, (name, found) in enumerate(values.items()):
        known = found[~np.isnan(found)]
        if len(known):
            ax.ecdf(
                known, color=COLOURS[k % len(COLOURS)], linestyle=LINES[k % len(LINES)],
                linewidth=1.6, label=plain(name),
            )  # fmt: skip
    ax.set_title(title)
    ax.set_xlabel("value of the metric in a query")
    ax.set_ylabel("share of queries up to this value")
    ax.set_yticks(np.linspace(0.0, 1.0, 6))
    ax.set_ylim(0.0, 1.05 + 0.12 * len(values))  # the legend is above the curves
    _legend_inside(ax, "upper left")


def draw_differences(ax: Axes, differences: Vector, title: str, label: str) -> None:
    """Draw differences in descending order: positive ones blue, negative ones red."""
    known = -np.sort(-differences[~np.isnan(differences)])
    edges = np.arange(len(known) + 1) + 0.5
    for colour, part in ((POSITIVE, np.maximum(known, 0.0)), (NEGATIVE, np.minimum(known, 0.0))):
        ax.stairs(part, edges, fill=True, color=colour)
    ax.axhline(0.0, color="#666666", linewidth=0.8)
    ax.set_title(plain(title))
    ax.set_xlabel("queries, sorted by difference")
    ax.set_ylabel(plain(label))
    ax.locator_params(axis="x", integer=True)


def _legend_inside(ax: Axes, place: str) -> None:
    """Put the legend inside, because axes of a larger figure have no room beside them."""
    if ax.get_legend_handles_labels()[1]:
        ax.legend(loc=place, frameon=True, framealpha=0.8, edgecolor="none")


def draw_metric(ax: Axes, Cs: Vector, values: Vector, best: int, metric: str, word: str) -> None:
    """Draw a metric against C, with a mark at the best C or another chosen one."""
    ax.semilogx(Cs, values, "o-", base=2, color=COLOURS[0], markersize=3.5, linewidth=1.4)
    ax.plot(Cs[best], values[best], "D", color=COLOURS[1], markersize=7, zorder=3)
    ax.axvline(Cs[best], color=COLOURS[1], linewidth=0.8, linestyle=":")
    ax.set_title(f"{word}: {values[best]:.4f} at C = {power_of_two(Cs[best])}")
    ax.set_xlabel(C_AXIS)
    ax.set_ylabel(f"mean {plain(metric)}")
    ax.margins(y=0.1)


def draw_weights(
    ax: Axes, Cs: Vector, coefs: Vector, names: Sequence[str], marked: int | None = None,
    word: str = "Chosen",
) -> None:  # fmt: skip
    """Draw the weights that are largest at the marked C, and then those largest at any C.

    Without a mark, the largest are those at the largest C.
    """
    at = len(Cs) - 1 if marked is None else marked
    where = "largest C" if marked is None else f"{word.lower()} C"
    here, anywhere = np.abs(coefs[at]), np.abs(coefs).max(axis=0)
    largest = np.lexsort((-anywhere, -here))[: min(len(COLOURS), np.count_nonzero(anywhere))]
    shown = largest[np.argsort(-coefs[-1, largest], kind="stable")]  # the order of the legend
    for k, feature in enumerate(shown):
        ax.semilogx(
            Cs, coefs[:, feature], base=2, color=colour(k), linestyle=LINES[k % len(LINES)],
            linewidth=1.4, label=short(names[feature]),
        )  # fmt: skip
    ax.axhline(0.0, color="#666666", linewidth=0.8)
    if marked is not None:
        ax.axvline(Cs[marked], color=COLOURS[1], linewidth=0.8, linestyle=":")
    title, n_used = "Weights", np.count_nonzero(here[shown])
    if n_used < len(shown):
        title += f" ({features(len(shown))}, {n_used} of them in use at the {where})"
    elif 0 < n_used < len(here):
        title += f" (the {n_used} largest at the {where})"
    ax.set_title(title)
    ax.set_xlabel(C_AXIS)
    ax.set_ylabel("weight w (score per unit of the feature)")
    if len(shown):
        ax.legend(title="feature", loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0)


def draw_features(ax: Axes, n_features: Integers, values: Vector, best: int, metric: str) -> None:
    """Draw a metric against the number of features with a weight."""
    ax.plot(n_features, values, "o-", color=COLOURS[0], markersize=3.5, linewidth=1.0)
    ax.plot(n_features[best], values[best], "D", color=COLOURS[1], markersize=7, zorder=3)
    ax.set_title(f"{features(n_features[best])}, {values[best]:.4f}")
    ax.set_xlabel("features with a weight")
    ax.set_ylabel(f"mean {plain(metric)}")
    ax.locator_params(axis="x", integer=True)
    ax.margins(y=0.1)


def features(n: int) -> str:
    """Return a number of features as text."""
    return f"{n} feature" if n == 1 else f"{n:,} features"


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
