"""Dies of real devices: they are built, and their figures are those of the catalog's devices."""

import pytest

from sightline.catalog import entry, names
from sightline.technology.law import real_die
from sightline.technology.limits import problems_of


@pytest.mark.parametrize("name", names("dies"))
def test_every_die_can_be_built(name):
    assert problems_of(real_die(name).budget) == []


@pytest.mark.parametrize("name", names("dies"))
def test_enabled_units_are_those_of_the_device(name):
    die, stated = real_die(name), entry("dies", name)
    assert die.compute_units == stated["enabled_units"] <= die.units
    assert die.matmul_flops / die.compute_units / die.frequency_hz == pytest.approx(
        {"v100": 1024, "a100": 2048, "h100": 4096, "b200": 8192}[name], rel=0.01
    )


@pytest.mark.parametrize("name", names("dies"))
def test_stacks_are_those_of_the_memory_s_products(name):
    die = real_die(name)
    use = die.budget.memory.products[die.device]
    assert use.count == die.budget.stacks
    assert die.memory_bandwidth == pytest.approx(
        die.budget.stacks * die.budget.memory.pins * use.pin_rate / 8, rel=0.03
    )
