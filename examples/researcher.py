"""An experiment with LETOR files, judgements and runs of TREC, baselines and sparse models.

Run it with ``python examples/researcher.py``. It writes its files to the current folder. With
MQ2007 or MSLR-WEB10K, replace "Fold1" by one of their folders.
"""

from pathlib import Path

import numpy as np

from linrank import (
    Qrels,
    RankingData,
    RankSVM,
    RankSVMCV,
    Run,
    evaluate,
    evaluate_run,
    make_ranking,
    read_letor,
    read_qrels,
    read_run,
    sparse_path,
    write_letor,
    write_qrels,
    write_run,
)
from linrank.methods import make_ranker

# A fold of a LETOR data set is a folder with train.txt, vali.txt and test.txt. A document id is a
# comment, as in "2 qid:10 1:0.5 2:0.25 # docid = A".
fold = Path("Fold1")
fold.mkdir(exist_ok=True)
made = make_ranking(180, (8, 15), 12, n_levels=3, noise=1.0, n_informative=4, random_state=0)
for part, name in enumerate(("train", "vali", "test")):
    rows = np.flatnonzero((made.qid - 1) // 60 == part)  # 60 queries each
    ids = [f"doc-{row}" for row in rows]
    part_of_made = RankingData(made.X[rows], made.y[rows], made.qid[rows], doc_ids=ids)
    write_letor(fold / f"{name}.txt", part_of_made)
train, vali, test = (read_letor(fold / f"{name}.txt") for name in ("train", "vali", "test"))
print(f"train: {train.n_docs} documents, {train.n_queries} queries, {train.n_features} features")

# C is chosen on the validation data. The metric and its conventions are those of the report.
ranker = RankSVMCV(metric="ndcg@10").fit(train, valid=vali)
print(f"RankSVM with C = {ranker.C_:g}: NDCG@10 = {ranker.score(test):.4f}")

# A run and the judgements as files. `evaluate_run` follows trec_eval: the gain is the label, and
# queries without any retrieved document count as 0.
write_qrels("qrels.txt", Qrels(test.qid, test.doc_ids, test.y))
write_run("run.txt", Run(test.qid, test.doc_ids, ranker.predict(test), tag="ranksvm"))
print(evaluate_run(read_qrels("qrels.txt"), read_run("run.txt"), "ndcg@10, map, recall@5"))

# The same scores under other conventions: those of Microsoft's script for LETOR 4.0.
letor4 = evaluate(test.y, ranker.predict(test), test.qid, "mean-ndcg", flavour="letor4")
print(f"mean NDCG of LETOR 4.0: {letor4.mean['mean-ndcg']:.4f}")

# How many features are needed? The path goes from no feature to all of them, with warm starts.
path, values = sparse_path(train, "l1", valid=vali)
close = next(k for k, value in enumerate(values) if value >= max(values) - 0.005)
print(f"{path.n_features[close]} of {train.n_features} features are within 0.005 of the best NDCG")

# Baselines by name, as on the command line: linrank train Fold1 --method rankboost:n_rounds=50.
table = {"ranksvm": ranker}
for text in ("svr", "pamir", "rankboost:n_rounds=50", "adarank"):
    table[text] = make_ranker(text).fit(train.X, train.y, qid=train.qid)
for name, method in table.items():
    found = evaluate(test.y, method.predict(test.X), test.qid, "ndcg@10, map")
    print(f"{name:24s} NDCG@10 {found.mean['ndcg@10']:.4f}  MAP {found.mean['map']:.4f}")

# Ablation: the pairwise losses with the same C.
for loss in ("squared_hinge", "hinge", "logistic"):
    score = RankSVM(C=ranker.C_, loss=loss, max_iter=5000).fit(train).score(test)
    print(f"loss {loss:19s} NDCG@10 {score:.4f}")
