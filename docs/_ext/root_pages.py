"""Pages of the site that include a file of the root folder, whose links begin there."""

from __future__ import annotations

import re
from pathlib import Path

from sphinx.application import Sphinx

LINK = re.compile(r"(?<=\]\()(docs/)?([\w./-]+\.md)")


def move_links(app: Sphinx, path: Path, docname: str, content: list[str]) -> None:
    """Change the links of an included file to those of a page in the folder ``development``."""
    if str(path).startswith(".."):
        content[0] = LINK.sub(
            lambda link: "../" + link[2] if link[1] else link[2].lower(), content[0]
        )


def setup(app: Sphinx) -> dict[str, bool]:
    """Listen to inclusions."""
    app.connect("include-read", move_links)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
