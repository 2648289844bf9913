"""Construction of an engine from its name."""

from __future__ import annotations

from .._checks import choice
from ..counting.preferences import ALL_PAIRS, Preferences
from ..data.ranking import RankingData
from ..losses.base import Loss
from .names import ENGINES
from .threads import ThreadEngine


def check_engine(name: str) -> None:
    """Raise a `DataError` if the engine is unknown, or if this machine cannot run it."""
    choice("engine", name, ENGINES)
    if name != "threads":
        from .cuda.availability import check_available

        check_available(name)


def make_engine(
    name: str,
    data: RankingData,
    loss: Loss,
    normalize: str | None = None,
    n_threads: int | None = None,
    *,
    counting: str = "auto",
    preferences: Preferences = ALL_PAIRS,
) -> ThreadEngine:
    """Make the engine of that name; the other parameters are those of `ThreadEngine`."""
    check_engine(name)
    if name == "threads":
        return ThreadEngine(
            data, loss, normalize, n_threads, counting=counting, preferences=preferences
        )
    if name == "p-swx-paper":
        from .cuda.p_swx_paper import PaperEngine

        return PaperEngine(
            data, loss, normalize, n_threads, counting=counting, preferences=preferences
        )
    from .cuda.engine import CudaEngine

    return CudaEngine(
        data, loss, normalize, n_threads, counting=counting, preferences=preferences,
        streaming=name == "cuda-streaming", paper=name == "p-swx",
    )  # fmt: skip
