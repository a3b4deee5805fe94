"""The law of synthesis against devices on the market: the two that it is fixed on, and two that it has not seen."""

from dataclasses import replace

import pytest

from sightline.technology.law import FIXED_ON, fastest_clock, law, real_die
from sightline.technology.synthesis import synthesized

TESTED_WITH = ("h100", "b200")
"""Devices that the law has not seen."""
PEAK, POWER, BANDWIDTH = 0.25, 0.25, 0.15
"""Largest relative errors of the targets."""


def errors(name):
    """Relative errors of peak, power and memory bandwidth at the fastest clock that the device's node allows.

    Area, units, memory and links are given. The device's own clock is not: it is known only from its peak.
    """
    die = real_die(name)
    made = synthesized(replace(die.budget, frequency_hz=fastest_clock(die.budget)))
    return {
        "peak": made.peak_flops["fp16"] / die.matmul_flops - 1,
        "power": made.tdp_w / die.tdp_w - 1,
        "bandwidth": made.memory_bandwidth / die.memory_bandwidth - 1,
    }


@pytest.mark.parametrize("name", TESTED_WITH)
def test_unseen_devices_are_predicted_within_the_targets(name):
    found = errors(name)
    assert abs(found["peak"]) < PEAK
    assert abs(found["power"]) < POWER
    assert abs(found["bandwidth"]) < BANDWIDTH


@pytest.mark.parametrize("name", TESTED_WITH)
def test_the_prediction_reads_no_clock_of_the_device(name):
    """Another stated clock changes nothing of what `errors` compares."""
    budget = real_die(name).budget
    assert fastest_clock(replace(budget, frequency_hz=1e9)) == fastest_clock(budget)


@pytest.mark.parametrize("name", FIXED_ON)
def test_one_constant_of_energy_and_of_pins_fits_both_devices_within_the_targets(name):
    found = errors(name)
    assert abs(found["power"]) < POWER
    assert abs(found["bandwidth"]) < BANDWIDTH


def test_no_later_device_is_looked_at(monkeypatch):
    asked = []

    def listed(name):
        asked.append(name)
        return real_die(name)

    monkeypatch.setattr("sightline.technology.law.real_die", listed)
    law.__wrapped__()
    assert sorted(asked) == sorted(FIXED_ON)
    assert set(FIXED_ON).isdisjoint(TESTED_WITH)


@pytest.mark.parametrize("name", [*FIXED_ON, *TESTED_WITH])
def test_each_devices_clock_is_one_that_its_node_allows(name):
    die = real_die(name)
    assert die.frequency_hz <= fastest_clock(die.budget)


def test_a_lower_voltage_allows_a_lower_clock():
    budget = real_die("a100").budget
    assert fastest_clock(replace(budget, voltage=0.6)) < fastest_clock(budget)
    assert fastest_clock(replace(budget, voltage=0.1)) == 0
