"""Memories of the catalog: what products have of them, and how the generations follow each other."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from sightline.catalog import entry, names
from sightline.errors import InputError
from sightline.quantities import BYTES_PER_SECOND, parse_quantity
from sightline.technology.parts import memories_along, memory

STACKED = ("hbm1", "hbm2", "hbm2e", "hbm3", "hbm3e", "hbm4", "hbm4e", "beyond-hbm4e")
CHIPS = ("gddr5", "gddr5x", "gddr6", "gddr7")
MOBILE = ("lpddr4x", "lpddr5", "lpddr5x", "lpddr6")
PRODUCTS = [(name, device) for name in names("memories") for device in memory(name).products]


@pytest.mark.parametrize("name", names("memories"))
def test_every_memory_is_of_the_right_order(name):
    found = memory(name)
    assert found.name == name
    assert 20e9 < found.bandwidth < 8e12
    assert 1e9 < found.capacity_bytes < 200e9
    assert 1e-12 < found.energy_j_per_bit < 20e-12
    assert 2e-3 < found.edge_m < 15e-3
    assert 3e-6 < found.area_m2 < 50e-6
    assert 2005 < found.year < 2032
    assert found.pin_rate <= 1.02 * found.fastest_pin_rate


@pytest.mark.parametrize(("name", "device"), PRODUCTS)
def test_products_have_the_bandwidth_of_their_data_sheets(name, device):
    found, use = memory(name), memory(name).products[device]
    published = parse_quantity(entry("devices", device)["memory_bandwidth"], BYTES_PER_SECOND)
    assert use.count * replace(found, pin_rate=use.pin_rate).bandwidth == pytest.approx(published, rel=0.03)
    assert use.pin_rate <= 1.02 * found.fastest_pin_rate


def test_stacks_of_known_accelerators():
    assert 5 * memory("hbm2e").bandwidth == pytest.approx(2.04e12, rel=0.01)
    assert memory("hbm3").products["h100-sxm-80gb"].count == 5
    assert 8 * memory("hbm3e").bandwidth == pytest.approx(8e12, rel=0.03)


@pytest.mark.parametrize("generations", [STACKED, CHIPS, MOBILE])
def test_a_generation_is_faster_larger_and_thriftier(generations):
    for earlier, later in pairwise(map(memory, generations)):
        assert earlier.year <= later.year
        assert earlier.bandwidth < later.bandwidth
        assert earlier.capacity_bytes <= later.capacity_bytes
        assert earlier.energy_j_per_bit >= later.energy_j_per_bit


def test_numbers_may_be_arrays():
    several = replace(memory("hbm3"), pin_rate=np.array([4.8e9, 6.4e9]), pins=np.array([[1024.0], [2048.0]]))
    assert several.bandwidth.shape == (2, 2)
    assert several.bandwidth[1, 1] == pytest.approx(2 * 819.2e9)


def test_what_is_not_made_is_marked():
    assert entry("memories", "beyond-hbm4e")["evidence"] == "estimated"
    assert memory("beyond-hbm4e").family == "later"


def test_an_unknown_memory_is_refused_with_the_nearest():
    with pytest.raises(InputError, match=r"unknown memory 'hbm5' - did you mean 'hbm"):
        memory("hbm5")


def test_case_and_spaces_do_not_count():
    assert memory("HBM3E").name == "hbm3e"


def test_several_memories_are_one_with_arrays_that_keeps_each_family():
    both = memories_along(["hbm4", "gddr7"])
    assert both.bandwidth.tolist() == [memory("hbm4").bandwidth, memory("gddr7").bandwidth]
    assert both.year.tolist() == [memory("hbm4").year, memory("gddr7").year]
    assert both.family.tolist() == ["hbm", "gddr"]
