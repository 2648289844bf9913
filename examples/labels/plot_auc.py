"""
How do I maximise the AUC of a binary target?
=============================================

Many tables have two labels and no queries: clicked or not, defaulted or not, rich or not. The AUC
is the share of pairs of a positive and a negative row that the scores put in the right order. If
all rows are one query, :class:`linrank.RankSVM` minimises a loss over exactly these pairs.
"""

# %%
# Data like a census
# ------------------
# We generate a table in the form of the well-known a9a data: 123 features that are 0 or 1, about 14
# of them set in each row. About one row in twenty is positive, which is a rare target. The matrix
# is sparse, and the ranker keeps it so.
import matplotlib.pyplot as plt
import numpy as np
from scipy.sparse import csr_array
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score, roc_curve

from linrank import RankSVM, RankSVMCV

plt.style.use("linrank.style")
rng = np.random.default_rng(0)
effects = rng.normal(size=123) * (rng.random(123) < 0.5)  # half of the features have no effect


def make_census(n):
    """Return rows with 14 groups of features, of which one is set per group, and labels."""
    groups = np.array_split(np.arange(123), 14)
    columns = np.column_stack([rng.choice(group, n) for group in groups])
    rows = np.repeat(np.arange(n), 14)
    X = csr_array((np.ones(14 * n), (rows, columns.ravel())), shape=(n, 123))
    risk = X @ effects + rng.normal(0, 1.5, n)
    return X, (risk > 4.3).astype(int)


X, y = make_census(6000)
X_test, y_test = make_census(20_000)
print(f"{X.shape[0]:,} rows, share of positive rows: {y.mean():.3f}")

# %%
# Fit
# ---
# There is no ``qid``, so all rows are one query. ``metric="auc"`` chooses ``C`` by the AUC of
# held-out rows. The number of pairs is in the millions, but the pairs are never listed.
ranker = RankSVMCV(metric="auc", cv=3).fit(X, y)
scores = ranker.predict(X_test)
print(f"{ranker.n_pairs_:,} pairs, C = {ranker.C_:g}")
print(f"AUC of new rows: {roc_auc_score(y_test, scores):.4f}")

logistic = LogisticRegression(max_iter=1000).fit(X, y)
print(f"logistic regression: {roc_auc_score(y_test, logistic.decision_function(X_test)):.4f}")

# %%
# On such data a good classifier has nearly the same AUC. The ranker is the more direct choice if
# the order is what you need: it has no threshold, and it needs no class weights however rare the
# positive rows are.

# %%
# The ROC curve, and what it is made of
# -------------------------------------
# The AUC is the area under the left curve. It is also the probability that a random score of the
# orange class in the right picture is above a random score of the blue class. The point of the
# curve answers a practical question: if we accept a tenth of the negative rows, how many of the
# positive rows do we find?
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 4))
false, true, _ = roc_curve(y_test, scores)
found = float(np.interp(0.1, false, true))
left.plot(false, true, label=f"RankSVM: AUC {roc_auc_score(y_test, scores):.3f}")
left.fill_between(false, true, alpha=0.1)
left.plot(0.1, found, "o", color="C0")
left.annotate(
    f"{found:.0%} of the positive rows\nat 10 % of the negative rows", (0.1, found),
    xytext=(10, -16), textcoords="offset points",
)  # fmt: skip
left.plot([0, 1], [0, 1], ":", color="#666666", label="chance: AUC 0.5")
left.set(title="ROC curve of new rows", xlabel="false positive rate", ylabel="true positive rate")
left.legend(loc="lower right")

bins = np.linspace(scores.min(), scores.max(), 50)
for label, name in ((0, "negative rows"), (1, "positive rows")):
    right.hist(scores[y_test == label], bins, density=True, alpha=0.6, label=name)
right.set(title="Scores of the two classes", xlabel="score", ylabel="density")
right.legend()
plt.show()

# %%
# Probabilities
# -------------
# Scores are not probabilities. ``CalibratedClassifierCV`` of scikit-learn learns a probability for
# each score, and the order of the rows hardly changes.
calibrated = CalibratedClassifierCV(RankSVM(C=ranker.C_), method="isotonic", cv=3).fit(X, y)
probability = calibrated.predict_proba(X_test)[:, 1]
tenths = np.array_split(np.argsort(probability, kind="stable"), 10)
predicted = [probability[rows].mean() for rows in tenths]
observed = [y_test[rows].mean() for rows in tenths]

fig, ax = plt.subplots(figsize=(5, 4))
ax.plot(predicted, observed, "o-", label="tenths of the new rows")
ax.plot([0, max(predicted)], [0, max(predicted)], ":", color="#666666", label="perfect calibration")
ax.set(title="Predicted and observed probabilities", xlabel="mean predicted probability")
ax.set_ylabel("share of positive rows")
ax.legend()
plt.show()

# %%
# What to read next
# -----------------
# - :doc:`plot_huge_queries` ranks real-valued targets, with far more pairs.
# - :func:`linrank.auc` computes the AUC within queries.
# - :class:`linrank.RankSVMCV` lists all options.
