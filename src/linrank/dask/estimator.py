"""`DaskRankSVM`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Self

import dask.array as da
import dask.dataframe as dd
import numpy as np
from dask.delayed import Delayed, delayed
from distributed import Client
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from ..choices import EngineName, FlavourName, MissingName
from ..data.categories import CategoriesLike
from ..data.matching import matched_places
from ..data.ranking import RankingData
from ..data.validation import check_finite, check_matrix, check_rows
from ..errors import DataError, WorkersLost
from ..estimators.ranker import check_qid, store_names
from ..estimators.trained import TrainedRanker
from ..matrix.rows import multiply
from ..metrics import Evaluation, PerQuery, parse_metric, parse_metrics
from ..penalties import PenaltyName
from ..penalties.penalty import Penalty
from ..problem import Problem, problem_of
from ..training import Trainer, Training
from ..training.options import DEFAULT_C
from ..training.settings import AS_GIVEN, DEFAULT_STEPS
from .dask_engine import DaskData, DaskEngine
from .pool import connected
from .sources import BlockRows, DataPart, check_part, count_column, find_parts

# --------------------------------------------------------------------------------------------------
# `DaskTrainer`: trains on data that are in the memory of the workers of a cluster.


@dataclass(frozen=True)
class DaskTrainer(Trainer):
    """Trains models on `DaskData`; the settings are those of `Trainer`.

    Held-out data are a `RankingData` in this process.

    Parameters
    ----------
    loss, tol, solver, counting, preferences, normalize, penalty, max_iter, seed
        See `linrank.training.Trainer`.
    n_threads, margin_scale, criterion, callback, announce
        See `linrank.training.Trainer`.
    engine : {"threads"}
        The engine of each worker. No other one is possible.
    features : FeatureSteps
        Features are prepared before they are loaded, so the default changes nothing. Other steps
        are refused.

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from linrank import make_ranking
    >>> from linrank.dask import DaskData, DaskTrainer
    >>> from linrank.dask.sources import find_parts
    >>> data = make_ranking(random_state=0)
    >>> X, y, qid = (da.from_array(a, chunks=1000) for a in (data.X, data.y, data.qid))
    >>> with Client(processes=False, n_workers=2, dashboard_address=":0") as client:
    ...     with DaskData(client, find_parts(X, y, qid)) as loaded:
    ...         training = DaskTrainer().train(loaded, C=0.01)
    >>> training.result.converged, training.model.n_features
    (True, 20)
    """

    has_rows: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.engine != "threads":
            raise DataError(
                f"engine={self.engine!r} works on one machine only, but the data are with the "
                "workers of a cluster. Use engine='threads'."
            )
        super().__post_init__()
        if self.features == DEFAULT_STEPS:
            object.__setattr__(self, "features", AS_GIVEN)
        if not self.features.is_empty:
            raise DataError(
                "scale and missing need the rows of the data in this process, but they stay with "
                "the workers. Prepare the features before, and leave out scale and missing."
            )
        if self.margin_scale is not None:
            raise DataError(
                "margin_scale needs the rows of the data in this process, but they stay with the "
                "workers. Store a margin for each document instead."
            )

    @classmethod
    def like(cls, trainer: Trainer) -> Self:
        """Return a trainer with the settings of another."""
        return cls(**{field.name: getattr(trainer, field.name) for field in fields(trainer)})

    def problem(self, data: Any, C: float = 1.0) -> Problem:
        """Return the problem of ranking the data."""
        engine = DaskEngine(
            data, self.loss, self.normalize, counting=self.counting, preferences=self.preferences
        )
        return problem_of(engine, C, self.penalty)

    def train(self, data: Any, C: float | None = None, **options: Any) -> Training:
        """Train with one C; see `Trainer.train`."""
        return _or_fault(data, lambda: super(DaskTrainer, self).train(data, C, **options))

    def train_on_grid(self, data: Any, valid: Any, Cs: Any = None) -> Training:
        """Train with every C and keep the best on the held-out data."""
        return _or_fault(data, lambda: super(DaskTrainer, self).train_on_grid(data, valid, Cs))

    def train_by_folds(
        self, data: Any, folds: Any = 5, Cs: Any = None, *, whole_path: bool = False
    ) -> Training:
        """Raise a `DataError`: folds take rows out of the data."""
        raise DataError(
            "folds need the rows of the data in this process, but they stay with the workers. "
            "Choose C on held-out data instead."
        )


def _or_fault(data: DaskData, train: Callable[[], Training]) -> Training:
    """Train; raise the loss of workers instead of the interrupt that it caused."""
    try:
        return train()
    except KeyboardInterrupt:
        if data.fault is None:
            raise
        raise data.fault from None


# --------------------------------------------------------------------------------------------------
# Metrics of Dask collections: workers compute the values per query, the client the mean.


SCORE_BYTES = 8  #: size of a score, which takes the place of the features


def evaluate(
    y: da.Array | dd.Series,
    scores: da.Array | dd.Series,
    qid: da.Array | dd.Series | None = None,
    metrics: str | Iterable[str] = ("ndcg@10",),
    *,
    flavour: FlavourName = "standard",
    client: Client | str | None = None,
    timeout: float = 600.0,
) -> Evaluation:
    """Compute several metrics of Dask Arrays or Series.

    Parameters
    ----------
    y, scores, qid : Dask Arrays or Series
        Labels, scores and query ids, cut into the same blocks.
    metrics, flavour
        See `linrank.evaluate`.
    client, timeout
        See `DaskRankSVM`.

    Returns
    -------
    Evaluation
        Its queries are ordered by the worker that holds them.

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from linrank import make_ranking
    >>> from linrank.dask import evaluate
    >>> data = make_ranking(random_state=0)
    >>> y, scores, qid = (da.from_array(a, chunks=1000) for a in (data.y, data.y, data.qid))
    >>> with Client(processes=False, n_workers=2, dashboard_address=":0") as client:
    ...     found = evaluate(y, scores, qid, "ndcg@10, map", client=client)
    >>> found.mean
    {'ndcg@10': 1.0, 'map': 1.0}
    """
    names = [metric.name for metric in parse_metrics(metrics)]
    columns = {"y": y, "scores": scores, **({} if qid is None else {"qid": qid})}
    blocks = {name: _blocks(name, values) for name, values in columns.items()}
    n_blocks = {name: len(own) for name, own in blocks.items()}
    if len(set(n_blocks.values())) > 1:
        raise DataError(
            f"y, scores and qid must have the same blocks, but their numbers are {n_blocks}. "
            "Use rechunk or repartition"
        )
    counted, has_qid = blocks.get("qid", blocks["y"]), qid is not None
    parts = [
        DataPart(
            delayed(_read)(f"block {k}", {name: own[k] for name, own in blocks.items()}),
            delayed(count_column)(counted[k], has_qid, SCORE_BYTES),
        )
        for k in range(n_blocks["y"])
    ]
    with connected(client) as cluster, DaskData(cluster, parts, None, timeout) as data:
        found = data.ask("evaluate", body=[names, flavour])
    values = {name: _join([PerQuery(*own[name]) for own, _ in found]) for name in names}
    return Evaluation(
        mean={name: own.mean() for name, own in values.items()},
        per_query={name: own.values for name, own in values.items()},
        n_skipped={name: own.n_skipped for name, own in values.items()},
        n_queries=data.n_queries,
        query_ids=np.concatenate([ids for _, ids in found]),
        flavour=flavour,
    )


def _blocks(name: str, values: object) -> list[Delayed]:
    if isinstance(values, da.Array) and values.ndim == 1:
        return list(values.to_delayed())
    if isinstance(values, dd.Series):
        return list(values.to_delayed())
    raise DataError(
        f"{name} is {type(values).__name__}; expected a Dask Array with one dimension, or a Series"
    )


def _read(part: str, columns: dict[str, ArrayLike]) -> BlockRows:
    arrays = {name: np.asarray(values) for name, values in columns.items()}
    try:
        scores = check_rows(arrays["scores"], len(arrays["y"]), "scores", "y has")
    except DataError as error:
        raise DataError(f"{part}: {error}") from None
    assert scores is not None
    return check_part(part, scores[:, None], arrays["y"], arrays.get("qid"))


def _join(parts: list[PerQuery]) -> PerQuery:
    """Join the values of one metric for the queries of all workers."""
    return PerQuery(*(np.concatenate(column) for column in zip(*parts, strict=True)))


# --------------------------------------------------------------------------------------------------
# `DaskRankSVM`.


@dataclass(kw_only=True, eq=False, repr=False)
class DaskRankSVM(TrainedRanker):
    """RankSVM on data that are distributed over the workers of a Dask cluster.

    It minimises the objective of `RankSVM`, or with a penalty that of `SparseRankSVM`. Each worker
    loads its part of the data once and keeps it. A Hessian product sends as many numbers as there
    are features to each worker and back.

    Parameters
    ----------
    C : float
        The weight of the loss against the penalty.
    client : Client or str, optional
        The cluster, or the address of its scheduler. The ``Security`` of a client applies to
        linrank's own connections as well; with an address, the credentials are those of Dask's
        configuration. None: worker processes on this machine, which no other user can reach, and
        which end with the fit.
    penalty : str or Penalty, optional
        None is ``"l2"``, ½‖w‖².
    shape, feature_cost
        See `SparseRankSVM`.
    bounds
        See `RankSVM`.
    loss, tol, counting, pairs, rescale, delta, normalize, max_iter, warm_start, verbose
        See `RankSVM`.
    solver : str or Solver
        As in `RankSVM` and `SparseRankSVM`, except those that need rows in this process:
        ``sgd-pairs``, ``sgd-queries``, ``dual`` and ``coordinate-descent``.
    n_threads : int, optional
        Threads of each worker; by default as many as Dask gives it.
    timeout : float
        Seconds after which a worker that has not answered counts as lost. It should be longer
        than a worker needs to load its data.

    Attributes
    ----------
    coef_, result_, model_, n_pairs_, n_queries_, n_iter_, n_empty_queries_, n_features_in_, \
feature_names_in_
        See `RankSVM`.
    n_moved_ : int
        Rows that were moved between workers, because their queries lay across them.

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from linrank import make_ranking
    >>> from linrank.dask import DaskRankSVM
    >>> data = make_ranking(random_state=0)
    >>> X, y, qid = (da.from_array(a, chunks=1000) for a in (data.X, data.y, data.qid))
    >>> with Client(processes=False, n_workers=2, dashboard_address=":0") as client:
    ...     ranker = DaskRankSVM(client=client).fit(X, y, qid)
    ...     print(round(ranker.score(X, y, qid), 2), ranker.predict(X).compute().shape)
    0.91 (2000,)
    """

    trainer_class: ClassVar[type[Trainer]] = DaskTrainer

    C: float = field(default=DEFAULT_C, kw_only=False)
    client: Client | str | None = None
    penalty: PenaltyName | Penalty | None = None
    shape: float | None = None
    feature_cost: Any = None
    timeout: float = 600.0
    warm_start: bool = False
    engine: EngineName = field(default="threads", init=False)
    scale: str | None = field(default=None, init=False)
    missing: MissingName | None = field(default=None, init=False)
    categories: CategoriesLike = field(default=None, init=False)

    def fit(
        self,
        X: Any,
        y: Any = None,
        qid: Any = None,
        sample_weight: Any = None,
        query_weight: Any = None,
        propensity: Any = None,
        margin: Any = None,
        valid: Any = None,
        **more: Any,
    ) -> DaskRankSVM:
        """Learn the weights.

        Parameters
        ----------
        X : Dask DataFrame, Dask Array, or path
            A folder that all workers can read: a store, or LETOR or Parquet files.
        y, qid : Dask collections, or names of columns
            If X is a table, the default columns are ``label`` and ``qid``. LETOR files and stores
            contain labels and query ids.
        sample_weight, query_weight, propensity, margin
            See `RankSVM.fit`; Dask collections, or names of columns.
        valid, **more
            Other arguments of `RankSVM.fit`, which cannot be used here.
        """
        given = [name for name, value in {"valid": valid, **more}.items() if value is not None]
        if given:
            raise DataError(
                f"DaskRankSVM.fit does not take {given[0]}. Give the query of each row as qid, and "
                "measure held-out data with score."
            )
        if not self.timeout > 0:
            raise DataError(f"timeout is {self.timeout}; expected a positive number of seconds")
        trainer = self._trainer()
        parts = find_parts(
            X, y, qid, sample_weight=sample_weight, query_weight=query_weight,
            propensity=propensity, margin=margin,
        )  # fmt: skip
        with (
            connected(self.client) as client,
            DaskData(client, parts, self.n_threads, self.timeout) as data,
        ):
            self._fit_on(trainer, data)
        return self

    def _pair_data(self, *arguments: Any) -> RankingData:
        raise DataError("DaskRankSVM learns from labels. To learn from pairs, use RankSVM.")

    def __sklearn_clone__(self) -> DaskRankSVM:
        """Return a clone that shares the client."""
        settings = self.get_params(deep=False)
        client = settings.pop("client")
        return type(self)(client=client, **{k: clone(v, safe=False) for k, v in settings.items()})

    def __getstate__(self) -> dict[str, Any]:
        """Return the state, with the scheduler's address instead of the client."""
        state = dict(super().__getstate__())
        if isinstance(self.client, Client):
            state["client"] = self.client.scheduler.address
        return state

    def _fit_on(self, trainer: Trainer, data: Any) -> None:
        w0 = getattr(self, "coef_", None) if self.warm_start else None
        training = trainer.train(data, self.C, w0=w0)
        self.n_features_in_, self.fitted_with_qid_ = data.n_features, data.has_qid
        self.n_moved_ = data.n_moved
        store_names(self, data.feature_names)
        try:
            self._store(training, data, trainer)
        except KeyboardInterrupt:
            if data.fault is None:
                raise
            raise WorkersLost(f"{data.fault}; the best weights so far are kept") from None

    def predict(self, X: Any, qid: Any = None, *, group: Any = None) -> Any:
        """Score documents; higher is better.

        Parameters
        ----------
        X : Dask DataFrame, Dask Array, or what `RankSVM.predict` takes
            If the ranker knows the names of its features, a DataFrame may have other columns too.
        qid, group : ignored
            Scores do not depend on the queries.

        Returns
        -------
        scores : Dask Series, Dask Array, or float64 array
        """
        if not isinstance(X, dd.DataFrame | da.Array):
            return super().predict(X)
        check_is_fitted(self)
        if isinstance(X, dd.DataFrame):
            return self._columns(X).map_partitions(
                _score_frame, self.coef_, meta=("score", np.float64)
            )
        self._check_number(X.shape[1])
        return X.rechunk({1: -1}).map_blocks(
            _score_rows, self.coef_, drop_axis=1, dtype=np.float64, meta=np.empty(0)
        )

    def _columns(self, X: Any) -> Any:
        """Return the columns that the ranker was fitted with; `matched_places` has the rules."""
        names, columns = getattr(self, "feature_names_in_", None), X.columns.tolist()
        kind = type(self).__name__
        places = matched_places(columns, names, self.n_features_in_, model=kind)
        if places is not None:
            X = X[[columns[place] for place in places]]
        self._check_number(len(X.columns))
        return X

    def _check_number(self, n_features: int) -> None:
        if n_features != self.n_features_in_:
            raise DataError(f"X has {n_features} features; expected {self.n_features_in_}")

    def score(
        self, X: Any, y: Any = None, qid: Any = None, sample_weight: Any = None, *,
        metric: str = "ndcg@10", group: Any = None,
    ) -> float:  # fmt: skip
        """Return the mean of a metric; `linrank.dask.evaluate` computes it for Dask collections."""
        if not isinstance(X, dd.DataFrame | da.Array):
            return super().score(X, y, qid, sample_weight, metric=metric, group=group)
        check_is_fitted(self)
        if isinstance(X, dd.DataFrame):
            y = X[y] if isinstance(y, str) else y
            qid = X[qid] if isinstance(qid, str) else qid
        check_qid(self, qid, "score")
        found = evaluate(y, self.predict(X), qid, metric, client=self.client)
        return found.mean[parse_metric(metric).name]


def _score_rows(X: Any, coef: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scores of one block, which may be empty."""
    if X.shape[0] == 0:
        return np.zeros(0)
    X = check_matrix(X)
    if X.shape[1] != len(coef):  # a block need not have the shape that its array claims
        raise DataError(f"a block of X has {X.shape[1]} features; expected {len(coef)}")
    scores = multiply(X, coef, 1)
    if not np.isfinite(scores).all():
        check_finite(X, None)
    return scores


def _score_frame(frame: Any, coef: NDArray[np.float64]) -> Any:
    import pandas as pd

    return pd.Series(_score_rows(frame.to_numpy(), coef), index=frame.index, name="score")
