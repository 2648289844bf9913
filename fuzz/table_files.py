"""Parquet, Arrow and CSV files for the campaign "damage", and slow readers of their content."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import feather, ipc, parquet

from linrank import RankingData

#: Encodings of CSV files. Only UTF-8 is text for linrank.
ENCODINGS = ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1", "utf-8-sig", "utf-7")
FEATURES = "abcdéf"  #: names of one letter
ROWS, LETTERS = (3.5, 4.8), (3.0, 5.5)  #: powers of 10: rows, and letters of an id, of a small file

Floats = Any


def write_tables(folder: Path, data: RankingData) -> None:
    """Write documents as Parquet, Arrow and CSV, with text as query ids."""
    X = data.restore(data.X)
    ids = [f"é{qid}" for qid in data.restore(data.qid).tolist()]
    columns = {"label": data.restore(data.y), "qid": ids, **dict(zip(FEATURES, X.T, strict=True))}
    table = pa.table(columns)
    parquet.write_table(table, folder / "data.parquet", row_group_size=16, compression="none")
    coded = table.set_column(1, "qid", table["qid"].dictionary_encode())
    parquet.write_table(coded, folder / "codes.parquet", compression="none")
    feather.write_feather(coded, str(folder / "data.arrow"), compression="uncompressed")
    with (folder / "data.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*(column.to_pylist() for column in table.columns), strict=True))


def damage_text(rng: np.random.Generator, path: Path) -> str:
    """Replace a letter, of a name or an id in a file without compression, by other bytes."""
    content, letter = bytearray(path.read_bytes()), "é".encode()
    places = [k for k in range(len(content)) if content.startswith(letter, k)]
    place = places[rng.integers(len(places))]
    content[place : place + len(letter)] = rng.bytes(len(letter))
    path.write_bytes(content)
    return "other letters"


def encode_csv(rng: np.random.Generator, path: Path) -> str:
    """Write a CSV file in another encoding."""
    encoding = ENCODINGS[rng.integers(len(ENCODINGS))]
    path.write_bytes(path.read_text(encoding="utf-8").encode(encoding))
    return f"encoded as {encoding}"


def write_long_ids(rng: np.random.Generator, path: Path) -> str:
    """Write a small Parquet file with many rows, and long ids that are stored once."""
    n_rows, letters = int(10.0 ** rng.uniform(*ROWS)), int(10.0 ** rng.uniform(*LETTERS))
    codes = np.sort(rng.integers(0, 3, n_rows)).astype(np.int32)
    ids = pa.DictionaryArray.from_arrays(codes, [f"{k}" * letters for k in range(3)])
    zeros = {name: np.zeros(n_rows) for name in FEATURES}
    table = pa.table({"label": np.arange(n_rows) % 2.0, "qid": ids, **zeros})
    parquet.write_table(table, path, compression="zstd")
    return f"{n_rows} rows, ids of {letters} letters"


def _scores(columns: dict[str, list[Any]], coef: Floats) -> Floats:
    """Return the scores of columns, which may hold numbers or their texts."""
    rows = zip(*(columns[name] for name in FEATURES), strict=True)
    return np.array([sum(w * float(x) for w, x in zip(coef, row, strict=True)) for row in rows])


def parquet_scores(path: Path, coef: Floats) -> Floats:
    """Return the scores of a Parquet file, which pyarrow reads as a whole."""
    with parquet.ParquetFile(path) as file:
        return _scores(file.read(columns=list(FEATURES)).to_pydict(), coef)


def arrow_scores(path: Path, coef: Floats) -> Floats:
    """Return the scores of an Arrow file, which pyarrow reads as a whole."""
    with path.open("rb") as file:
        return _scores(ipc.open_file(file).read_all().select(list(FEATURES)).to_pydict(), coef)


def csv_scores(path: Path, coef: Floats) -> Floats:
    """Return the scores of a CSV file by the csv module of Python."""
    text = path.read_bytes().decode("utf-8-sig")
    header, *rows = [row for row in csv.reader(io.StringIO(text, newline="")) if row]
    return _scores(dict(zip(header, map(list, zip(*rows, strict=True)), strict=True)), coef)
