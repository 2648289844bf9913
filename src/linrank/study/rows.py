"""Rows of a file of results: outcomes as text and bytes, which are checked when they are read.

A file may be damaged, or come from others. A row is therefore compared with the run for which it is
read: the documents and features of its data give the size of each array. Settings are not read from
the file, because the run has them. A digest tells whether any byte of a row has changed.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import datetime
from typing import Any, Literal, NamedTuple

import numpy as np

from .._typing import Array
from ..data.npy import read_head
from .jobs import Job
from .outcomes import LONGEST_CURVE, PATH_FEATURES, Curve, Outcome, Trial, Weights

LONGEST_HEAD = 2**14  #: bytes of the header of an array; numpy writes 128
LARGEST_COUNT = 2**53  #: integers up to this one are exact as float64
SECONDS = ("train_seconds", "score_seconds", "total_seconds")
#: Attributes of an outcome that are numbers or texts.
PLAIN = ("chosen", "n_features", "n_used", *SECONDS, "notes")
#: Arrays of the parts of an outcome.
PARTS = {
    "Weights": ("coef", "Cs", "features", "path"),
    "Curve": ("seconds", "products", "objective", "gradient_norm"),
}
COUNTS = ("Weights.features", "Curve.products")  #: arrays of integers; others are of float64


class Row(NamedTuple):
    """The columns of a row that are read."""

    content: str
    arrays: bytes
    made: str
    versions: str


def pack(job: Job, outcome: Outcome, made: str, versions: Mapping[str, str]) -> Row:
    """Return the row of a finished run, with its digest in the content."""
    content: dict[str, Any] = {
        "trials": [trial._asdict() for trial in outcome.trials],
        **{name: getattr(outcome, name) for name in PLAIN},
    }
    arrays = {"scores": outcome.scores}
    for part in (outcome.weights, outcome.curve):
        if part is not None:
            values = {n: v for n, v in vars(part).items() if isinstance(v, np.ndarray)}
            arrays |= {f"{type(part).__name__}.{name}": value for name, value in values.items()}
    if outcome.weights is not None:
        content["names"] = outcome.weights.names
    content = plain(content)
    row = Row(json.dumps(content), _bytes(arrays), made, json.dumps(versions))
    return row._replace(content=json.dumps(content | {"digest": _digest(job.key, row)}))


def plain(value: Any) -> Any:
    """Return what JSON makes of a value: numbers of numpy become plain, and objects become text."""
    return json.loads(json.dumps(value, default=_plain))


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else repr(value)


def _bytes(arrays: dict[str, Any]) -> bytes:
    with closing(io.BytesIO()) as file:
        np.savez_compressed(file, **arrays)
        return file.getvalue()


def _digest(key: str, row: Row) -> str:
    """Return a hash of the key and the columns of a row."""
    found = hashlib.blake2b(digest_size=16)
    for part in (key, *row):
        data = part if isinstance(part, bytes) else part.encode()
        found.update(len(data).to_bytes(8, "little") + data)
    return found.hexdigest()


def unpack(row: Sequence[Any], job: Job) -> Outcome:
    """Return the outcome that `pack` has packed.

    Raises
    ------
    ValueError, RecursionError
        If the row is damaged or does not fit the run; the message gives the reason.
    """
    row = _typed(row)
    content = _object("content", row.content)
    digest = content.pop("digest", None)  # rows of linrank 0.2.0 have none
    if digest is not None:
        same = digest == _digest(job.key, row._replace(content=json.dumps(content)))
        _require(same, "its digest differs from its content")
    trials = _trials(content.get("trials"), job)
    chosen = _count("chosen", content.get("chosen"))
    _require(chosen < len(trials), f"trial {chosen} is chosen of {len(trials)}")
    n_features = _count("n_features", content.get("n_features"))
    _require(n_features == job.n_features, f"it has {n_features} features, not {job.n_features}")
    arrays = _arrays(row.arrays, _sizes(job, len(trials)))
    weights = _part("Weights", arrays)
    names = _texts("names", content.get("names")) if weights else []
    _require(len(names) == (n_features if weights else 0), f"it has {len(names)} names of features")
    curve = _part("Curve", arrays)
    return Outcome(
        trials=trials, chosen=chosen, scores=arrays["scores"], n_features=n_features,
        n_used=_used("n_used", content.get("n_used")),
        weights=Weights(**weights, names=names) if weights else None,
        curve=Curve(**curve) if curve else None, notes=_texts("notes", content.get("notes")),
        **{name: _seconds(name, content.get(name)) for name in SECONDS},
    )  # fmt: skip


def origin(row: Sequence[Any]) -> tuple[str, dict[str, str]]:
    """Return when the run of a row was made, and with which versions of programs."""
    row = _typed(row)
    datetime.fromisoformat(row.made)
    versions = _object("versions", row.versions)
    names, numbers = (_texts("versions", list(part)) for part in (versions, versions.values()))
    return row.made, dict(zip(names, numbers, strict=True))


def _typed(row: Sequence[Any]) -> Row:
    for name, value in zip(Row._fields, row, strict=True):
        kind = bytes if name == "arrays" else str
        _require(isinstance(value, kind), f"{name} is of the type {type(value).__name__}")
    return Row(*row)


def _object(name: str, text: str) -> dict[str, Any]:
    content = json.loads(text)
    _require(isinstance(content, dict), f"{name} is not an object of JSON")
    return content


def _trials(found: Any, job: Job) -> list[Trial]:
    """Return the trials with the settings of the run; those of a path have a C of their own."""
    _require(isinstance(found, list) and len(found) > 0, "it has no list of trials")
    _require(len(found) == 1 or job.chooser is not None, f"it has {len(found)} trials instead of 1")
    return [_trial(one, job) for one in found]


def _trial(found: Any, job: Job) -> Trial:
    is_trial = isinstance(found, dict) and found.keys() == set(Trial._fields)
    _require(is_trial and isinstance(found["setting"], dict), "a trial has other entries")
    setting = plain(job.setting)
    if job.chooser is not None:
        C = _number("C", found["setting"].get("C"))
        _require(C > 0, f"C is {C}")
        setting |= {"C": C}
    valid, test = (_number(name, found[name], may_lack=True) for name in ("valid", "test"))
    n_features, seconds = _used("n_features", found["n_features"]), found["seconds"]
    return Trial(setting, valid, test, n_features, _seconds("seconds", seconds))


def _number(name: str, value: Any, *, may_lack: bool = False) -> float:
    """Return a finite number; if it may lack, NaN is allowed, too."""
    is_number = type(value) is float or (type(value) is int and abs(value) <= LARGEST_COUNT)
    fits = is_number and (math.isfinite(value) or (may_lack and math.isnan(value)))
    _require(fits, f"{name} is {str(value)[:40] if is_number else type(value).__name__}")
    return value


def _seconds(name: str, value: Any) -> float:
    _require(_number(name, value) >= 0, f"{name} is {value}")
    return value


def _count(name: str, value: Any) -> int:
    fits = type(value) is int and 0 <= value <= LARGEST_COUNT
    _require(fits, f"{name} is not a number of things")
    return value


def _used(name: str, value: Any) -> int | None:
    return None if value is None else _count(name, value)


def _texts(name: str, value: Any) -> list[str]:
    """Return a list of texts that can be written as UTF-8."""
    fits = isinstance(value, list) and all(isinstance(one, str) for one in value)
    _require(fits, f"{name} is not a list of texts")
    return [one.encode("utf-8", "backslashreplace").decode() for one in value]


def _sizes(job: Job, n_trials: int) -> dict[str, tuple[int, ...]]:
    """Return the largest shape of each array."""
    n_Cs = 0 if job.chooser is None else n_trials
    return {
        "scores": (job.n_docs,), "Weights.coef": (job.n_features,), "Weights.Cs": (n_Cs,),
        "Weights.features": (PATH_FEATURES,), "Weights.path": (n_Cs, PATH_FEATURES),
        **{f"Curve.{name}": (LONGEST_CURVE,) for name in PARTS["Curve"]},
    }  # fmt: skip


def _arrays(content: bytes, sizes: dict[str, tuple[int, ...]]) -> dict[str, Array]:
    """Read arrays, each up to its largest size, and check them."""
    found: dict[str, Array] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as file:
            for member in file.infolist():
                name = member.filename.removesuffix(".npy")
                _require(name in sizes and name not in found, f"the array {name[:40]!r} is unknown")
                found[name] = _array(file, member, name, sizes[name])
    except Exception as error:  # zipfile raises many kinds of errors for damaged files
        raise ValueError(f"its arrays cannot be read: {error}") from None
    _check_arrays(found, sizes)
    return found


def _array(
    file: zipfile.ZipFile, member: zipfile.ZipInfo, name: str, largest: tuple[int, ...]
) -> Array:
    _require(
        member.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED), "other compression"
    )
    limit = LONGEST_HEAD + 8 * math.prod(largest)
    with file.open(member) as opened:
        data = opened.read(limit + 1)  # no more is decompressed, whatever the archive claims
    _require(len(data) <= limit, f"{name} has more than {limit:,} bytes")
    start = io.BytesIO(data)
    shape, is_fortran, dtype = read_head(start, name)
    kind = np.dtype(np.int64 if name in COUNTS else np.float64)
    _require(dtype.newbyteorder("=") == kind, f"{name} holds {dtype}")
    fits = len(shape) == len(largest) and all(n <= m for n, m in zip(shape, largest, strict=True))
    _require(fits, f"{name} has the shape {shape}; expected at most {largest}")
    order: Literal["F", "C"] = "F" if is_fortran else "C"
    return np.frombuffer(data, dtype, offset=start.tell()).reshape(shape, order=order).astype(kind)


def _check_arrays(found: dict[str, Array], sizes: dict[str, tuple[int, ...]]) -> None:
    """Check that arrays are complete, fit together, and are finite where numbers are drawn."""
    _require("scores" in found, "it has no scores")
    for name in ("scores", "Weights.coef", "Weights.Cs"):
        if name in found:
            _require(bool(np.isfinite(found[name]).all()), f"{name} are not finite")
    for name in ("scores", "Weights.coef"):
        if name in found:
            _require(found[name].shape == sizes[name], f"{name} has {len(found[name])} values")
    weights, curve = _part("Weights", found), _part("Curve", found)
    if weights:
        Cs, features = weights["Cs"], weights["features"]
        _require(weights["path"].shape == (len(Cs), len(features)), "path has a wrong shape")
        _require(bool((Cs > 0).all()), "a C is not positive")
        inside = (features >= 0) & (features < len(weights["coef"]))
        _require(bool(inside.all()), "features are not those of the data")
    if curve:
        lengths = set(map(len, curve.values()))
        _require(len(lengths) == 1 and lengths != {0}, "the lengths of its curve differ")


def _part(part: str, arrays: dict[str, Array]) -> dict[str, Array]:
    """Return the arrays of a part of an outcome; an empty dict if there are none."""
    found = {name: arrays[f"{part}.{name}"] for name in PARTS[part] if f"{part}.{name}" in arrays}
    _require(len(found) in (0, len(PARTS[part])), f"it lacks arrays of {part}")
    return found


def _require(fits: bool, reason: str) -> None:
    if not fits:
        raise ValueError(reason)
