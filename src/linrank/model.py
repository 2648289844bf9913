"""Models: learnt parameters with all that is needed to apply them, saved as JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from ._files import atomic_write
from ._rows import multiply
from ._typing import Vector
from ._version import __version__
from .data.checks import Matrix, check_matrix
from .errors import DataError, FileFormatError

Content: TypeAlias = dict[str, Any]  #: a JSON object

VERSION = 1  #: of the layout of model files; a file of a newer version is refused
MAX_DEPTH = 20  #: nesting levels of lists and objects in a model file; deeper files are refused

#: Module and class that read each model format. A module is imported only to read its format.
FORMATS = {
    "linrank-model": ("linrank.model", "LinearModel"),
    "linrank-stumps": ("linrank.baselines.stumps", "StumpModel"),
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
    >>> path = os.path.join(tempfile.mkdtemp(), "model.json")
    >>> LinearModel([1.0, -0.5]).save(path)
    >>> load_model(path).predict([[2.0, 1.0]]).tolist()
    [1.5]
    """
    content = read_content(path)
    found = content.get("format")
    if not isinstance(found, str) or found not in FORMATS:
        raise _wrong_format(path, content, " or ".join(map(repr, FORMATS)))
    module, name = FORMATS[found]
    model_class: type[Model] = getattr(import_module(module), name)
    return model_class.from_content(content, path)


class Model:
    """Base of all models: feature names, and a record of the training.

    Subclasses define `format`, `scores`, `_parameters` and `_from_parameters`, and are listed in
    `FORMATS`.

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

    def names(self) -> list[str]:
        """Return the feature names or, without names, the feature numbers in LETOR files."""
        if self.feature_names is not None:
            return self.feature_names
        return [str(self.index_base + f) for f in range(self.n_features)]

    def predict(self, X: ArrayLike | Matrix) -> Vector:
        """Score documents; higher is better.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_docs, n_features)

        Returns
        -------
        scores : float64 array of shape (n_docs,)
        """
        X = check_matrix(X)
        if X.shape[1] != self.n_features:
            raise DataError(
                f"X has shape {X.shape} but the model has {self.n_features} features; pass the "
                "features that the model was trained on"
            )
        return self.scores(X)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model as JSON; an existing file is replaced when the new one is complete."""
        content = {
            "format": self.format,
            "version": VERSION,
            "linrank": __version__,
            "n_features": self.n_features,
            "index_base": self.index_base,
            "feature_names": self.feature_names,
            "settings": _plain(self.settings),
            "training": _plain(self.training),
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
            raise _wrong_format(path, content, repr(cls.format))
        if type(content.get("version")) is not int or content["version"] < 1:
            raise FileFormatError(f"{path}: damaged: its version is not a number from 1 on")
        if content["version"] > VERSION:
            raise FileFormatError(
                f"{path}: written by a newer linrank ({str(content.get('linrank'))[:40]}, file "
                f"version {content['version']}); linrank {__version__} reads versions up to "
                f"{VERSION}. Upgrade linrank."
            )
        try:
            return cls._from_parameters(content, **_shared_parts(content))
        except KeyError as error:
            raise FileFormatError(f"{path}: damaged: {error} is missing") from None
        except (DataError, OverflowError, TypeError, ValueError) as error:
            raise FileFormatError(f"{path}: damaged: {error}") from None

    def scores(self, X: Matrix) -> Vector:
        """Score the rows of a checked matrix with the right number of features."""
        raise NotImplementedError

    def _parameters(self) -> Content:
        """Return the entries of the file that only this class of models has."""
        raise NotImplementedError

    @classmethod
    def _from_parameters(cls, content: Content, **shared: Any) -> Self:
        """Make a model from the content of its file; `shared` are the entries of all models."""
        raise NotImplementedError


class LinearModel(Model):
    """Linear model with the score ``w'x``.

    Parameters
    ----------
    coef : array of shape (n_features,)
        Weights w.
    feature_names : sequence of str, optional
    index_base : {0, 1}
        Number of the first feature in the LETOR files that the model was trained on.
    settings : mapping, optional
        Parameters of the training.
    training : mapping, optional
        Outcome of the training, such as the number of iterations.

    Examples
    --------
    >>> model = LinearModel([1.0, -0.5], feature_names=["bm25", "length"])
    >>> model.predict([[2.0, 1.0], [1.0, 4.0]]).tolist()
    [1.5, -1.0]
    >>> model.largest(1)
    [('bm25', 1.0)]
    """

    format = "linrank-model"

    def __init__(
        self,
        coef: ArrayLike,
        *,
        feature_names: Sequence[str] | None = None,
        index_base: int = 1,
        settings: Mapping[str, object] | None = None,
        training: Mapping[str, object] | None = None,
    ) -> None:
        try:
            self.coef: Vector = np.array(coef, dtype=np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            raise DataError(f"coef cannot be read as numbers: {error}") from None
        if self.coef.ndim != 1 or not np.isfinite(self.coef).all():
            raise DataError("coef must be a vector of finite numbers")
        super().__init__(len(self.coef), feature_names, index_base, settings, training)

    def with_coef(self, coef: ArrayLike, **training: object) -> LinearModel:
        """Return a copy with other weights, and with more entries in `training`."""
        return LinearModel(
            coef,
            feature_names=self.feature_names,
            index_base=self.index_base,
            settings=self.settings,
            training=self.training | training,
        )

    def scores(self, X: Matrix) -> Vector:
        """Score the rows of a checked matrix with the right number of features."""
        return multiply(X, self.coef)

    def largest(self, n: int) -> list[tuple[str, float]]:
        """Return names and weights of the n features with the largest absolute weights."""
        names = self.names()
        order = np.argsort(-np.abs(self.coef), kind="stable")[:n]
        return [(names[f], float(self.coef[f])) for f in order]

    def _parameters(self) -> Content:
        return {"weights": self.coef.tolist()}

    @classmethod
    def _from_parameters(cls, content: Content, **shared: Any) -> Self:
        model = cls(numbers(content, "weights"), **shared)
        if not model.n_features:
            raise DataError("there are no weights. Use a model with at least one feature.")
        if model.n_features != content["n_features"]:
            raise DataError(
                f"{model.n_features} weights where n_features is {content['n_features']}. Use one "
                "weight per feature."
            )
        return model


def read_content(path: str | os.PathLike[str]) -> Content:
    """Read the JSON object in a model file of any format."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        content = json.loads(text, object_pairs_hook=_without_repeats)
        _check_depth(content)
    except OSError as error:
        raise FileFormatError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:  # not JSON, or not UTF-8
        raise FileFormatError(f"{path}: not a linrank model, or damaged: {error}") from None
    return content if isinstance(content, dict) else {}


def _wrong_format(path: str | os.PathLike[str], content: Content, expected: str) -> FileFormatError:
    found = content.get("format")
    if found is None:
        return FileFormatError(f'{path}: not a linrank model: it has no "format"')
    shown = repr(found)[:60]
    if isinstance(found, str) and found in FORMATS:
        return FileFormatError(
            f"{path}: a model of the format {shown}, but {expected} is expected here; "
            "linrank.load_model reads models of all formats"
        )
    return FileFormatError(
        f"{path}: not a linrank model: its format is {shown}; expected {expected}"
    )


def _shared_parts(content: Content) -> Content:
    """Check and return the entries of a file that all models have."""
    if type(content["index_base"]) is not int or content["index_base"] not in (0, 1):
        raise DataError(f"index_base is {content['index_base']!r}; expected 0 or 1")
    for name in ("settings", "training"):
        if not isinstance(content[name], dict):
            raise DataError(f"{name} is not an object")
    names = content["feature_names"]
    is_list = isinstance(names, list) and all(isinstance(name, str) for name in names)
    if names is not None and not is_list:
        raise DataError("feature_names is not a list of names")
    return {name: content[name] for name in ("feature_names", "index_base", "settings", "training")}


def _without_repeats(pairs: list[tuple[str, Any]]) -> Content:
    """Return the entries of a JSON object, whose names must be distinct."""
    content = dict(pairs)
    if len(content) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
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


def numbers(content: Content, name: str) -> list[float]:
    """Return an entry of a model file that must be a list of numbers."""
    values = content[name]
    if not isinstance(values, list) or not all(type(v) in (int, float) for v in values):
        raise DataError(f"{name} is not a list of numbers")
    return values


def _plain(settings: Mapping[str, object]) -> Content:
    """Convert settings to JSON types; values that JSON cannot hold become text."""
    return json.loads(json.dumps(dict(settings), default=_as_plain))


def _as_plain(value: object) -> object:
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else str(value)
