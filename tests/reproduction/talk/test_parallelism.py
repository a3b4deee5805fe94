"""Strategies against an automatic plan, and unlike accelerators."""

import pytest

from sightline.reproduction.asking import Ask
from sightline.reproduction.talk.parallelism import STRATEGIES, TOGETHER, c4, c5, mixed, plans, strategies

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def ask():
    return Ask(small=True)


def test_the_automatic_plan_is_held_against_each_strategy_that_fits(ours, ask):
    rows = {row["strategy"]: row for row in strategies(ask).answer.rows}
    assert set(rows) == {*STRATEGIES, "automatic"}
    best = max(row["tokens_per_s"] for name, row in rows.items() if name != "automatic" and row["fits"])
    assert ours(c4, ask)[0] == pytest.approx(rows["automatic"]["tokens_per_s"] / best)
    assert not rows["data"]["fits"]


def test_automatic_plans_come_by_rank_and_fit(ask):
    rows = list(plans(ask).answer.rows)
    assert [row["rank"] for row in rows] == list(range(1, len(rows) + 1))
    assert all(row["fits"] for row in rows)


def test_both_kinds_are_held_against_the_better_one(ours, ask):
    rates = {row["devices"]: row["tokens_per_s"] for row in mixed(ask).answer.rows}
    together = rates.pop(TOGETHER)
    assert ours(c5, ask)[0] == pytest.approx(together / max(rates.values()))
