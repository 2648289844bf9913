"""
How do I learn from clicks?
===========================

Clicks are cheap labels, but users look at the top of a list far more often than at its end. A
ranker that takes clicks literally learns to repeat the old order. If the probability that a user
looked at a place is known, ``propensity=`` corrects for it.
"""

# %%
# A search engine and its users
# -----------------------------
# The old engine sorts by a single feature. Users look at place r with probability 1/r. They click
# on what they look at and find relevant; sometimes they click on something irrelevant.
import matplotlib.pyplot as plt
import numpy as np

from linrank import RankSVM, make_ranking, ndcg

plt.style.use("linrank.style")
N_DOCS = 12
data, truth = make_ranking(
    n_queries=6000, docs_per_query=N_DOCS, n_features=10, n_levels=2, noise=0.3, random_state=0,
    return_coef=True,
)  # fmt: skip
old_feature = np.argsort(-truth)[1]  # the old engine has found a useful feature
test = data.take(np.flatnonzero(data.qid > 5000))
rng = np.random.default_rng(0)

old_order = np.lexsort((-data.X[:, old_feature], data.qid))
place = np.empty(data.n_docs)
place[old_order] = np.tile(np.arange(1, N_DOCS + 1), data.n_queries)
looked_at = 1.0 / place
click = (rng.random(data.n_docs) < looked_at) & (rng.random(data.n_docs) < 0.05 + 0.9 * data.y)

# %%
# The left picture at the end of this page shows the bias. The click rate falls from place to
# place much faster than the share of relevant documents. Divided by the propensity, it follows the
# share of relevant documents.
share = {"relevant documents": [], "clicks": [], "clicks / propensity": []}
for r in range(1, N_DOCS + 1):
    here = place == r
    share["relevant documents"].append(data.y[here].mean())
    share["clicks"].append(click[here].mean())
    share["clicks / propensity"].append(click[here].mean() * r)

# %%
# Three rankers
# -------------
# - *naive* takes a click as a label;
# - *propensity* divides the weight of each pair by the probability that its clicked document was
#   looked at;
# - *true labels* knows what the users think, which is the limit that clicks cannot pass.
#
# Each of them learns from more and more queries. The picture has the mean of four drawings of
# queries.
sizes = [50, 100, 200, 400, 800]
quality = {"true labels": [], "propensity": [], "naive": []}
for n in sizes:
    found = {name: [] for name in quality}
    for drawing in range(4):
        first = 1 + drawing * n
        rows = np.flatnonzero((data.qid >= first) & (data.qid < first + n))
        X, qid = data.X[rows], data.qid[rows]
        settings = {
            "true labels": (data.y[rows], None),
            "propensity": (click[rows], looked_at[rows]),
            "naive": (click[rows], None),
        }
        for name, (y, propensity) in settings.items():
            fitted = RankSVM().fit(X, y, qid=qid, propensity=propensity)
            found[name].append(fitted.score(test))
    for name, values in found.items():
        quality[name].append(np.mean(values))

old = ndcg(test.y, test.X[:, old_feature], qid=test.qid, k=10)

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 4))
places = np.arange(1, N_DOCS + 1)
for (name, values), style in zip(share.items(), ("o-", "s--", "D:"), strict=True):
    left.plot(places, values, style, markersize=4, label=name)
left.set(title="What users see and click", xlabel="place in the old list", ylabel="share")
left.set_ylim(0)
left.legend()
for (name, values), style in zip(quality.items(), ("o-", "D:", "s--"), strict=True):
    right.semilogx(sizes, values, style, markersize=4, label=name)
right.axhline(old, color="#666666", linewidth=1, linestyle="-.", label="old engine")
right.set_xticks(sizes, sizes)
right.minorticks_off()
right.set(title="Quality on new queries", xlabel="queries with clicks (log scale)")
right.set_ylabel("mean NDCG@10, by true labels")
right.legend(loc="center right", bbox_to_anchor=(1.0, 0.3))
plt.show()

for name, values in quality.items():
    print(f"NDCG@10 with {sizes[-1]} queries, {name}: {values[-1]:.3f}")
print(f"NDCG@10 of the old engine: {old:.3f}")

# %%
# Where do propensities come from?
# --------------------------------
# Here we knew them. In practice they are estimated, for example by swapping two places for a small
# share of the users. If an estimate is very small, one click gets a huge weight. It is common to
# limit propensities from below, as in ``np.maximum(propensity, 0.05)``.

# %%
# What to read next
# -----------------
# - :doc:`plot_preferences` learns from comparisons of two items.
# - :doc:`../methods/plot_compare_rankers` tests whether a new ranker is better than the old one.
# - :class:`linrank.RankSVM` describes ``propensity`` and the other arguments of ``fit``.
