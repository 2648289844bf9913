"""
How do I tune a ranker with scikit-learn?
=========================================

Rankers of linrank are estimators of scikit-learn. They work in pipelines and in ``GridSearchCV``,
if two things are right: the folds must keep queries together, and the scorer must be a mean over
queries. :class:`linrank.QueryKFold` and :func:`linrank.make_ranking_scorer` do that.
"""

# %%
# Metadata routing
# ----------------
# The queries ``qid`` must reach the folds, ``fit`` and the scorer. Scikit-learn passes them on if
# metadata routing is enabled.
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import sklearn
from sklearn.feature_selection import SelectKBest, f_regression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from linrank import (
    LinearModel,
    QueryKFold,
    RankSVM,
    RankSVMCV,
    load_model,
    make_ranking,
    make_ranking_scorer,
)

plt.style.use("linrank.style")
UNITS = 10.0 ** np.linspace(-2, 3, 30)  # the features have different units
data = make_ranking(
    n_queries=120, docs_per_query=15, n_features=30, correlation=0.95, n_informative=5, noise=1.0,
    random_state=0,
)  # fmt: skip
X, y, qid = data.X * UNITS, data.y, data.qid
known = qid <= 60  # whole queries: documents of one query never belong to both parts

# %%
# A grid of two parameters
# ------------------------
# The pipeline standardises the features, keeps the k features with the highest correlation with the
# label, and ranks. The grid has k and ``C``.
ks, Cs = [2, 5, 10, 20, 30], [0.01, 0.1, 1.0, 10.0, 100.0, 1000.0]
with sklearn.config_context(enable_metadata_routing=True):
    search = GridSearchCV(
        make_pipeline(StandardScaler(), SelectKBest(f_regression), RankSVM()),
        {"selectkbest__k": ks, "ranksvm__C": Cs},
        scoring=make_ranking_scorer("ndcg@10"),
        cv=QueryKFold(4),
    )
    search.fit(X[known], y[known], qid=qid[known])
    on_new = search.score(X[~known], y[~known], qid=qid[~known])
print("best parameters:", search.best_params_)
print(f"NDCG@10 of the folds: {search.best_score_:.3f}, of new queries: {on_new:.3f}")

# %%
# The picture has the mean NDCG@10 of the folds for each combination.
found = dict(
    zip(map(str, search.cv_results_["params"]), search.cv_results_["mean_test_score"], strict=True)
)
grid = np.array([[found[str({"ranksvm__C": C, "selectkbest__k": k})] for C in Cs] for k in ks])
fig, ax = plt.subplots(figsize=(7, 3.6))
image = ax.imshow(grid, cmap="Blues", aspect="auto")
for row, column in np.ndindex(grid.shape):
    dark = grid[row, column] > (grid.min() + grid.max()) / 2
    ax.text(
        column, row, f"{grid[row, column]:.3f}", ha="center", va="center",
        color="white" if dark else "black",
    )  # fmt: skip
best = np.unravel_index(grid.argmax(), grid.shape)
ax.add_patch(plt.Rectangle((best[1] - 0.5, best[0] - 0.5), 1, 1, fill=False, edgecolor="C1", lw=3))
ax.set_xticks(range(len(Cs)), [f"{C:g}" for C in Cs])
ax.set_yticks(range(len(ks)), ks)
ax.set(title="Mean NDCG@10 of four folds (frame: the best)", xlabel="C")
ax.set_ylabel("k, number of features")
ax.grid(visible=False)
plt.show()

# %%
# One file for the whole pipeline
# -------------------------------
# All steps of this pipeline are linear, so they can be written as one linear model. Every version
# of linrank, the command line and exports read its JSON file. A constant is left out of the scores,
# because it does not change any order.
pipe = search.best_estimator_
LinearModel.from_pipeline(pipe).save("model.json")
difference = load_model("model.json").predict(X) - pipe.predict(X)
print(f"the scores of both differ by a constant, up to {np.ptp(difference):.0e}")
Path("model.json").unlink()

# %%
# The arguments of XGBoost and LightGBM
# -------------------------------------
# ``fit`` also takes the sizes of queries as ``group=`` and an evaluation set. The ranker below
# scales its features itself and chooses ``C`` on the evaluation set, with warm starts along the
# grid.
ranker = RankSVMCV().fit(
    X[known], y[known], group=[15] * 60, eval_set=[(X[~known], y[~known])], eval_group=[[15] * 60]
)
print(f"C = {ranker.C_:g} has NDCG@10 = {ranker.best_score_:.3f} on the evaluation set")

# %%
# What to read next
# -----------------
# - :doc:`plot_choose_c` says what ``C`` does.
# - :doc:`plot_missing_scaling` compares scales.
# - :class:`linrank.QueryKFold`, :func:`linrank.make_ranking_scorer` and
#   :class:`linrank.LinearModel` list all options.
