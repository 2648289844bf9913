"""Pages that are also read as plain Markdown: included files, and directives in comments.

Pages include files of the root folder, whose links begin there. Directives that plain Markdown
would show are in comments, which begin with ``<!-- site`` in a line of its own.
"""

from __future__ import annotations

import re
from pathlib import Path

from sphinx.application import Sphinx

COMMENT = re.compile(r"^<!-- site\n(.*?)^-->$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"(?<=\]\()(docs/)?([\w./-]+\.md)")


def move_links(app: Sphinx, path: Path, docname: str, content: list[str]) -> None:
    """Change the links of an included file to those of a page in the folder ``development``."""
    if str(path).startswith(".."):
        content[0] = LINK.sub(
            lambda link: "../" + link[2] if link[1] else link[2].lower(), content[0]
        )


def open_comments(app: Sphinx, docname: str, content: list[str]) -> None:
    """Leave the directives of comments to Sphinx."""
    content[0] = COMMENT.sub(r"\1", content[0])


def setup(app: Sphinx) -> dict[str, bool]:
    """Listen to pages that are read."""
    app.connect("include-read", move_links)
    app.connect("source-read", open_comments)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
