"""TREC files on the command line."""

from __future__ import annotations

from pathlib import Path

import ir_measures
import numpy as np
import pytest

from commandline import error_of, run, run_json
from linrank import LinearModel, RankSVM, evaluate, join_qrels, make_ranking, read_letor, read_qrels
from linrank.data.trec import judge


@pytest.fixture
def files(here):
    """Features without labels and with document ids, and judgements of most documents."""
    data = make_ranking(n_queries=12, docs_per_query=9, n_features=4, random_state=0)
    rng = np.random.default_rng(0)
    lines, qrels = [], []
    for row, (x, y, q) in enumerate(zip(data.X.tolist(), data.y, data.qid, strict=True)):
        features = " ".join(f"{f}:{v!r}" for f, v in enumerate(x, 1))
        lines.append(f"0 qid:{q} {features} # docid = D{row:03d}")
        if rng.random() < 0.8:
            qrels.append(f"{q} 0 D{row:03d} {y:g}")
    Path("features.txt").write_text("\n".join(lines) + "\n")
    Path("qrels.txt").write_text("\n".join(qrels) + "\n")
    return read_letor("features.txt"), read_qrels("qrels.txt")


def test_labels_come_from_judgements(files):
    data, qrels = files
    n_unjudged = data.n_docs - int(judge(data, qrels).known.sum())
    text = run("train", "features.txt", "--qrels", "qrels.txt", "--C", "1", "--tol", "1e-6").stdout
    assert f"{len(qrels)} judgements, {n_unjudged} of {data.n_docs} documents not judged" in text
    joined = join_qrels(data, qrels)
    ranker = RankSVM(C=1, tol=1e-6).fit(joined.X, joined.y, qid=joined.qid)
    np.testing.assert_array_equal(LinearModel.load("model.json").coef, ranker.coef_)

    found = run_json("evaluate", "features.txt", "model.json", "--qrels", "qrels.txt")
    expected = evaluate(joined.y, ranker.predict(joined.X), joined.qid)
    assert found["metrics"]["ndcg@10"]["mean"] == expected.mean["ndcg@10"]
    assert found["qrels"] == {
        "file": "qrels.txt", "judgements": len(qrels), "documents": data.n_docs,
        "unjudged": n_unjudged,
    }  # fmt: skip
    levels = run_json("inspect", "features.txt", "--qrels", "qrels.txt")["levels"]
    assert {level["label"]: level["documents"] for level in levels} == {
        label: int((joined.y == label).sum()) for label in np.unique(joined.y)
    }


def test_judgements_hold_for_the_held_out_data_too(files):
    found = run_json("train", "features.txt", "--valid", "features.txt", "--qrels", "qrels.txt")
    assert found["qrels"]["documents"] == 2 * files[0].n_docs
    assert found["held_out"]["mean"] > 0.5


def test_a_run_is_evaluated_with_the_numbers_of_trec_eval(files):
    data, _ = files
    run("train", "features.txt", "--qrels", "qrels.txt")
    run("predict", "model.json", "features.txt", "--format", "trec", "--tag", "mine", "--out", "r")
    scores = LinearModel.load("model.json").predict(data.X)
    lines = [line.split() for line in Path("r").read_text().splitlines()]
    assert {line[2]: float(line[4]) for line in lines} == dict(
        zip(data.doc_ids, scores.tolist(), strict=True)
    )
    assert {line[5] for line in lines} == {"mine"}
    assert [int(line[3]) for line in lines] == list(range(1, 10)) * 12
    assert run("predict", "model.json", "features.txt", "--format", "trec").stdout.splitlines() == [
        " ".join([*line[:5], "linrank"]) for line in lines
    ]

    names = {"ndcg@5": "nDCG@5", "map": "AP", "recall@3": "R@3"}
    found = run_json("evaluate", "qrels.txt", "r", "--metrics", ",".join(names), "--per-query", "q")
    measures = {name: ir_measures.parse_measure(theirs) for name, theirs in names.items()}
    expected = ir_measures.calc_aggregate(
        measures.values(),
        ir_measures.read_trec_qrels("qrels.txt"),
        ir_measures.read_trec_run("r"),
    )
    assert found["flavour"] == "trec"
    for name, measure in measures.items():
        assert found["metrics"][name]["mean"] == pytest.approx(expected[measure])
    rows = Path("q").read_text().splitlines()
    assert rows[0] == "qid,ndcg@5,map,recall@3"
    assert {row.split(",")[0] for row in rows[1:]} == {str(q) for q in data.query_ids}


def test_the_flavour_of_a_run_can_be_chosen(here):
    Path("qrels").write_text("1 0 A 1\n2 0 B 1\n")
    Path("run").write_text("1 Q0 B 1 2 t\n1 Q0 A 2 2 t\n3 Q0 A 1 2 t\n")
    text = run("evaluate", "qrels", "run", "--metrics", "mrr").stdout
    assert "1 query not in the run, counted as 0" in text
    assert "1 query without judgements, ignored" in text
    for flavour, mean in (("standard", 0.375), ("trec", 0.25)):
        found = run_json("evaluate", "qrels", "run", "--metrics", "mrr", "--flavour", flavour)
        assert found["flavour"] == flavour
        assert found["metrics"]["mrr"]["mean"] == mean


def test_files_that_do_not_belong_together_get_a_sentence(files):
    run("train", "features.txt", "--qrels", "qrels.txt")
    Path("run").write_text("1 Q0 D000 1 2 t\n")
    assert "qrels.txt: is a qrels file, but model.json is not a run" in error_of(
        "evaluate", "qrels.txt", "model.json"
    )
    assert "run: is a run file, but features.txt is not a qrels file" in error_of(
        "evaluate", "features.txt", "run"
    )
    Path("plain.txt").write_text("1 qid:1 1:1 2:1 3:1 4:1\n0 qid:1 1:2 2:1 3:1 4:1\n")
    sentence = "plain.txt: the data has no document ids. Add them to each line as a comment"
    assert sentence in error_of("predict", "model.json", "plain.txt", "--format", "trec")
    assert sentence in error_of("train", "plain.txt", "--qrels", "qrels.txt")
    result = run("train", "features.txt", "--qrels", "qrels.txt", "--dask", "local", code=2)
    assert "--qrels needs all rows in this process" in result.stderr
    result = run("evaluate", "qrels.txt", "run", "--qrels", "qrels.txt", code=2)
    assert "holds judgements already" in result.stderr
