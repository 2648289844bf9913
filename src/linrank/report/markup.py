"""Escaping of texts for HTML, LaTeX and Markdown; control characters become Python's escapes."""

from __future__ import annotations

import re
from html import escape

from .._text import printable

#: What stands for a character in LaTeX. Brackets and stars are in braces because ``\\`` would
#: take one at the beginning of the next row as its argument. Beyond ASCII, there are signs that
#: tables of linrank use and that pdfTeX does not know, or has in formulas only.
_LATEX = {
    **{sign: "\\" + sign for sign in "{}$&#%_"},
    **{sign: "{" + sign + "}" for sign in "[]*"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "`": r"\textasciigrave{}",
    "–": "--",
    "−": "$-$",
    "±": r"$\pm$",
    "×": r"$\times$",
    "∞": r"$\infty$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "Δ": r"$\Delta$",
    "†": r"\dag{}",
    "‡": r"\ddag{}",
}
_LATEX_SIGNS = re.compile("[" + re.escape("".join(_LATEX)) + "]")
#: Signs of Markdown. Those of headings and lists have a meaning at the beginning only.
_MARKDOWN_SIGNS = re.compile(r"[\\`*_\[\]|~$]|^[#+-](?!\d)")


def html(text: str) -> str:
    """Escape a text for the content and the attributes of HTML elements.

    Examples
    --------
    >>> html('<b> & "b"')
    '&lt;b&gt; &amp; &quot;b&quot;'
    """
    return escape(printable(text))


def latex(text: str) -> str:
    r"""Escape a text for LaTeX.

    Examples
    --------
    >>> print(latex("50 % of a_b"))
    50 \% of a\_b
    """
    return _LATEX_SIGNS.sub(lambda found: _LATEX[found.group()], printable(text))


def markdown(text: str) -> str:
    r"""Escape a text for a cell or a paragraph of Markdown.

    Examples
    --------
    >>> print(markdown("a|b <i>"))
    a\|b &lt;i&gt;
    """
    return _MARKDOWN_SIGNS.sub(r"\\\g<0>", escape(printable(text), quote=False))
