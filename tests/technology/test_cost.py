"""The cost of making a device: yields that fall with area, and prices per device."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline.technology.cost import Making, dies_per_wafer, made_for
from sightline.technology.law import real_die
from sightline.technology.parts import memories_along, memory
from tests.technology.budgets import a_budget

MODELS = ("negative-binomial", "murphy", "poisson")


@given(area=st.floats(50e-6, 850e-6), more=st.floats(1.0, 3.0), model=st.sampled_from(MODELS), spares=st.booleans())
@settings(max_examples=40, deadline=None)
def test_larger_dies_yield_less_and_cost_more(area, more, model, spares):
    making = Making(yield_model=model, spares_repair=spares)
    small, large = (made_for(a_budget(die_area_m2=size, stacks=1.0), making) for size in (area, area * more))
    assert 0 < large.yield_share <= small.yield_share <= 1
    assert large.dies_usd >= small.dies_usd * (1 - 1e-9)
    assert small.usd == small.dies_usd + small.memory_usd


def test_yield_models_order_as_known():
    budget, making = a_budget(), Making(spares_repair=False)
    clustered, murphy, poisson = (made_for(budget, replace(making, yield_model=model)).yield_share for model in MODELS)
    assert poisson < murphy
    assert poisson < clustered


def test_two_small_dies_cost_less_than_one_of_their_area():
    one, two = a_budget(die_area_m2=800e-6), a_budget(die_area_m2=400e-6, dies=2.0)
    making = Making(spares_repair=False)
    assert made_for(two, making).dies_usd < made_for(one, making).dies_usd


def test_spare_units_raise_the_yield_only_where_there_are_some():
    spare, all_enabled = a_budget(enabled=0.9), a_budget(enabled=1.0)
    assert made_for(spare).yield_share > made_for(all_enabled).yield_share
    assert made_for(all_enabled).yield_share == made_for(spare, Making(spares_repair=False)).yield_share


def test_about_sixty_reticle_sized_dies_come_from_a_wafer():
    assert 55 < dies_per_wafer(814e-6) < 75


def test_stated_prices_replace_those_of_the_node():
    a100 = real_die("a100").budget
    assert made_for(a100, Making(wafer_price=2 * a100.node.wafer_price)).dies_usd == pytest.approx(
        2 * made_for(a100).dies_usd
    )
    prices = made_for(a100, Making(wafer_price=np.array([1e4, 2e4]), defect_density=np.array([[500.0], [2000.0]])))
    assert prices.dies_usd.shape == (2, 2)


def test_each_of_several_memories_has_the_price_of_its_family():
    names = ["hbm4", "gddr7", "ddr5"]
    together = made_for(a_budget(memory=memories_along(names), stacks=2.0)).memory_usd
    assert together.tolist() == pytest.approx(
        [made_for(a_budget(memory=memory(name), stacks=2.0)).memory_usd for name in names]
    )
