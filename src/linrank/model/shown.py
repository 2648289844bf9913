"""`ShowsParts`: models as short texts, tables and plots of the parts of their scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .._checks import choice
from .._draw import WIDTH, draw_bars, drawn, features, height_of_bars
from .._tables import html_table, same_decimals
from .._text import printable
from .._typing import Integers, Vector
from ..errors import DataError
from .explain import Cells

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAMED = 3  #: features that the short form of a model names
TOP = 20  #: features that a table or plot of a model shows by default


class Column(NamedTuple):
    """One number per feature of a model, such as its weight."""

    name: str
    values: Vector | Integers
    meaning: str  #: a label for an axis

    @property
    def title(self) -> str:
        """The name as a text for people."""
        return self.name.replace("_", " ")

    def texts(self, features: Integers) -> list[str]:
        """Return the numbers of some features as aligned texts; counts have no decimals."""
        values = self.values[features].tolist()
        if self.values.dtype.kind == "i":
            return [f"{value:,}" for value in values]
        return same_decimals(values)


class ShowsParts:
    """Base class of what has parts with names and numbers, and is shown by them."""

    n_features: int

    def part_name(self, part: int) -> str:
        """Return the name of a part: a feature or, after all features, a pair of features."""
        raise NotImplementedError

    def facts(self) -> dict[str, object]:
        """Return facts about the parameters by their names, for people."""
        return {}

    def columns(self) -> list[Column]:
        """Return numbers of the parts, for tables; the last ones say how important they are.

        Models without such numbers have no columns.
        """
        return []

    def remarks(self, parts: Integers) -> dict[str, list[str]]:
        """Return further columns of a table of some parts, as texts."""
        return {}

    def details(self, part: int) -> dict[str, object]:
        """Return further facts about one part, for programs."""
        return {}

    def count_used(self) -> int | None:
        """Return the number of features that have a part in the score; None if not known."""
        columns = self.columns()
        return int(np.count_nonzero(columns[-1].values)) if columns else None

    def ordered(self) -> Integers:
        """Return the parts by importance: by the absolute values in the last of `columns`."""
        if not self.columns():
            return np.empty(0, np.int64)
        return np.argsort(-np.abs(self.columns()[-1].values), kind="stable")

    def plot(self, ax: Axes | None = None, top: int = TOP, column: str | None = None) -> Axes:
        """Draw the features with the largest weights as bars.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            None: those of a new figure.
        top : int
            Number of features to draw.
        column : str, optional
            The name of one of `columns`, such as "weight". None: the last one, which says how
            important a feature is.

        Returns
        -------
        matplotlib Axes

        Examples
        --------
        >>> from linrank import LinearModel
        >>> axes = LinearModel([1.0, -0.5], feature_names=["bm25", "length"]).plot(top=2)
        >>> len(axes.patches)
        2
        """
        columns = {known.name: known for known in self.columns()}
        if not columns:
            raise DataError(f"a {type(self).__name__} has no weights of features to plot")
        choice("column", column, [None, *columns])
        shown = self.columns()[-1] if column is None else columns[column]
        values = shown.values
        order = np.argsort(-np.abs(values), kind="stable")[: min(top, np.count_nonzero(values))]
        title = f"{len(order)} of {features(self.n_features)}, by {shown.title}"

        def draw(axes: Axes) -> None:
            draw_bars(
                axes, list(map(self.part_name, order.tolist())), values[order].tolist(),
                title=title, label=shown.meaning,
            )  # fmt: skip

        return drawn(draw, ax, height_of_bars(len(order)))

    def draw(self, figure: Figure, top: int = TOP) -> Axes:
        """Draw what `plot` draws on an empty figure, and return the first axes."""
        return self.plot(figure.subplots(), top)

    def figure_size(self, top: int = TOP) -> tuple[float, float]:
        """Return the width and height of a figure for `draw`, in inches."""
        return WIDTH, height_of_bars(min(top, self.n_features))

    def __repr__(self) -> str:
        facts = [features(self.n_features)]
        facts += [f"{name}: {fact}" for name, fact in self.facts().items()]
        order = self.ordered()[:NAMED].tolist()
        for column in self.columns()[-1:]:
            largest = [f"{self.part_name(f)} {x:.3g}" for f in order if (x := column.values[f])]
            facts += [f"largest by {column.title}: {', '.join(largest)}"] if largest else []
        return printable(f"{type(self).__name__}({'; '.join(facts)})")

    def _repr_html_(self) -> str:
        titles, rows, bars = self.table()
        return html_table(titles, rows, title=repr(self), bars=bars)

    def table(self, top: int = TOP) -> Cells:
        """Return a table of the most important parts: names, numbers and remarks."""
        columns, order = self.columns(), self.ordered()[:top]
        remarks = self.remarks(order)
        rows = zip(
            map(self.part_name, order.tolist()), *(column.texts(order) for column in columns),
            *remarks.values(), strict=True,
        )  # fmt: skip
        titles = ["feature", *(column.title for column in columns), *remarks]
        bars = columns[-1].values[order].tolist() if columns else []
        return Cells(titles, [list(row) for row in rows], bars)
