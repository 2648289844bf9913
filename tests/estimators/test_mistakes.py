"""Mistakes of users, each with the sentence that it gets.

A sentence says what is wrong, where, and what to do. The table of Python holds the part of it that
decides; ``^`` stands for the beginning of the sentence. The table of commands holds all of it.
"""

from __future__ import annotations

import gzip
import os
import pickle
import re
import zipfile
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline

from commandline import run, write_text
from linrank import (
    AdditiveRanker,
    DataError,
    DominationRank,
    FeatureScaleWarning,
    ForgottenQueriesWarning,
    KernelRankSVM,
    LinearModel,
    NegativeLabelsWarning,
    NothingSelectedWarning,
    Qrels,
    QueryKFold,
    RankingData,
    RankSVM,
    RankSVMCV,
    SparseRankSVM,
    SwappedArgumentsWarning,
    UnnamedFeaturesWarning,
    evaluate,
    load,
    load_model,
    make_ranking,
    make_ranking_scorer,
    ndcg,
    read_letor,
)
from linrank.baselines import (
    PAMIR,
    PAMIRCV,
    FenchelRank,
    FSMRank,
    GASRanker,
    LinearSVRRanker,
    RankBoost,
)
from linrank.baselines.methods import make_ranker

NAMES = ["bm25", "clicks", "age", "price"]
DATA = make_ranking(30, 10, 4, n_levels=3, random_state=0)
X, Y, QID = DATA.X, DATA.y, DATA.qid
FRAME = pd.DataFrame(X, columns=NAMES)
TABLE = FRAME.assign(relevance=Y, query=QID, title="shoe")
HOLE, ENDLESS = X.copy(), X.copy()
HOLE[3, 1], ENDLESS[3, 1] = np.nan, np.inf
WORDS = ["good" if label else "bad" for label in Y]
HOTELS = [f"hotel {row}" for row in range(len(X))]


def ranker(**options):
    return RankSVM(C=0.01, **options)


def fit(*arguments, **more):
    """Fit a ranker with data; its parameters are those of RankSVM."""
    names = set(RankSVM().get_params())
    options = {name: more.pop(name) for name in names & more.keys()}
    return RankSVM(**{"C": 0.01} | options).fit(*arguments or (X, Y, QID), **more)


@cache
def fitted():
    return fit(X, Y, QID)


@cache
def named(**options):
    return fit(FRAME, Y, QID, **options)


def choose(**options):
    """Choose C on held-out data."""
    return RankSVMCV([0.01, 0.1], metric=options.pop("metric", "ndcg@10")).fit(X, Y, QID, **options)


def pairs(*given, **options):
    return ranker().fit_pairs(X, list(given), **options)


def from_frame(**columns):
    return RankingData.from_frame(TABLE, **{"label": "relevance", "qid": "query"} | columns)


def with_pca():
    pipe = make_pipeline(PCA(2), ranker()).fit(X, Y, ranksvm__qid=QID)
    return LinearModel.from_pipeline(pipe)


#: What a user did, in Python, and the decisive part of the sentence.
IN_PYTHON = {
    # Labels and queries
    "y and qid are swapped": (lambda: fit(X, QID, Y), "are swapped, use fit(X, y, qid)."),
    "query names as y": (
        lambda: fit(X, [f"q{q}" for q in QID], Y),
        "^y[0] is 'q1', but qid holds numbers. If y and qid are swapped, use fit(X, y, qid).",
    ),
    "labels are words": (
        lambda: fit(X, WORDS),
        "^y cannot be read as numbers: could not convert string to float: 'bad'. Replace words by "
        "numbers; a larger label is more relevant.",
    ),
    "labels are words, with qid": (
        lambda: fit(X, WORDS, QID), "Otherwise replace words by numbers"
    ),
    "no labels": (lambda: fit(X), "Pass the labels, as in fit(X, y, qid), or a RankingData"),
    "a file as X": (
        lambda: fit("train.txt"),
        "^X is the path 'train.txt'; expected features. Read the file first, as in "
        "fit(linrank.load('train.txt')).",
    ),
    "too few labels": (
        lambda: fit(X, Y[:-1], QID), "^y has shape (299,) but X has 300 rows; expected one label"
    ),
    "a label is missing": (
        lambda: fit(X, np.where(np.arange(300) == 7, np.nan, Y), QID),
        "^y[7] is nan; labels must be finite numbers. Use a number in its place, or remove the",
    ),
    "too few query ids": (lambda: fit(X, Y, QID[:-1]), "^qid has shape (299,) but X has 300 rows"),
    "qid forgotten in fit": (
        lambda: fit(np.tile(X, (4, 1)), np.tile(Y, 4)),
        "Pass qid, or qid=np.zeros(len(y)) for one query.",
    ),
    "qid forgotten in score": (
        lambda: fitted().score(X, Y), "^this ranker was fitted with qid, so score needs qid too."
    ),
    "qid forgotten in rank": (
        lambda: fitted().rank(X),
        "^this ranker was fitted with qid, so rank needs qid too. If all rows belong to one query, "
        "pass qid=np.zeros(X.shape[0]).",
    ),
    "y forgotten in score": (lambda: fitted().score(X, qid=QID), "Pass y."),
    "a query per document": (
        lambda: fit(X, Y, np.arange(300)),
        "(300 documents in 300 queries). Check the labels and the query ids.",
    ),
    "folds without queries": (lambda: list(QueryKFold(3).split(X, Y)), "Pass qid, or groups=qid."),
    # Habits of other libraries
    "group does not sum": (
        lambda: fit(X, Y, group=[10] * 29),
        "^group has 29 queries with 290 documents in total, but X has 300 rows.",
    ),
    "group is a qid": (lambda: fit(X, Y, group=QID), "like a query id per row: pass it as qid."),
    "qid and group": (
        lambda: fit(X, Y, qid=QID, group=[10] * 30),
        "^qid and group both give the queries. Leave out one of them.",
    ),
    "two eval sets": (
        lambda: choose(eval_set=[(X, Y), (X, Y)], eval_qid=[QID, QID]),
        "^eval_set has 2 entries; expected one pair, [(X, y)]",
    ),
    "eval set without queries": (
        lambda: choose(eval_set=[(X, Y)]), "Pass eval_qid=[qid] or eval_group=[group]."
    ),
    "eval_qid is no list": (
        lambda: choose(eval_set=[(X, Y)], eval_qid=QID), "expected a list with one entry"
    ),
    "valid and eval_set": (
        lambda: choose(eval_set=[(X, Y)], eval_qid=[QID], valid=(X, Y, QID)),
        "^valid and eval_set both give held-out data. Leave out one of them.",
    ),
    "valid without queries": (lambda: choose(valid=(X, Y)), "^valid must be (X, y, qid)"),
    "valid with y and qid swapped": (
        lambda: choose(valid=(X, QID, Y)), "If y and qid are swapped, use valid=(X, y, qid)."
    ),
    "valid with other features": (
        lambda: choose(valid=(X[:, :3], Y, QID)),
        "^valid has 3 features, but X has 4. Use the same features in both.",
    ),
    "many labels for a classifier": (
        lambda: ranker().fit(X, Y).classes_,
        "^classes_ is defined for rankers that were fitted on two different labels only.",
    ),
    # Features
    "a missing value": (
        lambda: fit(FRAME.mask(FRAME.bm25 == FRAME.bm25[3]), Y, QID),
        "^X[3, 0] (feature 'bm25') is NaN; features must be finite numbers. Train with "
        "missing='median' (--missing median)",
    ),
    "a missing value in predict": (lambda: fitted().predict(HOLE), "^X[3, 1] is NaN; "),
    "an infinite value": (
        lambda: fit(ENDLESS, Y, QID, missing="median"),
        "^X[3, 1] is inf; features must be finite numbers. Use a number in its place",
    ),
    "text among the features": (
        lambda: fit(TABLE[[*NAMES, "title"]], Y, QID),
        "^column 'title' holds string; features must be numbers. Give each value a weight with "
        "categories='onehot' (--categories onehot). Or leave it out, as RankingData.from_frame "
        "does with ignore=['title'] (--ignore), or choose the columns with features=",
    ),
    "labels among the features": (
        lambda: fit(TABLE[[*NAMES, "relevance"]], TABLE["relevance"], QID),
        "^X has a column 'relevance' with the labels y, so the labels would be a feature. Leave "
        "the column out, or use RankingData.from_frame(X, label='relevance').",
    ),
    "a label column that is not there": (
        lambda: from_frame(label="grade"), "^there is no column 'grade'; the columns are 'bm25'"
    ),
    "no label column": (
        lambda: from_frame(label=None), "Name the column with the labels: label= (--label)"
    ),
    "query ids would be a feature": (
        lambda: from_frame(qid=None),
        "^there is no column 'qid', but a column 'query'. If it holds the query ids, use "
        "qid='query' (--qid query); otherwise leave it out with ignore=['query']",
    ),
    "a feature that is misspelt": (
        lambda: from_frame(features=["bm52"]), "^there is no column 'bm52'; the columns are"
    ),
    "one name instead of a list": (
        lambda: from_frame(ignore="title"), "expected a list of names, such as ['title']"
    ),
    "text column of a frame": (
        lambda: from_frame(), "Or leave it out, as RankingData.from_frame does with ignore=['ti"
    ),
    "a column is missing in predict": (
        lambda: named().predict(FRAME[NAMES[:3]]),
        "^X lacks 1 of the 4 features that the model was trained on: 'price'.",
    ),
    "a column is renamed": (
        lambda: named().predict(FRAME.rename(columns={"bm25": "BM25"})), "on: 'bm25'. Pass a frame"
    ),
    "too few features": (lambda: fitted().predict(X[:, :3]), "is expecting 4 features"),
    "too few features of RankingData": (
        lambda: fitted().predict(RankingData(X[:, :3], Y, QID)), "the ranker was fitted on 4."
    ),
    "a key is missing": (
        lambda: named().explain({"bm25": 1.0, "clicks": 2.0, "age": 0.0}), "on: 'price'."
    ),
    "a mapping for predict": (
        lambda: named().predict(dict.fromkeys(NAMES, 1.0)),
        "^X is a mapping; expected an array or a frame. Use model_.predict",
    ),
    "a mapping of columns for fit": (
        lambda: RankSVM().fit(dict.fromkeys(NAMES, Y), Y, QID),
        "^X is a mapping; expected an array or a frame. Use pandas.DataFrame(X).",
    ),
    "a mapping of pairs": (
        lambda: RankSVM().fit_pairs(X, {"winner": [0], "loser": [1]}),
        "^pairs is a mapping; expected an array or a frame. Use pandas.DataFrame(pairs).",
    ),
    "a list of mappings of pairs": (
        lambda: RankSVM().fit_pairs(X, [{"winner": 0, "loser": 1}]),
        "^pairs is a list of mappings; expected an array or a frame. Use pandas.DataFrame(pairs).",
    ),
    "an explanation of all rows": (lambda: fitted().explain(X), "pass one row, such as X[:1]"),
    # Parameters
    "unknown scale": (lambda: fit(scale="zscore"), "^scale is 'zscore'; expected log1p, clip or"),
    "steps in another order": (
        lambda: fit(scale="standard+log1p"), "in this order and joined by +, such as 'log1p"
    ),
    "unknown missing": (lambda: fit(missing="mean"), "^missing is 'mean'; known choices are "),
    "unknown loss": (lambda: fit(loss="rank:ndcg"), "^loss is 'rank:ndcg'; known choices are"),
    "unknown penalty": (
        lambda: SparseRankSVM(penalty="lasso").fit(X, Y, QID),
        "^penalty is 'lasso'; known choices are 'l2', 'none', 'l1'",
    ),
    "unknown solver": (lambda: fit(solver="adam"), "^solver is 'adam'; known choices are 'auto'"),
    "a solver for another loss": (
        lambda: fit(solver="newton", loss="hinge"),
        "^solver='newton' needs a loss with a derivative, which loss='hinge' does not have. Use",
    ),
    "C is 0": (lambda: fit(C=0), "^C is 0; expected a finite number above 0"),
    "C is negative": (lambda: fit(C=-1), "^C is -1; expected a finite number above 0"),
    "one C for RankSVMCV": (
        lambda: RankSVMCV(0.1).fit(X, Y, QID), "^Cs is 0.1; expected a list of finite numbers"
    ),
    "one fold": (
        lambda: RankSVMCV([1.0], cv=1).fit(X, Y, QID), "Use 2 to 30 folds."
    ),
    "unknown metric": (
        lambda: choose(metric="ncdg@10"), "^metric 'ncdg@10' is unknown; known metrics are ndcg"
    ),
    "a function as metric": (
        lambda: choose(metric=ndcg), "; expected a name, such as 'ndcg@10'"
    ),
    "a scorer that is misspelt": (lambda: make_ranking_scorer("ndgc"), "did you mean 'ndcg'?"),
    "a ranker and data for evaluate": (
        lambda: evaluate(fitted(), RankingData(X, Y, QID)),
        "expected one number per document. Metrics compare labels with scores, such as evaluate(",
    ),
    "a ranker for scores": (
        lambda: evaluate(Y, fitted(), QID), "^scores is of the type RankSVM; expected one number"
    ),
    "no cut-off": (lambda: evaluate(Y, Y, QID, "ndcg@ten"), "the cut-off is 'ten'; expected a "),
    "unknown method": (lambda: make_ranker("lambdarank"), "did you mean adarank or lambdamart?"),
    "unknown parameter of a method": (
        lambda: make_ranker("rankboost:rounds=5"), "no parameter 'rounds'; did you mean n_rounds?"
    ),
    "negative weights": (
        lambda: fit(X, Y, QID, sample_weight=-np.ones(300)),
        "^sample_weight[0] is -1.0; weights must be finite and ≥ 0",
    ),
    "a weight per query": (
        lambda: fit(X, Y, QID, query_weight=np.ones(30)),
        "^query_weight has shape (30,) but X has 300 rows; expected one number per row",
    ),
    # Pairs
    "unknown items": (
        lambda: pairs(("hotel 1", "Hotel 3"), items=HOTELS),
        "^pairs[0] names 'Hotel 3', which is not in items",
    ),
    "names without items": (
        lambda: pairs(("hotel 1", "hotel 2")), "Pass items=, the name of each row of X, too."
    ),
    "a row that is not there": (
        lambda: pairs((1, 300)), "^pairs[0] is [1, 300]; expected row numbers of X, from 0 to 299"
    ),
    "an item against itself": (lambda: pairs((1, 1)), "^pairs[0] compares row 1 with itself."),
    "pairs for DominationRank": (
        lambda: DominationRank().fit_pairs(X, [(1, 2)]), "To learn from pairs, use RankSVM"
    ),
    # Models and files
    "query-scaled model without qid": (
        lambda: fit(scale="query").predict(X), "so predict needs qid. If all rows belong to one"
    ),
    "query-scaled model in Solr": (
        lambda: named(scale="query").model_.export("solr"),
        "Train with scale='standard' (--scale standard), or export it to vespa, sql, onnx",
    ),
    "logarithm in Solr": (
        lambda: named(scale="log1p").model_.export("solr"),
        "^Solr's LinearModel cannot express that feature 'bm25' is replaced by its logarithm. "
        "Export to vespa, sql",
    ),
    "unknown target": (
        lambda: named().model_.export("lucidworks"), "^target is 'lucidworks'; known choices are"
    ),
    "a shift in Solr": (
        lambda: named().model_.export("solr", shift="training"), "such as constant='one'"
    ),
    "a step that cannot be saved": (
        with_pca, "^step 'pca' of the pipeline cannot be saved: PCA cannot be folded"
    ),
    "a ranker instead of a pipeline": (
        lambda: LinearModel.from_pipeline(fitted()), "^pipe is a RankSVM; expected a fitted sklearn"
    ),
    "judgements without ids": (lambda: Qrels(QID, DATA.doc_ids, Y), "^doc_ids is None. Use data"),
    "ids that cannot be replaced": (
        lambda: DATA.replace(doc_ids=HOTELS), "^doc_ids cannot be replaced. Make new data with"
    ),
    "a file that is not there": (
        lambda: load("nowhere.parquet"), "^nowhere.parquet: no such file or folder; expected LETOR"
    ),
    "a text file that is not there": (
        lambda: read_letor("nowhere.txt"), "^nowhere.txt: no such file; expected a LETOR text file"
    ),
    "a script as a model": (
        lambda: load_model(__file__), "it is not JSON; expected a file that linrank train or"
    ),
}  # fmt: skip

#: Mistakes that are warnings, and those that scikit-learn finds or expects as another error.
KINDS = {
    "y and qid are swapped": SwappedArgumentsWarning,
    "valid with y and qid swapped": SwappedArgumentsWarning,
    "qid forgotten in fit": ForgottenQueriesWarning,
    "many labels for a classifier": AttributeError,
    "too few features": ValueError,
}


def check_form(said: str) -> None:
    """Check that a message is one line without the words of a program."""
    assert "\n" not in said
    for jargon in ("Traceback", "np.str_", "NoneType", "<U", "object at 0x"):
        assert jargon not in said


@pytest.mark.parametrize("mistake", IN_PYTHON)
def test_in_python(mistake):
    call, part = IN_PYTHON[mistake]
    with pytest.raises(KINDS.get(mistake, DataError)) as found:
        call()
    said = str(found.value)
    assert said.startswith(part[1:]) if part.startswith("^") else part in said, said
    check_form(said)


# The command line ---------------------------------------------------------------------------

#: Commands, and the line on stderr; … is any text. The files are made below.
COMMANDS = """
## Files
$ linrank train nowhere.txt
nowhere.txt: no such file or folder; expected LETOR text, a Parquet, Arrow or CSV file, or a store
$ linrank train train.pkl
train.pkl: the file is a pickle; expected LETOR text, or a Parquet, Arrow or CSV file. Write the
data as one of these
$ linrank train train.npz
train.npz: the file is a NumPy .npz file; expected LETOR text, or a Parquet, Arrow or CSV file.
Write the data as one of these
$ linrank train train.xlsx
train.xlsx: the file is an Excel workbook; expected LETOR text, or a Parquet, Arrow or CSV file.
Write the data as one of these
$ linrank train train.zip
train.zip: the file is a ZIP archive; unpack it first
$ linrank train cut.txt.gz
cut.txt.gz: the compressed data ends too early. The file seems to be truncated; copy or download
it again
$ linrank train empty.txt
empty.txt: the file is empty; expected lines such as '2 qid:10 1:0.5 2:0.25'
$ linrank train letter.txt
letter.txt:1: the label 'Dear' is not a number; expected one such as 2 or 0.5
$ linrank train missing.txt
missing.txt:2: feature 1 is 'nan'; features must be finite numbers. Train with missing='median'
(--missing median), which replaces NaN by the median of the feature, or remove the row.
$ linrank train infinite.txt
infinite.txt:2: feature 1 is 'inf'; features must be finite numbers. Use a number in its place, or
remove the row.
$ linrank train equal.txt
equal.txt: there is no pair to learn from: within every query all labels are equal (2 documents in
1 query). Check the labels and the query ids.
$ linrank train MQ2007
MQ2007: the folder holds the folds Fold1, Fold2, but not all have test data. Pass one of them,
such as MQ2007/Fold1
$ linrank train named.json
named.json:1: the file looks like JSON, such as a model; expected data, such as LETOR text

## Columns
$ linrank train table.csv
table.csv: there is no column 'label'; the columns are 'bm25', 'clicks', 'age', 'price',
'relevance', 'query', 'title'. Name the column with the labels: label= (--label)
$ linrank train headless.csv
headless.csv: there is no column 'label'; the columns are …. These are numbers: add a first line
with the names of the columns
$ linrank train table.csv --label relevance --ignore title
table.csv: there is no column 'qid', but a column 'query'. If it holds the query ids, use
qid='query' (--qid query); otherwise leave it out with ignore=['query'] (--ignore), or list the
features with features= (--features)
$ linrank train table.csv --label relevance --qid query_id
table.csv: there is no column 'query_id'; the columns are 'bm25', 'clicks', 'age', 'price',
'relevance', 'query', 'title'
$ linrank train table.csv --label relevance --qid query
table.csv: column 'title' holds string; features must be numbers. Give each value a weight with
categories='onehot' (--categories onehot). Or leave it out, as RankingData.from_frame does with
ignore=['title'] (--ignore), or choose the columns with features= (--features)
$ linrank train table.csv --label relevance --qid query --ignore title,tittle
table.csv: there is no column 'tittle'; the columns are 'bm25', 'clicks', 'age', 'price',
'relevance', 'query', 'title'
$ linrank train train.txt --label relevance
train.txt: label names a column, but a LETOR text file has no columns to choose. Leave out label
(--label)

## Options
$ linrank train train.txt --method lambdarank
the method 'lambdarank' is not known; did you mean adarank or lambdamart? known are …
$ linrank train train.txt --method rankboost:rounds=5
'rankboost:rounds=5': rankboost has no parameter 'rounds'; did you mean n_rounds? known are missing,
n_rounds, n_threads, n_thresholds, verbose
$ linrank train train.txt --method rankboost --C 1
--C is an option of linrank's own trainer, not of --method rankboost. Parameters of a method are
part of its name, such as --method sparse:C=0.1
$ linrank train train.txt --scale zscore
scale is 'zscore'; expected log1p, clip or clip:QUANTILE, and one of auto, standard, minmax,
robust, maxabs, common, query, both, in this order and joined by +, such as 'log1p+standard'
$ linrank train train.txt --missing mean
Invalid value for '--missing': …'mean' is not one of 'zero', 'median', 'indicator'.
$ linrank train train.txt --C 0
Invalid value for '--C': '0' is not a positive number such as 0.1 or 2^-5
$ linrank train train.txt --folds 3 --valid vali.txt
--folds and --valid both choose C. Leave out one of them.
$ linrank train train.txt --folds 50
train.txt: there are 12 queries: 50 folds cannot be made of them. Use 2 to 12 folds.
$ linrank train train.txt --dask local --folds 3
--folds needs all rows in this process. With --dask, use --valid.
$ linrank train train.txt --metric ncdg
metric 'ncdg' is unknown; known metrics are ndcg, …; did you mean 'ndcg'?
$ linrank train train.txt --solver newton --loss hinge
solver='newton' needs a loss with a derivative, which loss='hinge' does not have. Use
solver='smoothing' (the choice of 'auto'), or 'cutting-planes', 'dual', 'sgd-pairs', 'sgd-queries'.
$ linrank train train.txt --valid wide.txt
wide.txt:1: feature 5 was found, but 4 features are expected: 1 to 4
$ linrank train train.txt --qrels qrels.txt
train.txt: the data has no document ids. Add them to each line as a comment, as in '2 qid:10 1:0.5
# docid = A', or pass doc_ids to RankingData
$ linrank train train.txt --feature-names two.txt
two.txt: there are 2 names, but the data have 4 features; expected one name per line, or lines of
an index and a name
$ linrank train items.txt --preferences pairs.csv
pairs.csv: no document of items.txt has the id 'c'. Add the document, or remove the pairs with
this id
$ linrank path train.txt
there are no held-out data. Add --valid DATA, or --folds 5.

## Output
$ linrank train train.txt --C 1 --out nowhere/model.json
nowhere/model.json: cannot be written: there is no folder …/nowhere; create it first
$ linrank train train.txt --C 1 --out MQ2007
MQ2007: is a folder; pass the name of a file to write
$ linrank train train.txt --C 1 --out train.txt
train.txt: is read by this command; pass another name for the output
$ linrank convert train.txt train.txt
train.txt: is read by this command; pass another name for the output
$ linrank predict named.json table.csv --out named.json
named.json: is read by this command; pass another name for the output

## Models
$ linrank predict train.txt named.json
train.txt: not a linrank model, or damaged: it is not JSON; expected a file that linrank train or
model_.save has written
$ linrank predict nowhere.json train.txt
nowhere.json: no such file; expected a file that linrank train or model_.save has written
$ linrank predict named.json wide.txt
wide.txt:1: feature 5 was found, but 4 features are expected: 1 to 4
$ linrank predict named.json renamed.csv
renamed.csv: there is no column 'bm25'; the columns are 'BM25', 'clicks', 'age'
$ linrank predict plain.json renamed.csv
renamed.csv: the file has 3 features, but 4 are expected. Choose the columns with features= or
ignore= (--features, --ignore)
$ linrank predict named.json train.txt --format trec
--format trec: train.txt: the data has no document ids. Add them to each line as a comment, as in
'2 qid:10 1:0.5 # docid = A', or pass doc_ids to RankingData
$ linrank predict named.json missing.txt
missing.txt:2: feature 1 is 'nan'; features must be finite numbers. Train with missing='median'
(--missing median), which replaces NaN by the median of the feature, or remove the row.

## Evaluation
$ linrank evaluate train.txt few.txt
few.txt:3: this is the last line, but the data has 72 documents; expected one score for each
$ linrank evaluate train.txt words.txt
words.txt:2: 'high' is not a finite number; expected one score per line
$ linrank evaluate train.txt plain.json --metrics ncdg
metric 'ncdg' is unknown; known metrics are ndcg, …; did you mean 'ndcg'?
$ linrank evaluate plain.json train.txt
plain.json:1: the file looks like JSON, such as a model; expected data, such as LETOR text
$ linrank evaluate qrels.txt wrong.run
wrong.run:2: the score is 'high'; expected a finite number
$ linrank evaluate qrels.txt short.run
short.run:2: the line has 4 words but 6 are expected, as in '301 Q0 FBIS3-10082 1 12.5 linrank'
$ linrank evaluate qrels.txt few.txt
qrels.txt: is a qrels file, but few.txt is not a run file; expected linrank evaluate QRELS RUN
$ linrank evaluate good.run qrels.txt
good.run: is a run file, and qrels.txt is a qrels file. The judgements come first: linrank
evaluate QRELS RUN

## Export and explanations
$ linrank export named.json --to lucidworks
Invalid value for '--to': …'lucidworks' is not one of 'solr', 'elasticsearch', ….
$ linrank export named.json --to onnx
--to onnx writes a binary file. Use --out to name it.
$ linrank export query.json --to solr
target='solr' scores documents one by one, but this model scales features within each query. Train
with scale='standard' (--scale standard), or export it to vespa, sql, onnx, c, java, javascript,
rust or python. The function score_query that target='python' writes scales and scores the documents
of an answer in the client.
$ linrank export log.json --to solr
Solr's LinearModel cannot express that feature 'bm25' is replaced by its logarithm. Export to
vespa, sql, onnx, pmml, c or python, or train without this step.
$ linrank export named.json --to solr --shift training
Solr's LinearModel has no constant term, so shift= needs a feature that is 1 for all documents.
Give its name, such as constant='one' (--option constant=one).
$ linrank export named.json --to solr --feature-map two.txt
two.txt: not JSON (…); expected an object such as {"1": "bm25"}
$ linrank export plain.json --to vespa
feature '1' is not a rank feature of Vespa. Give one, such as features={'1':
'attribute(popularity)'} (--feature-map).
$ linrank export stumps.json --to solr
stumps.json: holds a StumpModel, which has no weights of features. Export a linear model, such as
linrank train writes without --method
$ linrank explain plain.json train.txt --query 99
train.txt: there is no query '99'. Use --query with one of 1, 2, 3, 4, 5 and 7 others.
$ linrank explain plain.json train.txt --query 1 --document 9
train.txt: query 1 has no document 9. Use a number from 1 to 6.
"""


def read_table(text: str) -> dict[str, str]:
    """Return the sentence of each command, without headings and line breaks."""
    lines = [line for line in text.splitlines() if line and not line.startswith("## ")]
    commands = "\n".join(lines).split("$ linrank ")[1:]
    entries = (entry.partition("\n") for entry in commands)
    return {command: " ".join(sentence.split()) for command, _, sentence in entries}


IN_COMMANDS = read_table(COMMANDS)


def write_models():
    named().model_.save("named.json")
    fitted().model_.save("plain.json")
    named(scale="query").model_.save("query.json")
    named(scale="log1p").model_.save("log.json")
    RankBoost(n_rounds=2).fit(X, Y, qid=QID).model_.save("stumps.json")


def write_texts():
    for name, text in {
        "empty.txt": "",
        "letter.txt": "Dear reader\n",
        "missing.txt": "1 qid:1 1:1 2:2\n0 qid:1 1:nan 2:0\n",
        "infinite.txt": "1 qid:1 1:1 2:2\n0 qid:1 1:inf 2:0\n",
        "equal.txt": "1 qid:1 1:1\n1 qid:1 1:2\n",
        "few.txt": "1\n2\n3\n",
        "words.txt": "1\nhigh\n",
        "two.txt": "bm25\nclicks\n",
        "qrels.txt": "301 0 A 1\n301 0 B 0\n",
        "good.run": "301 Q0 A 1 2.5 x\n301 Q0 B 2 1.5 x\n",
        "wrong.run": "301 Q0 A 1 2.5 x\n301 Q0 B 2 high x\n",
        "short.run": "301 Q0 A 1 2.5 x\n301 Q0 B 2\n",
        "items.txt": "0 1:0.5 # docid = a\n0 1:1 # docid = b\n",
        "pairs.csv": "winner,loser\na,b\nb,c\n",
    }.items():
        Path(name).write_text(text)


def write_data():
    train = make_ranking(12, 6, 4, n_levels=3, noise=1.0, random_state=1)
    for name in ("train.txt", "vali.txt"):
        write_text(Path(name), train)
    write_text(Path("wide.txt"), make_ranking(3, 6, 6, random_state=2))
    for fold in ("Fold1", "Fold2"):
        Path("MQ2007", fold).mkdir(parents=True)
        write_text(Path("MQ2007", fold, "train.txt"), train)
        write_text(Path("MQ2007", fold, "vali.txt"), train)
    TABLE.to_csv("table.csv", index=False)
    FRAME.to_csv("headless.csv", index=False, header=False)
    FRAME[NAMES[:3]].rename(columns={"bm25": "BM25"}).to_csv("renamed.csv", index=False)
    Path("train.pkl").write_bytes(pickle.dumps(FRAME))
    np.savez("train.npz", X=X)
    with zipfile.ZipFile("train.xlsx", "w") as file:
        file.writestr("[Content_Types].xml", "")
    with zipfile.ZipFile("train.zip", "w") as file:
        file.write("train.txt")
    Path("cut.txt.gz").write_bytes(gzip.compress(Path("train.txt").read_bytes())[:200])


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """A folder with the files that the commands of the tables name."""
    folder, before = tmp_path_factory.mktemp("shop"), Path.cwd()
    os.chdir(folder)
    try:
        write_data()
        write_texts()
        write_models()
    finally:
        os.chdir(before)
    return folder


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def sentence_of(stderr: str) -> str:
    """Return an error as one line: from ``error: …``, or from the box that wrong usage prints."""
    if stderr.startswith("error: "):
        return stderr.removeprefix("error: ").strip()
    lines = [line.strip("│ ") for line in stderr.splitlines() if line.startswith("│")]
    return " ".join(lines).removeprefix("Invalid value: ")


@pytest.mark.parametrize("command", IN_COMMANDS)
def test_in_commands(shop, monkeypatch, command):
    monkeypatch.chdir(shop)
    before = contents(shop)
    found = run(*command.split(), code=2)
    assert found.stdout == ""
    said = sentence_of(found.stderr)
    pattern = ".*".join(map(re.escape, IN_COMMANDS[command].split("…")))
    assert re.fullmatch(pattern, said), said
    check_form(said)
    assert contents(shop) == before  # nothing is written, and nothing is lost


#: Commands that do their work, with a warning.
WITH_A_WARNING = {
    "predict query.json table.csv": "table.csv: all 300 documents are one query, but the model "
    "scales features within each query. If a table has query ids, name their column with --qid.",
    "predict plain.json few.txt": "few.txt: the file has 0 features, but the model has 4; the "
    "others count as 0. Check that both have the same features.",
}


@pytest.mark.parametrize("command", WITH_A_WARNING)
def test_with_a_warning(shop, monkeypatch, command):
    monkeypatch.chdir(shop)
    assert run(*command.split()).stderr == f"warning: {WITH_A_WARNING[command]}\n"


def test_the_tables_are_long_enough():
    assert len(IN_PYTHON) >= 20
    assert len(IN_COMMANDS) >= 18
    assert KINDS.keys() <= IN_PYTHON.keys()


# Results that are doubtful get a sentence, too.

SCALES = X * np.array([1.0, 1e-15, 1.0, 1.0])


@pytest.mark.parametrize("make", [RankSVM, SparseRankSVM, lambda: RankSVMCV([0.01, 0.1], cv=2)])
def test_scales_that_differ_too_much(make):
    frame = pd.DataFrame(SCALES, columns=NAMES)
    with pytest.warns(FeatureScaleWarning, match="that of 'clicks' is .* scale='st"):
        make().set_params(scale=None).fit(frame, Y, QID)
    make().fit(frame, Y, QID)
    make().set_params(scale=None).fit(
        frame.assign(clicks=0.0), Y, QID
    )  # A constant feature has no scale.


WITHOUT_SCALE = [FenchelRank, FSMRank, GASRanker, KernelRankSVM, LinearSVRRanker, PAMIR, PAMIRCV]


@pytest.mark.parametrize("make", WITHOUT_SCALE)
def test_scales_that_differ_too_much_without_a_parameter_for_them(make):
    with pytest.warns(FeatureScaleWarning, match="that of 'clicks' is .* StandardScaler"):
        make().fit(pd.DataFrame(SCALES, columns=NAMES), Y, QID)


@pytest.mark.parametrize("make", [FenchelRank, FSMRank, GASRanker, KernelRankSVM, PAMIR])
def test_constant_features_give_no_weights(make):
    with pytest.warns(NothingSelectedWarning, match="no feature lowers the loss"):
        make().fit(np.ones_like(X), Y, QID)


@pytest.mark.parametrize("metric", ["ndcg@10", "mean-ndcg", "err"])
def test_negative_labels_with_gains(metric):
    scores = fitted().predict(X)
    with pytest.warns(NegativeLabelsWarning, match="down to -1, whose gain .* Add a constant"):
        evaluate(Y - 1, scores, QID, metric)
    with pytest.warns(NegativeLabelsWarning, match="down to -1"):
        fitted().score(X, Y - 1, QID, metric=metric)
    evaluate(np.where(Y > 0, 1, -1), scores, QID, metric)  # Two labels keep their order.
    evaluate(Y - 1, scores, QID, "map, pairwise-accuracy, kendall")


def test_negative_labels_where_C_is_chosen():
    with pytest.warns(NegativeLabelsWarning, match="down to -1"):
        RankSVMCV([0.01, 0.1], cv=2).fit(X, Y - 1, QID)


def test_negative_labels_of_linear_gains():
    with pytest.warns(NegativeLabelsWarning, match="whose gain y counts as 0"):
        ndcg([-1, 0, 1], [1, 2, 3], gain="linear")
    ndcg([-1, 0, 1], [1, 2, 3], gain=lambda label: label + 1)


@pytest.mark.parametrize("target", ["solr", "elasticsearch", "opensearch"])
def test_exports_of_features_without_names(target):
    model = LinearModel([1.0, 0.0, -2.0])
    with pytest.warns(UnnamedFeaturesWarning, match=r"called '1', '3' in .* \(--feature-map\)"):
        model.export(target)
    with pytest.warns(UnnamedFeaturesWarning, match="called '3' in"):
        model.export(target, features={"1": "bm25"})
    model.export(target, features={"1": "bm25", "3": "age"})
    LinearModel([1.0], feature_names=["1"]).export(target)


def test_exports_of_curves_without_names():
    model = AdditiveRanker(C=0.01, basis="step").fit(X, Y, QID).model_
    with pytest.warns(UnnamedFeaturesWarning, match="has no feature names"):
        model.export("solr")


@pytest.mark.parametrize("unit", ["datetime64[s]", "timedelta64[s]"])
def test_labels_that_are_dates(unit):
    with pytest.raises(DataError, match=f"y holds {re.escape(unit)}; labels must be numbers"):
        RankSVM().fit(X, Y.astype(unit), QID)


@pytest.mark.parametrize("ids", [[(1, 2)] * len(X), [[1]] * len(X), [{"a": 1}] * len(X)])
def test_ids_that_are_lists(ids, tmp_path):
    frame = FRAME.assign(label=Y, qid=pd.Series(ids))
    with pytest.raises(DataError, match=r"qid holds (list|struct)<.*; expected numbers or str"):
        RankingData.from_frame(frame)
    path = tmp_path / "data.parquet"
    frame.to_parquet(path)
    with pytest.raises(DataError, match=r"parquet: qid holds (list|struct)<.*; expected numbers"):
        load(path)


def test_ids_that_are_too_large_for_a_column():
    with pytest.raises(DataError, match=r"the frame cannot be read: .* too large"):
        RankingData.from_frame(FRAME.assign(label=Y, qid=2**70))


@pytest.mark.parametrize(
    ("name", "meant"),
    [("groups", "qid="), ("query_id", "qid="), ("weights", "sample_weight="), ("epochs", "lists")],
)
def test_unknown_arguments_name_what_is_meant(name, meant):
    with pytest.raises(TypeError, match=f"no argument {name!r}.*{meant}"):
        RankSVM().fit([[1.0], [2.0]], [0, 1], **{name: [1, 1]})
