"""Devices searched together with plans, and knees along numbers."""

import math

import pytest
from study_bases import GENERATION, TECHNOLOGY, TRAINING, at_point

from sightline.errors import InputError
from sightline.exploration.own import grid as mesh
from sightline.exploration.own.request import design_axis
from sightline.exploration.run import explore
from sightline.loading import load
from sightline.prediction import predict
from sightline.progress import Progress

L2, STACKS = f"{TECHNOLOGY}.split.l2", f"{TECHNOLOGY}.stacks"
NODES = {f"{TECHNOLOGY}.node": ["7nm", "3nm"]}


@pytest.mark.parametrize("base", [TRAINING, GENERATION], ids=["training", "generation"])
def test_the_best_device_is_the_best_of_those_that_could_be_axes(base):
    answer = explore({"base": base, "axes": NODES, "search": [L2, STACKS]})
    key = "step_time_s" if base is TRAINING else "latency_s"
    for row in answer.rows:
        node = {f"{TECHNOLOGY}.node": [row[f"{TECHNOLOGY}.node"]]}
        around = {L2: [row[L2], row[L2] / 1.5, row[L2] * 1.5], STACKS: [row[STACKS], row[STACKS] + 1]}
        others = explore({"base": base, "axes": {**node, **around}})
        same = next(one for one in others.rows if (one[L2], one[STACKS]) == (row[L2], row[STACKS]))
        assert same[key] == pytest.approx(row[key])
        fitting = [one[key] for one in others.rows if one["fits"]]
        assert min(fitting) >= 0.97 * row[key]


def test_devices_and_plans_are_searched_together():
    base = {**TRAINING, "plan": {"framework": "megatron"}}
    alone = explore({"base": base, "axes": NODES, "search": ["tensor_parallel", "micro_batch"]})
    together = explore({"base": base, "axes": NODES, "search": ["tensor_parallel", "micro_batch", L2, STACKS]})
    for one, other in zip(alone.rows, together.rows, strict=True):
        assert other["step_time_s"] <= 1.02 * one["step_time_s"]
        assert {L2, STACKS, "plan.tensor_parallel"} <= set(other)


def test_points_without_a_device_are_counted():
    axes = {f"{TECHNOLOGY}.die_area": ["20 mm2", "800 mm2"]}
    answer = explore({"base": TRAINING, "axes": axes, "search": [STACKS]})
    assert [row["bound_level"] == "" for row in answer.rows] == [True, False]
    assert sum(answer.summary["not_possible"].values()) == 1


@pytest.mark.parametrize("search", [[], [L2], ["tensor_parallel", "micro_batch"], ["tensor_parallel", L2]])
def test_a_device_that_cannot_be_says_what_it_exceeds(search):
    plan = {"framework": "megatron"} if "tensor_parallel" in search else TRAINING["plan"]
    axes = {STACKS: [20], f"{TECHNOLOGY}.node": ["3nm"]}
    answer = explore({"base": {**TRAINING, "plan": plan}, "axes": axes, "search": search})
    (sentence, count), *_ = answer.summary["not_possible"].items()
    assert (count, "edge exceeded by" in sentence) == (1, True)
    assert answer.reading[-1] == f"No point fits: {sentence}."


def test_plans_are_not_looked_for_where_no_device_can_be_built():
    base = {**TRAINING, "cluster": "1024x h100-sxm-80gb", "plan": {"framework": "megatron"}}
    (sentence,) = explore({"base": base, "axes": {STACKS: [20]}}).summary["not_possible"]
    assert "edge exceeded by" in sentence
    with pytest.raises(InputError, match="search finds no valid plan"):
        explore({"base": base, "axes": {STACKS: [5]}})


def test_what_is_no_share_is_not_searched():
    with pytest.raises(InputError, match=r"did you mean 'cluster.device.technology.split.l2'\?"):
        explore({"base": TRAINING, "axes": NODES, "search": [f"{TECHNOLOGY}.split.l3"]})


def test_a_knee_lies_where_another_level_overtakes():
    key = "cluster.device.memory_bandwidth"
    axes = {key: {"from": "1 TB/s", "to": "64 TB/s", "factor": 2}}
    answer = explore({"base": GENERATION, "axes": axes, "view": "ideal", "report": ["tpot_s"]})
    knee = answer.summary["knees"][0]
    assert (knee["view"], knee["key"], knee["before"]) == ("ideal", key, "dram")
    assert 1e12 < knee["position"] < 64e12
    assert any("the time depends more on" in sentence for sentence in answer.reading)


MADE = ["device_cost_usd", "device_peak_flops", "device_frequency_hz", "device_tdp_w"]


def test_what_is_continuous_is_refined_around_the_best_of_the_grid():
    coarse = {f"{TECHNOLOGY}.split.l2": list(design_axis(L2).values)}
    grid = explore({"base": TRAINING, "axes": NODES | coarse})
    refined = explore({"base": TRAINING, "axes": NODES, "search": [L2]})
    for row in refined.rows:
        of_node = [one for one in grid.rows if one[f"{TECHNOLOGY}.node"] == row[f"{TECHNOLOGY}.node"]]
        best = min((one for one in of_node if one["fits"]), key=lambda one: one["step_time_s"])
        assert row["step_time_s"] <= best["step_time_s"]
        assert best[L2] / 1.25 < row[L2] < best[L2] * 1.25
        alone = explore({"base": TRAINING, "axes": {f"{TECHNOLOGY}.node": [row[f"{TECHNOLOGY}.node"]], L2: [row[L2]]}})
        assert next(alone.rows)["step_time_s"] == pytest.approx(row["step_time_s"])


@pytest.mark.parametrize("key", ["frequency", "voltage"])
def test_clock_and_voltage_are_searched(key):
    axes = {**NODES, "cluster.intra_node.bandwidth": ["200 GB/s", "900 GB/s"]}
    answer = explore({"base": TRAINING, "axes": axes, "search": [f"{TECHNOLOGY}.{key}"], "report": ["step_time_s"]})
    usual = explore({"base": TRAINING, "axes": axes, "report": ["step_time_s"]})
    for row, other in zip(answer.rows, usual.rows, strict=True):
        assert row["step_time_s"] <= other["step_time_s"] * 1.005
        one = explore(
            {
                "base": at_point(TRAINING, row, answer.axes),
                "axes": {f"{TECHNOLOGY}.{key}": [row[f"{TECHNOLOGY}.{key}"]]},
            }
        )
        assert next(one.rows)["step_time_s"] == pytest.approx(row["step_time_s"])


def test_the_fastest_of_devices_on_which_nothing_fits_is_shown():
    base = at_point(TRAINING, {"cluster.device.memory": "1 GB"}, ["cluster.device.memory"])
    answer = explore({"base": base, "axes": NODES, "search": [L2], "report": ["step_time_s"]})
    grid = explore({"base": base, "axes": NODES | {L2: list(design_axis(L2).values)}, "report": ["step_time_s"]})
    for row in answer.rows:
        same = [one["step_time_s"] for one in grid.rows if one[f"{TECHNOLOGY}.node"] == row[f"{TECHNOLOGY}.node"]]
        assert row["fits"] is False
        assert row["step_time_s"] <= min(one for one in same if one == one)


def test_what_making_a_device_comes_to_is_reported():
    answer = explore(
        {
            "base": TRAINING,
            "axes": NODES | {f"{TECHNOLOGY}.die_area": ["400 mm2", "800 mm2", "900 mm2"]},
            "report": MADE,
        }
    )
    for row in answer.rows:
        if row[f"{TECHNOLOGY}.die_area"] > 858e-6:
            assert all(math.isnan(row[key]) for key in MADE)
            continue
        device = load(at_point(TRAINING, row, answer.axes)).cluster.device
        assert row["device_peak_flops"] == pytest.approx(device.peak_flops["bf16"])
        assert row["device_tdp_w"] == pytest.approx(device.tdp_w)
        assert 100 < row["device_cost_usd"] < 5000
        assert 0.5e9 < row["device_frequency_hz"] < 3e9
    assert any("estimate" in one for one in answer.assumptions)


def test_a_base_of_technology_reports_what_it_comes_to_without_an_axis_of_it():
    base = at_point(TRAINING, {f"{TECHNOLOGY}.node": "3nm"}, [f"{TECHNOLOGY}.node"])
    axes = {"cluster.network.bandwidth_per_node": ["100 GB/s", "400 GB/s"]}
    answer = explore({"base": base, "axes": axes, "report": ["step_time_s", "device_cost_usd"]})
    for row in answer.rows:
        assert row["step_time_s"] == pytest.approx(predict(load(at_point(base, row, axes))).step_time_s)
        assert row["device_cost_usd"] > 100


def test_a_device_that_is_not_made_has_no_cost_of_making():
    with pytest.raises(InputError, match=r"report has 'device_cost_usd'"):
        explore({"base": TRAINING, "axes": {"plan.tensor_parallel": [1, 2]}, "report": ["device_cost_usd"]})


def test_who_takes_the_power_is_said_where_the_cap_slows_devices_down():
    axes = {f"{TECHNOLOGY}.memory": ["hbm3", "hbm4"], f"{TECHNOLOGY}.stacks": [5]}
    base = at_point(
        TRAINING,
        {f"{TECHNOLOGY}.node": "3nm", f"{TECHNOLOGY}.power": "400 W"},
        [f"{TECHNOLOGY}.node", f"{TECHNOLOGY}.power"],
    )
    answer = explore({"base": base, "axes": axes})
    said = next(one for one in answer.reading if "power cap" in one)
    assert "of 400 W the memory takes" in said
    assert not any("synthesized" in one for one in answer.warnings)


def test_what_stands_next_to_technology_replaces_what_it_makes():
    stated = {"cluster.device.memory": "50 GB", "cluster.device.peak_flops": {"bf16": "123 TFLOP/s"}}
    base = at_point(TRAINING, stated, stated)
    answer = explore({"base": base, "axes": NODES})
    for row in answer.rows:
        profile = predict(load(at_point(base, row, NODES)))
        assert row["step_time_s"] == pytest.approx(profile.step_time_s)


def test_a_search_of_devices_that_is_stopped_keeps_whole_points(monkeypatch):
    monkeypatch.setattr(mesh.blocks, "__defaults__", (64,))
    axes = {f"{TECHNOLOGY}.node": ["7nm", "5nm", "3nm"], f"{TECHNOLOGY}.power": ["400 W", "700 W", "1 kW"]}

    def stop(state):
        if state.what == "exploring" and state.done > 100:
            progress.cancel()

    progress = Progress(stop, every_s=0)
    answer = explore({"base": TRAINING, "axes": axes, "search": [L2]}, progress=progress)
    assert 0 < len(answer) < 9
    assert progress.state.done == len(answer)
    assert progress.state.total == 9
    assert all(row["step_time_s"] > 0 for row in answer.rows)


@pytest.mark.parametrize("view", ["ideal", "calibrated"])
def test_a_search_is_no_worse_than_an_axis_of_what_it_searches(view):
    base = {**TRAINING, "plan": {"framework": "megatron"}}
    plans, axes = ["tensor_parallel", "micro_batch"], {f"{TECHNOLOGY}.node": ["3nm"]}
    shares = {L2: {"from": 0.02, "to": 0.5, "steps": 33}}
    varied = explore({"base": base, "axes": {**axes, **shares}, "search": plans, "view": view})
    searched = explore({"base": base, "axes": axes, "search": [*plans, L2], "view": view})
    (row,) = searched.rows
    assert row["step_time_s"] <= 1.001 * min(one["step_time_s"] for one in varied.rows if one["fits"])


def test_the_best_of_a_search_says_what_its_device_is():
    answer = explore({"base": TRAINING, "axes": NODES, "search": [L2], "report": ["step_time_s"]})
    best = answer.summary["best"]["calibrated"]
    assert best["device_peak_flops"] > 1e14
    assert best["device_l2_bytes"] > 1e6
    assert best["device_frequency_hz"] > 1e8
    assert "L2 capacity" in " ".join(answer.reading)
    assert "device_peak_flops" not in answer.columns
