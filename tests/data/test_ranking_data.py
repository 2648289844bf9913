"""`RankingData` and `TextColumn`: grouping, query ids and checks."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import reference
from linrank import DataError, RankingData, make_ranking
from linrank.data import ranking as ranking_module
from linrank.data.ids import TextColumn
from linrank.data.ranking import read_content

ids = st.sampled_from(
    [
        st.integers(-3, 3),
        st.sampled_from(["b", "a", "ä"]),
        st.sampled_from([0.5, -1.0, 2.0]),
        st.sampled_from([("x", 1), "x", 1, 2.5, frozenset()]),
    ]
)


@given(st.data())
def test_rows_are_grouped_and_can_be_restored(data):
    kind = data.draw(ids)
    qid = data.draw(st.lists(kind, min_size=1, max_size=12))
    column = np.empty(len(qid), dtype=object)
    column[:] = qid
    rows = np.arange(len(qid), dtype=float)
    ranking = RankingData(
        rows[:, None], rows, column, comments=[str(row) for row in range(len(qid))]
    )
    assert ranking.restore(ranking.y).tolist() == rows.tolist()
    assert ranking.X[:, 0].tolist() == ranking.y.tolist()
    assert [float(text) for text in ranking.comments] == ranking.y.tolist()
    assert ranking.restore(ranking.qid).tolist() == qid
    assert len(set(ranking.query_ids)) == ranking.n_queries == len(set(qid))
    for q in range(ranking.n_queries):
        mine = ranking.y[ranking.query_ptr[q] : ranking.query_ptr[q + 1]]
        assert len(mine) > 0
        assert (np.diff(mine) > 0).all()  # The sort is stable.
        assert {qid[int(row)] for row in mine} == {ranking.query_ids[q]}


@pytest.mark.parametrize("ids", [["7", "007", "0x7", "7"], ["b", "b\0", "a", "b"], [3, 1, 2, 3]])
def test_the_order_of_queries_does_not_depend_on_the_library_of_the_ids(ids):
    forms = [list, tuple, pd.Series, pl.Series, pa.array, pd.Categorical]
    for form in [*forms, lambda ids: np.array(ids, dtype=object)]:
        data = RankingData(np.eye(4), [0, 1, 0, 1], form(ids))
        assert data.query_ids.tolist() == sorted(set(ids)), form
        assert data.restore(data.qid).tolist() == ids


def test_grouped_rows_stay_where_they_are():
    X = np.arange(6.0).reshape(3, 2)
    data = RankingData(X, [1, 2, 3], qid=["z", "z", "a"])
    assert data.order is None
    assert data.X is X
    assert data.query_ids.tolist() == ["z", "a"]


@pytest.mark.parametrize(
    ("X", "dtype"),
    [
        (np.eye(2, dtype=np.float32), np.float32),
        (np.eye(2, dtype=int), np.float64),
        (np.asfortranarray(np.arange(4.0).reshape(2, 2)), np.float64),
        (np.eye(4)[::2, ::2], np.float64),
        (np.eye(2, dtype=np.float16), np.float64),
        ([[1, 2], [3, 4]], np.float64),
    ],
)
def test_dense_forms(X, dtype):
    data = RankingData(X, [0, 1])
    assert data.X.dtype == dtype
    assert data.X.flags.c_contiguous
    assert data.X.tolist() == np.asarray(X).tolist()
    np.testing.assert_allclose(data.query_keys, reference.query_keys(X, [0, len(X)]))


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil", "dok", "bsr"])
@pytest.mark.parametrize("qid", [[1, 1, 2], [1, 2, 1]])
def test_sparse_forms(form, qid):
    X = np.array([[0, 1, 0], [2, 0, 3], [0, 0, 0]], dtype=np.float32)
    data = RankingData(sparse.coo_array(X).asformat(form), [0, 1, 2], qid)
    assert data.is_sparse
    assert (data.X.indptr.dtype, data.X.indices.dtype) == (np.int32, np.int32)
    assert data.restore(data.X.toarray()).tolist() == X.tolist()


def test_repeated_sparse_entries_are_summed():
    X = sparse.csr_array(([1.0, 2.0, 4.0], [1, 0, 1], [0, 3]), shape=(1, 2))
    data = RankingData(X, [0])
    assert data.X.toarray().tolist() == [[2, 5]]
    assert X.nnz == 3  # The caller's matrix is unchanged.


def test_query_keys():
    rng = np.random.default_rng(0)
    X, qid = rng.standard_normal((50, 7)), rng.integers(0, 6, 50)
    expected = [reference.query_keys(X[qid == q], [0, sum(qid == q)])[0] for q in range(6)]
    for matrix in (X, sparse.csr_array(X), X.astype(np.float32)):
        data = RankingData(matrix, np.zeros(50), qid)
        np.testing.assert_allclose(data.query_keys, expected, rtol=1e-5)
        for n_threads in (1, 3):
            sums = read_content(data.X, data.query_ptr, n_threads)["query_keys"]
            np.testing.assert_allclose(sums, expected, rtol=1e-5)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_feature_summaries_belong_to_their_rows(form):
    X = np.random.default_rng(0).standard_normal((40, 3))
    data = RankingData(form(X), np.zeros(40), np.repeat(range(8), 5))
    rows = np.arange(10)
    for some in (
        data,
        data.take(rows),
        data.take(rows, data.query_keys[:2]),
        data.replace(X=X[:, :2]),
    ):
        dense = some.X.toarray() if some.is_sparse else some.X
        np.testing.assert_allclose(some.feature_summary().mean, dense.mean(axis=0), atol=1e-15)
        assert some.feature_summary().maximum.tolist() == dense.max(axis=0).tolist()


def test_take():
    data = RankingData(
        np.arange(12.0).reshape(6, 2), range(6), list("aabbcc"), doc_ids=list("uvwxyz"),
        feature_names=["f", "g"], sample_weight=range(1, 7), query_weight=[1, 1, 2, 2, 3, 3],
    )  # fmt: skip
    some = data.take(np.array([1, 4, 5]))
    assert some.query_ids.tolist() == ["a", "c"]
    assert some.query_ptr.tolist() == [0, 1, 3]
    assert some.X.tolist() == [[2, 3], [8, 9], [10, 11]]
    assert some.doc_ids == ["v", "y", "z"]
    assert some.weight.tolist() == [2, 5, 6]
    assert some.query_weight.tolist() == [1, 3]
    np.testing.assert_allclose(some.query_keys, reference.query_keys(some.X, [0, 1, 3]))
    assert some.feature_names == ["f", "g"]


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_missing_values(form):
    X = np.array([[np.nan, 1, 2], [3, 4, np.nan], [0, 5, 6], [7, 8, 9]])
    qid = [1, 2, 1, 2]
    data = RankingData(form(X), range(4), qid, allow_missing=True)
    full = RankingData(form(np.nan_to_num(X)), range(4), qid, allow_missing=True)
    assert (data.has_missing, full.has_missing) == (True, False)
    np.testing.assert_array_equal(data.query_keys, full.query_keys)
    found = data.X.toarray() if data.is_sparse else data.X
    np.testing.assert_array_equal(data.restore(found), X)
    assert data.take(np.array([0, 1])).has_missing
    assert not data.take(np.array([1, 3])).has_missing
    assert np.isfinite(data.take(np.array([0, 1, 2])).query_keys).all()
    for bad in (np.inf, -np.inf):
        X[2, 0] = bad
        with pytest.raises(DataError, match=rf"X\[2, 0\] \(feature 'a'\) is {bad}"):
            RankingData(form(X), range(4), qid, feature_names=list("abc"), allow_missing=True)


def test_rows_with_missing_values_are_hashed_in_parts(monkeypatch):
    monkeypatch.setattr(ranking_module, "KEY_ROWS", 3)
    X = np.random.default_rng(0).standard_normal((20, 4))
    X[::2, 1] = np.nan
    found = ranking_module.row_keys(X, has_missing=True)
    np.testing.assert_array_equal(found, ranking_module.row_keys(np.nan_to_num(X)))


def test_repr():
    assert repr(RankingData(np.eye(2), [0, 1], qid=[1, 2])) == (
        "RankingData(2 documents, 2 queries, 2 features, dense float64)"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"X": [1, 2]}, "X must have two dimensions"),
        ({"X": [[1j, 0]] * 2}, "X holds complex numbers"),
        ({"X": [["a", "b"]] * 2}, "X cannot be read as numbers"),
        ({"X": [[10**400, 1]] * 2}, "X cannot be read as numbers"),
        ({"X": sparse.csr_array((2, 2**31 - 1))}, "there are 2,147,483,647 features, but memory"),
        ({"X": np.zeros((0, 2)), "y": []}, "X is empty: 0 documents"),
        ({"X": np.zeros((2, 0))}, "X is empty: 2 documents × 0 features"),
        ({"X": [[0, 0], [0, np.nan]]}, r"X\[1, 1\] is NaN; features must be finite"),
        ({"X": [[0, 0], [-np.inf, 0]]}, r"X\[1, 0\] is -inf; features must be finite"),
        ({"X": sparse.csr_array([[0, 0], [0, np.inf]])}, r"X\[1, 1\] is inf"),
        (
            {"X": [[np.nan, 0], [0, 0], [1, 1]], "y": [0, 1, 2], "qid": [1, 0, 1]},
            r"X\[0, 0\] is NaN",
        ),
        ({"y": [1]}, r"y has shape \(1,\) but X has 2 rows"),
        ({"y": [[1], [2]]}, r"y has shape \(2, 1\)"),
        ({"y": [1, np.nan]}, r"y\[1\] is nan; labels must be finite"),
        ({"y": ["a", "b"]}, "y cannot be read as numbers"),
        ({"y": [10**400, 0]}, "y cannot be read as numbers"),
        ({"qid": [1]}, r"qid has shape \(1,\) but X has 2 rows"),
        ({"qid": [1.0, np.nan]}, r"qid\[1\] is NaN"),
        ({"qid": [None, "a"]}, r"qid\[0\] is None"),
        ({"doc_ids": ["a"]}, "doc_ids has 1 entries but X has 2 rows"),
        ({"comments": ["a"]}, "comments has 1 entries but X has 2 rows"),
        ({"comments": ["a", "b"], "doc_ids": ["a", "b"]}, "cannot both be given"),
        ({"feature_names": ["a"]}, "feature_names has 1 entries but X has 2 features"),
        ({"sample_weight": [1, -1]}, r"sample_weight\[1\] is -1.0"),
        ({"query_weight": [1, 2], "qid": [7, 7]}, "query_weight differs within query 7"),
    ],
)
def test_bad_data(arguments, message):
    with pytest.raises(DataError, match=message):
        RankingData(**({"X": np.eye(2), "y": [0, 1]} | arguments))


# Text


@pytest.mark.slow
@given(st.lists(st.text(max_size=5)), st.data())
def test_text_column(strings, data):
    column = TextColumn.from_strings(strings)
    assert list(column) == strings
    assert len(column) == len(strings)
    rows = data.draw(st.lists(st.integers(0, max(len(strings) - 1, 0)), max_size=4 * len(strings)))
    assert list(column.take(np.array(rows, np.int64))) == [strings[row] for row in rows]


def test_doc_ids():
    column = TextColumn.from_strings(["docid = GX1 inc = 1 prob = 0.5", "docid=7", "my doc", ""])
    assert column.doc_ids() == ["GX1", "7", "my doc", ""]


def test_equal_texts_are_stored_once():
    column = TextColumn.from_strings(["docid = A", "docid = B"], np.array([1, 0, 1, 1]))
    assert list(column) == list(column.packed()) == [f"docid = {name}" for name in "BABB"]
    assert (column.doc_ids(), column[1]) == (list("BABB"), "docid = A")
    part = column.take(np.array([2, 0]))
    assert (part.doc_ids(), len(part.ptr)) == (["B", "B"], 2)


def test_nul_letters_at_the_end_of_ids_are_kept():
    data = RankingData(np.eye(3), [0, 1, 0], ["a", "a\0", "a\0\0"])
    assert data.query_ids.tolist() == ["a", "a\0", "a\0\0"]
    with pytest.raises(DataError, match=r"x\\ud800' is not valid Unicode"):
        RankingData(np.eye(1), [0], doc_ids=["x\ud800"])


@pytest.mark.parametrize("test", [0.01, 0.2, 0.99])
def test_split_keeps_queries_whole(test):
    data = make_ranking(20, (2, 6), 3, random_state=0)
    parts = data.split(test=test)
    assert [part.n_queries for part in parts] == {
        0.01: [19, 1], 0.2: [16, 4], 0.99: [1, 19]
    }[test]  # fmt: skip
    assert sorted(q for part in parts for q in part.query_ids) == sorted(data.query_ids)
    for part in parts:
        rows = np.flatnonzero(np.isin(data.qid, part.query_ids))
        np.testing.assert_array_equal(part.X, data.X[rows])
        np.testing.assert_array_equal(part.query_keys, data.take(rows).query_keys)
    shuffled = np.random.default_rng(1).permutation(data.n_docs)
    again = RankingData(data.X[shuffled], data.y[shuffled], data.qid[shuffled]).split(test=test)
    assert set(again[1].query_ids) == set(parts[1].query_ids)
    other = data.split(0.5, random_state=1)
    assert set(other[1].query_ids) != set(data.split(0.5)[1].query_ids)


def test_split_needs_a_share_and_queries():
    data = make_ranking(5, 4, 2, random_state=0)
    for test in (0, 1, 5, True, "0.2", np.nan):
        with pytest.raises(DataError, match="expected a share of the queries"):
            data.split(test)
    with pytest.raises(DataError, match="one query cannot be split"):
        RankingData(data.X, data.y).split()
    with pytest.raises(DataError, match="listed pairs cannot be split"):
        RankingData.from_pairs(np.eye(4), [[0, 3], [1, 2]]).split()
