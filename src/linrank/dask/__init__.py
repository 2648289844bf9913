"""Training on a Dask cluster: the data stay on the workers, and only sums are sent.

This package needs ``pip install 'linrank[dask]'``; nothing outside of it imports Dask. Names are
imported when they are first used, because workers need few of them, and a worker that replaces a
lost one should start quickly.

- `estimator`: what users call
- `dask_data`: `DaskData`, the data in the memory of the workers
- `dask_engine`: `DaskEngine`, sums over the workers
- `sources`: from files and collections to groups of whole queries
- `pool`, `session`: connections to the workers, and what a worker does with their messages
- `clusters`: which cluster is used, and clusters that linrank starts
"""

from typing import TYPE_CHECKING

from .._util.lazy import lazy_names

try:
    import distributed  # noqa: F401
except ModuleNotFoundError as error:
    raise ImportError(
        f"linrank.dask needs Dask ({error}). Run pip install 'linrank[dask]'"
    ) from None

if TYPE_CHECKING:
    from .dask_engine import DaskData, DaskEngine
    from .estimator import DaskRankSVM, DaskTrainer, evaluate

_HOME = {
    "DaskData": "dask_engine",
    "DaskEngine": "dask_engine",
    "DaskRankSVM": "estimator",
    "DaskTrainer": "estimator",
    "evaluate": "estimator",
}

__all__ = ["DaskData", "DaskEngine", "DaskRankSVM", "DaskTrainer", "evaluate"]

if not TYPE_CHECKING:  # type checkers report unknown names
    __getattr__ = lazy_names(__name__, _HOME)
