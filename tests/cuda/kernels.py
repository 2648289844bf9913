"""All kernels of the engine by name, and the types that it launches them with."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

MODULES = ("engines.cuda.device_kernels", "papers.jin2014")


def all_kernels() -> dict[str, Any]:
    """Everything that can be launched; kernels of a type of X are in a table by that type."""
    found = {}
    for name in MODULES:
        module = importlib.import_module(f"linrank.{name}")
        home = name.rpartition(".")[2]
        for key, value in vars(module).items():
            if isinstance(value, dict) and key.endswith("_KERNELS"):
                for dtype, kernels in value.items():
                    for kernel in kernels:
                        found[f"{home}.{kernel.py_func.__name__}[{dtype}]"] = kernel
            elif is_kernel(value) and value.py_func.__module__ == module.__name__:
                found[f"{home}.{key}"] = value
    return found


def is_kernel(value: Any) -> bool:
    """Whether a value is a compiled or a simulated kernel, and no function of the device."""
    if hasattr(value, "_device"):  # simulated
        return not value._device
    return hasattr(value, "targetoptions") and not value.targetoptions.get("device")


def describe(value: Any) -> Any:
    """Encode the type of an argument for JSON."""
    if isinstance(value, tuple):
        kind = type(value)
        name = None if kind is tuple else f"{kind.__module__}:{kind.__qualname__}"
        return ["tuple", name, [describe(part) for part in value]]
    if hasattr(value, "dtype") and hasattr(value, "shape") and len(value.shape):
        return ["array", np.dtype(value.dtype).name, len(value.shape)]
    if isinstance(value, bool):
        return ["boolean"]
    return ["float64"] if isinstance(value, float) else ["int64"]


def numba_type(kind: Any) -> Any:
    """Return the type that `describe` encoded."""
    from numba.cuda import types

    if kind[0] == "array":
        return types.Array(getattr(types, kind[1]), kind[2], "C")
    if kind[0] == "tuple":
        parts = [numba_type(part) for part in kind[2]]
        if kind[1] is None:
            return types.BaseTuple.from_types(parts)
        module, name = kind[1].split(":")
        return types.BaseTuple.from_types(parts, getattr(importlib.import_module(module), name))
    return getattr(types, kind[0])
