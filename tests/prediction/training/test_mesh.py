"""One formula for one plan and for many: at every index of a mesh stands what that plan alone is predicted to take."""

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from open_mesh import open_mesh
from training_scenarios import training

from sightline.prediction.training.step_profile import predict, profile_of
from sightline.profile import Profile
from sightline.scenario import Scenario

AXES = {
    "tensor_parallel": (1, 2, 8),
    "pipeline_parallel": (1, 3, 4),
    "micro_batch": (1, 4),
    "virtual_stages": (1, 2),
    "zero_stage": (0, 1, 2, 3),
    "sequence_parallel": (0, 1),
}
TOLERANCE = 1e-12


def kinds(**plan: Any) -> Scenario:
    return training(cluster="96x a100-sxm-80gb", global_batch=384, plan={"micro_batch": 1, **plan})


def figures(profile: Profile) -> dict[str, Any]:
    """Every figure of a profile but its rows, which a mesh does not list."""
    names = ("step_time_s", "fits", "model_flops", "hardware_flops", "energy_per_step_j", "tokens_per_s")
    derived = ("model_flops_per_s_per_device", "peak_flops", "mfu", "hfu", "cost_usd", "run_time_s", "energy_j")
    found = {name: getattr(profile, name) for name in (*names, *derived)}
    for group in ("phases", "memory_bytes", "limits"):
        found |= {f"{group}.{k}": v for k, v in getattr(profile, group).items()}
    for name, (forward, backward, _) in profile.stage_times.items():
        found |= {f"{name}.forward_s": forward, f"{name}.backward_s": backward}
    for stage in profile.stages:
        found |= {f"{stage.stage}.{k}": v for k, v in (*stage.parts.items(), *stage.items.items())}
    return found


def same(one: Profile, other: Profile) -> None:
    left, right = figures(one), figures(other)
    assert left.keys() == right.keys()
    for place, value in left.items():
        if value is None:
            assert right[place] is None
        else:
            assert np.ndim(value) == np.ndim(right[place]) == 0, place
            assert value == pytest.approx(float(right[place]), rel=TOLERANCE, abs=1e-15), place
    assert one.bottleneck == other.bottleneck


@pytest.mark.parametrize(
    "scenario",
    [
        pytest.param(
            kinds(framework="megatron", attention="eager", recompute="selective", dtype="fp16"), id="eager, selective"
        ),
        pytest.param(
            kinds(framework="megatron", framework_version="core", recompute="full"), id="full", marks=pytest.mark.slow
        ),
        pytest.param(kinds(), id="reference", marks=pytest.mark.slow),
        pytest.param(kinds(framework="megatron", launch_blocking=True), id="blocking launches", marks=pytest.mark.slow),
        pytest.param(
            training(
                model="llama-3-8b",
                cluster="96x h100-sxm-80gb",
                global_batch=384,
                total_tokens=1e12,
                plan={"micro_batch": 1, "recompute": "full"},
            ),
            id="grouped heads, full",
        ),
    ],
)
def test_every_plan_of_an_open_mesh_is_predicted_as_if_alone(scenario):
    mesh = profile_of(open_mesh(scenario, AXES))
    assert np.shape(mesh.step_time_s) == tuple(len(v) for v in AXES.values())
    for index, values in zip(np.ndindex(np.shape(mesh.step_time_s)), product(*AXES.values()), strict=True):
        plan = dict(zip(AXES, values, strict=True))
        left = scenario.cluster.devices / (plan["tensor_parallel"] * plan["pipeline_parallel"])
        alone = profile_of(replace(scenario, plan=replace(scenario.plan, data_parallel=left, **plan)))
        picked = mesh[index]
        same(picked, alone)
        assert picked.scenario.plan.to_dict() == alone.scenario.plan.to_dict()


@pytest.mark.parametrize("axis", AXES)
def test_an_axis_alone_is_a_mesh_of_one_dimension(axis):
    scenario = kinds(framework="megatron", tensor_parallel=8, pipeline_parallel=4)
    values = np.array(AXES[axis])
    changes: dict[str, Any] = {axis: values}
    if axis.endswith("_parallel") and axis != "sequence_parallel":
        changes["data_parallel"] = 96 / (values * (4 if axis == "tensor_parallel" else 8))
    mesh = profile_of(replace(scenario, plan=replace(scenario.plan, **changes)))
    for i in range(len(values)):
        one = replace(scenario.plan, **{k: v[i].item() for k, v in changes.items()})
        same(mesh[i], profile_of(replace(scenario, plan=one)))


@pytest.mark.parametrize(
    "numbers",
    [
        {"memory_bandwidth": np.array([1e12, 2e12, 4e12, 8e12])},
        {"peak_flops": {"bf16": np.array([1e14, 3.12e14, 1e15])}},
        {"l2_bandwidth": np.array([1e12, 8e12]), "l2_bytes": np.array([1e6, 1e8])},
        {"compute_units": np.array([54.0, 108.0, 132.0])},
        {"vector_flops": np.array([1e12, 2e13])},
        {"memory_bytes": np.array([8e9, 80e9, 8e12])},
        {"tdp_w": np.array([200.0, 700.0]), "usd_per_hour": np.array([1.0, 2.0])},
        {"memory_bandwidth": np.array([[1e12], [2e12]]), "memory_bytes": np.array([8e9, 80e9, 8e12])},
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("attention", ["flash", "eager"])
def test_numbers_of_a_device_broadcast_too(numbers, attention):
    scenario = kinds(framework="megatron", tensor_parallel=8, pipeline_parallel=4, attention=attention)
    device = scenario.cluster.device

    def on(changed: dict[str, Any]) -> Profile:
        cluster = replace(scenario.cluster, device=replace(device, **changed))
        return profile_of(replace(scenario, cluster=cluster))

    many = on(numbers)
    arrays = [v["bf16"] if isinstance(v, dict) else v for v in numbers.values()]
    for index in np.ndindex(np.broadcast_shapes(*(a.shape for a in arrays))):
        single = {
            k: {"bf16": v["bf16"][index].item()}
            if isinstance(v, dict)
            else np.broadcast_to(v, np.broadcast_shapes(*(a.shape for a in arrays)))[index].item()
            for k, v in numbers.items()
        }
        same(many[index], on(single))


def test_devices_and_plans_cross():
    scenario = kinds(framework="megatron", pipeline_parallel=4)
    bandwidths = np.array([1e12, 2e12, 4e12])
    mesh = open_mesh(scenario, {"tensor_parallel": (1, 8), "micro_batch": (1, 2)})
    device = replace(scenario.cluster.device, memory_bandwidth=bandwidths[:, None, None])
    many = profile_of(replace(mesh, cluster=replace(mesh.cluster, device=device)))
    assert np.shape(many.step_time_s) == (3, 2, 2)
    for i, bandwidth in enumerate(bandwidths):
        device = replace(scenario.cluster.device, memory_bandwidth=float(bandwidth))
        one = profile_of(replace(mesh, cluster=replace(mesh.cluster, device=device)))
        assert many.step_time_s[i] == pytest.approx(one.step_time_s, rel=TOLERANCE)


def test_a_slice_of_a_mesh_is_a_mesh():
    mesh = profile_of(open_mesh(kinds(), {"tensor_parallel": (1, 2, 8), "zero_stage": (0, 3)}))
    column = mesh[:, 1]
    assert np.shape(column.step_time_s) == (3,)
    same(column[2], mesh[2, 1])


def without_micro_batch() -> Scenario:
    return training(cluster="96x a100-sxm-80gb", global_batch=384)


def test_a_mesh_needs_no_scalar_micro_batch_where_it_is_an_axis():
    mesh = predict(open_mesh(without_micro_batch(), {"micro_batch": (1, 2, 4)}))
    assert np.shape(mesh.step_time_s) == (3,)
