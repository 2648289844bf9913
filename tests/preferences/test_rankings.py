"""Plackett–Luce models of rankings, beside figures of R and a slow twin."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from linrank import DataError, PreferenceModel, fit_rankings, read_rankings
from linrank.preferences.likelihood import minimise
from linrank.preferences.rankings import RankingLikelihood, make_rankings

#: Six brands of pudding, compared in pairs (Davidson 1970): wins, losses and ties.
PUDDING = (
    (1, 2, 19, 22, 16), (1, 3, 16, 19, 12), (2, 3, 19, 19, 10), (1, 4, 18, 23, 13),
    (2, 4, 23, 19, 9), (3, 4, 19, 20, 15), (1, 5, 13, 19, 18), (2, 5, 16, 20, 12),
    (3, 5, 16, 15, 17), (4, 5, 17, 14, 16), (1, 6, 18, 21, 12), (2, 6, 22, 20, 12),
    (3, 6, 13, 18, 10), (4, 6, 14, 19, 18), (5, 6, 11, 21, 12),
)  # fmt: skip
FRUIT = (
    ("apple", "banana"), ("banana", "orange", "pear", "apple"), (("banana", "orange", "pear"),
    "apple"), ("apple", "banana", "orange"), (("banana", "orange"), "apple"),
    ("apple", "pear", "orange"),
)  # fmt: skip


def test_pudding_has_the_figures_of_r():
    """PlackettLuce 0.4.3 with npseudo = 0; pairs with ties are Davidson's model."""
    rankings, weight = [], []
    for i, j, won, lost, tied in PUDDING:
        rankings += [[i, j], [j, i], [(i, j)]]
        weight += [won, lost, tied]
    model = fit_rankings(rankings, weight=weight, reference=1)
    table = model.table().set_index("item")
    expected = [0.2202419, 0.1529777, 0.1751449, 0.1338652, 0.3771349]
    assert table["strength"][[2, 3, 4, 5, 6]].tolist() == pytest.approx(expected, abs=1e-7)
    errors = [0.1872170, 0.1935184, 0.1882111, 0.1927046, 0.1924062]
    assert table["se"][[2, 3, 4, 5, 6]].tolist() == pytest.approx(errors, abs=1e-6)
    assert model.ties == {2: pytest.approx((-0.2919271, 0.0824987), abs=1e-6)}
    assert model.log_likelihood == pytest.approx(-809.70951, abs=1e-5)
    rows = np.array(PUDDING)
    votes = PreferenceModel(reference=1).fit(rows[:, 0], rows[:, 1], rows[:, 2:])
    again = votes.table().set_index("item")
    assert again["strength"][[2, 3, 4, 5, 6]].tolist() == pytest.approx(expected, abs=1e-7)


def test_ties_of_several_items_have_the_figures_of_r():
    """PlackettLuce 0.4.3 with npseudo = 0."""
    model = fit_rankings(FRUIT, reference="apple")
    table = model.table().set_index("item").loc[["banana", "orange", "pear"]]
    assert table["strength"].tolist() == pytest.approx(
        [0.2942875, -0.7335113, -0.1190960], abs=2e-6
    )
    assert table["se"].tolist() == pytest.approx([1.0499597, 1.1509839, 1.0798152], abs=2e-6)
    assert model.ties[2] == pytest.approx((-1.8619467, 1.0741139), abs=2e-6)
    assert model.ties[3] == pytest.approx((-0.7369735, 1.1372084), abs=2e-6)
    assert model.log_likelihood == pytest.approx(-14.5697393, abs=1e-6)


def random_rankings(rng, n=5, n_rankings=40):
    found = []
    for _ in range(n_rankings):
        items = rng.permutation(n)[: rng.integers(2, n + 1)].tolist()
        cuts = [k for k in range(1, len(items)) if rng.random() < 0.7]
        found.append([tuple(items[i:j]) for i, j in itertools.pairwise([0, *cuts, len(items)])])
    return [[[0], [1], [2], [3], [4]], [[4], [3], [2], [1], [0]], *found]


def test_value_gradient_and_hessian_against_all_subsets():
    rng = np.random.default_rng(0)
    rankings = make_rankings(random_rankings(rng), rng.integers(1, 4, 42))
    likelihood = RankingLikelihood(rankings, 0.3)
    sizes = likelihood.sizes.tolist()
    n = len(rankings.items)

    def value(theta):
        worth = {1: 0.0} | dict(zip(sizes[1:], theta[n:], strict=True))
        total = 0.15 * (theta[:n] ** 2).sum()
        for groups, weight in zip(rankings.groups, rankings.weight, strict=True):
            left = [item for group in groups for item in group]
            for group in groups:
                if len(left) > 1:
                    all_sets = [S for d in sizes for S in itertools.combinations(left, d)]
                    logs = [worth[len(S)] + np.mean(theta[list(S)]) for S in all_sets]
                    own = worth[len(group)] + np.mean(theta[group])
                    total += weight * (np.logaddexp.reduce(logs) - own)
                left = left[len(group) :]
        return total

    theta = rng.standard_normal(likelihood.n_theta)
    found, grad = likelihood.value_grad(theta)
    assert found == pytest.approx(value(theta), rel=1e-12)
    assert grad == pytest.approx(approx_fprime(theta, value, 1e-6), abs=1e-3)
    assert likelihood.scores(theta).sum(axis=0) + likelihood.penalty * theta == pytest.approx(grad)
    numeric = approx_fprime(theta, lambda t: likelihood.value_grad(t)[1], 1e-6)
    assert likelihood.hessian(theta) == pytest.approx(numeric, abs=1e-3)


@pytest.mark.parametrize(("name", "text"), [
    ("new.toi", "# TITLE: t\n# ALTERNATIVE NAME 1: x\n# ALTERNATIVE NAME 2: y, z\n"
                "# ALTERNATIVE NAME 3: w\n5: 1,{2,3}\n2: 3\n"),
    ("old.toi", "3\n1,x\n2,y, z\n3,w\n7,7,2\n5,1,{2,3}\n2,3\n"),
])  # fmt: skip
def test_both_forms_of_preflib_are_read(name, text, tmp_path):
    path = tmp_path / name
    path.write_text(text)
    found = read_rankings(path)
    assert found.items == ["x", "y, z", "w"]
    assert found.groups == [[[0], [1, 2]], [[2]]]
    assert found.weight.tolist() == [5, 2]


@pytest.mark.parametrize("line", ["5: 1,9", "x: 1,2", "5: 1,1", "5: {1,2", "5:"])
def test_wrong_lines_of_preflib_get_a_sentence(line, tmp_path):
    path = tmp_path / "wrong.soc"
    path.write_text(f"# ALTERNATIVE NAME 1: x\n# ALTERNATIVE NAME 2: y\n1: 1,2\n{line}\n")
    with pytest.raises(DataError, match=r"wrong.soc:4: found .* expected a count and an order"):
        read_rankings(path)


@pytest.mark.parametrize(("rankings", "said"), [
    ([], "there are no rankings"),
    ([["x", "x"]], "ranking 0 has 'x' twice"),
    ([["x"], ["y"]], "no ranking has two items"),
    ([["x", None]], "a ranking has a missing item"),
    ([["x", "y"], 7], "ranking 1 is 7; expected a list of items"),
    (["tea", "coffee"], "ranking 0 is 'tea'; expected a list of items"),
    ([["x", [["y"]]]], "ranking 0 has the item ['y']; expected a text or a number"),
    ([[("x", "y")]], "all items of all rankings are tied"),
    ([["x", "y", "z"], ["x", "z", "y"]], "the strengths of 'x' are infinite or unknown"),
    ([["x", "y"], [("x", "y")]], "worths of ties are infinite"),
])  # fmt: skip
def test_bad_rankings_get_a_sentence(rankings, said):
    with pytest.raises(DataError) as error:
        fit_rankings(rankings)
    assert said in str(error.value)


def test_the_certificate_bounds_the_distance_to_the_optimum():
    rankings = make_rankings(random_rankings(np.random.default_rng(1)))
    likelihood = RankingLikelihood(rankings)
    best = minimise(likelihood)
    for size in (1e-5, 1e-3, 0.01):
        theta = best.theta + size * np.random.default_rng(2).standard_normal(likelihood.n_theta)
        bound = likelihood.certificate(theta, likelihood.inverse(theta))
        distance = likelihood.value_grad(theta)[0] - best.objective
        assert distance <= bound < 2 * distance + 1e-10
    assert fit_rankings(rankings).certificate < 1e-9


def test_a_penalty_makes_strengths_finite():
    model = fit_rankings([["x", "y", "z"], ["x", "z", "y"]], penalty=1.0)
    assert model.table()["item"].tolist()[0] == "x"
    assert model.separated == ["x"]
    assert model.table()["note"].tolist() == ["needs the penalty", "", ""]
    assert np.isfinite(model.table()["high"]).all()
