"""Names that options accept, for Python and the command line.

This module loads no other library, so that the command line starts fast.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

# --------------------------------------------------------------------------------------------------
# Names of the countings and of the settings for pairs, importable at no cost.
#
# The command line builds its choices from these tuples before it imports numpy or numba.


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


# --------------------------------------------------------------------------------------------------
# Names of the engines, importable at no cost.


#: Where the loss is computed. Engine "threads" uses the processor. Engine "cuda" uses a graphics
#: card that holds X in its memory. Engine "cuda-streaming" copies X to the graphics card in parts,
#: for every product. Engine "p-swx" uses a graphics card, with the pair sums of Jin & Lin 2014.
#: Engine "p-swx-paper" also has their float32 and the products of a library.
EngineName: TypeAlias = Literal["threads", "cuda", "cuda-streaming", "p-swx", "p-swx-paper"]

ENGINES: tuple[EngineName, ...] = get_args(EngineName)


# --------------------------------------------------------------------------------------------------
# Names of steps of preprocessing and of bases, as types for checkers and for the command line.


#: What is done to features; "auto" stands for "standard" if X is dense, and for "common" otherwise.
ScaleName = Literal["auto", "standard", "minmax", "robust", "maxabs", "common", "query", "both"]
MissingName = Literal["zero", "median", "indicator"]
BasisName = Literal["ramp", "step", "spline"]
EndsName = Literal["flat", "linear"]

SCALES: tuple[ScaleName, ...] = get_args(ScaleName)
MISSING: tuple[MissingName, ...] = get_args(MissingName)
BASES: tuple[BasisName, ...] = get_args(BasisName)
ENDS: tuple[EndsName, ...] = get_args(EndsName)


# --------------------------------------------------------------------------------------------------
# Names of the conventions that metrics follow. Importing this module loads no other library.


FlavourName: TypeAlias = Literal["standard", "letor3", "letor4", "mslr", "trec"]
GainName: TypeAlias = Literal["exp2", "linear"]
DiscountName: TypeAlias = Literal["log2", "letor"]
TieName: TypeAlias = Literal["average", "stable", "pessimistic", "optimistic", "docno"]
PairAverageName: TypeAlias = Literal["pairs", "queries"]
DominationAverageName: TypeAlias = Literal["queries", "documents"]
#: How C is chosen by the values of a metric: the best, or the sparsest within one standard error.
RuleName: TypeAlias = Literal["best", "1se"]

FLAVOURS: tuple[FlavourName, ...] = get_args(FlavourName)
GAINS: tuple[GainName, ...] = get_args(GainName)
DISCOUNTS: tuple[DiscountName, ...] = get_args(DiscountName)
TIES: tuple[TieName, ...] = get_args(TieName)
PAIR_AVERAGES: tuple[PairAverageName, ...] = get_args(PairAverageName)
RULES: tuple[RuleName, ...] = get_args(RuleName)
DOMINATION_AVERAGES: tuple[DominationAverageName, ...] = get_args(DominationAverageName)
