"""`Model`: the base of all models."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from .._files import atomic_write
from .._typing import Integers, Vector
from .._version import __version__
from ..data.checks import Matrix, check_finite, group_by_query, take_rows
from ..errors import DataError, FileFormatError
from .files import Content, plain, read_content, shared_parts, wrong_format
from .rows import as_rows

VERSION = 2  #: of the layout of model files; a file of a newer version is refused


class Model:
    """Base of all models: feature names, and a record of the training.

    Subclasses define `format`, `scores`, `_parameters` and `_from_parameters`, and are listed in
    `linrank.model.FORMATS`.

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

    def __init__(
        self,
        n_features: int,
        feature_names: Sequence[str] | None = None,
        index_base: int = 1,
        settings: Mapping[str, object] | None = None,
        training: Mapping[str, object] | None = None,
    ) -> None:
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

    def names(self) -> list[str]:
        """Return the feature names or, without names, the feature numbers in LETOR files."""
        if self.feature_names is not None:
            return self.feature_names
        return [str(self.index_base + f) for f in range(self.n_features)]

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
        return scores

    def _filled(self, X: Matrix) -> Matrix:
        """Return X without the missing values that the model replaces."""
        return X

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model as JSON; an existing file is replaced when the new one is complete."""
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

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model of this class; `load_model` reads models of all classes."""
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
            return cls._from_parameters(content, **shared_parts(content))
        except KeyError as error:
            raise FileFormatError(f"{path}: damaged: {error} is missing") from None
        except (DataError, OverflowError, TypeError, ValueError) as error:
            raise FileFormatError(f"{path}: damaged: {error}") from None

    def scores(self, X: Matrix, query_ptr: Integers | None = None) -> Vector:
        """Score the rows of a matrix with the right number of features.

        `query_ptr` holds the rows of each query, for models with `needs_qid`.
        """
        raise NotImplementedError

    def _parameters(self) -> Content:
        """Return the entries of the file that only this class of models has."""
        raise NotImplementedError

    @classmethod
    def _from_parameters(cls, content: Content, **shared: Any) -> Self:
        """Make a model from the content of its file; `shared` are the entries of all models."""
        raise NotImplementedError
