"""The fields of `Settings`, with the texts of those that are options of the command line, too.

To add an option of ``linrank train`` and ``linrank path``, add a field with `option` to `Options`.
This module imports neither numpy nor numba, so that the command line starts fast.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..choices import CountingName, EngineName, NormalizeName
from ..solvers import SolverChoice

# The defaults of linear rankers, of `linrank train` and of `Trainer`; docs/benchmarks.md shows the
# measurements. The objective of the papers is normalize=None and scale=None, for any C.
DEFAULT_C = 10.0  #: weight of the loss
DEFAULT_SELECTING_C = 100.0  #: the same for penalties that select features
DEFAULT_NORMALIZE: NormalizeName = "pairs"  #: what the loss is divided by
DEFAULT_SCALE = "auto"  #: what is done to the features

DEFAULT_MAX_ITER = 1000  #: largest number of iterations of solvers that are given by name

SOLVER = "Solver"  #: panel of the help
#: The end of the help of options whose choices include algorithms that are there for comparison.
OF_PAPERS = "The pages in docs/papers name the algorithms of the papers."


def option(default: Any, panel: str, help: str, *, kw_only: bool = True, **shown: Any) -> Any:
    """Declare a field that is an option of ``train`` and ``path``; its type has the choices.

    Parameters
    ----------
    default : object
    panel, help : str
        Where the help shows the option (one of `linrank.cli.shared_options.PANELS`), and its text.
    kw_only : bool
        Whether the field is a keyword only in Python.
    **shown
        Other arguments of `typer.Option`, such as ``metavar`` and ``min``.
    """
    metadata = {"panel": panel, "help": help, **shown}
    return field(default=default, kw_only=kw_only, metadata=metadata)


@dataclass(frozen=True)
class Options:
    """The fields of `Settings` before they are checked, in the order of its arguments."""

    loss: Any = "squared_hinge"
    tol: float | None = option(
        None, SOLVER,
        "Stop when the distance of the objective to the optimum is this fraction of the objective. "
        "The distance is certified or estimated, as the result says. Solvers of papers have the "
        "rule of their paper.",
        metavar="NUMBER", show_default="1e-6 for newton, tron and lbfgs, 1e-3 for most others",
        kw_only=False,
    )  # fmt: skip
    solver: SolverChoice = option(
        "auto", SOLVER,
        "The algorithm. auto is preconditioned Newton, smoothing for the hinge, proximal Newton "
        "for none, l1, elastic_net and group_l1, and reweighted l1 for the others. " + OF_PAPERS,
        metavar="auto|newton|tron|smoothing|cutting-planes|dual|lbfgs|sgd-pairs|sgd-queries|"
        "proximal-newton|reweighted|fista|…", kw_only=False,
    )  # fmt: skip
    counting: CountingName = option(
        "auto", SOLVER,
        "The algorithm that sums over pairs. All give the same numbers; auto is the fastest. "
        + OF_PAPERS,
        metavar="auto|tables|explicit|two-level|fenwick|…", kw_only=False,
    )  # fmt: skip
    preferences: Any = None
    normalize: NormalizeName | None = DEFAULT_NORMALIZE
    penalty: Any = None
    max_iter: int = option(
        DEFAULT_MAX_ITER, SOLVER, "Stop after this number of iterations.", metavar="NUMBER",
        min=1, kw_only=False,
    )  # fmt: skip
    seed: int = option(
        0, SOLVER, "Seed of the stochastic solvers.", metavar="NUMBER", min=0, kw_only=False
    )
    n_threads: int | None = None
    engine: EngineName = option(
        "threads", SOLVER,
        "Compute sums on the processor, or on a graphics card: cuda keeps the data there, "
        "cuda-streaming copies them in parts for every product. " + OF_PAPERS,
        metavar="threads|cuda|cuda-streaming|…", kw_only=False,
    )  # fmt: skip
    features: Any = field(default=None, kw_only=True)
    margin_scale: float | None = field(default=None, kw_only=True)
