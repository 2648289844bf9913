"""
Which features matter?
======================

The weights of a ranker depend on the units of its features: a price in cents has a weight that is
a hundred times smaller than that of a price in euros. *Standardised weights* do not depend on
units, so they can be compared. This page shows the difference.
"""

# %%
# A shop with features in many units
# ----------------------------------
# The label of a product is a grade from 0 to 3. Prices are in cents, ratings are from 1 to 5 stars,
# ``age_s`` is the age of the entry in seconds, and ``lucky_number`` has no effect at all.
import matplotlib.pyplot as plt
import numpy as np

from linrank import RankingData, RankSVM

plt.style.use("linrank.style")
NAMES = ["bm25", "rating", "price_cents", "age_s", "in_stock", "lucky_number"]

rng = np.random.default_rng(0)
n = 3000
X = np.column_stack(
    [
        rng.gamma(4.0, 2.0, n),
        rng.uniform(1.0, 5.0, n),
        rng.integers(500, 90_000, n),
        rng.exponential(30 * 86_400.0, n),  # a month on average
        rng.random(n) < 0.8,
        rng.integers(0, 1000, n),
    ]
).astype(float)
EFFECTS = [0.25, 0.6, -2e-5, -1.5e-7, 1.0, 0.0]  # grades per unit
utility = X @ EFFECTS + rng.normal(0, 0.7, n)
y = np.digitize(utility, np.quantile(utility, [0.5, 0.75, 0.9]))
data = RankingData(X, y, np.repeat(np.arange(n // 20), 20), feature_names=NAMES)

# %%
# Weights and standardised weights
# --------------------------------
# A standardised weight is the weight times the standard deviation of the feature. It says how much
# the score changes if the feature rises by one standard deviation. Its sign is that of the effect.
# ``model_.plot`` draws both kinds.
ranker = RankSVM(scale="standard").fit(data)

fig, (above, below) = plt.subplots(2, 1, figsize=(7, 5))
ranker.model_.plot(ax=above, column="weight")
above.set_title("Weights: the units hide what matters")
ranker.model_.plot(ax=below)
below.set_title("Standardised weights: one unit for all")
plt.show()

# %%
# A change of units changes nothing
# ---------------------------------
# Now the price is in euros and the age in days. The weights of the two features change a lot, and
# the standardised weights do not.
in_euros = RankingData(
    X / [1, 1, 100, 86_400, 1, 1], y, data.qid, feature_names=["bm25", "rating", "price_eur",
    "age_days", "in_stock", "lucky_number"],
)  # fmt: skip
again = RankSVM(scale="standard").fit(in_euros)
for k in (2, 3):
    print(
        f"{NAMES[k]:12s} weight {ranker.coef_[k]:+.2e} becomes {again.coef_[k]:+.2e}; "
        f"standardised {ranker.standardized_coef_[k]:+.3f} and {again.standardized_coef_[k]:+.3f}"
    )

# %%
# How sure is a weight?
# ---------------------
# We fit the ranker 40 times on queries drawn with replacement. If the bar of a feature crosses 0,
# the data do not say whether the feature helps or harms.
queries = np.arange(data.n_queries)
drawn = []
for _ in range(40):
    chosen = rng.choice(queries, len(queries))
    rows = (20 * chosen[:, None] + np.arange(20)).ravel()
    qid = np.repeat(np.arange(len(queries)), 20)  # each copy of a query is a query of its own
    fitted = RankSVM(scale="standard").fit(X[rows], y[rows], qid=qid)
    drawn.append(fitted.standardized_coef_)
low, middle, high = np.quantile(drawn, [0.025, 0.5, 0.975], axis=0)

order = np.argsort(np.abs(middle))
fig, ax = plt.subplots(figsize=(7, 3))
crosses = (low < 0) & (high > 0)
for place, feature in enumerate(order):
    colour = "#999999" if crosses[feature] else "C0" if middle[feature] > 0 else "C1"
    ax.plot([low[feature], high[feature]], [place, place], color=colour, linewidth=5, alpha=0.5)
    ax.plot(middle[feature], place, "o", color=colour)
ax.axvline(0.0, color="#666666", linewidth=0.8)
ax.set_yticks(range(len(order)), [NAMES[f] for f in order])
ax.set(title="95 % bootstrap intervals (grey: the interval contains 0)")
ax.set(xlabel="standardised weight (score per standard deviation)", ylabel="feature")
plt.show()

print("features whose interval contains 0:", [NAMES[f] for f in np.flatnonzero(crosses)])

# %%
# What to read next
# -----------------
# - :doc:`plot_explain_pair` splits the difference of two scores into features.
# - :doc:`plot_sparse_path` removes features that are not needed.
# - :class:`linrank.RankSVM` and :class:`linrank.LinearModel` list all options.
