"""
Why is A above B?
=================

A product manager asks why one result is above another one. A linear score has an exact answer: the
difference of two scores is a sum with one part per feature. ``explain_pair`` computes the parts.
"""

# %%
# A shop and one query
# --------------------
# The ranker learns from graded products of 150 queries.
import matplotlib.pyplot as plt
import numpy as np

from linrank import RankingData, RankSVM

plt.style.use("linrank.style")
NAMES = ["text match", "rating", "price", "delivery days", "discount", "reviews"]

rng = np.random.default_rng(4)
n = 3000
X = np.column_stack(
    [
        rng.gamma(4.0, 2.0, n),
        rng.uniform(1.0, 5.0, n).round(1),
        rng.uniform(5, 200, n).round(2),
        rng.integers(1, 15, n),
        rng.integers(0, 40, n),
        rng.geometric(0.01, n),
    ]
).astype(float)
utility = X @ [0.25, 0.5, -0.008, -0.12, 0.02, 0.004] + rng.normal(0, 0.5, n)
y = np.digitize(utility, np.quantile(utility, [0.5, 0.75, 0.9]))
qid = np.repeat(np.arange(150), 20)
data = RankingData(X, y, qid, feature_names=NAMES)
ranker = RankSVM(scale="standard").fit(data)

# %%
# The first results
# -----------------
# Here are the best three products of the first query.
query = data.take(np.flatnonzero(qid == 0))
documents, scores = query.X, ranker.predict(query)
best = np.argsort(-scores)
print("                    A         B         C")
print("score         " + "".join(f"{scores[row]:10.3f}" for row in best[:3]))
for name, values in zip(NAMES, documents[best[:3]].T, strict=True):
    print(f"{name:14s}" + "".join(f"{value:10.2f}" for value in values))

# %%
# Why is A above B? Blue bars speak for A and orange bars for B. The bars sum to the difference of
# the scores.
a, b = documents[best[0]], documents[best[1]]
why = ranker.explain_pair(a, b)
ax = why.plot()
ax.set_title(f"A is above B by {why.score:.3f}")
plt.show()

largest = why.largest(1)[0]
print(f"the largest contribution is that of {largest[0]!r}: {largest[1]:+.3f}")
print(f"sum of the contributions {why.contributions.sum():.6f}, difference {why.score:.6f}")

# %%
# What would B need?
# ------------------
# The model is linear, so we can say by how much one feature of B must change until B is level with
# A. This is the difference of the scores divided by the weight of the feature.
needed = why.score / ranker.coef_
for name, now, change in zip(NAMES, b, needed, strict=True):
    print(f"{name:14s} from {now:8.2f} to {now + change:8.2f}")

# %%
# The whole list at a glance
# --------------------------
# ``explain`` counts contributions from the average training document. The picture stacks them for
# the ten best products of the query. A black dot is the sum, which decides the order.
parts = np.array([ranker.explain(documents[row]).contributions for row in best[:10]])

fig, ax = plt.subplots(figsize=(8, 4))
places = np.arange(10)
above, below = np.zeros(10), np.zeros(10)
for feature, name in enumerate(NAMES):
    size = parts[:, feature]
    ax.bar(places, size, bottom=np.where(size > 0, above, below), width=0.75, label=name)
    above, below = above + np.maximum(size, 0), below + np.minimum(size, 0)
ax.plot(places, parts.sum(axis=1), "ko", markersize=4, label="sum")
ax.axhline(0.0, color="#666666", linewidth=0.8)
ax.set_xticks(places, places + 1)
ax.set(title="Each product collects its score in its own way", xlabel="place in the list")
ax.set_ylabel("contribution to the score")
ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0))
plt.show()

# %%
# What to read next
# -----------------
# - :doc:`plot_which_features` says which features matter over all queries.
# - :doc:`plot_additive` replaces the weights by curves, which are explained in the same way.
# - :class:`linrank.Explanation` lists what an explanation holds.
