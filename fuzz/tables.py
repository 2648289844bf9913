"""Campaign "tables": ids in every format.

The same ids in CSV, TSV, Parquet, Arrow, LETOR, qrels, pairs and frames must be the same queries.
Ids are text, unless every one of them is the canonical form of an integer.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import feather, parquet

import reference
from linrank import (
    LinearModel,
    RankingData,
    RankSVM,
    join_qrels,
    load,
    read_letor,
    read_pairs,
    read_qrels,
    save_store,
    write_letor,
)

from .campaign import Campaign, Case
from .sentences import tried

NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
PLAIN_ID = re.compile("[0-9A-Za-z_+.-]+")  #: ids that no format may refuse
NULLS = {"", "NA", "null", "NaN", "nan", "N/A", "n/a", "NULL", "#N/A"}  #: missing values of CSV
#: Ids that look like each other. A draw takes some from one of the lists.
IDS = [
    ["7", "07", "007", "+7", "7.0", "7e0", "0x7", "7_0"],
    ["16", "0x10", "0X10", "0b10000", "1_6", "016", "-16", "16.0"],
    ["0", "-0", "+0", "00", "0.0", "false", "False"],
    ["1", "2", "3", "10", "-4"],
    ["a", "A", "b", "true", "True", "NA", "nan", "null", "None"],
    ["7", "7\x00", "7\x00\x00", "\x007", "\x00"],
    ["7", " 7", "7 ", "\t7", "7\n", "7\r"],
    ["7", "\u0667", "\uff17", "\u00b2", "\u2167"],
    [str(2**63 - 1), str(2**63), str(-(2**63)), str(-(2**63) - 1), str(2**64), "1" + "0" * 40],
    [str(2**53), str(2**53 + 1), "9007199254740992.0", "9.007199254740993e15"],
    ["x" * 1000, "x" * 1001, "x"],
    ["q:1", "q,1", "q;1", 'q"1', "'q'", "q#1", "q 1"],
    ["2020-01-01", "2020-01-02", "12:00", "é", "e\u0301", "\ufeff", "a\ufffe"],
    ["", "7", "a"],
]
LABELS = ["0", "1", "2", "1.0", "1e0", "+1", "1_0", "0x1", "\u0661", "nan", "inf", "1d0", "-1"]


def draw_ids(rng: np.random.Generator, n: int) -> list[str]:
    """Return n ids of few queries."""
    known = IDS[rng.integers(len(IDS))]
    if rng.random() < 0.15:
        known = [*known, *IDS[rng.integers(len(IDS))]]
    some = rng.choice(len(known), min(len(known), int(rng.integers(1, 5))), replace=False)
    return [known[some[k]] for k in rng.integers(0, len(some), n)]


# Writers: each writes the documents (label, id, feature) as a file of its format


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def write_delimited(mark: str) -> Callable[[Path, Any, list[str], Any], None]:
    """Return a writer of CSV or TSV."""

    def write(path: Path, y: Any, ids: list[str], x: Any) -> None:
        special = (mark, '"', "\n", "\r", "\t", " ")
        cells = [_quoted(text) if any(c in text for c in special) else text for text in ids]
        rows = [f"{a:g}{mark}{b}{mark}{c!r}" for a, b, c in zip(y, cells, x.tolist(), strict=True)]
        path.write_bytes("\n".join([f"label{mark}qid{mark}f", *rows, ""]).encode())

    return write


def _arrow(y: Any, ids: Any, x: Any) -> pa.Table:
    return pa.table({"label": y, "qid": ids, "f": x})


def write_integers(path: Path, y: Any, ids: list[str], x: Any) -> None:
    """Write Parquet whose ids have the type that pyarrow infers: integers if they all are."""
    parquet.write_table(_arrow(y, pa.array(reference.ids_of_texts(ids)), x), path)


def write_text_letor(path: Path, y: Any, ids: list[str], x: Any) -> None:
    """Write LETOR text."""
    rows = zip(y, ids, x.tolist(), strict=True)
    lines = [f"{a:g} qid:{b} 1:{c!r} # docid = d{k}\n" for k, (a, b, c) in enumerate(rows)]
    path.write_bytes("".join(lines).encode())


WRITERS: dict[str, Callable[[Path, Any, list[str], Any], None]] = {
    "data.csv": write_delimited(","),
    "data.tsv": write_delimited("\t"),
    "text.parquet": lambda path, *row: parquet.write_table(_arrow(*row), path),
    "codes.parquet": lambda path, y, ids, x: parquet.write_table(
        _arrow(y, pa.array(ids).dictionary_encode(), x), path
    ),
    "integers.parquet": write_integers,
    "data.arrow": lambda path, *row: feather.write_feather(_arrow(*row), str(path)),
    "data.txt": write_text_letor,
}


def is_word(text: str) -> bool:
    """Tell whether a text can be a word of LETOR and TREC files."""
    return text.encode().split() == [text.encode()] and not set(text) & {"#", "\ufeff"}


# Checks


def check_queries(case: Case, about: str, data: RankingData | None, ids: list[str]) -> None:
    """Compare the queries of data with the ids; plain ids may not be refused."""
    if data is None:
        if all(PLAIN_ID.fullmatch(text) and text not in NULLS for text in ids):
            case.wrong(f"{about}: plain ids are refused")
        return
    back = np.arange(len(ids)) if data.order is None else np.argsort(data.order)
    found, expected = data.qid[back].tolist(), reference.ids_of_texts(ids)
    typed = "parquet" in about or "arrow" in about or "frame" in about  # text may stay text
    if list(map(str, found)) != list(map(str, expected)) or (not typed and found != expected):
        case.wrong(f"{about}: queries {[str(one)[:30] for one in found]}")
    if data.n_queries != len(set(ids)):
        case.wrong(f"{about}: {data.n_queries} queries, but {len(set(ids))} ids")


def check_documents(case: Case, ids: list[str]) -> None:
    """Write documents in every format, and compare the queries that are read."""
    y = case.rng.integers(0, 3, len(ids)).astype(float)
    x = case.rng.integers(-8, 8, len(ids)) / 4.0
    shown = [text[:12] for text in ids]
    for name, write in WRITERS.items():
        if name == "data.txt" and not all(map(is_word, ids)):
            continue
        path = case.folder / name
        write(path, y, ids, x)
        case.units += 1
        about = f"{name} with the ids {shown}"
        data = tried(case, about, load, path)
        check_queries(case, about, data, ids)
        if data is not None and case.rng.random() < 0.2:
            check_copies(case, about, data, ids)
    frame = pd.DataFrame({"label": y, "qid": ids, "f": x})
    about = f"frame with the ids {shown}"
    check_queries(case, about, tried(case, about, RankingData.from_frame, frame), ids)
    about = f"arrays (in a frame's column) with the ids {shown}"
    data = tried(case, about, RankingData, x[:, None], y, np.array(ids, dtype=object))
    check_queries(case, about, data, ids)
    check_ranks(case, y, x, ids)


def check_copies(case: Case, about: str, data: RankingData, ids: list[str]) -> None:
    """Compare the queries after data were written as a store and as LETOR text."""
    store, text = case.folder / "copy.store", case.folder / "copy.txt"
    if tried(case, f"{about}, saved", lambda: save_store(data, store) or True):
        copy = tried(case, f"{about}, store", load, store)
        if copy is not None:
            check_queries(case, f"{about}, store", copy, ids)
    if all(map(is_word, ids)) and tried(case, about, lambda: write_letor(text, data) or True):
        check_queries(case, f"written from {about}"[:90], tried(case, about, read_letor, text), ids)


def check_ranks(case: Case, y: Any, x: Any, ids: list[str]) -> None:
    """Compare ranks within queries with those of numbered queries."""
    numbers = [ids.index(text) for text in ids]
    ranker = RankSVM(n_threads=1)
    ranker.coef_, ranker.n_features_in_, ranker.model_ = np.ones(1), 1, LinearModel([1.0])
    found = tried(case, f"rank with the ids {ids}", ranker.rank, x[:, None], ids)
    if found is not None and found.tolist() != ranker.rank(x[:, None], numbers).tolist():
        case.wrong(f"rank with the ids {ids}: other queries")


def check_judgements(case: Case, ids: list[str]) -> None:
    """Join judgements with documents, by way of text files."""
    words = [text for text in ids if is_word(text)]
    if not words:
        return
    rng, path = case.rng, case.folder / "data.txt"
    write_text_letor(path, np.zeros(len(words)), words, np.arange(1.0, len(words) + 1))
    documents = [(text, f"d{k}") for k, text in enumerate(words)]
    others = [(text, doc) for text in draw_ids(rng, 3) if is_word(text) for _, doc in documents]
    keys = list(dict.fromkeys([*documents, *others]))
    good = rng.random() < 0.7
    labels = {key: str(rng.choice(LABELS[:6] if good else LABELS)) for key in keys}
    order = rng.permutation(len(keys))
    lines = [f"{keys[k][0]} 0 {keys[k][1]} {labels[keys[k]]}\n" for k in order]
    (case.folder / "qrels").write_bytes("".join(lines).encode())
    about = f"qrels of {[text[:12] for text in words]} with {sorted(set(labels.values()))}"
    case.units += 1
    qrels = tried(case, about, read_qrels, case.folder / "qrels")
    finite = all(NUMBER.fullmatch(label) for label in labels.values())
    if (qrels is not None) != finite:
        case.wrong(f"{about}: {'refused' if finite else 'accepted'}")
    data = tried(case, f"LETOR, {about}", read_letor, path)
    if qrels is None or data is None:
        return
    joined = tried(case, about, join_qrels, data, qrels)
    found = None if joined is None else joined.restore(joined.y).tolist()
    if found != [float(labels[key]) for key in documents]:
        case.wrong(f"{about}: labels {found} of {documents}, where {labels}")


def check_pairs(case: Case, ids: list[str]) -> None:
    """Write pairs in every format, and compare the items that are read."""
    items = list(dict.fromkeys(text for text in ids if text.strip() == text and text))
    if len(items) < 2:
        return
    rng, weight = case.rng, str(case.rng.choice(["1", "2", "1_0", "0x1", "\u0661", "1e0"]))
    pairs = [tuple(items[k] for k in rng.permutation(len(items))[:2]) for _ in range(4)]
    names = ["winner", "loser", "weight"]
    blanks = all(is_word(text) for text in items)
    for name, mark in [("a.csv", ","), ("a.tsv", "\t"), *([("a.txt", " ")] if blanks else [])]:
        quote = str if mark == " " else _quoted
        rows = [mark.join([*map(quote, pair), weight]) for pair in pairs]
        (case.folder / name).write_bytes("\n".join([mark.join(names), *rows, ""]).encode())
    table = pa.table([*map(pa.array, zip(*pairs, strict=True)), [weight] * 4], names)
    parquet.write_table(table, case.folder / "a.parquet")
    for name in ("a.csv", "a.tsv", "a.txt", "a.parquet"):
        if not (case.folder / name).exists():
            continue
        about = f"pairs {name} of {[text[:12] for text in items]} with the weight {weight!r}"
        case.units += 1
        found = tried(case, about, read_pairs, case.folder / name)
        if found is None and NUMBER.fullmatch(weight) and all(map(PLAIN_ID.fullmatch, items)):
            case.wrong(f"{about}: refused")
        elif found is not None and not NUMBER.fullmatch(weight):
            case.wrong(f"{about}: the weight is {found.weight[0]}")
        elif found is not None and list(zip(found.preferred, found.other, strict=True)) != pairs:
            case.wrong(f"{about}: {found.preferred} and {found.other} instead of {pairs}")


def run(case: Case) -> None:
    """Write some ids in every format."""
    ids = draw_ids(case.rng, int(case.rng.integers(4, 10)))
    check_documents(case, ids)
    check_judgements(case, ids)
    check_pairs(case, ids)


CAMPAIGN = Campaign("tables", "files with ids", 10_000, 5.0, run)
