"""The law of synthesis against devices on the market: the two that it is fixed on, and two that it has not seen."""

from dataclasses import replace

import pytest

from sightline.technology.dies import real_die
from sightline.technology.law import FIXED_ON, fastest_clock, law
from sightline.technology.synthesis import synthesized

TESTED_WITH = ("h100", "b200")
"""Devices that the law has not seen."""
PEAK, POWER, BANDWIDTH = 0.25, 0.25, 0.15
"""Largest relative errors of the targets."""


def errors(name):
    """Relative errors of peak, power and memory bandwidth, with the device's area, split, memory and clock given."""
    die = real_die(name)
    made = synthesized(die.budget)
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


def test_two_constants_of_two_devices_leave_no_error_of_the_peak():
    assert [errors(name)["peak"] for name in FIXED_ON] == pytest.approx([0, 0], abs=1e-9)


@pytest.mark.parametrize("figure", ["power", "bandwidth"])
def test_one_constant_of_two_devices_splits_the_error_evenly(figure):
    """A geometric mean: as much too high for one as too low for the other (interfaces are no part of the fit)."""
    old, new = (1 + errors(name)[figure] for name in FIXED_ON)
    assert old * new == pytest.approx(1, abs=0.02)


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
