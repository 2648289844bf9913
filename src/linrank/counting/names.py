"""Names of the countings and of the settings for pairs, importable at no cost.

The command line builds its choices from these tuples before it imports numpy or numba.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

#: An algorithm that sums over preference pairs; "auto" chooses one for the data at hand.
CountingName: TypeAlias = Literal[
    "auto",
    "tables",
    "explicit",
    "two-level",
    "direct",
    "selection-tree",
    "fenwick",
    "red-black",
    "avl",
    "aa",
    "red-black-by-score",
]

#: Which levels of a query are compared: every two, or neighbouring ones only.
PairsName: TypeAlias = Literal["all", "adjacent"]

#: What δ of a pair changes: the margin that is asked for, or the weight of the loss.
RescaleName: TypeAlias = Literal["margin", "slack"]

#: Formulas for δ of a pair.
DeltaName: TypeAlias = Literal["label", "label-squared", "gain", "dcg"]

#: What the loss is divided by: the weight of all pairs, or for each query that of its own pairs.
NormalizeName: TypeAlias = Literal["pairs", "queries"]

COUNTINGS: tuple[CountingName, ...] = get_args(CountingName)
PAIRS: tuple[PairsName, ...] = get_args(PairsName)
RESCALES: tuple[RescaleName, ...] = get_args(RescaleName)
DELTAS: tuple[DeltaName, ...] = get_args(DeltaName)
NORMALIZATIONS: tuple[NormalizeName, ...] = get_args(NormalizeName)
