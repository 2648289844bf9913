"""LETOR/SVMlight text files: ``label qid:ID index:value … # comment``."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from itertools import chain, pairwise, repeat
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .._compile.jit import njit
from .._util.checks import whole_number
from .._util.files import atomic_write
from .._util.maps import check_maps
from .._util.parallel import resolve_threads, run, split
from .._util.types import Array, Integers, Vector
from ..errors import DataError, FileFormatError, prefix_file_errors
from .columns import NameFile
from .ids import Ids, TextColumn, id_texts, parse_ids
from .ranking import RankingData, read_content
from .source import (
    CHUNK_BYTES,
    Chunk,
    Excerpt,
    Source,
    compressed,
    find_delimiter,
    open_source,
    open_text,
)
from .validation import (
    FEATURE_BYTES,
    FOR_INFINITE,
    FOR_MISSING,
    MAX_FEATURES,
    Grouping,
    assemble_csr,
    check_n_features,
    check_weight,
    group_by_query,
    holds_missing,
    most_features,
)

# --------------------------------------------------------------------------------------------------
# Exact conversion between decimal text and doubles: the innermost kernels of the LETOR files.
#
# A decimal number is an integer mantissa below 10¹⁸ times a power of ten. One of two methods finds
# the nearest double, and each proves that its result is the nearest:
#
# 1. If mantissa ≤ 2⁵³ and |exponent| ≤ 22, both the mantissa and the power of ten are doubles. One
#    multiplication or division then rounds only once, to the nearest double (Clinger, "How to read
#    floating point numbers accurately", 1990).
# 2. Otherwise, the product is computed as an unevaluated sum of two doubles ("double-double":
#    Dekker, "A floating-point technique for extending the available precision", 1971) with a
#    relative error below 2⁻⁹⁸. If adding and subtracting that error gives the same double, it is
#    the nearest.
#
# Numbers that neither method decides are left to Python's ``float``.


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


# --------------------------------------------------------------------------------------------------
# Kernels that format arrays as LETOR text.


ENTRY_BYTES = 44  #: largest size of an entry: a space, an index, a colon and a number
ROW_BYTES = 48  #: largest size of a row without its entries, qid and comment

_COLON, _HASH, _NEWLINE = 58, 35, 10


class Style(NamedTuple):
    """The format of the written rows."""

    is_dense: bool
    is_single: bool
    has_comments: bool
    n_features: int
    index_base: int
    decimals: int  #: −1 for as many as are needed to read back the same number


class TextRows(NamedTuple):
    """The arrays that are written."""

    y: Vector
    indptr: Integers
    indices: NDArray[np.int32]
    data: Array  #: the entries of a CSR matrix, or all of a dense one, row by row
    qids: NDArray[np.uint8]
    qids_ptr: Integers
    comments: NDArray[np.uint8]
    comments_first: Integers  #: where the comment of each row begins
    comments_end: Integers

    def read_only(self) -> TextRows:
        """Return read-only views, so that the kernel sees one type for mapped and other arrays."""
        views = [array.view(np.ndarray) for array in self]
        for view in views:
            view.flags.writeable = False
        return TextRows(*views)


@njit(inner=True)
def _copy(source, first, last, out, at):  # type: ignore[no-untyped-def]
    for k in range(first, last):
        out[at] = source[k]
        at += 1
    return at


@njit(inner=True)
def _format_entries(rows, row, style, out, at):  # type: ignore[no-untyped-def]
    first, last = row * style.n_features, (row + 1) * style.n_features
    if not style.is_dense:
        first, last = rows.indptr[row], rows.indptr[row + 1]
    for entry in range(first, last):
        value = np.float64(rows.data[entry])
        if value != value:
            return -1  # Python writes missing values.
        index = entry - first
        if not style.is_dense:
            index = np.int64(rows.indices[entry])
            if value == 0:
                continue
        out[at] = _SPACE
        index += style.index_base
        at = write_digits(out, at + 1, index, count_digits(index), 0)
        out[at] = _COLON
        start = at + 1
        at = -1
        if style.decimals >= 0:
            at = write_rounded(out, start, value, style.decimals)
        if at < 0:
            at = write_number(out, start, value, style.is_single)
        if at < 0:
            return at
    return at


@njit
def format_rows(rows, which, queries, style, out):  # type: ignore[no-untyped-def]
    """Write the rows `which` into `out`; return the number of written rows and of bytes.

    The kernel stops before a row with a number that Python must format.
    """
    end = 0
    for k in range(len(which)):
        row = which[k]
        at = write_number(out, end, rows.y[row], False)
        if at < 0:
            return k, end
        at = _copy(rows.qids, rows.qids_ptr[queries[k]], rows.qids_ptr[queries[k] + 1], out, at)
        at = _format_entries(rows, row, style, out, at)
        if at < 0:
            return k, end
        if style.has_comments and rows.comments_first[row] < rows.comments_end[row]:
            out[at] = _SPACE
            out[at + 1] = _HASH
            out[at + 2] = _SPACE
            at = _copy(rows.comments, rows.comments_first[row], rows.comments_end[row], out, at + 3)
        out[at] = _NEWLINE
        end = at + 1
    return len(which), end


# --------------------------------------------------------------------------------------------------
# Kernels that parse LETOR text into arrays.
#
# The text is read in two passes over chunks of whole lines. `scan` counts the rows, entries and
# comment bytes of each chunk, so that all arrays can be allocated. `parse` fills the arrays.
#
# A *cursor* is an int64 array indexed by the names below. It holds the counts of a chunk, or the
# position of `parse` in the text and in the arrays.
#
# The text is padded after its last line end. Loops therefore stop at a line end, and never check
# for the end of the text.


CURSOR_SIZE = 5
AT, ROW, ENTRY, COMMENT, QUERY = range(CURSOR_SIZE)  #: byte, row, entry of X, comment byte, query

#: Other results of `scan`: the largest and smallest index, and the numbers of rows with a qid and
#: with a cost.
N_FACTS = 4
LARGEST, SMALLEST, WITH_QID, WITH_COST = range(N_FACTS)

#: Reasons for which `parse` returns.
DONE, FULL, CHANGED = range(3)
BAD_LABEL, NO_QID, BAD_QID, BAD_ENTRY, OUT_OF_RANGE, UNSORTED, TOO_LARGE, BAD_COST = range(3, 11)

MISSING = -1  #: outcome of a number that is missing; those of `read_number` are not negative
MAX_INDEX = MAX_INTEGER - 1  #: largest index for which the number of features fits an int32

_QID = np.uint64(int.from_bytes(b"qid:", "little"))
_FOUR_BYTES = np.uint64(0xFFFFFFFF)
_COST = np.uint64(int.from_bytes(b"cost:", "little"))
_FIVE_BYTES = np.uint64(0xFFFFFFFFFF)
_NAN = np.uint64(int.from_bytes(b"nan", "little"))
_THREE_BYTES = np.uint64(0xFFFFFF)
_LOWER_CASE_WORD = np.uint64(0x202020)


class TextLayout(NamedTuple):
    """Properties of the file and of the arrays that `parse` fills."""

    has_qid: bool
    has_cost: bool
    has_comments: bool
    is_dense: bool
    n_features: int
    n_read: int  #: features that occur in the file; X may have more
    index_base: int
    largest_value: float  #: larger values would become infinite in the dtype of X
    allow_missing: bool  #: whether a feature may be ``nan``


class ParsedArrays(NamedTuple):
    """The arrays that `parse` fills."""

    y: Vector
    weight: Vector  #: the costs of the rows
    indptr: Integers
    indices: NDArray[np.int32]
    data: Array  #: the entries of a CSR matrix, or all of a dense one, row by row
    comments: NDArray[np.uint8]
    comments_ptr: Integers
    #: First row, first byte and length of each run of equal qids. A chunk has at most as many runs
    #: as rows.
    queries: Integers
    undecided: Integers  #: place, first and last byte of numbers that Python must parse


@njit(inner=True)
def _skip_space(text, at):  # type: ignore[no-untyped-def]
    while True:
        byte = text[np.uint64(at)]
        if byte != _SPACE and (byte == _NEWLINE or byte < 9 or byte > 13):
            return at
        at += 1


@njit(inner=True)
def _skip_token(text, at):  # type: ignore[no-untyped-def]
    while text[np.uint64(at)] > _SPACE and text[np.uint64(at)] != _HASH:
        at += 1
    return at


@njit(inner=True)
def _comment(text, at):  # type: ignore[no-untyped-def]
    """Return the first and last byte of the stripped comment, and the start of the next line.

    At `at` is a ``#`` or a line end.
    """
    end = at
    while text[np.uint64(end)] != _NEWLINE:
        end += 1
    first, last = min(at + 1, end), end
    while first < last and text[np.uint64(last - 1)] <= _SPACE:
        last -= 1
    while first < last and text[np.uint64(first)] <= _SPACE:
        first += 1
    return first, last, end + 1


@njit(inner=True)
def _scan_entry(text, at):  # type: ignore[no-untyped-def]
    """Return the index of an entry (−1 if malformed), if its value may be non-zero, its end."""
    index, end = read_integer(text, at)
    if end == at or text[np.uint64(end)] != _COLON:
        return np.int64(-1), False, max(_skip_token(text, end), at + 1)  # A NUL is no token.
    at = end + 1
    is_usual, digits = six_decimals(text, at)
    if is_usual:
        return index, digits != np.uint64(0), at + 8
    if text[np.uint64(at)] == _MINUS:
        is_usual, digits = six_decimals(text, at + 1)
        if is_usual:
            return index, digits != np.uint64(0), at + 9
    nonzero = False
    while True:
        byte = text[np.uint64(at)]
        if (
            byte <= _SPACE or byte == _HASH or byte | 32 == 101
        ):  # After "e" come the digits of an exponent.
            return index, nonzero, _skip_token(text, at)
        nonzero |= 49 <= byte <= 57 or byte | 32 == 110  # a digit, or the "n" of "nan"
        at += 1


@njit
def scan(text, first, last, counts, facts):  # type: ignore[no-untyped-def]
    """Pass 1: count the rows, non-zero entries and comment bytes of a chunk."""
    at, n_entries = first, 0
    largest, smallest = np.int64(-1), np.int64(MAX_INDEX + 1)
    while at < last:
        at = _skip_space(text, at)
        if text[np.uint64(at)] == _NEWLINE or text[np.uint64(at)] == _HASH:
            _, _, at = _comment(text, at)
            continue
        counts[ROW] += 1
        at = _skip_space(text, _skip_token(text, at))
        if word_at(text, at) & _FOUR_BYTES == _QID:
            facts[WITH_QID] += 1
            at = _skip_space(text, _skip_token(text, at))
        if word_at(text, at) & _FIVE_BYTES == _COST:
            facts[WITH_COST] += 1
            at = _skip_space(text, _skip_token(text, at))
        while text[np.uint64(at)] != _NEWLINE and text[np.uint64(at)] != _HASH:
            index, nonzero, at = _scan_entry(text, at)
            n_entries += nonzero
            largest = max(largest, index)
            if index >= 0:
                smallest = min(smallest, index)
            at = _skip_space(text, at)
        begin, end, at = _comment(text, at)
        counts[COMMENT] += end - begin
    counts[ENTRY] = n_entries
    facts[LARGEST] = largest
    facts[SMALLEST] = smallest


@njit(inner=True)
def _postpone(undecided, place, first, last):  # type: ignore[no-untyped-def]
    """Leave ``text[first:last]`` to Python's ``float``; return false if the list is full."""
    size = undecided[0, 0] + 1  # Row 0 holds the length of the list.
    if size == len(undecided):
        return False
    undecided[0, 0] = size
    undecided[size, 0] = place
    undecided[size, 1] = first
    undecided[size, 2] = last
    return True


@njit(inner=True)
def _parse_label(text, at, row, y, undecided):  # type: ignore[no-untyped-def]
    value, outcome, end = read_number(text, at)
    if outcome == MALFORMED or _skip_token(text, end) > end:
        return BAD_LABEL, at
    if outcome == UNDECIDED and not _postpone(undecided, -1 - row, at, end):
        return FULL, at
    y[row] = value
    return DONE, _skip_space(text, end)


@njit(inner=True)
def _parse_qid(text, at, cursor, start, queries):  # type: ignore[no-untyped-def]
    """Record the start of a run if the qid differs from that of the previous row of the chunk."""
    query, size, same = cursor[QUERY], _skip_token(text, at) - at, 0
    if size == 4:
        return BAD_QID, at
    if query > start[QUERY] and size == queries[query - 1, 2]:
        before = queries[query - 1, 1]
        while same < size and text[np.uint64(at + same)] == text[np.uint64(before + same)]:
            same += 1
    if same < size:
        queries[query, 0] = cursor[ROW]
        queries[query, 1] = at
        queries[query, 2] = size
        cursor[QUERY] += 1
    return DONE, _skip_space(text, at + size)


@njit(inner=True)
def _parse_cost(text, at, row, target):  # type: ignore[no-untyped-def]
    """Read the weight of a row, which is 1 without a cost."""
    target.weight[row] = 1.0
    if word_at(text, at) & _FIVE_BYTES != _COST:
        return DONE, at
    value, outcome, end = read_number(text, at + 5)
    if outcome == MALFORMED or _skip_token(text, end) > end or value < 0.0:
        return BAD_COST, at
    place = -1 - len(target.y) - row
    if outcome == UNDECIDED and not _postpone(target.undecided, place, at + 5, end):
        return FULL, at
    target.weight[row] = value
    return DONE, _skip_space(text, end)


@njit(inner=True)
def _is_missing(text, at):  # type: ignore[no-untyped-def]
    """Return whether a token is ``nan``, in letters of any case."""
    return (word_at(text, at) & _THREE_BYTES) | _LOWER_CASE_WORD == _NAN and (
        _skip_token(text, at) == at + 3
    )


@njit(inner=True)
def _parse_entries(text, at, cursor, limit, layout, target):  # type: ignore[no-untyped-def]
    """Fill one row of X."""
    previous, entry, row_start = np.int64(-1), cursor[ENTRY], cursor[ROW] * layout.n_features
    while text[np.uint64(at)] != _NEWLINE and text[np.uint64(at)] != _HASH:
        index, colon = read_integer(text, at)
        if colon == at or text[np.uint64(colon)] != _COLON:
            return BAD_ENTRY, at
        value, outcome, end = read_number(text, colon + 1)
        if outcome == MALFORMED or _skip_token(text, end) > end:
            if not (layout.allow_missing and _is_missing(text, colon + 1)):
                return BAD_ENTRY, at
            value, outcome, end = np.nan, MISSING, colon + 4
        index -= layout.index_base
        if index < 0 or index >= layout.n_features:
            return OUT_OF_RANGE, at
        if index <= previous:
            return UNSORTED, at
        if abs(value) > layout.largest_value:
            return TOO_LARGE, at
        previous, place = index, entry
        if layout.is_dense:
            place = row_start + index
            target.data[np.uint64(place)] = value
        elif outcome != ZERO:
            if entry == limit[ENTRY]:
                return CHANGED, at
            target.indices[np.uint64(entry)] = index
            target.data[np.uint64(entry)] = value
            entry += 1
        if outcome == UNDECIDED and not _postpone(target.undecided, place, colon + 1, end):
            return FULL, at
        at = _skip_space(text, end)
    cursor[ENTRY] = entry
    return DONE, at


@njit(inner=True)
def _parse_comment(text, at, cursor, limit, comments):  # type: ignore[no-untyped-def]
    first, last, following = _comment(text, at)
    place = cursor[COMMENT]
    if place + last - first > limit[COMMENT]:
        return CHANGED, at
    for k in range(last - first):
        comments[np.uint64(place + k)] = text[np.uint64(first + k)]
    cursor[COMMENT] += last - first
    return DONE, following


@njit
def parse(text, cursor, start, limit, layout, target):  # type: ignore[no-untyped-def]
    """Pass 2: fill the rows of a chunk; return the reason for stopping, and the byte.

    `cursor` moves from `start` to `limit`. ``cursor[AT]`` is always at the start of a line. A call
    that returns FULL can therefore be repeated with a longer list of undecided numbers.
    """
    while cursor[AT] < limit[AT]:
        first = _skip_space(text, cursor[AT])
        row = cursor[ROW]
        if text[np.uint64(first)] == _NEWLINE or text[np.uint64(first)] == _HASH:
            _, _, cursor[AT] = _comment(text, first)
            continue
        if row == limit[ROW]:
            return CHANGED, first
        code, at = _parse_label(text, first, row, target.y, target.undecided)
        if code == DONE and layout.has_qid:
            if word_at(text, at) & _FOUR_BYTES != _QID:
                return NO_QID, first
            code, at = _parse_qid(text, at, cursor, start, target.queries)
        if code == DONE and layout.has_cost:
            code, at = _parse_cost(text, at, row, target)
        if code == DONE:
            code, at = _parse_entries(text, at, cursor, limit, layout, target)
        if code == DONE:
            code, at = _parse_comment(text, at, cursor, limit, target.comments)
        if code != DONE:
            return code, at
        if layout.has_comments:
            target.comments_ptr[row + 1] = cursor[COMMENT]
        if not layout.is_dense:
            target.indptr[row + 1] = cursor[ENTRY]
        cursor[AT] = at
        cursor[ROW] = row + 1
    return DONE, cursor[AT]


# --------------------------------------------------------------------------------------------------
# Error messages for lines of LETOR text that cannot be parsed.


_TOKEN = re.compile(rb"[^\s#]*")
_NOT_FINITE = re.compile(r"[+-]?(nan|inf|infinity)", re.IGNORECASE)
_SHOWN_LETTERS = 60  # of a token in a message


def diagnose(source: Excerpt, code: int, at: int, layout: TextLayout) -> FileFormatError:
    """Return the error for a code of `parse` and the byte of the file where it stopped."""
    if code == CHANGED:
        return FileFormatError(
            f"{source.path}: the file changed while it was being read. Read it again when no "
            "program writes to it"
        )
    token = _token(source, at)
    if code == BAD_LABEL:
        problem = _csv_problem(source, at) or _label_problem(token)
    elif code == NO_QID:
        problem = "there is no qid; expected 'qid:ID' after the label, as on other lines"
    elif code == BAD_QID:
        problem = "'qid:' names no query; expected an id directly after the colon"
    elif code == BAD_COST:
        problem = f"found {_short(token)!r}; expected a weight of at least 0, such as cost:0.5"
    elif code == BAD_ENTRY:
        problem = _entry_problem(token, layout)
    elif code == OUT_OF_RANGE:
        problem = _range_problem(token.partition(":")[0], layout)
    elif code == UNSORTED:
        problem = _order_problem(token, source[source.line_start(at) : at])
    else:
        problem = _size_problem(token, layout)
    return line_error(source, at, problem)


def line_error(source: Excerpt, at: int, problem: str) -> FileFormatError:
    """Return an error that names the file and the line of a byte."""
    return FileFormatError(f"{source.path}:{source.line_number(at)}: {problem}")


def _token(source: Excerpt, at: int) -> str:
    match = _TOKEN.match(source[at:])
    return match.group().decode(errors="backslashreplace") if match else ""


def _short(token: str) -> str:
    """Return a token as it is shown in a message; a very long one is cut."""
    return token if len(token) <= _SHOWN_LETTERS else f"{token[:_SHOWN_LETTERS]}…"


def _number(digits: str) -> int:
    """Return a whole number from its digits, of which at most `_SHOWN_LETTERS` are read.

    Python raises an error for thousands of digits. A number that is cut is still too large for an
    index.
    """
    return int(digits.lstrip("0")[:_SHOWN_LETTERS] or "0")


def _label_problem(token: str) -> str:
    shown = _short(token)
    if ":" in token:
        return f"the line begins with {shown!r}; expected a label first, as in '2 qid:10 1:0.5'"
    if token.startswith("{"):
        return "the file looks like JSON, such as a model; expected data, such as LETOR text"
    if _NOT_FINITE.fullmatch(token):
        return f"the label is {shown!r}; expected a finite number"
    return f"the label {shown!r} is not a number; expected one such as 2 or 0.5"


def _csv_problem(source: Excerpt, at: int) -> str | None:
    """Return the sentence for the header of a CSV file; None for other lines."""
    if source.line_number(at) > 1 or find_delimiter(source[source.line_start(at) :]) is None:
        return None
    return "the line looks like the header of a CSV file; expected LETOR text. Use linrank.load"


def _entry_problem(token: str, layout: TextLayout) -> str:
    index, colon, value = token.partition(":")
    if not colon:
        return f"found {_short(token)!r}; expected feature:value, such as 12:0.5"
    if index == "qid":
        shown = _short(token)
        return f"found {shown!r} among the features; expected it once, directly after the label"
    if index == "cost":
        shown = _short(token)
        return f"found {shown!r} among the features; expected it once, before the first feature"
    if re.fullmatch("-[0-9]+", index):
        return f"feature index {_short(index)} is negative; expected {layout.index_base} or more"
    if not re.fullmatch("[0-9]+", index):
        return f"feature index {_short(index)!r} is not a whole number; expected one, as in 12:0.5"
    if _NOT_FINITE.fullmatch(value):
        return f"feature {_short(index)} is {value!r}; {_advice(value)}"
    return f"feature {_short(index)} has the value {_short(value)!r}; expected a number"


def _advice(value: str) -> str:
    return FOR_MISSING if "nan" in value.lower() else FOR_INFINITE


def _range_problem(index: str, layout: TextLayout) -> str:
    shown, most = _short(index), most_features() - 1
    last = layout.n_features - 1 + layout.index_base
    if _number(index) < layout.index_base:
        return "feature index 0 was found; expected 1 or more (index_base=0 allows 0)"
    if last >= most:  # The number of features was limited to what fits into memory.
        return (
            f"feature index {shown} was found; expected at most {most}, since a fit takes "
            f"{FEATURE_BYTES} bytes of memory per feature. Renumber the features from 1"
        )
    if _number(index) > MAX_INDEX:
        return f"feature index {shown} was found; expected at most {MAX_INDEX}"
    return (
        f"feature {shown} was found, but {layout.n_features} features are expected: "
        f"{layout.index_base} to {last}"
    )


def _order_problem(token: str, before: bytes) -> str:
    index = _number(token.partition(":")[0])
    earlier = [_number(index.decode()) for index in re.findall(rb"\s([0-9]+):", before)]
    if index in earlier:
        return f"feature {index} is given twice; expected each feature once, in ascending order"
    return f"feature {index} follows feature {earlier[-1]}; expected ascending order"


def _size_problem(token: str, layout: TextLayout) -> str:
    index, colon, value = token.partition(":")
    if not colon:
        return f"the label is {_short(token)}; expected a number that fits float64"
    value_type = "float64" if layout.largest_value > 1e300 else "float32"
    return f"feature {_short(index)} is {_short(value)}; expected a number that fits {value_type}"


# --------------------------------------------------------------------------------------------------
# Reordering of the rows of an array, also of an array larger than memory.
#
# Random writes to a mapped file read and write a page for almost every row. `move_rows` therefore
# works in two sequential passes. First, each row is copied to the part of the file to which it
# belongs, in the old order. Then each part, which fits into memory, is put into the new order. For
# rows of 1 kB in random order, with data three times as large as memory, this took a tenth of the
# time of random writes.


PART_BYTES = 1 << 25  #: size of a part; larger parts take more memory


def move_pointers(ptr: Integers, order: Integers) -> Integers:
    """Return the row pointers after reordering, where the new row r is the old ``order[r]``.

    The old row i is ``ptr[i]:ptr[i + 1]``.

    Examples
    --------
    >>> move_pointers(np.array([0, 1, 3]), np.array([1, 0]))
    array([0, 2, 3])
    """
    moved = np.zeros_like(ptr)
    np.cumsum(np.diff(ptr)[order], out=moved[1:])
    return moved


def move_rows(
    source: Array,
    ptr: Integers,
    order: Integers,
    target: Array,
    part_bytes: int = PART_BYTES,
) -> Array:
    """Copy row ``order[r]`` of `source` to row r of `target` for all r, and return `target`.

    Row i of `source` is ``source[ptr[i]:ptr[i + 1]]``.

    Examples
    --------
    >>> move_rows(np.array([5, 6, 7]), np.array([0, 1, 3]), np.array([1, 0]), np.zeros(3, int))
    array([6, 7, 5])
    """
    sizes, new_ptr = np.diff(ptr), move_pointers(ptr, order)
    parts = split(new_ptr, 1 + source.nbytes // part_bytes)
    places = np.empty_like(sizes)  # positions after the first pass: old order within each part
    for a, b in parts:
        rows = np.sort(order[a:b])
        places[rows] = np.cumsum(sizes[rows]) - sizes[rows] + new_ptr[a]
    unit, old, new = source.itemsize, source.view(np.uint8), target.view(np.uint8)
    _copy_rows(old, ptr, sizes, new, places, unit)
    part = np.empty(unit * max(int(new_ptr[b] - new_ptr[a]) for a, b in parts), np.uint8)
    for a, b in parts:
        came = np.argsort(order[a:b])
        rows = order[a:b][came]
        part[: unit * (new_ptr[b] - new_ptr[a])] = new[unit * new_ptr[a] : unit * new_ptr[b]]
        _copy_rows(part, places[rows] - new_ptr[a], sizes[rows], new, new_ptr[a:b][came], unit)
    return target


@njit
def _copy_rows(source, starts, sizes, target, places, unit):  # type: ignore[no-untyped-def]
    for k in range(len(sizes)):
        start, place = unit * starts[k], unit * places[k]
        for byte in range(unit * sizes[k]):  # A slice would take seconds to compile.
            target[place + byte] = source[start + byte]


# --------------------------------------------------------------------------------------------------
# Reading of LETOR text into `RankingData`: two passes, with threads over chunks of lines.


T = TypeVar("T")
Allocate = Callable[[str, tuple[int, ...], DTypeLike], Array]  #: (name, shape, dtype) -> zeros
Progress = Callable[[float], None]  #: is called with the fraction that is done

_BATCH_CHUNKS = 8  # chunks of a batch per thread; more take more memory, and report less progress
_SCAN_SHARE = 1 / 3  # fraction of the time that the first pass takes

# The largest doubles that stay finite when they are rounded to the dtype of X.
_LARGEST = {
    np.dtype(np.float32): float(np.nextafter(2.0**128 - 2.0**103, 0)),
    np.dtype(np.float64): float(np.finfo(np.float64).max),
}


class ReadOptions(NamedTuple):
    """The checked options of `read_letor`."""

    n_features: int | None
    index_base: int | None
    dtype: np.dtype[Any]
    form: str
    n_threads: int
    allow_missing: bool = False


def allocate_in_memory(name: str, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
    """Return zeros, or raise a `DataError` if there is too little memory."""
    try:
        return np.zeros(shape, dtype)
    except (MemoryError, ValueError):
        size = " × ".join(f"{n:,}" for n in shape)
        raise DataError(
            f"{name} ({size}, {np.dtype(dtype)}) does not fit into memory. Convert the file to a "
            "store with linrank.convert"
        ) from None


def read_source(
    source: Source,
    options: ReadOptions,
    allocate: Allocate = allocate_in_memory,
    progress: Progress | None = None,
    chunk_bytes: int = CHUNK_BYTES,
) -> RankingData:
    """Read a text into arrays that `allocate` provides.

    Beside these arrays, memory holds a few chunks of the text for each thread, some bytes per
    document, and the query ids.
    """
    read = _Pass(source, chunk_bytes, options.n_threads, progress)
    counts, facts = _scan(read)
    totals = counts.sum(axis=0)
    layout = _plan(source, totals, facts, options)
    target = _allocate(allocate, layout, totals, options.dtype)
    grouping = _group(_parse(read, counts, layout, target), len(target.y))
    if layout.n_features == 0:
        raise FileFormatError(f"{source.path}: no document has a feature; {source.expected.lines}")
    if grouping.order is not None:
        target = _make_adjacent(target, layout, grouping.order, allocate)
    with prefix_file_errors(source.path):
        return _assemble(layout, target, grouping, options.n_threads)


class _Pass(NamedTuple):
    """A pass over all chunks, which runs a function in threads, one batch after another."""

    source: Source
    chunk_bytes: int
    n_threads: int
    progress: Progress | None

    def __call__(
        self, function: Callable[..., T], tasks: Iterator[tuple[Any, ...]], start: float, end: float
    ) -> Iterator[T]:
        """Yield the result of the function for each task; the first item of a task is a chunk."""
        n_bytes = _BATCH_CHUNKS * self.chunk_bytes * self.n_threads
        for batch in _in_batches(tasks, n_bytes, self.n_threads > 1):
            yield from run(function, batch, self.n_threads)
            self.source.release([chunk for chunk, *_ in batch])
            if self.progress is not None:
                self.progress(start + (end - start) * batch[-1][0].done)

    def chunks(self) -> Iterator[Chunk]:
        return self.source.chunks(self.chunk_bytes)


def _in_batches(
    tasks: Iterator[tuple[Any, ...]], n_bytes: int, ahead: bool
) -> Iterator[list[tuple[Any, ...]]]:
    """Yield batches of tasks; a batch ends with the chunk that makes it exceed `n_bytes`.

    If `ahead` is true, the next batch is read while the current one is processed. The size of a
    batch is counted in bytes, because a chunk may be a single long line.
    """

    def make() -> list[tuple[Any, ...]]:
        batch, n_held = [], 0
        for task in tasks:
            batch.append(task)
            n_held += len(task[0].text)
            if n_held >= n_bytes:
                break
        return batch

    if not ahead:
        yield from iter(make, [])
        return
    with ThreadPoolExecutor(1) as maker:
        following = maker.submit(make)
        while batch := following.result():
            following = maker.submit(make)
            yield batch


def _scan(read: _Pass) -> tuple[Integers, Integers]:
    """Pass 1: count the content of each chunk."""
    tasks = ((chunk,) for chunk in read.chunks())
    counts, facts = zip(*read(_scan_chunk, tasks, 0.0, _SCAN_SHARE), strict=True)
    return np.array(counts), np.array(facts)


def _scan_chunk(chunk: Chunk) -> tuple[Integers, Integers]:
    counts, facts = np.zeros(CURSOR_SIZE, np.int64), np.zeros(N_FACTS, np.int64)
    # The kernels use overflow on purpose. Without the compiler, numpy would warn of it.
    with np.errstate(over="ignore"):
        scan(chunk.text, chunk.first, chunk.last, counts, facts)
    return counts, facts


def _plan(source: Source, totals: Integers, facts: Integers, options: ReadOptions) -> TextLayout:
    """Choose the layout of the arrays from the results of pass 1."""
    if totals[ROW] == 0:
        raise FileFormatError(f"{source.path}: the file has no documents; {source.expected.lines}")
    largest, most = int(facts[:, LARGEST].max()), min(MAX_INDEX, most_features() - 1)
    index_base = options.index_base
    if index_base is None:
        index_base = 0 if facts[:, SMALLEST].min() == 0 else 1
    n_features = options.n_features
    if n_features is None:
        # If an index is too large, the second pass raises an error that names its line.
        n_features = max(min(largest, most) + 1 - index_base, 0)
    return TextLayout(
        has_qid=bool(facts[:, WITH_QID].any()),
        has_cost=bool(facts[:, WITH_COST].any()),
        has_comments=bool(totals[COMMENT] > 0),
        is_dense=n_features > 0 and largest <= most and _is_dense(totals, n_features, options),
        n_features=n_features,
        n_read=max(largest + 1 - index_base, 0),
        index_base=index_base,
        largest_value=_LARGEST[options.dtype],
        allow_missing=options.allow_missing,
    )


def _is_dense(totals: Integers, n_features: int, options: ReadOptions) -> bool:
    """Choose between dense and CSR.

    A CSR entry takes four more bytes than a dense one, and each use needs an indirect access. CSR
    is chosen if it takes less than half of the memory, because it is then also faster.
    """
    if options.form != "auto":
        return options.form == "dense"
    size = options.dtype.itemsize
    return 2 * int(totals[ENTRY]) * (size + 4) >= int(totals[ROW]) * n_features * size


def _allocate(
    allocate: Allocate, layout: TextLayout, totals: Integers, dtype: np.dtype[Any]
) -> ParsedArrays:
    """Allocate the arrays that the second pass fills; arrays that it does not use are empty."""
    n_rows, n_entries, n_bytes = (int(totals[k]) for k in (ROW, ENTRY, COMMENT))
    indptr, indices = np.empty(0, np.int64), np.empty(0, np.int32)
    comments, comments_ptr = np.empty(0, np.uint8), np.empty(0, np.int64)
    if layout.is_dense:
        data = allocate("X", (n_rows, layout.n_features), dtype).reshape(-1)
    else:
        indptr = allocate("X_indptr", (n_rows + 1,), np.int64)
        indices = allocate("X_indices", (n_entries,), np.int32)
        data = allocate("X_data", (n_entries,), dtype)
    if layout.has_comments:
        comments = allocate("comments", (n_bytes,), np.uint8)
        comments_ptr = allocate("comments_ptr", (n_rows + 1,), np.int64)
    return ParsedArrays(
        y=allocate("y", (n_rows,), np.float64),
        weight=allocate("weight", (n_rows,), np.float64) if layout.has_cost else np.empty(0),
        indptr=indptr,
        indices=indices,
        data=data,
        comments=comments,
        comments_ptr=comments_ptr,
        queries=np.empty((0, 3), np.int64),
        undecided=np.empty((0, 3), np.int64),
    )


class _Runs(NamedTuple):
    """Runs of rows with the same qid: the first row of each, and the number of its qid."""

    rows: list[Integers]
    numbers: list[Integers]
    qids: dict[bytes, int]

    def add(self, source: Source, queries: Integers, qids: list[bytes]) -> None:
        """Add the runs of a chunk, given in the form of `Target.queries`."""
        for qid, at in zip(qids, queries[:, 1].tolist(), strict=True):
            if qid not in self.qids:
                self.qids[_check_qid(source, qid, at)] = len(self.qids)
        self.rows.append(queries[:, 0].copy())
        self.numbers.append(np.array([self.qids[qid] for qid in qids], np.int64))


def _check_qid(source: Source, qid: bytes, at: int) -> bytes:
    try:
        qid.decode()
    except UnicodeDecodeError:
        problem = f"the query id {qid[:60]!r} is not valid UTF-8; expected UTF-8 text"
        raise line_error(source.excerpt(at), at, problem) from None
    return qid


def _parse(read: _Pass, counts: Integers, layout: TextLayout, target: ParsedArrays) -> _Runs:
    """Pass 2: fill the arrays, or raise the error of the first bad line."""
    runs, ends = _Runs([], [], {}), counts.cumsum(axis=0)
    # Chunks that did not exist in pass 1 get no place, so that `parse` returns CHANGED.
    starts, nothing = ends - counts, repeat(ends[-1])
    bounds = zip(read.chunks(), chain(starts, nothing), chain(ends, nothing), strict=False)
    tasks = ((*bound, layout, target) for bound in bounds)
    for code, at, queries, qids in read(_parse_chunk, tasks, _SCAN_SHARE, 1.0):
        if code != DONE:
            raise diagnose(read.source.excerpt(at), code, at, layout)
        runs.add(read.source, queries, qids)
    if len(runs.rows) < len(counts) or read.source.has_changed:
        raise diagnose(read.source.excerpt(0), CHANGED, 0, layout)
    return runs


def _parse_chunk(
    chunk: Chunk,
    start: Integers,
    end: Integers,
    layout: TextLayout,
    target: ParsedArrays,
) -> tuple[int, int, Integers, list[bytes]]:
    """Fill the rows of one chunk.

    Returns the outcome, the byte of the text where parsing stopped, the runs of equal qids in the
    form of `Target.queries`, and the qids of these runs.
    """
    start, end = start.copy(), end.copy()
    start[AT], end[AT] = chunk.first, chunk.last
    queries = np.empty((end[ROW] - start[ROW] if layout.has_qid else 0, 3), np.int64)
    code, cursor, room = FULL, start.copy(), 64
    while code == FULL:
        undecided, room = np.zeros((room, 3), np.int64), 2 * room
        own = target._replace(queries=queries, undecided=undecided)
        with np.errstate(over="ignore"):  # See _scan_chunk.
            code, at = parse(chunk.text, cursor, start, end, layout, own)
        too_large = _decide(chunk, undecided[1 : 1 + undecided[0, 0]], layout, target)
        if too_large is not None:
            code, at = TOO_LARGE, too_large
    if code == DONE and cursor[ROW] != end[ROW]:
        code = CHANGED
    queries, prefix = queries[: cursor[QUERY]], len("qid:")
    places = [slice(first + prefix, first + size) for _, first, size in queries.tolist()]
    qids = [chunk.text[place].tobytes() for place in places]
    queries[:, 1] += chunk.shift
    return code, int(at) + chunk.shift, queries, qids


def _decide(
    chunk: Chunk, undecided: Integers, layout: TextLayout, target: ParsedArrays
) -> int | None:
    """Parse the numbers that the kernel left to Python; return the byte of one too large."""
    for place, first, last in undecided.tolist():
        value = float(chunk.text[first:last].tobytes())
        largest = layout.largest_value if place >= 0 else _LARGEST[np.dtype(np.float64)]
        row = -1 - place
        if abs(value) > largest:
            while first > chunk.first and chunk.text[first - 1] > ord(" "):
                first -= 1  # Go back to the start of the index.
            return int(first)
        if place >= 0:
            target.data[place] = value
        elif row < len(target.y):
            target.y[row] = value
        else:
            target.weight[row - len(target.y)] = value
    return None


def _group(runs: _Runs, n_rows: int) -> Grouping:
    """Group rows by query, given the runs of rows with the same qid; see `group_by_query`."""
    if not runs.qids:
        return group_by_query(None, n_rows)
    ends = np.append(np.concatenate(runs.rows), n_rows)
    codes = np.repeat(np.concatenate(runs.numbers), ends[1:] - ends[:-1])
    return group_by_query(Ids(parse_ids([qid.decode() for qid in runs.qids]), codes), n_rows)


def _make_adjacent(
    target: ParsedArrays, layout: TextLayout, order: Integers, allocate: Allocate
) -> ParsedArrays:
    """Copy the rows into new arrays in which the rows of each query are adjacent."""

    def moved(name: str, array: Array, ptr: Integers, *shape: int) -> Array:
        new = allocate(name, shape or array.shape, array.dtype)
        return move_rows(array, ptr, order, new.reshape(-1))

    indptr, comments_ptr = target.indptr, target.comments_ptr
    parts: dict[str, Any] = {"y": target.y[order]}
    if layout.has_cost:
        parts["weight"] = target.weight[order]
    if layout.is_dense:
        n_rows, n_features = len(order), layout.n_features
        rows = n_features * np.arange(n_rows + 1)
        parts["data"] = moved("X", target.data, rows, n_rows, n_features)
    else:
        parts["indptr"] = move_pointers(indptr, order)
        parts["indices"] = moved("X_indices", target.indices, indptr)
        parts["data"] = moved("X_data", target.data, indptr)
    if layout.has_comments:
        parts["comments_ptr"] = move_pointers(comments_ptr, order)
        parts["comments"] = moved("comments", target.comments, comments_ptr)
    return target._replace(**parts)


def _assemble(
    layout: TextLayout, target: ParsedArrays, grouping: Grouping, n_threads: int
) -> RankingData:
    """Return the filled arrays as `RankingData`."""
    if layout.is_dense:
        X = target.data.reshape(-1, layout.n_features)
    else:
        X = assemble_csr(target.indptr, target.indices, target.data, layout.n_features)
    has_missing = layout.allow_missing and holds_missing(X)
    comments = TextColumn(target.comments, target.comments_ptr) if layout.has_comments else None
    weight = target.weight if layout.has_cost else None
    return RankingData.from_parts(
        X=X,
        y=target.y,
        query_ptr=grouping.query_ptr,
        query_ids=grouping.query_ids,
        order=grouping.order,
        comments=comments,
        index_base=layout.index_base,
        n_read=layout.n_read,
        weight=check_weight(weight, len(target.y), "cost"),
        has_missing=has_missing,
        **read_content(X, grouping.query_ptr, n_threads, has_missing),
    )


# --------------------------------------------------------------------------------------------------
# Writing of `RankingData` as LETOR text, with threads over blocks of rows.


MAX_DECIMALS = 15  #: decimals of which every double has correct digits
_QID_TEXT = re.compile(r"[^\x00-\x20#\ud800-\udfff]+")
_BLOCK_ENTRIES = 1 << 16  # entries that a thread formats at a time
_ENTRY_LETTERS = 16  # bytes of ids and comments that count as one entry
_BLOCKS_PER_THREAD = 8  # blocks that are formatted before they are written


class LetorWriter:
    """Formats the lines of a LETOR file, in the order in which the caller gave the rows."""

    def __init__(self, data: RankingData, decimals: int | None = None) -> None:
        check_maps(data.X)
        self.data = data
        X, nothing = data.X, np.empty(0, np.int64)
        self.qids = qids = _qid_tokens(data.query_ids)
        comments, first, end = _checked_comments(data.comments)
        self.rows = TextRows(
            y=data.y,
            indptr=X.indptr if data.is_sparse else nothing.astype(np.int32),
            indices=X.indices if data.is_sparse else nothing.astype(np.int32),
            data=X.data if data.is_sparse else X.reshape(-1),
            qids=qids.buffer,
            qids_ptr=qids.ptr,
            comments=comments,
            comments_first=first,
            comments_end=end,
        ).read_only()
        self.style = Style(
            is_dense=not data.is_sparse,
            is_single=X.dtype == np.float32,
            has_comments=data.comments is not None,
            n_features=data.n_features,
            index_base=data.index_base,
            decimals=-1 if decimals is None else int(decimals),
        )

    def blocks(self, n_threads: int) -> Iterator[bytes]:
        """Yield the text in blocks."""
        which = self.data.restore(np.arange(self.data.n_docs))
        if self.data.is_sparse:
            # Features that are 0 are not written. The first line therefore contains the first and
            # the last feature, so that a reader finds their number.
            yield self._slow_line(which[0], with_ends=True)
            which = which[1:]
        ends = self._block_ends(which)
        for first in range(0, len(ends) - 1, n_threads * _BLOCKS_PER_THREAD):
            batch = ends[first : first + n_threads * _BLOCKS_PER_THREAD + 1]
            tasks = [(which[a:b],) for a, b in pairwise(batch)]
            yield from run(self._block, tasks, n_threads)

    def _block_ends(self, which: Integers) -> list[int]:
        """Return 0 and the ends of the blocks; long texts count, because rows may share them."""
        n_entries = max(self.rows.data.size // self.data.n_docs, 1)
        total = np.cumsum(n_entries + self._n_letters(which) // _ENTRY_LETTERS)
        ends = np.flatnonzero(np.diff(total // _BLOCK_ENTRIES)) + 1
        return [0, *ends.tolist(), len(which)] if len(which) else [0]

    def _n_letters(self, which: Integers) -> Integers:
        """Return the bytes of the query id and of the comment of some rows."""
        rows = self.rows
        counts = np.diff(rows.qids_ptr)[self._queries(which)]
        if self.style.has_comments:
            counts += rows.comments_end[which] - rows.comments_first[which]
        return counts

    def _queries(self, which: Integers) -> Integers:
        return np.searchsorted(self.data.query_ptr, which, side="right") - 1

    def _block(self, which: Integers) -> bytes:
        """Return the lines of some rows."""
        pieces, out = [], np.empty(self._most_bytes(which), np.uint8)
        queries = self._queries(which)
        while len(which):
            n_done, n_bytes = format_rows(self.rows, which, queries, self.style, out)
            pieces.append(out[:n_bytes].tobytes())
            if n_done < len(which):
                pieces.append(self._slow_line(which[n_done]))
            which, queries = which[n_done + 1 :], queries[n_done + 1 :]
        return b"".join(pieces)

    def _most_bytes(self, which: Integers) -> int:
        """Return an upper bound on the bytes of the lines of some rows."""
        rows, style = self.rows, self.style
        size = len(which) * ROW_BYTES + int(self._n_letters(which).sum())
        n_entries = len(which) * style.n_features
        if not style.is_dense:
            n_entries = int((rows.indptr[which + 1] - rows.indptr[which]).sum())
        return size + n_entries * ENTRY_BYTES

    def _slow_line(self, row: int, with_ends: bool = False) -> bytes:
        """Return one line whose numbers are formatted by Python."""
        X, base = self.data.X[[row]], self.data.index_base
        if self.data.is_sparse:
            entries = {f: value for f, value in zip(X.indices, X.data, strict=True) if value != 0}
        else:
            entries = dict(enumerate(X[0]))
        if with_ends:
            for f in {X.shape[1] - 1} if base else {0, X.shape[1] - 1}:
                entries.setdefault(f, X.dtype.type(0))
        line = exact_text(self.data.y[row]) + self.qids[int(self._queries(np.array(row)))]
        for f in sorted(entries):
            line += f" {f + base}:{self._number(entries[f])}"
        comment = b""
        if self.style.has_comments:
            first, end = self.rows.comments_first[row], self.rows.comments_end[row]
            comment = self.rows.comments[first:end].tobytes()
        return line.encode() + (b" # " + comment if comment else b"") + b"\n"

    def _number(self, value: np.floating[Any]) -> str:
        decimals = self.style.decimals
        if decimals < 0 or abs(value) * 10.0**decimals >= 2**53:
            return exact_text(value)
        return f"{round(float(value), decimals) + 0.0:.{decimals}f}"


def exact_text(value: np.floating[Any]) -> str:
    """Return the shortest text from which the same number is read.

    Examples
    --------
    >>> exact_text(np.float64(2)), exact_text(np.float32(0.1)), exact_text(np.float64(1e-300))
    ('2', '0.1', '1e-300')
    """
    text = str(value)
    if type(value)(float(text)) != value:  # A float32 may need as many digits as its double.
        text = repr(float(value))
    return text.removesuffix(".0")


def _qid_tokens(query_ids: Array) -> TextColumn:
    """Return the text that follows the label, for each query."""
    names = id_texts(query_ids)
    for name in names:
        if not _QID_TEXT.fullmatch(name):
            raise DataError(
                f"query id {name!r} cannot be written to a LETOR file; expected an id without "
                "blanks and #"
            )
    if len(set(names)) < len(names):
        raise DataError(
            "some query ids would be read as the same id from a LETOR file, such as 7 and '7'. "
            "Rename them"
        )
    return TextColumn.from_strings([f" qid:{name}" for name in names])


def _checked_comments(
    comments: TextColumn | None,
) -> tuple[NDArray[np.uint8], Integers, Integers]:
    """Return the bytes of the comments, and where the comment of each row begins and ends."""
    if comments is None:
        return np.empty(0, np.uint8), np.empty(0, np.int64), np.empty(0, np.int64)
    comments.check()
    if np.isin(comments.buffer, (ord("\n"), 0)).any():
        raise DataError(
            "a comment contains a line end or a NUL, which cannot be written to a LETOR file; "
            "remove it"
        )
    return comments.buffer, *comments.spans()


# --------------------------------------------------------------------------------------------------
# LETOR/SVMlight text files: ``label qid:ID index:value … # comment``.


StrPath = str | os.PathLike[str]


def read_letor(
    path: StrPath,
    *,
    n_features: int | None = None,
    index_base: Literal["auto", 0, 1] = "auto",
    dtype: DTypeLike = np.float64,
    form: Literal["auto", "dense", "csr"] = "auto",
    n_threads: int | None = None,
    progress: Progress | None = None,
    feature_names: StrPath | None = None,
    allow_missing: bool = False,
) -> RankingData:
    r"""Read ranked data from a LETOR or SVMlight text file.

    A line is ``label [qid:ID] [cost:WEIGHT] index:value … [# comment]``, with ascending indices.
    Empty lines and lines that begin with ``#`` are skipped. If no line has a qid, all lines belong
    to one query. The costs of SVMlight become sample weights; a line without a cost then has the
    weight 1. Every number becomes the nearest double, as in Python.

    Parameters
    ----------
    path : path-like
        The file, or a folder of files that are parts of the data. Each is plain text, or compressed
        with gzip, bzip2, xz or Zstandard, whatever its name.
        Zstandard needs ``pip install 'linrank[zstd]'``. A compressed file is decompressed twice, so
        that its text is never held in memory.
    n_features : int, optional
        The number of features. A line with a larger index is an error. By default, the largest
        index determines the number.
    index_base : {"auto", 0, 1}
        The index of the first feature. "auto" is 0 if any line has a feature 0, otherwise 1.
        Give the number if the data are for a model that was trained on another file.
    dtype : {np.float64, np.float32}
        The type of the features.
    form : {"auto", "dense", "csr"}
        How the features are stored. "auto" is CSR if that takes less than half of the memory,
        otherwise dense. CSR holds only values other than 0.
    n_threads : int, optional
        Number of threads; by default all cores.
    progress : callable, optional
        Called repeatedly with the fraction of the work that is done.
    feature_names : path-like, optional
        A file with the names of the features: one per line, or lines of an index and a name.
    allow_missing : bool
        Whether a feature may be ``nan``, which stands for a missing value.

    Returns
    -------
    RankingData
        Query ids are integers if each of them is the canonical form of one, as 7 is; otherwise,
        as with 007, they are strings. Comments are kept if there are any.

    Raises
    ------
    FileFormatError
        If the file cannot be read; the message names the file and the line.

    See Also
    --------
    write_letor : Write a LETOR text file.
    linrank.convert : Convert a text file into a store, which opens in no time.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "train.txt")
    >>> _ = path.write_text("2 qid:7 1:0.5 2:1 # docid = A\n0 qid:7 2:0.25 # docid = B\n")
    >>> data = read_letor(path)
    >>> data
    RankingData(2 documents, 1 queries, 2 features, dense float64)
    >>> data.X.tolist(), data.doc_ids
    ([[0.5, 1.0], [0.0, 0.25]], ['A', 'B'])
    """
    return read_letor_into(
        path, n_features=n_features, index_base=index_base, dtype=dtype, form=form,
        n_threads=n_threads, progress=progress, feature_names=feature_names,
        allow_missing=allow_missing,
    )  # fmt: skip


def read_letor_into(
    path: StrPath,
    *,
    progress: Progress | None = None,
    allocate: Allocate = allocate_in_memory,
    feature_names: StrPath | None = None,
    **options: Any,
) -> RankingData:
    """Read a LETOR text file into arrays that `allocate` provides; see `read_letor`."""
    checked = check_options(**options)
    names = None if feature_names is None else NameFile.read(feature_names)
    with open_text(path) as source:
        data = read_source(source, checked, allocate, progress)
    if names is not None:
        data.feature_names = names.of(data.n_features, data.index_base)
    return data


def write_letor(path: StrPath, data: RankingData, *, decimals: int | None = None) -> None:
    """Write ranked data as a LETOR text file.

    Rows are written in the order in which the caller gave them. `read_letor` returns the same
    data, bit for bit, unless `decimals` is given. Missing values are written as ``nan``. Weights
    and names of features are not written.

    Parameters
    ----------
    path : path-like
        The file. If the name ends in .gz, .bz2, .xz or .zst, the file is compressed. An existing
        file is replaced after the new one is complete; if writing fails, it is kept.
    data : RankingData
        All features of dense data are written; of CSR data, those that are not 0. The first line
        always contains the last feature (and feature 0 if the index base is 0), so that a reader
        finds the number of features.
    decimals : int, optional
        Round features to this many decimals, from 0 to 15. The LETOR data sets have 6.

    Raises
    ------
    DataError
        If the file cannot be written, or if a query id or comment does not fit into a line.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "data.txt")
    >>> data = RankingData([[0.5, 2], [0.25, 1 / 3]], [1, 0], qid=["a", "a"], doc_ids=["A", "B"])
    >>> write_letor(path, data)
    >>> print(path.read_text(), end="")
    1 qid:a 1:0.5 2:2 # docid = A
    0 qid:a 1:0.25 2:0.3333333333333333 # docid = B
    >>> write_letor(path, data, decimals=3)
    >>> print(path.read_text(), end="")
    1 qid:a 1:0.500 2:2.000 # docid = A
    0 qid:a 1:0.250 2:0.333 # docid = B
    """
    if decimals is not None:
        decimals = whole_number("decimals", decimals, least=0, most=MAX_DECIMALS)
    writer = LetorWriter(data, decimals)
    with atomic_write(path, "wb") as file, compressed(file, path) as stream:
        for text in writer.blocks(resolve_threads()):
            stream.write(text)


class LetorCounts(NamedTuple):
    """What a LETOR text file holds, without the values of the features."""

    query_ids: Array
    n_docs: Integers  #: of each query
    n_entries: int  #: feature values in all lines


def count_letor(path: StrPath) -> LetorCounts:
    r"""Count the documents of each query in a LETOR text file, without parsing the features.

    Memory holds a few chunks of the text and the query ids.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "train.txt")
    >>> _ = path.write_text("2 qid:7 1:0.5 2:1\n0 qid:7 2:0.25\n")
    >>> count_letor(path)
    LetorCounts(query_ids=array([7]), n_docs=array([2]), n_entries=3)
    """
    counts, n_entries = Counter[bytes](), 0
    with open_source(path) as source:
        for chunk in source.chunks(CHUNK_BYTES):
            for line in chunk.text[chunk.first : chunk.last].tobytes().splitlines():
                words = line.partition(b"#")[0].split()
                has_qid = len(words) > 1 and words[1].startswith(b"qid:")
                if words:
                    counts[words[1][4:] if has_qid else b"0"] += 1
                    n_entries += len(words) - 1 - has_qid
            source.release([chunk])
    ids = parse_ids([qid.decode(errors="replace") for qid in counts])
    return LetorCounts(ids, np.array(list(counts.values())), n_entries)


def check_options(
    n_features: int | None = None,
    index_base: Literal["auto", 0, 1] = "auto",
    dtype: DTypeLike = np.float64,
    form: str = "auto",
    n_threads: int | None = None,
    allow_missing: bool = False,
) -> ReadOptions:
    """Check the options of `read_letor` and fill in their defaults."""
    if n_features is not None:
        n_features = whole_number("n_features", n_features, most=MAX_FEATURES)
        check_n_features(n_features)
    if index_base not in ("auto", 0, 1):
        raise DataError(f"index_base is {index_base!r}; expected 'auto', 0 or 1")
    if form not in ("auto", "dense", "csr"):
        raise DataError(f"form is {form!r}; expected 'auto', 'dense' or 'csr'")
    return ReadOptions(
        n_features=n_features,
        index_base=None if index_base == "auto" else int(index_base),
        dtype=check_dtype(dtype),
        form=form,
        n_threads=resolve_threads(n_threads),
        allow_missing=allow_missing,
    )


def check_dtype(dtype: DTypeLike) -> np.dtype[Any]:
    """Return a dtype that the kernels support, or raise a `DataError`."""
    for known in (np.dtype(np.float64), np.dtype(np.float32)):
        if dtype in (known, known.type, known.name):
            return known
    raise DataError(f"dtype is {dtype!r}; expected np.float64 or np.float32")
