"""`export_model`: check the options of a target, and write the export."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

import numpy as np

from .._checks import choice
from .._files import atomic_write
from ..data.checks import check_matrix
from ..data.ranking import RankingData
from ..errors import DataError, OrderChangedWarning, warn
from . import TARGETS, Target
from .formula import Formula, Shift
from .rounding import OrderChanges, order_changes

if TYPE_CHECKING:
    from ..model import LinearModel


def export_model(
    model: LinearModel,
    target: str,
    path: str | os.PathLike[str] | None = None,
    *,
    features: Mapping[str, str] | None = None,
    shift: Shift | None = None,
    sample: Any = None,
    **options: object,
) -> str | bytes:
    """Write a model in the form of another program; see `linrank.LinearModel.export`."""
    choice("target", target, TARGETS)
    found: Target = TARGETS[target]  # type: ignore[index]
    write = _find(found.writer)
    _check_options(target, write, options)
    formula = Formula.of(model, features, shift)
    content: str | bytes = write(formula, **options)
    if sample is not None:
        changes = check_order(target, formula, sample, **options)
        if changes.reversed or changes.tied:
            warn(f"with target={target!r}, {changes}", OrderChangedWarning)
    if path is not None:
        with atomic_write(path, "wb" if found.binary else "w") as file:
            file.write(content)
    return content


def check_order(target: str, formula: Formula, sample: Any, **options: object) -> OrderChanges:
    """Count the pairs of a sample whose order changes with the rounding of a target."""
    data = sample
    if not isinstance(sample, RankingData):
        X = check_matrix(sample)
        data = RankingData(X, np.zeros(X.shape[0]), allow_missing=True)
    if data.n_features != len(formula.names):
        raise DataError(
            f"the sample has {data.n_features} features but the model has {len(formula.names)}; "
            "pass rows of the training data"
        )
    place = TARGETS[target].scorer  # type: ignore[index]
    scorer = _exactly if place is None else _find(place)
    return order_changes(formula, data, scorer, **options)


def _exactly(formula: Formula, X: Any, **_: object) -> Any:
    return formula.scores(X)


def _find(place: str) -> Callable[..., Any]:
    module, name = place.split(".")
    return getattr(import_module(f".{module}", __package__), name)


def _check_options(target: str, write: Callable[..., Any], options: Mapping[str, object]) -> None:
    """Raise a `DataError` for options that the target does not have, and for wrong values."""
    hints = get_type_hints(write)
    known = [
        p.name for p in inspect.signature(write).parameters.values() if p.kind == p.KEYWORD_ONLY
    ]
    for name, value in options.items():
        if name not in known:
            raise DataError(
                f"{name} is not an option of target={target!r}, which has "
                f"{', '.join(known) if known else 'none'}"
            )
        hint = hints[name]
        if get_origin(hint) is Literal:
            choice(name, value, get_args(hint))
        elif not isinstance(value, hint):
            raise DataError(f"{name} is {value!r}; expected a text")
