"""``linrank warmup``."""

from __future__ import annotations

import typer

from ._console import facts, show
from ._progress import progress


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("warmup", epilog="Examples:\n\nlinrank warmup")(warmup)


def warmup() -> None:
    """Compile what RankSVM and the metrics need, so that later commands start at once."""
    with progress("compiling"):
        from .._warmup import cache_folder, warmup

        seconds = warmup()
    folder = cache_folder()
    kept = "none can be written" if folder is None else f"below {folder}"
    show(facts([("compiled", f"in {seconds:.1f} s"), ("cache", kept)]))
