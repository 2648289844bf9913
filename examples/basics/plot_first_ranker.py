"""
How do I train my first ranker?
===============================

A ranker learns from queries whose documents have labels, such as 0 for "useless" and 3 for
"perfect". It then sorts the documents of new queries. This page trains a
:class:`linrank.RankSVM` in three lines and shows what it does to the result lists.
"""

# %%
# The data
# --------
# Each row of ``X`` is one document of one query, ``y`` holds the labels, and ``qid`` says to which
# query a row belongs. Here we generate 160 queries with 15 documents each. We learn from the first
# 120 queries and keep the other 40 for the test. A query is never split.
import matplotlib.pyplot as plt
import numpy as np

from linrank import RankSVM, make_ranking, ndcg

plt.style.use("linrank.style")

data = make_ranking(
    n_queries=160, docs_per_query=15, n_features=8, n_levels=4, noise=0.3, random_state=3
)
X, y, qid = data.X, data.y, data.qid
known = qid <= 120
X_test, y_test, qid_test = X[~known], y[~known], qid[~known]
print(f"{known.sum()} documents to learn from, {len(y_test)} documents to test on")

# %%
# Train and test
# --------------
# ``fit`` learns one weight per feature. ``predict`` returns one score per document. Within a query,
# a higher score means a better place. ``score`` is the mean NDCG@10 over the queries.
ranker = RankSVM().fit(X[known], y[known], qid=qid[known])
scores = ranker.predict(X_test)
print(f"NDCG@10 on new queries: {ranker.score(X_test, y_test, qid=qid_test):.3f}")

# %%
# For comparison we sort by the single feature that ranks the training queries best. A feature may
# also be a good ranker with its sign reversed, so both directions are tried.
candidates = [(sign, f) for f in range(X.shape[1]) for sign in (1, -1)]
sign, best = max(
    candidates, key=lambda one: ndcg(y[known], one[0] * X[known, one[1]], qid=qid[known], k=10)
)
by_feature = sign * X_test[:, best]
print(f"NDCG@10 of the best single feature: {ndcg(y_test, by_feature, qid=qid_test, k=10):.3f}")

# %%
# What has changed in the lists?
# ------------------------------
# Each row of the picture is a test query, and each square is a document at its place in the list.
# Dark squares are the best documents. A perfect ranker has all dark squares on the left.


def labels_in_order(order_by):
    """Return the labels of the test documents, one row per query, the highest score first."""
    rows = np.lexsort((-order_by, qid_test)).reshape(-1, 15)
    return y_test[rows]


orders = {"best single feature": by_feature, "RankSVM": scores, "ideal order": y_test}
shades = plt.get_cmap("Blues", 4)  # one for each label
fig, axes = plt.subplots(1, 3, figsize=(8, 4.6), sharey=True)
for ax, (name, order_by) in zip(axes, orders.items(), strict=True):
    image = ax.imshow(labels_in_order(order_by), cmap=shades, aspect="auto", vmin=-0.5, vmax=3.5)
    value = ndcg(y_test, order_by, qid=qid_test, k=10)
    ax.set(title=f"{name}\nNDCG@10 = {value:.3f}", xlabel="place in the list")
    ax.set_xticks([0, 4, 9, 14], [1, 5, 10, 15])
    ax.set_yticks([0, 9, 19, 29, 39], [1, 10, 20, 30, 40])
    ax.grid(visible=False)
axes[0].set_ylabel("test query")
fig.colorbar(image, ax=axes, ticks=range(4), label="label", shrink=0.6)
plt.show()

# %%
# What to read next
# -----------------
# - :doc:`plot_choose_c` finds the value of ``C``.
# - :doc:`../explaining/plot_which_features` says which features matter to the ranker.
# - :class:`linrank.RankSVM` and :func:`linrank.make_ranking` list all options.
