"""Settings of the examples in docstrings and of all tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def no_open_figures() -> Iterator[None]:
    """Close the figures that an example or a test leaves open."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
