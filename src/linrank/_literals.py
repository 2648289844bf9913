"""Values that users write in texts: on the command line, and in the names of methods."""

from __future__ import annotations

import ast
from typing import Any


def parse_literal(text: str) -> Any:
    """Return the Python literal in a text, or the text itself.

    Examples
    --------
    >>> parse_literal("0.5"), parse_literal("false"), parse_literal("huber")
    (0.5, False, 'huber')
    """
    text = text.capitalize() if text.lower() in ("true", "false", "none") else text
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
