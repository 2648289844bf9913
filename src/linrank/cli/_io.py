"""Input and output files: reading with progress, and early checks of output files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._files import find_descriptor
from .._text import count
from ..errors import DataError, about
from ._guard import say_error
from ._progress import reading

if TYPE_CHECKING:
    from ..data.ranking import RankingData
    from ..model import Model
    from ._input import Input


def read_data(
    path: Path, inputs: Input, names: Sequence[str] | None = None, **options: Any
) -> RankingData:
    """Read data in any known format, with progress.

    Parameters
    ----------
    path : Path
    inputs : Input
        The columns of tables, and names for the features of LETOR text.
    names : sequence of str, optional
        The expected names of the features. A table may have other columns too.
    **options
        Options of `linrank.load`.
    """
    from ..data.formats import find_format, load
    from ..data.matching import with_features

    if names is not None and find_format(path).open_table is not None:
        inputs = inputs.choosing(names)
    with reading(path) as progress:
        data = load(path, progress=progress, **load_options(inputs), **options)
    if (n_features := options.get("n_features")) is None:
        return data
    with about(path):
        return with_features(data, names, n_features)


def read_for(model: Model, path: Path, inputs: Input, **options: Any) -> RankingData:
    """Read the data that a model scores, with its features.

    Warn if the file has fewer features, or no queries although the model needs them.
    """
    data = read_data(
        path, inputs, model.feature_names, n_features=model.n_features,
        index_base=model.index_base, allow_missing=model.fills, **options,
    )  # fmt: skip
    if data.n_read is not None and data.n_read < model.n_features:
        say_error(
            f"{path}: the file has {count(data.n_read, 'feature')}, but the model has "
            f"{model.n_features}; the others count as 0. Check that both have the same features.",
            "warning: ",
        )
    if model.needs_qid and data.n_queries == 1 and data.query_ids[0] == 0:
        say_error(
            f"{path}: all {data.n_docs:,} documents are one query, but the model scales features "
            "within each query. If a table has query ids, name their column with --qid.",
            "warning: ",
        )
    return data


def load_options(inputs: Input) -> dict[str, Any]:
    """Return the options of `linrank.load` for an input."""
    options: dict[str, Any] = {"columns": inputs.columns}
    if inputs.feature_names is not None:
        options["feature_names"] = inputs.feature_names
    return options


def check_output(path: Path | None, *read: Path | None, is_folder: bool = False) -> None:
    """Raise an error before any long work if a file (or folder) cannot be written there.

    `read` are files of the same command, which must not be overwritten.
    """
    if path is None:
        return
    if any(file is not None and _is_same(path, file) for file in read):
        raise DataError(f"{path}: is read by this command; pass another name for the output")
    if path.is_dir() and not is_folder:
        raise DataError(f"{path}: is a folder; pass the name of a file to write")
    if path.is_file() and is_folder:
        raise DataError(f"{path}: is a file; pass the name of a folder to write to")
    if path.exists() and not path.is_file() and not path.is_dir():
        return  # The path is a device or a pipe.
    if find_descriptor(path) is not None:
        return
    folder = Path(os.path.realpath(path)).parent
    if not folder.is_dir():
        raise DataError(f"{path}: cannot be written: there is no folder {folder}; create it first")
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {folder}: {error.strerror}") from None


def _is_same(one: Path, other: Path) -> bool:
    """Tell whether two paths lead to the same file or folder; devices may be read and written."""
    is_stored = one.is_file() or one.is_dir()
    return is_stored and other.exists() and one.samefile(other)


def looks_like_model(path: Path) -> bool:
    """Tell whether a file starts like a JSON object, as model files do."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(64).lstrip().startswith(b"{")


def size_of(path: Path) -> int:
    """Return the size of a file, or of all files in a folder, in bytes."""
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if not file.is_dir())
