"""What a run takes, held against what publications say of their own runs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.exploration.footprint import Electricity, power_w, read_electricity, rent_usd
from sightline.loading.checks import Complaints

HOUR = 3600.0


@pytest.mark.parametrize(
    ("gpu_hours", "tons"),
    [(1_022_362, 173), (82_432, 14)],
    ids=["LLaMA 65B", "LLaMA 7B"],
)
def test_carbon_is_that_of_published_trainings(gpu_hours, tons):
    # arXiv 2302.13971, table 15: A100s at 400 W, a PUE of 1.1 and 0.385 kg per kWh.
    joules = gpu_hours * HOUR * 400
    assert Electricity(kg_per_kwh=0.385, pue=1.1).carbon_kg(joules) == pytest.approx(1e3 * tons, rel=0.02)


def test_rent_is_that_of_a_published_training():
    # arXiv 2412.19437, table 1: 2.788M hours of H800s at 2 USD, 5.576M USD.
    assert rent_usd(2048, 2.788e6 / 2048 * HOUR, 2.0) == pytest.approx(5.576e6, rel=1e-3)


def test_power_is_that_of_a_published_training():
    # arXiv 2302.13971, table 15: 449 MWh of the data center, 1.1 times the energy of 2,048 A100s at 400 W.
    assert power_w(449e6 * HOUR / 1.1, 2048, 1_022_362 / 2048 * HOUR) == pytest.approx(400, rel=0.01)


@given(joules=st.floats(1, 1e18), more=st.floats(1, 10))
def test_a_dirtier_grid_and_a_worse_building_have_more_carbon(joules, more):
    usual = Electricity()
    for other in (
        Electricity(kg_per_kwh=more * usual.kg_per_kwh),
        Electricity(pue=more * usual.pue),
    ):
        assert other.carbon_kg(joules) == pytest.approx(more * usual.carbon_kg(joules))
    assert Electricity(kg_per_kwh=0).carbon_kg(joules) == 0


def test_energy_may_be_an_array():
    joules = np.array([3.6e6, 7.2e6])
    assert Electricity().carbon_kg(joules).tolist() == [Electricity().carbon_kg(one) for one in joules]


def test_what_is_assumed_says_its_source_unless_the_user_says_another_figure():
    assert "Ember" in Electricity().sentence
    said = Electricity(kg_per_kwh=0.05, pue=1.1).sentence
    assert "50 g CO2e" in said
    assert "Ember" not in said


def test_electricity_is_read_with_all_its_mistakes():
    complaints = Complaints()
    assert read_electricity(None, complaints) == Electricity()
    assert read_electricity({"pue": 1.2}, complaints) == Electricity(pue=1.2)
    read_electricity({"pue": "much", "kg_per_kwh": -1}, complaints)
    assert len(complaints.problems) == 2
