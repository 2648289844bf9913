"""Input and output files: reading with progress, and early checks of output files."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._files import find_descriptor
from ..errors import DataError
from ._progress import reading

if TYPE_CHECKING:
    from ..data.ranking import RankingData


def read_data(path: Path, **options: Any) -> RankingData:
    """Read data in any known format, with progress; options are those of `linrank.load`."""
    from ..data.formats import load

    with reading(path) as progress:
        return load(path, progress=progress, **options)


def check_output(path: Path | None, *, is_folder: bool = False) -> None:
    """Raise an error before any long work if a file (or folder) cannot be written there."""
    if path is None:
        return
    if path.is_dir() and not is_folder:
        raise DataError(f"{path}: is a folder; pass the name of a file to write")
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
