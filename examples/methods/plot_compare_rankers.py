"""
Is the new ranker really better?
================================

A new ranker has a higher mean NDCG than the old one. Is that luck? :func:`linrank.compare` looks at
each query: it has an interval of the difference, two tests, and the queries that have changed most.
"""

# %%
# Two rankers
# -----------
# The old ranker has learnt from 20 queries and the new one from 60. Both are tested on the same 80
# new queries.
import matplotlib.pyplot as plt
import numpy as np

from linrank import RankSVM, compare, evaluate, make_ranking
from linrank.baselines import AdaRank, RankBoost
from linrank.statistics import (
    average_ranks,
    friedman_test,
    nemenyi_critical_difference,
    similar_groups,
)
from linrank.study.study_page import draw_critical_difference, height_of_ranks

plt.style.use("linrank.style")
data = make_ranking(
    n_queries=140, docs_per_query=20, n_features=20, noise=1.0, n_informative=8, random_state=0
)
train = data.take(np.flatnonzero(data.qid <= 60))
test = data.take(np.flatnonzero(data.qid > 60))
old = RankSVM().fit(train.take(np.flatnonzero(train.qid <= 20)))
new = RankSVM().fit(train)

found = compare(test, old, new, "ndcg@10, map, p(rel=2)@5")
print(found)

# %%
# What the numbers say
# --------------------
# "B − A" is the mean difference. If its 95 % interval does not contain 0, chance alone rarely gives
# such a difference. "Holm" is a p-value that allows for the number of metrics. The picture on the
# left has one bar per query: the new ranker is better in most queries, and worse in some. The
# picture on the right has the intervals of all metrics.
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4), width_ratios=(1.3, 1))
found.plot(ax=left)
for place, metric in enumerate(found.metrics.values()):
    low, high = metric.interval
    right.plot([low, high], [place, place], linewidth=5, alpha=0.4, color="C0")
    right.plot(metric.difference, place, "o", color="C0")
    p_value = metric.p_holm["randomization"]
    right.annotate(
        f"adjusted p = {p_value:.4f}", (metric.difference, place), xytext=(0, 10),
        textcoords="offset points", ha="center",
    )  # fmt: skip
right.axvline(0.0, color="#666666", linewidth=0.8)
right.set_yticks(range(len(found.metrics)), list(found.metrics))
right.set_ylim(-0.5, len(found.metrics) - 0.3)
right.set(title="Mean difference with 95 % interval", xlabel="B − A", ylabel="metric")
plt.show()

# %%
# Which queries have become worse? These are the ones to look at before the new ranker is released.
print("query    old    new")
for change in found.most_changed(40):
    if change.difference < -0.1:
        print(f"{change.qid:5d}  {change.a:.3f}  {change.b:.3f}")

# %%
# More than two rankers
# ---------------------
# With several rankers, somebody is always the best. We rank them within each query and use the test
# of Friedman: does any ranker differ from the others? The critical difference of Nemenyi then says
# which of them do.
rankers = {
    "RankSVM, 60 queries": new,
    "RankSVM, 20 queries": old,
    "RankBoost": RankBoost(n_rounds=100).fit(train.X, train.y, qid=train.qid),
    "AdaRank": AdaRank().fit(train.X, train.y, qid=train.qid),
}
per_query = np.column_stack(
    [
        evaluate(test.y, ranker.predict(test.X), test.qid, "ndcg@10").per_query["ndcg@10"]
        for ranker in rankers.values()
    ]
)
friedman = friedman_test(per_query)
ranks = average_ranks(per_query)
limit = nemenyi_critical_difference(k=len(rankers), n=len(per_query))
groups = similar_groups(ranks, limit)
print(f"p-value of Friedman's test: {friedman.p_value:.2g}; critical difference {limit:.2f}")

# %%
# A bar joins rankers whose average ranks differ by less than the critical difference. The data do
# not tell them apart.
names = list(rankers)
fig, ax = plt.subplots(figsize=(8, height_of_ranks(len(names))))
draw_critical_difference(ax, names, ranks, limit, groups)
ax.set_title("Average rank over the test queries (1 is the best)")
plt.show()

# %%
# What to read next
# -----------------
# - :doc:`../basics/plot_first_ranker` trains a ranker.
# - :func:`linrank.compare`, :func:`linrank.compare_evaluations` and :func:`linrank.evaluate` list
#   all options.
