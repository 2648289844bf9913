"""What users give to additive rankers: odd values, odd options, and the habits of scikit-learn."""

from __future__ import annotations

import inspect
import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from linrank import (
    AdditiveRanker,
    AdditiveRankerCV,
    DataError,
    MultiTopicRanker,
    NothingSelectedWarning,
    QueryKFold,
    RankSVM,
    load_model,
    make_ranking,
)
from linrank.choices import BASES
from linrank.training import Trainer, train_best
from linrank.training.additive_trainer import (
    AVERAGED_FITS,
    DEFAULT_PREFERENCES,
    TRIED_PENALTIES,
    AdditiveTrainer,
)

DATA = make_ranking(n_queries=20, docs_per_query=10, n_features=4, random_state=0)
X, Y, QID = DATA.X, DATA.y, DATA.qid
RANKER = AdditiveRanker(0.1).fit(X, Y, QID)
FRAME = pd.DataFrame(X, columns=["bm25", "age", "clicks", "length"])


def fit(features=X, y=Y, qid=QID, C=0.1, **options):
    return AdditiveRanker(C, **options).fit(features, y, qid)


def with_column(values, column=0):
    changed = X.copy()
    changed[:, column] = values
    return changed


# Values --------------------------------------------------------------------------------------


@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("values", [3.0, 0.0, np.nan], ids=["constant", "zero", "missing"])
def test_a_feature_without_information_has_no_part(basis, values):
    ranker = fit(with_column(values), basis=basis)
    assert [curve.feature for curve in ranker.model_.curves] == [1, 2, 3]
    scores = ranker.predict(X)
    np.testing.assert_array_equal(scores, ranker.predict(with_column(values)))
    # A feature of a kind that is not there gives the same scores.
    others = AdditiveRanker(0.1, basis=basis).fit(X[:, 1:], Y, QID).predict(X[:, 1:])
    np.testing.assert_allclose(scores, others, atol=1e-2 * np.ptp(others))


@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("value", [1.0, np.nan])
def test_without_any_information_all_scores_are_equal(basis, value):
    for ranker in (AdditiveRanker(0.1, basis=basis), AdditiveRankerCV(basis=basis, cv=2)):
        with pytest.warns(NothingSelectedWarning):
            ranker.fit(np.full_like(X, value), Y, QID)
        assert not ranker.model_.curves
        np.testing.assert_array_equal(ranker.predict(X), 0.0)


@pytest.mark.parametrize("basis", BASES)
def test_two_values(basis):
    ranker = fit(with_column(Y > 1), basis=basis)
    low, high = ranker.model_.curves[0](np.array([0.0, 1.0]))
    assert low < high


@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("unit", [1e300, 1e-300])
def test_units_do_not_matter(basis, unit):
    scores = fit(basis=basis).predict(X)
    found = fit(X * unit, basis=basis).predict(X * unit)
    np.testing.assert_allclose(found, scores, atol=1e-4 * np.ptp(scores))


@pytest.mark.parametrize("basis", BASES)
def test_an_offset_does_not_matter(basis):
    scores = fit(basis=basis).predict(X)
    found = fit(X + 1e8, basis=basis).predict(X + 1e8)
    np.testing.assert_allclose(found, scores, atol=1e-3 * np.ptp(scores))


@pytest.mark.parametrize("basis", BASES)
def test_a_range_beyond_double_precision(basis):
    ranker = fit(with_column(np.where(Y > 1, 1.7e308, -1.7e308)), basis=basis)
    low, high = ranker.model_.curves[0](np.array([-1.7e308, 1.7e308]))
    assert low < high


@pytest.mark.parametrize("basis", BASES)
def test_missing_values_have_a_part_of_their_own(basis):
    gone = Y.max() == Y  # only the best documents lack the feature
    ranker = fit(with_column(np.where(gone, np.nan, X[:, 0])), basis=basis)
    curve = ranker.model_.curves[0]
    assert curve(np.array([np.nan]))[0] > curve(X[:, 0]).max()
    assert ranker.predict(with_column(np.nan)).shape == (len(X),)
    # Where nothing was missing in training, a missing value counts as the mean of the curve.
    curve = ranker.model_.curves[1]
    assert curve(np.array([np.nan]))[0] == 0.0
    assert abs(curve(X[:, 1]).mean()) < 1e-6 * np.ptp(curve(X[:, 1]))


def test_missing_values_in_sparse_and_held_out_data():
    gaps = with_column(np.where(np.arange(len(X)) % 3, X[:, 0], np.nan))
    dense, thin = fit(gaps), fit(sparse.csr_array(gaps))
    np.testing.assert_allclose(dense.predict(gaps), thin.predict(sparse.csr_array(gaps)))
    chosen = AdditiveRankerCV([0.1, 1.0], average=1).fit(gaps, Y, QID, valid=(gaps, Y, QID))
    assert 0 < chosen.best_score_ <= 1


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinity_is_refused(value):
    with pytest.raises(DataError, match=r"X\[0, 0\] is -?inf; features must be finite"):
        fit(with_column(value))
    with pytest.raises(DataError, match=r"X\[0, 0\] is -?inf; features must be finite"):
        RANKER.predict(with_column(value))


@pytest.mark.parametrize("basis", ["ramp", "spline"])
def test_beyond_the_training_range(basis):
    low, high = X[:, 0].min(), X[:, 0].max()
    ends = np.array([low, high, low - 1.0, high + 1.0, low - 2.0, high + 2.0])
    flat = fit(basis=basis).model_.curves[0](ends)
    np.testing.assert_allclose(flat[2:], flat[[0, 1, 0, 1]], rtol=1e-12)
    near, far = fit(basis=basis, ends="linear").model_.curves[0](ends).reshape(3, 2)[1:]
    start = fit(basis=basis, ends="linear").model_.curves[0](ends[:2])
    np.testing.assert_allclose(far - start, 2 * (near - start), rtol=1e-9)
    assert (near != start).all()


@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("penalty", ["l2", "l1", "group_l1"])
@pytest.mark.parametrize("missing", [False, True])
def test_new_categories_have_the_mean(basis, penalty, missing):
    values = np.maximum(10.0, np.arange(len(X)) % 5 + 8)  # one category has most documents
    given = np.where((np.arange(len(X)) % 7 == 0) & missing, np.nan, values)
    ranker = fit(with_column(given), basis=basis, penalty=penalty, C=1.0, categories=["1"])
    curve = ranker.model_.curves[0]
    known, new = curve(np.array([10.0, 11.0, 12.0])), curve(np.array([7.0, 11.5]))
    assert len(set(known)) > 1
    assert len(set(new)) == 1
    assert known.min() < new[0] < known.max()
    mean = curve(given[~np.isnan(given)]).mean()
    np.testing.assert_allclose(new[0], mean, atol=1e-9 * np.ptp(known))


@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize(
    "form", [np.float32, sparse.csr_array, sparse.csc_matrix, np.asfortranarray]
)
def test_forms_of_X(basis, form):
    thin = np.where(np.abs(X) > 0.5, X, 0.0).round(2)
    expected = fit(thin, basis=basis).predict(thin)
    given = thin.astype(form) if form is np.float32 else form(thin)
    found = fit(given, basis=basis).predict(given)
    np.testing.assert_allclose(found, expected, atol=1e-3 * np.ptp(expected))


@pytest.mark.parametrize("basis", BASES)
def test_few_documents(basis):
    assert np.ptp(fit(X[:10], Y[:10], None, basis=basis).predict(X[:10])) > 0  # 10 for 8 bins
    assert np.ptp(fit(X[:2], [0, 1], None, basis=basis).predict(X[:2])) > 0
    assert fit(X, Y, np.zeros(len(X)), basis=basis).n_queries_ == 1


@pytest.mark.parametrize("ranker", [AdditiveRanker(), AdditiveRankerCV()])
@pytest.mark.parametrize("labels", [(np.zeros(len(X)), QID), (Y, np.arange(len(X)))])
def test_without_pairs_there_is_nothing_to_learn(ranker, labels):
    with pytest.raises(DataError, match="there is no pair to learn from"):
        ranker.fit(X, *labels)


def test_text_columns_need_categories():
    frame = FRAME.assign(language="en")
    with pytest.raises(DataError, match="column 'language' holds string; features must be numbers"):
        fit(frame)
    assert fit(frame, categories=["language"]).model_.names()[-1] == "language"


# Options -------------------------------------------------------------------------------------

WRONG = {
    "no bins": ({"n_bins": 0}, r"^n_bins is 0; expected a whole number from 1 to 254$"),
    "too many bins": ({"n_bins": 1000}, r"^n_bins is 1000; expected a whole number from 1 to 254$"),
    "half a bin": ({"n_bins": 2.5}, "^n_bins is 2.5; expected a whole number"),
    "basis": ({"basis": "ramps"}, "^basis is 'ramps'; known choices are 'ramp', 'step', 'spline'$"),
    "ends": ({"ends": "round"}, "^ends is 'round'; known choices are 'flat', 'linear'$"),
    "negative": ({"smooth": -1}, "^smooth is -1; expected a finite number of at least 0$"),
    "endless": ({"smooth": np.inf}, "^smooth is inf; expected a finite number of at least 0$"),
    "scale": ({"scale": "standard"}, "^scale is 'standard'; expected None, 'query' or 'both'"),
    "steps": ({"scale": "log1p+query"}, "^scale is 'log1p\\+query'; expected None, 'query'"),
    "spline": ({"monotone": {"1": 1}, "basis": "spline"}, "increasing needs basis='ramp', but"),
    "convex": ({"monotone": {"1": "convex"}, "basis": "step"}, "convex needs basis='ramp'"),
    "form": ({"monotone": {"1": "up"}}, "^monotone is 'up'; known choices are 'increasing', "),
    "one form": ({"monotone": "increasing"}, "such as {'bm25': 'increasing'}$"),
    "forms": ({"monotone": [1, 0]}, "^monotone has 2 entries for 4 features. Use one entry per"),
    "number": ({"monotone": {4: 1}}, "^monotone has feature 4, .* with the indices 0 to 3$"),
    "no names": ({"monotone": {"bm25": 1}}, "have no names. Use their numbers, '1' to '4'.$"),
    "category": ({"categories": ["5"]}, "^categories has feature '5', but the features have no"),
    "categories": ({"categories": "bm25"}, "^categories is 'bm25'; expected 'onehot', 'hash'"),
    "both": ({"categories": ["2"], "monotone": {"2": 1}}, "^feature .2. is in categories, .*"),
    "bags": ({"n_bags": -1}, "^n_bags is -1; expected a whole number of at least 0$"),
    "listwise": ({"loss": "domination"}, "Use pairs='all' and rescale=None"),
    "costs": ({"feature_cost": [1, 2], "penalty": "l1"}, "have shape \\(2,\\), but there are 4"),
}  # fmt: skip


@pytest.mark.parametrize("average", [0, 1.5])
def test_a_wrong_number_of_averaged_fits(average):
    with pytest.raises(DataError, match=r"^average is .*; expected a whole number of at least 1$"):
        AdditiveRankerCV([0.1], average=average).fit(X, Y, QID)


def test_a_whole_number_of_bins_may_be_a_float():
    np.testing.assert_array_equal(fit(n_bins=4.0).predict(X), fit(n_bins=4).predict(X))


@pytest.mark.parametrize("mistake", WRONG)
def test_wrong_options(mistake):
    options, words = WRONG[mistake]
    with pytest.raises(DataError, match=words):
        fit(**options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"monotone": {"bm52": 1}}, "feature 'bm52'; did you mean bm25"),
        ({"categories": ["Clicks"]}, "feature 'Clicks'; did you mean clicks"),
    ],
)
def test_unknown_names(options, words):
    with pytest.raises(DataError, match=words):
        fit(FRAME, **options)


@pytest.mark.parametrize(
    ("penalties", "words"),
    [
        ("l2", "^penalties is 'l2'; expected a list of penalties"),
        ((), r"^penalties is \(\); expected a list of penalties"),
        (["l3"], "^penalty is 'l3'; known choices are 'l2'"),
    ],
)
def test_wrong_penalties(penalties, words):
    with pytest.raises(DataError, match=words):
        AdditiveRankerCV(penalties=penalties).fit(X, Y, QID)


def test_bounds_are_those_of_forms():
    with pytest.raises(DataError, match=r"^bounds are limits .* Use monotone"):
        AdditiveTrainer.of(bounds="positive")
    with pytest.raises(DataError, match=r"^missing is 'zero', but missing values have a part"):
        AdditiveTrainer.of(missing="zero")


@pytest.mark.parametrize("features", [X, FRAME])
def test_integers_are_indices_until_they_end(features):
    known = "age" if features is FRAME else "2"
    with pytest.warns(FutureWarning, match=f"monotone has the integer 1, .* Use {known!r}, as"):
        ranker = fit(features, monotone={1: "decreasing"})
    expected = fit(features, monotone={known: "decreasing"})
    np.testing.assert_array_equal(ranker.predict(features), expected.predict(features))


@pytest.mark.parametrize("key", ["age", "2"])
def test_features_by_name_and_by_number(key):
    features = FRAME if key == "age" else X
    curve = fit(features, monotone={key: "decreasing"}).model_.curves[1]
    assert curve.feature == 1
    assert (np.diff(curve(np.linspace(-3.0, 3.0, 99))) <= 0).all()


def test_without_rescaling_there_is_no_delta():
    settings = fit(rescale=None).model_.settings
    assert (settings["rescale"], settings["delta"]) == (None, None)
    assert fit().model_.settings["delta"] == "gain"


def test_the_trainer_has_the_defaults_of_the_rankers():
    """The command line takes its defaults from the trainer."""
    given = inspect.signature(AdditiveTrainer.of).parameters
    names = [name for name, one in given.items() if one.default is not one.empty]
    assert {"n_bins", "smooth", "loss", "delta", "interactions"} <= set(names)
    for kind in (AdditiveRanker, AdditiveRankerCV):
        known = inspect.signature(kind).parameters
        assert {name: known[name].default for name in names} == {
            name: given[name].default for name in names
        }
        shared = AdditiveRanker().get_params().keys() & known.keys() & Trainer.option_names()
        usual = inspect.signature(Trainer.of).parameters
        for name in shared - {*names, "penalty"} & usual.keys():
            assert known[name].default == usual[name].default, name
    assert AdditiveTrainer.of().preferences == DEFAULT_PREFERENCES
    assert AdditiveTrainer.of().penalty.name == AdditiveRanker().penalty
    assert AdditiveRankerCV().penalties == TRIED_PENALTIES
    assert AdditiveRankerCV().average == AVERAGED_FITS


# Habits --------------------------------------------------------------------------------------


@pytest.mark.parametrize("ranker", [AdditiveRanker(0.1, n_bins=4), AdditiveRankerCV([0.1], cv=2)])
def test_copies(ranker, tmp_path):
    copy = sklearn.clone(ranker)
    assert copy.get_params() == ranker.get_params()
    copy.fit(FRAME, Y, QID)
    scores = copy.predict(FRAME)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(copy)).predict(FRAME), scores)
    copy.model_.save(tmp_path / "model.json")
    np.testing.assert_array_equal(load_model(tmp_path / "model.json").predict(FRAME), scores)
    np.testing.assert_array_equal(copy.predict(FRAME[FRAME.columns[::-1]]), scores)
    assert copy.feature_names_in_.tolist() == list(FRAME.columns)


def test_models_with_forms_are_saved(tmp_path):
    given = [np.array([1, 0, 0, -1]), {"1": 1}, {"1": "convex"}, (0, 0, 0, 0)]
    for forms in given:
        fit(monotone=forms, categories=("2",)).model_.save(tmp_path / "model.json")
        assert load_model(tmp_path / "model.json").settings["categories"] == ["2"]


def test_grid_search_over_bins():
    with sklearn.config_context(enable_metadata_routing=True):
        search = GridSearchCV(AdditiveRanker(0.1), {"n_bins": [1, 8]}, cv=QueryKFold(2))
        search.fit(X, Y, qid=QID)
    assert search.best_params_["n_bins"] in (1, 8)
    assert search.best_estimator_.n_bins == search.best_params_["n_bins"]


def test_pipelines():
    pipeline = make_pipeline(FunctionTransformer(np.arctan), AdditiveRanker(0.1))
    pipeline.fit(X, Y, additiveranker__qid=QID)
    np.testing.assert_array_equal(pipeline.predict(X), fit(np.arctan(X)).predict(np.arctan(X)))


def test_listed_pairs():
    pairs = np.array([(i, j) for i, j in zip(range(190), range(10, 200), strict=True)])
    upper = X[pairs[:, 0], 0] > X[pairs[:, 1], 0]
    pairs[~upper] = pairs[~upper][:, ::-1]  # the larger value of the first feature is preferred
    ranker = AdditiveRanker().fit_pairs(X, pairs)
    assert ranker.score_pairs(X, pairs) > 0.95
    assert ranker.model_.settings["rescale"] is None
    chosen = AdditiveRankerCV([0.1, 1.0], cv=2).fit_pairs(X, pairs)
    assert chosen.best_score_ > 0.8
    gaps = with_column(np.nan, 3)
    held_out = AdditiveRankerCV([0.1, 1.0]).fit_pairs(gaps, pairs, valid=(gaps, pairs))
    assert held_out.best_score_ > 0.8
    with pytest.raises(DataError, match="delta= apply to pairs that follow from labels"):
        AdditiveRanker(delta="dcg").fit_pairs(X, pairs)


def test_topics_need_linear_rankers():
    with pytest.raises(DataError, match=r"sums of curves, .* Use a linear ranker such as Dom"):
        MultiTopicRanker(AdditiveRanker()).fit(X, np.column_stack([Y > 0, Y > 1]))


@pytest.mark.parametrize("ranker", [AdditiveRanker(0.1), AdditiveRankerCV([0.1], cv=2)])
def test_missing_values_are_declared(ranker):
    assert sklearn.utils.get_tags(ranker).input_tags.allow_nan


def test_folds_of_a_generator_are_used_for_each_penalty():
    folds = list(QueryKFold(2).split(X, Y, QID))
    expected = AdditiveRankerCV([0.1, 1.0], cv=folds).fit(X, Y, QID)
    found = AdditiveRankerCV([0.1, 1.0], cv=iter(folds)).fit(X, Y, QID)
    assert found.best_params_ == expected.best_params_
    np.testing.assert_array_equal(found.predict(X), expected.predict(X))


def test_the_models_of_a_path():
    ranker = AdditiveRankerCV([0.01, 0.1, 1.0], average=1).fit(DATA, valid=DATA)
    models = ranker.path_models(DATA)
    chosen = ranker.path_.Cs.tolist().index(ranker.C_)
    np.testing.assert_array_equal(models[chosen].predict(X), ranker.predict(X))
    assert [model.settings["C"] for model in models] == [0.01, 0.1, 1.0]


# The choice among trainers -------------------------------------------------------------------


def trainers():
    return [AdditiveTrainer.of(penalty=penalty) for penalty in ("l2", "l1", "group_l1")]


def trained(trainer):
    return trainer.train_on_grid(DATA, DATA, [0.01, 0.1])


def test_the_best_penalty_is_kept():
    values = [trained(trainer).value for trainer in trainers()]
    trainer, training = train_best(trainers(), DATA, trained)
    assert training.value == max(values)
    assert trainer.penalty.name == ("l2", "l1", "group_l1")[int(np.argmax(values))]


@pytest.mark.parametrize("after", [1, 2])
def test_an_interrupt_keeps_the_penalties_before_it(after):
    calls = []

    def train(trainer):
        calls.append(trainer)
        if len(calls) > after:
            raise KeyboardInterrupt
        return trained(trainer)

    trainer, training = train_best(trainers(), DATA, train)
    assert training.interrupted
    assert len(calls) == after + 1
    assert trainer.penalty.name in ("l2", "l1")[:after]


def test_an_interrupt_before_the_first_model_is_raised():
    def train(trainer):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_best(trainers(), DATA, train)


def test_bands_need_several_queries():
    X = np.random.default_rng(0).normal(size=(20, 2))
    with pytest.raises(DataError, match="one query"):
        AdditiveRanker(n_bags=2).fit(X, X[:, 0])


@pytest.mark.parametrize("penalty", ["l2", "l1", "elastic_net", "group_l1", "none", "mcp"])
def test_constant_features_give_a_warning_with_any_penalty(penalty):
    y, qid = np.tile([0, 1, 2], 4), np.repeat([0, 1], 6)
    with pytest.warns(NothingSelectedWarning, match="no feature lowers the loss"):
        ranker = AdditiveRanker(penalty=penalty).fit(np.ones((12, 2)), y, qid)
    assert not ranker.predict(np.ones((12, 2))).any()


def test_linear_weights_that_are_all_zero_give_a_warning():
    with pytest.warns(NothingSelectedWarning, match="all weights are 0: no feature lowers"):
        RankSVM().fit(np.ones((4, 2)), [0, 1, 0, 1])
