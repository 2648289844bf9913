"""The scripts of the folder `examples` run, and print what they promise."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from commandline import PATIENCE
from linrank import load_model, read_run

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture
def script(here):
    """Return a function that runs a script in an empty folder, and returns what it prints."""

    def run(name: str) -> str:
        command = [sys.executable, "-W", "error::UserWarning", str(EXAMPLES / f"{name}.py")]
        found = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
        assert found.returncode == 0, found.stderr
        assert found.stderr == ""
        return found.stdout

    return run


def number(pattern: str, text: str) -> float:
    """Return the number that follows a pattern."""
    found = re.search(pattern + r"\s*([+-]?[0-9][0-9,.e+-]*)", text)
    assert found is not None, (pattern, text)
    return float(found[1].rstrip(".,").replace(",", ""))


@pytest.mark.slow
def test_search_engineer(script):
    said = script("search_engineer")
    assert "features: bm25, clicks, price_cents, rating\n" in said
    assert number(r"ndcg@10", said) > 0.8
    assert re.search(r"document \d+ is above document \d+ by 0\.\d+", said)
    assert "Solr changes the order: of no pair" in said
    assert number("a constant of", said) > 0
    solr = json.loads(Path("solr.json").read_text())
    assert solr["name"] == "products"
    assert set(solr["params"]["weights"]) == {"bm25", "clicks", "price_cents", "rating"}
    assert solr["params"]["weights"]["price_cents"] < 0 < solr["params"]["weights"]["rating"]


@pytest.mark.slow
def test_data_scientist(script):
    said = script("data_scientist")
    assert number("NDCG@10 of the folds:", said) > 0.9
    assert number("NDCG@10 of new queries:", said) > 0.9
    assert "the saved model has the scores of the pipeline: True" in said
    assert "importances do not depend on units: True" in said
    assert "values of C that were tried: 9" in said
    assert load_model("model.json").n_features == 5


@pytest.mark.slow
def test_researcher(script):
    said = script("researcher")
    assert "60 queries, 12 features" in said
    ours = number(r"\nranksvm +NDCG@10", said)
    assert ours > 0.85
    assert number(r"RankSVM with C = \S+: NDCG@10 =", said) == ours
    assert ours > number(r"adarank +NDCG@10", said)
    assert number(r"\nmap", said) == number(r"\nranksvm .* MAP", said)  # one convention
    assert 1 <= number(r"NDCG of LETOR 4.0: .*\n", said) < 12  # features of the sparse model
    assert len(re.findall(r"^loss ", said, re.MULTILINE)) == 3
    assert read_run("run.txt").tag == "ranksvm"


@pytest.mark.slow
def test_preferences(script):
    said = script("preferences")
    assert number("new pairs in the right order:", said) > 0.85
    assert number("rank correlation with the true utility:", said) > 0.95
    assert number("stars", said) > 0 > number("distance_km", said)
    assert number("price", said) < 0 < number("breakfast", said)
    assert "the file gives the same model: True" in said


@pytest.mark.slow
def test_auc(script):
    said = script("auc")
    assert number("AUC of new rows:", said) > 0.9
    assert number("AUC of the folds:", said) > 0.9
    assert abs(number("mean probability", said) - number("positive rows", said)) < 0.02
    assert number("pairs of real-valued targets:", said) > 4_000_000
    assert number("Kendall's tau:", said) > 0.7
    assert "the logarithm gives the same model: True" in said
    assert "100,000 rows with " in said


def test_every_script_has_a_test():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {
        name.removeprefix("test_") for name in globals() if name.startswith("test_")
    } - {"every_script_has_a_test"}
