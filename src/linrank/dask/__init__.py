"""Training on a Dask cluster: the data stay with the workers, only sums travel.

Needs ``pip install linrank[dask]``. Nothing outside of this package imports Dask. Names are loaded
when they are used: a worker, which starts anew when it is lost, needs few of them.
"""

import importlib
from typing import TYPE_CHECKING, Any

try:
    import distributed  # noqa: F401
except ModuleNotFoundError as error:
    raise ImportError(f"a Dask cluster needs pip install 'linrank[dask]' ({error})") from None

if TYPE_CHECKING:
    from .data import DaskData
    from .engine import DaskEngine
    from .estimator import DaskRankSVM
    from .metrics import evaluate
    from .training import DaskTrainer

_HOME = {
    "DaskData": "data",
    "DaskEngine": "engine",
    "DaskRankSVM": "estimator",
    "DaskTrainer": "training",
    "evaluate": "metrics",
}

__all__ = ["DaskData", "DaskEngine", "DaskRankSVM", "DaskTrainer", "evaluate"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value
    return value
