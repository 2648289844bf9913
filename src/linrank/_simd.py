"""SIMD vectors of four or eight numbers, as values that kernels keep in registers.

LLVM vectorises simple loops by itself, but not several running sums in one loop, such as the
columns of a table. Without compilation, the functions of this module work on arrays. Kernels use
the instructions of `linrank._instructions` instead. A processor without vectors of eight numbers
uses two vectors of four.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from ._typing import Vector

Few: TypeAlias = Vector  #: a SIMD vector; without compilation, an array of four or eight numbers


def four() -> Few:
    """Return a SIMD vector of four zeros."""
    return np.zeros(4)


def eight() -> Few:
    """Return a SIMD vector of eight zeros."""
    return np.zeros(8)


def load(like: Few, array: Vector, i: int) -> Few:
    """Return ``array[i : i + n]`` for a SIMD vector of n numbers; i must not be negative."""
    return array[i : i + len(like)].copy()


def store(array: Vector, i: int, values: Few) -> None:
    """Write a SIMD vector to ``array[i : i + n]``; i must not be negative."""
    array[i : i + len(values)] = values


def add_product(values: Few, x: float, others: Few) -> Few:
    """Return values + x·others."""
    return values + x * others
