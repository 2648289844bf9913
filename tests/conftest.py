"""Settings of all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

import last_bits
from commandline import write_text
from linrank import make_ranking

# The same examples in every run: a failure must be one that can be seen again.
settings.register_profile("linrank", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("linrank")


def pytest_addoption(parser: pytest.Parser) -> None:
    help = "draw random numbers that are off by one unit in the last place"
    parser.addoption("--flip-last-bits", action="store_true", help=help)


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--flip-last-bits"):
        last_bits.install()


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of the real data sets."""
    folder = os.environ.get("LINRANK_DATA")
    if not folder:
        pytest.skip("LINRANK_DATA is not set: it names a folder with MQ2007, MQ2008, a9a, reuters")
    return Path(folder)


@pytest.fixture(scope="session")
def letor(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with train.txt, vali.txt and test.txt."""
    folder = tmp_path_factory.mktemp("letor")
    for seed, name in enumerate(("train.txt", "vali.txt", "test.txt")):
        data = make_ranking(12, (3, 9), 5, n_levels=3, noise=1.0, random_state=seed)
        write_text(folder / name, data)
    return folder


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
