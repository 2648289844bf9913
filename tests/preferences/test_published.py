"""Figures of R packages and of papers for public data, to their last printed digit."""

from __future__ import annotations

import numpy as np
import pytest

import vote_tables
from linrank import PreferenceModel, fit_rankings


def column(table, items, name="strength"):
    return table.set_index("item")[name][list(items)].tolist()


def printed(values, n=7):
    """Return numbers as they are printed with n digits."""
    return pytest.approx(values, abs=0.7 * 10.0**-n)


@pytest.fixture(scope="module")
def league():
    return PreferenceModel(order_effect=True, reference="Baltimore").fit(*vote_tables.baseball())


def test_baseball_has_the_figures_of_r(league):
    """BradleyTerry2 1.1 with qvcalc 1.0: BTm(~ team + at.home)."""
    teams = ("Boston", "Cleveland", "Detroit", "Milwaukee", "New York", "Toronto")
    assert column(league.table(), teams) == printed(
        [1.1438027, 0.7046945, 1.4753572, 1.6195550, 1.2813404, 1.3271104], 7
    )
    assert column(league.table(), teams, "se") == printed(
        [0.3378422, 0.3350014, 0.3445518, 0.3473653, 0.3404034, 0.3403222], 6
    )
    assert column(league.table(), ("Baltimore", *teams), "quasi_se") == printed(
        [0.25934, 0.21798, 0.22347, 0.22242, 0.22582, 0.21896, 0.21880], 5
    )
    effect = league.coefficients().iloc[0]
    assert [effect["estimate"], effect["se"]] == printed([0.3022607, 0.1309436], 6)


def test_baseball_without_an_order_effect_and_from_single_votes():
    votes = vote_tables.single_votes(*vote_tables.baseball())
    found = PreferenceModel(reference="Baltimore").fit(*votes).table()
    teams = ("Cleveland", "Boston", "New York", "Toronto", "Detroit", "Milwaukee")
    assert column(found, teams) == printed([0.68, 1.11, 1.25, 1.29, 1.44, 1.58], 2)


def test_schools_with_ties_have_the_figures_of_r():
    """BTm with ties as half a win, and GenDavidson (gnm 1.1) or a log-linear model of R."""
    votes = vote_tables.schools()
    found = PreferenceModel("half", reference="Stockholm").fit(*votes).table()
    assert column(found, vote_tables.SCHOOLS[:5]) == printed(
        [0.5379056, 1.5974797, 0.3877671, 0.9064453, 0.5250666], 7
    )
    model = PreferenceModel("davidson", reference="Stockholm").fit(*votes)
    assert column(model.table(), vote_tables.SCHOOLS[:5]) == printed(
        [0.6129325, 1.8228020, 0.4419722, 1.0325339, 0.5983221], 7
    )
    assert column(model.table(), vote_tables.SCHOOLS[:5], "se") == printed(
        [0.0751676, 0.0831449, 0.0760189, 0.0775711, 0.0751485], 6
    )
    tie = model.coefficients().iloc[-1]
    assert [tie["estimate"], tie["se"]] == printed([-1.3171797, 0.0485083], 6)


def test_ice_hockey_has_the_figures_of_r():
    """BradleyTerry2 1.1: BTm(result, …, ~ team + home.ice), where a tie is half a win."""
    visitor, opponent, outcome, away = vote_tables.hockey()
    teams = {"Air Force": 0, "Army": 5, "Boston College": 8, "Denver": 19, "Miami": 28, "Yale": 57}
    model = PreferenceModel("half", reference=3)  # Alaska Anchorage
    model.fit(visitor, opponent, outcome, covariates=away)
    assert column(model.table(), teams.values()) == printed(
        [-1.1654793, -1.5974521, 1.3303922, 1.6580614, 1.5971751, 0.5185252], 7
    )
    assert column(model.table(), teams.values(), "se") == printed(
        [0.66479, 0.67140, 0.62226, 0.51854, 0.58251, 0.62851], 5
    )
    effect = model.coefficients().iloc[0]
    assert [effect["estimate"], effect["se"]] == printed([0.4028986, 0.0708679], 6)


@pytest.mark.parametrize(("options", "expected", "errors"), [
    ({"deviations": False, "penalty": None}, [0.6093115, 0.0892797, 2.3812956],
     [0.2777312, 0.0438199, 0.4849465]),
    ({"penalty": 1.0}, [0.6648343, 0.1023125, 1.8576729], [0.3717395, 0.0597413, 0.5244613]),
])  # fmt: skip
def test_chameleons_have_the_figures_of_r(options, expected, errors):
    """BTm(~ prev.wins.2 + ch.res[ID] + prop.main[ID]), and with (1|ID), sigma = 1 and PQL."""
    winner, loser, wins = vote_tables.chameleons()
    model = PreferenceModel(features=np.array(vote_tables.CHAMELEON_FEATURES), **options)
    found = model.fit(winner, loser, ["a"] * len(winner), covariates=wins).coefficients()
    assert found["estimate"].tolist() == printed(expected, 7)
    assert found["se"].tolist() == printed(errors, 7)


def test_films_have_the_figures_of_r():
    """PlackettLuce 0.4.5 with npseudo = 0, and qvcalc 1.0."""
    orders, weight = vote_tables.netflix()
    model = fit_rankings(orders, weight=weight, reference="Mean Girls")
    table = model.table()
    assert column(table, vote_tables.FILMS[1:]) == printed([0.6712792, -0.3143024, -0.4316111], 7)
    assert column(table, vote_tables.FILMS[1:], "se") == printed(
        [0.0747159, 0.0759317, 0.0748962], 7
    )
    assert column(table, vote_tables.FILMS, "quasi_se") == printed(
        [0.0522498, 0.0548770, 0.0542807, 0.0530381], 7
    )
    assert model.log_likelihood == printed(-1746.757926, 6)
    single = [order for order, n in zip(orders, weight, strict=True) for _ in range(n)]
    model = fit_rankings(single, judge=range(len(single)), reference="Mean Girls")
    errors = [0.075119536, 0.082232872, 0.074044100]  # estfun and vcov, as a sandwich
    factor = np.sqrt(588 / 587)
    assert column(model.table(), vote_tables.FILMS[1:], "se") == pytest.approx(
        factor * np.array(errors), abs=1e-7
    )
    groups = [k for k, n in enumerate(weight) for _ in range(n)]
    model = fit_rankings(single, judge=groups, reference="Mean Girls")
    errors = [0.3680484142, 0.5170692190, 0.4219067357]
    assert column(model.table(), vote_tables.FILMS[1:], "se") == pytest.approx(
        np.sqrt(24 / 23) * np.array(errors), abs=1e-7
    )


def test_races_have_the_figures_of_hunter_and_of_r():
    """Hunter (2004) leaves out four drivers that are always last; PlackettLuce 0.4.5."""
    races = [[driver for driver in race if driver < 83] for race in vote_tables.nascar()]
    model = fit_rankings(races, reference=0)  # Austin Cameron
    drivers = {"Bill Elliott": 1, "P. J. Jones": 57, "Scott Pruett": 67}
    table = model.table()
    assert column(table, drivers.values()) == printed([1.5188547, 4.1476612, 3.6161735], 7)
    assert column(table, drivers.values(), "se") == printed([1.0529800, 1.5676281, 1.5251858], 7)
    assert column(table, drivers.values(), "quasi_se") == printed([0.176215, 1.174663, 1.117615], 6)
    assert model.log_likelihood == printed(-4191.097285, 6)
    share = np.exp(table["strength"]) / np.exp(table["strength"]).sum()
    assert share.head(2).tolist() == printed([0.1864, 0.1096], 4)
