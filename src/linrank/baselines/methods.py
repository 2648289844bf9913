"""Methods by short names: a text such as ``rankboost:n_rounds=50`` makes a ranker."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from .._util.checks import known_names
from .._util.text import parse_literal
from ..data.ranking import RankingData
from ..errors import DataError
from ..estimators.ranker import Ranker
from ..model import Model


@dataclass(frozen=True)
class Method:
    """A ranker with a short name.

    Attributes
    ----------
    module, kind : str
        Where its class is; the module is imported when the method is used.
    main : str or None
        The parameter that a value without a name sets, as in ``sparse:log``.
    chooser : str or None
        The class, in the same module, that chooses C along a path with warm starts.
    """

    module: str
    kind: str
    main: str | None = None
    chooser: str | None = None

    def ranker_class(self) -> type[Ranker]:
        """Return the class of the ranker."""
        return getattr(import_module(f"linrank.{self.module}"), self.kind)

    def chooser_class(self) -> type[Ranker] | None:
        """Return the class that chooses C along a path; None if there is none."""
        if self.chooser is None:
            return None
        return getattr(import_module(f"linrank.{self.module}"), self.chooser)


METHODS = {
    "ranksvm": Method("estimators.ranksvm", "RankSVM", "loss", chooser="RankSVMCV"),
    "refined": Method("estimators.ranksvm", "RefinedRankSVM", "metric"),
    "sparse": Method(
        "estimators.sparse_ranksvm", "SparseRankSVM", "penalty", chooser="SparseRankSVMCV"
    ),
    "domination": Method(
        "estimators.domination_rank", "DominationRank", "penalty", chooser="DominationRankCV"
    ),
    "additive": Method(
        "estimators.additive_ranker", "AdditiveRanker", "penalty", chooser="AdditiveRankerCV"
    ),
    "kernel": Method("estimators.kernel_ranksvm", "KernelRankSVM", "kernel"),
    "coordinate-ascent": Method("baselines.coordinate_ascent", "CoordinateAscent", "metric"),
    "adarank": Method("baselines.adarank", "AdaRank", "metric"),
    "rankboost": Method("baselines.rankboost", "RankBoost"),
    "pamir": Method("baselines.pamir", "PAMIR"),
    "fenchelrank": Method("baselines.fenchel_rank", "FenchelRank"),
    "fsmrank": Method("baselines.fsm_rank", "FSMRank"),
    "gas": Method("baselines.gas", "GASRanker", "n_features_to_select"),
    "svr": Method("baselines.svr", "LinearSVRRanker", "loss"),
    "lambdamart": Method("baselines.tree_rankers", "LambdaMARTRanker"),
    "forest": Method("baselines.tree_rankers", "RandomForestRanker"),
    "gbdt": Method("baselines.tree_rankers", "GradientBoostingRanker"),
}


def make_ranker(text: str, **defaults: Any) -> Ranker:
    """Make the ranker that a text describes: ``NAME``, or ``NAME:parameter=value,…``.

    Parameters
    ----------
    text : str
        The name of a method of `METHODS`, with parameters of its class.
    **defaults
        Parameters that the text does not set; those that the class does not have are left out.

    Examples
    --------
    >>> make_ranker("sparse:log,C=0.1")
    SparseRankSVM(C=0.1, penalty='log')
    """
    method, texts = parse_method(text)
    kind = method.ranker_class()
    known = inspect.signature(kind).parameters
    given = {key: parse_literal(value) for key, value in texts.items()}
    return kind(**{key: value for key, value in defaults.items() if key in known} | given)


def parse_method(text: str) -> tuple[Method, dict[str, str]]:
    """Return the method that a text names, and the texts of its parameters.

    Examples
    --------
    >>> method, parameters = parse_method("sparse:log,C=0.1")
    >>> method.kind, parameters
    ('SparseRankSVM', {'penalty': 'log', 'C': '0.1'})
    """
    name, _, rest = text.strip().partition(":")
    if name not in METHODS:
        raise DataError(f"the method {name!r} is not known; {known_names(name, METHODS)}")
    method = METHODS[name]
    known = inspect.signature(method.ranker_class()).parameters
    given: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in rest.split(","))):
        key, equals, value = part.partition("=")
        if not equals and method.main is not None:
            key, value = method.main, part
        if key.strip() not in known:
            raise DataError(
                f"{text!r}: {name} has no parameter {key.strip()!r}; "
                f"{known_names(key.strip(), known)}"
            )
        given[key.strip()] = value.strip()
    return method, given


def fit_ranker(ranker: Any, data: RankingData, valid: RankingData | None = None) -> Any:
    """Fit a ranker to data with all that the data hold: labels, queries and weights.

    Rankers of other libraries get the queries as `qid` or as `group`, whichever their `fit` takes.
    A `DataError` names weights that the ranker does not take.

    Parameters
    ----------
    ranker : object
        An unfitted ranker, with the interface of scikit-learn.
    data : RankingData
    valid : RankingData, optional
        Held-out data, for the rankers of linrank that choose C on them.

    Examples
    --------
    >>> from linrank import make_ranking
    >>> data = make_ranking(random_state=0)
    >>> ranker = fit_ranker(make_ranker("rankboost:n_rounds=3"), data)
    >>> model_of(ranker, data).n_features
    20
    """
    held = {
        "sample_weight": data.weight,
        "query_weight": data.row_query_weight,
        "propensity": data.propensity,
        "margin": data.margin,
        "valid": valid,
    }
    known = inspect.signature(ranker.fit).parameters
    given: dict[str, Any] = {name: held[name] for name in held if held[name] is not None}
    refused = given.keys() - known.keys()
    if refused:
        raise DataError(f"{type(ranker).__name__} takes no {min(refused)}. Leave it out.")
    sizes = np.diff(data.query_ptr)
    if isinstance(ranker, Ranker) and len(sizes) == 1:
        given["qid"] = None
    elif "qid" in known:  # numbers in increasing order, because XGBoost takes no others
        given["qid"] = np.repeat(np.arange(len(sizes)), sizes)
    elif "group" in known:
        given["group"] = sizes
    return ranker.fit(data.X, data.y, **given)


def model_of(ranker: Any, data: RankingData) -> Model:
    """Return the model of a fitted ranker, with the features of its training data."""
    model: Model = ranker.model_
    model.feature_names, model.index_base = data.feature_names, data.index_base
    model.categories = data.categories
    return model


def count_used(ranker: Any) -> int | None:
    """Return the number of features that a fitted ranker uses; None if it does not tell.

    Examples
    --------
    >>> from linrank import make_ranking
    >>> count_used(fit_ranker(make_ranker("adarank:n_rounds=1"), make_ranking(random_state=0)))
    1
    """
    model = getattr(ranker, "model_", None)
    if isinstance(model, Model):
        return model.count_used()
    for name in ("coef_", "feature_importances_"):
        weights = getattr(getattr(ranker, "estimator_", ranker), name, None)
        if weights is not None:
            return int(np.count_nonzero(np.atleast_2d(weights).any(axis=0)))
    return None


def accepts(function: Any, name: str) -> bool:
    """Return whether a function or class has an argument of this name."""
    return name in inspect.signature(function).parameters
