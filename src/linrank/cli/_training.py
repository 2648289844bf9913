"""Functions of `train` and `path`: settings, data, progress and exit codes."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import typer

from .._lazy import import_lightly
from ..errors import DataError, QueriesMovedWarning
from ._curves import CURVE_OPTIONS
from ._guard import INTERRUPTED, NOT_CONVERGED, say_error
from ._io import check_output, read_data
from ._progress import TrainingProgress, progress
from ._shared import parse_solver_options

if TYPE_CHECKING:
    from ..data.ranking import RankingData
    from ..training import Trainer, Training
    from ._input import Input


def make_trainers(options: Mapping[str, Any], chooses: bool) -> list[Trainer]:
    """Return the trainers for the options of `SHARED`, and check them before data are read.

    There is one trainer, unless a choice among several penalties or scales of the margin is part of
    the choice of C.
    """
    gc.disable()  # imports make many objects and hardly any garbage
    import_lightly("linrank.training")
    gc.freeze()  # imported objects stay, so garbage collections need not visit them
    gc.enable()
    from ..criterion import Criterion
    from ..engines.choose import check_engine

    options = dict(options)
    metric, flavour, rule = (options.pop(name) for name in ("metric", "flavour", "rule"))
    selects = options["penalty"] not in (None, "l2", "none")
    if not selects and (options["shape"] is not None or rule == "1se"):
        name = "--shape" if options["shape"] is not None else "--rule 1se"
        raise typer.BadParameter(
            f"{name} needs a penalty that selects features. Add --penalty, such as elastic_net."
        )
    check_engine(options["engine"])
    options |= {
        "n_threads": options.pop("threads"),
        "solver_options": _solver_options(options.pop("solver_option")),
        "criterion": Criterion(metric, flavour, rule),
    }
    scales = options.pop("margin_scale") or (None,)
    if len(scales) > 1 and not chooses:
        raise typer.BadParameter(
            "--margin-scale with several numbers needs a choice. Add --valid or --folds, and leave "
            "out --C."
        )
    kind, variants = _kind_of_trainer(options, chooses)
    given = {name: value for name, value in options.items() if value is not None}
    if given.get("rescale") == "none":
        given["rescale"] = None
    return [
        kind.of(**given | variant, margin_scale=scale) for variant in variants for scale in scales
    ]


def _kind_of_trainer(
    options: dict[str, Any], chooses: bool
) -> tuple[type[Trainer], list[dict[str, Any]]]:
    """Return the class of the trainer, and the variants of its options that are tried.

    Options that the class does not have are removed.
    """
    from ..training import Trainer

    is_additive = options.pop("additive")
    options.pop("n_bags")
    if not is_additive:
        for name in CURVE_OPTIONS:
            options.pop(name, None)
        return Trainer, [{}]
    from ..training.additive import AVERAGED_FITS, TRIED_PENALTIES, AdditiveTrainer

    if not chooses:
        if options["average"] is not None:
            raise typer.BadParameter(
                "--average needs a choice of C. Add --valid or --folds, and leave out --C."
            )
        return AdditiveTrainer, [{}]
    options["average"] = options["average"] or AVERAGED_FITS
    options["memory"] = []  # trainers share the basis of the curves
    penalties = TRIED_PENALTIES if options["penalty"] is None else [options["penalty"]]
    return AdditiveTrainer, [{"penalty": penalty} for penalty in penalties]


def check_choice_of_C(folds: int | None, valid: Path | None) -> None:
    """Raise a `typer.BadParameter` if both folds and held-out data would choose C."""
    if folds and valid is not None:
        raise typer.BadParameter("--folds and --valid both choose C. Leave out one of them.")


def place_of_choice(folds: int | None, valid: Path | None, of: str = "query") -> str:
    """Return a text that says on which data C was chosen; folds consist of queries or pairs."""
    return f"by {folds} {of} folds" if folds else f"on {valid}"


def _solver_options(texts: list[str] | None) -> dict[str, Any]:
    """Return the options of a solver, without those that have options of their own."""
    options = parse_solver_options(texts)
    for name in ("tol", "max_iter", "seed"):
        if name in options:
            flag = "--" + name.replace("_", "-")
            raise typer.BadParameter(f"--solver-option {name}=… is {flag}. Use {flag}.")
    return options


class Reading(NamedTuple):
    """How `train` and `path` read their data."""

    inputs: Input
    index_base: Any = "auto"
    float32: bool = False
    threads: int | None = None
    allow_missing: bool = False
    needs_label: bool = True

    @property
    def options(self) -> dict[str, Any]:
        """The options of `linrank.load` for training and held-out data."""
        return {
            "dtype": "float32" if self.float32 else "float64",
            "n_threads": self.threads,
            "allow_missing": self.allow_missing,
            "needs_label": self.needs_label,
        }

    def read(self, train: Path) -> RankingData:
        """Read training data."""
        return read_data(train, self.inputs, index_base=self.index_base, **self.options)

    def read_held_out(self, valid: Path, data: Any) -> RankingData:
        """Read held-out data, whose features are those of the training data."""
        return read_data(
            valid, self.inputs, data.feature_names, n_features=data.n_features,
            index_base=data.index_base, **self.options,
        )  # fmt: skip


def find_held_out(train: Path, valid: Path | None, is_wanted: bool) -> tuple[Path, Path | None]:
    """Return the files of training and held-out data; a fold of LETOR data is a folder of both.

    Held-out data that a user names come first. Those of a fold are used if they are wanted.
    """
    from ..data.parts import find_fold

    fold = find_fold(train)
    if fold is None:
        return train, valid
    return fold.train, fold.valid if valid is None and is_wanted else valid


T = TypeVar("T")
#: Trainers, training data and held-out data.
Opened = tuple[list["Trainer"], Any, "RankingData | None"]


@contextmanager
def opened_here(
    trainers: list[Trainer], train: Path, valid: Path | None, how: Reading
) -> Iterator[Opened]:
    """Yield the trainers and their data in this process."""
    data = how.read(train)
    yield trainers, data, None if valid is None else how.read_held_out(valid, data)


@contextmanager
def recorded(category: type[Warning]) -> Iterator[list[str]]:
    """Collect the sentences of warnings of a category within a ``with`` block.

    Warnings of other categories are issued at the end of the block.
    """
    sentences: list[str] = []
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", category)
        yield sentences
    for one in said:
        if issubclass(one.category, category):
            sentences.append(str(one.message))
        else:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)


def told(make: Callable[[], T]) -> T:
    """Call a function, print its warnings on stderr, and return its result."""
    with recorded(QueriesMovedWarning) as sentences:
        made = make()
    for sentence in sentences:
        say_error(sentence, "warning: ")
    return made


def opened_on(address: str) -> Callable[..., AbstractContextManager[Opened]]:
    """Return the counterpart of `opened_here` for data in the workers of a Dask cluster."""
    try:
        from ..dask.clusters import connected
        from ..dask.data import DaskData
        from ..dask.sources import folder_parts
        from ..dask.training import DaskTrainer
    except ImportError as error:
        raise DataError(f"--dask: {error}") from None

    @contextmanager
    def opened(
        trainers: list[Trainer], train: Path, valid: Path | None, how: Reading
    ) -> Iterator[Opened]:
        own: list[Trainer] = [DaskTrainer.like(trainer) for trainer in trainers]
        parts = folder_parts(
            train, columns=how.inputs.columns, dtype=how.options["dtype"],
            index_base=how.index_base,
        )  # fmt: skip
        with (
            connected(address) as client,
            told(lambda: DaskData(client, parts, how.threads)) as data,
        ):
            yield own, data, None if valid is None else how.read_held_out(valid, data)

    return opened


def takes_missing(options: Mapping[str, Any]) -> bool:
    """Return whether features may be missing."""
    return bool(options["missing"] is not None or options["additive"])


def with_bands(
    trainer: Trainer, training: Training, data: RankingData, n_bags: int | None
) -> Training:
    """Return the training with bands of its curves, if bags are wanted."""
    if not n_bags or training.interrupted:
        return training
    from ..training.additive import AdditiveTrainer

    assert isinstance(trainer, AdditiveTrainer)
    with progress(f"training {n_bags} times on resampled queries"):
        return trainer.bagged(training, data, n_bags)


@contextmanager
def showing(trainer: Trainer, n_folds: int = 0) -> Iterator[Trainer]:
    """Show a progress line for the trainer within a ``with`` block."""
    with progress("training") as update:
        shown = TrainingProgress(update, trainer.tol, n_folds)
        yield replace(trainer, callback=shown, announce=shown.expect)


def finish(
    trainer: Trainer,
    training: Training,
    data: RankingData,
    out: Path | None,
    n_folds: int | None = None,
) -> None:
    """Report problems of the training, and end with the exit code for them."""
    kept = "it was not saved" if out is None else f"it was saved as {out}"
    fault = getattr(data, "fault", None)
    if fault is not None:
        say_error(f"{fault}; the model is the best so far, and {kept}", "warning: ")
        raise typer.Exit(NOT_CONVERGED)
    if training.interrupted:
        sentence = f"interrupted; the model is the best so far, and {kept}"
        if training.folds_done is not None:
            sentence += (
                " (it is the model of the first fold, learnt from a part of the data: "
                f"{training.folds_done} of {n_folds} folds were done)"
            )
        say_error(sentence, "")
        raise typer.Exit(INTERRUPTED)
    if not training.result.converged:
        say_error(f"the model has not converged; {kept}. {training.result.message}", "warning: ")
        raise typer.Exit(NOT_CONVERGED)
    with progress("looking for the smallest C that selects a feature"):
        nothing = trainer.nothing_selected(training, data)
    if nothing is not None:
        say_error(nothing, "warning: ")


def check_plot(plot: Path | None, *read: Path | None) -> None:
    """Check before long work that a plot can be drawn and written to a file; see `check_output`."""
    check_output(plot, *read)
    if plot is not None:
        from ..report.plots import check_plot_file

        check_plot_file(plot)


def draw(training: Training, plot: Path, metric: str, where: str) -> None:
    """Draw the solutions of a grid of C; `where` says on which data the metric was measured."""
    from ..metrics import parse_metric
    from ..report.plots import plot_path

    assert training.path is not None
    assert training.values is not None
    import numpy as np

    names, sizes = training.sizes_along_path()
    plot_path(
        plot, training.path.Cs, training.values[: len(training.path)], sizes,
        metric=f"{metric} {where}", names=names,
        chosen=int(np.flatnonzero(training.path.Cs == training.C)[0]),
        greater_is_better=parse_metric(metric).greater_is_better,
    )  # fmt: skip
