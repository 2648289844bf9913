"""`Recipe`: what an engine is made of beside the data, and how that travels as plain data."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..counting.preferences import Delta, Preferences
from ..errors import DataError
from ..losses.base import Loss
from ..losses.pairwise import PairwiseLoss
from ..losses.registry import LOSSES


class Recipe(NamedTuple):
    """What an engine is made of, beside the data."""

    loss: Loss
    normalize: str | None
    counting: str
    preferences: Preferences

    @property
    def function(self) -> Delta | None:
        """The user's own δ. A function is no plain data: Dask brings it to the workers."""
        delta = self.preferences.delta
        return None if isinstance(delta, str) else delta

    def pack(self) -> list[Any]:
        """The recipe as plain data, without the user's function."""
        loss, normalize, counting, preferences = self
        named = preferences.delta if self.function is None else None
        pairs, rescale = preferences.pairs, preferences.rescale
        return [pack_loss(loss), normalize, counting, pairs, rescale, named]

    @classmethod
    def unpack(cls, plain: list[Any], function: Delta | None) -> Recipe:
        """The recipe of what `pack` returns, and of the function that it leaves out."""
        loss, normalize, counting, pairs, rescale, named = plain
        delta: Any = function if named is None else named
        return cls(unpack_loss(loss), normalize, counting, Preferences(pairs, rescale, delta))


def pack_loss(loss: Loss) -> list[Any]:
    """A loss as plain data: its name and its hinges."""
    if loss != LOSSES.get(loss.name) and type(loss) is not PairwiseLoss:
        raise DataError(
            f"loss {loss.name!r} is a {type(loss).__name__}, which cannot be sent to workers: "
            f"expected one of {', '.join(LOSSES)}, or a PairwiseLoss"
        )
    return [loss.name, loss.table]


def unpack_loss(plain: list[Any]) -> Loss:
    """The loss of what `pack_loss` returns."""
    name, table = plain
    known = LOSSES.get(name)
    if known is not None and np.array_equal(known.table, table):
        return known
    return PairwiseLoss(name, table)
