"""The command ``linrank warmup``: compile in advance."""

from __future__ import annotations

import typer

from .console import facts, progress, show


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("warmup", epilog="Examples:\n\nlinrank warmup")(warmup)


def warmup() -> None:
    """Compile the kernels of RankSVM and the metrics, so that later commands start faster."""
    with progress("compiling"):
        from ..estimators.warmup import cache_folder, warmup

        seconds = warmup()
    folder = cache_folder()
    kept = "not kept: no folder can be written" if folder is None else f"below {folder}"
    show(facts([("compiled", f"in {seconds:.1f} s"), ("cache", kept)]))
