"""Entry point of the program: ``linrank`` and ``python -m linrank``."""

from __future__ import annotations

import gc
import os
import sys

from .cli._interrupt import exit_on_interrupt

GARBAGE_OBJECTS = 100_000  #: new objects between two garbage collections; imports make many


def main() -> None:
    """Run the command line.

    Ctrl-C ends the program with one line and exit code 130, also during imports and shutdown.
    """
    exit_on_interrupt()
    _replace_closed_streams()
    gc.set_threshold(GARBAGE_OBJECTS)
    from .cli.app import main as run  # slow import: Ctrl-C must be handled before it

    try:
        run()
    finally:
        exit_on_interrupt()


def _replace_closed_streams() -> None:
    """Open the null device for each standard stream that is closed, as in some daemons.

    Otherwise, `sys.stdout` would be None, and the next file to be opened would get the file
    descriptor of the stream.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(descriptor, True)
            setattr(sys, name, os.fdopen(descriptor, mode))


if __name__ == "__main__":
    main()
