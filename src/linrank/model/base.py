"""`Model`: the base of all models."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from .._checks import whole_number
from .._files import atomic_write
from .._typing import Array, Integers, Vector
from .._version import __version__
from ..data.checks import Matrix, check_finite, group_by_query, take_rows
from ..data.names import names_or_numbers
from ..errors import DataError, FileFormatError
from .explain import Explanation, explain_row, explain_two
from .files import MOST_FEATURES, Content, plain, read_content, shared_parts, wrong_format
from .rows import as_rows
from .shown import ShowsParts

if TYPE_CHECKING:
    from ..export import TargetName

VERSION = 2  #: of the layout of model files; a file of a newer version is refused


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

    def _checked_scores(self, X: Matrix, query_ptr: Integers | None) -> Vector:
        """Return the scores; raise a `DataError` that names the value that made one infinite."""
        scores = self.scores(X, query_ptr)
        if not np.isfinite(scores).all():
            check_finite(self._filled(X), None, self.feature_names)
            if np.isnan(scores).any():
                raise DataError(
                    f"the score of row {int(np.argmax(np.isnan(scores)))} is not a number, because "
                    "numbers of X or of the model are too large. Scale the features."
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
            self, target, path, features=features, shift=shift, sample=sample, **options
        )

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
            **self._parameters(),
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
            return cls._from_parameters(content, **shared_parts(content, cls.most_features))
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
