"""The examples of the documents run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from commandline import run
from linrank import LinearModel
from linrank.cli.demo import RECIPE
from linrank.data.generate import make_letor_folder

ROOT = Path(__file__).parents[2]


def examples(path, language="python"):
    return re.findall(rf"```{language}\n(.*?)```", path.read_text(), re.DOTALL)


START = sorted(ROOT.glob("docs/start/*.md"))
PAGES = {*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")} - {ROOT / "README.md", *START}
EXAMPLES = [
    pytest.param(code, id=f"{path.stem} {number}")
    for path in sorted(PAGES)
    for number, code in enumerate(examples(path), 1)
]


@pytest.mark.slow
@pytest.mark.parametrize("code", EXAMPLES)
def test_examples_run(code):
    exec(compile(code, "example", "exec"), {})


# Pages with code of another library, in blocks of the language `py`, and the library.
PEERS = {"lightgbm": "lightgbm", "xgboost": "xgboost", "scikit-survival": "sksurv"}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # warnings of other libraries
@pytest.mark.parametrize("page", PEERS)
def test_examples_beside_other_libraries_run(page):
    pytest.importorskip(PEERS[page])
    codes = examples(ROOT / "docs" / "coming-from" / f"{page}.md", "py(?:thon)?")
    assert len(codes) >= 2
    names = {}
    for code in codes:
        exec(compile(code, page, "exec"), names)


def test_there_are_examples():
    assert len(EXAMPLES) >= 6


def test_the_examples_of_the_readme_run_on_the_files_of_the_demo(here, capsys):
    """One after the other, as a reader would type them: the second uses what the first made."""
    make_letor_folder("demo", **RECIPE)
    codes = examples(ROOT / "README.md")
    assert codes
    names = {}
    for code in codes:
        exec(compile(code, "README.md", "exec"), names)
    assert LinearModel.load("model.json").n_features == RECIPE["n_features"]
    printed = capsys.readouterr().out
    assert float(printed.split()[1]) == pytest.approx(0.83, abs=0.006)


def test_the_commands_of_the_readme_print_what_it_shows(here, monkeypatch):
    make_letor_folder("demo", **RECIPE)
    monkeypatch.chdir("demo")
    shown = [text for text in examples(ROOT / "README.md", "console") if "$ linrank" in text]
    assert len(shown) == 1
    check_commands(shown[0])


@pytest.mark.slow
@pytest.mark.parametrize("page", START, ids=lambda page: page.stem)
def test_pages_for_a_start_print_what_they_show(page, here, monkeypatch, capsys):
    make_letor_folder("demo", **RECIPE)
    steps = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", page.read_text(), re.DOTALL)
    assert len(steps) == len(examples(page))
    names = {}
    for code, output in steps:
        exec(compile(code, page.name, "exec"), names)
        check_output(output, capsys.readouterr().out)
    monkeypatch.chdir("demo")
    for shown in examples(page, "console"):
        check_commands(shown)


def check_commands(shown):
    """Run the commands of an example, and compare what they print with what is shown."""
    for command in re.findall(r"^\$ linrank (.*(?:\n(?!\$).*)*)", shown, re.MULTILINE):
        line, _, output = command.partition("\n")
        if line.partition(" ")[0] not in ("demo", "--help"):  # their output is not shown
            check_output(output, run(*line.split()).output)


def check_output(shown, printed):
    assert words(shown) == words(printed)
    assert decimals(shown) == pytest.approx(decimals(printed), abs=5e-3)


def words(output):
    """What is printed but for decimals and the line of the solver, which depend on rounding."""
    lines = (line for line in output.splitlines() if not line.startswith("solver "))
    return re.sub(r"\d+\.\d+", "", " ".join(lines)).split()


def decimals(output):
    lines = (line for line in output.splitlines() if not line.startswith("solver "))
    return [float(number) for line in lines for number in re.findall(r"\d+\.\d+", line)]
