"""The worker's side: what a worker process holds, and how it answers.

A client opens one connection to each worker. As long as it is open, a `Resident` lives behind it,
with the data of its part-groups and the engines on them; when it closes, because the client is
done or gone, all of that is let go. A question and its answer are one message each, of plain data
(`linrank.dask.wire`): no task, no graph, no scheduler in between.
"""

from __future__ import annotations

import asyncio
import atexit
import gc
import logging
import os
import traceback
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from distributed import Status
from numpy.typing import NDArray

from .._typing import Vector
from .._version import __version__
from ..counting.plan import rank_labels
from ..data.ranking import RankingData
from ..engines.threads import ThreadEngine
from ..errors import DataError, LinrankError
from ..losses.base import Loss
from ..metrics import parse_metric
from ..metrics._ranking import Ranking
from ..metrics._rules import resolve_rules
from .recipe import Recipe, unpack_loss
from .rows import Rows, Shape, Survey, join, survey
from .wire import Message, Wire

logger = logging.getLogger(__name__)


OPERATION = "linrank"  #: the name under which a worker is asked for a resident

#: What Dask has brought for each connection that is open: rows, until the resident takes them, and
#: functions of the user's.
_inbox: dict[str, dict[str, Any]] = {}


def install(dask_worker: Any) -> dict[str, Any]:
    """Teach a worker to hold residents; say what kind of worker it is."""
    dask_worker.handlers[OPERATION] = serve
    # With compiled kernels, the search for garbage at the end of a process takes seconds, and a
    # nanny that is closed kills a worker that takes more than four.
    atexit.unregister(gc.freeze)
    atexit.register(gc.freeze)
    return {
        "version": __version__,
        "pid": os.getpid(),
        "n_threads": dask_worker.state.nthreads,
        "memory_limit": dask_worker.memory_manager.memory_limit or None,
        "has_nanny": dask_worker.nanny is not None,
    }


def deposit(rows: Rows, token: str, key: str) -> Survey | None:
    """Leave rows for the resident of a connection; runs as a task, where Dask brings the rows.

    None where there is no such connection: the client has gone, or this process has taken the
    place of the one that it was connected to.
    """
    if token not in _inbox:
        return None
    _inbox[token][key] = rows
    return survey(rows)


def lend(token: str, key: str, function: Any) -> None:
    """Leave a function of the user's for the resident of a connection, if that is still open."""
    if token in _inbox:
        _inbox[token][key] = function


def select(rows: Rows, ids: NDArray[Any], keep: bool) -> Rows:
    """The rows of these queries, or all but these."""
    qid = np.zeros(len(rows.y), np.int64) if rows.qid is None else rows.qid
    return rows.take(np.isin(qid, ids.astype(qid.dtype, copy=False)) == keep)


async def serve(comm: Any, token: str) -> Status:
    """Answer the questions that come over one connection, until it closes."""
    resident, wire = Resident(_inbox.setdefault(token, {})), Wire(comm)
    pool = ThreadPoolExecutor(1, "linrank-resident")
    loop = asyncio.get_running_loop()
    try:
        await wire.write({})
        while True:
            message = await wire.read()
            await wire.write(await loop.run_in_executor(pool, resident.reply, message))
    except OSError:  # as every connection ends: Dask would log it as a loss
        return Status.dont_reply
    except DataError as error:
        logger.warning("the connection from %s is closed: %s", comm.peer_address, error)
        return Status.dont_reply
    finally:
        comm.abort()
        _inbox.pop(token, None)
        pool.shutdown(wait=False)


class Resident:
    """What one worker holds for one client: the data of part-groups, and engines by number."""

    def __init__(self, inbox: dict[str, Any]) -> None:
        self._inbox = inbox
        self._data: dict[int, RankingData] = {}
        self._threads: dict[int, int] = {}
        self._engines: dict[tuple[int, int], ThreadEngine | None] = {}

    def reply(self, message: Message) -> Message:
        """Answer for each group that is asked for; whatever goes wrong is an answer too."""
        try:
            view, alive = message["view"], message["alive"]
            for key in [key for key in self._engines if key[1] not in alive]:
                del self._engines[key]
            function = getattr(self, "do_" + message["do"])
            return {"answers": [function(g, view, message["body"]) for g in message["groups"]]}
        except (LinrankError, MemoryError) as error:
            return {"refusal": [type(error).__name__, str(error)]}
        except Exception:
            return {"fault": traceback.format_exc()}

    # Data ---------------------------------------------------------------------------------

    def do_forget(self, group: int, view: int, body: Any) -> None:
        """Drop what has been brought: it comes again, with other rows."""
        self._inbox.clear()

    def do_settle(self, group: int, view: int, body: Any) -> dict[str, Any]:
        """Put the parts of a group together, unless that has been done; sum up the data."""
        shape, keys, n_threads = body[group]
        if group not in self._data:
            parts = [self._inbox.pop(key) for key in keys]
            self._data[group] = join(parts, Shape(*shape), n_threads)
            self._threads[group] = n_threads
        data = self._data[group]
        weights = {"sample_weight": data.weight, "query_weight": data.query_weight}
        return {
            "n_docs": data.n_docs,
            "n_queries": data.n_queries,
            "labels": np.unique(data.y),
            "weightless": [name for name, w in weights.items() if w is not None and not w.any()],
        }

    def do_evaluate(self, group: int, view: int, body: Any) -> Any:
        """Metrics per query, where the one feature is the score."""
        names, flavour = body
        data, rules = self._data[group], resolve_rules(flavour)
        scores = np.ascontiguousarray(data.X[:, 0], dtype=np.float64)
        ranking = Ranking(data.y, scores, data.query_ptr, rules.ties, self._threads[group])
        found = {name: parse_metric(name).values(ranking, rules) for name in names}
        return found, np.asarray(data.query_ids)

    # Engines ------------------------------------------------------------------------------

    def do_make(self, group: int, view: int, body: Any) -> dict[str, Any]:
        """Make an engine: from another one that differs in the loss only, if that is here."""
        plain, base, at = body
        recipe = Recipe.unpack(plain, self._inbox.get(function_key(view)))
        data, known = self._data[group], self._engines.get((group, base))
        if known is not None:
            engine: ThreadEngine | None = known.with_loss(recipe.loss)
        elif _is_silent(data, recipe.loss, self._threads[group]):
            engine = None
        else:
            engine = ThreadEngine(
                data, recipe.loss, recipe.normalize, self._threads[group],
                counting=recipe.counting, preferences=recipe.preferences,
            )  # fmt: skip
        self._engines[group, view] = engine
        if engine is not None and at is not None:
            engine.value_grad(at)
        return self._about(group, engine)

    def do_change_loss(self, group: int, view: int, body: Any) -> None:
        """Take another loss of as many hinges."""
        engine = self._engines[group, view]
        if engine is not None:
            engine.change_loss(unpack_loss(body))

    def _about(self, group: int, engine: ThreadEngine | None) -> dict[str, Any]:
        data = self._data[group]
        X = data.X
        return {
            "n_entries": int(X.nnz if data.is_sparse else X.size),
            "largest_query": int(np.diff(data.query_ptr).max()),
            "n_pairs": 0 if engine is None else engine.n_pairs,
            "n_empty_queries": data.n_queries if engine is None else engine.n_empty_queries,
            "pair_weight": 0.0 if engine is None else engine.pair_weight,
            "by_level": engine is None or engine.makes_hessian_by_level,
            "counting": None if engine is None else engine.counting,
        }

    # Sums: each returns numbers that the client adds up over groups --------------------------

    def do_value_grad(self, group: int, view: int, body: Any) -> Vector:
        """The loss, and behind it the gradient."""
        engine, w = self._engines[group, view], body
        if engine is None:
            return np.zeros(1 + len(w))
        loss, gradient = engine.value_grad(w)
        return np.concatenate([[loss], gradient])

    def do_hessp(self, group: int, view: int, body: Any) -> Vector:
        """A Hessian product."""
        engine, v = self._engines[group, view], body
        return np.zeros(len(v)) if engine is None else engine.hessp(v)

    def do_gaps(self, group: int, view: int, body: Any) -> Vector:
        """The pairs' gaps, per hinge."""
        engine = self._engines[group, view]
        assert engine is not None  # the losses that can be silent have no hinges
        return engine.gaps(body)

    def do_hessian_diagonal(self, group: int, view: int, body: Any) -> Vector:
        """An estimate of the diagonal of the Hessian."""
        engine = self._engines[group, view]
        return np.zeros(self._data[group].n_features) if engine is None else (
            engine.hessian_diagonal()
        )  # fmt: skip

    def do_hessian(self, group: int, view: int, body: Any) -> Vector:
        """The Hessian in some features: exact, or of this group's share of a sample."""
        n_rows, total, features = body
        engine = self._engines[group, view]
        if engine is None:
            n = self._data[group].n_features if features is None else len(features)
            return np.zeros((n, n))
        return engine.hessian(self._share(group, n_rows, total), features)

    def do_hessian_of_documents(self, group: int, view: int, body: Any) -> Vector:
        """The same from a sample of documents."""
        n_rows, total, _ = body
        engine, d = self._engines[group, view], self._data[group].n_features
        share = self._share(group, n_rows, total)
        return np.zeros((d, d)) if engine is None else engine.hessian_of_documents(share or 1)

    def _share(self, group: int, n_rows: int | None, total: int) -> int | None:
        """How many of the rows of a sample are this group's."""
        if n_rows is None or n_rows >= total:
            return None if n_rows is None else self._data[group].n_docs
        return max(1, round(n_rows * self._data[group].n_docs / total))


def function_key(view: int) -> str:
    """The name of the user's δ of an engine in the inbox."""
    return f"function-{view}"


def _is_silent(data: RankingData, loss: Loss, n_threads: int) -> bool:
    """Whether a binary loss finds nothing to tell apart here, as it may elsewhere."""
    if not getattr(loss, "binary", False):
        return False
    weight = np.ones(data.n_queries) if data.query_weight is None else data.query_weight
    labels = data.replace(y=(data.y > 0).astype(np.float64))
    return not rank_labels(labels, weight, n_threads).mass[:, 0].any()
