"""Fusion: weights of several retrievers, learned from judgements.

- `read_retrieved`, `gather`: runs and judgements -> `Retrieved`
- `Normalizer`: the normalisers of search engines
- `fuse`: weights, and held-out quality beside standard rules -> `Fused`
- `read_clauses`, `Boosting`, `write_boosts`: boosts of clauses from logged scores
- `write_request`: weights as requests of search engines
"""

from .boosts import Boosting, read_clauses, write_boosts
from .fused import Certainty, Fused, Fusion, Rule, fuse
from .normalizers import Normalizer
from .requests import write_request
from .retrieved import Retrieved, gather, read_retrieved

__all__ = [
    "Boosting",
    "Certainty",
    "Fused",
    "Fusion",
    "Normalizer",
    "Retrieved",
    "Rule",
    "fuse",
    "gather",
    "read_clauses",
    "read_retrieved",
    "write_boosts",
    "write_request",
]
