"""
What if the effect of a feature is not a straight line?
=======================================================

A linear score gives every unit of a feature the same effect. A price can be too high, but also
suspiciously low. :class:`linrank.AdditiveRanker` learns a curve for each feature instead of a
weight. The score stays a sum, so each curve can be drawn and read.
"""

# %%
# Effects that bend
# -----------------
# We know the true curves of the generated data: the price has a best value, more reviews help less
# and less, new articles are better than old ones, and the last feature has no effect.
import matplotlib.pyplot as plt
import numpy as np

from linrank import AdditiveRanker, RankingData, RankSVM

plt.style.use("linrank.style")
rng = np.random.default_rng(0)
TRUTH = {
    "price": lambda x: -np.abs(np.log(x / 40.0)),
    "reviews": lambda x: 0.35 * np.log1p(x),
    "age_days": lambda x: 1.2 * np.exp(-x / 60.0),
    "shop_number": lambda x: 0.0 * x,
}

n = 6000
X = np.column_stack(
    [
        40.0 * rng.lognormal(0.0, 0.8, n),
        rng.geometric(0.02, n) - 1.0,
        rng.exponential(120.0, n),
        rng.integers(1, 500, n),
    ]
)
utility = sum(curve(X[:, f]) for f, curve in enumerate(TRUTH.values())) + rng.normal(0, 0.4, n)
y = np.digitize(utility, np.quantile(utility, [0.5, 0.75, 0.9]))
data = RankingData(X, y, np.repeat(np.arange(n // 20), 20), feature_names=list(TRUTH))
train, test = data.take(np.arange(4000)), data.take(np.arange(4000, n))  # 200 and 100 queries

# %%
# Weights against curves
# ----------------------
# The linear ranker may even take logarithms (``scale="log1p+standard"``). It cannot express a best
# price. ``n_bags=20`` fits the curves on 20 resamples of the queries, which gives them bands.
linear = RankSVM(scale="standard").fit(train)
logarithms = RankSVM(scale="log1p+standard").fit(train)
additive = AdditiveRanker(C=0.003, n_bins=12, n_bags=20).fit(train)
results = {
    "weights": linear.score(test),
    "weights of logarithms": logarithms.score(test),
    "curves": additive.score(test),
}
for name, value in results.items():
    print(f"NDCG@10 of new queries, {name}: {value:.3f}")

# %%
# The curves
# ----------
# ``model_.plot`` draws the curves, the most important first. The shaded band says how sure the
# curve is, and the histogram shows where the training documents are.
additive.model_.plot()
plt.show()

# %%
# And the truth?
# --------------
# A curve may be shifted by a constant and scaled without any change of the order, so we fit both
# numbers once for all curves. We draw the range that holds 98 % of the documents.
fig, axes = plt.subplots(1, 4, figsize=(10, 3), sharey=True)
curves = {curve.feature: curve for curve in additive.model_.curves}
grids = [np.linspace(*np.quantile(X[:, f], [0.01, 0.99]), 200) for f in range(4)]
learnt = [curves[f](grids[f]) if f in curves else np.zeros(200) for f in range(4)]
true = [curve(grid) for curve, grid in zip(TRUTH.values(), grids, strict=True)]
centred = [np.concatenate([part - part.mean() for part in parts]) for parts in (learnt, true)]
scale = centred[0] @ centred[1] / (centred[0] @ centred[0])
for ax, name, grid, a, b in zip(axes, TRUTH, grids, learnt, true, strict=True):
    ax.plot(grid, b - b.mean(), "--", color="#666666", label="truth")
    ax.plot(grid, scale * (a - a.mean()), color="C0", label="learnt")
    ax.set(title=name, xlabel=name)
axes[0].set_ylabel("effect on the utility")
axes[0].legend()
plt.show()

print(f"correlation of all curves with the truth: {np.corrcoef(*centred)[0, 1]:.3f}")

# %%
# What to read next
# -----------------
# - :doc:`plot_monotone` forces curves to rise or to fall.
# - :doc:`plot_explain_pair` explains orders; ``explain_pair`` works for curves, too.
# - :class:`linrank.AdditiveRanker`, :class:`linrank.AdditiveRankerCV` and
#   :class:`linrank.AdditiveModel` list all options.
