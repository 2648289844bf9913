"""
How do I rank items from comparisons?
=====================================

Sometimes there are no labels at all. People say which of two hotels they would rather book, or a
player beats another one. ``fit_pairs`` learns from such preferences. The ranker can then score
every item, also those that nobody has compared.
"""

# %%
# Hotels and the answers of people
# --------------------------------
# There is one row of features per hotel. We know the true utility of the hotels because we generate
# the data. People are not always consistent: their answers contain noise.
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from linrank import RankSVM, RankSVMCV, read_pairs

plt.style.use("linrank.style")
rng = np.random.default_rng(0)
FEATURES = ["stars", "distance_km", "price", "breakfast"]
N_HOTELS = 80

names = [f"hotel {i}" for i in range(N_HOTELS)]
X = np.column_stack(
    [
        rng.integers(1, 6, N_HOTELS),
        rng.gamma(2.0, 2.0, N_HOTELS),
        rng.uniform(40, 300, N_HOTELS),
        rng.integers(0, 2, N_HOTELS),
    ]
).astype(float)
utility = X @ [1.0, -0.4, -0.012, 0.8]


def ask(n_questions):
    """Return answers: two hotels, the preferred one first."""
    one, other = rng.integers(0, N_HOTELS, (2, n_questions))
    other = np.where(one == other, (one + 1) % N_HOTELS, other)
    prefers_one = utility[one] - utility[other] + rng.normal(0, 1.0, n_questions) > 0
    first, second = np.where(prefers_one, one, other), np.where(prefers_one, other, one)
    return [(names[i], names[j]) for i, j in zip(first, second, strict=True)]


# %%
# Learn from 400 answers
# ----------------------
# Pairs are pairs of names, and ``items`` says which row of ``X`` each name is. ``C`` is chosen by
# the share of held-out pairs in the right order. All answers on the same two hotels are in one
# fold.
answers, new_answers = ask(400), ask(2000)
ranker = RankSVMCV(cv=5, scale="standard")
ranker.fit_pairs(X, answers, items=names)
scores = ranker.predict(X)
print(f"C = {ranker.C_:g}; held-out answers in the right order: {ranker.best_score_:.3f}")
print(f"new answers in the right order: {ranker.score_pairs(X, new_answers, items=names):.3f}")
perfect = np.mean([utility[names.index(i)] > utility[names.index(j)] for i, j in new_answers])
print(f"a ranker that knows the true utility: {perfect:.3f}")

# %%
# What do people like?
# --------------------
# The left picture compares the learnt scores with the true utility. The right picture has the
# standardised weights: stars and breakfast are liked, distance and price are not.
fig, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.8))
left.plot(utility, scores, "o", markersize=4, alpha=0.7)
correlation = np.corrcoef(np.argsort(np.argsort(utility)), np.argsort(np.argsort(scores)))[0, 1]
left.set(title=f"80 hotels, rank correlation {correlation:.3f}")
left.set(xlabel="true utility", ylabel="learnt score")
weights = ranker.standardized_coef_
order = np.argsort(weights)
right.barh(range(4), weights[order], color=["C0" if w > 0 else "C1" for w in weights[order]])
right.set_yticks(range(4), [FEATURES[f] for f in order])
right.axvline(0.0, color="#666666", linewidth=0.8)
right.set(title="What people like", xlabel="standardised weight", ylabel="feature")
plt.show()

# %%
# How many answers are enough?
# ----------------------------
# The share of new answers in the right order cannot pass the dotted line, because people contradict
# themselves.
sizes = [5, 10, 20, 40, 80, 160, 320, 640]
found = np.array(
    [
        [
            RankSVM(scale="standard")
            .fit_pairs(X, ask(n), items=names)
            .score_pairs(X, new_answers, items=names)
            for n in sizes
        ]
        for _ in range(10)
    ]
)
fig, ax = plt.subplots()
ax.semilogx(sizes, found.mean(axis=0), "o-", label="mean of 10 surveys")
ax.fill_between(sizes, found.min(axis=0), found.max(axis=0), alpha=0.2, label="lowest to highest")
ax.axhline(perfect, color="#666666", linestyle=":", label="true utility")
ax.set_xticks(sizes, sizes)
ax.minorticks_off()
ax.set(title="Each answer helps less than the one before", xlabel="answers (log scale)")
ax.set_ylabel("new answers in the right order")
ax.legend(loc="lower right")
plt.show()

# %%
# Files of preferences
# --------------------
# Preferences are often in a file with the columns winner and loser, and sometimes a weight, such as
# the number of people who gave the answer. The command line reads the same file:
# ``linrank train hotels.txt --preferences answers.csv --folds 5``.
lines = [f"{first},{second},1" for first, second in answers]
Path("answers.csv").write_text("winner,loser,weight\n" + "\n".join(lines) + "\n")
again = RankSVM(ranker.C_, scale="standard").fit_pairs(X, read_pairs("answers.csv"), items=names)
print("largest difference of the weights:", f"{np.abs(again.coef_ - ranker.coef_).max():.1e}")
Path("answers.csv").unlink()

# %%
# What to read next
# -----------------
# - :doc:`plot_clicks` learns from what users do in a result list.
# - :func:`linrank.read_pairs` and :class:`linrank.Pairs` describe files of preferences.
# - :class:`linrank.RankSVMCV` lists all options.
