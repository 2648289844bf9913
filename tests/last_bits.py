"""Random numbers that differ in their last bit from those of numpy.

Another processor, BLAS or libm rounds differently. Tests must hold there too. With the option
``--flip-last-bits``, every floating-point number drawn by ``np.random.default_rng`` is off by one
unit in its last place, and with it all generated data. No assertion may notice.
"""

from __future__ import annotations

import numpy as np

#: Methods that return or reorder what they are given, and one that makes generators.
NO_DRAWS = ("choice", "permutation", "permuted", "shuffle", "spawn")


class Generator(np.random.Generator):
    """A generator that flips the last bit of each floating-point number drawn."""


def flip_last_bit(drawn: float | np.ndarray) -> float | np.ndarray:
    """The neighbours of floating-point numbers, on the side that their last bit decides."""
    drawn = np.asarray(drawn)
    bits = drawn.view(f"u{drawn.itemsize}")
    flip = np.isfinite(drawn) & (drawn != 0)
    return (bits ^ flip.astype(bits.dtype)).view(drawn.dtype)[()]


def _flipped(name: str):
    def method(self, *args, **kwargs):
        plain = np.random.Generator(self.bit_generator)  # some methods draw by others
        drawn = getattr(plain, name)(*args, **kwargs)
        if np.asarray(drawn).dtype.kind != "f":
            return drawn
        if isinstance(drawn, np.ndarray):  # in place, because it may be the argument `out`
            drawn[...] = flip_last_bit(drawn)
            return drawn
        return flip_last_bit(drawn)

    return method


for _name in dir(np.random.Generator):
    _is_method = callable(getattr(np.random.Generator, _name))
    if _is_method and not _name.startswith("_") and _name not in NO_DRAWS:
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
