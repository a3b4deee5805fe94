"""Prices given in place of the catalog's."""

from dataclasses import replace

import pytest
from training_scenarios import training

import sightline as sl
from sightline.catalog import entry
from sightline.errors import InputError
from sightline.planning.clusters import read_prices, said_of_price, with_prices


def test_a_given_price_is_what_a_run_costs():
    scenario = training(model="gpt-125m", total_tokens=1e9, plan={"micro_batch": 1})
    name = scenario.cluster.device.name
    dear = with_prices(scenario, {name: 2 * scenario.cluster.device.usd_per_hour})
    assert sl.predict(dear).cost_usd == pytest.approx(2 * sl.predict(scenario).cost_usd)
    assert with_prices(scenario, {"another": 1.0}).cluster is scenario.cluster


def test_prices_are_read_by_device_whatever_its_case():
    assert read_prices(["H100-SXM-80GB=2.50", "rtx 4090=$0.30/h", "mine=1"], own=["mine"]) == {
        "h100-sxm-80gb": 2.5,
        "rtx-4090": 0.3,
        "mine": 1.0,
    }


def test_everything_wrong_is_said_at_once():
    with pytest.raises(InputError) as raised:
        read_prices(["2.50", "h100-sxm-80g=2", "rtx-4090=cheap"])
    said = raised.value.problems
    assert len(said) == 3
    assert "NAME=USD_PER_HOUR" in said[0]
    assert "did you mean 'h100-sxm-80gb'" in said[1]
    assert "rtx-4090 is 'cheap'" in said[2]


def test_what_a_price_rests_on_is_said_with_its_date():
    device = training(model="gpt-125m").cluster.device
    assert entry("prices", device.name)["date"] in said_of_price(device)
    assert said_of_price(replace(device, usd_per_hour=1.23)).endswith("from --price")
    assert "unknown" in said_of_price(replace(device, usd_per_hour=None))


def test_a_short_name_is_the_device_of_the_scenario_that_it_can_only_mean():
    assert read_prices(["a100=2", "h100=3"], own=["a100-sxm-80gb", "h100-pcie-80gb"]) == {
        "a100-sxm-80gb": 2.0,
        "h100-pcie-80gb": 3.0,
    }
    with pytest.raises(InputError, match="device 'a100'"):
        read_prices(["a100=2"], own=["a100-sxm-80gb", "a100-pcie-80gb"])
