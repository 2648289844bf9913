"""Whether there is a graphics card, and a way to talk to it."""

from __future__ import annotations

from importlib.util import find_spec

from ...errors import DataError


def check_available(engine: str) -> None:
    """Say what is missing, and how to get it."""
    if find_spec("numba_cuda") is None:
        raise DataError(
            f"engine={engine!r} needs numba-cuda, which is not installed: "
            "pip install 'linrank[cuda]', or use engine='threads'"
        )
    if not has_card():
        raise DataError(
            f"engine={engine!r} needs an NVIDIA graphics card with its driver, and none was found: "
            "use engine='threads'"
        )


def has_card() -> bool:
    """Whether there is a card that can be used."""
    from numba import cuda

    return cuda.is_available()
