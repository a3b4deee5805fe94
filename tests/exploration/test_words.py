"""Numbers in the sentences of studies."""

import pytest

from sightline.exploration.studies.budgets import carbon, count, energy
from sightline.exploration.studies.budgets import usd_amount as usd


@pytest.mark.parametrize(
    ("value", "words"), [(12, "12"), (1500, "1.5k"), (60.4e9, "60.4B"), (1.4e12, "1.4T"), (3e17, "300P")]
)
def test_counts_have_three_digits_and_a_prefix(value, words):
    assert count(value) == words
    assert usd(value) == f"{words} USD"


def test_energy_and_carbon_have_few_digits():
    assert [energy(3.6e9 * mwh) for mwh in (0.123, 9.99, 149_041)] == ["0.12 MWh", "10 MWh", "149,041 MWh"]
    assert [carbon(kg) for kg in (1234, 105_121_000)] == ["1.2 t CO2e", "105,121 t CO2e"]
