"""Data frames of pandas, polars, pyarrow and others: names, features and `RankingData`."""

from __future__ import annotations

import decimal
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone

from frame_kinds import KINDS, Interchanged
from linrank import (
    AdditiveRanker,
    DataError,
    KernelRankSVM,
    MultiTopicRanker,
    RankingData,
    RankSVM,
    RankSVMCV,
    load,
    load_model,
)
from linrank.baselines import GAS, PAMIR, RandomForestRanker, RankBoost
from linrank.data.frames import frame_columns, frame_matrix
from linrank.data.matching import with_features
from problems import PAPERS

every_kind = pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)


@every_kind
def test_names_are_those_of_the_frame(make):
    frame = make(pa.table({"bm25": [0.5, 1.5], "clicks": [3, 4]}))
    assert frame_columns(frame) == ["bm25", "clicks"]
    data = RankingData(frame, [1, 0])
    assert data.feature_names == ["bm25", "clicks"]
    assert data.X.tolist() == [[0.5, 3], [1.5, 4]]
    assert RankingData(frame, [1, 0], feature_names=["a", "b"]).feature_names == ["a", "b"]
    assert RankingData.from_pairs(frame, [[0, 1]]).feature_names == ["bm25", "clicks"]


@every_kind
def test_columns_are_chosen_by_name(make):
    frame = make(pa.table({"a": [0.5, 1.5], "id": ["u", "v"], "b": [3, 4]}))
    assert frame_matrix(frame, ["b", "a"]).tolist() == [[3, 0.5], [4, 1.5]]
    with pytest.raises(DataError, match="no column 'c'; the columns are 'a', 'id', 'b'"):
        frame_matrix(frame, ["a", "c"])
    with pytest.raises(DataError, match=r"column 'id' holds .*string; features must be numbers"):
        frame_matrix(frame)


@every_kind
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_dtype_is_kept(make, dtype):
    values = np.array([[1, 2], [3, 4]], dtype)
    found = frame_matrix(make(pa.table({"a": values[:, 0], "b": values[:, 1]})))
    assert found.dtype == dtype
    assert found.tolist() == values.tolist()


@every_kind
def test_columns_of_several_types_are_double(make):
    columns = {
        "single": pa.array([0.5, None], pa.float32()),
        "tiny": pa.array([1, None], pa.int8()),
        "large": pa.array([2**60, 1], pa.uint64()),
        "half": pa.array(np.array([0.5, 2], np.float16)),
    }
    if make is not Interchanged:  # The protocol has no nulls of booleans and no such types.
        columns["flag"] = pa.array([True, None])
        columns["price"] = pa.array([decimal.Decimal("1.25"), None], pa.decimal128(5, 2))
        columns["grade"] = pa.array([7, 5]).dictionary_encode()
        columns["nothing"] = pa.nulls(2)
    found = frame_matrix(make(pa.table(columns)))
    expected = {
        "single": [0.5, np.nan], "tiny": [1, np.nan], "large": [2.0**60, 1], "half": [0.5, 2],
        "flag": [1, np.nan], "price": [1.25, np.nan], "grade": [7, 5], "nothing": [np.nan] * 2,
    }  # fmt: skip
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, np.transpose([expected[name] for name in columns]))


def test_objects_of_pandas_are_numbers_if_all_are():
    prices = [decimal.Decimal("1.5"), None]
    frame = pd.DataFrame({"price": prices, "grade": pd.Categorical([3, 1])}, index=[7, 8])
    np.testing.assert_array_equal(frame_matrix(frame), [[1.5, 3], [np.nan, 1]])
    with pytest.raises(DataError, match=r"cannot be read: .* column price with type object"):
        frame_matrix(frame.assign(price=[1, "two"]))


def test_names_that_are_not_strings_are_no_names():
    frame = pd.DataFrame(np.eye(2))
    assert frame_columns(frame) is None
    assert RankingData(frame, [0, 1]).feature_names is None
    assert frame_columns([[1, 2]]) is None
    assert frame_columns(pd.Series([1])) is None


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_of_one_dtype_are_not_copied(dtype):
    frame = pd.DataFrame(np.eye(3, dtype=dtype), columns=list("abc"))
    assert np.shares_memory(frame_matrix(frame, list("abc")), frame.to_numpy())


@every_kind
def test_missing_values_are_named_or_kept(make):
    frame = make(pa.table({"bm25": [0.5, 1.0, 2.0], "clicks": [3, 5, None]}))
    with pytest.raises(DataError, match=r"X\[2, 1\] \(feature 'clicks'\) is NaN; .*'median'"):
        RankingData(frame, [1, 0, 2])
    data = RankingData(frame, [1, 0, 2], [1, 1, 2], allow_missing=True)
    assert data.has_missing
    np.testing.assert_array_equal(data.X, [[0.5, 3], [1, 5], [2, np.nan]])
    full = RankingData([[0.5, 3], [1, 5], [2, 0]], [1, 0, 2], [1, 1, 2])
    np.testing.assert_array_equal(data.query_keys, full.query_keys)


def test_pandas_needs_no_other_library(monkeypatch):
    for name in ("pyarrow", "narwhals", "polars"):
        monkeypatch.setitem(sys.modules, name, None)
    frame = pd.DataFrame({"a": [0.5, 1], "b": [1, 2], "c": [True, False]})
    assert RankingData(frame, [0, 1]).X.tolist() == [[0.5, 1, 1], [1, 2, 0]]
    with pytest.raises(DataError, match=r"needs pyarrow .* pip install 'linrank\[frames\]'"):
        RankingData(frame.astype({"b": "category"}), [0, 1])


# Frames against arrays

whole = st.integers(-100, 100)
#: Types of columns, with strategies for their values.
TYPES = {
    pa.int8(): whole,
    pa.uint16(): st.integers(0, 1000),
    pa.int64(): st.integers(-(2**60), 2**60),
    pa.float32(): st.floats(-(2.0**99), 2.0**99, width=32),
    pa.float64(): st.floats(-1e300, 1e300),
    pa.bool_(): st.booleans(),
    pa.decimal128(8, 2): st.decimals(-1000, 1000, places=2),
}
IDS = [whole, st.sampled_from(["b", "a", "ä"])]


@st.composite
def tables(draw):
    """Columns of features of random types with nulls, and labels, query ids and weights."""
    n = draw(st.integers(1, 12))

    def column(values):
        return draw(st.lists(values, min_size=n, max_size=n))

    kinds = draw(st.lists(st.sampled_from(list(TYPES)), min_size=1, max_size=4))
    missing = draw(st.sampled_from([False, False, True]))
    features = {
        f"f{k}": (column(TYPES[kind] | st.none() if missing else TYPES[kind]), kind)
        for k, kind in enumerate(kinds)
    }
    others = {
        "label": column(whole), "query": column(draw(st.sampled_from(IDS))),
        "w": column(st.integers(1, 5)), "text": column(st.just("x")),
    }  # fmt: skip
    names = draw(st.permutations([*features, *others]))
    return names, features, others


def numbers_of(values):
    return [np.nan if value is None else float(value) for value in values]


@given(tables())
@pytest.mark.parametrize("kind", ["pandas", "pandas-arrow", "polars", "polars-lazy", "pyarrow"])
def test_frames_are_read_as_arrays_are(kind, drawn):
    names, features, others = drawn
    arrays = {name: pa.array(values, type) for name, (values, type) in features.items()}
    arrays |= {name: pa.array(values) for name, values in others.items()}
    frame = KINDS[kind](pa.table({name: arrays[name] for name in names}))
    order = [name for name in names if name in features]
    single = all(type == pa.float32() for _, type in features.values())
    X = np.transpose([numbers_of(features[name][0]) for name in order])
    options = {"allow_missing": True, "n_threads": 1}
    found = RankingData.from_frame(
        frame, qid="query", sample_weight="w", ignore=["text"], **options
    )
    expected = RankingData(
        X.astype(np.float32 if single else np.float64), others["label"], others["query"],
        sample_weight=others["w"], feature_names=order, **options,
    )  # fmt: skip
    assert found.dtype == expected.dtype
    assert found.feature_names == expected.feature_names
    assert found.has_missing == expected.has_missing == bool(np.isnan(X).any())
    for name in ("X", "y", "query_ids", "query_ptr", "weight", "query_keys"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    if found.has_missing:
        with pytest.raises(DataError, match=r"\(feature 'f[0-9]'\) is NaN"):
            RankingData.from_frame(frame, qid="query", ignore=["text"])


@every_kind
def test_columns_of_frames(make):
    table = pa.table(
        {"grade": [1, 0, 2], "q": ["b", "a", "b"], "doc": ["x", "y", "z"], "f": [1, 2, 3],
         "w": [1.0, 2.0, 3.0], "v": [2, 1, 2], "p": [0.5, 1, 0.25], "m": [0, 0.5, 1]}
    )  # fmt: skip
    data = RankingData.from_frame(
        make(table), label="grade", qid="q", doc_id="doc", sample_weight="w", query_weight="v",
        propensity="p", margin="m",
    )  # fmt: skip
    assert data.feature_names == ["f"]
    assert (data.doc_ids, data.order.tolist()) == (["y", "x", "z"], [1, 0, 2])
    assert (data.weight.tolist(), data.query_weight.tolist()) == ([2, 1, 3], [1, 2])
    assert (data.propensity.tolist(), data.margin.tolist()) == ([1, 0.5, 0.25], [0.5, 0, 1])
    few = RankingData.from_frame(make(table), label="grade", features=["w", "f"])
    assert (few.feature_names, few.n_queries) == (["w", "f"], 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"no column 'label'; the columns are 'a', 't'\. Name the column .* label="),
        ({"label": "a"}, r"column 't' holds .*; features must be numbers.* ignore=\['t'\]"),
        ({"label": "a", "ignore": "t"}, r"ignore is 't'; expected a list of names"),
        ({"label": "a", "ignore": ["t"]}, "there are no features"),
        ({"label": "t", "ignore": ["a"]}, "there are no features"),
        ({"label": "t", "features": ["a"]}, "column 't' holds .*; expected numbers"),
        ({"label": "a", "qid": "b"}, "no column 'b'"),
        ({"label": "a", "features": ["a"]}, "column 'a' cannot be a feature"),
    ],
)
def test_columns_that_are_refused(options, message):
    frame = pd.DataFrame({"a": [1, 2], "t": ["x", "y"]})
    with pytest.raises(DataError, match=message):
        RankingData.from_frame(frame, **options)


def test_missing_ids_and_arrays_are_refused():
    frame = pd.DataFrame({"label": [1, 0], "qid": ["a", None], "f": [1.0, 2.0]})
    with pytest.raises(DataError, match=r"qid\[1\] is missing; every row needs a query id"):
        RankingData.from_frame(frame)
    with pytest.raises(DataError, match=r"doc_id\[1\] is missing; every row needs a document id"):
        RankingData.from_frame(frame.rename(columns={"qid": "id"}), doc_id="id")
    with pytest.raises(DataError, match=r"is ndarray; expected a data frame\. For arrays, use"):
        RankingData.from_frame(np.eye(2))
    twice = pd.DataFrame(np.eye(2), columns=["label", "label"])
    with pytest.raises(DataError, match="several columns 'label'"):
        RankingData.from_frame(twice)


def test_columns_named_by_numbers_are_matched():
    frame = pd.DataFrame(np.arange(12.0).reshape(4, 3) ** 2)
    frame["label"] = [0, 1, 0, 1]
    data = RankingData.from_frame(frame)
    assert data.feature_names == ["0", "1", "2"]
    ranker = RankSVM(C=1.0, **PAPERS).fit(data)
    expected = data.X @ ranker.coef_
    np.testing.assert_allclose(ranker.model_.predict(frame[[0, 1, 2]]), expected)
    for form in (frame, frame[[2, 0, 1]], frame.rename(columns=str)):
        np.testing.assert_allclose(ranker.model_.predict(form), expected)
        np.testing.assert_allclose(ranker.predict(form), expected)
    assert RankingData(frame[[2, 0]], frame["label"]).feature_names == ["2", "0"]
    assert RankingData(frame[[0, 1]], frame["label"]).feature_names is None
    with pytest.raises(DataError, match=r"X lacks 1 of the 3 features .*: '1'"):
        ranker.model_.predict(frame[[2, 0]])


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_an_index_that_pandas_wrote_is_no_feature(tmp_path, name):
    frame = pd.DataFrame({"label": [1, 0, 2], "f": [0.5, 1.5, 2.5]}, index=[7, 5, 6])
    getattr(frame, "to_" + name[2:])(tmp_path / name)
    assert load(tmp_path / name).feature_names == ["f"]


def test_columns_that_are_named_twice():
    frame = pd.DataFrame({"label": [1, 0], "f": [0.5, 1.5]})
    with pytest.raises(DataError, match="features has 'f' several times"):
        RankingData.from_frame(frame, features=["f", "f"])


@every_kind
def test_missing_document_ids(make):
    frame = make(pa.table({"label": [1, 0], "f": [0.5, 1.5], "id": ["A", None]}))
    with pytest.raises(DataError, match=r"doc_id\[1\] is missing; every row needs a document id"):
        RankingData.from_frame(frame, doc_id="id")


LEVELS = [["qid"], ["label"], ["doc"], ["label", "qid"], ["doc", "qid"], [None]]


@pytest.mark.parametrize("levels", LEVELS, ids=str)
def test_levels_of_an_index_with_a_use_are_columns_as_in_parquet(tmp_path, levels):
    columns = {"label": [1, 0, 1, 0], "qid": ["a", "a", "b", "b"], "doc": list("wxyz"),
               "f": [1.5, 2.5, 3.5, 4.5], "g": [3.0, 2.0, 1.0, 0.0]}  # fmt: skip
    frame = pd.DataFrame(columns)
    frame = frame.set_axis([7, 5, 6, 4]) if levels == [None] else frame.set_index(levels)
    frame.to_parquet(tmp_path / "a.parquet")
    expected = load(tmp_path / "a.parquet", doc_id="doc")
    found = RankingData.from_frame(frame, doc_id="doc")
    assert (found.n_queries, found.doc_ids) == (2, list("wxyz"))
    assert found.feature_names == expected.feature_names
    np.testing.assert_array_equal(found.X, expected.X)
    np.testing.assert_array_equal(found.y, expected.y)


def test_an_index_named_as_a_column_is_refused():
    frame = pd.DataFrame({"label": [1, 0], "qid": [1, 2], "f": [0.5, 1.5]})
    with pytest.raises(DataError, match="'qid' is the name of a level of the index and of another"):
        RankingData.from_frame(frame.set_index("qid", drop=False))
    assert RankingData.from_frame(frame.set_index("qid")).n_queries == 2  # The index is a range.
    assert RankingData.from_frame(frame.rename_axis("row")).feature_names == ["f"]
    assert RankingData.from_frame(frame.set_axis([7, 5]).rename_axis("row")).n_features == 1
    levels = frame[["f", "label"]].set_index(frame["qid"])
    levels.columns = pd.MultiIndex.from_tuples([("f", 1), ("label", "")])
    found = RankingData.from_frame(levels, label=("label", ""))
    assert (found.n_queries, found.feature_names) == (2, ["('f', 1)"])
    features = frame.set_index("qid")[["f"]]
    with pytest.raises(DataError, match="the index of X has a level 'qid', but qid is None"):
        RankSVM(C=1.0, **PAPERS).fit(features, frame["label"])
    RankSVM(C=1.0, **PAPERS).fit(features, [1, 0], features.index * 0)


# One way for names: text, whatever a frame has.

SHAPE = (40, 3)
VALUES = np.random.default_rng(0).normal(size=SHAPE)
LABELS, QUERIES = np.arange(40) % 3, np.repeat(np.arange(4), 10)
RANKERS = {
    "linear": RankSVM(C=1.0, **PAPERS),
    "additive": AdditiveRanker(n_bins=3),
    "kernel": KernelRankSVM(),
    "boosting": RankBoost(n_rounds=5),
    "forest": RandomForestRanker(n_estimators=3),
    "online": PAMIR(),
}
#: Columns that are not strings, with their names as text.
COLUMNS = {
    "integers": ([10, 20, 30], ["10", "20", "30"]),
    "numpy": (pd.Index([np.int64(7), np.int64(8), np.int64(9)], dtype=object), ["7", "8", "9"]),
    "mixed": ([1, "a", 2.5], ["1", "a", "2.5"]),
    "reversed": ([2, 1, 0], ["2", "1", "0"]),
    "levels": (
        pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1)]),
        ["('a', 1)", "('a', 2)", "('b', 1)"],
    ),
}


@pytest.mark.parametrize("kind", RANKERS)
@pytest.mark.parametrize("columns", COLUMNS)
def test_columns_with_names_of_any_type_are_matched(kind, columns, tmp_path):
    given, names = COLUMNS[columns]
    frame = pd.DataFrame(VALUES, columns=given)
    ranker = clone(RANKERS[kind]).fit(frame, LABELS, QUERIES)
    assert ranker.feature_names_in_.tolist() == names
    expected = ranker.predict(frame)
    turned = frame[frame.columns[::-1]]
    forms = [turned, turned.set_axis(names[::-1], axis=1)]
    forms.append(forms[1].assign(other=1.0))
    for form in forms:
        np.testing.assert_allclose(ranker.predict(form), expected)
    with pytest.raises(DataError, match="X lacks 1 of the 3 features"):
        ranker.predict(turned[turned.columns[:2]])
    assert ranker.model_.feature_names == names
    ranker.model_.save(tmp_path / "model.json")
    for model in (ranker.model_, load_model(tmp_path / "model.json")):
        for form in forms:
            np.testing.assert_allclose(model.predict(form), expected)
        rows = dict(zip(turned.columns, turned.to_numpy().T, strict=True))
        np.testing.assert_allclose(model.predict(rows), expected)


def test_columns_that_pandas_has_numbered_have_no_names():
    """An array and a frame around it are the same data, but reordered numbers are matched."""
    frame = pd.DataFrame(VALUES)
    ranker = RankSVM(C=1.0, **PAPERS).fit(frame, LABELS, QUERIES)
    assert not hasattr(ranker, "feature_names_in_")
    assert ranker.model_.feature_names is None
    expected = ranker.predict(VALUES)
    for scored in (ranker, ranker.model_, RankSVM(C=1.0, **PAPERS).fit(VALUES, LABELS, QUERIES)):
        for form in (frame, frame[[2, 0, 1]], frame[[1, 0, 2]].rename(columns=str)):
            np.testing.assert_allclose(scored.predict(form), expected)
        letor = frame.set_axis(["1", "2", "3"], axis=1)
        np.testing.assert_allclose(scored.predict(letor[["3", "1", "2"]]), expected)
        for others in ([1, 2, 3], [3, 0, 1], ["a", "b", "c"]):
            with pytest.warns(UserWarning, match="has feature names, but .* without feature names"):
                scored.predict(frame.set_axis(others, axis=1))
    turned = RankSVM(C=1.0, **PAPERS).fit(frame[[2, 1, 0]], LABELS, QUERIES)
    np.testing.assert_allclose(turned.predict(frame), expected, rtol=1e-6)
    named = RankSVM(C=1.0, **PAPERS).fit(frame.set_axis(["a", "b", "c"], axis=1), LABELS, QUERIES)
    for scored in (named, named.model_):
        with pytest.warns(UserWarning, match="does not have valid feature names, but .* with"):
            np.testing.assert_allclose(scored.predict(frame), expected)


def test_names_that_are_equal_as_text_are_refused():
    frame = pd.DataFrame(VALUES, columns=["a", 1, "1"])
    ranker = RankSVM(C=1.0, **PAPERS).fit(VALUES, LABELS, QUERIES)
    for call in (
        lambda: RankSVM(C=1.0, **PAPERS).fit(frame, LABELS, QUERIES),
        lambda: ranker.predict(frame),
        lambda: ranker.model_.predict(frame),
        lambda: RankingData(frame, LABELS),
    ):
        with pytest.raises(DataError, match="X has several columns '1', so"):
            call()
    with pytest.raises(DataError, match="there are several columns '1'; names must differ"):
        RankingData.from_frame(frame.assign(label=LABELS))


def test_names_of_columns_may_be_given_as_the_frame_has_them():
    frame = pd.DataFrame(np.column_stack([LABELS, QUERIES, VALUES]))
    data = RankingData.from_frame(frame, label=0, qid=1, features=[4, 2])
    assert data.feature_names == ["4", "2"]
    np.testing.assert_array_equal(data.X, VALUES[:, [2, 0]])
    np.testing.assert_array_equal(data.qid, QUERIES)
    same = RankingData.from_frame(frame, label="0", qid="1", ignore=["3"])
    assert same.feature_names == ["2", "4"]


def test_held_out_frames_are_matched():
    frame = pd.DataFrame(VALUES, columns=[10, 20, 30])
    ranker = RankSVMCV([1.0, 10.0], **PAPERS)
    plain = ranker.fit(frame, LABELS, QUERIES, valid=(frame, LABELS, QUERIES)).best_score_
    turned = frame[[30, 10, 20]]
    assert ranker.fit(frame, LABELS, QUERIES, valid=(turned, LABELS, QUERIES)).best_score_ == plain
    data = RankingData(turned, LABELS, QUERIES)
    assert ranker.fit(frame, LABELS, QUERIES, valid=data).best_score_ == plain


def test_selectors_and_topics_match_columns():
    frame = pd.DataFrame(VALUES, columns=[10, 20, 30])
    turned = frame[[30, 10, 20]]
    gas = GAS(2).fit(frame, LABELS, QUERIES)
    np.testing.assert_array_equal(gas.transform(turned), gas.transform(frame))
    topics = MultiTopicRanker().fit(frame, np.eye(3)[LABELS])
    np.testing.assert_allclose(topics.predict(turned), topics.predict(frame))
    np.testing.assert_allclose(topics.model_.predict(turned), topics.predict(frame))


def test_data_of_files_are_matched_by_number(tmp_path):
    """Columns of a table may be numbers of features, for a model of LETOR text without names."""
    data = RankingData(VALUES, LABELS, QUERIES)
    table = RankingData(VALUES[:, [2, 0, 1]], LABELS, QUERIES, feature_names=["3", "1", "2"])
    np.testing.assert_array_equal(with_features(table, None, 3).X, data.X)
    named = table.replace(feature_names=["c", "a", "b"])
    with pytest.warns(UserWarning, match="the data has feature names, but the model was fitted"):
        assert with_features(named, None, 3) is named


# Forms of X that are no arrays of numbers.

RECORDS = np.rec.fromarrays([*VALUES.T, LABELS, QUERIES], names="a,b,c,label,qid")


def test_structured_arrays_are_frames():
    plain = pd.DataFrame(VALUES, columns=["a", "b", "c"])
    ranker = RankSVM(C=1.0, **PAPERS).fit(plain, LABELS, QUERIES)
    expected = ranker.predict(plain)
    for form in (RECORDS, RECORDS[["c", "a", "b"]], np.asarray(RECORDS).view(np.ndarray)):
        np.testing.assert_allclose(ranker.predict(form), expected)
        np.testing.assert_allclose(ranker.model_.predict(form), expected)
    features = RECORDS[["a", "b", "c"]]
    own = RankSVM(C=1.0, **PAPERS).fit(features, LABELS, QUERIES)
    assert own.feature_names_in_.tolist() == ["a", "b", "c"]
    np.testing.assert_allclose(own.predict(features), expected)
    assert ranker.score(features, LABELS, QUERIES) == ranker.score(plain, LABELS, QUERIES)
    np.testing.assert_array_equal(ranker.rank(RECORDS, QUERIES), ranker.rank(plain, QUERIES))
    data = RankingData.from_frame(RECORDS)
    assert data.feature_names == ["a", "b", "c"]
    np.testing.assert_array_equal(data.X, VALUES)
    single = np.zeros(2, [("a", np.float32), ("b", np.float32)])
    assert frame_matrix(single).dtype == np.float32


def test_sparse_columns_of_pandas_stay_sparse():
    X = sparse.random_array((30, 5), density=0.2, rng=0)
    # `DataFrame.sparse.from_spmatrix` of pandas 3.0.0 turns zeros into missing values.
    zeros = pd.SparseDtype(np.float64, 0.0)
    frame = pd.DataFrame(X.toarray(), columns=[3, 1, 4, 5, 9]).astype(zeros)
    data = RankingData(frame, np.arange(30))
    assert data.is_sparse
    assert data.feature_names == ["3", "1", "4", "5", "9"]
    ranker = RankSVM(C=1.0, **PAPERS).fit(frame, np.arange(30))
    np.testing.assert_allclose(ranker.predict(frame[[9, 5, 4, 1, 3]]), X @ ranker.coef_)


DATES = pd.date_range("2020", periods=40)
NOT_NUMBERS = {
    "dates": (DATES, "datetime64"),
    "dates with a zone": (DATES.tz_localize("UTC"), "datetime64"),
    "durations": (DATES - DATES[0], "timedelta64"),
    "periods": (DATES.to_period("D"), "period"),
    "complex numbers": (VALUES[:, 0] + 1j, "complex128"),
    "text": (["x"] * 40, "string"),
    "numbers as text": (["1"] * 40, "string"),
    "categories": (pd.Categorical(["u", "v"] * 20), "string"),
    "lists": ([[1, 2]] * 40, "list"),
    "mappings": ([{"a": 1}] * 40, "struct"),
}
NUMBERS = {
    "booleans": np.arange(40) % 3 == 0,
    "nullable": pd.array(np.arange(40), "Int64"),
    "numeric categories": pd.Categorical(np.arange(40) % 5),
    "objects": pd.Series(np.arange(40) % 7, dtype=object),
    "decimals": [decimal.Decimal(k) for k in range(40)],
}


def forms(frame):
    """Functions that take a frame of features in every way."""
    ranker = RankSVM(C=1.0, **PAPERS).fit(
        np.ones((40, 1)) * np.arange(40)[:, None], LABELS, QUERIES
    )
    named = RankSVM(C=1.0, **PAPERS).fit(pd.DataFrame({"d": np.arange(40.0)}), LABELS, QUERIES)
    return {
        "fit": lambda: RankSVM(C=1.0, **PAPERS).fit(frame, LABELS, QUERIES),
        "predict": lambda: named.predict(frame),
        "rank": lambda: named.rank(frame, QUERIES),
        "score": lambda: named.score(frame, LABELS, QUERIES),
        "model": lambda: named.model_.predict(frame),
        "fit_pairs": lambda: ranker.fit_pairs(frame, [[0, 1]]),
        "data": lambda: RankingData(frame, LABELS, QUERIES),
        "from_frame": lambda: RankingData.from_frame(frame.assign(label=LABELS)),
    }


@pytest.mark.parametrize("kind", NOT_NUMBERS)
def test_columns_without_numbers_get_one_sentence(kind):
    values, word = NOT_NUMBERS[kind]
    for call in forms(pd.DataFrame({"d": values})).values():
        with pytest.raises(DataError, match=rf"column 'd' holds .*{word}.*; features must be num"):
            call()


@pytest.mark.parametrize("kind", NUMBERS)
def test_columns_of_numbers_in_other_types(kind):
    values = NUMBERS[kind]
    data = RankingData(pd.DataFrame({"d": values}), LABELS)
    np.testing.assert_array_equal(data.X[:, 0], np.asarray(values, np.float64))
    for call in forms(pd.DataFrame({"d": values})).values():
        call()


@pytest.mark.parametrize(
    ("X", "sentence"),
    [
        ([{"a": 1.0}, {"a": 2.0}], r"X is a list of mappings; expected .* pandas\.DataFrame\(X\)"),
        ([["x"], ["y"]], "X cannot be read as numbers: could not convert string to float: "),
        ([[1j], [2]], "X holds complex numbers; features must be real"),
        (np.array([["2020"], ["2021"]], "M8[D]"), r"X holds datetime64\[D\]; features must be num"),
        (np.ones((2, 1), "m8[s]"), r"X holds timedelta64\[s\]; features must be numbers"),
        ([[DATES[0].to_pydatetime()], [None]], "X cannot be read as numbers: "),
        (np.array([[{}], [{}]]), "X cannot be read as numbers: "),
        (np.zeros((2, 2), [("a", float)]), r"X holds \[\('a', .*; features must be numbers"),
    ],
)  # fmt: skip
def test_arrays_without_numbers_get_one_sentence(X, sentence):
    ranker = RankSVM(C=1.0, **PAPERS).fit([[1.0], [2.0]], [0, 1])
    calls = (
        lambda: RankSVM(C=1.0, **PAPERS).fit(X, [0, 1]),
        lambda: ranker.predict(X), lambda: ranker.rank(X),
        lambda: ranker.model_.predict(X), lambda: RankingData(X, [0, 1]),
        lambda: ranker.score(X, [0, 1]), lambda: ranker.fit_pairs(X, [[0, 1]]),
    )  # fmt: skip
    for call in calls:
        with pytest.raises(ValueError, match=sentence):
            call()


@pytest.mark.parametrize("make", [list, pd.Series, pd.Categorical, pl.Series, pa.array])
def test_nul_letters_tell_queries_apart(make):
    qid = make(["7", "7", "7\0", "7\0", "7 ", "7 "])
    assert RankingData(np.arange(6.0)[:, None], [1, 0, 1, 0, 1, 0], qid).n_queries == 3
