"""Habits of scikit-learn, XGBoost and LightGBM: pipelines, grid searches, groups and eval sets.

Run it with ``python examples/data_scientist.py``. It writes its files to the current folder.
"""

import numpy as np
import sklearn
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

# With metadata routing, scikit-learn passes `qid` to the folds, to `fit` and to the scorer.
sklearn.set_config(enable_metadata_routing=True)

UNITS = [1.0, 1000.0, 0.01, 1.0, 50.0]  # the features have different units
data = make_ranking(n_queries=120, docs_per_query=15, n_features=5, random_state=0)
X, y, qid = data.X * UNITS, data.y, data.qid
known = qid <= 80  # whole queries: documents of one query never belong to both parts

# A grid search over a pipeline. QueryKFold keeps queries together, and the scorer is a mean over
# queries, so both need `qid`.
search = GridSearchCV(
    make_pipeline(StandardScaler(), RankSVM()),
    {"ranksvm__C": [1e-4, 1e-3, 1e-2, 1e-1]},
    scoring=make_ranking_scorer("ndcg@10"),
    cv=QueryKFold(4),
)
search.fit(X[known], y[known], qid=qid[known])
print("best parameters:", search.best_params_)
print(f"NDCG@10 of the folds: {search.best_score_:.3f}")
print(f"NDCG@10 of new queries: {search.score(X[~known], y[~known], qid=qid[~known]):.3f}")

# One JSON file holds the scaler and the ranker. Unlike a pickle it can be read by any version, and
# linrank predict, linrank export and `load_model` use it. A constant is left out of the scores.
pipe = search.best_estimator_
LinearModel.from_pipeline(pipe).save("model.json")
difference = load_model("model.json").predict(X) - pipe.predict(X)
print("the saved model has the scores of the pipeline:", bool(np.ptp(difference) < 1e-9))

# Weights depend on the units of the features. Importances do not: they are absolute weights times
# standard deviations.
ranker = RankSVM(C=0.01, scale="standard").fit(X, y, qid=qid)
in_units = RankSVM(C=0.01, scale="standard").fit(data.X, y, qid=qid)
print("importances:", np.round(ranker.feature_importances_, 3).tolist())
same = np.allclose(ranker.feature_importances_, in_units.feature_importances_, rtol=1e-3)
print("importances do not depend on units:", same)

# The arguments of XGBoost and LightGBM: sizes of queries, and an evaluation set. RankSVMCV chooses
# C on the evaluation set, from the smallest C to the largest with warm starts.
sizes, eval_sizes = [15] * 80, [15] * 40
chosen = RankSVMCV(np.logspace(-5, -1, 9), scale="standard").fit(
    X[known], y[known], group=sizes, eval_set=[(X[~known], y[~known])], eval_group=[eval_sizes]
)
print(f"C = {chosen.C_:g} has NDCG@10 = {chosen.best_score_:.3f} on the evaluation set")
print("values of C that were tried:", len(chosen.cv_results_["params"]))
