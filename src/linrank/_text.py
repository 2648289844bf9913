"""Text that is shown to people: counts with their nouns, and names from files, escaped."""

from __future__ import annotations

import math
import re

#: Code points that are no characters; XML and HTML allow not all of them.
_NO_CHARACTERS = "".join(f"{chr(plane + 0xFFFE)}{chr(plane + 0xFFFF)}"
                         for plane in range(0, 0x110000, 0x10000))  # fmt: skip
#: Control characters, surrogates, and characters that change the direction or position of text.
_UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff"
    f"\ufdd0-\ufdef\ufff9-\ufffb\U000e0000-\U000e007f{_NO_CHARACTERS}]"
)


def printable(text: str) -> str:
    r"""Return a text with its control characters and other non-characters as Python's escapes.

    Names of features and files may come from other people. Control characters in them could erase
    or forge the output on a terminal, and pages and pictures cannot hold U+FFFE.

    Examples
    --------
    >>> printable("title\x1b[2Jbody\n")
    'title\\x1b[2Jbody\\n'
    """
    return _UNPRINTABLE.sub(lambda found: repr(found.group())[1:-1], text)


def count(n: int, one: str, many: str | None = None) -> str:
    """Return a count with its noun in singular or plural.

    Examples
    --------
    >>> count(1, "query", "queries"), count(1234, "document")
    ('1 query', '1,234 documents')
    """
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def format_C(C: float) -> str:
    """Return C as text, as a power of two if it is one.

    Examples
    --------
    >>> format_C(0.03125), format_C(1.0), format_C(0.3)
    ('2^-5', '1', '0.3')
    """
    mantissa, exponent = math.frexp(C)
    return f"2^{exponent - 1}" if mantissa == 0.5 and C != 1.0 else f"{C:.6g}"


def setting_text(name: str, value: object) -> str:
    """Return a setting, or a fact about a training, as text.

    Examples
    --------
    >>> setting_text("C", 0.25), setting_text("n_docs", 12345), setting_text("scale", None)
    ('2^-2', '12,345', 'none')
    """
    if isinstance(value, dict):
        return ", ".join(f"{key} {setting_text(key, item)}" for key, item in value.items())
    if isinstance(value, float):
        return format_C(value) if name == "C" else f"{value:.6g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "none" if value is None else str(value)
