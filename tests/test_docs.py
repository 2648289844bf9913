"""The Python examples of the documents run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "docs"
EXAMPLES = [
    pytest.param(code, id=f"{path.stem} {number}")
    for path in sorted(FOLDER.glob("*.md"))
    for number, code in enumerate(re.findall(r"```python\n(.*?)```", path.read_text(), re.S), 1)
]


@pytest.mark.slow
@pytest.mark.parametrize("code", EXAMPLES)
def test_examples_run(code):
    exec(compile(code, "example", "exec"), {})


def test_there_are_examples():
    assert len(EXAMPLES) >= 6
