"""Campaign "lines": random LETOR lines, read by linrank and by a slow parser.

Both must read the same documents, or both must refuse the text.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import random
import re
from typing import Any

import numpy as np
import zstandard

import reference
from linrank import FileFormatError, RankingData, read_letor
from linrank.data.letor import check_options, read_source
from linrank.data.source import MemoryContent, Source
from linrank.data.store import convert

from .campaign import Campaign, Case

LINES = 2000  #: lines per case
WIDEST = 10_000  #: largest feature number; texts with larger numbers are skipped here
FILES = 0.02  #: share of the texts that are also read from files, plain and compressed

COMPRESS = {
    "txt": bytes,
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstandard.ZstdCompressor(write_checksum=True).compress,
}
SPACES = [" "] * 12 + ["  ", "\t", " \t ", "\r", "\v", "\f"]
PIECES = [b"", b":", b"#", b" ", b"\n", b"-", b".", b"e", b"9", b"nan", b"qid:", b"\x00", b"\xff"]


Row = tuple[float, str | None, dict[int, float], bytes, float | None]


# Texts


def number(draw: random.Random) -> str:
    """Return a number as files usually have it, or one that is difficult to parse."""
    kind = draw.random()
    if kind < 0.5:
        return f"{draw.random():.6f}"
    if kind < 0.7:
        return str(draw.randint(-5, 5))
    if kind < 0.8:
        return repr(draw.gauss(0, 1) * 10 ** draw.uniform(-30, 30))
    if kind < 0.85:
        return repr(draw.gauss(0, 1) * 10 ** draw.uniform(-307, 307))
    whole = "".join(draw.choices("0123456789", k=draw.randint(0, 25)))
    part = "".join(draw.choices("0123456789", k=draw.randint(not whole, 25)))
    point = "." if part or draw.random() < 0.5 else ""
    power = f"{draw.choice('eE')}{draw.choice(['', '+', '-'])}{draw.randint(0, 330)}"
    return draw.choice(["", "+", "-"]) + whole + point + part + draw.choice(["", power])


QIDS = [
    lambda draw: str(draw.randint(-3, 3)),
    lambda draw: str(draw.randint(2**63 - 3, 2**63 + 1)),
    lambda draw: draw.choice(["a", "b", "ä:7", "7", "07", "+7"]),
    lambda draw: draw.choice(["7", "07", "+7", "8"]),
    lambda draw: str(draw.randint(0, 10**6)),
    None,
]


def line(draw: random.Random, qid: Any, comments: bool) -> str:
    """Return a line with a document, or a line without one."""
    if draw.random() < 0.04:
        return draw.choice(["", "  ", "# 1 qid:x 1:2", "\r"])
    widest = draw.choice([3, 12, 12, 60, WIDEST // 4])
    indices = sorted({draw.randint(0, widest) for _ in range(draw.randint(0, 8))})
    tokens = [number(draw), *([] if qid is None else [f"qid:{qid(draw)}"])]
    tokens += [f"{index}:{number(draw)}" for index in indices]
    text = "".join(token + draw.choice(SPACES) for token in tokens)
    text = draw.choice(["", "", " "]) + (text.rstrip() if draw.random() < 0.5 else text)
    return text + draw.choice(["#", "# docid = GX-00", "#ü # x"]) if comments else text


def damaged(draw: random.Random, text: bytes) -> bytes:
    """Return the text with a few bytes replaced, removed or added."""
    content = bytearray(text)
    for _ in range(draw.randint(1, 3)):
        first = draw.randint(0, len(content))
        content[first : first + draw.randint(0, 2)] = draw.choice([*PIECES, draw.randbytes(2)])
    return bytes(content) or b"\n"


def make_text(draw: random.Random) -> bytes:
    """Return a text, usually of few lines and often damaged."""
    small = draw.random() < 0.9
    n_lines = draw.randint(1, 6) if small else draw.randint(50, 300)
    qid, comments, end = draw.choice(QIDS), draw.random() < 0.3, draw.choice(["\n", "\r\n"])
    text = end.join(line(draw, qid, comments) for _ in range(n_lines))
    whole = (draw.choice(["", "", "\ufeff"]) + text + draw.choice(["", end])).encode()
    return damaged(draw, whole) if draw.random() < (0.6 if small else 0.1) else whole


# Reading by linrank and by the slow parser


def slow_rows(text: bytes, single: bool) -> list[Row] | None:
    """Return the documents of a text, or None if the text must be refused."""
    try:
        rows = reference.read_letor_slow(text)
    except ValueError:
        return None
    if single and any(abs(v) >= 2.0**128 - 2.0**103 for row in rows for v in row[2].values()):
        return None  # too large for float32
    return rows


def fast_data(reader: Any, *arguments: Any, **options: Any) -> RankingData | None:
    """Return what linrank reads, or None if it raises an error with a message of one line."""
    try:
        return reader(*arguments, **options)
    except FileFormatError as error:
        if re.match(r"\S+(:\d+)?: [^\n]+$", str(error)) is None:
            raise AssertionError(f"not one line with a place: {error}") from None
        return None


def query_names(rows: list[Row]) -> list[Any]:
    """Return the query ids as linrank does; 0 for documents without one."""
    names = [qid for _, qid, *_ in rows]
    return [0] * len(names) if names[0] is None else reference.ids_of_texts(names)


def difference(data: RankingData | None, rows: list[Row] | None, single: bool) -> str | None:
    """Return how the data differ from the documents of the slow parser; None if they are equal."""
    if data is None or rows is None:
        return None if data is rows else f"refused by {'linrank' if rows else 'the slow parser'}"
    indices = [index for _, _, entries, *_ in rows for index in entries]
    base = 0 if 0 in indices else 1
    X = np.zeros((len(rows), max(indices) + 1 - base), np.float32 if single else np.float64)
    for place, (_, _, entries, *_) in enumerate(rows):
        for index, value in entries.items():
            X[place, index - base] = value
    back = np.arange(len(rows)) if data.order is None else np.argsort(data.order)
    found = (data.X.toarray() if data.is_sparse else data.X)[back]
    if data.index_base != base or found.dtype != X.dtype or not np.array_equal(found, X):
        return "other features"
    if not np.array_equal(data.y[back], [label for label, *_ in rows]):
        return "other labels"
    if data.qid[back].tolist() != query_names(rows):
        return "other query ids"
    comments = [comment.decode(errors="replace") for *_, comment, _ in rows]
    texts = [""] * len(rows) if data.comments is None else [data.comments[k] for k in back]
    if texts != comments:
        return "other comments"
    costs = [1.0 if cost is None else cost for *_, cost in rows]
    weights = np.ones(len(rows)) if data.weight is None else data.weight[back]
    return None if weights.tolist() == costs else "other costs"


def check_files(case: Case, text: bytes, rows: list[Row] | None) -> None:
    """Read the text from plain and compressed files, and from stores converted from them."""
    for kind, compress in COMPRESS.items():
        path = case.folder / f"file.{kind}"
        path.write_bytes(compress(text))
        for what, reader, more in [
            ("read", read_letor, ()),
            ("converted", convert, (case.folder / f"{kind}.store",)),
        ]:
            problem = difference(fast_data(reader, path, *more), rows, False)
            if problem:
                case.wrong(f"{kind} {what}: {problem}: {text!r}")


def run(case: Case) -> None:
    """Compare both readers on `LINES` lines."""
    draw = random.Random(int(case.rng.integers(2**63)))
    while case.units < LINES:
        text, single = make_text(draw), draw.random() < 0.3
        rows = slow_rows(text, single)
        if rows and max(index for row in rows for index in row[2]) > WIDEST:
            continue
        case.units += text.count(b"\n") + 1
        case.saw("texts refused" if rows is None else "texts read")
        form, n_threads = draw.choice(["auto", "dense", "csr"]), draw.choice([1, 1, 1, 2])
        options = check_options(
            form=form, n_threads=n_threads, dtype=np.float32 if single else np.float64
        )
        chunk_bytes = draw.choice([draw.randint(1, 90), 1 << 20])
        source = Source("file.txt", MemoryContent(text))
        data = fast_data(read_source, source, options, chunk_bytes=chunk_bytes)
        problem = difference(data, rows, single)
        if problem:
            case.wrong(f"{problem}: {options}, chunk_bytes={chunk_bytes}: {text!r}")
        if draw.random() < FILES and not single:
            check_files(case, text, rows)


CAMPAIGN = Campaign("lines", "LETOR lines", 1_000_000, 6.0, run)
