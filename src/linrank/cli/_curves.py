"""Options of ``--additive``, whose names are those of `AdditiveTrainer.of`, and their texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from .._literals import parse_literal
from ..features.names import BasisName, EndsName
from ._options import CURVES, Declared, flag_of, option


def parse_forms(text: str) -> dict[str, Any]:
    """Parse the forms of curves: ``FEATURE=FORM``, with commas between them.

    Examples
    --------
    >>> parse_forms("bm25=increasing, age=-1")
    {'bm25': 'increasing', 'age': -1}
    """
    forms = {}
    for part in text.split(","):
        feature, equals, form = (piece.strip() for piece in part.rpartition("="))
        if not (feature and equals and form):
            raise typer.BadParameter(
                f"{part.strip()!r} is not FEATURE=FORM, such as bm25=increasing"
            )
        if feature in forms:
            raise typer.BadParameter(
                f"feature {feature!r} has two forms. Give one, such as "
                f"'{feature}=increasing concave'."
            )
        forms[feature] = parse_literal(form)
    return forms


def parse_features(text: str) -> list[str]:
    """Parse a list of features with commas.

    Examples
    --------
    >>> parse_features("language, country")
    ['language', 'country']
    """
    features = [part.strip() for part in text.split(",")]
    if not all(features):
        raise typer.BadParameter(f"{text!r} is not a list of features, such as language,country")
    return features


#: The options that only --additive has. None stands for the default of `AdditiveRanker`.
CURVE_OPTIONS: dict[str, Declared] = {
    "additive": Declared(
        Annotated[bool, option(
            "--additive", CURVES,
            "Train a sum of curves, one for each feature, instead of weights.",
        )],
        False,
    ),
    "n_bins": Declared(
        Annotated[int | None, option(
            "--bins", CURVES, "The number of intervals of a curve.", metavar="NUMBER",
            show_default="8",
        )],
        None,
    ),
    "basis": Declared(
        Annotated[BasisName | None, option(
            "--basis", CURVES, "Broken lines, step functions or cubic splines.",
            show_default="ramp",
        )],
        None,
    ),
    "smooth": Declared(
        Annotated[float | None, option(
            "--smooth", CURVES,
            "The weight of the differences between neighbouring rises in the penalty.",
            metavar="NUMBER", show_default="10.0",
        )],
        None,
    ),
    "monotone": Declared(
        Annotated[Any, option(
            "--monotone", CURVES,
            "Forms of curves, such as bm25=increasing,age=-1: increasing or 1, decreasing or -1, "
            "convex, concave, or two of them, such as increasing concave. A feature is a name, or "
            "its number in LETOR text.",
            parser=parse_forms, metavar="FEATURE=FORM,…", show_default="none",
        )],
        None,
    ),
    "categories": Declared(
        Annotated[Any, option(
            "--categories", CURVES,
            "Features whose values have no order, by name or number: each value has a weight.",
            parser=parse_features, metavar="FEATURE,…", show_default="none",
        )],
        None,
    ),
    "interactions": Declared(
        Annotated[int | None, option(
            "--interactions", CURVES,
            "The number of pairs of features that have a common part in the score.",
            metavar="NUMBER", show_default="0",
        )],
        None,
    ),
    "ends": Declared(
        Annotated[EndsName | None, option(
            "--ends", CURVES,
            "Curves beyond the training range: flat, or along the last line.",
            show_default="flat",
        )],
        None,
    ),
    "average": Declared(
        Annotated[int | None, option(
            "--average", CURVES,
            "If C is chosen: the model is the mean of this number of fits of each penalty.",
            metavar="NUMBER", min=1, show_default="3",
        )],
        None,
    ),
    "n_bags": Declared(
        Annotated[int | None, option(
            "--bags", CURVES,
            "Add bands to the curves, from this number of fits on resampled queries.",
            metavar="NUMBER", min=0, show_default="0",
        )],
        None,
    ),
}  # fmt: skip


def check_curve_options(options: Mapping[str, Any], **own: Any) -> None:
    """Raise a `typer.BadParameter` for options that --additive needs, or does not take.

    `own` holds options of a command itself that --additive does not take.
    """
    if not options["additive"]:
        for name, declared in CURVE_OPTIONS.items():
            if options[name] != declared.default:
                raise typer.BadParameter(f"{flag_of(name)} is about curves. Add --additive.")
        return
    for name, value in own.items():
        if value:
            raise typer.BadParameter(
                f"--additive does not support {flag_of(name)}. Leave out one of them."
            )
