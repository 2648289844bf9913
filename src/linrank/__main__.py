"""The program: ``linrank``, and ``python -m linrank``."""

from __future__ import annotations

from .cli._interrupt import exit_on_interrupt


def main() -> None:
    """Run the command line; Ctrl-C is one line and exit code 130 before, during and after it."""
    exit_on_interrupt()
    from .cli.app import main as run  # takes most of the time until a command begins

    try:
        run()
    finally:
        exit_on_interrupt()


if __name__ == "__main__":
    main()
