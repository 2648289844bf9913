"""
How do I put a ranker into my search engine?
============================================

A linear ranker is a short formula. ``export`` writes it in the form that Solr, Elasticsearch,
Vespa, Lucene, SQL and others read. This page trains a ranker on a log, exports it, lets a database
compute the scores, and checks that they are the same.
"""

# %%
# From a log to a ranker
# ----------------------
# The log is a table: one row per query and product, with features as the engine computes them.
# Tables of Arrow, pandas and polars are read in the same way. Missing ratings count as 0, because
# this is what Solr does with them.
import json
import sqlite3
import warnings

import matplotlib.pyplot as plt
import numpy as np
import pyarrow

from linrank import OrderChangedWarning, RankingData, RankSVM, evaluate

plt.style.use("linrank.style")
START = 1_700_000_000  # the beginning of the log, in seconds since 1970


def make_log(n_queries, seed):
    """Return a table as a search engine would log it."""
    rng = np.random.default_rng(seed)
    n = 20 * n_queries
    bm25, rating = rng.gamma(4.0, 2.0, n), rng.uniform(1.0, 5.0, n)
    clicks, price = rng.lognormal(4.0, 1.0, n).round(), rng.integers(500, 90_000, n)
    listed = START + rng.integers(0, 600_000, n)  # seconds since 1970: offers of one week
    utility = 0.2 * bm25 + 0.004 * clicks + 0.7 * rating - price / 40_000
    utility += (listed - START) / 3e5 + rng.normal(0, 0.5, n)
    rating[rng.random(n) < 0.1] = np.nan  # some products have no rating yet
    columns = {
        "query_id": np.repeat([f"query {q}" for q in range(n_queries)], 20),
        "bm25": bm25,
        "clicks": clicks,
        "price_cents": price,
        "rating": rating,
        "listed": listed,
        "grade": np.digitize(utility, [5.5, 6.5, 7.5]),
    }
    return pyarrow.table(columns)


columns = {"label": "grade", "qid": "query_id", "allow_missing": True}
train = RankingData.from_frame(make_log(150, seed=0), **columns)
test = RankingData.from_frame(make_log(100, seed=1), **columns)
ranker = RankSVM(scale="standard", missing="zero").fit(train)
print(evaluate(test.y, ranker.predict(test), test.qid, "ndcg@10, map"))

# %%
# A file for Solr
# ---------------
# The scaling is folded into the weights, so the engine gets raw features. This text is uploaded to
# the model store of Solr.
model = ranker.model_
with warnings.catch_warnings(record=True) as found:
    warnings.simplefilter("always", OrderChangedWarning)
    solr = model.export("solr", name="products", sample=test)
print(json.dumps(json.loads(solr), indent=2))

# %%
# Check before you deploy
# -----------------------
# Solr computes in single precision. ``sample=test`` has computed the scores of the test documents
# in the way of Solr, and a warning counts the pairs that change their order:
print(found[0].message if found else "no pair changes its order")

# %%
# Let a database compute the scores
# ---------------------------------
# The same model is an expression of SQL. We load the test documents into SQLite and let it score
# them.
expression = model.export("sql", dialect="sqlite")
print(expression)

database = sqlite3.connect(":memory:")
names = ", ".join(f'"{name}"' for name in test.feature_names)
database.execute(f"CREATE TABLE docs (id INTEGER, {names})")
rows = [
    (k, *(None if np.isnan(x) else float(x) for x in row)) for k, row in enumerate(test.X.tolist())
]
database.executemany(f"INSERT INTO docs VALUES ({', '.join('?' * (test.n_features + 1))})", rows)
query = f"SELECT {expression} FROM docs ORDER BY id"
from_sql = np.array([score for (score,) in database.execute(query)])
scores = ranker.predict(test)
print(f"largest difference between linrank and SQLite: {np.abs(from_sql - scores).max():.0e}")

# %%
# Where do digits get lost?
# -------------------------
# The picture compares the score of each test document with that of SQLite, and with the sum in
# single precision that Solr computes. The time of listing is the reason for the second: it is a
# number of ten digits, of which single precision keeps seven.
weights = json.loads(solr)["params"]["weights"]
given = np.nan_to_num(test.X).astype(np.float32)
in_single = np.zeros(len(given), np.float32)
for k, name in enumerate(test.feature_names):
    in_single += np.float32(weights.get(name, 0.0)) * given[:, k]
shift = np.median(in_single - scores)  # a constant does not change the order

fig, ax = plt.subplots()
for name, values, marker in (
    ("single precision, as in Solr", np.abs(in_single - shift - scores), "s"),
    ("SQLite (the lowest line: exactly equal)", np.abs(from_sql - scores), "o"),
):
    ax.semilogy(scores, np.maximum(values, 1e-17), marker, markersize=2, alpha=0.5, label=name)
ax.set(title="Distance of each score from that of linrank")
ax.set(xlabel="score of linrank", ylabel="absolute difference (log scale)")
ax.legend(loc="center right", markerscale=3)
plt.show()

# %%
# The cure is to subtract an offset when the feature is computed: days since the beginning of the
# log instead of seconds since 1970.
listed = list(test.feature_names).index("listed")
for data in (train, test):
    data.X[:, listed] = (data.X[:, listed] - START) / 86_400
cured = RankSVM(scale="standard", missing="zero").fit(train)
with warnings.catch_warnings(record=True) as found:
    warnings.simplefilter("always", OrderChangedWarning)
    cured.model_.export("solr", name="products", sample=test)
print(found[0].message if found else "no pair changes its order")

# %%
# What to read next
# -----------------
# - :doc:`../explaining/plot_monotone` trains a model that never punishes a better rating.
# - :doc:`../explaining/plot_explain_pair` answers the questions that come after the deployment.
# - :class:`linrank.LinearModel` and :class:`linrank.RankingData` list all options.
