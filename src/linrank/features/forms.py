"""Options that concern single features, given by name or by number: forms of curves, and levels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from typing import Any, TypeAlias

import numpy as np

from .._checks import choice, known_names
from ..data.names import names_or_numbers
from ..errors import DataError
from .basis import FORMS, FormName

#: Forms of features: by name or number, or one for each feature.
FormsLike: TypeAlias = "Mapping[str | int, str | int] | Sequence[str | int] | None"
FeaturesLike: TypeAlias = "Iterable[str | int]"  #: features by name or number

_NUMBERS: dict[int, FormName | None] = {1: "increasing", -1: "decreasing", 0: None}


def read_forms(
    given: FormsLike, n_features: int, names: list[str] | None, index_base: int = 1
) -> dict[int, FormName]:
    """Return the forms of curves by the numbers of features.

    Parameters
    ----------
    given : mapping of features to forms, or a sequence with one form per feature
        A form is one of `FORMS`, or 1 for increasing, −1 for decreasing and 0 for any curve.
    n_features : int
    names : list of str or None
    index_base : {0, 1}
        The number of the first feature in LETOR text, which is its name if there are no names.

    Examples
    --------
    >>> read_forms({"bm25": "increasing concave"}, 2, ["age", "bm25"])
    {1: 'increasing concave'}
    >>> read_forms([1, 0], 2, None)
    {0: 'increasing'}
    >>> read_forms({"2": -1}, 2, None)
    {1: 'decreasing'}
    """
    check_forms(given)
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        if len(given) != n_features:
            raise DataError(
                f"monotone has {len(given)} entries for {n_features} features. Use one entry per "
                "feature, or a dict by feature."
            )
        given = dict(enumerate(given))
    forms = {
        feature_number(feature, "monotone", n_features, names, index_base): _form(form)
        for feature, form in given.items()
    }
    return {feature: form for feature, form in forms.items() if form is not None}


def check_forms(given: FormsLike) -> None:
    """Raise a `DataError` for forms that do not exist, whatever features there are."""
    if given is None:
        return
    if isinstance(given, str) or not isinstance(given, Mapping | Sequence | np.ndarray):
        raise DataError(
            f"monotone is {given!r}; expected forms by feature, such as {{'bm25': 'increasing'}}"
        )
    for form in given.values() if isinstance(given, Mapping) else given:
        _form(form)


def _form(form: Any) -> FormName | None:
    if isinstance(form, Integral | float) and form in _NUMBERS:
        return _NUMBERS[int(form)]
    choice("monotone", form, [*FORMS, 1, 0, -1])
    return form


def read_features(
    given: FeaturesLike, option: str, n_features: int, names: list[str] | None,
    index_base: int = 1,
) -> tuple[int, ...]:  # fmt: skip
    """Return the numbers of features that are given by name or number.

    Examples
    --------
    >>> read_features(["b"], "categories", 2, ["a", "b"])
    (1,)
    """
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise DataError(f"{option} is {given!r}; expected a list of features")
    return tuple(feature_number(one, option, n_features, names, index_base) for one in given)


def feature_number(
    given: object, option: str, n_features: int, names: list[str] | None, index_base: int
) -> int:
    """Return the number of a feature from 0 on, given by its name or this number."""
    if isinstance(given, int | np.integer) and not isinstance(given, bool):
        if not 0 <= given < n_features:
            raise DataError(
                f"{option} has feature {given}, but there are {n_features} features, with the "
                f"numbers 0 to {n_features - 1}"
            )
        return int(given)
    known = names_or_numbers(names, n_features, index_base)
    if given in known:
        return known.index(str(given))
    if names is None:
        raise DataError(
            f"{option} has feature {given!r}, but the features have no names. Use their numbers in "
            f"LETOR text, {known[0]!r} to {known[-1]!r}."
        )
    raise DataError(f"{option} has feature {given!r}; {known_names(str(given), known)}")
