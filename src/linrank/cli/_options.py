"""Arguments and options that several commands share, and how their texts are read."""

from __future__ import annotations

import math
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

#: Panels of the help.
INPUT, LOSS, CHOICE, SOLVER, OUTPUT = "Input", "Loss", "Choice of C", "Solver", "Output"


class SolverName(StrEnum):
    """The solvers."""

    auto = "auto"
    newton = "newton"
    tron = "tron"
    tron_paper = "tron-paper"
    smoothing = "smoothing"
    cutting_planes = "cutting-planes"
    lbfgs = "lbfgs"
    sgd_pairs = "sgd-pairs"
    sgd_queries = "sgd-queries"
    proximal_newton = "proximal-newton"
    reweighted = "reweighted"
    fista = "fista"
    coordinate_descent = "coordinate-descent"


class LossName(StrEnum):
    """The losses."""

    squared_hinge = "squared_hinge"
    hinge = "hinge"
    huber = "huber"
    logistic = "logistic"
    logistic_exact = "logistic_exact"
    domination = "domination"
    domination_binary = "domination_binary"


class CountingName(StrEnum):
    """The ways to sum over pairs."""

    auto = "auto"
    tables = "tables"
    explicit = "explicit"
    two_level = "two-level"
    direct = "direct"
    selection_tree = "selection-tree"
    fenwick = "fenwick"
    red_black = "red-black"
    avl = "avl"
    aa = "aa"
    red_black_by_score = "red-black-by-score"


class EngineName(StrEnum):
    """Where the sums are made."""

    threads = "threads"
    cuda = "cuda"
    cuda_streaming = "cuda-streaming"
    p_swx = "p-swx"


class PenaltyName(StrEnum):
    """What makes a ranker sparse."""

    l1 = "l1"
    elastic_net = "elastic_net"
    mcp = "mcp"
    scad = "scad"
    log = "log"
    lp = "lp"


class RuleName(StrEnum):
    """Which C is chosen."""

    best = "best"
    one_se = "1se"


class PairsName(StrEnum):
    """Which pairs of levels are compared."""

    all = "all"
    adjacent = "adjacent"


class RescaleName(StrEnum):
    """What the δ of a pair changes."""

    margin = "margin"
    slack = "slack"


class DeltaName(StrEnum):
    """What the δ of a pair is."""

    label = "label"
    label_squared = "label-squared"
    gain = "gain"
    dcg = "dcg"


class Normalize(StrEnum):
    """What the loss can be divided by."""

    pairs = "pairs"
    queries = "queries"


class Flavour(StrEnum):
    """The conventions that metrics can follow."""

    standard = "standard"
    letor3 = "letor3"
    letor4 = "letor4"
    mslr = "mslr"
    trec = "trec"


class IndexBaseName(StrEnum):
    """The number of the first feature in a text file."""

    auto = "auto"
    zero = "0"
    one = "1"

    @property
    def number(self) -> int | str:
        """What `linrank.read_letor` takes."""
        return self.value if self is IndexBaseName.auto else int(self.value)


def parse_C(text: str) -> float:
    """A positive number, or a power such as 2^-5.

    Examples
    --------
    >>> parse_C("2^-5"), parse_C("0.1")
    (0.03125, 0.1)
    """
    base, power, exponent = text.strip().partition("^")
    try:
        C = float(base) ** float(exponent) if power else float(base)
    except (ValueError, OverflowError, ZeroDivisionError):
        C = math.nan
    if not (isinstance(C, float) and 0 < C < math.inf):
        raise typer.BadParameter(f"{text!r} is not a positive number such as 0.1 or 2^-5")
    return C


def parse_grid(text: str) -> tuple[float, ...]:
    """All C of ``LOW:HIGH``, doubling from LOW, or of a list with commas between.

    Examples
    --------
    >>> parse_grid("2^-2:1"), parse_grid("0.1,10")
    ((0.25, 0.5, 1.0), (0.1, 10.0))
    """
    if ":" not in text:
        return tuple(sorted({parse_C(part) for part in text.split(",")}))
    low, high = (parse_C(part) for part in text.split(":", 1))
    if high < low:
        raise typer.BadParameter(f"{text!r} goes down; expected LOW:HIGH such as 2^-15:2^10")
    n_doublings = math.floor(math.log2(high) - math.log2(low) + 1e-9)
    return tuple(math.ldexp(low, k) for k in range(n_doublings + 1))


Train = Annotated[
    Path,
    typer.Argument(
        metavar="TRAIN",
        help="Training data: LETOR text (plain, .gz, .bz2, .xz or .zst) or a store.",
        show_default=False,
    ),
]
Data = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="Data: LETOR text (plain, .gz, .bz2, .xz or .zst) or a store.",
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
        show_default="1, or the best of a grid where there is --valid or --folds",
        rich_help_panel=CHOICE,
    ),
]
Folds = Annotated[
    int | None,
    typer.Option(
        "--folds",
        metavar="NUMBER",
        min=2,
        help="Choose C by so many folds of whole queries of the training data.",
        rich_help_panel=CHOICE,
        show_default=False,
    ),
]
VALID = typer.Option(
    "--valid",
    metavar="DATA",
    help="Held-out data to choose C by, with features numbered as in the training data.",
    rich_help_panel=CHOICE,
    show_default=False,
)
Valid = Annotated[Path, VALID]
MaybeValid = Annotated[Path | None, VALID]
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
Metric = Annotated[
    str,
    typer.Option(
        "--metric",
        metavar="NAME",
        help="What to choose by on held-out data: ndcg@10, map, pairwise-accuracy, p(rel=2)@5, "
        "domination-error, …",
        rich_help_panel=CHOICE,
    ),
]
FLAVOUR_HELP = (
    "Whose conventions on gains, ties and empty queries metrics follow: the literature's, those "
    "of Microsoft's scripts for LETOR 3.0, LETOR 4.0 or MSLR, or trec_eval's."
)
FlavourOption = Annotated[
    Flavour, typer.Option("--flavour", help=FLAVOUR_HELP, rich_help_panel=CHOICE)
]
Solver = Annotated[
    SolverName,
    typer.Option(
        "--solver",
        help="Preconditioned Newton; the papers' trust-region Newton (tron; tron-paper also has "
        "their stopping rule and no warm starts) and cutting planes; "
        "smoothing for the hinge; L-BFGS; stochastic gradients; for penalties proximal Newton, "
        "reweighted l1 or FISTA; coordinate descent for the domination loss. auto chooses.",
        rich_help_panel=SOLVER,
    ),
]
Loss = Annotated[
    LossName,
    typer.Option(
        "--loss",
        help="The loss of pairs, or domination: of each document against all worse ones.",
        rich_help_panel=LOSS,
    ),
]
Counting = Annotated[
    CountingName,
    typer.Option(
        "--counting",
        help="How to sum over pairs: all give the same numbers, auto is the fastest.",
        rich_help_panel=SOLVER,
    ),
]
Pairs = Annotated[
    PairsName,
    typer.Option(
        "--pairs",
        help="Compare all levels of a query, or neighbouring ones only.",
        rich_help_panel=LOSS,
    ),
]
Rescale = Annotated[
    RescaleName | None,
    typer.Option(
        "--rescale",
        help="Ask pairs to be √δ apart instead of 1, or multiply their loss (slack) by δ.",
        rich_help_panel=LOSS,
        show_default="neither",
    ),
]
Delta = Annotated[
    DeltaName,
    typer.Option(
        "--delta",
        help="δ of a pair: the difference of the labels, its square, that of the gains 2^label, or "
        "the DCG lost when the two change places.",
        rich_help_panel=LOSS,
    ),
]
PenaltyOption = Annotated[
    PenaltyName | None,
    typer.Option(
        "--penalty",
        help="Choose features: what weights cost. l1 and elastic_net are convex; the others keep "
        "fewer features.",
        rich_help_panel=LOSS,
        show_default="½‖w‖², which keeps all features",
    ),
]
Shape = Annotated[
    float | None,
    typer.Option(
        "--shape",
        metavar="NUMBER",
        help="The penalty's parameter: ρ of elastic_net, γ of mcp, a of scad, ε of log, p of lp.",
        rich_help_panel=LOSS,
        show_default="0.5, 2, 3.7, 0.1, 0.5",
    ),
]
Rule = Annotated[
    RuleName,
    typer.Option(
        "--rule",
        help="Take the best C, or the one with the fewest features within one standard error.",
        rich_help_panel=CHOICE,
    ),
]
Seed = Annotated[
    int,
    typer.Option(
        "--seed",
        metavar="NUMBER",
        min=0,
        help="Seed of the stochastic solvers.",
        rich_help_panel=SOLVER,
    ),
]
Tol = Annotated[
    float,
    typer.Option(
        "--tol",
        metavar="NUMBER",
        help="Stop when the gradient is this part of what it is at w = 0 (smoothing, cutting "
        "planes, and with --penalty l1 or elastic_net: when the duality gap is this part of the "
        "objective).",
        rich_help_panel=SOLVER,
    ),
]
MaxIter = Annotated[
    int,
    typer.Option(
        "--max-iter",
        metavar="NUMBER",
        min=1,
        help="Give up after so many iterations.",
        rich_help_panel=SOLVER,
    ),
]
NormalizeOption = Annotated[
    Normalize | None,
    typer.Option(
        "--normalize",
        help="Divide the loss by the number of pairs: of all, or of each query by its own.",
        rich_help_panel=SOLVER,
        show_default="the plain sum over pairs",
    ),
]
Threads = Annotated[
    int | None,
    typer.Option(
        "--threads",
        metavar="NUMBER",
        min=1,
        help="Use so many threads.",
        rich_help_panel=SOLVER,
        show_default="LINRANK_THREADS, or all cores",
    ),
]
Engine = Annotated[
    EngineName,
    typer.Option(
        "--engine",
        help="Make the sums on the processor, or on a graphics card: with the data there, or "
        "copied in parts for every product; p-swx is a paper's way.",
        rich_help_panel=SOLVER,
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
        help="Read features of a text in single precision, which halves the memory.",
        rich_help_panel=INPUT,
    ),
]
IndexBase = Annotated[
    IndexBaseName,
    typer.Option(
        "--index-base",
        help="The number of the first feature in the text; auto: 0 if it occurs, else 1.",
        rich_help_panel=INPUT,
    ),
]
Json = Annotated[
    bool,
    typer.Option("--json", help="Print one JSON object and nothing else.", rich_help_panel=OUTPUT),
]
