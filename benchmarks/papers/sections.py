"""Parts of all pages: figures beside published ones, and marks of generated data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.plots import draw
from benchmarks.tools import Options, Section

#: Columns of a section that compares single figures with published ones.
COMPARED = ["what", "published", "linrank", "difference", "reason"]
GENERATED = "The paper's data are not available. The data here are generated, with the same shape"


def compare(
    section: Section, what: str, published: float, ours: float, reason: str = "",
    *, digits: int = 4, spread: float | None = None,
) -> None:  # fmt: skip
    """Add a row of `COMPARED`: a published figure, the one found, and why they differ.

    Parameters
    ----------
    spread : float, optional
        Standard deviation of the figure found, over folds or over changes of the last bits.
    """
    shown = f"{ours:.{digits}f}" + ("" if spread is None else f" ± {spread:.{digits}f}")
    section.add(
        what, f"{published:.{digits}f}", shown, f"{ours - published:+.{digits}f}", reason or "—",
        what=what, published=published, linrank=ours, spread=spread, reason=reason,
    )  # fmt: skip


def add_plot(
    section: Section, options: Options, name: str, description: str,
    panels: list[Callable[[Any], None]], width: float = 4.6,
) -> None:  # fmt: skip
    """Draw panels into ``name.svg`` beside the page, and show the plot below the table."""
    draw(options.out / f"{name}.svg", panels, width)
    section.images[f"{name}.svg"] = description
