"""Model files: JSON of a known format, checked before it is used."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from scipy import sparse

from .._checks import whole_number
from ..data.checks import Matrix, check_finite, check_matrix
from ..errors import DataError, FileFormatError

if TYPE_CHECKING:
    from .base import Model

Content: TypeAlias = dict[str, Any]  #: a JSON object

# A model file of N bytes must not take more time or memory than a multiple of N. Numbers that size
# an array are therefore compared with the content of the file, or with one of these limits.
MAX_DEPTH = 20  #: nesting levels of lists and objects in a model file; deeper files are refused
MOST_FEATURES = 2**22  #: features of a model whose file may have fewer numbers than features

_MODEL_FILE = "a file that linrank train or model_.save has written"

#: Module and class that read each model format. A module is imported only to read its format.
FORMATS = {
    "linrank-model": ("linrank.model.linear", "LinearModel"),
    "linrank-kernel": ("linrank.estimators.kernel_model", "KernelModel"),
    "linrank-additive": ("linrank.model.additive", "AdditiveModel"),
    "linrank-lightgbm": ("linrank.baselines.trees", "LightGBMModel"),
    "linrank-trees": ("linrank.baselines.trees", "TreeModel"),
    "linrank-stumps": ("linrank.baselines.stumps", "StumpModel"),
    "linrank-topics": ("linrank.estimators.topics_model", "TopicsModel"),
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
