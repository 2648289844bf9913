"""`Explanation`: the contribution of each feature to a score, or to the order of two documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse

from .._draw import draw_bars, drawn, height_of_bars
from .._tables import data_frame, html_table, same_decimals, text_table
from .._typing import Array, Integers, Vector
from ..data.checks import Matrix
from ..errors import DataError
from .rows import as_rows

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from .base import Model

TOP = 10  #: contributions that a table or plot shows by default; the others are summed up


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
    values : float64 array of shape (n_features,)
        Values of the features as given; NaN if a value is missing.
    contributions : float64 array of shape (n_features + n_pairs,)
    score : float
        The score; of a pair, the score of the first document minus that of the second.
    base : float
        The mean score of the training data, from which contributions are counted. It is 0 for two
        documents, and for models that do not hold means.
    other : float64 array of shape (n_features,) or None
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
    values: Vector
    contributions: Vector
    score: float
    base: float = 0.0
    other: Vector | None = None
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

    def largest(self, n: int = TOP) -> list[tuple[str, float]]:
        """Return names and contributions of the n features with the largest contributions."""
        return [(self.names[f], float(self.contributions[f])) for f in self.order[:n]]

    def rest(self, n: int = TOP) -> tuple[str, float] | None:
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

    def _with_pairs(self, values: Vector) -> Array:
        """Return the values of the features, followed by texts with both values of each pair."""
        if not self.pairs:
            return values
        both = [f"{_value(values[j])} × {_value(values[k])}" for j, k in self.pairs]
        return np.array([*values.tolist(), *both], dtype=object)

    def table(self, n: int = TOP) -> Cells:
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

    def plot(self, ax: Axes | None = None, top: int = TOP) -> Axes:
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
        shown, left = self.largest(top), self.rest(top)
        name, rest = ("", None) if left is None else left
        label = "contribution to the score" + (" difference" if self.other is not None else "")

        def draw(axes: Axes) -> None:
            draw_bars(
                axes, [name for name, _ in shown], [size for _, size in shown], rest=rest,
                rest_name=name, title=self.title[0].upper() + self.title[1:], label=label,
            )  # fmt: skip

        return drawn(draw, ax, height_of_bars(len(shown) + (rest is not None)))


def _value(x: float | str) -> str:
    if isinstance(x, str):
        return x
    return "missing" if np.isnan(x) else f"{x:.6g}"


def explain_row(model: Model, row: Any, documents: Any) -> Explanation:
    """Return the contributions to the score of one document; see `Model.explain`."""
    X, scores, parts = _parts(model, [row], documents)
    mean, names = model.mean_parts, model.part_names()
    if mean is None:
        return Explanation(names, X[0], parts[0], float(scores[0]), pairs=model.pairs)
    return Explanation(
        names, X[0], parts[0] - mean, float(scores[0]), base=float(mean.sum()), pairs=model.pairs,
        base_name=model.base_name,
    )  # fmt: skip


def explain_two(model: Model, a: Any, b: Any, documents: Any) -> Explanation:
    """Return the contributions to the order of two documents; see `Model.explain_pair`."""
    X, scores, parts = _parts(model, [a, b], documents)
    difference = float(scores[0] - scores[1])
    return Explanation(
        model.part_names(), X[0], parts[0] - parts[1], difference, other=X[1], pairs=model.pairs
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
