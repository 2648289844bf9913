"""Numbers in text files and in options of the command line."""

from __future__ import annotations


def parse_number(text: bytes | str) -> float:
    """Return the number that a text holds, or raise a ValueError.

    Unlike Python's ``float``, this refuses ``1_0`` and the digits of other scripts.

    Examples
    --------
    >>> parse_number("1e3"), parse_number(b"-0.5")
    (1000.0, -0.5)
    """
    if not text.isascii() or (b"_" if isinstance(text, bytes) else "_") in text:  # type: ignore[operator]
        raise ValueError(f"could not convert to a number: {text!r}")
    return float(text)
