"""What the sparsity ratios of Laporte et al. 2014, table IV, depend on; data of LETOR 4.0."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from linrank import RankingData, evaluate, make_problem, read_letor
from linrank._util.types import Vector
from linrank.choices import NormalizeName, RuleName
from linrank.data.ranking import count_valued, sparsity_ratio
from linrank.penalties import L1, make_penalty
from linrank.problem import Problem
from linrank.solvers import Result, Reweighted
from linrank.training.selection import (
    Criterion,
    RegularizationPath,
    regularization_path,
    sparse_grid,
)

from .tools import Options, Section

N_FEATURES = 46
#: Sparsity ratios of Laporte et al. 2014, table IV.
PAPER_RATIO = {
    "MQ2008": {"l1": 0.39, "mcp": 0.27, "log": 0.09, "lp": 0.07},
    "MQ2007": {"l1": 0.60, "mcp": 0.19, "log": 0.29, "lp": 0.05},
}
LETOR_RATIO = 1e3  #: largest C / smallest C; at the largest, l1 selects over 4 of 5 features
CLOSE = 0.05  #: distance to the paper's ratio within which a grid counts as the paper's


def fold_file(name: str, fold: int, part: str) -> Path:
    """Return the file of a part of a fold; without the folder of data, the program ends."""
    if "LINRANK_DATA" not in os.environ:
        sys.exit("LINRANK_DATA must name the folder with MQ2007 and MQ2008")
    return Path(os.environ["LINRANK_DATA"], name, f"Fold{fold}", f"{part}.txt")


def read_fold(name: str, fold: int, part: str) -> RankingData:
    return read_letor(fold_file(name, fold, part), n_features=N_FEATURES)


@cache
def read_parts(name: str, fold: int, standardise: bool = False) -> list[RankingData]:
    """Read the training, validation and test part of a fold."""
    parts = [read_fold(name, fold, part) for part in ("train", "vali", "test")]
    if not standardise:
        return parts
    deviation = parts[0].X.std(axis=0)
    scale = np.where(deviation > 0, deviation, 1.0)
    return [RankingData(part.X / scale, part.y, part.qid) for part in parts]


def folds(options: Options) -> range:
    return range(1, 3 if options.quick else 6)


def measure(data: RankingData, coef: Vector) -> list[float]:
    """Return MAP and NDCG@10 of weights, in LETOR 4.0's conventions."""
    metrics = ["map", "ndcg@10"]
    return [*evaluate(data.y, data.X @ coef, data.qid, metrics, flavour="letor4").mean.values()]


# What the ratios depend on -----------------------------------------------------------------------


@dataclass
class Chained(Reweighted):
    """Reweighted l1 that begins with the tangents at the solution for the previous C.

    With l_p, a feature without a weight for one C has none for all later ones.
    """

    def _take(self, weights: Vector, keep: bool) -> Result:
        first = not keep and self.point.w.any()
        return super()._take(self._tangents() if first else weights, keep)


ALL = ("l1", "mcp", "log", "lp")
MCP, LP, BOTH = ("mcp",), ("lp",), ("mcp", "lp")
CHAIN = {"solver": Chained, "n": 9, "ratio": 40.0}
#: Settings by name: the penalties that they concern, and options of `chosen_weights`.
SETTINGS: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "grid to 1,000 ×": (ALL, {}),
    "grid to 100 ×": (ALL, {"reach": 1e2}),
    "grid to 10,000 ×": (ALL, {"reach": 1e4}),
    "C by NDCG@10": (ALL, {"metric": "ndcg@10"}),
    "rule 1se": (ALL, {"rule": "1se"}),
    "only weights above 10 % of the largest": (ALL, {"threshold": 0.1}),
    "features with standard deviation 1": (ALL, {"standardise": True}),
    "loss divided by queries": (MCP, {"normalize": "queries"}),
    "loss not divided": (MCP, {"normalize": None}),
    "γ = 20": (MCP, {"shape": 20.0}),
    "γ = 200": (MCP, {"shape": 200.0}),
    "p = 0.25": (LP, {"shape": 0.25}),
    "p = 0.75": (LP, {"shape": 0.75}),
    "one reweighting": (BOTH, {"solver": Reweighted, "max_iter": 2}),
    "chained, 10 × to 400 ×": (LP, {"start": 10.0} | CHAIN),
    "chained, 15 × to 600 ×": (LP, {"start": 15.0} | CHAIN),
    "chained, 20 × to 800 ×": (ALL, {"start": 20.0} | CHAIN),
    "chained, 30 × to 1,200 ×": (LP, {"start": 30.0} | CHAIN),
}


def bench_table_iv(options: Options) -> Section:
    """Measure the sparsity ratios for settings that the paper leaves open."""
    section = Section(
        "table-iv",
        "Settings against the sparsity ratios of Laporte et al. 2014, table IV",
        "The protocol of `letor` with 5 values of C per decade and one setting changed; means over "
        "the folds. `chained`: the reweighted problems for a C begin with the tangents at the "
        "solution for the previous C",
        ["set", "setting", "penalty", "sparsity ratio", "paper: ratio", "MAP", "NDCG@10"],
    )
    for name, (setting, (penalties, changed)) in product(PAPER_RATIO, SETTINGS.items()):
        for penalty in penalties:
            found = [chosen_weights(name, fold, penalty, **changed) for fold in folds(options)]
            mean = np.mean(found, axis=0)
            section.add(
                name, setting, penalty, f"{mean[2]:.2f}", f"{PAPER_RATIO[name][penalty]:.2f}",
                f"{mean[0]:.4f}", f"{mean[1]:.4f}", folds=found,
            )  # fmt: skip
    return section


def chosen_weights(
    name: str,
    fold: int,
    penalty: str,
    *,
    reach: float = LETOR_RATIO,
    metric: str = "map",
    rule: RuleName = "best",
    threshold: float = 0.0,
    **options: Any,
) -> list[float]:
    """Return MAP, NDCG@10 and sparsity ratio of one fold, for the C chosen from a path.

    Parameters
    ----------
    reach : float
        Values of C up to `reach` times the first are tried.
    metric, rule
        See `SparseRankSVMCV`.
    threshold : float
        Weights up to this part of the largest are not counted.
    **options
        Options of `letor_path`.
    """
    path = letor_path(name, fold, penalty, **options)
    train, valid, test = read_parts(name, fold, options.get("standardise", False))
    n = np.count_nonzero(path.Cs <= 1.01 * reach * path.Cs[0])
    tried = RegularizationPath(path.Cs[:n], path.coefs[:n], path.results[:n])
    values = tried.evaluate(valid, metric)
    criterion = Criterion(metric, rule=rule)
    best = Criterion(metric).choose(values, 0.0, tried.n_features)
    error = criterion.measure(valid, valid.X @ tried.coefs[best])[1]
    coef = tried.coefs[criterion.choose(values, error, tried.n_features)]
    counted = np.count_nonzero(np.abs(coef) > threshold * np.abs(coef).max())
    return [*measure(test, coef), float(sparsity_ratio(counted, count_valued(train.X)))]


@cache
def letor_path(
    name: str, fold: int, penalty: str, *, n: int = 31, start: float = 1.0, ratio: float = 1e6,
    shape: float | None = None, normalize: NormalizeName | None = "pairs",
    solver: type[Reweighted] | None = None, max_iter: int = 1000, standardise: bool = False,
) -> RegularizationPath:  # fmt: skip
    """Solve one fold for n values of C, from `start` times the first with which l1 selects."""
    train = read_parts(name, fold, standardise)[0]
    problem = make_problem(train, normalize=normalize, penalty=L1())
    assert isinstance(problem, Problem)
    grid = start * sparse_grid(problem, n, ratio)
    problem = problem.with_penalty(make_penalty(penalty, shape=shape).for_features(N_FEATURES))
    reweighted = None if solver is None or penalty == "l1" else solver(tol=1e-4, max_iter=max_iter)
    return regularization_path(problem, grid, tol=1e-4, solver=reweighted or "auto")


def bench_grids(options: Options) -> Section:
    """Measure the sparsity ratios for all parts of a long grid of C."""
    section = Section(
        "grids",
        "Grids of C against the sparsity ratios of Laporte et al. 2014, table IV",
        "Every grid of at least 3 values that is a part of 61 values of C, each 10^0.1 times the "
        "previous one, with a step of 1, 2, 5 or 10 values. The same grid serves all penalties. "
        "The smallest and the largest ratio over the grids with which the ratio of l1 is within "
        f"{CLOSE:g} of the paper's, and the grid with the smallest largest distance to the paper",
        ["set", "grids", "penalty", "smallest", "largest", "paper: ratio", "closest grid"],
    )
    for name, paper in PAPER_RATIO.items():
        paths = [[ratios_and_values(name, fold, one) for fold in folds(options)] for one in paper]
        ratios = np.array(
            [
                [np.mean([best_ratio(*fold, grid) for fold in path]) for path in paths]
                for grid in parts_of_grid(len(paths[0][0][0]))
            ]
        )
        goal = np.array(list(paper.values()))
        near = ratios[np.abs(ratios[:, 0] - goal[0]) <= CLOSE]
        closest = ratios[np.abs(ratios - goal).max(axis=1).argmin()]
        for k, penalty in enumerate(paper):
            section.add(
                name, f"{len(near)} of {len(ratios)}", penalty, f"{near[:, k].min():.2f}",
                f"{near[:, k].max():.2f}", f"{goal[k]:.2f}", f"{closest[k]:.2f}",
            )  # fmt: skip
    return section


def ratios_and_values(name: str, fold: int, penalty: str) -> tuple[Vector, Vector]:
    """Return the sparsity ratio, and MAP on the validation part, for 61 values of C."""
    train, valid, _ = read_parts(name, fold)
    path = letor_path(name, fold, penalty, n=61)
    values = np.where(path.n_features > 0, path.evaluate(valid, "map"), -1.0)
    return sparsity_ratio(path.n_features, count_valued(train.X)), values


def parts_of_grid(n: int) -> Iterator[slice]:
    """Yield all slices of n values with a step of 1, 2, 5 or 10 that hold at least 3."""
    for step in (1, 2, 5, 10):
        for first in range(n):
            for last in range(first + 2 * step, n, step):
                yield slice(first, last + 1, step)


def best_ratio(ratios: Vector, values: Vector, grid: slice) -> float:
    """Return the ratio at the best value of a part of the grid."""
    return float(ratios[grid][np.argmax(values[grid])])
