"""Votes between two items: words for outcomes, files of arenas, and the joining of equal votes."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .._compile.jit import njit
from .._util.types import Array, Integers, Vector
from ..data.frames import (
    arrow_table,
    choose_columns,
    frame_columns,
    frame_matrix,
    given_columns,
    is_frame,
)
from ..data.ids import parse_ids
from ..data.source import decompress, find_decompressor, read_start
from ..data.table_files import (
    TableFile,
    is_arrow,
    is_parquet,
    open_arrow,
    open_csv,
    open_parquet,
)
from ..data.validation import check_weight
from ..errors import DataError, prefix_file_errors

if TYPE_CHECKING:
    import pyarrow as pa

A, B, TIE = 0, 1, 2  #: columns of `Votes.wins`
_A_WORDS = ("a", "model_a", "left", "first", "win", "1-0", "home", "h", "a wins", "player_1",
            "white")  # fmt: skip
_B_WORDS = ("b", "model_b", "right", "second", "loss", "0-1", "away", "b wins", "player_2",
            "black")  # fmt: skip
_TIE_WORDS = (
    "tie", "draw", "both", "neither", "bothbad", "both_bad", "both bad", "tie (bothbad)",
    "tie (both bad)", "tie(bothbad)", "tie_bothbad", "bothgood", "both good", "both_good", "equal",
    "1/2-1/2", "½-½", "same", "tied", "d",
)  # fmt: skip
#: The column of `Votes.wins` that each word for an outcome stands for.
WORDS = {
    **dict.fromkeys(_A_WORDS, A), **dict.fromkeys(_B_WORDS, B), **dict.fromkeys(_TIE_WORDS, TIE)
}  # fmt: skip

_UNITS = np.vstack([np.eye(3), np.zeros(3)])  #: wins by column; the last row is an unknown word
_NO_COVARIATES = np.empty((0, 0))


@dataclass(frozen=True, eq=False)
class Votes:
    """Votes between two items each, as `linrank.read_votes` returns them.

    Attributes
    ----------
    items : list
        The name of each item.
    a, b : int64 arrays of shape (n_votes,)
        The places in `items` of the two items of a vote, in the order in which they were shown.
    wins : float64 array of shape (n_votes, 3)
        The weights of "a wins", "b wins" and "tie" in each row. A row may hold many equal votes.
    judge : int64 array of shape (n_votes,), optional
        The number of the judge, or of another group of dependent votes.
    covariates : float64 array of shape (n_votes, n_covariates), optional
        Facts of a vote that may favour a, such as the difference of the lengths of two answers.
    covariate_names : list of str
        The name of each covariate.
    judges : list
        The name of each judge; None for votes whose judge is not known, each of which counts as a
        judge of its own.

    Examples
    --------
    >>> from linrank.preferences.votes import make_votes
    >>> votes = make_votes(["x", "y", "x"], ["y", "z", "z"], ["a", "tie", "b"])
    >>> votes.items, votes.wins.sum(axis=0).tolist(), len(votes)
    (['x', 'y', 'z'], [1.0, 1.0, 1.0], 3)
    """

    items: list[Any]
    a: Integers
    b: Integers
    wins: Vector
    judge: Integers | None = None
    covariates: Vector = field(default_factory=lambda: _NO_COVARIATES)
    covariate_names: list[str] = field(default_factory=list)
    judges: list[Any] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.a)

    def take(self, rows: Array) -> Votes:
        """Return the votes with the given row numbers, between the same items.

        Examples
        --------
        >>> from linrank.preferences.votes import make_votes
        >>> len(make_votes(["x", "y"], ["y", "z"], ["a", "b"]).take(np.array([1])))
        1
        """
        judge = None if self.judge is None else self.judge[rows]
        covariates = self.covariates[rows] if self.covariate_names else self.covariates
        return Votes(self.items, self.a[rows], self.b[rows], self.wins[rows], judge,
                     covariates, self.covariate_names, self.judges)  # fmt: skip

    def totals(self) -> Vector:
        """Return the weight of each row: that of its wins and ties.

        Examples
        --------
        >>> from linrank.preferences.votes import make_votes
        >>> make_votes(["x"], ["y"], [[4, 2, 1]]).totals().tolist()
        [7.0]
        """
        return self.wins @ np.ones(3)


def make_votes(
    a: Sequence[Hashable] | Array,
    b: Sequence[Hashable] | Array,
    outcome: Any,
    weight: ArrayLike | None = None,
    judge: Sequence[Hashable] | Array | None = None,
    covariates: Any = None,
) -> Votes:
    """Return checked votes, given the names of the items and the outcomes.

    Parameters
    ----------
    a, b : sequences of shape (n_votes,)
        The names of the two items of each vote.
    outcome : sequence of shape (n_votes,), or array of shape (n_votes, 3)
        Words (`WORDS`), the name of the winner, or numbers: the share of a, where 0.5 is a tie;
        or from 1 (a wins) to 2 (b wins). An array with three columns holds the numbers of wins of
        a, wins of b and ties. If one of the words is "h" (home), "a" means away.
    weight : array of shape (n_votes,), optional
        How often each vote was given.
    judge : sequence of shape (n_votes,), optional
        Who gave each vote. A vote without a judge (None or NaN) is one of its own.
    covariates : array or frame of shape (n_votes, n_covariates), optional

    Returns
    -------
    Votes

    Examples
    --------
    >>> make_votes(["x", "x"], ["y", "y"], [[4, 2, 1], [3, 0, 0]]).wins.tolist()
    [[4.0, 2.0, 1.0], [3.0, 0.0, 0.0]]
    """
    a, b = _as_list("a", a), _as_list("b", b)
    if len(a) != len(b):
        raise DataError(f"a has {len(a)} entries but b has {len(b)}; expected one vote per row")
    if not a:
        raise DataError("there are no votes; expected at least one")
    items, codes = _number("a or b", a, b)
    missing = [name for name in items if name is None or name != name or name == ""]
    if missing:
        where = "a" if missing[0] in a or missing[0] not in b else "b"
        raise DataError(f"{where} has a missing item; expected a name in every vote")
    same = np.flatnonzero(codes[0] == codes[1])
    if len(same):
        k = int(same[0])
        raise DataError(f"vote {k} compares {a[k]!r} with itself; expected two different items")
    wins = _read_outcome(outcome, items, codes)
    if weight is not None:
        checked = check_weight(weight, len(a), "weight", "a has")
        wins = wins * np.asarray(checked)[:, None]
    if not wins.any():
        raise DataError("all counts are 0; expected at least one vote")
    table, names = _read_covariates(covariates, len(a))
    judges, numbers = number_judges(judge, len(a))
    return Votes(items, codes[0], codes[1], wins, numbers, table, names, judges)


def _number(whose: str, *columns: list[Any]) -> tuple[list[Any], list[Integers]]:
    """Return the distinct values of columns, and the place of each value among them."""
    numbers: defaultdict[Any, int] = defaultdict(count().__next__)
    try:
        codes = [np.fromiter(map(numbers.__getitem__, x), np.int64, len(x)) for x in columns]
    except TypeError:
        raise DataError(
            f"{whose} has a value that is not hashable; expected texts or numbers"
        ) from None
    return list(numbers), codes


def _as_list(name: str, values: Any) -> list[Any]:
    """Return names as a list of Python objects; columns of frames of any kind are taken."""
    if isinstance(values, str):
        raise DataError(f"{name} is the text {values!r}; expected a sequence with an item per vote")
    if isinstance(values, list):
        return values
    for method in ("to_pylist", "tolist", "to_list"):
        if hasattr(values, method):
            found = getattr(values, method)()
            return found if isinstance(found, list) else [found]
    return list(values)


def number_judges(judge: Any, n: int) -> tuple[list[Any], Integers | None]:
    """Return the names of the judges, and the number of the judge of each of n votes.

    Examples
    --------
    >>> names, numbers = number_judges(["u", None, "u"], 3)
    >>> names, numbers.tolist()
    (['u', None], [0, 1, 0])
    """
    if judge is None:
        return [], None
    names = _as_list("judge", judge)
    if len(names) != n:
        raise DataError(f"judge has {len(names)} entries; expected {n}, one for each")
    judges, (codes,) = _number("judge", names)
    is_missing = np.array([name is None or name != name for name in judges])
    unknown = np.flatnonzero(is_missing[codes])
    codes[unknown] = len(judges) + np.arange(len(unknown))
    used, codes = np.unique(codes, return_inverse=True)
    return [judges[k] if k < len(judges) else None for k in used.tolist()], codes


def _read_covariates(covariates: Any, n: int) -> tuple[Vector, list[str]]:
    """Return covariates as an array with names."""
    if covariates is None:
        return _NO_COVARIATES, []
    names = frame_columns(covariates, "covariates")
    table = frame_matrix(covariates) if is_frame(covariates) else covariates
    try:
        table = np.asarray(table, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"covariates cannot be read as numbers: {error}") from None
    table = table[:, None] if table.ndim == 1 else table
    if table.ndim != 2 or len(table) != n:
        raise DataError(f"covariates has shape {table.shape}; expected {n} rows, one per vote")
    bad = np.argwhere(~np.isfinite(table))
    if len(bad):
        row, column = bad[0].tolist()
        raise DataError(
            f"covariates[{row}, {column}] is {table[row, column]}; expected a finite number"
        )
    return np.ascontiguousarray(table), names or [f"covariate {k}" for k in range(table.shape[1])]


# --------------------------------------------------------------------------------------------------
# Outcomes: words, names of winners, shares and counts.


def _read_outcome(outcome: Any, items: list[Any], codes: list[Integers]) -> Vector:
    """Return the weights of "a wins", "b wins" and "tie" of each vote."""
    n = len(codes[0])
    rows_of_counts = isinstance(outcome, list | tuple) and len(np.shape(outcome[:1])) == 2
    if rows_of_counts or (isinstance(outcome, np.ndarray) and outcome.ndim == 2):
        try:
            return _check_counts(np.asarray(outcome, dtype=np.float64), n)
        except (TypeError, ValueError) as error:
            raise DataError(f"outcome cannot be read as counts: {error}") from None
    values = _as_list("outcome", outcome)
    if len(values) != n:
        raise DataError(f"outcome has {len(values)} entries but a has {n}")
    words, (rows,) = _number("outcome", values)
    numbers = _as_numbers(words)
    if numbers is not None and not isinstance(words[0], str) and not (numbers > 1).any():
        return _shares(numbers[rows])
    return _wins_of_words(words, rows, items, codes)


def _check_counts(counts: Vector, n: int) -> Vector:
    if counts.shape != (n, 3):
        raise DataError(
            f"outcome has shape {counts.shape}; expected ({n},), or ({n}, 3) with the numbers of "
            "wins of a, wins of b and ties"
        )
    bad = np.argwhere(~((counts >= 0) & np.isfinite(counts)))
    if len(bad):
        row, column = bad[0].tolist()
        raise DataError(
            f"outcome[{row}, {column}] is {counts[row, column]}; expected a count of at least 0"
        )
    return counts


def _shares(share: Vector) -> Vector:
    """Return wins for numbers: shares of a, or numbers from 1 (a wins) to 2 (b wins)."""
    if 1 < share.max() <= 2 and share.min() >= 1:
        share = 2 - share
    bad = np.flatnonzero(~((share >= 0) & (share <= 1)))
    if len(bad):
        raise DataError(
            f"outcome[{bad[0]}] is {share[bad[0]]:g}; expected the share of a, from 0 (b wins) to "
            "1 (a wins), where 0.5 is a tie; or numbers from 1 (a wins) to 2 (b wins)"
        )
    tie = share == 0.5
    return np.stack([np.where(tie, 0, share), np.where(tie, 0, 1 - share), tie], axis=1)


def _wins_of_words(
    words: list[Any], rows: Integers, items: list[Any], codes: list[Integers]
) -> Vector:
    """Return wins for outcomes that are words or the names of the winners."""
    texts, names = [str(word).strip().lower() for word in words], list(map(item_text, words))
    column = np.array([_column_of(text, texts) for text in texts])
    places = {item_text(item): k for k, item in enumerate(items)}
    named = np.array([places.get(name, -1) for name in names])
    if (column >= 0).all() and (named < 0).all():
        return _UNITS[column].take(rows, axis=0)
    winner, wins, numbers = named[rows], _UNITS[column[rows]], _as_numbers(words)
    if numbers is not None:
        with suppress(DataError):  # Numbers that are no shares may be the names of winners.
            wins = _shares(numbers[rows])
    by_name = _UNITS[np.where(winner == codes[0], A, np.where(winner == codes[1], B, -1))]
    by_name[winner < 0] = 0.0
    is_known, is_named = wins.any(axis=1), by_name.any(axis=1)
    unclear = np.flatnonzero(is_known & is_named & (wins != by_name).any(axis=1))
    if len(unclear):
        k = int(unclear[0])
        raise DataError(
            f"outcome[{k}] is {words[rows[k]]!r}, which is both an outcome and the name of an "
            "item. Rename the item, or pass the share of a, from 0 to 1, as outcome"
        )
    bad = np.flatnonzero(~(is_known | is_named))
    if len(bad):
        if numbers is not None:
            _shares(numbers[rows])  # raises an error
        k = int(bad[0])
        raise DataError(f"outcome[{k}] is {words[rows[k]]!r}; {_nearest(words[rows[k]], items)}")
    return np.where(is_known[:, None], wins, by_name)


def item_text(item: Any) -> str:
    """Return the text by which items are compared with outcomes and other files; 7.0 is 7.

    Examples
    --------
    >>> item_text(7.0), item_text("7")
    ('7', '7')
    """
    return str(int(item) if isinstance(item, float) and item.is_integer() else item)


def _as_numbers(words: list[Any]) -> Vector | None:
    """Return numbers, or texts of numbers, as an array; None if one of them is something else."""
    try:
        return None if None in words else np.array(words, dtype=np.float64)
    except (TypeError, ValueError):
        return None


def _column_of(word: str, words: list[str]) -> int:
    """Return the column of `Votes.wins` of a word, or -1; beside H, the letter A means away."""
    if word == "a" and "h" in words:
        return B
    return WORDS.get(word, -1)


def _nearest(word: Any, items: list[Any]) -> str:
    """Return the end of the sentence for an unknown outcome, with the nearest known word."""
    if word is None or word != word or word == "":
        return "expected 'a', 'b', 'tie' or the name of the winner"
    near = get_close_matches(str(word).lower(), [*WORDS, *map(str, items)], 1, 0.5)
    question = f"did you mean {near[0]!r}? " if near else ""
    return f"{question}Expected 'a', 'b', 'tie', 'both bad' or the name of one of the two items"


# --------------------------------------------------------------------------------------------------
# Files and frames, whose columns are found by names that arenas and tournaments use.


StrPath = str | os.PathLike[str]

#: Names of columns, by what they hold. Letters may be capitals; spaces, points and hyphens count as
#: underscores.
COLUMNS: dict[str, tuple[str, ...]] = {
    "a": ("a", "model_a", "model_a_name", "left", "item_a", "player_1", "player1", "home_team",
          "hometeam", "home", "white", "white_id", "option_a", "first", "generator_1"),
    "b": ("b", "model_b", "model_b_name", "right", "item_b", "player_2", "player2", "away_team",
          "awayteam", "away", "black", "black_id", "option_b", "second", "generator_2"),
    "outcome": ("outcome", "winner", "result", "vote", "preference", "choice", "label",
                "chosen_model_name", "preferred", "ftr"),
    "weight": ("weight", "count"),
    "judge": ("judge", "judge_hash", "judge_id", "user", "user_id", "annotator", "annotator_id",
              "rater", "visitor_id", "session_hash"),
}  # fmt: skip
#: Pairs of columns that name the winner and the loser.
WINNERS = (("winner", "loser"), ("winner_name", "loser_name"), ("chosen_model", "rejected_model"))
#: Sets of columns that hold the numbers of wins of A, wins of B and ties.
COUNTS = (
    ("wins_a", "wins_b", "ties"), ("home_wins", "away_wins", "ties"),
    ("winner_model_a", "winner_model_b", "winner_tie"), ("win_a", "win_b", "tie"),
    ("win1", "win2", "tied"),
)  # fmt: skip
#: Pairs of columns with the scores of A and B, of which the higher one wins.
SCORES = (("home_score", "away_score"), ("home_goals", "away_goals"), ("fthg", "ftag"),
          ("score_a", "score_b"))  # fmt: skip
EQUAL = "both_equal"  #: a column that is true for ties, in which the winner is missing


class VoteColumns(NamedTuple):
    """The names of the columns of votes, by what they hold; None for what the file lacks.

    Either `outcome`, `counts` or `scores` is set, or the first item is the winner.
    """

    a: str
    b: str
    outcome: str | None
    counts: tuple[str | None, ...]
    scores: tuple[str, ...]
    equal: str | None
    weight: str | None
    judge: str | None

    def ids(self) -> list[str]:
        """Return the columns that hold names, and words or numbers for outcomes."""
        return list(filter(None, (self.a, self.b, self.outcome, self.judge)))

    def all(self, covariates: Sequence[str] = ()) -> list[str]:
        """Return all columns that are read."""
        more = (*self.counts, *self.scores, self.equal, self.weight, *covariates)
        return list(dict.fromkeys([*self.ids(), *filter(None, more)]))


def read_votes(
    path: StrPath,
    *,
    columns: Mapping[str, str] | None = None,
    covariates: Sequence[str] = (),
) -> Votes:
    r"""Read votes from a Parquet, Arrow, CSV, JSON or JSON Lines file.

    Parameters
    ----------
    path : path-like
        The file. Its columns are found by the names that arenas and tournaments use: model_a,
        model_b and winner; home_team, away_team, home_score and away_score; winner and loser.
    columns : mapping, optional
        Names of columns that differ from these, by what they hold: a, b, outcome, weight or judge.
    covariates : sequence of str
        Columns with the covariates of a vote.

    Returns
    -------
    Votes

    Raises
    ------
    FileFormatError
        If the file cannot be read, or its columns are not those of votes.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "votes.csv")
    >>> _ = path.write_text("model_a,model_b,winner\nx,y,model_a\ny,x,tie (bothbad)\n")
    >>> votes = read_votes(path)
    >>> votes.items, votes.wins.tolist()
    (['x', 'y'], [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    """
    path = Path(path)
    with prefix_file_errors(path):
        if read_start(path).lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"[", b"{"):
            rows = _read_json(path)
            found = find_columns(
                list(dict.fromkeys(name for row in rows for name in row)), columns, covariates
            )
            names = found.all(covariates)
            table = {name: _column([row.get(name) for row in rows]) for name in names}
            return _make(_table(table), found, covariates)
        with _opened(path) as file:
            found = find_columns(file.schema.names, columns, covariates)
            batches = list(file.read(found.all(covariates), found.ids()))
            return _make(_table(batches), found, covariates)


def votes_of_frame(
    frame: Any, columns: Mapping[str, str] | None = None, covariates: Sequence[str] = ()
) -> Votes:
    """Return the votes of a frame, whose columns are found by their names.

    Parameters
    ----------
    frame : data frame or pyarrow.Table
    columns, covariates
        See `read_votes`.

    Returns
    -------
    Votes

    Examples
    --------
    >>> import pandas as pd
    >>> votes_of_frame(pd.DataFrame({"winner": ["x"], "loser": ["y"]})).wins.tolist()
    [[1.0, 0.0, 0.0]]
    """
    found = find_columns(list(map(str, given_columns(frame))), columns, covariates)
    return _make(arrow_table(choose_columns(frame, found.all(covariates))), found, covariates)


def read_item_features(path: StrPath) -> pa.Table:
    """Return a table of features of items: a column ``item``, and columns of numbers.

    Parameters
    ----------
    path : path-like
        A Parquet, Arrow or CSV file.
    """
    path = Path(path)
    with prefix_file_errors(path), _opened(path) as file:
        names = file.schema.names
        if "item" not in names:
            raise DataError(f"the columns are {_listed(names)}; expected a column item")
        return _table(list(file.read(names, ["item"])))


def _opened(path: Path) -> AbstractContextManager[TableFile]:
    """Open a table of any format that has one."""
    if not path.is_file():
        raise DataError("no such file; expected a Parquet, Arrow or CSV file")
    opened = open_parquet if is_parquet(path) else open_arrow if is_arrow(path) else open_csv
    return opened(os.fspath(path))


def _table(columns: Any) -> pa.Table:
    import pyarrow as pa

    if not columns:
        raise DataError("there are no votes; expected at least one row")
    return pa.table(columns) if isinstance(columns, dict) else pa.Table.from_batches(columns)


def _read_json(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a JSON array or of JSON Lines, plain or compressed."""
    with path.open("rb") as file:
        decompressor = find_decompressor(file.read(8))
        file.seek(0)
        pieces = decompress(os.fspath(path), file, decompressor) if decompressor else [file.read()]
        data = b"".join(pieces)
    try:
        text = data.decode("utf-8-sig").strip()
        is_array = text.startswith("[")
        rows = json.loads(text) if is_array else list(map(json.loads, text.splitlines()))
    except ValueError as error:
        raise DataError(f"is not valid JSON: {error}") from None
    if not rows or not all(isinstance(row, dict) for row in rows):
        raise DataError("expected a list of objects, one per vote")
    return rows


def _column(values: list[Any]) -> pa.Array:
    """Return a column of JSON; other types than numbers and texts become texts."""
    import pyarrow as pa

    try:
        return pa.array(values)
    except (pa.ArrowException, TypeError):
        return pa.array([None if value is None else str(value) for value in values])


# --------------------------------------------------------------------------------------------------
# From columns to votes.


def find_columns(
    names: Sequence[str], given: Mapping[str, str] | None = None, covariates: Sequence[str] = ()
) -> VoteColumns:
    """Return the names of the columns of votes, or raise a `DataError` that lists the columns.

    Parameters
    ----------
    names : sequence of str
        All columns.
    given, covariates
        Columns that the caller names; see `read_votes`.

    Returns
    -------
    VoteColumns

    Examples
    --------
    >>> found = find_columns(["White", "Black", "Result", "Date"])
    >>> found.a, found.outcome
    ('White', 'Result')
    """
    given = dict(given or {})
    unknown = [use for use in given if use not in COLUMNS]
    if unknown:
        raise DataError(f"columns has {unknown[0]!r}; known uses are {', '.join(COLUMNS)}")
    folded = {_folded(name): name for name in reversed(names)}
    absent = [name for name in (*given.values(), *covariates) if name not in names]
    if absent:
        raise DataError(f"there is no column {absent[0]!r}; the columns are {_listed(names)}")
    uses: dict[str, str | None] = dict(given)
    for use, known in COLUMNS.items():
        uses.setdefault(use, next((folded[name] for name in known if name in folded), None))
    winners = next((pair for pair in WINNERS if set(pair) <= set(folded)), None)
    if winners and uses["a"] is None:
        uses |= {"a": folded[winners[0]], "b": folded[winners[1]], "outcome": None}
    has_outcome = uses["outcome"] is not None
    counts = () if has_outcome else _first_set(COUNTS, folded)
    scores = () if has_outcome or counts else _first_set(SCORES, folded)
    if None in (uses["a"], uses["b"]) or not (has_outcome or counts or scores or winners):
        raise DataError(
            f"the columns are {_listed(names)}; expected model_a, model_b and winner, or winner "
            "and loser, or a, b, wins_a, wins_b and ties. Name others with columns= (--column)"
        )
    return VoteColumns(**uses, counts=counts, scores=scores, equal=folded.get(EQUAL))  # type: ignore[arg-type]


def _first_set(known: Sequence[Sequence[str]], folded: Mapping[str, str]) -> tuple[Any, ...]:
    """Return the first set of columns that the file has; the third column may be absent."""
    for wanted in known:
        if wanted[0] in folded and wanted[1] in folded:
            return tuple(folded.get(name) for name in wanted)
    return ()


def _folded(name: str) -> str:
    return name.strip().lower().replace(" ", "_").replace(".", "_").replace("-", "_")


def _listed(names: Sequence[str], most: int = 10) -> str:
    return ", ".join(map(repr, names[:most])) + (", …" if len(names) > most else "")


def _make(table: pa.Table, found: VoteColumns, covariates: Sequence[str]) -> Votes:
    """Return the votes of a table with the columns that were found."""
    a, b = _names(table, found.a, found.b)
    return make_votes(
        a, b, _outcomes(table, found),
        None if found.weight is None else _numbers(table, found.weight),
        None if found.judge is None else _names(table, found.judge)[0],
        table.select(list(covariates)) if covariates else None,
    )  # fmt: skip


def _names(table: pa.Table, *columns: str) -> list[list[Any]]:
    """Return columns of names, which are integers if all of them are canonical integers."""
    values = [table[name].to_pylist() for name in columns]
    distinct = list({name for column in values for name in column if name is not None})
    if not all(isinstance(name, str) for name in distinct):
        return values
    parsed = dict(zip(distinct, parse_ids(distinct).tolist(), strict=True))
    if distinct and not isinstance(parsed[distinct[0]], str):
        values = [[parsed.get(name) for name in column] for column in values]
    return values


def _outcomes(table: pa.Table, found: VoteColumns) -> Any:
    """Return outcomes in a form that `make_votes` takes."""
    if found.counts:
        return np.stack([_numbers(table, name) for name in found.counts], axis=1)
    if found.scores:
        a, b = (_numbers(table, name) for name in found.scores)
        unknown = np.flatnonzero(np.isnan(a) | np.isnan(b))
        if len(unknown):
            raise DataError(f"vote {unknown[0]} has a missing score; leave it out")
        return np.sign(a - b) / 2 + 0.5
    if found.outcome is None:
        return ["a"] * table.num_rows
    values = table[found.outcome].to_pylist()
    if found.equal is not None:
        flags = table[found.equal].to_pylist()
        values = ["tie" if flag in (True, 1, "True", "true") else value
                  for value, flag in zip(values, flags, strict=True)]  # fmt: skip
    if _folded(found.a).startswith("home"):  # H, D and A: the home team, nobody, the away team
        values = ["away" if value in ("A", "a") else value for value in values]
    return values


def _numbers(table: pa.Table, name: str | None) -> Vector:
    if name is None:
        return np.zeros(table.num_rows)
    return np.asarray(frame_matrix(table, [name])[:, 0], dtype=np.float64)


# --------------------------------------------------------------------------------------------------
# Joining: equal votes become one row with a weight.


SAMPLED = 1000  #: votes that show whether covariates repeat
DISTINCT = 0.1  #: share of distinct covariates in the sample up to which votes are joined


class Rows(NamedTuple):
    """Joined votes: row r has items a[r] and b[r], context Z[r] and weights W[r] of the outcomes.

    ``of_vote`` is the row of each vote, and ``flipped`` tells whether its items were exchanged.
    """

    a: Integers
    b: Integers
    Z: Vector
    W: Vector
    of_vote: Integers
    flipped: Array


def join(votes: Votes, order_effect: bool) -> Rows:
    """Join votes with the same items and context.

    Without a context, the order of two items says nothing, and the item with the smaller number is
    put first. The first column of the context is 1 if there is an order effect.
    """
    n, n_votes = len(votes.items), len(votes)
    Z = votes.covariates if votes.covariate_names else np.empty((n_votes, 0))
    if order_effect:
        Z = np.column_stack([np.ones(n_votes), Z])
    a, b, wins = votes.a, votes.b, votes.wins
    flipped = np.zeros(n_votes, np.bool_) if Z.shape[1] else a > b
    context = _number_contexts(votes.covariates, n_votes) if votes.covariate_names else 0
    if context is None:
        return Rows(a, b, np.ascontiguousarray(Z), wins, np.arange(n_votes), flipped)
    keys = np.where(flipped, b * n + a, a * n + b) + context * n * n
    first, of_vote = _first_and_inverse(keys)
    W = np.zeros((len(first), 3))
    _add_wins(of_vote, flipped, wins, W)
    other = flipped[first]
    return Rows(np.where(other, b[first], a[first]), np.where(other, a[first], b[first]),
                np.ascontiguousarray(Z[first]), W, of_vote, flipped)  # fmt: skip


@njit
def _add_wins(of_vote: Array, flipped: Array, wins: Array, W: Array) -> None:
    """Add the outcomes of votes to their rows; a flipped vote has its items exchanged."""
    for v in range(len(of_vote)):
        r, first = of_vote[v], 1 if flipped[v] else 0
        W[r, 0] += wins[v, first]
        W[r, 1] += wins[v, 1 - first]
        W[r, 2] += wins[v, 2]


def _first_and_inverse(keys: Integers) -> tuple[Integers, Integers]:
    """Return a row of each distinct key, in the order of the keys, and the place of each key."""
    span = int(keys.max()) + 1
    if span > max(1 << 20, 4 * len(keys)):
        _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        return first, inverse
    first_of = np.full(span, -1)
    first_of[keys] = np.arange(len(keys))
    used = np.flatnonzero(first_of >= 0)
    place = np.empty(span, np.int64)
    place[used] = np.arange(len(used))
    return first_of[used], place[keys]


def _number_contexts(covariates: Vector, n: int) -> Array | None:
    """Return the number of the distinct covariates of each vote; None if they rarely repeat."""
    sample = covariates[:: max(1, n // SAMPLED)]
    if len(np.unique(sample, axis=0)) > DISTINCT * len(sample):
        return None
    context = np.zeros(n, np.int64)
    for column in covariates.T:
        _, codes = np.unique(column, return_inverse=True)
        _, context = np.unique(context * (codes.max() + 1) + codes, return_inverse=True)
    return context
