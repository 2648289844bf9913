"""Type checkers find names that are written wrongly."""

from __future__ import annotations

import re

import pytest
from mypy import api

#: Lines that are wrong, each with the word that mypy must complain of, and lines that are right.
WRONG = {
    'RankSVM(loss="sqared")': "sqared",
    'RankSVM(solver="neuton")': "neuton",
    'RankSVM(counting="tabels")': "tabels",
    'RankSVM(normalize="querys")': "querys",
    'RankSVM(engine="gpu")': "gpu",
    'SparseRankSVM(penalty="l3")': "l3",
    'SparseRankSVM(solver=FISTA(step="papr"))': "papr",
    'DominationRank(levels="many")': "many",
    'ndcg([1, 0], [0.1, 0.2], flavour="letor")': "overload",
    "a: str = ndcg([1, 0], [0.1, 0.2])": "float",
    "c: float = ndcg([1, 0], [0.1, 0.2], per_query=True)": "ndarray",
    'rbp([1, 0], [0.1, 0.2], per_query=True, flavour="letor")': "overload",
    "r_precision([1, 0], [0.1, 0.2], k=3)": "overload",
    "spearman([1, 0], [0.1, 0.2], rel=2)": "overload",
}
RIGHT = (
    'RankSVM(loss="huber", solver=Newton(max_iter=50), bounds="positive")',
    'RankSVM(loss=PairwiseLoss("mine", [(1.0, 0.0, 1.0)]), bounds=(0.0, None))',
    'SparseRankSVM(penalty=L1(), solver=FISTA(step="paper"))',
    "b: float = ndcg([1, 0], [0.1, 0.2])",
    "rbp([1, 0], [0.1, 0.2], None, p=0.5, k=3, rel=2, per_query=True).tolist()",
    'round(auc([1, 0], [0.1, 0.2], average="queries", per_query=False), 3)',
)
IMPORTS = """
from linrank import DominationRank, RankSVM, SparseRankSVM, auc, ndcg, r_precision, rbp, spearman
from linrank.losses import PairwiseLoss
from linrank.penalties import L1
from linrank.solvers import FISTA, Newton
"""


@pytest.mark.slow
def test_mypy_finds_wrong_names(tmp_path):
    source = tmp_path / "user.py"
    lines = [*IMPORTS.splitlines(), *WRONG, *RIGHT]
    source.write_text("\n".join(lines) + "\n")
    said, _, _ = api.run([str(source), "--cache-dir", str(tmp_path / "cache"),
                          "--ignore-missing-imports"])  # fmt: skip
    found = {
        lines[int(number) - 1]: message
        for number, message in re.findall(r"user\.py:(\d+): error: (.*)", said)
    }
    assert set(found) == set(WRONG), said
    for line, word in WRONG.items():
        assert word in found[line]
