"""Exact conversion between decimal text and doubles: the innermost kernels of the LETOR files.

A decimal number is an integer mantissa below 10¹⁸ times a power of ten. One of two methods finds
the nearest double, and each proves that its result is the nearest:

1. If mantissa ≤ 2⁵³ and |exponent| ≤ 22, both the mantissa and the power of ten are doubles. One
   multiplication or division then rounds only once, to the nearest double (Clinger, "How to read
   floating point numbers accurately", 1990).
2. Otherwise, the product is computed as an unevaluated sum of two doubles ("double-double":
   Dekker, "A floating-point technique for extending the available precision", 1971) with a
   relative error below 2⁻⁹⁸. If adding and subtracting that error gives the same double, it is
   the nearest.

Numbers that neither method decides are left to Python's ``float``.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from .._jit import njit
from .._typing import Vector

MAX_INTEGER = 2**31 - 1  #: largest index of a feature; larger ones are read as this number
MAX_MANTISSA = 10**18  #: bound of mantissas (exclusive): the largest power of ten in an int64
_EXACT_INTEGER = 2**53  # bound up to which all integers are doubles
_EXACT_POWER = 22  # largest exact power of ten: 10^22 = 2^22 · 5^22, and 5^22 < 2^53

# Exponents for which no part of a double-double product overflows or underflows, whatever the
# mantissa.
MIN_POWER, MAX_POWER = -270, 290
_RELATIVE_ERROR = 2.0**-98  # bound on the error of a double-double product
_SPLITTER = 2.0**27 + 1  # factor that splits a double into two halves of 26 bits


def _powers_of_ten() -> Vector:
    """Return every power of ten as a double-double: the nearest double, and the remainder."""
    powers = [Fraction(10) ** k for k in range(MIN_POWER, MAX_POWER + 1)]
    return np.array([(float(p), float(p - Fraction(float(p)))) for p in powers])


_POWERS = _powers_of_ten()
_INTEGER_POWERS = 10 ** np.arange(19)
_ROOM = MAX_MANTISSA // _INTEGER_POWERS  # A mantissa below _ROOM[k] can take k more digits.


@njit(inner=True)
def scale_by_ten(high, low, exponent):  # type: ignore[no-untyped-def]
    """Return ``(high + low) · 10^exponent`` as a double-double."""
    power, power_low = _POWERS[exponent - MIN_POWER, 0], _POWERS[exponent - MIN_POWER, 1]
    product = high * power
    # The rounding error of the product is computed exactly, because Dekker's halves multiply
    # without rounding.
    a = _SPLITTER * high - (_SPLITTER * high - high)
    b = _SPLITTER * power - (_SPLITTER * power - power)
    error = (a * b - product) + a * (power - b) + (high - a) * b + (high - a) * (power - b)
    error += high * power_low + low * power
    total = product + error
    return total, error - (total - product)


@njit(inner=True)
def to_double(mantissa, exponent):  # type: ignore[no-untyped-def]
    """Return the double nearest to ``mantissa · 10^exponent``, and whether that is proved."""
    if mantissa <= _EXACT_INTEGER and -_EXACT_POWER <= exponent <= _EXACT_POWER:
        power = _POWERS[abs(exponent) - MIN_POWER, 0]
        return mantissa / power if exponent < 0 else mantissa * power, True
    if exponent < MIN_POWER or exponent > MAX_POWER:
        return 0.0, mantissa == 0
    rough = np.float64(mantissa)
    high, low = scale_by_ten(rough, np.float64(mantissa - np.int64(rough)), exponent)
    slack = high * _RELATIVE_ERROR
    return high, high + (low - slack) == high + (low + slack)


# The following kernels read eight bytes at a time. The text is padded, so that they may read beyond
# the end of a token.

_EVERY_BYTE = np.uint64(0x0101010101010101)
_TOP_BITS = np.uint64(0x8080808080808080)
_ASCII_ZEROS = np.uint64(0x3030303030303030)
_BEYOND_NINE = np.uint64(0x7676767676767676)  # added to a byte, sets its top bit from 10 on
_SIX_DECIMALS = np.uint64(0x3030303030302E30)  # "0.000000"
_BEYOND_SIX_DECIMALS = np.uint64(0x7676767676767F76)
_FOURTHS = np.uint64(0x000000FF000000FF)


@njit(inner=True)
def word_at(text, at):  # type: ignore[no-untyped-def]
    """Return ``text[at:at + 8]`` as a little-endian integer; compiled to a single load."""
    first = np.uint64(at)
    word = np.uint64(0)
    for k in range(8):
        word |= np.uint64(text[first + np.uint64(k)]) << np.uint64(8 * k)
    return word


@njit(inner=True)
def _eight_digits(values):  # type: ignore[no-untyped-def]
    """Return the number whose decimal digits are the eight bytes of `values`, lowest first."""
    pairs = values * np.uint64(10) + (values >> np.uint64(8))
    upper = (pairs & _FOURTHS) * np.uint64(100 + (1000000 << 32))
    lower = ((pairs >> np.uint64(16)) & _FOURTHS) * np.uint64(1 + (10000 << 32))
    return np.int64((upper + lower) >> np.uint64(32))


@njit(inner=True)
def six_decimals(text, at):  # type: ignore[no-untyped-def]
    """Return whether the text at `at` is ``d.dddddd``, as is usual in LETOR, and its digits."""
    digits = word_at(text, at) ^ _SIX_DECIMALS
    others = ((digits + _BEYOND_SIX_DECIMALS) | digits) & _TOP_BITS
    return others == np.uint64(0) and text[np.uint64(at + 8)] <= _SPACE, digits


@njit(inner=True)
def _from_six_decimals(digits):  # type: ignore[no-untyped-def]
    # The point is read as a digit 0 after the first digit, which then counts ten times too much.
    return (_eight_digits(digits) - 9000000 * np.int64(digits & np.uint64(255))) / 1e6


# Reading of numbers

_PLUS, _MINUS, _POINT, _SPACE, _LOWER_CASE, _E = 43, 45, 46, 32, 32, 101

MALFORMED, ZERO, NONZERO, UNDECIDED = range(4)


@njit(inner=True)
def append_digits(text, at, mantissa):  # type: ignore[no-untyped-def]
    """Append the digits at `at` to a mantissa; it becomes MAX_MANTISSA if they do not fit."""
    while True:
        values = word_at(text, at) ^ _ASCII_ZEROS
        others = (((values + _BEYOND_NINE) | values) & _TOP_BITS) >> np.uint64(7)
        leading = ~others & (others - np.uint64(1)) & _EVERY_BYTE  # one bit per leading digit
        n_digits = np.int64((leading * _EVERY_BYTE) >> np.uint64(56))
        if n_digits == 0:
            return mantissa, at
        if mantissa < _ROOM[n_digits]:
            digits = _eight_digits(values << np.uint64(64 - 8 * n_digits))
            mantissa = mantissa * _INTEGER_POWERS[n_digits] + digits
        else:
            mantissa = MAX_MANTISSA
        at += n_digits
        if n_digits < 8:
            return mantissa, at


@njit(inner=True)
def read_integer(text, at):  # type: ignore[no-untyped-def]
    """Return a whole number, at most MAX_INTEGER, and the byte after it."""
    number = np.int64(0)
    while 48 <= text[np.uint64(at)] <= 57:
        number = min(10 * number + np.int64(text[np.uint64(at)]) - 48, MAX_INTEGER)
        at += 1
    return number, at


@njit(inner=True)
def read_number(text, at):  # type: ignore[no-untyped-def]
    """Return the value of a decimal number, one of the four outcomes above, and the byte after it.

    The usual form has one return with and one without a minus sign. The processor predicts the
    branch and continues. If the end were computed from the sign, everything after it would wait.
    """
    is_usual, digits = six_decimals(text, at)
    if is_usual:
        return _from_six_decimals(digits), (NONZERO if digits else ZERO), at + 8
    first = text[np.uint64(at)]
    if first == _MINUS:
        is_usual, digits = six_decimals(text, at + 1)
        if is_usual:
            return -_from_six_decimals(digits), (NONZERO if digits else ZERO), at + 9
    start = at + (first in (_MINUS, _PLUS))
    mantissa, at = append_digits(text, start, np.int64(0))
    n_digits, exponent = at - start, np.int64(0)
    if text[np.uint64(at)] == _POINT:
        exponent = at + 1
        mantissa, at = append_digits(text, exponent, mantissa)
        exponent -= at
        n_digits -= exponent
    if text[np.uint64(at)] | _LOWER_CASE == _E:
        sign = text[np.uint64(at + 1)]
        start = at + 1 + (sign in (_MINUS, _PLUS))
        power, at = read_integer(text, start)
        if at == start:
            return 0.0, MALFORMED, at
        exponent += -power if sign == _MINUS else power
    if n_digits == 0:
        return 0.0, MALFORMED, at
    value, certain = to_double(mantissa, exponent)
    outcome = ZERO if mantissa == 0 else NONZERO
    if mantissa == MAX_MANTISSA or not certain:
        outcome = UNDECIDED
    return (-value if first == _MINUS else value), outcome, at


# Writing of numbers

_LONGEST_INTEGER = 17  # digits of an integer that is written without an exponent
_LEADING_ZEROS = 5  # zeros after the point of a number that is written without an exponent


@njit(inner=True)
def short_decimal(value, is_single):  # type: ignore[no-untyped-def]
    """Return a short decimal ``mantissa · 10^exponent`` from which `value` > 0 is read.

    17 digits identify a double and 9 a single; every number of 15 or 6 digits survives the
    conversion. The kernel tries these lengths, and converts each back to prove that it suffices.
    The mantissa is 0 if that cannot be proved, as for very large and very small numbers.
    """
    if value < 1e15 and value == np.floor(value):
        return np.int64(value), np.int64(0)
    shift = 16 - np.int64(np.floor(np.log10(value)))
    if shift < MIN_POWER or shift > MAX_POWER:
        return np.int64(0), np.int64(0)
    high, low = scale_by_ten(value, 0.0, shift)
    digits = np.int64(high) + np.int64(np.rint(low))  # an integer of 17 digits
    for n_cut in range(11, 7, -1) if is_single else range(2, -1, -1):
        cut = _INTEGER_POWERS[n_cut]
        mantissa, exponent = (digits + cut // 2) // cut, n_cut - shift
        found, certain = to_double(mantissa, exponent)
        if certain and (np.float64(np.float32(found)) if is_single else found) == value:
            while mantissa % 10 == 0:
                mantissa //= 10
                exponent += 1
            return mantissa, exponent
    return np.int64(0), np.int64(0)


@njit(inner=True)
def count_digits(mantissa):  # type: ignore[no-untyped-def]
    """Return the number of decimal digits of an integer; 0 has one."""
    n_digits = 1
    while n_digits < 19 and mantissa >= _INTEGER_POWERS[n_digits]:
        n_digits += 1
    return n_digits


@njit(inner=True)
def write_digits(out, at, mantissa, n_digits, n_decimals):  # type: ignore[no-untyped-def]
    """Write an integer with `n_digits` digits, and a point before the last `n_decimals`."""
    end = at + n_digits + (n_decimals > 0)
    place = end - 1
    for k in range(n_digits):
        if k == n_decimals and k > 0:
            out[place] = _POINT
            place -= 1
        out[place] = 48 + mantissa % 10
        mantissa //= 10
        place -= 1
    return end


@njit(inner=True)
def write_number(out, at, value, is_single):  # type: ignore[no-untyped-def]
    """Write a number exactly, and return the byte after it; −1 if Python must write it."""
    if np.signbit(value):
        out[at] = _MINUS
        at, value = at + 1, -value
    mantissa, exponent = short_decimal(value, is_single)
    if mantissa == 0 and value > 0:
        return -1
    n_digits = count_digits(mantissa)
    if 0 <= exponent <= _LONGEST_INTEGER - n_digits:
        return write_digits(out, at, mantissa * _INTEGER_POWERS[exponent], n_digits + exponent, 0)
    if -n_digits - _LEADING_ZEROS <= exponent < 0:
        return write_digits(out, at, mantissa, max(n_digits, 1 - exponent), -exponent)
    at = write_digits(out, at, mantissa, n_digits, n_digits - 1)
    exponent += n_digits - 1
    out[at] = _E
    if exponent < 0:
        out[at + 1] = _MINUS
    else:
        out[at + 1] = _PLUS
    return write_digits(out, at + 2, abs(exponent), count_digits(abs(exponent)), 0)


@njit(inner=True)
def write_rounded(out, at, value, decimals):  # type: ignore[no-untyped-def]
    """Write a number with `decimals` decimals; return −1 if it is too large to round exactly."""
    scaled = np.rint(abs(value) * _INTEGER_POWERS[decimals])
    if scaled >= _EXACT_INTEGER:
        return -1
    mantissa = np.int64(scaled)
    if value < 0 and mantissa > 0:
        out[at] = _MINUS
        at += 1
    return write_digits(out, at, mantissa, max(count_digits(mantissa), decimals + 1), decimals)
