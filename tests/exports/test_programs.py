"""A PMML evaluator, a C compiler, LIBLINEAR and Python score exported models."""

from __future__ import annotations

import ctypes
import subprocess

import numpy as np
import pytest

from linrank.export import export_model


@pytest.fixture(scope="module")
def evaluator(needs):
    """The class of models of pypmml, whose evaluator runs in a Java process."""
    pypmml = needs("pypmml", program="java")
    yield pypmml.Model
    pypmml.Model.close()


def test_pmml(weighted, evaluator):
    rows = slice(0, 400)
    part = weighted._replace(X=np.asarray(weighted.X)[rows], qid=weighted.qid[rows])
    model = evaluator.fromString(export_model(weighted.model, "pmml", shift=2.0))
    names = weighted.model.names()
    scores = [
        model.predict({n: v for n, v in zip(names, row, strict=True) if v == v})["score"]
        for row in np.asarray(part.X, dtype=float).tolist()
    ]
    part.check(scores, 2.0)


def test_c(case, needs, tmp_path):
    needs(program="gcc")
    (tmp_path / "score.c").write_text(export_model(case.model, "c", name="rank", shift=0.5))
    flags = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O2", "-shared", "-fPIC"]
    command = ["gcc", *flags, "-o", "score.so", "score.c", "-lm"]
    subprocess.run(command, cwd=tmp_path, check=True)
    rank = ctypes.CDLL(str(tmp_path / "score.so")).rank
    rank.restype, rank.argtypes = ctypes.c_double, [ctypes.POINTER(ctypes.c_double)]
    X = np.ascontiguousarray(case.X, dtype=np.float64)
    pointers = [row.ctypes.data_as(ctypes.POINTER(ctypes.c_double)) for row in X]
    case.check([rank(pointer) for pointer in pointers], 0.5)


def test_python(case):
    space: dict = {}
    exec(export_model(case.model, "python"), space)
    names = case.model.names()
    rows = np.asarray(case.X, dtype=float).tolist()
    case.check([space["score"](dict(zip(names, row, strict=True))) for row in rows])


@pytest.mark.parametrize("shift", [None, 3.0])
def test_liblinear(linear, needs, tmp_path, shift):
    liblinear = needs("liblinear.liblinearutil")
    linear.model.export("liblinear", tmp_path / "model", shift=shift)
    model = liblinear.load_model(str(tmp_path / "model"))
    _, _, values = liblinear.predict([], np.asarray(linear.X, dtype=np.float64), model, "-q")
    linear.check([value for (value,) in values], shift or 0.0)
