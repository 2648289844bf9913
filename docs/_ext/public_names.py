"""Names in docstrings: which members the API reference shows, and to what backquotes refer."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.parsers.rst.states import Inliner
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.roles import XRefRole
from sphinx.transforms import SphinxTransform

NAME = re.compile(r"linrank(\.\w+)+|(?:[A-Z]\w*[a-z]\w*|[A-Z]{3,}\w*)")  # a class, or any full name
PUBLIC = re.compile(r"linrank(\.[a-z]+)?\.\w+")  # a name of the package or of a public part of it
INTERNAL = {  # class attributes that rankers need among themselves
    "chooses", "has_model", "has_weights", "selects", "takes_codes", "takes_missing",
    "trainer_class", "uses_queries",
}  # fmt: skip
ROUTING = re.compile(r"set_\w+_request")  # methods that scikit-learn adds to every estimator


class SoftRole(XRefRole):
    """The default role: a link if a name is documented, and otherwise code.

    Docstrings also put parameters and formulas between backquotes. Links that must not break have
    a role of their own, such as ``:class:``.
    """

    def __init__(self) -> None:
        super().__init__(innernodeclass=nodes.literal, warn_dangling=False)

    def process_link(
        self, env: BuildEnvironment, refnode: Any, has_explicit_title: bool, title: str, target: str
    ) -> tuple[str, str]:
        """Look for a Python object of this name, in the module of the docstring or in any."""
        refnode["refdomain"], refnode["reftype"], refnode["soft"] = "py", "obj", True
        refnode["py:module"] = env.ref_context.get("py:module")
        refnode["py:class"] = env.ref_context.get("py:class")
        target = target.strip().removesuffix("()")
        return title, target if target.isidentifier() or "." in target else "no name"


class LinkNames(SphinxTransform):
    """Make links of code in pages that is the name of a class, or begins with "linrank."."""

    default_priority = 400

    def apply(self, **kwargs: Any) -> None:
        """Wrap such code in a soft reference."""
        for code in list(self.document.findall(nodes.literal)):
            name = code.astext().removesuffix("()")
            if isinstance(code.parent, (nodes.reference, nodes.title, pending_xref)):
                continue
            if NAME.fullmatch(name):
                link = pending_xref("", refdomain="py", reftype="obj", reftarget=name, soft=True)
                link["refdoc"] = self.env.docname
                code.replace_self(link)
                link += code


def find_short_name(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, contnode: nodes.Node
) -> nodes.Node | None:
    """Resolve a soft reference by the last part of a public name; leave code if there is none."""
    if not node.get("soft"):
        return None
    domain, wanted = env.domains.python_domain, node["reftarget"].rpartition(".")[2]
    found = [
        name for name in domain.objects if PUBLIC.fullmatch(name) and name.endswith(f".{wanted}")
    ]
    if not found:
        return contnode
    name = min(
        found, key=lambda name: name.count(".")
    )  # linrank.evaluate, not linrank.dask.evaluate
    link = domain.resolve_xref(env, node["refdoc"], app.builder, "obj", name, node, contnode)
    return contnode if link is None else link


def skip_foreign(
    app: Sphinx, what: str, name: str, obj: Any, skip: bool, options: Any
) -> bool | None:
    """Leave out internal members, and those of other libraries, which have their own documents."""
    if name in INTERNAL or ROUTING.fullmatch(name) or isinstance(obj, type):
        return True
    home = getattr(obj, "__module__", None) or getattr(
        getattr(obj, "fget", None), "__module__", None
    )
    if isinstance(home, str) and not home.startswith("linrank"):
        return True
    return None


def write_signature(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, signature: str | None, result: str
) -> tuple[str, str] | None:
    """Write a default that a dataclass makes anew for each instance as an ellipsis."""
    if signature is None or "<factory>" not in signature:
        return None
    return signature.replace("<factory>", "..."), result


def keep_bar(
    inliner: Inliner, match: re.Match[str], line: int
) -> tuple[str, list[nodes.Node], str, list[nodes.Node]]:
    """Read a vertical bar as text: in our docstrings it is part of a formula, such as |w_j|."""
    bar: list[nodes.Node] = [nodes.Text("|")]
    return match.string[: match.start("start")], bar, match.string[match.end("start") :], []


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the role and the filters."""
    Inliner.dispatch["|"] = keep_bar
    app.add_transform(LinkNames)
    app.add_role("soft", SoftRole())
    app.connect("missing-reference", find_short_name)
    app.connect("autodoc-skip-member", skip_foreign)
    app.connect("autodoc-process-signature", write_signature)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
