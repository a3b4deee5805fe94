"""Compute of trainings, prices, and the gap."""

import pytest

from sightline.reproduction.asking import Ask
from sightline.reproduction.talk.compute import c1, c2, c3, flops, gap


@pytest.fixture(scope="module")
def ask():
    return Ask(small=True)


def test_6_n_d_is_what_the_talk_says(ask):
    assert c1(ask)[0].ours < 0.01


def test_operators_count_a_little_more_than_6_n_d(ask):
    for row in flops(ask).answer.rows:
        # Attention is not in 6 N D.
        assert 1.0 < row["counted_over_6nd"] < 1.1


def test_prices_are_read_in_two_dollars(ask):
    of_the_day, constant = c2(ask)
    assert of_the_day.words == "prices in dollars of the day"
    assert constant.ours < of_the_day.ours


@pytest.mark.slow
def test_trainings_outgrow_accelerators(ask):
    assert c3(ask)[0].ours > 1.0
    shown = gap(ask).answer
    assert {row["kind"] for row in shown.rows} == {"model", "accelerator"}
    assert len(shown.figures) == 4
