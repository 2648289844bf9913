"""Plackett–Luce models of rankings with ties, and the files of PrefLib."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from .._compile.jit import njit
from .._util import parallel
from .._util.checks import number_from_zero
from .._util.types import Array, Integers, Vector
from ..data.validation import check_weight
from ..errors import DataError, FileFormatError
from . import diagnosis
from .inference import Strengths, sandwich
from .likelihood import BINARY, DENSE, Likelihood, minimise
from .votes import Rows, number_judges

if TYPE_CHECKING:
    import pandas as pd

PREFLIB = (".soc", ".soi", ".toc", ".toi")  #: suffixes of the files of PrefLib that are read


@dataclass(frozen=True, eq=False)
class Rankings:
    """Rankings of items, as `read_rankings` returns them.

    Attributes
    ----------
    items : list
        The name of each item.
    groups : list of list of list of int
        For each ranking the groups of tied items, the best group first, as numbers of items. Items
        that a ranking lacks are not compared in it.
    weight : float64 array of shape (n_rankings,)

    Examples
    --------
    >>> from linrank.preferences.rankings import make_rankings
    >>> found = make_rankings([["x", "y", "z"], ["y", ("x", "z")]])
    >>> found.items, found.groups[1]
    (['x', 'y', 'z'], [[1], [0, 2]])
    """

    items: list[Any]
    groups: list[list[list[int]]]
    weight: Vector

    def __len__(self) -> int:
        return len(self.groups)


def make_rankings(rankings: Sequence[Any], weight: ArrayLike | None = None) -> Rankings:
    """Return checked rankings, given as lists of items.

    Parameters
    ----------
    rankings : sequence of sequences
        Each ranking lists items, the best first. A tuple, list or set inside it holds tied items.
    weight : array of shape (n_rankings,), optional
        How often each ranking was given.

    Returns
    -------
    Rankings

    Examples
    --------
    >>> make_rankings([["x", "y"]], [3]).weight.tolist()
    [3.0]
    """
    for k, ranking in enumerate(rankings):
        if isinstance(ranking, str) or not isinstance(ranking, Iterable):
            raise DataError(f"ranking {k} is {ranking!r}; expected a list of items, the best first")
    named = [[_tied(group) for group in ranking] for ranking in rankings]
    if not named:
        raise DataError("there are no rankings; expected at least one")
    numbers: dict[Hashable, int] = {}
    groups = []
    for k, ranking in enumerate(named):
        members = [item for group in ranking for item in group]
        bad = next((item for item in members if not isinstance(item, Hashable)), None)
        if bad is not None:
            raise DataError(f"ranking {k} has the item {bad!r}; expected a text or a number")
        if len(set(members)) < len(members):
            twice = next(item for item in members if members.count(item) > 1)
            raise DataError(f"ranking {k} has {twice!r} twice; expected each item once")
        groups.append([[numbers.setdefault(item, len(numbers)) for item in group]
                       for group in ranking if group])  # fmt: skip
    checked = check_weight(weight, len(groups), "weight", "rankings has")
    found = np.ones(len(groups)) if checked is None else np.asarray(checked, np.float64)
    return Rankings(list(numbers), groups, found)


def _tied(group: Any) -> list[Any]:
    if isinstance(group, tuple | list | set | frozenset):
        return list(group)
    if group is None or group != group:
        raise DataError("a ranking has a missing item; leave it out of the ranking")
    return [group]


def read_rankings(path: str | os.PathLike[str]) -> Rankings:
    r"""Read rankings from a file of PrefLib: .soc, .soi, .toc or .toi, in the old or new form.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    Rankings

    Raises
    ------
    FileFormatError
        If the file cannot be read; the message names the file and the line.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "small.toi")
    >>> _ = path.write_text("# ALTERNATIVE NAME 1: x\n# ALTERNATIVE NAME 2: y\n7: 2,1\n2: {1,2}\n")
    >>> rankings = read_rankings(path)
    >>> rankings.items, rankings.groups, rankings.weight.tolist()
    (['x', 'y'], [[[1], [0]], [[0, 1]]], [7.0, 2.0])
    """
    try:
        lines = Path(path).read_text("utf-8").splitlines()
    except OSError as error:
        raise FileFormatError(f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise FileFormatError(f"{path}: is not valid UTF-8; expected UTF-8 text") from None
    names, first = _preflib_names(lines)
    groups, weights = [], []
    for number, line in enumerate(lines[first:], first + 1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            weight, ranking = _parse_order(line, names)
        except (ValueError, KeyError):
            raise FileFormatError(
                f"{path}:{number}: found {line[:40]!r}; expected a count and an order of known "
                "items, such as '7: 2,{1,3}'"
            ) from None
        groups.append(ranking)
        weights.append(weight)
    if not groups or not names:
        raise FileFormatError(f"{path}: there are no orders; expected a file of PrefLib")
    return Rankings(list(names.values()), groups, np.array(weights))


def _preflib_names(lines: list[str]) -> tuple[dict[int, str], int]:
    """Return the names by number, and the place of the first order."""
    found = [re.match(r"#\s*ALTERNATIVE NAME (\d+):\s*(.*)", line) for line in lines]
    names = {int(match[1]): match[2].strip() for match in found if match}
    if names or not lines or not lines[0].strip().isdecimal():
        return names, 0
    n = int(lines[0])  # The old form: a number of items, a line for each, and a line of sums.
    rows = [line.partition(",") for line in lines[1 : n + 1]]
    return {int(k): name.strip() for k, _, name in rows if k.strip().isdecimal()}, n + 2


def _parse_order(line: str, names: dict[int, str]) -> tuple[float, list[list[int]]]:
    """Return the count and the groups of a line such as ``7: 2,{1,3}`` or ``7,2,{1,3}``."""
    separator = ":" if ":" in line else ","
    count, _, order = line.partition(separator)
    places = {number: k for k, number in enumerate(names)}
    parts = re.findall(r"\{[^}]*\}|[^,{}\s]+", order)
    if re.sub(r"\{[^}]*\}|[^,{}\s]+|[,\s]", "", order) or not parts:
        raise ValueError
    groups = [[places[int(x)] for x in part.strip("{}").split(",")] for part in parts]
    members = [item for group in groups for item in group]
    if len(set(members)) < len(members):
        raise ValueError
    return float(count), groups


# --------------------------------------------------------------------------------------------------
# The likelihood. A choice takes T of the items A that are left, with probability f(T) / Σ f(S) over
# subsets S of at most D items, where f(S) = δ_|S|·(Π_{i in S} α_i)^{1/|S|}, α = e^λ and δ_1 = 1
# (Turner, van Etten, Firth & Kosmidis 2020).


@njit(inner=True)
def _without(e: Array, a: float, most: int, out: Array) -> None:
    """Write the symmetric polynomials up to a degree without the item that is worth a."""
    out[0] = 1.0
    for k in range(1, most + 1):
        out[k] = e[k] - a * out[k - 1]


@njit(inner=True)
def _add_size(
    d: int, k: int, m: int, delta: float, a: Array, e: Array, one: Array, two: Array,
    mean: Array, second: Array, whole: bool,
) -> float:  # fmt: skip
    """Add the subsets of d items to E[x] and E[xx'], both without 1/Z, and return their sum."""
    e[:] = 0.0
    e[0] = 1.0
    for j in range(m):
        for s in range(min(d, j + 1), 0, -1):
            e[s] += a[j] * e[s - 1]
    for j in range(m):
        _without(e, a[j], d - 1, one)
        chance = delta * a[j] * one[d - 1]
        mean[j] += chance / d
        if whole:
            second[j, j] += chance / (d * d)
            if k:
                second[j, m + k - 1] += chance / d
            if d > 1:
                for i in range(j):
                    _without(one, a[i], d - 2, two)
                    second[i, j] += delta * a[j] * a[i] * two[d - 2] / (d * d)
    if k:
        mean[m + k - 1] += delta * e[d]
        if whole:
            second[m + k - 1, m + k - 1] += delta * e[d]
    return delta * e[d]


@njit(inner=True)
def _add_choice(
    A: Array, t: int, w: float, sizes: Array, theta: Array, n: int, buffers: Array,
    mean: Array, second: Array, place: Array, whole: bool,
) -> float:  # fmt: skip
    """Fill E[x] and E[xx'] of a choice, and return log Σ f(S) − log f(T)."""
    m, top, Z, chosen = len(A), -np.inf, 0.0, 0.0
    for j in range(m):
        top = max(top, theta[A[j]])
        place[j] = A[j]
        if j < t:
            chosen += theta[A[j]] / t
    mean[:] = 0.0
    if whole:
        second[:] = 0.0
    for k in range(len(sizes)):
        d = sizes[k]
        if k:
            place[m + k - 1] = n + k - 1
            if d == t:
                chosen += theta[n + k - 1]
        if d <= m:
            for j in range(m):
                buffers[0, j] = math.exp((theta[A[j]] - top) / d)
            delta = math.exp(theta[n + k - 1]) if k else 1.0
            Z += _add_size(d, k, m, delta, buffers[0], buffers[1], buffers[2], buffers[3],
                           mean, second, whole)  # fmt: skip
    mean /= Z
    if whole:
        second /= Z
    return w * (math.log(Z) + top - chosen)


@njit
def add_choices(
    order: Array, starts: Array, stops: Array, tied: Array, weight: Array, sizes: Array,
    theta: Array, n: int, buffers: Array, mean: Array, second: Array, place: Array,
    grad: Array, H: Array, whole: bool,
) -> float:  # fmt: skip
    """Add the gradient and, if it is wanted, the Hessian of all choices; return their value.

    ``sizes`` holds the numbers of items that may be chosen at once. The logarithm of δ of
    ``sizes[k]`` is ``theta[n + k - 1]``, and ``sizes[0]`` is 1.
    """
    total = 0.0
    for c in range(len(starts)):
        A, t, w = order[starts[c] : stops[c]], tied[c], weight[c]
        total += _add_choice(A, t, w, sizes, theta, n, buffers, mean, second, place, whole)
        for j in range(t):
            grad[A[j]] -= w / t
        for k in range(1, len(sizes)):
            if sizes[k] == t:
                grad[n + k - 1] -= w
        for j in range(len(A) + len(sizes) - 1):
            grad[place[j]] += w * mean[j]
            if whole:
                for i in range(j + 1):
                    low, high = min(place[i], place[j]), max(place[i], place[j])
                    H[low, high] += w * (second[i, j] - mean[i] * mean[j])
    return total


class RankingLikelihood(Likelihood):
    """−log-likelihood of a Plackett–Luce model with ties, as a function of θ = (λ, log δ)."""

    not_unique = "the strengths or the worths of ties are infinite. Use penalty=1.0"

    def __init__(self, rankings: Rankings, penalty: float = 0.0) -> None:
        n = len(rankings.items)
        none = np.empty((0, 3))
        empty = np.empty(0, np.int64)
        super().__init__(Rows(empty, empty, none[:, :0], none, empty, empty), n, BINARY,
                         penalty=penalty)  # fmt: skip
        self._lay_out(rankings)
        self.n_tail = len(self.sizes) - 1
        self.n_theta = n + self.n_tail
        self.penalty = np.concatenate([np.full(n, penalty), np.zeros(self.n_tail)])
        if self.n_theta > DENSE:
            raise DataError(f"there are {n:,} items; rankings are fitted for at most {DENSE:,}")
        width = max(self._widest, int(self.sizes[-1])) + self.n_tail + 1
        self._scratch = (np.zeros((4, width)), np.zeros(width), np.zeros((width, width)),
                         np.zeros(width, np.int64))  # fmt: skip

    def _lay_out(self, rankings: Rankings) -> None:
        """Store a choice for each group of a ranking from at least two items."""
        order: list[int] = []
        choices: list[tuple[int, int, int, float, int]] = []
        weights = rankings.weight.tolist()
        for k, (groups, weight) in enumerate(zip(rankings.groups, weights, strict=True)):
            at = len(order)
            order += [item for group in groups for item in group]
            for group in groups:
                if len(order) - at > 1 and weight > 0:
                    choices.append((at, len(order), len(group), weight, k))
                at += len(group)
        if not choices:
            raise DataError("no ranking has two items, so that nothing is compared")
        starts, stops, tied, weights, ranking = zip(*choices, strict=True)
        self._n_rankings, self._ranking = len(rankings), np.array(ranking, np.int64)
        self._order = np.array(order, np.int64)
        self._starts = np.array(starts, np.int64)
        self._stops = np.array(stops, np.int64)
        self._tied = np.array(tied, np.int64)
        self._weight = np.array(weights, np.float64)
        self._widest = int((self._stops - self._starts).max())
        self.sizes = np.unique(np.concatenate([[1], self._tied]))
        if not (self._tied == 1).any():
            raise DataError(
                "all items of all rankings are tied, which says nothing about their order"
            )

    @property
    def size(self) -> float:
        """The weight of all choices."""
        return float(self._weight.sum())

    def start(self) -> Vector:
        """Return θ = 0."""
        return np.zeros(self.n_theta)

    def _slant(self, theta: Vector, inverse: Vector) -> float:
        """Return M, as the sum of bounds for the means of two sets and for the δ of their sizes."""
        n, errors = self.n_items, inverse.diagonal()
        own = inverse[:n, :n]
        between = np.add.outer(errors[:n], errors[:n]) - 2.0 * own
        tied = np.zeros((self.n_tail + 1, self.n_tail + 1))
        tied[1:, 1:] = inverse[n:, n:]
        sizes = np.add.outer(tied.diagonal(), tied.diagonal()) - 2.0 * tied
        return math.sqrt(max(between.max(), 0.0)) + math.sqrt(max(sizes.max(), 0.0))

    def _evaluate(
        self, theta: Vector, whole: bool, choices: slice = slice(None)
    ) -> tuple[float, Vector, Vector]:
        """Return value and gradient of some choices, and their Hessian if the whole is wanted."""
        p = self.n_theta
        grad, H = np.zeros(p), np.zeros((p, p) if whole else (1, 1))
        value = add_choices(
            self._order, self._starts[choices], self._stops[choices], self._tied[choices],
            self._weight[choices], self.sizes, theta, self.n_items, *self._scratch, grad, H, whole,
        )  # fmt: skip
        return value, grad, H

    def value_grad(self, theta: Vector, W: Vector | None = None) -> tuple[float, Vector]:
        """Return the objective and its gradient."""
        value, grad, _ = self._evaluate(theta, False)
        return value + 0.5 * float(self.penalty @ theta**2), grad + self.penalty * theta

    def scores(self, theta: Vector) -> Vector:
        """Return the gradient of each ranking; rankings without a choice have zeros."""
        ends = np.searchsorted(self._ranking, np.arange(self._n_rankings + 1)).tolist()
        return np.stack([self._evaluate(theta, False, slice(*pair))[1] for pair in pairwise(ends)])

    def hessian(self, theta: Vector) -> Vector:
        """Return the Hessian as a matrix."""
        H = self._evaluate(theta, True)[2]
        H = H + np.triu(H, 1).T
        H[np.diag_indices_from(H)] += self.penalty
        return H


@dataclass(frozen=True, eq=False)
class RankingModel:
    """Strengths of items from rankings, as `fit_rankings` returns them.

    Attributes
    ----------
    strengths : Strengths
        Log-worths with their covariance.
    ties : dict
        log δ by the number of tied items, with its standard error.
    log_likelihood : float
    penalty : float
    gap : float
        Half the squared Newton decrement, an estimate of the distance of the objective to the
        optimum.
    certificate : float
        An upper bound of this distance.
    n_rankings : int
    separated : list
        Items whose strengths are infinite or unknown without a penalty.

    Examples
    --------
    >>> from linrank import fit_rankings
    >>> model = fit_rankings([["x", "y", "z"], ["y", "x"], ["z", "x", "y"]])
    >>> round(model.log_likelihood, 4), model.ties
    (-4.2125, {})
    """

    strengths: Strengths
    ties: dict[int, tuple[float, float]]
    log_likelihood: float
    penalty: float
    gap: float
    certificate: float
    n_rankings: int
    separated: list[Any]

    def table(
        self, level: float = 0.95, *, scale: float | None = None, base: float = 0.0,
        anchor: Mapping[Any, float] | None = None,
    ) -> pd.DataFrame:  # fmt: skip
        """Return a pandas DataFrame with one row per item, the strongest first.

        Parameters
        ----------
        level, scale, base, anchor
            See `linrank.PreferenceModel.table`.

        Returns
        -------
        pandas.DataFrame
            The columns of `linrank.PreferenceModel.table` without votes.
        """
        found, infinite = self.strengths.table(level, scale, base, anchor), set(self.separated)
        notes = [diagnosis.NOTE if item in infinite else "" for item in found["item"]]
        return found.assign(note=notes)


def fit_rankings(
    rankings: Rankings | Sequence[Any],
    *,
    weight: ArrayLike | None = None,
    judge: Sequence[Hashable] | None = None,
    penalty: float = 0.0,
    reference: Hashable = None,
) -> RankingModel:
    """Fit a Plackett–Luce model to full or partial rankings, with ties of any number of items.

    The best of the items A that are left is chosen with probability e^λ_i / Σ e^λ_j. With ties, a
    set S is chosen with a probability proportional to δ_|S|·exp(mean of λ in S) (Turner et al.
    2020). The result minimises −log-likelihood + ½·penalty·Σ λ².

    Parameters
    ----------
    rankings : Rankings or sequence of sequences
        Each ranking lists items, the best first. A tuple, list or set inside it holds tied items.
        Items that a ranking lacks are not compared in it.
    weight : array of shape (n_rankings,), optional
        How often each ranking was given.
    judge : sequence of shape (n_rankings,), optional
        Who gave each ranking, or another group of dependent rankings, such as a query. Standard
        errors then allow for this dependence, and hold for a wrong model, too.
    penalty : float
        The precision of a normal prior of the strengths. With 0, the strengths must be finite: a
        chain of wins leads from each item to each other one.
    reference : item, optional
        The item whose strength is 0; by default the mean of all strengths is 0.

    Returns
    -------
    RankingModel

    Examples
    --------
    >>> from linrank import fit_rankings
    >>> votes = [["x", "y", "z"], ["y", "x"], [("x", "z"), "y"], ["z", "y", "x"]]
    >>> fit_rankings(votes).table()["item"].tolist()
    ['y', 'z', 'x']
    """
    penalty = number_from_zero("penalty", penalty)
    if not isinstance(rankings, Rankings):
        rankings = make_rankings(rankings, weight)
    elif weight is not None:
        raise DataError("weight is given twice; Rankings have weights of their own")
    judges, numbers = number_judges(judge, len(rankings))
    if len(judges) == 1:
        raise DataError("judge has one value; expected at least two, or None")
    likelihood = RankingLikelihood(rankings, penalty)
    separated = _outside_of_cycles(rankings)
    if separated and penalty == 0.0:
        raise DataError(
            f"the strengths of {diagnosis.listed(separated)} are infinite or unknown: no chain of "
            "wins leads from them to the other items and back. Use penalty=1.0, or leave these "
            "items out"
        )
    with parallel.blas_threads(1):
        found = minimise(likelihood)
        C = likelihood.inverse(found.theta)
        bound = likelihood.certificate(found.theta, C)
        assert bound is not None
    if penalty == 0.0 and bound == math.inf:
        raise DataError(likelihood.not_unique)
    if numbers is not None:
        C = sandwich(C, likelihood.scores(found.theta), numbers)
    n, dof = len(rankings.items), len(judges) - 1.0 if judges else math.inf
    errors = np.sqrt(C.diagonal())
    ties = {int(size): (float(found.theta[n + k]), float(errors[n + k]))
            for k, size in enumerate(likelihood.sizes[1:])}  # fmt: skip
    strengths = Strengths(rankings.items, found.theta[:n], C[:n, :n], dof=dof)
    fit = -(found.objective - 0.5 * penalty * float(found.theta[:n] @ found.theta[:n]))
    return RankingModel(strengths.relative_to(reference), ties, fit, penalty, found.gap, bound,
                        len(rankings), separated)  # fmt: skip


def _outside_of_cycles(rankings: Rankings) -> list[Any]:
    """Return the items outside the largest group whose members win against each other in cycles."""
    source: list[Integers] = []
    target: list[Integers] = []
    for groups in rankings.groups:
        members = np.array([item for group in groups for item in group], np.int64)
        at = 0
        for group in groups:  # A group wins against itself (ties) and all later items.
            rest = members[at:]
            source.append(np.repeat(np.array(group, np.int64), len(rest)))
            target.append(np.tile(rest, len(group)))
            at += len(group)
    links = np.concatenate(source), np.concatenate(target)
    outside = diagnosis.outside_of_group(*links, len(rankings.items))
    return [rankings.items[k] for k in outside.tolist()]
