"""`Model`: the base of all models, with their files, explanations and tables of features."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from .._util.checks import whole_number
from .._util.files import atomic_write
from .._util.text import count, data_frame, html_table, printable, same_decimals, text_table
from .._util.types import Array, Integers, Vector
from .._version import __version__
from ..data.categories import Categories
from ..data.columns import names_or_numbers
from ..data.frames import is_frame, is_series
from ..data.ids import read_ids
from ..data.matching import check_names, matched_frame, with_features
from ..data.ranking import RankingData
from ..data.validation import Matrix, check_finite, check_matrix, group_by_query, take_rows
from ..errors import DataError, FileFormatError
from ..plots import WIDTH
from ..plots.result_plots import height_of_bars, plot_explanation, plot_features
from .drift import Drift, Limits, TrainingProfile, check_drift

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..export import TargetName

# --------------------------------------------------------------------------------------------------
# `as_rows`: documents in any form, as a matrix with the features of a model in their order.


class HasFeatures(Protocol):
    """What `as_rows` must know of a model or an estimator."""

    n_features: int
    feature_names: list[str] | None
    categories: Categories


def as_rows(X: Any, model: HasFeatures) -> Matrix:
    """Return documents as a matrix of shape (n_docs, n_features).

    Dense matrices may have any memory layout, so that scoring a frame needs no copy.

    Parameters
    ----------
    X : array, sparse matrix, frame, row of a pandas frame, or a mapping of names to values
    model : Model
        Frames and mappings are aligned by its feature names, if it has any.
    """
    if is_series(X):
        X = X.to_frame().T.infer_objects()
    if isinstance(X, Mapping):
        X = _from_mapping(X, model)
    elif is_frame(X):
        X = matched_frame(X, model.feature_names, model.n_features, model.categories)
    elif isinstance(X, Sequence):
        X = np.asarray(X)
    X = _as_rows(X) if isinstance(X, np.ndarray) else check_matrix(X)
    if X.shape[1] != model.n_features:
        raise DataError(
            f"X has shape {X.shape} but the model has {model.n_features} features; pass the "
            "features that the model was trained on"
        )
    return X


def _as_rows(X: np.ndarray[Any, Any]) -> Matrix:
    """Return an array of one or more rows in a precision that can be used."""
    if X.ndim == 1:
        X = X[None]
    if X.ndim == 2 and X.size and X.dtype in (np.float64, np.float32):
        return X
    return check_matrix(X)


def _from_mapping(X: Mapping[str, Any], model: HasFeatures) -> Matrix:
    """Return the values of a mapping in the order of the model's features."""
    if model.feature_names is None:
        raise DataError(
            "X is a mapping, but the model has no feature names; pass the values as an array in "
            "the order of training"
        )
    categories, given = model.categories, model.categories.given(model.feature_names)
    check_names(list(map(str, X)), given)
    values = {str(k): np.atleast_1d(np.asarray(v)) for k, v in X.items() if str(k) in given}
    numbers = [values[name] for name in given if name not in categories.texts]
    try:
        rows = np.column_stack([np.empty((len(values[given[0]]), 0)), *numbers]).astype(np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"X cannot be read as columns of numbers: {error}") from None
    return categories.matrix(
        rows, given, {name: read_ids(values[name].tolist()) for name in categories.texts}
    )


# --------------------------------------------------------------------------------------------------
# Model files: JSON of a known format, checked before it is used.


Content: TypeAlias = dict[str, Any]  #: a JSON object

# A model file of N bytes must not take more time or memory than a multiple of N. Numbers that size
# an array are therefore compared with the content of the file, or with one of these limits.
MAX_DEPTH = 20  #: nesting levels of lists and objects in a model file; deeper files are refused
MOST_FEATURES = 2**22  #: features of a model whose file may have fewer numbers than features

_MODEL_FILE = "a file that linrank train or model_.save has written"

#: Module and class that read each model format. A module is imported only to read its format.
FORMATS = {
    "linrank-model": ("linrank.model.linear", "LinearModel"),
    "linrank-kernel": ("linrank.estimators.kernel_ranksvm", "KernelModel"),
    "linrank-additive": ("linrank.model.additive", "AdditiveModel"),
    "linrank-lightgbm": ("linrank.baselines.baseline", "LightGBMModel"),
    "linrank-trees": ("linrank.baselines.baseline", "TreeModel"),
    "linrank-stumps": ("linrank.baselines.rankboost", "StumpModel"),
    "linrank-topics": ("linrank.estimators.topics", "TopicsModel"),
}


def load_model(path: str | os.PathLike[str]) -> Model:
    """Read a model of any format that linrank writes; nothing in the file is executed.

    Parameters
    ----------
    path : path-like
        A file written by `Model.save` or ``linrank train``.

    Returns
    -------
    LinearModel or another subclass of `Model`
        Its class depends on the entry "format" of the file; see `FORMATS`.

    Examples
    --------
    >>> import os, tempfile
    >>> from linrank import LinearModel
    >>> path = os.path.join(tempfile.mkdtemp(), "model.json")
    >>> LinearModel([1.0, -0.5]).save(path)
    >>> load_model(path).predict([[2.0, 1.0]]).tolist()
    [1.5]
    """
    content = read_content(path)
    found = content.get("format")
    if not isinstance(found, str) or found not in FORMATS:
        raise wrong_format(path, content, " or ".join(map(repr, FORMATS)))
    module, name = FORMATS[found]
    model_class: type[Model] = getattr(import_module(module), name)
    return model_class.from_content(content, path)


def read_content(path: str | os.PathLike[str]) -> Content:
    """Read the JSON object in a model file of any format."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        content = json.loads(text, object_pairs_hook=_without_repeats)
        _check_depth(content)
    except FileNotFoundError:
        raise FileFormatError(f"{path}: no such file; expected {_MODEL_FILE}") from None
    except OSError as error:
        raise FileFormatError(f"{path}: cannot be read ({error.strerror})") from None
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise FileFormatError(
            f"{path}: not a linrank model, or damaged: it is not JSON; expected {_MODEL_FILE}"
        ) from None
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{path}: not a linrank model, or damaged: {error}") from None
    return content if isinstance(content, dict) else {}


def wrong_format(path: str | os.PathLike[str], content: Content, expected: str) -> FileFormatError:
    """Return the error for a file of another format than expected."""
    found = content.get("format")
    if found is None:
        return FileFormatError(
            f'{path}: not a linrank model: it has no "format"; expected {_MODEL_FILE}'
        )
    shown = repr(found)[:60]
    if isinstance(found, str) and found in FORMATS:
        return FileFormatError(
            f"{path}: a model of the format {shown}, but {expected} is expected here; "
            "linrank.load_model reads models of all formats"
        )
    return FileFormatError(
        f"{path}: not a linrank model: its format is {shown}; expected {expected}"
    )


def shared_parts(content: Content, most_features: int) -> Content:
    """Check the entries of a file that all models have; return those but the number of features."""
    if type(content["n_features"]) is not int:
        found = repr(content["n_features"])[:60]
        raise DataError(f"n_features is {found}; expected a whole number")
    whole_number("n_features", content["n_features"], most=most_features)
    if type(content["index_base"]) is not int or content["index_base"] not in (0, 1):
        raise DataError(f"index_base is {content['index_base']!r}; expected 0 or 1")
    for name in ("settings", "training"):
        if not isinstance(content[name], dict):
            raise DataError(f"{name} is not an object")
        if not _is_finite(content[name]):
            raise DataError(f"{name} has a number that is not finite")
    names = content["feature_names"]
    is_list = isinstance(names, list) and all(isinstance(name, str) for name in names)
    if names is not None and not is_list:
        raise DataError("feature_names is not a list of names")
    return {name: content[name] for name in ("feature_names", "index_base", "settings", "training")}


def _without_repeats(pairs: list[tuple[str, Any]]) -> Content:
    """Return the entries of a JSON object, whose names must be distinct."""
    content = dict(pairs)
    if len(content) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"{twice[:40]!r} is given twice")
    return content


def _check_depth(content: object) -> None:
    """Raise an error for lists and objects that are nested more deeply than in any model."""
    level = [content]
    for _ in range(MAX_DEPTH):
        below = [list(part.values()) if isinstance(part, dict) else part for part in level]
        level = [item for part in below if isinstance(part, list) for item in part]
    if any(isinstance(part, dict | list) for part in level):
        raise ValueError(f"it is nested more than {MAX_DEPTH} levels deep")


def _is_finite(value: object) -> bool:
    """Return whether a value of a file, or each of its parts, is no number beyond all floats.

    JSON has no such numbers, but Python's reader accepts ``NaN``, ``Infinity`` and ``1e999``.
    """
    if isinstance(value, dict | list):
        return all(map(_is_finite, value.values() if isinstance(value, dict) else value))
    try:
        return not isinstance(value, int | float) or math.isfinite(value)
    except OverflowError:
        return False


def numbers(content: Content, name: str) -> list[float]:
    """Return an entry of a model file that must be a list of numbers."""
    values = content[name]
    if not isinstance(values, list) or not all(type(v) in (int, float) for v in values):
        raise DataError(f"{name} is not a list of numbers")
    return values


def matrix_parts(X: Matrix) -> Content:
    """Return a matrix as an entry of a model file: all numbers, or the arrays of the CSR form."""
    if not sparse.issparse(X):
        return {"data": X.ravel().tolist()}
    return {name: getattr(X, name).tolist() for name in ("indptr", "indices", "data")}


def read_matrix(parts: object, shape: tuple[int, int]) -> Matrix:
    """Return the matrix in an entry of a model file.

    Its arrays are checked before they are used, because wrong indices would crash the process. A
    dense matrix takes no more memory than its entry.
    """
    if not isinstance(parts, dict):
        raise DataError("a matrix is not an object")
    data = np.array(numbers(parts, "data"), dtype=np.float64)
    if "indptr" in parts:
        indices, indptr = (
            np.array(numbers(parts, name), dtype=np.int64) for name in ("indices", "indptr")
        )
        X = check_matrix(sparse.csr_array((data, indices, indptr), shape=shape))
    else:
        X = check_matrix(data.reshape(shape))
    check_finite(X, None)
    return X


def plain(settings: Mapping[str, object]) -> Content:
    """Convert settings to JSON types; values that JSON cannot hold become text.

    Examples
    --------
    >>> plain({"C": np.float64(0.5), "limits": (1, np.inf), "gain": abs})
    {'C': 0.5, 'limits': [1, 'Infinity'], 'gain': '<built-in function abs>'}
    """
    return json.loads(json.dumps(dict(settings), default=_as_plain), parse_constant=str)


def _as_plain(value: object) -> object:
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else str(value)


# --------------------------------------------------------------------------------------------------
# `ShowsParts`: models as short texts, tables and plots of the parts of their scores.


NAMED = 3  #: features that the short form of a model names
TOP_FEATURES = 20  #: features that a table or plot of a model shows by default


class FeatureColumn(NamedTuple):
    """One number per feature of a model, such as its weight."""

    name: str
    values: Vector | Integers
    meaning: str  #: a label for an axis

    @property
    def title(self) -> str:
        """The name as a text for people."""
        return self.name.replace("_", " ")

    def texts(self, features: Integers) -> list[str]:
        """Return the numbers of some features as aligned texts; counts have no decimals."""
        values = self.values[features].tolist()
        if self.values.dtype.kind == "i":
            return [f"{value:,}" for value in values]
        return same_decimals(values)


class ShowsParts:
    """Base class of what has parts with names and numbers, and is shown by them."""

    n_features: int

    def part_name(self, part: int) -> str:
        """Return the name of a part: a feature or, after all features, a pair of features."""
        raise NotImplementedError

    def facts(self) -> dict[str, object]:
        """Return facts about the parameters by their names, for people."""
        return {}

    def columns(self) -> list[FeatureColumn]:
        """Return numbers of the parts, for tables; the last ones say how important they are.

        Models without such numbers have no columns.
        """
        return []

    def remarks(self, parts: Integers) -> dict[str, list[str]]:
        """Return further columns of a table of some parts, as texts."""
        return {}

    def details(self, part: int) -> dict[str, object]:
        """Return further facts about one part, for programs."""
        return {}

    def count_used(self) -> int | None:
        """Return the number of features that have a part in the score; None if not known."""
        columns = self.columns()
        return int(np.count_nonzero(columns[-1].values)) if columns else None

    def ordered(self) -> Integers:
        """Return the parts by importance: by the absolute values in the last of `columns`."""
        if not self.columns():
            return np.empty(0, np.int64)
        return np.argsort(-np.abs(self.columns()[-1].values), kind="stable")

    def plot(
        self, ax: Axes | None = None, top: int = TOP_FEATURES, column: str | None = None
    ) -> Axes:
        """Draw the features with the largest weights as bars.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            None: those of a new figure.
        top : int
            Number of features to draw.
        column : str, optional
            The name of one of `columns`, such as "weight". None: the last one, which says how
            important a feature is.

        Returns
        -------
        matplotlib Axes

        Examples
        --------
        >>> from linrank import LinearModel
        >>> axes = LinearModel([1.0, -0.5], feature_names=["bm25", "length"]).plot(top=2)
        >>> len(axes.patches)
        2
        """
        return plot_features(self, ax, top, column)

    def draw(self, figure: Figure, top: int = TOP_FEATURES) -> Axes:
        """Draw what `plot` draws on an empty figure, and return the first axes."""
        return self.plot(figure.subplots(), top)

    def figure_size(self, top: int = TOP_FEATURES) -> tuple[float, float]:
        """Return the width and height of a figure for `draw`, in inches."""
        return WIDTH, height_of_bars(min(top, self.n_features))

    def __repr__(self) -> str:
        facts = [count(self.n_features, "feature")]
        facts += [f"{name}: {fact}" for name, fact in self.facts().items()]
        order = self.ordered()[:NAMED].tolist()
        for column in self.columns()[-1:]:
            largest = [f"{self.part_name(f)} {x:.3g}" for f in order if (x := column.values[f])]
            facts += [f"largest by {column.title}: {', '.join(largest)}"] if largest else []
        return printable(f"{type(self).__name__}({'; '.join(facts)})")

    def _repr_html_(self) -> str:
        titles, rows, bars = self.table()
        return html_table(titles, rows, title=repr(self), bars=bars)

    def table(self, top: int = TOP_FEATURES) -> Cells:
        """Return a table of the most important parts: names, numbers and remarks."""
        columns, order = self.columns(), self.ordered()[:top]
        remarks = self.remarks(order)
        rows = zip(
            map(self.part_name, order.tolist()), *(column.texts(order) for column in columns),
            *remarks.values(), strict=True,
        )  # fmt: skip
        titles = ["feature", *(column.title for column in columns), *remarks]
        bars = columns[-1].values[order].tolist() if columns else []
        return Cells(titles, [list(row) for row in rows], bars)


# --------------------------------------------------------------------------------------------------
# `Explanation`: the contribution of each feature to a score, or to the order of two documents.


TOP_CONTRIBUTIONS = (
    10  #: contributions that a table or plot shows by default; the others are summed up
)


class Cells(NamedTuple):
    """A table of texts, with a number for each row that can be drawn as a bar."""

    columns: list[str]
    rows: list[list[str]]
    bars: list[float]


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """The contribution of each feature to a score, or to the difference of two scores.

    ``score = base + Σ_f contribution_f``, up to rounding.

    Attributes
    ----------
    names : list of str
        Names of the features, and then of `pairs`.
    values : array of shape (n_features,)
        Values of the features as given; NaN if a value is missing. Codes of text are text.
    contributions : float64 array of shape (n_features + n_pairs,)
    score : float
        The score; of a pair, the score of the first document minus that of the second.
    base : float
        The mean score of the training data, from which contributions are counted. It is 0 for two
        documents, and for models that do not hold means.
    other : array of shape (n_features,) or None
        Of a pair: values of the features of the second document.
    pairs : list of (int, int)
        Two features each, which have a common contribution beside their own ones.
    base_name : str
        Which score the base is, in words.

    Examples
    --------
    >>> from linrank import LinearModel
    >>> model = LinearModel([1.0, -0.5], feature_names=["bm25", "length"])
    >>> model.explain({"bm25": 2.0, "length": 1.0})
    score 1.5
    feature  value  contribution
    bm25         2       +2.0000
    length       1       -0.5000
    >>> model.explain_pair([2.0, 1.0], [2.5, 4.0]).largest(1)
    [('length', 1.5)]
    """

    names: list[str]
    values: Array
    contributions: Vector
    score: float
    base: float = 0.0
    other: Array | None = None
    pairs: Sequence[tuple[int, int]] = ()
    base_name: str = "at the training means"

    @property
    def order(self) -> Integers:
        """The features, those with the largest absolute contributions first."""
        return np.argsort(-np.abs(self.contributions), kind="stable")

    @property
    def title(self) -> str:
        """A line that gives the score, and the part of it that no feature contributes."""
        if self.other is not None:
            return f"score difference {self.score:.6g}"
        base = f", of which {self.base:.6g} {self.base_name}" if self.base else ""
        return f"score {self.score:.6g}{base}"

    def largest(self, n: int = TOP_CONTRIBUTIONS) -> list[tuple[str, float]]:
        """Return names and contributions of the n features with the largest contributions."""
        return [(self.names[f], float(self.contributions[f])) for f in self.order[:n]]

    def rest(self, n: int = TOP_CONTRIBUTIONS) -> tuple[str, float] | None:
        """Return the name and the sum of all contributions but the n largest, if there are any.

        Contributions of 0 are not counted. If only they are left, the result is None.
        """
        left = self.contributions[self.order[n:]]
        n_left = np.count_nonzero(left)
        if not n_left:
            return None
        return f"{n_left:,} other{'s' if n_left > 1 else ''}", float(left.sum())

    def columns(self, n: int | None = None) -> dict[str, Any]:
        """Return the columns of a table: names, values and contributions, the n largest first."""
        order = self.order[:n]
        values = {"value": self.values}
        if self.other is not None:
            values = {"first": self.values, "second": self.other}
        given = {name: self._with_pairs(found)[order] for name, found in values.items()}
        names = [self.names[f] for f in order.tolist()]
        return {"feature": names, **given, "contribution": self.contributions[order]}

    def _with_pairs(self, values: Array) -> Array:
        """Return the values of the features, followed by texts with both values of each pair."""
        if not self.pairs:
            return values
        both = [f"{_value(values[j])} × {_value(values[k])}" for j, k in self.pairs]
        return np.array([*values.tolist(), *both], dtype=object)

    def table(self, n: int = TOP_CONTRIBUTIONS) -> Cells:
        """Return a table of the n largest contributions, with a last row for the others."""
        columns, left = self.columns(n), self.rest(n)
        names, *given, sizes = columns.values()
        rows = [[name, *map(_value, x)] for name, *x in zip(names, *given, strict=True)]
        sizes = sizes.tolist()
        if left is not None:
            rows.append([left[0], *([""] * len(given))])
            sizes.append(left[1])
        for row, size in zip(rows, same_decimals(sizes), strict=True):
            row.append(size)
        return Cells(list(columns), rows, sizes)

    def to_frame(self) -> pd.DataFrame:
        """Return all contributions as a pandas DataFrame, the largest first.

        Examples
        --------
        >>> from linrank import LinearModel
        >>> model = LinearModel([1.0, -0.5], feature_names=["bm25", "length"])
        >>> model.explain([2.0, 1.0]).to_frame()
          feature  value  contribution
        0    bm25    2.0           2.0
        1  length    1.0          -0.5
        """
        return data_frame(self.columns())

    def __repr__(self) -> str:
        names, rows, _ = self.table()
        return f"{self.title}\n{text_table(names, rows)}"

    def _repr_html_(self) -> str:
        names, rows, sizes = self.table()
        return html_table(names, rows, title=self.title, bars=sizes)

    def plot(self, ax: Axes | None = None, top: int = TOP_CONTRIBUTIONS) -> Axes:
        """Draw the largest contributions as bars; the others are one bar.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            None: those of a new figure.
        top : int
            Number of features with a bar of their own.

        Returns
        -------
        matplotlib Axes

        Examples
        --------
        >>> from linrank import LinearModel
        >>> axes = LinearModel([1.0, -0.5]).explain([2.0, 1.0]).plot()
        >>> axes.get_xlabel()
        'contribution to the score'
        """
        return plot_explanation(self, ax, top)


def _value(x: float | str) -> str:
    if isinstance(x, str):
        return x
    return "missing" if np.isnan(x) else f"{x:.6g}"


def explain_row(model: Model, row: Any, documents: Any) -> Explanation:
    """Return the contributions to the score of one document; see `Model.explain`."""
    X, scores, parts = _parts(model, [row], documents)
    mean, names = model.mean_parts, model.part_names()
    (values,) = model.categories.shown(X, model.names())
    if mean is None:
        return Explanation(names, values, parts[0], float(scores[0]), pairs=model.pairs)
    return Explanation(
        names, values, parts[0] - mean, float(scores[0]), base=float(mean.sum()), pairs=model.pairs,
        base_name=model.base_name,
    )  # fmt: skip


def explain_two(model: Model, a: Any, b: Any, documents: Any) -> Explanation:
    """Return the contributions to the order of two documents; see `Model.explain_pair`."""
    X, scores, parts = _parts(model, [a, b], documents)
    difference = float(scores[0] - scores[1])
    first, second = model.categories.shown(X, model.names())
    return Explanation(
        model.part_names(), first, parts[0] - parts[1], difference, other=second, pairs=model.pairs
    )


def _parts(model: Model, rows: Sequence[Any], documents: Any) -> tuple[Vector, Vector, Vector]:
    """Return the values, the scores and the parts of the features of some documents.

    Documents of a query with the rows among them give the same scores, because copies of a document
    change no range.
    """
    model.check_additive()
    X = np.vstack([_one_row(model, row) for row in rows])
    others = None
    if model.needs_qid:
        if documents is None:
            raise DataError(
                "this model scales features within each query, so explain needs the documents of "
                "the query. Pass documents=X[qid == q], where q is the query of the row."
            )
        others = _dense(as_rows(documents, model))
    everything = X if others is None else np.vstack([others, X])
    scores = model.predict(everything, np.zeros(len(everything)))[-len(X) :]
    return X.astype(np.float64), scores, model.parts(X, others)


def _one_row(model: Model, row: Any) -> Array:
    """Return one document as a dense matrix of one row."""
    if sparse.issparse(row):
        row = row.reshape(1, -1) if row.ndim == 1 else row
    X = _dense(as_rows(row, model))
    if X.shape[0] != 1:
        raise DataError(
            f"there are {X.shape[0]} documents where one is expected; pass one row, such as X[:1]"
        )
    return X


def _dense(X: Matrix) -> Array:
    return X.toarray() if sparse.issparse(X) else X


# --------------------------------------------------------------------------------------------------
# `Model`: the base of all models.


VERSION = 3  #: of the layout of model files; a file of a newer version is refused


QUICK_ENTRIES = 2**18  #: largest number of entries of X that `Model.quick_scores` accepts


class Model(ShowsParts):
    """Base of all models: feature names, and a record of the training.

    Subclasses define `format`, `scores`, `_parameters` and `_from_parameters`, and are listed in
    `linrank.model.FORMATS`. Additive models define `parts`, too.

    Attributes
    ----------
    n_features : int
    feature_names : list of str or None
    index_base : {0, 1}
        Number of the first feature in LETOR files.
    settings : dict
        Parameters of the training.
    training : dict
        Outcome of the training, such as the number of iterations.
    categories : Categories
        The columns of text in the training data, and the features that they became.
    profile : TrainingProfile or None
        Histograms of the training data, with which `check` compares other data.
    """

    format: ClassVar[str]  #: entry "format" of the model's files
    most_features: ClassVar[int] = MOST_FEATURES
    is_additive: ClassVar[bool] = False  #: whether a score is a sum of parts; see `part_names`
    base_name: ClassVar[str] = "at the training means"  #: which score explanations count from

    def __init__(
        self,
        n_features: int,
        feature_names: Sequence[str] | None = None,
        index_base: int = 1,
        settings: Mapping[str, object] | None = None,
        training: Mapping[str, object] | None = None,
    ) -> None:
        n_features = whole_number("n_features", n_features, most=self.most_features)
        if feature_names is not None and len(feature_names) != n_features:
            raise DataError(
                f"feature_names has {len(feature_names)} entries for {n_features} features; pass "
                "one name per feature"
            )
        self.n_features = n_features
        self.feature_names = None if feature_names is None else [str(n) for n in feature_names]
        self.index_base = index_base
        self.settings: Content = dict(settings or {})
        self.training: Content = dict(training or {})
        self.categories = Categories()
        self.profile: TrainingProfile | None = None

    @property
    def needs_qid(self) -> bool:
        """Whether the score of a document depends on the other documents of its query."""
        return False

    @property
    def fills(self) -> bool:
        """Whether the model replaces missing values of some features."""
        return False

    @property
    def version(self) -> int:
        """The oldest layout of model files that can hold this model."""
        return 1

    @property
    def used(self) -> Integers:
        """The features that have a part in the score, as numbers from 0 on."""
        raise NotImplementedError

    def largest(self, n: int) -> list[tuple[str, float]]:
        """Return names and numbers of the n features with the largest weights or curves."""
        raise NotImplementedError

    def names(self) -> list[str]:
        """Return the feature names or, without names, the feature numbers in LETOR files."""
        return names_or_numbers(self.feature_names, self.n_features, self.index_base)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The pairs of features that have a common part in the score, beside those of features."""
        return []

    def part_names(self) -> list[str]:
        """Return the names of the parts of a score: the features, and then the pairs "a × b"."""
        names = self.names()
        return names + [f"{names[j]} × {names[k]}" for j, k in self.pairs]

    def part_name(self, part: int) -> str:
        """Return the name of one part of a score; see `part_names`."""
        if part >= self.n_features:
            return " × ".join(map(self.part_name, self.pairs[part - self.n_features]))
        names = self.feature_names
        return str(self.index_base + part) if names is None else names[part]

    def predict(self, X: Any, qid: ArrayLike | None = None) -> Vector:
        """Score documents; higher is better.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_docs, n_features), one row, or a mapping
            Columns of a frame and keys of a mapping are matched by name, whatever their order. The
            values of a mapping are those of one document, or columns of equal length.
        qid : array of shape (n_docs,), optional
            The query of each document. Only a model that scales features within queries needs it.

        Returns
        -------
        scores : float64 array of shape (n_docs,)

        Examples
        --------
        >>> from linrank import LinearModel
        >>> model = LinearModel([1.0, -0.5], feature_names=["bm25", "length"])
        >>> model.predict({"length": 1.0, "bm25": 2.0}).tolist()
        [1.5]
        """
        rows = as_rows(X, self)
        if not self.needs_qid:
            return self._checked_scores(rows, None)
        if qid is None:
            raise DataError(
                "this model scales features within each query, so predict needs qid. If all rows "
                "belong to one query, pass qid=np.zeros(len(X))."
            )
        query_ptr, _, order = group_by_query(qid, rows.shape[0])
        if order is None:
            return self._checked_scores(rows, query_ptr)
        scores = np.empty(rows.shape[0])
        scores[order] = self._checked_scores(take_rows(rows, order), query_ptr)
        return scores

    def quick_scores(self, X: Any) -> Vector | None:
        """Score a small array with few checks, for servers; None if `predict` must check more.

        Parameters
        ----------
        X : any
            See `predict`.

        Returns
        -------
        scores : float64 array or None

        Examples
        --------
        >>> from linrank import LinearModel
        >>> LinearModel([1.0, -0.5]).quick_scores(np.array([[2.0, 1.0]])).tolist()
        [1.5]
        """
        return None

    def _checked_scores(self, X: Matrix, query_ptr: Integers | None) -> Vector:
        """Return the scores, which are finite; a `DataError` names the value that prevents it."""
        with np.errstate(over="ignore", invalid="ignore"):  # The error below says more.
            scores = self.scores(X, query_ptr)
        bad = np.argwhere(~np.isfinite(scores))
        if len(bad):
            check_finite(self._filled(X), None, self.feature_names)
            raise DataError(
                f"the score of row {bad[0][0]} is {scores[tuple(bad[0])]}, because numbers of X or "
                "of the model are too large. Scale the features."
            )
        return scores

    def explain(self, row: Any, documents: Any = None) -> Explanation:
        """Return the contribution of each feature to the score of one document.

        If the model holds the means of the training data, contributions are counted from there:
        that of a feature is its part in the score, minus the mean of this part. Pairs of features
        with a common part in the score have contributions, too.

        Parameters
        ----------
        row : array, sparse row, frame of one row, or mapping of names to values
            The features of the document.
        documents : array, sparse matrix or frame, optional
            The documents of its query. Only a model that scales features within queries needs them.

        Returns
        -------
        Explanation

        Examples
        --------
        >>> from linrank import LinearModel
        >>> LinearModel([1.0, -0.5]).explain([2.0, 1.0]).contributions.tolist()
        [2.0, -0.5]
        """
        return explain_row(self, row, documents)

    def explain_pair(self, a: Any, b: Any, documents: Any = None) -> Explanation:
        """Return the contribution of each feature to the score of a minus the score of b.

        Parameters
        ----------
        a, b : arrays, sparse rows, frames of one row, or mappings of names to values
            The features of two documents of one query.
        documents
            See `explain`.

        Returns
        -------
        Explanation

        Examples
        --------
        >>> from linrank import LinearModel
        >>> LinearModel([1.0, -0.5]).explain_pair([2.0, 1.0], [2.0, 4.0]).contributions.tolist()
        [0.0, 1.5]
        """
        return explain_two(self, a, b, documents)

    def remember(self, data: RankingData) -> None:
        """Keep a profile of the training data, for `check` and model files."""
        self.profile = TrainingProfile.of(self, data)

    def check(
        self,
        X: Any,
        qid: ArrayLike | None = None,
        *,
        psi: float = 0.25,
        missing: float = 0.1,
        outside: float = 0.05,
    ) -> Drift:
        """Compare other data with the training data, to find out whether the model still applies.

        Of large data, at most 100,000 documents at equal distances are compared. Only features that
        have a part in the score raise alarms.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_docs, n_features), or RankingData
            Documents without labels, in any form that `predict` takes. NaN is accepted.
        qid : array of shape (n_docs,), optional
            The query of each document. Only a model that scales features within queries needs it.
        psi : float
            The largest population stability index of a feature and of the scores. Values above 0.1
            are usually called a small change, and values above 0.25 a large one.
        missing : float
            The largest increase of the share of missing values of a feature.
        outside : float
            The largest share of values of a feature outside of its training range.

        Returns
        -------
        Drift
            With `ok`, `alarms` and the numbers of each feature.

        Examples
        --------
        >>> from linrank import RankSVM, make_ranking
        >>> data = make_ranking(random_state=0)
        >>> model = RankSVM().fit(data).model_
        >>> model.check(data).ok
        True
        >>> data.X[:, 3] += 5.0
        >>> found = model.check(data)
        >>> found.ok, found.features[0].feature
        (False, '4')
        """
        if isinstance(X, RankingData):
            data = with_features(X, self.feature_names, self.n_features)
            X, qid = data.X, data.qid
        return check_drift(self, as_rows(X, self), qid, Limits(psi, missing, outside))

    def check_additive(self) -> None:
        """Raise a `DataError` if scores have no contributions of single features."""
        if not self.is_additive:
            raise DataError(
                f"the scores of a {type(self).__name__} are no sum over features, so they cannot "
                "be explained by contributions of features. Use a linear model, such as RankSVM."
            )

    def export(
        self,
        target: TargetName,
        path: str | os.PathLike[str] | None = None,
        *,
        features: Mapping[str, str] | None = None,
        shift: float | Literal["training"] | None = None,
        sample: Any = None,
        flips: float | None = None,
        **options: object,
    ) -> str | bytes:
        """Write the model in the form of a search engine, a database or a programming language.

        Linear and additive models can be written. A target that takes trees gets the curves of an
        additive model as steps; a `StaircaseWarning` says how far scores may deviate.

        Parameters
        ----------
        target : str
            One of `linrank.export.TARGETS`, such as ``"solr"``, ``"elasticsearch"``, ``"sql"`` or
            ``"onnx"``.
        path : path-like, optional
            File that is written.
        features : mapping, optional
            Names of features in the target, such as ``{"bm25": "bm25(title)"}`` for Vespa.
        shift : float or "training", optional
            A constant that is added to all scores. With ``"training"``, scores are at least 0 for
            every document whose features are within their ranges in the training data.
        sample : RankingData or array, optional
            Documents on which the order in the target is compared with that of the model. An array
            is one query. Targets that round scores to single precision may reverse or tie some
            pairs; an `OrderChangedWarning` has their number.
        flips : float, optional
            The share of the pairs of `sample` whose order may change if curves become steps, such
            as 0.001. It chooses the number of steps.
        **options
            Options of the target, such as ``dialect="sqlite"``; see ``docs/guide/export.md``.

        Returns
        -------
        str or bytes
            The content of the file; bytes for ONNX.

        Examples
        --------
        >>> from linrank import LinearModel
        >>> model = LinearModel([0.5, 0.0, -2.0], feature_names=["bm25", "age", "length"])
        >>> print(model.export("lucene"))
        0.5 * bm25
        - 2.0 * length
        <BLANKLINE>
        """
        export_model = import_module("linrank.export").export_model
        return export_model(
            self, target, path, features=features, shift=shift, sample=sample, flips=flips,
            **options,
        )  # fmt: skip

    @property
    def mean_parts(self) -> Vector | None:
        """The mean of each part of the score in the training data; None if not known."""
        return None

    def _filled(self, X: Matrix) -> Matrix:
        """Return X without the missing values that the model replaces."""
        return X

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model as JSON; an existing file is replaced when the new one is complete.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> from linrank import LinearModel
        >>> path = pathlib.Path(tempfile.mkdtemp(), "model.json")
        >>> LinearModel([1.0, -0.5]).save(path)
        >>> LinearModel.load(path).coef.tolist()
        [1.0, -0.5]
        """
        content = {
            "format": self.format,
            "version": self.version,
            "linrank": __version__,
            "n_features": self.n_features,
            "index_base": self.index_base,
            "feature_names": self.feature_names,
            "settings": plain(self.settings),
            "training": plain(self.training),
            **({"categories": self.categories.describe()} if self.categories.columns else {}),
            **self._parameters(),
            **({} if self.profile is None else {"profile": self.profile.describe()}),
        }
        with atomic_write(path, "w") as file:
            json.dump(content, file, indent=1, allow_nan=False)
            file.write("\n")

    def write_report(self, path: str | os.PathLike[str], title: str = "") -> None:
        """Write a page with all numbers and pictures of the model: one HTML file.

        The page needs no network. Its pictures need matplotlib (``pip install 'linrank[plot]'``).

        Parameters
        ----------
        path : path-like
            An existing file is replaced when the new one is complete.
        title : str
            The heading. Without it, the class of the model is named.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> from linrank import LinearModel
        >>> path = pathlib.Path(tempfile.mkdtemp(), "model.html")
        >>> LinearModel([1.0, -0.5]).write_report(path, "Two features")
        >>> "Two features" in path.read_text(encoding="utf-8")
        True
        """
        import_module("linrank.report.model_page").write_model_page(path, self, title)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model of this class; `load_model` reads models of all classes.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> from linrank import LinearModel
        >>> path = pathlib.Path(tempfile.mkdtemp(), "model.json")
        >>> LinearModel([1.0, -0.5]).save(path)
        >>> LinearModel.load(path).predict([[2.0, 1.0]]).tolist()
        [1.5]
        """
        return cls.from_content(read_content(path), path)

    @classmethod
    def from_content(cls, content: Content, path: str | os.PathLike[str]) -> Self:
        """Make a model from the content of a file; errors name the file by its path."""
        if content.get("format") != cls.format:
            raise wrong_format(path, content, repr(cls.format))
        if type(content.get("version")) is not int or content["version"] < 1:
            raise FileFormatError(f"{path}: damaged: its version is not a number from 1 on")
        if content["version"] > VERSION:
            raise FileFormatError(
                f"{path}: written by a newer linrank ({str(content.get('linrank'))[:40]}, file "
                f"version {content['version']}); linrank {__version__} reads versions up to "
                f"{VERSION}. Upgrade linrank."
            )
        try:
            model = cls._from_parameters(content, **shared_parts(content, cls.most_features))
            model.categories = Categories.from_description(
                content.get("categories", []), model.feature_names
            )
            if content.get("profile") is not None:
                model.profile = TrainingProfile.from_content(content["profile"], model.n_features)
            return model
        except KeyError as error:
            raise FileFormatError(f"{path}: damaged: {error} is missing") from None
        except (DataError, OverflowError, TypeError, ValueError) as error:
            raise FileFormatError(f"{path}: damaged: {error}") from None

    def scores(self, X: Matrix, query_ptr: Integers | None = None) -> Vector:
        """Score the rows of a matrix with the right number of features.

        `query_ptr` holds the rows of each query, for models with `needs_qid`.
        """
        raise NotImplementedError

    def parts(self, X: Array, documents: Array | None = None) -> Vector:
        """Return the parts of the scores of dense rows; those of a row sum to its score.

        Parameters
        ----------
        X : array of shape (n_docs, n_features)
        documents : array, optional
            The documents of the query, for models with `needs_qid`.

        Returns
        -------
        parts : float64 array of shape (n_docs, n_parts)
            In the order of `part_names`.
        """
        raise NotImplementedError

    def _parameters(self) -> Content:
        """Return the entries of the file that only this class of models has."""
        raise NotImplementedError

    @classmethod
    def _from_parameters(cls, content: Content, **shared: Any) -> Self:
        """Make a model from the content of its file; `shared` are the entries of all models."""
        raise NotImplementedError
