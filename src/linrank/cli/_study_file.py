"""The arguments of ``linrank study`` as a study file, or changes of a study file that is named."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ..errors import DataError
from ._input import Input

if TYPE_CHECKING:
    from ..study.toml import MethodText, StudyFile


def is_study_file(path: Path) -> bool:
    """Tell whether a path names a TOML file."""
    return path.suffix.lower() == ".toml" and not path.is_dir()


def make_study_file(
    sources: Sequence[Path], shared: Mapping[str, Any], own: Mapping[str, Any], inputs: Input
) -> StudyFile:
    """Return what the arguments of the command describe.

    Parameters
    ----------
    sources : sequence of Path
        Data, or one TOML file.
    shared : mapping
        Options that are also keys of a TOML file, and that replace those of the file; None for
        options that are not given.
    own : mapping
        The other options: ``methods``, ``scores``, ``folds`` and ``n_features``.
    inputs : Input
        The columns of tables.
    """
    from ..metrics import parse_metrics
    from ..study.toml import PATHS, StudyFile, read_study

    values = {key: value for key, value in shared.items() if value is not None}
    values |= {key: os.fspath(values[key]) for key in PATHS if key in values}
    if "metrics" in values:
        values["metrics"] = tuple(metric.name for metric in parse_metrics(values["metrics"]))
    if any(map(is_study_file, sources)):
        path = _only_file(sources, own, inputs)
        return replace(read_study(path), **values)
    if own["folds"] is not None:
        values["folds"] = own["folds"]
    methods = _methods(own["methods"], own["scores"])
    if methods:
        values["methods"] = methods
    file = StudyFile({}, **values)
    return replace(file, data=_data(sources, file.folds, own["n_features"], inputs))


def _only_file(sources: Sequence[Path], own: Mapping[str, Any], inputs: Input) -> Path:
    """Return the TOML file, or raise an error about arguments that belong into it."""
    (path, *others) = sorted(sources, key=lambda source: not is_study_file(source))
    if others:
        raise typer.BadParameter(
            f"{path} is a TOML file, which names the data. Add {others[0]} to it, below [data]."
        )
    given = [key for key, value in own.items() if value] + inputs.columns.given()
    given += ["feature_names"] if inputs.feature_names is not None else []
    for key in given:
        raise typer.BadParameter(
            f"--{key.replace('_', '-')} is not combined with a TOML file. Write it into {path}."
        )
    return path


def _data(
    sources: Sequence[Path], folds: int, n_features: int | None, inputs: Input
) -> dict[str, Any]:
    from ..study.folds import DataSet
    from ..study.study import names_of

    options = {name: getattr(inputs.columns, name) for name in inputs.columns.given()}
    if inputs.feature_names is not None:
        options["feature_names"] = os.fspath(inputs.feature_names)
    return {
        name: DataSet(name, os.fspath(source), folds, n_features, options)
        for name, source in zip(names_of(sources), sources, strict=True)
    }


def _methods(methods: list[str] | None, scores: list[str] | None) -> dict[str, MethodText]:
    """Return the methods that are named; an empty mapping if there are none."""
    from ..study.entries import ScoreFiles, split_methods

    texts = [text for given in methods or [] for text in split_methods(given)]
    if methods and not texts:
        raise DataError("--methods is empty. Name some, such as ranksvm,sparse:log.")
    found: dict[str, MethodText] = {text: text for text in texts}
    for given in scores or []:
        name, equals, pattern = given.partition("=")
        if not equals or not name.strip() or not pattern:
            raise typer.BadParameter(
                f"--scores {given!r} is not NAME=PATTERN, such as bm25=runs/{{data}}/{{fold}}.txt"
            )
        if name.strip() in found:
            raise DataError(f"two methods have the name {name.strip()!r}. Use another name.")
        found[name.strip()] = ScoreFiles(name.strip(), pattern)
    return found
