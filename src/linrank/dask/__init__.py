"""Training on a Dask cluster: the data stay with the workers, only sums travel.

Needs ``pip install linrank[dask]``. Nothing outside of this package imports Dask.
"""

try:
    from .data import DaskData
    from .engine import DaskEngine
    from .estimator import DaskRankSVM
    from .metrics import evaluate
    from .training import DaskTrainer
except ModuleNotFoundError as error:
    raise ImportError(f"a Dask cluster needs pip install 'linrank[dask]' ({error})") from None

__all__ = ["DaskData", "DaskEngine", "DaskRankSVM", "DaskTrainer", "evaluate"]
