"""Options that several commands share; each is declared once.

The names are those of the options of `linrank.settings.Settings.of` and of
`linrank.criterion.Criterion`. `make_trainers` translates the exceptions.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, get_type_hints

import typer

from .._literals import parse_literal
from .._numbers import parse_number
from ..counting.names import CountingName, DeltaName, NormalizeName, PairsName, RescaleName
from ..engines.names import EngineName
from ..features.names import MissingName
from ..losses.tables import LossName
from ..metrics.names import FlavourName, RuleName
from ..penalties import PenaltyName
from ..solvers import SolverChoice
from ._curves import CURVE_OPTIONS
from ._options import (
    CHOICE,
    FEATURES,
    FLAVOUR_HELP,
    LOSS,
    PANELS,
    SOLVER,
    Declared,
    Threads,
    option,
    split_option,
)  # fmt: skip

#: What --rescale takes: --additive has a rescaling by default, which "none" switches off.
RescaleChoice = Literal[RescaleName, "none"]


def parse_bounds(text: str) -> Any:
    """Parse bounds: ``positive`` or ``LOW:HIGH``, where either number may be missing.

    Examples
    --------
    >>> parse_bounds("positive"), parse_bounds("-1:1"), parse_bounds("0:")
    ('positive', (-1.0, 1.0), (0.0, None))
    """
    if text == "positive":
        return text
    low, colon, high = text.partition(":")
    try:
        limits = tuple(parse_number(side) if side.strip() else None for side in (low, high))
    except ValueError:
        limits = ()
    if not colon or not limits:
        raise typer.BadParameter(
            f"{text!r} is not valid; expected positive, or LOW:HIGH such as 0:1"
        )
    return limits


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
            "Limits of all weights: positive, or LOW:HIGH. Either may be missing, as in 0: or :1.",
            parser=parse_bounds, metavar="positive|LOW:HIGH", show_default="none",
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
    "solver": Declared(
        Annotated[SolverChoice, option(
            "--solver", SOLVER,
            "The algorithm. auto is preconditioned Newton, smoothing for the hinge, proximal "
            "Newton for none, l1, elastic_net and group_l1, and reweighted l1 for the others.",
        )],
        "auto",
    ),
    "solver_option": Declared(
        Annotated[list[str] | None, option(
            "--solver-option", SOLVER,
            "An option of the solver, such as damped=False for cutting-planes. It may be repeated.",
            metavar="NAME=VALUE", show_default=False,
        )],
        None,
    ),
    "counting": Declared(
        Annotated[CountingName, option(
            "--counting", SOLVER,
            "The algorithm that sums over pairs. All give the same numbers; auto is the fastest.",
        )],
        "auto",
    ),
    "tol": Declared(
        Annotated[float, option(
            "--tol", SOLVER,
            "Stop when the norm of the gradient is this fraction of its value at w = 0 and the "
            "optimum is near. For smoothing, cutting-planes, l1 and elastic_net, stop when the "
            "duality gap is this fraction of the objective.", metavar="NUMBER",
        )],
        1e-3,
    ),
    "max_iter": Declared(
        Annotated[int, option(
            "--max-iter", SOLVER, "Stop after this number of iterations.", metavar="NUMBER", min=1
        )],
        1000,
    ),
    "seed": Declared(
        Annotated[int, option(
            "--seed", SOLVER, "Seed of the stochastic solvers.", metavar="NUMBER", min=0
        )],
        0,
    ),
    "normalize": Declared(
        Annotated[NormalizeName | None, option(
            "--normalize", SOLVER,
            "Divide the loss by the number of pairs, or the loss of each query by the number of "
            "its pairs.", show_default="the plain sum over pairs",
        )],
        None,
    ),
    "scale": Declared(
        Annotated[str | None, option(
            "--scale", FEATURES,
            "What is done to the features: standard, minmax, robust, maxabs, or query (0 to 1 "
            "within each query). log1p and clip or clip:QUANTILE may come before it, as in "
            "log1p+clip+standard. The model keeps it.", metavar="STEPS", show_default="nothing",
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
    "threads": Declared(Threads, None),
    "engine": Declared(
        Annotated[EngineName, option(
            "--engine", SOLVER,
            "Compute sums on the processor, or on a graphics card: cuda keeps the data there, "
            "cuda-streaming copies them in parts for every product, p-swx is the method of Jin & "
            "Lin, and p-swx-paper has their float32 and library products.",
        )],
        "threads",
    ),
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
