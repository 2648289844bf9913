"""Names of the engines, importable at no cost."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

#: Where the loss is computed:
#:
#: - "threads": on the processor;
#: - "cuda": on a graphics card that holds X in its memory;
#: - "cuda-streaming": on a graphics card that X is copied to in parts, for every product;
#: - "p-swx": on a graphics card, with the pair sums of Jin & Lin 2014.
EngineName: TypeAlias = Literal["threads", "cuda", "cuda-streaming", "p-swx"]

ENGINES: tuple[EngineName, ...] = get_args(EngineName)
