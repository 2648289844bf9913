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
from ..errors import DataError, OrderChangedWarning, UnnamedFeaturesWarning, warn
from ..model import AdditiveModel
from . import TARGETS, Writer
from .additive import AdditiveFormula
from .formula import Formula, Shift
from .linear import HasTerms, LinearFormula
from .rounding import OrderChanges, order_changes

if TYPE_CHECKING:
    from ..model import Model


def export_model(
    model: Model | HasTerms,
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
    formula = formula_of(model, features, shift)
    write = _find(_writer(target, formula).write)
    options = _checked_options(target, write, options)
    content: str | bytes = write(formula, **options)
    if TARGETS[target].by_name and getattr(model, "feature_names", ()) is None:  # type: ignore[index]
        _warn_of_numbers(target, formula)
    if sample is not None:
        changes = check_order(target, formula, sample, **options)
        if changes.reversed or changes.tied:
            warn(f"with target={target!r}, {changes}", OrderChangedWarning)
    if path is not None:
        with atomic_write(path, "wb" if isinstance(content, bytes) else "w") as file:
            file.write(content)
    return content


def _warn_of_numbers(target: str, formula: Formula) -> None:
    """Warn if features of a model without names keep their numbers in a target."""
    numbers = [name for name in formula.used if name not in formula.given]
    if numbers:
        listed = ", ".join(map(repr, numbers[:3])) + (", …" if len(numbers) > 3 else "")
        warn(
            f"the model has no feature names, so the features are called {listed} in "
            f"target={target!r}. Name them as in features={{{numbers[0]!r}: 'bm25'}} "
            "(--feature-map), or train on data with names.",
            UnnamedFeaturesWarning,
        )


def formula_of(
    model: Model | HasTerms, features: Mapping[str, str] | None = None, shift: Shift | None = None
) -> Formula:
    """Return the score of a model as a formula.

    Parameters
    ----------
    model : LinearModel or AdditiveModel
    features : mapping, optional
        Name in the target for names of the model. Other features keep their names.
    shift : float or "training", optional
        The constant.
    """
    if isinstance(model, AdditiveModel):
        return AdditiveFormula.of(model, features).shifted(shift)
    if isinstance(model, HasTerms):
        return LinearFormula.of(model, features).shifted(shift)
    raise DataError(
        f"a {type(model).__name__} is no sum over features, so it cannot be exported. Use a linear "
        "or an additive model."
    )


def _writer(target: str, formula: Formula) -> Writer:
    """Return the writer of a target for a formula."""
    found: Writer | None = getattr(TARGETS[target], formula.kind)  # type: ignore[index]
    if found is None:
        others = [name for name, other in TARGETS.items() if getattr(other, formula.kind)]
        raise DataError(
            f"target={target!r} does not take {formula.kind} models. Export this model to "
            f"{', '.join(others[:-1])} or {others[-1]}."
        )
    return found


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
    place = _writer(target, formula).score
    scorer = _exactly if place is None else _find(place)
    return order_changes(formula, data, scorer, **options)


def _exactly(formula: Formula, X: Any, **_: object) -> Any:
    return formula.scores(X)


def _find(place: str) -> Callable[..., Any]:
    module, name = place.split(".")
    return getattr(import_module(f".{module}", __package__), name)


def _checked_options(
    target: str, write: Callable[..., Any], options: Mapping[str, object]
) -> dict[str, Any]:
    """Return the options of a target; raise a `DataError` for unknown ones and wrong values."""
    hints = get_type_hints(write)
    known = [
        p.name for p in inspect.signature(write).parameters.values() if p.kind == p.KEYWORD_ONLY
    ]
    checked = dict(options)
    for name, value in options.items():
        if name not in known:
            raise DataError(
                f"{name} is not an option of target={target!r}, which has "
                f"{', '.join(known) if known else 'none'}"
            )
        hint = hints[name]
        if get_origin(hint) is Literal:
            choice(name, value, get_args(hint))
        elif hint is int:
            # The command line gives a text; the writer checks the number.
            checked[name] = int(value) if isinstance(value, str) and value.isdecimal() else value
        elif not isinstance(value, hint):
            raise DataError(f"{name} is {value!r}; expected a text")
    return checked
