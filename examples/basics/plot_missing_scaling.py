"""
Do I have to scale features and fill missing values?
====================================================

Raw features of a search engine have very different ranges, a few huge values, and holes. The
penalty of a linear ranker treats all weights alike, so the ranges matter. ``scale=`` and
``missing=`` of :class:`linrank.RankSVM` prepare the features. The model stores what they have
learnt, so ``predict``, the command line and exports do the same.
"""

# %%
# Raw features
# ------------
# Six features have log-normal values on scales from 1 to 10⁵. Their logarithms decide the label.
# Products that are new have no clicks yet, so about a quarter of the clicks are missing. Many new
# products are good, so that a value is missing says something.
import matplotlib.pyplot as plt
import numpy as np

from linrank import RankingData, RankSVM

plt.style.use("linrank.style")
NAMES = ["clicks", "length", "links", "views", "age", "sales"]
SCALES = 10.0 ** np.arange(6)
rng = np.random.default_rng(0)

n = 6000
logs = rng.normal(size=(n, 6))
utility = logs @ [1.0, 0.3, 0.7, -0.5, 0.2, 0.4] + rng.normal(0, 0.5, n)
y = np.digitize(utility, np.quantile(utility, [0.5, 0.75, 0.9]))
raw = SCALES * np.exp(1.5 * logs)
holes = rng.random(n) < np.where(utility > 0.5, 0.5, 0.1)
X = raw.copy()
X[holes, 0] = np.nan
qid = np.repeat(np.arange(n // 20), 20)
known = qid < 200

fig, ax = plt.subplots(figsize=(7, 3.2))
parts = ax.violinplot([np.log10(column) for column in raw.T], showextrema=False)
for part in parts["bodies"]:
    part.set(facecolor="C0", alpha=0.5)
ax.set_xticks(range(1, 7), NAMES)
ax.yaxis.set_major_formatter(lambda x, _: f"$10^{{{x:.0f}}}$")
ax.set(title="Raw features: six ranges, long tails", xlabel="feature", ylabel="value (log scale)")
plt.show()

# %%
# Scaling
# -------
# We fill no holes yet and take the features without them. For each scale we try many values of
# ``C`` and draw the NDCG@10 of new queries. A good scale is good for many values of ``C``.
scales = {
    "none": None,
    "maxabs": "maxabs",
    "standard": "standard",
    "log1p+standard": "log1p+standard",
    "query": "query",
}
Cs = 10.0 ** np.arange(-4, 5, 2)


def quality(X, **options):
    """Return the mean NDCG@10 of new queries."""
    ranker = RankSVM(**options).fit(RankingData(X[known], y[known], qid[known], allow_missing=True))
    return ranker.score(RankingData(X[~known], y[~known], qid[~known], allow_missing=True))


found = {name: [quality(raw, C=C, scale=scale) for C in Cs] for name, scale in scales.items()}
fig, ax = plt.subplots()
for (name, values), marker in zip(found.items(), "osD^v", strict=True):
    ax.semilogx(Cs, values, f"{marker}-", markersize=4, label=name)
ax.set(title="Scaling decides more than C", ylabel="mean NDCG@10 of new queries")
ax.set_xlabel("C, the weight of the loss against the penalty (log scale)")
ax.legend(title="scale", loc="upper left", bbox_to_anchor=(1.01, 1.0))
plt.show()

for name, values in found.items():
    print(f"{name:15s} from {min(values):.3f} to {max(values):.3f}")

# %%
# Missing values
# --------------
# ``missing="indicator"`` fills a hole with the median and gives the fact that the value is missing
# a weight of its own. Here the holes are informative: good products have them more often. The
# dotted line is a ranker that has seen the values in the holes.
ways = ["zero", "median", "indicator"]
common = {"C": 1e-3, "scale": "log1p+standard"}
filled = [quality(X, missing=way, **common) for way in ways]
complete = quality(raw, **common)

fig, ax = plt.subplots(figsize=(6, 2.6))
bars = ax.barh(ways, filled, color="C0", height=0.6)
ax.bar_label(bars, [f"{value:.3f}" for value in filled], padding=3)
ax.axvline(complete, color="#666666", linestyle=":", label=f"without holes: {complete:.3f}")
ax.set_xlim(min(filled) - 0.03, complete + 0.01)
ax.set(title=f"{holes.mean():.0%} of the clicks are missing", xlabel="mean NDCG@10 of new queries")
ax.set_ylabel("missing=")
ax.grid(visible=False, axis="y")
ax.legend(loc="lower left", bbox_to_anchor=(1.01, 0.0))
plt.show()

# %%
# What to read next
# -----------------
# - :doc:`plot_grid_search` tunes scale and ``C`` together.
# - :doc:`../explaining/plot_additive` learns curves, which need no scaling.
# - :class:`linrank.RankSVM` lists all scales.
