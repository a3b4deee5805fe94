"""Devices that budgets make: more is never less, parts sum to the whole, and an array is its scalars."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline import predict
from sightline.errors import InputError
from sightline.loading import scenario_from_mapping
from sightline.technology.budget import AREA_OF_A100, PARTS, UNMEASURED, Split
from sightline.technology.law import split_of, with_area, with_l2_share
from sightline.technology.limits import buildable
from sightline.technology.parts import memory, node, node_names, nodes_along
from sightline.technology.synthesis import made_anyway, made_of, synthesized
from tests.technology.budgets import a_budget

FIGURES = ("memory_bytes", "memory_bandwidth", "l2_bytes", "l2_bandwidth", "compute_units", "vector_flops", "tdp_w")
nodes = st.sampled_from(node_names())
scalings = st.sampled_from(["vendor", "ideal"])
areas = st.floats(400e-6, 850e-6)
caps = st.floats(300.0, 3000.0)


def figures(device):
    return [getattr(device, name) for name in FIGURES] + [device.peak_flops["fp16"]]


@given(name=nodes, scaling=scalings, area=areas, more=st.floats(1.0, 1.5))
@settings(max_examples=40, deadline=None)
def test_more_area_without_a_cap_never_has_less_of_anything(name, scaling, area, more):
    budget = a_budget(node=node(name, scaling), power_w=np.inf, die_area_m2=area, stacks=4.0)
    larger = replace(budget, die_area_m2=min(area * more, 850e-6))
    for less, greater in zip(figures(synthesized(budget)), figures(synthesized(larger)), strict=True):
        assert greater >= less * (1 - 1e-9)


@given(name=nodes, area=areas, cap=caps, more=st.floats(1.0, 2.0))
@settings(max_examples=40, deadline=None)
def test_more_power_is_never_slower_and_the_cap_holds(name, area, cap, more):
    budget = a_budget(node=node(name), die_area_m2=area, power_w=cap, stacks=4.0)
    low, high = made_of(budget), made_of(replace(budget, power_w=cap * more))
    assert low.device.tdp_w <= cap * (1 + 1e-6)
    assert high.device.peak_flops["fp16"] >= low.device.peak_flops["fp16"] * (1 - 1e-9)
    assert high.voltage >= low.voltage * (1 - 1e-9)
    if low.power_bound:
        assert low.device.tdp_w == pytest.approx(cap, rel=1e-6)


@given(name=nodes, cap=caps)
@settings(max_examples=30, deadline=None)
def test_the_power_of_parts_sums_to_that_of_the_device(name, cap):
    made = made_of(a_budget(node=node(name), power_w=cap, stacks=4.0))
    assert sum(made.watts.values()) == pytest.approx(made.device.tdp_w)
    assert made.device.idle_w < made.device.tdp_w


@pytest.mark.parametrize("stacks", [2.0, 6.0, 8.0])
def test_the_split_of_the_area_is_whole_and_gives_interfaces_their_room(stacks):
    split = split_of(a_budget(stacks=stacks))
    assert split.total == pytest.approx(1)
    assert split.compute / split.registers == pytest.approx(AREA_OF_A100.compute / AREA_OF_A100.registers)
    assert (split.memory > AREA_OF_A100.memory) == (stacks > 4)


def test_arrays_are_their_scalars():
    names, caps_w, stacks = node_names(), np.array([400.0, 800.0, 3000.0]), np.array([2.0, 6.0])
    mesh = a_budget(
        node=nodes_along(names).at(np.arange(len(names))[:, None, None]), power_w=caps_w[:, None], stacks=stacks
    )
    whole = made_of(mesh)
    for i, j, k in [(0, 0, 0), (3, 1, 1), (7, 2, 0), (11, 0, 1)]:
        one = a_budget(node=node(names[i]), power_w=caps_w[j], stacks=stacks[k])
        if not buildable(one).mask:
            continue
        alone = made_of(one)
        for together, single in zip(figures(whole.device), figures(alone.device), strict=True):
            shape = (len(names), len(caps_w), len(stacks))
            assert np.broadcast_to(together, shape)[i, j, k] == pytest.approx(single)


def test_registers_that_are_scarce_leave_units_without_work():
    budget = with_area(a_budget(), registers=AREA_OF_A100.registers / 2)
    fair = a_budget(area=AREA_OF_A100)
    assert synthesized(replace(budget, power_w=np.inf, stacks=4.0)).peak_flops["fp16"] < (
        0.7 * synthesized(replace(fair, power_w=np.inf, stacks=4.0)).peak_flops["fp16"]
    )


def test_a_share_of_power_slows_the_memory():
    free = synthesized(a_budget(stacks=4.0))
    split = Split(compute=0.6, registers=0.1, l2=0.1, memory=0.05, network=0.15)
    tight = synthesized(a_budget(stacks=4.0, power=split))
    assert tight.memory_bandwidth == pytest.approx(0.05 * 1000 / (8 * memory("hbm4").energy_j_per_bit))
    assert tight.memory_bandwidth < free.memory_bandwidth


def test_energy_follows_the_square_of_a_stated_voltage():
    base = a_budget(power_w=np.inf, frequency_hz=1e9)
    nominal, low = made_of(base), made_of(replace(base, voltage=0.9 * base.node.voltage))
    assert low.watts["units"] == pytest.approx(0.81 * nominal.watts["units"])
    assert low.device.peak_flops == nominal.device.peak_flops


def test_a_budget_that_cannot_be_built_is_refused_with_every_reason():
    with pytest.raises(InputError) as refused:
        synthesized(a_budget(stacks=30.0, frequency_hz=4e9))
    assert [problem.split()[0] for problem in refused.value.problems] == ["edge", "power", "clock"]


def test_stated_shares_of_the_area_leave_interfaces_their_room():
    budget = a_budget()
    area, before = with_area(budget, l2=0.1).area, split_of(budget)
    assert area.total == pytest.approx(1)
    assert area.l2 == 0.1
    assert (area.memory, area.network) == (before.memory, before.network)
    assert area.compute / area.registers == pytest.approx(AREA_OF_A100.compute / AREA_OF_A100.registers)
    assert with_area(budget, compute=0.4, registers=0.1, l2=0.2).area.total == pytest.approx(1)
    assert with_area(budget, **dict.fromkeys(PARTS, 0.1)).area.total == pytest.approx(0.5)


def test_devices_of_arrays_are_predicted_as_one():
    scenario = scenario_from_mapping(
        {
            "model": "llama-2-7b",
            "cluster": "8x b200-sxm-180gb",
            "workload": {"task": "pretrain", "sequence_length": 4096, "global_batch": 64},
            "plan": {"framework": "reference", "micro_batch": 1},
        }
    )
    names = ("7nm", "3nm", "1nm")

    def step(made):
        device = replace(made, relatives=scenario.cluster.device.relatives)
        return predict(replace(scenario, cluster=replace(scenario.cluster, device=device))).step_time_s

    together = step(synthesized(a_budget(node=nodes_along(names), stacks=4.0)))
    assert together == pytest.approx([step(synthesized(a_budget(node=node(name), stacks=4.0))) for name in names])
    assert together[0] > together[1] > together[2]


@given(share=st.floats(0.01, 0.9))
def test_a_share_of_l2_leaves_units_their_proportion_and_interfaces_their_area(share):
    before = split_of(a_budget())
    after = with_l2_share(before, share)
    assert after.l2 / (after.compute + after.registers + after.l2) == pytest.approx(share)
    assert after.compute / after.registers == pytest.approx(before.compute / before.registers)
    assert (after.memory, after.network) == (before.memory, before.network)
    assert after.total == pytest.approx(before.total)


def test_what_cannot_be_built_has_numbers_all_the_same():
    too_large = a_budget(die_area_m2=1000e-6)
    with pytest.raises(InputError, match="area exceeded"):
        made_of(too_large)
    assert made_anyway(too_large).device.peak_flops["fp16"] > synthesized(a_budget()).peak_flops["fp16"]
    assert made_anyway(a_budget()).device.peak_flops == synthesized(a_budget()).peak_flops


def test_kernels_of_relatives_stand_in_unless_a_family_is_named():
    assert synthesized(a_budget(relatives=("h100-sxm",))).calibration == UNMEASURED
    assert synthesized(a_budget(calibration="a100-sxm")).calibration == "a100-sxm"
