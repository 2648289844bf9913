"""Fusion of retrievers: normalisers, joined runs, learned weights and standard rules."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from commandline import error_of, run, run_json
from linrank import DataError, Qrels, Run, evaluate_run, read_run, write_qrels, write_run
from linrank.data.trec import RUN
from linrank.data.word_table import number_columns, read_word_table
from linrank.fusion import Fusion, Normalizer, fuse, gather, read_retrieved, write_request
from linrank.fusion.fused import certainty
from linrank.fusion.normalizers import NORMALIZERS
from linrank.fusion.requests import TARGETS


def slow_normalizer(name, scores, k):
    """Normalise one list: a dict of scores; what is not in the result has the value under None."""
    s = np.array(list(scores.values()))
    low, high, mean = s.min(), s.max(), s.mean()
    sigma = s.std(ddof=1) if len(s) > 1 and low < high else 0.0
    rank = {doc: 1 + r for r, doc in enumerate(sorted(scores, key=lambda doc: -scores[doc]))}
    constants = {"minmax": 1.0, "minmax-elasticsearch": low, "minmax-opensearch": 1.0,
                 "minmax-vespa": 0.5}  # fmt: skip

    def value(doc):
        x = scores[doc]
        if name.startswith("minmax"):
            v = constants[name] if low == high else (x - low) / (high - low)
            return 0.001 if name == "minmax-opensearch" and v == 0 else v
        if name == "zscore-opensearch":
            if x == mean:
                return high
            return low if sigma == 0 else max((x - mean) / sigma, 0) or 0.001
        norm = np.sqrt((s**2).sum())
        return {
            "none": x,
            "l2": x / norm if norm else 0.0,
            "zscore": (x - mean) / sigma if sigma else 0.0,
            "dbsf": (x - (mean - 3 * sigma)) / (6 * sigma) if sigma else 0.5,
            "rank": 1 - (rank[doc] - 1) / len(s),
            "rrf": 1 / (k + rank[doc]),
        }[name]

    found = {doc: value(doc) for doc in scores}
    found[None] = min(found.values()) if name == "zscore" else 0.0
    return found


@pytest.mark.parametrize("name", NORMALIZERS)
def test_normalizers_are_those_of_slow_twins(name):
    rng = np.random.default_rng(0)
    sizes = [1, 2, 7, 30]
    ptr = np.concatenate([[0], np.cumsum(sizes)])
    scores = rng.normal(size=(ptr[-1], 3)).round(1) + 3.0
    scores[rng.random(scores.shape) < 0.3] = np.nan
    scores[ptr[2] : ptr[3], 1] = 2.5  # a list of equal scores
    scores[ptr[3] : ptr[4], 2] = np.nan  # a list without documents
    found = Normalizer(name, k=7.0).apply(scores, ptr)
    for q, size in enumerate(sizes):
        for r in range(3):
            given = dict(enumerate(scores[ptr[q] : ptr[q + 1], r].tolist()))
            if name == "minmax-vespa":
                given = {doc: np.nan_to_num(x) for doc, x in given.items()}
            given = {doc: x for doc, x in given.items() if not np.isnan(x)}
            twin = slow_normalizer(name, given, 7.0) if given else {None: 0.0}
            expected = [twin.get(doc, twin[None]) for doc in range(size)]
            np.testing.assert_allclose(found[ptr[q] : ptr[q + 1], r], expected, atol=1e-12)


@pytest.fixture
def lists():
    """Three runs with different documents, of which the second one is best, and judgements."""
    rng = np.random.default_rng(1)
    y = rng.integers(0, 3, (12, 40))
    runs = []
    for tag, noise in (("a", 2.0), ("b", 0.7), ("c", 5.0)):
        scores = 10 * (y + noise * rng.normal(size=y.shape)).round(1)
        keep = np.argwhere(scores > np.quantile(scores, 0.3))
        runs.append(
            Run(
                [f"q{q}" for q, _ in keep], [f"D{d:02d}" for _, d in keep],
                scores[tuple(keep.T)], tag,
            )
        )  # fmt: skip
    judged = np.argwhere(rng.random(y.shape) < 0.8)
    qrels = Qrels(
        [f"q{q}" for q, _ in judged], [f"D{d:02d}" for _, d in judged], y[tuple(judged.T)]
    )
    return runs, qrels


def write_files(runs, qrels):
    """Write runs and judgements, and return the names of the files of the runs."""
    for one in runs:
        write_run(f"{one.tag}.run", one)
    write_qrels("qrels", qrels)
    return [f"{one.tag}.run" for one in runs]


def test_files_and_objects_give_the_same(lists, here):
    runs, qrels = lists
    found, read = gather(runs, qrels), read_retrieved(write_files(runs, qrels), "qrels")
    assert read.names == found.names == ["a", "b", "c"]
    np.testing.assert_array_equal(read.scores, found.scores)
    np.testing.assert_array_equal(read.y, found.y)
    np.testing.assert_array_equal(read.doc_ids, found.doc_ids)
    for ours, theirs in zip(read.missed, found.missed, strict=True):
        np.testing.assert_array_equal(np.sort(ours), np.sort(theirs))


def test_a_table_with_a_column_per_retriever(lists, here):
    pd = pytest.importorskip("pandas")
    runs, qrels = lists
    columns = [
        pd.Series(one.scores, pd.MultiIndex.from_arrays([one.qid, one.doc_ids]), name=one.tag)
        for one in runs
    ]
    frame = pd.concat(columns, axis=1).rename_axis(["qid", "doc_id"]).reset_index()
    frame.to_csv("scores.csv", index=False)
    write_files(runs, qrels)
    np.testing.assert_array_equal(
        read_retrieved(["scores.csv"], "qrels").scores, gather(runs, qrels).scores
    )


@pytest.mark.parametrize("tag", ["a", "b"])
def test_metrics_are_those_of_a_written_run(lists, tag):
    runs, qrels = lists
    found = gather(runs, qrels)
    column = found.scores[:, found.names.index(tag)]
    metrics = ["map", "ndcg@10", "recall@5"]
    ours = found.measure(column, metrics, depth=None)
    theirs = evaluate_run(qrels, next(one for one in runs if one.tag == tag), metrics)
    for name in metrics:
        by_query = dict(zip(theirs.query_ids, theirs.per_query[name], strict=True))
        np.testing.assert_allclose(
            ours.per_query[name], [by_query[q] for q in ours.query_ids], atol=1e-12
        )


def test_held_out_rankings_are_written_and_measured_alike(lists, here):
    runs, qrels = lists
    fused = fuse(gather(runs, qrels), folds=3, depth=20)
    write_run("out.run", fused.out_run())
    again = evaluate_run(qrels, read_run("out.run"), ["map"]).mean["map"]
    full = fuse(gather(runs, qrels), folds=3).rankings[0].evaluation.mean["map"]
    assert again == pytest.approx(full)


def test_the_best_retriever_counts_most_and_folds_do_not_see_their_queries(lists):
    runs, qrels = lists
    found = gather(runs, qrels)
    fused = fuse(found, folds=3)
    assert max(fused.as_dict(), key=fused.as_dict().get) == "b"
    assert fused.weights.min() >= 0
    means = {one.name: one.evaluation.mean["map"] for one in fused.rankings}
    assert means["fused"] > means["RRF"]
    # Other labels in the queries of fold 0 change the weights of the other folds only.
    fold = np.repeat(np.arange(found.n_queries) % 3, np.diff(found.query_ptr))
    found.y[fold == 0] = 2 - found.y[fold == 0]
    changed = fuse(found, folds=3).fold_weights
    np.testing.assert_allclose(changed[0], fused.fold_weights[0])
    assert not np.allclose(changed[1], fused.fold_weights[1])


def test_kinds_of_weights(lists):
    runs, qrels = lists
    every = [(f"q{q}", f"D{d:02d}") for q in range(12) for d in range(40)]
    label = dict(zip(zip(qrels.qid, qrels.doc_ids, strict=True), qrels.y, strict=True))
    noise = np.random.default_rng(2).normal(size=len(every))
    worse = [noise[k] - label.get(key, 0.0) for k, key in enumerate(every)]
    bad = Run([qid for qid, _ in every], [doc for _, doc in every], worse, "bad")
    found = gather([*runs, bad], qrels)
    X = Normalizer().apply(found.scores, found.query_ptr)
    simplex = Fusion(weights="simplex").train(found, X)
    assert simplex.min() >= 0
    assert simplex.sum() == pytest.approx(1.0)
    assert Fusion(weights="free").train(found, X)[3] < 0


def test_a_run_of_equal_scores_is_ranked_by_its_ranks(here):
    Path("a.run").write_text("1 Q0 A 2 0 x\n1 Q0 B 1 0 x\n")
    Path("b.run").write_text("1 Q0 A 1 2 x\n1 Q0 B 2 1 x\n")
    Path("qrels").write_text("1 0 B 1\n")
    found = read_retrieved(["a.run", "b.run"], "qrels")
    assert found.notes == ["a has one score for all documents; its ranks are used instead"]
    assert found.ranks[:, 0].tolist() == [1, 2]  # B comes first: ids are in descending order


def test_what_is_wrong_with_runs_is_said(lists):
    runs, qrels = lists
    more = Run(["q0", "x1"], ["D00", "D01"], [1.0, 1.0], "flat")
    below = Run(runs[0].qid, runs[0].doc_ids, runs[0].scores - runs[0].scores.mean(), "below")
    note = next(one for one in gather([*runs, below], qrels).notes if one.startswith("below"))
    assert note.startswith("below has negative scores, which the normalisers none and l2 count as")
    same = Run(runs[0].qid, runs[0].doc_ids, runs[0].scores, "same")
    notes = gather([*runs, more, same], qrels).notes
    assert "1 query without judgements: left out" in notes
    assert "flat has the same score everywhere, so it cannot rank" in notes
    assert "same and a are the same run; use one of them" in notes
    with pytest.raises(DataError, match="named 'a'"):
        gather([runs[0], runs[0]], qrels)
    with pytest.raises(DataError, match="at least two runs"):
        gather(runs[:1], qrels)
    with pytest.raises(DataError, match="no query of the runs is judged: the first is 'q0'"):
        gather(runs, Qrels(["z"], ["D00"], [1]))
    with pytest.raises(DataError, match="20 folds cannot be made"):
        fuse(gather(runs, qrels), folds=20)
    useless = Qrels(runs[1].qid, runs[1].doc_ids, -runs[1].scores)
    with pytest.raises(DataError, match="larger scores are better"):
        fuse(gather([runs[1], Run(runs[1].qid, runs[1].doc_ids, runs[1].scores, "b2")], useless))


def test_resampled_weights_are_those_of_repeated_queries(lists):
    runs, qrels = lists
    found = gather(runs, qrels)
    X = Normalizer().apply(found.scores, found.query_ptr)
    ours = Fusion().resample(found, X, n=2, seed=5)
    q = found.n_queries
    counts = np.random.default_rng(5).multinomial(q, np.full(q, 1 / q), size=2)
    for weights, count in zip(ours, counts, strict=True):
        copies = [
            (one, copy, n)
            for one in (*runs, qrels)
            for copy in range(count.max())
            for n, qid in enumerate(one.qid)
            if copy < count[sorted(set(qrels.qid)).index(qid)]
        ]
        named = {
            one: (
                [f"{one.qid[n]}-{copy}" for owner, copy, n in copies if owner is one],
                [one.doc_ids[n] for owner, copy, n in copies if owner is one],
                np.array([(one.y if one is qrels else one.scores)[n]
                          for owner, copy, n in copies if owner is one]),
            )
            for one in (*runs, qrels)
        }  # fmt: skip
        repeated = gather([Run(*named[one], one.tag) for one in runs], Qrels(*named[qrels]))
        Z = Normalizer().apply(repeated.scores, repeated.query_ptr)
        np.testing.assert_allclose(weights, Fusion().train(repeated, Z), atol=0.01)


def test_certainty_grows_with_the_queries():
    rng = np.random.default_rng(0)
    few, many = (certainty(0.1 + rng.normal(size=n)) for n in (10, 4000))
    assert many.probability > 0.999
    assert few.probability < many.probability
    assert many.n_needed == pytest.approx(1.645**2 * 100, rel=0.5)
    assert certainty(np.array([-1.0, -2.0])).n_needed is None


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            "1 Q0 A 1 2.0 x\n1 Q0 A 2 1.0 x\n",
            "a.run:2: document 'A' of query '1' is also on line 1",
        ),
        ("1 Q0 A 1 2.0 x\n\n1 Q0 B 2 nan x\n", "a.run:3: the score is 'nan'"),
        ("1 Q0 A 1 2.0 x\n1 Q0 B 2\n", "a.run:2: the line has 4 words but 6 are expected"),
    ],
)
def test_bad_lines_are_named(here, content, words):
    Path("a.run").write_text(content)
    Path("b.run").write_text("1 Q0 A 1 2 x\n")
    Path("qrels").write_text("1 0 A 1\n")
    assert words in error_of("fuse", "a.run", "b.run", "--qrels", "qrels")


def test_tables_of_words_are_split_and_numbered(here):
    text = "1 Q0 ä 1 1e3 t\r\n\n\t2  Q0 b 2 -0.25 t\n1 Q0 b 3 +12345678901234567890.5 t"
    Path("a").write_text(text, newline="")
    table = read_word_table("a", 6, RUN)
    lines = [line.split() for line in text.splitlines() if line.split()]
    assert [[table.word(r, c) for c in range(6)] for r in range(3)] == lines
    assert table.lines.tolist() == [1, 3, 4]
    assert table.numbers(4, "the score").tolist() == [float(line[4]) for line in lines]
    docs = number_columns([(table, 2), (table, 2)])
    assert docs.names.tolist() == ["ä".encode(), b"b"]
    assert [codes.tolist() for codes in docs.codes] == [[0, 1, 1], [0, 1, 1]]


def test_the_command_says_what_python_finds(lists, here):
    runs, qrels = lists
    files = write_files(runs, qrels)
    found = run_json("fuse", *files, "--qrels", "qrels", "--folds", "3", "--out-run", "out.run")
    fused = fuse(gather(runs, qrels), folds=3)
    assert found["weights"] == pytest.approx(fused.as_dict())
    assert found["rankings"]["RRF"]["map"] == fused.rankings[2].evaluation.mean["map"]
    assert len(read_run("out.run")) == len(fused.retrieved.y)
    more = ("--qrels", "qrels", "--folds", "3", "--normalizer", "rrf", "--resamples", "3")
    text = run("fuse", *files, *more).stdout
    assert "equal weights" in text
    assert "win/tie/loss" in text


def engine_scores(target, request, lists, name, k):
    """Fuse lists as an engine does that is given a request: a dict of fused scores."""
    if target == "python":
        space = {}
        exec(request, space)
        return space["fuse"](lists)
    if target == "vespa":  # all documents have all features, which are 0 if they do not match
        docs = set().union(*lists.values())
        lists = {n: {d: s.get(d, 0.0) for d in docs} if name != "rrf" else s
                 for n, s in lists.items()}  # fmt: skip
        terms = re.findall(r"([0-9.e-]+) \* (\w+)\((\w+)(?:, (\d+))?\)", request)
        assert {(form, float(c or k)) for _, form, _, c in terms} == {
            ("reciprocal_rank" if name == "rrf" else "normalize_linear", k)
        }
        weights = {retriever: float(w) for w, _, retriever, _ in terms}
    else:
        found = json.loads(request)
        if target == "elasticsearch":
            kind = "rrf" if name == "rrf" else "linear"
            parts = found["retriever"][kind]["retrievers"]
            assert kind == "linear" or found["retriever"]["rrf"]["rank_constant"] == k
            weights = {part["retriever"].strip("<>"): part["weight"] for part in parts}
        elif target == "opensearch":
            (processor,) = found["phase_results_processors"]
            shares = processor["normalization-processor"]["combination"]["parameters"]["weights"]
            assert sum(shares) == pytest.approx(1.0, abs=1e-9)
            weights = dict(zip(lists, shares, strict=True))
        elif target == "weaviate":
            alpha = found["hybrid"]["alpha"]
            weights = dict(zip(lists, [1 - alpha, alpha], strict=True))
        else:
            places = {f"$score[{n}]": part["query"].strip("<>")
                      for n, part in enumerate(found["prefetch"])}  # fmt: skip
            terms = found["query"]["formula"]["sum"]
            weights = {places[term["mult"][1]]: term["mult"][0] for term in terms}
    fused = {}
    for retriever, weight in weights.items():
        if lists[retriever]:
            values = slow_normalizer(name, lists[retriever], k)
            for doc in lists[retriever]:
                fused[doc] = fused.get(doc, 0.0) + weight * values[doc]
    return fused


@pytest.mark.parametrize(
    ("target", "name"), [(target, name) for target, (_, known) in TARGETS.items() for name in known]
)
def test_engines_rank_as_linrank_does(target, name):
    rng = np.random.default_rng(3)
    weights = {"bm25": 0.5, "vector": 1.25} | ({} if target == "weaviate" else {"splade": 2.0})
    k = 59.0 if target == "weaviate" and name == "rrf" else 60.0
    scores = rng.exponential(size=(80, len(weights)))
    scores[rng.random(scores.shape) < 0.4] = np.nan
    ptr = np.array([0, 30, 31, 80])
    ours = Normalizer(name, k).apply(scores, ptr) @ np.array(list(weights.values()))
    request = write_request(target, weights | {"unused": 0.0} if len(weights) > 2 else weights,
                            Normalizer(name, k))  # fmt: skip
    for first, last in pairwise(ptr):
        lists = {
            retriever: {d: s for d, s in enumerate(column.tolist()) if not np.isnan(s)}
            for retriever, column in zip(weights, scores[first:last].T, strict=True)
        }
        theirs = engine_scores(target, request, lists, name, k)
        order = sorted(theirs, key=lambda doc: -theirs[doc])
        size = sum(weights.values()) if target in ("opensearch", "weaviate") else 1.0
        scaled = [theirs[doc] * size for doc in order]
        np.testing.assert_allclose(scaled, ours[first + np.array(order)], atol=2e-5)
        assert np.diff(ours[first + np.array(order)]).max(initial=0.0) < 2e-5


@pytest.mark.parametrize(
    ("target", "weights", "name", "words"),
    [
        ("vespa", {"a": 1.0, "b": 1.0}, "dbsf", "Learn the weights with 'minmax-vespa' or 'rrf'"),
        ("qdrant", {"a": 1.0, "b": -1.0}, "none", "but that of 'b' is negative"),
        ("weaviate", {"a": 1.0, "b": 1.0, "c": 1.0}, "minmax", "fuses two retrievers"),
        ("weaviate", {"a": 1.0, "b": 1.0}, "rrf", "has the rank constant 59"),
    ],
)
def test_what_an_engine_cannot_do_is_said(target, weights, name, words):
    with pytest.raises(DataError, match=re.escape(words)):
        write_request(target, weights, Normalizer(name))


def test_the_command_prints_a_request(lists, here):
    files = write_files(*lists)
    found = run_json("fuse", *files, "--qrels", "qrels", "--for", "elasticsearch")
    parts = json.loads(found["request"])["retriever"]["linear"]["retrievers"]
    assert {part["retriever"]: part["normalizer"] for part in parts}["<b>"] == "minmax"
