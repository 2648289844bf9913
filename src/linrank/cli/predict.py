"""The command ``linrank predict``: scores of documents."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import DataError, prefix_errors
from . import shared_options as options
from .console import progress
from .inputs import (
    FormatOption,
    Input,
    TagOption,
    check_output,
    has_topics,
    read_for,
    score_topics,
    with_columns,
)

if TYPE_CHECKING:
    from .._util.types import Vector
    from ..data.ranking import RankingData

EPILOG = """
Examples:

linrank predict model.json test.txt --out scores.txt

linrank predict model.json test.txt.gz | paste - test.txt

linrank predict model.json test.txt --format trec --tag bm25-ranksvm --out run.txt
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("predict", epilog=EPILOG)(with_columns(predict))


def predict(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL",
            help="A model file, as written by linrank train or by `model_.save` in Python.",
            show_default=False,
        ),
    ],
    data: options.Data,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="File for the scores.",
            rich_help_panel=options.OUTPUT,
            show_default="the standard output",
        ),
    ] = None,
    format: FormatOption = "scores",
    tag: TagOption = "linrank",
    threads: options.Threads = None,
    *,
    inputs: Input,
) -> None:
    """Compute the scores of documents, one per line, or ranked lists; higher is better.

    If the model has topics, a line has one score per topic, separated by tabs.
    """
    check_output(out, model, data)
    from .._util.files import atomic_write
    from ..data.trec import score_blocks
    from ..model import load_model

    learnt = load_model(model)
    documents = None
    if has_topics(learnt):
        scores = score_topics(learnt, data)[1]  # type: ignore[arg-type]
    else:
        documents = read_for(learnt, data, inputs, n_threads=threads, needs_label=False)
        with prefix_errors(data), progress("scoring"):
            scores = documents.restore(learnt.predict(documents.X, documents.qid))
    _check_finite(data, scores)
    text = _as_run(data, documents, scores, tag) if format == "trec" else score_blocks(scores)
    if out is None:
        sys.stdout.writelines(text)
        return
    with progress(f"writing {out}"), atomic_write(out, "w") as file:
        file.writelines(text)


def _as_run(data: Path, documents: RankingData | None, scores: Vector, tag: str) -> Iterator[str]:
    """Return blocks of lines of a run; `scores` are in the order of the file."""
    from ..data.trec import blocks_of, run_lines, run_of

    if documents is None:
        raise DataError("--format trec needs a model without topics. Use --format scores.")
    scores = scores if documents.order is None else scores[documents.order]
    try:
        return blocks_of(run_lines(run_of(documents, scores, tag)))
    except DataError as error:
        raise DataError(f"--format trec: {data}: {error}") from None


def _check_finite(data: Path, scores: Vector) -> None:
    """Raise an error for scores that are not finite, for instance because a store holds NaN."""
    import numpy as np

    bad = np.flatnonzero(~np.isfinite(scores.reshape(len(scores), -1)).all(axis=1))
    if len(bad):
        raise DataError(
            f"{data}: the score of document {bad[0] + 1} is {scores[bad[0]]}; check that its "
            "features are finite, and not so large that the score overflows"
        )
