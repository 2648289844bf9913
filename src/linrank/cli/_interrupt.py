"""What Ctrl-C does: it ends the process, or raises `KeyboardInterrupt` while a command runs.

While modules are imported and while Python shuts down, nothing can catch `KeyboardInterrupt`, and
the user would see a traceback. This file is the first that the program imports. It therefore uses
`_signal`, which is part of the interpreter: `signal` takes some milliseconds to import.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # `typing` takes some milliseconds, too
if TYPE_CHECKING:
    import signal as _signal
    from types import TracebackType
    from typing import Any
else:
    import _signal

INTERRUPTED = 130  #: exit code
RETRY_AFTER = 0.05  #: seconds after which an interrupt that could not be raised comes again


def _exit(signum: int, frame: Any) -> None:
    try:
        os.write(2, b"interrupted\n")
    finally:  # also if stderr is closed
        os._exit(INTERRUPTED)


def exit_on_interrupt() -> None:
    """From now on, Ctrl-C ends the process; a process that ignores it goes on ignoring it."""
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _exit)


class interrupts_raise:
    """Within a ``with`` block, Ctrl-C raises `KeyboardInterrupt` again.

    In a callback from C, such as LLVM's while it compiles, and in a destructor nothing can be
    raised. The interrupt is then sent once more, a little later.
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

        again = threading.Timer(RETRY_AFTER, os.kill, (os.getpid(), _signal.SIGINT))
        again.daemon = True
        again.start()
