"""The interface of a layout: preference pairs in the form that one family of kernels reads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from .._checks import choice
from .._typing import Integers, Vector
from .names import NORMALIZATIONS


class Plan(Protocol):
    """The fields that the plans of all layouts share; a plan is a NamedTuple."""

    @property
    def query_ptr(self) -> Integers:
        """Query q has the rows ``query_ptr[q]:query_ptr[q + 1]``."""

    @property
    def query_weight(self) -> Vector:
        """The factor of the loss of each query."""

    @property
    def offset(self) -> Vector:
        """What is subtracted from each score before documents are compared; empty if nothing."""

    @property
    def query_nodes(self) -> Integers:
        """Query q has the nodes ``query_nodes[q]:query_nodes[q + 1]``: none if it has no pairs.

        What a node is depends on the layout.
        """

    def _replace(self, *, query_weight: Vector) -> Self: ...


class State(Protocol):
    """What a kernel derives from the scores and keeps for Hessian products."""

    @property
    def curvature(self) -> Vector:
        """The sum of the second derivatives of the pairs of each document."""


class Scratch(Protocol):
    """Buffers of one thread; each family of kernels has its own."""


@dataclass(frozen=True)
class Layout(ABC):
    """The pairs of all queries, in the form that one family of kernels reads.

    Attributes
    ----------
    counting : str
        The name of the algorithm that sums over the pairs.
    plan : Plan
        What the labels and the preferences decide, before any score is known.
    docs : uint32 array
        Documents that the kernels sort by score, counted from the first document of their query.
    mass : float64 array of shape (n_queries, 2)
        The number of pairs of each query, and the sum of their weights.
    lists_pairs : bool
        Whether each pair is stored by itself. Only such a layout accepts pairs that a user
        lists, and a pairwise loss that is not a table of hinges.
    weighs_pairs : bool
        Whether pairs of one query may differ in weight and margin, beyond weights and offsets
        of documents.
    """

    lists_pairs: ClassVar[bool] = False
    weighs_pairs: ClassVar[bool] = False

    counting: str
    plan: Plan
    docs: NDArray[np.uint32]
    mass: Vector

    @abstractmethod
    def make_state(self, n_hinges: int) -> State:
        """Allocate the state for a loss with that many hinges; kernels fill it from scores."""

    @abstractmethod
    def make_scratch(self, n: int) -> Scratch:
        """Allocate the buffers of one thread, for queries of up to n documents."""

    def sort_query(  # noqa: B027 (to sort nothing is the right default)
        self, q: int, scores: Vector, scratch: Scratch, n_threads: int
    ) -> None:
        """Sort the documents of query q by score, with several threads.

        The engine calls this for very large queries. The kernel, which runs on one thread, then
        finds the documents sorted. A layout whose kernels do not sort whole queries does nothing.
        """

    def total_weight(self) -> float:
        """Return the weight of all pairs, query weights included."""
        return float(self.plan.query_weight @ self.mass[:, 1])

    def normalized(self, normalize: str | None) -> Self:
        """Divide the query weights by the weight of the pairs.

        Parameters
        ----------
        normalize : {None, "pairs", "queries"}
            Whether to divide by nothing, by the weight of all pairs, or each query weight by the
            weight of the query's own pairs.
        """
        choice("normalize", normalize, (None, *NORMALIZATIONS))
        if normalize is None:
            return self
        weight, mass = self.plan.query_weight, self.mass[:, 1]
        if normalize == "pairs":
            total = self.total_weight()
            divided = weight / total if total > 0 else weight
        else:
            divided = np.divide(weight, mass, out=np.zeros_like(mass), where=mass > 0)
        return replace(self, plan=self.plan._replace(query_weight=divided))

    def with_own_documents(self) -> Self:
        """Copy the documents, so that two engines can sort them by different scores."""
        return replace(self, docs=self.docs.copy())
