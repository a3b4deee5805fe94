"""What a run takes: carbon, rent, and the power of a device."""

import numpy as np
import pytest

from sightline.exploration.footprint import assumption_of, carbon_kg, power_w, rent_usd


def test_a_kilowatt_hour_has_the_carbon_of_the_grid_and_the_building():
    assert carbon_kg(3.6e6, 0.4, 1.0) == pytest.approx(0.4)
    assert carbon_kg(3.6e6, 0.4, 1.5) == pytest.approx(0.6)


def test_energy_may_be_an_array():
    joules = np.array([3.6e6, 7.2e6])
    assert carbon_kg(joules)[1] == pytest.approx(2 * carbon_kg(3.6e6))


def test_power_is_that_of_one_device():
    assert power_w(8 * 700.0 * 60, 8, 60) == pytest.approx(700)


def test_rent_is_per_device_and_hour():
    assert rent_usd(8, 7200, 2.5) == pytest.approx(40)


def test_what_is_assumed_says_its_source_unless_the_user_says_another_figure():
    assert "Ember" in assumption_of()
    said = assumption_of(0.05, 1.1)
    assert "50 g CO2e" in said
    assert "Ember" not in said
