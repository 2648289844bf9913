"""Options that several commands share; each is declared once.

The names are those of the options of `linrank.training.settings.Settings.of` and of
`linrank.training.selection.Criterion`. `make_trainers` translates the exceptions.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_type_hints

import typer

from .._util.text import parse_literal, parse_number
from ..choices import (
    BasisName,
    DeltaName,
    EndsName,
    FlavourName,
    MissingName,
    NormalizeName,
    PairsName,
    RescaleName,
    RuleName,
)
from ..losses.hinge_tables import LossName
from ..penalties import PenaltyName
from ..training.options import Options

# --------------------------------------------------------------------------------------------------
# Arguments and options that several commands share, with the parsers of their values.


#: Panels of the help, in their order.
PANELS = CHOICE, FEATURES, CURVES, LOSS, SOLVER, INPUT, OUTPUT = (
    "Choice of C", "Features", "Curves", "Loss and penalty", "Solver", "Input", "Output"
)  # fmt: skip

IndexBaseName = Literal["auto", "0", "1"]


class Declared(NamedTuple):
    """An option of several commands: its annotated type and its default."""

    annotation: Any
    default: Any


def option(flag: str, panel: str, help: str, **more: Any) -> Any:
    """Return the description of an option for typer."""
    return typer.Option(flag, help=help, rich_help_panel=panel, **more)


def flag_of(name: str) -> str:
    """Return the flag of an option, given its name in Python.

    Examples
    --------
    >>> flag_of("warm_start"), flag_of("n_bins")
    ('--warm-start', '--bins')
    """
    return "--" + name.removeprefix("n_").replace("_", "-")


def parse_C(text: str) -> float:
    """Parse a positive number such as 0.1, or a power such as 2^-5.

    Examples
    --------
    >>> parse_C("2^-5"), parse_C("0.1")
    (0.03125, 0.1)
    """
    base, power, exponent = text.strip().partition("^")
    try:
        C = parse_number(base) ** parse_number(exponent) if power else parse_number(base)
    except (ValueError, OverflowError, ZeroDivisionError):
        C = math.nan
    if not (isinstance(C, float) and 0 < C < math.inf):
        raise typer.BadParameter(f"{text!r} is not a positive number such as 0.1 or 2^-5")
    return C


def parse_grid(text: str) -> tuple[float, ...]:
    """Parse a grid of C: ``LOW:HIGH``, which doubles from LOW, or a list with commas.

    Examples
    --------
    >>> parse_grid("2^-2:1"), parse_grid("0.1,10")
    ((0.25, 0.5, 1.0), (0.1, 10.0))
    """
    if ":" not in text:
        return tuple(sorted({parse_C(part) for part in text.split(",")}))
    low, high = (parse_C(part) for part in text.split(":", 1))
    if high < low:
        raise typer.BadParameter(
            f"{text!r} has HIGH below LOW; expected LOW:HIGH such as 2^-15:2^10"
        )
    n_doublings = math.floor(math.log2(high) - math.log2(low) + 1e-9)
    return tuple(math.ldexp(low, k) for k in range(n_doublings + 1))


def split_option(text: str, example: str) -> tuple[str, str]:
    """Split ``NAME=VALUE``; an error shows the example.

    Examples
    --------
    >>> split_option("store=mine", example="store=mine")
    ('store', 'mine')
    """
    name, equals, value = text.partition("=")
    if not equals or not name.strip().isidentifier():
        raise typer.BadParameter(f"{text!r} is not NAME=VALUE, such as {example}")
    return name.strip(), value


Train = Annotated[
    Path,
    typer.Argument(
        metavar="TRAIN",
        help="Training data: LETOR text, a Parquet, Arrow or CSV file, a folder of such files, a "
        "store, or a folder with train.txt and vali.txt.",
        show_default=False,
    ),
]
Data = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="Data: LETOR text, a Parquet, Arrow or CSV file, a folder of such files, or a store.",
        show_default=False,
    ),
]
ModelOut = Annotated[
    Path,
    typer.Option(
        "--out", metavar="FILE", help="Write the model here, as JSON.", rich_help_panel=OUTPUT
    ),
]
COption = Annotated[
    float | None,
    typer.Option(
        "--C",
        parser=parse_C,
        metavar="NUMBER",
        help="The weight of the loss against the penalty, such as 0.1 or 2^-5.",
        show_default="chosen on held-out data with --valid, and otherwise by folds; 10 with --dask "
        "or --warm-start, 1 with --additive",
        rich_help_panel=CHOICE,
    ),
]
Folds = Annotated[
    int | None,
    typer.Option(
        "--folds",
        metavar="NUMBER",
        min=2,
        help="Choose C by this number of folds of whole queries of the training data.",
        rich_help_panel=CHOICE,
        show_default=False,
    ),
]
MaybeValid = Annotated[
    Path | None,
    typer.Option(
        "--valid",
        metavar="DATA",
        help="Held-out data on which C is chosen, with features numbered as in the training data.",
        rich_help_panel=CHOICE,
        show_default="vali.txt if TRAIN is a folder with train.txt",
    ),
]
MethodOption = Annotated[
    str | None,
    typer.Option(
        "--method",
        metavar="NAME[:PARAMETER=VALUE,…]",
        help="Train another ranker: kernel, refined, coordinate-ascent, adarank, rankboost, pamir, "
        "fenchelrank, fsmrank, gas, svr, lambdamart, forest or gbdt, with the parameters of its "
        "class in Python, such as "
        "rankboost:n_rounds=50.",
        rich_help_panel=SOLVER,
        show_default="RankSVM",
    ),
]
Topics = Annotated[
    bool,
    typer.Option(
        "--topics",
        help="Train one ranker per topic. Lines of TRAIN begin with the topics of a document, such "
        "as 3,7. --method is the ranker, by default domination.",
        rich_help_panel=SOLVER,
    ),
]
Debias = Annotated[
    bool,
    typer.Option(
        "--debias",
        help="Fit the selected features again without the penalty, which shrinks weights.",
        rich_help_panel=LOSS,
    ),
]
RefineOption = Annotated[
    str | None,
    typer.Option(
        "--refine",
        metavar="METRIC",
        help="Then move the weights to increase this metric itself, such as ndcg@10, map or mrr. "
        "The result is kept if it is better on the held-out data, or else on folds.",
        rich_help_panel=LOSS,
        show_default=False,
    ),
]
WarmStart = Annotated[
    Path | None,
    typer.Option(
        "--warm-start",
        metavar="MODEL",
        help="Start from the weights of this model.",
        rich_help_panel=SOLVER,
        show_default=False,
    ),
]
METRICS_HELP = (
    "Metrics, separated by commas, such as ndcg@10, mean-ndcg, map, p@5, mrr, err@10, recall@100, "
    "r-precision, hit-rate@10, rbp, spearman, kendall (τ-b), pairwise-accuracy, "
    "strict-pairwise-accuracy (ties are wrong), auc, all-pairs-error and domination-error. For "
    "errors, lower is better. (rel=2) sets the smallest relevant label: p(rel=2)@5. (p=0.8) sets "
    "the persistence of rbp: rbp(p=0.8)@20."
)
FLAVOUR_HELP = (
    "The conventions of metrics on gains, ties and empty queries: those of the literature, of "
    "Microsoft's scripts for LETOR 3.0, LETOR 4.0 or MSLR, or of trec_eval."
)
Threads = Annotated[
    int | None,
    typer.Option(
        "--threads",
        metavar="NUMBER",
        min=1,
        help="The number of threads.",
        rich_help_panel=SOLVER,
        show_default="LINRANK_THREADS, or all cores",
    ),
]
DaskOption = Annotated[
    str | None,
    typer.Option(
        "--dask",
        metavar="ADDRESS",
        help="Train on a Dask cluster: the address of its scheduler, or local for processes on "
        "this machine. For tls://, Dask's configuration names the credentials. TRAIN is a store "
        "or a folder of LETOR or Parquet parts that all workers can read.",
        rich_help_panel=SOLVER,
        show_default="this process",
    ),
]
Float32 = Annotated[
    bool,
    typer.Option(
        "--float32",
        help="Read features from text in single precision, which halves the memory.",
        rich_help_panel=INPUT,
    ),
]
IndexBase = Annotated[
    IndexBaseName,
    typer.Option(
        "--index-base",
        help="The number of the first feature in the text. auto is 0 if it occurs, and else 1.",
        rich_help_panel=INPUT,
    ),
]
Json = Annotated[
    bool,
    typer.Option("--json", help="Print one JSON object and nothing else.", rich_help_panel=OUTPUT),
]


def number_of(index_base: IndexBaseName) -> int | Literal["auto"]:
    """Return the index base in the form that `linrank.read_letor` takes."""
    return index_base if index_base == "auto" else int(index_base)


# --------------------------------------------------------------------------------------------------
# Options of ``--additive``, whose names are those of `AdditiveTrainer.of`, and their texts.


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


def check_curve_options(options: Mapping[str, Any], categories: Any, **own: Any) -> None:
    """Raise a `typer.BadParameter` for options that --additive needs, or does not take.

    `categories` is the value of --categories. `own` holds options of a command itself that
    --additive does not take.
    """
    if not options["additive"]:
        for name, declared in CURVE_OPTIONS.items():
            if options[name] != declared.default:
                raise typer.BadParameter(f"{flag_of(name)} is about curves. Add --additive.")
        if isinstance(categories, list):
            raise typer.BadParameter(
                "--categories with a list of features is about curves. Add --additive, or use "
                "--categories onehot."
            )
        return
    for name, value in own.items():
        if value:
            raise typer.BadParameter(
                f"--additive does not support {flag_of(name)}. Leave out one of them."
            )


# --------------------------------------------------------------------------------------------------
# Options that several commands share; each is declared once.


#: What --rescale and --normalize take: "none" switches off what is done by default.
RescaleChoice = Literal[RescaleName, "none"]
NormalizeChoice = Literal[NormalizeName, "none"]
SWITCHED_OFF = ("rescale", "normalize", "scale")  #: options that take "none"


def parse_bounds(text: str) -> Any:
    """Parse bounds: ``positive``, ``LOW:HIGH`` or ``NAME=LOW:HIGH,…``; numbers may be missing.

    Examples
    --------
    >>> parse_bounds("positive"), parse_bounds("-1:1"), parse_bounds("0:")
    ('positive', (-1.0, 1.0), (0.0, None))
    >>> parse_bounds("price=:0,clicks=0:1")
    ({'clicks': 0.0}, {'price': 0.0, 'clicks': 1.0})
    """
    if text == "positive":
        return text
    try:
        return _limits_by_name(text) if "=" in text else _limits(text)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not valid; expected positive, LOW:HIGH such as 0:1, or limits by feature "
            "name such as price=:0,clicks=0:"
        ) from None


def _limits(text: str) -> tuple[float | None, ...]:
    """Return the two numbers in ``LOW:HIGH``; None stands for a missing one."""
    low, high = text.split(":")
    return tuple(parse_number(side) if side.strip() else None for side in (low, high))


def _limits_by_name(text: str) -> tuple[dict[str, float], ...]:
    """Return the lower and the upper limits in ``NAME=LOW:HIGH,…``."""
    sides: tuple[dict[str, float], ...] = ({}, {})
    for part in text.split(","):
        name, equals, limits = part.rpartition("=")
        if not equals or not name.strip():
            raise ValueError(part)
        for side, limit in zip(sides, _limits(limits), strict=True):
            if limit is not None:
                side[name.strip()] = limit
    return sides


def parse_scales(text: str) -> tuple[float, ...]:
    """Parse one or several scales of the margin, separated by commas.

    Examples
    --------
    >>> parse_scales("0.5"), parse_scales("0.25,0.5,1")
    ((0.5,), (0.25, 0.5, 1.0))
    """
    try:
        scales = tuple(parse_number(part) for part in text.split(","))
    except ValueError:
        scales = (math.nan,)
    if not all(0 <= scale < math.inf for scale in scales):
        raise typer.BadParameter(f"{text!r} is not a list of numbers ≥ 0, such as 0.25,0.5,1")
    return scales


def read_costs(path: str) -> list[float]:
    """Read the costs of features from a file with one number per line."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = [line.strip() for line in file if line.strip()]
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise typer.BadParameter(f"{path}: cannot be read ({reason})") from None
    try:
        return [parse_number(line) for line in lines]
    except ValueError:
        raise typer.BadParameter(f"{path}: expected one number per line") from None


def none_if_unset(context: typer.Context, parameter: typer.CallbackParam, value: Any) -> Any:
    """Return the value of an option; None if the default depends on the trainer."""
    assert parameter.name is not None
    source = context.get_parameter_source(parameter.name)
    return None if source is None or source.name == "DEFAULT" else value


def parse_solver_options(texts: list[str] | None) -> dict[str, Any]:
    """Parse ``name=value`` texts; values are Python literals or plain text.

    Examples
    --------
    >>> parse_solver_options(["damped=false", "stop=gradient"])
    {'damped': False, 'stop': 'gradient'}
    """
    options = {}
    for text in texts or []:
        name, value = split_option(text, "damped=False")
        options[name] = parse_literal(value)
    return options


_TYPES = get_type_hints(Options)
#: The options that are fields of `Settings`, which `linrank.training.options` declares.
_FIELDS: dict[str, Declared] = {
    f.name: Declared(Annotated[_TYPES[f.name], option(flag_of(f.name), **f.metadata)], f.default)
    for f in fields(Options) if f.metadata
}  # fmt: skip

#: The options that `train` and `path` share, in the order of the help.
SHARED: dict[str, Declared] = {
    "metric": Declared(
        Annotated[str, option(
            "--metric", CHOICE,
            "The metric on held-out data that chooses C: ndcg@10, map, pairwise-accuracy, "
            "p(rel=2)@5, domination-error, …", metavar="NAME",
        )],
        "ndcg@10",
    ),
    "flavour": Declared(
        Annotated[FlavourName, option("--flavour", CHOICE, FLAVOUR_HELP)], "standard"
    ),
    "rule": Declared(
        Annotated[RuleName, option(
            "--rule", CHOICE,
            "Take the C with the best metric, or the C with the fewest features within one "
            "standard error of it.",
        )],
        "best",
    ),
    "loss": Declared(
        Annotated[LossName, option(
            "--loss", LOSS,
            "The loss of pairs, or domination: the loss of each document against all worse ones.",
            show_default="squared_hinge; with --additive logistic", callback=none_if_unset,
        )],
        "squared_hinge",
    ),
    "pairs": Declared(
        Annotated[PairsName, option(
            "--pairs", LOSS, "Compare all levels of a query, or neighbouring levels only."
        )],
        "all",
    ),
    "rescale": Declared(
        Annotated[RescaleChoice | None, option(
            "--rescale", LOSS,
            "The scores of a pair should differ by √δ instead of 1 (margin), or the loss of a pair "
            "is multiplied by δ (slack).", show_default="none; with --additive slack",
        )],
        None,
    ),
    "delta": Declared(
        Annotated[DeltaName, option(
            "--delta", LOSS,
            "δ of a pair: the difference of the labels, its square, the difference of the gains "
            "2^label, or the DCG lost when the two exchange places.",
            show_default="label; with --additive gain", callback=none_if_unset,
        )],
        "label",
    ),
    "normalize": Declared(
        Annotated[NormalizeChoice | None, option(
            "--normalize", LOSS,
            "Divide the loss by the number of pairs, or the loss of each query by the number of "
            "its pairs. The papers have none.",
            show_default="pairs; with --additive none",
        )],
        None,
    ),
    "penalty": Declared(
        Annotated[PenaltyName | None, option(
            "--penalty", LOSS,
            "The penalty of the weights. l2 and none keep all features. l1 and elastic_net are "
            "convex and select features. mcp, scad, log and lp select fewer. group_l1 selects the "
            "curves of --additive.",
            show_default="l2, ½‖w‖²; with --additive l2, or the best of l2 and group_l1 if C is "
            "chosen",
        )],
        None,
    ),
    "shape": Declared(
        Annotated[float | None, option(
            "--shape", LOSS,
            "The parameter of the penalty: ρ of elastic_net, γ of mcp, a of scad, ε of log, p of "
            "lp, ρ of group_l1.", metavar="NUMBER", show_default="0.5, 2, 3.7, 0.1, 0.5, 0",
        )],
        None,
    ),
    "feature_cost": Declared(
        Annotated[Any, option(
            "--feature-cost", LOSS,
            "A file with one number per line: the cost of each feature, which multiplies its "
            "penalty. Features of cost 0 are always kept.",
            parser=read_costs, metavar="FILE", show_default="1 for every feature",
        )],
        None,
    ),
    "bounds": Declared(
        Annotated[Any, option(
            "--bounds", LOSS,
            "Limits of all weights: positive, or LOW:HIGH. Either may be missing, as in 0: or :1. "
            "Or limits by feature name, such as price=:0,clicks=0:.",
            parser=parse_bounds, metavar="positive|LOW:HIGH|NAME=LOW:HIGH,…", show_default="none",
        )],
        None,
    ),
    "margin_scale": Declared(
        Annotated[Any, option(
            "--margin-scale", LOSS,
            "The scores of a pair should differ by this number times the difference of the labels, "
            "or of the margins if --margin is given, instead of 1. The best of several numbers, "
            "such as 0.25,0.5,1, is chosen with C.",
            parser=parse_scales, metavar="NUMBER[,NUMBER…]", show_default=False,
        )],
        None,
    ),
    "solver": _FIELDS["solver"],
    "solver_option": Declared(
        Annotated[list[str] | None, option(
            "--solver-option", SOLVER,
            "An option of the solver, such as damped=False for cutting-planes. It may be repeated.",
            metavar="NAME=VALUE", show_default=False,
        )],
        None,
    ),
    "scale": Declared(
        Annotated[str | None, option(
            "--scale", FEATURES,
            "What is done to the features: standard, minmax, robust, maxabs, common (one number "
            "for all), query (0 to 1 within each query), both (standard, and beside it query), "
            "auto (standard if they are dense, else common), or none. log1p and clip or "
            "clip:QUANTILE may come before it, as in log1p+clip+standard. The model keeps it.",
            metavar="STEPS", show_default="auto; with --additive none",
        )],
        None,
    ),
    "missing": Declared(
        Annotated[MissingName | None, option(
            "--missing", FEATURES,
            "What replaces missing values: 0, the median of the feature, or the median with a "
            "weight of its own for the fact that a value is missing.",
            show_default="missing values are an error",
        )],
        None,
    ),
    **_FIELDS,
    "threads": Declared(Threads, None),
    **CURVE_OPTIONS,
}  # fmt: skip


def with_options(
    parameter: str, declared: Mapping[str, Declared], make: Callable[[dict[str, Any]], Any] = dict
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds declared options to a command.

    The command gets what `make` makes of their values as its argument `parameter`.
    """

    def add(command: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(command, include_extras=True)
        own = [
            own.replace(annotation=hints[own.name], kind=own.KEYWORD_ONLY)
            for own in inspect.signature(command).parameters.values()
            if own.name != parameter
        ]
        added = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=value, annotation=hint)
            for name, (hint, value) in declared.items()
        ]

        def run(**values: Any) -> None:
            made = make({name: values.pop(name) for name in declared})
            command(**values, **{parameter: made})

        parameters = sorted([*own, *added], key=_panel)
        run.__doc__ = command.__doc__
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        return run

    return add


def _panel(parameter: inspect.Parameter) -> int:
    """Return the position of an option's panel in the help; arguments come first."""
    declared = getattr(parameter.annotation, "__metadata__", ())
    panel = declared[0].rich_help_panel if declared else None
    return PANELS.index(panel) if panel in PANELS else -1


#: Decorator that adds the options of `SHARED` to a command, which gets their values as `options`.
with_shared_options = with_options("options", SHARED)
