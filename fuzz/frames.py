"""Campaign "frames": documents in data frames of all kinds.

A ranker or a model must give the scores of its twin, which gets the same columns as plain arrays,
or refuse the frame with one sentence. Columns are matched by name, in whatever order they are.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from linrank import Pairs, RankingData, RankSVM, load, load_model

from .campaign import Campaign, Case
from .rankers import RANKERS
from .sentences import tried

NEAR = 1e-3  #: error of scores, relative to their spread, that a sum in another order explains
TRAINED = ("pandas", "pandas", "polars", "pyarrow")
FORMS = (*TRAINED, "records", "dicts", "mapping", "array")
NAMES: list[Any] = [
    ["bm25", "clicks", "age", "price", "size"],
    [10, 20, 30, 40, 50],
    [4, 3, 2, 1, 0],
    [0, 1, 2, 3, 4],
    ["a", 7, "b", 8, "c"],
    ["7", 7.5, "x", 2, 1.25],
    [0.5, 1.5, 2.5, 3.5, 4.5],
    [("a", 1), ("a", 2), ("b", 1), ("b", 2), ("c", 1)],
    ["é", "a\ufffe", "a b", " b", "\x00"],
]
PLAIN = ("float64", "float32", "int64", "bool")  #: columns that no frame may refuse
QUERY_IDS = [[1, 2, 3], ["a", "b", "c"], ["007", "7", "0x7"], ["7", "7\x00", "7 "], [0.5, 2.0, 3.0]]
PAIR_NAMES = [
    ("preferred", "other"), ("winner", "loser"), ("better", "worse"), ("chosen", "rejected"),
]  # fmt: skip


class Column(NamedTuple):
    """A column of a frame, and its numbers; None if the column holds no numbers."""

    series: pd.Series
    numbers: Any


def make_column(kind: str, values: Any, rng: np.random.Generator) -> Column:
    """Return a column of some type. Its values are exact in every type of numbers."""
    whole, days = np.round(values), pd.to_datetime(np.round(values).astype(int), unit="D")
    holes = rng.random(len(values)) < 0.2
    with_holes = np.where(holes, np.nan, whole)
    objects = [None if hole else int(v) for v, hole in zip(whole, holes, strict=True)]
    made: dict[str, tuple[Any, str | None, Any]] = {
        "float64": (values, "float64", values),
        "float32": (values, "float32", values),
        "int64": (whole, "int64", whole),
        "bool": (values > 0, "bool", (values > 0).astype(float)),
        "nan": (with_holes, "float64", with_holes),
        "Int64": (objects, "Int64", with_holes),
        "Float32": (values, "Float32", values),
        "boolean": ([x if x is None else x > 0 for x in objects], "boolean",
                    np.where(holes, np.nan, whole > 0)),
        "category": (whole, "category", whole),
        "object": (objects, "object", with_holes),
        "text": ([f"doc {v}" for v in whole], "object", None),
        "letters": ([f"doc {v}" for v in whole], "category", None),
        "mixed": (["?", *whole[1:]], "object", None),
        "datetime": (days, None, None),
        "timedelta": (days - days[0], None, None),
    }  # fmt: skip
    content, dtype, numbers = made[kind]
    return Column(pd.Series(content, dtype=dtype), numbers)


KINDS = (*PLAIN, *PLAIN, *PLAIN, "nan", "Int64", "Float32", "boolean", "category", "object",
         "text", "letters", "mixed", "datetime", "timedelta")  # fmt: skip


class Table(NamedTuple):
    """Named columns, which can take the form of any frame."""

    names: list[Any]
    kinds: list[str]
    columns: list[Column]

    @property
    def X(self) -> Any:
        """The numbers as an array; None if a column holds none."""
        if any(column.numbers is None for column in self.columns):
            return None
        single = set(self.kinds) <= {"float32", "Float32"}
        X = np.column_stack([column.numbers for column in self.columns])
        return X.astype(np.float32 if single else np.float64)

    @property
    def is_plain(self) -> bool:
        """Whether names and columns are such that a frame of this table is always accepted."""
        return set(self.kinds) <= set(PLAIN) and all(type(name) is str for name in self.names)

    def take(self, places: Any) -> Table:
        """Return some of the columns."""
        return Table(*([part[k] for k in places] for part in self))

    def form(self, form: str) -> Any:
        """Return the table as a frame of some library, or None if the library has no such types."""
        frame = pd.concat([column.series for column in self.columns], axis=1)
        frame.columns = pd.Index(self.names, tupleize_cols=False)
        if form == "pandas":
            return frame
        if form == "array":
            return frame.to_numpy() if self.X is None else self.X
        if form == "dicts":
            return frame.to_dict("records")
        if form == "mapping":
            return {name: frame.iloc[:, k].tolist() for k, name in enumerate(self.names)}
        frame.columns = list(map(str, self.names))
        try:
            if form == "records":
                return frame.to_records(index=False)
            table = pa.Table.from_pandas(frame, preserve_index=False)
            return table if form == "pyarrow" else pl.from_pandas(frame)
        except (pa.ArrowException, pl.exceptions.PolarsError, TypeError, ValueError):
            return None


def draw_table(rng: np.random.Generator, n_rows: int) -> Table:
    """Return a table of random names and types, often with plain ones."""
    n, rare = int(rng.integers(2, 6)), rng.random() < 0.5
    names = NAMES[rng.integers(len(NAMES)) if rng.random() < 0.6 else 0]
    kinds = [str(kind) for kind in rng.choice(KINDS if rare else PLAIN, n)]
    values = rng.integers(-40, 40, (n, n_rows)) / 8.0
    return Table(
        list(names[:n]),
        kinds,
        [make_column(*pair, rng) for pair in zip(kinds, values, strict=True)],
    )


def as_ids(rng: np.random.Generator, values: list[Any]) -> Any:
    """Return query ids in the form of some library."""
    forms: list[Any] = [list, pd.Series, pl.Series, pa.array, pd.Categorical,
                        lambda ids: np.array(ids, dtype=object)]  # fmt: skip
    return forms[rng.integers(len(forms))](values)


def same(found: Any, expected: Any) -> bool:
    """Tell whether scores are equal, except for rounding."""
    found, expected = np.asarray(found), np.asarray(expected)
    spread = max(float(np.ptp(expected)), 1e-12)
    return found.shape == expected.shape and bool(np.all(np.abs(found - expected) <= NEAR * spread))


# Rankers and models


def check_ranker(case: Case) -> None:
    """Fit a ranker to a frame and its twin to an array, and compare them on other frames."""
    rng, n_rows = case.rng, 16
    table, name = draw_table(rng, n_rows), str(rng.choice(list(RANKERS)))
    y, qid = rng.integers(0, 3, n_rows).astype(float), np.repeat([0, 1, 2, 3], 4)
    y[::4], y[1::4] = 2.0, 0.0
    form = str(rng.choice(TRAINED if rng.random() < 0.9 else FORMS))
    ids = QUERY_IDS[rng.integers(len(QUERY_IDS))]
    X, about = table.form(form), f"{name}, {form} with {table.names} of {table.kinds}, qid {ids}"
    if X is None:
        return
    case.units += 1
    ranker = tried(case, about, RANKERS[name]().fit, X, y, as_ids(rng, [ids[q % 3] for q in qid]))
    twin = None
    if table.X is not None:
        numbers = np.argsort(np.argsort(ids))[qid % 3]  # random draws follow the order of queries
        twin = tried(case, f"{name}, array", RANKERS[name]().fit, table.X, y, numbers)
    if ranker is None:
        if table.is_plain and form in TRAINED and twin is not None:
            case.wrong(f"{about}: a plain frame is refused")
    elif twin is None:
        case.wrong(f"{about}: fitted, but its twin is refused")
    else:
        case.saw("fitted")
        check_scores(case, about, table, ranker, twin, numbered=form == "array")


def check_scores(
    case: Case, about: str, table: Table, ranker: Any, twin: Any, numbered: bool
) -> None:
    """Compare a fitted ranker, its model and its saved model with the twin on other frames."""
    expected, loaded = twin.predict(table.X), None
    qid = np.repeat([0, 1], len(expected) // 2)
    users = {"predict": ranker.predict, "rank": lambda X: ranker.rank(X, qid)}
    if hasattr(ranker, "model_"):
        path = case.folder / "model.json"
        tried(case, f"{about}: save", ranker.model_.save, path)
        loaded = tried(case, f"{about}: load", load_model, path)
        users["model"] = ranker.model_.predict
    if loaded is not None:
        users["loaded"] = loaded.predict
    for _ in range(4):
        how, use = list(users.items())[case.rng.integers(len(users))]
        form, order = str(case.rng.choice(FORMS)), case.rng.permutation(len(table.names))
        if numbered or form == "array":  # columns without names go by their places
            form, order = "array", np.arange(len(order))
        cut = case.rng.random() < 0.1
        other = table.take(order[:-1] if cut else order).form(form)
        if other is None:
            continue
        found = tried(case, f"{about}: {how}, {form}, order {order}", use, other)
        right = twin.rank(table.X, qid) if how == "rank" else expected
        if found is None:
            if table.is_plain and form in TRAINED and not cut:
                case.wrong(f"{about}: {how} refuses {form}, order {order}")
        elif cut or (not (ties(expected) if how == "rank" else False) and not same(found, right)):
            what = "of too few columns" if cut else f"other than those of the twin ({found[:3]})"
            case.wrong(f"{about}: {how}, {form}, order {order}: scores {what}")


def ties(scores: Any) -> bool:
    """Tell whether scores are so near each other that rounding decides about ranks."""
    ordered = np.sort(scores)
    return bool((np.diff(ordered) <= 2 * NEAR * max(float(np.ptp(scores)), 1e-12)).any())


# RankingData.from_frame, and the same frame as a file


def check_from_frame(case: Case) -> None:
    """Compare `RankingData.from_frame` and Parquet with the columns of the frame."""
    rng, n_rows = case.rng, 12
    table = draw_table(rng, n_rows)
    names = QUERY_IDS[rng.integers(len(QUERY_IDS))]
    ids = [names[q] for q in rng.integers(0, 3, n_rows)]
    y = rng.integers(0, 3, n_rows).astype(float)
    place = str(rng.choice(["column", "column", "index", "levels", "other index"]))
    frame = table.form("pandas")
    frame.insert(int(rng.integers(len(table.names) + 1)), "label", y)
    if place == "column":
        frame.insert(int(rng.integers(len(table.names) + 1)), "qid", ids)
    elif place == "index":
        frame.index = pd.Index(ids, name="qid")
    elif place == "levels":
        frame.index = pd.MultiIndex.from_arrays([ids, range(n_rows)], names=["qid", "doc"])
    else:
        frame.insert(0, "qid", ids)
        frame.index = pd.Index(range(n_rows), name="doc")
    about = f"from_frame, qid as {place} {ids}, columns {table.names} of {table.kinds}"
    case.units += 1
    data = tried(case, about, RankingData.from_frame, frame, allow_missing=True)
    check_data(case, about, table, data, y, ids, must=table.is_plain and place == "column")
    path = case.folder / "frame.parquet"
    try:
        frame.to_parquet(path)
    except (ValueError, TypeError, pa.ArrowException):
        return  # pandas cannot write such names or types
    data = tried(case, f"Parquet, {about}", load, path, allow_missing=True)
    if place != "levels":  # the second level of the index is a column of the file
        check_data(case, f"Parquet, {about}", table, data, y, ids, must=False)


def check_data(
    case: Case, about: str, table: Table, data: RankingData | None, y: Any, ids: list[Any],
    must: bool,
) -> None:  # fmt: skip
    """Compare data with what the frame holds; only frames that are not plain may be refused."""
    if data is None:
        if must:
            case.wrong(f"{about}: a plain frame is refused")
        return
    if table.X is None:
        case.wrong(f"{about}: accepted, though a column holds no numbers")
        return
    back = np.arange(len(y)) if data.order is None else np.argsort(data.order)
    wide = any(isinstance(name, tuple) for name in table.names)  # pandas renames these in files
    if data.feature_names != list(map(str, table.names)) and not wide:
        case.wrong(f"{about}: features {data.feature_names}")
    elif not np.array_equal(data.X[back], table.X, equal_nan=True):
        case.wrong(f"{about}: other features")
    elif not np.array_equal(data.y[back], y):
        case.wrong(f"{about}: other labels")
    elif list(map(str, data.qid[back].tolist())) != list(map(str, ids)):
        case.wrong(f"{about}: queries {data.qid[back].tolist()}")


# Pairs


def check_pairs(case: Case) -> None:
    """Compare `fit_pairs` of a frame of pairs with that of lists."""
    rng = case.rng
    items, X = list("abcdef"), rng.standard_normal((6, 3))
    pairs = np.array([rng.permutation(items)[:2] for _ in range(8)])
    first, second = PAIR_NAMES[rng.integers(4)]
    named = {first: pairs[:, 0], second: pairs[:, 1]}
    weight, wrong = None, ""
    kind = rng.random()
    if kind < 0.2:
        named["weight"] = weight = rng.integers(1, 5, 8).astype(float)
    elif kind < 0.35:
        other = PAIR_NAMES[(PAIR_NAMES.index((first, second)) + 1) % 4]
        named |= {other[0]: pairs[::-1, 0], other[1]: pairs[::-1, 1]}
        wrong = "ambiguous names"
    elif kind < 0.5:
        named, wrong = {"left": pairs[:, 0], "right": pairs[:, 1]}, "unknown names"
    order = [list(named)[k] for k in rng.permutation(len(named))]
    frame = pd.DataFrame({name: named[name] for name in order})
    frame.columns = [name.upper() if rng.random() < 0.1 else name for name in frame]
    form = str(rng.choice(TRAINED))
    given = {"pandas": frame, "polars": pl.from_pandas(frame), "pyarrow": pa.table(frame)}[form]
    about = f"fit_pairs, {form} with {list(frame)}"
    case.units += 1
    ranker = tried(case, about, RankSVM(n_threads=1).fit_pairs, X, given, items=items)
    if ranker is None:
        if not wrong and weight is None and form == "pandas":
            case.wrong(f"{about}: refused")
        return
    twin = RankSVM(n_threads=1).fit_pairs(X, Pairs(*pairs.T.tolist(), weight), items=items)
    if wrong:
        case.wrong(f"{about}: {wrong} are accepted")
    elif not same(ranker.predict(X), twin.predict(X)):
        case.wrong(f"{about}: other scores than those of the same pairs as lists")


def prepare(folder: Path) -> None:
    """Switch off the warnings about small data that are no part of this campaign."""
    warnings.simplefilter("ignore")


def run(case: Case) -> None:
    """Try one frame with a ranker, one with `from_frame`, and one of pairs."""
    check_ranker(case)
    check_from_frame(case)
    check_pairs(case)


CAMPAIGN = Campaign("frames", "frames", 3000, 6.0, run, prepare)
