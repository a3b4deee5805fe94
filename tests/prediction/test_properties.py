"""What holds for every prediction: parts sum, no number is impossible, more work is not faster, nothing costs nothing."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import laws
import numpy as np
import pytest
import strategies
from generation_scenarios import generation
from hypothesis import HealthCheck, assume, given, settings
from training_scenarios import training

from sightline.prediction.training.step_profile import profile_of
from sightline.profile import BOUNDS, MEMORY_PARTS, REFERENCE, TRAINING, Profile
from sightline.scenario import Scenario

ROUNDING = 1e-12
DRAFTS = {"tokens": 3, "acceptance": 0.7}


def planned(scenario: Scenario, **changes: Any) -> Scenario:
    return replace(scenario, plan=replace(scenario.plan, **changes))


def numbers(profile: Profile) -> dict[str, Any]:
    """Every number of a profile by its place."""
    found: dict[str, Any] = {
        name: getattr(profile, name)
        for name in ("step_time_s", "model_flops", "hardware_flops", "energy_per_step_j", "tokens_per_s", "mfu", "hfu")
    }
    for group in ("phases", "memory_bytes", "limits"):
        found |= {f"{group}.{k}": v for k, v in getattr(profile, group).items()}
    for stage in profile.stages:
        found |= {f"{stage.stage}.{k}": v for k, v in (*stage.parts.items(), *stage.items.items())}
    for stage_name, (forward, backward, _) in profile.stage_times.items():
        found |= {f"{stage_name}.forward_s": forward, f"{stage_name}.backward_s": backward}
    for row in profile.rows:
        place = f"{row.phase}/{row.block}/{row.module}/{row.operator}/{row.bound}"
        found |= {
            f"{place}.{k}": getattr(row, k) for k in ("count", "flops", "bytes", "network_bytes", "time_s", "exposed_s")
        }
    return found


@given(strategies.trainings())
def test_parts_sum_to_the_whole(scenario):
    profile = profile_of(scenario)
    step_s = pytest.approx(float(profile.step_time_s), rel=ROUNDING)
    assert list(profile.phases) == [phase for phase in TRAINING.phases if phase != REFERENCE]
    assert sum(profile.phases.values()) == step_s
    assert list(profile.limits) == list(BOUNDS)
    assert sum(profile.limits.values()) == pytest.approx(float(profile.step_time_s), rel=1e-9)
    assert list(profile.memory_bytes) == [*MEMORY_PARTS, "total"]
    total = profile.memory_bytes["total"]
    assert sum(profile.memory_bytes[p] for p in MEMORY_PARTS) == pytest.approx(float(total), rel=ROUNDING)
    assert total == max(stage.total for stage in profile.stages)
    assert bool(profile.fits) == bool(total <= scenario.cluster.device.memory_bytes)


@given(strategies.trainings())
def test_no_number_is_negative_or_missing(scenario):
    profile = profile_of(scenario)
    wrong = {k: v for k, v in numbers(profile).items() if not (np.isfinite(v) and v >= 0)}
    assert not wrong
    assert profile.step_time_s > 0
    assert profile.rows
    assert profile.stages


@given(strategies.trainings())
def test_no_step_is_faster_than_its_flops_at_the_peak(scenario):
    profile, model, workload = profile_of(scenario), scenario.model, scenario.workload
    flops = profile.hardware_flops
    if scenario.plan.attention == "flash":
        # Flash kernels skip what the causal mask hides, which the count of FLOPs does not: the forward pass's two and
        # the backward pass's five products, and the forward pass's again where it is recomputed.
        products = 7 if scenario.plan.recompute == "none" else 9
        s = workload.sequence_length
        hidden = 1 - (s + 1) / (2 * s)
        flops = (
            flops - hidden * products * 2 * workload.global_batch * s**2 * model.own_heads.query_width * model.layers
        )
    assert profile.step_time_s >= flops / (scenario.cluster.devices * profile.peak_flops)


@given(strategies.trainings())
def test_no_operator_is_faster_than_its_flops_or_bytes(scenario):
    device = scenario.cluster.device
    causal = 2 if scenario.plan.attention == "flash" else 1
    for row in profile_of(scenario).rows:
        peak = device.peak_flops[scenario.plan.dtype] * (causal if row.module == "attention core" else 1)
        assert row.time_s >= row.flops / peak * (1 - ROUNDING)


@given(strategies.trainings())
def test_the_rows_of_a_phase_are_its_time(scenario):
    profile = profile_of(scenario)
    rows = profile.rows
    assert {
        phase: sum(row.exposed_s for row in rows if row.phase == phase) for phase in profile.phases
    } == pytest.approx(profile.phases, rel=1e-9)
    assert all(row.exposed_s <= row.time_s * (1 + ROUNDING) for row in profile.rows if row.phase != "optimizer")


@given(strategies.trainings())
def test_what_bounds_an_operator_is_the_longer_leg_of_its_roofline(scenario):
    profile, device = profile_of(scenario), scenario.cluster.device
    for row in profile.rows:
        # Kernels that work in chunks execute more than their operators' FLOPs.
        if row.flops > 0 and row.operator.removesuffix(" gradient") not in ("flash attention", "gated delta", "scan"):
            compute_s, memory_s = row.flops / profile.peak_flops, row.bytes / device.memory_bandwidth
            if abs(compute_s - memory_s) > 1e-9 * compute_s:
                assert row.bound == ("compute" if compute_s > memory_s else "memory"), row
    bound_s = {b: sum(row.time_s for row in profile.rows if row.bound == b) for b in ("compute", "memory")}
    for bound, seconds in bound_s.items():
        assert profile.limits[bound] == pytest.approx(seconds, rel=1e-9, abs=1e-15)


@given(strategies.trainings())
def test_twice_the_batch_is_never_faster_and_never_less_efficient(scenario):
    workload = replace(scenario.workload, global_batch=2 * scenario.workload.global_batch)
    once, twice = profile_of(scenario), profile_of(replace(scenario, workload=workload))
    assert twice.step_time_s > once.step_time_s
    assert twice.tokens_per_s >= once.tokens_per_s * (1 - ROUNDING)
    assert twice.model_flops == 2 * once.model_flops


def pace_setter(profile):
    """The stage that takes longest for a micro-batch."""
    return max(profile.stage_times, key=lambda stage: sum(profile.stage_times[stage][:2]))


@given(strategies.trainings())
def test_recomputation_saves_memory_and_costs_time(scenario):
    none, selective, full = (profile_of(planned(scenario, recompute=k)) for k in ("none", "selective", "full"))
    assert none.phases["recompute"] == 0
    assert none.model_flops == selective.model_flops == full.model_flops
    # Flash recomputes inside, and padding and replicated heads are executed; small vectors inside a mixer count as weights.
    # The model's are counted without the causal mask, which attention to selected tokens and windows, whose first
    # tokens see fewer, leave out when they are executed.
    masked = any(kind.mixer in ("sparse", "compressed", "sliding") for kind in scenario.model.kinds)
    assert none.hardware_flops >= none.model_flops * (1 - 1e-3) or masked
    for kind in (selective, full):
        # The stage that sets the pace may hold the head and no layer; then recomputation only lengthens the bubble.
        assert kind.phases["recompute"] >= 0
        # Another stage that sets the pace may exchange less with its replicas, whose traffic counts on that stage alone.
        # A longer group of interleaved passes may hide a little more of the replicas' traffic than it adds.
        assert kind.step_time_s > (1 - 1e-4) * none.step_time_s or pace_setter(kind) != pace_setter(none)
        assert kind.memory_bytes["total"] <= none.memory_bytes["total"] * (1 + ROUNDING)
        assert kind.hardware_flops > none.hardware_flops


def copies_weights_to_share_them(scenario):
    """Whether ZeRO adds a copy of weights that are fp32 themselves."""
    return scenario.plan.framework.zero_engine.copies_full_precision and scenario.plan.dtype in ("fp32", "tf32")


def sums_gradients_in_fp32(scenario):
    """Whether bf16 without ZeRO has an optimizer of its own."""
    return scenario.plan.framework.zero_engine.bf16_optimizer and scenario.plan.dtype == "bf16"


@given(strategies.trainings(data_parallel=1, tensor_parallel=1))
def test_one_replica_exchanges_nothing_and_shares_nothing(scenario):
    assume(not copies_weights_to_share_them(scenario))
    # Hooks of ZeRO run on one device too.
    assume(not scenario.plan.framework.zero_engine.hooks)
    stages = [numbers(profile_of(planned(scenario, zero_stage=stage))) for stage in (0, 1, 2, 3)]
    assert stages[1] == stages[2] == stages[3]
    # Without ZeRO DeepSpeed sums 16-bit gradients in fp32, whoever else there is.
    assert stages[0] == stages[1] or sums_gradients_in_fp32(scenario)
    assert not [place for place in stages[0] if "data parallel" in place]


@given(strategies.trainings(data_parallel=1, tensor_parallel=1, pipeline_parallel=1))
def test_one_device_talks_to_nobody(scenario):
    profile = profile_of(scenario)
    assert profile.phases["communication_exposed"] == 0
    assert profile.limits["network"] == 0
    assert sum(row.network_bytes for row in profile.rows) == 0


@given(strategies.trainings(pipeline_parallel=1))
def test_one_stage_has_no_bubble(scenario):
    profile = profile_of(scenario)
    assert profile.phases["pipeline_bubble"] == 0
    assert [stage.stage for stage in profile.stages] == ["first"]
    gpipe = profile_of(planned(scenario, schedule="gpipe"))
    assert gpipe.step_time_s == profile.step_time_s


@given(strategies.trainings(tensor_parallel=1))
def test_sequence_parallelism_needs_a_tensor_parallel_group(scenario):
    off, on = (numbers(profile_of(planned(scenario, sequence_parallel=x))) for x in (False, True))
    assert off == on


@given(strategies.trainings())
def test_every_zero_stage_holds_no_more_than_the_one_before(scenario):
    assume(not copies_weights_to_share_them(scenario))
    # An update copies the gradients of a rank, which are all of them where nothing is shared.
    assume(scenario.plan.data_parallel > 1 or not scenario.plan.framework.zero_engine.flattens_gradients)
    stages = [profile_of(planned(scenario, zero_stage=stage)) for stage in (0, 1, 2, 3)]
    for before, after in pairwise(stages):
        for stage, next_stage in zip(before.stages, after.stages, strict=True):
            gathered = next_stage.items["gathered parameters"]
            assert next_stage.total - gathered <= stage.total
    if scenario.plan.data_parallel > 1:
        states = ("optimizer", "gradients", "weights")
        for part, (before, after) in zip(states, pairwise(stages), strict=True):
            # FSDP shards the weights from stage 2 on; the others from stage 3.
            framework = scenario.plan.framework
            early = part == "weights" and framework.sharding.regathers_every_micro_batch
            # Gradients that are reduced once per step stay whole until then; freed ones are not there at every peak.
            there = framework.sharding.reduces_every_micro_batch and not framework.allocation.frees_gradients
            late = part == "gradients" and not there
            # DeepSpeed's bf16 optimizer shards its states without ZeRO already.
            sharded = part == "optimizer" and sums_gradients_in_fp32(scenario)
            assert after.memory_bytes[part] < before.memory_bytes[part] or early or late or sharded


PATIENT = settings(suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])


@settings(PATIENT, max_examples=25, derandomize=True)
@given(strategies.questions())
def test_laws_hold(question):
    assert not laws.broken(question)


@pytest.mark.slow
@settings(PATIENT, max_examples=1000)
@given(strategies.questions())
def test_laws_hold_for_a_thousand_questions(question):
    assert not laws.broken(question)


@pytest.mark.parametrize("expert_parallel", [1, 2, 8])
def test_communication_travels_on_while_a_device_waits_for_its_host(expert_parallel):
    """Shared experts hide what tensor-parallel ranks exchange, and shorten the wait for the launches of the others."""
    plan = {"framework": "megatron", "tensor_parallel": 8, "micro_batch": 1, "dtype": "fp16", "tensor_overlap": "all"}
    plan |= {"sequence_parallel": True, "zero_stage": 3, "expert_parallel": expert_parallel}
    asked = {"model": "gemma-4-26b-a4b", "cluster": "8x mi250x", "sequence_length": 2048, "global_batch": 7}
    scenario = training(**asked, plan=plan)
    assert profile_of(scenario).phases["host"] > 0.0
    assert not laws.broken(scenario)


@pytest.mark.parametrize(
    ("model", "cluster", "plan"),
    [
        ("mpt-125m", "4x a100-pcie-80gb", {"framework": "torchtitan", "schedule": "zero-bubble", "dtype": "fp32"}),
        (
            "deepseek-v2-lite",
            "16x apple-m3-max-40core-64gb",
            {"framework": "megatron", "tensor_overlap": "all", "expert_overlap": True, "expert_parallel": 4},
        ),
    ],
)
def test_work_that_hides_or_fills_is_counted_once(model, cluster, plan):
    """Weight gradients fill no gap that launches make; work that hides one transfer hides no other meanwhile."""
    degrees = {
        "pipeline_parallel": 4,
        "tensor_parallel": 4 if "expert_overlap" in plan else 1,
        "recompute": "full",
        "micro_batch": 1,
    }
    scenario = training(model=model, cluster=cluster, sequence_length=16, global_batch=28, plan=plan | degrees)
    profile = profile_of(scenario)
    assert sum(profile.limits.values()) == pytest.approx(float(profile.step_time_s), rel=1e-9)
    assert not laws.broken(scenario)


def test_messages_hide_behind_passes_that_gathers_lengthen():
    """Chunks that wait for their gathered parameters give the messages between stages as much time."""
    plan = {"framework": "reference", "dtype": "fp32", "zero_stage": 3, "pipeline_parallel": 4, "micro_batch": 1}
    plan |= {"schedule": "interleaved", "virtual_stages": 2, "recompute": "none"}
    asked = {"model": "smollm-1.7b", "cluster": "32x rtx-3080", "sequence_length": 127, "global_batch": 128}
    assert not laws.broken(training(**asked, plan=plan))


def test_more_flops_alone_make_no_matrix_unit():
    plan = {"framework": "llama.cpp", "speculative": DRAFTS, "quantization": "q4_0"}
    for engine in (plan, {"disaggregate": {"prefill": {}, "decode": {}}}):
        cluster = f"{1 + ('disaggregate' in engine)}x apple-m2-10core-16gb"
        question = generation(cluster=cluster, batch=33, prompt_tokens=333, continuous=True, plan=engine)
        assert not laws.broken(question)


@pytest.mark.parametrize(
    ("model", "cluster", "batch", "plan"),
    [
        ("llama-2-70b", "4x h800-sxm-80gb", 200, {"framework": "tensorrt-llm", "speculative": DRAFTS}),
        ("mixtral-8x22b", "2x mi210", 200, {"framework": "vllm", "speculative": DRAFTS}),
        ("qwen3-32b", "8x apple-m1-max-32core-64gb", 400, {"framework": "tensorrt-llm"}),
    ],
)
def test_a_step_that_takes_a_prompt_along_pays_for_the_tokens_of_both(model, cluster, batch, plan):
    """A doubled batch in a steady loop is not faster, though twice as many of its steps share a prefill's pass."""
    degrees = {"tensor_parallel": int(cluster.split("x")[0])}
    work = {"batch": batch, "prompt_tokens": 16, "output_tokens": 1000, "continuous": True}
    assert not laws.broken(generation(model=model, cluster=cluster, plan=plan | degrees, **work))
