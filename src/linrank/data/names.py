"""Files with the names of features, for LETOR text, which has none."""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple, Self

from ..errors import FileFormatError

_NUMBERED = re.compile(r"([0-9]+)[\s:,;]+(\S.*)")


def names_or_numbers(names: list[str] | None, n_features: int, index_base: int) -> list[str]:
    """Return the names of features or, without names, their numbers in LETOR files.

    Examples
    --------
    >>> names_or_numbers(None, 2, index_base=1)
    ['1', '2']
    """
    if names is not None:
        return names
    return [str(index) for index in range(index_base, index_base + n_features)]


class NameFile(NamedTuple):
    r"""The content of a file of names: a name per line, or lines of an index and a name.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "names.txt")
    >>> _ = path.write_text("1 bm25\n3 clicks\n")
    >>> NameFile.read(path).of(n_features=3, index_base=1)
    ['bm25', '2', 'clicks']
    """

    path: str
    lines: list[str]

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """Read a file; empty lines are skipped."""
        try:
            text = Path(path).read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
            raise FileFormatError(f"{os.fspath(path)}: cannot be read: {reason}") from None
        return cls(os.fspath(path), [line.strip() for line in text.splitlines() if line.strip()])

    def of(self, n_features: int, index_base: int) -> list[str]:
        """Return the names of all features; a feature without a name is called by its index."""
        names = self._names(n_features, index_base)
        twice = [name for name, count in Counter(names).items() if count > 1]
        if twice:
            raise FileFormatError(
                f"{self.path}: {twice[0]!r} is the name of several features. Use distinct names"
            )
        return names

    def _names(self, n_features: int, index_base: int) -> list[str]:
        numbered = [_NUMBERED.fullmatch(line) for line in self.lines]
        if not numbered or None in numbered:
            if len(self.lines) != n_features:
                raise FileFormatError(
                    f"{self.path}: there are {len(self.lines)} names, but the data have "
                    f"{n_features} features; expected one name per line, or lines of an index and "
                    "a name"
                )
            return self.lines
        names = names_or_numbers(None, n_features, index_base)
        for match in numbered:
            assert match is not None
            feature = int(match[1]) - index_base
            if not 0 <= feature < n_features:
                raise FileFormatError(
                    f"{self.path}: feature {match[1]} is named, but the features of the data are "
                    f"{index_base} to {index_base + n_features - 1}"
                )
            names[feature] = match[2].strip()
        return names
