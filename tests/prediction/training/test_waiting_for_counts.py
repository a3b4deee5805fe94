"""A host that waits for a router's counts launches nothing ahead: what that costs, and where it costs nothing."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from open_mesh import open_mesh
from training_scenarios import behaving, training

from sightline.prediction.pass_times import PassTimes
from sightline.prediction.training.constants import believed_constants
from sightline.prediction.training.step_profile import profile_of
from sightline.profile import Profile
from sightline.scenario import Scenario

SECONDS = st.floats(0, 10)


def mixture(model: str = "qwen3-30b-a3b", **plan: Any) -> Scenario:
    return training(
        model=model,
        cluster={"devices": "8x b200-sxm-180gb", "host": "epyc-7742"},
        sequence_length=4096,
        global_batch=32,
        plan={
            "framework": "megatron",
            "framework_version": "bridge-26.04",
            "micro_batch": 4,
            "zero_stage": 1,
            "dtype": "mxfp8",
        }
        | ({"expert_parallel": 8} if model.startswith("qwen3-30b") else {})
        | plan,
    )


def step(scenario: Scenario, *, waits: bool = True, launch_s: float = 4e-5) -> Profile:
    constants = believed_constants(scenario)
    framework = behaving(scenario.plan.framework, {"transformer_engine.waits_for_counts": waits})
    scenario = replace(scenario, plan=replace(scenario.plan, framework=framework))
    return profile_of(scenario, replace(constants, launch_forward_s=launch_s, launch_backward_s=1e-6))


def host(scenario: Scenario, **how: Any) -> float:
    return float(step(scenario, **how).phases["host"])


@given(SECONDS, SECONDS, SECONDS, SECONDS)
def test_a_pass_lasts_as_long_as_the_later_of_both(work_s, collective_s, host_s, blocked_s):
    times = PassTimes(memory_s=work_s, collective_s=collective_s, blocked_s=blocked_s)
    total_s = times.device_s + times.waiting_s(host_s)
    assert total_s == pytest.approx(max(work_s + collective_s + blocked_s, host_s))
    three = times.times(3.0)
    assert three.device_s + three.waiting_s(3.0 * host_s) == pytest.approx(3.0 * total_s)


def test_a_slow_host_shows_although_its_launches_are_fewer_seconds_than_the_pass():
    assert host(mixture()) > host(mixture(), waits=False)
    profile = step(mixture())
    assert sum(profile.phases.values()) == pytest.approx(profile.step_time_s)


def test_a_fast_host_shows_nothing():
    assert host(mixture(), launch_s=1e-6) == host(mixture(), waits=False, launch_s=1e-6)


@pytest.mark.parametrize(
    "plan", [{"expert_capacity": 1.0}, {"expert_overlap": True}], ids=lambda plan: next(iter(plan))
)
def test_nothing_waits_where_counts_are_fixed_or_other_work_is_queued(plan):
    assert host(mixture(**plan)) == host(mixture(**plan), waits=False)


def test_a_dense_model_has_no_counts():
    assert step(mixture("llama-3-8b")).phases == step(mixture("llama-3-8b"), waits=False).phases


def test_more_experts_on_a_device_hold_it_longer():
    times = [host(mixture(expert_parallel=e, expert_dispatch="deduplicated")) for e in (8, 4, 2)]
    assert times == sorted(times)
    assert times[0] < times[-1]


def test_a_mesh_gives_what_single_plans_give():
    degrees = (2, 4, 8)
    mesh = open_mesh(mixture(), {"expert_parallel": degrees})
    single = [host(mixture(expert_parallel=e)) for e in degrees]
    assert np.ravel(step(mesh).phases["host"]) == pytest.approx(single)
