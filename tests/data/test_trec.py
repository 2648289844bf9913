"""TREC files: reading, writing, joining with features, and the numbers of trec_eval."""

from __future__ import annotations

import gzip
import math
import re

import ir_measures
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import linrank
from linrank import (
    DataError,
    FileFormatError,
    Qrels,
    RankingData,
    Run,
    evaluate,
    evaluate_run,
    join_qrels,
    read_qrels,
    read_run,
    write_qrels,
    write_run,
)
from linrank.data import source, trec
from reference import IR_MEASURES

close = pytest.approx
WORDS = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=6).filter(
    lambda text: len(text.encode().split()) == 1 == len(text.split())
)


@st.composite
def tables(draw, numbers):
    keys = draw(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=20, unique=True))
    values = draw(st.lists(numbers, min_size=len(keys), max_size=len(keys)))
    qid, docs = zip(*keys, strict=True)
    return list(qid), list(docs), values


# Files.


@given(table=tables(st.integers(-2, 4) | st.floats(-1e300, 1e300)))
@settings(max_examples=60, deadline=None)
def test_qrels_are_read_as_they_were_written(table, tmp_path_factory):
    path = tmp_path_factory.mktemp("trec") / "qrels.txt"
    write_qrels(path, Qrels(*table))
    found = read_qrels(path)
    assert (found.qid, found.doc_ids, found.y.tolist()) == table
    expected = [line.split() for line in path.read_text(encoding="utf-8").split("\n")[:-1]]
    assert expected == [[q, "0", d, w[3]] for q, d, w in zip(*table[:2], expected, strict=True)]


@given(table=tables(st.floats(allow_nan=False, allow_infinity=False)))
@settings(max_examples=60, deadline=None)
def test_runs_are_written_by_rank_and_scores_keep_every_bit(table, tmp_path_factory):
    path = tmp_path_factory.mktemp("trec") / "run.txt"
    write_run(path, Run(*table, tag="mine"))
    qid, docs, scores = table
    queries = list(dict.fromkeys(qid))
    expected = []
    for query in queries:
        rows = [i for i, q in enumerate(qid) if q == query]
        rows.sort(key=lambda i: -scores[i])
        expected += [(query, docs[i], rank, scores[i]) for rank, i in enumerate(rows, 1)]
    lines = [line.split() for line in path.read_text(encoding="utf-8").split("\n")[:-1]]
    assert [(q, doc, int(r), float(s)) for q, _, doc, r, s, _ in lines] == expected
    found = read_run(path)
    assert found.scores.tolist() == [score for *_, score in expected]
    assert (found.qid, found.doc_ids) == ([w[0] for w in expected], [w[1] for w in expected])
    assert found.tag == "mine"


def test_long_and_compressed_files(tmp_path, monkeypatch):
    monkeypatch.setattr(source, "CHUNK_BYTES", 256)
    n = 500
    run = Run([f"q{i % 7}" for i in range(n)], [f"d{i}" for i in range(n)], np.arange(n) / 3)
    for name in ("run.txt", "run.txt.gz"):
        write_run(tmp_path / name, run)
        found = read_run(tmp_path / name)
        assert len(found) == n
        assert dict(zip(found.doc_ids, found.scores, strict=True)) == dict(
            zip(run.doc_ids, run.scores, strict=True)
        )
    with gzip.open(tmp_path / "run.txt.gz", "rt") as file:
        assert len(file.readlines()) == n


def test_blanks_and_empty_lines_do_not_matter(tmp_path):
    path = tmp_path / "qrels.txt"
    path.write_bytes(b"\xef\xbb\xbf\n 1\t0  A 2 \r\n\n\n1 0 B 0")
    found = read_qrels(path)
    assert (found.qid, found.doc_ids, found.y.tolist()) == (["1", "1"], ["A", "B"], [2, 0])


@pytest.mark.parametrize(
    ("read", "text", "sentence"),
    [
        (read_qrels, b"1 0 A 1\n\n1 0 B\n", ":3: the line has 3 words but 4 are expected"),
        (read_qrels, b"1 0 A x\n", ":1: the label is 'x'; expected a finite number"),
        (read_qrels, b"\n1 0 A nan\n", ":2: the label is 'nan'"),
        (read_qrels, b"1 0 A 1_0\n", ":1: the label is '1_0'; expected a finite number"),
        (read_run, b"1 Q0 A 1 1_0 t\n", ":1: the score is '1_0'; expected a finite number"),
        (read_qrels, b"1 0 A 1\n2 0 A 1\n1 0 A 0\n", ":3: document 'A' of query '1' is also on "),
        (read_qrels, b"1 0 A\xff 1\n", ":1: b'A\\xff' is not valid UTF-8"),
        (read_qrels, b"", "the file is empty; expected lines such as '301 0 FBIS3-10082 1'"),
        (read_qrels, b" \n\n", "the file has no lines; expected lines such as '301"),
        (read_run, b"1 0 A 1\n", ":1: the line has 4 words but 6 are expected"),
        (read_run, b"1 Q0 A 1 2.5 t\n1 Q0 B 2 inf t\n", ":2: the score is 'inf'"),
        (read_run, b"1 Q0 A 1 2.5 t\n1 Q0 A 2 1 t\n", ":2: document 'A' of query '1' is also"),
    ],
)  # fmt: skip
def test_bad_files_get_a_sentence(read, text, sentence, tmp_path):
    path = tmp_path / "file.txt"
    path.write_bytes(text)
    with pytest.raises(FileFormatError, match=re.escape(sentence)) as error:
        read(path)
    assert str(error.value).startswith(str(path))


def test_a_missing_file_gets_a_sentence(tmp_path):
    with pytest.raises(FileFormatError, match="no such file; expected a run file"):
        read_run(tmp_path / "no")


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda path: Qrels(["1"], ["A", "B"], [1, 2]), "qid has 1 entries but doc_ids has 2"),
        (lambda path: Qrels(["1"], ["A"], [1, 2]), "y has shape (2,) but qid has 1 rows"),
        (lambda path: Run(["1"], ["A"], [math.nan]), "scores[0] is nan"),
        (lambda path: write_run(path, Run(["1"], ["A B"], [1])), "'A B' cannot be written"),
        (lambda path: write_run(path, Run(["1"], ["A"], [1], tag="")), "ids and tags without blan"),
        (lambda path: write_qrels(path, Qrels(["1\n"], ["A"], [1])), "'1\\n' cannot be written"),
    ],
)
def test_bad_arguments_get_a_sentence(call, sentence, tmp_path):
    with pytest.raises(DataError, match=re.escape(sentence)):
        call(tmp_path / "file.txt")


@pytest.mark.parametrize(
    ("text", "is_qrels", "is_run"),
    [
        ("301 0 FBIS3 1\n", True, False),
        ("\n q Q0 d 1\n", True, False),
        ("301 Q0 FBIS3 1 12.5 tag\n", False, True),
        ("2 qid:10 1:0.5 2:0.25\n", False, False),
        ("2 1:0.5 # 7\n", False, False),
        ("2 1:0.5 2:1 3:1\n", False, False),
        ("0.5\n", False, False),
        ('{"kind": "model"}\n', False, False),
        ("", False, False),
    ],
)
def test_files_are_recognised_by_their_first_line(text, is_qrels, is_run, tmp_path):
    path = tmp_path / "file.txt"
    path.write_text(text)
    assert (trec.looks_like_qrels(path), trec.looks_like_run(path)) == (is_qrels, is_run)
    assert not trec.looks_like_run(tmp_path)


# Judgements as labels.


@pytest.mark.parametrize("as_text", [False, True])
def test_judgements_become_labels(as_text):
    rng = np.random.default_rng(0)
    qid = rng.integers(0, 5, 40)  # rows are not grouped
    docs = [f"d{i % 13}" for i in range(40)]
    data = RankingData(np.eye(40), np.full(40, 7), [str(q) for q in qid] if as_text else qid,
                       doc_ids=docs)  # fmt: skip
    judged = {(str(q), doc): float(rng.integers(0, 4)) for q, doc in
              zip(qid[::2], docs[::2], strict=True)}  # fmt: skip
    qrels = Qrels([q for q, _ in judged], [doc for _, doc in judged], list(judged.values()))
    found = join_qrels(data, qrels)
    expected = [judged.get((str(q), doc), 0.0) for q, doc in zip(qid, docs, strict=True)]
    assert found.restore(found.y).tolist() == expected
    assert found.X is data.X
    assert data.y.tolist() == [7.0] * 40


@pytest.mark.parametrize("ids", [("7", "8"), ("07", "7")])
def test_query_ids_are_compared_as_text(tmp_path, ids):
    path = tmp_path / "features.txt"
    path.write_text(f"0 qid:{ids[0]} 1:1 # docid = A\n0 qid:{ids[1]} 1:2 # docid = A\n")
    qrels = Qrels(["07", "7", "8"], ["A", "A", "A"], [3, 1, 2])
    judged = {"07": 3, "7": 1, "8": 2}
    data = join_qrels(linrank.read_letor(path), qrels)
    assert data.restore(data.y).tolist() == [judged[name] for name in ids]


def test_query_ids_with_zeros_in_front_are_those_of_letor_files(tmp_path):
    path = tmp_path / "features.txt"
    path.write_text("0 qid:007 1:1 # docid = A\n0 qid:008 1:2 # docid = B\n")
    qrels = Qrels(["007", "topic"], ["A", "A"], [2, 1])
    assert join_qrels(linrank.read_letor(path), qrels).y.tolist() == [2, 0]


def test_data_that_cannot_be_joined_get_a_sentence():
    qrels = Qrels(["1"], ["A"], [1])
    with pytest.raises(DataError, match="the data has no document ids"):
        join_qrels(RankingData(np.eye(2), [0, 1]), qrels)
    with pytest.raises(DataError, match="no document of the data is judged: query 0 with docume"):
        join_qrels(RankingData(np.eye(2), [0, 1], doc_ids=["A", "B"]), qrels)


# Metrics.


def random_files(seed, *, tied):
    """Qrels and a run with unjudged, missing and tied documents, and missing queries."""
    rng = np.random.default_rng(seed)
    qrels, run = [], []
    for query in range(20):
        docs = [f"d{query}-{i}" for i in rng.permutation(30)]
        if query != 3:  # which has no judgements
            n = rng.integers(1, 25)
            qrels += [(f"q{query}", doc, int(rng.choice([0, 0, 0, 1, 2, 3]))) for doc in docs[:n]]
        if query not in (5, 6):  # which are not in the run
            chosen = rng.permutation(docs)[: rng.integers(1, 25)]
            scores = rng.integers(0, 4, 30) if tied else rng.normal(size=30)
            run += [
                (f"q{query}", str(doc), float(s)) for doc, s in zip(chosen, scores, strict=False)
            ]
    return qrels, run


@pytest.mark.parametrize("tied", [False, True], ids=["distinct", "tied"])
@pytest.mark.parametrize("seed", range(3))
def test_the_numbers_are_those_of_ir_measures(seed, tied):
    qrels, run = random_files(seed, tied=tied)
    names = {ours: theirs for ours, theirs in IR_MEASURES.items() if not (tied and "rbp" in ours)}
    measures = {ir_measures.parse_measure(theirs): ours for ours, theirs in names.items()}
    theirs = [ir_measures.Qrel(*row) for row in qrels], [ir_measures.ScoredDoc(*row) for row in run]
    expected = ir_measures.calc_aggregate(measures, *theirs)
    found = evaluate_run(Qrels(*zip(*qrels, strict=True)), Run(*zip(*run, strict=True)), names)
    assert found.n_queries == 19
    for measure, name in measures.items():
        assert found.mean[name] == close(expected[measure], rel=1e-6), name
    index = {query: i for i, query in enumerate(found.query_ids)}
    for metric in ir_measures.iter_calc(measures, *theirs):
        values = found.per_query[measures[metric.measure]]
        assert values[index[metric.query_id]] == close(metric.value, rel=1e-6), metric


def test_scores_are_compared_in_single_precision_as_in_trec_eval():
    qrels, run = Qrels(["1", "1"], ["a", "b"], [1, 0]), Run(["1", "1"], ["a", "b"], [1 + 1e-9, 1])
    assert evaluate_run(qrels, run, "mrr").mean["mrr"] == 0.5
    assert evaluate_run(qrels, run, "mrr", flavour="letor4").mean["mrr"] == 1
    huge = Run(["1", "1"], ["a", "b"], [-1e300, 1e300])
    assert evaluate_run(qrels, huge, "mrr").mean["mrr"] == 0.5


@pytest.mark.parametrize("flavour", ["standard", "letor4", "trec"])
def test_a_run_of_all_judged_documents_has_the_metrics_of_its_labels(flavour):
    rng = np.random.default_rng(1)
    qid, y, scores = rng.integers(0, 9, 90), rng.integers(0, 3, 90), rng.integers(0, 9, 90) / 4
    docs = [f"d{i}" for i in rng.permutation(90)]
    names = [name for name in linrank.metrics.metric_names() if name != "auc"] + ["p@3", "ndcg@4"]
    # Rows are in the order of judgements, which is the order of ties for other flavours.
    order = np.lexsort([np.array(docs)])[::-1]
    qid, y, scores, docs = qid[order], y[order], scores[order], [docs[i] for i in order]
    queries = [str(q) for q in qid]
    found = evaluate_run(
        Qrels(queries, docs, y), Run(queries, docs, scores), names, flavour=flavour
    )
    expected = evaluate(y, scores, qid, names, flavour=flavour, doc_ids=docs)
    assert found.mean == close(expected.mean, nan_ok=True)


def test_documents_that_are_not_listed_share_the_last_place():
    qrels = Qrels(["1"] * 4, list("abcd"), [1, 0, 0, 2])
    run = Run(["1", "1"], ["a", "b"], [2.0, 1.0])
    names = ["pairwise-accuracy", "strict-pairwise-accuracy", "kendall", "mean-ndcg", "p", "err"]
    found = evaluate_run(qrels, run, names).mean
    y, scores = [1, 0, 0, 2], [2.0, 1.0, 0.0, 0.0]
    assert found["pairwise-accuracy"] == close(linrank.pairwise_accuracy(y, scores))
    assert found["strict-pairwise-accuracy"] == close(linrank.strict_pairwise_accuracy(y, scores))
    assert found["kendall"] == close(linrank.kendall(y, scores))
    assert found["p"] == 0.5
    assert found["mean-ndcg"] == close((1 / 2 + 1 / (2 + 1 / math.log2(3))) / 2)
    assert found["err"] == close(1 / 4)


def test_a_run_of_other_queries_gets_a_sentence():
    with pytest.raises(DataError, match="the run has no query of the qrels: it begins with quer"):
        evaluate_run(Qrels(["1"], ["a"], [1]), Run(["2"], ["a"], [1.0]))
