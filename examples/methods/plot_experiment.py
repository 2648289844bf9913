"""
How do I run an experiment with LETOR files and TREC runs?
==========================================================

Papers on learning to rank use the folders of LETOR, judgements and runs of TREC, and a set of
baselines. This page goes through such an experiment: read a fold, choose ``C`` on the validation
part, evaluate several methods on the test part, and write files that ``trec_eval`` understands.
"""

# %%
# A fold
# ------
# A fold is a folder with train.txt, vali.txt and test.txt. A line has the label, the query, the
# features, and often a document id as a comment: ``2 qid:10 1:0.5 2:0.25 # docid = A``. We write a
# generated fold. With MQ2007 or MSLR-WEB10K, use one of their folders instead.
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from linrank import (
    Qrels,
    RankingData,
    RankSVMCV,
    Run,
    evaluate,
    evaluate_run,
    make_ranking,
    read_letor,
    read_qrels,
    read_run,
    write_letor,
    write_qrels,
    write_run,
)
from linrank.baselines.methods import make_ranker

plt.style.use("linrank.style")
fold = Path(tempfile.mkdtemp())
made = make_ranking(180, (15, 25), 12, n_levels=3, noise=1.0, n_informative=4, random_state=0)
for part, name in enumerate(("train", "vali", "test")):
    rows = np.flatnonzero((made.qid - 1) // 60 == part)  # 60 queries each
    ids = [f"doc-{row}" for row in rows]
    part_of_made = RankingData(made.X[rows], made.y[rows], made.qid[rows], doc_ids=ids)
    write_letor(fold / f"{name}.txt", part_of_made)

train, vali, test = (read_letor(fold / f"{name}.txt") for name in ("train", "vali", "test"))
print(f"train: {train.n_docs} documents, {train.n_queries} queries, {train.n_features} features")

# %%
# Methods
# -------
# ``C`` is chosen on the validation part. The baselines have names, which are the same on the
# command line: ``linrank train Fold1 --method rankboost:n_rounds=50``.
methods = {"ranksvm": RankSVMCV(metric="ndcg@10").fit(train, valid=vali)}
for text in ("svr", "pamir", "rankboost:n_rounds=50", "adarank"):
    methods[text] = make_ranker(text).fit(train.X, train.y, qid=train.qid)
print(f"RankSVM: C = {methods['ranksvm'].C_:g}")

# %%
# NDCG at each cutoff
# -------------------
# All metrics are computed with one sort of the documents.
cutoffs = range(1, 16)
wanted = [f"ndcg@{k}" for k in cutoffs]
fig, ax = plt.subplots()
table = {}
for (name, method), marker in zip(methods.items(), "osD^v", strict=True):
    scores = method.predict(test.X)
    table[name] = evaluate(test.y, scores, test.qid, [*wanted, "map"]).mean
    ax.plot(cutoffs, [table[name][k] for k in wanted], f"{marker}-", markersize=4, label=name)
ax.set(title="NDCG of the test part", xlabel="cutoff k", ylabel="mean NDCG@k")
ax.set_xticks([1, 5, 10, 15])
ax.legend(title="method", loc="upper left", bbox_to_anchor=(1.01, 1.0))
plt.show()

for name, values in table.items():
    print(f"{name:22s} NDCG@10 {values['ndcg@10']:.4f}  MAP {values['map']:.4f}")

# %%
# Conventions
# -----------
# NDCG has several definitions. ``flavour="letor4"`` follows the evaluation script of LETOR 4.0, and
# ``flavour="trec"`` follows ``trec_eval``. Compare a figure with a published one only if the
# convention is the same.
scores = methods["ranksvm"].predict(test.X)
for flavour in ("standard", "letor4", "trec"):
    value = evaluate(test.y, scores, test.qid, "ndcg@10", flavour=flavour).mean["ndcg@10"]
    print(f"NDCG@10 of the same scores, {flavour}: {value:.4f}")

# %%
# Files of TREC
# -------------
# A run has the documents of each query with their scores, and qrels have the judgements.
write_qrels(fold / "qrels.txt", Qrels(test.qid, test.doc_ids, test.y))
write_run(fold / "run.txt", Run(test.qid, test.doc_ids, scores, tag="ranksvm"))
print((fold / "run.txt").read_text().splitlines()[0])
judged, run = read_qrels(fold / "qrels.txt"), read_run(fold / "run.txt")
print(evaluate_run(judged, run, "ndcg@10, map, recall@5"))

# %%
# What to read next
# -----------------
# - :doc:`plot_compare_rankers` tests whether such differences are more than chance.
# - :doc:`../explaining/plot_sparse_path` selects features.
# - :func:`linrank.read_letor`, :func:`linrank.evaluate` and :func:`linrank.evaluate_run` list all
#   options.
