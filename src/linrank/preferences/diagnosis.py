"""Checks of votes and of fitted models: components, separation, calibration, judges and Elo."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from .._compile.jit import njit
from .._util.checks import positive_number
from .._util.text import data_frame
from .._util.types import Array, Integers, Vector
from ..data.pairs import connected_rows
from ..errors import DataError
from .votes import TIE, A, Rows, Votes

if TYPE_CHECKING:
    import pandas as pd

    from .likelihood import FittedVotes, Likelihood
    from .preference_model import PreferenceModel

__all__ = ["calibration", "count_cycles", "elo", "judge_influence", "votes_needed"]


NOTE = "needs the penalty"  #: of estimates that are infinite or unknown without it
NAMED = 5  #: items that a message names
DIVERGING = 0.1  #: share of the largest step above which a parameter counts as infinite
MOST_CYCLES = 3000  #: items between which cycles are counted; more would take too much memory


def calibration(model: PreferenceModel, votes: Votes, n_bins: int = 10) -> pd.DataFrame:
    """Compare predicted with observed shares of a, in bins with equal numbers of rows.

    Parameters
    ----------
    model : PreferenceModel
    votes : Votes
        Votes that the model may not have seen.
    n_bins : int

    Returns
    -------
    pandas.DataFrame
        Columns predicted, observed and votes. A tie is half a win.

    Examples
    --------
    >>> from linrank import PreferenceModel
    >>> model = PreferenceModel().fit(["x", "y", "x"], ["y", "x", "y"], ["a", "a", "tie"])
    >>> calibration(model, model.votes_, 1)["observed"].round(3).tolist()
    [0.833]
    """
    p, weight = model.probabilities_of(votes), votes.totals()
    share = p[:, A] + 0.5 * p[:, TIE]
    won = votes.wins[:, A] + 0.5 * votes.wins[:, TIE]
    bins = np.array_split(np.argsort(share, kind="stable"), min(n_bins, len(votes)))
    return data_frame({
        "predicted": [np.average(share[rows], weights=weight[rows]) for rows in bins],
        "observed": [won[rows].sum() / weight[rows].sum() for rows in bins],
        "votes": [weight[rows].sum() for rows in bins],
    })  # fmt: skip


def judge_influence(model: PreferenceModel) -> pd.DataFrame:
    """Estimate how far the strengths would move without each judge, by one Newton step.

    Parameters
    ----------
    model : PreferenceModel
        Fitted with judges.

    Returns
    -------
    pandas.DataFrame
        Columns judge, votes, item and change: the item whose strength would change most. The
        largest change is first.

    Examples
    --------
    >>> from linrank import PreferenceModel
    >>> model = PreferenceModel().fit(
    ...     ["x", "y", "x"], ["y", "x", "y"], ["a", "a", "tie"], judge=["u", "v", "u"]
    ... )
    >>> judge_influence(model)["votes"].tolist()
    [2.0, 1.0]
    """
    judges, votes, change = model.judge_shifts()
    largest = np.abs(change).argmax(axis=1)
    moved = change[np.arange(len(judges)), largest]
    order = np.argsort(-np.abs(moved), kind="stable")
    return data_frame({
        "judge": [judges[k] for k in order], "votes": votes[order],
        "item": [model.votes_.items[k] for k in largest[order]], "change": moved[order],
    })  # fmt: skip


def count_cycles(votes: Votes) -> int:
    """Count cyclic triads: three items of which each wins most votes against the next.

    Parameters
    ----------
    votes : Votes

    Returns
    -------
    int

    Examples
    --------
    >>> from linrank.preferences.votes import make_votes
    >>> count_cycles(make_votes(["x", "y", "z"], ["y", "z", "x"], ["a", "a", "a"]))
    1
    """
    n = len(votes.items)
    if n > MOST_CYCLES:
        raise DataError(f"there are {n:,} items; cycles are counted for at most {MOST_CYCLES:,}")
    cells = votes.a * n + votes.b
    first = np.bincount(cells, votes.wins[:, 0], n * n).reshape(n, n)
    second = np.bincount(cells, votes.wins[:, 1], n * n).reshape(n, n)
    won = first + second.T
    beats = (won > won.T).astype(np.float64)
    return round(float(((beats @ beats) * beats.T).sum()) / 3.0)


def votes_needed(
    model: PreferenceModel, half_width: float, level: float = 0.95, scale: float | None = None
) -> pd.Series:
    """Estimate how many further votes each item needs for an interval of ± `half_width`.

    The variance of a strength is taken to fall with 1 / (number of its votes).

    Parameters
    ----------
    model : PreferenceModel
    half_width : float
        In the units of `scale`.
    level, scale
        See `linrank.PreferenceModel.table`.

    Returns
    -------
    pandas.Series
        Numbers of votes by item, 0 for items whose intervals are short enough.

    Examples
    --------
    >>> from linrank import PreferenceModel
    >>> model = PreferenceModel().fit(["x", "y"], ["y", "x"], [[30, 20, 5], [25, 22, 4]])
    >>> bool((votes_needed(model, 0.05) > 0).all())
    True
    """
    width = positive_number("half_width", half_width)
    found = model.table(level, scale=scale).set_index("item")
    ratio = ((found["high"] - found["low"]) / 2.0 / width) ** 2
    if ratio.isna().any():
        raise DataError("the model has no intervals; they need at most 3,000 items and parameters")
    more = np.ceil((ratio - 1.0).clip(lower=0.0) * found["votes"])
    return more.astype(np.int64).rename("votes")


def elo(
    votes: Votes, k: float = 32.0, scale: float = 400.0, base: float = 1000.0
) -> dict[object, float]:
    """Return sequential Elo ratings, which depend on the order of the votes.

    After a vote with the share y of a (½ for a tie), the rating of a rises by k·(y − p), and that
    of b falls by as much, with p = 1 / (1 + 10^((r_b − r_a)/scale)).

    Parameters
    ----------
    votes : Votes
        One vote per row, in the order in which they were given.
    k, scale, base : float

    Returns
    -------
    dict
        The rating of each item.

    Examples
    --------
    >>> from linrank.preferences.votes import make_votes
    >>> elo(make_votes(["x"], ["y"], ["a"]))
    {'x': 1016.0, 'y': 984.0}
    """
    ratings = np.full(len(votes.items), float(base))
    total = votes.wins.sum(axis=1)
    share = (votes.wins[:, A] + 0.5 * votes.wins[:, TIE]) / np.maximum(total, 1e-300)
    _walk(votes.a, votes.b, share, total, float(k), float(scale), ratings)
    return dict(zip(votes.items, ratings.tolist(), strict=True))


@njit
def _walk(
    a: Array, b: Array, share: Vector, weight: Vector, k: float, scale: float, ratings: Vector
) -> None:
    for v in range(len(a)):
        p = 1.0 / (1.0 + 10.0 ** ((ratings[b[v]] - ratings[a[v]]) / scale))
        step = k * weight[v] * (share[v] - p)
        ratings[a[v]] += step
        ratings[b[v]] -= step


# --------------------------------------------------------------------------------------------------
# Votes that leave strengths unknown or infinite: components, and items that always win.


def listed(names: Iterable[Any]) -> str:
    """Return the first names as a text for a message.

    Examples
    --------
    >>> listed("abcdefg")
    "'a', 'b', 'c', 'd', 'e' and 2 others"
    """
    shown = list(map(repr, names))
    more = f" and {len(shown) - NAMED} others" if len(shown) > NAMED else ""
    return ", ".join(shown[:NAMED]) + more


def check_components(rows: Rows, items: Sequence[Any]) -> None:
    """Raise an error if votes do not connect all items."""
    pairs = np.stack([rows.a, rows.b], axis=1)
    groups = connected_rows(pairs[rows.W.any(axis=1)], len(items))
    sizes = np.bincount(groups)
    if len(sizes) == 1:
        return
    small = np.flatnonzero(groups == np.argmin(sizes))
    raise DataError(
        f"the votes fall into {len(sizes):,} components of items that no vote connects, such as "
        f"{listed(items[k] for k in small.tolist())}. Strengths of different components cannot be "
        "compared: fit the largest one of them, or use penalty=1.0, which pulls all strengths "
        "towards 0"
    )


def outside_of_cycles(rows: Rows, n_items: int) -> Integers:
    """Return the items outside the largest group whose members win against each other in cycles.

    A tie counts as a win of both items. The strengths of the items that are returned are infinite,
    or unknown if no vote connects them with the group.
    """
    tie = rows.W[:, TIE] > 0
    won, lost = (rows.W[:, 0] > 0) | tie, (rows.W[:, 1] > 0) | tie
    source = np.concatenate([rows.a[won], rows.b[lost]])
    target = np.concatenate([rows.b[won], rows.a[lost]])
    return outside_of_group(source, target, n_items)


def outside_of_group(source: Integers, target: Integers, n_items: int) -> Integers:
    """Return the items outside the largest strongly connected group of a graph of wins."""
    links = sparse.coo_array((np.ones(len(source)), (source, target)), shape=(n_items, n_items))
    _, groups = csgraph.connected_components(links, connection="strong")
    sizes = np.bincount(groups)
    return np.flatnonzero((groups != np.argmax(sizes)) | (sizes.max() == 1))


def diverging_parameters(likelihood: Likelihood, solution: FittedVotes) -> Integers:
    """Return the places in θ of the parameters that Newton's method takes to infinity.

    If no finite θ is an optimum, the last steps are a direction in which the likelihood rises for
    ever. The steps of strengths are counted from their median.
    """
    if not likelihood.diverges(solution.step):
        return np.empty(0, np.int64)
    step, n = solution.step.copy(), likelihood.n_items * likelihood.deviations
    step[:n] -= np.median(step[:n]) if n else 0.0
    if likelihood.features is not None:
        step[n : likelihood.n_head] *= np.abs(likelihood.features.matrix()).max(axis=0)
    size = np.abs(step)
    return np.flatnonzero(size > DIVERGING * size.max())
