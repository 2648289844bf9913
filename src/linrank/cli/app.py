"""The ``linrank`` command, with one subcommand per module."""

from __future__ import annotations

import atexit
import gc
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from . import (
    arena,
    compare,
    convert,
    demo,
    evaluate,
    explain,
    export,
    fuse,
    inspect,
    path,
    predict,
    study,
    train,
    warmup,
)
from .console import guarded

EPILOG = """
Examples:

linrank train train.txt --valid vali.txt --out model.json

linrank predict model.json test.txt --out scores.txt

linrank evaluate test.txt scores.txt --metrics ndcg@10,map

Exit codes: 0 success, 1 not converged, runs failed, data drifted or a model is worse, 2 wrong usage
or input, 130 interrupted.
"""


class _Group(TyperGroup):
    """Group of commands whose errors become one line and an exit code."""

    def invoke(self, ctx: Any) -> object:
        with guarded():
            return super().invoke(ctx)


app = typer.Typer(
    cls=_Group,
    help="Linear learning to rank at memory speed.",
    epilog=EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _module in (
    train, predict, evaluate, compare, path, arena, study, fuse, explain, export, inspect,
    convert, demo, warmup,
):  # fmt: skip
    _module.register(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        from .._version import __version__

        print(f"linrank {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line."""
    atexit.register(gc.freeze)  # the last garbage collection would be slow with many kernels
    for stream in (sys.stdout, sys.stderr):
        # Characters that the encoding of the terminal lacks are replaced.
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    app(prog_name="linrank")
