"""Training on a Dask cluster: the data stay on the workers, and only sums are sent.

This package needs ``pip install 'linrank[dask]'``; nothing outside of it imports Dask. Names are
imported when they are first used, because workers need few of them, and a worker that replaces a
lost one should start quickly.

- `estimator`, `training`, `metrics`: what users call
- `data`: `DaskData`, the data in the memory of the workers
- `engine`: `DaskEngine`, sums over the workers
- `sources`, `rows`, `queries`, `loading`: from files and collections to groups of whole queries
- `pool`, `wire`, `session`: connections to the workers, messages, and what a worker does with them
- `recipe`: the settings of an engine as plain data
- `clusters`: which cluster is used, and clusters that linrank starts
"""

from typing import TYPE_CHECKING

from .._lazy import lazy_names

try:
    import distributed  # noqa: F401
except ModuleNotFoundError as error:
    raise ImportError(
        f"linrank.dask needs Dask ({error}). Run pip install 'linrank[dask]'"
    ) from None

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

if not TYPE_CHECKING:  # type checkers report unknown names
    __getattr__ = lazy_names(__name__, _HOME)
