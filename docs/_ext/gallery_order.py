"""The order of the pages of the gallery: from a first ranker to experts' questions."""

from __future__ import annotations

FIRST = (
    "first_ranker", "choose_c", "missing_scaling", "which_features", "explain_pair",
    "compare_rankers", "grid_search", "command_line", "export", "losses", "solvers", "sparse_path",
    "additive", "monotone", "auc", "huge_queries", "clicks", "preferences", "domination_topics",
)  # fmt: skip


def reading_order(file: str) -> tuple[int, str]:
    """Return the key by which scripts are sorted; others follow by name."""
    name = file.removeprefix("plot_").removesuffix(".py")
    return FIRST.index(name) if name in FIRST else len(FIRST), name
