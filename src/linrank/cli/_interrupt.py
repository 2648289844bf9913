"""Ctrl-C in a command: it raises `KeyboardInterrupt`. Elsewhere, it ends the process."""

from __future__ import annotations

import os
import signal
import sys
from types import TracebackType

from .._start import end_process

RETRY_DELAY = 0.05  #: seconds until an interrupt that could not be raised is sent again


class interrupts_raise:
    """Context manager in which Ctrl-C raises `KeyboardInterrupt`.

    Python cannot raise an exception in a destructor or in a callback from C, such as those of LLVM
    during compilation. The interrupt is then sent again after `RETRY_DELAY`.
    """

    def __enter__(self) -> None:
        self._hook, sys.unraisablehook = sys.unraisablehook, self._not_raised
        self._exits = signal.getsignal(signal.SIGINT) is end_process
        if self._exits:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        sys.unraisablehook = self._hook
        if self._exits:
            signal.signal(signal.SIGINT, end_process)

    def _not_raised(self, found: sys.UnraisableHookArgs) -> None:
        if found.exc_type is not KeyboardInterrupt:
            self._hook(found)
            return
        import threading

        again = threading.Timer(RETRY_DELAY, os.kill, (os.getpid(), signal.SIGINT))
        again.daemon = True
        again.start()
