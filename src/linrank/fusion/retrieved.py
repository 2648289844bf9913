"""`Retrieved`: what several retrievers returned for the same queries, with judgements."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .._util.lazy import lazy_property
from .._util.parallel import resolve_threads, run
from .._util.text import count
from .._util.types import Integers, Vector
from ..data.formats import load
from ..data.ids import join_strings
from ..data.trec import QRELS, RUN, Qrels, Run, look_up, looks_like_run, number_words
from ..data.word_table import WordTable, number_columns, read_word_table
from ..errors import DataError
from ..metrics.evaluation import Evaluation, evaluate_ranking, parse_metrics
from ..metrics.ranked_lists import Ranking, resolve_rules
from .normalizers import ranks_of

StrPath: TypeAlias = str | os.PathLike[str]
DEPTH = 1000  #: documents of a fused ranking that are kept, as usual in TREC runs
_LARGEST_SINGLE = float(np.finfo(np.float32).max)


class ListedDocs(NamedTuple):
    """The lines of a run or of judgements, with numbers for queries and documents."""

    name: str
    query: Integers
    doc: Integers
    values: Vector  #: scores or labels


@dataclass(frozen=True, eq=False)
class Retrieved:
    """Scores of several retrievers for the same queries, with judgements.

    Attributes
    ----------
    names : list of str
        The retrievers.
    scores : float64 array of shape (n_docs, n_retrievers)
        NaN for documents that a retriever did not return. Documents of a query are sorted by
        descending id, by which trec_eval breaks ties.
    y : float64 array of shape (n_docs,)
        The labels; 0 for documents that were not judged.
    query_ptr : int64 array of shape (n_queries + 1,)
    query_ids, doc_ids : arrays of bytes
    missed : list of arrays
        For each query, the labels of judged documents that no retriever returned.
    notes : list of str
        Sentences on the input.

    Examples
    --------
    >>> from linrank import Qrels, Run
    >>> a = Run(["1", "1"], ["A", "B"], [2.0, 1.0], tag="a")
    >>> b = Run(["1", "1"], ["B", "C"], [7.0, 6.0], tag="b")
    >>> found = gather([a, b], Qrels(["1"], ["B"], [1]))
    >>> found.names, found.scores.tolist(), found.y.tolist()
    (['a', 'b'], [[nan, 6.0], [1.0, 7.0], [2.0, nan]], [0.0, 1.0, 0.0])
    """

    names: list[str]
    scores: Vector
    y: Vector
    query_ptr: Integers
    query_ids: NDArray[np.bytes_]
    doc_ids: NDArray[np.bytes_]
    missed: list[Vector]
    notes: list[str] = field(default_factory=list)

    @property
    def n_queries(self) -> int:
        """The number of judged queries."""
        return len(self.query_ids)

    @lazy_property
    def ranks(self) -> Integers:
        """The rank of each document in each list, from 1; 0 if it was not returned."""
        return ranks_of(self.scores, self.query_ptr)

    def measure(
        self, scores: Vector, metrics: Sequence[str], depth: int | None = DEPTH,
        n_threads: int | None = None,
    ) -> Evaluation:  # fmt: skip
        """Compute metrics of scores as trec_eval does, with `evaluate_run`'s conventions.

        Parameters
        ----------
        scores : float64 array of shape (n_docs,)
            −∞ or NaN for documents that are not in the ranking.
        metrics : sequence of str
        depth : int, optional
            The number of documents of a query that are in the ranking; None: all.
        n_threads : int, optional
        """
        wanted, rules = parse_metrics(metrics), resolve_rules("trec", doc_ids=())
        single = np.clip(scores, -_LARGEST_SINGLE, _LARGEST_SINGLE).astype(np.float32)
        listed = np.isfinite(scores)
        n_listed = np.add.reduceat(listed, self.query_ptr[:-1], dtype=np.int64)
        values = np.where(listed, single, -np.inf)
        y, values, query_ptr = self._with_missed(values)
        if depth is not None:
            n_listed = np.minimum(n_listed, depth)
        ranking = Ranking(y, values, query_ptr, rules.ties, n_threads, n_listed)
        return evaluate_ranking(ranking, wanted, rules, "trec", self.names_of_queries)

    @lazy_property
    def names_of_queries(self) -> NDArray[np.str_]:
        """The query ids as text."""
        return join_strings([text.decode() for text in self.query_ids.tolist()])

    def _with_missed(self, values: Vector) -> tuple[Vector, Vector, Integers]:
        """Return labels, scores and queries with the judged documents that were not returned."""
        n_missed = [len(labels) for labels in self.missed]
        at = np.repeat(self.query_ptr[1:], n_missed)
        query_ptr = self.query_ptr + np.concatenate([[0], np.cumsum(n_missed)])
        missed = np.concatenate([*self.missed, np.empty(0)])
        return np.insert(self.y, at, missed), np.insert(values, at, -np.inf), query_ptr

    def run_of(self, scores: Vector, tag: str, depth: int | None = DEPTH) -> Run:
        """Return the best documents of each query as a run."""
        query = np.repeat(np.arange(self.n_queries), np.diff(self.query_ptr))
        order = np.lexsort((-scores, query))
        place = np.arange(len(order)) - self.query_ptr[query[order]]
        rows = order[
            np.isfinite(scores[order]) & (place < (len(order) if depth is None else depth))
        ]
        qids = self.names_of_queries.tolist()
        docs = [text.decode() for text in self.doc_ids[rows].tolist()]
        return Run([qids[q] for q in query[rows].tolist()], docs, scores[rows], tag)


def read_retrieved(
    runs: Mapping[str, StrPath] | Sequence[StrPath], qrels: StrPath | Qrels
) -> Retrieved:
    r"""Read runs of several retrievers, and judgements of their queries.

    Parameters
    ----------
    runs : dict of str to path-like, or sequence of path-like
        Files in the format of TREC, or Parquet, Arrow or CSV files with the columns qid, doc_id
        and score. A sequence names retrievers by their files. A single table with several columns
        of numbers has a column per retriever.
    qrels : path-like or Qrels

    Returns
    -------
    Retrieved

    Examples
    --------
    >>> import tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.run").write_text("1 Q0 A 1 2.0 x\n1 Q0 B 2 1.0 x\n")
    >>> _ = (folder / "b.run").write_text("1 Q0 B 1 9.0 x\n")
    >>> _ = (folder / "qrels").write_text("1 0 B 1\n")
    >>> read_retrieved([folder / "a.run", folder / "b.run"], folder / "qrels").names
    ['a', 'b']
    """
    named = runs if isinstance(runs, Mapping) else _names_of(runs)
    if all(looks_like_run(Path(path)) for path in named.values()) and not isinstance(qrels, Qrels):
        return _from_files(named, qrels)
    from ..data.trec import read_qrels

    lists = [found for name, path in named.items() for found in read_runs(name, Path(path))]
    return gather(lists, qrels if isinstance(qrels, Qrels) else read_qrels(qrels))


def gather(runs: Sequence[Run], qrels: Qrels) -> Retrieved:
    """Join runs and judgements; the tags of the runs name the retrievers.

    Parameters
    ----------
    runs : sequence of Run
    qrels : Qrels

    Returns
    -------
    Retrieved

    Examples
    --------
    >>> from linrank import Qrels, Run
    >>> runs = [Run(["1"], ["A"], [2.0], tag=tag) for tag in ("bm25", "dense")]
    >>> gather(runs, Qrels(["1"], ["A"], [1])).names
    ['bm25', 'dense']
    """
    given: list[Run | Qrels] = [*runs, qrels]
    queries = number_words(qid for one in given for qid in one.qid)
    docs = number_words(doc for one in given for doc in one.doc_ids)
    values = [*(one.scores for one in runs), qrels.y]
    names = [*(one.tag for one in runs), "qrels"]
    lines = [
        ListedDocs(name, look_up(one.qid, queries), look_up(one.doc_ids, docs), numbers)
        for name, one, numbers in zip(names, given, values, strict=True)
    ]
    return _joined(lines[:-1], lines[-1], _encoded(queries), _encoded(docs))


def _encoded(words: Mapping[str, int]) -> NDArray[np.bytes_]:
    return np.array([word.encode() for word in words], np.bytes_)


def _names_of(paths: Sequence[StrPath]) -> dict[str, StrPath]:
    """Return names for files: their stems, or their paths where these are not unique."""
    stems = [Path(path).name.split(".")[0] for path in paths]
    unique = len(set(stems)) == len(stems)
    return dict(zip(stems if unique else map(str, paths), paths, strict=True))


def _from_files(named: Mapping[str, StrPath], qrels: StrPath) -> Retrieved:
    files = [*((path, 6, RUN) for path in named.values()), (qrels, 4, QRELS)]
    tables = run(read_word_table, files, resolve_threads())
    queries = number_columns([(table, 0) for table in tables])
    docs = number_columns([(table, 2) for table in tables])
    values = [table.numbers(4, "the score") for table in tables[:-1]]
    values.append(tables[-1].numbers(3, "the label"))
    names = [*named, "qrels"]
    lines = [ListedDocs(*one) for one in zip(names, queries.codes, docs.codes, values, strict=True)]
    for table, one in zip(tables, lines, strict=True):
        _check_once(table, one)
    ranked = [_by_rank(table, one) for table, one in zip(tables[:-1], lines[:-1], strict=True)]
    notes = [
        f"{one.name} has one score for all documents; its ranks are used instead"
        for old, one in zip(lines, ranked, strict=False)
        if one is not old
    ]
    return _joined(ranked, lines[-1], queries.names, docs.names, notes)


def _check_once(table: WordTable, lines: ListedDocs) -> None:
    """Raise an error for the first line whose query and document are on an earlier line."""
    keys = lines.query * (lines.doc.max() + 1) + lines.doc
    order = np.argsort(keys, kind="stable")
    same = np.flatnonzero(np.diff(keys[order]) == 0)
    if len(same):
        row, first = order[same + 1].min(), 0
        first = int(np.flatnonzero(keys == keys[row])[0])
        raise table.error(
            row,
            f"document {table.word(row, 2)!r} of query {table.word(row, 0)!r} is also on line "
            f"{table.lines[first]}; expected each document once per query",
        )


def _by_rank(table: WordTable, lines: ListedDocs) -> ListedDocs:
    """Replace scores that are all equal by falling ranks, from the fourth column of a run."""
    if len(lines.values) < 2 or np.ptp(lines.values) > 0:
        return lines
    ranks = table.numbers(3, "the rank")
    return lines._replace(values=ranks.max() - ranks)


def read_runs(name: str, path: Path) -> list[Run]:
    """Read a run, or a table with a column of scores per retriever."""
    if looks_like_run(path):
        from ..data.trec import read_run

        found = read_run(path)
        return [Run(found.qid, found.doc_ids, found.scores, name)]
    data = load(path, needs_label=False, doc_id="doc_id", allow_missing=True)
    doc_ids, qid = data.doc_ids or [], data.qid.tolist()
    columns = np.asarray(data.X.toarray() if data.is_sparse else data.X, np.float64).T
    runs = []
    for column, title in zip(columns, data.feature_names or [name], strict=True):
        rows = np.flatnonzero(~np.isnan(column)).tolist()
        tag = name if len(columns) == 1 else title
        runs.append(Run([qid[k] for k in rows], [doc_ids[k] for k in rows], column[rows], tag))
    return runs


def _joined(
    runs: Sequence[ListedDocs], judged: ListedDocs, query_names: NDArray[np.bytes_],
    doc_names: NDArray[np.bytes_], notes: Sequence[str] = (),
) -> Retrieved:  # fmt: skip
    """Join lines to rows: one for each judged query and each document that was returned."""
    _check_names(runs)
    is_judged = np.zeros(len(query_names), np.bool_)
    is_judged[judged.query] = True
    is_run = np.zeros(len(query_names), np.bool_)
    for one in runs:
        is_run[one.query] = True
    both = np.flatnonzero(is_judged & is_run)
    if not len(both):
        raise DataError(
            f"no query of the runs is judged: the first is {_text(query_names, runs[0].query[0])}, "
            f"and the qrels begin with {_text(query_names, judged.query[0])}. Use judgements of "
            "the same queries"
        )
    number = np.full(len(query_names), -1)
    number[both[np.argsort(query_names[both])]] = np.arange(len(both))
    falling = np.empty(len(doc_names), np.int64)  # the place of an id in descending order
    falling[np.argsort(doc_names)[::-1]] = np.arange(len(doc_names))
    keys = [number[one.query] * len(doc_names) + falling[one.doc] for one in (*runs, judged)]
    used = [number[one.query] >= 0 for one in (*runs, judged)]
    rows, where = np.unique(
        np.concatenate([key[use] for key, use in zip(keys[:-1], used, strict=False)]),
        return_inverse=True,
    )
    scores, at = np.full((len(rows), len(runs)), np.nan), 0
    for r, (one, use) in enumerate(zip(runs, used, strict=False)):
        n = int(use.sum())
        scores[where[at : at + n], r] = one.values[use]
        at += n
    place = np.minimum(np.searchsorted(rows, keys[-1]), len(rows) - 1)
    hit = (rows[place] == keys[-1]) & used[-1]
    y = np.zeros(len(rows))
    y[place[hit]] = judged.values[hit]
    query = rows // len(doc_names)
    gone = used[-1] & ~hit
    by_query = np.argsort(number[judged.query[gone]], kind="stable")
    missed = np.split(
        judged.values[gone][by_query],
        np.cumsum(np.bincount(number[judged.query[gone]], minlength=len(both)))[:-1],
    )
    return Retrieved(
        [one.name for one in runs], scores, y,
        np.searchsorted(query, np.arange(len(both) + 1)), np.sort(query_names[both]),
        np.sort(doc_names)[::-1][rows % len(doc_names)], missed,
        [*notes, *_notes(runs, scores, int((is_run & ~is_judged).sum()),
                         int((is_judged & ~is_run).sum()))],
    )  # fmt: skip


def _text(names: NDArray[np.bytes_], code: int) -> str:
    return repr(names[code].decode(errors="replace"))


def _check_names(runs: Sequence[ListedDocs]) -> None:
    names = [one.name for one in runs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"two retrievers are named {twice!r}. Give each a name of its own")
    if len(names) < 2:
        raise DataError("there is one retriever; fusion needs at least two runs")


def _notes(
    runs: Sequence[ListedDocs], scores: Vector, n_unjudged: int, n_unretrieved: int
) -> list[str]:
    """Return sentences on queries that are left out, and on retrievers that add nothing."""
    notes = []
    if n_unjudged:
        notes.append(f"{count(n_unjudged, 'query', 'queries')} without judgements: left out")
    if n_unretrieved:
        what = count(n_unretrieved, "judged query", "judged queries")
        notes.append(f"{what} without documents in any run: left out")
    for one in runs:
        if len(one.values) > 1 and np.ptp(one.values) == 0:
            notes.append(f"{one.name} has the same score everywhere, so it cannot rank")
        elif len(one.values) and one.values.min() < 0:
            notes.append(
                f"{one.name} has negative scores, which the normalisers none and l2 count as worse "
                "than documents that it did not return"
            )
    seen: dict[tuple[int, float], int] = {}
    for r, (one, column) in enumerate(zip(runs, scores.T, strict=True)):
        other = seen.setdefault((len(one.values), float(np.nansum(column))), r)
        if other != r and np.array_equal(column, scores[:, other], equal_nan=True):
            notes.append(f"{one.name} and {runs[other].name} are the same run; use one of them")
    return notes
