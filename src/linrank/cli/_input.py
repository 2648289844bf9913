"""Options that name the columns of input files; all commands that read data share them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ._options import INPUT
from ._shared import Declared, with_options

if TYPE_CHECKING:
    from ..data.columns import Columns


def parse_names(text: str) -> tuple[str, ...]:
    """Parse names that are separated by commas.

    Examples
    --------
    >>> parse_names("bm25, pagerank")
    ('bm25', 'pagerank')
    """
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise typer.BadParameter(f"{text!r} has an empty name; expected names such as bm25,clicks")
    return names


def _column(flag: str, help: str) -> Declared:
    option = typer.Option(
        flag, metavar="COLUMN", help=help, rich_help_panel=INPUT, show_default=False
    )
    return Declared(Annotated[str | None, option], None)


def _columns(flag: str, help: str) -> Declared:
    option = typer.Option(
        flag, metavar="A,B,…", help=help, rich_help_panel=INPUT, show_default=False,
        parser=parse_names,
    )  # fmt: skip
    return Declared(Annotated[Any, option], None)


FEATURE_NAMES = typer.Option(
    "--feature-names",
    metavar="FILE",
    help="Names of the features in LETOR text: one per line, or lines of a number and a name.",
    rich_help_panel=INPUT,
    show_default=False,
)

#: The options of all commands that read data. Those of columns are for Parquet, Arrow and CSV.
COLUMNS: dict[str, Declared] = {
    "label": _column("--label", "The column of a table with the labels, by default label."),
    "qid": _column("--qid", "The column with the query ids, by default qid."),
    "doc_id": _column("--doc-id", "The column with identifiers of documents."),
    "features": _columns("--features", "The columns with the features, by default all others."),
    "ignore": _columns("--ignore", "Columns that are not features."),
    "sample_weight": _column("--sample-weight", "The column with the weights of documents."),
    "query_weight": _column("--query-weight", "The column with the weights of queries."),
    "propensity": _column("--propensity", "The column with the propensities of clicks."),
    "margin": _column("--margin", "The column with the margins of documents."),
    "feature_names": Declared(Annotated[Path | None, FEATURE_NAMES], None),
}


@dataclass(frozen=True)
class Input:
    """How files are read: the columns of tables, and names for the features of LETOR text."""

    columns: Columns
    feature_names: Path | None = None

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Input:
        """Return the input for the options of `COLUMNS`; None is an option that is not given."""
        from ..data.columns import Columns

        given = {name: value for name, value in values.items() if value is not None}
        return cls(feature_names=given.pop("feature_names", None), columns=Columns(**given))

    def choosing(self, names: Sequence[str]) -> Input:
        """Return an input that reads these features, unless a user has chosen others."""
        if self.columns.features is not None:
            return self
        return replace(self, columns=replace(self.columns, features=tuple(names), ignore=()))


#: Decorator that adds the options of `COLUMNS` to a command, which gets an `Input` as `inputs`.
with_columns = with_options("inputs", COLUMNS, Input.of)
