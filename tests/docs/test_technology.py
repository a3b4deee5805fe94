"""The page on devices from technology states the errors that the law has."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from sightline.technology.law import fastest_clock, real_die
from sightline.technology.synthesis import synthesized

PAGE = (Path(__file__).parents[2] / "docs" / "technology.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| ([VAHB]\d00) \| (.*) \|$", re.MULTILINE)
ROWS = ROW.findall(PAGE)
PEAKS, POWERS = dict(ROWS[:4]), dict(ROWS[4:])


def number(text):
    return float(text.split("%")[0].replace(",", ""))


def made_at_three_clocks(name):
    """The device at the law's own clock, at the fastest of its node and at the stated one."""
    budget = real_die(name.lower()).budget
    clocks = (None, fastest_clock(budget), budget.frequency_hz)
    return [synthesized(replace(budget, frequency_hz=clock)) for clock in clocks]


def assert_errors(told, made, real):
    assert [number(one) for one in told] == pytest.approx([100 * (one / real - 1) for one in made], abs=0.51)


@pytest.mark.parametrize("name", PEAKS)
def test_the_table_of_peaks_says_what_the_law_gives(name):
    die, (real, *told, _) = real_die(name.lower()), PEAKS[name].split(" | ")
    assert number(real) == pytest.approx(die.matmul_flops / 1e12, rel=5e-3)
    assert_errors(told, [made.peak_flops["fp16"] for made in made_at_three_clocks(name)], die.matmul_flops)


@pytest.mark.parametrize("name", POWERS)
def test_the_table_of_power_and_memory_says_what_the_law_gives(name):
    die, (real, *told, memory, error) = real_die(name.lower()), POWERS[name].split(" | ")
    made = made_at_three_clocks(name)
    assert number(real) == pytest.approx(die.tdp_w, rel=5e-3)
    assert number(memory) == pytest.approx(die.memory_bandwidth / 1e12, rel=5e-3)
    assert_errors(told, [one.tdp_w for one in made], die.tdp_w)
    assert_errors([error], [made[0].memory_bandwidth], die.memory_bandwidth)


def test_all_four_devices_are_there():
    assert list(PEAKS) == list(POWERS) == ["V100", "A100", "H100", "B200"]
