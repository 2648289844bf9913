"""ONNX Runtime scores exported graphs, in Python and, as in browsers, in JavaScript."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from linrank import DataError, LinearModel, RankingData
from linrank.export import export_model, order_changes
from linrank.export.targets import check_order, formula_of

from .conftest import absent


@pytest.fixture(scope="module")
def run(needs):
    onnxruntime, _ = needs("onnxruntime", "onnx")

    def run(content, X):
        session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
        (features,) = session.get_inputs()
        assert features.name == "features"
        return session.run(["score"], {"features": X})[0]

    return run


def test_double_precision(case, run):
    content = export_model(case.model, "onnx", shift=1.5)
    scores = run(content, np.asarray(case.X, dtype=np.float64))
    assert scores.dtype == np.float64
    case.check(scores, 1.5)


def test_single_precision(case, run):
    content = export_model(case.model, "onnx", dtype="float32")
    scores = run(content, np.asarray(case.X, dtype=np.float32))
    assert scores.dtype == np.float32
    case.check(scores, rtol=1e-5)


WEB = Path(sys.prefix, "node_modules", "onnxruntime-web")
SCORE = """
const web = require(process.argv[2]), read = require("fs").readFileSync;
const kinds = {float64: Float64Array, float32: Float32Array};
async function main(type, n) {
  const session = await web.InferenceSession.create(read("model.onnx"));
  const bytes = read("rows"), values = new kinds[type](new Uint8Array(bytes).buffer);
  const features = new web.Tensor(type, values, [values.length / n, n]);
  const { score } = await session.run({ features });
  process.stdout.write(Array.from(score.data).join("\\n"));
}
main(process.argv[3], Number(process.argv[4]));
"""


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_web_assembly(case, needs, tmp_path, dtype):
    """The runtime of browsers is WebAssembly, which Node runs, too."""
    needs("onnx", program="node")
    if not WEB.is_dir():
        absent("onnxruntime-web (npm)")
    export_model(case.model, "onnx", tmp_path / "model.onnx", dtype=dtype, shift=1.5)
    X = np.ascontiguousarray(case.X, dtype=dtype)
    (tmp_path / "rows").write_bytes(X.tobytes())
    (tmp_path / "score.js").write_text(SCORE)
    command = ["node", "score.js", str(WEB), dtype, str(X.shape[1])]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert not done.returncode, done.stderr
    version = json.loads((WEB / "package.json").read_text())["version"]
    by = f"onnxruntime-web {version}: {dtype}, {case.kind}"
    scores = np.array(done.stdout.split(), dtype=float)
    case.check(scores, 1.5, rtol=1e-9 if dtype == "float64" else 1e-5, by=by)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_two_inputs_hold_the_ranges_of_queries(in_queries, needs, dtype):
    onnxruntime, _ = needs("onnxruntime", "onnx")
    content = export_model(in_queries.model, "onnx", dtype=dtype, shift=0.5)
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    low, high = in_queries.ends()
    whole = {"features": in_queries.X, "low": low, "high": high}
    first = {"features": in_queries.X, "low": low[:1], "high": high[:1]}
    first["features"] = in_queries.X[in_queries.qid == in_queries.qid[0]]
    scores, alone = (
        session.run(["score"], {name: v.astype(dtype) for name, v in inputs.items()})[0]
        for inputs in (whole, first)
    )
    # Positions in a narrow range lose digits in single precision, and a steep curve shows it.
    single = 0.05 if in_queries.kind == "additive" else 1e-4
    in_queries.check(scores, 0.5, rtol=1e-9 if dtype == "float64" else single)
    np.testing.assert_array_equal(alone, scores[: len(alone)])
    facts = session.get_modelmeta().custom_metadata_map
    assert ("missing_as" in facts) == (in_queries.model.preprocessing.fill is not None)


def test_the_number_of_changed_pairs_is_about_that_of_the_runtime(linear, run, data):
    """Rounding depends on the order of a sum, so the numbers are not the same."""
    far = 1e6 * linear.X.std()  # single precision rounds to about 0.06 standard deviations there
    rows = RankingData(linear.X + far, data.y, data.qid)
    formula = formula_of(linear.model)
    content = linear.model.export("onnx", dtype="float32")
    said = check_order("onnx", formula, rows, dtype="float32")
    seen = order_changes(
        formula, rows, lambda _, X: run(content, X.astype(np.float32)).astype(float)
    )
    assert said.reversed + said.tied > 100
    assert 1 / 3 < (said.reversed + said.tied) / (seen.reversed + seen.tied) < 3


@pytest.mark.parametrize("weight", [1e39, -1e300])
def test_weights_beyond_single_precision_are_refused(needs, weight):
    needs("onnx")
    model = LinearModel([weight, 1.0])
    with pytest.raises(DataError, match="too large for dtype='float32'"):
        model.export("onnx", dtype="float32")
    assert model.export("onnx")


def test_names_are_in_the_metadata(linear, needs, tmp_path):
    onnx = needs("onnx")
    path = tmp_path / "model.onnx"
    content = linear.model.export("onnx", path, name="mine")
    assert path.read_bytes() == content
    model = onnx.load_from_string(content)
    onnx.checker.check_model(model, full_check=True)
    assert model.graph.name == "mine"
    (names,) = [p.value for p in model.metadata_props if p.key == "feature_names"]
    assert json.loads(names) == linear.model.feature_names


def test_without_the_package_the_error_names_it(linear, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(DataError, match=r"pip install 'linrank\[onnx\]'"):
        linear.model.export("onnx")
