"""Campaign "problems": random losses, counting methods, solvers, weights and penalties.

Every fit is compared with `fuzz.optimum`. The objective that a solver reports must be that of its
weights. If a solver reports convergence, its objective must be as near the optimum as it claims.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

import reference
from linrank import DataError, RankingData
from linrank.choices import COUNTINGS
from linrank.counting.preferences import Preferences
from linrank.losses import get_loss
from linrank.penalties import make_penalty
from linrank.problem import Problem, make_problem
from linrank.solvers import SOLVERS, Result, Solver, Status, make_solver

from .campaign import Campaign, Case
from .optimum import TABLES, SlowProblem, solve

LOSSES = ("squared_hinge", "hinge", "huber", "logistic", "logistic_exact")
CONVEX = ("l1", "elastic_net")
CONCAVE = ("mcp", "scad", "log", "lp")
EXACT = 1e-9  #: relative error of a reported objective that rounding explains
PRECISE = 1e-6  #: relative distance to the optimum at which a fit may end with PRECISION
SLACK = 1e-8  #: relative error of the slow optimum that is accepted
FITS = 4  #: problems per case


class Drawn(NamedTuple):
    """A random problem, with the options of its solver."""

    data: dict[str, Any]
    C: float
    loss: str
    counting: str
    solver: str
    tol: float
    preferences: Preferences
    normalize: str | None
    penalty: str | None
    shape: float | None
    forms: str

    def __str__(self) -> str:
        rows, columns = self.data["X"].shape
        given = [name for name in self.data if name not in ("X", "y", "qid")]
        p = self.preferences
        return (
            f"{rows} × {columns} {self.forms}, C={self.C:.3g}, {self.loss}, {self.counting}, "
            f"{self.solver}, tol={self.tol:g}, pairs={p.pairs}, rescale={p.rescale}, "
            f"delta={p.delta}, normalize={self.normalize}, penalty={self.penalty}({self.shape}), "
            f"with {given}"
        )


# Drawing


def draw_data(rng: np.random.Generator) -> dict[str, Any]:
    """Return features with ties, offsets and scales, labels with few or many levels, weights."""
    n, d = int(rng.integers(4, 30)), int(rng.integers(1, 8))
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < rng.choice([0.4, 1.0]))
    X = np.round(X) if rng.random() < 0.3 else X
    X = X * 10.0 ** rng.uniform(-2, 2, d) if rng.random() < 0.3 else X
    X = X + rng.uniform(-1e3, 1e3, d) if rng.random() < 0.2 else X
    levels = rng.choice([2, 3, 5, 20])
    y = rng.standard_normal(n) if rng.random() < 0.1 else rng.integers(0, levels, n).astype(float)
    qid = rng.integers(0, rng.choice([1, 2, 4]), n)
    y[0], y[np.flatnonzero(qid == qid[0])[-1]] = 1.0, 0.0
    data: dict[str, Any] = {"X": X, "y": y, "qid": qid}
    if rng.random() < 0.3:
        data["sample_weight"] = rng.choice([0.0, 0.5, 1.0, 3.0], n, p=[0.1, 0.3, 0.3, 0.3])
    if rng.random() < 0.2:
        data["query_weight"] = rng.choice([0.5, 2.0], 4)[qid]
    if rng.random() < 0.15:
        data["propensity"] = rng.uniform(0.1, 1.0, n)
    if rng.random() < 0.15:
        data["margin"] = y * rng.uniform(0.5, 2.0)
    return data


def draw(rng: np.random.Generator) -> Drawn:
    """Return a random problem; linrank may refuse its combination of options."""
    data = draw_data(rng)
    rescale = (
        None if rng.random() < 0.6 or "margin" in data else str(rng.choice(["margin", "slack"]))
    )
    delta = str(rng.choice(["label", "label-squared", "gain", "dcg"])) if rescale else "label"
    penalty, kinds = None, ("l2",)
    if rng.random() < 0.3:
        penalty, kinds = str(rng.choice([*CONVEX, *CONVEX, *CONCAVE])), ("convex", "concave")
    fitting = [name for name, kind in SOLVERS.items() if set(kinds) & set(kind.needs.penalties)]
    solvers = ["auto", *(name for name in fitting if name != "coordinate-descent")]
    return Drawn(
        data=data,
        C=float(10.0 ** rng.uniform(-4, 4)),
        loss=str(rng.choice(LOSSES)),
        counting=str(rng.choice(COUNTINGS)) if rng.random() < 0.7 else "auto",
        solver=str(rng.choice(solvers)),
        tol=float(rng.choice([1e-3, 1e-6])),
        preferences=Preferences(str(rng.choice(["all", "all", "adjacent"])), rescale, delta),
        normalize=None if rng.random() < 0.6 else str(rng.choice(["pairs", "queries"])),
        penalty=penalty,
        shape=float(rng.uniform(0.2, 1.0)) if penalty == "elastic_net" else None,
        forms=str(rng.choice(["dense", "csr"])),
    )


# The same problem for linrank and for the slow optimum


def slow_problem(drawn: Drawn) -> SlowProblem:
    """List the pairs with their weights and margins, as the documentation defines them."""
    data, p = drawn.data, drawn.preferences
    X, y, qid = data["X"], data["y"], data["qid"]
    weight = data.get("sample_weight", np.ones(len(y)))
    query_weight = data.get("query_weight", np.ones(len(y)))
    kept = weight * query_weight > 0  # a document of weight 0 is removed
    X, y, qid, weight, query_weight = (a[kept] for a in (X, y, qid, weight, query_weight))
    propensity = data["propensity"][kept] if "propensity" in data else None
    list_pairs = reference.adjacent_pairs if p.pairs == "adjacent" else reference.preference_pairs
    pairs = list_pairs(y, qid)
    if not pairs:
        raise DataError("no pair")
    i, j = np.array(pairs).T
    c = reference.pair_weights(pairs, weight, query_weight, propensity)
    if p.rescale is not None:
        delta = deltas(p.delta, y, qid, i, j)
    margins = np.ones(len(pairs))
    if p.rescale == "slack":
        c = c * delta
    elif p.rescale == "margin":
        margins = np.sqrt(delta)
    if "margin" in data:
        margins = data["margin"][kept][i] - data["margin"][kept][j]
    if drawn.normalize == "pairs":
        c = c / c.sum()
    elif drawn.normalize == "queries":
        for q in set(qid[i].tolist()):
            mine = qid[i] == q
            c[mine] /= c[mine].sum() / (query_weight[i][mine][0])
    return SlowProblem(X[i] - X[j], drawn.C * c, margins, *_table_and_penalty(drawn, X.shape[1]))


def deltas(name: Any, y: Any, qid: Any, i: Any, j: Any) -> Any:
    """Return δ of each pair."""
    if name == "label":
        return y[i] - y[j]
    if name == "label-squared":
        return (y[i] - y[j]) ** 2
    gain = np.exp2(y[i]) - np.exp2(y[j])
    return gain if name == "gain" else gain * (discounts(y, qid)[i] - discounts(y, qid)[j])


def discounts(y: Any, qid: Any) -> Any:
    """Return the mean of 1/log₂(1 + r) over the ranks r of each label in the ideal ranking."""
    found = np.empty(len(y))
    for k in range(len(y)):
        mine = qid == qid[k]
        above, equal = int(np.sum(mine & (y > y[k]))), int(np.sum(mine & (y == y[k])))
        found[k] = np.mean(1.0 / np.log2(1.0 + np.arange(above + 1, above + equal + 1)))
    return found


def _table_and_penalty(drawn: Drawn, d: int) -> tuple[Any, Any, Any]:
    table: Any = TABLES.get(drawn.loss, drawn.loss)
    if drawn.loss == "logistic":  # the piecewise approximation is defined in linrank only
        table = [tuple(row) for row in get_loss("logistic").table.tolist()]
    l1, l2 = {"l1": (1.0, 0.0), "elastic_net": (drawn.shape, 1.0 - (drawn.shape or 0.0))}.get(
        drawn.penalty or "", (0.0, 1.0)
    )
    return table, np.full(d, l1), np.full(d, l2)


def prepare(drawn: Drawn) -> tuple[Solver, Problem]:
    """Return the solver and the problem of linrank."""
    X = sparse.csr_array(drawn.data["X"]) if drawn.forms == "csr" else drawn.data["X"]
    data = RankingData(**{**drawn.data, "X": X})
    penalty = None if drawn.penalty is None else make_penalty(drawn.penalty, drawn.shape)
    problem = make_problem(
        data, drawn.C, loss=drawn.loss, counting=drawn.counting, preferences=drawn.preferences,
        normalize=drawn.normalize, penalty=penalty, n_threads=1,
    )  # fmt: skip
    max_iter = 30 if drawn.solver == "reweighted-paper" else 300  # of 10,000 steps each
    solver = make_solver(
        drawn.solver, problem.engine.loss, penalty, tol=drawn.tol, max_iter=max_iter
    )
    return solver, problem


# Judging


def judge(case: Case, drawn: Drawn) -> None:
    """Solve a problem with linrank and with the slow method, and compare."""
    try:
        solver, problem = prepare(drawn)
        result = solver.solve(problem)
    except DataError:
        case.saw("refused")  # linrank does not support this combination of options
        return
    case.units += 1
    case.saw(result.status.name.lower())
    slow = slow_problem(drawn)
    concave = drawn.penalty in CONCAVE
    there = slow.value(result.coef) if not concave else None
    if not np.isfinite(result.coef).all():
        case.wrong(f"weights that are not finite: {drawn}")
    elif concave:
        judge_critical(case, drawn, result, problem)
    elif abs(there - result.objective) > EXACT * abs(there) + 1e-300:
        case.wrong(f"objective {result.objective!r} where it is {there!r}: {drawn}")
    else:
        judge_optimum(case, drawn, result, *solve(slow))


def judge_optimum(case: Case, drawn: Drawn, result: Result, best: float, bound: float) -> None:
    """Check the objective and the status against the slow optimum."""
    size = max(abs(best), 1e-300)
    if best - bound > max(SLACK, 0.01 * drawn.tol) * size:
        case.saw("slow optimum not proved")
    away = (result.objective - best) / size
    if away < -SLACK and result.objective < bound * (1 - SLACK):
        case.wrong(f"{-away:.1e} below the optimum {best!r}: {drawn}")
    if result.gap is None:
        case.saw("no certificate")
    elif result.objective * (1 - result.gap) > best + SLACK * size:
        case.wrong(f"gap {result.gap:.1e}, but the distance to {best!r} is {away:.1e}: {drawn}")
    claimed = {Status.CONVERGED: claim(drawn), Status.PRECISION: PRECISE}.get(result.status)
    if claimed is not None and away > claimed + SLACK:
        case.wrong(f"{result.status.name} {away:.1e} above the optimum {best!r}: {drawn}")


def claim(drawn: Drawn) -> float:
    """Return the relative distance to the optimum that a converged solver claims."""
    if drawn.solver.startswith("sgd"):
        return np.inf  # SGD does not estimate the distance
    return drawn.tol


def judge_critical(case: Case, drawn: Drawn, result: Result, problem: Any) -> None:
    """Check numerically that the weights with a concave penalty are a critical point."""
    if result.status not in (Status.CONVERGED, Status.CRITICAL):
        return
    base = problem.value_grad(result.coef)[0]
    if abs(base - result.objective) > EXACT * abs(base):
        case.wrong(f"objective {result.objective!r} where it is {base!r}: {drawn}")
    if drawn.solver == "fista":
        return  # without a duality gap, FISTA only claims a small gradient
    for f in np.flatnonzero(result.coef):
        step = 1e-4 * np.abs(result.coef[f])
        for sign in (-1.0, 1.0):
            near = result.coef.copy()
            near[f] += sign * step
            if problem.value_grad(near)[0] < base - max(drawn.tol, 1e-6) * abs(base):
                case.wrong(f"{result.status.name}, but feature {f} can be improved: {drawn}")


def run(case: Case) -> None:
    """Solve `FITS` problems."""
    for _ in range(FITS):
        judge(case, draw(case.rng))


CAMPAIGN = Campaign("problems", "problems", 1000, 5.0, run)
