"""Text that others wrote, made fit to be shown."""

from __future__ import annotations

import re

#: Control characters, surrogates, and marks that change the direction or the place of a line.
_UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff"
    "\ufff9-\ufffb\U000e0000-\U000e007f]"
)


def printable(text: str) -> str:
    r"""A text with its control characters written as escapes, as Python writes them.

    Names of features and files may come from others. Control characters in them could erase what
    a terminal shows, or let it show something else.

    Examples
    --------
    >>> printable("title\x1b[2Jbody\n")
    'title\\x1b[2Jbody\\n'
    """
    return _UNPRINTABLE.sub(lambda found: repr(found.group())[1:-1], text)
