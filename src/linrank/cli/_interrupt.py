"""Handling of Ctrl-C: it raises `KeyboardInterrupt` in a command, and otherwise ends the process.

A `KeyboardInterrupt` during imports or during the shutdown of Python cannot be caught, and the user
would see a traceback. The program therefore imports this module first. It uses the built-in module
`_signal`, because importing `signal` takes some milliseconds.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # importing `typing` takes some milliseconds
if TYPE_CHECKING:
    import signal as _signal
    from types import FrameType, TracebackType
else:
    import _signal

INTERRUPTED = 130  #: exit code after Ctrl-C
RETRY_DELAY = 0.05  #: seconds until an interrupt that could not be raised is sent again


def _exit(signum: int, frame: FrameType | None) -> None:
    try:
        os.write(2, b"interrupted\n")
    finally:  # exit even if stderr is closed
        os._exit(INTERRUPTED)


def exit_on_interrupt() -> None:
    """Let Ctrl-C end the process from now on, unless the process ignores Ctrl-C."""
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _exit)


class interrupts_raise:
    """Context manager in which Ctrl-C raises `KeyboardInterrupt`.

    Python cannot raise an exception in a destructor or in a callback from C, such as those of LLVM
    during compilation. The interrupt is then sent again after `RETRY_DELAY`.
    """

    def __enter__(self) -> None:
        self._hook, sys.unraisablehook = sys.unraisablehook, self._not_raised
        self._exits = _signal.getsignal(_signal.SIGINT) is _exit
        if self._exits:
            _signal.signal(_signal.SIGINT, _signal.default_int_handler)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        sys.unraisablehook = self._hook
        if self._exits:
            _signal.signal(_signal.SIGINT, _exit)

    def _not_raised(self, found: sys.UnraisableHookArgs) -> None:
        if found.exc_type is not KeyboardInterrupt:
            self._hook(found)
            return
        import threading

        again = threading.Timer(RETRY_DELAY, os.kill, (os.getpid(), _signal.SIGINT))
        again.daemon = True
        again.start()
