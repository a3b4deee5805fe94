"""Strategies against an automatic plan, and unlike accelerators."""

from types import SimpleNamespace

import pytest

from sightline.reproduction.asking import Ask
from sightline.reproduction.talk import NEW, OLD, STRATEGIES, TOGETHER, c4, c5, mixed, plans, strategies


@pytest.fixture(scope="module")
def ask():
    return Ask(small=True)


class Told:
    """Answers strategies and searches with throughputs of their own, by the plan and by the devices."""

    small = False

    def __init__(self, rate_of, found):
        self.rate_of, self.found = rate_of, found

    def profile(self, scenario):
        rate, fits = self.rate_of(scenario["plan"])
        return SimpleNamespace(tokens_per_s=rate, step_time_s=1 / rate, fits=fits)

    def plan(self, scenario, **_):
        cluster = scenario["cluster"]
        rates = self.found if isinstance(self.found, list) else self.found[cluster if isinstance(cluster, str) else ""]
        profiles = [SimpleNamespace(tokens_per_s=rate, step_time_s=1 / rate) for rate in rates]
        return SimpleNamespace(plans=[SimpleNamespace(profile=profile) for profile in profiles])


@pytest.mark.parametrize(("automatic", "ratio"), [([80.0, 110.0, 90.0], 1.1), ([80.0, 90.0], 0.9)])
def test_the_fastest_automatic_plan_is_held_against_the_best_strategy_that_fits(ours, automatic, ratio):
    def rate_of(plan):
        stage = plan.get("zero_stage")
        return (500.0, False) if stage == 0 else (100.0, True) if stage == 3 else (50.0, True)

    assert ours(c4, Told(rate_of, automatic)) == [pytest.approx(ratio)]


@pytest.mark.parametrize(("old", "new", "ratio"), [(100.0, 200.0, 1.3), (400.0, 200.0, 0.65)])
def test_devices_together_are_held_against_the_better_kind(ours, old, new, ratio):
    told = Told(None, {OLD: [old / 2, old], NEW: [new, new / 2], "": [260.0, 100.0]})
    assert ours(c5, told) == [pytest.approx(ratio)]


@pytest.mark.slow
def test_strategies_are_listed_with_the_automatic_plan(ours, ask):
    rows = {row["strategy"]: row for row in strategies(ask).answer.rows}
    assert set(rows) == {*STRATEGIES, "automatic"}
    assert not rows["data"]["fits"]
    assert rows["automatic"]["fits"]
    assert ours(c4, ask)[0] >= 1.0


@pytest.mark.slow
def test_automatic_plans_come_by_rank_and_fit(ask):
    rows = list(plans(ask).answer.rows)
    assert [row["rank"] for row in rows] == list(range(1, len(rows) + 1))
    assert all(row["fits"] for row in rows)


@pytest.mark.slow
def test_each_kind_of_devices_has_a_plan_and_so_have_both(ask):
    assert [row["devices"] for row in mixed(ask).answer.rows] == [OLD, NEW, TOGETHER]
