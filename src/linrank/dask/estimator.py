"""`DaskRankSVM`."""

from __future__ import annotations

from typing import Any, ClassVar

import dask.array as da
import dask.dataframe as dd
import numpy as np
from distributed import Client
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from .._rows import multiply
from ..counting.names import CountingName, DeltaName, NormalizeName, PairsName, RescaleName
from ..counting.preferences import Delta
from ..data.checks import check_finite, check_matrix
from ..data.matching import matched_places
from ..data.ranking import RankingData
from ..errors import DataError, WorkersLost
from ..estimators.base import check_qid
from ..estimators.features import store_names
from ..estimators.trained import TrainedRanker
from ..losses.base import Loss
from ..losses.tables import LossName
from ..metrics import parse_metric
from ..penalties import PenaltyName
from ..penalties.base import Penalty
from ..penalties.bounds import BoundsLike
from ..solvers import SolverChoice
from ..solvers.base import Solver
from ..training import Trainer
from .clusters import connected
from .data import DaskData
from .metrics import evaluate
from .sources import find_parts
from .training import DaskTrainer


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
    ...     ranker = DaskRankSVM(C=0.01, client=client).fit(X, y, qid)
    ...     print(round(ranker.score(X, y, qid), 2), ranker.predict(X).compute().shape)
    0.92 (2000,)
    """

    trainer_class: ClassVar[type[Trainer]] = DaskTrainer

    def __init__(
        self,
        C: float = 1.0,
        *,
        client: Client | str | None = None,
        penalty: PenaltyName | Penalty | None = None,
        shape: float | None = None,
        feature_cost: Any = None,
        loss: LossName | Loss = "squared_hinge",
        tol: float = 1e-3,
        solver: SolverChoice | Solver = "auto",
        counting: CountingName = "auto",
        pairs: PairsName = "all",
        rescale: RescaleName | None = None,
        delta: DeltaName | Delta = "label",
        normalize: NormalizeName | None = None,
        max_iter: int = 1000,
        n_threads: int | None = None,
        timeout: float = 600.0,
        warm_start: bool = False,
        verbose: bool = False,
        bounds: BoundsLike = None,
    ) -> None:
        self.C = C
        self.client = client
        self.penalty = penalty
        self.shape = shape
        self.feature_cost = feature_cost
        self.loss = loss
        self.tol = tol
        self.solver = solver
        self.counting = counting
        self.pairs = pairs
        self.rescale = rescale
        self.delta = delta
        self.normalize = normalize
        self.max_iter = max_iter
        self.n_threads = n_threads
        self.timeout = timeout
        self.warm_start = warm_start
        self.verbose = verbose
        self.bounds = bounds

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
