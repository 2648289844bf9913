"""
How do I make sure that a better rating never lowers a product?
===============================================================

With few data, a learnt curve can fall where it must rise, only because of noise. Users who see that
a better rated product is placed lower lose trust. ``monotone=`` of :class:`linrank.AdditiveRanker`
guarantees the direction, and ``bounds=`` of :class:`linrank.RankSVM` does the same for weights.
"""

# %%
# Few and noisy data
# ------------------
# The rating has an effect that rises and then levels off, and the price has one that falls. There
# are only 40 queries with 10 products each, and much noise.
import matplotlib.pyplot as plt
import numpy as np

from linrank import AdditiveRanker, RankingData, RankSVM

plt.style.use("linrank.style")
NAMES = ["rating", "price"]


def make_shop(n_queries, seed):
    """Return products with a rating and a price, and noisy grades from 0 to 3."""
    rng = np.random.default_rng(seed)
    n = 10 * n_queries
    X = np.column_stack([rng.uniform(1.0, 5.0, n), rng.uniform(5.0, 100.0, n)])
    utility = 1.2 * np.sqrt(X[:, 0] - 1.0) - 1.5 * (X[:, 1] / 100.0) ** 2 + rng.normal(0, 0.8, n)
    y = np.digitize(utility, [0.8, 1.5, 2.2])
    return RankingData(X, y, np.repeat(np.arange(n_queries), 10), feature_names=NAMES)


train, test = make_shop(40, seed=1), make_shop(1000, seed=2)

# %%
# Two fits
# --------
# A form is "increasing", "decreasing", "convex", "concave", or two of them. Curves with a form take
# no part in ``smooth``.
free = AdditiveRanker(C=0.1, smooth=0.0).fit(train)
formed = AdditiveRanker(
    C=0.1, smooth=0.0, monotone={"rating": "increasing", "price": "decreasing"}
).fit(train)
both = AdditiveRanker(
    C=0.1, smooth=0.0, monotone={"rating": "increasing concave", "price": "decreasing"}
).fit(train)
rankers = {"free": free, "monotone": formed, "rating also concave": both}
for name, ranker in rankers.items():
    print(f"NDCG@10 of new queries, {name}: {ranker.score(test):.4f}")

# %%
# The curves
# ----------
# The free curves follow the noise of the training queries. The monotone curves are flat where the
# data ask for the wrong direction.
fig, axes = plt.subplots(1, 2, figsize=(9, 3.8), sharey=True)
for feature, ax in enumerate(axes):
    grid = np.linspace(train.X[:, feature].min(), train.X[:, feature].max(), 300)
    for (name, ranker), style in zip(rankers.items(), (":", "-", "--"), strict=True):
        values = ranker.model_.curves[feature](grid)
        ax.plot(grid, values - values.mean(), style, linewidth=1.8, label=name)
    ax.axhline(0.0, color="#666666", linewidth=0.8)
    ax.set(title=NAMES[feature], xlabel=["rating in stars", "price in euros"][feature])
axes[0].set_ylabel("contribution to the score")
axes[1].legend()
plt.show()

wrong = {}
for name, ranker in rankers.items():
    steps = np.diff(ranker.model_.curves[0](np.linspace(1.0, 5.0, 400)))
    wrong[name] = (steps < 0).mean()
    print(f"{name}: the curve of the rating falls in {wrong[name]:.0%} of its range")

# %%
# Weights with a sign
# -------------------
# A linear ranker has one weight per feature, and ``bounds`` limits it. A limit is a number for all
# features, or a dict by name. Here a rating must not lower a score, and a price must not raise it.
bounded = RankSVM(scale="standard", bounds=({"rating": 0.0}, {"price": 0.0})).fit(train)
for name, weight in zip(NAMES, bounded.coef_, strict=True):
    print(f"weight of {name}: {weight:+.4f}")

# %%
# What to read next
# -----------------
# - :doc:`plot_additive` introduces curves.
# - :doc:`../serving/plot_export` puts a model into a search engine.
# - :class:`linrank.AdditiveRanker` and :class:`linrank.RankSVM` list all options.
