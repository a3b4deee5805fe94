"""Price-performance over the years."""

import math

import pytest

from sightline.errors import InputError
from sightline.exploration.run import explore


@pytest.fixture(scope="module")
def answer():
    return explore("trends")


def test_every_segment_of_every_figure_has_a_doubling_time_within_its_interval(answer):
    for row in answer.rows:
        assert row["launches"] >= 4
        if row["doubling_years"] > 0:
            assert row["low_years"] <= row["doubling_years"] <= row["high_years"]
        assert row["factor_of_a_year"] == pytest.approx(2 ** (1 / row["doubling_years"]))


def test_compute_per_dollar_grows_faster_than_memory_and_bandwidth_per_dollar(answer):
    doubling = answer.summary["doubling_years"]
    compute, memory, bandwidth = (
        doubling[key]["all"]["years"]
        for key in ("fp32_flops_per_s_per_usd", "memory_bytes_per_usd", "bandwidth_bytes_per_s_per_usd")
    )
    assert compute < memory < bandwidth


def test_accelerators_compute_grows_faster_than_their_bandwidth(answer):
    doubling = answer.summary["doubling_years"]
    assert (
        doubling["fp16_flops_per_s"]["datacenter"]["years"] < doubling["bandwidth_bytes_per_s"]["datacenter"]["years"]
    )


def test_figures_have_a_point_for_each_card_and_a_line(answer):
    for figure in answer.figures:
        assert {len(column) for column in figure.columns.values()} == {len(figure.columns["year"])}
        assert any(math.isfinite(value) for value in figure.columns["line"])


def test_the_reading_gives_doubling_times_beside_published_ones(answer):
    assert "every 3.59 years" in answer.reading[0]
    assert "Epoch AI found 2.46 years" in answer.reading[0]


def test_prices_of_the_published_years_are_in_two_dollars(answer):
    of_the_day, constant = answer.summary["doubling_years_of_published_years"].values()
    assert of_the_day["points"] == constant["points"] < answer.summary["launches"]
    # A dollar loses worth, so that what it buys grows faster than prices of the day say.
    assert constant["years"] < of_the_day["years"]


def test_years_can_be_chosen():
    until = explore("trends", overrides={"until": 2015})
    assert until.summary["launches"] < explore("trends").summary["launches"]
    assert "fp16_flops_per_s_per_usd" not in until.summary["doubling_years"]


@pytest.mark.parametrize("overrides", [{"since": "soon"}, {"since": 2050}, {"until": 1800}, {"model": "llama-2-7b"}])
def test_years_without_launches_are_refused(overrides):
    with pytest.raises(InputError):
        explore("trends", overrides=overrides)
