"""What PyTorch's allocator reserves and a pipeline's stages hold, against sums on paper."""

from dataclasses import replace

import numpy as np
import pytest
from training_scenarios import training

from sightline.frameworks import PLAIN_ALLOCATION
from sightline.prediction.training.memory import RESERVED
from sightline.prediction.training.step_profile import profile_of
from sightline.profile import Profile, StageMemory
from sightline.validation.evaluation import quantity_of

TOKENS, WIDTH, LAYERS, RANKS = 4096, 4096, 32, 4


def ledger(devices: int = 8, batch: int = 16, *, plain: bool = False, **plan: object) -> Profile:
    scenario = training(
        model="llama-2-7b",
        cluster=f"{devices}x h100-sxm-80gb",
        sequence_length=TOKENS,
        global_batch=batch,
        plan={"framework": "torchtitan", "micro_batch": 1, "recompute": "full", "compile": True, **plan},
    )
    if plain:
        framework = replace(scenario.plan.framework, allocation=PLAIN_ALLOCATION)
        scenario = replace(scenario, plan=replace(scenario.plan, framework=framework))
    return profile_of(scenario)


def stages(profile: Profile) -> dict[str, StageMemory]:
    return {stage.stage: stage for stage in profile.stages}


def pipeline(**plan: object) -> Profile:
    return ledger(batch=8, pipeline_parallel=RANKS, data_parallel=2, zero_stage=2, **plan)


def test_an_allocator_without_habits_reserves_what_is_needed():
    profile = ledger(plain=True, zero_stage=3)
    assert stages(profile)["first"].items[RESERVED] == 0
    assert quantity_of("reserved_bytes", profile) == quantity_of("allocated_bytes", profile)


def test_gathered_units_and_gaps_beside_a_long_loss_are_reserved():
    profile = ledger(zero_stage=3, recompute="none")
    first = stages(profile)["first"]
    moments = first.moments
    assert moments["loss"] > moments["backward of a layer"]
    model = profile.scenario.model
    ends = model.embedding_parameters + model.head_parameters
    flat = 2 * max(2 * model.parameters_of(model.kinds[0]), ends)
    layer = first.items["recomputation working set"] + first.items["transient tensors"]
    assert layer > 0
    assert first.items[RESERVED] == pytest.approx(flat + layer)
    assert quantity_of("reserved_bytes", profile) == pytest.approx(
        quantity_of("allocated_bytes", profile) + flat + layer
    )


def test_a_whole_gradient_lies_beside_its_reduced_shard():
    once, each = (stages(ledger(zero_stage=z, pipeline_parallel=4, batch=8))["middle"] for z in (2, 3))
    reduced = 4 * once.parts["weights"] / 4
    assert once.items[RESERVED] - each.items[RESERVED] == pytest.approx(reduced)


def test_one_device_shares_nothing_out():
    assert stages(ledger(devices=1, batch=1, zero_stage=0))["first"].items[RESERVED] >= 0
    one = stages(ledger(devices=1, batch=1, zero_stage=3))["first"].items
    assert one[RESERVED] <= one["recomputation working set"] + one["transient tensors"]


def test_a_pipeline_holds_buffers_for_all_micro_batches_and_the_last_stage_their_logits():
    with_habit, without = stages(pipeline()), stages(pipeline(plain=True))
    m, piece = 8 / 2, 2 * TOKENS * WIDTH
    sent_on = {"first": 4, "middle": 3, "last": 0}
    received = {"first": m, "middle": m + (m - 3), "last": m - 1}
    logits = {"first": 0, "middle": 0, "last": m * 2 * TOKENS * 32000}
    for name in with_habit:
        more = (
            with_habit[name].items["embedding and head activations"]
            - without[name].items["embedding and head activations"]
        )
        assert more == pytest.approx((sent_on[name] + received[name]) * piece + logits[name])


def test_a_pipeline_of_one_stage_collects_nothing():
    habit, plain = (stages(ledger(zero_stage=3, plain=plain))["first"] for plain in (False, True))
    name = "embedding and head activations"
    assert habit.items[name] == plain.items[name]


def test_a_shared_out_vocabulary_has_a_loss_of_its_own():
    whole, split = (ledger(tensor_parallel=t, sequence_parallel=t > 1, framework_version="2024") for t in (1, 2))
    logits = TOKENS * 32000
    assert stages(whole)["first"].items["logits and loss"] == 12 * logits
    assert stages(split)["first"].items["logits and loss"] == 16 * logits / 2
    compiled = ledger(tensor_parallel=2, sequence_parallel=True)
    assert stages(compiled)["first"].items["logits and loss"] == 4 * logits / 2


def test_an_array_of_plans_reserves_what_each_does():
    degrees = np.array([1, 2, 4])
    scenario = ledger(zero_stage=2).scenario
    plan = replace(scenario.plan, pipeline_parallel=degrees, data_parallel=8 // degrees)
    many = stages(profile_of(replace(scenario, plan=plan)))
    for i, p in enumerate(degrees):
        one = stages(ledger(pipeline_parallel=int(p), data_parallel=int(8 // p), zero_stage=2))
        for name, stage in one.items():
            for item in (RESERVED, "embedding and head activations"):
                assert np.broadcast_to(many[name].items[item], 3)[i] == pytest.approx(stage.items[item])
