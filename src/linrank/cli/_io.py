"""Files in and out: reading with progress, and finding out early what cannot be written."""

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
    from ..model import Model


def read_data(path: Path, **options: Any) -> RankingData:
    """Read data in any known format, with progress; options are those of `linrank.load`."""
    from ..data.formats import load

    with reading(path) as progress:
        return load(path, progress=progress, **options)


def check_output(path: Path | None, *, is_folder: bool = False) -> None:
    """Find out before any long work whether a file (or a folder) can be written there."""
    if path is None:
        return
    if path.is_dir() and not is_folder:
        raise DataError(f"{path}: is a folder; expected the name of a file to write")
    if path.exists() and not path.is_file() and not path.is_dir():
        return  # a device or a pipe
    if find_descriptor(path) is not None:
        return
    folder = Path(os.path.realpath(path)).parent
    if not folder.is_dir():
        raise DataError(f"{path}: cannot be written: there is no folder {folder}")
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {folder}: {error.strerror}") from None


def load_model(path: Path) -> Model:
    """Read a model of any kind."""
    from ..model import LinearModel, read_content

    if read_content(path).get("format") == "linrank-stumps":
        from ..baselines.stumps import StumpModel

        return StumpModel.load(path)
    return LinearModel.load(path)


def looks_like_model(path: Path) -> bool:
    """Whether a file holds JSON, as models do, rather than numbers."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(64).lstrip().startswith(b"{")


def size_of(path: Path) -> int:
    """The bytes of a file, or of the files of a folder."""
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if not file.is_dir())
