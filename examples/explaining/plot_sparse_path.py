"""
How many features does my ranker need?
======================================

A ranker with few features is cheap to serve, and a person can read it. The penalties of
:class:`linrank.SparseRankSVM` set weights to exactly 0 during training.
:func:`linrank.sparse_path` shows all solutions, from no feature to all of them.
"""

# %%
# Five useful features among forty
# --------------------------------
# We know the true weights of the generated data: only 5 of 40 features have any.
import matplotlib.pyplot as plt
import numpy as np

from linrank import SparseRankSVMCV, make_ranking, sparse_path

plt.style.use("linrank.style")

data, truth = make_ranking(
    n_queries=200, docs_per_query=12, n_features=40, n_informative=5, noise=1.0, random_state=1,
    return_coef=True,
)  # fmt: skip
train = data.take(np.flatnonzero(data.qid <= 100))
valid = data.take(np.flatnonzero(data.qid > 100))
useful = np.flatnonzero(truth)

# %%
# The path of the weights
# -----------------------
# The path begins at the smallest ``C`` that selects a feature. Coloured lines are the features with
# a true weight; grey lines are the others.
path, values = sparse_path(train, "l1", valid=valid)

fig, ax = plt.subplots()
others = np.setdiff1d(np.arange(40), useful)
ax.semilogx(path.Cs, path.coefs[:, others], color="#bbbbbb", linewidth=0.8)
for feature, style in zip(useful, ("-", "--", "-.", ":", "--"), strict=True):
    ax.semilogx(path.Cs, path.coefs[:, feature], style, linewidth=1.8, label=f"{feature + 1}")
ax.axhline(0.0, color="#666666", linewidth=0.8)
ax.set(
    title="The useful features enter first",
    xlabel="C, the weight of the loss against the penalty (log scale)",
    ylabel="weight",
)
ax.legend(title="useful feature", loc="upper left", bbox_to_anchor=(1.01, 1.0))
plt.show()

first = [int(np.flatnonzero(column)[0]) for column in path.coefs.T[useful]]
noise = int(np.flatnonzero(np.delete(path.coefs, useful, axis=1).any(axis=1))[0])
print(f"useful features enter at steps {sorted(first)} of the path, the first other at {noise}")

# %%
# Few features, good lists
# ------------------------
# What does a feature buy? The next picture has NDCG@10 of new queries against the number of
# features. The penalty ``"log"`` is not convex. It shrinks large weights less than ``"l1"``, so it
# usually needs fewer features for the same quality.
fig, ax = plt.subplots()
for penalty, marker in (("l1", "o"), ("log", "s")):
    found, quality = sparse_path(train, penalty, valid=valid)
    ax.plot(found.n_features, quality, f"{marker}-", markersize=4, linewidth=1, label=penalty)
    few = found.n_features <= 5
    print(f"{penalty}: best NDCG@10 with at most 5 features {quality[few].max():.3f}")
ax.axvline(5, color="#666666", linewidth=1, linestyle=":", label="number of useful features")
ax.set(
    title="Quality against the number of features",
    xlabel="features with a weight",
    ylabel="mean NDCG@10 of new queries",
)
ax.legend(title="penalty")
plt.show()

# %%
# The choice by cross-validation
# ------------------------------
# ``rule="1se"`` takes the fewest features whose quality is within one standard error of the best.
ranker = SparseRankSVMCV(penalty="log", rule="1se", cv=3).fit(train)
print("selected features:", (np.flatnonzero(ranker.coef_) + 1).tolist())
print("useful features:  ", (useful + 1).tolist())
print(f"NDCG@10 of new queries: {ranker.score(valid):.3f}")

# %%
# What to read next
# -----------------
# - :doc:`plot_which_features` measures the importance of each feature.
# - :doc:`../labels/plot_domination_topics` selects words for many topics.
# - :class:`linrank.SparseRankSVM`, :class:`linrank.SparseRankSVMCV` and
#   :func:`linrank.sparse_path` list all options.
