"""Tables and figures of Stevens, Bengio & Singer 2013, Domination Rank."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from scipy.stats import rankdata

from benchmarks.domination import LETOR_METRICS, LETOR_RANKERS, SETS, measure_fold, text_like
from benchmarks.domination_pamir import BINARY, METHODS, Found, run_method
from benchmarks.tools import Options, Section, Sections
from benchmarks.topic_collections import (
    Part,
    Split,
    cut,
    generated_images,
    reuters_splits,
    reuters_topic,
)

from .sections import GENERATED
from .stevens2013_descent import section_descent

TITLE = "Stevens, Bengio & Singer 2013: Efficient learning of sparse ranking functions"
ABOUT = (
    "Tables 1.1 to 1.3 and the algorithm of figure 1.1 beside the figures that linrank finds. The "
    "paper has no other tables or figures. "
    "[The page of the paper](../stevens2013.md) says what it proposes."
)

# Table 1.1 -------------------------------------------------------------------------------------

#: Published average ranks over eight sets: NDCG@5, NDCG@10 and precision@10, as in LETOR_METRICS.
TABLE_1_1 = {
    "Domination Rank, multi-valued": (3.12, 3.62, 3.25),
    "Domination Rank, base": (3.38, 3.38, 3.12),
    "Domination Rank, margin": (3.62, 2.75, 2.38),
    "AdaRank, NDCG@10": (4.12, 4.12, 4.00),
    "AdaRank, MAP": (3.38, 3.62, 4.38),
    "RankBoost": (3.38, 3.38, 3.12),
}


def section_letor(options: Options) -> Section:
    """Compare the average ranks of six rankers with table 1.1."""
    section = Section(
        "letor",
        "Table 1.1: average ranks on LETOR",
        "Average rank among the six rankers; lower is better. Published ranks are over eight LETOR "
        "sets, which the paper does not name. Ours are over the folds of MQ2007 and MQ2008, ± the "
        "standard error, in the conventions of LETOR 4.0. C, the number of rounds and the scale of "
        "the margin have the best NDCG@10 on the validation part",
        ["ranker", *(f"{what} {metric}" for metric in ("NDCG@5", "NDCG@10", "P@10")
                     for what in ("published", "linrank")), "mean NDCG@10"],
    )  # fmt: skip
    folds = [(name, fold) for name in SETS for fold in ((1,) if options.quick else range(1, 6))]
    values = np.array([
        [measure_fold(LETOR_RANKERS[ranker], *place) for place in folds] for ranker in TABLE_1_1
    ])  # ranker, fold, metric  # fmt: skip
    ranks = np.array([[rankdata(-column) for column in fold.T] for fold in values.swapaxes(0, 1)])
    error = ranks.std(axis=0) / np.sqrt(len(folds))
    for k, (ranker, published) in enumerate(TABLE_1_1.items()):
        own = ranks[:, :, k].mean(axis=0)
        cells = [
            text
            for m in range(3)
            for text in (f"{published[m]:.2f}", f"{own[m]:.2f} ± {error[m, k]:.2f}")
        ]
        mean = values[k, :, LETOR_METRICS.index("ndcg@10")].mean()
        section.add(
            ranker,
            *cells,
            f"{mean:.4f}",
            ranker=ranker,
            published=published,
            ranks=own.tolist(),
            ndcg=mean,
        )
    spread = np.ptp(
        [row["ndcg"] for row in section.numbers if row["ranker"].startswith("Domination")]
    )
    section.notes.append(
        "The paper calls its ranks not conclusive. The parts of LETOR's folds rotate, so folds are "
        "not independent sets, and the standard errors are too small."
    )
    section.aim(
        "the three variants of Domination Rank are similar, as in the paper: within 0.01 NDCG@10",
        f"{spread:.4f}",
        spread <= 0.01,
    )
    return section


# Tables 1.2 and 1.3 ----------------------------------------------------------------------------

#: Average precision, precision@10, domination error, all-pairs error and zero weights in percent.
TABLE_1_2 = {
    "PAMIR": (0.051, 0.080, 0.964, 0.234, 3.4),
    "Domination Rank, base, l2": (0.050, 0.073, 0.964, 0.213, 1.4),
    "Domination Rank, base, l1": (0.050, 0.073, 0.963, 0.237, 94.3),
    "Domination Rank, multi-valued, l1": (0.050, 0.073, 0.964, 0.235, 93.4),
    "Domination Rank, margin, l1": (0.050, 0.073, 0.964, 0.236, 93.2),
}
TABLE_1_3 = {
    "PAMIR": (0.705, 0.915, 0.974, 0.014, 78.1),
    "Domination Rank, base, l1": (0.670, 0.918, 0.976, 0.024, 98.8),
}
COLUMNS = ["collection", "method", "average precision", "precision@10", "domination error",
           "all-pairs error", "zero weights"]  # fmt: skip
PROTOCOL = (
    "Mean over the topics ± its standard error; published figures are in parentheses. Each topic "
    "has weights of its own. One half of the documents is training data, a quarter is validation "
    "data, and a quarter is test data, as in §1.5. Average precision on validation data chooses C, "
    "the number of passes of PAMIR and the scale of the margin"
)


def section_images(options: Options) -> Section:
    """Compare PAMIR with the variants of Domination Rank on generated images: table 1.2."""
    n, d, n_topics = (800, 150, 3) if options.quick else (4_000, 1_000, 10)
    section = Section(
        "images",
        "Table 1.2: image ranking",
        f"{GENERATED}, scaled down: {n:,} images with {d:,} features of 2 % density instead of 2.7 "
        f"million with 10,000, {n_topics} topics instead of 1,000, and counts of clicks as "
        f"feedback. {PROTOCOL}",
        COLUMNS,
    )
    found = _compare(section, "generated", generated_images(n, d, n_topics), TABLE_1_2, options)
    _aim_at_sparsity(section, found)
    base = found["Domination Rank, base, l1"].per_query("map").mean()
    worst = max(
        abs(found[f"Domination Rank, {name}, l1"].per_query("map").mean() - base)
        for name in ("multi-valued", "margin")
    )
    section.aim(
        "neither levels nor margins change average precision by more than 0.02, as in the paper",
        f"{worst:.3f}",
        worst <= 0.02,
    )
    section.notes.append(
        "The published values are those of another collection: only the order of the methods and "
        "the zero weights can be compared. On the generated images, 3 % of the features matter by "
        "construction, which favours l1."
    )
    return section


def section_documents(options: Options) -> Section:
    """Compare PAMIR with Domination Rank on documents: table 1.3."""
    n, d, n_topics = (800, 300, 3) if options.quick else (9_000, 6_000, 6)
    section = Section(
        "documents",
        "Table 1.3: document ranking",
        f"{GENERATED}, scaled down: {n:,} text-like documents of {d:,} words instead of 800,000, "
        f"and {n_topics} topics instead of 101. A topic of Reuters, corporate acquisitions, is "
        f"real: its training file is cut into training and validation data. {PROTOCOL}",
        COLUMNS,
    )
    found = _compare(section, "text-like", _text_splits(n, d, n_topics), TABLE_1_3, options)
    _compare(section, "Reuters, one topic", reuters_topic(), TABLE_1_3, options)
    _compare(
        section, "Reuters-21578", reuters_splits(3 if options.quick else 6), TABLE_1_3, options
    )
    _aim_at_sparsity(section, found)
    errors = [found[name].per_query("all-pairs-error").mean() for name in TABLE_1_3]
    section.aim(
        "PAMIR, whose loss is pairwise, misorders fewer pairs, as in the paper",
        f"{errors[0]:.4f} and {errors[1]:.4f}",
        errors[0] < errors[1],
    )
    section.notes.append(
        "RCV1 is not at hand, so the published values cannot be checked. They are those of another "
        "collection: only the order of the methods and the zero weights can be compared."
    )
    return section


def _text_splits(n: int, d: int, n_topics: int) -> Iterable[Split]:
    X, Y = text_like(n, d, n_topics)
    learn, valid, test = (Part(X[rows], Y[rows], Y[rows]) for rows in cut(n))
    yield learn, valid, test


def _compare(
    section: Section, name: str, splits: Iterable[Split],
    published: dict[str, tuple[float, ...]], options: Options,
) -> dict[str, Found]:  # fmt: skip
    """Add a row for each method of a table; a collection that is missing adds a note."""
    results: dict[str, Found] = {}
    parts = list(splits)
    if not parts:
        section.notes.append(f"{name} is not in LINRANK_DATA and was left out.")
        return results
    for method, figures in published.items():
        found = results[method] = Found()
        for split in parts:
            run_method(METHODS[method], split, found, options.threads)
        zero = 100.0 * float(np.mean(found.zero))
        cells = [_cell(found.per_query(metric), figure)
                 for metric, figure in zip(BINARY, figures, strict=False)]  # fmt: skip
        section.add(
            name, method, *cells, f"{zero:.1f} % ({figures[-1]:.1f} %)", method=method, zero=zero,
            values={metric: float(np.nanmean(found.per_query(metric))) for metric in BINARY},
            published=figures, seconds=found.seconds,
        )  # fmt: skip
    return results


def _cell(values: np.ndarray, published: float) -> str:
    values = values[~np.isnan(values)]
    error = f" ± {values.std(ddof=1) / np.sqrt(len(values)):.3f}" if len(values) > 1 else ""
    return f"{values.mean():.3f}{error} ({published:.3f})"


def _aim_at_sparsity(section: Section, found: dict[str, Found]) -> None:
    """Add the main statement of §1.5: l1 gives sparse weights, and l2 and PAMIR do not."""
    sparse = min(np.mean(own.zero) for name, own in found.items() if name.endswith("l1"))
    dense = max(np.mean(own.zero) for name, own in found.items() if not name.endswith("l1"))
    section.aim(
        "l1 leaves at least 90 % of the weights 0, and the others leave fewer, as in the paper",
        f"{sparse:.1%} with l1, and at most {dense:.1%} without",
        sparse >= 0.9 and dense < sparse,
    )


SECTIONS: Sections = {
    "letor": section_letor,
    "images": section_images,
    "documents": section_documents,
    "descent": section_descent,
}
