"""Engines by name."""

from __future__ import annotations

from typing import Any

from .._checks import choice
from ..data.ranking import RankingData
from ..losses import Loss
from .threads import ThreadEngine

#: Where the sums are made: on the processor; on a graphics card, X staying there or coming in parts
#: for every product; there too, with the sums of Jin & Lin 2014.
ENGINES = ("threads", "cuda", "cuda-streaming", "p-swx")


def check_engine(name: str) -> None:
    """Refuse an engine that is unknown, or that cannot be had here."""
    choice("engine", name, ENGINES)
    if name != "threads":
        from .cuda.availability import check_available

        check_available(name)


def make_engine(
    name: str, data: RankingData, loss: Loss, normalize: str | None, n_threads: int | None,
    **options: Any,
) -> ThreadEngine:  # fmt: skip
    """The engine of that name; options are `counting` and `preferences`."""
    check_engine(name)
    if name == "threads":
        return ThreadEngine(data, loss, normalize, n_threads, **options)
    from .cuda.engine import CudaEngine

    return CudaEngine(
        data, loss, normalize, n_threads, streaming=name == "cuda-streaming",
        paper=name == "p-swx", **options,
    )  # fmt: skip
