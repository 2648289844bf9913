"""The page of a preference model: leaderboard, intervals, win matrix and calibration."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._util.text import count
from .._version import __version__
from ..plots import COLOURS, has_matplotlib, new_figure, short
from ..plots.result_plots import height_of_bars
from ..preferences.diagnosis import (
    MOST_CYCLES,
    calibration,
    count_cycles,
    elo,
    judge_influence,
    votes_needed,
)
from ..preferences.inference import LOG_10
from ..preferences.preference_model import PreferenceModel
from ..preferences.votes import TIE, A
from .page import NO_PICTURES, Block, Facts, Page, Picture, Section, Table, TableColumn, svg_of
from .page import write_page as write_html

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

SHOWN = 40  #: items in pictures and in the win matrix; more of them would be too small to read


class Display(NamedTuple):
    """How strengths are shown.

    Attributes
    ----------
    scale : float or None
        Points for a strength that is 10 times as large; None shows natural logarithms.
    base : float
        A number that is added.
    level : float
        Probability that an interval covers the strength.
    anchor : mapping or None
        One item and the strength that it gets.
    resamples : int
        Bootstrap samples that intervals come from; 0 for those of standard errors.
    half_width : float or None
        Half the length of an interval; a column then tells how many further votes it would take.
    """

    scale: float | None = None
    base: float = 0.0
    level: float = 0.95
    anchor: Mapping[Any, float] | None = None
    resamples: int = 0
    half_width: float | None = None

    def table(self, model: PreferenceModel) -> pd.DataFrame:
        """Return the items with their strengths, the strongest first."""
        found = model.table(self.level, scale=self.scale, base=self.base, anchor=self.anchor,
                            resamples=self.resamples)  # fmt: skip
        if self.half_width is not None:
            needed = votes_needed(model, self.half_width, self.level, self.scale)
            found["needed"] = [needed[item] for item in found["item"]]
        return found


def leaderboard(found: pd.DataFrame, display: Display) -> Table:
    """Return the items with their strengths, intervals and possible ranks as a table."""
    decimals = 3 if display.scale is None else 1
    interval = f"of the interval of {display.level:.0%}."
    number = [TableColumn(name, "number", decimals, meaning) for name, meaning in (
        ("strength", "Only differences of strengths have a meaning."),
        ("low", f"Lower end {interval}"), ("high", f"Upper end {interval}"),
        ("quasi se", "Two items differ by about the root of the sum of both squares."),
    )]  # fmt: skip
    columns = [
        TableColumn("item"), TableColumn("rank", "count"), *number,
        TableColumn("best", "count", help="The best rank that comparisons with all items allow."),
        TableColumn("worst", "count", help="The worst rank that comparisons with all items allow."),
        TableColumn("votes", "number", 0),
    ]  # fmt: skip
    fields = ["item", "rank", "strength", "low", "high", "quasi_se", "rank_low", "rank_high",
              "votes"]  # fmt: skip
    if "needed" in found:
        meaning = f"Further votes for an interval of ± {display.half_width:g}."
        columns.append(TableColumn("further", "count", help=meaning))
        fields.append("needed")
    if found["note"].any():
        columns.append(TableColumn("note"))
        fields.append("note")
    shown = found.assign(item=found["item"].map(str))[fields]
    return Table("leaderboard", "Leaderboard", columns, list(shown.itertuples(index=False)))


def win_matrix(model: PreferenceModel) -> Table:
    """Return the shares of votes that the item of the row wins; a tie is half a win."""
    votes, n = model.votes_, len(model.votes_.items)
    order = np.argsort(-model.strengths_.values, kind="stable")[:SHOWN]
    share = votes.wins[:, A] + 0.5 * votes.wins[:, TIE]
    total = votes.totals()
    size = (n, n)
    won, met = np.zeros(size), np.zeros(size)
    np.add.at(won, (votes.a, votes.b), share)
    np.add.at(won, (votes.b, votes.a), total - share)
    np.add.at(met, (votes.a, votes.b), total)
    met += met.T
    names = [str(votes.items[k]) for k in order]
    rows = [
        [name, *(won[i, j] / met[i, j] if met[i, j] else None for j in order)]
        for name, i in zip(names, order, strict=True)
    ]
    columns = [TableColumn("item"), *(TableColumn(short(name), "percent", 0) for name in names)]
    return Table("wins", "Share of votes that the item of the row wins", columns, rows,
                 "A tie is half a win.")  # fmt: skip


def arena_page(model: PreferenceModel, title: str, display: Display | None = None) -> Page:
    """Return the page of a preference model."""
    display = display or Display()
    found = display.table(model)
    sections = [
        Section("summary", "Summary", list(_summary(model, found, display))),
        Section("leaderboard", "Leaderboard", list(_board(found, display))),
        Section("calibration", "Calibration", list(_calibration(model))),
        Section("wins", "Wins", [win_matrix(model)]),
        Section("elo", "Sequential Elo", list(_elo(model))),
    ]
    if model.votes_.judge is not None:
        sections.insert(3, Section("judges", "Judges", list(_judges(model, display))))
    lead = f"Strengths of {count(len(model.votes_.items), 'item')} from votes."
    lead = lead if has_matplotlib() else f"{lead} {NO_PICTURES}"
    return Page(title, sections, lead, f"Made by linrank {__version__}.")


def write_arena_page(
    path: str | os.PathLike[str],
    model: PreferenceModel,
    title: str,
    display: Display | None = None,
) -> None:
    """Write the page of a preference model: one HTML file that needs no network."""
    write_html(path, arena_page(model, title, display))


def facts_of(model: PreferenceModel) -> list[tuple[str, str]]:
    """Return facts of a fitted model as names and texts."""
    votes, sums = model.votes_, model.votes_.wins.sum(axis=0)
    penalty = "none" if model.penalty_ is None else str(model.penalty_)
    found = [
        ("votes", f"{sums.sum():,.0f}"),
        ("items", f"{len(votes.items):,}"),
        ("ties", f"{sums[TIE] / sums.sum():.1%}"),
        ("ties as", model.ties),
        ("penalty", penalty),
        ("log-likelihood per vote", f"{model.log_likelihood(votes):.4f}"),
    ]
    if votes.judge is not None:
        found.append(("judges", f"{len(np.unique(votes.judge)):,}"))
    if len(votes.items) <= MOST_CYCLES:
        found.append(("cycles of three", f"{count_cycles(votes):,}"))
    return found


def _summary(model: PreferenceModel, found: pd.DataFrame, display: Display) -> Iterator[Block]:
    yield Facts(facts_of(model))
    best = found.iloc[0]
    yield (
        f"{best['item']} has the largest strength. Its rank may be from {best['rank_low']} to "
        f"{best['rank_high']}."
    )
    if model.separated_:
        yield (
            "Some strengths are infinite or unknown without a penalty; the column note marks them, "
            "and the penalty makes them finite."
        )
    others = model.coefficients(display.level)
    if len(others):
        columns = [TableColumn("coefficient"), *(TableColumn(name, "number") for name in
                   ("estimate", "se", "low", "high")), TableColumn("note")]  # fmt: skip
        if not others["note"].any():
            columns, others = columns[:-1], others.drop(columns="note")
        yield Table("coefficients", "Other coefficients", columns, others.to_numpy().tolist())


def _board(found: pd.DataFrame, display: Display) -> Iterator[Block]:
    if has_matplotlib():
        shown = found.head(SHOWN)
        with new_figure(height_of_bars(len(shown))) as figure:
            draw_strengths(figure.subplots(), shown, display.level)
            svg = svg_of(figure)
        alt = "A point and two intervals for each item, the strongest on top."
        caption = (
            f"Strengths with intervals of {display.level:.0%} (thin), and with comparison "
            "intervals (thick). Two items whose thick lines do not overlap differ clearly."
        )
        yield Picture("strengths", caption, alt, svg)
    yield leaderboard(found, display)


def draw_strengths(ax: Axes, found: pd.DataFrame, level: float) -> None:
    """Draw a table of strengths: a point and two intervals per item, the strongest on top."""
    places = np.arange(len(found))
    strength = found["strength"].to_numpy()
    sides = np.stack([strength - found["low"], found["high"] - strength])
    ax.errorbar(strength, places, xerr=sides, fmt="o", color=COLOURS[0], markersize=4)
    ax.hlines(places, found["quasi_low"], found["quasi_high"], colors=COLOURS[0], linewidth=4,
              alpha=0.35)  # fmt: skip
    ax.set_yticks(places, [short(str(item)) for item in found["item"]])
    ax.set_ylim(len(found) - 0.4, -0.6)
    ax.set_xlabel(f"strength, with intervals of {level:.0%}")


def _calibration(model: PreferenceModel) -> Iterator[Block]:
    found = calibration(model, model.votes_)
    if has_matplotlib():
        with new_figure(3.6) as figure:
            ax = figure.subplots()
            ax.plot([0, 1], [0, 1], color="#999999", linewidth=0.8)
            ax.plot(found["predicted"], found["observed"], "o-", color=COLOURS[0])
            ax.set_xlabel("predicted share of the first item")
            ax.set_ylabel("observed share")
            svg = svg_of(figure)
        alt = "Observed shares against predicted shares, with the diagonal."
        caption = "Predicted and observed shares in bins of votes."
        yield Picture("shares", caption, alt, svg)
    columns = [TableColumn("predicted", "percent"), TableColumn("observed", "percent"),
               TableColumn("votes", "number", 0)]  # fmt: skip
    yield Table("bins", "Calibration on the votes of the fit", columns, found.to_numpy().tolist())


def _judges(model: PreferenceModel, display: Display) -> Iterator[Block]:
    yield "How far the strength of an item would move without the votes of one judge, at most."
    found = judge_influence(model).head(SHOWN)
    unit = 1.0 if display.scale is None else display.scale / LOG_10
    decimals = 3 if display.scale is None else 1
    columns = [TableColumn("judge"), TableColumn("votes", "number", 0), TableColumn("item"),
               TableColumn("change", "signed", decimals)]  # fmt: skip
    rows = [[str(judge), votes, str(item), unit * change]
            for judge, votes, item, change in found.itertuples(index=False)]  # fmt: skip
    yield Table("influence", "Judges with the largest influence", columns, rows)


def _elo(model: PreferenceModel) -> Iterator[Block]:
    yield (
        "Sequential ratings depend on the order of the votes and on k = 32. They are shown for "
        "comparison with strengths on the same scale."
    )
    ratings = elo(model.votes_)
    found = model.table(scale=400.0, base=1000.0)
    columns = [TableColumn("item"), TableColumn("strength", "number", 1),
               TableColumn("sequential Elo", "number", 1)]  # fmt: skip
    rows = [[str(item), strength, ratings[item]]
            for item, strength in zip(found["item"], found["strength"], strict=True)]  # fmt: skip
    yield Table("elo-ratings", "Strengths and sequential ratings", columns, rows)
