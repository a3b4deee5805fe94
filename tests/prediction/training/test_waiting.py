"""Ranks wait for the slowest device: nothing on one, more of it on more, once per step."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from training_scenarios import training

from sightline.prediction.pass_times import PassTimes
from sightline.prediction.training.micro_batch import Slot
from sightline.prediction.training.step import DEVICE_SPREAD, for_slowest_device_s
from sightline.prediction.training.step_profile import predict
from sightline.profile import Profile

SLOT = Slot(forward=PassTimes(compute_s=1.0), backward=PassTimes(compute_s=1.5, memory_s=0.5))
DEVICES = st.integers(1, 100_000)


def asked(devices: int, device: str = "h100-sxm-80gb", model: str = "llama-2-7b", **plan: object) -> Profile:
    rows = 2 * devices
    return predict(
        training(
            model=model,
            cluster=f"{devices}x {device}",
            sequence_length=4096,
            global_batch=rows,
            plan={"framework": "megatron", "micro_batch": 1, **plan},
        )
    )


def waited_s(profile: Profile) -> float:
    return sum(row.time_s for row in profile.rows if row.operator == "waiting for the slowest device")


def test_one_device_waits_for_nobody():
    assert for_slowest_device_s(1, SLOT, 8.0) == 0.0
    assert waited_s(asked(1)) == 0.0


@given(DEVICES, DEVICES)
def test_more_devices_wait_no_shorter(one, other):
    few, many = sorted((one, other))
    assert for_slowest_device_s(few, SLOT, 8.0) <= for_slowest_device_s(many, SLOT, 8.0)


def test_the_wait_is_the_expected_largest_of_normal_variables():
    drawn = np.random.default_rng(0).normal(size=(4000, 64)).max(axis=1).mean()
    assert for_slowest_device_s(64, SLOT, 8.0) == pytest.approx(8 * 3.0 * DEVICE_SPREAD * drawn, rel=0.03)


def test_a_few_nodes_lose_little_and_thousands_not_much_more():
    def share(devices: int) -> float:
        return float(for_slowest_device_s(devices, SLOT, 1.0)) / 3.0

    assert share(64) < 0.03
    assert 0.03 < share(1024) < share(16_384) < 0.045


def test_who_waits_for_the_host_has_time_to_catch_up():
    held = SLOT._replace(forward_wait_s=1.0)
    assert for_slowest_device_s(1024, held, 8.0) == 0.0
    assert for_slowest_device_s(1024, held, 8.0, blocking=True) == for_slowest_device_s(1024, SLOT, 8.0)


def test_blocking_launches_hide_behind_no_kernel():
    free, blocked = (asked(1, launch_blocking=blocking) for blocking in (False, True))
    launched_s = blocked.phases["host"] - free.phases["host"]
    assert launched_s > 0.1 * free.phases["host"]
    assert blocked.step_time_s == pytest.approx(free.step_time_s + launched_s)


@pytest.mark.parametrize("plan", [{}, {"tensor_parallel": 8}, {"tensor_parallel": 2, "pipeline_parallel": 4}])
def test_it_does_not_matter_where_ranks_meet(plan):
    profile = asked(16, **plan)
    work_s = sum(profile.phases[name] for name in ("forward", "backward", "recompute"))
    assert waited_s(profile) == pytest.approx(float(for_slowest_device_s(16, SLOT, 1.0)) / 3.0 * work_s)
    assert 0 < waited_s(profile) < profile.phases["communication_exposed"]
    assert sum(profile.phases.values()) == pytest.approx(profile.step_time_s)


@settings(max_examples=10, deadline=None)
@given(st.sampled_from([1, 2, 4, 8]), st.sampled_from(["h100-sxm-80gb", "a100-sxm-80gb", "mi300x"]))
def test_rows_of_communication_add_up_to_their_phase(tensor_parallel, device):
    profile = asked(32, device, tensor_parallel=tensor_parallel)
    shown = sum(row.exposed_s for row in profile.rows if row.phase == "communication_exposed")
    assert shown == pytest.approx(profile.phases["communication_exposed"])


@pytest.mark.parametrize(
    ("plan", "model"),
    [
        ({"tensor_parallel": 2, "pipeline_parallel": 4, "virtual_stages": 2, "schedule": "interleaved"}, "llama-2-7b"),
        ({"zero_stage": 1, "offload": ["activations"]}, "llama-2-7b"),
        ({"context_parallel": 4, "zero_stage": 1}, "llama-2-7b"),
        ({"expert_parallel": 8, "expert_overlap": True}, "mixtral-8x7b"),
        (
            {"framework": "reference", "pipeline_parallel": 4, "expert_parallel": 4, "schedule": "dualpipe"},
            "mixtral-8x7b",
        ),
    ],
)
def test_blocking_launches_hide_no_communication(plan, model):
    free, blocked = (asked(16, model=model, launch_blocking=blocking, **plan) for blocking in (False, True))
    assert blocked.phases["communication_exposed"] > free.phases["communication_exposed"]
    sent = [row for row in blocked.rows if row.phase == "communication_exposed"]
    assert all(row.exposed_s == pytest.approx(row.time_s) for row in sent)


@pytest.mark.parametrize("split", [{"tensor_parallel": 2}, {"pipeline_parallel": 4}, {}])
def test_blocking_launches_expose_what_is_exposed_without_overlap(split):
    def sent_s(**plan):
        profile = asked(16, zero_stage=1, **split, **plan)
        return profile.phases["communication_exposed"] - waited_s(profile)

    alone = {"overlap_gradient_reduce": False, "overlap_parameter_gather": False, "tensor_overlap": "none"}
    assert sent_s(launch_blocking=True) == pytest.approx(sent_s(**alone)) != pytest.approx(sent_s())
