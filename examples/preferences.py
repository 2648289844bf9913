"""Rank items from comparisons: people prefer one of two hotels, and there are no labels.

Run it with ``python examples/preferences.py``. It writes its files to the current folder.
"""

from pathlib import Path

import numpy as np

from linrank import RankSVM, RankSVMCV, read_pairs

random = np.random.default_rng(0)
FEATURES = ["stars", "distance_km", "price", "breakfast"]

# One row of features per item, and a name for each row.
names = [f"hotel {i}" for i in range(60)]
X = np.column_stack(
    [
        random.integers(1, 6, 60),
        random.gamma(2.0, 2.0, 60),
        random.uniform(40, 300, 60),
        random.integers(0, 2, 60),
    ]
).astype(float)
utility = X @ [1.0, -0.4, -0.012, 0.8]


def ask(n_questions: int) -> list[tuple[str, str]]:
    """Return the answers of people: the preferred hotel first. They are not always consistent."""
    answers = []
    for one, other in (random.choice(60, 2, replace=False) for _ in range(n_questions)):
        prefers_one = utility[one] - utility[other] + random.normal(0, 0.7) > 0
        answers.append((one, other) if prefers_one else (other, one))
    return [(names[first], names[second]) for first, second in answers]


# Pairs of names. `items` says which row of X each name is. A weight is, for example, the number of
# people who gave the answer.
pairs, weight = ask(500), random.integers(1, 4, 500)
ranker = RankSVM(C=0.1, scale="standard").fit_pairs(X, pairs, weight, items=names)
accuracy = ranker.score_pairs(X, pairs, items=names)
print(f"pairs of the training data in the right order: {accuracy:.3f}")

# C is chosen by the share of held-out pairs in the right order. All pairs of the same two hotels
# are in the same fold.
chosen = RankSVMCV(np.logspace(-4, 1, 6), cv=5, scale="standard")
chosen.fit_pairs(X, pairs, weight, items=names)
new = ask(300)
print(f"C = {chosen.C_:g}; held-out pairs in the right order: {chosen.best_score_:.3f}")
print(f"new pairs in the right order: {chosen.score_pairs(X, new, items=names):.3f}")

# The ranking of all items, also of those that were never compared.
ranks = chosen.rank(X)
print("the best hotels:", ", ".join(names[row] for row in np.argsort(ranks)[:3]))
agreement = np.corrcoef(ranks, np.argsort(np.argsort(-utility)))[0, 1]
print(f"rank correlation with the true utility: {agreement:.3f}")

# What do people like? The sign of a weight is that of the effect.
for name, value in zip(FEATURES, chosen.standardized_coef_, strict=True):
    print(f"  {name:12s} {value:+.2f}")

# Preferences are often files: linrank train items.txt --preferences pairs.csv --folds 5.
lines = [f"{first},{second},{w}" for (first, second), w in zip(pairs, weight, strict=True)]
Path("pairs.csv").write_text("winner,loser,weight\n" + "\n".join(lines) + "\n")
again = RankSVM(C=0.1, scale="standard").fit_pairs(X, read_pairs("pairs.csv"), items=names)
print("the file gives the same model:", bool(np.allclose(again.coef_, ranker.coef_)))
