"""Files of votes, the command ``linrank arena``, and checks of a fitted model."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import vote_tables
from linrank import DataError, PreferenceModel, read_votes
from linrank.cli.app import app
from linrank.preferences.diagnosis import (
    calibration,
    count_cycles,
    elo,
    judge_influence,
    votes_needed,
)
from linrank.preferences.votes import make_votes

EXPECTED = [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 1]]
FILES = {
    "arena": {"model_a": list("xyxy"), "model_b": list("yxyx"),
              "winner": ["model_a", "model_b", "tie", "tie (bothbad)"]},
    "flags": {"model_a": list("xyxy"), "model_b": list("yxyx"), "winner_model_a": [1, 0, 0, 0],
              "winner_model_b": [0, 1, 0, 0], "winner_tie": [0, 0, 1, 1]},
    "names": {"model_a_name": list("xyxy"), "model_b_name": list("yxyx"),
              "chosen_model_name": ["x", "x", "both", "neither"]},
    "sides": {"left": list("xyxy"), "right": list("yxyx"),
              "winner": ["left", "right", "tie", "tie"]},
    "chess": {"White": list("xyxy"), "Black": list("yxyx"),
              "Result": ["1-0", "0-1", "1/2-1/2", "1/2-1/2"]},
    "counts": {"home.team": list("xyxy"), "away.team": list("yxyx"), "home.wins": [1, 0, 0, 0],
               "away.wins": [0, 1, 0, 0], "ties": [0, 0, 1, 1]},
    "shares": {"a": list("xyxy"), "b": list("yxyx"), "outcome": [1.0, 0.0, 0.5, 0.5]},
    "both equal": {"model_a_name": list("xyxy"), "model_b_name": list("yxyx"),
                   "chosen_model_name": ["x", "x", None, None],
                   "both_equal": [False, False, True, True]},
    "annotations": {"generator_1": list("xyxy"), "generator_2": list("yxyx"),
                    "preference": [1.0, 2.0, 1.5, 1.5]},
    "letters": {"HomeTeam": list("xyxy"), "AwayTeam": list("yxyx"), "FTHG": [1, 0, 2, 0],
                "FTAG": [0, 3, 2, 0], "FTR": ["H", "A", "D", "D"]},
    "scores": {"home_team": list("xyxy"), "away_team": list("yxyx"), "home_score": [1, 0, 2, 0],
               "away_score": [0, 3, 2, 0]},
    "colours": {"white_id": list("xyxy"), "black_id": list("yxyx"),
                "winner": ["white", "black", "draw", "draw"]},
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kind", ["csv", "parquet", "jsonl", "json"])
def test_formats_of_arenas_are_read_by_content(name, kind, tmp_path):
    frame, path = pd.DataFrame(FILES[name]), tmp_path / f"votes.{kind}"
    write = {
        "csv": lambda: frame.to_csv(path, index=False),
        "parquet": lambda: frame.to_parquet(path),
        "jsonl": lambda: frame.to_json(path, orient="records", lines=True),
        "json": lambda: frame.to_json(path, orient="records"),
    }
    write[kind]()
    votes = read_votes(path)
    assert votes.items == ["x", "y"]
    assert votes.wins.tolist() == EXPECTED


def test_pairs_of_winner_and_loser_are_read(tmp_path):
    for names in (("winner", "loser"), ("winner_name", "loser_name")):
        path = tmp_path / "votes.csv"
        pd.DataFrame({names[0]: ["x", "y"], names[1]: ["y", "z"]}).to_csv(path, index=False)
        assert read_votes(path).wins.tolist() == [[1, 0, 0], [1, 0, 0]]


def test_the_letter_a_means_away_beside_home_teams():
    letters, teams = ["A", "D", "A"], (["x", "y", "x"], ["y", "z", "z"])
    frame = pd.DataFrame({"home_team": teams[0], "away_team": teams[1], "result": letters})
    wins = [[0, 1, 0], [0, 0, 1], [0, 1, 0]]
    assert PreferenceModel(penalty=1.0).fit(frame).votes_.wins.tolist() == wins
    assert make_votes(*teams, ["A", "D", "H"]).wins.tolist() == [*wins[:2], [1, 0, 0]]
    assert make_votes(*teams, ["a", "tie", "a"]).wins.tolist() == [[1, 0, 0], *wins[1:2], [1, 0, 0]]


def test_other_columns_of_arenas_are_not_read(tmp_path):
    """Conversations are long, and columns of objects may hold anything."""
    path = tmp_path / "votes.json"
    talk = [{"role": "user", "content": "hi"}]
    rows = [{"model_a": "x", "model_b": "y", "winner": "model_b", "judge": f"u{k}", "turn": talk,
             "tstamp": k if k else "?"} for k in range(2)]  # fmt: skip
    path.write_text(json.dumps(rows))
    votes = read_votes(path)
    assert votes.judges == ["u0", "u1"]
    packed = tmp_path / "votes.jsonl.gz"
    packed.write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    assert read_votes(packed).wins.tolist() == votes.wins.tolist() == [[0, 1, 0]] * 2


@pytest.mark.parametrize(("names", "expected"), [
    (["7", "12"], [7, 12]), (["007", "7"], ["007", "7"]), (["NA", "null"], ["NA", "null"]),
    (["1e3", "1000"], ["1e3", "1000"]),
])  # fmt: skip
def test_names_of_items_are_text_or_canonical_integers(names, expected, tmp_path):
    path = tmp_path / "votes.csv"
    path.write_text(f"model_a,model_b,winner\n{names[0]},{names[1]},{names[1]}\n")
    votes = read_votes(path)
    assert votes.items == expected
    assert votes.wins.tolist() == [[0, 1, 0]]


def test_numbers_that_also_name_items_are_refused():
    with pytest.raises(DataError, match="both an outcome and the name of an item"):
        make_votes([2, 1], [1, 2], [1, 2])
    assert make_votes(["x", "y"], ["y", "x"], [1, 2]).wins.tolist() == [[1, 0, 0], [0, 1, 0]]
    assert make_votes([5, 6], [6, 7], [6, 6]).wins.tolist() == [[0, 1, 0], [1, 0, 0]]


@pytest.mark.parametrize(("text", "said"), [
    ("model_a,model_b,winner\nx,y,modle_a\n", "outcome[0] is 'modle_a'; did you mean 'model_a'?"),
    ("x,y,z\n1,2,3\n", "the columns are 'x', 'y', 'z'; expected model_a, model_b and winner"),
    ("model_a,model_b,winner\nx,x,model_a\n", "vote 0 compares 'x' with itself"),
    ("model_a,model_b,winner\nx,,model_a\n", "missing item"),
    ("model_a,model_b,winner\nx,y,\n", "outcome[0] is None; expected 'a', 'b', 'tie' or"),
    ("model_a,model_b,winner\n", "there are no votes"),
    ("home_team,away_team,home_score,away_score\nx,y,1,\n", "vote 0 has a missing score"),
    ('{"model_a": ', "is not valid JSON"),
    ("[1]", "expected a list of objects"),
])  # fmt: skip
def test_files_that_are_wrong_get_a_sentence(text, said, tmp_path):
    path = tmp_path / "votes.csv"
    path.write_text(text)
    with pytest.raises(DataError) as error:
        read_votes(path)
    assert said in str(error.value)
    assert str(path) in str(error.value)


def league_file(tmp_path):
    home, away, counts = vote_tables.baseball()
    path = tmp_path / "games.csv"
    pd.DataFrame({"home_team": home, "away_team": away, "home_wins": counts[:, 0],
                  "away_wins": counts[:, 1]}).to_csv(path, index=False)  # fmt: skip
    return path


def test_the_command_prints_a_leaderboard_and_writes_a_page(tmp_path):
    path, page = league_file(tmp_path), tmp_path / "out.html"
    done = CliRunner().invoke(app, ["arena", str(path), "--order-effect", "--report", str(page)])
    assert done.exit_code == 0, done.output
    lines = [line for line in done.output.splitlines() if "Milwaukee" in line]
    assert lines[0].split()[:2] == ["Milwaukee", "1"]
    assert "order effect" in done.output
    assert "0.3023" in done.output
    text = page.read_text("utf-8")
    assert all(word in text for word in ("Leaderboard", "Calibration", "Sequential Elo", "<svg"))


def test_the_command_prints_json_and_writes_tables(tmp_path):
    path = league_file(tmp_path)
    done = CliRunner().invoke(
        app, ["arena", str(path), "--json", "--scale", "400", "--base", "1500", "--report",
              str(tmp_path / "out.csv")],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)
    assert found["rows"][0][:2] == ["Milwaukee", 1]
    table = pd.read_csv(tmp_path / "out.csv")
    assert table["strength"].mean() == pytest.approx(1500)


def test_bad_options_of_the_command_get_a_sentence(tmp_path):
    path = str(league_file(tmp_path))
    for options, said in (
        (["--penalty", "ridge"], "expected a number, none"),
        (["--column", "winner=home_team"], "known uses are a, b"),
        (["--column", "a=team"], "there is no column 'team'"),
        (["--covariates", "length"], "there is no column 'length'"),
    ):
        done = CliRunner().invoke(app, ["arena", path, *options], env={"COLUMNS": "300"})
        assert done.exit_code == 2
        assert said in " ".join(done.output.split())


def test_elo_against_a_slow_twin():
    a, b, words = vote_tables.single_votes(*vote_tables.schools())
    rows = np.random.default_rng(0).permutation(len(a))[:500]
    votes = make_votes([a[k] for k in rows], [b[k] for k in rows], [words[k] for k in rows])
    ratings = dict.fromkeys(votes.items, 1000.0)
    for k in rows:
        y = {"a": 1.0, "b": 0.0, "tie": 0.5}[words[k]]
        p = 1 / (1 + 10 ** ((ratings[b[k]] - ratings[a[k]]) / 400))
        ratings[a[k]] += 32 * (y - p)
        ratings[b[k]] -= 32 * (y - p)
    assert elo(votes) == pytest.approx(ratings)


def test_cycles_against_all_triples():
    rng = np.random.default_rng(1)
    a, b = rng.integers(7, size=80), rng.integers(7, size=80)
    votes = make_votes(a[a != b], b[a != b], rng.choice(["a", "b"], (a != b).sum()))
    n = len(votes.items)
    won = np.zeros((n, n))
    np.add.at(won, (votes.a, votes.b), votes.wins[:, 0])
    np.add.at(won, (votes.b, votes.a), votes.wins[:, 1])
    beats = won > won.T
    slow = sum(bool(beats[i, j] and beats[j, k] and beats[k, i])
               for i in range(n) for j in range(n) for k in range(n)) / 3  # fmt: skip
    assert count_cycles(votes) == slow > 0


def test_influence_is_near_the_change_without_a_judge():
    rng = np.random.default_rng(2)
    a = rng.integers(4, size=2000)
    b = (a + rng.integers(1, 4, 2000)) % 4
    judge = rng.integers(40, size=2000)
    outcome = np.where(judge == 7, "a", rng.choice(["a", "b", "tie"], 2000))
    model = PreferenceModel().fit(a, b, outcome, judge=judge)
    found = judge_influence(model)
    assert found["votes"].sum() == 2000
    first = found.iloc[0]
    number = model.votes_.judges.index(first["judge"])
    without = PreferenceModel().fit(model.votes_.take(np.flatnonzero(model.votes_.judge != number)))
    place = model.votes_.items.index(first["item"])
    change = without.strengths_.values[place] - model.strengths_.values[place]
    assert change == pytest.approx(first["change"], rel=0.25)


def test_calibrated_predictions_and_further_votes():
    model = PreferenceModel(order_effect=True).fit(*vote_tables.schools())
    found = calibration(model, model.votes_, 5)
    total = (found["votes"] * (found["predicted"] - found["observed"])).sum()
    assert total == pytest.approx(0.0, abs=1e-6 * found["votes"].sum())
    width = 0.03
    more = votes_needed(model, width)
    table = model.table().set_index("item")
    ratio = (more + table["votes"]) / table["votes"]
    half = 1.959964 * table["se"] / np.sqrt(ratio)
    assert half.max() <= width * 1.0001


def test_further_votes_give_the_intervals_that_were_asked_for():
    rng = np.random.default_rng(3)
    truth = np.array([0.0, 0.3, 0.6, 0.9])

    def draw(n_votes):
        a = rng.integers(4, size=n_votes)
        b = (a + rng.integers(1, 4, n_votes)) % 4
        return a, b, (rng.random(n_votes) < 1 / (1 + np.exp(truth[b] - truth[a]))).astype(float)

    model = PreferenceModel().fit(*draw(1000))
    for scale in (None, 400.0):
        width = 0.05 * (1 if scale is None else scale / np.log(10))
        more = votes_needed(model, width, scale=scale)
        table = PreferenceModel().fit(*draw(1000 + int(more.mean() * 2))).table(scale=scale)
        half = (table["high"] - table["low"]).mean() / 2
        assert half == pytest.approx(width, rel=0.1)
