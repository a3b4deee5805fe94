"""Numbers for people."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.answers import units


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 s"),
        (5e-9, "5.00 ns"),
        (3.2e-6, "3.20 us"),
        (0.0123, "12.3 ms"),
        (1.1, "1.10 s"),
        (119.0, "119 s"),
        (3600.0, "60.0 min"),
        (86400.0, "24.0 h"),
        (30 * 86400.0, "30.0 days"),
        (10 * 365.25 * 86400.0, "10.0 years"),
    ],
)
def test_durations_take_the_unit_that_suits_them(value, text):
    assert units.seconds(value) == text


@pytest.mark.parametrize(
    ("ends", "text"),
    [
        ((0.2, 0.3), "200 to 300 ms"),
        ((0.152, 53.0), "152 ms to 53.0 s"),
        ((0.2, 0.2), "200 ms"),
        ((0.2, None), "at least 200 ms"),
        ((4.0, 5.0, ""), "4.00 to 5.00"),
    ],
)
def test_ends_of_an_interval_share_a_unit_unless_they_are_far_apart(ends, text):
    assert units.span(*ends) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0 B"), (512, "512 B"), (80 * 2**30, "80.0 GiB"), (1.5 * 2**20, "1.50 MiB"), (3 * 2**40, "3.00 TiB")],
)
def test_bytes_are_binary(value, text):
    assert units.size(value) == text


@pytest.mark.parametrize(
    ("function", "value", "text"),
    [
        (units.count, 2e12, "2 T"),
        (units.count, 6_738_415_616, "6.74 B"),
        (units.count, 12, "12"),
        (units.money, 12.5, "$12.50"),
        (units.money, 1_980_000, "$1.98M"),
        (units.energy, 3.6e6, "1 kWh"),
        (units.percent, 0.4321, "43.2 %"),
        (units.gib, 60 * 2**30, "60.0 GiB"),
        (units.digits, 4480.0, "4,480"),
    ],
)
def test_each_kind_has_its_form(function, value, text):
    assert function(value) == text


def test_rates_carry_their_unit():
    assert units.rate(131.4e12, "FLOP/s") == "131 TFLOP/s"


@pytest.mark.parametrize(
    "function",
    [units.seconds, units.size, units.count, units.money, units.energy, units.percent, units.gib, units.digits],
)
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_no_number_is_a_dash(function, value):
    assert "nan" not in function(value)
    assert "inf" not in function(value)
    assert "-" in function(value)


@given(st.floats(min_value=1e-9, max_value=1e18))
def test_digits_keep_three_of_them(value):
    shown = float(units.digits(value).replace(",", ""))
    assert shown == pytest.approx(value, rel=0.006)
    assert "e" not in units.digits(value)
