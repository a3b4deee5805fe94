"""A training step put together: pipelines, stages, hosts, and what happens once per step."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from training_scenarios import training

from sightline.prediction.training.constants import TrainingConstants, believed_constants
from sightline.prediction.training.priced import price
from sightline.prediction.training.stages import stage_contents
from sightline.prediction.training.step import step_times
from sightline.prediction.training.step_profile import profile_of
from sightline.profile import Profile
from sightline.scenario import Scenario


def gpt3(devices: int = 64, batch: int = 64, **plan: Any) -> Scenario:
    degrees = {"tensor_parallel": 8, "pipeline_parallel": 8} | plan
    return training(
        cluster=f"{devices}x a100-sxm-80gb",
        global_batch=batch,
        plan={"framework": "megatron", "framework_version": "2022", "micro_batch": 1, "attention": "eager", **degrees},
    )


def with_constants(scenario: Scenario, **changes: float) -> Profile:
    return profile_of(scenario, replace(believed_constants(scenario), **changes))


def test_equal_stages_idle_for_the_known_share_of_the_ideal_time():
    # Narayanan 2021 (arXiv 2104.04473), section 2.2: (p - 1) / m, here but for the ends' work and the messages.
    profile = with_constants(gpt3(), collective_slowdown=1e-9, synchronization_s=0.0)
    working = sum(profile.phases[p] for p in ("forward", "backward", "recompute", "communication_exposed"))
    assert profile.phases["pipeline_bubble"] / working == pytest.approx(7 / 64, rel=0.05)


def test_virtual_stages_divide_the_bubble_and_multiply_the_messages():
    plain, interleaved = (profile_of(gpt3(virtual_stages=v)) for v in (1, 3))
    assert interleaved.phases["pipeline_bubble"] < 0.45 * plain.phases["pipeline_bubble"]
    assert interleaved.phases["communication_exposed"] > plain.phases["communication_exposed"]
    assert interleaved.phases["forward"] == plain.phases["forward"]


def test_more_micro_batches_amortise_the_bubble():
    shares = [
        float(p.phases["pipeline_bubble"] / p.step_time_s) for p in (profile_of(gpt3(batch=b)) for b in (8, 64, 512))
    ]
    assert shares[0] > shares[1] > shares[2] > 0


def test_stages_share_the_layers_and_the_ends():
    for stages in (1, 2, 7, 8, 96):
        first, middle, last = stage_contents(gpt3(tensor_parallel=8, pipeline_parallel=stages, devices=8 * stages))
        layers = first.layers + max(0, stages - 2) * middle.layers + last.layers
        assert 96 <= layers <= 96 + max(0, stages - 3)
        assert (first.embedding, middle.embedding, last.embedding) == (1.0, 0.0, 0.0)
        assert first.head + last.head == 1.0


def test_the_slowest_stage_sets_the_pace():
    profile = profile_of(gpt3())
    slots = {stage: sum(times[:2]) for stage, times in profile.stage_times.items()}
    assert max(slots, key=slots.get) == "last"
    working = sum(profile.phases[p] for p in ("forward", "backward", "recompute"))
    assert working <= 64 * slots["last"]
    assert working > 64 * slots["middle"] * 0.8


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe", "interleaved", "zero-bubble"])
def test_data_and_loss_take_the_ends_of_a_pipeline_alone(schedule: str):
    # The middle stages have 10 layers and set the pace, the ends have 8, where one micro-batch waits while it fills.
    plan = {"pipeline_parallel": 10, "schedule": schedule, "virtual_stages": 2 if schedule == "interleaved" else 1}
    scenario = training(cluster="10x a100-sxm-80gb", global_batch=100, plan={"micro_batch": 1, **plan})
    fast, slow = (with_constants(scenario, micro_batch_s=seconds).step_time_s for seconds in (0.0, 1e-3))
    assert slow - fast == pytest.approx(2e-3 / scenario.plan.virtual_stages, rel=1e-6)


def test_a_slow_host_is_waited_for_and_a_fast_one_is_not():
    cluster = {"devices": "1x h100-sxm-80gb", "host": "epyc-7742"}
    scenario = training(model="gpt-125m", cluster=cluster, sequence_length=128, plan={"micro_batch": 1})

    def host_s(launch_time_s: float | None) -> float:
        host = replace(scenario.cluster.host, launch_time_s=launch_time_s)
        return float(profile_of(replace(scenario, cluster=replace(scenario.cluster, host=host))).phases["host"])

    fixed = believed_constants(scenario)
    assert host_s(0.0) == pytest.approx(fixed.micro_batch_s + fixed.step_s)
    assert host_s(1e-4) > 4 * host_s(0.0)
    assert host_s(2e-4) > host_s(1e-4)


def test_host_time_fills_a_step_that_is_all_launches():
    cluster = {"devices": "1x h100-sxm-80gb", "host": "epyc-7742"}
    scenario = training(model="gpt-125m", cluster=cluster, sequence_length=16, plan={"micro_batch": 1})
    host = replace(scenario.cluster.host, launch_time_s=1e-3)
    profile = profile_of(replace(scenario, cluster=replace(scenario.cluster, host=host)))
    assert profile.bottleneck == "host"
    blocks = price(scenario).program.blocks
    kernels = [
        sum(op.count * op.kernels for op in (*block.forward, *block.backward)) * count
        for block, count in zip(blocks, (1, 12, 1), strict=True)
    ]
    fixed = believed_constants(scenario)
    launches = profile.step_time_s - profile.phases["optimizer"] - fixed.micro_batch_s - fixed.step_s
    assert launches == pytest.approx(1e-3 * sum(kernels), rel=1e-9)


def test_sharded_optimizers_update_their_share():
    times = [profile_of(gpt3(devices=512, batch=512, zero_stage=z)).phases["optimizer"] for z in (0, 1)]
    assert times[1] == pytest.approx(times[0] / 8, rel=1e-12)


def test_a_tied_table_is_summed_once_per_step_between_the_ends():
    tied = training(
        model="gpt-125m", cluster="2x a100-sxm-80gb", global_batch=8, plan={"pipeline_parallel": 2, "micro_batch": 1}
    )
    own = replace(tied, model=replace(tied.model, tied_embeddings=False))
    more = profile_of(tied).phases["communication_exposed"] - profile_of(own).phases["communication_exposed"]
    assert more > 0
    longer = replace(tied, workload=replace(tied.workload, global_batch=16))
    longer_own = replace(own, workload=longer.workload)
    again = profile_of(longer).phases["communication_exposed"] - profile_of(longer_own).phases["communication_exposed"]
    assert again == pytest.approx(more, rel=1e-9)


def test_overlapping_frameworks_show_less_communication():
    shown = {
        version: profile_of(gpt3(framework_version=version)).phases["communication_exposed"]
        for version in ("2021", "core")
    }
    assert 0 < shown["core"] < shown["2021"]


def test_constants_scale_what_they_describe():
    base = with_constants(gpt3())
    slower = with_constants(gpt3(), matmul_slowdown=2.0, memory_fraction=0.1)
    assert slower.phases["forward"] > 1.5 * base.phases["forward"]
    # Waiting for the slowest device grows with the work, collectives do not.
    exposed = [
        profile.phases["communication_exposed"]
        - sum(row.time_s for row in profile.rows if row.operator == "waiting for the slowest device")
        for profile in (slower, base)
    ]
    assert exposed[0] == pytest.approx(exposed[1])
    later = with_constants(gpt3(), step_s=10.0)
    assert later.phases["host"] > 9.9
    assert later.phases["forward"] == base.phases["forward"]


def test_where_the_constants_come_from_is_said():
    scenario = gpt3()
    measured = replace(scenario, plan=replace(scenario.plan, dtype="fp16"))
    assert profile_of(measured).evidence["framework"] == "calibrated"
    constants: TrainingConstants = price(scenario).constants
    assert profile_of(scenario, constants).evidence["framework"] == "given"


def test_collectives_are_calibrated_inside_a_node_of_measured_links_only():
    def evidence(cluster: str, tensor_parallel: int) -> str:
        scenario = training(
            cluster=cluster,
            global_batch=8,
            plan={"framework": "megatron", "micro_batch": 1, "tensor_parallel": tensor_parallel},
        )
        return profile_of(scenario).evidence["collectives"]

    assert evidence("8x a100-sxm-80gb", 8) == "calibrated"
    assert evidence("16x a100-sxm-80gb", 8) == "extrapolated"
    assert evidence("8x h800-sxm-80gb", 8) == "extrapolated"


def test_an_uneven_number_of_layers_is_spread_as_published():
    # BLOOM: 70 layers on 12 stages are 5, 6, ..., 6, 5 (BigScience chronicles, tr11-176B).
    scenario = training(
        model="bloom-176b",
        cluster="48x a100-sxm-80gb",
        global_batch=48,
        plan={"framework": "megatron-deepspeed", "tensor_parallel": 4, "pipeline_parallel": 12, "micro_batch": 1},
    )
    first, middle, last = stage_contents(scenario)
    assert (first.layers, middle.layers, last.layers) == (5, 6, 5)
    assert np.isfinite(float(step_times(price(scenario)).step_time_s))


def test_zero_bubble_shortens_the_bubble_alone_and_holds_more_on_later_stages():
    plan = {"framework": "reference", "tensor_parallel": 1, "pipeline_parallel": 8, "micro_batch": 1}
    keys = {"model": "llama-2-7b", "cluster": "8x a100-sxm-80gb", "global_batch": 16, "sequence_length": 2048}
    plain, zero = (profile_of(training(**keys, plan=plan | {"schedule": s})) for s in ("1f1b", "zero-bubble"))
    assert zero.phases["pipeline_bubble"] < 0.75 * plain.phases["pipeline_bubble"]
    for phase in ("forward", "backward", "optimizer"):
        assert zero.phases[phase] == plain.phases[phase]
    held = [[float(s.parts["activations"]) for s in p.stages] for p in (plain, zero)]
    assert held[1][0] == held[0][0]
    assert held[1][1] > held[0][1]


def test_zero_bubble_on_one_stage_is_the_plain_step():
    keys = {"model": "llama-2-7b", "cluster": "8x a100-sxm-80gb", "global_batch": 16, "sequence_length": 2048}
    plan = {"framework": "reference", "zero_stage": 1, "micro_batch": 1}
    plain, zero = (profile_of(training(**keys, plan=plan | {"schedule": s})) for s in ("1f1b", "zero-bubble"))
    assert zero.step_time_s == plain.step_time_s


def test_overlap_of_tensor_parallelism_can_be_asked_for():
    own, none, backward, both = (
        profile_of(gpt3(pipeline_parallel=1, sequence_parallel=True, **plan)).step_time_s
        for plan in ({}, *({"tensor_overlap": word} for word in ("none", "backward", "all")))
    )
    assert both < backward == own == none


def test_what_no_flag_turns_off_runs_beside_the_backward_products():
    """Megatron-Core without any flag of overlap: its inputs' gathers and gradients' sums hide, its forward pass's do not."""
    plan = {
        "framework": "megatron",
        "framework_version": "core-serial",
        "tensor_parallel": 8,
        "sequence_parallel": True,
    }
    model, cluster = "llama-3-70b", "8x b200-sxm-180gb"

    def shown(**more: object) -> float:
        scenario = training(
            model=model, cluster=cluster, sequence_length=4096, global_batch=1, plan=plan | {"micro_batch": 1} | more
        )
        return float(profile_of(scenario).phases["communication_exposed"])

    assert shown(tensor_overlap="all") < shown() == shown(tensor_overlap="backward") == shown(tensor_overlap="none")
