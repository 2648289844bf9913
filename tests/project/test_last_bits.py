"""The option --flip-last-bits reaches every floating-point number that a generator draws."""

from __future__ import annotations

import numpy as np
import pytest

import last_bits

#: Arguments of the methods that need some.
ARGUMENTS = {
    "beta": (2.0, 3.0), "binomial": (10, 0.5), "bytes": (8,), "chisquare": (3.0,),
    "dirichlet": ([1.0, 2.0],), "f": (3.0, 4.0), "gamma": (2.0,), "geometric": (0.5,),
    "hypergeometric": (5, 5, 3), "integers": (1000,), "logseries": (0.5,),
    "multinomial": (10, [0.5, 0.5]), "multivariate_hypergeometric": ([5, 5], 3),
    "multivariate_normal": ([0.0, 1.0], [[1.0, 0.5], [0.5, 2.0]]), "negative_binomial": (3, 0.5),
    "noncentral_chisquare": (3.0, 1.0), "noncentral_f": (3.0, 4.0, 1.0), "pareto": (3.0,),
    "power": (3.0,), "rayleigh": (2.0,), "standard_gamma": (2.0,), "standard_t": (3.0,),
    "triangular": (0.0, 1.0, 2.0), "vonmises": (0.0, 1.0), "wald": (1.0, 2.0), "weibull": (2.0,),
    "zipf": (3.0,),
}  # fmt: skip
METHODS = [
    name
    for name in dir(np.random.Generator)
    if name not in (*last_bits.NO_DRAWS, "bit_generator") and not name.startswith("_")
]


def generators(seed):
    """A generator of numpy's, and one with flipped last bits in the same state."""
    bits = np.random.PCG64(seed), np.random.PCG64(seed)
    return np.random.Generator(bits[0]), last_bits.Generator(bits[1])


@pytest.mark.parametrize("name", METHODS)
def test_floating_point_draws_are_flipped_and_others_are_not(name):
    plain, flipped = generators(3)
    for size in ({"size": 5}, {}) if name != "bytes" else ({},):
        expected = getattr(plain, name)(*ARGUMENTS.get(name, ()), **size)
        found = getattr(flipped, name)(*ARGUMENTS.get(name, ()), **size)
        if np.asarray(expected).dtype.kind == "f":
            assert np.shape(found) == np.shape(expected)
            gaps = np.abs(found - expected) / np.spacing(np.abs(np.minimum(found, expected)))
            assert np.all((gaps > 0) & (gaps <= 1))
        else:
            np.testing.assert_array_equal(found, expected)


def test_draws_into_an_array_are_flipped():
    plain, flipped = generators(3)
    out = np.empty(4)
    assert flipped.random(out=out) is out
    assert np.all(out != plain.random(4))
    single = flipped.random(4, dtype=np.float32)
    assert single.dtype == np.float32
    assert np.all(single != plain.random(4, dtype=np.float32))


def test_what_is_given_is_not_flipped():
    given = np.array([0.1, 0.2, 0.3])
    _, flipped = generators(3)
    assert flipped.choice(given) in given
    for shuffled in (flipped.permutation(given), flipped.permuted(given)):
        np.testing.assert_array_equal(np.sort(shuffled), given)
    assert isinstance(flipped.spawn(1)[0], last_bits.Generator)
