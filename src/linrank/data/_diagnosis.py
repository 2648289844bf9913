"""Error messages for lines of LETOR text that cannot be parsed."""

from __future__ import annotations

import re

from ..errors import FileFormatError
from . import _letor_kernels as kernels
from ._content import find_delimiter
from ._letor_kernels import MAX_INDEX, Layout
from ._source import Excerpt
from .checks import FEATURE_BYTES, FOR_INFINITE, FOR_MISSING, most_features

_TOKEN = re.compile(rb"[^\s#]*")
_NOT_FINITE = re.compile(r"[+-]?(nan|inf|infinity)", re.IGNORECASE)
_SHOWN_LETTERS = 60  # of a token in a message


def diagnose(source: Excerpt, code: int, at: int, layout: Layout) -> FileFormatError:
    """Return the error for a code of `parse` and the byte of the file where it stopped."""
    if code == kernels.CHANGED:
        return FileFormatError(
            f"{source.path}: the file changed while it was being read. Read it again when no "
            "program writes to it"
        )
    token = _token(source, at)
    if code == kernels.BAD_LABEL:
        problem = _csv_problem(source, at) or _label_problem(token)
    elif code == kernels.NO_QID:
        problem = "there is no qid; expected 'qid:ID' after the label, as on other lines"
    elif code == kernels.BAD_QID:
        problem = "'qid:' names no query; expected an id directly after the colon"
    elif code == kernels.BAD_COST:
        problem = f"found {_short(token)!r}; expected a weight of at least 0, such as cost:0.5"
    elif code == kernels.BAD_ENTRY:
        problem = _entry_problem(token, layout)
    elif code == kernels.OUT_OF_RANGE:
        problem = _range_problem(token.partition(":")[0], layout)
    elif code == kernels.UNSORTED:
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


def _entry_problem(token: str, layout: Layout) -> str:
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


def _range_problem(index: str, layout: Layout) -> str:
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


def _size_problem(token: str, layout: Layout) -> str:
    index, colon, value = token.partition(":")
    if not colon:
        return f"the label is {_short(token)}; expected a number that fits float64"
    value_type = "float64" if layout.largest_value > 1e300 else "float32"
    return f"feature {_short(index)} is {_short(value)}; expected a number that fits {value_type}"
