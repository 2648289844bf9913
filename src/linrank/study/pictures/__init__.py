"""Pictures of a study, drawn from names and arrays on axes or figures of matplotlib.

The colours of text, axes and grids are those of ``matplotlib.rcParams`` when a picture is drawn.
The k-th method has the same colour, marker and line style in all pictures. A method without
results keeps its place if its values are NaN; it is left out of the picture and of the legend.
"""

from __future__ import annotations

from ..._draw import draw_weights
from .comparisons import draw_critical_difference, draw_differences, height_of_ranks
from .lines import draw_along_C, draw_convergence, draw_cutoffs
from .points import draw_pareto, draw_removed, draw_tradeoff

__all__ = [
    "draw_along_C",
    "draw_convergence",
    "draw_critical_difference",
    "draw_cutoffs",
    "draw_differences",
    "draw_pareto",
    "draw_removed",
    "draw_tradeoff",
    "draw_weights",
    "height_of_ranks",
]
