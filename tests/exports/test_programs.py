"""PMML evaluators, compilers, Node, LIBLINEAR and Python score exported models."""

from __future__ import annotations

import ctypes
import json
import shutil
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


def score_pmml(text: str, rows: list[dict[str, float]]) -> list[float]:
    """Score rows by JPMML, in the process of this engine."""
    import jpype

    stream = jpype.java.io.ByteArrayInputStream(jpype.JArray(jpype.JByte)(text.encode()))
    builder = jpype.JPackage("org").jpmml.evaluator.LoadingModelEvaluatorBuilder()
    model = builder.load(stream).build().verify()
    boxed = [jpype.java.util.HashMap({n: jpype.JDouble(v) for n, v in row.items()}) for row in rows]
    return [float(model.evaluate(row).get("score")) for row in boxed]


def test_pmml_by_jpmml(weighted, engines):
    engine = engines("pmml")
    names = weighted.model.names()
    rows = [
        {n: v for n, v in zip(names, row, strict=True) if v == v}
        for row in np.asarray(weighted.X, dtype=float).tolist()
    ]
    text = export_model(weighted.model, "pmml", shift=2.0)
    scores = engine.run(score_pmml, text, rows)
    weighted.check(scores, 2.0, by=f"JPMML {engine.version}: linear")


@pytest.fixture
def compile_c(needs, tmp_path):
    """Return the function of a model in C."""
    needs(program="gcc")

    def compile_c(model):
        (tmp_path / "score.c").write_text(export_model(model, "c", name="rank", shift=0.5))
        flags = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O2", "-shared", "-fPIC"]
        command = ["gcc", *flags, "-o", "score.so", "score.c", "-lm"]
        subprocess.run(command, cwd=tmp_path, check=True)
        rank = ctypes.CDLL(str(tmp_path / "score.so")).rank
        rank.restype = ctypes.c_double
        return rank

    return compile_c


def pointers(X):
    """Return a pointer to each row, and the array that they point to."""
    X = np.ascontiguousarray(X, dtype=np.float64)
    return [row.ctypes.data_as(ctypes.POINTER(ctypes.c_double)) for row in X], X


def test_c(case, compile_c):
    rank = compile_c(case.model)
    rows, _kept = pointers(case.X)
    case.check([rank(row) for row in rows], 0.5)


def test_c_with_ranges(in_queries, compile_c):
    rank = compile_c(in_queries.model)
    low, high = in_queries.ends()
    columns, _kept = zip(*map(pointers, (in_queries.X, low, high)), strict=True)
    in_queries.check([rank(*row) for row in zip(*columns, strict=True)], 0.5)


def run(command: list[str], folder, rows) -> list[float]:
    """Run a program that reads rows of numbers and writes scores."""
    text = "".join(" ".join(map(str, row)).replace("nan", "NaN") + "\n" for row in rows)
    done = subprocess.run(command, cwd=folder, input=text, capture_output=True, text=True)
    assert not done.returncode, done.stderr
    return [float(line) for line in done.stdout.split()]


JAVA = """
public class Main {
    public static void main(String[] args) {
        java.util.Scanner lines = new java.util.Scanner(System.in);
        while (lines.hasNextLine()) {
            String[] values = lines.nextLine().split(" ");
            double[] x = java.util.Arrays.stream(values).mapToDouble(Double::parseDouble).toArray();
            System.out.println(Rank.score(ARGUMENTS));
        }
    }
}
"""


def run_java(model, rows, folder, arguments="x"):
    (folder / "Rank.java").write_text(export_model(model, "java", name="Rank", shift=0.5))
    (folder / "Main.java").write_text(JAVA.replace("ARGUMENTS", arguments))
    subprocess.run(["javac", "-Xlint:all", "-Werror", "-encoding", "UTF-8", "Main.java"],
                   cwd=folder, check=True)  # fmt: skip
    return run(["java", "-Xmx256m", "Main"], folder, rows)


def with_ends(case):
    """Return rows of the values, the lowest and the highest values."""
    return np.hstack([np.asarray(case.X, dtype=float), *case.ends()]).tolist()


def test_java(case, needs, tmp_path):
    needs(program="javac")
    rows = np.asarray(case.X, dtype=float).tolist()
    case.check(run_java(case.model, rows, tmp_path), 0.5)


def test_java_with_ranges(in_queries, needs, tmp_path):
    needs(program="javac")
    n = in_queries.X.shape[1]
    parts = [f"java.util.Arrays.copyOfRange(x, {k * n}, {k * n + n})" for k in range(3)]
    rows = with_ends(in_queries)
    in_queries.check(run_java(in_queries.model, rows, tmp_path, ", ".join(parts)), 0.5)


RUST = """
include!("score.rs");
fn main() {
    for line in std::io::stdin().lines() {
        let x: Vec<f64> = line.unwrap().split(' ').map(|v| v.parse().unwrap()).collect();
        println!("{}", rank(ARGUMENTS));
    }
}
"""


def run_rust(model, rows, folder, arguments="&x"):
    if shutil.which("rustc") is None:  # also where CI is set: Debian's is too large to install
        pytest.skip("rustc is not installed")
    (folder / "score.rs").write_text(export_model(model, "rust", name="rank", shift=0.5))
    (folder / "main.rs").write_text(RUST.replace("ARGUMENTS", arguments))
    subprocess.run(["rustc", "-D", "warnings", "-O", "main.rs"], cwd=folder, check=True)
    return run(["./main"], folder, rows)


def test_rust(case, tmp_path):
    rows = np.asarray(case.X, dtype=float).tolist()
    case.check(run_rust(case.model, rows, tmp_path), 0.5)


def test_rust_with_ranges(in_queries, tmp_path):
    n = in_queries.X.shape[1]
    parts = [f"&x[{k * n}..{k * n + n}]" for k in range(3)]
    rows = with_ends(in_queries)
    in_queries.check(run_rust(in_queries.model, rows, tmp_path, ", ".join(parts)), 0.5)


def run_javascript(model, X, folder, call):
    """Run a call with `documents`, whose missing values are null, and return the output."""
    rows = [
        {n: v if v == v else None for n, v in zip(model.names(), row, strict=True)}
        for row in np.asarray(X, dtype=float).tolist()
    ]
    (folder / "rows.json").write_text(json.dumps(rows))
    text = export_model(model, "javascript", shift=0.5)
    read = 'const documents = JSON.parse(require("fs").readFileSync("rows.json"));\n'
    (folder / "main.js").write_text(f"{text}{read}for (const s of {call}) console.log(s);")
    return run(["node", "main.js"], folder, [])


def test_javascript(case, needs, tmp_path):
    needs(program="node")
    case.check(run_javascript(case.model, case.X, tmp_path, "documents.map(x => score(x))"), 0.5)


def test_javascript_scores_queries(in_queries, needs, tmp_path):
    needs(program="node")
    found = np.empty(len(in_queries.X))
    for query in np.unique(in_queries.qid)[:10]:
        rows = in_queries.qid == query
        call = "scoreQuery(documents)"
        found[rows] = run_javascript(in_queries.model, in_queries.X[rows], tmp_path, call)
    known = np.isin(in_queries.qid, np.unique(in_queries.qid)[:10])
    expected = in_queries.scores[known] + 0.5
    np.testing.assert_allclose(found[known], expected, rtol=1e-9, atol=1e-9)


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
