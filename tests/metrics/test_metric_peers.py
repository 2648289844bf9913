"""Metrics against scipy.stats and against ir_measures (trec_eval and cwl_eval)."""

from __future__ import annotations

import ir_measures
import numpy as np
import pytest
from scipy import stats

from linrank.metrics import evaluate, kendall, spearman
from reference import IR_MEASURES


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("levels", [2, 5, 10_000])
def test_correlations_agree_with_scipy(seed, levels):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(4, 60, 12)
    qid = np.repeat(np.arange(len(sizes)), sizes)
    y = rng.integers(0, levels, len(qid))
    scores = y + rng.normal(0, levels, len(qid)) if seed % 2 else rng.integers(0, 7, len(qid))
    peers = {spearman: stats.spearmanr, kendall: stats.kendalltau}
    for ours, theirs in peers.items():
        values = ours(y, scores, qid, per_query=True)
        for q, value in enumerate(values):
            labels, s = y[qid == q], scores[qid == q]
            if len(set(labels)) > 1 and len(set(s)) > 1:
                assert value == pytest.approx(theirs(labels, s).statistic, abs=1e-12)


@pytest.mark.parametrize("tied", [False, True], ids=["distinct", "tied"])
@pytest.mark.parametrize("levels", [2, 4])
def test_flavour_trec_agrees_with_ir_measures(tied, levels):
    rng = np.random.default_rng(levels + 10 * tied)
    qid = np.repeat(np.arange(15), rng.integers(1, 40, 15))
    y = rng.integers(0, levels, len(qid)) * (rng.random(len(qid)) < 0.4)
    scores = rng.integers(0, 6, len(qid)) if tied else rng.permutation(len(qid))
    # The programs that ir_measures calls break ties in different ways, so that RBP is left out.
    names = {ours: theirs for ours, theirs in IR_MEASURES.items() if not (tied and "rbp" in ours)}
    docs = [f"d{number:03d}" for number in rng.permutation(len(qid))]
    found = evaluate(y, scores, qid, names, flavour="trec", doc_ids=docs)
    rows = list(zip(map(str, qid), docs, y.tolist(), scores.tolist(), strict=True))
    qrels = [ir_measures.Qrel(q, doc, label) for q, doc, label, _ in rows]
    run = [ir_measures.ScoredDoc(q, doc, float(score)) for q, doc, _, score in rows]
    measures = {name: ir_measures.parse_measure(theirs) for name, theirs in names.items()}
    expected = ir_measures.calc_aggregate(measures.values(), qrels, run)
    for name, measure in measures.items():
        assert found.mean[name] == pytest.approx(expected[measure], rel=1e-6), name
