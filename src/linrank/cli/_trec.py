"""TREC files on the command line: the option --qrels, and runs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from .._text import count
from ..errors import DataError, about
from ._options import INPUT, OUTPUT
from ._progress import progress
from ._rankings import kind_of

if TYPE_CHECKING:
    from ..data.ranking import RankingData
    from ..data.trec import Qrels, Run
    from ..metrics import Evaluation, Metric
    from ..metrics.names import FlavourName

FormatName = Literal["scores", "trec"]

QrelsOption = Annotated[
    Path | None,
    typer.Option(
        "--qrels",
        metavar="FILE",
        help="Judgements in the format of TREC, which replace the labels. Documents are found by "
        "query and document id, as in # docid = A. Documents that were not judged get the label 0.",
        rich_help_panel=INPUT,
        show_default=False,
    ),
]
FormatOption = Annotated[
    FormatName,
    typer.Option(
        "--format",
        help="One score per line, or a run in the format of TREC, which needs document ids.",
        rich_help_panel=OUTPUT,
    ),
]
TagOption = Annotated[
    str,
    typer.Option("--tag", metavar="NAME", help="The name of the run.", rich_help_panel=OUTPUT),
]


class Judgements:
    """The labels of ``--qrels``. Without the option, data keep their labels."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.n_docs = self.n_unjudged = 0
        self._qrels = None if path is None else read_judgements(path)

    def apply(self, data: RankingData, path: Path) -> RankingData:
        """Return data with the judgements as labels, and count documents that were not judged."""
        if self._qrels is None:
            return data
        from ..data.trec import judge

        with progress(f"reading the labels of {path}"), about(path):
            y, known = judge(data, self._qrels)
        self.n_docs += len(known)
        self.n_unjudged += len(known) - int(known.sum())
        return data.replace(y=y)

    def lines(self) -> list[tuple[str, str]]:
        """Return a line of a report; none without the option."""
        if self._qrels is None:
            return []
        unjudged = f"{self.n_unjudged:,} of {count(self.n_docs, 'document')} not judged (label 0)"
        return [("qrels", f"{self.path}: {count(len(self._qrels), 'judgement')}, {unjudged}")]

    def json(self) -> dict[str, Any]:
        """Return the content of `lines` as an entry of JSON; none without the option."""
        if self._qrels is None:
            return {}
        found = {"file": str(self.path), "judgements": len(self._qrels)}
        return {"qrels": found | {"documents": self.n_docs, "unjudged": self.n_unjudged}}


def read_judgements(path: Path) -> Qrels:
    """Read a qrels file, with progress."""
    from ..data.trec import read_qrels

    with progress(f"reading {path}"):
        return read_qrels(path)


def read_ranked(path: Path) -> Run:
    """Read a run file, with progress."""
    from ..data.trec import read_run

    with progress(f"reading {path}"):
        return read_run(path)


def is_run(data: Path, scores: Path) -> bool:
    """Tell whether two files are a qrels file and a run; raise an error if one of them is not."""
    kinds = kind_of(data), kind_of(scores)
    if kinds == ("run", "qrels"):
        raise DataError(
            f"{data}: is a run file, and {scores} is a qrels file. The judgements come first: "
            "linrank evaluate QRELS RUN"
        )
    has_qrels, has_run = kinds[0] == "qrels", kinds[1] == "run"
    if has_qrels != has_run:
        odd, other = (data, scores) if has_qrels else (scores, data)
        kind, missing = ("qrels", "run") if has_qrels else ("run", "qrels")
        raise DataError(
            f"{odd}: is a {kind} file, but {other} is not a {missing} file; expected "
            "linrank evaluate QRELS RUN"
        )
    return has_run


def evaluate_files(
    qrels_file: Path, run_file: Path, metrics: list[Metric], flavour: FlavourName,
    threads: int | None,
) -> tuple[Evaluation, list[tuple[str, str]]]:  # fmt: skip
    """Evaluate a run, and return lines of a report on both files."""
    from ..metrics import evaluate_run

    qrels, run = read_judgements(qrels_file), read_ranked(run_file)
    with progress("evaluating"):
        found = evaluate_run(qrels, run, metrics, flavour=flavour, n_threads=threads)
    lines = [("qrels", qrels_line(qrels_file, qrels)), ("run", run_line(run_file, run, qrels.qid))]
    return found, lines


def qrels_line(path: Path, qrels: Qrels) -> str:
    """Return one line on judgements."""
    queries = count(len(set(qrels.qid)), "query", "queries")
    return f"{path}: {count(len(qrels), 'judgement')}, {queries}"


def run_line(path: Path, run: Run, judged: Iterable[str]) -> str:
    """Return one line on a run, with the numbers of queries that only one side has."""
    judged, ranked = set(judged), set(run.qid)
    missing, unknown = len(judged - ranked), len(ranked - judged)
    queries = count(len(ranked), "query", "queries")
    text = f"{path}: {count(len(run), 'document')}, {queries}, tag {run.tag}"
    if missing:
        text += f"; {count(missing, 'query', 'queries')} not in the run, counted as 0"
    if unknown:
        text += f"; {count(unknown, 'query', 'queries')} without judgements, ignored"
    return text
