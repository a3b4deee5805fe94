"""Devices that are named with and without counts."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sightline as sl
from sightline.errors import InputError
from sightline.planning.clusters import with_counts
from sightline.planning.search import plan

ASKED = {
    "model": "llama-2-7b",
    "cluster": "8x a100-sxm-80gb",
    "workload": {"task": "pretrain", "sequence_length": 2048, "global_batch": 64},
    "plan": {"tensor_parallel": 8, "schedule": "1f1b", "context_parallel": 1, "offload": "none", "attention": "flash"},
}


def never():
    raise AssertionError("counts are asked for where a device is named alone")


@given(st.integers(1, 10**4), st.integers(1, 10**4))
def test_a_range_doubles_from_its_first_to_at_most_its_last(low, more):
    counts = [int(name.partition("x")[0]) for name in with_counts([f"{low}..{low + more}x h100-sxm-80gb"], never)]
    assert counts[0] == low
    assert counts[-1] <= low + more < 2 * counts[-1]
    assert all(after == 2 * before for before, after in pairwise(counts))


def test_a_device_alone_is_taken_as_often_as_the_scenario_has_devices():
    assert with_counts(["h100-sxm-80gb", "4x b200-sxm-180gb"], lambda: [8, 16]) == [
        "8x h100-sxm-80gb",
        "16x h100-sxm-80gb",
        "4x b200-sxm-180gb",
    ]
    found = plan(ASKED, devices=["h100-sxm-80gb"], top=1)
    assert found.plans[0].profile.scenario.cluster.name == "8x h100-sxm-80gb"


@pytest.mark.parametrize("name", ["8..4x h100-sxm-80gb", "0..4x h100-sxm-80gb"])
def test_an_empty_range_is_refused(name):
    with pytest.raises(InputError, match="a doubling range"):
        with_counts([name], never)


def test_a_search_of_a_range_is_one_of_all_its_sizes():
    found = plan(ASKED, devices=["8..16x h100-sxm-80gb"])
    assert found.evaluated == sum(plan(ASKED, devices=[f"{count}x h100-sxm-80gb"]).evaluated for count in (8, 16))


def test_a_scenario_is_searched_on_other_devices_too():
    scenario = sl.load(ASKED | {"plan": {"tensor_parallel": 8, "sequence_parallel": True, "micro_batch": 1}})
    names = ["h100-sxm-80gb", "16x a100-sxm-80gb"]
    given_names = plan(scenario, free=["data_parallel", "zero_stage"], devices=names)
    assert {one.profile.scenario.cluster.name for one in given_names.plans} == {"8x h100-sxm-80gb", "16x a100-sxm-80gb"}
    assert "cluster" in given_names.free
    with pytest.raises(InputError, match="h1000"):
        plan(scenario, devices=["h1000"])
    with pytest.raises(InputError, match="overrides apply to files"):
        plan(scenario, overrides={"plan.zero_stage": 3})
