"""
Hinge, squared hinge or logistic loss?
======================================

A pairwise loss says how bad it is if the score of the better document is only ``t`` above that of
the worse one. The losses differ in how much they care about pairs that are far in the wrong order.
This matters if some labels are wrong.
"""

# %%
# The shapes
# ----------
# To the right of t = 1, a pair is in the right order by a margin, and the hinges are 0. To the
# left, the squared hinge grows fastest, and the others become straight lines.
import matplotlib.pyplot as plt
import numpy as np

from linrank import RankingData, RankSVM, make_problem, make_ranking, regularization_path
from linrank.losses import get_loss

plt.style.use("linrank.style")
STYLES = {"squared_hinge": "-", "hinge": "--", "huber": "-.", "logistic": ":"}

t = np.linspace(-2.0, 3.0, 400)
fig, ax = plt.subplots(figsize=(6, 3.6))
for name, line in STYLES.items():
    ax.plot(t, get_loss(name)(t), line, linewidth=1.8, label=name)
ax.axvline(0.0, color="#666666", linewidth=0.8)
ax.annotate("wrong order", (-0.1, 6.3), ha="right")
ax.annotate("right order", (0.1, 6.3), ha="left")
ax.set(title="The loss of one pair", ylim=(-0.2, 7))
ax.set(xlabel="t, the score of the better document minus that of the worse one", ylabel="loss")
ax.legend(loc="center right")
plt.show()

# %%
# What if labels are wrong?
# -------------------------
# Some labels are worse than noise: somebody gives the best grade to pages that are obviously bad.
# We take a share of the training documents, those with the lowest true score, and give them the
# best label. For each loss, ``C`` is chosen on clean queries, so that the comparison is fair.
data, truth = make_ranking(
    n_queries=500, docs_per_query=15, n_features=12, noise=0.3, random_state=5, return_coef=True
)
train = data.take(np.flatnonzero(data.qid <= 100))
valid = data.take(np.flatnonzero((data.qid > 100) & (data.qid <= 200)))
test = data.take(np.flatnonzero(data.qid > 200))
worst_first = np.argsort(train.X @ truth)

shares = [0.0, 0.03, 0.06, 0.09]
found = {name: [] for name in STYLES}
for share in shares:
    y = train.y.copy()
    y[worst_first[: round(share * len(y))]] = y.max()
    for name in STYLES:
        problem = make_problem(RankingData(train.X, y, train.qid), loss=name)
        path = regularization_path(problem, np.logspace(-6, 0, 13), tol=1e-2)
        found[name].append(path.evaluate(test)[path.evaluate(valid).argmax()])

fig, ax = plt.subplots()
for name, line in STYLES.items():
    ax.plot(shares, found[name], line, marker="o", markersize=4, linewidth=1.8, label=name)
ax.xaxis.set_major_formatter("{x:.0%}")
ax.set(title="Quality when the worst documents get the best grade")
ax.set(xlabel="share of the training labels that are wrong", ylabel="mean NDCG@10 of new queries")
ax.legend()
plt.show()

for name, values in found.items():
    print(f"{name:13s} clean labels {values[0]:.3f}, {shares[-1]:.0%} wrong {values[-1]:.3f}")

# %%
# On clean labels the losses hardly differ. With wrong labels they do. The squared hinge tries
# hardest to please the few pairs that are far in the wrong order. The hinge has the same slope for
# all wrong pairs, so single pairs cannot pull it far. The logistic loss becomes a straight line
# only far to the left, so for small score differences it behaves like a parabola, too.
#
# Speed is another difference. The squared hinge, Huber's loss and the logistic loss have a
# derivative everywhere, so Newton's method needs few steps. The hinge has none at t = 1. Its solver
# replaces the corner by a small curve and reports a duality gap.
quick = RankSVM().fit(train)
slow = RankSVM(loss="hinge").fit(train)
print(f"squared hinge: {quick.result_.n_evaluations} evaluations of the objective")
print(f"hinge: {slow.result_.n_evaluations} evaluations, duality gap {slow.result_.gap:.1e}")

# %%
# What to read next
# -----------------
# - :doc:`plot_solvers` compares the algorithms that minimise a loss.
# - :doc:`../basics/plot_choose_c` says what ``C`` does.
# - :class:`linrank.RankSVM` lists all losses, also one of your own as a table.
