"""A page like those of studies: ``python tests/sample_page.py FILE`` writes it."""

from __future__ import annotations

import sys

import numpy as np

from linrank.plots import COLOURS, LINES, new_figure
from linrank.plots.result_plots import draw_bars, draw_distribution
from linrank.report.page import (
    Cell,
    Code,
    Details,
    Facts,
    Items,
    Page,
    Picture,
    Section,
    Table,
    svg_of,
    write_page,
)
from linrank.report.page import TableColumn as Column

METHODS = [
    "ranksvm", "ranksvm:loss=hinge", "logistic", "domination", "ranksvm:penalty=l1", "rankboost",
    "lambdamart", "coordinate-ascent", "listnet", "pamir:n_passes=20", "bm25", "random",
]  # fmt: skip
METRICS = ["ndcg@10", "ndcg@5", "map", "mrr", "p@10"]
N_QUERIES = 300
SVG = '<svg viewBox="0 0 9 2"><path id="a" d="M0 0h9v2z"/><use href="#a"/></svg>'
HOSTILE = '</script><img src=x onerror="alert(1)"> & _long_' + "x" * 120


def means(rng: np.random.Generator) -> Table:
    """12 methods × 10 columns: marks, empty cells, a text among numbers."""
    levels = np.linspace(0.55, 0.3, len(METHODS))[:, None] + rng.normal(0, 0.01, (12, 5))
    best = levels.argmax(axis=0)
    rows: list[list] = []
    for m, name in enumerate(METHODS):
        values = [
            Cell(v, strong=m == best[k], mark="†" if m > 5 else "") for k, v in enumerate(levels[m])
        ]
        p = None if m == 0 else 10.0 ** -rng.uniform(0, 6)
        rows.append([name, *values, levels[m, 0] - levels[0, 0], p, 10 ** rng.uniform(-3, 3), 46])
    rows[-2][1] = rows[-2][8] = "failed"
    rows[-1][1] = float("nan")
    columns = [
        Column("method"), *(Column(metric, "number") for metric in METRICS),
        Column("difference", "signed", help="Mean of ndcg@10, minus that of the first method."),
        Column("p", "p", help="Paired t-test over queries, corrected after Holm."),
        Column("time", "seconds", help="Median time of a fit."),
        Column("features", "count", help="Features with a weight."),
    ]  # fmt: skip
    note = "Bold: the best mean. † significantly worse than the first method (p < 0.05)."
    return Table("means", "Means over 5 folds", columns, rows, note)


def per_query(rng: np.random.Generator) -> Table:
    """300 rows with texts, counts and shares."""
    columns = [
        Column("query"), Column("fold"), Column("documents", "count"),
        Column("relevant", "percent"), *(Column(name, "number", 3) for name in METHODS[:4]),
    ]  # fmt: skip
    rows = [
        [f"q{q + 1}", f"Fold{q % 5 + 1}", rng.integers(5, 1500), *rng.uniform(0, 1, 5)]
        for q in range(N_QUERIES)
    ]
    rows[7][0] = HOSTILE
    return Table("per-query", "ndcg@10 of each query", columns, rows)


def settings() -> Table:
    """A short table, which has no filter."""
    rows = [
        ["C", "2^-12, 2^-11, …, 2^6, the best on the validation part of each fold"],
        ["folds", "MQ2007/Fold1, …, MQ2007/Fold5"],
        ["random_state", 0],
    ]
    return Table("settings", "Settings", [Column("setting"), Column("value")], rows)


def pictures(rng: np.random.Generator) -> list[Picture]:
    """Lines in all colours, bars with names, and distributions."""
    found = []
    with new_figure(3.6) as figure:
        ax = figure.subplots()
        for k, name in enumerate(METHODS[: len(COLOURS)]):
            values = 0.5 - 0.03 * k + rng.normal(0, 0.01, 5)
            style = {"color": COLOURS[k], "linestyle": LINES[k % len(LINES)], "marker": "o"}
            ax.plot(range(1, 6), values, markersize=3.5, label=name, **style)
        ax.set_xlabel("fold")
        ax.set_ylabel("mean ndcg@10")
        ax.locator_params(axis="x", integer=True)
        ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0)
        svg = svg_of(figure)
    alt = "Mean ndcg@10 of seven methods on five folds; ranksvm is the highest on every fold."
    found.append(Picture("folds", "ndcg@10 of each fold.", alt, svg))
    with new_figure(3.4) as figure:
        names, values = METHODS[1:9], -np.sort(rng.uniform(0, 0.2, 8))
        draw_bars(figure.subplots(), names, values.tolist(), title="", label="difference")
        svg = svg_of(figure)
    alt = "Differences of eight methods to the first one; all are negative."
    found.append(Picture("differences", "Differences to ranksvm in ndcg@10.", alt, svg))
    with new_figure(3.6) as figure:
        shares = {name: rng.beta(3 - k, 2, N_QUERIES) for k, name in enumerate(METHODS[:3])}
        draw_distribution(figure.subplots(), shares, "")
        svg = svg_of(figure)
    alt = "Shares of queries up to each value of ndcg@10, for three methods."
    found.append(Picture("distribution", "Distribution of ndcg@10 over queries.", alt, svg))
    return found


def make_page() -> Page:
    """A summary, tables, pictures, settings and commands."""
    rng = np.random.default_rng(0)
    folds, differences, distribution = pictures(rng)
    facts = [("methods", "12"), ("folds", "5"), ("queries", "1,692"), ("best ndcg@10", "0.5513")]
    summary = [
        Facts(facts),
        "ranksvm has the best mean of ndcg@10, 0.5513. Three other methods do not differ from it "
        "significantly.",
        Items(["5 folds of MQ2007 were used.", "1 of 60 fits failed: bm25 on Fold3."]),
    ]
    command = "linrank study MQ2007 --methods " + ",".join(METHODS) + " \\\n    --metric ndcg@10"
    return Page(
        "Methods on MQ2007",
        [
            Section("summary", "Summary", summary),
            Section("results", "Results", [means(rng), folds, differences]),
            Section("queries", "Queries", [distribution, per_query(rng)]),
            Section("settings", "Settings", [
                settings(),
                Details("All settings as JSON", [Code('{\n\t"C": 1\n}', "settings.json")]),
            ]),
            Section("repeat", "Repeat the study", [Code(command, "Command")]),
        ],
        lead="12 methods on 5 folds, compared by paired tests over 1,692 queries.",
        footer="linrank 0.1.0, Python 3.11.7, numpy 2.4.0",
    )  # fmt: skip


def page_of(text: str) -> Page:
    """A page in which a text is everywhere."""
    table = Table("t", text, [Column(text, help=text)], [[text], [Cell(1, text, mark=text)]], text)
    blocks = [
        text, Facts([(text, text)]), Items([text]), Code(text, text), table,
        Details(text, [text]), Picture("p", text, f"A picture: {text}", SVG),
    ]  # fmt: skip
    return Page(text, [Section("s", text, blocks)], lead=text, footer=text)


if __name__ == "__main__":
    write_page(sys.argv[1], make_page())
