"""`Term`: the part of one feature in a linear score, which exports write as a formula."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .._typing import Vector
from ..errors import DataError

if TYPE_CHECKING:
    from .linear import LinearModel


class Term(NamedTuple):
    """The part of one feature in a linear score.

    The part is `missing` if the value is missing, and otherwise `weight` times the value. If `log`
    is set, the value x is first replaced by sign(x)·log(1 + |x|). Then it is limited to `low` and
    `high`.
    """

    name: str
    weight: float
    log: bool = False
    low: float | None = None
    high: float | None = None
    missing: float | None = None  #: None: missing values were refused in training
    shift: float | None = None  #: in training, the value was scaled as (value − shift)·factor
    factor: float | None = None
    minimum: float | None = None  #: range of x in the training data, if it is known
    maximum: float | None = None
    mean: float | None = None  #: mean and standard deviation of the value that `weight` multiplies
    deviation: float | None = None


def terms_of(model: LinearModel) -> list[Term]:
    """Return the parts of the features of a model; see `LinearModel.terms`."""
    if model.needs_qid:
        raise DataError(
            "this model scales features within each query, so its score is no formula of one "
            "document. Train with another scale, such as scale='standard' (--scale standard)."
        )
    steps, names = model.preprocessing, model.names()
    columns: dict[str, Vector | None] = {"weight": model.coef, "missing": model.missing}
    if steps is not None:
        columns |= {name: getattr(steps, name) for name in ("low", "high", "shift", "factor")}
    if model.summary is not None:
        columns |= vars(model.summary)
    known = {
        name: [None if np.isnan(v) else v for v in values.tolist()]
        for name, values in columns.items()
        if values is not None
    }
    log = steps is not None and steps.log
    return [
        Term(names[f], log=log, **{name: values[f] for name, values in known.items()})
        for f in model.used.tolist()
    ]
