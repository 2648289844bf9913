"""The rules of AdaRank on MQ2007 and MQ2008; a section of `benchmarks.domination`."""

from __future__ import annotations

from itertools import product

import numpy as np

from linrank import evaluate
from linrank.baselines import AdaRank

from .sparse_letor import read_parts
from .tools import Options, Section

SETS = ("MQ2007", "MQ2008")


def bench_adarank(options: Options) -> Section:
    """Measure the rules on the validation parts, which decide the defaults, and on the test parts.

    Each row is a plain fit, so the number of rounds is chosen on the training part.
    """
    section = Section(
        "adarank",
        "The rules of AdaRank on MQ2007 and MQ2008",
        "NDCG@10 in LETOR 4.0's conventions, means over the five folds",
        ["boosts", "update", "patience", "max_consecutive",
         *(f"{name} {part}" for name in SETS for part in ("validation", "test")),
         "mean validation"],
    )  # fmt: skip
    folds = range(1, 2 if options.quick else 6)
    for metric, update, patience, most in product(
        ("ndcg@10", "map"), ("literal", "cumulative"), (1, 5, 10, 20), (1, None)
    ):
        rules = {"update": update, "patience": patience, "max_consecutive": most}
        found = np.array(
            [[_held_out(AdaRank(metric, **rules), name, fold) for fold in folds] for name in SETS]
        ).mean(axis=1)
        texts = [f"{value:.4f}" for value in (*found.ravel(), found[:, 0].mean())]
        section.add(metric, *map(str, rules.values()), *texts, values=found.tolist())
    return section


def _held_out(ranker: AdaRank, name: str, fold: int) -> list[float]:
    """Return NDCG@10 on the validation part and on the test part of a fold."""
    train, *parts = read_parts(name, fold)
    ranker.fit(train.X, train.y, train.qid)
    return [
        evaluate(d.y, ranker.predict(d.X), d.qid, ["ndcg@10"], flavour="letor4").mean["ndcg@10"]
        for d in parts
    ]
