"""Preferences between named items: files, accuracy, folds of pairs, and the rankers."""

from __future__ import annotations

import gzip
import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.base import clone

from frame_kinds import KINDS
from linrank import (
    AdditiveRanker,
    DataError,
    DominationRank,
    DominationRankCV,
    FileFormatError,
    KernelRankSVM,
    Pairs,
    RankingData,
    RankSVM,
    RankSVMCV,
    SparseRankSVM,
    SparseRankSVMCV,
    preference_accuracy,
    read_pairs,
)
from linrank.training.selection import PairCriterion, pair_folds
from problems import PAPERS

close = pytest.approx


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def make_items(rng, n=40, n_pairs=150):
    """Items of one connected component, and noisy preferences."""
    X = rng.normal(size=(n, 4))
    utility = X @ [2.0, -1.0, 0.5, 0.0]
    pairs = rng.integers(0, n, (2 * n_pairs, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]][:n_pairs]
    right = utility[pairs[:, 0]] + rng.normal(0, 0.7, len(pairs)) > utility[pairs[:, 1]]
    return X, np.where(right[:, None], pairs, pairs[:, ::-1])


# Files.


@pytest.mark.parametrize(
    ("text", "weight", "margin"),
    [
        ("A,B\nC,A\n", None, None),
        ("A\tB\nC\tA\n", None, None),
        ("A;B\r\nC;A\r\n", None, None),
        ("A B\n\n C  A", None, None),
        ("\ufeffA, B, 2\nC, A, 0.5\n", [2, 0.5], None),
        ("A B 2 3\nC A 0.5 1\n", [2, 0.5], [3, 1]),
        ("preferred,other\nA,B\nC,A\n", None, None),
        ("Winner Loser\nA B\nC A\n", None, None),
        ("margin,loser,note,winner\n3,B,x,A\n1,A,,C\n", None, [3, 1]),
        ('chosen,rejected,count\n"A","B",2\n\nC,A,0.5\n', [2, 0.5], None),
    ],
)
def test_files_of_pairs_are_read(text, weight, margin, tmp_path):
    path = tmp_path / "pairs"
    path.write_bytes(text.encode())
    (tmp_path / "pairs.gz").write_bytes(gzip.compress(text.encode()))
    for name in ("pairs", "pairs.gz"):
        found = read_pairs(tmp_path / name)
        assert (found.preferred, found.other) == (["A", "C"], ["B", "A"])
        assert (None if found.weight is None else found.weight.tolist()) == weight
        assert (None if found.margin is None else found.margin.tolist()) == margin
        assert len(found) == 2


def test_names_in_csv_files_may_have_blanks_and_commas(tmp_path):
    path = tmp_path / "pairs.csv"
    path.write_text('"dark chocolate","milk, white"\nmilk ä,dark chocolate\n', encoding="utf-8")
    found = read_pairs(path)
    assert found.preferred == ["dark chocolate", "milk ä"]
    assert found.other == ["milk, white", "dark chocolate"]


def test_parquet_files_of_pairs(tmp_path):
    pandas = pytest.importorskip("pandas")
    path = tmp_path / "pairs.parquet"
    frame = pandas.DataFrame({"loser": [2, 1], "weight": [0.1, 3.0], "winner": [1, 30]})
    frame.to_parquet(path)
    found = read_pairs(path)
    assert (found.preferred, found.other) == (["1", "30"], ["2", "1"])
    assert found.weight.tolist() == [0.1, 3.0]
    pandas.DataFrame({"0": ["x"], "1": ["y"], "2": [2]}).to_parquet(path)
    found = read_pairs(path)
    assert (found.preferred, found.other, found.weight.tolist()) == (["x"], ["y"], [2])
    for names in ("ab", "abcde", "01234"):
        pandas.DataFrame({name: ["x"] for name in names}).to_parquet(path)
        with pytest.raises(FileFormatError, match=rf"the columns are '{names[0]}', .* names pref"):
            read_pairs(path)
    pandas.DataFrame({"winner": ["x", None], "loser": ["y", "z"]}).to_parquet(path)
    with pytest.raises(FileFormatError, match="parquet:2: the preferred item is missing"):
        read_pairs(path)
    path.write_bytes(b"PAR1 and no more")
    with pytest.raises(FileFormatError, match="cannot be read"):
        read_pairs(path)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (b"A,B\nA,A\n", ":2: item 'A' is compared with itself"),
        (b"A,B,1\n\nA,C\n", ":3: found 2 values; expected 3, as on line 1"),
        (b"A,B\nA,\n", ":2: the other item is missing; expected its id"),
        (b"note,loser,winner\n,B,A\nx,C,\n", ":3: the preferred item is missing"),
        (b",\n,\n", "the file has no pairs"),
        (b"A B\nA B C\n", ":2: the line has 3 words but 2 are expected"),
        (b"A\n", ":1: the line has 1 word but 2 are expected"),
        (b"A,B,heavy\n", ":1: the weight is 'heavy'; expected a finite number"),
        (b"winner,loser\n", "there are no pairs after the header"),
        (b"a,b,c,d,e\n", ":1: there are 5 columns; expected a header with the names preferred"),
        (b"A,B,-1\n", "weight[0] is -1.0"),
        (b"A,B\nA,\xff\n", ":2: is not valid UTF-8"),
        (b"", "the file is empty; expected lines such as 'preferred,other'"),
    ],
)
def test_bad_files_get_a_sentence(text, sentence, tmp_path):
    path = tmp_path / "pairs.csv"
    path.write_bytes(text)
    with pytest.raises(FileFormatError, match=re.escape(sentence)) as error:
        read_pairs(path)
    assert str(error.value).startswith(str(path))


# Frames of pairs.


def pair_frames():
    """The pairs a over b and a over c, with a column for the loser before that of the winner."""
    table = pa.table({"loser": ["b", "c"], "votes": [1, 2], "Winner": ["a", "a"]})
    made = {name: make(table) for name, make in KINDS.items()}
    made["records"] = np.array(
        [("b", 1, "a"), ("c", 2, "a")], [("loser", "U1"), ("votes", int), ("Winner", "U1")]
    )
    return made


@pytest.mark.parametrize("kind", [*KINDS, "records"])
@pytest.mark.parametrize(
    "ranker",
    [
        RankSVM(C=1.0, **PAPERS),
        RankSVMCV([1.0], cv=2, **PAPERS),
        SparseRankSVM(C=1.0, **PAPERS),
        AdditiveRanker(),
    ],
    ids=lambda ranker: type(ranker).__name__,
)
def test_columns_of_a_frame_of_pairs_go_by_name(kind, ranker):
    frame = pair_frames()[kind]
    X, items = np.array([[0.0], [-1.0], [-2.0]]), list("abc")
    ranker = clone(ranker).fit_pairs(X, frame, items=items)
    assert ranker.rank(X)[0] == 1
    assert ranker.score_pairs(X, frame, items=items) == 1.0
    data = RankingData.from_pairs(X, frame, items=items)
    assert data.order is None
    assert data.pairs.rows.tolist() == [[0, 1], [0, 2]]
    assert data.pairs.weight is None


def test_a_frame_of_pairs_has_rows_weights_and_margins():
    frame = pd.DataFrame({"count": [2, 1], "worse": [0, 2], "better": [1, 1], "margin": [1, 3]})
    data = RankingData.from_pairs(np.eye(3), frame)
    assert data.pairs.rows.tolist() == [[1, 0], [1, 2]]
    assert (data.pairs.weight.tolist(), data.pairs.margin.tolist()) == ([2, 1], [1, 3])
    data = RankingData.from_pairs(np.eye(3), frame, pair_weight=[5, 6], margin=[7, 8])
    assert (data.pairs.weight.tolist(), data.pairs.margin.tolist()) == ([5, 6], [7, 8])
    assert preference_accuracy([0, 1, 2], frame) == close(2 / 3)
    assert preference_accuracy([0, 1, 2], frame, [1, 1]) == 0.5
    named = RankingData.from_pairs(np.eye(3), frame[["worse", "better"]], items=[2, 1, 0])
    assert named.pairs.rows.tolist() == [[1, 2], [1, 0]]
    plain = pd.DataFrame([[1, 0], [1, 2]])  # Columns without names are those of an array.
    assert RankingData.from_pairs(np.eye(3), plain).pairs.rows.tolist() == [[1, 0], [1, 2]]


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (["first", "second"], "the columns are 'first', 'second'; expected columns with the names"),
        (["winner", "second"], "the columns are 'winner', 'second'; expected"),
        ([3, 4], "the columns are '3', '4'; expected"),
        (["winner", "loser", "chosen", "rejected"], "the columns 'winner' and 'chosen' both have"),
        (["winner", "loser", "Worse"], "the columns 'loser' and 'Worse' both have a name for the"),
        (["winner", "loser", "weight", "count"], "the columns 'weight' and 'count' both have"),
    ],
)
def test_names_of_a_table_of_pairs(names, sentence, tmp_path):
    """Frames, Parquet and CSV get the same sentence; text without known names has no header."""
    frame = pd.DataFrame([[0, 1, 1, 0][: len(names)]], columns=names)
    with pytest.raises(DataError, match=sentence):
        RankSVM(C=1.0, **PAPERS).fit_pairs(np.eye(2), frame)
    with pytest.raises(DataError, match=sentence):
        RankSVM(C=1.0, **PAPERS).fit(np.eye(2), [0, 1]).score_pairs(np.eye(2), frame)
    with pytest.raises(DataError, match=sentence):
        preference_accuracy([0, 1], frame)
    frame.rename(columns=str).to_parquet(tmp_path / "pairs.parquet")
    with pytest.raises(FileFormatError, match=rf"pairs\.parquet: {sentence}"):
        read_pairs(tmp_path / "pairs.parquet")
    if "both" in sentence:
        frame.to_csv(tmp_path / "pairs.csv", index=False)
        with pytest.raises(FileFormatError, match=rf"pairs\.csv: {sentence}"):
            read_pairs(tmp_path / "pairs.csv")


# Names and accuracy.


def test_names_stand_for_rows(rng):
    X, pairs = make_items(rng)
    names = np.array([f"item {i}" for i in rng.permutation(len(X))])
    expected = RankSVM(C=1.0, tol=1e-8, **PAPERS).fit_pairs(X, pairs).coef_
    weight = np.ones(len(pairs))
    pairs_object = Pairs(names[pairs[:, 0]].tolist(), names[pairs[:, 1]].tolist(), weight)
    for given_pairs, items in (
        (names[pairs], names),
        (names[pairs].tolist(), names.tolist()),
        ([tuple(row) for row in pairs.tolist()], range(len(X))),
        (pairs_object, names),
    ):
        ranker = RankSVM(C=1.0, tol=1e-8, **PAPERS).fit_pairs(X, given_pairs, items=items)
        np.testing.assert_allclose(ranker.coef_, expected)
        score = ranker.score_pairs(X, given_pairs, items=items)
        assert score == ranker.score_pairs(X, pairs) == close(accuracy(ranker.predict(X), pairs))


def test_weights_and_margins_of_a_file_are_used(rng):
    X, pairs = make_items(rng)
    weight, margin = rng.uniform(0.1, 3, len(pairs)), rng.uniform(0.5, 2, len(pairs))
    named = Pairs([str(i) for i in pairs[:, 0]], [str(i) for i in pairs[:, 1]], weight, margin)
    found = RankSVM(C=1.0, tol=1e-8, **PAPERS).fit_pairs(X, named, items=range(len(X)))
    expected = RankSVM(C=1.0, tol=1e-8, **PAPERS).fit_pairs(X, pairs, weight, margin)
    np.testing.assert_allclose(found.coef_, expected.coef_)
    score = found.score_pairs(X, named, items=range(len(X)))
    assert score == close(accuracy(found.predict(X), pairs, weight))
    assert score != close(found.score_pairs(X, pairs))


def accuracy(scores, pairs, weight=None):
    """The share of right pairs, one by one."""
    weight = [1.0] * len(pairs) if weight is None else weight
    right = sum(
        w * ((scores[i] > scores[j]) + 0.5 * (scores[i] == scores[j]))
        for (i, j), w in zip(pairs, weight, strict=True)
    )
    return right / sum(weight)


@given(
    scores=st.lists(st.sampled_from([-1.0, 0.0, 0.5]), min_size=2, max_size=8),
    draw=st.data(),
)
@settings(max_examples=60, deadline=None)
def test_accuracy_against_all_pairs(scores, draw):
    place = st.integers(0, len(scores) - 1)
    pair = st.tuples(place, place).filter(lambda p: p[0] != p[1])
    pairs = draw.draw(st.lists(pair, min_size=1, max_size=12))
    weight = draw.draw(st.none() | st.lists(st.floats(0.1, 9), min_size=len(pairs),
                                            max_size=len(pairs)))  # fmt: skip
    assert preference_accuracy(scores, pairs, weight) == close(accuracy(scores, pairs, weight))


@pytest.mark.parametrize(
    ("pairs", "items", "sentence"),
    [
        ([["A", "X"]], ["A", "B", "C"], "pairs[0] names 'X', which is not in items"),
        ([["A", "B"]], ["A", "B"], "items has 2 entries but X has 3 rows"),
        ([["A", "B"]], ["A", "B", "A"], "items[2] is 'A', as is items[0]; expected each id once"),
        ([["A", "B"]], [["A"], ["B"], ["C"]], "items has an id that is not hashable"),
        ([["A", "B", "C"]], ["A", "B", "C"], "pairs has shape (1, 3)"),
        ([["A", "A"]], ["A", "B", "C"], "compares row 0 with itself"),
        (Pairs(["A"], ["B"]), None, "pairs has names of items, but items is None"),
    ],
)
def test_bad_names_get_a_sentence(pairs, items, sentence):
    with pytest.raises(DataError, match=re.escape(sentence)):
        RankSVM(C=1.0, **PAPERS).fit_pairs(np.eye(3), pairs, items=items)


def test_bad_pairs_get_a_sentence():
    with pytest.raises(DataError, match="preferred has 1 entries but other has 2"):
        Pairs(["A"], ["B", "C"])
    with pytest.raises(DataError, match="scores"):
        preference_accuracy([np.nan, 1.0], [[0, 1]])


# Folds.


def check_folds(data, folds):
    """Each pair is held out once, and never with the same two documents in training."""
    rows = data.pairs.rows
    held_out = np.concatenate([test for _, test in folds])
    assert sorted(held_out.tolist()) == list(range(len(rows)))
    for train, test in folds:
        known = {frozenset(pair) for pair in rows[train].tolist()}
        assert not known & {frozenset(pair) for pair in rows[test].tolist()}
        assert sorted([*train, *test]) == list(range(len(rows)))


@given(draw=st.data(), n_folds=st.integers(2, 4))
@settings(max_examples=80, deadline=None)
def test_a_held_out_pair_is_in_training_in_neither_order(draw, n_folds):
    n = draw.draw(st.integers(3, 9))
    pair = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda p: p[0] != p[1])
    pairs = draw.draw(st.lists(pair, min_size=1, max_size=25))
    data = RankingData.from_pairs(np.random.default_rng(n).normal(size=(n, 2)), pairs)
    if len({frozenset(pair) for pair in pairs}) < n_folds:
        with pytest.raises(DataError, match=f"{n_folds} folds cannot be made"):
            pair_folds(data, n_folds)
    else:
        check_folds(data, list(pair_folds(data, n_folds)))


def test_whole_components_are_held_out_if_they_are_small(rng):
    X = rng.normal(size=(30, 2))
    pairs = [(3 * c + i, 3 * c + j) for c in range(10) for i, j in ((0, 1), (1, 2), (2, 0))]
    data = RankingData.from_pairs(X, pairs)
    folds = list(pair_folds(data, 5))
    check_folds(data, folds)
    component = data.pairs.rows[:, 0] // 3
    for train, test in folds:
        assert not set(component[train]) & set(component[test])
        assert len(test) == 6
    # With a component of more than a fifth of the pairs, folds consist of pairs.
    data = RankingData.from_pairs(X, [*pairs[:21], *[(21, j) for j in range(22, 30)]])
    sizes = [len(test) for _, test in pair_folds(data, 5)]
    assert max(sizes) - min(sizes) <= 1


def test_folds_do_not_depend_on_the_order_of_rows(rng):
    X, pairs = make_items(rng)
    order = rng.permutation(len(X))
    place = np.argsort(order)
    one, other = RankingData.from_pairs(X, pairs), RankingData.from_pairs(X[order], place[pairs])
    for (_, test), (_, again) in zip(pair_folds(one, 3), pair_folds(other, 3), strict=True):
        np.testing.assert_array_equal(test, again)


# Rankers that choose C.


@pytest.mark.parametrize("weighted", [False, True])
def test_the_accuracy_of_folds_is_that_of_single_fits(rng, weighted):
    X, pairs = make_items(rng)
    weight = rng.uniform(0.1, 2, len(pairs)) if weighted else None
    Cs = [1e-3, 1e-1, 10.0]
    ranker = RankSVMCV(Cs, cv=3, tol=1e-8, **PAPERS).fit_pairs(X, pairs, weight)
    expected = np.empty((3, 3))
    for fold, (train, test) in enumerate(pair_folds(RankingData.from_pairs(X, pairs), 3)):
        own, others = (None, None) if weight is None else (weight[train], weight[test])
        for k, C in enumerate(Cs):
            single = RankSVM(C, tol=1e-8, **PAPERS).fit_pairs(X, pairs[train], own)
            expected[k, fold] = single.score_pairs(X, pairs[test], others)
    np.testing.assert_allclose(ranker.metric_path_, expected)
    assert Cs[int(np.argmax(expected.mean(axis=1)))] == ranker.C_
    again = RankSVM(ranker.C_, tol=1e-8, **PAPERS).fit_pairs(X, pairs, weight)
    np.testing.assert_allclose(ranker.coef_, again.coef_, rtol=1e-4, atol=1e-6)
    assert ranker.model_.training["held_out"]["metric"] == "pairwise-accuracy"


def test_held_out_pairs_choose_C(rng):
    X, pairs = make_items(rng)
    valid_X, valid_pairs = make_items(rng)
    ranker = RankSVMCV([1e-3, 1e-1, 10.0], tol=1e-8, **PAPERS).fit_pairs(
        X, pairs, valid=(valid_X, valid_pairs)
    )
    expected = [
        RankSVM(C, tol=1e-8, **PAPERS).fit_pairs(X, pairs).score_pairs(valid_X, valid_pairs)
        for C in (1e-3, 1e-1, 10.0)
    ]
    np.testing.assert_allclose(ranker.metric_path_[:, 0], expected)
    with pytest.raises(DataError, match="valid has 3 features, but X has 4"):
        RankSVMCV([1.0], **PAPERS).fit_pairs(X, pairs, valid=(valid_X[:, :3], valid_pairs))


def test_a_splitter_gets_numbers_of_pairs(rng):
    from sklearn.model_selection import GroupKFold

    X, pairs = make_items(rng, n_pairs=30)
    halves = [(np.arange(20), np.arange(20, 30)), (np.arange(10, 30), np.arange(10))]
    assert RankSVMCV([0.1, 1.0], cv=halves, **PAPERS).fit_pairs(X, pairs).metric_path_.shape == (
        2,
        2,
    )
    grouped = RankSVMCV([0.1, 1.0], cv=GroupKFold(3), **PAPERS).fit_pairs(X, pairs)
    number = RankSVMCV([0.1, 1.0], cv=3, **PAPERS).fit_pairs(X, pairs)
    np.testing.assert_allclose(grouped.metric_path_, number.metric_path_)


@pytest.mark.parametrize("form", [np.asarray, csr_array])
def test_sparse_rankers_learn_from_pairs(rng, form):
    X, pairs = make_items(rng, n=60, n_pairs=400)
    X = form(np.hstack([X, rng.normal(size=(60, 6))]))
    ranker = SparseRankSVM(C=0.02, penalty="l1", **PAPERS).fit_pairs(X, pairs)
    assert 0 < np.count_nonzero(ranker.coef_) < 10
    assert ranker.score_pairs(X, pairs) > 0.75
    chosen = SparseRankSVMCV(np.geomspace(1e-3, 1, 8), rule="1se", cv=3, **PAPERS).fit_pairs(
        X, pairs
    )
    assert chosen.score_pairs(X, pairs) > 0.75
    best = SparseRankSVMCV(np.geomspace(1e-3, 1, 8), cv=3, **PAPERS).fit_pairs(X, pairs)
    assert chosen.n_selected_ <= best.n_selected_
    assert chosen.C_ <= best.C_


def test_the_standard_error_of_the_accuracy(rng):
    data = RankingData.from_pairs(np.eye(3), [[0, 1], [1, 2], [0, 2], [2, 1]])
    scores = np.array([3.0, 2.0, 1.0])
    right = np.array([1, 1, 1, 0])
    assert PairCriterion().mean(data, scores) == 0.75
    assert PairCriterion().measure(data, scores)[1] == close(right.std() / 2)
    weighted = RankingData.from_pairs(np.eye(3), data.pairs.rows, [2.0, 0, 0, 2.0])
    assert PairCriterion().mean(weighted, scores) == 0.5
    assert PairCriterion().measure(weighted, scores)[1] == close(0.5 / np.sqrt(2))
    assert np.isnan(PairCriterion().mean(weighted.part(np.array([1, 2])), scores))


@pytest.mark.parametrize("ranker", [DominationRank(C=1.0, **PAPERS), DominationRankCV(**PAPERS)])
def test_domination_needs_labels(ranker):
    with pytest.raises(DataError, match=r"needs labels. To learn from pairs, use RankSVM or"):
        ranker.fit_pairs(np.eye(3), [[0, 1]])


def test_clusters_learn_from_labels_only():
    dask = pytest.importorskip("linrank.dask")
    with pytest.raises(DataError, match=r"To learn from pairs, use RankSVM\."):
        dask.DaskRankSVM(C=1.0, normalize=None).fit_pairs(np.eye(3), [[0, 1]])


def test_rankers_without_fit_pairs_are_scored_on_pairs(rng):
    X, pairs = make_items(rng)
    ranker = KernelRankSVM().fit(X, X[:, 0])
    assert ranker.score_pairs(X, pairs) == close(accuracy(ranker.predict(X), pairs))
