"""Engines by name, and the errors if a machine cannot run one."""

from __future__ import annotations

import numpy as np
import pytest

from commandline import error_of
from linrank import (
    AdditiveRanker,
    AdditiveRankerCV,
    DataError,
    DominationRank,
    DominationRankCV,
    RankSVM,
    RankSVMCV,
    SparseRankSVM,
    SparseRankSVMCV,
    make_ranking,
    sparse_path,
)
from linrank.engines.engine import make_engine
from linrank.engines.threads import ThreadEngine
from linrank.losses import get_loss
from problems import PAPERS, make_problem_arrays

ESTIMATORS = [
    RankSVM, RankSVMCV, SparseRankSVM, SparseRankSVMCV, DominationRank, DominationRankCV,
    AdditiveRanker, AdditiveRankerCV,
]  # fmt: skip


@pytest.fixture
def without_the_extra(monkeypatch):
    monkeypatch.setattr("linrank.engines.engine.find_spec", lambda name: None)


@pytest.fixture
def without_a_card(monkeypatch):
    monkeypatch.setattr("linrank.engines.engine.find_spec", lambda name: "found")
    monkeypatch.setattr("linrank.engines.engine.has_card", lambda: False)


@pytest.mark.usefixtures("without_the_extra")
@pytest.mark.parametrize("engine", ["cuda", "cuda-streaming", "p-swx", "p-swx-paper"])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_without_the_extra(estimator, engine):
    data = make_ranking(random_state=0)
    extra = "cublas" if engine == "p-swx-paper" else "cuda"
    with pytest.raises(
        DataError, match=rf"^engine='{engine}' .* not installed: pip install 'linrank\[{extra}\]'"
    ):
        estimator(engine=engine).fit(data.X, data.y, data.qid)


@pytest.mark.usefixtures("without_the_extra")
def test_paths_without_the_extra():
    with pytest.raises(DataError, match="not installed"):
        sparse_path(make_ranking(random_state=0), engine="cuda")


@pytest.mark.usefixtures("without_a_card")
@pytest.mark.parametrize("command", ["train", "path"])
def test_without_a_card(command, letor):
    X, y, qid = make_problem_arrays("five levels")
    with pytest.raises(DataError, match="graphics card with its driver, and none was found"):
        RankSVM(C=1.0, engine="cuda", **PAPERS).fit(X, y, qid)
    files = letor / "train.txt", "--valid", letor / "vali.txt"
    for engine in ("cuda", "cuda-streaming", "p-swx", "p-swx-paper"):
        said = error_of(command, *files, "--engine", engine)
        assert said.startswith(f"engine='{engine}' needs an NVIDIA graphics card")
        assert said.rstrip().endswith("Use engine='threads'.")


def test_unknown_engine():
    with pytest.raises(DataError, match="engine is 'gpu'; known choices are 'threads', 'cuda'"):
        RankSVM(C=1.0, engine="gpu", **PAPERS).fit(np.eye(2), [0, 1])


def test_threads_are_the_default():
    data = make_ranking(random_state=0)
    engine = make_engine("threads", data, get_loss("huber"), "pairs", 2, counting="tables")
    assert type(engine) is ThreadEngine
    assert engine.counting == "tables"
