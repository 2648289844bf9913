"""Errors and warnings of linrank; their messages say what is wrong and what to do."""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


class LinrankError(Exception):
    """Base class of the errors of linrank.

    Examples
    --------
    >>> from linrank import LinrankError, RankSVM
    >>> try:
    ...     RankSVM(C=-1.0).fit([[1.0], [2.0]], [0, 1])
    ... except LinrankError as error:
    ...     print(error)
    C is -1.0; expected a finite number above 0
    """


class DataError(LinrankError, ValueError):
    """The data or an argument is not valid; the message names it and the expected value.

    Examples
    --------
    >>> from linrank import RankSVM
    >>> RankSVM().fit([[1.0], [3.0]], [1, 1])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    linrank.errors.DataError: there is no pair to learn from: ...
    """


class FileFormatError(DataError):
    r"""A file cannot be read; the message names the file and, in text, the line.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from linrank import FileFormatError, read_letor
    >>> path = pathlib.Path(tempfile.mkdtemp(), "train.txt")
    >>> _ = path.write_text("1 qid:1 1:0.5\n0 qid:1 1:x\n")
    >>> try:
    ...     read_letor(path)
    ... except FileFormatError as error:
    ...     print(str(error).replace(str(path), "train.txt"))
    train.txt:2: feature 1 has the value 'x'; expected a number
    """


class WorkersLost(LinrankError, RuntimeError):
    """Workers of a cluster are lost and cannot be replaced; the message gives the reason.

    Examples
    --------
    A program may wait for new workers and fit again:

    >>> from linrank import WorkersLost
    >>> def fit_or_report(ranker, X, y, qid):
    ...     try:
    ...         return ranker.fit(X, y, qid)
    ...     except WorkersLost as error:
    ...         print(f"{error} Start new workers, and fit again.")
    """


@contextmanager
def prefix_errors(name: object) -> Iterator[None]:
    """Begin the message of a `DataError` with the name of a file or an argument."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{name}: {error}") from None


@contextmanager
def prefix_file_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn a `DataError` that the content of a file causes into one that names the file."""
    try:
        yield
    except FileFormatError:
        raise
    except DataError as error:
        raise FileFormatError(f"{os.fspath(path)}: {error}") from None


#: The errors by name. A worker sends the name of an error, and its client raises the error.
REFUSALS = {kind.__name__: kind for kind in (LinrankError, DataError, FileFormatError, WorkersLost)}


class GridEdgeWarning(UserWarning):
    """The best C is the smallest or the largest of those that were tried.

    Examples
    --------
    >>> import warnings
    >>> from linrank import RankSVMCV, make_ranking
    >>> data = make_ranking(random_state=0)
    >>> with warnings.catch_warnings(record=True) as found:
    ...     warnings.simplefilter("always")
    ...     _ = RankSVMCV(Cs=[1e-3, 1e-2], cv=2).fit(data)
    >>> print(str(found[0].message).split(". ")[0])
    the best C, 0.01, is the largest of the 2 that were tried
    """


class ForgottenQueriesWarning(UserWarning):
    """A single query looks like a forgotten `qid`; the message has its number of pairs.

    Examples
    --------
    >>> import warnings
    >>> from linrank import RankSVM
    >>> import numpy as np
    >>> n = 30_000
    >>> X, y = np.arange(n)[:, None] % 7.0, np.arange(n) % 3
    >>> with warnings.catch_warnings(record=True) as found:
    ...     warnings.simplefilter("always")
    ...     _ = RankSVM(C=1e-6).fit(X, y)
    >>> print(str(found[0].message).split(". ")[0])
    there is no qid, so all 30,000 documents are one query with 300,000,000 pairs
    """


class SwappedArgumentsWarning(UserWarning):
    """The arguments `y` and `qid` look swapped; the message describes their values.

    Examples
    --------
    >>> import warnings
    >>> from linrank import RankSVM, make_ranking
    >>> data = make_ranking(random_state=0)
    >>> with warnings.catch_warnings(record=True) as found:
    ...     warnings.simplefilter("always")
    ...     _ = RankSVM(C=1e-4).fit(data.X, data.qid, data.y)
    >>> print(str(found[0].message).split(". ")[-1])
    If y and qid are swapped, use fit(X, y, qid).
    """


class SeparationWarning(UserWarning):
    """Strengths or coefficients are infinite without a penalty; the message names them.

    Examples
    --------
    >>> import warnings
    >>> from linrank import PreferenceModel
    >>> with warnings.catch_warnings(record=True) as found:
    ...     warnings.simplefilter("always")
    ...     _ = PreferenceModel().fit(["x", "y"], ["y", "z"], ["a", "a"])
    >>> print(found[0].category.__name__)
    SeparationWarning
    """


class SplitQueriesWarning(UserWarning):
    """Folds have documents of one query on both sides; the message has the number of queries.

    Examples
    --------
    >>> import warnings
    >>> from linrank import RankSVMCV, make_ranking
    >>> data = make_ranking(random_state=0)
    >>> halves = [(range(1000), range(995, 2000)), (range(995, 2000), range(1000))]
    >>> with warnings.catch_warnings(record=True) as found:
    ...     warnings.simplefilter("always")
    ...     _ = RankSVMCV(Cs=[0.01], cv=halves).fit(data)
    >>> print(found[0].category.__name__)
    SplitQueriesWarning
    """


class NotConvergedWarning(UserWarning):
    """The solver stopped before its stopping rule was met; the message has its last values.

    Examples
    --------
    >>> import warnings
    >>> from linrank import RankSVM, make_ranking
    >>> data = make_ranking(random_state=0)
    >>> with warnings.catch_warnings(record=True) as found:
    ...     warnings.simplefilter("always")
    ...     _ = RankSVM(solver="tron", max_iter=1).fit(data)
    >>> print(str(found[0].message).split(". ")[0])
    The largest number of iterations was reached before the stopping rule was met
    """


class NothingSelectedWarning(UserWarning):
    """No feature has a weight; the message names the smallest C that selects a feature.

    Examples
    --------
    >>> import warnings
    >>> from linrank import SparseRankSVM, make_ranking
    >>> data = make_ranking(random_state=0)
    >>> with warnings.catch_warnings(record=True) as found:
    ...     warnings.simplefilter("always")
    ...     _ = SparseRankSVM(C=1e-9).fit(data)
    >>> print(str(found[0].message).split(":")[0])
    no feature is selected at C = 1e-09
    """


class FeatureScaleWarning(UserWarning):
    """The scales of features differ so much that a fit loses digits; the message names two.

    Examples
    --------
    >>> import warnings
    >>> from linrank import RankSVM
    >>> with warnings.catch_warnings(record=True) as found:
    ...     warnings.simplefilter("always")
    ...     _ = RankSVM(scale=None).fit([[0.0, 1e15], [1.0, 0.0], [0.5, 2e15]], [0, 2, 1])
    >>> print(str(found[0].message).split(". ")[-1])
    Scale the features, as scale='standard' (--scale standard) does.
    """


class NegativeLabelsWarning(UserWarning):
    """Negative labels have the same gain as 0 in a metric; the message has the smallest one.

    Examples
    --------
    >>> import warnings
    >>> from linrank import ndcg
    >>> with warnings.catch_warnings(record=True) as found:
    ...     warnings.simplefilter("always")
    ...     _ = ndcg([-1, 0, 2], [3.0, 2.0, 1.0])
    >>> print(str(found[0].message).split(". ")[0])
    y has negative labels, down to -1, whose gain 2^y - 1 counts as 0, like that of the label 0
    """


class UnnamedFeaturesWarning(UserWarning):
    """A model without feature names is exported to an engine that finds features by name.

    Examples
    --------
    >>> import warnings
    >>> from linrank import LinearModel
    >>> with warnings.catch_warnings(record=True) as found:
    ...     warnings.simplefilter("always")
    ...     _ = LinearModel([1.0, -0.5]).export("solr")
    >>> print(str(found[0].message).split(". ")[0])
    the model has no feature names, so the features are called '1', '2' in target='solr'
    """


class FeatureRangeWarning(UserWarning):
    """Features are far outside the range of the training data; the message names one of them.

    Examples
    --------
    >>> import warnings
    >>> from linrank import RankSVM
    >>> ranker = RankSVM().fit([[0.0], [1.0], [0.5]], [0, 2, 1])
    >>> with warnings.catch_warnings(record=True) as found:
    ...     warnings.simplefilter("always")
    ...     _ = ranker.predict([[1000.0]])
    >>> print(str(found[0].message).split(". ")[0])
    feature 1 is far outside its range in the training data, 0 to 1
    """


class ConstantFeaturesWarning(UserWarning):
    """Features are constant in the training data and cannot be used; the message names some.

    Examples
    --------
    >>> import warnings
    >>> from linrank.baselines import RankBoost
    >>> with warnings.catch_warnings(record=True) as found:
    ...     warnings.simplefilter("always")
    ...     _ = RankBoost(n_rounds=2).fit([[1.0, 5.0], [3.0, 5.0], [2.0, 5.0]], [0, 2, 1])
    >>> print(str(found[0].message).split(". ")[0])
    RankBoost cannot use features that are constant in the training data: 2 (1 of 2)
    """


class OrderChangedWarning(UserWarning):
    """An exported model orders documents in another way, because the target rounds scores.

    Examples
    --------
    >>> import warnings
    >>> from linrank import LinearModel
    >>> model = LinearModel([1.0], feature_names=["bm25"])
    >>> with warnings.catch_warnings(record=True) as found:
    ...     warnings.simplefilter("always")
    ...     _ = model.export("lucene", sample=[[1.0], [1.0 + 1e-9]])
    >>> print(str(found[0].message).split(": ")[0])
    with target='lucene', 1 of 1 pairs change their order
    """


class StaircaseWarning(UserWarning):
    """An exported model has steps in place of curves; the message says how far scores deviate.

    Examples
    --------
    >>> import warnings
    >>> from linrank import AdditiveRanker, make_ranking
    >>> model = AdditiveRanker(C=0.1).fit(make_ranking(random_state=0)).model_
    >>> with warnings.catch_warnings(record=True) as found:
    ...     warnings.simplefilter("always")
    ...     _ = model.export("xgboost")
    >>> print(str(found[0].message).split(", ")[:2])
    ['XGBoost takes trees', 'so curves become at most 64 steps']
    """


class QueriesMovedWarning(UserWarning):
    """Rows were moved between workers, because parts shared queries; the message counts them.

    Examples
    --------
    To hide the warning, where parts are known to share queries:

    >>> import warnings
    >>> from linrank import QueriesMovedWarning
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", QueriesMovedWarning)
    ...     # fit a DaskRankSVM here
    """


class KernelCacheWarning(UserWarning):
    """Compiled kernels cannot be loaded or stored; the message names the file and the reason.

    Examples
    --------
    To hide the warning, where no folder can be written to:

    >>> import warnings
    >>> from linrank import KernelCacheWarning, RankSVM
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", KernelCacheWarning)
    ...     ranker = RankSVM().fit([[1.0], [3.0], [2.0]], [0, 2, 1])
    """


def warn(message: str, category: type[Warning]) -> None:
    """Issue a warning for the line of the first caller outside of the package."""
    level, frame = 0, inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith("linrank."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level + 1)
