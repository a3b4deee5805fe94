"""DualPipe: its closed form against the schedule played out, and what it changes of a step."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from training_scenarios import training

from sightline.prediction.schedules.closed_forms import dualpipe_bubble_s
from sightline.prediction.schedules.timeline import (
    BACKWARD,
    FORWARD,
    INPUT,
    WEIGHT,
    Simulation,
    order,
    simulate,
    timeline,
)
from sightline.prediction.training.step_profile import profile_of

STAGES = st.sampled_from([2, 4, 6, 8, 16])


def play(stages: int, weight_s: float, micro_batches: int) -> Simulation:
    """Play equal stages whose forward pass takes a second and whose backward pass takes two."""
    forward_s, backward_s = [[1.0]] * stages, [[2.0]] * stages
    return simulate("dualpipe", forward_s, backward_s, micro_batches, weight_s=[[weight_s]] * stages)


@given(STAGES, st.integers(0, 6))
def test_every_micro_batch_passes_forward_and_backward_once(stages, more):
    micro_batches = 2 * stages + 2 * more
    for device in range(stages):
        slots = order("dualpipe", device, stages, micro_batches, 1)
        passes = Counter((one.kind, one.chunk) for slot in slots for one in slot)
        assert len({one for slot in slots for one in slot}) == sum(passes.values())
        for direction in (0, 1):
            kinds = {kind: passes[kind, direction] for kind in (FORWARD, BACKWARD, INPUT, WEIGHT)}
            half = micro_batches // 2
            assert kinds[FORWARD] == kinds[BACKWARD] + kinds[INPUT] == kinds[BACKWARD] + kinds[WEIGHT] == half


@given(STAGES, st.integers(0, 6), st.floats(0.2, 1.0))
def test_the_closed_form_is_the_schedule_played_out(stages, more, weight):
    micro_batches = 2 * stages + 2 * more
    played = play(stages, weight, micro_batches)
    closed = 3.0 * micro_batches + dualpipe_bubble_s(2.0, weight, 3.0, stages)
    assert closed - 2.0 * stages * (1.0 - weight) - 1e-9 <= played.total_s <= closed + 1e-9
    # Within a backward pass, however long the pipeline.
    assert closed - played.total_s <= 2.0
    assert max(played.in_flight) <= stages + 1


def test_equal_thirds_are_exact():
    for stages in (2, 4, 8, 16):
        played = play(stages, 1.0, 2 * stages)
        assert played.total_s == pytest.approx(6.0 * stages + dualpipe_bubble_s(2.0, 1.0, 3.0, stages))


def step(schedule: str, devices: int = 64, **plan: object):
    return profile_of(
        training(
            model="llama-3-70b",
            cluster=f"{devices}x h100-sxm-80gb",
            sequence_length=4096,
            global_batch=64,
            plan={
                "tensor_parallel": 8,
                "pipeline_parallel": 8,
                "micro_batch": 1,
                "sequence_parallel": True,
                "schedule": schedule,
                **plan,
            },
        )
    )


def test_it_idles_less_than_other_schedules_and_holds_parameters_twice():
    dual, zero_bubble, plain = (step(s) for s in ("dualpipe", "zero-bubble", "1f1b"))
    idle = [float(p.phases["pipeline_bubble"]) for p in (dual, zero_bubble, plain)]
    assert idle == sorted(idle)
    assert dual.memory_bytes["weights"] > 1.8 * plain.memory_bytes["weights"]
    assert dual.memory_bytes["activations"] == pytest.approx(9 / 8 * plain.memory_bytes["activations"], rel=0.1)


def test_replicas_share_the_second_copy_out_too():
    dual, plain = (step(s, devices=128, zero_stage=1) for s in ("dualpipe", "1f1b"))
    assert dual.memory_bytes["optimizer"] == pytest.approx(plain.memory_bytes["optimizer"], rel=0.1)


def test_one_stage_is_one_stage():
    scenario = training(model="llama-3-8b", cluster="8x h100-sxm-80gb", global_batch=64, plan={"micro_batch": 1})
    dual = profile_of(replace(scenario, plan=replace(scenario.plan, schedule="dualpipe")))
    assert dual.step_time_s == pytest.approx(float(profile_of(scenario).step_time_s), rel=1e-12)
    assert dual.memory_bytes["total"] == profile_of(scenario).memory_bytes["total"]


def test_its_timeline_ends_with_the_step():
    profile = step("dualpipe")
    spans = timeline(profile)
    assert max(span.end_s for span in spans) == pytest.approx(float(profile.step_time_s), rel=0.05)


def test_micro_batches_travel_hidden_between_experts():
    def travel(schedule: str) -> float:
        profile = profile_of(
            training(
                model="qwen3-30b-a3b",
                cluster="16x h100-sxm-80gb",
                sequence_length=4096,
                global_batch=64,
                plan={"pipeline_parallel": 2, "expert_parallel": 8, "micro_batch": 1, "schedule": schedule},
            )
        )
        return float(profile.phases["communication_exposed"] / profile.step_time_s)

    assert travel("dualpipe") < travel("1f1b")
