"""What commands that train share: reading data, training, and reports."""

from __future__ import annotations

import gc
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import typer

from .._start import INTERRUPTED
from .._util.lazy import import_lightly
from .._util.text import count, format_C
from ..errors import DataError, QueriesMovedWarning
from .console import NOT_CONVERGED, format_mean, grid, plain, progress, say_error
from .inputs import check_output, read_data
from .shared_options import CURVE_OPTIONS, SWITCHED_OFF, parse_solver_options

if TYPE_CHECKING:
    from rich.table import Table

    from ..data.ranking import RankingData
    from ..metrics import Evaluation
    from ..solvers import Result
    from ..training import Trainer, Training
    from .inputs import Input

# --------------------------------------------------------------------------------------------------
# Functions of `train` and `path`: settings, data, progress and exit codes.


def make_trainers(options: Mapping[str, Any], chooses: bool) -> list[Trainer]:
    """Return the trainers for the options of `SHARED`, and check them before data are read.

    There is one trainer, unless a choice among several penalties or scales of the margin is part of
    the choice of C.
    """
    gc.disable()  # imports make many objects and hardly any garbage
    import_lightly("linrank.training.trainer")
    gc.freeze()  # imported objects stay, so garbage collections need not visit them
    gc.enable()
    from ..engines.engine import check_engine
    from ..training.selection import Criterion

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
    given |= {name: None for name in SWITCHED_OFF if given.get(name) == "none"}
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
        for name in (*CURVE_OPTIONS, "categories"):
            options.pop(name, None)
        return Trainer, [{}]
    from ..training.additive_trainer import (
        AVERAGED_FITS,
        TRIED_NORMALIZATIONS,
        TRIED_PENALTIES,
        AdditiveTrainer,
        tried_normalizations,
    )

    if not chooses:
        if options["average"] is not None:
            raise typer.BadParameter(
                "--average needs a choice of C. Add --valid or --folds, and leave out --C."
            )
        return AdditiveTrainer, [{}]
    options["average"] = options["average"] or AVERAGED_FITS
    options["memory"] = []  # trainers share the basis of the curves
    penalties = TRIED_PENALTIES if options["penalty"] is None else [options["penalty"]]
    wanted = {None: TRIED_NORMALIZATIONS, "none": (None,)}.get(
        options["normalize"], options["normalize"]
    )
    return AdditiveTrainer, [
        {"penalty": penalty, "normalize": normalize}
        for normalize in tried_normalizations(wanted, options["interactions"] or 0)
        for penalty in penalties
    ]


def check_choice_of_C(folds: int | None, valid: Path | None) -> None:
    """Raise a `typer.BadParameter` if both folds and held-out data would choose C."""
    if folds and valid is not None:
        raise typer.BadParameter("--folds and --valid both choose C. Leave out one of them.")


MOST_BYTES = 2**30  #: bytes of X up to which C is chosen by folds, which copy a part of it
USUAL_FOLDS = 5  #: folds by which `train` chooses C


def usual_folds(data: RankingData, trainer: Trainer) -> int | None:
    """Return the number of folds by which `train` chooses C; None if it cannot, or takes long."""
    import numpy as np

    from ..matrix.rows import n_entries
    from ..training.selection import most_folds

    most = most_folds(data)
    large = n_entries(data.X) * data.X.dtype.itemsize > MOST_BYTES
    if most < 2 or large or trainer.penalty.name == "none":
        return None
    undefined = math.isnan(trainer.criterion.mean(data, np.zeros(data.n_docs)))
    return None if undefined else min(USUAL_FOLDS, most)


def place_of_choice(
    training: Training, folds: int | None, valid: Path | None, of: str = "query"
) -> str:
    """Return a text that says on which data C was chosen; folds consist of queries or pairs."""
    if not folds:
        return f"on {valid}"
    values = training.fold_values
    if values is not None and values.shape[1] == 1:
        return f"on one of {folds} parts of the documents"
    return f"by {folds} {of} folds"


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
            index_base=data.index_base, categories=data.categories, **self.options,
        )  # fmt: skip


def find_held_out(train: Path, valid: Path | None, is_wanted: bool) -> tuple[Path, Path | None]:
    """Return the files of training and held-out data; a fold of LETOR data is a folder of both.

    Held-out data that a user names come first. Those of a fold are used if they are wanted.
    """
    from ..data.source import find_fold

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


def print_warnings(make: Callable[[], T]) -> T:
    """Call a function, print its warnings on stderr, and return its result."""
    with recorded(QueriesMovedWarning) as sentences:
        made = make()
    for sentence in sentences:
        say_error(sentence, "warning: ")
    return made


def opened_on(address: str) -> Callable[..., AbstractContextManager[Opened]]:
    """Return the counterpart of `opened_here` for data in the workers of a Dask cluster."""
    try:
        from ..dask.dask_engine import DaskData
        from ..dask.estimator import DaskTrainer
        from ..dask.pool import connected
        from ..dask.sources import folder_parts
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
            print_warnings(lambda: DaskData(client, parts, how.threads)) as data,
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
    from ..training.additive_trainer import AdditiveTrainer

    assert isinstance(trainer, AdditiveTrainer)
    with progress(f"training {n_bags} times on resampled queries"):
        return trainer.bagged(training, data, n_bags)


@contextmanager
def showing(trainer: Trainer, n_folds: int = 0) -> Iterator[Trainer]:
    """Show a progress line for the trainer within a ``with`` block."""
    from ..training.trainer import TrainingProgress

    with progress("training") as update:
        shown = TrainingProgress(update, trainer.solver.tol, n_folds)
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
        from ..plots import check_plot_file

        check_plot_file(plot)


def draw(training: Training, plot: Path, metric: str, where: str) -> None:
    """Draw the solutions of a grid of C; `where` says on which data the metric was measured."""
    from ..metrics import parse_metric
    from ..plots.result_plots import plot_path

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


# --------------------------------------------------------------------------------------------------
# Reports on data, training and metrics, for people and as JSON.


BAR_WIDTH = 30  #: columns of the longest bar
LISTED_WEIGHTS = 5  #: weights of a sparse ranker that a report lists


def data_line(path: Path, data: RankingData, training: Training | None = None) -> str:
    """Return one line on data. For training data, it includes pairs and levels.

    Data with listed pairs have no levels. Their queries are the connected components of the pairs.
    """
    form = "sparse" if data.is_sparse else "dense"
    listed = getattr(data, "pairs", None) is not None
    groups = ("connected component",) if listed else ("query", "queries")
    text = (
        f"{path}: {count(data.n_docs, 'document')}, {count(data.n_queries, *groups)}, "
        f"{count(data.n_features, 'feature')} ({form} {data.dtype})"
    )
    if training is None:
        return text
    text += f", {count(training.n_pairs, 'pair')}"
    if listed:
        return text
    text += f", {count(training.n_levels, 'level')}"
    if training.n_empty_queries:
        without = count(training.n_empty_queries, "query", "queries")
        text += f"; {without} without pairs skipped"
    return text


def data_json(path: Path, data: RankingData, training: Training | None = None) -> dict[str, object]:
    """Return the content of `data_line` as JSON."""
    content = {
        "file": str(path),
        "documents": data.n_docs,
        "queries": data.n_queries,
        "features": data.n_features,
        "form": "csr" if data.is_sparse else "dense",
        "dtype": str(data.dtype),
    }
    if training is not None:
        content["pairs"] = training.n_pairs
        content["levels"] = training.n_levels
        content["queries_without_pairs"] = training.n_empty_queries
    return content


def result_json(result: Result) -> dict[str, object]:
    """Return the outcome of a solver as JSON."""
    return {
        "status": result.status.name.lower(),
        "converged": result.converged,
        "message": result.message,
        "objective": result.objective,
        "gradient_norm": result.gradient_norm,
        "duality_gap": result.gap,
        "accuracy": result.accuracy,
        "iterations": result.n_iter,
        "hessian_products": result.n_products,
        "seconds": result.seconds,
    }


def path_table(trainer: Trainer, training: Training) -> Table:
    """Return a table of the solutions for a grid of C, with the best and the chosen C marked."""
    assert training.path is not None
    assert training.values is not None
    columns = ["C", "features", "objective", "iterations", "products", "seconds"]
    table = grid([*columns, trainer.criterion.metric, ""], left=[""])
    values = training.values[: len(training.path)]
    best = training.path.Cs[trainer.criterion.best(values)]
    for C, value, result in zip(training.path.Cs, values, training.path.results, strict=True):
        mark = "best" if best == C else "chosen" if training.C == C else ""
        if not result.converged:
            mark = f"{mark}, not converged" if mark else "not converged"
        table.add_row(
            format_C(C), str(training.count_features(result.coef)), f"{result.objective:.5e}",
            str(result.n_iter),
            str(result.n_products), f"{result.seconds:.2f}", format_mean(value),
            mark, style="bold green" if training.C == C else None,
        )  # fmt: skip
    return table


def path_json(training: Training) -> list[dict[str, object]]:
    """Return the content of `path_table` as JSON."""
    assert training.path is not None
    assert training.values is not None
    values = training.values[: len(training.path)].tolist()
    return [
        {
            "C": C,
            "mean": value,
            "features": training.count_features(result.coef),
            **result_json(result),
        }
        for C, value, result in zip(
            training.path.Cs.tolist(), values, training.path.results, strict=True
        )
    ]


def evaluation_table(found: Evaluation) -> Table:
    """Return a table with the mean of each metric and its number of queries."""
    table = grid(["metric", "mean", "queries", "skipped"], left=["metric"])
    for name, mean in found.mean.items():
        skipped = found.n_skipped[name]
        table.add_row(name, format_mean(mean), f"{found.n_queries - skipped:,}", f"{skipped:,}")
    return table


def bar_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], bars: Sequence[float]
) -> Table:
    """Return a table with a bar for a number of each row: blue, or red if it is negative."""
    from rich.bar import Bar

    table = grid([*columns, ""], left=[columns[0], ""])
    bars = [size if math.isfinite(size) else 0.0 for size in bars]  # a sum may have overflowed
    longest = max(map(abs, bars), default=0.0) or 1.0
    for row, size in zip(rows, bars, strict=True):
        part = abs(size) / longest  # Bar multiplies its end by the width, which may overflow.
        bar = Bar(1.0, 0.0, part, width=BAR_WIDTH, color="red" if size < 0 else "blue")
        table.add_row(*map(plain, row), bar)
    return table


def selected(trainer: Trainer, training: Training) -> list[tuple[str, str]]:
    """Return a line on the selected features of a sparse ranker; other rankers have none."""
    if not trainer.penalty.selects:
        return []
    model = training.model
    n = len(model.used)
    text = f"{n} of {model.n_features} selected"
    if n:
        text += "; the largest: " if n > LISTED_WEIGHTS else ": "
        text += ", ".join(f"{name} {w:.3g}" for name, w in model.largest(min(n, LISTED_WEIGHTS)))
    return [("features", text)]


def compared(
    trainers: Sequence[Trainer], trainer: Trainer, training: Training
) -> list[tuple[str, str]]:
    """Return lines on the chosen penalty and margin, and on a model that is a mean of fits."""
    lines, names = [], list(dict.fromkeys(one.penalty.name for one in trainers))
    if len(names) > 1:
        lines.append(("penalty", f"{trainer.penalty.name}, the best of {', '.join(names)}"))
    scales = dict.fromkeys(
        f"{one.margin_scale:g}" for one in trainers if one.margin_scale is not None
    )
    if len(scales) > 1:
        lines.append(("margin", f"scale {trainer.margin_scale:g}, the best of {', '.join(scales)}"))
    n_fits = training.model.training.get("averaged_fits")
    if n_fits is not None:
        lines.append(("average", f"the model is the mean of {n_fits} of the best fits"))
    return lines


def chosen(trainer: Trainer, training: Training, where: str) -> str:
    """Return a text with C and the criterion that it was chosen by."""
    text = format_C(training.C)
    if training.value is None:
        return text
    criterion = trainer.criterion
    measured = f"{criterion.metric} {format_mean(training.value)} {where} ({criterion.flavour})"
    if training.values is None:
        return f"{text}: {measured}"
    how = "" if criterion.rule == "best" else "the sparsest within one standard error of "
    if training.leans:
        how = "the nearest to the default within one standard error of "
    edge = "" if training.edge is None else f", the {training.edge} that was tried"
    return f"{text}, {how}the best of {len(training.values)}{edge}: {measured}"
