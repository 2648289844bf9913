"""Checks that a graphics card and the packages for it are present."""

from __future__ import annotations

from importlib.util import find_spec

from ...errors import DataError


def check_available(engine: str) -> None:
    """Raise a `DataError` that says what is missing, if this machine cannot run the engine."""
    if find_spec("numba_cuda") is None:
        extra = "cublas" if engine == "p-swx-paper" else "cuda"
        raise DataError(
            f"engine={engine!r} needs numba-cuda, which is not installed: "
            f"pip install 'linrank[{extra}]', or use engine='threads'"
        )
    if engine == "p-swx-paper" and not is_simulated() and find_spec("cupy") is None:
        raise DataError(
            "engine='p-swx-paper' needs CuPy for its matrix products, which is not installed: "
            "pip install 'linrank[cublas]', or use engine='p-swx'"
        )
    if not has_card():
        raise DataError(
            f"engine={engine!r} needs an NVIDIA graphics card with its driver, and none was found. "
            "Use engine='threads'."
        )


def is_simulated() -> bool:
    """Whether numba simulates a graphics card (``NUMBA_ENABLE_CUDASIM=1``)."""
    from numba import config

    return bool(config.ENABLE_CUDASIM)


def has_card() -> bool:
    """Whether there is a graphics card that numba can use."""
    from numba import cuda

    return cuda.is_available()
