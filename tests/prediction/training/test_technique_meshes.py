"""Techniques on an open mesh cost what they cost plan by plan."""

from dataclasses import replace

import numpy as np
import pytest
from open_mesh import open_mesh
from training_scenarios import training

from sightline.prediction.training.step_profile import profile_of
from sightline.scenario import Scenario


def scenario(model: str = "llama-3-8b", **plan: object) -> Scenario:
    return training(
        model=model,
        cluster="64x h100-sxm-80gb",
        sequence_length=4096,
        global_batch=512,
        plan={"micro_batch": 1, "zero_stage": 1, **plan},
    )


def one(of: Scenario, **plan: object) -> Scenario:
    left = of.cluster.devices // int(plan.get("pipeline_parallel", 1) * plan.get("tensor_parallel", 1))
    return replace(of, plan=replace(of.plan, data_parallel=left, **plan))


@pytest.mark.parametrize(
    "plan",
    [
        {"recompute": {"modules": "full", "layers": 4}},
        {"recompute": ["mlp", "layernorm"]},
        {"recompute": ["per_op"]},
        {"optimizer": "muon"},
        {"schedule": "dualpipe", "pipeline_parallel": 2},
        {"tensor_overlap": "all"},
    ],
    ids=str,
)
def test_a_mesh_of_a_technique_is_its_plans(plan):
    axes = {"tensor_parallel": [1, 8], "pipeline_parallel": [2, 4], "zero_stage": [0, 1, 3]}
    asked = scenario(**plan)
    mesh = profile_of(open_mesh(asked, axes))
    for i, t in enumerate(axes["tensor_parallel"]):
        for j, p in enumerate(axes["pipeline_parallel"]):
            for k, z in enumerate(axes["zero_stage"]):
                alone = profile_of(one(asked, tensor_parallel=t, pipeline_parallel=p, zero_stage=z))
                shape = np.broadcast_shapes((2, 2, 3), np.shape(mesh.step_time_s))
                assert np.broadcast_to(mesh.step_time_s, shape)[i, j, k] == pytest.approx(float(alone.step_time_s))
                total = np.broadcast_to(mesh.memory_bytes["total"], shape)[i, j, k]
                assert total == pytest.approx(float(alone.memory_bytes["total"]))


def test_what_is_usual_costs_exactly_nothing():
    plain = profile_of(scenario(zero_stage=3))
    for plan in ({"data_parallel_shard": 64}, {"recompute": {"layers": 0}}, {"tensor_overlap": "none"}):
        same = profile_of(scenario(zero_stage=3, **plan))
        assert same.step_time_s == plain.step_time_s
        assert same.memory_bytes == plain.memory_bytes


def test_copies_along_an_axis_cost_what_each_costs():
    asked = scenario(zero_stage=3)
    mesh = profile_of(open_mesh(asked, {"data_parallel_shard": [1, 8, 64]}))
    for i, shard in enumerate((1, 8, 64)):
        alone = profile_of(one(asked, data_parallel_shard=shard))
        assert mesh.step_time_s[i] == pytest.approx(float(alone.step_time_s))
        assert mesh.memory_bytes["total"][i] == pytest.approx(float(alone.memory_bytes["total"]))
