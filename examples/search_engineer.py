"""From a table of query and document features to a model for Solr and Elasticsearch.

Run it with ``python examples/search_engineer.py``. It writes its files to the current folder.
"""

import json
import warnings

import numpy as np
import pandas as pd

from linrank import OrderChangedWarning, RankingData, RankSVMCV, evaluate, load


def make_log(n_queries: int, seed: int) -> pd.DataFrame:
    """Make a table as a search engine would log it, with features in different units."""
    random = np.random.default_rng(seed)
    n = 20 * n_queries
    frame = pd.DataFrame(
        {
            "query_id": np.repeat([f"query {q}" for q in range(n_queries)], 20),
            "title": [f"product {i}" for i in range(n)],
            "bm25": random.gamma(4.0, 2.0, n),
            "clicks": random.lognormal(4.0, 1.5, n),  # from a few to many thousands
            "price_cents": random.integers(500, 90_000, n),
            "rating": random.uniform(1.0, 5.0, n),
        }
    )
    utility = 0.2 * frame.bm25 + 0.5 * np.log1p(frame.clicks) + 0.7 * frame.rating
    utility -= frame.price_cents / 40_000
    frame["grade"] = pd.cut(utility + random.normal(0, 0.5, n), [-99, 5.5, 6.5, 7.5, 99]).cat.codes
    frame.loc[random.random(n) < 0.1, "rating"] = np.nan  # some products have no rating yet
    return frame


# The command line and `load` read the same file: linrank train train.parquet --label grade …
make_log(80, seed=0).to_parquet("train.parquet")
columns = {"label": "grade", "qid": "query_id", "ignore": ["title"], "allow_missing": True}
train = load("train.parquet", **columns)
test = RankingData.from_frame(make_log(40, seed=1), **columns)
print("features:", ", ".join(train.feature_names))

# The model scales its features and fills missing values itself, so engines get raw features.
# Solr can express neither logarithms nor missing values other than 0, hence "standard" and "zero".
ranker = RankSVMCV(np.logspace(-6, 0, 7), cv=3, scale="standard", missing="zero").fit(train)
print(f"C = {ranker.C_:g} by 3 folds of queries")
print(evaluate(test.y, ranker.predict(test), test.qid, "ndcg@10, map, p(rel=2)@5"))

# Why is one product above another? The contributions sum to the difference of the scores.
of_query = test.qid == test.query_ids[0]
documents = pd.DataFrame(test.X[of_query], columns=test.feature_names)
best, second = np.argsort(-ranker.predict(documents))[:2]
why = ranker.explain_pair(documents.iloc[best], documents.iloc[second])
print(f"document {best} is above document {second} by {why.score:.3f}, mostly because of:")
for name, contribution in why.largest(2):
    print(f"  {name:12s} {contribution:+.3f}")

# `sample=` scores these documents in the way of the engine, which is single precision, and warns
# if the order of some pairs changes.
model = ranker.model_
with warnings.catch_warnings(record=True) as found:
    warnings.simplefilter("always")
    solr = json.loads(model.export("solr", "solr.json", name="products", sample=test))
changed = [str(w.message) for w in found if issubclass(w.category, OrderChangedWarning)]
print("Solr:", solr["class"], "with weights of", ", ".join(solr["params"]["weights"]))
print("Solr changes the order:", changed[0] if changed else "of no pair")

# Elasticsearch turns scores below 0 into 0, so documents would tie. `shift="training"` adds a
# constant that keeps scores above 0; `constant` names a feature of the engine whose value is 1.
shifted = model.export("elasticsearch", "elastic.json", shift="training", constant="one")
weights = json.loads(json.loads(shifted)["model"]["model"]["definition"])
print(f"Elasticsearch: a constant of {weights['one']:.3f} is added to all scores")
