"""Devices searched together with plans, and knees along numbers."""

import pytest
from study_bases import GENERATION, TECHNOLOGY, TRAINING

from sightline.errors import InputError
from sightline.exploration.explore import explore

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
    assert any("the time depends on" in sentence for sentence in answer.reading)
