"""Names of files, and parts of HTML ids, from free-form names of methods and data sets."""

from __future__ import annotations

import re
from collections.abc import Iterable

LONGEST = 60  #: characters of a name; file systems allow 255 bytes with all suffixes
_OTHER = re.compile("[^a-z0-9]+")
#: Names that Windows keeps for devices, with any suffix.
_DEVICES = {"con", "prn", "aux", "nul"} | {
    f"{port}{k}" for port in ("com", "lpt") for k in range(10)
}


def safe_names(names: Iterable[str]) -> dict[str, str]:
    """Return a distinct name of lower-case letters, digits and hyphens for each name.

    Examples
    --------
    >>> safe_names(["sparse:l1", "sparse l1", "../ü", "con"])
    {'sparse:l1': 'sparse-l1', 'sparse l1': 'sparse-l1-2', '../ü': 'unnamed', 'con': 'con-2'}
    """
    found: dict[str, str] = {}
    taken = set(_DEVICES)
    for name in names:
        if name in found:
            continue
        start = _OTHER.sub("-", name.lower())[:LONGEST].strip("-") or "unnamed"
        safe, number = start, 2
        while safe in taken:
            safe, number = f"{start}-{number}", number + 1
        taken.add(safe)
        found[name] = safe
    return found
