"""Methods by short names: a text such as ``rankboost:n_rounds=50`` makes a ranker."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from ._literals import parse_literal
from .data.ranking import RankingData
from .errors import DataError
from .estimators.base import Ranker
from .model import Model


@dataclass(frozen=True)
class Method:
    """A ranker with a short name.

    Attributes
    ----------
    module, kind : str
        Where its class is; the module is imported when the method is used.
    main : str or None
        The parameter that a value without a name sets, as in ``sparse:log``.
    saves : bool
        Whether linrank has a model file for it.
    """

    module: str
    kind: str
    main: str | None = None
    saves: bool = True

    def ranker_class(self) -> type[Ranker]:
        """Return the class of the ranker."""
        return getattr(import_module(f"linrank.{self.module}"), self.kind)


METHODS = {
    "ranksvm": Method("estimators.ranksvm", "RankSVM", "loss"),
    "sparse": Method("estimators.sparse", "SparseRankSVM", "penalty"),
    "domination": Method("estimators.domination", "DominationRank", "penalty"),
    "kernel": Method("estimators.kernel", "KernelRankSVM", "kernel"),
    "adarank": Method("baselines.adarank", "AdaRank", "metric"),
    "rankboost": Method("baselines.rankboost", "RankBoost"),
    "pamir": Method("baselines.pamir", "PAMIR"),
    "fenchelrank": Method("baselines.fenchel_rank", "FenchelRank"),
    "fsmrank": Method("baselines.fsm_rank", "FSMRank"),
    "svr": Method("baselines.svr", "LinearSVRRanker", "loss"),
    "lambdamart": Method("baselines.lambdamart", "LambdaMARTRanker"),
    "forest": Method("baselines.forest", "RandomForestRanker", saves=False),
    "gbdt": Method("baselines.boosting", "GradientBoostingRanker", saves=False),
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
    name, _, rest = text.strip().partition(":")
    if name not in METHODS:
        raise DataError(f"the method {name!r} is not known; known are {', '.join(METHODS)}")
    method = METHODS[name]
    kind = method.ranker_class()
    known = set(inspect.signature(kind).parameters)
    given: dict[str, Any] = {}
    for part in filter(None, (part.strip() for part in rest.split(","))):
        key, equals, value = part.partition("=")
        if not equals and method.main is not None:
            key, value = method.main, part
        if key.strip() not in known:
            raise DataError(
                f"{text!r}: {name} has no parameter {key.strip()!r}; it has "
                f"{', '.join(sorted(known))}"
            )
        given[key.strip()] = parse_literal(value.strip())
    return kind(**{key: value for key, value in defaults.items() if key in known} | given)


def fit_ranker(ranker: Any, data: RankingData) -> Any:
    """Fit a ranker to data with all that the data hold: labels, queries and weights.

    A `DataError` names weights that the ranker does not take.

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
    }
    given = {name: values for name, values in held.items() if values is not None}
    refused = given.keys() - inspect.signature(ranker.fit).parameters.keys()
    if refused:
        raise DataError(f"{type(ranker).__name__} takes no {min(refused)}. Leave it out.")
    one_query = data.n_queries == 1
    return ranker.fit(data.X, data.y, qid=None if one_query else data.qid, **given)


def model_of(ranker: Any, data: RankingData) -> Model:
    """Return the model of a fitted ranker, with the feature names of its training data."""
    model: Model = ranker.model_
    model.feature_names, model.index_base = data.feature_names, data.index_base
    return model
