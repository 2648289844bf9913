"""`export_model`: check the options of a target, write the export, and compare the orders."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

import numpy as np

from .._util.checks import choice, number_from_zero
from .._util.files import atomic_write
from .._util.types import Array, Vector
from ..data.ranking import RankingData
from ..data.validation import check_matrix
from ..errors import DataError, OrderChangedWarning, UnnamedFeaturesWarning, warn
from ..metrics import all_pairs_error
from ..model import AdditiveModel
from . import TARGETS, Writer
from .curve_formula import AdditiveFormula
from .formula import Formula, HasTerms, LinearFormula, Shift

if TYPE_CHECKING:
    from ..model import Model

# --------------------------------------------------------------------------------------------------
# `export_model`: check the options of a target, and write the export.


def export_model(
    model: Model | HasTerms,
    target: str,
    path: str | os.PathLike[str] | None = None,
    *,
    features: Mapping[str, str] | None = None,
    shift: Shift | None = None,
    sample: Any = None,
    flips: float | None = None,
    **options: object,
) -> str | bytes:
    """Write a model in the form of another program; see `linrank.LinearModel.export`."""
    choice("target", target, TARGETS)
    formula = formula_of(model, features, shift)
    if flips is not None:
        options["steps"] = choose_steps(target, formula, sample, flips, **options)
    write = _find(_writer(target, formula).write)
    options = _checked_options(target, write, options)
    content: str | bytes = write(formula, **options)
    if TARGETS[target].by_name and getattr(model, "feature_names", ()) is None:  # type: ignore[index]
        _warn_of_numbers(target, formula)
    if sample is not None and flips is None:
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
    text = next((formula.names[j] for j in formula.columns if j in formula.codes), None)
    if text is not None and not TARGETS[target].by_text:  # type: ignore[index]
        others = [name for name, other in TARGETS.items() if other.by_text]
        raise DataError(
            f"target={target!r} reads numbers, but feature {text!r} of this additive model is "
            f"text. Export it to {', '.join(others[:-1])} or {others[-1]}."
        )
    if formula.positions and not TARGETS[target].by_query:  # type: ignore[index]
        others = [name for name, other in TARGETS.items() if other.by_query and name != "features"]
        alone = "scale=None"
        if formula.kind == "linear":
            alone = "scale='standard' (--scale standard)"
        raise DataError(
            f"target={target!r} scores documents one by one, but this model scales features within "
            f"each query. Train with {alone}, or export it to "
            f"{', '.join(others[:-1])} or {others[-1]}. The function score_query that "
            "target='python' writes scales and scores the documents of an answer in the client."
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
    if formula.positions:
        options["query_ptr"] = data.query_ptr
    return order_changes(formula, data, scorer, **options)


FEWEST_STEPS, MOST_STEPS = 16, 4096  #: numbers of steps that `choose_steps` tries


def choose_steps(
    target: str, formula: Formula, sample: Any, flips: float, **options: object
) -> int:
    """Return the fewest steps of curves with which at most a share of pairs change their order.

    Parameters
    ----------
    target : str
        A target that takes trees.
    formula : Formula
    sample : RankingData or array
        Documents whose pairs are counted.
    flips : float
        The share of the pairs that may change their order, from 0 to 1.
    **options
        Options of the target. There must be no number of steps among them.
    """
    has_steps = "steps" in inspect.signature(_find(_writer(target, formula).write)).parameters
    if not has_steps or "steps" in options:
        why = "the number is given as steps" if has_steps else f"target={target!r} takes no trees"
        raise DataError(f"flips chooses the number of steps, but {why}. Leave out flips.")
    if sample is None:
        raise DataError("flips needs documents whose pairs are counted. Give them as sample=.")
    limit = number_from_zero("flips", flips)
    steps, share = FEWEST_STEPS, np.inf
    while steps <= MOST_STEPS:
        found = check_order(target, formula, sample, steps=steps, **options)
        share = (found.reversed + found.tied) / max(1, found.pairs)
        if share <= limit:
            return steps
        steps *= 2
    raise DataError(
        f"{share:.2g} of the pairs of the sample change their order with {MOST_STEPS:,} steps, but "
        f"flips is {flips:g}. Use a larger flips, or train with basis='step': its trees are exact."
    )


def _exactly(formula: Formula, X: Any, query_ptr: Any = None, **_: object) -> Any:
    return formula.scores(X, query_ptr)


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


# --------------------------------------------------------------------------------------------------
# How many pairs of documents change their order because a target rounds scores.


class OrderChanges(NamedTuple):
    """Pairs of documents of a sample that a target orders in another way than the model.

    Attributes
    ----------
    pairs : int
        Pairs of documents of one query with different scores.
    reversed : int
        Pairs that the target orders the other way round.
    tied : int
        Pairs to which the target gives equal scores.
    """

    pairs: int
    reversed: int
    tied: int

    def __str__(self) -> str:
        return (
            f"{self.reversed + self.tied:,} of {self.pairs:,} pairs change their order: "
            f"{self.reversed:,} are reversed and {self.tied:,} become ties"
        )


def order_changes(
    formula: Formula, data: RankingData, scorer: Callable[..., Vector], **options: Any
) -> OrderChanges:
    """Count the pairs within queries whose order changes if a target computes the scores.

    Parameters
    ----------
    formula : Formula
    data : RankingData
        Sample of documents.
    scorer : callable
        Computes scores as the target does, from the formula, X and the options.
    **options
        Options of the target.
    """
    exact = formula.scores(data.X, data.query_ptr)
    if np.isnan(exact).any():
        raise DataError(
            "the sample has missing values of features for which the model has no rule. Pass rows "
            "of the training data."
        )
    rounded = scorer(formula, data.X, **options)
    if not np.isfinite(rounded).all():
        raise DataError(
            "scores of the sample overflow in the single precision of the target. Divide large "
            "features by a power of ten in training."
        )
    qid = np.repeat(np.arange(data.n_queries), np.diff(data.query_ptr))
    pairs = _count_equal(qid) - _count_equal(qid, exact)
    if not pairs:
        return OrderChanges(0, 0, 0)
    tied = _count_equal(qid, rounded) - _count_equal(qid, rounded, exact)
    wrong = pairs * all_pairs_error(exact, rounded, qid)  # ties count one half
    return OrderChanges(pairs, round(wrong - tied / 2), tied)


def _count_equal(*columns: Array) -> int:
    """Count the pairs of rows that are equal in all columns."""
    order = np.lexsort(columns)
    changes = np.zeros(len(order), dtype=bool)
    for column in columns:
        changes[1:] |= np.diff(column[order]) != 0
    sizes = np.bincount(np.cumsum(changes)).astype(object)  # Python's integers do not overflow
    return int((sizes * (sizes - 1) // 2).sum())
