"""Compute of trainings, prices, and the gap."""

import pytest

from sightline.reproduction.asking import Ask
from sightline.reproduction.talk import c1, c2, c3, flops, gap


@pytest.fixture(scope="module")
def ask():
    return Ask(small=True)


def test_6_n_d_is_what_the_talk_says(ours, ask):
    assert ours(c1, ask)[0] < 0.01


def test_operators_count_a_little_more_than_6_n_d(ask):
    for row in flops(ask).answer.rows:
        # Attention is not in 6 N D.
        assert 1.0 < row["counted_over_6nd"] < 1.1


def test_prices_are_read_in_two_dollars(ours, ask):
    of_the_day, constant = c2(ask)
    assert [*of_the_day.choices.values()] == ["prices in dollars of the day"]
    assert [*constant.choices.values()] == ["prices in dollars of 2021"]
    nominal, real = ours(c2, ask)
    assert real < nominal


@pytest.mark.slow
def test_trainings_outgrow_accelerators(ours, ask):
    assert ours(c3, ask)[0] > 1.0
    shown = gap(ask).answer
    assert {row["kind"] for row in shown.rows} == {"model", "accelerator"}
    assert len(shown.figures) == 4
