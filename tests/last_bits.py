"""Random numbers that differ in their last bit from those of numpy.

Another processor, BLAS or libm rounds differently. Tests must hold there too. With the option
``--flip-last-bits``, every floating-point number drawn by ``np.random.default_rng`` is off by one
unit in its last place, and with it all generated data. No assertion may notice.
"""

from __future__ import annotations

import numpy as np

DRAWS = ("dirichlet", "normal", "random", "standard_cauchy", "standard_normal", "uniform")


class Generator(np.random.Generator):
    """A generator that flips the last bit of each floating-point number drawn."""


def flip_last_bit(drawn: float | np.ndarray) -> float | np.ndarray:
    """The neighbours of floating-point numbers, on the side that their last bit decides."""
    drawn = np.asarray(drawn)
    bits = drawn.view(f"u{drawn.itemsize}")
    return (bits ^ (drawn != 0).astype(bits.dtype)).view(drawn.dtype)[()]


def _flipped(name: str):
    draw = getattr(np.random.Generator, name)

    def method(self, *args, **kwargs):
        return flip_last_bit(draw(self, *args, **kwargs))

    return method


for _name in DRAWS:
    setattr(Generator, _name, _flipped(_name))


def default_rng(seed=None) -> np.random.Generator:
    """What ``np.random.default_rng`` returns, with last bits flipped."""
    if isinstance(seed, np.random.Generator):
        return seed
    return Generator(_default_rng(seed).bit_generator)


_default_rng = np.random.default_rng


def install() -> None:
    """Let ``np.random.default_rng`` be the one above in this process."""
    np.random.default_rng = default_rng
