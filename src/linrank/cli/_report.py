"""Reports on data, training and metrics, for people and as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .._text import count, format_C
from ._console import format_mean, grid, plain

if TYPE_CHECKING:
    from rich.table import Table

    from ..data.ranking import RankingData
    from ..metrics import Evaluation
    from ..solvers import Result
    from ..training import Trainer, Training

BAR_WIDTH = 30  #: columns of the longest bar
LISTED_WEIGHTS = 5  #: weights of a sparse ranker that a report lists


def data_line(path: Path, data: RankingData, training: Training | None = None) -> str:
    """Return one line on data. For training data, it includes pairs and levels.

    Data with listed pairs have no levels. Their queries are the connected components of the pairs.
    """
    form = "sparse" if data.is_sparse else "dense"
    listed = getattr(data, "pairs", None) is not None
    groups = ("connected component",) if listed else ("query", "queries")
    text = (
        f"{path}: {count(data.n_docs, 'document')}, {count(data.n_queries, *groups)}, "
        f"{count(data.n_features, 'feature')} ({form} {data.dtype})"
    )
    if training is None:
        return text
    text += f", {count(training.n_pairs, 'pair')}"
    if listed:
        return text
    text += f", {count(training.n_levels, 'level')}"
    if training.n_empty_queries:
        without = count(training.n_empty_queries, "query", "queries")
        text += f"; {without} without pairs skipped"
    return text


def data_json(path: Path, data: RankingData, training: Training | None = None) -> dict[str, object]:
    """Return the content of `data_line` as JSON."""
    content = {
        "file": str(path),
        "documents": data.n_docs,
        "queries": data.n_queries,
        "features": data.n_features,
        "form": "csr" if data.is_sparse else "dense",
        "dtype": str(data.dtype),
    }
    if training is not None:
        content["pairs"] = training.n_pairs
        content["levels"] = training.n_levels
        content["queries_without_pairs"] = training.n_empty_queries
    return content


def result_json(result: Result) -> dict[str, object]:
    """Return the outcome of a solver as JSON."""
    return {
        "status": result.status.name.lower(),
        "converged": result.converged,
        "message": result.message,
        "objective": result.objective,
        "gradient_norm": result.gradient_norm,
        "duality_gap": result.gap,
        "iterations": result.n_iter,
        "hessian_products": result.n_products,
        "seconds": result.seconds,
    }


def path_table(trainer: Trainer, training: Training) -> Table:
    """Return a table of the solutions for a grid of C, with the best and the chosen C marked."""
    assert training.path is not None
    assert training.values is not None
    columns = ["C", "features", "objective", "iterations", "products", "seconds"]
    table = grid([*columns, trainer.criterion.metric, ""], left=[""])
    values = training.values[: len(training.path)]
    best = training.path.Cs[trainer.criterion.best(values)]
    for C, value, result in zip(training.path.Cs, values, training.path.results, strict=True):
        mark = "best" if best == C else "chosen" if training.C == C else ""
        if not result.converged:
            mark = f"{mark}, not converged" if mark else "not converged"
        table.add_row(
            format_C(C), str(training.count_features(result.coef)), f"{result.objective:.5e}",
            str(result.n_iter),
            str(result.n_products), f"{result.seconds:.2f}", format_mean(value),
            mark, style="bold green" if training.C == C else None,
        )  # fmt: skip
    return table


def path_json(training: Training) -> list[dict[str, object]]:
    """Return the content of `path_table` as JSON."""
    assert training.path is not None
    assert training.values is not None
    values = training.values[: len(training.path)].tolist()
    return [
        {
            "C": C,
            "mean": value,
            "features": training.count_features(result.coef),
            **result_json(result),
        }
        for C, value, result in zip(
            training.path.Cs.tolist(), values, training.path.results, strict=True
        )
    ]


def evaluation_table(found: Evaluation) -> Table:
    """Return a table with the mean of each metric and its number of queries."""
    table = grid(["metric", "mean", "queries", "skipped"], left=["metric"])
    for name, mean in found.mean.items():
        skipped = found.n_skipped[name]
        table.add_row(name, format_mean(mean), f"{found.n_queries - skipped:,}", f"{skipped:,}")
    return table


def bar_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], bars: Sequence[float]
) -> Table:
    """Return a table with a bar for a number of each row: blue, or red if it is negative."""
    from rich.bar import Bar

    table = grid([*columns, ""], left=[columns[0], ""])
    bars = [size if math.isfinite(size) else 0.0 for size in bars]  # a sum may have overflowed
    longest = max(map(abs, bars), default=0.0) or 1.0
    for row, size in zip(rows, bars, strict=True):
        bar = Bar(longest, 0.0, abs(size), width=BAR_WIDTH, color="red" if size < 0 else "blue")
        table.add_row(*map(plain, row), bar)
    return table


def selected(trainer: Trainer, training: Training) -> list[tuple[str, str]]:
    """Return a line on the selected features of a sparse ranker; other rankers have none."""
    if not trainer.penalty.selects:
        return []
    model = training.model
    n = len(model.used)
    text = f"{n} of {model.n_features} selected"
    if n:
        text += "; the largest: " if n > LISTED_WEIGHTS else ": "
        text += ", ".join(f"{name} {w:.3g}" for name, w in model.largest(min(n, LISTED_WEIGHTS)))
    return [("features", text)]


def compared(
    trainers: Sequence[Trainer], trainer: Trainer, training: Training
) -> list[tuple[str, str]]:
    """Return lines on the chosen penalty and margin, and on a model that is a mean of fits."""
    lines, names = [], list(dict.fromkeys(one.penalty.name for one in trainers))
    if len(names) > 1:
        lines.append(("penalty", f"{trainer.penalty.name}, the best of {', '.join(names)}"))
    scales = dict.fromkeys(
        f"{one.margin_scale:g}" for one in trainers if one.margin_scale is not None
    )
    if len(scales) > 1:
        lines.append(("margin", f"scale {trainer.margin_scale:g}, the best of {', '.join(scales)}"))
    n_fits = training.model.training.get("averaged_fits")
    if n_fits is not None:
        lines.append(("average", f"the model is the mean of {n_fits} of the best fits"))
    return lines


def chosen(trainer: Trainer, training: Training, where: str) -> str:
    """Return a text with C and the criterion that it was chosen by."""
    text = format_C(training.C)
    if training.value is None:
        return text
    criterion = trainer.criterion
    measured = f"{criterion.metric} {format_mean(training.value)} {where} ({criterion.flavour})"
    if training.values is None:
        return f"{text}: {measured}"
    how = "" if criterion.rule == "best" else "the sparsest within one standard error of "
    edge = "" if training.edge is None else f", the {training.edge} that was tried"
    return f"{text}, {how}the best of {len(training.values)}{edge}: {measured}"
