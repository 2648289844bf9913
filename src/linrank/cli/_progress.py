"""Progress bars on stderr, shown only on a terminal and only after one second."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from .._text import format_C, printable
from ._console import console

if TYPE_CHECKING:
    from rich.progress import ProgressColumn

    from ..solvers import Step

DELAY = 1.0  #: seconds until a progress bar appears


class Update(Protocol):
    """Function that changes a progress bar; arguments that are not given keep their values."""

    def __call__(self, *, completed: float = ..., total: float = ..., text: str = ...) -> None: ...


def _show_nothing(**_: object) -> None:
    pass


@contextmanager
def progress(
    description: str, *columns: ProgressColumn, total: float | None = None
) -> Iterator[Update]:
    """Show a progress bar after `DELAY`, and remove it at the end."""
    screen = console(stderr=True)
    if not screen.is_interactive:
        yield _show_nothing
        return
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    bar = Progress(
        SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), *columns,
        TextColumn("{task.fields[text]}", markup=False), TimeElapsedColumn(),
        console=screen, transient=True, redirect_stdout=False, redirect_stderr=False,
    )  # fmt: skip
    task = bar.add_task(printable(description), total=total, text="")
    later = _Later(bar.start)
    try:
        yield lambda **changes: bar.update(task, **changes)
    finally:
        later.cancel()
        bar.stop()


class _Later:
    """Call of a function after `DELAY`, unless it is cancelled before."""

    def __init__(self, function: Callable[[], None]) -> None:
        self._lock = threading.Lock()
        self._function: Callable[[], None] | None = function
        self._timer = threading.Timer(DELAY, self._call)
        self._timer.daemon = True
        self._timer.start()

    def _call(self) -> None:
        with self._lock:
            if self._function is not None:
                self._function()

    def cancel(self) -> None:
        self._timer.cancel()
        with self._lock:
            self._function = None


@contextmanager
def reading(path: str | os.PathLike[str]) -> Iterator[Callable[[float], None]]:
    """Show the bytes of a file that were read, and the speed.

    Yields a function that takes the fraction that was read.
    """
    from rich.progress import DownloadColumn, TransferSpeedColumn

    size = os.path.getsize(path) if os.path.isfile(path) else 0
    with progress(
        f"reading {os.fspath(path)}", DownloadColumn(), TransferSpeedColumn(), total=size or None
    ) as update:
        yield lambda fraction: update(completed=fraction * size)


class TrainingProgress:
    """Progress of training: the objective and the stopping criterion of each iteration.

    With one C, the bar shows the gradient norm on a logarithmic scale from ‖g(0)‖ to
    tol·‖g(0)‖, or the duality gap down to tol. With a grid of C, it shows the position in the
    grid.
    """

    def __init__(self, update: Update, tol: float, n_folds: int = 0) -> None:
        self._update = update
        self._tol = tol
        self._Cs: list[float] = []
        self._n_folds = n_folds
        self._nearest = 0.0

    def expect(self, Cs: Iterable[float]) -> None:
        """Add values of C that are about to be tried."""
        self._Cs = sorted({*self._Cs, *map(float, Cs)})

    def __call__(self, C: float, step: Step, fold: int) -> None:
        """Show an iteration of the solver."""
        text = f"iteration {step.iteration}, objective {step.objective:.6g}"
        if len(self._Cs) <= 1:
            what, left = "gradient", step.gradient_norm
            if step.gap is not None:
                what, left = "duality gap", step.gap
            nearness = math.log(max(left, 1e-300)) / math.log(self._tol)
            self._nearest = max(self._nearest, min(nearness, 1.0))
            text += f", {what} {left:.1e} (to {self._tol:g})"
            self._update(completed=self._nearest, total=1.0, text=text)
            return
        k = self._Cs.index(C)
        where = f"C = {format_C(C)} ({k + 1}/{len(self._Cs)})"
        if self._n_folds:
            where = f"fold {fold}/{self._n_folds}, {where}" if fold else f"all data, {where}"
        self._update(completed=k, total=len(self._Cs), text=f"{where}, {text}")
