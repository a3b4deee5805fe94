"""Dollars of one year in those of another."""

import pytest

from sightline.technology.launches import CONSUMER_PRICES, in_dollars_of


def test_a_dollar_keeps_its_worth_within_its_year_and_there_and_back():
    assert in_dollars_of(2021, 100.0, 2021) == 100.0
    assert in_dollars_of(2006, in_dollars_of(2021, 100.0, 2006), 2021) == pytest.approx(100.0)


def test_a_dollar_of_2006_bought_a_third_more_than_one_of_2021():
    assert in_dollars_of(2021, 1.0, 2006) == pytest.approx(1.344, abs=0.001)


def test_years_without_an_index_have_no_price():
    assert in_dollars_of(2021, 100.0, max(CONSUMER_PRICES) + 1) is None
    assert in_dollars_of(min(CONSUMER_PRICES) - 1, 100.0, 2021) is None
