"""Settings of all tests."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

import last_bits
from commandline import write_text
from linrank import make_ranking

# The same examples in every run: a failure must be one that can be seen again.
settings.register_profile("linrank", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("linrank")

# Tests that take seconds without compilation. Coverage is not measured in them, because it would
# double their time. The other tests still reach 98 % or more of `counting`, `losses` and `metrics`.
LONG_WITHOUT_COMPILATION = {
    "test_a_heavy_document_with_active_pairs",
    "test_a_query_of_many_levels",
    "test_damaged_text_is_read_as_by_the_twin_or_refused",
    "test_domination_error_against_all_pairs",
    "test_large_queries_are_sampled_by_document",
    "test_long_lines_do_not_add_up",
    "test_memory_is_bounded_by_the_size_of_the_file",
    "test_numbers_are_those_of_python",
    "test_pairs_that_leave_their_margin_do_not_hide_the_optimum",
    "test_pairwise_accuracy_against_all_pairs",
    "test_raw_features_are_solved_to_the_optimum_by_newton",
    "test_reads_what_the_twin_reads",
    "test_sampled_preconditioner_reaches_the_same_optimum",
    "test_threads_and_chunks_change_nothing",
    "test_what_is_written_is_read_back_bit_for_bit",
    "test_who_claims_the_optimum_is_there",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    help = "draw random numbers that are off by one unit in the last place"
    parser.addoption("--flip-last-bits", action="store_true", help=help)


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--flip-last-bits"):
        last_bits.install()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if getattr(item, "originalname", None) in LONG_WITHOUT_COMPILATION:
            item.add_marker("no_cover")


@pytest.fixture(autouse=True, scope="session")
def no_frozen_objects() -> Iterator[None]:
    """Commands that run in the process of the tests do not freeze its objects.

    `gc.get_referrers` does not see frozen objects. hypothesis would warn that its random numbers
    belong to nobody.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gc, "freeze", lambda: None)
        yield


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
