"""LETOR text, compared with a simple slow parser and with Python's own numbers."""

from __future__ import annotations

import bz2
import gzip
import io
import itertools
import lzma
import math
import os
import re
import sys
import threading
from contextlib import suppress
from decimal import Decimal
from pathlib import Path

import numba
import numpy as np
import pytest
import zstandard
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import sparse

import reference
from linrank import DataError, FileFormatError, RankingData, read_letor, write_letor
from linrank._compile.jit import njit
from linrank.data import letor
from linrank.data import source as source_module
from linrank.data.ids import TextColumn
from linrank.data.letor import check_options, move_pointers, move_rows, read_source
from linrank.data.ranking import row_keys
from linrank.data.source import MemoryContent, Source, find_decompressor

pytestmark = pytest.mark.interpreted

fuzz = settings(max_examples=150)

LINES = b"2 qid:1 1:0.5 3:2 # docid = A\n0 qid:1 2:-1e-3\n1 qid:2 1:.5 2:5. 3:+1 #B\n"


def read(text, chunk_bytes=1 << 20, n_threads=1, **options):
    """Read bytes as if they were a file."""
    checked = check_options(n_threads=n_threads, **options)
    return read_source(Source("file.txt", MemoryContent(text)), checked, chunk_bytes=chunk_bytes)


def dense(X):
    return X.toarray() if sparse.issparse(X) else X


def assert_same_bits(a, b):
    assert a.dtype == b.dtype
    assert a.shape == b.shape
    assert a.tobytes() == b.tobytes()


def assert_same_data(a, b):
    assert a.is_sparse == b.is_sparse
    assert_same_bits(dense(a.X), dense(b.X))
    assert_same_bits(a.y, b.y)
    assert_same_bits(a.query_ptr, b.query_ptr)
    assert_same_bits(a.query_ids, b.query_ids)
    assert (a.order is None) == (b.order is None)
    if a.order is not None:
        assert_same_bits(a.order, b.order)
    assert (a.comments is None) == (b.comments is None)
    if a.comments is not None:
        assert list(a.comments) == list(b.comments)
    assert a.index_base == b.index_base
    assert (a.weight is None) == (b.weight is None)
    if a.weight is not None:
        assert_same_bits(a.weight, b.weight)


def from_twin(text):
    """Return the result of the slow parser as dense `RankingData`."""
    rows = reference.read_letor_slow(text)
    indices = {index for _, _, entries, *_ in rows for index in entries}
    base = 0 if 0 in indices else 1
    X = np.zeros((len(rows), max(indices) + 1 - base))
    for row, (_, _, entries, *_) in zip(X, rows, strict=True):
        for index, value in entries.items():
            row[index - base] = value
    qid = None if rows[0][1] is None else reference.ids_of_texts([qid for _, qid, *_ in rows])
    comments = [comment.decode(errors="replace") for *_, comment, _ in rows]
    y = [label for label, *_ in rows]
    costs = [cost for *_, cost in rows]
    weight = [1.0 if cost is None else cost for cost in costs] if any_given(costs) else None
    return RankingData(
        X, y, qid, comments=comments if any(comments) else None, index_base=base,
        sample_weight=weight,
    )  # fmt: skip


def any_given(values):
    return any(value is not None for value in values)


def assert_same_as_twin(data, text):
    twin = from_twin(text)
    if data.is_sparse:
        data.X, twin.X = dense(data.X) + 0.0, twin.X + 0.0  # CSR does not keep the sign of 0.
    assert_same_data(data, twin)


def outcome(reader, *arguments, **options):
    """Return the data, or None if reading raises an error."""
    try:
        return reader(*arguments, **options)
    except ValueError as error:
        refused = error
    if reader is read:
        assert isinstance(refused, FileFormatError)
        assert re.match(r"file\.txt(:\d+)?: [^\n]+$", str(refused))
    return None


# Files of every shape

doubles = st.floats(-1e300, 1e300)
singles = st.floats(width=32, allow_nan=False, allow_infinity=False)
spaces = st.sampled_from([" ", "  ", "\t", " \t ", "\r", "\v", "\f"])
decimals = st.from_regex(
    r"[+-]?([0-9]{1,25}\.?[0-9]{0,25}|\.[0-9]{1,25})([eE][+-]?[0-9]{1,3})?", fullmatch=True
)
numbers = st.one_of(
    st.integers(-5, 5).map(str),
    st.decimals(-10, 10, places=6).map("{:.6f}".format),
    doubles.map(repr),
    decimals.filter(lambda text: abs(float(text)) < 1e300),
)
positive = st.sampled_from(["0.5", "1", "2e-3", "0", "17.25", "0." + "3" * 30])
kinds_of_qid = st.sampled_from(
    [
        st.integers(-3, 3).map(str),
        st.integers(-(2**63), 2**63 - 1).map(str),
        st.integers(2**63 - 2, 2**63 + 1).map(str),
        st.sampled_from(["a", "b", "ä:7", "7", "07", "+7"]),
        st.sampled_from(["7", "07", "+7", "8"]),
        st.none(),
    ]
)
comments = st.none() | st.text(max_size=8).filter(lambda text: "\n" not in text)


@st.composite
def letor_texts(draw):
    """Well-formed LETOR bytes with odd spacing, numbers, query ids and comments."""
    qids, with_comments, lines = draw(kinds_of_qid), draw(st.booleans()), []
    costs = draw(st.sampled_from([st.none(), st.none(), st.none() | st.just(1)]))
    for _ in range(draw(st.integers(1, 5))):
        if draw(st.integers(0, 5)) == 0:
            lines.append(draw(st.sampled_from(["", "  ", "# 1 qid:x 1:2", "\r"])))
        indices = draw(st.lists(st.integers(0, 12), unique=True, max_size=5).map(sorted))
        qid = draw(qids)
        tokens = [draw(numbers), *([] if qid is None else [f"qid:{qid}"])]
        if draw(costs) is not None:
            tokens.append(f"cost:{draw(positive)}")
        tokens += [f"{index}:{draw(numbers)}" for index in indices]
        line = draw(st.sampled_from(["", " "])) + "".join(token + draw(spaces) for token in tokens)
        line = line.rstrip() if draw(st.booleans()) else line
        comment = draw(comments) if with_comments else None
        lines.append(line if comment is None else f"{line}#{comment}")
    end = draw(st.sampled_from(["\n", "\r\n"]))
    mark = draw(st.sampled_from(["", "\ufeff"]))
    return (mark + end.join(lines) + draw(st.sampled_from(["", end]))).encode()


@fuzz
@given(letor_texts(), st.sampled_from(["auto", "dense", "csr"]), st.integers(1, 90))
def test_reads_what_the_twin_reads(text, form, chunk_bytes):
    data = outcome(read, text, form=form, chunk_bytes=chunk_bytes)
    assert (data is None) == (outcome(reference.read_letor_slow, text) is None)
    if data is not None:
        assert_same_as_twin(data, text)


@st.composite
def damaged_texts(draw):
    """LETOR bytes of which some were replaced, removed or added."""
    text = bytearray(draw(letor_texts()))
    for _ in range(draw(st.integers(1, 3))):
        first = draw(st.integers(0, len(text)))
        last = min(first + draw(st.integers(0, 2)), len(text))
        odd = draw(
            st.sampled_from(
                [b"", b":", b"#", b" ", b"\n", b"-", b".", b"e", b"9", b"nan", b" cost:"]
            )
        )
        text[first:last] = draw(st.sampled_from([odd, draw(st.binary(max_size=3))]))
    return bytes(text) or b"\n"


@fuzz
@given(damaged_texts() | st.binary(min_size=1, max_size=60), st.integers(1, 90))
@example(b"1 3:0.5\x00", 10)
@example(b"1 1:0.500000#", 10)
@example(b"1\x001:5", 10)
@example(b"1 99999999999999999999:1", 10)
def test_damaged_text_is_read_as_by_the_twin_or_refused(text, chunk_bytes):
    twin = outcome(reference.read_letor_slow, text)
    if twin and max(index for _, _, entries, *_ in twin for index in entries) > 10**6:
        return  # The dense matrix of the slow parser would be too large.
    data = outcome(read, text, chunk_bytes=chunk_bytes)
    assert (data is None) == (twin is None)
    if data is not None:
        assert_same_as_twin(data, text)


@pytest.mark.parametrize("form", ["dense", "csr"])
def test_threads_and_chunks_change_nothing(form):
    rng = np.random.default_rng(0)
    lines = []
    for row in range(300):
        features = " ".join(f"{f}:{rng.normal():.3g}" for f in range(1, 9) if rng.random() < 0.7)
        lines.append(f"{row % 3} qid:{row // 7} {features} # document {row}")
    text = "\n".join(lines).encode()
    whole = read(text, form=form)
    assert whole.n_queries == 43
    for n_threads, chunk_bytes in [(1, 50), (4, 1), (4, 50), (4, 700), (2, 10_000)]:
        assert_same_data(whole, read(text, form=form, n_threads=n_threads, chunk_bytes=chunk_bytes))


def test_reads_a_file(tmp_path):
    path = tmp_path / "train.txt"
    path.write_bytes(LINES)
    data = read_letor(path)
    assert data.X.tolist() == [[0.5, 0, 2], [0, -1e-3, 0], [0.5, 5, 1]]
    assert data.y.tolist() == [2, 0, 1]
    assert data.query_ptr.tolist() == [0, 2, 3]
    assert data.query_ids.tolist() == [1, 2]
    assert data.query_ids.dtype == np.int64
    assert list(data.comments) == ["docid = A", "", "B"]
    assert data.doc_ids == ["A", "", "B"]
    assert data.index_base == 1
    assert data.order is None
    np.testing.assert_allclose(data.query_keys, reference.query_keys(data.X, data.query_ptr))


def test_without_qid_all_lines_are_one_query():
    data = read(b"1 1:1\n0 1:2\n")
    assert data.query_ptr.tolist() == [0, 2]
    assert data.comments is None


def test_queries_that_are_torn_apart_are_put_together():
    data = read(b"1 qid:b 1:1 #x\n2 qid:a 1:2 #y\n3 qid:b 1:3 #z\n", chunk_bytes=1)
    assert data.query_ids.tolist() == ["a", "b"]
    assert data.y.tolist() == [2, 1, 3]
    assert dense(data.X).tolist() == [[2], [1], [3]]
    assert list(data.comments) == ["y", "x", "z"]
    assert data.restore(data.y).tolist() == [1, 2, 3]


@given(st.data(), st.integers(1, 40))
@fuzz
def test_rows_are_moved_by_way_of_parts(data, part_bytes):
    sizes = data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=9))
    order = np.array(data.draw(st.permutations(range(len(sizes)))))
    dtype = data.draw(st.sampled_from([np.uint8, np.int32, np.float64]))
    ptr = np.concatenate([[0], np.cumsum(sizes)])
    source = np.arange(ptr[-1]).astype(dtype)
    moved = move_rows(source, ptr, order, np.zeros_like(source), part_bytes)
    rows = [source[ptr[row] : ptr[row + 1]].tolist() for row in order]
    assert moved.tolist() == list(itertools.chain(*rows))
    assert np.diff(move_pointers(ptr, order)).tolist() == [len(row) for row in rows]


def test_first_feature_is_0_or_1():
    assert read(b"1 1:5\n").X.tolist() == [[5]]
    assert read(b"1 0:5\n").X.tolist() == [[5]]
    assert read(b"1 0:5\n").index_base == 0
    assert dense(read(b"1 1:5\n", index_base=0).X).tolist() == [[0, 5]]


def test_number_of_features_can_be_larger():
    assert dense(read(b"1 1:5\n", n_features=3).X).tolist() == [[5, 0, 0]]
    assert dense(read(b"1\n0\n", n_features=2).X).tolist() == [[0, 0], [0, 0]]


def test_form_is_chosen_by_memory():
    rows = [f"0 {' '.join(f'{f}:{int(f <= n)}' for f in range(1, 13))}\n" for n in (4, 4, 4)]
    assert not read(
        "".join(rows).encode()
    ).is_sparse  # A third of the values takes half of the memory as CSR.
    assert read("".join(rows).encode(), dtype=np.float32).X.dtype == np.float32
    rows[0] = rows[0].replace("1:1", "1:0", 1)
    sparser = read("".join(rows).encode())
    assert sparser.is_sparse
    assert sparser.X.nnz == 11
    assert sparser.X.indices.dtype == np.int32
    assert sparser.X.indptr.dtype == np.int32
    assert not read(
        "".join(rows).encode(), dtype=np.float32
    ).is_sparse  # With float32, the limit is a quarter.
    assert not read("".join(rows).encode(), form="dense").is_sparse


def test_pipe_can_be_read(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(LINES,))
    writer.start()
    data = read_letor(path)
    writer.join()
    assert_same_data(data, read(LINES))


def test_compressed_pipe_can_be_read(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(gzip.compress(LINES),))
    writer.start()
    data = read_letor(path)
    writer.join()
    assert_same_data(data, read(LINES))


@pytest.mark.parametrize("compressed", [False, True])
def test_progress_grows_to_1(compressed, small_pieces):
    seen = []
    source = Source("file.txt", MemoryContent(LINES * 50))
    if compressed:
        source = compressed_source("xz", LINES * 50)
    read_source(source, check_options(n_threads=2), progress=seen.append, chunk_bytes=20)
    assert seen == sorted(seen)
    assert len(seen) > 4
    assert seen[-1] == 1.0


@pytest.mark.skipif(
    numba.config.DISABLE_JIT, reason="plain Python takes minutes for 26 MB; others run that too"
)
def test_reads_mq2007(real_data):
    data = read_letor(real_data / "MQ2007" / "Fold1" / "train.txt")
    assert (data.n_docs, data.n_queries, data.n_features) == (42_158, 1_017, 46)
    assert not data.is_sparse
    n_pairs = 0
    for first, last in itertools.pairwise(data.query_ptr):
        _, counts = np.unique(data.y[first:last], return_counts=True)
        n_pairs += (counts.sum() ** 2 - (counts**2).sum()) // 2
    assert n_pairs == 246_015
    assert data.doc_ids[0] == "GX000-00-0000000"


# Numbers

HALFWAY = [
    "9007199254740993",  # 2^53 + 1: halfway between two doubles
    "9007199254740993.0000000000000000000000001",
    "9007199254740992.999999999999",
    "1e22", "1e23", "1e-22", "1e-23", "123456789012345678e5", "999999999999999999e-10",
    "2.2250738585072011e-308", "2.2250738585072014e-308", "4.9e-324", "2.4e-324", "2.5e-324",
    "1e-400", "0e999", "0.0e-999999999", "-0", "-0.0", "1.7976931348623157e308", "1e290", "1e-270",
    "0." + "0" * 400 + "1e400", "1" + "0" * 300 + "e-300", "0.000000", "1.000000", "9.999999",
    "1.00000", "1.0000000", "8.5e-2", "6.6e-5", "-179769313486231570814e288",
]  # fmt: skip


def read_values(texts, **options):
    line = "1 " + " ".join(f"{f}:{text}" for f, text in enumerate(texts, 1))
    return dense(read(line.encode(), form="dense", **options).X)[0]


def test_hard_numbers_are_those_of_python():
    expected = np.array([float(text) for text in HALFWAY])
    assert_same_bits(read_values(HALFWAY), expected)
    data = read("\n".join(f"{text} 1:1" for text in HALFWAY).encode())
    assert_same_bits(data.y, expected)


@fuzz
@given(st.lists(numbers, min_size=1, max_size=30))
def test_numbers_are_those_of_python(texts):
    assert_same_bits(read_values(texts), np.array([float(text) for text in texts]))


@njit
def to_double(mantissa, exponent):
    return letor.to_double(mantissa, exponent)


@fuzz
@given(st.integers(0, 10**18 - 1), st.integers(-300, 300))
def test_double_is_the_nearest_or_not_certain(mantissa, exponent):
    value, certain = to_double(mantissa, exponent)
    assert not certain or value == float(f"{mantissa}e{exponent}")
    # Within the table of powers, only numbers close to the middle of two doubles are undecided.
    assert certain or not -270 <= exponent <= 290 or len(str(mantissa)) > 15


@fuzz
@given(st.lists(singles.map("{:.9g}".format), min_size=1))
def test_singles_are_rounded_doubles(texts):
    expected = np.array([np.float32(float(text)) for text in texts])
    assert_same_bits(read_values(texts, dtype=np.float32), expected)


def test_many_hard_numbers_in_one_line():
    texts = ["0.1234567890123456789012345"] * 500
    assert_same_bits(read_values(texts), np.full(500, float(texts[0])))


# Compression

COMPRESS = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": lambda text: zstandard.ZstdCompressor(write_checksum=True).compress(text),
}


@pytest.fixture
def small_pieces(monkeypatch):
    """Read compressed files a few bytes at a time."""
    monkeypatch.setattr(source_module, "_PIECE_BYTES", 20)
    monkeypatch.setattr(source_module, "CHUNK_BYTES", 100)


def compressed_source(kind, text):
    parts = [text[k : k + 700] for k in range(0, len(text), 700)]
    content = b"".join(COMPRESS[kind](part) for part in parts)  # concatenated streams
    return Source("file.txt", MemoryContent(content), find_decompressor(content[:8]))


@pytest.mark.parametrize("kind", COMPRESS)
@pytest.mark.parametrize("n_threads", [1, 3])
def test_compressed_text_is_read_in_pieces(kind, n_threads, small_pieces):
    rng = np.random.default_rng(0)
    lines = [f"{k % 3} qid:{k // 9} 1:{rng.normal()} 2:{rng.normal()} # {k}" for k in range(99)]
    text = "\ufeff".encode() + "\n".join(lines).encode()
    options = check_options(n_threads=n_threads)
    for chunk_bytes in (1, 1000, 1 << 20):
        source = compressed_source(kind, text)
        assert (len(list(source.chunks(chunk_bytes))) > 3) == (chunk_bytes < 2000)
        assert_same_data(read_source(source, options, chunk_bytes=chunk_bytes), read(text))


@pytest.mark.parametrize("kind", COMPRESS)
def test_memory_of_decompressed_text_is_used_again(kind, small_pieces):
    source, places = compressed_source(kind, LINES * 200), []
    for chunk in source.chunks(1000):
        places.append(chunk.text.ctypes.data)
        source.release([chunk])
    assert len(set(places)) <= 2 < len(places)


@pytest.mark.parametrize("kind", COMPRESS)
def test_errors_in_compressed_text_name_the_line(kind, small_pieces):
    rng = np.random.default_rng(0)
    good = [f"1 qid:{k} 1:{rng.normal()}\n" for k in range(99)]
    for bad, message in [
        (b"1 qid:7 1:2 2:4 1:5\n", "feature 1 is given twice"),
        (b"1 qid:\xff 1:2\n", r"the query id b'\\xff' is not valid UTF-8"),
    ]:
        text = "".join(good).encode() + bad + "".join(good).encode()
        for chunk_bytes in (1, 1 << 20):
            with pytest.raises(FileFormatError, match=rf"^file\.txt:100: {message}"):
                read_source(compressed_source(kind, text), check_options(), chunk_bytes=chunk_bytes)


@pytest.mark.parametrize("n_lines", [10, 300])
def test_compressed_file_that_changes_while_it_is_read(n_lines, small_pieces):
    """The second pass finds fewer chunks, or more."""
    rng = np.random.default_rng(0)
    lines = [f"2 1:{rng.normal()}\n".encode() for _ in range(300)]
    source = compressed_source("gz", b"".join(lines[:100]))

    def change(name, shape, dtype):
        source._content.content = gzip.compress(b"".join(lines[:n_lines]))
        return np.zeros(shape, dtype)

    with pytest.raises(FileFormatError, match=r"^file\.txt: the file changed"):
        read_source(source, check_options(), change, chunk_bytes=1)


@pytest.mark.parametrize("kind", COMPRESS)
def test_compressed_files(kind, tmp_path):
    path = tmp_path / "train.txt"  # The format is found by content, not by name.
    content = COMPRESS[kind](LINES * 100)
    path.write_bytes(content)
    assert_same_data(read_letor(path), read(LINES * 100))
    path.write_bytes(content + COMPRESS[kind](LINES))  # concatenated streams
    assert_same_data(read_letor(path), read(LINES * 101))
    path.write_bytes(content[:-10])
    with pytest.raises(FileFormatError, match=r"train\.txt: .*(truncated|damaged)"):
        read_letor(path)
    path.write_bytes(content[:40] + bytes([content[40] ^ 0xFF]) + content[41:])
    with pytest.raises(FileFormatError, match=r"train\.txt: .*(truncated|damaged)"):
        read_letor(path)
    path.write_bytes(COMPRESS[kind](b""))
    with pytest.raises(FileFormatError, match=r"train\.txt: the file is empty"):
        read_letor(path)


@pytest.mark.parametrize("kind", COMPRESS)
def test_a_damaged_later_stream_is_refused(kind, tmp_path):
    """The data before the damage is not returned as if it were complete."""
    path, first, later = tmp_path / "train", COMPRESS[kind](LINES), COMPRESS[kind](LINES * 9)
    for size in (1, 3, 5, 12, len(later) // 2, len(later) - 1):
        path.write_bytes(first + later[:size])
        with pytest.raises(FileFormatError, match=r"train: the compressed data (is damaged|ends)"):
            read_letor(path)
    for at in range(min(len(later), 40)):
        content = bytearray(later)
        content[at] ^= 0xFF
        path.write_bytes(first + content)
        with suppress(FileFormatError):
            # Some bytes have no effect, such as the operating system in gzip's header.
            assert read_letor(path).n_docs == 10 * read(LINES).n_docs
    path.write_bytes(first + b"something else")
    with pytest.raises(FileFormatError, match=r"train: the compressed data"):
        read_letor(path)


SKIPPED = b"\x5a\x2a\x4d\x18\x05\0\0\0hello"


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("gz", "{}{}\0\0\0"),
        ("bz2", "{}{}"),
        ("xz", "{}\0\0\0\0{}\0\0\0\0\0\0\0\0"),
        ("zst", "{}S{}"),
        ("zst", "S{}SS{}S"),
    ],
)
def test_what_stands_between_streams(kind, content, tmp_path):
    stream = COMPRESS[kind](LINES)
    parts = {"{": b"", "}": stream, "S": SKIPPED, "\0": b"\0"}
    (tmp_path / "train").write_bytes(b"".join(parts[letter] for letter in content))
    assert_same_data(read_letor(tmp_path / "train"), read(LINES * 2))


def test_padding_of_a_wrong_size(tmp_path):
    for kind, padding in [("xz", b"\0\0\0"), ("bz2", b"\0\0\0\0")]:
        (tmp_path / "train").write_bytes(COMPRESS[kind](LINES) + padding)
        with pytest.raises(FileFormatError, match="train: the compressed data is damaged"):
            read_letor(tmp_path / "train")


def test_text_that_expands_is_decompressed_in_pieces():
    text = b"1 1:1\n" + b" " * 6_000_000 + b"\n" + b"0 1:2\n" * 100_000
    for kind, compress in COMPRESS.items():
        content = compress(text)
        pieces = find_decompressor(content[:8])(io.BufferedReader(io.BytesIO(content)))
        sizes = [len(piece) for piece in pieces]
        assert sum(sizes) == len(text), kind
        assert max(sizes) <= 1 << 17, kind


def test_windows_are_bounded(tmp_path):
    path = tmp_path / "train"
    window = zstandard.ZstdCompressionParameters(window_log=28)
    with zstandard.ZstdCompressor(compression_params=window).stream_writer(
        path.open("wb")
    ) as stream:
        stream.write(LINES)
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 28}]
    for content in (path.read_bytes(), lzma.compress(LINES, filters=filters)):
        path.write_bytes(content)
        message = "train: decompression needs more than 134,217,728 bytes of memory"
        with pytest.raises(FileFormatError, match=message):
            read_letor(path)
    path.write_bytes(lzma.compress(LINES, preset=9))
    assert_same_data(read_letor(path), read(LINES))


def test_missing_zstandard_names_the_fix(tmp_path, monkeypatch):
    path = tmp_path / "train.zst"
    path.write_bytes(COMPRESS["zst"](LINES))
    monkeypatch.setitem(sys.modules, source_module._zstd().__name__, None)
    with pytest.raises(DataError, match=r"pip install 'linrank\[zstd\]'"):
        read_letor(path)


# Errors for malformed files

GOOD = "1 qid:1 1:0.5 2:1\n# a comment\n\n"  # The malformed line is the fourth.


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("2 qid:1 7", "found '7'; expected feature:value"),
        ("2 qid:1 1=5", "found '1=5'; expected feature:value"),
        ("2 qid:1 x:5", "feature index 'x' is not a whole number"),
        ("2 qid:1 :5", "feature index '' is not a whole number"),
        ("2 qid:1 1.0:5", "feature index '1.0' is not a whole number"),
        ("2 qid:1 +1:5", r"feature index '\+1' is not a whole number"),
        ("2 qid:1 -1:5", "feature index -1 is negative; expected 1 or more"),
        ("2 qid:1 0:5 1:3", "feature index 0 was found; expected 1 or more"),
        ("2 qid:1 99999999999:5", "feature index 99999999999 was found; expected at most"),
        ("2 qid:1 1:2 1:3", "feature 1 is given twice"),
        ("2 qid:1 1:2 2:3 1:3", "feature 1 is given twice"),
        ("2 qid:1 2:2 1:3", "feature 1 follows feature 2; expected ascending order"),
        ("2 qid:1 1:x", "feature 1 has the value 'x'; expected a number"),
        ("2 qid:1 1:", "feature 1 has the value ''; expected a number"),
        ("2 qid:1 1: 5", "feature 1 has the value ''; expected a number"),
        ("2 qid:1 1:1e", "feature 1 has the value '1e'; expected a number"),
        ("2 qid:1 1:1.2.3", "feature 1 has the value '1.2.3'; expected a number"),
        ("2 qid:1 1:0x1", "feature 1 has the value '0x1'; expected a number"),
        ("2 qid:1 1:1_0", "feature 1 has the value '1_0'; expected a number"),
        (
            "2 qid:1 1:nan",
            "feature 1 is 'nan'; features must be finite numbers. Train with missing=",
        ),
        ("2 qid:1 1:-Inf", "feature 1 is '-Inf'; features must be finite numbers"),
        ("2 qid:1 1:1e999", "feature 1 is 1e999; expected a number that fits float64"),
        ("nan qid:1 1:1", "the label is 'nan'; expected a finite number"),
        ("-infinity qid:1 1:1", "the label is '-infinity'; expected a finite number"),
        ("1e999 qid:1 1:1", "the label is 1e999; expected a number that fits float64"),
        ("high qid:1 1:1", "the label 'high' is not a number"),
        ("qid:1 1:1", "the line begins with 'qid:1'; expected a label first"),
        ("1:1 2:2", "the line begins with '1:1'; expected a label first"),
        ("2 1:1", "there is no qid; expected 'qid:ID' after the label, as on other lines"),
        ("2", "there is no qid"),
        ("2 qid: 1:1", "'qid:' names no query"),
        ("2 qid:1 1:1 qid:1", "found 'qid:1' among the features"),
        ("2 qid:1 1:1 cost:1", "found 'cost:1' among the features; expected it once, before"),
        ("2 qid:1 cost:-1 1:1", "found 'cost:-1'; expected a weight of at least 0"),
        ("2 qid:1 cost:x 1:1", "found 'cost:x'; expected a weight of at least 0"),
        ("2 qid:1 1:1 \x00", r"found '\\x00'; expected feature:value"),
    ],
)
def test_bad_lines(line, message):
    text = (GOOD + line + "\n" + GOOD).encode()
    for chunk_bytes in (1, 1 << 20):
        with pytest.raises(FileFormatError, match=rf"^file\.txt:4: {message}"):
            read(text, index_base=1, chunk_bytes=chunk_bytes)


def test_first_of_several_bad_lines_is_named():
    text = GOOD.encode() * 20 + b"x 1:1\n" + GOOD.encode() * 20 + b"1:1\n"
    with pytest.raises(FileFormatError, match=r"^file\.txt:61: the label 'x'"):
        read(text, chunk_bytes=10, n_threads=4)


def test_query_id_must_be_text():
    with pytest.raises(
        FileFormatError, match=r"^file\.txt:2: the query id b'\\xff' is not valid UTF-8"
    ):
        read(b"1 qid:a 1:1\n1 qid:\xff 1:1\n")


def test_more_features_than_expected():
    with pytest.raises(
        FileFormatError,
        match=r"^file\.txt:2: feature 47 was found, but 46 features are expected: 1 to 46$",
    ):
        read(b"1 46:1\n1 1:1 47:2\n", n_features=46)
    with pytest.raises(FileFormatError, match=r"^file\.txt:1: feature 2 was found, .*: 0 to 1$"):
        read(b"1 0:1 2:1\n", n_features=2)


def test_value_too_large_for_single():
    assert np.isfinite(read(b"1 1:3.4028235e38\n", dtype=np.float32).X).all()
    for value in (b"3.5e38", b"-1e39", b"1e300"):
        with pytest.raises(FileFormatError, match=r":1: feature 1 is .* fits float32"):
            read(b"1 1:" + value + b"\n", dtype=np.float32)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty; expected lines such as"),
        (b"\n \n# only a comment\n", "the file has no documents; expected lines such as"),
        (b"1\n2 # x\n", "no document has a feature; expected lines such as"),
    ],
)
def test_files_without_data(content, message, tmp_path):
    path = tmp_path / "train.txt"
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=rf"train\.txt: {message}"):
        read_letor(path)


def test_files_that_cannot_be_read(tmp_path, monkeypatch):
    with pytest.raises(FileFormatError, match=r"none\.txt: no such file"):
        read_letor(tmp_path / "none.txt")
    with pytest.raises(FileFormatError, match="there are no files of data in it"):
        read_letor(tmp_path)
    (tmp_path / "meta.json").touch()
    with pytest.raises(FileFormatError, match="is a store; open it with open_store"):
        read_letor(tmp_path)

    def refuse(*arguments, **options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(FileFormatError, match=r"x\.txt: cannot be read: Permission denied"):
        read_letor("x.txt")


@pytest.mark.parametrize(
    "options",
    [
        {"n_features": 0},
        {"n_features": 2.5},
        {"n_features": 10**5000},
        {"n_features": float("nan")},
        {"index_base": 2},
        {"dtype": int},
        {"dtype": "x"},
        {"form": "coo"},
        {"n_threads": 0},
        {"n_threads": 10**20},
        {"n_threads": 10**5000},
        {"n_threads": float("inf")},
        {"n_threads": "many"},
    ],
)
def test_bad_options(options):
    with pytest.raises(DataError, match=rf"^{next(iter(options))} is .*; expected"):
        read_letor("x.txt", **options)


def test_matrix_that_does_not_fit_into_memory(monkeypatch):
    monkeypatch.setattr(letor, "most_features", lambda: 2**31 - 1)
    with pytest.raises(DataError, match=r"^X \(9,000 × 2,147,483,646, float64\) does not fit"):
        read(b"1 2147483646:1\n" * 9_000, form="dense")


@pytest.mark.parametrize("form", ["auto", "dense", "csr"])
def test_memory_is_bounded_by_the_size_of_the_file(form, monkeypatch, limited_memory):
    """Memory is bounded by the file size, even with a large index or a long id."""
    with pytest.raises(FileFormatError, match=r"^file\.txt:2: feature index 2147483646 was found"):
        read(b"1 qid:1 1:1\n0 qid:1 1:1 2147483646:1\n", form=form)
    if form != "dense":
        data = read(b"1 qid:1 1:1\n0 qid:1 1:1 1500000:1\n", form=form)
        assert data.n_features == 1_500_000
        assert data.query_keys[0] == row_keys(dense(data.X)).sum()
    ids = [b"x" * (200_000 if k == 7 else 5) for k in range(3000)]
    lines = (b"1 qid:%s 1:1\n0 qid:%d 1:2\n" % (name, k) for k, name in enumerate(ids))
    data = read(b"".join(lines), form=form)
    assert sorted(map(len, data.query_ids.tolist()))[-2:] == [5, 200_000]


@pytest.fixture
def limited_memory():
    """Limit the memory of this process to half a gigabyte more than it uses."""
    import resource

    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 29), limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, limits)


def test_lists_of_ids_take_what_they_need(limited_memory):
    names = [str(k) for k in range(3000)]
    data = RankingData(np.ones((3001, 1)), np.zeros(3001), qid=[*names, "x" * 1_000_000])
    assert data.query_ids[-1] == "x" * 1_000_000


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1 qid:1 {long}:1", "feature index 9{60}… was found"),
        ("1 qid:1 2:1 {zeros}1:1", "feature 1 follows feature 2"),
        ("1 qid:1 {zeros}2:1 1:1", "feature 1 follows feature 2"),
        ("1 qid:1 -{long}:1", "feature index -9{59}… is negative"),
        ("1 qid:1 1:{long}", "feature 1 is 9{60}…; expected a number that fits float64"),
        ("{long} qid:1 1:1", "the label is 9{60}…; expected a number that fits float64"),
        ("1 qid:1 x{long}:1", "feature index 'x9{59}…' is not a whole number"),
        ("{long}x qid:1 1:1", "the label '9{60}…' is not a number"),
        ("1 qid:1 1:1e{long}", "feature 1 is 1e9{58}…; expected a number that fits float64"),
    ],
)
def test_numbers_of_thousands_of_digits(line, message):
    text = "1 qid:1 1:1 2:1\n" + line.format(long="9" * 5000, zeros="0" * 5000) + "\n"
    with pytest.raises(FileFormatError, match=rf"^file\.txt:2: {message}"):
        read(text.encode(), index_base=1)
    assert read(f"1 qid:{'9' * 5000} 1:1\n".encode()).query_ids.tolist() == ["9" * 5000]


@pytest.mark.parametrize("compressed", [False, True])
def test_a_line_without_end(compressed, monkeypatch):
    monkeypatch.setattr(source_module, "MAX_LINE", 1 << 20)
    text = b"1 1:1\n" * 1000 + b"1 1:1 #" + b"x" * (1 << 22)
    source = Source("file.txt", MemoryContent(text))
    if compressed:
        source = compressed_source("zst", text)
    message = r"^file\.txt:1001: the line is longer than 1,048,576 bytes"
    with pytest.raises(FileFormatError, match=message):
        read_source(source, check_options(), chunk_bytes=1000)


@pytest.mark.parametrize("end", [b"\n", b""])
@pytest.mark.parametrize("chunk_bytes", [100, 1000, 1024, 5000])
@pytest.mark.parametrize("n_before", [0, 3])
def test_the_longest_line(end, chunk_bytes, n_before, monkeypatch):
    """The limit is exact to the byte, whatever the size of chunks."""
    monkeypatch.setattr(source_module, "MAX_LINE", 1000)
    for length in (999, 1000, 1001, 1002, 1500, 2100):
        text = n_before * b"1 1:1\n" + (b"1 1:1 #" + b"x" * (length - 7) + end)
        source = Source("file.txt", MemoryContent(text + (b"1 1:2\n" if end else b"")))
        if length <= 1000:
            data = read_source(source, check_options(), chunk_bytes=chunk_bytes)
            assert data.n_docs == n_before + 1 + len(end)
            continue
        message = rf"^file\.txt:{n_before + 1}: the line is longer than 1,000 bytes"
        with pytest.raises(FileFormatError, match=message):
            read_source(source, check_options(), chunk_bytes=chunk_bytes)


@pytest.mark.parametrize("n_threads", [1, 2])
def test_long_lines_do_not_add_up(n_threads, monkeypatch):
    """A batch is limited in bytes, not in chunks, and buffers of long lines are freed."""
    sizes, run = [], letor.run

    def recorded(function, batch, n_threads):
        sizes.append([len(chunk.text) for chunk, *_ in batch])
        return run(function, batch, n_threads)

    monkeypatch.setattr(letor, "run", recorded)
    monkeypatch.setattr(source_module, "_LARGEST_KEPT", 2000)
    text = (b"1 1:1" + b" " * 50_000 + b"\n") * 40 + b"1 1:1\n" * 10_000
    source = Source("file.txt", MemoryContent(text))
    read_source(source, check_options(n_threads=n_threads), chunk_bytes=1000)
    for batch in sizes:
        assert sum(batch[:-1]) < 8 * 1000 * n_threads
    assert max(map(len, sizes)) > 4
    assert max(map(len, source._free)) <= 2000


@pytest.mark.parametrize("change", ["cut", "overwrite", "append"])
def test_text_that_is_written_to_while_it_is_read(change, tmp_path, monkeypatch):
    """The process survives, and no mixture of old and new text is returned."""
    path, line = tmp_path / "train.txt", b"2 qid:1 1:0.5\n"
    path.write_bytes(line * 1000)
    allocate = letor.allocate_in_memory

    def write(*arguments):
        if change == "cut":
            os.truncate(path, 20 * len(line))
        else:
            with path.open("r+b" if change == "overwrite" else "ab") as file:
                file.write(b"1")
        os.utime(path, ns=(1, 1))  # Make the time differ, whatever the resolution of the clock.
        return allocate(*arguments)

    with (
        pytest.raises(FileFormatError, match=r"train\.txt: the file changed while it was being"),
        source_module.open_source(path) as source,
    ):
        read_source(source, check_options(), write, chunk_bytes=1000)


def test_file_that_changes_while_it_is_read():
    line = b"2 qid:1 1:0.0 # comment\n"
    for new in [line[:-1] + b" ", b"2 qid:1 1:0.0 \n2 qid:1 \n", line.replace(b"0.0", b"0.5")]:
        content = bytearray(line * 30)
        source = Source("file.txt", MemoryContent(content))

        def change(name, shape, dtype, content=content, new=new):
            content[5 * len(line) : 6 * len(line)] = new
            return np.zeros(shape, dtype)

        with pytest.raises(FileFormatError, match=r"^file\.txt: the file changed"):
            read_source(source, check_options(form="csr", n_features=1), change, chunk_bytes=100)


# Writing


@st.composite
def ranking_data(draw):
    """Data with numbers of all sizes, ids of all kinds, and rows in any order."""
    n_rows, n_features = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    single = draw(st.booleans())
    values = singles if single else doubles
    values |= st.integers(-9, 9).map(float) | st.decimals(-2, 2, places=6).map(float)
    row = st.lists(values, min_size=n_features, max_size=n_features)
    X = np.array(draw(st.lists(row, min_size=n_rows, max_size=n_rows)))
    X = X.astype(np.float32 if single else np.float64)
    ids = draw(st.sampled_from([st.integers(-9, 9), st.sampled_from(["a", "ä", "1:2", "é"])]))
    texts = st.lists(st.sampled_from(["", "docid = 7", "# x"]), min_size=n_rows, max_size=n_rows)
    return RankingData(
        sparse.csr_array(X + 0.0) if draw(st.booleans()) else X,
        draw(st.lists(doubles, min_size=n_rows, max_size=n_rows)),
        qid=draw(st.lists(ids, min_size=n_rows, max_size=n_rows)),
        comments=draw(st.none() | texts.filter(any)),
        index_base=draw(st.integers(0, 1)),
    )


def written(data, decimals=None):
    return b"".join(letor.LetorWriter(data, decimals).blocks(n_threads=2))


@fuzz
@given(ranking_data())
def test_what_is_written_is_read_back_bit_for_bit(data):
    form = "csr" if data.is_sparse else "dense"
    back = read(written(data), form=form, dtype=data.X.dtype)
    assert back.query_ids.tolist() == data.query_ids.tolist()
    back.query_ids = data.query_ids  # The dtype may change from "<U2" to "<U1".
    assert_same_data(data, back)


@pytest.mark.parametrize("name", ["data.txt", *(f"data.txt.{kind}" for kind in COMPRESS)])
def test_written_files_are_compressed_by_name(name, tmp_path):
    data = read(LINES)
    write_letor(tmp_path / name, data)
    assert_same_data(read_letor(tmp_path / name), data)
    content = (tmp_path / name).read_bytes()
    assert content.startswith(b"2 qid:1 1:0.5 2:0 3:2 # docid = A\n") == (name == "data.txt")
    assert os.listdir(tmp_path) == [name]


def test_sparse_data_keeps_its_shape():
    X = sparse.csr_array(([5.0], ([1], [1])), shape=(2, 4))
    for base, first_line in [(0, b"1 qid:0 0:0 3:0\n"), (1, b"1 qid:0 4:0\n")]:
        data = RankingData(X, [1, 0], index_base=base)
        assert written(data).startswith(first_line)
        assert_same_data(read(written(data), form="csr"), data)


@njit
def write_number(out, at, value, is_single):
    return letor.write_number(out, at, value, is_single)


@fuzz
@given(st.tuples(doubles, st.just(False)) | st.tuples(singles, st.just(True)))
def test_short_numbers(case):
    value, is_single = case
    out = np.empty(40, np.uint8)
    size = write_number(out, 0, value, is_single)
    if size < 0:
        assert not 1e-250 < abs(value) < 1e270
        return
    back = float(out[:size].tobytes())
    assert size <= 26
    assert math.copysign(1, back) == math.copysign(1, value)
    assert (np.float32(back) if is_single else back) == value


@fuzz
@given(st.decimals(-1000, 1000, places=6))
def test_short_numbers_are_written_as_they_were(number):
    out = np.empty(40, np.uint8)
    size = write_number(out, 0, float(number), False)
    assert Decimal(out[:size].tobytes().decode()) == number


def test_rounded_numbers():
    values = [0.0, -1e-9, 1 / 3, -2 / 3, 1234.5678915, 0.9999999, 1e12, 1e-300, 1e300]
    data = RankingData([values], [0.1])
    line = written(data, decimals=6).decode()
    assert line == (
        "0.1 qid:0 1:0.000000 2:0.000000 3:0.333333 4:-0.666667 5:1234.567892 6:1.000000 "
        "7:1000000000000 8:0.000000 9:1e+300\n"
    )
    assert written(RankingData([[0.5, 2.5]], [1]), decimals=0) == b"1 qid:0 1:0 2:2\n"


def test_many_rows_are_written_in_order(monkeypatch):
    monkeypatch.setattr(letor, "_BLOCK_ENTRIES", 40)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 7))
    X[::9, 2] = 1e-300  # Python must format this number.
    data = RankingData(X, rng.integers(0, 5, 200), qid=rng.integers(0, 9, 200))
    assert_same_data(read(written(data)), data)


@pytest.mark.parametrize("form", ["dense", "csr"])
def test_long_texts_are_written_in_small_blocks(form):
    """All rows together would be a block of 60 MB, of ids that take 30 kB."""
    n, name = 2000, "q" * 10_000
    comments = TextColumn.from_strings(["a" * 20_000, "b"], np.arange(n) % 2)
    X = np.ones((n, 1)) if form == "dense" else sparse.csr_array(np.ones((n, 1)))
    data = RankingData(X, np.arange(n) % 3, qid=[name] * n, comments=comments)
    blocks = list(letor.LetorWriter(data).blocks(n_threads=2))
    assert max(map(len, blocks)) < 2e6
    back = read(b"".join(blocks), form=form)
    assert back.query_ids.tolist() == [name]
    assert back.doc_ids == data.doc_ids


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"qid": ["a b", "c"]}, "query id 'a b' cannot be written to a LETOR file"),
        ({"qid": ["a#", "c"]}, "query id 'a#' cannot be written to a LETOR file"),
        ({"qid": ["", "c"]}, "query id '' cannot be written to a LETOR file"),
        ({"qid": ["7", 7]}, "some query ids would be read as the same id"),
        ({"comments": ["two\nlines", ""]}, "a comment contains a line end"),
    ],
)
def test_data_that_cannot_be_written(data, message, tmp_path):
    with pytest.raises(DataError, match=message):
        write_letor(tmp_path / "data.txt", RankingData(np.eye(2), [1, 0], **data))
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("decimals", [-1, 16])
def test_bad_decimals(decimals, tmp_path):
    with pytest.raises(DataError, match=f"decimals is {decimals}; expected a whole number from 0"):
        write_letor(tmp_path / "data.txt", read(LINES), decimals=decimals)


def test_old_file_stays_if_writing_fails(tmp_path, monkeypatch):
    path = tmp_path / "data.txt.gz"
    path.write_text("old")

    def fail(self, n_threads):
        yield b"1 qid:1 1:1\n"
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(letor.LetorWriter, "blocks", fail)
    with pytest.raises(DataError, match=r"data\.txt\.gz: cannot be written: No space left"):
        write_letor(path, read(LINES))
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="needs compiled kernels")
def test_kernels_have_one_signature_per_type(tmp_path):
    for dtype, form in itertools.product((np.float32, np.float64), ("dense", "csr")):
        for name in ("data.txt", "data.txt.gz"):
            write_letor(tmp_path / name, read(LINES, dtype=dtype, form=form))
            read_letor(tmp_path / name, dtype=dtype, form=form)
    assert len(letor.scan.dispatcher.signatures) == 1
    assert len(letor.parse.dispatcher.signatures) == 2
    assert len(letor.format_rows.dispatcher.signatures) == 2
