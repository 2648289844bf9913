"""Requests of search engines that fuse retrievers with learned weights, and plain Python."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .._util.checks import choice
from .._util.types import Vector
from .._version import __version__
from ..errors import DataError
from .normalizers import Normalizer, NormalizerName

WINDOW = 100  #: documents that an engine takes from each retriever; a larger window is slower


def write_request(
    target: str, weights: Mapping[str, float], normalizer: Normalizer, *, window: int = WINDOW
) -> str:
    """Return what an engine needs to fuse retrievers with these weights.

    A name in angle brackets stands where the query of this retriever belongs.

    Parameters
    ----------
    target : {"elasticsearch", "opensearch", "vespa", "weaviate", "qdrant", "python"}
    weights : dict of str to float
        The weight of each retriever. Those with the weight 0 are left out.
    normalizer : Normalizer
        The normaliser with which the weights were learned; it is an error if the engine has
        another one.
    window : int
        The number of documents that the engine takes from each retriever.

    Returns
    -------
    str

    Examples
    --------
    >>> text = write_request("weaviate", {"bm25": 1.0, "vector": 3.0}, Normalizer("minmax"))
    >>> print(text)
    {
      "hybrid": {
        "alpha": 0.75,
        "fusionType": "relativeScoreFusion"
      }
    }
    """
    choice("target", target, TARGETS)
    write, known = TARGETS[target]
    if normalizer.name not in known:
        raise DataError(
            f"{target} does not compute the normaliser {normalizer.name!r}. Learn the weights with "
            f"{' or '.join(map(repr, known))}"
        )
    used = {name: weight for name, weight in weights.items() if _short(weight) != 0}
    if target != "python" and min(used.values()) < 0:
        raise DataError(
            f"{target} takes no negative weights, but that of {min(used, key=lambda n: used[n])!r} "
            "is negative. Use weights='positive'"
        )
    found = write(weights if target == "weaviate" else used, normalizer, window)
    return found if isinstance(found, str) else json.dumps(found, indent=2)


def _elasticsearch(
    weights: Mapping[str, float], normalizer: Normalizer, window: int
) -> dict[str, Any]:
    parts = [
        {"retriever": f"<{name}>", "weight": _short(weight)} for name, weight in weights.items()
    ]
    if normalizer.name == "rrf":
        more: dict[str, Any] = {"rank_constant": _whole_k(normalizer)}
        return {"retriever": {"rrf": {"retrievers": parts, **more, "rank_window_size": window}}}
    name = {"none": "none", "minmax-elasticsearch": "minmax", "l2": "l2_norm"}[normalizer.name]
    linear = [{**part, "normalizer": name} for part in parts]
    return {"retriever": {"linear": {"retrievers": linear, "rank_window_size": window}}}


def _opensearch(
    weights: Mapping[str, float], normalizer: Normalizer, window: int
) -> dict[str, Any]:
    name = {"minmax-opensearch": "min_max", "l2": "l2", "zscore-opensearch": "z_score"}
    shares = _shares(weights)
    return {
        "description": f"sub-queries in this order: {', '.join(weights)}",
        "phase_results_processors": [
            {
                "normalization-processor": {
                    "normalization": {"technique": name[normalizer.name]},
                    "combination": {
                        "technique": "arithmetic_mean",
                        "parameters": {"weights": shares},
                    },
                }
            }
        ],
    }


def _vespa(weights: Mapping[str, float], normalizer: Normalizer, window: int) -> str:
    if normalizer.name == "rrf":
        form = f"reciprocal_rank({{}}, {normalizer.k:g})"
    else:
        form = "normalize_linear({})"
    terms = [f"{_short(weight)!r} * {form.format(name)}" for name, weight in weights.items()]
    total = "\n            + ".join(terms)
    return (
        "rank-profile fused inherits default {\n"
        "    global-phase {\n"
        f"        rerank-count: {window}\n"
        "        expression {\n"
        f"            {total}\n"
        "        }\n"
        "    }\n"
        "}\n"
    )


def _weaviate(weights: Mapping[str, float], normalizer: Normalizer, window: int) -> dict[str, Any]:
    if len(weights) != 2:
        raise DataError(
            f"weaviate fuses two retrievers, but there are {len(weights)}: first the keyword "
            "search, then the vector search"
        )
    rrf = normalizer.name == "rrf"
    if rrf and normalizer.k != 59:
        raise DataError(
            f"rankedFusion of weaviate has the rank constant 59, not {normalizer.k:g}. Use it"
        )
    alpha = _shares(weights)[1]
    kind = "rankedFusion" if rrf else "relativeScoreFusion"
    return {"hybrid": {"alpha": alpha, "fusionType": kind}}


def _qdrant(weights: Mapping[str, float], normalizer: Normalizer, window: int) -> dict[str, Any]:
    names = [f"$score[{place}]" for place in range(len(weights))]
    return {
        "prefetch": [{"query": f"<{name}>", "limit": window} for name in weights],
        "query": {
            "formula": {
                "sum": [
                    {"mult": [_short(weight), name]}
                    for name, weight in zip(names, weights.values(), strict=True)
                ]
            },
            "defaults": dict.fromkeys(names, 0.0),
        },
    }


_PYTHON = '''"""Written by linrank {version}."""

WEIGHTS = {weights}


def normalised(scores):
    """Return the normalised scores of one retriever: a dict by document."""
{body}


def fuse(results):
    """Return fused scores, given a dict of scores by document for each retriever."""
    fused = {{}}
    for retriever, scores in results.items():
        if scores and retriever in WEIGHTS:
            for doc, score in normalised(scores).items():
                fused[doc] = fused.get(doc, 0.0) + WEIGHTS[retriever] * score
    return fused
'''
_WIDTH = "    low, high = min(scores.values()), max(scores.values())\n"
_RANKED = "    ranked = sorted(scores, key=scores.get, reverse=True)\n"
_BODIES: dict[NormalizerName, str] = {
    "none": "    return scores",
    "minmax": _WIDTH + "    if low == high:\n        return dict.fromkeys(scores, 1.0)\n"
    "    return {doc: (s - low) / (high - low) for doc, s in scores.items()}",
    "l2": "    norm = sum(s * s for s in scores.values()) ** 0.5\n"
    "    return {doc: s / norm if norm else 0.0 for doc, s in scores.items()}",
    "rank": _RANKED
    + "    return {doc: 1.0 - place / len(ranked) for place, doc in enumerate(ranked)}",
    "rrf": _RANKED + "    return {doc: 1.0 / (K + place) for place, doc in enumerate(ranked, 1)}",
}  # fmt: skip


def _python(weights: Mapping[str, float], normalizer: Normalizer, window: int) -> str:
    body = _BODIES[normalizer.name].replace("K +", f"{normalizer.k:g} +")
    given = json.dumps({name: float(weight) for name, weight in weights.items()}, indent=4)
    return _PYTHON.format(version=__version__, weights=given, body=body)


def _short(weight: float) -> float:
    """Return a weight with 6 digits, which float32 of the engines can hold."""
    return float(f"{weight:.6g}")


def _shares(weights: Mapping[str, float]) -> list[float]:
    """Return weights whose sum is 1, as the engine demands, with 6 decimals."""
    values: Vector = np.array(list(weights.values()))
    shares: list[float] = (values / values.sum()).round(6).tolist()
    largest = int(np.argmax(shares))
    shares[largest] = round(1.0 - sum(shares[:largest] + shares[largest + 1 :]), 6)
    return shares


def _whole_k(normalizer: Normalizer) -> int:
    if normalizer.k != int(normalizer.k):
        raise DataError(
            f"the rank constant is {normalizer.k:g}; elasticsearch needs a whole number"
        )
    return int(normalizer.k)


#: The engines: what writes their requests, and the normalisers that they compute.
TARGETS: dict[str, tuple[Callable[..., dict[str, Any] | str], Sequence[NormalizerName]]] = {
    "elasticsearch": (_elasticsearch, ("minmax-elasticsearch", "l2", "none", "rrf")),
    "opensearch": (_opensearch, ("minmax-opensearch", "l2", "zscore-opensearch")),
    "vespa": (_vespa, ("minmax-vespa", "rrf")),
    "weaviate": (_weaviate, ("minmax", "rrf")),
    "qdrant": (_qdrant, ("none",)),
    "python": (_python, tuple(_BODIES)),
}
