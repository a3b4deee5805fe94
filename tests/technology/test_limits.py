"""What cannot be built: a sentence for each limit of plain numbers, a mask with reasons of arrays."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline.technology.budget import AREA_OF_A100, Split
from sightline.technology.limits import LEAST, buildable, limits_of, problems_of
from sightline.technology.parts import link, memories_along, memory, node
from tests.technology.budgets import a_budget

WRONG = {
    "edge exceeded by": {"stacks": 10.0, "power_w": 2000.0},
    "area exceeded by 42 mm2: a die takes 900 mm2, and the reticle allows 858 mm2": {"die_area_m2": 900e-6},
    "area exceeded by": {"area": AREA_OF_A100, "stacks": 7.0},
    "power exceeded by": {"power_w": 100.0},
    "power exceeded by 14.5 W": {"power_w": 365.0},
    "split is invalid: the share of compute in the area is below 0.001 by 0.001": {
        "area": Split(compute=0.0, registers=0.2, l2=0.3, memory=0.3, network=0.2)
    },
    "voltage exceeded by 1.05 V: the voltage is 2 V, and 3nm allows 949 mV": {"voltage": 2.0, "frequency_hz": 1e9},
    "clock exceeded by": {"frequency_hz": 3e9},
    "split is invalid: the sum of the shares of area differs from 1 by 0.1": {
        "area": Split(compute=0.4, registers=0.1, l2=0.1, memory=0.2, network=0.1)
    },
    "split is invalid: the share of l2 in the area is below 0.001 by 0.101": {
        "area": Split(compute=0.6, registers=0.1, l2=-0.1, memory=0.2, network=0.2)
    },
    "edge exceeded by 35": {"edge": Split(memory=0.35, network=0.65)},
    "power exceeded by 16 W: the links draw 36 W, and the network's share of power is 20 W": {
        "power": Split(compute=0.68, registers=0.1, l2=0.1, memory=0.1, network=0.02)
    },
}


def test_the_budget_of_these_tests_can_be_built():
    assert problems_of(a_budget()) == []
    assert buildable(a_budget()).mask is True


@pytest.mark.parametrize(("sentence", "changed"), WRONG.items())
def test_each_limit_says_what_is_exceeded_and_by_how_much(sentence, changed):
    found = problems_of(a_budget(**changed))
    assert len(found) == 1
    assert found[0].startswith(sentence)
    assert buildable(a_budget(**changed)).reasons == sentence.split()[0]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, value) for name in ("die_area_m2", "dies", "enabled", "frequency_hz") for value in (0.0, -1.0)),
        *((name, -5.0) for name in ("stacks", "link_bandwidth", "memory_bytes", "pin_rate", "voltage", "power_w")),
        *((name, np.nan) for name in LEAST),
        ("enabled", 2.0),
    ],
)
def test_numbers_that_no_device_has_are_a_reason(name, value):
    found = buildable(a_budget(**{name: value}))
    assert (found.mask, found.reasons) == (False, "number")
    assert problems_of(a_budget(**{name: value}))
    along = buildable(a_budget(**{name: np.array([value, value])}))
    assert along.reasons.tolist() == ["number"] * 2


def test_dies_are_joined_by_links_that_take_room():
    joined = {"dies": 2.0, "die_link": link("nv-hbi"), "stacks": 8.0, "power_w": 3000.0}
    narrow = Split(compute=0.6, registers=0.1, l2=0.15, memory=0.13, network=0.02)
    assert problems_of(a_budget(**joined)) == []
    assert problems_of(a_budget(**joined, area=narrow))[-1].startswith("area exceeded")


def test_arrays_have_a_mask_with_a_reason_for_each_place():
    stacks, caps = np.array([2.0, 6.0, 16.0]), np.array([100.0, 1000.0])
    found = buildable(a_budget(stacks=stacks[:, None], power_w=caps))
    assert found.mask.tolist() == [[False, True], [False, True], [False, False]]
    assert found.reasons.tolist() == [["power", ""], ["power", ""], ["edge", "edge"]]
    assert found.counts() == {"edge": 2, "power": 2}
    assert problems_of(a_budget(stacks=stacks)) == []


@given(
    area=st.floats(50e-6, 1000e-6),
    stacks=st.integers(1, 20),
    cap=st.floats(50.0, 3000.0),
    name=st.sampled_from(["12nm", "5nm", "1nm"]),
    kind=st.sampled_from(["gddr6", "hbm2e", "hbm4"]),
)
@settings(max_examples=50, deadline=None)
def test_mask_and_sentences_agree(area, stacks, cap, name, kind):
    budget = a_budget(node=node(name), die_area_m2=area, stacks=float(stacks), power_w=cap, memory=memory(kind))
    assert buildable(budget).mask == (problems_of(budget) == [])
    assert all(limit.sentence for limit in limits_of(budget))


@pytest.mark.parametrize(
    ("names", "unit"),
    [(["hbm3", "hbm4"], "stacks"), (["gddr6", "gddr7"], "chips"), (["hbm4", "gddr7"], "stacks or chips")],
)
def test_limits_of_several_memories_name_what_they_come_in(names, unit):
    edge = next(limit for limit in limits_of(a_budget(memory=memories_along(names))) if limit.reason == "edge")
    assert edge.what.startswith(f"6 {unit} of {', '.join(names)}")
