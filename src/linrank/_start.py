"""`main`: the start of the program, which handles Ctrl-C before it imports anything else.

A `KeyboardInterrupt` during imports or during the shutdown of Python cannot be caught, and the user
would see a traceback. This module therefore imports only what every Python process has loaded. It
uses the built-in module `_signal`, because importing `signal` takes some milliseconds.
"""

import os
import sys

TYPE_CHECKING = False  # importing `typing` takes some milliseconds
if TYPE_CHECKING:
    import signal as _signal
else:
    import _signal

INTERRUPTED = 130  #: exit code after Ctrl-C
GARBAGE_OBJECTS = 100_000  #: new objects between two garbage collections; imports make many


def end_process(signum: int, frame: object) -> None:
    """Handle Ctrl-C: end the process with one line on stderr."""
    try:
        os.write(2, b"interrupted\n")
    finally:  # exit even if stderr is closed
        os._exit(INTERRUPTED)


def exit_on_interrupt() -> None:
    """Let Ctrl-C end the process from now on, unless the process ignores Ctrl-C."""
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, end_process)


def main() -> None:
    """Run the command line.

    Ctrl-C ends the program with one line and exit code 130, also during imports and shutdown.
    """
    exit_on_interrupt()
    replace_closed_streams()
    import gc

    gc.set_threshold(GARBAGE_OBJECTS)
    from .cli.app import main as run  # slow import: Ctrl-C must be handled before it

    try:
        run()
    finally:
        exit_on_interrupt()


def replace_closed_streams() -> None:
    """Open the null device for each standard stream that is closed, as in some daemons.

    Otherwise, `sys.stdout` would be None, and the next file to be opened would get the file
    descriptor of the stream.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(descriptor, True)
            setattr(sys, name, os.fdopen(descriptor, mode))
