"""Names of the engines, importable at no cost."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

#: Where the loss is computed. Engine "threads" uses the processor. Engine "cuda" uses a graphics
#: card that holds X in its memory. Engine "cuda-streaming" copies X to the graphics card in parts,
#: for every product. Engine "p-swx" uses a graphics card, with the pair sums of Jin & Lin 2014.
#: Engine "p-swx-paper" also has their float32 and the products of a library.
EngineName: TypeAlias = Literal["threads", "cuda", "cuda-streaming", "p-swx", "p-swx-paper"]

ENGINES: tuple[EngineName, ...] = get_args(EngineName)
