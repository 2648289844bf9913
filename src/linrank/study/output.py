"""Files of the results of a study: the report, tables, pictures, per-query values and TREC runs."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

import numpy as np

from .._draw import has_matplotlib
from .._files import atomic_write, write_error
from .._text import printable
from ..data.trec import Qrels, Run, write_qrels, write_run
from ..report.page import write_page
from ..report.plots import new_figure, write_figure
from ..report.table import Table
from .analysis import Analysis
from .content import study_parts, walk
from .drawings import Drawing
from .naming import safe_names
from .page import study_page
from .results import StudyResults
from .store import TestPart

StrPath = str | os.PathLike[str]
PER_QUERY = "per_query.csv"
READ_ME = "README.txt"


def write_report(
    path: StrPath, results: StudyResults, command: str = "", *, baseline: str | None = None
) -> None:
    """Write the report of a study: one HTML file that needs no network.

    Parameters
    ----------
    path : path-like
        The file, which is replaced when the new one is complete.
    results : StudyResults
    command : str
        The command that repeats the study.
    baseline : str, optional
        The method with which all others are compared. None: the best method of each data set.
    """
    write_page(path, study_page(results, command, baseline))


def write_tables(folder: StrPath, results: StudyResults, *, baseline: str | None = None) -> None:
    """Write the tables and pictures of a study, and the metrics of each query, to a folder.

    A table is written as text (.txt), CSV (.csv), LaTeX (.tex) and JSON (.json), and a picture as
    .svg and .pdf. Pictures are left out if matplotlib is not installed. ``per_query.csv`` has a
    row for each query and method.

    Parameters
    ----------
    folder : path-like
        The folder, which is made if it does not exist. Files of the same names are replaced.
    results, baseline
        As in `write_report`.
    """
    place = _folder(folder)
    parts = study_parts(Analysis(results, baseline))
    for content in walk(content for part in parts for content in part.contents):
        if isinstance(content, Table):
            _write_table(place, content)
        elif isinstance(content, Drawing) and has_matplotlib():
            _write_drawing(place, content)
    with atomic_write(place / PER_QUERY, "w") as file:
        _write_queries(file, results)


def _write_table(folder: Path, table: Table) -> None:
    forms = {
        ".txt": f"{table.to_text()}\n",
        ".csv": table.to_csv(),
        ".tex": table.to_latex(),
        ".json": f"{table.to_json()}\n",
    }
    for suffix, text in forms.items():
        with atomic_write(folder / f"{table.key}{suffix}", "w") as file:
            file.write(text)


def _write_drawing(folder: Path, drawing: Drawing) -> None:
    with new_figure(drawing.height) as figure:
        drawing.draw(figure)
        for suffix in (".svg", ".pdf"):
            write_figure(figure, folder / f"picture-{drawing.key}{suffix}")


def _write_queries(file: IO[str], results: StudyResults) -> None:
    """Write the metrics of each query and method as CSV; undefined values are empty."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["data", "fold", "query", "method", *results.metrics])
    for (data, fold), test in results.tests.items():
        for method in results.methods:
            if (data, fold, method) not in results.found:
                continue
            columns = [
                results.fold_values(data, fold, method, metric) for metric in results.metrics
            ]
            for q, values in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
                texts = map(printable, (data, fold, test.query_ids[q], method))
                writer.writerow([*texts, *("" if v != v else repr(v) for v in values)])


def write_runs(folder: StrPath, results: StudyResults) -> None:
    """Write the judgements and the rankings of the test parts as files of TREC.

    The file ``DATA/FOLD/qrels.txt`` has the labels of a test part, and ``DATA/FOLD/METHOD.run`` the
    scores of a method. Names in paths have lower-case letters, digits and hyphens; ``README.txt``
    lists them. If the documents of a data set have no ids, they are numbered within their
    query from 1 on. Queries whose ids have blanks are numbered from 1 on.

    Parameters
    ----------
    folder : path-like
        The folder, which is made if it does not exist. Files of the same names are replaced.
    results : StudyResults
    """
    place = _folder(folder)
    data_names, method_names = safe_names(results.data_sets), safe_names(results.methods)
    lines = []
    for data in results.data_sets:
        fold_names = safe_names(results.folds(data))
        for fold in results.folds(data):
            inner = Path(data_names[data], fold_names[fold])
            lines += [f"{inner.as_posix()}: {fold} of {data}"]
            _folder(place / inner)
            lines += _write_fold(place / inner, results, data, fold, method_names)
    lines += [f"{name}.run: {method}" for method, name in method_names.items()]
    with atomic_write(place / READ_ME, "w") as file:
        file.writelines(f"{printable(line)}\n" for line in lines)


def _write_fold(
    folder: Path, results: StudyResults, data: str, fold: str, names: dict[str, str]
) -> Iterator[str]:
    """Write the files of one fold, and yield sentences about numbered queries and documents."""
    test = results.tests[data, fold]
    queries, doc_ids = _ids(test)
    if queries != test.query_ids:
        yield "  The queries are numbered from 1 on, because their ids have blanks."
    if doc_ids != test.doc_ids:
        yield "  The documents of each query are numbered from 1 on, because they have no ids."
    qid = np.repeat(np.array(queries, dtype=object), np.diff(test.query_ptr)).tolist()
    write_qrels(folder / "qrels.txt", Qrels(qid, doc_ids, test.y))
    for method, name in names.items():
        found = results.found.get((data, fold, method))
        if found is not None:
            scores = found.outcome.scores
            rows = np.flatnonzero(~np.isnan(scores))  # a run of another tool may lack documents
            run = Run([qid[k] for k in rows], [doc_ids[k] for k in rows], scores[rows], name)
            write_run(folder / f"{name}.run", run)


def _ids(test: TestPart) -> tuple[list[str], list[str]]:
    """Return ids of queries and documents that TREC files can have."""
    queries = test.query_ids
    if not _are_words(queries):
        queries = [str(q) for q in range(1, len(queries) + 1)]
    doc_ids = test.doc_ids
    if doc_ids is None or not _are_words(doc_ids):
        sizes = np.diff(test.query_ptr).tolist()
        doc_ids = [f"{q}-{k}" for q, n in zip(queries, sizes, strict=True) for k in range(1, n + 1)]
    return queries, doc_ids


def _are_words(ids: Sequence[str]) -> bool:
    return all(text.split() == [text] for text in ids)


def _folder(path: StrPath) -> Path:
    """Make a folder if it does not exist."""
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise write_error(path, error) from None
    return Path(path)
