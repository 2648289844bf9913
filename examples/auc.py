"""One query with all rows: maximise the AUC of two labels, or the order of real-valued targets.

Run it with ``python examples/auc.py``.
"""

import time

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_score

from linrank import RankSVM, RankSVMCV, kendall

random = np.random.default_rng(0)


def make_rare(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Make data in which about 5 % of the rows are positive."""
    X = random.normal(size=(n, 8))
    risk = X @ [1.0, -0.8, 0.6, 0.0, 0.0, 0.4, 0.0, 0.2] + random.normal(size=n)
    return X, (risk > 2.9).astype(int)


# Without `qid` all rows are one query. With two labels, the pairs are all positive rows with all
# negative rows, and the share of pairs in the right order is the AUC.
X, y = make_rare(3000)
X_test, y_test = make_rare(3000)
ranker = RankSVMCV(np.logspace(-8, -2, 7), metric="auc", cv=3, scale="standard").fit(X, y)
scores = ranker.predict(X_test)
print(f"positive rows: {y.mean():.3f}")
print(f"C = {ranker.C_:g}; AUC of new rows: {roc_auc_score(y_test, scores):.3f}")

# Scorers of scikit-learn work as well, because the scores of all rows can be compared.
folds = cross_val_score(RankSVM(C=ranker.C_), X, y, scoring="roc_auc", cv=3)
print(f"AUC of the folds: {folds.mean():.3f}")

# Scores are not probabilities. Calibration learns a probability for each score.
model = CalibratedClassifierCV(RankSVM(C=ranker.C_), cv=3).fit(X, y)
probability = model.predict_proba(X_test)[:, 1]
print(f"mean probability {probability.mean():.3f}, share of positive rows {y_test.mean():.3f}")

# Real-valued targets: every pair of rows with different targets counts, here about 4.5 million.
# Only the order of the targets matters, so an increasing function of them changes nothing.
signal = X @ [1.0, -0.8, 0.6, 0.0, 0.0, 0.4, 0.0, 0.2]
target = np.exp(signal + 0.5 * random.normal(size=3000))  # as skewed as prices or waiting times
by_price = RankSVM(C=1e-6).fit(X, target)
by_log_price = RankSVM(C=1e-6).fit(X, np.log(target))
print(f"pairs of real-valued targets: {by_price.n_pairs_:,}")
print(f"Kendall's tau: {kendall(target, by_price.predict(X)):.3f}")
print("the logarithm gives the same model:", bool(np.allclose(by_price.coef_, by_log_price.coef_)))

# The number of pairs grows with the square of the rows, but the time does not: sums over pairs are
# computed from sorted scores.
for n in (25_000, 100_000):
    X, y = make_rare(n)
    start = time.perf_counter()
    fitted = RankSVM(C=1e-7).fit(X, y)
    seconds = time.perf_counter() - start
    print(f"{n:,} rows with {fitted.n_pairs_:,} pairs were fitted in {seconds:.2f} s")
