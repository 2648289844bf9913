"""Folders of data: parts of one data set, or a fold with training and held-out data."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from ..errors import FileFormatError

TRAIN, VALID, TEST = ("train",), ("vali", "valid", "validation"), ("test",)  #: stems of a fold


class Fold(NamedTuple):
    """The files of a fold of a LETOR data set; None for files that do not exist."""

    train: Path
    valid: Path | None
    test: Path | None


def _stem(file: Path) -> str:
    return file.name.partition(".")[0].lower()


def find_fold(folder: Path) -> Fold | None:
    """Return the files of a folder that holds training and other data; None for other folders."""
    files = _visible(folder) if folder.is_dir() else []

    def find(stems: tuple[str, ...]) -> Path | None:
        return next((file for file in files if _stem(file) in stems), None)

    train, valid, test = find(TRAIN), find(VALID), find(TEST)
    return Fold(train, valid, test) if train is not None and (valid or test) else None


def list_files(path: Path) -> list[Path]:
    """Return the parts of a data set: the files of a folder, or a file itself.

    Raises
    ------
    FileFormatError
        If the folder holds no parts, but folders or the files of a fold.
    """
    if not path.is_dir():
        return [path]
    fold, files = find_fold(path), _visible(path)
    if fold is not None:
        names = ", ".join(str(file) for file in fold if file is not None)
        raise FileFormatError(
            f"{path}: the folder holds training and held-out data. Pass one of its files: {names}"
        )
    if files:
        return files
    folders = sorted(inner.name for inner in path.iterdir() if inner.is_dir())
    folds = [name for name in folders if find_fold(path / name) is not None]
    if folds:
        raise FileFormatError(
            f"{path}: the folder holds the folds {', '.join(folds)}. Pass one of them, such as "
            f"{path / folds[0]}"
        )
    raise FileFormatError(
        f"{path}: not a linrank store: it has no meta.json, and there are no files of data in it"
    )


def _visible(folder: Path) -> list[Path]:
    return sorted(f for f in folder.iterdir() if f.is_file() and f.name[0] not in "._")
