"""Reading and writing LETOR text, against a slow twin and Python's own numbers."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, settings
from scipy import sparse

import reference
from linrank.data._letor_reader import read_source
from linrank.data._source import Source
from linrank.data.letor import check_options
from linrank.errors import FileFormatError

LINES = b"2 qid:1 1:0.5 3:2 # docid = A\n0 qid:1 2:-1e-3\n1 qid:2 1:.5 2:5. 3:+1 #B\n"
X = [[0.5, 0, 2], [0, -1e-3, 0], [0.5, 5, 1]]

fuzz = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def read(text, n_threads=1, chunk_bytes=1 << 20, **options):
    """Read bytes as if they were a file."""
    if not text:
        raise FileFormatError("empty")
    source = Source("file.txt", bytearray(text))
    return read_source(
        source, check_options(n_threads=n_threads, **options), chunk_bytes=chunk_bytes
    )


def dense(X):
    return X.toarray() if sparse.issparse(X) else X


def same_bits(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def assert_same_data(a, b):
    assert same_bits(dense(a.X), dense(b.X))
    assert same_bits(a.y, b.y)
    assert same_bits(a.query_ptr, b.query_ptr)
    assert a.query_ids.tolist() == b.query_ids.tolist()
    assert (a.order is None) == (b.order is None)
    assert a.order is None or same_bits(a.order, b.order)
    assert (a.comments is None) == (b.comments is None)
    assert a.comments is None or list(a.comments) == list(b.comments)
    assert a.index_base == b.index_base


def assert_same_as_twin(data, text):
    """The data in the file's row order holds what the slow twin finds."""
    rows = reference.read_letor_slow(text)
    assert data.restore(data.y).tolist() == [label for label, *_ in rows]
    indices = [index for _, _, entries, _ in rows for index in entries]
    assert data.index_base == (0 if 0 in indices else 1)
    assert data.X.shape == (len(rows), max(indices) + 1 - data.index_base)
    restored = np.argsort(data.order) if data.order is not None else slice(None)
    X = dense(data.X)[restored] if data.n_features < 10**6 else None
    for r, (_, _, entries, _) in enumerate(rows):
        if X is not None:
            assert {i for i in np.flatnonzero(X[r])} <= {i - data.index_base for i in entries}
            assert all(X[r, i - data.index_base] == value for i, value in entries.items())
    qids = [qid for _, qid, _, _ in rows]
    names = data.restore(data.qid).tolist()
    assert [qids.index(qid) for qid in qids] == [names.index(name) for name in names] or (
        len({int(qid) for qid in qids}) == len(set(names))  # "7" and "07" are one query
    )
    assert len(set(np.repeat(np.arange(data.n_queries), np.diff(data.query_ptr)))) == len(
        set(names)
    )
    texts = [comment for *_, comment in rows]
    if data.comments is None:
        assert not any(texts)
    else:
        found = data.comments if data.order is None else data.comments.take(np.argsort(data.order))
        assert list(found) == [comment.decode(errors="replace") for comment in texts]


# Well-formed files of every shape, and damaged ones

space = st.text(" \t\r\v\f", min_size=1, max_size=3).filter(str.strip) | st.just(" ")
space = st.sampled_from([" ", "  ", "\t", " \t ", "\r", "\x0b ", "\x0c"])
numbers = st.one_of(
    st.integers(-5, 5).map(str),
    st.decimals(-10, 10, places=6).map(lambda d: f"{d:.6f}"),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.floats(allow_nan=False, allow_infinity=False, width=32).map(lambda x: f"{x:.20g}"),
    st.from_regex(r"[+-]?([0-9]{1,25}\.?[0-9]{0,25}|\.[0-9]{1,25})([eE][+-]?[0-9]{1,2})?", fullmatch=True),
)
qids = st.sampled_from(
    [
        st.integers(-3, 3).map(str),
        st.integers(-(2**63), 2**63 - 1).map(str),
        st.integers(0, 2**70).map(str),
        st.sampled_from(["a", "b", "ä:7", "7", "07"]),
        st.none(),
    ]
)
comments = st.none() | st.text(max_size=8).filter(lambda text: "\n" not in text)


@st.composite
def letor_files(draw):
    """LETOR bytes with odd spacing, numbers, query ids and comments."""
    qid, with_comments, lines = draw(qids), draw(st.booleans()), []
    for _ in range(draw(st.integers(1, 6))):
        if draw(st.integers(0, 5)) == 0:
            lines.append(draw(st.sampled_from(["", "  ", "# a 1:2 comment", "\r"])))
        indices = draw(st.lists(st.integers(0, 12), unique=True, max_size=6).map(sorted))
        name = draw(qid)
        tokens = [draw(numbers), *([] if name is None else [f"qid:{name}"])]
        tokens += [f"{index}:{draw(numbers)}" for index in indices]
        line = "".join(token + draw(space) for token in tokens)
        line = draw(st.sampled_from(["", " ", "\t"])) + line.rstrip(draw(st.sampled_from(["", " \t\r"])))
        comment = draw(comments) if with_comments else None
        lines.append(line if comment is None else f"{line}#{comment}")
    end = draw(st.sampled_from(["\n", "\r\n"]))
    return (end.join(lines) + draw(st.sampled_from(["", end]))).encode()


def outcome(reader, text):
    try:
        return reader(text)
    except ValueError:
        return None


@fuzz
@given(letor_files(), st.sampled_from(["auto", "dense", "csr"]), st.integers(1, 90))
def test_reads_what_the_twin_reads(text, form, chunk_bytes):
    twin = outcome(reference.read_letor_slow, text)
    data = outcome(lambda text: read(text, form=form, chunk_bytes=chunk_bytes), text)
    assert (data is None) == (twin is None)
    if data is not None:
        assert_same_as_twin(data, text)
