"""The plan searched again at every point: what `sightline plan` finds there."""

from itertools import product

import pytest
from study_bases import GENERATION, TRAINING, at_point

from sightline.errors import InputError
from sightline.exploration.base import in_view
from sightline.exploration.run import explore
from sightline.loading import load
from sightline.prediction import predict

SMALL = {
    **TRAINING,
    "cluster": "8x h100-sxm-80gb",
    "workload": {"task": "pretrain", "sequence_length": 2048, "global_batch": 8},
    "plan": {"framework": "megatron", "recompute": "selective"},
}
CHOICES = {"tensor_parallel": [1, 2, 4, 8], "pipeline_parallel": [1, 2, 4, 8], "micro_batch": [1, 2, 4, 8]}
AXES = {"cluster.device.memory": ["30 GB", "80 GB"], "cluster.intra_node.bandwidth": ["20 GB/s"]}


def fastest(base):
    """The fastest of all plans that fit, each read and predicted alone."""
    found = []
    for values in product(*CHOICES.values()):
        plan = {**base["plan"], **dict(zip(CHOICES, values, strict=True))}
        try:
            profile = predict(load({**base, "plan": plan}))
        except InputError:
            continue
        if profile.fits:
            found.append((profile.step_time_s, plan))
    return min(found, key=lambda one: one[0])


@pytest.mark.parametrize("view", ["ideal", "calibrated"])
def test_each_point_has_the_fastest_plan_that_fits(view):
    answer = explore({"base": SMALL, "axes": AXES, "search": list(CHOICES), "view": view})
    for row in answer.rows:
        seconds, plan = fastest(in_view(at_point(SMALL, row, AXES), view))
        assert row["step_time_s"] == pytest.approx(seconds, rel=1e-9)
        assert row["fits"] is True
        assert {name: row[f"plan.{name}"] for name in CHOICES} == {name: plan[name] for name in CHOICES}


def test_a_search_may_lay_out_what_is_no_number():
    search = ["recompute", "zero_stage", "micro_batch", "sequence_parallel"]
    base = {**TRAINING, "plan": {"framework": "megatron", "tensor_parallel": 4}}
    answer = explore({"base": base, "axes": {"cluster.device.memory": ["12 GB", "80 GB"]}, "search": search})
    small, large = answer.rows
    assert large["step_time_s"] < small["step_time_s"]
    assert (small["plan.recompute"], large["plan.recompute"]) == ("full", "none")


def test_a_micro_batch_that_is_not_stated_is_the_fastest_that_fits():
    base = {**TRAINING, "plan": {key: value for key, value in TRAINING["plan"].items() if key != "micro_batch"}}
    axes = {"cluster.device.memory": ["20 GB", "30 GB", "80 GB"]}
    answer = explore({"base": base, "axes": axes})
    for row in answer.rows:
        profile = predict(load(at_point(base, row, axes)))
        assert row["step_time_s"] == pytest.approx(profile.step_time_s, rel=1e-9)
        assert (row["plan.micro_batch"], row["fits"]) == (profile.scenario.plan.micro_batch, profile.fits)


def test_where_no_plan_fits_the_smallest_is_shown():
    axes = {"cluster.device.memory": ["1 GB", "80 GB"]}
    answer = explore({"base": SMALL, "axes": axes, "search": ["zero_stage", "micro_batch"]})
    small, large = answer.rows
    assert (small["fits"], large["fits"]) == (False, True)
    assert small["memory_bytes.total"] <= large["memory_bytes.total"]


def test_generation_is_searched_too():
    base = {**GENERATION, "plan": {"framework": "vllm"}}
    axes = {"cluster.intra_node.bandwidth": ["2 GB/s", "450 GB/s"]}
    answer = explore({"base": base, "axes": axes, "search": ["tensor_parallel"]})
    slow, fast = answer.rows
    assert (slow["plan.tensor_parallel"], fast["plan.tensor_parallel"]) == ("1", "2")
    assert fast["output_tokens_per_s"] > slow["output_tokens_per_s"]


@pytest.mark.parametrize("search", [["tensor_parallel", "micro_batch"], None])
def test_names_alone_are_searched_too(search):
    plan = {"framework": "megatron", "recompute": "selective"} | ({} if search else {"tensor_parallel": 2})
    clusters = ["8x h100-sxm-80gb", "8x b200-sxm-180gb"]
    asked = {"base": {**SMALL, "plan": plan}, "axes": {"cluster": clusters}} | ({"search": search} if search else {})
    numbers = {**asked, "axes": {"cluster": clusters, "cluster.network.latency": ["1x"]}}
    alone, same = explore(asked), explore(numbers)
    assert list(alone.columns["cluster"]) == clusters
    for key in set(alone.columns):
        assert list(alone.columns[key]) == list(same.columns[key])


def test_devices_are_searched_without_an_axis_of_numbers():
    technology = {"node": "3nm", "memory": "hbm3", "stacks": 5}
    base = {**SMALL, "cluster": {"devices": 8, "device": {"technology": technology}}}
    base["plan"] = {"framework": "megatron", "tensor_parallel": 2, "micro_batch": 1}
    search = ["cluster.device.technology.split.l2", "cluster.device.technology.stacks"]
    answer = explore({"base": base, "axes": {"plan.recompute": ["none", "full"]}, "search": search})
    assert all(row["step_time_s"] > 0 and row[search[0]] > 0 for row in answer.rows)
