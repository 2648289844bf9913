"""From LETOR text to `RankingData`: two passes, threads over chunks of lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from .._threads import run
from ..errors import DataError, FileFormatError
from . import _letor_kernels as kernels
from ._csr import assemble_csr
from ._diagnosis import diagnose, line_error
from ._letor_kernels import AT, COMMENT, CURSOR_SIZE, ENTRY, MAX_INDEX, QUERY, ROW, Layout, Target
from ._source import EXAMPLE, Chunk, Source
from .checks import group_by_query, take_rows
from .ranking import RankingData, query_keys
from .text import TextColumn

T = TypeVar("T")
Allocate = Callable[[str, tuple[int, ...], Any], NDArray[Any]]  #: name, shape, dtype -> zeros
Progress = Callable[[float], None]  #: takes the fraction that is done

CHUNK_BYTES = 1 << 21
_CHUNKS_PER_THREAD = 8  # in a batch; behind each batch progress is told and memory given back
_SCAN_SHARE = 1 / 3  # of the time

# The largest doubles that do not become infinite when they are rounded to the type of X.
_LARGEST = {
    np.dtype(np.float32): float(np.nextafter(2.0**128 - 2.0**103, 0)),
    np.dtype(np.float64): float(np.finfo(np.float64).max),
}
_INTEGER = re.compile(rb"[+-]?[0-9]{1,19}")


class ReadOptions(NamedTuple):
    """How a text is to be read; `read_letor` describes them."""

    n_features: int | None
    index_base: int | None
    dtype: np.dtype[Any]
    form: str
    n_threads: int


def allocate_in_memory(name: str, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """Zeros in memory, or a sentence where there is not enough of it."""
    try:
        return np.zeros(shape, dtype)
    except (MemoryError, ValueError):
        size = " × ".join(f"{n:,}" for n in shape)
        raise DataError(f"{name} ({size}, {np.dtype(dtype)}) does not fit into memory") from None


def read_source(
    source: Source,
    options: ReadOptions,
    allocate: Allocate = allocate_in_memory,
    progress: Progress | None = None,
    chunk_bytes: int = CHUNK_BYTES,
) -> RankingData:
    """Read a text into arrays that `allocate` provides."""
    chunks = source.chunks(chunk_bytes)
    batches = _Batches(source, chunks, options.n_threads, progress)
    counts, facts = _scan(chunks, batches)
    layout = _plan(source, counts.sum(axis=0), facts, options)
    target = _allocate(allocate, layout, counts.sum(axis=0), options.dtype)
    queries = _parse(source, chunks, batches, counts, layout, target)
    if layout.n_features == 0:
        raise FileFormatError(f"{source.path}: no document has a feature; {EXAMPLE}")
    return _assemble(source, layout, target, queries, options.n_threads)


class _Batches(NamedTuple):
    """Runs a function over all chunks in threads, a batch at a time."""

    source: Source
    chunks: list[Chunk]
    n_threads: int
    progress: Progress | None

    def __call__(
        self, function: Callable[..., T], tasks: Sequence[tuple[Any, ...]], start: float, end: float
    ) -> Iterator[T]:
        size = _CHUNKS_PER_THREAD * self.n_threads
        for k in range(0, len(tasks), size):
            yield from run(function, tasks[k : k + size], self.n_threads)
            first, last = self.chunks[k : k + size][0], self.chunks[k : k + size][-1]
            self.source.release(first.first + first.shift, last.last + last.shift)
            if self.progress is not None:
                self.progress(start + (end - start) * min((k + size) / len(tasks), 1.0))


def _scan(chunks: list[Chunk], batches: _Batches) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pass 1: find out what each chunk holds."""
    counts = np.zeros((len(chunks), CURSOR_SIZE), np.int64)
    facts = np.zeros((len(chunks), kernels.N_FACTS), np.int64)
    tasks = [(chunk, *results) for chunk, *results in zip(chunks, counts, facts, strict=True)]
    list(batches(_scan_chunk, tasks, 0.0, _SCAN_SHARE))
    return counts, facts


def _scan_chunk(chunk: Chunk, counts: NDArray[np.int64], facts: NDArray[np.int64]) -> None:
    with np.errstate(over="ignore"):  # wanted in the kernels' bit tricks; seen without JIT only
        kernels.scan(chunk.text, chunk.first, chunk.last, counts, facts)


def _plan(
    source: Source, totals: NDArray[np.int64], facts: NDArray[np.int64], options: ReadOptions
) -> Layout:
    """Settle what the arrays will look like."""
    if totals[ROW] == 0:
        raise FileFormatError(f"{source.path}: there is no document; {EXAMPLE}")
    largest = int(facts[:, kernels.LARGEST].max())
    index_base = options.index_base
    if index_base is None:
        index_base = 0 if facts[:, kernels.SMALLEST].min() == 0 else 1
    n_features = options.n_features
    if n_features is None:
        n_features = max(min(largest, MAX_INDEX) + 1 - index_base, 0)
    return Layout(
        has_qid=bool(facts[:, kernels.WITH_QID].any()),
        has_comments=bool(totals[COMMENT] > 0),
        is_dense=n_features > 0 and largest <= MAX_INDEX and _is_dense(totals, n_features, options),
        n_features=n_features,
        index_base=index_base,
        largest_value=_LARGEST[options.dtype],
    )


def _is_dense(totals: NDArray[np.int64], n_features: int, options: ReadOptions) -> bool:
    """Choose between dense and CSR.

    CSR spends four more bytes on an entry, and an indirect access whenever it is used.
    It is chosen where it takes less than half the memory: there it is faster as well.
    """
    if options.form != "auto":
        return options.form == "dense"
    size = options.dtype.itemsize
    return bool(2 * totals[ENTRY] * (size + 4) >= totals[ROW] * n_features * size)


def _allocate(
    allocate: Allocate, layout: Layout, totals: NDArray[np.int64], dtype: np.dtype[Any]
) -> Target:
    """Provide the arrays that the second pass fills; those that it does not use are empty."""
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
        indptr=indptr,
        indices=indices,
        data=data,
        comments=comments,
        comments_ptr=comments_ptr,
        # Room for a new query in every row; what is not used never becomes real memory.
        queries=np.empty((n_rows if layout.has_qid else 0, 3), np.int64),
        undecided=np.empty((0, 3), np.int64),
    )


def _parse(
    source: Source,
    chunks: list[Chunk],
    batches: _Batches,
    counts: NDArray[np.int64],
    layout: Layout,
    target: Target,
) -> NDArray[np.int64]:
    """Pass 2: fill the arrays, or raise the error of the first bad line.

    Returns the first row, first byte and length of each run of equal qids.
    """
    ends = counts.cumsum(axis=0)
    starts = ends - counts
    tasks = []
    for chunk, start, end in zip(chunks, starts, ends, strict=True):
        start[AT], end[AT], start[QUERY] = chunk.first, chunk.last, start[ROW]
        tasks.append((chunk, start, end, layout, target))
    queries = []
    for code, at, found in batches(_parse_chunk, tasks, _SCAN_SHARE, 1.0):
        if code != kernels.DONE:
            raise diagnose(source, code, at, layout)
        queries.append(found)
    return np.concatenate(queries)


def _parse_chunk(
    chunk: Chunk,
    start: NDArray[np.int64],
    end: NDArray[np.int64],
    layout: Layout,
    target: Target,
) -> tuple[int, int, NDArray[np.int64]]:
    """Fill the rows of one chunk; returns the outcome, at which byte of the file, and queries."""
    code, cursor, room = kernels.FULL, start.copy(), 64
    while code == kernels.FULL:
        undecided, room = np.zeros((room, 3), np.int64), 2 * room
        with np.errstate(over="ignore"):  # as in _scan_chunk
            code, at = kernels.parse(
                chunk.text, cursor, start, end, layout, target._replace(undecided=undecided)
            )
        too_large = _decide(chunk, undecided[1 : 1 + undecided[0, 0]], layout, target)
        if too_large is not None:
            code, at = kernels.TOO_LARGE, too_large
    if code == kernels.DONE and cursor[ROW] != end[ROW]:
        code = kernels.CHANGED
    queries = target.queries[start[QUERY] : cursor[QUERY]].copy()
    queries[:, 1] += chunk.shift
    return code, int(at) + chunk.shift, queries


def _decide(
    chunk: Chunk, undecided: NDArray[np.int64], layout: Layout, target: Target
) -> int | None:
    """Let Python read the numbers that the kernel left; returns where one is too large."""
    for place, first, last in undecided.tolist():
        value = float(chunk.text[first:last].tobytes())
        largest = layout.largest_value if place >= 0 else _LARGEST[np.dtype(np.float64)]
        if abs(value) > largest:
            while first > chunk.first and chunk.text[first - 1] > ord(" "):
                first -= 1  # back to where the index begins
            return int(first)
        if place >= 0:
            target.data[place] = value
        else:
            target.y[-1 - place] = value
    return None


def _assemble(
    source: Source, layout: Layout, target: Target, queries: NDArray[np.int64], n_threads: int
) -> RankingData:
    """Make the data of the filled arrays, moving rows only if queries are torn apart."""
    y, comments = target.y, None
    query_ptr, query_ids, order = _group(source, queries, len(y))
    if layout.is_dense:
        X = target.data.reshape(-1, layout.n_features)
    else:
        X = assemble_csr(target.indptr, target.indices, target.data, layout.n_features)
    if layout.has_comments:
        comments = TextColumn(target.comments, target.comments_ptr)
    if order is not None:
        X, y = take_rows(X, order), y[order]
        comments = None if comments is None else comments.take(order)
    return RankingData.from_parts(
        X=X,
        y=y,
        query_ptr=query_ptr,
        query_ids=query_ids,
        order=order,
        comments=comments,
        index_base=layout.index_base,
        query_keys=query_keys(X, query_ptr, n_threads),
    )


def _group(
    source: Source, queries: NDArray[np.int64], n_rows: int
) -> tuple[NDArray[np.int64], NDArray[Any], NDArray[np.int64] | None]:
    """Find the rows of each query from the runs of rows with the same qid."""
    if not len(queries):
        return group_by_query(None, n_rows)
    distinct, codes = np.unique(_query_ids(source, queries), return_inverse=True)
    source.release(0, source.size)
    sizes = np.diff(queries[:, 0], append=n_rows)
    query_ptr, firsts, order = group_by_query(np.repeat(codes, sizes), n_rows)
    return query_ptr, distinct[firsts], order


def _query_ids(source: Source, queries: NDArray[np.int64]) -> NDArray[Any]:
    """The id of each run."""
    prefix = len("qid:")
    places = [slice(at + prefix, at + size) for _, at, size in queries.tolist()]
    try:
        return parse_query_ids([source[place] for place in places])
    except UnicodeDecodeError as error:
        place = next(place for place in places if source[place] == error.object)
        raise line_error(
            source, place.start, f"the query id {error.object!r} is not UTF-8; expected it to be"
        ) from None


def parse_query_ids(tokens: list[bytes]) -> NDArray[Any]:
    """Query ids from their text: integers where all are, otherwise strings."""
    if all(map(_INTEGER.fullmatch, tokens)):
        try:
            return np.array([int(token) for token in tokens], np.int64)
        except OverflowError:  # 19 digits may be too many for an int64
            pass
    return np.array([token.decode() for token in tokens])
