"""Metrics of Dask collections: workers compute the values per query, the client the mean."""

from __future__ import annotations

from collections.abc import Iterable

import dask.array as da
import dask.dataframe as dd
import numpy as np
from dask.delayed import Delayed, delayed
from distributed import Client
from numpy.typing import ArrayLike

from ..data.checks import check_rows
from ..errors import DataError
from ..metrics import Evaluation, PerQuery, parse_metrics
from ..metrics.names import FlavourName
from .clusters import connected
from .data import DaskData
from .rows import Rows, check_part
from .sources import Part, count_column

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
        Part(
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


def _read(part: str, columns: dict[str, ArrayLike]) -> Rows:
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
