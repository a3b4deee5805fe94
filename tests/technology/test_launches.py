"""Launches of the catalog: in order, of the right size, and as the devices of the same name."""

from statistics import median

import pytest

from sightline.catalog import entry, names
from sightline.quantities import BYTES_PER_SECOND, parse_quantity
from sightline.technology.launches import launch, launches

OLDER = {"90nm", "80nm", "65nm", "55nm", "40nm", "28nm", "14nm", "8nm", "6nm"}
"""Nodes of launches that no device is synthesized in."""
SAME = [name for name in names("launches") if name.removeprefix("geforce-") in names("devices")]


def test_launches_are_in_order_of_time():
    dates = [one.date for one in launches()]
    assert dates == sorted(dates)
    assert dates[0] == "2006-11"
    assert dates[-1] >= "2025-09"
    assert len(dates) == len(names("launches")) > 120
    assert {one.maker for one in launches()} == {"NVIDIA", "AMD"}
    assert launch("geforce-rtx-3090").years == pytest.approx(2020 + 8.5 / 12)


@pytest.mark.parametrize("name", names("launches"))
def test_every_launch_is_of_the_right_order(name):
    found = launch(name)
    assert found.price_usd is None or 50 < found.price_usd < 50_000
    assert 0.1e12 < found.fp32 < 200e12
    assert found.fp16 is None or 1.4 * found.fp32 < found.fp16 < 40 * found.fp32
    assert 0.3e9 < found.memory_bytes < 300e9
    assert 40e9 < found.memory_bandwidth < 25e12
    assert 50 < found.tdp_w < 2000
    assert found.node in {*names("nodes"), *OLDER}
    assert found.die_area_m2 is None or 100e-6 < found.die_area_m2 < 1700e-6
    if found.die_area_m2 and found.transistors:
        assert 1e12 < found.transistors / found.die_area_m2 < 200e12


@pytest.mark.parametrize("name", names("launches"))
def test_a_price_says_where_it_comes_from(name):
    stated = entry("launches", name)
    assert ("price" in stated) == ("price" in stated.get("sources", {}))
    if "price" in stated:
        guessed = any(word in stated["sources"]["price"] for word in ("recalled", "estimate"))
        assert stated["evidences"]["price"] == ("estimated" if guessed else "listed")


@pytest.mark.parametrize("name", SAME)
def test_a_launch_is_the_device_of_that_name(name):
    device = entry("devices", name.removeprefix("geforce-"))
    published = parse_quantity(device["memory_bandwidth"], BYTES_PER_SECOND)
    assert launch(name).memory_bandwidth == pytest.approx(published, rel=0.03)


def test_a_dollar_buys_more_every_decade():
    gaming = [one for one in launches() if one.market == "gaming"]

    def per_usd(since, until):
        return median(one.fp32 / one.price_usd for one in gaming if since <= one.years < until)

    assert 10 < per_usd(2016, 2018) / per_usd(2006, 2008) < 60
    assert 3 < per_usd(2024, 2026) / per_usd(2016, 2018) < 15
