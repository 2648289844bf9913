"""The commands ``linrank inspect`` and ``linrank check``: facts about data or a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from .._util.text import count, setting_text
from ..errors import prefix_errors
from . import shared_options as options
from .console import facts, grid, plain, print_json, progress, show
from .fitting import bar_table, check_plot
from .inputs import (
    Input,
    Judgements,
    QrelsOption,
    check_output,
    looks_like_model,
    read_data,
    read_for,
    with_columns,
)

if TYPE_CHECKING:
    from ..model import Model
    from ..model.drift import Drift
    from ..report.data_summary import DataSummary

EPILOG = """
Examples:

linrank inspect train.txt

linrank inspect model.json --top 20

linrank inspect model.json --plot curves.png --report model.html
"""
CHECK_EPILOG = """
Examples:

linrank check model.json tonight.parquet || mail -s "features have changed" me@example.org

linrank check model.json tonight.parquet --psi 0.1 --json
"""
ALARM = 1  #: exit code if the data have drifted
MAX_LEVELS = 20  #: distinct labels that are listed; the others are summed up in one line


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("check", epilog=CHECK_EPILOG)(with_columns(check))
    app.command("inspect", epilog=EPILOG)(with_columns(inspect))


def inspect(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="Data (LETOR text, a table or a store), or a model.",
            show_default=False,
        ),
    ],
    top: Annotated[
        int,
        typer.Option(
            "--top",
            metavar="NUMBER",
            min=1,
            help="Number of largest weights or curves of a model to show.",
        ),
    ] = 10,
    plot: Annotated[
        Path | None,
        typer.Option(
            "--plot",
            metavar="FILE.png",
            help="Draw the curves or weights of a model (.png, .svg or .pdf).",
            rich_help_panel=options.OUTPUT,
            show_default=False,
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            "--report",
            metavar="FILE.html",
            help="Write a page with all numbers and pictures of a model.",
            rich_help_panel=options.OUTPUT,
            show_default=False,
        ),
    ] = None,
    qrels: QrelsOption = None,
    index_base: options.IndexBase = "auto",
    threads: options.Threads = None,
    json: options.Json = False,
    *,
    inputs: Input,
) -> None:
    """Show a summary of data, or the settings and weights of a model."""
    if looks_like_model(file):
        from ..model import load_model

        check_plot(plot, file)
        check_output(report, file, plot)
        model = load_model(file)
        _write(model, file, top, plot, report)
        if json:
            print_json(_model_json(file, model, top))
        else:
            _show_model(file, model, top)
            show(facts((name, f"saved as {path}") for name, path in
                       (("plot", plot), ("report", report)) if path is not None))  # fmt: skip
        return
    if plot is not None or report is not None:
        raise typer.BadParameter(f"--plot and --report need a model, but {file} is data")
    from dataclasses import asdict

    judgements = Judgements(qrels)
    found = _summary(file, inputs, judgements, index_base, threads)
    if json:
        levels = [{"label": label, "documents": n} for label, n in found.levels.items()]
        about = {"file": str(file), "kind": "data", **judgements.json()}
        print_json({**about, **asdict(found), "levels": levels})
    else:
        _show_data(file, judgements, found)


def _summary(
    file: Path,
    inputs: Input,
    judgements: Judgements,
    index_base: options.IndexBaseName,
    threads: int | None,
) -> DataSummary:
    from ..report.data_summary import summarize

    data = read_data(
        file, inputs, index_base=options.number_of(index_base), n_threads=threads,
        allow_missing=True,
    )  # fmt: skip
    data = judgements.apply(data, file)
    with progress(f"counting {file}"):
        return summarize(data)


def _show_data(file: Path, judgements: Judgements, found: DataSummary) -> None:
    smallest, median, largest = found.query_size
    show(
        facts(
            [
                ("data", str(file)),
                *judgements.lines(),
                ("documents", f"{found.n_docs:,}"),
                ("queries", f"{found.n_queries:,}"),
                ("per query", f"{smallest:,} to {largest:,} documents, median {median:,g}"),
                ("features", f"{found.n_features:,}, numbered from {found.index_base}; "
                             f"{found.n_constant_features:,} constant"),
                ("density", f"{found.density:.1%} of the entries are not 0"),
                ("missing", f"{found.n_missing:,} of the entries"),
                ("form", f"{found.form} {found.dtype}"),
                ("pairs", f"{found.n_pairs:,}; "
                          f"{count(found.n_empty_queries, 'query', 'queries')} without"),
            ]
        ),
        _level_table(found),
    )  # fmt: skip


def _level_table(found: DataSummary) -> Table:
    table = grid(["label", "documents", "share"])
    levels = list(found.levels.items())
    for label, n in levels[:MAX_LEVELS]:
        table.add_row(f"{label:.6g}", f"{n:,}", f"{n / found.n_docs:.1%}")
    rest = levels[MAX_LEVELS:]
    if rest:
        n = sum(n for _, n in rest)
        table.add_row(f"{len(rest):,} more", f"{n:,}", f"{n / found.n_docs:.1%}")
    return table


def _show_model(file: Path, model: Model, top: int) -> None:
    lines = [("model", str(file)), ("kind", type(model).__name__)]
    lines += [("features", f"{model.n_features:,}")]
    lines += [(name, setting_text(name, value)) for name, value in model.facts().items()]
    lines += [(name, setting_text(name, value)) for name, value in model.settings.items()]
    show(facts(lines))
    if model.training:
        show(Text())
        show(facts((name, setting_text(name, value)) for name, value in model.training.items()))
    if model.columns():
        show(bar_table(*model.table(top)))


def _write(model: Model, file: Path, top: int, plot: Path | None, report: Path | None) -> None:
    """Write the plot and the page of a model, if they are wanted."""
    if plot is not None:
        from ..plots import save_figure

        save_figure(plot, lambda figure: model.draw(figure, top), model.figure_size(top))
    if report is not None:
        from ..report.model_page import write_model_page

        write_model_page(report, model, file.name)


def _model_json(file: Path, model: Model, top: int) -> dict[str, object]:
    columns = model.columns()
    return {
        "file": str(file),
        "kind": "model",
        "format": model.format,
        "features": model.n_features,
        "index_base": model.index_base,
        **model.facts(),
        "settings": model.settings,
        "training": model.training,
        "largest": [
            {
                "feature": model.part_name(f),
                **{column.name: column.values[f] for column in columns},
                **model.details(f),
            }
            for f in model.ordered()[:top].tolist()
        ],
    }


# --------------------------------------------------------------------------------------------------
# `linrank check`: differences of data from the training data of a model.


def check(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="A model file.", show_default=False)
    ],
    data: options.Data,
    psi: Annotated[
        float,
        typer.Option(
            "--psi",
            metavar="NUMBER",
            min=0.0,
            help="The largest population stability index of a feature and of the scores.",
        ),
    ] = 0.25,
    missing: Annotated[
        float,
        typer.Option(
            "--missing",
            metavar="SHARE",
            min=0.0,
            help="The largest increase of the share of missing values of a feature.",
        ),
    ] = 0.1,
    outside: Annotated[
        float,
        typer.Option(
            "--outside",
            metavar="SHARE",
            min=0.0,
            help="The largest share of values of a feature outside of its training range.",
        ),
    ] = 0.05,
    top: Annotated[
        int,
        typer.Option("--top", metavar="NUMBER", min=1, help="Number of features to show."),
    ] = 10,
    threads: options.Threads = None,
    json: options.Json = False,
    *,
    inputs: Input,
) -> None:
    """Compare data with the training data of a model; the exit code is 1 if they have drifted."""
    from ..model import load_model

    learnt = load_model(model)
    documents = read_for(
        learnt, data, inputs, n_threads=threads, needs_label=False, allow_missing=True
    )
    with progress("comparing"), prefix_errors(data):
        found = learnt.check(documents, psi=psi, missing=missing, outside=outside)
    if json:
        print_json({"model": str(model), "data": str(data)} | _drift_json(found))
    else:
        _show_drift(model, data, found, top)
    if not found.ok:
        raise typer.Exit(ALARM)


def _show_drift(model: Path, data: Path, found: Drift, top: int) -> None:
    lines = [("model", str(model)), ("data", f"{data}: {count(found.n_docs, 'document')} compared")]
    if found.scores is not None:
        lines.append(("scores", f"stability index {found.scores:.3f}"))
    lines += [("note", note) for note in found.notes]
    lines += [("alarm", alarm) for alarm in found.alarms] or [("alarm", "none")]
    show(facts(lines))
    names, rows = found.table(top)
    if rows:
        table = grid(names, left=names[:1])
        for row in rows:
            table.add_row(*map(plain, row))
        show(table)


def _drift_json(found: Drift) -> dict[str, object]:
    return {
        "ok": found.ok,
        "alarms": found.alarms,
        "notes": found.notes,
        "documents": found.n_docs,
        "scores": found.scores,
        "features": [feature._asdict() for feature in found.features],
    }
