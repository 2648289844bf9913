"""Arguments and options that several commands share, with the parsers of their values."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import typer

from .._numbers import parse_number

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
        show_default="1, or the best of a grid with --valid or --folds",
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
        help="Train another ranker: kernel, adarank, rankboost, pamir, fenchelrank, fsmrank, gas, "
        "svr, lambdamart, forest or gbdt, with the parameters of its class in Python, such as "
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
