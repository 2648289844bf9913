"""The command ``linrank convert``: text to store, or store to text."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import shared_options as options
from .console import facts, format_bytes, print_json, progress, reading, show
from .fitting import data_json, data_line
from .inputs import Input, check_output, load_options, read_data, size_of, with_columns

if TYPE_CHECKING:
    from ..data.ranking import RankingData

EPILOG = """
Examples:

linrank convert train.txt.gz train.store

linrank convert vali.txt vali.store --n-features 136

linrank convert train.parquet train.store --label relevance --qid query_id

linrank convert train.store train.txt
"""
TEXT = (".txt", ".dat", ".letor", ".svm", ".gz", ".bz2", ".xz", ".zst")  #: suffixes of text files


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("convert", epilog=EPILOG)(with_columns(convert))


def convert(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE",
            help="LETOR text, a Parquet, Arrow or CSV file, a folder of such files, or a store.",
            show_default=False,
        ),
    ],
    dest: Annotated[
        Path,
        typer.Argument(
            metavar="DEST",
            help=f"A LETOR text file if the name ends in {', '.join(TEXT)}; otherwise a store, "
            "which is a folder.",
            show_default=False,
        ),
    ],
    n_features: Annotated[
        int | None,
        typer.Option(
            "--n-features",
            metavar="NUMBER",
            min=1,
            help="The number of features, if it is larger than the largest index in the text.",
            rich_help_panel=options.INPUT,
            show_default=False,
        ),
    ] = None,
    float32: options.Float32 = False,
    index_base: options.IndexBase = "auto",
    threads: options.Threads = None,
    json: options.Json = False,
    *,
    inputs: Input,
) -> None:
    """Convert data between LETOR text and a store, which opens without reading it."""
    to_text = dest.suffix.lower() in TEXT
    check_output(dest, source, is_folder=not to_text)
    started = time.perf_counter()
    single = {"dtype": "float32"} if float32 else {}  # tables keep their own type without it
    data = _convert(
        source, dest, to_text, inputs, n_features=n_features,
        index_base=options.number_of(index_base), n_threads=threads, **single,
    )  # fmt: skip
    seconds = time.perf_counter() - started
    before, after = size_of(source), size_of(dest)
    if json:
        content = data_json(source, data) | {"dest": str(dest), "source_bytes": before}
        print_json(content | {"dest_bytes": after, "seconds": seconds})
        return
    sizes = f"{dest}: {format_bytes(after)}, from {format_bytes(before)}, in {seconds:.1f} s"
    show(facts([("data", data_line(source, data)), ("written", sizes)]))


def _convert(source: Path, dest: Path, to_text: bool, inputs: Input, **how: Any) -> RankingData:
    from ..data.letor import write_letor
    from ..data.store import convert

    if not to_text:
        with reading(source) as report:
            # A store keeps missing values. Training decides whether they are an error.
            how |= load_options(inputs) | {"allow_missing": True}
            return convert(source, dest, progress=report, **how)
    data = read_data(source, inputs, **how)
    with progress(f"writing {dest}"):
        write_letor(dest, data)
    return data
