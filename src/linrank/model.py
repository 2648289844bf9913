"""Models: what was learnt, with what is needed to use it safely; JSON on disk."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ._files import atomic_write
from ._rows import multiply
from ._version import __version__
from .data.checks import Matrix, check_matrix
from .errors import DataError, FileFormatError

VERSION = 1
MAX_DEPTH = 20  #: of lists and objects within each other in a model file


class Model:
    """What all models are saved with: the names of their features, and how they were learnt.

    Subclasses name their `format`, and say what else they are made of.
    """

    format: ClassVar[str]

    def __init__(
        self,
        n_features: int,
        feature_names: Sequence[str] | None = None,
        index_base: int = 1,
        settings: Mapping[str, Any] | None = None,
        training: Mapping[str, Any] | None = None,
    ) -> None:
        if feature_names is not None and len(feature_names) != n_features:
            raise DataError(
                f"feature_names has {len(feature_names)} entries for {n_features} features"
            )
        self.n_features = n_features
        self.feature_names = None if feature_names is None else [str(n) for n in feature_names]
        self.index_base = index_base
        self.settings = dict(settings or {})
        self.training = dict(training or {})

    def names(self) -> list[str]:
        """The feature names, or their numbers in LETOR files where there are none."""
        if self.feature_names is not None:
            return self.feature_names
        return [str(self.index_base + f) for f in range(self.n_features)]

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Score documents; higher is better."""
        X = check_matrix(X)
        if X.shape[1] != self.n_features:
            raise DataError(f"X has shape {X.shape} but the model has {self.n_features} features")
        return self._scores(X)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model as JSON; an existing file is replaced only when all is written."""
        content = {
            "format": self.format,
            "version": VERSION,
            "linrank": __version__,
            "n_features": self.n_features,
            "index_base": self.index_base,
            "feature_names": self.feature_names,
            "settings": _plain(self.settings),
            "training": _plain(self.training),
            **self._learnt(),
        }
        with atomic_write(path, "w") as file:
            json.dump(content, file, indent=1, allow_nan=False)
            file.write("\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model; nothing in the file is executed."""
        content = read_content(path)
        if content.get("format") != cls.format:
            raise FileFormatError(f"{path}: not a linrank model (no format {cls.format!r} in it)")
        if type(content.get("version")) is not int or content["version"] < 1:
            raise FileFormatError(f"{path}: damaged: its version is not a number from 1 on")
        if content["version"] > VERSION:
            raise FileFormatError(
                f"{path}: written by a newer linrank ({str(content.get('linrank'))[:40]}, file "
                f"version {content['version']}); this one ({__version__}) reads up to {VERSION}"
            )
        try:
            if type(content["index_base"]) is not int or content["index_base"] not in (0, 1):
                raise DataError(f"index_base is {content['index_base']!r}")
            for name in ("settings", "training"):
                if not isinstance(content[name], dict):
                    raise DataError(f"{name} is not an object")
            more = {name: content[name] for name in ("index_base", "settings", "training")}
            return cls._from_content(content, feature_names=_names(content), **more)
        except KeyError as error:
            raise FileFormatError(f"{path}: damaged: {error} is missing") from None
        except (DataError, OverflowError, TypeError, ValueError) as error:
            raise FileFormatError(f"{path}: damaged: {error}") from None

    def _scores(self, X: Matrix) -> NDArray[np.float64]:
        """The scores of a checked matrix with the right number of features."""
        raise NotImplementedError

    def _learnt(self) -> dict[str, Any]:
        """What the file holds beside what all models have."""
        raise NotImplementedError

    @classmethod
    def _from_content(cls, content: dict[str, Any], **more: Any) -> Self:
        """The model of a file; `more` are what all models have."""
        raise NotImplementedError


class LinearModel(Model):
    """A linear score ``w'x``, with the names of its features and how it was learnt.

    Parameters
    ----------
    coef : array of shape (n_features,)
    feature_names : sequence of str, optional
    index_base : {0, 1}
        The number of the first feature in the LETOR files that it was trained on.
    settings : mapping
        The parameters of the training.
    training : mapping
        How the training went.

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
        coef: Any,
        *,
        feature_names: Sequence[str] | None = None,
        index_base: int = 1,
        settings: Mapping[str, Any] | None = None,
        training: Mapping[str, Any] | None = None,
    ) -> None:
        try:
            self.coef: NDArray[np.float64] = np.array(coef, dtype=np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            raise DataError(f"coef cannot be read as numbers: {error}") from None
        if self.coef.ndim != 1 or not np.isfinite(self.coef).all():
            raise DataError("coef must be a vector of finite numbers")
        super().__init__(len(self.coef), feature_names, index_base, settings, training)

    def with_coef(self, coef: Any, **training: Any) -> LinearModel:
        """The same model with other weights, and more to say about how they were learnt."""
        return LinearModel(
            coef,
            feature_names=self.feature_names,
            index_base=self.index_base,
            settings=self.settings,
            training=self.training | training,
        )

    def _scores(self, X: Matrix) -> NDArray[np.float64]:
        return multiply(X, self.coef)

    def largest(self, n: int) -> list[tuple[str, float]]:
        """The n features with the largest absolute weights."""
        names = self.names()
        order = np.argsort(-np.abs(self.coef), kind="stable")[:n]
        return [(names[f], float(self.coef[f])) for f in order]

    def _learnt(self) -> dict[str, Any]:
        return {"weights": self.coef.tolist()}

    @classmethod
    def _from_content(cls, content: dict[str, Any], **more: Any) -> LinearModel:
        model = cls(numbers(content, "weights"), **more)
        if not model.n_features:
            raise DataError("there are no weights")
        if model.n_features != content["n_features"]:
            raise DataError(
                f"{model.n_features} weights where n_features is {content['n_features']}"
            )
        return model


def read_content(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What a model file holds, of whatever format."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        content = json.loads(text, object_pairs_hook=_without_repeats)
        _check_depth(content)
    except OSError as error:
        raise FileFormatError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:  # not JSON, or not UTF-8
        raise FileFormatError(f"{path}: not a linrank model, or damaged: {error}") from None
    return content if isinstance(content, dict) else {}


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of a JSON file, each of whose names must be given once."""
    content = dict(pairs)
    if len(content) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice[:40]!r} is given twice")
    return content


def _check_depth(content: Any) -> None:
    """Refuse lists and objects within each other that no model has."""
    level = [content]
    for _ in range(MAX_DEPTH):
        below = [list(part.values()) if isinstance(part, dict) else part for part in level]
        level = [item for part in below if isinstance(part, list) for item in part]
    if any(isinstance(part, dict | list) for part in level):
        raise ValueError(f"it is nested more than {MAX_DEPTH} levels deep")


def numbers(content: dict[str, Any], name: str) -> list[float]:
    """A list of numbers of a model file."""
    values = content[name]
    if not isinstance(values, list) or not all(type(v) in (int, float) for v in values):
        raise DataError(f"{name} is not a list of numbers")
    return values


def _names(content: dict[str, Any]) -> list[str] | None:
    values = content["feature_names"]
    if values is not None and not (
        isinstance(values, list) and all(isinstance(v, str) for v in values)
    ):
        raise DataError("feature_names is not a list of names")
    return values


def _plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as JSON can hold them; what it cannot is written as text."""
    return json.loads(json.dumps(dict(settings), default=_as_plain))


def _as_plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else str(value)
