"""Names of the conventions that metrics follow. Importing this module loads no other library."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

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
