"""The command ``linrank export``: a model in the form of another program."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .._util.text import parse_number
from ..errors import DataError, FileFormatError
from ..export import TARGETS, TargetName
from . import shared_options as options
from .console import console, progress
from .inputs import Input, check_output, read_for, with_columns

if TYPE_CHECKING:
    from ..data.ranking import RankingData
    from ..model import Model

EPILOG = """
Examples:

linrank export model.json --to solr --out solr.json

linrank export model.json --to sql --dialect sqlite

linrank export model.json --to vespa --feature-map features.json --check train.txt
"""
TARGET = "Target"  #: panel of the options that only some targets have


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("export", epilog=EPILOG)(with_columns(export))


def parse_shift(text: str) -> Any:
    """Parse the word training, or a finite number.

    Examples
    --------
    >>> parse_shift("training"), parse_shift("1e3")
    ('training', 1000.0)
    """
    if text == "training":
        return text
    try:
        number = parse_number(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise typer.BadParameter(f"{text!r} is neither a number nor the word training")
    return number


def _of_target(flag: str, help: str) -> Any:
    return typer.Option(flag, metavar="TEXT", help=help, rich_help_panel=TARGET, show_default=False)


def export(
    model: Annotated[
        Path,
        typer.Argument(metavar="MODEL", help="A linear or additive model.", show_default=False),
    ],
    to: Annotated[TargetName, typer.Option("--to", help="The form.", show_default=False)],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="File to write.",
            rich_help_panel=options.OUTPUT,
            show_default="the standard output",
        ),
    ] = None,
    feature_map: Annotated[
        Path | None,
        typer.Option(
            "--feature-map",
            metavar="FILE",
            help="JSON object with the names of features in the target, such as "
            '{"bm25": "bm25(title)"}.',
            show_default=False,
        ),
    ] = None,
    shift: Annotated[
        Any,
        typer.Option(
            "--shift",
            parser=parse_shift,
            metavar="training|NUMBER",
            help="Add a constant to all scores. With training, scores are at least 0 for documents "
            "whose features are within their ranges in the training data.",
            show_default=False,
        ),
    ] = None,
    check: Annotated[
        Path | None,
        typer.Option(
            "--check",
            metavar="DATA",
            help="Count the pairs of these documents whose order changes because the target rounds "
            "scores.",
            show_default=False,
        ),
    ] = None,
    flips: Annotated[
        float | None,
        typer.Option(
            "--flips",
            metavar="SHARE",
            help="With --check, for targets that take trees: choose the number of steps so that at "
            "most this share of the pairs change their order.",
            rich_help_panel=TARGET,
            show_default=False,
        ),
    ] = None,
    name: Annotated[
        str | None, _of_target("--name", "The name of the model, the profile or the function.")
    ] = None,
    normalizers: Annotated[
        str | None,
        _of_target(
            "--normalizers",
            "solr, elasticsearch, opensearch: fold the scaling into the weights, or emit it.",
        ),
    ] = None,
    dialect: Annotated[
        str | None, _of_target("--dialect", "sql: postgresql, duckdb or sqlite.")
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            metavar="NAME=VALUE",
            help="Another option of the target, such as store=mine for solr. It may be repeated.",
            rich_help_panel=TARGET,
            show_default=False,
        ),
    ] = None,
    threads: options.Threads = None,
    *,
    inputs: Input,
) -> None:
    """Write a linear or additive model in the form of a search engine, a database or a language."""
    named = {"name": name, "normalizers": normalizers, "dialect": dialect}
    given: dict[str, Any] = {key: value for key, value in named.items() if value is not None}
    given |= dict(options.split_option(text, "store=mine") for text in option or [])
    check_output(out, model, check, feature_map)
    if out is None and TARGETS[to].binary:
        raise DataError(f"--to {to} writes a binary file. Use --out to name it.")
    learnt = _read_model(model)
    features = None if feature_map is None else read_feature_map(feature_map)
    data = None if check is None else read_for(learnt, check, inputs, n_threads=threads)
    if flips is not None:
        given["steps"] = _choose_steps(to, learnt, data, features, flips, given)
    content = learnt.export(to, out, features=features, shift=shift, **given)
    if check is not None and data is not None:
        _check(to, learnt, check, data, features, shift, given)
    if out is None:
        assert isinstance(content, str)
        sys.stdout.write(content)


def _read_model(path: Path) -> Model:
    """Read a model, and raise an error unless it is linear or additive."""
    from ..model import AdditiveModel, LinearModel, load_model

    found = load_model(path)
    if not isinstance(found, LinearModel | AdditiveModel):
        raise DataError(
            f"{path}: holds a {type(found).__name__}, which has no weights of features. Export a "
            "linear model, such as linrank train writes without --method"
        )
    return found


def read_feature_map(path: Path) -> dict[str, str]:
    """Read a JSON object of texts."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FileFormatError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        raise FileFormatError(
            f'{path}: not JSON ({error}); expected an object such as {{"1": "bm25"}}'
        ) from None
    if not isinstance(content, dict) or not all(isinstance(v, str) for v in content.values()):
        raise FileFormatError(f'{path}: expected an object of texts, such as {{"1": "bm25"}}')
    return content


def _choose_steps(
    to: TargetName,
    model: Model,
    data: RankingData | None,
    features: dict[str, str] | None,
    flips: float,
    given: dict[str, Any],
) -> int:
    """Return the number of steps of curves for --flips."""
    from ..export.targets import choose_steps, formula_of

    if data is None:
        raise typer.BadParameter("--flips counts pairs of documents. Name them with --check.")
    with progress("choosing the number of steps"):
        return choose_steps(to, formula_of(model, features), data, flips, **given)


def _check(
    to: TargetName,
    model: Model,
    path: Path,
    data: RankingData,
    features: dict[str, str] | None,
    shift: Any,
    given: dict[str, Any],
) -> None:
    """Print how many pairs of documents change their order."""
    from ..export.targets import check_order, formula_of

    with progress("comparing the order"):
        changes = check_order(to, formula_of(model, features, shift), data, **given)
    console(stderr=True).print(f"{path}: {changes}", soft_wrap=True)
