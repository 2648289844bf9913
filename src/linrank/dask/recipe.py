"""Settings of an engine, encoded as plain data for workers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..counting.preferences import Delta, Preferences
from ..errors import DataError
from ..losses.base import Loss
from ..losses.pairwise import PairwiseLoss
from ..losses.registry import LOSSES


class Recipe(NamedTuple):
    """Settings of an engine: its loss, normalisation, counting and preferences."""

    loss: Loss
    normalize: str | None
    counting: str
    preferences: Preferences

    @property
    def function(self) -> Delta | None:
        """The user's δ, or None. Dask sends it to the workers, because it is not plain data."""
        delta = self.preferences.delta
        return None if isinstance(delta, str) else delta

    def pack(self) -> list[Any]:
        """Encode the recipe as plain data, without the user's function."""
        loss, normalize, counting, preferences = self
        named = preferences.delta if self.function is None else None
        pairs, rescale = preferences.pairs, preferences.rescale
        return [pack_loss(loss), normalize, counting, pairs, rescale, named]

    @classmethod
    def unpack(cls, plain: list[Any], function: Delta | None) -> Recipe:
        """Return the recipe that `pack` encoded; `function` is the user's δ."""
        loss, normalize, counting, pairs, rescale, named = plain
        delta: Any = function if named is None else named
        return cls(unpack_loss(loss), normalize, counting, Preferences(pairs, rescale, delta))


def pack_loss(loss: Loss) -> list[Any]:
    """Encode a loss as plain data: its name and its hinges."""
    if loss != LOSSES.get(loss.name) and type(loss) is not PairwiseLoss:
        raise DataError(
            f"loss {loss.name!r} is a {type(loss).__name__}, which cannot be sent to workers. "
            f"Use one of {', '.join(LOSSES)}, or a PairwiseLoss."
        )
    return [loss.name, loss.table]


def unpack_loss(plain: list[Any]) -> Loss:
    """Return the loss that `pack_loss` encoded."""
    name, table = plain
    known = LOSSES.get(name)
    if known is not None and np.array_equal(known.table, table):
        return known
    return PairwiseLoss(name, table)
