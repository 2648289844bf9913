"""
How do I choose C?
==================

``C`` is the weight of the training data against the penalty ½‖w‖². If ``C`` is too small, the
ranker hardly listens to the data. If ``C`` is too large, it learns the noise of the training
queries by heart. :class:`linrank.RankSVMCV` finds a good value by cross-validation over queries.
"""

# %%
# A problem that is easy to overfit
# ---------------------------------
# There are 40 queries to learn from, but 100 features, which are strongly correlated. The other 400
# queries stand for the future, which we cannot see in practice.
import matplotlib.pyplot as plt
import numpy as np

from linrank import RankSVMCV, make_problem, make_ranking, regularization_path

plt.style.use("linrank.style")

data = make_ranking(
    n_queries=440,
    docs_per_query=10,
    n_features=100,
    n_informative=10,
    correlation=0.98,
    random_state=0,
)
train = data.take(np.flatnonzero(data.qid <= 40))
future = data.take(np.flatnonzero(data.qid > 40))

# %%
# Cross-validation over queries
# -----------------------------
# ``RankSVMCV`` divides the queries into folds. It fits the ranker for each ``C`` of the grid, from
# the smallest to the largest, and each fit starts from the previous solution. Here the grid has
# 27 values of the weight of a plain sum over pairs, as in the papers. Without arguments, the ranker
# divides the sum by the number of pairs, scales the features, and tries a few values around 10.
Cs = 2.0 ** np.arange(-18, 9)
ranker = RankSVMCV(Cs, cv=5, metric="ndcg@10", normalize=None, scale=None).fit(train)
folds = ranker.metric_path_  # one row per C, one column per fold
print(f"chosen C: 2^{np.log2(ranker.C_):.0f}, NDCG@10 of the folds: {ranker.best_score_:.3f}")
print(f"NDCG@10 of the future queries: {ranker.score(future):.3f}")

# %%
# Too little, too much
# --------------------
# To see both mistakes, we follow the whole path of ``C`` and measure each solution twice: on the
# queries that it has learnt from, and on the future ones.
path = regularization_path(make_problem(train), Cs)
on_train, on_future = path.evaluate(train), path.evaluate(future)

fig, ax = plt.subplots()
mean, error = folds.mean(axis=1), folds.std(axis=1, ddof=1) / np.sqrt(folds.shape[1])
ax.semilogx(Cs, on_train, "--", base=2, color="C1", label="training queries")
ax.semilogx(Cs, mean, "o-", base=2, color="C0", markersize=4, label="mean of 5 folds")
ax.fill_between(Cs, mean - error, mean + error, alpha=0.2, label="± one standard error")
ax.semilogx(Cs, on_future, "-.", base=2, color="C2", label="future queries")
ax.axvline(ranker.C_, color="#666666", linewidth=1, linestyle=":")
ax.annotate(
    f"chosen: $C = 2^{{{np.log2(ranker.C_):.0f}}}$",
    (ranker.C_, ax.get_ylim()[0]),
    xytext=(6, 6),
    textcoords="offset points",
)
ax.set(
    xlabel="C, the weight of the loss against the penalty (log scale)",
    ylabel="mean NDCG@10",
    title="A large C fits the training queries and harms new ones",
)
ax.legend()
plt.show()

# %%
# The folds see only the training queries, yet their choice is a good one for the future. These are
# the values to compare:
best = Cs[on_future.argmax()]
print(f"best C for the future: 2^{np.log2(best):.0f}, NDCG@10 {on_future.max():.3f}")
print(f"with the chosen C: {on_future[Cs == ranker.C_][0]:.3f}")
print(f"with the smallest C: {on_future[0]:.3f}, with the largest: {on_future[-1]:.3f}")

# %%
# What to read next
# -----------------
# - :doc:`plot_grid_search` tunes several parameters with ``GridSearchCV`` of scikit-learn.
# - :doc:`../serving/plot_command_line` follows the path of ``C`` without any Python.
# - :class:`linrank.RankSVMCV` and :func:`linrank.regularization_path` list all options.
