"""Columns of text as features: one-hot, hashed, and codes."""

from __future__ import annotations

import json
import sqlite3
import zlib

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import csv, feather, parquet
from scipy import sparse
from sklearn.base import clone

from commandline import error_of, run, run_json
from frame_kinds import KINDS
from linrank import (
    AdditiveRanker,
    DataError,
    LinearModel,
    RankingData,
    RankSVM,
    RankSVMCV,
    SparseRankSVM,
    load,
    load_model,
    load_ranker,
    make_ranking,
    open_store,
    save_store,
)
from linrank.baselines import RankBoost
from linrank.data.categories import MOST_VALUES, Categories, Category
from linrank.data.ids import read_ids
from problems import PAPERS

DATA = make_ranking(40, 8, 3, random_state=0)
RNG = np.random.default_rng(0)
COUNTRY = RNG.choice(["de", "fr", "it"], DATA.n_docs)
FRAME = pd.DataFrame(DATA.X, columns=["price", "clicks", "age"])
FRAME.insert(1, "country", COUNTRY)
Y = DATA.y + 2.0 * (COUNTRY == "fr")
QID = DATA.qid
TABLE = FRAME.assign(label=Y, qid=QID)
NAMES = ["price", "country=de", "country=fr", "country=it", "clicks", "age"]


def expected(texts, values=("de", "fr", "it"), frame=FRAME):
    """One-hot features, one entry after another."""
    X = np.zeros((len(frame), 3 + len(values)))
    X[:, 0], X[:, -2], X[:, -1] = frame.price, frame.clicks, frame.age
    for row, text in enumerate(texts):
        for k, value in enumerate(values):
            X[row, 1 + k] = float(text == value)
    return X


def dense(X):
    return X.toarray() if sparse.issparse(X) else X


@pytest.mark.parametrize("kind", KINDS)
def test_frames_of_every_kind(kind):
    data = RankingData.from_frame(KINDS[kind](pa.Table.from_pandas(TABLE)), categories="onehot")
    assert data.feature_names == NAMES
    assert data.indicators.tolist() == [1, 2, 3]
    np.testing.assert_array_equal(data.X, expected(COUNTRY))


TEXTS = {
    "pandas category": pd.Categorical(COUNTRY, categories=["xx", "it", "fr", "de"]),
    "pandas string": pd.array(COUNTRY, "string"),
    "polars String": pl.Series(COUNTRY.tolist()),
    "polars Categorical": pl.Series(COUNTRY.tolist(), dtype=pl.Categorical),
    "polars Enum": pl.Series(COUNTRY.tolist(), dtype=pl.Enum(["it", "xx", "fr", "de"])),
    "arrow dictionary": pa.array(COUNTRY).dictionary_encode(),
    "arrow large string": pa.array(COUNTRY).cast(pa.large_string()),
}


@pytest.mark.parametrize("kind", TEXTS)
def test_columns_of_every_type_of_text(kind):
    numbers = {name: FRAME[name].to_numpy() for name in ("price", "clicks", "age")}
    make = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table}[kind.split()[0]]
    frame = make({"country": TEXTS[kind], **numbers})
    ranker = RankSVM(C=0.1, categories="onehot", **PAPERS).fit(frame, Y, QID)
    assert ranker.model_.names() == [*NAMES[1:4], "price", "clicks", "age"]
    twin = RankSVM(C=0.1, **PAPERS).fit(expected(COUNTRY)[:, [1, 2, 3, 0, 4, 5]], Y, QID)
    np.testing.assert_allclose(ranker.coef_, twin.coef_)


@given(st.lists(st.one_of(st.none(), st.text(max_size=3)), min_size=2, max_size=30))
def test_any_text_is_one_value(texts):
    frame = pd.DataFrame({"a": np.arange(len(texts)), "t": pd.Series(texts, dtype=object)})
    if not any(texts):
        return
    data = RankingData.from_frame(frame.assign(label=0), categories="onehot")
    values = sorted({text for text in texts if text is not None})
    assert data.feature_names == (
        ["a", *(f"t={value}" for value in values)] + ["t is missing"] * (None in texts)
    )
    found = dense(data.X)[:, 1:]
    assert (found.sum(axis=1) == 1).all()
    assert found.argmax(axis=1).tolist() == [
        len(values) if text is None else values.index(text) for text in texts
    ]


def test_categories_of_numbers():
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0], "size": pd.Categorical([10, 2, 10])})
    ranker = RankSVM(C=1.0, categories="onehot", **PAPERS).fit(frame, [0, 1, 2])
    assert ranker.model_.names() == ["a", "size=10", "size=2"]
    same = ranker.predict(frame.astype({"size": int}))
    np.testing.assert_array_equal(ranker.predict(frame), same)
    assert RankSVM(C=1.0, **PAPERS).fit(frame, [0, 1, 2]).model_.names() == ["a", "size"]


def test_columns_of_many_values_are_sparse_or_hashed():
    texts = [f"item {k}" for k in range(50)] * 2
    frame = pd.DataFrame({"a": np.ones(100), "brand": texts, "few": ["u", "v"] * 50, "label": 0})
    one_hot = RankingData.from_frame(frame, categories="onehot")
    assert one_hot.is_sparse
    assert one_hot.n_features == 53
    hashed = RankingData.from_frame(frame, categories="hash:16")
    assert hashed.feature_names == [
        "a", *(f"brand#{k}" for k in range(16)), "few=u", "few=v"
    ]  # fmt: skip
    places = [zlib.crc32(text.encode()) % 16 for text in texts]
    assert dense(hashed.X)[:, 1:17].argmax(axis=1).tolist() == places
    small = pd.DataFrame({"a": [1.0], "brand": ["never seen"], "few": ["w"]})
    ranker = RankSVM(C=1.0, categories="hash:16", **PAPERS).fit(
        frame.drop(columns="label"), np.arange(100) % 3
    )
    place = 1 + zlib.crc32(b"never seen") % 16
    expected = ranker.coef_[0] + ranker.coef_[place]
    assert ranker.predict(small).tolist() == pytest.approx([expected])


def test_too_many_values_name_the_hash():
    column = read_ids([f"{k}" for k in range(MOST_VALUES + 1)])
    with pytest.raises(DataError, match=r"column 'id' has 65,537 values, .*categories='hash'"):
        Category.fitted("id", "onehot", 0, column)


def check_rankers(ranker, frame):
    """Check that all forms of a ranker and its model score a frame in the same way."""
    scores = ranker.predict(frame)
    mixed = frame[frame.columns[::-1]].assign(other="x")
    np.testing.assert_array_equal(ranker.predict(mixed), scores)
    np.testing.assert_array_equal(ranker.predict(pl.from_pandas(mixed)), scores)
    np.testing.assert_array_equal(ranker.model_.predict(mixed), scores)
    row = frame.iloc[3]
    assert ranker.model_.predict(row).tolist() == pytest.approx([scores[3]])
    assert ranker.model_.predict(dict(row)).tolist() == pytest.approx([scores[3]])
    assert ranker.explain(dict(row)).score == pytest.approx(scores[3])
    return scores


RANKERS = {
    "linear": lambda: RankSVM(C=0.1, categories="onehot", **PAPERS),
    "scaled": lambda: RankSVM(C=0.1, categories="onehot", scale="standard", normalize=None),
    "sparse": lambda: SparseRankSVM(C=0.1, categories="onehot", **PAPERS),
    "hashed": lambda: RankSVM(C=0.1, categories="hash:2", **PAPERS),
    "additive": lambda: AdditiveRanker(C=0.1, categories=["country"]),
    "additive one-hot": lambda: AdditiveRanker(C=0.1, categories="onehot"),
}


@pytest.mark.parametrize("name", RANKERS)
def test_rankers_and_their_files(name, tmp_path):
    ranker = clone(RANKERS[name]()).fit(FRAME, Y, QID)
    scores = check_rankers(ranker, FRAME)
    assert ranker.score(FRAME, Y, QID) > RankSVM(C=0.1, **PAPERS).fit(DATA.X, Y, QID).score(
        DATA.X, Y, QID
    )
    ranker.save(tmp_path / "model.json")
    np.testing.assert_array_equal(load_model(tmp_path / "model.json").predict(FRAME), scores)
    np.testing.assert_array_equal(load_ranker(tmp_path / "model.json").predict(FRAME), scores)
    new = FRAME.assign(country="xx")
    values = ranker.predict(new) - ranker.predict(new.assign(country=None))
    assert np.ptp(values) < 1e-9


def test_new_values_have_no_weight_and_missing_ones_are_a_value():
    holes = FRAME.assign(country=np.where(np.arange(len(FRAME)) % 7 == 0, None, FRAME.country))
    ranker = RankSVM(C=0.1, categories="onehot", **PAPERS).fit(holes, Y, QID)
    assert "country is missing" in ranker.model_.names()
    weights = dict(zip(ranker.model_.names(), ranker.coef_, strict=True))
    of = {value: ranker.predict(FRAME.assign(country=value)) for value in ("xx", "de", None)}
    np.testing.assert_allclose(of["de"] - of["xx"], weights["country=de"])
    np.testing.assert_allclose(of[None] - of["xx"], weights["country is missing"])


def test_held_out_data_have_the_same_features():
    known = QID <= 30
    held_out = FRAME[~known].assign(country=np.where(QID[~known] == 31, "xx", COUNTRY[~known]))
    ranker = RankSVMCV([0.01, 0.1], categories="onehot", **PAPERS).fit(
        FRAME[known], Y[known], QID[known], valid=(held_out, Y[~known], QID[~known])
    )
    assert ranker.best_score_ == pytest.approx(ranker.score(held_out, Y[~known], QID[~known]))


def test_rankers_of_every_kind_take_data_that_were_read():
    train, test = RankingData.from_frame(TABLE, categories="onehot").split()
    for ranker in (RankSVM(C=0.1, **PAPERS), AdditiveRanker(C=0.1), RankBoost(n_rounds=20)):
        assert ranker.fit(train).score(test) > 0.8
    model = RankSVM(C=0.1, **PAPERS).fit(train).model_
    np.testing.assert_array_equal(model.predict(FRAME), model.predict(expected(COUNTRY)))


@pytest.mark.parametrize("scale", ["standard", "robust", "clip:0.2", "minmax", "query"])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_values_of_text_are_not_scaled(scale, is_sparse):
    """A value that is rare has no other unit than a frequent one."""
    rare = np.where(np.arange(len(FRAME)) < 6, "rare", COUNTRY)
    data = RankingData.from_frame(TABLE.assign(country=rare), categories="onehot")
    if is_sparse:
        data = data.replace(X=sparse.csr_array(data.X))
    model = RankSVM(C=0.1, scale=scale, normalize=None).fit(data).model_
    rows = dense(model.preprocessing.apply(data.X, data.query_ptr))
    np.testing.assert_array_equal(rows[:, data.indicators], dense(data.X)[:, data.indicators])
    scores = model.predict(TABLE.assign(country=rare), QID)
    twin = rows @ model.scaled_coef
    for a, b in zip(data.query_ptr[:-1], data.query_ptr[1:], strict=True):
        assert np.ptp(scores[a:b] - twin[a:b]) < 1e-9


def test_codes_are_for_additive_rankers():
    data = RankingData.from_frame(TABLE, categories=["country"])
    assert data.codes.tolist() == [1]
    ranker = AdditiveRanker(C=0.1).fit(data)
    assert ranker.model_.curves[1].axis.levels
    np.testing.assert_array_equal(
        ranker.predict(FRAME), AdditiveRanker(C=0.1, categories=["country"]).fit(FRAME, Y, QID)
        .predict(FRAME),
    )  # fmt: skip
    assert ranker.explain(FRAME.iloc[0]).values[1] == COUNTRY[0]
    with pytest.raises(DataError, match="column 'country' holds codes of text, which only"):
        RankSVM(C=1.0, **PAPERS).fit(data)
    others = TABLE[COUNTRY != "de"]
    with pytest.raises(DataError, match=r"Read the data with categories=train\.categories"):
        ranker.predict(RankingData.from_frame(others, categories=["country"]))
    same = RankingData.from_frame(others, categories=data.categories)
    np.testing.assert_array_equal(ranker.predict(same), ranker.predict(others))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda: RankSVM(C=1.0, categories="one-hot", **PAPERS).fit(FRAME, Y),
            "expected 'onehot', 'hash', 'hash:B",
        ),
        (
            lambda: RankSVM(C=1.0, categories="hash:0", **PAPERS).fit(FRAME, Y),
            "^categories is 'hash:0'; expected",
        ),
        (
            lambda: RankSVM(C=1.0, categories=["country"], **PAPERS).fit(FRAME, Y),
            "Use categories='onehot'.",
        ),
        (
            lambda: RankSVM(C=1.0, **PAPERS).fit(FRAME, Y),
            r"Give each value a weight with categories='onehot' \(",
        ),
        (
            lambda: (
                RankSVM(C=1.0, categories="onehot", **PAPERS)
                .fit(FRAME, Y)
                .predict(FRAME.drop(columns="country"))
            ),
            "X lacks 1 of the 4 features that the model was trained on: 'country'",
        ),
        (lambda: AdditiveRanker(categories=["age"]).fit(FRAME, Y), "column 'country' holds string"),
    ],
)
def test_mistakes(call, sentence):
    with pytest.raises(DataError, match=sentence):
        call()


# Files ------------------------------------------------------------------------------------------


WRITERS = {
    "parquet": parquet.write_table,
    "arrow": feather.write_feather,
    "csv": csv.write_csv,
    "csv.gz": lambda table, path: table.to_pandas().to_csv(path, index=False),
}
#: Queries whose rows are apart, and a text that looks like a number.
ROWS = TABLE.assign(country=np.where(QID == 3, "007", COUNTRY)).sample(frac=1.0, random_state=0)


@pytest.mark.parametrize("suffix", WRITERS)
@pytest.mark.parametrize("categories", ["onehot", "hash:2", ["country"]])
def test_files_of_tables_are_read_as_frames_are(suffix, categories, tmp_path):
    path = tmp_path / f"data.{suffix}"
    WRITERS[suffix](pa.Table.from_pandas(ROWS, preserve_index=False), path)
    found, twin = (
        load(path, categories=categories),
        RankingData.from_frame(ROWS, categories=categories),
    )
    assert found.feature_names == twin.feature_names
    assert found.categories == twin.categories
    np.testing.assert_array_equal(found.X, twin.X)
    numbers = ROWS.assign(country=7)
    WRITERS[suffix](pa.Table.from_pandas(numbers, preserve_index=False), path)
    found, twin = (
        load(path, categories=twin.categories),
        RankingData.from_frame(numbers, categories=twin.categories),
    )
    np.testing.assert_array_equal(found.X, twin.X)


def test_files_of_a_folder_share_their_values(tmp_path):
    half = len(ROWS) // 2
    for k, rows in enumerate((ROWS[:half], ROWS[half:].astype({"country": "category"}))):
        parquet.write_table(pa.Table.from_pandas(rows), tmp_path / f"part{k}.parquet")
    twin = RankingData.from_frame(ROWS, categories="onehot")
    np.testing.assert_array_equal(load(tmp_path, categories="onehot").X, twin.X)


def test_stores_keep_categories(tmp_path):
    data = RankingData.from_frame(TABLE, categories="onehot")
    save_store(data, tmp_path / "store")
    found = open_store(tmp_path / "store")
    assert found.categories == data.categories
    model = RankSVM(C=0.1, **PAPERS).fit(found).model_
    np.testing.assert_array_equal(model.predict(FRAME), model.predict(expected(COUNTRY)))


def test_only_text(tmp_path):
    frame = TABLE[["country", "label", "qid"]]
    frame.to_parquet(tmp_path / "data.parquet")
    ranker = RankSVM(C=1.0, categories="onehot", **PAPERS).fit(frame[["country"]], Y, QID)
    found = load(tmp_path / "data.parquet", categories="onehot")
    np.testing.assert_allclose(RankSVM(C=1.0, **PAPERS).fit(found).coef_, ranker.coef_)
    assert ranker.coef_.argmax() == 1  # fr


def damaged():
    whole = Category("t", "onehot", ("u", "v")).describe()
    return [
        7, [7], [{}], [whole | {"form": "none"}], [whole | {"values": "uv"}],
        [whole | {"n_buckets": 5}], [whole | {"has_missing": 1}], [whole | {"name": "other"}],
        [whole | {"form": "hash", "values": [], "n_buckets": 2**20}],
    ]  # fmt: skip


@pytest.mark.parametrize("content", damaged())
def test_damaged_categories_are_refused(content, tmp_path):
    path = tmp_path / "model.json"
    LinearModel([1.0, 2.0, 0.0], feature_names=["t=u", "t=v", "a"]).save(path)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"categories": content}))
    with pytest.raises(DataError, match=r"model\.json: damaged: "):
        load_model(path)


def test_the_command_line(here):
    rows = ROWS.assign(title="a long text")
    rows.to_parquet("train.parquet")
    rows.to_csv("test.csv", index=False)
    shared = "--ignore", "title", "--C", "0.1"
    run("train", "train.parquet", "--categories", "onehot", "--scale", "query", *shared)
    run("predict", "model.json", "test.csv", "--out", "scores.txt")
    scores = load_model("model.json").predict(ROWS, ROWS.qid)
    np.testing.assert_allclose(np.loadtxt("scores.txt"), scores)
    found = run_json("evaluate", "test.csv", "model.json", "--metrics", "ndcg@10")
    assert found["metrics"]["ndcg@10"]["mean"] > 0.9
    assert "country=fr" in run("inspect", "model.json").stdout
    assert "country=fr" in run("explain", "model.json", "test.csv", "--query", "5").stdout
    run("convert", "train.parquet", "train.store", "--categories", "onehot", "--ignore", "title")
    run("train", "train.store", "--C", "0.1", "--scale", "query", "--out", "other.json")
    np.testing.assert_allclose(load_model("other.json").coef, load_model("model.json").coef)
    run("train", "train.parquet", "--additive", "--categories", "country", *shared)
    run("predict", "model.json", "test.csv")
    error = error_of("train", "train.parquet", *shared)
    assert "(--categories onehot)" in error


# Exports ----------------------------------------------------------------------------------------


def in_sql(text, frame):
    with sqlite3.connect(":memory:") as database:
        frame.assign(qid=QID).to_sql("t", database, index=False)
        return np.array(database.execute(f"SELECT {text} FROM t").fetchall(), np.float64)[:, 0]


def in_python(text, frame):
    scope: dict = {}
    exec(text, scope)
    return np.array([scope["score"](row) for row in frame.to_dict("records")])


HOSTILE = {"de": "d'e\\", "fr": 'f"r\n', "it": "ü=="}


@pytest.mark.parametrize("name", ["linear", "scaled", "additive"])
def test_exports_that_read_text(name):
    frame = FRAME.assign(country=[HOSTILE[text] for text in COUNTRY])
    frame.loc[::9, "country"] = None
    ranker = RANKERS[name]().fit(frame, Y, QID)
    other = frame.assign(country=np.where(QID == 3, "new", frame.country))
    scores = ranker.predict(other)
    found = (
        in_sql(ranker.export("sql", dialect="sqlite"), other),
        in_python(ranker.export("python"), other.astype(object).where(other.notna(), None)),
    )
    for own in found:
        assert np.ptp(own - scores) < 1e-9


def test_other_exports_name_features_of_values():
    ranker = RANKERS["linear"]().fit(FRAME, Y, QID)
    weights = json.loads(ranker.export("solr"))["params"]["weights"]
    assert list(weights) == NAMES
    text = ranker.export("vespa", features={
        "price": "attribute(price)", "clicks": "attribute(clicks)", "age": "attribute(age)",
        **{f"country={c}": f"attribute(country_{c})" for c in ("de", "fr", "it")},
    })  # fmt: skip
    assert "attribute(country_fr)" in text
    with pytest.raises(DataError, match=r"target='onnx' reads numbers, .* or python\."):
        RANKERS["additive"]().fit(FRAME, Y, QID).export("onnx")


def test_no_categories_change_nothing():
    nothing = Categories()
    X = np.ones((2, 3))
    assert nothing.matrix(X, ["a", "b", "c"], {}) is X
    assert nothing.given(["a", "b"]) == nothing.names(["a", "b"]) == ["a", "b"]
