"""The directive ``command-line``: a section for each command, from the program itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import typer
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from linrank.cli.app import app as program

PROGRAM = "linrank"


class CommandLine(SphinxDirective):
    """Describe all commands: what they do, how they are called, arguments, options, examples."""

    option_spec: ClassVar[dict[str, Any]] = {}

    def run(self) -> list[nodes.Node]:
        """Return the sections."""
        group: Any = typer.main.get_command(program)
        context = group.make_context(PROGRAM, [], resilient_parsing=True)
        return [self.section(name, group.commands[name], context) for name in group.commands]

    def section(self, name: str, command: Any, parent: Any) -> nodes.section:
        """Return the section of one command."""
        context = command.make_context(name, [], parent=parent, resilient_parsing=True)
        section = nodes.section(ids=[f"{PROGRAM}-{name}"], names=[f"{PROGRAM} {name}"])
        section += nodes.title(text=f"{PROGRAM} {name}")
        section += [nodes.paragraph(text=text) for text in paragraphs(command.help)]
        usage = command.get_usage(context).removeprefix("Usage: ")
        section += code(f"$ {' '.join(usage.split())}")
        for title, rows in panels(command, context):
            section += nodes.rubric(text=title)
            section += definitions(f"{PROGRAM}-{name}", rows)
        examples = [f"$ {text}" for text in paragraphs(command.epilog) if text != "Examples:"]
        if examples:
            section += [nodes.rubric(text="Examples"), code("\n".join(examples))]
        return section


def paragraphs(text: str | None) -> list[str]:
    """Return the paragraphs of a help text, each in one line; examples have a line each."""
    lines = (text or "").strip().split("\n\n")
    return [
        line
        for part in lines
        for line in (part.splitlines() if part.startswith(PROGRAM) else [" ".join(part.split())])
        if line
    ]


def panels(command: Any, context: Any) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield the headings of the help with their arguments or options, and what each means."""
    shown = [
        (title_of(part), part.get_help_record(context)) for part in command.get_params(context)
    ]
    titles = list(dict.fromkeys(title for title, record in shown if record))
    for title in sorted(titles, key=lambda title: (title != "Arguments", title == "Options")):
        yield title, [record for own, record in shown if own == title and record]


def title_of(part: Any) -> str:
    """Return the heading below which the help lists an argument or an option."""
    default = "Arguments" if part.param_type_name == "argument" else "Options"
    return part.rich_help_panel or default


def definitions(prefix: str, rows: list[tuple[str, str]]) -> nodes.definition_list:
    """Return a list of names with their help; each option can be linked to."""
    found = nodes.definition_list(classes=["options"])
    for form, text in rows:
        anchor = f"{prefix}-{form.split()[0].strip('-,').lower()}"
        term = nodes.term("", "", nodes.literal(text=form), ids=[anchor])
        body = nodes.definition("", nodes.paragraph(text=text.replace("  [", " [")))
        found += nodes.definition_list_item("", term, body)
    return found


def code(text: str) -> nodes.literal_block:
    """Return a block of shell commands."""
    return nodes.literal_block(text, text, language="console")


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the directive."""
    app.add_directive("command-line", CommandLine)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
