"""Folders of data: parts or folds of a data set, or a fold with training and held-out data."""

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

    Of a folder with all folds of LETOR data (``Fold1``, …), the parts are the test files of the
    folds. Together they hold each query once.

    Raises
    ------
    FileFormatError
        If the folder holds no parts, or the files of one fold.
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
    folds = {name: fold for name in folders if (fold := find_fold(path / name)) is not None}
    tests = [fold.test for fold in folds.values() if fold.test is not None]
    if folds and len(tests) == len(folds):
        return tests
    if folds:
        raise FileFormatError(
            f"{path}: the folder holds the folds {', '.join(folds)}, but not all have test data. "
            f"Pass one of them, such as {path / min(folds)}"
        )
    raise FileFormatError(
        f"{path}: not a linrank store: it has no meta.json, and there are no files of data in it"
    )


def _visible(folder: Path) -> list[Path]:
    return sorted(f for f in folder.iterdir() if f.is_file() and f.name[0] not in "._")
