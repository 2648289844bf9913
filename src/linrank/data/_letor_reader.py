"""Reading of LETOR text into `RankingData`: two passes, with threads over chunks of lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, repeat
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from .._threads import run
from .._typing import Array, Integers
from ..errors import DataError, FileFormatError, about_file
from . import _letor_kernels as kernels
from ._csr import assemble_csr
from ._diagnosis import diagnose, line_error
from ._letor_kernels import AT, COMMENT, CURSOR_SIZE, ENTRY, MAX_INDEX, QUERY, ROW, Layout, Target
from ._moving import move_pointers, move_rows
from ._source import CHUNK_BYTES, Chunk, Source
from .checks import Grouping, check_weight, group_by_query, holds_missing, most_features
from .ids import Ids, parse_ids
from .keys import query_keys
from .ranking import RankingData
from .text import TextColumn

T = TypeVar("T")
Allocate = Callable[[str, tuple[int, ...], DTypeLike], Array]  #: (name, shape, dtype) -> zeros
Progress = Callable[[float], None]  #: is called with the fraction that is done

_BATCH_CHUNKS = 8  # chunks of a batch per thread; more take more memory, and report less progress
_SCAN_SHARE = 1 / 3  # fraction of the time that the first pass takes

# The largest doubles that stay finite when they are rounded to the dtype of X.
_LARGEST = {
    np.dtype(np.float32): float(np.nextafter(2.0**128 - 2.0**103, 0)),
    np.dtype(np.float64): float(np.finfo(np.float64).max),
}


class ReadOptions(NamedTuple):
    """The checked options of `read_letor`."""

    n_features: int | None
    index_base: int | None
    dtype: np.dtype[Any]
    form: str
    n_threads: int
    allow_missing: bool = False


def allocate_in_memory(name: str, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
    """Return zeros, or raise a `DataError` if there is too little memory."""
    try:
        return np.zeros(shape, dtype)
    except (MemoryError, ValueError):
        size = " × ".join(f"{n:,}" for n in shape)
        raise DataError(
            f"{name} ({size}, {np.dtype(dtype)}) does not fit into memory. Convert the file to a "
            "store with linrank.convert"
        ) from None


def read_source(
    source: Source,
    options: ReadOptions,
    allocate: Allocate = allocate_in_memory,
    progress: Progress | None = None,
    chunk_bytes: int = CHUNK_BYTES,
) -> RankingData:
    """Read a text into arrays that `allocate` provides.

    Beside these arrays, memory holds a few chunks of the text for each thread, some bytes per
    document, and the query ids.
    """
    read = _Pass(source, chunk_bytes, options.n_threads, progress)
    counts, facts = _scan(read)
    totals = counts.sum(axis=0)
    layout = _plan(source, totals, facts, options)
    target = _allocate(allocate, layout, totals, options.dtype)
    grouping = _group(_parse(read, counts, layout, target), len(target.y))
    if layout.n_features == 0:
        raise FileFormatError(f"{source.path}: no document has a feature; {source.expected.lines}")
    if grouping.order is not None:
        target = _make_adjacent(target, layout, grouping.order, allocate)
    with about_file(source.path):
        return _assemble(layout, target, grouping, options.n_threads)


class _Pass(NamedTuple):
    """A pass over all chunks, which runs a function in threads, one batch after another."""

    source: Source
    chunk_bytes: int
    n_threads: int
    progress: Progress | None

    def __call__(
        self, function: Callable[..., T], tasks: Iterator[tuple[Any, ...]], start: float, end: float
    ) -> Iterator[T]:
        """Yield the result of the function for each task; the first item of a task is a chunk."""
        n_bytes = _BATCH_CHUNKS * self.chunk_bytes * self.n_threads
        for batch in _in_batches(tasks, n_bytes, self.n_threads > 1):
            yield from run(function, batch, self.n_threads)
            self.source.release([chunk for chunk, *_ in batch])
            if self.progress is not None:
                self.progress(start + (end - start) * batch[-1][0].done)

    def chunks(self) -> Iterator[Chunk]:
        return self.source.chunks(self.chunk_bytes)


def _in_batches(
    tasks: Iterator[tuple[Any, ...]], n_bytes: int, ahead: bool
) -> Iterator[list[tuple[Any, ...]]]:
    """Yield batches of tasks; a batch ends with the chunk that makes it exceed `n_bytes`.

    If `ahead` is true, the next batch is read while the current one is processed. The size of a
    batch is counted in bytes, because a chunk may be a single long line.
    """

    def make() -> list[tuple[Any, ...]]:
        batch, n_held = [], 0
        for task in tasks:
            batch.append(task)
            n_held += len(task[0].text)
            if n_held >= n_bytes:
                break
        return batch

    if not ahead:
        yield from iter(make, [])
        return
    with ThreadPoolExecutor(1) as maker:
        following = maker.submit(make)
        while batch := following.result():
            following = maker.submit(make)
            yield batch


def _scan(read: _Pass) -> tuple[Integers, Integers]:
    """Pass 1: count the content of each chunk."""
    tasks = ((chunk,) for chunk in read.chunks())
    counts, facts = zip(*read(_scan_chunk, tasks, 0.0, _SCAN_SHARE), strict=True)
    return np.array(counts), np.array(facts)


def _scan_chunk(chunk: Chunk) -> tuple[Integers, Integers]:
    counts, facts = np.zeros(CURSOR_SIZE, np.int64), np.zeros(kernels.N_FACTS, np.int64)
    # The kernels use overflow on purpose. Without the compiler, numpy would warn of it.
    with np.errstate(over="ignore"):
        kernels.scan(chunk.text, chunk.first, chunk.last, counts, facts)
    return counts, facts


def _plan(source: Source, totals: Integers, facts: Integers, options: ReadOptions) -> Layout:
    """Choose the layout of the arrays from the results of pass 1."""
    if totals[ROW] == 0:
        raise FileFormatError(f"{source.path}: the file has no documents; {source.expected.lines}")
    largest, most = int(facts[:, kernels.LARGEST].max()), min(MAX_INDEX, most_features() - 1)
    index_base = options.index_base
    if index_base is None:
        index_base = 0 if facts[:, kernels.SMALLEST].min() == 0 else 1
    n_features = options.n_features
    if n_features is None:
        # If an index is too large, the second pass raises an error that names its line.
        n_features = max(min(largest, most) + 1 - index_base, 0)
    return Layout(
        has_qid=bool(facts[:, kernels.WITH_QID].any()),
        has_cost=bool(facts[:, kernels.WITH_COST].any()),
        has_comments=bool(totals[COMMENT] > 0),
        is_dense=n_features > 0 and largest <= most and _is_dense(totals, n_features, options),
        n_features=n_features,
        n_read=max(largest + 1 - index_base, 0),
        index_base=index_base,
        largest_value=_LARGEST[options.dtype],
        allow_missing=options.allow_missing,
    )


def _is_dense(totals: Integers, n_features: int, options: ReadOptions) -> bool:
    """Choose between dense and CSR.

    A CSR entry takes four more bytes than a dense one, and each use needs an indirect access. CSR
    is chosen if it takes less than half of the memory, because it is then also faster.
    """
    if options.form != "auto":
        return options.form == "dense"
    size = options.dtype.itemsize
    return 2 * int(totals[ENTRY]) * (size + 4) >= int(totals[ROW]) * n_features * size


def _allocate(allocate: Allocate, layout: Layout, totals: Integers, dtype: np.dtype[Any]) -> Target:
    """Allocate the arrays that the second pass fills; arrays that it does not use are empty."""
    n_rows, n_entries, n_bytes = (int(totals[k]) for k in (ROW, ENTRY, COMMENT))
    indptr, indices = np.empty(0, np.int64), np.empty(0, np.int32)
    comments, comments_ptr = np.empty(0, np.uint8), np.empty(0, np.int64)
    if layout.is_dense:
        data = allocate("X", (n_rows, layout.n_features), dtype).reshape(-1)
    else:
        indptr = allocate("X_indptr", (n_rows + 1,), np.int64)
        indices = allocate("X_indices", (n_entries,), np.int32)
        data = allocate("X_data", (n_entries,), dtype)
    if layout.has_comments:
        comments = allocate("comments", (n_bytes,), np.uint8)
        comments_ptr = allocate("comments_ptr", (n_rows + 1,), np.int64)
    return Target(
        y=allocate("y", (n_rows,), np.float64),
        weight=allocate("weight", (n_rows,), np.float64) if layout.has_cost else np.empty(0),
        indptr=indptr,
        indices=indices,
        data=data,
        comments=comments,
        comments_ptr=comments_ptr,
        queries=np.empty((0, 3), np.int64),
        undecided=np.empty((0, 3), np.int64),
    )


class _Runs(NamedTuple):
    """Runs of rows with the same qid: the first row of each, and the number of its qid."""

    rows: list[Integers]
    numbers: list[Integers]
    qids: dict[bytes, int]

    def add(self, source: Source, queries: Integers, qids: list[bytes]) -> None:
        """Add the runs of a chunk, given in the form of `Target.queries`."""
        for qid, at in zip(qids, queries[:, 1].tolist(), strict=True):
            if qid not in self.qids:
                self.qids[_check_qid(source, qid, at)] = len(self.qids)
        self.rows.append(queries[:, 0].copy())
        self.numbers.append(np.array([self.qids[qid] for qid in qids], np.int64))


def _check_qid(source: Source, qid: bytes, at: int) -> bytes:
    try:
        qid.decode()
    except UnicodeDecodeError:
        problem = f"the query id {qid[:60]!r} is not valid UTF-8; expected UTF-8 text"
        raise line_error(source.excerpt(at), at, problem) from None
    return qid


def _parse(read: _Pass, counts: Integers, layout: Layout, target: Target) -> _Runs:
    """Pass 2: fill the arrays, or raise the error of the first bad line."""
    runs, ends = _Runs([], [], {}), counts.cumsum(axis=0)
    # Chunks that did not exist in pass 1 get no place, so that `parse` returns CHANGED.
    starts, nothing = ends - counts, repeat(ends[-1])
    bounds = zip(read.chunks(), chain(starts, nothing), chain(ends, nothing), strict=False)
    tasks = ((*bound, layout, target) for bound in bounds)
    for code, at, queries, qids in read(_parse_chunk, tasks, _SCAN_SHARE, 1.0):
        if code != kernels.DONE:
            raise diagnose(read.source.excerpt(at), code, at, layout)
        runs.add(read.source, queries, qids)
    if len(runs.rows) < len(counts) or read.source.has_changed:
        raise diagnose(read.source.excerpt(0), kernels.CHANGED, 0, layout)
    return runs


def _parse_chunk(
    chunk: Chunk,
    start: Integers,
    end: Integers,
    layout: Layout,
    target: Target,
) -> tuple[int, int, Integers, list[bytes]]:
    """Fill the rows of one chunk.

    Returns the outcome, the byte of the text where parsing stopped, the runs of equal qids in the
    form of `Target.queries`, and the qids of these runs.
    """
    start, end = start.copy(), end.copy()
    start[AT], end[AT] = chunk.first, chunk.last
    queries = np.empty((end[ROW] - start[ROW] if layout.has_qid else 0, 3), np.int64)
    code, cursor, room = kernels.FULL, start.copy(), 64
    while code == kernels.FULL:
        undecided, room = np.zeros((room, 3), np.int64), 2 * room
        own = target._replace(queries=queries, undecided=undecided)
        with np.errstate(over="ignore"):  # See _scan_chunk.
            code, at = kernels.parse(chunk.text, cursor, start, end, layout, own)
        too_large = _decide(chunk, undecided[1 : 1 + undecided[0, 0]], layout, target)
        if too_large is not None:
            code, at = kernels.TOO_LARGE, too_large
    if code == kernels.DONE and cursor[ROW] != end[ROW]:
        code = kernels.CHANGED
    queries, prefix = queries[: cursor[QUERY]], len("qid:")
    places = [slice(first + prefix, first + size) for _, first, size in queries.tolist()]
    qids = [chunk.text[place].tobytes() for place in places]
    queries[:, 1] += chunk.shift
    return code, int(at) + chunk.shift, queries, qids


def _decide(chunk: Chunk, undecided: Integers, layout: Layout, target: Target) -> int | None:
    """Parse the numbers that the kernel left to Python; return the byte of one too large."""
    for place, first, last in undecided.tolist():
        value = float(chunk.text[first:last].tobytes())
        largest = layout.largest_value if place >= 0 else _LARGEST[np.dtype(np.float64)]
        row = -1 - place
        if abs(value) > largest:
            while first > chunk.first and chunk.text[first - 1] > ord(" "):
                first -= 1  # Go back to the start of the index.
            return int(first)
        if place >= 0:
            target.data[place] = value
        elif row < len(target.y):
            target.y[row] = value
        else:
            target.weight[row - len(target.y)] = value
    return None


def _group(runs: _Runs, n_rows: int) -> Grouping:
    """Group rows by query, given the runs of rows with the same qid; see `group_by_query`."""
    if not runs.qids:
        return group_by_query(None, n_rows)
    ends = np.append(np.concatenate(runs.rows), n_rows)
    codes = np.repeat(np.concatenate(runs.numbers), ends[1:] - ends[:-1])
    return group_by_query(Ids(parse_ids([qid.decode() for qid in runs.qids]), codes), n_rows)


def _make_adjacent(target: Target, layout: Layout, order: Integers, allocate: Allocate) -> Target:
    """Copy the rows into new arrays in which the rows of each query are adjacent."""

    def moved(name: str, array: Array, ptr: Integers, *shape: int) -> Array:
        new = allocate(name, shape or array.shape, array.dtype)
        return move_rows(array, ptr, order, new.reshape(-1))

    indptr, comments_ptr = target.indptr, target.comments_ptr
    parts: dict[str, Any] = {"y": target.y[order]}
    if layout.has_cost:
        parts["weight"] = target.weight[order]
    if layout.is_dense:
        n_rows, n_features = len(order), layout.n_features
        rows = n_features * np.arange(n_rows + 1)
        parts["data"] = moved("X", target.data, rows, n_rows, n_features)
    else:
        parts["indptr"] = move_pointers(indptr, order)
        parts["indices"] = moved("X_indices", target.indices, indptr)
        parts["data"] = moved("X_data", target.data, indptr)
    if layout.has_comments:
        parts["comments_ptr"] = move_pointers(comments_ptr, order)
        parts["comments"] = moved("comments", target.comments, comments_ptr)
    return target._replace(**parts)


def _assemble(layout: Layout, target: Target, grouping: Grouping, n_threads: int) -> RankingData:
    """Return the filled arrays as `RankingData`."""
    if layout.is_dense:
        X = target.data.reshape(-1, layout.n_features)
    else:
        X = assemble_csr(target.indptr, target.indices, target.data, layout.n_features)
    has_missing = layout.allow_missing and holds_missing(X)
    comments = TextColumn(target.comments, target.comments_ptr) if layout.has_comments else None
    weight = target.weight if layout.has_cost else None
    return RankingData.from_parts(
        X=X,
        y=target.y,
        query_ptr=grouping.query_ptr,
        query_ids=grouping.query_ids,
        order=grouping.order,
        comments=comments,
        index_base=layout.index_base,
        n_read=layout.n_read,
        weight=check_weight(weight, len(target.y), "cost"),
        has_missing=has_missing,
        query_keys=query_keys(X, grouping.query_ptr, n_threads, has_missing),
    )
