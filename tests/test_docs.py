"""The Python examples of the documents run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import sklearn

from linrank import LinearModel
from linrank.cli.demo import RECIPE
from linrank.data.generate import make_letor_folder

ROOT = Path(__file__).parents[1]


def examples(path):
    return re.findall(r"```python\n(.*?)```", path.read_text(), re.DOTALL)


EXAMPLES = [
    pytest.param(code, id=f"{path.stem} {number}")
    for path in sorted(ROOT.glob("docs/**/*.md"))
    for number, code in enumerate(examples(path), 1)
]


@pytest.mark.slow
@pytest.mark.parametrize("code", EXAMPLES)
def test_examples_run(code):
    exec(compile(code, "example", "exec"), {})


def test_there_are_examples():
    assert len(EXAMPLES) >= 6


def test_the_examples_of_the_readme_run_on_the_files_of_the_demo(here):
    """One after the other, as a reader would type them: the second uses what the first made."""
    make_letor_folder("demo", **RECIPE)
    codes = examples(ROOT / "README.md")
    assert len(codes) >= 2
    names = {}
    with sklearn.config_context():  # one of them changes the configuration
        for code in codes:
            exec(compile(code, "README.md", "exec"), names)
    assert LinearModel.load("model.json").n_features == RECIPE["n_features"]
    assert names["ranker"].score(names["test"].X, names["test"].y, qid=names["test"].qid) > 0.7
