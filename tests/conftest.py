"""Settings of all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# The same examples in every run: a failure must be one that can be seen again.
settings.register_profile("linrank", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("linrank")


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of the real data sets."""
    folder = os.environ.get("LINRANK_DATA")
    if not folder:
        pytest.skip("LINRANK_DATA is not set: it names a folder with MQ2007, MQ2008, a9a, reuters")
    return Path(folder)
