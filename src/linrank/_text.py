"""Text that is shown to people: counts with their nouns, and names from files, escaped."""

from __future__ import annotations

import re

#: Control characters, surrogates, and characters that change the direction or position of text.
_UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff"
    "\ufff9-\ufffb\U000e0000-\U000e007f]"
)


def printable(text: str) -> str:
    r"""Return a text with its control characters replaced by Python's escapes.

    Names of features and files may come from other people. Control characters in them could erase
    or forge the output on a terminal.

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
